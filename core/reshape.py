"""Memory reshaping by in-context examples: the maps W1 and W2, and Lemma 2.2.

Wu et al. 2025 (CAMR): with in-context keys K and values V (D x t, columns are examples) and
pretrained "ghost" keys K~ and values V~,

    W1 = K K~^+,    W2 = V V~^+,    reshaped memories W1 K~, W2 V~.

Here examples are rows, `keys (T, D)`, so `apply(W1, ghost_keys)` is `(W1 K~)^T`. The map is exact
(`W1 K~ = K`) iff the row space of K lies inside that of K~: for generic K iff K~ has full column
rank, so t <= D. Otherwise it is the least-squares fit, and `MapDiagnostics` says how good and why.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from core.hopfield import check_beta
from core.separation import (
    StudySettings,
    draw_study,
    one_update,
    pattern_of,
    query_margin,
    retrieval_error,
    separation,
)

EXACT = 1e-10  # relative residual below which a float64 map is called exact


@dataclass(frozen=True)
class MapDiagnostics:
    """How well `W sources = targets` was solved."""

    rank: int  # numerical rank of the ghosts
    rows: int  # t, how many examples
    columns: int  # D
    condition: float  # largest over smallest singular value; inf if rank-deficient
    residual: float  # |W K~ - K| / |K|, Frobenius
    expected_residual: float  # sqrt(1 - rank/t): Gaussian, unrelated targets and sources, no ridge
    tolerance: float  # relative: singular values below tolerance * the largest count as 0
    ridge: float
    exact: bool
    reason: str  # why it is exact or not, as a sentence


@dataclass(frozen=True)
class Reshaping:
    """Both maps with their diagnostics."""

    W1: Float[Tensor, "D D"]
    W2: Float[Tensor, "Dv Dv"]
    keys: MapDiagnostics
    values: MapDiagnostics


def _check_pair(targets: Tensor, sources: Tensor, ridge: float, tolerance: float | None) -> None:
    if targets.dim() != 2 or targets.shape != sources.shape or not targets.numel():
        raise ValueError(
            f"expected examples and ghosts as rows of matrices of one shape (t, D), got "
            f"{tuple(targets.shape)} and {tuple(sources.shape)}"
        )
    if not (targets.isfinite().all() and sources.isfinite().all()):
        raise ValueError("examples or ghosts contain NaN or infinite entries; remove them first")
    if not (math.isfinite(ridge) and ridge >= 0):
        raise ValueError(f"ridge must be a finite number >= 0, got {ridge}")
    if tolerance is not None and not 0 <= tolerance < 1:
        raise ValueError(f"tolerance must be in [0, 1), relative to the largest, got {tolerance}")


def _reason(rank: int, rows: int, columns: int, residual: float, ridge: float) -> str:
    if residual < EXACT:
        return f"Exact: the {rows} ghosts have rank {rank}, and each is sent onto its example."
    if ridge > 0:
        more = "" if rank >= rows else f" (and {rows} ghosts have rank {rank} only)"
        return f"Not exact: a ridge of {ridge:g} shrinks the map{more}; set it to 0 to compare."
    if rank < rows:
        limit = (
            f"more than the dimension D = {columns}"
            if rows > columns
            else f"more than their rank {rank}: some ghosts depend on others"
        )
        return (
            f"Not exact: t = {rows} examples are {limit}, so one linear map cannot send every "
            f"ghost to its own example; this is the least-squares fit."
        )
    return (
        f"Not exact: the ghosts have full rank {rank} but are ill-conditioned, so rounding "
        f"remains. Add a ridge or raise the rank tolerance."
    )


def _solve(
    targets: Float[Tensor, "T Dt"],
    sources: Float[Tensor, "T D"],
    ridge: float,
    tolerance: float | None,
) -> tuple[Float[Tensor, "Dt D"], MapDiagnostics]:
    """The map and its diagnostics from one singular value decomposition of the ghosts."""
    _check_pair(targets, sources, ridge, tolerance)
    left, sizes, right = torch.linalg.svd(sources, full_matrices=False)  # (T,r) (r,) (r,D)
    if tolerance is None:  # the default of numpy.linalg.matrix_rank
        tolerance = max(sources.shape) * torch.finfo(sources.dtype).eps
    kept = sizes > tolerance * sizes[0]
    filters = torch.where(kept, sizes / (sizes * sizes + ridge), torch.zeros_like(sizes))
    W = (targets.mT @ left) * filters @ right
    rank, full = int(kept.sum()), bool(kept.all())
    scale = float(targets.norm())
    missed = float((sources @ W.mT - targets).norm())
    residual = missed / scale if scale else missed
    rows, columns = sources.shape
    return W, MapDiagnostics(
        rank=rank,
        rows=rows,
        columns=columns,
        condition=float(sizes[0] / sizes[-1]) if full else math.inf,
        residual=residual,
        expected_residual=math.sqrt(max(0.0, 1 - rank / rows)),
        tolerance=tolerance,
        ridge=ridge,
        exact=residual < EXACT,
        reason=_reason(rank, rows, columns, residual, ridge),
    )


def reshaping_map(
    keys: Float[Tensor, "T D"],
    ghost_keys: Float[Tensor, "T D"],
    ridge: float = 0.0,
    tolerance: float | None = None,
) -> Float[Tensor, "D D"]:
    """`W = K K~^+`, or `K K~^T (K~ K~^T + ridge I)^-1`; W acts on column vectors.

    Equals `keys.T @ numpy.linalg.pinv(ghost_keys.T, rcond=tolerance)`, and for a ridge
    `scipy.linalg.solve` of the normal equations restricted to the singular directions kept.
    `tolerance` is relative to the largest singular value, by default max(t, D) times machine
    epsilon. Raises ValueError for shapes that differ, non-finite entries, ridge < 0.
    """
    return _solve(keys, ghost_keys, ridge, tolerance)[0]


def reshape(
    keys: Float[Tensor, "T D"],
    values: Float[Tensor, "T Dv"],
    ghost_keys: Float[Tensor, "T D"],
    ghost_values: Float[Tensor, "T Dv"],
    ridge: float = 0.0,
    tolerance: float | None = None,
) -> Reshaping:
    """W1 for the keys and W2 for the values, with diagnostics of both."""
    W1, of_keys = _solve(keys, ghost_keys, ridge, tolerance)
    W2, of_values = _solve(values, ghost_values, ridge, tolerance)
    return Reshaping(W1, W2, of_keys, of_values)


def apply(W: Float[Tensor, "D D"], rows: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    """W on every row."""
    return rows @ W.mT


def interpolate(W: Float[Tensor, "D D"], strength: float) -> Float[Tensor, "D D"]:
    """`W(s) = (1 - s) I + s W`: s = 0 the pretrained landscape, s = 1 the reshaped one."""
    if not 0 <= strength <= 1:
        raise ValueError(f"strength must be in [0, 1], got {strength}")
    return (1 - strength) * torch.eye(W.shape[0], dtype=W.dtype) + strength * W


# ---- Lemma 2.2 -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lemma22:
    """Replacing pattern mu, the most similar one, by the query x. Entries are batched `(*batch)`.

    The claim is that Delta_mu rises and the retrieval error falls. What holds always *(ours)*: the
    margin rises by `|x|^2 - x.xi_mu`, which for equal norms is `|x - xi_mu|^2/2 >= 0`.
    """

    mu: Tensor
    delta_before: Tensor
    delta_after: Tensor
    margin_before: Tensor
    margin_after: Tensor
    margin_gain: Tensor  # after - before
    margin_gain_predicted: Tensor  # |x|^2 - x.xi_mu
    error_before: Tensor  # |T(x) - xi_mu|
    error_after: Tensor  # |T'(x) - x|: the stored pattern is x now
    error_to_original: Tensor  # |T'(x) - xi_mu|: against what was stored before


def lemma_2_2(
    Xi: Float[Tensor, "*batch M D"],
    query: Float[Tensor, "*batch D"],
    beta: float,
    mu: Tensor | int | None = None,
    energy: str = "lse_dot",
) -> Lemma22:
    """Separation, margin and error before and after pattern mu becomes the query.

    `mu` defaults to the pattern with the largest dot product with the query.
    """
    beta = check_beta(beta)
    if Xi.shape[:-2] != query.shape[:-1] or Xi.shape[-1] != query.shape[-1]:
        raise ValueError(
            f"expected a query (*batch, D) for patterns (*batch, M, D), got {tuple(query.shape)} "
            f"and {tuple(Xi.shape)}"
        )
    if mu is None:
        mu = (Xi @ query.unsqueeze(-1)).squeeze(-1).argmax(dim=-1)
    mu = torch.as_tensor(mu).expand(query.shape[:-1])
    index = mu[..., None, None].expand(*query.shape[:-1], 1, Xi.shape[-1])
    reshaped = Xi.scatter(-2, index, query.unsqueeze(-2))
    original = pattern_of(Xi, mu)

    def at_mu(values: Tensor) -> Tensor:
        return values.gather(-1, mu.unsqueeze(-1)).squeeze(-1)

    before, after = query_margin(Xi, query, mu), query_margin(reshaped, query, mu)
    ended = one_update(reshaped, query, beta, energy)
    return Lemma22(
        mu=mu,
        delta_before=at_mu(separation(Xi)),
        delta_after=at_mu(separation(reshaped)),
        margin_before=before,
        margin_after=after,
        margin_gain=after - before if Xi.shape[-2] > 1 else torch.zeros_like(before),
        margin_gain_predicted=(query * (query - original)).sum(dim=-1),
        error_before=retrieval_error(Xi, query, beta, mu, energy),
        error_after=(ended - query).norm(dim=-1),
        error_to_original=(ended - original).norm(dim=-1),
    )


@dataclass(frozen=True)
class ReshapingStudy:
    """Lemma 2.2 over S draws; see `Lemma22` for the columns."""

    settings: StudySettings
    delta_before: Float[np.ndarray, "S"]
    delta_after: Float[np.ndarray, "S"]
    margin_before: Float[np.ndarray, "S"]
    margin_after: Float[np.ndarray, "S"]
    margin_gain: Float[np.ndarray, "S"]
    margin_gain_predicted: Float[np.ndarray, "S"]
    error_before: Float[np.ndarray, "S"]
    error_after: Float[np.ndarray, "S"]
    error_to_original: Float[np.ndarray, "S"]
    share_delta_falls: float
    share_error_falls: float
    share_margin_rises: float
    largest_gain_residual: float  # max |gain - predicted|: 0 up to rounding


def reshaping_study(settings: StudySettings) -> ReshapingStudy:
    """How often reshaping the most similar pattern onto the query keeps the lemma's promise.

    The query is pattern 0 plus noise, then scaled back to the pattern's norm: the lemma compares
    directions, and at unequal norms the margin gain can be negative for that reason alone.
    """
    if settings.patterns < 2:
        raise ValueError("the reshaping study needs at least 2 patterns; raise M")
    Xi, direction = draw_study(settings)
    query = Xi[:, 0] + settings.noise * direction
    query = query / query.norm(dim=-1, keepdim=True) * Xi[:, 0].norm(dim=-1, keepdim=True)
    found = lemma_2_2(Xi, query, settings.beta, energy=settings.energy)
    columns = {
        name: getattr(found, name).numpy()
        for name in (
            "delta_before",
            "delta_after",
            "margin_before",
            "margin_after",
            "margin_gain",
            "margin_gain_predicted",
            "error_before",
            "error_after",
            "error_to_original",
        )
    }
    return ReshapingStudy(
        settings=settings,
        **columns,
        share_delta_falls=float((columns["delta_after"] < columns["delta_before"]).mean()),
        share_error_falls=float((columns["error_after"] < columns["error_before"]).mean()),
        share_margin_rises=float((columns["margin_gain"] > 0).mean()),
        largest_gain_residual=float(
            np.abs(columns["margin_gain"] - columns["margin_gain_predicted"]).max()
        ),
    )
