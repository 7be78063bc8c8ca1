"""A GPT-2 regressor as a `core.predictors.Predictor`, and a look at its attention."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from core.prompts import Prompts
from models.forward import predict
from models.gpt2_regressor import GPT2Regressor
from models.keys_values import Model, layer_states

# Tokens in one pass: activations stay in the processor's cache, and those who wait for the gate
# wait a tenth of a second.
TOKENS_PER_PASS = 2048


@dataclass(frozen=True)
class TransformerPredictor:
    """`preds[:, i]` is the model's answer to `queries[:, i]` after the first i pairs, in float32.

    All lengths come from one causal pass when `prompts.queries is prompts.xs`, otherwise from one
    masked pass; ValueError if one is not finite. Prompts go through in chunks; each chunk runs
    inside `gate()`, for example a semaphore that keeps a server's passes from piling up.
    """

    model: Model
    name: str = "GPT-2"
    gate: Callable[[], AbstractContextManager] = nullcontext

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        check_prompts(self.model, prompts)
        asked_elsewhere = prompts.queries is not prompts.xs
        per_prompt = (3 if asked_elsewhere else 2) * prompts.n_points
        device = next(self.model.parameters()).device
        answer: Callable[..., Tensor] = self.model
        if isinstance(self.model, GPT2Regressor):
            answer = partial(predict, self.model)
        preds = []
        size = max(1, TOKENS_PER_PASS // per_prompt)
        for begin in range(0, prompts.n_prompts, size):
            chunk = slice(begin, begin + size)
            xs, ys = (t[chunk].to(device, torch.float32) for t in (prompts.xs, prompts.ys))
            queries = prompts.queries[chunk].to(device, torch.float32) if asked_elsewhere else None
            with self.gate(), torch.inference_mode():
                preds.append(answer(xs, ys, queries).to(prompts.xs.device))
        answers = torch.cat(preds)
        if not answers.isfinite().all():  # no measure can be taken of them
            raise ValueError(
                f"{int((~answers.isfinite()).sum())} of {answers.numel()} answers of {self.name} to "
                "these prompts are not finite numbers; choose another checkpoint, or prompts nearer "
                "to its training law"
            )
        return answers


def check_prompts(model: Model, prompts: Prompts) -> None:
    """ValueError if prompts do not fit the checkpoint: other dimensions, or longer than its
    positions."""
    config = model.config
    if prompts.n_dims != config.n_dims:
        raise ValueError(
            f"this checkpoint reads inputs of {config.n_dims} dimensions, the prompts have "
            f"{prompts.n_dims}; set n_dims to {config.n_dims} or choose another checkpoint"
        )
    if prompts.n_points - 1 > config.max_examples:
        raise ValueError(
            f"at most {config.max_examples} in-context examples fit into the positions of this "
            f"checkpoint, got {prompts.n_points - 1}; shorten the prompts"
        )


@dataclass(frozen=True)
class AttentionReadout:
    """What the query of one prompt looks at. `weights[l, h].sum() + itself[l, h] == 1`.

    `k` tokens make a pair: 2 in GPT-2 (x, then y), 1 in a `OneLayerAttention`.
    """

    weights: Float[Tensor, "L H n k"]  # softmax weight on each token of each example
    itself: Float[Tensor, "L H"]  # on the query's own token; 0 in a `OneLayerAttention`
    prediction: Float[Tensor, ""]  # the answer, in the units of y


@torch.inference_mode()
def attention(
    model: Model, prompts: Prompts, prompt: int = 0, length: int | None = None
) -> AttentionReadout:
    """Attention from `queries[prompt, length]` to the first `length` pairs, per layer and head.

    `length` (at least 1) defaults to all pairs before the last position. Equals the last row of
    Hugging Face's eager `output_attentions`. `models.keys_values` has the vectors behind it.
    """
    check_prompts(model, prompts)
    length = prompts.n_points - 1 if length is None else length
    if not 0 <= prompt < prompts.n_prompts:
        raise ValueError(f"prompt: expected 0..{prompts.n_prompts - 1}, got {prompt}")
    if not 1 <= length < prompts.n_points:
        raise ValueError(f"length: expected 1..{prompts.n_points - 1} pairs, got {length}")
    like = next(model.parameters())
    xs, ys, query = (
        part[None].to(like.device, like.dtype)
        for part in (
            prompts.xs[prompt, :length],
            prompts.ys[prompt, :length],
            prompts.queries[prompt, length : length + 1],
        )
    )
    states = layer_states(model, xs, ys, query)
    keys, asked = states.keys[0], states.queries[0]  # (L, H, T, d), (L, H, 1, d)
    if states.own_keys is not None:
        keys = torch.cat((keys, states.own_keys[0]), dim=2)
    weights = (states.beta * asked @ keys.mT).softmax(dim=-1)[:, :, 0]  # (L, H, T or T + 1)
    itself = torch.zeros_like(weights[..., 0])
    if states.own_keys is not None:
        weights, itself = weights[..., :-1], weights[..., -1]
    return AttentionReadout(
        weights=weights.unflatten(-1, (length, -1)),
        itself=itself,
        prediction=states.predictions[0, 0],
    )
