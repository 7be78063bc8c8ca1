"""R^2 and MSE against the number of in-context examples, with bootstrap bands over tasks.

Index `i` of every curve is "after i examples": `preds[:, i]` has seen i pairs. A task is a prompt.
Three metrics, all of them ratios of sums over tasks, which is what makes the bootstrap one matrix
product per sum (`METRICS`):

- `pooled R2`: `1 - sum_b (y_b - yhat_b)^2 / sum_b (y_b - ybar)^2`, ybar the mean over tasks at
  that position. What CAMR and Garg et al. plot.
- `within-task R2`: `1 - sum_b (y_b - yhat_b)^2 / sum_b s_b^2`, s_b^2 the variance of the clean
  labels inside task b (unbiased, over the positions of its prompt). Zero for a learner that only
  knows each task's mean label, which the pooled one rewards: under x ~ N(-2, I) the mean label is
  80 % of the variance of y.
- `MSE`: the mean over tasks of the squared error.

A position that a predictor leaves out (NaN) stays NaN.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ndtr, ndtri
from torch import Tensor

from core.predictors import Predictor
from core.prompts import PromptLaw, Prompts, sample_prompts

__all__ = [
    "KNOWN_NUMBERS",
    "METRICS",
    "Curve",
    "KnownNumber",
    "Metric",
    "Verdict",
    "agreement",
    "bootstrap_counts",
    "curve",
    "curves",
    "difference",
    "measure_known",
    "score",
]


@dataclass(frozen=True)
class Curve:
    """A metric at `positions` (numbers of in-context examples) and its band over tasks."""

    name: str
    metric: str  # a key of METRICS
    positions: np.ndarray  # (P,) int
    values: np.ndarray  # (P,) float64, NaN where the predictor has no answer
    low: np.ndarray  # (P,) lower end of the band
    high: np.ndarray  # (P,)
    level: float  # the band covers the metric of the whole law with about this probability
    n_prompts: int

    def at(self, n_examples: int) -> tuple[float, float, float]:
        """`(value, low, high)` after `n_examples` examples."""
        where = np.flatnonzero(self.positions == n_examples)
        if len(where) == 0:
            raise ValueError(
                f"n_examples: expected one of {self.positions.min()} to {self.positions.max()}, "
                f"got {n_examples}. Draw prompts of n_examples + 1 points."
            )
        i = int(where[0])
        return float(self.values[i]), float(self.low[i]), float(self.high[i])


# --- Metrics -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """`per_task(preds, prompts)` (K, B, P) is summed over tasks, `value(sums, B)` is (..., P)."""

    per_task: Callable[[Tensor, Prompts], Tensor]
    value: Callable[[Tensor, int], Tensor]


def _squared_error(preds: Tensor, prompts: Prompts) -> Tensor:
    return (preds.double() - prompts.targets.double()).square()


def _pooled(preds: Tensor, prompts: Prompts) -> Tensor:
    # Centred on the mean of all tasks first: resampled variances then lose no digits.
    y = prompts.targets.double()
    y = y - y.mean(0)
    return torch.stack([_squared_error(preds, prompts), y.square(), y])


def _pooled_value(sums: Tensor, n_tasks: int) -> Tensor:
    errors, squares, total = sums
    return 1 - errors / (squares - total.square() / n_tasks)


def _within(preds: Tensor, prompts: Prompts) -> Tensor:
    labels = prompts.targets if prompts.clean_ys is None else prompts.clean_ys
    if labels.shape[1] < 2:
        raise ValueError(
            "within-task R2 needs the variance of the labels inside a task: expected prompts of at "
            f"least 2 points, got {labels.shape[1]}. Draw longer prompts."
        )
    variance = labels.double().var(1, keepdim=True).expand(-1, labels.shape[1])
    return torch.stack([_squared_error(preds, prompts), variance])


METRICS: dict[str, Metric] = {
    "pooled R2": Metric(_pooled, _pooled_value),
    "within-task R2": Metric(_within, lambda sums, n_tasks: 1 - sums[0] / sums[1]),
    "MSE": Metric(
        lambda preds, prompts: _squared_error(preds, prompts).unsqueeze(0),
        lambda sums, n_tasks: sums[0] / n_tasks,
    ),
}


def score(preds: Float[Tensor, "B P"], prompts: Prompts, metric: str) -> Float[Tensor, " P"]:
    """The metric at every position, without a band."""
    chosen = _metric(metric)
    _check(preds, prompts)
    return chosen.value(chosen.per_task(preds, prompts).sum(1), prompts.n_prompts)


# --- Bands ---------------------------------------------------------------------------------------


def bootstrap_counts(
    n_tasks: int, n_resamples: int, generator: torch.Generator
) -> Float[Tensor, "R B"]:
    """How often each task occurs in each of `n_resamples` draws of `n_tasks` with replacement."""
    if n_tasks < 2 or n_resamples < 1:
        raise ValueError(
            "a bootstrap band needs at least 2 prompts and 1 resample, got "
            f"{n_tasks} and {n_resamples}. Draw more prompts."
        )
    shape = (n_resamples, n_tasks)
    drawn = torch.randint(n_tasks, shape, generator=generator, device=generator.device)
    counts = torch.zeros(shape, dtype=torch.float64, device=generator.device)
    return counts.scatter_add_(1, drawn, torch.ones_like(counts))


def curves(
    preds: Mapping[str, Float[Tensor, "B P"]],
    prompts: Prompts,
    metric: str = "pooled R2",
    *,
    generator: torch.Generator,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> tuple[Curve, ...]:
    """One curve per predictor, all bands from the same resamples of tasks.

    Bands are BCa intervals (Efron 1987), as `scipy.stats.bootstrap(method="BCa")` makes them, at
    all positions at once. Where BCa is undefined (every task alike, an R^2 of exactly 1) the
    percentile interval stands in.
    """
    chosen = _metric(metric)
    counts = bootstrap_counts(prompts.n_prompts, n_resamples, generator).to(prompts.xs.device)
    made = []
    for name, pred in preds.items():
        _check(pred, prompts)
        band = _band(chosen, [chosen.per_task(pred, prompts)], counts, level)
        made.append(_curve(name, metric, band, level, prompts))
    return tuple(made)


def curve(
    name: str,
    preds: Float[Tensor, "B P"],
    prompts: Prompts,
    metric: str = "pooled R2",
    *,
    generator: torch.Generator,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> Curve:
    """`curves` for one predictor."""
    (only,) = curves(
        {name: preds}, prompts, metric, generator=generator, n_resamples=n_resamples, level=level
    )
    return only


def difference(
    name: str,
    preds: Float[Tensor, "B P"],
    baseline: Float[Tensor, "B P"],
    prompts: Prompts,
    metric: str = "pooled R2",
    *,
    generator: torch.Generator,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> Curve:
    """Metric of `preds` minus metric of `baseline` on the same prompts, with a paired band.

    Both are resampled together, so what the tasks have in common cancels: the band is narrower
    than the two curves' bands suggest, and two curves differ where it excludes 0.
    """
    chosen = _metric(metric)
    _check(preds, prompts)
    _check(baseline, prompts)
    counts = bootstrap_counts(prompts.n_prompts, n_resamples, generator).to(prompts.xs.device)
    parts = [chosen.per_task(preds, prompts), chosen.per_task(baseline, prompts)]
    return _curve(name, metric, _band(chosen, parts, counts, level), level, prompts)


def _band(
    metric: Metric, parts: list[Tensor], counts: Float[Tensor, "R B"], level: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Value and BCa ends, (P,) each, of the metric of parts[0] minus, if given, parts[1]."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a probability between 0 and 1, got {level!r}.")
    n_tasks = counts.shape[1]

    def combine(sums: list[Tensor], n: int) -> Tensor:
        values = [metric.value(s, n) for s in sums]
        return values[0] if len(values) == 1 else values[0] - values[1]

    totals = [part.sum(1) for part in parts]  # (K, P)
    value = combine(totals, n_tasks)
    resampled = combine([counts @ part for part in parts], n_tasks)  # (R, P)
    left_out = combine(
        [total.unsqueeze(1) - part for total, part in zip(totals, parts, strict=True)], n_tasks - 1
    )  # (B, P), the jackknife

    below = (resampled < value).double().mean(0)
    below += 0.5 * (resampled == value).double().mean(0)
    bias = torch.from_numpy(ndtri(below.cpu().numpy()))
    spread = left_out.mean(0) - left_out
    skew = (spread.pow(3).sum(0) / (6 * spread.square().sum(0).pow(1.5))).cpu()
    ordered = torch.from_numpy(np.sort(resampled.cpu().numpy(), axis=0))  # 10 x faster than torch
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        shifted = bias + float(ndtri(tail))
        at = torch.from_numpy(ndtr((bias + shifted / (1 - skew * shifted)).numpy()))
        ends.append(_quantile(ordered, torch.where(at.isfinite(), at, tail)))
    return value.cpu(), ends[0], ends[1]


def _quantile(ordered: Float[Tensor, "R P"], at: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
    """Column by column, linear between order statistics, as `numpy.quantile` does it."""
    place = at * (ordered.shape[0] - 1)
    floor = place.floor().long().clamp(0, ordered.shape[0] - 1)
    low = ordered.gather(0, floor.unsqueeze(0)).squeeze(0)
    high = ordered.gather(0, (floor + 1).clamp_max(ordered.shape[0] - 1).unsqueeze(0)).squeeze(0)
    return torch.lerp(low, high, place - floor)


def _curve(
    name: str, metric: str, band: tuple[Tensor, Tensor, Tensor], level: float, prompts: Prompts
) -> Curve:
    values, low, high = (t.numpy() for t in band)
    positions = np.arange(prompts.n_points)
    return Curve(name, metric, positions, values, low, high, level, prompts.n_prompts)


# --- Known numbers beside measured ones ----------------------------------------------------------


@dataclass(frozen=True)
class KnownNumber:
    """A published pooled R^2 after `n_examples` examples under `law`."""

    n_examples: int
    law: PromptLaw
    value: float
    decimals: int
    source: str


_CAMR = "CAMR section 4, test R2 of its GPT-2"

# All numbers of the paper that are known to us; its other table cells are not.
KNOWN_NUMBERS: tuple[KnownNumber, ...] = (
    KnownNumber(15, PromptLaw(), 0.9366, 4, _CAMR),
    KnownNumber(15, PromptLaw(w2=0.3), 0.4043, 4, _CAMR),
    KnownNumber(30, PromptLaw(), 0.9998, 4, _CAMR),
    KnownNumber(30, PromptLaw(corruption="permuted", accuracy=0.8), 0.8607, 4, _CAMR),
)


@dataclass(frozen=True)
class Verdict:
    """Does a measured band contain a known number?"""

    agrees: bool
    known: float
    value: float
    low: float
    high: float
    words: str


def agreement(
    known: float, value: float, low: float, high: float, *, decimals: int = 4, level: float = 0.95
) -> Verdict:
    """Sets a known number beside a measured value and its band.

    They agree when the band, widened by half a unit of the known number's last decimal, contains
    it. The known number's own sampling error is not known and not allowed for. A measurement
    without a finite band agrees with nothing.
    """
    half_unit = 0.5 * 10**-decimals
    shown = _number(known, decimals)
    if not (math.isfinite(value) and math.isfinite(low) and math.isfinite(high)):
        return Verdict(False, known, value, low, high, f"not measured: nothing to set by {shown}")
    measured = (
        f"measured {_number(value, decimals)}, {100 * level:g} % band "
        f"{_number(low, decimals)} to {_number(high, decimals)}"
    )
    if low - half_unit <= known <= high + half_unit:
        return Verdict(True, known, value, low, high, f"agrees: {shown} is inside; {measured}")
    side, gap = ("above", known - high) if known > high else ("below", low - known)
    words = f"does not agree: {shown} is {side} the band by {_number(gap, decimals)}; {measured}"
    return Verdict(False, known, value, low, high, words)


def measure_known(
    number: KnownNumber,
    predictor: Predictor,
    n_prompts: int,
    generator: torch.Generator,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> Verdict:
    """Measures a known number now, on prompts of exactly its length: label accuracy is exact."""
    prompts = sample_prompts(number.law, n_prompts, number.n_examples + 1, generator)
    measured = curve(
        predictor.name,
        predictor(prompts),
        prompts,
        generator=generator,
        n_resamples=n_resamples,
        level=level,
    )
    return agreement(
        number.value, *measured.at(number.n_examples), decimals=number.decimals, level=level
    )


def _number(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}".replace("-", "\N{MINUS SIGN}")


# --- Checks --------------------------------------------------------------------------------------


def _metric(name: str) -> Metric:
    if name not in METRICS:
        raise ValueError(f"metric: expected one of {', '.join(METRICS)}; got {name!r}.")
    return METRICS[name]


def _check(preds: Tensor, prompts: Prompts) -> None:
    if preds.shape != prompts.targets.shape:
        raise ValueError(
            "preds: expected one prediction per prompt and position, "
            f"{tuple(prompts.targets.shape)}, got {tuple(preds.shape)}."
        )
