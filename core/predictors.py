"""Predictors that answer an in-context prompt at every length in one pass.

A transformer and every baseline share one call: `predictor(prompts) -> preds (B, P)` where
`preds[:, i]` has seen the pairs before `i` and `queries[:, i]`, nothing else. Plots do not care
which is which. The baselines compute in float64 whatever the prompts' dtype, on their device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from core.prompts import PromptLaw, Prompts, label_noise_variance

__all__ = [
    "BASELINES",
    "Averaging",
    "DecisionTree",
    "GradientBoosting",
    "LeastSquares",
    "NearestNeighbours",
    "Predictor",
    "Ridge",
    "baselines_for",
    "influence",
]


@runtime_checkable
class Predictor(Protocol):
    """Anything that answers prompts. A position it does not compute is NaN."""

    @property
    def name(self) -> str: ...

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]: ...


@dataclass(frozen=True)
class LeastSquares:
    """Minimum-norm least squares of the pairs seen so far.

    Equals `numpy.linalg.lstsq(xs[:i], ys[:i])` at every i, also while i < D and for inputs that
    span a subspace only. One recursion over positions, all prompts at once:

    - `x` outside the span of the inputs so far: Greville's update. With `u` the part of x
      orthogonal to the span (Gram-Schmidt, done twice) the weights move by `(y - w.x) u/|u|^2`.
    - `x` inside: recursive least squares. The pseudo-inverse of the Gram matrix is kept as a
      square root `S S^T` (Potter), which halves the digits that rounding costs.
    """

    name: str = "least squares"

    def weights(self, prompts: Prompts) -> Float[Tensor, "B P D"]:
        """`[:, i]` are the weights after i pairs."""
        xs, ys = prompts.xs.double(), prompts.ys.double()
        n_prompts, n_points, n_dims = xs.shape
        # below this share of its length, what is left of x is rounding of the inputs' own dtype
        tolerance = 50 * n_dims * torch.finfo(prompts.xs.dtype).eps
        outside = xs.square().sum(2) * tolerance**2  # (B, P)

        w = xs.new_zeros(n_prompts, n_dims, 1)
        root = xs.new_zeros(n_prompts, n_dims, n_dims)  # S, one more column per new direction
        basis = xs.new_zeros(n_prompts, n_dims, n_dims)  # orthonormal columns of the span
        rank = torch.zeros(n_prompts, dtype=torch.int64, device=xs.device)
        slots = torch.arange(n_dims, device=xs.device)
        result = xs.new_zeros(n_prompts, n_points, n_dims)
        for i in range(n_points - 1):
            x = xs[:, i].unsqueeze(2)  # (B, D, 1)
            miss = ys[:, i].view(-1, 1, 1) - w.mT @ x
            f = root.mT @ x
            alpha = 1 + (f * f).sum(1, keepdim=True)
            inside_gain = root @ f
            inside_step = inside_gain / (alpha + alpha.sqrt())
            if bool((rank < n_dims).any()):
                u = x - basis @ (basis.mT @ x)
                u = u - basis @ (basis.mT @ u)
                length2 = (u * u).sum(1, keepdim=True)
                is_new = (length2 > outside[:, i].view(-1, 1, 1)) & (rank < n_dims).view(-1, 1, 1)
                v = torch.where(is_new, u / length2, 0.0)
                w = w + torch.where(is_new, v, inside_gain / alpha) * miss
                root = root - torch.where(is_new, v, inside_step) * f.mT
                slot = (slots == rank.unsqueeze(1)).unsqueeze(1)  # (B, 1, D)
                root = root + v * slot
                basis = basis + torch.where(is_new, u / length2.sqrt(), 0.0) * slot
                rank = rank + is_new.flatten()
            else:
                w = w + inside_gain / alpha * miss
                root = root - inside_step * f.mT
            result[:, i + 1] = w.squeeze(2)
        return result

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        return (self.weights(prompts) * prompts.queries.double()).sum(2)


@dataclass(frozen=True)
class Ridge:
    """Ridge without intercept; Bayesian model averaging when the penalty is sigma^2/lambda.

    Equals `sklearn.linear_model.Ridge(penalty, fit_intercept=False)` at every prefix, and least
    squares at penalty 0. All prefixes come from one Cholesky factor: with
    `L L^T = X X^T + penalty I` the leading block of L belongs to the prefix, so that with
    `c = L^-1 y` the prediction of `y_i` from the pairs before i is `y_i - L_ii c_i`.
    """

    penalty: float
    name: str = "ridge"

    def __post_init__(self) -> None:
        if not 0 <= self.penalty < float("inf"):
            raise ValueError(
                f"penalty: expected a finite number >= 0 (sigma^2/lambda), got {self.penalty}."
            )

    @staticmethod
    def for_law(law: PromptLaw) -> "Ridge":
        """The ridge at the true noise: noise variance over the prior variance of a weight."""
        prior = law.sparsity / law.n_dims if law.task == "sparse linear" else 1.0
        return Ridge(label_noise_variance(law) / prior)

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        if self.penalty == 0:
            return LeastSquares()(prompts)
        xs, ys = prompts.xs.double(), prompts.ys.double()
        gram = xs @ xs.mT
        gram.diagonal(dim1=1, dim2=2).add_(self.penalty)
        lower = torch.linalg.cholesky(gram)
        c = torch.linalg.solve_triangular(lower, ys.unsqueeze(2), upper=False)
        if prompts.queries is prompts.xs:
            seen = torch.tril(lower, -1)
        else:
            cross = xs @ prompts.queries.double().mT
            seen = torch.tril(torch.linalg.solve_triangular(lower, cross, upper=False).mT, -1)
        return (seen @ c).squeeze(2)


@dataclass(frozen=True)
class Averaging:
    """`w = mean of x y`, one step of gradient descent from zero; 0 without pairs (Garg et al.)."""

    name: str = "averaging"

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        xs, ys = prompts.xs.double(), prompts.ys.double()
        total = (xs * ys.unsqueeze(2)).cumsum(1).roll(1, 1)
        total[:, 0] = 0
        n_pairs = torch.arange(xs.shape[1], device=xs.device).clamp_min(1)
        return (total * prompts.queries.double()).sum(2) / n_pairs


@dataclass(frozen=True)
class NearestNeighbours:
    """Mean label of the k nearest inputs seen so far (all of them while fewer than k); 0 without.

    Equals `sklearn.neighbors.KNeighborsRegressor(min(k, i))` wherever distances do not tie.
    """

    k: int = 3
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise ValueError(f"k: expected a whole number of neighbours >= 1, got {self.k!r}.")
        if not self.name:
            object.__setattr__(self, "name", f"{self.k} nearest neighbours")

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        xs, ys, queries = prompts.xs.double(), prompts.ys.double(), prompts.queries.double()
        n_points = xs.shape[1]
        distance = torch.cdist(queries, xs, compute_mode="donot_use_mm_for_euclid_dist")
        later = torch.ones(n_points, n_points, dtype=torch.bool, device=xs.device).triu()
        distance = distance.masked_fill(later, float("inf"))
        near, index = distance.topk(min(self.k, n_points), dim=2, largest=False)
        found = near.isfinite()
        labels = ys.unsqueeze(1).expand(-1, n_points, -1).gather(2, index)
        return (labels * found).sum(2) / found.sum(2).clamp_min(1)


def _fit_at_lengths(
    prompts: Prompts, lengths: tuple[int, ...] | None, make: Callable
) -> Float[Tensor, "B P"]:
    xs, ys, queries = (t.detach().cpu().numpy() for t in (prompts.xs, prompts.ys, prompts.queries))
    n_prompts, n_points, _ = xs.shape
    preds = np.full((n_prompts, n_points), np.nan)
    for i in range(n_points) if lengths is None else lengths:
        if not 0 <= i < n_points:
            continue
        for b in range(n_prompts):
            preds[b, i] = (
                make().fit(xs[b, :i], ys[b, :i]).predict(queries[b, i : i + 1])[0] if i else 0.0
            )
    return torch.from_numpy(preds)


@dataclass(frozen=True)
class DecisionTree:
    """`sklearn.tree.DecisionTreeRegressor` fitted to the pairs seen so far, at some lengths."""

    max_depth: int = 4
    lengths: tuple[int, ...] | None = (1, 2, 5, 10, 15, 20, 30, 40, 50, 75)
    seed: int = 0
    name: str = "decision tree"

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        from sklearn.tree import DecisionTreeRegressor

        return _fit_at_lengths(
            prompts,
            self.lengths,
            lambda: DecisionTreeRegressor(max_depth=self.max_depth, random_state=self.seed),
        )


@dataclass(frozen=True)
class GradientBoosting:
    """`sklearn.ensemble.GradientBoostingRegressor` on the pairs seen so far, at some lengths."""

    n_trees: int = 50
    max_depth: int = 4
    lengths: tuple[int, ...] | None = (5, 15, 30, 50, 75)
    seed: int = 0
    name: str = "gradient boosting"

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        from sklearn.ensemble import GradientBoostingRegressor

        return _fit_at_lengths(
            prompts,
            self.lengths,
            lambda: GradientBoostingRegressor(
                n_estimators=self.n_trees, max_depth=self.max_depth, random_state=self.seed
            ),
        )


# name -> predictor for prompts of a law
BASELINES: dict[str, Callable[[PromptLaw], Predictor]] = {
    "least squares": lambda law: LeastSquares(),
    "ridge": Ridge.for_law,
    "averaging": lambda law: Averaging(),
    "nearest neighbours": lambda law: NearestNeighbours(),
    "decision tree": lambda law: DecisionTree(law.tree_depth),
    "gradient boosting": lambda law: GradientBoosting(),
}


def baselines_for(law: PromptLaw) -> tuple[str, ...]:
    """Names of the baselines that fit a task: trees on the tree task, linear ones everywhere."""
    every = tuple(BASELINES)
    return every if law.task == "decision tree" else every[:4]


def influence(
    predictor: Predictor, prompts: Prompts, position: int, *, batch: int = 512
) -> Float[Tensor, "B n"]:
    """How far each of the first `n = position` pairs moves the prediction at `position`.

    `[:, j]` is the prediction from all n pairs minus the one without pair j; with a learner that
    reads positions, the pairs after j move up by one. All leave-one-out prompts go through the
    predictor in batches of at most `batch`.
    """
    n_prompts, n_points, _ = prompts.xs.shape
    if not 1 <= position < n_points:
        raise ValueError(
            f"position: expected 1 to {n_points - 1} (pairs to leave out one by one), "
            f"got {position}. Draw longer prompts or ask earlier."
        )
    query, target = (
        prompts.queries[:, position : position + 1],
        prompts.targets[:, position:][:, :1],
    )
    everything = torch.arange(position, device=query.device)
    kept = everything.expand(position, -1)[~torch.eye(position, dtype=torch.bool)]
    kept = kept.view(position, position - 1)  # row j: all but j

    def ask(xs: Tensor, ys: Tensor, query: Tensor, target: Tensor) -> Tensor:
        xs = torch.cat([xs, query], 1)
        ys = torch.cat([ys, torch.zeros_like(target)], 1)  # the query's label is never read
        targets = torch.cat([torch.zeros_like(ys[:, :-1]), target], 1)
        parts = [
            predictor(Prompts(x, y, x, t))[:, -1]
            for x, y, t in zip(xs.split(batch), ys.split(batch), targets.split(batch), strict=True)
        ]
        return torch.cat(parts)

    full = ask(prompts.xs[:, :position], prompts.ys[:, :position], query, target)
    without = ask(
        prompts.xs[:, kept].flatten(0, 1),
        prompts.ys[:, kept].flatten(0, 1),
        query.repeat_interleave(position, 0),
        target.repeat_interleave(position, 0),
    ).view(n_prompts, position)
    return full.unsqueeze(1) - without
