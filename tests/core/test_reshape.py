import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from core.reshape import apply, interpolate, lemma_2_2, reshape, reshaping_map
from tests import oracles


def problem(t, D, seed=0):
    return oracles.normal(t, D, seed=seed), oracles.normal(t, D, seed=seed + 1)


def diagnostics(keys, ghosts, **options):
    return reshape(keys, keys, ghosts, ghosts, **options).keys


# ---- the map ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("t", "D"), [(1, 5), (5, 20), (20, 20), (50, 20)])
def test_map_equals_the_pseudo_inverse(t, D):
    keys, ghosts = problem(t, D)
    expected = keys.numpy().T @ np.linalg.pinv(ghosts.numpy().T)
    np.testing.assert_allclose(reshaping_map(keys, ghosts), expected, atol=1e-9)


@pytest.mark.parametrize(("t", "D"), [(5, 20), (50, 20)])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 30.0])
def test_ridge_equals_the_normal_equations(t, D, ridge):
    keys, ghosts = problem(t, D)
    K, G = keys.numpy().T, ghosts.numpy().T
    expected = scipy.linalg.solve(G @ G.T + ridge * np.eye(D), G @ K.T, assume_a="pos").T
    np.testing.assert_allclose(reshaping_map(keys, ghosts, ridge), expected, atol=1e-9)
    found = diagnostics(keys, ghosts, ridge=ridge)
    expected = np.linalg.norm(expected @ G - K) / np.linalg.norm(K)
    assert found.residual == pytest.approx(expected)
    assert not found.exact
    assert "ridge" in found.reason


def test_vanishing_ridge_is_the_pseudo_inverse():
    keys, ghosts = problem(8, 12)
    torch.testing.assert_close(
        reshaping_map(keys, ghosts, 1e-12), reshaping_map(keys, ghosts), rtol=0, atol=1e-9
    )


@hypothesis_settings(max_examples=40, deadline=None)
@given(D=st.integers(1, 24), t=st.integers(1, 24), seed=st.integers(0, 10**6))
def test_exact_iff_no_more_examples_than_dimensions(D, t, seed):
    keys, ghosts = problem(t, D, seed)
    found = diagnostics(keys, ghosts)
    assert found.rank == min(t, D) == np.linalg.matrix_rank(ghosts)
    sizes = np.linalg.svd(ghosts.numpy(), compute_uv=False)
    assert found.condition == pytest.approx(sizes[0] / sizes[-1], rel=1e-6)
    if t > D:
        assert not found.exact
        assert f"t = {t} examples are more than the dimension D = {D}" in found.reason
    elif found.condition < 1e4:  # near-square Gaussian ghosts can be ill-conditioned by chance
        assert found.residual < 1e-10
        assert found.exact
        assert found.reason.startswith("Exact")


def test_residual_of_unrelated_gaussians():
    """About sqrt(1 - D/t): projecting K's rows off a random D of t directions."""
    residuals = [diagnostics(*problem(50, 20, seed)).residual for seed in range(0, 60, 2)]
    assert np.mean(residuals) == pytest.approx(math.sqrt(1 - 20 / 50), abs=0.01)
    assert diagnostics(*problem(50, 20)).expected_residual == pytest.approx(0.7746, abs=1e-4)


def test_exact_past_the_dimension_when_examples_follow_the_ghosts():
    _, ghosts = problem(50, 20)
    keys = ghosts @ oracles.normal(20, 20, seed=9).mT  # a linear image: row space inside
    assert diagnostics(keys, ghosts).exact


def test_dependent_ghosts_are_counted_and_named():
    keys, ghosts = problem(6, 10)
    ghosts[4], ghosts[5] = ghosts[0], ghosts[1] + ghosts[2]
    found = diagnostics(keys, ghosts)
    assert found.rank == 4
    assert found.condition == math.inf
    assert not found.exact
    assert "t = 6 examples are more than their rank 4" in found.reason
    # Twins cannot part: both go to the mean of their examples.
    moved = apply(reshaping_map(keys[[0, 4]], ghosts[[0, 4]]), ghosts[[0]])
    torch.testing.assert_close(moved[0], (keys[0] + keys[4]) / 2)


def test_tolerance_drops_small_directions():
    keys, ghosts = problem(4, 6)
    left, _, right = torch.linalg.svd(ghosts, full_matrices=False)
    ghosts = left * torch.tensor([1.0, 0.5, 0.1, 1e-6], dtype=torch.float64) @ right
    assert diagnostics(keys, ghosts).rank == 4
    assert diagnostics(keys, ghosts, tolerance=1e-3).rank == 3
    assert diagnostics(keys, ghosts, tolerance=0.2).rank == 2
    expected = keys.numpy().T @ np.linalg.pinv(ghosts.numpy().T, rcond=1e-3)
    np.testing.assert_allclose(reshaping_map(keys, ghosts, tolerance=1e-3), expected, atol=1e-9)


def test_values_have_their_own_map_and_diagnostics():
    keys, ghosts = problem(8, 10)
    values, ghost_values = oracles.normal(8, 3, seed=5), oracles.normal(8, 3, seed=6)
    found = reshape(keys, values, ghosts, ghost_values)
    assert (found.keys.exact, found.values.exact) == (True, False)
    assert (found.keys.columns, found.values.columns) == (10, 3)
    expected = values.numpy().T @ np.linalg.pinv(ghost_values.numpy().T)
    np.testing.assert_allclose(found.W2, expected, atol=1e-12)
    torch.testing.assert_close(apply(found.W1, ghosts), keys)


def test_zero_ghosts_give_the_zero_map():
    keys, _ = problem(3, 4)
    found = reshape(keys, keys, torch.zeros_like(keys), torch.zeros_like(keys))
    assert found.keys.rank == 0
    assert found.W1.abs().max() == 0
    assert found.keys.residual == 1


def test_strength_interpolates_from_identity_to_the_map():
    W = reshaping_map(*problem(5, 6))
    assert torch.equal(interpolate(W, 0.0), torch.eye(6, dtype=torch.float64))
    assert torch.equal(interpolate(W, 1.0), W)
    rows = oracles.normal(4, 6, seed=3)
    torch.testing.assert_close(apply(interpolate(W, 0.3), rows), 0.7 * rows + 0.3 * apply(W, rows))


# ---- Lemma 2.2 -------------------------------------------------------------------------------


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    M=st.integers(2, 10),
    D=st.integers(1, 8),
    scale=st.floats(0.1, 10),
)
def test_margin_rises_by_the_predicted_amount_always(seed, M, D, scale):
    Xi, query = oracles.normal(M, D, seed=seed), scale * oracles.normal(D, seed=seed + 1)
    found = lemma_2_2(Xi, query, 2.0)
    mu = int(found.mu)
    assert mu == int((Xi @ query).argmax())
    predicted = float(query @ query - query @ Xi[mu])
    assert float(found.margin_gain) == pytest.approx(predicted, abs=1e-9)
    assert float(found.margin_gain_predicted) == pytest.approx(predicted, abs=1e-9)


def test_at_equal_norms_the_gain_is_half_the_squared_distance():
    Xi, query = oracles.normal(5, 4, seed=0), oracles.normal(4, seed=1)
    Xi, query = Xi / Xi.norm(dim=1, keepdim=True), query / query.norm()
    found = lemma_2_2(Xi, query, 2.0)
    expected = float((query - Xi[int(found.mu)]).square().sum() / 2)
    assert float(found.margin_gain) == pytest.approx(expected)


def test_delta_falls_when_the_query_lies_between_two_patterns():
    """By hand: patterns at 0 and 90 degrees, query at 40. Delta of the nearest was 1 - cos 90 = 1
    and becomes 1 - cos 50 = 0.357; the margin still rises, from cos 40 - cos 50 to 1 - cos 50."""
    degrees = torch.deg2rad(torch.tensor([0.0, 90.0, 40.0], dtype=torch.float64))
    points = torch.stack([degrees.cos(), degrees.sin()], dim=1)
    found = lemma_2_2(points[:2], points[2], 4.0)
    cos = {angle: math.cos(math.radians(angle)) for angle in (40, 50)}
    assert int(found.mu) == 0
    assert float(found.delta_before) == pytest.approx(1)
    assert float(found.delta_after) == pytest.approx(1 - cos[50])
    assert float(found.margin_before) == pytest.approx(cos[40] - cos[50])
    assert float(found.margin_after) == pytest.approx(1 - cos[50])


# ---- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ghost_keys": torch.zeros(3, 4, dtype=torch.float64)}, r"one shape \(t, D\), got \(5, 4"),
        ({"keys": torch.full((5, 4), math.nan, dtype=torch.float64)}, "NaN or infinite"),
        ({"ridge": -1.0}, "ridge must be a finite number >= 0, got -1.0"),
        ({"ridge": math.inf}, "ridge must be a finite"),
        ({"tolerance": 1.0}, r"tolerance must be in \[0, 1\)"),
    ],
)
def test_bad_input_is_refused_with_a_reason(change, message):
    keys, ghosts = problem(5, 4)
    with oracles.run_time_types_off(), pytest.raises(ValueError, match=message):
        reshaping_map(**({"keys": keys, "ghost_keys": ghosts} | change))


def test_bad_strength_and_bad_query_are_refused():
    with (
        oracles.run_time_types_off(),
        pytest.raises(ValueError, match=r"strength must be in \[0, 1\], got 1.2"),
    ):
        interpolate(torch.eye(2, dtype=torch.float64), 1.2)
    with oracles.run_time_types_off(), pytest.raises(ValueError, match="expected a query"):
        lemma_2_2(oracles.normal(4, 3, seed=0), oracles.normal(4, seed=1), 1.0)
    with oracles.run_time_types_off(), pytest.raises(ValueError, match="beta must be"):
        lemma_2_2(oracles.normal(4, 3, seed=0), oracles.normal(3, seed=1), 0.0)
