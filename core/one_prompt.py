"""One prompt looked at closely: where its points lie, what is answered, which example hurts."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from core.predictors import Predictor, influence
from core.prompts import Prompts

__all__ = ["OnePrompt", "look_closely"]


@dataclass(frozen=True)
class OnePrompt:
    """The query of one prompt after its first n pairs, and those pairs, in one plane.

    The plane is (`along`, label). A linear task is known by one direction beta, so `along` is the
    input's coordinate in that direction and the clean labels lie on the line `slope * along`. Any
    other task has no such direction; there `along` is the distance to the query, `slope` is None.
    """

    axis: str  # "task direction" or "distance to the query"
    slope: float | None  # |beta|
    along: Float[np.ndarray, " n"]
    query_along: float
    shown: Float[np.ndarray, " n"]  # labels as the learner sees them
    clean: Float[np.ndarray, " n"]
    corrupted: Bool[np.ndarray, " n"]
    target: float  # the query's true label
    predictions: Mapping[str, float]
    influence: Mapping[str, Float[np.ndarray, " n"]]  # prediction minus prediction without pair j
    harm: Mapping[str, Float[np.ndarray, " n"]]  # |error| minus |error without pair j|

    @property
    def n_pairs(self) -> int:
        return len(self.shown)

    def worst(self, name: str) -> tuple[int, float]:
        """The pair (counted from 0) without which the error would be smallest, and by how much.

        The amount is negative when every pair helps.
        """
        j = int(np.argmax(self.harm[name]))
        return j, float(self.harm[name][j])


def look_closely(
    predictors: Mapping[str, Predictor], prompts: Prompts, prompt: int, n_pairs: int
) -> OnePrompt:
    """Ask the predictors for `queries[prompt, n_pairs]`, with all pairs and with each left out.

    Raises ValueError if the prompt or the length is not there.
    """
    if not 0 <= prompt < prompts.n_prompts:
        raise ValueError(
            f"prompt: expected 1 to {prompts.n_prompts}, got {prompt + 1}. Choose another prompt "
            "or draw more of them."
        )
    if not 1 <= n_pairs < prompts.n_points:
        raise ValueError(
            f"n examples: expected 1 to {prompts.n_points - 1}, got {n_pairs}. Draw longer prompts "
            "or look earlier."
        )
    one = prompts.take(slice(prompt, prompt + 1)).first(n_pairs + 1)
    xs, query = one.xs[0, :n_pairs].double(), one.queries[0, n_pairs].double()
    slope = None
    if one.task_weights is not None:
        beta = one.task_weights[0].double()
        slope = float(beta.norm())
        unit = beta / beta.norm().clamp_min(torch.finfo(torch.float64).tiny)
        along, query_along = xs @ unit, float(query @ unit)
        axis = "task direction"
    else:
        along, query_along = (xs - query).norm(dim=1), 0.0
        axis = "distance to the query"

    target = float(one.targets[0, n_pairs])
    predictions, moved, harm = {}, {}, {}
    for name, predictor in predictors.items():
        prediction = float(predictor(one)[0, n_pairs])
        moves = influence(predictor, one, n_pairs)[0].double().cpu()
        predictions[name] = prediction
        moved[name] = moves.numpy()
        harm[name] = (abs(prediction - target) - (prediction - moves - target).abs()).numpy()
    clean = one.ys if one.clean_ys is None else one.clean_ys
    none = torch.zeros_like(one.ys, dtype=torch.bool)
    return OnePrompt(
        axis=axis,
        slope=slope,
        along=along.numpy(),
        query_along=query_along,
        shown=_row(one.ys, n_pairs),
        clean=_row(clean, n_pairs),
        corrupted=(none if one.corrupted is None else one.corrupted)[0, :n_pairs].numpy(),
        target=target,
        predictions=predictions,
        influence=moved,
        harm=harm,
    )


def _row(labels: Float[Tensor, "1 P"], n: int) -> Float[np.ndarray, " n"]:
    return labels[0, :n].double().numpy()
