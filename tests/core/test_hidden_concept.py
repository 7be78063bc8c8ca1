"""BMA and softmax attention against scikit-learn, scipy and closed forms."""

import mpmath
import numpy as np
import pytest
import scipy.special
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import BayesianRidge

from core.hidden_concept import (
    KERNELS,
    bma_attention,
    ellipse,
    influence,
    mean_resultant,
    posterior_covariances,
    posterior_means,
    softmax_attention,
    softmax_scale,
)
from core.patterns import on_sphere

PARAMETERS = {"linear": 1.0, "rbf": 0.7, "exponential": 3.0}


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sklearn_kernel(name: str):
    """The kernels spelled out again in numpy, for `KernelRidge(kernel=...)` on pairs of rows."""
    return {
        "linear": lambda a, b: a @ b,
        "rbf": lambda a, b: np.exp(-((a - b) ** 2).sum() / (2 * 0.7**2)),
        "exponential": lambda a, b: np.exp(3 * (a @ b - 1)),
    }[name]


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_bma_equals_kernel_ridge_at_every_length(kernel):
    keys, values = on_sphere(draws(2, 14, 4)), draws(2, 14, 3, seed=1)
    queries = on_sphere(draws(2, 14, 4, seed=2))
    mean, _ = bma_attention(keys, values, queries, 0.3, kernel, PARAMETERS[kernel])
    assert torch.equal(mean[:, 0], torch.zeros(2, 3, dtype=torch.float64))
    for b in range(2):
        for i in (1, 3, 9, 13):
            peer = KernelRidge(alpha=0.3, kernel=sklearn_kernel(kernel))
            peer.fit(keys[b, :i].numpy(), values[b, :i].numpy())
            expected = peer.predict(queries[b, i : i + 1].numpy())[0]
            np.testing.assert_allclose(mean[b, i].numpy(), expected, atol=1e-11)


def test_bma_equals_gaussian_process_mean_and_variance():
    keys, values = draws(1, 12, 3), draws(1, 12, 1, seed=1)
    mean, left = bma_attention(keys, values, keys, 0.2, "rbf", 0.7)
    process = GaussianProcessRegressor(RBF(0.7) + WhiteKernel(0.2), optimizer=None)
    process.fit(keys[0, :11].numpy(), values[0, :11, 0].numpy())
    expected, deviation = process.predict(keys[0, 11:].numpy(), return_std=True)
    np.testing.assert_allclose(mean[0, 11].numpy(), expected, atol=1e-10)
    # scikit-learn's deviation is that of a value: it includes the noise
    np.testing.assert_allclose(float(left[0, 11]) + 0.2, deviation[0] ** 2, atol=1e-10)


def test_primal_equals_dual():
    keys, values = draws(3, 30, 5), draws(3, 30, 1, seed=1)
    weight_precision, noise_precision = 0.7, 4.0
    dual, left = bma_attention(keys, values, keys, weight_precision / noise_precision)
    means = posterior_means(keys[:, :-1], values[:, :-1, 0], noise_precision, weight_precision)
    torch.testing.assert_close((means * keys).sum(-1), dual[..., 0], atol=1e-11, rtol=0)
    covariance = posterior_covariances(keys[0, :-1], noise_precision, weight_precision)
    variance = torch.einsum("pd,pde,pe->p", keys[0], covariance, keys[0])
    torch.testing.assert_close(variance, left[0] / weight_precision, atol=1e-11, rtol=0)


@pytest.mark.parametrize("n", [0, 1, 4, 20])
def test_posterior_equals_the_closed_form(n):
    keys, values = draws(1, 20, 6), draws(1, 20, seed=1)
    mean = posterior_means(keys, values, 3.0, 0.5)[0, n].numpy()
    covariance = posterior_covariances(keys[0], 3.0, 0.5)[n].numpy()
    K, v = keys[0, :n].numpy(), values[0, :n].numpy()
    expected = np.linalg.inv(0.5 * np.eye(6) + 3.0 * K.T @ K)
    np.testing.assert_allclose(covariance, expected, atol=1e-12)
    np.testing.assert_allclose(mean, 3.0 * expected @ K.T @ v, atol=1e-12)


def test_posterior_equals_bayesian_ridge_at_its_own_precisions():
    """scikit-learn re-estimates its precisions, so ours are set to those that it ends with."""
    keys, values = draws(40, 4), draws(40, seed=1)
    values = keys @ draws(4, seed=2) + 0.3 * values
    peer = BayesianRidge(fit_intercept=False, max_iter=1).fit(keys.numpy(), values.numpy())
    mean = posterior_means(keys[None], values[None], peer.alpha_, peer.lambda_)[0, -1]
    covariance = posterior_covariances(keys, peer.alpha_, peer.lambda_)[-1]
    np.testing.assert_allclose(covariance.numpy(), peer.sigma_, rtol=1e-9)
    np.testing.assert_allclose(mean.numpy(), peer.coef_, rtol=1e-9)


@pytest.mark.parametrize("n", [3, 12])
def test_small_ridge_tends_to_least_squares(n):
    keys, values = draws(1, n + 1, 6), draws(1, n + 1, 2, seed=1)
    mean, _ = bma_attention(keys, values, keys, 1e-9)
    concept = np.linalg.lstsq(keys[0, :n].numpy(), values[0, :n].numpy())[0]
    np.testing.assert_allclose(mean[0, n].numpy(), keys[0, n].numpy() @ concept, atol=1e-6)


def test_variance_never_rises_with_examples_and_never_exceeds_the_prior():
    keys = on_sphere(draws(4, 20, 3))
    queries = keys[:, -1:].expand(-1, 20, -1)
    for kernel, parameter in PARAMETERS.items():
        _, left = bma_attention(keys, keys, queries, 0.1, kernel, parameter)
        assert (left.diff(dim=1) <= 1e-12).all()
        torch.testing.assert_close(left[:, 0], torch.ones(4, dtype=torch.float64))


def test_softmax_attention_equals_the_definition_at_every_length():
    keys, values, queries = draws(2, 9, 3), draws(2, 9, 2, seed=1), draws(2, 9, 3, seed=2)
    found = softmax_attention(keys, values, queries, 1.7)
    assert torch.equal(found[:, 0], torch.zeros(2, 2, dtype=torch.float64))
    for i in range(1, 9):
        weights = scipy.special.softmax(1.7 * (keys[1, :i] @ queries[1, i]).numpy())
        np.testing.assert_allclose(found[1, i].numpy(), weights @ values[1, :i].numpy(), atol=1e-13)


def test_softmax_attention_stays_finite_at_huge_scores():
    keys = 100 * draws(1, 8, 3)
    assert softmax_attention(keys, keys, keys, 1e3).isfinite().all()


# ---- C ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dimension", "kappa", "expected"),
    [(20, 1.0, 20.05), (20, 4.0, 5.18), (20, 16.0, 1.78), (8, 4.0, 2.356)],
)
def test_scale_factor_has_the_stated_values(dimension, kappa, expected):
    assert softmax_scale(kappa, dimension) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("dimension", [2, 3, 8, 20, 63, 1000, 5000])
@pytest.mark.parametrize("kappa", [1e-3, 0.1, 1.0, 7.0, 40.0, 300.0, 3000.0])
def test_mean_resultant_equals_the_ratio_of_bessel_functions(dimension, kappa):
    """mpmath has neither under- nor overflow; scipy's `iv` where it has none."""
    half = mpmath.mpf(dimension) / 2
    expected = float(mpmath.besseli(half, kappa) / mpmath.besseli(half - 1, kappa))
    assert mean_resultant(kappa, dimension) == pytest.approx(expected, rel=1e-11)
    above = scipy.special.iv(dimension / 2, kappa)
    below = scipy.special.iv(dimension / 2 - 1, kappa)
    if above > 1e-300 and np.isfinite(below):
        assert mean_resultant(kappa, dimension) == pytest.approx(above / below, rel=1e-11)


@pytest.mark.parametrize("kappa", [20.0, 500.0, 1e4])
def test_mean_resultant_on_the_ordinary_sphere_is_langevin(kappa):
    assert mean_resultant(kappa, 3) == pytest.approx(1 / np.tanh(kappa) - 1 / kappa)


@pytest.mark.parametrize(("dimension", "kappa"), [(8, 4.0), (3, 1.0)])
def test_softmax_over_the_sphere_tends_to_a_times_the_truth(dimension, kappa):
    """Monte Carlo: 20 prompts of 20 000 examples; a standard error is below 0.003."""
    t = 20_000
    keys = on_sphere(draws(20, t, dimension))
    concept, query = draws(20, 1, dimension, seed=1), on_sphere(draws(20, dimension, seed=2))
    weights = (kappa * keys @ query[..., None]).softmax(1)
    retrieved = (weights * (keys @ concept.mT)).sum(1)[:, 0]
    truth = (concept[:, 0] * query).sum(-1)
    slope = float((retrieved * truth).sum() / truth.square().sum())
    assert slope == pytest.approx(mean_resultant(kappa, dimension), abs=0.01)


# ---- ellipse, influence -------------------------------------------------------------------------


def test_ellipse_holds_its_level():
    covariance = np.array([[2.0, 0.9], [0.9, 0.7]])
    border = ellipse(np.array([1.0, -2.0]), covariance, 0.8) - np.array([1.0, -2.0])
    distance = np.einsum("nd,de,ne->n", border, np.linalg.inv(covariance), border)
    np.testing.assert_allclose(distance, scipy.stats.chi2.ppf(0.8, 2), rtol=1e-9)
    np.testing.assert_allclose(border[0], border[-1], atol=1e-12)


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_influence_equals_refitting_without_each_example(kernel):
    keys, values, query = on_sphere(draws(7, 3)), draws(7, seed=1), on_sphere(draws(3, seed=2))
    found = influence(keys, values, query, 0.4, 0.2, 2.0, kernel, PARAMETERS[kernel])
    pair = sklearn_kernel(kernel)

    def fit(rows):
        K, v = keys[rows].numpy(), values[rows].numpy()
        peer = KernelRidge(alpha=0.2, kernel=pair).fit(K, v)
        weights = scipy.special.softmax(2.0 * K @ query.numpy())
        top = np.sort(K @ query.numpy())[::-1]
        return peer.dual_coef_, peer.predict(query[None].numpy())[0], weights @ v, top[0] - top[1]

    gram = KERNELS[kernel].function(keys, keys, PARAMETERS[kernel]).numpy()
    dual, bma, softmax, margin = fit(list(range(7)))
    for j in range(7):
        rows = [i for i in range(7) if i != j]
        dual_j, bma_j, softmax_j, margin_j = fit(rows)
        change = dual.copy()
        change[rows] -= dual_j
        assert found.concept[j] == pytest.approx(np.sqrt(change @ gram @ change), abs=1e-10)
        assert found.bma[j] == pytest.approx(bma - bma_j, abs=1e-10)
        assert found.softmax[j] == pytest.approx(softmax - softmax_j, abs=1e-10)
        assert found.margin[j] == pytest.approx(margin - margin_j, abs=1e-10)
        harm = (bma - 0.4) ** 2 - (bma_j - 0.4) ** 2
        assert found.harm_bma[j] == pytest.approx(harm, abs=1e-10)
        harm = (softmax - 0.4) ** 2 - (softmax_j - 0.4) ** 2
        assert found.harm_softmax[j] == pytest.approx(harm, abs=1e-10)


def test_softmax_influence_keeps_its_digits_when_one_example_has_all_the_weight():
    keys = torch.tensor([[50.0], [0.0], [-1.0]], dtype=torch.float64)
    values = torch.tensor([1.0, 2.0, 7.0], dtype=torch.float64)
    query = torch.ones(1, dtype=torch.float64)
    found = influence(keys, values, query, 1.0, 0.1, 1.0)
    expected = 1.0 - (2.0 + 7.0 / np.e) / (1 + 1 / np.e)
    assert found.softmax[0] == pytest.approx(expected, rel=1e-12)


def test_influence_of_a_single_example_says_what_is_undefined():
    one = torch.ones(1, 2, dtype=torch.float64)
    found = influence(one, one[:, 0], one[0], 0.0, 0.1, 1.0)
    assert np.isnan(found.softmax).all()
    assert np.isnan(found.margin).all()
    assert np.isfinite(found.bma).all()


# ---- refusals -----------------------------------------------------------------------------------


def test_bad_input_is_refused_with_what_to_do():
    keys = draws(1, 4, 2)
    with pytest.raises(ValueError, match="ridge_penalty: expected a finite number > 0"):
        bma_attention(keys, keys, keys, 0.0)
    with pytest.raises(ValueError, match="kernel: expected one of linear, rbf, exponential"):
        bma_attention(keys, keys, keys, 0.1, "cubic")
    with pytest.raises(ValueError, match=r"overflows.*smaller kappa"):
        bma_attention(100 * keys, keys, keys, 0.1, "exponential", 100.0)
    with pytest.raises(ValueError, match="kappa: expected a finite number > 0"):
        softmax_scale(0.0, 3)
    with pytest.raises(ValueError, match="at least one example"):
        influence(keys[0, :0], keys[0, :0, 0], keys[0, 0], 0.0, 0.1, 1.0)
    with pytest.raises(ValueError, match="probability"):
        ellipse(np.zeros(2), np.eye(2), 1.0)
