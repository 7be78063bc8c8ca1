"""Predictors that answer an in-context prompt at every length in one pass.

A transformer and every baseline share one call: `predictor(prompts) -> preds (B, P)` where
`preds[:, i]` has seen the pairs before `i` and `queries[:, i]`, nothing else. Plots do not care
which is which. The baselines compute in float64 whatever the prompts' dtype, on their device.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from core.prompts import PromptLaw, Prompts, label_noise_variance
from core.trees import TreeSettings, predict_prefixes

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
    span a subspace only.
    """

    name: str = "least squares"

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        xs, ys, queries = _in_float64(prompts)
        n_prompts, n_points, n_dims = xs.shape
        n_first = min(n_points - 1, n_dims)
        if n_first == 0:
            return ys.new_zeros(n_prompts, n_points)
        # An input is new to the span when its part outside is longer than what rounding leaves
        # there, in the dtype the prompts came in.
        rounding = (50 * n_dims * torch.finfo(prompts.xs.dtype).eps) ** 2  # of squared lengths

        # Regular prompts: the first `rank` inputs are independent and span all the others.
        q, r = torch.linalg.qr(xs[:, :n_first].mT)
        length2 = r.square()
        is_new = length2.diagonal(dim1=1, dim2=2) > rounding * length2.sum(1)
        n_leading = is_new.long().cumprod(1).sum(1)
        rank = int(n_leading.max())
        regular = n_leading == rank
        q, r = q[:, :, :rank], r[:, :rank, :rank]
        if rank < n_dims:
            rest = xs[:, rank:-1]
            outside = rest - (rest @ q) @ q.mT
            regular &= (outside.square().sum(2) <= rounding * rest.square().sum(2)).all(1)
        if regular.all():
            return _after_independent(xs, ys, queries, q, r)
        odd = ~regular
        preds = torch.empty_like(ys)
        preds[odd] = _one_by_one(xs[odd], ys[odd], queries[odd], rounding)
        if regular.any():
            preds[regular] = _after_independent(
                xs[regular], ys[regular], queries[regular], q[regular], r[regular]
            )
        return preds


@dataclass(frozen=True)
class Ridge:
    """Ridge without intercept: Bayesian model averaging when the penalty is sigma^2/lambda.

    Equals `sklearn.linear_model.Ridge(alpha=penalty, fit_intercept=False)` at every prefix, and
    least squares at penalty 0.
    """

    penalty: float
    name: str = "ridge"

    def __post_init__(self) -> None:
        if not 0 <= self.penalty < float("inf"):
            raise ValueError(
                f"penalty: expected a finite number >= 0 (noise variance over prior variance of a "
                f"weight), got {self.penalty}."
            )

    @staticmethod
    def for_law(law: PromptLaw) -> "Ridge":
        """The ridge at the true noise: noise variance over the prior variance of a weight."""
        prior = law.sparsity / law.n_dims if law.task == "sparse linear" else 1.0
        return Ridge(label_noise_variance(law) / prior)

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        if self.penalty == 0:
            return LeastSquares()(prompts)
        xs, ys, queries = _in_float64(prompts)
        return _recursive(xs, ys, queries, noise=self.penalty)


def _in_float64(prompts: Prompts) -> tuple[Tensor, Tensor, Tensor]:
    """xs, ys, queries; queries is xs where it was."""
    xs = prompts.xs.double()
    queries = xs if prompts.queries is prompts.xs else prompts.queries.double()
    return xs, prompts.ys.double(), queries


def _after_independent(
    xs: Float[Tensor, "B P D"],
    ys: Float[Tensor, "B P"],
    queries: Float[Tensor, "B P D"],
    q: Float[Tensor, "B D R"],
    r: Float[Tensor, "B R R"],
) -> Float[Tensor, "B P"]:
    """Least squares when the first R inputs are independent and span all others.

    With `X_R^T = Q R` (QR) the interpolating weights in the basis Q are `c = R^-T y`, and the
    first i entries of c alone are the minimum-norm weights after i < R pairs. From R pairs on the
    pseudo-inverse of the Gram matrix is `S S^T` with `S = Q R^-T`, which later pairs update.
    """
    rank = q.shape[2]
    c = torch.linalg.solve_triangular(r.mT, ys[:, :rank].unsqueeze(2), upper=False)  # (B, R, 1)
    first = r.mT if queries is xs else _product(queries[:, :rank], q)
    preds = torch.empty_like(ys)
    preds[:, :rank] = (first * c.mT).tril(-1).sum(2)
    root = torch.linalg.solve_triangular(r, q.mT, upper=True).mT  # S, (B, D, R)
    rest = xs[:, rank:]
    preds[:, rank:] = _recursive(
        rest, ys[:, rank:], rest if queries is xs else queries[:, rank:], _product(q, c), root
    )
    return preds


def _recursive(
    xs: Float[Tensor, "B P D"],
    ys: Float[Tensor, "B P"],
    queries: Float[Tensor, "B P D"],
    w: Float[Tensor, "B D 1"] | None = None,
    root: Float[Tensor, "B D R"] | None = None,
    *,
    noise: float = 1.0,
    block: int = 40,
    largest: float = 1e6,
) -> Float[Tensor, "B P"]:
    """Recursive least squares from weights w of covariance `S S^T` (S = root), a block at a time.

    None stands for weights 0 and for the covariance I.
    Labels have variance `noise`. With `F = X S` and the misses `e = y - X w` of a block, one
    Cholesky factor `L L^T = F F^T + noise I` serves all its prefixes, whose factors are the leading
    blocks of L: the prediction at i is `w.q_i + sum_{j<i} L_ij c_j` with `c = L^-1 e`. Then w and S
    take in the whole block. Where `|f|^2 > largest noise` (after a nearly singular start) the noise
    would drown in F F^T; there one pair makes a block, and the rank-one update of S (Potter) is
    safe at any size.
    """
    n_prompts, n_points, n_dims = xs.shape
    if w is None:
        w = xs.new_zeros(n_prompts, n_dims, 1)
    block = -(-n_points // -(-n_points // block))  # as many blocks, of like size
    preds = torch.empty_like(ys)
    start = 0
    while start < n_points:
        stop = min(start + block, n_points)
        f = xs[:, start:stop]
        if root is not None:
            f = _product(f, root)  # (B, N, R)
        alone = float(f.square().sum(2).max()) > largest * noise
        if alone:
            stop = start + 1
            f = f[:, :1]
        here = slice(start, stop)
        base = _product(queries[:, here], w).squeeze(2)
        miss = ys[:, here] - (base if queries is xs else _product(xs[:, here], w).squeeze(2))
        fq = f
        if queries is not xs:
            fq = queries[:, here] if root is None else _product(queries[:, here], root)
        if root is None:
            eye = torch.eye(n_dims, dtype=xs.dtype, device=xs.device)
            root = eye.expand(n_prompts, -1, -1)
        if alone:
            preds[:, here] = base
            size = f.square().sum(2, keepdim=True) + noise
            step = _product(root, f.mT)  # (B, D, 1)
            w = w + step * (miss.unsqueeze(2) / size)
            root = root - step * (f / (size + (noise * size).sqrt()))
        else:
            lower = _cholesky(_add_to_diagonal(_product(f, f.mT), noise))
            c = torch.linalg.solve_triangular(lower, miss.unsqueeze(2), upper=False)
            if stop < n_points:
                weights = torch.linalg.solve_triangular(lower.mT, c, upper=True)
                w = w + _product(root, _product(f.mT, weights))
                shrink = _cholesky(_add_to_diagonal(_product(f.mT, f).div_(noise), 1.0))
                root = torch.linalg.solve_triangular(shrink.mT, root, upper=True, left=False)
            if queries is xs:
                seen = lower
                seen.diagonal(dim1=1, dim2=2).zero_()
            else:
                cross = _product(f, fq.mT)
                seen = torch.linalg.solve_triangular(lower, cross, upper=False).mT.tril(-1)
            preds[:, here] = base + _product(seen, c).squeeze(2)
        start = stop
    return preds


def _product(a: Float[Tensor, "B N K"], b: Float[Tensor, "B K M"]) -> Float[Tensor, "B N M"]:
    """`a @ b`. Of small float64 matrices numpy multiplies a batch twice as fast as torch."""
    if a.device.type == "cpu" and not (a.requires_grad or b.requires_grad):
        return torch.from_numpy(np.matmul(a.numpy(), b.numpy()))
    return a @ b


def _cholesky(a: Float[Tensor, "B N N"]) -> Float[Tensor, "B N N"]:
    if a.device.type == "cpu" and not a.requires_grad:
        return torch.from_numpy(np.linalg.cholesky(a.numpy()))
    return torch.linalg.cholesky(a)


def _add_to_diagonal(matrices: Float[Tensor, "B N N"], value: float) -> Float[Tensor, "B N N"]:
    matrices.diagonal(dim1=1, dim2=2).add_(value)
    return matrices


def _one_by_one(
    xs: Float[Tensor, "B P D"],
    ys: Float[Tensor, "B P"],
    queries: Float[Tensor, "B P D"],
    rounding: float,
) -> Float[Tensor, "B P"]:
    """Minimum-norm least squares for any inputs, dependent ones anywhere: one pair after another.

    An input outside the span so far makes Greville's update: with `u` the part of x orthogonal to
    the span (Gram-Schmidt, done twice) the weights move by `(y - w.x) u/|u|^2`. One inside makes a
    recursive least squares update. The pseudo-inverse of the Gram matrix is kept as `S S^T`.
    """
    n_prompts, n_points, n_dims = xs.shape
    w = xs.new_zeros(n_prompts, n_dims, 1)
    root = xs.new_zeros(n_prompts, n_dims, n_dims)  # S, one more column per new direction
    basis = xs.new_zeros(n_prompts, n_dims, n_dims)  # orthonormal columns of the span
    rank = torch.zeros(n_prompts, dtype=torch.int64, device=xs.device)
    slots = torch.arange(n_dims, device=xs.device)
    threshold = rounding * xs.square().sum(2)
    preds = torch.zeros_like(ys)
    for i in range(n_points - 1):
        x = xs[:, i].unsqueeze(2)  # (B, D, 1)
        u = x - basis @ (basis.mT @ x)
        u = u - basis @ (basis.mT @ u)
        length2 = u.square().sum(1, keepdim=True)
        is_new = ((length2.flatten() > threshold[:, i]) & (rank < n_dims)).view(-1, 1, 1)
        slot = (slots == rank.unsqueeze(1)).unsqueeze(1)  # (B, 1, D)
        new = torch.where(is_new, u / length2, 0.0)
        f = root.mT @ x
        size = 1 + f.square().sum(1, keepdim=True)
        gain = root @ f
        miss = ys[:, i].view(-1, 1, 1) - w.mT @ x
        w = w + torch.where(is_new, new, gain / size) * miss
        root = root - torch.where(is_new, new, gain / (size + size.sqrt())) * f.mT + new * slot
        basis = basis + torch.where(is_new, u / length2.sqrt(), 0.0) * slot
        rank = rank + is_new.flatten()
        preds[:, i + 1] = (queries[:, i + 1] * w.squeeze(2)).sum(1)
    return preds


@dataclass(frozen=True)
class Averaging:
    """`w = mean of x y`, one step of gradient descent from zero; 0 without pairs (Garg et al.)."""

    name: str = "averaging"

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        xs, ys, queries = _in_float64(prompts)
        preds = torch.zeros_like(ys)
        total = (xs[:, :-1] * ys[:, :-1].unsqueeze(2)).cumsum(1)
        n_pairs = torch.arange(1, xs.shape[1], device=xs.device)
        preds[:, 1:] = (total * queries[:, 1:]).sum(2) / n_pairs
        return preds


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
            noun = "neighbour" if self.k == 1 else "neighbours"
            object.__setattr__(self, "name", f"{self.k} nearest {noun}")

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        xs, ys, queries = _in_float64(prompts)
        n_points, block = xs.shape[1], 38
        lengths = xs.square().sum(2).unsqueeze(1)
        preds = torch.empty_like(ys)
        for start in range(0, n_points, block):  # a block of queries and all that lies before it
            stop = min(start + block, n_points)
            n_pairs = torch.arange(start, stop, device=xs.device)
            hidden = n_pairs.unsqueeze(1) <= torch.arange(stop, device=xs.device)
            # |q - x|^2 without |q|^2, which ranks nothing; hidden pairs are infinitely far
            far = lengths[:, :, :stop] + xs.new_zeros(hidden.shape).masked_fill_(hidden, torch.inf)
            far.baddbmm_(queries[:, start:stop], xs[:, :stop].mT, alpha=-2.0)
            k = min(self.k, stop)
            if k > 8:
                near = far.topk(k, dim=2, largest=False).indices
            else:  # k minima are cheaper than a selection
                picks = []
                for _ in range(k):
                    picks.append(far.min(2, keepdim=True).indices)
                    far.scatter_(2, picks[-1], torch.inf)
                near = torch.cat(picks, 2)
            labels = ys[:, :stop].unsqueeze(1).expand(-1, stop - start, -1).gather(2, near)
            found = torch.arange(k, device=xs.device) < n_pairs.unsqueeze(1)
            preds[:, start:stop] = (labels * found).sum(2) / found.sum(1).clamp_min(1)
        return preds


def _trees_at_lengths(
    prompts: Prompts, lengths: tuple[int, ...] | None, settings: TreeSettings
) -> Float[Tensor, "B P"]:
    n_points = prompts.n_points
    chosen = range(n_points) if lengths is None else [n for n in lengths if n < n_points]
    at = np.array(chosen, dtype=np.int64)
    xs, ys, queries = (tensor.detach().cpu().numpy() for tensor in _in_float64(prompts))
    preds = np.full(ys.shape, np.nan)
    preds[:, at] = predict_prefixes(xs, ys, queries, at, settings)
    return torch.from_numpy(preds).to(prompts.ys.device)


def _check_lengths(lengths: tuple[int, ...] | None) -> None:
    if lengths is not None and any(not isinstance(n, int) or n < 0 for n in lengths):
        raise ValueError(f"lengths: expected whole numbers >= 0 or None for all, got {lengths!r}.")


@dataclass(frozen=True)
class DecisionTree:
    """A regression tree fitted to the pairs seen so far; 0 without pairs.

    Equals `sklearn.tree.DecisionTreeRegressor(max_depth, min_samples_leaf=min_leaf)` wherever the
    best split is unique. Positions outside `lengths` (None for all) are NaN.
    """

    max_depth: int = 4
    min_leaf: int = 1
    lengths: tuple[int, ...] | None = None
    name: str = "decision tree"

    def __post_init__(self) -> None:
        TreeSettings(self.max_depth, self.min_leaf)
        _check_lengths(self.lengths)

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        return _trees_at_lengths(prompts, self.lengths, TreeSettings(self.max_depth, self.min_leaf))


@dataclass(frozen=True)
class GradientBoosting:
    """Boosted regression trees on the pairs seen so far; 0 without pairs.

    Equals `sklearn.ensemble.GradientBoostingRegressor` of the same settings wherever best splits
    are unique. Positions outside `lengths` (None for all) are NaN.
    """

    n_trees: int = 50
    max_depth: int = 3
    learning_rate: float = 0.1
    min_leaf: int = 1
    lengths: tuple[int, ...] | None = None
    name: str = "gradient boosting"

    def __post_init__(self) -> None:
        self._settings()
        _check_lengths(self.lengths)

    def _settings(self) -> TreeSettings:
        return TreeSettings(self.max_depth, self.min_leaf, self.n_trees, self.learning_rate)

    def __call__(self, prompts: Prompts) -> Float[Tensor, "B P"]:
        return _trees_at_lengths(prompts, self.lengths, self._settings())


_SOME_LENGTHS = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 75)  # boosting at all takes seconds

# name -> predictor for prompts of a law
BASELINES: dict[str, Callable[[PromptLaw], Predictor]] = {
    "least squares": lambda law: LeastSquares(),
    "ridge": Ridge.for_law,
    "averaging": lambda law: Averaging(),
    "nearest neighbours": lambda law: NearestNeighbours(),
    "decision tree": lambda law: DecisionTree(law.tree_depth),
    "gradient boosting": lambda law: GradientBoosting(lengths=_SOME_LENGTHS),
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
    query = prompts.queries[:, position : position + 1]
    target = prompts.targets[:, position : position + 1]
    everything = torch.arange(position, device=query.device)
    others = ~torch.eye(position, dtype=torch.bool, device=query.device)
    kept = everything.expand(position, -1)[others]
    kept = kept.view(position, position - 1)  # row j: all but j

    def ask(xs: Tensor, ys: Tensor, query: Tensor, target: Tensor) -> Tensor:
        xs = torch.cat([xs, query], 1)
        ys = torch.cat([ys, torch.zeros_like(target)], 1)  # the query's label is never read
        targets = torch.cat([torch.zeros_like(ys[:, :-1]), target], 1)
        answer = predictor
        if isinstance(predictor, DecisionTree | GradientBoosting):
            answer = replace(predictor, lengths=(ys.shape[1] - 1,))
        parts = [
            answer(Prompts(x, y, x, t))[:, -1]
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
