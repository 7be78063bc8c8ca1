"""How far apart patterns are, how well one update retrieves them, and what theory promises.

For patterns `Xi (M, D)`, largest norm m, a query x that should retrieve pattern mu:

    separation   Delta_mu = min over nu != mu of  xi_mu . xi_mu - xi_mu . xi_nu
    margin       S_mu(x)  = x . xi_mu - max over nu != mu of  x . xi_nu
    error        |T(x) - xi_mu|
    bound (a)    2 m (M - 1) exp(-beta S_mu(x))
    bound (b)    2 m (M - 1) exp(-beta (Delta_mu - 2 m max(|x - xi_mu|, |x* - xi_mu|)))

(a) is elementary: `T(x) - xi_mu = sum p_nu (xi_nu - xi_mu)` and `1 - p_mu <= (M-1) exp(-beta S)`.
(b) is Ramsauer et al. 2020, Theorem 5, with x* the fixed point near xi_mu. Since
`S_mu(x) >= Delta_mu - 2 m |x - xi_mu|`, (b) is never below (a). Both are statements about softmax
weights (lse_dot); `BOUNDS_HOLD` says for which other energies they hold. An error never exceeds 2m,
so a bound above 2m is vacuous.

Everything is batched on leading dimensions: `Xi (*batch, M, D)`, `query (*batch, D)`,
`mu (*batch)` or one int.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.hopfield import (
    OUTCOMES,
    check_beta,
    energy_row,
    retrieve_batch,
)
from core.patterns import LAYOUTS, check_seed, draw_patterns, gaussian

# ---- quantities of one set of patterns, batched ----------------------------------------------


def _pick(values: Tensor, mu: int | Tensor) -> Tensor:
    """Entry mu of the last dimension."""
    if isinstance(mu, int):
        return values[..., mu]
    return values.gather(-1, mu.unsqueeze(-1)).squeeze(-1)


def pattern_of(
    Xi: Float[Tensor, "*batch M D"], mu: int | Int[Tensor, "*batch"]
) -> Float[Tensor, "*batch D"]:
    """Pattern mu of every set."""
    if isinstance(mu, int):
        return Xi[..., mu, :]
    index = mu[..., None, None].expand(*Xi.shape[:-2], 1, Xi.shape[-1])
    return Xi.gather(-2, index).squeeze(-2)


def _without(scores: Float[Tensor, "*batch M"], mu: int | Tensor) -> Float[Tensor, "*batch M"]:
    """Scores with entry mu at -inf, so that a maximum runs over the others."""
    index = torch.as_tensor(mu, device=scores.device)
    index = index.expand(scores.shape[:-1]).unsqueeze(-1)
    return scores.scatter(-1, index, -math.inf)


def largest_norm(Xi: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch"]:
    """m, the largest norm of a pattern."""
    return Xi.norm(dim=-1).amax(dim=-1)


def separation(Xi: Float[Tensor, "*batch M D"]) -> Float[Tensor, "*batch M"]:
    """Delta of every pattern; +inf for a single pattern. Negative if another overlaps it more."""
    return _separation(Xi @ Xi.mT)


def _separation(gram: Float[Tensor, "*batch M M"]) -> Float[Tensor, "*batch M"]:
    own = gram.diagonal(dim1=-2, dim2=-1)
    others = gram.masked_fill(torch.eye(gram.shape[-1], dtype=torch.bool), -math.inf)
    return own - others.amax(dim=-1)


def query_margin(
    Xi: Float[Tensor, "*batch M D"],
    query: Float[Tensor, "*batch D"],
    mu: int | Int[Tensor, "*batch"],
) -> Float[Tensor, "*batch"]:
    """S_mu(x); +inf for a single pattern, negative if another pattern overlaps the query more."""
    return _margin((Xi @ query.unsqueeze(-1)).squeeze(-1), mu)


def _margin(scores: Float[Tensor, "*batch M"], mu: int | Tensor) -> Float[Tensor, "*batch"]:
    return _pick(scores, mu) - _without(scores, mu).amax(dim=-1)


def one_update(
    Xi: Float[Tensor, "*batch M D"],
    query: Float[Tensor, "*batch D"],
    beta: float,
    energy: str = "lse_dot",
) -> Float[Tensor, "*batch D"]:
    """T(x), one query for each set of patterns."""
    row = energy_row(energy)
    scores = (Xi @ query.unsqueeze(-1)).squeeze(-1) + row.bias(Xi)
    return (row.attend(scores, beta).unsqueeze(-2) @ Xi).squeeze(-2)


def retrieval_error(
    Xi: Float[Tensor, "*batch M D"],
    query: Float[Tensor, "*batch D"],
    beta: float,
    mu: int | Int[Tensor, "*batch"],
    energy: str = "lse_dot",
) -> Float[Tensor, "*batch"]:
    """|T(x) - xi_mu| after one update; between 0 and 2m for weights on the simplex."""
    return (one_update(Xi, query, beta, energy) - pattern_of(Xi, mu)).norm(dim=-1)


def margin_bound(
    Xi: Float[Tensor, "*batch M D"],
    query: Float[Tensor, "*batch D"],
    beta: float,
    mu: int | Int[Tensor, "*batch"],
) -> Float[Tensor, "*batch"]:
    """Bound (a); 0 for a single pattern, +inf where the exponential overflows."""
    return _bound(Xi.shape[-2], largest_norm(Xi), beta, query_margin(Xi, query, mu))


def _bound(M: int, m: Tensor, beta: float, gap: Tensor) -> Tensor:
    """`2 m (M - 1) exp(-beta gap)`, the form both bounds have; 0 for a single pattern."""
    if M == 1:
        return torch.zeros_like(m)
    return 2 * m * (M - 1) * (-beta * gap).exp()


def fixed_point_near(
    Xi: Float[Tensor, "*batch M D"],
    beta: float,
    mu: int | Int[Tensor, "*batch"],
    max_steps: int = 400,
    tol: float = 1e-9,
    gram: Float[Tensor, "*batch M M"] | None = None,
) -> Float[Tensor, "*batch D"]:
    """x*, where the lse_dot update ends when it starts at pattern mu.

    Equals `retrieve(Xi, Xi[mu], beta).state`. Steps are taken in runs that grow, with one check at
    the end of each: most sets arrive in a step or two, a few near the merging of two minima take
    hundreds, and there a check costs more than a step. `gram` is `Xi @ Xi.mT` if at hand.
    """
    M = Xi.shape[-2]
    gram = (Xi @ Xi.mT if gram is None else gram).reshape(-1, M, M)
    index = torch.as_tensor(mu).expand(Xi.shape[:-2]).reshape(-1, 1, 1).expand(-1, 1, M)
    current = (beta * gram.gather(-2, index)).softmax(dim=-1)  # (S, 1, M)
    final, left, step = torch.empty_like(current), torch.arange(len(gram)), 0
    while step < max_steps and len(left):
        for _ in range(min(max(1, step // 2), max_steps - step)):
            previous, step = current, step + 1
            current = torch.baddbmm(current, current, gram, beta=0, alpha=beta).softmax(dim=-1)
        moving = (current - previous).abs().sum(dim=-1).squeeze(-1) > tol
        # As in retrieve_batch: copying what remains costs about a step.
        if 4 * int(moving.sum()) <= 3 * len(left) or step >= max_steps:
            final[left] = current
            left, current, gram = left[moving], current[moving], gram[moving]
    return (final.reshape(*Xi.shape[:-2], 1, M) @ Xi).squeeze(-2)


def ramsauer_bound(
    Xi: Float[Tensor, "*batch M D"],
    query: Float[Tensor, "*batch D"],
    beta: float,
    mu: int | Int[Tensor, "*batch"],
    fixed_point: Float[Tensor, "*batch D"] | None = None,
) -> Float[Tensor, "*batch"]:
    """Bound (b); `fixed_point` is x*, computed when not given. 0 for a single pattern."""
    M, m = Xi.shape[-2], largest_norm(Xi)
    if M == 1:
        return torch.zeros_like(m)
    if fixed_point is None:
        fixed_point = fixed_point_near(Xi, beta, mu)
    target = pattern_of(Xi, mu)
    away = torch.maximum((query - target).norm(dim=-1), (fixed_point - target).norm(dim=-1))
    return _bound(M, m, beta, _pick(separation(Xi), mu) - 2 * m * away)


def is_vacuous(
    bound: Float[Tensor, "*batch"], Xi: Float[Tensor, "*batch M D"]
) -> Bool[Tensor, "*batch"]:
    """Whether a bound says nothing: above 2m, which no error can exceed."""
    return bound > 2 * largest_norm(Xi)


def well_separated(
    Xi: Float[Tensor, "*batch M D"], beta: float, mu: int | Int[Tensor, "*batch"]
) -> Bool[Tensor, "*batch"]:
    """`Delta_mu >= 2/(beta M) + log(2 (M-1) M beta m^2)/beta` (Ramsauer et al. 2020).

    Always true of a single pattern.
    """
    return _far_apart(_pick(separation(Xi), mu), Xi.shape[-2], largest_norm(Xi), beta)


def _far_apart(delta: Tensor, M: int, m: Tensor, beta: float) -> Tensor:
    if M == 1:
        return torch.ones_like(delta, dtype=torch.bool)
    return delta >= 2 / (beta * M) + (2 * (M - 1) * M * beta * m**2).log() / beta


BOUNDS_HOLD = {
    "lse_dot": "Both bounds are theorems for this energy.",
    "lse_l2": "All patterns here have norm 1, so softmax(−β|x − ξ|²/2) and softmax(β x·ξ) are the "
    "same weights: both bounds hold as for lse_dot.",
    "sparse": "Both bounds hold for sparsemax too (ours): its weights satisfy "
    "p_ν ≤ max(0, 1 − βS) ≤ exp(−βS) for every ν other than μ.",
}
"""Energies for which the studies' bounds are theorems, and why; an energy not named has none.

All three have weights that sum to 1, so `|T(x) - xi_mu| <= 2m (1 - p_mu)` and (a) follows once each
other weight is at most `exp(-beta S)`. For sparsemax *(ours)*: with scores `z = beta Xi x` and
threshold tau, `p_nu = max(0, z_nu - tau)` and `z_nu <= z_mu - beta S`. If `p_mu > 0` then
`z_mu - tau = p_mu <= 1`, hence `p_nu <= max(0, 1 - beta S)`; if `p_mu = 0` then `z_mu <= tau` and
`p_nu <= max(0, -beta S)`. And `1 - s <= exp(-s)` for every s. (b) is never below (a).
"""


def bounds_apply(Xi: Float[Tensor, "M D"], energy: str) -> bool:
    """Whether both bounds are theorems for these patterns: lse_l2 needs them to have one norm."""
    if energy == "lse_l2":
        squares = Xi.square().sum(dim=-1)
        return bool(squares.max() - squares.min() <= 1e-9 * squares.max())
    return energy in BOUNDS_HOLD


# ---- Monte-Carlo studies ---------------------------------------------------------------------

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
VARIABLES = ("beta", "noise", "patterns", "dimension")
# Floats a study may hold at once (draws x patterns x dimension): 256 MB in float64.
MAX_NUMBERS = 32_000_000


@dataclass(frozen=True)
class StudySettings:
    """What the retrieval-error studies draw. Patterns have unit norm, so `beta` is on that scale.

    A query is pattern 0 plus Gaussian noise of expected length about `noise` (relative to the
    pattern's norm, 1). `draws` independent sets of patterns and queries come from `seed`.
    """

    energy: str = "lse_dot"
    beta: float = 8.0
    noise: float = 0.5
    patterns: int = 16  # M
    dimension: int = 20  # D
    layout: str = "random"
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        energy_row(self.energy)
        check_beta(self.beta)
        if self.layout not in LAYOUTS:
            raise ValueError(f"unknown layout {self.layout!r}; choose one of {', '.join(LAYOUTS)}")
        check_seed(self.seed)
        if not 0 <= self.noise <= 1e6:
            raise ValueError(f"noise must be a number in 0..1e6, got {self.noise}")
        if self.patterns < 1 or self.dimension < 2 or self.draws < 1:
            raise ValueError(
                f"expected patterns >= 1, dimension >= 2 and draws >= 1, got {self.patterns}, "
                f"{self.dimension} and {self.draws}"
            )
        numbers = self.patterns * self.dimension * self.draws
        if numbers > MAX_NUMBERS:
            raise ValueError(
                f"draws x patterns x dimension is {numbers:,}, above {MAX_NUMBERS:,}; "
                f"reduce one of them"
            )


@dataclass(frozen=True)
class ErrorStudy:
    """Retrieval error after one update, V values of one setting by S draws."""

    settings: StudySettings
    vary: str
    values: Float[np.ndarray, "V"]
    error: Float[np.ndarray, "V S"]
    bound_margin: Float[np.ndarray, "V S"]  # (a)
    bound_ramsauer: Float[np.ndarray, "V S"]  # (b)
    delta: Float[np.ndarray, "V S"]
    margin: Float[np.ndarray, "V S"]
    two_m: Float[np.ndarray, "V S"]  # a bound above it is vacuous
    error_quantiles: Float[np.ndarray, "V 5"]  # at QUANTILES
    bound_margin_quantiles: Float[np.ndarray, "V 5"]
    bound_ramsauer_quantiles: Float[np.ndarray, "V 5"]
    vacuous_margin: Float[np.ndarray, "V"]  # share of draws in which (a) is vacuous
    vacuous_ramsauer: Float[np.ndarray, "V"]
    well_separated: Float[np.ndarray, "V"]  # share of draws
    retrieved: Float[np.ndarray, "V"]  # share of draws whose T(x) is nearest to pattern 0
    violations: int  # samples above a bound; 0 wherever bounds_apply
    bounds_apply: bool  # whether the bounds are theorems for this energy, see BOUNDS_HOLD
    quantile_levels: tuple[float, ...] = QUANTILES


def draw_study(settings: StudySettings) -> tuple[Tensor, Tensor]:
    """Patterns `(S, M, D)` and unit-noise directions `(S, D)`: x = xi_0 + noise * direction."""
    generator = torch.Generator().manual_seed(settings.seed)
    D = settings.dimension
    Xi = draw_patterns(settings.layout, settings.patterns, D, generator, batch=settings.draws)
    return Xi, gaussian(settings.draws, D, generator=generator) / math.sqrt(D)


def default_values(vary: str) -> tuple[float, ...]:
    """The grid a study of `vary` covers when none is given."""
    match vary:
        case "beta":
            return tuple(np.geomspace(0.5, 200, 25).tolist())
        case "noise":
            return tuple(np.linspace(0, 2, 21).tolist())
        case "patterns" | "dimension":
            return tuple(float(size) for size in (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64))
    raise ValueError(f"cannot vary {vary!r}; choose one of {', '.join(VARIABLES)}")


def _with(settings: StudySettings, vary: str, value: float) -> StudySettings:
    """The settings at one point of a study; their own checks apply."""
    match vary:
        case "beta":
            return replace(settings, beta=float(value))
        case "noise":
            return replace(settings, noise=float(value))
        case "patterns":
            return replace(settings, patterns=int(value))
        case _:
            return replace(settings, dimension=int(value))


def error_study(
    settings: StudySettings, vary: str = "beta", values: tuple[float, ...] | None = None
) -> ErrorStudy:
    """Retrieval error and both bounds while one setting varies and the others stand.

    Along beta and noise every value sees the same draws, so curves are smooth and comparable.
    Raises ValueError for an unknown variable, no values, or a value its setting does not allow.
    """
    values = default_values(vary) if values is None else tuple(values)
    if vary not in VARIABLES:
        raise ValueError(f"cannot vary {vary!r}; choose one of {', '.join(VARIABLES)}")
    if not values:
        raise ValueError("expected at least one value to study, got none")
    whole = vary in ("patterns", "dimension")
    points = [_with(settings, vary, value) for value in values]

    columns: dict[str, list[Tensor]] = {
        name: [] for name in ("error", "a", "b", "delta", "margin", "two_m", "separated", "hit")
    }
    row = energy_row(settings.energy)
    drawn = star_away = None
    for point in points:
        # What does not depend on the value that varies is computed once.
        if drawn is None or whole:
            drawn = Xi, direction = draw_study(point)
            M, target, m = Xi.shape[1], Xi[:, 0], largest_norm(Xi)
            gram, bias = Xi @ Xi.mT, row.bias(Xi)
            delta, halves = _separation(gram)[:, 0], gram.diagonal(dim1=-2, dim2=-1) / 2
        if star_away is None or vary != "noise":
            star = fixed_point_near(Xi, point.beta, 0, gram=gram)
            star_away = (star - target).norm(dim=-1)
        query = target + point.noise * direction
        scores = (Xi @ query.unsqueeze(-1)).squeeze(-1)
        weights = row.attend(scores + bias, point.beta).unsqueeze(-2)
        ended = (weights @ Xi).squeeze(-2)
        margin = _margin(scores, 0)
        away = torch.maximum((query - target).norm(dim=-1), star_away)
        nearest = ((weights @ gram).squeeze(-2) - halves).argmax(dim=-1)
        columns["error"].append((ended - target).norm(dim=-1))
        columns["a"].append(_bound(M, m, point.beta, margin))
        columns["b"].append(_bound(M, m, point.beta, delta - 2 * m * away))
        columns["delta"].append(delta)
        columns["margin"].append(margin)
        columns["two_m"].append(2 * m)
        columns["separated"].append(_far_apart(delta, M, m, point.beta).double())
        columns["hit"].append((nearest == 0).double())
    table = {name: torch.stack(rows).numpy() for name, rows in columns.items()}

    def bands(name: str) -> np.ndarray:
        # Interpolating between two infinities is NaN; "lower" picks a sample instead.
        return np.quantile(table[name], QUANTILES, axis=1, method="lower").T

    # An error that is rounding noise may sit above a bound that underflows: allow float64 epsilon.
    slack = 1e-12 * table["two_m"]
    over = (table["error"] > table["a"] + slack) | (table["error"] > table["b"] + slack)
    return ErrorStudy(
        settings=settings,
        vary=vary,
        values=np.asarray(values, dtype=float),
        error=table["error"],
        bound_margin=table["a"],
        bound_ramsauer=table["b"],
        delta=table["delta"],
        margin=table["margin"],
        two_m=table["two_m"],
        error_quantiles=bands("error"),
        bound_margin_quantiles=bands("a"),
        bound_ramsauer_quantiles=bands("b"),
        vacuous_margin=(table["a"] > table["two_m"]).mean(axis=1),
        vacuous_ramsauer=(table["b"] > table["two_m"]).mean(axis=1),
        well_separated=table["separated"].mean(axis=1),
        retrieved=table["hit"].mean(axis=1),
        violations=int(over.sum()),
        bounds_apply=settings.energy in BOUNDS_HOLD,
    )


@dataclass(frozen=True)
class PhaseMap:
    """Outcome of retrieval to the fixed point over noise (rows) and beta (columns)."""

    settings: StudySettings
    betas: Float[np.ndarray, "B"]
    noises: Float[np.ndarray, "N"]
    share: Float[np.ndarray, "N B K"]  # share of draws with each outcome, in the order of OUTCOMES
    most_common: Int[np.ndarray, "N B"]  # index into OUTCOMES
    retrieved: Float[np.ndarray, "N B"]  # share[..., 0]
    draws: int
    outcomes: tuple[str, ...] = OUTCOMES


def phase_map(
    settings: StudySettings,
    betas: tuple[float, ...] | None = None,
    noises: tuple[float, ...] | None = None,
    draws: int | None = None,
    max_steps: int = 100,
    tol: float = 1e-6,
) -> PhaseMap:
    """Which outcome retrieval has, over a grid of noise and beta, on common draws.

    `draws` defaults to at most 60 of `settings.draws`. Steps and tolerance are looser than in
    `retrieve`: an outcome is a category, and only cells at a transition notice.
    """
    betas = tuple(np.geomspace(0.5, 200, 24).tolist()) if betas is None else tuple(betas)
    noises = tuple(np.linspace(0, 2.5, 21).tolist()) if noises is None else tuple(noises)
    if not betas or not noises:
        raise ValueError("expected at least one beta and one noise level")
    if any(not (math.isfinite(noise) and noise >= 0) for noise in noises):
        raise ValueError(f"noise levels must be finite numbers >= 0, got {noises}")
    count = min(settings.draws, 60) if draws is None else draws
    Xi, direction = draw_study(replace(settings, draws=count))
    levels = torch.tensor(noises, dtype=Xi.dtype)
    queries = Xi[:, :1] + levels[:, None] * direction.unsqueeze(1)  # (S, N, D)
    targets = torch.zeros(queries.shape[:-1], dtype=torch.long)

    share = np.zeros((len(noises), len(betas), len(OUTCOMES)))
    gram = Xi @ Xi.mT
    for column, beta in enumerate(betas):
        found = retrieve_batch(Xi, queries, beta, settings.energy, targets, max_steps, tol, gram)
        hits = torch.nn.functional.one_hot(found.codes, len(OUTCOMES)).double().mean(dim=0)
        share[:, column] = hits.numpy()
    return PhaseMap(
        settings=settings,
        betas=np.asarray(betas, dtype=float),
        noises=np.asarray(noises, dtype=float),
        share=share,
        most_common=share.argmax(axis=-1),
        retrieved=share[..., 0],
        draws=count,
    )
