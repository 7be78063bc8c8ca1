"""What the hidden-concept page shows, against limits and constructions."""

import numpy as np
import pytest
import torch

from core.concept_study import (
    KEY_LAWS,
    KINDS,
    ConceptSettings,
    draw_concepts,
    harm_by_kind,
    hidden_concept,
    reshaped_concept,
)
from core.hidden_concept import KERNELS
from core.predictors import LeastSquares, Ridge


def test_raw_softmax_ends_at_its_limit_and_rescaled_softmax_closes_the_gap():
    settings = ConceptSettings(dimension=4, examples=256, prompts=64, noise=0.1, kappa=2.0)
    result = hidden_concept(settings)
    raw, rescaled = result.curve("softmax"), result.curve("softmax x C")
    assert raw.error[-1] == pytest.approx(result.softmax_limit_error, rel=0.15)
    assert rescaled.gap[-1] < 0.35 * raw.gap[-1]
    assert result.gap_slope == pytest.approx(-0.5, abs=0.1)  # a Monte-Carlo mean: 1/sqrt(t)


@pytest.mark.parametrize(
    ("irrelevant", "contradicting", "opposition"),
    [(1.0, 0.0, -1.0), (0.0, 1.0, -1.0), (0.3, 0.4, -0.5), (0.0, 0.5, 0.0)],
)
def test_raw_softmax_of_a_mixture_ends_at_the_limit_of_the_mixture(
    irrelevant, contradicting, opposition
):
    result = hidden_concept(
        ConceptSettings(
            dimension=4, examples=256, prompts=72, noise=0.0, kappa=2.0, irrelevant=irrelevant,
            contradicting=contradicting, opposition=opposition,
        )
    )  # fmt: skip
    found = result.curve("softmax").error[-1]
    assert found == pytest.approx(result.softmax_limit_error, rel=0.15)


def test_gaussian_keys_have_their_own_factor():
    settings = ConceptSettings(keys="gaussian", dimension=4, examples=256, kappa=1.0)
    result = hidden_concept(settings)
    assert result.scale_factor == pytest.approx(4.0)
    assert result.curve("softmax x C").error[-1] < 0.15


def test_shared_direction_breaks_the_claim():
    iid, shared = (
        hidden_concept(ConceptSettings(keys=keys, examples=200, prompts=32, correlation=0.8)).curve(
            "softmax x C"
        )
        for keys in ("sphere", "equicorrelated")
    )
    assert shared.gap[-1] > 3 * iid.gap[-1]


def test_bma_is_the_best_and_knows_how_sure_it_is():
    result = hidden_concept(ConceptSettings(prompts=512, noise=0.3))
    for curve in result.curves[1:]:
        assert (curve.error >= result.curve("BMA").error - 1e-12).all()
    # 512 prompts: a standard error of 0.01 around 0.95
    np.testing.assert_allclose(result.coverage, 0.95, atol=0.045)
    np.testing.assert_allclose(result.posterior.covered, 0.95, atol=0.045)


def test_error_starts_at_the_prior_and_bands_hold_the_mean():
    curve = hidden_concept(ConceptSettings(prompts=200)).curve("BMA")
    assert curve.error[0] == pytest.approx(1.0, abs=0.3)
    assert (curve.error_low <= curve.error).all()
    assert (curve.error <= curve.error_high).all()


def test_given_predictors_are_asked_on_the_same_prompts():
    settings = ConceptSettings(noise=0.5, examples=12)
    result = hidden_concept(settings, {"ridge": Ridge(0.25), "ols": LeastSquares()})
    assert result.curve("ridge").gap.max() < 1e-10  # BMA at the true noise is this ridge
    assert result.curve("ols").error[8] > 3 * result.curve("BMA").error[8]


# ---- the posterior -------------------------------------------------------------------------------


def test_posterior_narrows_onto_the_truth():
    result = hidden_concept(
        ConceptSettings(dimension=2, examples=150, prompts=32, noise=0.1)
    ).posterior
    assert result.to_truth[2, 0] == pytest.approx(1.0)
    assert result.to_truth[2, -1] < 0.05
    assert (np.diff(result.spectrum, axis=0) <= 1e-12).all()
    assert (np.diff(result.information) >= -1e-12).all()
    assert result.ellipses is not None
    assert result.ellipses.shape == (151, 96, 2)


def test_spectrum_is_of_the_covariance_shown():
    result = hidden_concept(ConceptSettings(dimension=5, examples=7)).posterior
    expected = np.linalg.eigvalsh(result.covariance[3])[::-1]
    np.testing.assert_allclose(result.spectrum[3], expected, atol=1e-12)
    learnt = -0.5 * np.linalg.slogdet(result.covariance[7])[1]
    assert result.information[7] == pytest.approx(learnt)
    assert result.ellipses is None


@pytest.mark.parametrize(
    ("irrelevant", "contradicting", "opposition"),
    [(0.2, 0.3, -1.0), (0.0, 0.5, 0.0), (0.6, 0.0, 0.5)],
)
def test_a_biased_concept_is_the_mixture_by_shares(irrelevant, contradicting, opposition):
    """E[v | k] = (c z + b z') k, so the posterior tends to c z + b z'."""
    settings = ConceptSettings(
        dimension=3,
        examples=256,
        prompts=32,
        irrelevant=irrelevant,
        contradicting=contradicting,
        opposition=opposition,
    )
    data = draw_concepts(settings)
    result = hidden_concept(settings).posterior
    limit = (1 - irrelevant - contradicting) * data.concepts + contradicting * data.others
    to_truth = (limit - data.concepts)[:, 0].norm(dim=-1) / data.concepts[:, 0].norm(dim=-1)
    to_other = (limit - data.others)[:, 0].norm(dim=-1) / data.concepts[:, 0].norm(dim=-1)
    np.testing.assert_allclose(to_truth.numpy(), result.limit_to_truth, atol=1e-12)
    np.testing.assert_allclose(to_other.numpy(), result.limit_to_other, atol=1e-12)
    assert result.to_truth[2, -1] == pytest.approx(result.limit_to_truth, abs=0.08)
    assert result.to_other[2, -1] == pytest.approx(result.limit_to_other, abs=0.08)


def test_a_biased_concept_is_sure_and_wrong():
    result = hidden_concept(ConceptSettings(dimension=3, examples=150, contradicting=0.3))
    assert result.posterior.covered[-1] < 0.05


def test_kinds_have_their_shares_in_every_prompt_and_prefix():
    settings = ConceptSettings(examples=200, irrelevant=0.25, contradicting=0.4)
    kinds = draw_concepts(settings).kinds
    for n in (50, 200):
        for kind, share in zip(range(len(KINDS)), (0.35, 0.25, 0.4), strict=True):
            found = (kinds[:, :n] == kind).double().mean(1)
            assert ((found - share).abs() <= 0.06).all()


def test_contradicting_examples_hurt():
    right, wrong = [], []
    for seed in range(30):
        result = hidden_concept(
            ConceptSettings(examples=24, prompts=1, contradicting=0.2, noise=0.05, seed=seed)
        )
        against = result.kinds[:24] == KINDS.index("contradicting")
        wrong.extend(result.influence.harm_bma[against])
        right.extend(result.influence.harm_bma[~against])
    assert np.mean(wrong) > 0 > np.mean(right)


# ---- reshaped memories ---------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_ghosts_cancel_where_reshaping_is_exact(kernel):
    result = reshaped_concept(ConceptSettings(kernel=kernel))
    within = result.lengths <= 8
    assert all(np.array(result.exact) == within)
    assert result.difference[within].max() < 1e-9
    assert result.difference[~within].min() > 1e-3
    assert result.difference_ghosts.min() > 0.1
    beyond = result.lengths > 8
    expected = np.sqrt(1 - 8 / result.lengths[beyond])
    np.testing.assert_allclose(result.expected_residual[beyond], expected)
    np.testing.assert_allclose(result.residual_keys[beyond], expected, atol=0.15)


def test_without_noise_linear_ghosts_cancel_at_every_length():
    """V = z K, V~ = z~ K~: both maps project on the row space of K~, and z K P is z times K P."""
    result = reshaped_concept(ConceptSettings(noise=0.0, ridge_penalty=1e-8))
    assert not result.exact[-1]
    assert result.difference.max() < 1e-5


# ---- the draws -----------------------------------------------------------------------------------


@pytest.mark.parametrize("law", list(KEY_LAWS))
def test_more_examples_or_noise_keep_what_was_drawn(law):
    few = draw_concepts(ConceptSettings(keys=law, examples=5, prompts=8))
    many = draw_concepts(ConceptSettings(keys=law, examples=9, prompts=8, noise=0.9, kappa=9.0))
    torch.testing.assert_close(few.keys, many.keys[:, :6], atol=0, rtol=0)
    torch.testing.assert_close(few.targets, many.targets[:, :6], atol=1e-12, rtol=0)


@pytest.mark.parametrize("law", ["sphere", "autoregressive", "equicorrelated"])
def test_sphere_laws_have_unit_keys_times_scale(law):
    keys = draw_concepts(ConceptSettings(keys=law, scale=3.0)).keys
    torch.testing.assert_close(keys.norm(dim=-1), torch.full(keys.shape[:2], 3.0).double())


def test_correlated_laws_have_the_correlation_asked_for():
    settings = {"dimension": 64, "prompts": 64, "examples": 20, "correlation": 0.6}
    keys = draw_concepts(ConceptSettings(keys="equicorrelated", **settings)).keys
    assert float((keys[:, 0] * keys[:, 7]).sum(-1).mean()) == pytest.approx(0.6, abs=0.05)
    keys = draw_concepts(ConceptSettings(keys="autoregressive", **settings)).keys
    assert float((keys[:, 3] * keys[:, 4]).sum(-1).mean()) == pytest.approx(0.6, abs=0.05)
    assert float((keys[:, 3] * keys[:, 6]).sum(-1).mean()) == pytest.approx(0.6**3, abs=0.06)


def test_the_other_concept_has_the_cosine_asked_for():
    data = draw_concepts(ConceptSettings(opposition=-0.3))
    cosine = torch.cosine_similarity(data.concepts, data.others, dim=-1)
    torch.testing.assert_close(cosine, torch.full_like(cosine, -0.3))
    torch.testing.assert_close(data.concepts.norm(dim=-1), data.others.norm(dim=-1))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"dimension": 1}, "dimension: expected a whole number in 2..256"),
        ({"examples": 0}, "examples: expected a whole number"),
        ({"keys": "cube"}, "keys: expected one of sphere"),
        ({"kernel": "cubic"}, "kernel: expected one of linear"),
        ({"noise": float("nan")}, "noise: expected a number"),
        ({"irrelevant": 0.7, "contradicting": 0.6}, "lower one of them"),
        ({"position": 41}, "position: expected a whole number in 1..40"),
        ({"prompts": 256, "examples": 256}, "lower one of them"),
        ({"kappa": 0.0}, "kappa: expected a number"),
    ],
)
def test_bad_settings_name_their_field(bad, message):
    with pytest.raises(ValueError, match=message):
        ConceptSettings(**bad)


def test_harm_by_kind_is_the_mean_of_refits():
    """Every example of every prompt left out and refitted, pooled by kind."""
    settings = ConceptSettings(
        dimension=3, examples=9, prompts=5, noise=0.3, contradicting=0.3, irrelevant=0.3
    )
    data = draw_concepts(settings)
    unit = float(data.targets[..., 0].square().mean())
    rows = []
    for b in range(5):
        keys, values = data.keys[b, :9].numpy(), data.values[b, :9, 0].numpy()
        query, target = data.keys[b, 9].numpy(), float(data.targets[b, 9, 0])
        size = float(data.concepts[b, 0].norm())

        def fit(left, keys=keys, values=values):
            k = keys[left]
            return np.linalg.solve(k.T @ k + 0.09 * np.eye(3), k.T @ values[left])

        everything = np.arange(9)
        full = fit(everything)
        for j in range(9):
            z = fit(everything != j)
            harm = ((full @ query - target) ** 2 - (z @ query - target) ** 2) / unit
            rows.append((int(data.kinds[b, j]), harm, np.linalg.norm(full - z) / size, b))
    kinds, harms, pulls, prompt = (np.array(column) for column in zip(*rows, strict=True))
    found = harm_by_kind(settings)
    for kind in range(3):
        mine = kinds == kind
        assert found.count[kind] == mine.sum()
        assert found.harm[kind] == pytest.approx(harms[mine].mean())
        assert found.concept[kind] == pytest.approx(pulls[mine].mean())
        off = [(harms - harms[mine].mean())[mine & (prompt == b)].sum() for b in range(5)]
        expected = np.sqrt(np.square(off).sum()) / mine.sum()
        assert found.harm_error[kind] == pytest.approx(expected)


def test_harm_of_a_kind_that_is_absent_is_not_a_number():
    found = harm_by_kind(ConceptSettings(examples=6, prompts=4))
    assert found.count.tolist() == [24, 0, 0]
    assert np.isnan(found.harm[1:]).all()
