"""Modern Hopfield models: energies, their updates, and retrieval to the fixed point.

Every energy here has one shape. With scores `z = Xi x + b` and a convex potential `h`,

    E(x) = |x|^2 / 2 - h(z; beta) + constant,      T(x) = Xi^T w(z),   w = grad h,

so `grad E(x) = x - T(x)` and T is one gradient step of size 1. It never raises the energy: h is
convex, hence above its tangent, and minimising `|x|^2/2 - tangent` gives exactly T(x) (the
concave-convex procedure), so

    E(T(x)) <= E(x) - |T(x) - x|^2 / 2.

The families differ only in h, in other words in how scores become weights:

    lse_dot     h = log sum exp(beta z) / beta              w = softmax(beta z)       (attention)
    lse_l2      the same with b_mu = -|xi_mu|^2 / 2         w = softmax(-beta |x - xi|^2 / 2)
    polynomial  h = (sum [z]_+^n)^(1/n), n = 1 + beta       w = ([z]_+ / h)^beta
    sparse      h = conjugate of the Gini entropy / beta    w = sparsemax(beta z)

Sources: Ramsauer et al. 2020 (lse_dot), Krotov & Hopfield 2016 (polynomial), Hu et al. 2023 and
Martins & Astudillo 2016 (sparse); lse_l2 is the Gaussian mixture whose update is mean shift.

Shapes: patterns are rows, `Xi (M, D)`; a state is `(D,)`. The functions of one state are the
definition; `energy_of`, `attention` and `gradient` are their batched twins for `(N, D)` states.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# ---- potentials h(z; beta) and their gradients, on the last dimension -----------------------


def _column(beta: float | Tensor) -> float | Tensor:
    """beta against scores `(..., M)`: a tensor of one beta per state gets a trailing axis."""
    return beta.unsqueeze(-1) if isinstance(beta, Tensor) and beta.dim() else beta


def log_sum_exp(
    scores: Float[Tensor, "*batch M"], beta: float | Float[Tensor, "..."]
) -> Float[Tensor, "*batch"]:
    """`log(sum exp(beta z)) / beta`; equals `scipy.special.logsumexp(beta * z) / beta`."""
    return torch.logsumexp(_column(beta) * scores, dim=-1) / beta


def softmax(
    scores: Float[Tensor, "*batch M"], beta: float | Float[Tensor, "..."]
) -> Float[Tensor, "*batch M"]:
    """`softmax(beta z)`, the gradient of `log_sum_exp`."""
    return torch.softmax(_column(beta) * scores, dim=-1)


def _sparse_threshold(logits: Float[Tensor, "*batch M"]) -> Float[Tensor, "*batch 1"]:
    """The tau with `sum [z - tau]_+ = 1` (Martins & Astudillo 2016, Algorithm 1).

    Call it with the largest logit at 0: then tau is in [-1, -1/M] and nothing is lost to rounding
    at large beta.
    """
    ordered = logits.sort(dim=-1, descending=True).values
    sums = ordered.cumsum(dim=-1)
    ranks = torch.arange(1, logits.shape[-1] + 1, dtype=logits.dtype, device=logits.device)
    size = (1 + ranks * ordered > sums).sum(dim=-1, keepdim=True)
    return (sums.gather(-1, size - 1) - 1) / size


def sparsemax(
    scores: Float[Tensor, "*batch M"], beta: float | Float[Tensor, "..."]
) -> Float[Tensor, "*batch M"]:
    """Euclidean projection of `beta z` onto the simplex: most weights are exactly 0."""
    logits = _column(beta) * scores
    logits = logits - logits.amax(dim=-1, keepdim=True).detach()
    return (logits - _sparse_threshold(logits)).clamp_min(0)


def sparse_conjugate(
    scores: Float[Tensor, "*batch M"], beta: float | Float[Tensor, "..."]
) -> Float[Tensor, "*batch"]:
    """`max over the simplex of <p, z> - (|p|^2 - 1) / (2 beta)`; its gradient is `sparsemax`.

    Hu et al. 2023, with the constant chosen such that a pattern taken alone costs nothing, as in
    log_sum_exp.
    """
    logits = _column(beta) * scores
    top = logits.amax(dim=-1, keepdim=True).detach()
    logits = logits - top
    tau = _sparse_threshold(logits)
    support = torch.where(logits > tau, logits * logits - tau * tau, torch.zeros_like(logits))
    return (top.squeeze(-1) + (support.sum(dim=-1) + 1) / 2) / beta


def _power_sum(
    scores: Float[Tensor, "*batch M"], beta: float | Float[Tensor, "..."]
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch M"], Float[Tensor, "*batch"]]:
    """Largest score, positive scores relative to it, and the sum of their n-th powers in [1, M].

    Without a positive score: 0, zeros, and 1, so that nothing divides by 0.
    """
    positive = scores.clamp_min(0)
    top = positive.amax(dim=-1).detach()
    ratios = positive / torch.where(top > 0, top, 1.0).unsqueeze(-1)
    total = (ratios ** _column(1 + beta)).sum(dim=-1)
    return top, ratios, torch.where(top > 0, total, 1.0)


def power_norm(
    scores: Float[Tensor, "*batch M"], beta: float | Float[Tensor, "..."]
) -> Float[Tensor, "*batch"]:
    """`(sum [z]_+^n)^(1/n)` with `n = 1 + beta`: convex, as a norm of a non-negative convex map."""
    top, _, total = _power_sum(scores, beta)
    return top * total ** (1 / (1 + beta))


def power_attention(
    scores: Float[Tensor, "*batch M"], beta: float | Float[Tensor, "..."]
) -> Float[Tensor, "*batch M"]:
    """`([z]_+ / h)^beta`, the gradient of `power_norm`. All 0 where no score is positive."""
    positive = scores.clamp_min(0)
    top = positive.amax(dim=-1, keepdim=True)
    ratios = positive / torch.where(top > 0, top, 1.0)
    powers = ratios ** _column(
        beta
    )  # the costly part, so once: their n-th powers are one product away
    total = torch.where(top > 0, (powers * ratios).sum(dim=-1, keepdim=True), 1.0)
    return powers * total ** -_column(beta / (1 + beta))


# ---- the same weights for retrieval, which takes hundreds of steps ---------------------------
#
# `*_one`: one state, in numpy, where a step of a few memories is all overhead and numpy's is a
# tenth of torch's. `*_step`: many states, given the weights of the step before; scores are
# overwritten. A set of weights never needs more than its scores, so both equal the above.


def _softmax_one(scores: Float[np.ndarray, "M"], beta: float) -> Float[np.ndarray, "M"]:
    weights = beta * scores
    weights -= weights.max()
    np.exp(weights, out=weights)
    weights /= weights.sum()
    return weights


def _sparsemax_one(scores: Float[np.ndarray, "M"], beta: float) -> Float[np.ndarray, "M"]:
    logits = beta * scores
    logits -= logits.max()
    ordered = np.sort(logits)[::-1]
    sums = ordered.cumsum()
    ranks = np.arange(1, len(logits) + 1, dtype=logits.dtype)
    size = np.count_nonzero(1 + ranks * ordered > sums)
    logits -= (sums[size - 1] - 1) / size
    return np.maximum(logits, 0, out=logits)


def _power_one(scores: Float[np.ndarray, "M"], beta: float) -> Float[np.ndarray, "M"]:
    ratios = np.maximum(scores, 0)
    top = ratios.max()
    if top <= 0:
        return ratios
    ratios /= top
    powers = ratios**beta
    return powers * (powers @ ratios) ** (-beta / (1 + beta))


def _softmax_step(
    scores: Float[Tensor, "*batch M"], beta: float, before: Float[Tensor, "*batch M"]
) -> Float[Tensor, "*batch M"]:
    return torch.softmax(scores.mul_(beta), dim=-1)


def sparsemax_step(
    scores: Float[Tensor, "*batch M"], beta: float, before: Float[Tensor, "*batch M"]
) -> Float[Tensor, "*batch M"]:
    """Newton's method on the threshold from the support of the step before, which rarely changes.

    `f(tau) = sum [z - tau]_+ - 1` is convex and decreasing. For any set S of memories the tau with
    `sum over S of (z - tau) = 1` is never above the root, because f is at least that sum; from
    there the support only shrinks, and where it stays the root is reached.
    """
    logits = scores.mul_(beta)
    logits.sub_(logits.amax(dim=-1, keepdim=True))
    support = before.sign()
    size = support.sum(dim=-1, keepdim=True)
    weights = torch.empty_like(logits)
    for _ in range(logits.shape[-1] + 1):
        tau = support.mul_(logits).sum(dim=-1, keepdim=True).sub_(1).div_(size)
        torch.sub(logits, tau, out=weights).clamp_min_(0)
        torch.sign(weights, out=support)
        left = support.sum(dim=-1, keepdim=True)
        if torch.equal(left, size):
            break
        size = left
    return weights


def _power_step(
    scores: Float[Tensor, "*batch M"], beta: float, before: Float[Tensor, "*batch M"]
) -> Float[Tensor, "*batch M"]:
    """Powers through logarithms, several times faster.

    Of ratios to the largest score: where a logarithm is large, and its rounding with it, the power
    is small. Logarithms of 0 and subnormal powers would be slow, so neither is formed.
    """
    ratios = scores.clamp_min_(0)
    top, tiny = ratios.amax(dim=-1, keepdim=True), torch.finfo(scores.dtype).tiny
    ratios.div_(top.clamp_min(tiny))
    if beta in (1, 2, 3):  # torch multiplies
        powers = ratios**beta
    else:
        powers = ratios.clamp_min(tiny).log2_().mul_(beta).clamp_min_(math.log2(tiny)).exp2_()
        powers.mul_(ratios.sign())
    total = torch.mul(powers, ratios).sum(dim=-1, keepdim=True)
    return powers.mul_(total.clamp_min_(tiny).pow_(-beta / (1 + beta)))


# ---- second derivatives of h, for the Hessian of the energy ----------------------------------
#
# All three are a diagonal less a product: `diag(a) - v v^T`, given as (a, v).


def _softmax_curvature(
    scores: Float[Tensor, "*batch M"], beta: float
) -> tuple[Float[Tensor, "*batch M"], Float[Tensor, "*batch M"]]:
    p = softmax(scores, beta)
    return beta * p, math.sqrt(beta) * p


def _sparse_curvature(
    scores: Float[Tensor, "*batch M"], beta: float
) -> tuple[Float[Tensor, "*batch M"], Float[Tensor, "*batch M"]]:
    support = (sparsemax(scores, beta) > 0).to(scores.dtype)
    return beta * support, support * (beta / support.sum(dim=-1, keepdim=True)).sqrt()


def _power_curvature(
    scores: Float[Tensor, "*batch M"], beta: float
) -> tuple[Float[Tensor, "*batch M"], Float[Tensor, "*batch M"]]:
    size = power_norm(scores, beta).unsqueeze(-1)
    safe = torch.where(size > 0, size, 1.0)
    ratios = scores.clamp_min(0) / safe
    # For beta < 1 the second derivative is unbounded at a score of 0+; a pattern without a match
    # contributes none.
    slope = torch.where(ratios > 0, ratios.clamp_min(1e-300) ** (beta - 1), 0.0)
    return beta / safe * slope, (beta / safe).sqrt() * (slope * ratios)


# ---- energies of one state -------------------------------------------------------------------


def _largest_square(Xi: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch"]:
    return Xi.square().sum(dim=-1).amax(dim=-1)


def lse_dot_energy(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float
) -> Float[Tensor, ""]:
    """`-lse(beta, Xi x) + |x|^2/2 + log(M)/beta + m^2/2` (Ramsauer et al. 2020).

    At least 0 everywhere, at most `2 m^2` for `|x| <= m`, with m the largest pattern norm.
    """
    constant = math.log(Xi.shape[0]) / beta + _largest_square(Xi) / 2
    return state @ state / 2 - log_sum_exp(Xi @ state, beta) + constant


def lse_dot_update(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float
) -> Float[Tensor, "D"]:
    """`Xi^T softmax(beta Xi x)`: one step of softmax attention."""
    return softmax(Xi @ state, beta) @ Xi


def lse_l2_energy(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float
) -> Float[Tensor, ""]:
    """`-lse(beta, -|x - xi|^2/2) + log(M)/beta`: minus the log-density of a Gaussian mixture.

    At least 0. Equals `lse_dot_energy` exactly when all patterns have one norm, and differs from it
    by more than a constant otherwise.
    """
    squared = (Xi - state).square().sum(dim=-1)
    return math.log(Xi.shape[0]) / beta - log_sum_exp(-squared / 2, beta)


def lse_l2_update(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float
) -> Float[Tensor, "D"]:
    """`Xi^T softmax(-beta |x - xi|^2/2)`: the mean-shift step of a Gaussian kernel."""
    return softmax(-(Xi - state).square().sum(dim=-1) / 2, beta) @ Xi


def polynomial_energy(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float
) -> Float[Tensor, ""]:
    """`-(sum [xi.x]_+^n)^(1/n) + |x|^2/2 + m^2/2` with the degree `n = 1 + beta`.

    Krotov & Hopfield's dense memory is `-sum [xi.x]_+^n`, which over all of space falls without
    bound. Its n-th root *(ours)* orders states of one norm the same way but grows only linearly,
    so the quadratic term bounds it below by `(m^2 - L^2)/2`, L the largest value of the root on the
    unit sphere; being a norm it is convex, which is all the update needs (see the module). It does
    not feel the scale of the patterns: weights go as `[xi.x]_+^beta = exp(beta log [xi.x]_+)`,
    so beta is an inverse temperature on log-scores. Orthogonal patterns are exact minima, at 0 if
    they have one norm.
    """
    return state @ state / 2 - power_norm(Xi @ state, beta) + _largest_square(Xi) / 2


def polynomial_update(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float
) -> Float[Tensor, "D"]:
    """`Xi^T ([Xi x]_+ / |[Xi x]_+|_n)^(n-1)`: the concave-convex step.

    The weights sum to 1 only when one pattern takes all; beta -> 0 gives the *sum* of the patterns
    with a positive score, beta -> inf the best-matching one. Without a positive score it gives 0.
    """
    return power_attention(Xi @ state, beta) @ Xi


def sparse_energy(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float
) -> Float[Tensor, ""]:
    """`-Psi*(beta Xi x)/beta + |x|^2/2 + (1 - 1/M)/(2 beta) + m^2/2` (Hu et al. 2023).

    `Psi*` is the convex conjugate of the Gini entropy on the simplex. The constants make it at
    least 0, as for lse_dot.
    """
    constant = (1 - 1 / Xi.shape[0]) / (2 * beta) + _largest_square(Xi) / 2
    return state @ state / 2 - sparse_conjugate(Xi @ state, beta) + constant


def sparse_update(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float
) -> Float[Tensor, "D"]:
    """`Xi^T sparsemax(beta Xi x)`: far patterns have weight exactly 0, retrieval can be exact."""
    return sparsemax(Xi @ state, beta) @ Xi


# ---- the registry ----------------------------------------------------------------------------


def _no_bias(Xi: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch M"]:
    return Xi.new_zeros(Xi.shape[:-1])


def _norm_bias(Xi: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch M"]:
    return -Xi.square().sum(dim=-1) / 2


@dataclass(frozen=True)
class Energy:
    """A row of `ENERGIES`.

    `function` and `update` act on one state. The rest is the same energy in parts, for whole grids
    of states: `potential` (h), `attend` (w = grad h) and `curvature` (its Hessian) act on scores
    `Xi x + bias(Xi)`, and `constant` completes the energy. `attend_one` and `attend_step` are
    `attend` for the loops of retrieval.
    """

    name: str
    title: str
    latex: str
    description: str
    function: Callable[[Tensor, Tensor, float], Tensor]
    update: Callable[[Tensor, Tensor, float], Tensor]
    potential: Callable[..., Tensor]
    attend: Callable[..., Tensor]
    attend_one: Callable[[np.ndarray, float], np.ndarray]
    attend_step: Callable[[Tensor, float, Tensor], Tensor]
    curvature: Callable[..., tuple[Tensor, Tensor]]
    bias: Callable[[Tensor], Tensor]
    constant: Callable[..., Tensor | float]


ENERGIES: dict[str, Energy] = {
    row.name: row
    for row in (
        Energy(
            name="lse_dot",
            title="Log-sum-exp, dot product (modern Hopfield)",
            latex=r"E(x) = -\tfrac1\beta \log\sum_\mu e^{\beta\, \xi_\mu\cdot x} + \tfrac12\|x\|^2"
            r" + \tfrac{\log M}{\beta} + \tfrac{m^2}{2}",
            description="One update is one step of softmax attention.",
            function=lse_dot_energy,
            update=lse_dot_update,
            potential=log_sum_exp,
            attend=softmax,
            attend_one=_softmax_one,
            attend_step=_softmax_step,
            curvature=_softmax_curvature,
            bias=_no_bias,
            constant=lambda Xi, beta: math.log(Xi.shape[-2]) / beta + _largest_square(Xi) / 2,
        ),
        Energy(
            name="lse_l2",
            title="Log-sum-exp, distance (Gaussian mixture)",
            latex=r"E(x) = -\tfrac1\beta \log\sum_\mu e^{-\frac{\beta}{2}\|x-\xi_\mu\|^2}"
            r" + \tfrac{\log M}{\beta}",
            description="One update is one step of mean shift; long patterns get no head start.",
            function=lse_l2_energy,
            update=lse_l2_update,
            potential=log_sum_exp,
            attend=softmax,
            attend_one=_softmax_one,
            attend_step=_softmax_step,
            curvature=_softmax_curvature,
            bias=_norm_bias,
            constant=lambda Xi, beta: math.log(Xi.shape[-2]) / beta,
        ),
        Energy(
            name="polynomial",
            title="Polynomial (dense associative memory)",
            latex=r"E(x) = -\Bigl(\sum_\mu [\xi_\mu\cdot x]_+^{\,n}\Bigr)^{1/n} + \tfrac12\|x\|^2"
            r" + \tfrac{m^2}{2},\quad n = 1+\beta",
            description="Krotov-Hopfield dense memory of degree n = 1 + beta; the n-th root keeps "
            "it bounded below (ours).",
            function=polynomial_energy,
            update=polynomial_update,
            potential=power_norm,
            attend=power_attention,
            attend_one=_power_one,
            attend_step=_power_step,
            curvature=_power_curvature,
            bias=_no_bias,
            constant=lambda Xi, beta: _largest_square(Xi) / 2,
        ),
        Energy(
            name="sparse",
            title="Sparse (sparsemax)",
            latex=r"E(x) = -\tfrac1\beta \Psi^*(\beta\,\Xi x) + \tfrac12\|x\|^2"
            r" + \tfrac{1-1/M}{2\beta} + \tfrac{m^2}{2},\quad"
            r"\Psi^*(z) = \max_{p\in\Delta}\ p\cdot z - \tfrac12\|p\|^2 + \tfrac12",
            description="Sparsemax attention: distant patterns get weight exactly zero.",
            function=sparse_energy,
            update=sparse_update,
            potential=sparse_conjugate,
            attend=sparsemax,
            attend_one=_sparsemax_one,
            attend_step=sparsemax_step,
            curvature=_sparse_curvature,
            bias=_no_bias,
            constant=lambda Xi, beta: (1 - 1 / Xi.shape[-2]) / (2 * beta) + _largest_square(Xi) / 2,
        ),
    )
}


def energy_row(energy: str) -> Energy:
    """The row of an energy by name. Raises ValueError that lists the names."""
    if energy not in ENERGIES:
        raise ValueError(f"unknown energy {energy!r}; choose one of {', '.join(ENERGIES)}")
    return ENERGIES[energy]


# ---- batched twins ---------------------------------------------------------------------------


def scores_of(
    Xi: Float[Tensor, "*batch M D"], states: Float[Tensor, "*batch N D"], energy: str = "lse_dot"
) -> Float[Tensor, "*batch N M"]:
    """`Xi x + b` for many states: what the potential and the weights see."""
    return states @ Xi.mT + energy_row(energy).bias(Xi).unsqueeze(-2)


def energy_of(
    Xi: Float[Tensor, "M D"], states: Float[Tensor, "N D"], beta: float, energy: str = "lse_dot"
) -> Float[Tensor, "N"]:
    """Energies of many states; equals `torch.vmap` of `ENERGIES[energy].function`."""
    row = energy_row(energy)
    potential = row.potential(scores_of(Xi, states, energy), beta)
    return states.square().sum(dim=-1) / 2 - potential + row.constant(Xi, beta)


def attention(
    Xi: Float[Tensor, "M D"], states: Float[Tensor, "N D"], beta: float, energy: str = "lse_dot"
) -> Float[Tensor, "N M"]:
    """Weights of every pattern at many states; `attention(...) @ Xi` is the update."""
    return energy_row(energy).attend(scores_of(Xi, states, energy), beta)


def gradient(
    Xi: Float[Tensor, "M D"], states: Float[Tensor, "N D"], beta: float, energy: str = "lse_dot"
) -> Float[Tensor, "N D"]:
    """`x - T(x)` for many states; equals autograd of the energy."""
    return states - attention(Xi, states, beta, energy) @ Xi


def hessian(
    Xi: Float[Tensor, "M D"], states: Float[Tensor, "N D"], beta: float, energy: str = "lse_dot"
) -> Float[Tensor, "N D D"]:
    """`I - Xi^T h''(z) Xi`; equals `torch.func.hessian` of the energy where it has one.

    sparse is piecewise quadratic and polynomial has a kink in its slope at a score of 0: there it
    is the Hessian of one side.
    """
    diagonal, factor = energy_row(energy).curvature(scores_of(Xi, states, energy), beta)
    across = factor @ Xi  # (N, D)
    eye = torch.eye(Xi.shape[-1], dtype=Xi.dtype)
    return eye + across.unsqueeze(-1) * across.unsqueeze(-2) - (Xi.mT * diagonal[:, None]) @ Xi


def update(
    Xi: Float[Tensor, "M D"], state: Float[Tensor, "D"], beta: float, energy: str = "lse_dot"
) -> Float[Tensor, "D"]:
    """One update T(x) of one state."""
    return energy_row(energy).update(Xi, state, beta)


# ---- retrieval -------------------------------------------------------------------------------

OUTCOMES = (
    "retrieved",
    "wrong pattern",
    "mixture",
    "global average",
    "not converged",
    "no match",
)
RETRIEVED, WRONG, MIXTURE, AVERAGE, UNCONVERGED, NO_MATCH = range(len(OUTCOMES))
# A fixed point counts as the global average when it spreads over at least this share of patterns.
AVERAGE_SHARE = 0.9


@dataclass(frozen=True)
class Retrieval:
    """One query followed to its fixed point. S steps, so S + 1 states along the way."""

    state: Float[Tensor, "D"]  # where it ended
    trajectory: Float[Tensor, "S1 D"]  # query first
    energies: Float[Tensor, "S1"]  # never rising
    weights: Float[Tensor, "S1 M"]  # attention at each state
    target: int  # the pattern that should be retrieved (mu)
    pattern: int  # the pattern with the largest weight at the end
    effective: float  # exp(entropy of the final weights): how many patterns share them
    code: int  # index into OUTCOMES
    outcome: str  # in words: "retrieved 0", "mixture of 3", ... (patterns count from 0)
    message: str  # what happened and what to do about it
    converged: bool

    @property
    def steps(self) -> int:
        return len(self.trajectory) - 1


@dataclass(frozen=True)
class RetrievalBatch:
    """Many queries followed to their fixed points; entries as in `Retrieval`."""

    states: Float[Tensor, "*batch N D"]
    weights: Float[Tensor, "*batch N M"]
    effective: Float[Tensor, "*batch N"]
    codes: Int[Tensor, "*batch N"]
    steps: Int[Tensor, "*batch N"]
    converged: Bool[Tensor, "*batch N"]


BETA_RANGE = (1e-9, 1e9)  # beyond it log(M) / beta or beta times a score leaves float64


def check_beta(beta: float) -> float:
    """beta as a float in BETA_RANGE, or ValueError."""
    value, (low, high) = float(beta), BETA_RANGE
    if not low <= value <= high:  # also false for NaN
        raise ValueError(f"beta must be a positive number in {low:g}..{high:g}, got {beta}")
    return value


def check_patterns(Xi: Tensor) -> Tensor:
    """Patterns as a finite floating matrix with at least one row, or ValueError."""
    if Xi.dim() != 2 or Xi.shape[0] < 1 or Xi.shape[1] < 1:
        raise ValueError(
            f"expected patterns as rows of a matrix (M, D) with M, D >= 1, got {tuple(Xi.shape)}"
        )
    if not Xi.is_floating_point():
        raise ValueError(
            f"expected floating-point patterns, got {Xi.dtype}; call .double() on them"
        )
    if not Xi.isfinite().all():
        raise ValueError("patterns contain NaN or infinite entries; remove or replace those rows")
    return Xi


def _check_queries(Xi: Tensor, queries: Tensor) -> None:
    if queries.shape[-1] != Xi.shape[-1]:
        raise ValueError(
            f"expected a query of dimension {Xi.shape[-1]}, as the patterns have, "
            f"got {queries.shape[-1]}"
        )
    if not queries.isfinite().all():
        raise ValueError("the query contains NaN or infinite entries; choose a finite query")


def classify(
    weights: Float[Tensor, "*batch M"],
    targets: Int[Tensor, "*batch"],
    converged: Bool[Tensor, "*batch"],
) -> tuple[Int[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Outcome codes from weights at fixed points, and the effective number of patterns.

    With `k = exp(entropy)`: k rounds to 1 - that pattern was retrieved (right or wrong); k at
    least 0.9 M - the global average; else a mixture of k. Weights that sum to 0 (polynomial only)
    match nothing.
    """
    M = weights.shape[-1]
    total = weights.sum(dim=-1)
    shares = weights / total.clamp_min(torch.finfo(weights.dtype).tiny).unsqueeze(-1)
    effective = torch.special.entr(shares).sum(dim=-1).exp()
    single = effective < 1.5
    right = weights.argmax(dim=-1) == targets
    codes = torch.where(single, torch.where(right, RETRIEVED, WRONG), MIXTURE)
    codes = torch.where(~single & (effective >= AVERAGE_SHARE * M), AVERAGE, codes)
    codes = torch.where(total == 0, NO_MATCH, codes)
    return torch.where(converged, codes, UNCONVERGED), effective


def describe(code: int, pattern: int, effective: float) -> str:
    """An outcome in words: `retrieved 0`, `wrong pattern 3`, `mixture of 2`, ..."""
    suffix = {RETRIEVED: f" {pattern}", WRONG: f" {pattern}", MIXTURE: f" of {round(effective)}"}
    return OUTCOMES[code] + suffix.get(code, "")


def _remedy(
    code: int, weights: Tensor, target: int, steps: int, moved: float, effective: float
) -> str:
    best = int(weights.argmax())
    share = float(weights[best] / weights.sum()) if code != NO_MATCH else 0.0
    took = f"Converged in {steps} step{'' if steps == 1 else 's'}"
    match code:
        case 0:
            return f"{took} to pattern {best}, which holds {share:.1%} of the weight."
        case 1:
            return (
                f"{took} to pattern {best} instead of {target}: the query lies in its basin. "
                f"Reduce the noise, or reshape the memories towards the query."
            )
        case 2:
            return (
                f"{took} between about {round(effective)} patterns; the largest share is "
                f"{share:.1%}. Raise beta or separate the patterns to tell them apart."
            )
        case 3:
            return (
                f"{took} to the average of all {len(weights)} patterns: beta is too low for their "
                f"separation. Raise beta."
            )
        case 4:
            return (
                f"After {steps} steps the weights still move by {moved:.1e} a step. Raise "
                f"max_steps, or move beta away from the value at which two minima merge."
            )
        case _:
            return (
                "No pattern has a positive overlap with the state, so the polynomial energy pulls "
                "it to the origin. Start nearer to a pattern or choose another energy."
            )


def retrieve(
    Xi: Float[Tensor, "M D"],
    query: Float[Tensor, "D"],
    beta: float,
    energy: str = "lse_dot",
    target: int | None = None,
    max_steps: int = 500,
    tol: float = 1e-9,
) -> Retrieval:
    """Iterate the update from `query` until the weights stand still.

    `target` is the pattern that ought to be retrieved; by default the one with the largest score
    at the query. Converged means that a step moves the weights by at most `tol` in l1, hence the
    state by at most `tol` times the largest pattern norm. After the first step the state is a
    combination of patterns, so the loop runs on scores with the Gram matrix, M x M a step.

    Raises ValueError for non-finite input, a shape that does not fit, beta <= 0, an unknown
    energy, a target out of range or max_steps < 1.
    """
    row, beta = energy_row(energy), check_beta(beta)
    check_patterns(Xi)
    if query.dim() != 1:
        raise ValueError(f"expected one query (D,), got shape {tuple(query.shape)}")
    _check_queries(Xi, query)
    if max_steps < 1:
        raise ValueError(f"max_steps must be at least 1, got {max_steps}")
    M = Xi.shape[0]
    if target is not None and not 0 <= target < M:
        raise ValueError(f"target must be a pattern index in 0..{M - 1}, got {target}")

    bias = row.bias(Xi)
    scores = Xi @ query + bias
    if target is None:
        target = int(scores.argmax())
    shift, gram = bias.numpy(), (Xi @ Xi.mT).numpy()
    history = [row.attend_one(scores.numpy(), beta)]
    moved = math.inf
    while len(history) <= max_steps and moved > tol:
        history.append(row.attend_one(gram @ history[-1] + shift, beta))
        moved = float(np.abs(history[-1] - history[-2]).sum())

    weights = torch.from_numpy(np.stack(history))
    trajectory = torch.cat([query.unsqueeze(0), weights[:-1] @ Xi])
    converged = moved <= tol
    codes, counts = classify(weights[-1], torch.tensor(target), torch.tensor(converged))
    code, effective, pattern = int(codes), float(counts), int(weights[-1].argmax())
    return Retrieval(
        state=trajectory[-1],
        trajectory=trajectory,
        energies=energy_of(Xi, trajectory, beta, energy),
        weights=weights,
        target=target,
        pattern=pattern,
        effective=effective,
        code=code,
        outcome=describe(code, pattern, effective),
        message=_remedy(code, weights[-1], target, len(history) - 1, moved, effective),
        converged=converged,
    )


_REACH = 1.9  # of hastened retrieval, see `retrieve_batch`


def retrieve_batch(
    Xi: Float[Tensor, "*batch M D"],
    queries: Float[Tensor, "*batch N D"],
    beta: float,
    energy: str = "lse_dot",
    targets: Int[Tensor, "*batch N"] | None = None,
    max_steps: int = 500,
    tol: float = 1e-9,
    gram: Float[Tensor, "*batch M M"] | None = None,
    hasten_after: int | None = None,
) -> RetrievalBatch:
    """`retrieve` for many queries at once, without their trajectories.

    `Xi` is one set of patterns for all queries, or `(S, M, D)`: S sets with N queries each. What
    has converged leaves the loop, so the slowest queries do not hold up the rest. `gram` is
    `Xi @ Xi.mT` where a caller has it already, as a sweep over beta does.

    `hasten_after` is for callers that ask only where queries end: after that many steps three of
    four go `_REACH` times as far as the update. On the segment from x to `x + a (T(x) - x)`,
    0 <= a <= 2, the energy lies below the quadratic of the concave-convex step, which is at most
    E(x) there. So no such step raises the energy or leaves the component of `{E <= E(x)}` that x is
    in: the end is the same once that component holds one minimum, which the steps before are for.
    Arrival is judged by the plain update.
    """
    row, beta = energy_row(energy), check_beta(beta)
    _check_queries(Xi, queries)
    shared = Xi.dim() == 2
    bias = row.bias(Xi).unsqueeze(-2)
    gram = Xi @ Xi.mT if gram is None else gram
    current = row.attend(scores := queries @ Xi.mT + bias, beta)
    if targets is None:
        targets = scores.argmax(dim=-1)

    final = torch.empty_like(current)
    steps = torch.zeros(current.shape[:-1], dtype=torch.long)
    converged = torch.zeros(current.shape[:-1], dtype=torch.bool)
    left = torch.arange(current.shape[0])  # queries, or sets of them, still in the loop
    following = current
    moving, taken = ~converged, steps.clone()
    plain = max_steps if hasten_after is None else hasten_after
    for step in range(max_steps):
        scores = torch.addmm(bias, current, gram) if shared else current @ gram + bias
        following = row.attend_step(scores, beta, following)
        taken += moving
        if step >= plain and step % 4 and step < max_steps - 1:
            current = torch.lerp(current, following, _REACH)
            continue
        moving = moving & ((following - current).abs_().sum(dim=-1) > tol)
        current = following
        finished = ~moving if shared else ~moving.any(dim=-1)
        # Copying what remains costs about as much as a step: do it when a quarter has finished.
        if 4 * int(finished.sum()) >= len(left):
            gone = left[finished]
            final[gone], steps[gone], converged[gone] = current[finished], taken[finished], True
            stay = ~finished
            left, moving, taken = left[stay], moving[stay], taken[stay]
            current = following = current[stay]
            if not shared:
                gram, bias = gram[stay], bias[stay]
            if not len(left):
                break
    final[left], steps[left], converged[left] = current, taken, ~moving

    codes, effective = classify(final, targets, converged)
    return RetrievalBatch(final @ Xi, final, effective, codes, steps, converged)
