"""The generalisation bound of CAMR Theorem 3.2 beside what it bounds: one-layer softmax attention.

A prompt P_t of t pairs (score s_i = q . k_i, value v_i) answers `f(P_t; q) = sum softmax(s)_i v_i`.
If |s_i| <= Gamma, |v_i| <= C0, |v_j - v_j'| <= C0 for a swapped pair, and the loss is M-Lipschitz
in the prediction, then

    E[R(P_t) - R_emp(P_t)] <= M C0 (4 Gamma + 1) e^(2 Gamma) / t.

Derivation of the constant *(ours)*: swapping one pair moves one score by at most 2 Gamma and no
weight exceeds e^(2 Gamma)/t, so the weights move by at most 4 Gamma e^(2 Gamma)/t in l1 and the
output by at most C0 (4 Gamma + 1) e^(2 Gamma)/t: uniform stability, from which the gap follows
(Bousquet and Elisseeff 2002; Li et al. 2023). It bounds the gap, not the error.

Measured here, in the same units (M times a change of the output):

- `R(P_t)`: mean loss at fresh pairs of the same prompt law; `R_emp(P_t)`: mean loss at the prompt's
  own pairs, each asked while all t pairs, itself included, are in the prompt. Their difference is
  the gap; its mean is measured pair by pair (`_gaps`), which is unbiased and far less noisy.
- Stability under swaps with fresh pairs (mean and largest), and under the worst swap that the
  hypotheses allow. The latter is exact: the output is a Moebius function of e^(s') and linear in
  v', so the worst is at a corner of the allowed set.
- `sharpest` *(ours)*: the largest change over all prompts and swaps that meet the hypotheses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.patterns import gaussian, on_sphere
from core.prompts import PromptLaw, sample_prompts

# (xs (B, P, D), ys (B, P)) -> queries (B, P, K) times beta, keys (B, P, K), values (B, P) as read
Head = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]

LOSSES = ("absolute", "squared")
KEYS: dict[str, str] = {
    "sphere": "uniform on the unit sphere",
    "raw": "regression inputs, N(-2, I)",
    "normalised": "N(-2, I) divided by its norm",
}
MOST_SCORES = 100_000_000  # of all swaps at the longest length: about a second of work


# ---- the bound ----------------------------------------------------------------------------------


def log10_bound(
    t: np.ndarray | float | int, gamma: float, c0: float = 1.0, lipschitz: float = 1.0
) -> np.ndarray:
    """Decimal logarithm of `bound`, finite for every Gamma."""
    for name, value in (("gamma", gamma), ("c0", c0), ("lipschitz", lipschitz)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name}: expected a finite number >= 0, got {value}")
    size = c0 * lipschitz
    constant = math.log10(size) if size > 0 else -math.inf
    constant += math.log10(4 * gamma + 1) + 2 * gamma / math.log(10)
    return np.asarray(constant - np.log10(np.asarray(t, dtype=float)))


def bound(
    t: np.ndarray | float | int, gamma: float, c0: float = 1.0, lipschitz: float = 1.0
) -> np.ndarray:
    """`M C0 (4 Gamma + 1) e^(2 Gamma) / t`; inf where it overflows (see `log10_bound`)."""
    with np.errstate(over="ignore"):
        return np.asarray(np.power(10.0, log10_bound(t, gamma, c0, lipschitz)))


def sharpest(t: np.ndarray | float | int, gamma: float, c0: float = 1.0) -> np.ndarray:
    """Largest change of the output by one swap, over all that meets the hypotheses *(ours)*.

    With weights p and p' <= p of the swapped pair and m the mean of the other values, the change is
    `p v - p' v' - (p - p') m`, largest at v = C0, v' = 0, m = -C0: `C0 (2 p - p')`. It remains to
    choose the others' total weight R: with a = e^Gamma, b = e^-Gamma, `2a/(R + a) - b/(R + b)` is
    largest at `R = (a - b s)/(s - 1)`, `s = sqrt(2 a/b)`, or at the nearer end of `(t - 1) [b, a]`.
    """
    t = np.asarray(t, dtype=float)
    gamma = min(gamma, 300.0)  # beyond, p' is below rounding and e^(2 Gamma) overflows
    root = math.exp(gamma)
    best = (root - math.sqrt(2)) / (math.sqrt(2) - 1 / root)  # R in units of b
    others = np.clip(best, t - 1, (t - 1) * root**2)
    return np.asarray(c0 * (2 / (1 + others / root**2) - 1 / (1 + others)))


def log10_needed(gamma: float) -> float:
    """log10 of the t from which the bound says anything, that is, falls below 2 M C0.

    Predictions and targets lie within C0 of 0, so no two losses differ by more than 2 M C0.
    """
    return math.log10(4 * gamma + 1) + 2 * gamma / math.log(10) - math.log10(2)


# ---- one swap -----------------------------------------------------------------------------------


def swapped_outputs(
    scores: Float[Tensor, "*b t"],
    values: Float[Tensor, "*b t"],
    new_scores: Float[Tensor, "*b S"],
    new_values: Float[Tensor, "*b S"],
) -> Float[Tensor, "*b t S"]:
    """Outputs after pair j became new pair s, for all j and s, at scores of any size.

    Equals the softmax average of the changed prompt: the mean of the others, moved towards the new
    value by its weight `sigmoid(s' - lse(others))`.
    """
    total, mean = _others(scores, values)
    weight = torch.sigmoid(new_scores[..., None, :] - total[..., None])
    return torch.lerp(mean[..., None], new_values[..., None, :], weight)


def worst_swap(
    scores: Float[Tensor, "*b t"], values: Float[Tensor, "*b t"], gamma: float, c0: float
) -> Float[Tensor, "*b"]:
    """Largest change of the output over all swaps of one pair that the hypotheses allow, exactly.

    The new pair may have any score in [-Gamma, Gamma] and any value within C0 of 0 and of the value
    that it replaces. The largest over j and over the four corners.
    """
    output = (scores.softmax(-1) * values).sum(-1, keepdim=True)
    total, mean = _others(scores, values)
    low, high = (values - c0).clamp_min(-c0), (values + c0).clamp_max(c0)
    changes = []
    for score in (-gamma, gamma):
        weight = torch.sigmoid(score - total)
        for value in (low, high):
            changes.append((torch.lerp(mean, value, weight) - output).abs().amax(-1))
    return torch.stack(changes).amax(0)


def _others(
    scores: Float[Tensor, "*b t"], values: Float[Tensor, "*b t"]
) -> tuple[Float[Tensor, "*b t"], Float[Tensor, "*b t"]]:
    """For each pair, log-sum-exp of the other scores (-inf if there are none) and their average.

    Sums over all but one are a prefix plus a suffix: no cancellation and no t x t. Where the
    largest is left out the rest may underflow beside it, so that one is summed on its own scale.
    """
    top, first = scores.max(-1, keepdim=True)
    weights = (scores - top).exp()
    total, mixed = _without_each(weights), _without_each(weights * values)
    rest = scores.scatter(-1, first, -math.inf)
    second = rest.amax(-1, keepdim=True).clamp_min(-1e300)  # t = 1: nothing is left
    weights = (rest - second).exp()
    total = total.scatter(-1, first, weights.sum(-1, keepdim=True))
    mixed = mixed.scatter(-1, first, (weights * values).sum(-1, keepdim=True))
    scale = top.expand_as(scores).scatter(-1, first, second)
    return scale + total.log(), torch.where(total > 0, mixed / total, 0.0)


def _without_each(x: Float[Tensor, "*b t"]) -> Float[Tensor, "*b t"]:
    """Sum of x over all but each."""
    zero = torch.zeros_like(x[..., :1])
    before = torch.cat((zero, x[..., :-1].cumsum(-1)), dim=-1)
    after = torch.cat((zero, x.flip(-1)[..., :-1].cumsum(-1)), dim=-1).flip(-1)
    return before + after


# ---- measured -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneralizationSettings:
    """Every control of the page. Raises ValueError naming the field that is out of range."""

    dimension: int = 8
    keys: str = "sphere"  # a key of KEYS; a checkpoint's head brings its own keys
    kappa: float = 1.0  # score = kappa q . k; a checkpoint's head has its own
    input_scale: float = 1.0  # every input is multiplied by it (before a checkpoint's head)
    noise: float = 0.2  # share of a value that is chance
    value_size: float = 1.0  # values lie within half of it: C0 of the drawn law
    loss: str = "absolute"
    longest: int = 256  # largest t
    prompts: int = 64
    fresh: int = 12  # fresh pairs to swap in, and as many to ask
    gamma: float | None = None  # None: estimated from the draws, as the next two
    c0: float | None = None
    lipschitz: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("dimension", 2, 256),
            ("longest", 4, 512),
            ("prompts", 2, 1024),
            ("fresh", 2, 64),
            ("seed", 0, 2**31 - 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(f"{name}: expected a whole number in {low}..{high}, got {value!r}")
        for name, registry in (("keys", tuple(KEYS)), ("loss", LOSSES)):
            if getattr(self, name) not in registry:
                raise ValueError(
                    f"{name}: expected one of {', '.join(registry)}, got {getattr(self, name)!r}"
                )
        for name, least, most in (
            ("kappa", 1e-3, 1e3),
            ("input_scale", 1e-3, 1e3),
            ("noise", 0.0, 1.0),
            ("value_size", 1e-3, 1e3),
        ):
            given = getattr(self, name)
            if not least <= given <= most:
                raise ValueError(
                    f"{name}: expected a number in [{least:g}, {most:g}], got {given!r}"
                )
        for name in ("gamma", "c0", "lipschitz"):
            given = getattr(self, name)
            if given is not None and not 0 < given <= 1e6:
                raise ValueError(
                    f"{name}: expected a number in (0, 1e6], or none to estimate it, got {given!r}"
                )
        size = self.prompts * self.fresh**2 * self.longest
        if size > MOST_SCORES:
            raise ValueError(
                f"prompts x fresh^2 x longest: expected at most {MOST_SCORES:,}, got {size:,}; "
                f"lower one of them"
            )


@dataclass(frozen=True)
class Constants:
    """Gamma, C0 and M in use, with what the draws say of each."""

    gamma: float
    c0: float
    lipschitz: float
    measured_gamma: float  # largest |score|
    measured_c0: float  # largest |value| or difference of two values of a prompt
    measured_lipschitz: float  # 1, or twice the largest possible |prediction - target|


@dataclass(frozen=True)
class PowerFit:
    """`level / t`, and the slope of a free fit `~ t^slope`: least squares of the logarithms."""

    level: float
    slope: float

    def at(self, t: np.ndarray) -> np.ndarray:
        return self.level / t


@dataclass(frozen=True)
class Generalization:
    """Everything against t; changes of the output are multiplied by M."""

    settings: GeneralizationSettings
    lengths: Int[np.ndarray, " N"]
    constants: Constants
    bound: Float[np.ndarray, " N"]
    log10_bound: Float[np.ndarray, " N"]
    sharpest: Float[np.ndarray, " N"]  # the best constant under the same hypotheses (ours)
    worst: Float[np.ndarray, " N"]  # worst allowed swap, largest over prompts and queries
    worst_mean: Float[np.ndarray, " N"]  # the same, mean over prompts of the largest over queries
    swap_max: Float[np.ndarray, " N"]  # swaps with fresh pairs, the largest of all
    swap_mean: Float[np.ndarray, " N"]
    risk: Float[np.ndarray, " N"]  # R
    empirical: Float[np.ndarray, " N"]  # R_emp
    gap: Float[np.ndarray, " N"]  # mean of R - R_emp over prompts
    gap_low: Float[np.ndarray, " N"]  # 90 % interval of that mean (normal)
    gap_high: Float[np.ndarray, " N"]
    gap_fit: PowerFit
    swap_fit: PowerFit
    met: float  # share of prompts that meet the hypotheses; only these are measured
    swaps: int  # how many were checked against the bound
    violations: int  # how many of them, or mean gaps, exceed it: 0, or the theorem is refuted
    vacuous: Bool[np.ndarray, " N"]  # bound above the trivial 2 M C0
    log10_needed: float  # log10 of the t from which it is not
    reason: str


@torch.no_grad()
def generalization(
    settings: GeneralizationSettings, head: Head | None = None, law: PromptLaw | None = None
) -> Generalization:
    """The whole page. With `head` (a checkpoint's) prompts are drawn from `law`.

    Raises ValueError if no prompt meets the constants set by hand.
    """
    drawn = _draw(settings, head, law)
    constants = _constants(settings, *drawn)
    queries, keys, values, _ = drawn
    reach = (queries @ keys.mT).abs().amax((1, 2))
    size = torch.maximum(values.abs().amax(1), values.amax(1) - values.amin(1))
    met = (reach <= constants.gamma * (1 + 1e-9)) & (size <= constants.c0 * (1 + 1e-9))
    if not bool(met.any()):
        raise ValueError(
            f"no prompt meets Gamma = {constants.gamma:.3g} and C0 = {constants.c0:.3g}: the draws "
            f"reach {constants.measured_gamma:.3g} and {constants.measured_c0:.3g}; raise them, or "
            f"leave them to be estimated"
        )
    queries, keys, values, targets = (t[met] for t in drawn)
    M, longest, n_fresh = constants.lipschitz, settings.longest, settings.fresh
    lengths = np.unique(np.geomspace(2, longest, 10).round().astype(int))
    limits = bound(lengths, constants.gamma, constants.c0, M)
    swapped_in, asked = slice(longest, longest + n_fresh), slice(longest + n_fresh, None)
    rows: list[dict[str, float]] = []
    swaps = violations = 0
    for t, limit in zip(lengths.tolist(), limits.tolist(), strict=True):
        worst, largest, total = [], [], 0.0
        above = limit * (1 + 1e-9)
        for part in torch.arange(len(keys)).split(max(1, 4_000_000 // (n_fresh**2 * t))):
            q, k, v = queries[part][:, asked], keys[part], values[part]
            scores, fresh_scores = q @ k[:, :t].mT, q @ k[:, swapped_in].mT  # (b, Q, t), (b, Q, S)
            old = v[:, None, :t].expand(scores.shape)
            new = v[:, None, swapped_in].expand(fresh_scores.shape)
            output = (scores.softmax(-1) * old).sum(-1)[..., None, None]
            change = M * (swapped_outputs(scores, old, fresh_scores, new) - output).abs()
            extreme = M * worst_swap(scores, old, constants.gamma, constants.c0)  # (b, Q)
            violations += int((change > above).sum()) + int((extreme > above).sum())
            swaps += change.numel() + extreme.numel()
            worst.append(extreme.amax(1))
            largest.append(change.amax())
            total += float(change.sum()) / (change[0].numel() * len(keys))
        risk = _losses(queries, keys, values, targets, t, asked, settings.loss)
        empirical = _losses(queries, keys, values, targets, t, slice(0, t), settings.loss)
        gap = _gaps(queries, keys, values, targets, t, swapped_in, settings.loss)
        half = 1.645 * float(gap.std(correction=0)) / math.sqrt(max(1, len(gap) - 1))
        violations += int(float(gap.mean()) - half > above)
        rows.append(
            {
                "worst": float(torch.cat(worst).max()),
                "worst_mean": float(torch.cat(worst).mean()),
                "swap_max": float(torch.stack(largest).max()),
                "swap_mean": total,
                "risk": float(risk.mean()),
                "empirical": float(empirical.mean()),
                "gap": float(gap.mean()),
                "gap_low": float(gap.mean()) - half,
                "gap_high": float(gap.mean()) + half,
            }
        )
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    vacuous = limits >= 2 * M * constants.c0
    return Generalization(
        settings=settings,
        lengths=lengths,
        constants=constants,
        bound=limits,
        log10_bound=log10_bound(lengths, constants.gamma, constants.c0, M),
        sharpest=M * sharpest(lengths, constants.gamma, constants.c0),
        **columns,
        gap_fit=_fit(lengths, columns["gap"]),
        swap_fit=_fit(lengths, columns["swap_max"]),
        met=float(met.double().mean()),
        swaps=swaps,
        violations=violations,
        vacuous=vacuous,
        log10_needed=log10_needed(constants.gamma),
        reason=_reason(constants.gamma, vacuous),
    )


def _draw(
    settings: GeneralizationSettings, head: Head | None, law: PromptLaw | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """queries, keys (B, P, K), values, targets (B, P); P = longest + 2 fresh."""
    n_points = settings.longest + 2 * settings.fresh
    generator = torch.Generator().manual_seed(settings.seed)
    if head is not None:
        law = replace(law or PromptLaw(), input_scale=settings.input_scale)
        prompts = sample_prompts(law, settings.prompts, n_points, generator)
        queries, keys, values = (t.detach().double() for t in head(prompts.xs, prompts.ys))
        return queries, keys, values, prompts.targets.double()
    shape = settings.prompts, n_points, settings.dimension
    draws = gaussian(*shape, generator=generator)
    inputs = on_sphere(draws) if settings.keys == "sphere" else draws - 2
    directions = on_sphere(inputs)
    keys = settings.input_scale * (inputs if settings.keys == "raw" else directions)
    concept = on_sphere(gaussian(settings.prompts, 1, settings.dimension, generator=generator))
    told = (directions * concept).sum(-1)
    chance = 2 * torch.rand(*shape[:2], generator=generator, dtype=torch.float64) - 1
    values = settings.value_size / 2 * ((1 - settings.noise) * told + settings.noise * chance)
    return settings.kappa * keys, keys, values, values


def _constants(
    settings: GeneralizationSettings, queries: Tensor, keys: Tensor, values: Tensor, targets: Tensor
) -> Constants:
    gamma = float((queries @ keys.mT).abs().max())
    spread = (values.amax(1) - values.amin(1)).max()
    c0 = float(torch.maximum(values.abs().max(), spread))
    # a prediction lies between the smallest and the largest value
    miss = max(float(values.max() - targets.min()), float(targets.max() - values.min()))
    lipschitz = 1.0 if settings.loss == "absolute" else 2 * miss
    return Constants(
        gamma=gamma if settings.gamma is None else settings.gamma,
        c0=c0 if settings.c0 is None else settings.c0,
        lipschitz=lipschitz if settings.lipschitz is None else settings.lipschitz,
        measured_gamma=gamma,
        measured_c0=c0,
        measured_lipschitz=lipschitz,
    )


def _losses(
    queries: Tensor, keys: Tensor, values: Tensor, targets: Tensor, t: int, asked: slice, loss: str
) -> Float[Tensor, " B"]:
    """Mean loss of every prompt of t pairs over the points asked."""
    weights = (queries[:, asked] @ keys[:, :t].mT).softmax(-1)
    miss = (weights @ values[:, :t, None])[..., 0] - targets[:, asked]
    return (miss.abs() if loss == "absolute" else miss.square()).mean(1)


def _gaps(
    queries: Tensor, keys: Tensor, values: Tensor, targets: Tensor, t: int, fresh: slice, loss: str
) -> Float[Tensor, " B"]:
    """Unbiased for R - R_emp, prompt by prompt: loss at pair i with a fresh pair in its place, less
    the loss with itself.

    The pairs of a prompt are exchangeable, so `E loss(P; z) = E loss(P with z for z_i; z_i)`. Both
    losses then share their query and all other pairs: the variance is that of a change of order
    1/t instead of that of two losses.
    """
    scores = queries[:, :t] @ keys[:, :t].mT  # (B, t, t): row i asks k_i
    own = (scores.softmax(-1) @ values[:, :t, None])[..., 0]
    others = scores.masked_fill(torch.eye(t, dtype=torch.bool), -math.inf)
    total = others.logsumexp(-1, keepdim=True)
    mean = (others.softmax(-1) @ values[:, :t, None]).nan_to_num(0)  # t = 1: no others
    weight = torch.sigmoid(queries[:, :t] @ keys[:, fresh].mT - total)  # (B, t, S)
    swapped = torch.lerp(mean, values[:, None, fresh], weight)
    miss, miss_own = swapped - targets[:, :t, None], own - targets[:, :t]
    if loss == "absolute":
        return miss.abs().mean((1, 2)) - miss_own.abs().mean(1)
    return miss.square().mean((1, 2)) - miss_own.square().mean(1)


def _fit(t: np.ndarray, values: np.ndarray) -> PowerFit:
    """NaN if fewer than three values are positive."""
    good = (values > 0) & np.isfinite(values)
    if good.sum() < 3:
        return PowerFit(math.nan, math.nan)
    x, y = np.log(t[good]), np.log(values[good])
    return PowerFit(float(np.exp(np.mean(x + y))), float(np.polyfit(x, y, 1)[0]))


def _reason(gamma: float, vacuous: np.ndarray) -> str:
    needed = log10_needed(gamma)
    if not vacuous.any():
        return f"The bound says something at every length shown (Gamma = {gamma:.3g})."
    count = f"{math.ceil(10**needed):,}" if needed < 6 else f"10^{needed:.0f}"
    if vacuous.all():
        return (
            f"Vacuous at every length shown: Gamma = {gamma:.3g} enters as e^(2 Gamma), so the "
            f"bound falls below the trivial 2 M C0 only from about {count} examples on. Scores "
            f"are products of norms: normalise the keys or scale the inputs down."
        )
    return (
        f"Vacuous (above the trivial 2 M C0) below {count} examples, informative from there on "
        f"(Gamma = {gamma:.3g})."
    )


# ---- across input scaling -----------------------------------------------------------------------


@dataclass(frozen=True)
class ScalingStudy:
    """Constants, bound and measurements at the longest length against the scale of the inputs."""

    scales: Float[np.ndarray, " S"]
    length: int
    gamma: Float[np.ndarray, " S"]
    log10_bound: Float[np.ndarray, " S"]
    sharpest: Float[np.ndarray, " S"]
    swap_max: Float[np.ndarray, " S"]
    gap: Float[np.ndarray, " S"]
    risk: Float[np.ndarray, " S"]
    log10_needed: Float[np.ndarray, " S"]


def scaling_study(
    settings: GeneralizationSettings,
    head: Head | None = None,
    law: PromptLaw | None = None,
    scales: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
) -> ScalingStudy:
    """The same draws with inputs scaled; constants are estimated anew at each scale.

    At most 16 prompts, so that all scales together cost about as much as `generalization`.
    """
    few = replace(settings, prompts=min(16, settings.prompts), gamma=None, c0=None, lipschitz=None)
    rows = []
    for scale in scales:
        found = generalization(replace(few, input_scale=scale), head, law)
        rows.append(
            [
                found.constants.gamma,
                found.log10_bound[-1],
                found.sharpest[-1],
                found.swap_max[-1],
                found.gap[-1],
                found.risk[-1],
                found.log10_needed,
            ]
        )
    return ScalingStudy(np.array(scales), settings.longest, *np.array(rows, dtype=float).T)
