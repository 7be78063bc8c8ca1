"""Reshaped ghosts inside a model: every layer judged alone, and all layers at once.

`reshape_ghosts` takes a prompt and as many ghosts, reads keys and values of both out of the model,
forms W1 and W2 for every layer and head, and compares (i) each layer's attention output with the
true one (`core.ghosts.reshaped_attention`) and (ii) the answers of the model when every layer
retrieves from its reshaped ghosts instead of the prompt. Ours: the paper leaves this check to
future work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from core.ghosts import ReshapedAttention, reshaped_attention
from models.keys_values import Model, answer_from, ask, layer_states


@dataclass(frozen=True)
class ReshapedModel:
    """One prompt of t pairs, t ghosts, Q queries. Answers in the units of y."""

    layers: ReshapedAttention  # leading axes (layer, head)
    prompt: Float[np.ndarray, " Q"]  # answers after the true prompt
    reshaped: Float[np.ndarray, " Q"]  # answers where every layer holds W1 K~, W2 V~
    ghosts: Float[np.ndarray, " Q"]  # answers after the ghosts as they are
    alone: Float[np.ndarray, " Q"]  # answers without examples, which the ghosts were tuned to give
    targets: Float[np.ndarray, " Q"] | None

    @property
    def error(self) -> float:
        """Root mean square of reshaped - prompt over that of the prompt's answers."""
        return _relative(self.reshaped, self.prompt)

    @property
    def error_ghosts(self) -> float:
        """The same for the ghosts as they are: what reshaping starts from."""
        return _relative(self.ghosts, self.prompt)


def _relative(found: np.ndarray, true: np.ndarray) -> float:
    size = float(np.sqrt(np.mean(true**2)))
    return float(np.sqrt(np.mean((found - true) ** 2))) / size if size else float("nan")


@torch.no_grad()
def reshape_ghosts(
    model: Model,
    xs: Float[Tensor, "t D"],
    ys: Float[Tensor, " t"],
    ghost_xs: Float[Tensor, "t D"],
    ghost_ys: Float[Tensor, " t"],
    queries: Float[Tensor, "Q D"],
    targets: Float[Tensor, " Q"] | None = None,
    ridge: float = 0.0,
    tolerance: float | None = None,
    across_heads: bool = False,
) -> ReshapedModel:
    """Both checks. Raises ValueError if the prompt and the ghosts differ in length."""
    if xs.shape != ghost_xs.shape:
        raise ValueError(
            f"expected as many ghosts as examples, got {len(ghost_xs)} and {len(xs)}; construct "
            f"{len(xs)} ghosts or take a prompt of {len(ghost_xs)} examples"
        )
    dtype = next(model.parameters()).dtype
    xs, ys, ghost_xs, ghost_ys, queries = (
        t.to(dtype)[None] for t in (xs, ys, ghost_xs, ghost_ys, queries)
    )
    true = layer_states(model, xs, ys, queries)
    ghost = layer_states(model, ghost_xs, ghost_ys, queries)
    layers = reshaped_attention(
        ghost.keys[0],
        ghost.values[0],
        true.keys[0],
        true.values[0],
        true.queries[0],
        true.beta,
        None if true.own_keys is None else true.own_keys[0],
        None if true.own_values is None else true.own_values[0],
        ridge,
        tolerance,
        across_heads,
    )
    reshaped = answer_from(model, layers.keys.to(dtype), layers.values.to(dtype), queries[0])
    return ReshapedModel(
        layers=layers,
        prompt=true.predictions[0].double().numpy(),
        reshaped=reshaped.double().numpy(),
        ghosts=ghost.predictions[0].double().numpy(),
        alone=ask(model, xs[:, :0], ys[:, :0], queries)[0].double().numpy(),
        targets=None if targets is None else targets.double().numpy(),
    )
