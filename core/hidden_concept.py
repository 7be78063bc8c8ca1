"""The hidden concept: Bayesian model averaging (BMA), softmax attention, and what each example
does.

The model (equations.md sec. 3): `v = z phi(k) + noise`, rows of z ~ N(0, lambda I), noise variance
sigma^2, `ridge_penalty = sigma^2 / lambda`. With Gram matrix G of the keys and g of keys against
query,

    mean      V^T (G + rho I)^-1 g(q)                 BMA attention, the dual of z_t phi(q)
    variance  lambda (k(q,q) - g^T (G + rho I)^-1 g)  of z phi(q), per coordinate; a value adds
    sigma^2

and softmax attention is `V^T softmax(kappa K q)`, Nadaraya-Watson. Zhang et al. 2023 (arXiv
2305.19420, Prop. 4.3): for unit-norm keys and iid pairs BMA attention tends to C times softmax
attention. Solvable case *(ours)*: keys uniform on the unit sphere S^(d-1), v = z k: softmax tends
to `A_d(kappa) z q` with `A_d = I_(d/2) / I_(d/2-1)`, the mean resultant length of a von
Mises-Fisher law, so `C = 1 / A_d`. For keys N(0, s I) it tends to `kappa s z q`, the mean of the
exponentially tilted Gaussian, so `C = 1/(kappa s)`.

Shapes: keys, queries `(*batch, P, D)`, values `(*batch, P, V)`; what is computed at position i has
seen the pairs before i and `queries[..., i, :]`. `core.concept_study` measures all this on drawn
prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import ive
from torch import Tensor

NO_NOISE = 1e-8  # ridge_penalty in place of 0: Cholesky stays exact to 1e-8 of the prior variance

# ---- kernels ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """`function(keys (*b, T, D), queries (*b, Q, D), parameter) -> (*b, T, Q)`; diagonal 1 at norm
    1.
    """

    name: str
    title: str
    latex: str
    parameter: str  # the setting it reads: "", "length" or "kappa"
    function: Callable[[Tensor, Tensor, float], Tensor]


def linear_kernel(
    keys: Float[Tensor, "*batch T D"], queries: Float[Tensor, "*batch Q D"], parameter: float = 0.0
) -> Float[Tensor, "*batch T Q"]:
    """`k . q`: phi is the identity, z a matrix."""
    return keys @ queries.mT


def rbf_kernel(
    keys: Float[Tensor, "*batch T D"], queries: Float[Tensor, "*batch Q D"], length: float
) -> Float[Tensor, "*batch T Q"]:
    """`exp(-|k - q|^2 / (2 length^2))`; scikit-learn's, gamma 1/(2 length^2)."""
    distance2 = torch.cdist(keys, queries, compute_mode="donot_use_mm_for_euclid_dist").square()
    return torch.exp(-distance2 / (2 * length**2))


def exponential_kernel(
    keys: Float[Tensor, "*batch T D"], queries: Float[Tensor, "*batch Q D"], kappa: float
) -> Float[Tensor, "*batch T Q"]:
    """`exp(kappa (k . q - 1))`, the kernel inside softmax attention.

    The -1 makes it 1 on the diagonal of unit keys, where it equals the RBF of length
    1/sqrt(kappa); a constant factor of a kernel is a factor of lambda and changes no softmax.
    """
    return torch.exp(kappa * (keys @ queries.mT - 1))


KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel("linear", "linear", r"k(a,b)=a^\top b", "", linear_kernel),
        Kernel("rbf", "RBF", r"k(a,b)=e^{-|a-b|^2/2\ell^2}", "length", rbf_kernel),
        Kernel(
            "exponential",
            "exponential",
            r"k(a,b)=e^{\kappa(a^\top b-1)}",
            "kappa",
            exponential_kernel,
        ),
    )
}

# ---- the predictors, at every length in one pass ------------------------------------------------


def bma_attention(
    keys: Float[Tensor, "*batch P D"],
    values: Float[Tensor, "*batch P V"],
    queries: Float[Tensor, "*batch P D"],
    ridge_penalty: float,
    kernel: str = "linear",
    parameter: float = 1.0,
) -> tuple[Float[Tensor, "*batch P V"], Float[Tensor, "*batch P"]]:
    """Mean at every length, and the share of the prior variance lambda k(q,q) units that is left.

    The second is `k(q,q) - g^T (G + rho I)^-1 g`: times lambda it is the variance of `z phi(q)`
    per coordinate. One Cholesky factor serves all lengths, its leading blocks belong to the
    prefixes. Equals `sklearn.kernel_ridge.KernelRidge(alpha=ridge_penalty)` and, linear,
    `BayesianRidge` with fixed precisions. Raises ValueError if the kernel is unknown or overflows,
    or ridge_penalty is not > 0.
    """
    if not (math.isfinite(ridge_penalty) and ridge_penalty > 0):
        raise ValueError(
            f"ridge_penalty: expected a finite number > 0 (sigma^2/lambda), got {ridge_penalty}. "
            f"Use {NO_NOISE:g} for (almost) no noise."
        )
    function = _kernel(kernel).function
    gram, cross = function(keys, keys, parameter), function(keys, queries, parameter)
    own = function(queries.unsqueeze(-2), queries.unsqueeze(-2), parameter)[..., 0, 0]
    if not (gram.isfinite().all() and cross.isfinite().all()):
        raise ValueError(
            f"the {kernel} kernel overflows on keys of norm {float(keys.norm(dim=-1).max()):.3g}; "
            f"use keys of norm 1 or a smaller kappa"
        )
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    # The last point is never an example; its row costs nothing and keeps the code without a case.
    lower, failed = torch.linalg.cholesky_ex(gram + ridge_penalty * eye)
    if bool(failed.any()):
        raise ValueError(
            f"G + rho I is singular to rounding at rho = {ridge_penalty:g} and a largest "
            f"kernel value of {float(gram.max()):.3g}; raise ridge_penalty or shrink the keys"
        )
    both = torch.linalg.solve_triangular(lower, torch.cat((values, cross), dim=-1), upper=False)
    coefficients, half = both.split((values.shape[-1], cross.shape[-1]), dim=-1)
    seen = half.mT.tril(-1)  # (*b, query, example): row i keeps the pairs before i
    return seen @ coefficients, (own - seen.square().sum(-1)).clamp_min(0)


def softmax_attention(
    keys: Float[Tensor, "*batch P D"],
    values: Float[Tensor, "*batch P V"],
    queries: Float[Tensor, "*batch P D"],
    kappa: float,
) -> Float[Tensor, "*batch P V"]:
    """`V^T softmax(kappa K q)` at every length; 0 without examples (an empty softmax)."""
    scores = kappa * queries @ keys.mT
    seen = torch.ones_like(scores, dtype=torch.bool).tril(-1)
    scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    return (scores.softmax(-1) * seen) @ values


def mean_resultant(kappa: float, dimension: int) -> float:
    """`A_d(kappa) = I_(d/2)(kappa) / I_(d/2-1)(kappa)`, in (0, 1); about kappa/d for small kappa.

    From `scipy.special.ive` where neither factor underflows, else from the continued fraction
    `I_v/I_(v-1) = 1/(2v/kappa + I_(v+1)/I_v)`, which converges fast there (kappa < d).
    """
    if not (math.isfinite(kappa) and kappa > 0):
        raise ValueError(f"kappa: expected a finite number > 0, got {kappa}")
    if dimension < 1:
        raise ValueError(f"dimension: expected a whole number >= 1, got {dimension}")
    order = dimension / 2
    above, below = float(ive(order, kappa)), float(ive(order - 1, kappa))
    if above > 1e-250 and math.isfinite(below):
        return above / below
    ratio = 0.0
    for n in range(200 + int(kappa), -1, -1):
        ratio = 1 / (2 * (order + n) / kappa + ratio)
    return ratio


def softmax_scale(kappa: float, dimension: int) -> float:
    """`C = 1/A_d(kappa)`: what softmax attention over uniform unit keys must be multiplied by."""
    return 1 / mean_resultant(kappa, dimension)


# ---- the posterior over the concept -------------------------------------------------------------


def posterior_means(
    keys: Float[Tensor, "B T D"],
    values: Float[Tensor, "B T"],
    noise_precision: float,
    weight_precision: float,
) -> Float[Tensor, "B T1 D"]:
    """Posterior mean of one row of z after 0, 1, ..., T examples, linear features.

    Recursive least squares in covariance form; equals `sklearn.linear_model.BayesianRidge` at fixed
    precisions and ridge at `weight_precision / noise_precision`, at every prefix.
    """
    n_prompts, n_examples, n_dims = keys.shape
    mean = keys.new_zeros(n_prompts, n_dims)
    eye = torch.eye(n_dims, dtype=keys.dtype, device=keys.device)
    covariance = (eye / weight_precision).expand(n_prompts, -1, -1).clone()
    means = [mean]
    for i in range(n_examples):
        key = keys[:, i]
        gain = (covariance @ key[..., None])[..., 0]
        scale = 1 / noise_precision + (gain * key).sum(-1, keepdim=True)
        mean = mean + gain / scale * (values[:, i, None] - (mean * key).sum(-1, keepdim=True))
        covariance -= (gain / scale)[..., None] * gain[:, None]
        means.append(mean)
    return torch.stack(means, dim=1)


def posterior_covariances(
    keys: Float[Tensor, "T D"], noise_precision: float, weight_precision: float
) -> Float[Tensor, "T1 D D"]:
    """Posterior covariance of a row of z after 0, 1, ..., T examples (the same for every row)."""
    outer = keys[:, :, None] * keys[:, None]
    summed = torch.cat((torch.zeros_like(outer[:1]), outer.cumsum(0))) if len(outer) else None
    n_dims = keys.shape[1]
    if summed is None:
        summed = keys.new_zeros(1, n_dims, n_dims)
    eye = torch.eye(n_dims, dtype=keys.dtype, device=keys.device)
    return torch.cholesky_inverse(
        torch.linalg.cholesky(weight_precision * eye + noise_precision * summed)
    )


def ellipse(
    mean: Float[np.ndarray, " 2"],
    covariance: Float[np.ndarray, "2 2"],
    level: float = 0.95,
    points: int = 96,
) -> Float[np.ndarray, "points 2"]:
    """Border of the region of probability `level` of a 2-D Gaussian (first point = last)."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a probability in (0, 1), got {level}")
    radius = math.sqrt(-2 * math.log(1 - level))  # chi-square with 2 degrees of freedom
    angle = np.linspace(0, 2 * math.pi, points)
    circle = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    sizes, axes = np.linalg.eigh(covariance)
    return mean + radius * circle * np.sqrt(np.maximum(sizes, 0)) @ axes.T


# ---- influence of one example -------------------------------------------------------------------


@dataclass(frozen=True)
class Influence:
    """What each of n examples does: with it minus without it, one prompt, one query.

    `harm_*` is the rise of the squared error against the clean target: positive where the example
    hurts.
    """

    concept: Float[np.ndarray, " n"]  # |z - z without j|, in the kernel's norm (linear: Euclidean)
    bma: Float[np.ndarray, " n"]  # change of the BMA prediction
    softmax: Float[np.ndarray, " n"]  # change of the softmax prediction; NaN with one example
    harm_bma: Float[np.ndarray, " n"]
    harm_softmax: Float[np.ndarray, " n"]
    # change of the query margin (best minus second-best k . q); NaN with fewer than three examples
    margin: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]  # softmax weight of each example


def influence(
    keys: Float[Tensor, "n D"],
    values: Float[Tensor, " n"],
    query: Float[Tensor, " D"],
    target: float,
    ridge_penalty: float,
    kappa: float,
    kernel: str = "linear",
    parameter: float = 1.0,
    softmax_factor: float = 1.0,
) -> Influence:
    """Leave-one-out influence of every example from one inverse, without refitting.

    With `B = (G + rho I)^-1` and coefficients `a = B v`, leaving j out changes a by `-B_j a_j /
    B_jj` (block inverse). `softmax_factor` multiplies the softmax prediction (C, to judge the
    rescaled one).
    """
    n = len(keys)
    if n < 1:
        raise ValueError("influence needs at least one example, got none; raise the length")
    function = _kernel(kernel).function
    gram = function(keys, keys, parameter)
    cross = function(keys, query[None], parameter)[:, 0]
    eye = torch.eye(n, dtype=keys.dtype, device=keys.device)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram + ridge_penalty * eye))
    coefficients = inverse @ values
    change = inverse * (coefficients / inverse.diagonal())  # column j: a - a without j
    concept = (change * (gram @ change)).sum(0).clamp_min(0).sqrt()
    bma = cross @ change
    miss = cross @ coefficients - target
    harm_bma = miss.square() - (miss - bma).square()

    scores = keys @ query
    weights = (kappa * scores).softmax(0)
    if n > 1:
        # each softmax without j anew: p_j (v_j - o)/(1 - p_j) loses all digits where p_j is near 1
        without = scores.expand(n, n).masked_fill(eye.bool(), -math.inf)
        left = (kappa * without).softmax(1) @ values
        softmax = softmax_factor * (weights @ values - left)
        missed = softmax_factor * (weights @ values) - target
        harm_softmax = missed.square() - (missed - softmax).square()
    else:
        without = scores.expand(1, 1)
        softmax = harm_softmax = torch.full_like(weights, math.nan)
    if n > 2:
        full, left_two = scores.topk(2).values, without.topk(2, dim=1).values
        margin = (full[0] - full[1]) - (left_two[:, 0] - left_two[:, 1])
    else:
        margin = torch.full_like(weights, math.nan)
    return Influence(
        *(t.numpy() for t in (concept, bma, softmax, harm_bma, harm_softmax, margin, weights))
    )


def _kernel(name: str) -> Kernel:
    if name not in KERNELS:
        raise ValueError(f"kernel: expected one of {', '.join(KERNELS)}, got {name!r}")
    return KERNELS[name]
