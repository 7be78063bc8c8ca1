"""The hidden concept measured on drawn prompts: what the page shows, from one settings object.

`hidden_concept(settings)` draws prompts whose values follow a concept z (some may follow another
one, or none), and returns BMA, softmax and rescaled softmax at every length, the posterior, the
influence of every example, and BMA on reshaped memories. The mathematics is in
`core.hidden_concept`. Results are numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import chdtri
from torch import Tensor

from core.hidden_concept import (
    KERNELS,
    NO_NOISE,
    Influence,
    bma_attention,
    ellipse,
    influence,
    mean_resultant,
    posterior_covariances,
    posterior_means,
    softmax_attention,
)
from core.patterns import gaussian, on_sphere
from core.predictors import Predictor
from core.prompts import Prompts
from core.reshape import apply, reshape

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_SCORES = 5_000_000  # 40 MB of float64, of which a few are alive at a time
KINDS = ("consistent", "irrelevant", "contradicting")  # order of every `kinds` code

# ---- the law of the data -----------------------------------------------------------------------


@dataclass(frozen=True)
class KeyLaw:
    """How keys are drawn; `exact` says whether softmax has a limit proportional to the truth."""

    name: str
    title: str
    iid: bool
    exact: bool
    # (draws (P, B, D), shared draws (1, B, D), correlation) -> keys (P, B, D)
    draw: Callable[[Tensor, Tensor, float], Tensor]
    # (kappa, dimension, scale) -> A with softmax -> A z q
    shrinkage: Callable[[float, int, float], float]
    note: str


def _equicorrelated(draws: Tensor, shared: Tensor, correlation: float) -> Tensor:
    mixed = math.sqrt(correlation) * on_sphere(shared) + math.sqrt(1 - correlation) * on_sphere(
        draws
    )
    return on_sphere(mixed)


def _autoregressive(draws: Tensor, shared: Tensor, correlation: float) -> Tensor:
    fresh = on_sphere(draws)
    keys = [fresh[0]]
    for new in fresh[1:]:
        keys.append(on_sphere(correlation * keys[-1] + math.sqrt(1 - correlation**2) * new))
    return torch.stack(keys)


def _sphere_shrinkage(kappa: float, dimension: int, scale: float) -> float:
    return mean_resultant(kappa * scale**2, dimension)


KEY_LAWS: dict[str, KeyLaw] = {
    law.name: law
    for law in (
        KeyLaw(
            "sphere",
            "uniform on the sphere",
            True,
            True,
            lambda draws, shared, correlation: on_sphere(draws),
            _sphere_shrinkage,
            "The solvable case: softmax attention tends to A_d(kappa) z q.",
        ),
        KeyLaw(
            "gaussian",
            "Gaussian, N(0, I/d)",
            True,
            True,
            lambda draws, shared, correlation: draws / math.sqrt(draws.shape[-1]),
            lambda kappa, dimension, scale: kappa * scale**2 / dimension,
            "Softmax attention tends to kappa z q / d; norms vary, so finite t is noisier.",
        ),
        KeyLaw(
            "autoregressive",
            "each key near the one before",
            False,
            True,
            _autoregressive,
            _sphere_shrinkage,
            "Not iid, but every key alone is uniform: the limit stands and is reached later.",
        ),
        KeyLaw(
            "equicorrelated",
            "all keys near one direction",
            False,
            False,
            _equicorrelated,
            _sphere_shrinkage,
            "Not iid: all keys of a prompt share a direction, and no single C repairs softmax.",
        ),
        KeyLaw(
            "paper",
            "regression inputs, N(-2, I)",
            True,
            False,
            lambda draws, shared, correlation: draws - 2,
            lambda kappa, dimension, scale: kappa * scale**2,
            "Keys have a mean: softmax tends to z (mean + kappa q), so no single C repairs it.",
        ),
    )
}


@dataclass(frozen=True)
class ConceptSettings:
    """Every control of the page. Raises ValueError naming the field that is out of range."""

    dimension: int = 8
    examples: int = 40  # largest number of in-context pairs
    prompts: int = 64
    keys: str = "sphere"  # a key of KEY_LAWS
    correlation: float = 0.6  # read by the laws that are not iid
    scale: float = 1.0  # every key is multiplied by it
    noise: float = 0.2  # sigma of the values
    weight_precision: float = 1.0  # 1 / lambda
    ridge_penalty: float | None = None  # rho that BMA assumes; None: the true sigma^2 / lambda
    kernel: str = "linear"  # a key of KERNELS
    length: float = 1.0  # of the RBF kernel
    kappa: float = 4.0  # of softmax attention and of the exponential kernel
    irrelevant: float = 0.0  # share of examples whose values are noise
    contradicting: float = 0.0  # share of examples that follow the other concept
    opposition: float = -1.0  # cosine between the other concept and the true one
    position: int | None = None  # examples seen where influence is measured; None: all
    reshape_ridge: float = 0.0
    reshape_tolerance: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _whole("dimension", self.dimension, 2, 256)
        _whole("examples", self.examples, 1, 256)
        _whole("prompts", self.prompts, 1, 1024)
        size = self.prompts * (self.examples + 1) ** 2
        if size > MOST_SCORES:
            raise ValueError(
                f"prompts x (examples + 1)^2 scores are kept at once: expected at most "
                f"{MOST_SCORES:,}, got {size:,}; lower one of them"
            )
        _whole("seed", self.seed, 0, 2**31 - 1)
        _member("keys", self.keys, KEY_LAWS)
        _member("kernel", self.kernel, KERNELS)
        _within("correlation", self.correlation, 0.0, 0.999)
        _within("scale", self.scale, 1e-3, 100.0)
        _within("noise", self.noise, 0.0, 100.0)
        _within("weight_precision", self.weight_precision, 1e-6, 1e6)
        if self.ridge_penalty is not None:
            _within("ridge_penalty", self.ridge_penalty, NO_NOISE, 1e6)
        _within("length", self.length, 1e-2, 100.0)
        _within("kappa", self.kappa, 1e-3, 1e3)
        for name in ("irrelevant", "contradicting"):
            _within(name, getattr(self, name), 0.0, 1.0)
        if self.irrelevant + self.contradicting > 1:
            raise ValueError(
                f"irrelevant and contradicting are shares of the same examples: expected a sum "
                f"of at most 1, got {self.irrelevant + self.contradicting:.3g}; lower one of them"
            )
        _within("opposition", self.opposition, -1.0, 1.0)
        if self.position is not None:
            _whole("position", self.position, 1, self.examples)
        _within("reshape_ridge", self.reshape_ridge, 0.0, 1e6)
        if self.reshape_tolerance is not None:
            _within("reshape_tolerance", self.reshape_tolerance, 0.0, 0.999)

    @property
    def assumed_ridge(self) -> float:
        """rho of the BMA: as set, or the truth, at least NO_NOISE."""
        if self.ridge_penalty is not None:
            return self.ridge_penalty
        return max(self.noise**2 * self.weight_precision, NO_NOISE)

    @property
    def noise_precision(self) -> float:
        """1/sigma^2 that BMA assumes, from its rho and the prior."""
        return self.weight_precision / self.assumed_ridge

    @property
    def kernel_parameter(self) -> float:
        return self.kappa if KERNELS[self.kernel].parameter == "kappa" else self.length


@dataclass(frozen=True)
class ConceptData:
    """`B` prompts of `P = examples + 1` points; the last point is only asked. Values have D
    coordinates.

    Rows of a concept are independent, so coordinate 0 stands for all where one is shown; all D are
    needed where values are reshaped (values of one coordinate have rank 1).
    """

    keys: Float[Tensor, "B P D"]
    values: Float[Tensor, "B P D"]
    targets: Float[Tensor, "B P D"]  # z q, without noise
    concepts: Float[Tensor, "B D D"]
    others: Float[Tensor, "B D D"]  # the concept of the contradicting examples
    kinds: Int[Tensor, "B P"]

    def as_prompts(self) -> Prompts:
        """Coordinate 0 as regression prompts, so that any `core.predictors.Predictor` can be
        asked.
        """
        return Prompts(self.keys, self.values[..., 0], self.keys, self.targets[..., 0])


def draw_concepts(settings: ConceptSettings) -> ConceptData:
    """The prompts of a setting. One stream of random numbers a quantity, position as the slowest
    index: moving a continuous control or adding examples keeps the numbers that were drawn.
    """
    n_points, n_prompts, n_dims = settings.examples + 1, settings.prompts, settings.dimension
    streams = [torch.Generator().manual_seed(settings.seed * 16 + i) for i in range(7)]
    law = KEY_LAWS[settings.keys]
    keys = law.draw(
        gaussian(n_points, n_prompts, n_dims, generator=streams[0]),
        gaussian(1, n_prompts, n_dims, generator=streams[1]),
        settings.correlation,
    )
    keys = (settings.scale * keys).transpose(0, 1).contiguous()
    spread = settings.weight_precision**-0.5
    concepts = spread * gaussian(n_prompts, n_dims, n_dims, generator=streams[2])
    across = gaussian(n_prompts, n_dims, n_dims, generator=streams[3])
    unit = on_sphere(concepts)
    across = on_sphere(across - (across * unit).sum(-1, keepdim=True) * unit)
    turned = settings.opposition * unit + math.sqrt(1 - settings.opposition**2) * across
    others = concepts.norm(dim=-1, keepdim=True) * turned

    # Kinds are spread evenly over a prompt (golden-ratio sequence from a random start): every
    # prefix has about its share, and moving a share changes as few examples as it can.
    start = torch.rand(n_prompts, 1, generator=streams[4], dtype=torch.float64)
    level = (start + torch.arange(n_points) * ((math.sqrt(5) - 1) / 2)) % 1
    contradicts = level < settings.contradicting
    irrelevant = ~contradicts & (level < settings.contradicting + settings.irrelevant)
    kinds = contradicts * 2 + irrelevant * 1

    targets = keys @ concepts.mT
    chance = gaussian(n_points, n_prompts, n_dims, generator=streams[5]).transpose(0, 1)
    chance = spread * keys.norm(dim=-1, keepdim=True) * chance
    noise = settings.noise * gaussian(n_points, n_prompts, n_dims, generator=streams[6])
    values = torch.where(contradicts[..., None], keys @ others.mT, targets)
    values = torch.where(irrelevant[..., None], chance, values) + noise.transpose(0, 1)
    return ConceptData(keys, values, targets, concepts, others, kinds)


# ---- what a page shows -------------------------------------------------------------------------


@dataclass(frozen=True)
class ConceptCurve:
    """One predictor against the number of examples; everything in units of the clean values'
    variance.

    `error` is the mean squared error over prompts (1: as bad as answering 0), `gap` the root mean
    square of its distance from BMA; `*_low, *_high` is a 90 % bootstrap interval over prompts.
    """

    name: str
    error: Float[np.ndarray, " P"]
    error_low: Float[np.ndarray, " P"]
    error_high: Float[np.ndarray, " P"]
    gap: Float[np.ndarray, " P"]
    gap_low: Float[np.ndarray, " P"]
    gap_high: Float[np.ndarray, " P"]


@dataclass(frozen=True)
class ConceptPosterior:
    """Belief about row 0 of z in prompt 0 after 0..T examples (linear features), and over all
    prompts.
    """

    mean: Float[np.ndarray, "P D"]
    covariance: Float[np.ndarray, "P D D"]
    spectrum: Float[np.ndarray, "P D"]  # eigenvalues of the covariance, largest first
    information: Float[np.ndarray, " P"]  # nats learnt: log of prior over posterior volume
    ellipses: Float[np.ndarray, "P N 2"] | None  # 95 % regions, if D = 2
    truth: Float[np.ndarray, " D"]
    other: Float[np.ndarray, " D"]
    to_truth: Float[np.ndarray, "Q P"]  # |z_t - z| / |z| over prompts, at QUANTILES
    to_other: Float[np.ndarray, "Q P"]  # |z_t - z'| / |z|
    cosine: Float[np.ndarray, "Q P"]  # of z_t with z; 0 without examples
    covered: Float[np.ndarray, " P"]  # share of prompts whose truth lies in the 95 % region
    limit_to_truth: (
        float  # where |z_t - z|/|z| tends: the concept is z mixed with z' by their shares
    )
    limit_to_other: float


@dataclass(frozen=True)
class ReshapedConcept:
    """BMA on reshaped memories (W1 K~, W2 V~) in place of (K, V), medians over some prompts.

    Differences are relative to the norm of the predictions on K, V; 0 where reshaping is exact: the
    ghosts cancel.
    """

    lengths: Int[np.ndarray, " N"]
    difference: Float[np.ndarray, " N"]
    difference_ghosts: Float[np.ndarray, " N"]  # the same for the ghosts left as they are
    residual_keys: Float[np.ndarray, " N"]
    residual_values: Float[np.ndarray, " N"]
    expected_residual: Float[np.ndarray, " N"]  # sqrt(1 - rank/t): past t = D, where rank is D
    rank: Int[np.ndarray, " N"]
    condition: Float[np.ndarray, " N"]
    exact: tuple[bool, ...]
    reason: str  # of the longest
    prompts: int


@dataclass(frozen=True)
class HiddenConcept:
    """Everything the page draws for one setting."""

    settings: ConceptSettings
    lengths: Int[np.ndarray, " P"]  # 0..T
    curves: tuple[ConceptCurve, ...]  # "BMA", "softmax", "softmax x C", then the given predictors
    scale_factor: float  # C
    shrinkage: float  # A = 1/C, where raw softmax tends: A z q
    softmax_limit_error: float  # which raw softmax tends to; NaN if the law has no A
    gap_slope: (
        float  # d log gap / d log t of "softmax x C" over the last half; -0.5: the gap closes
    )
    coverage: Float[np.ndarray, " P"]  # share of prompts with the truth in BMA's 95 % interval
    posterior: ConceptPosterior
    influence: Influence  # prompt 0
    position: int
    query: Float[np.ndarray, " D"]
    keys: Float[np.ndarray, "P D"]  # of prompt 0
    values: Float[np.ndarray, " P"]
    kinds: Int[np.ndarray, " P"]
    reshaped: ReshapedConcept

    def curve(self, name: str) -> ConceptCurve:
        return next(curve for curve in self.curves if curve.name == name)


def hidden_concept(
    settings: ConceptSettings, predictors: Mapping[str, Predictor] | None = None
) -> HiddenConcept:
    """The whole page. `predictors` (a GPT-2, say) are asked on coordinate 0 of the same prompts."""
    data = draw_concepts(settings)
    law = KEY_LAWS[settings.keys]
    keys, values, targets = data.keys, data.values[..., :1], data.targets[..., 0]
    bma, left = bma_attention(
        keys, values, keys, settings.assumed_ridge, settings.kernel, settings.kernel_parameter
    )
    softmax = softmax_attention(keys, values, keys, settings.kappa)[..., 0]
    shrinkage = law.shrinkage(settings.kappa, settings.dimension, settings.scale)
    factor = 1 / shrinkage
    preds = {"BMA": bma[..., 0], "softmax": softmax, "softmax x C": factor * softmax}
    for name, predictor in (predictors or {}).items():
        preds[name] = predictor(data.as_prompts()).detach().cpu().to(keys.dtype)
    unit = float(targets.square().mean().clamp_min(1e-300))  # variance of a clean value
    curves = tuple(
        _curve(name, pred, preds["BMA"], targets, unit, settings.seed)
        for name, pred in preds.items()
    )
    deviation = (left / settings.weight_precision).sqrt()
    inside = (preds["BMA"] - targets).abs() <= 1.959964 * deviation
    position = settings.examples if settings.position is None else settings.position
    return HiddenConcept(
        settings=settings,
        lengths=np.arange(settings.examples + 1),
        curves=curves,
        scale_factor=factor,
        shrinkage=shrinkage,
        softmax_limit_error=_softmax_limit(settings, shrinkage) if law.exact else math.nan,
        gap_slope=_slope(curves[2].gap),
        coverage=inside.double().mean(0).numpy(),
        posterior=_posterior(data, settings),
        influence=influence(
            keys[0, :position],
            values[0, :position, 0],
            keys[0, position],
            float(targets[0, position]),
            settings.assumed_ridge,
            settings.kappa,
            settings.kernel,
            settings.kernel_parameter,
            factor,
        ),
        position=position,
        query=keys[0, position].numpy(),
        keys=keys[0].numpy(),
        values=values[0, :, 0].numpy(),
        kinds=data.kinds[0].numpy(),
        reshaped=reshaped_concept(settings, data),
    )


def _softmax_limit(settings: ConceptSettings, shrinkage: float) -> float:
    """Raw softmax tends to A (shares of z and z') q: (1 - A)^2 where all examples are consistent.

    With shares a irrelevant (mean 0) and b contradicting, z' = c z + sqrt(1 - c^2) of a concept
    across, the error is (1 - A (1 - a - b + b c))^2 + (A b)^2 (1 - c^2). Ours.
    """
    b, c = settings.contradicting, settings.opposition
    along = 1 - settings.irrelevant - b + b * c
    return (1 - shrinkage * along) ** 2 + (shrinkage * b) ** 2 * (1 - c**2)


def _curve(
    name: str, preds: Tensor, bma: Tensor, targets: Tensor, unit: float, seed: int
) -> ConceptCurve:
    generator = torch.Generator().manual_seed(seed * 16 + 15)
    error = _interval((preds - targets).square() / unit, generator)
    gap = _interval((preds - bma).square() / unit, generator)
    return ConceptCurve(name, *error, *(np.sqrt(bound) for bound in gap))


def _interval(
    squares: Float[Tensor, "B P"], generator: torch.Generator, draws: int = 200
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over prompts with a 90 % bootstrap interval."""
    n_prompts = squares.shape[0]
    picked = torch.randint(n_prompts, (draws, n_prompts), generator=generator)
    counts = torch.zeros(draws, n_prompts, dtype=squares.dtype)
    counts.scatter_add_(1, picked, torch.ones_like(picked, dtype=squares.dtype))
    means = (counts @ squares / n_prompts).numpy()
    low, high = np.quantile(means, (0.05, 0.95), axis=0)
    return squares.mean(0).numpy(), low, high


def _slope(gap: Float[np.ndarray, " P"]) -> float:
    """Least-squares slope of log gap against log t over the last half; NaN with fewer than 4
    points.
    """
    t = np.arange(len(gap))
    used = (t >= max(1, len(gap) // 2)) & (gap > 0) & np.isfinite(gap)
    return (
        float(np.polyfit(np.log(t[used]), np.log(gap[used]), 1)[0]) if used.sum() >= 4 else math.nan
    )


def _posterior(data: ConceptData, settings: ConceptSettings) -> ConceptPosterior:
    keys, values = data.keys[:, :-1], data.values[:, :-1, 0]
    truth, other = data.concepts[:, :1], data.others[:, :1]  # (B, 1, D)
    noise_precision, weight_precision = settings.noise_precision, settings.weight_precision
    means = posterior_means(keys, values, noise_precision, weight_precision)  # (B, P, D)
    covariance = posterior_covariances(keys[0], noise_precision, weight_precision)
    spectrum = torch.linalg.eigvalsh(covariance).flip(-1).clamp_min(0)
    size = truth.norm(dim=-1)  # (B, 1)
    miss = means - truth
    # Mahalanobis distance from the precision itself: no inverse, and no loss at small noise.
    hits = (miss @ keys.mT).square()  # (B, P, T): k_j . miss_t
    mahalanobis = weight_precision * miss.square().sum(-1)
    mahalanobis = mahalanobis + noise_precision * hits.tril(-1).sum(-1)
    cosine = (means * truth).sum(-1) / (means.norm(dim=-1) * size).clamp_min(1e-300)
    consistent = 1 - settings.irrelevant - settings.contradicting
    toward_other = settings.contradicting
    along = consistent - 1 + toward_other * settings.opposition  # limit - z, along z and across it
    across = toward_other * math.sqrt(1 - settings.opposition**2)
    back = consistent + (toward_other - 1) * settings.opposition
    away = (toward_other - 1) * math.sqrt(1 - settings.opposition**2)
    mean, cov = means[0].numpy(), covariance.numpy()
    return ConceptPosterior(
        mean=mean,
        covariance=cov,
        spectrum=spectrum.numpy(),
        information=(-0.5 * (spectrum.clamp_min(1e-300) * weight_precision).log().sum(-1)).numpy(),
        ellipses=(
            np.stack([ellipse(m, c) for m, c in zip(mean, cov, strict=True)])
            if settings.dimension == 2
            else None
        ),
        truth=truth[0, 0].numpy(),
        other=other[0, 0].numpy(),
        to_truth=_quantiles(miss.norm(dim=-1) / size),
        to_other=_quantiles((means - other).norm(dim=-1) / size),
        cosine=_quantiles(cosine),
        covered=(mahalanobis <= float(chdtri(settings.dimension, 0.05))).double().mean(0).numpy(),
        limit_to_truth=math.hypot(along, across),
        limit_to_other=math.hypot(back, away),
    )


def _quantiles(values: Float[Tensor, "B P"]) -> Float[np.ndarray, "Q P"]:
    return np.quantile(values.numpy(), QUANTILES, axis=0)


def reshaped_concept(
    settings: ConceptSettings, data: ConceptData | None = None, prompts: int = 8
) -> ReshapedConcept:
    """BMA on (W1 K~, W2 V~) against BMA on (K, V): the same where W1 and W2 are exact.

    Ghosts are keys of the same law and values of another concept, drawn independently of the
    prompt.
    """
    data = draw_concepts(settings) if data is None else data
    used = min(prompts, settings.prompts, max(2, 640 // settings.examples))
    ghosts = draw_concepts(
        ConceptSettings(
            dimension=settings.dimension,
            examples=settings.examples,
            prompts=used,
            keys=settings.keys,
            correlation=settings.correlation,
            scale=settings.scale,
            noise=settings.noise,
            weight_precision=settings.weight_precision,
            seed=(settings.seed + 1_000_003) % (2**31 - 1),
        )
    )
    t, d = settings.examples, settings.dimension
    shown = {1, t, d, d + 1, *np.unique(np.geomspace(1, t, 8).round().astype(int)).tolist()}
    lengths = np.array(sorted(n for n in shown if 1 <= n <= t))
    rows: list[list[list[float]]] = []
    exact: list[bool] = []
    reason = ""
    for n in lengths.tolist():
        row = []
        sure = True
        for b in range(used):
            keys, values = data.keys[b, :n], data.values[b, :n]
            ghost_keys, ghost_values = ghosts.keys[b, :n], ghosts.values[b, :n]
            found = reshape(
                keys,
                values,
                ghost_keys,
                ghost_values,
                settings.reshape_ridge,
                settings.reshape_tolerance,
            )
            new_keys, new_values = apply(found.W1, ghost_keys), apply(found.W2, ghost_values)
            stacked = torch.stack((keys, new_keys, ghost_keys))
            answers = _answers(
                stacked,
                torch.stack((values, new_values, ghost_values)),
                data.keys[b, -1:],
                settings,
            )
            size = float(answers[0].norm().clamp_min(1e-300))
            row.append(
                [
                    float((answers[1] - answers[0]).norm()) / size,
                    float((answers[2] - answers[0]).norm()) / size,
                    found.keys.residual,
                    found.values.residual,
                    max(found.keys.expected_residual, found.values.expected_residual),
                    found.keys.rank,
                    found.keys.condition,
                ]
            )
            sure = sure and found.keys.exact and found.values.exact
            reason = found.keys.reason if not found.keys.exact else found.values.reason
        rows.append(row)
        exact.append(sure)
    medians = np.median(np.array(rows), axis=1)  # (N, 7)
    return ReshapedConcept(
        lengths=lengths,
        difference=medians[:, 0],
        difference_ghosts=medians[:, 1],
        residual_keys=medians[:, 2],
        residual_values=medians[:, 3],
        expected_residual=medians[:, 4],
        rank=medians[:, 5].astype(int),
        condition=medians[:, 6],
        exact=tuple(exact),
        reason=reason,
        prompts=used,
    )


def _answers(
    keys: Float[Tensor, "B T D"],
    values: Float[Tensor, "B T V"],
    query: Float[Tensor, "1 D"],
    settings: ConceptSettings,
) -> Float[Tensor, "B V"]:
    """BMA predictions at one query from all T pairs."""
    function, parameter = KERNELS[settings.kernel].function, settings.kernel_parameter
    gram = function(keys, keys, parameter)
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype)
    cross = function(keys, query.expand(len(keys), 1, -1), parameter)
    solved = torch.linalg.solve(gram + settings.assumed_ridge * eye, cross)  # (B, T, 1)
    return (values.mT @ solved)[..., 0]


# ---- harm, over many prompts ---------------------------------------------------------------------


@dataclass(frozen=True)
class HarmByKind:
    """Mean influence of an example of each kind over prompts, and the standard error of the means.

    `harm` is in units of the clean values' variance, `concept` in those of |z|; NaN where there is no
    example of the kind.
    """

    kinds: tuple[str, ...]
    count: Int[np.ndarray, " K"]  # examples of the kind in all prompts together
    harm: Float[np.ndarray, " K"]  # rise of BMA's squared error by having the example
    harm_error: Float[np.ndarray, " K"]
    concept: Float[np.ndarray, " K"]  # how far the example moves the concept


def harm_by_kind(settings: ConceptSettings, prompts: int = 64) -> HarmByKind:
    """`influence` in up to `prompts` prompts, examples pooled by kind: one prompt is an anecdote.

    Errors of the means are over prompts, whose examples share a concept and a query.
    """
    data = draw_concepts(settings)
    n = settings.examples if settings.position is None else settings.position
    unit = float(data.targets[..., 0].square().mean().clamp_min(1e-300))
    used = min(prompts, settings.prompts)
    sums = np.zeros((used, len(KINDS), 3))  # per prompt: examples, their harm, their pull
    for b in range(used):
        found = influence(
            data.keys[b, :n],
            data.values[b, :n, 0],
            data.keys[b, n],
            float(data.targets[b, n, 0]),
            settings.assumed_ridge,
            settings.kappa,
            settings.kernel,
            settings.kernel_parameter,
        )
        size = float(data.concepts[b, 0].norm().clamp_min(1e-300))
        for kind in range(len(KINDS)):
            mine = (data.kinds[b, :n] == kind).numpy()
            pulls = found.concept[mine].sum() / size
            sums[b, kind] = mine.sum(), found.harm_bma[mine].sum() / unit, pulls
    count = sums[..., 0].sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        harm, concept = (sums[..., 1:].sum(0) / count[:, None]).T
        spread = sums[..., 1] - harm * sums[..., 0]  # a mean of ratios: its linearised error
        harm_error = np.sqrt((spread**2).sum(0)) / count
    return HarmByKind(KINDS, count.astype(int), harm, harm_error, concept)


# ---- checks ------------------------------------------------------------------------------------


def _member(name: str, value: object, registry: Mapping[str, object]) -> None:
    if value not in registry:
        raise ValueError(f"{name}: expected one of {', '.join(registry)}, got {value!r}")


def _whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}: expected a whole number in {low}..{high}, got {value!r}")


def _within(name: str, value: object, low: float, high: float) -> None:
    if not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name}: expected a number in [{low:g}, {high:g}], got {value!r}")
