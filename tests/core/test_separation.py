import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from core.hopfield import ENERGIES, OUTCOMES, retrieve, update
from core.patterns import LAYOUTS, draw_patterns, gaussian
from core.reshape import reshaping_study
from core.separation import (
    BOUNDS_HOLD,
    VARIABLES,
    StudySettings,
    bounds_apply,
    draw_study,
    error_study,
    fixed_point_near,
    is_vacuous,
    largest_norm,
    margin_bound,
    phase_map,
    query_margin,
    ramsauer_bound,
    retrieval_error,
    separation,
    well_separated,
)
from tests import oracles

QUICK = StudySettings(draws=40, patterns=8, dimension=10)


# ---- quantities ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_separation_and_margin_equal_loops(seed):
    Xi, query = oracles.normal(6, 4, seed=seed), oracles.normal(4, seed=seed + 100)
    for mu in range(6):
        assert float(separation(Xi)[mu]) == pytest.approx(oracles.separation(Xi.numpy(), mu))
        expected = oracles.margin(Xi.numpy(), query.numpy(), mu)
        assert float(query_margin(Xi, query, mu)) == pytest.approx(expected)


def test_everything_is_batched_on_leading_dimensions():
    Xi, query = oracles.normal(3, 5, 4, seed=0), oracles.normal(3, 4, seed=1)
    mu = torch.tensor([0, 3, 4])
    for function in (
        lambda X, x, k: query_margin(X, x, k),
        lambda X, x, k: retrieval_error(X, x, 2.0, k),
        lambda X, x, k: retrieval_error(X, x, 2.0, k, "sparse"),
        lambda X, x, k: margin_bound(X, x, 2.0, k),
        lambda X, x, k: ramsauer_bound(X, x, 2.0, k),
        lambda X, x, k: well_separated(X, 2.0, k),
        lambda X, x, k: fixed_point_near(X, 2.0, k),
    ):
        together = function(Xi, query, mu)
        alone = torch.stack([function(Xi[s], query[s], int(mu[s])) for s in range(3)])
        torch.testing.assert_close(together, alone)
    torch.testing.assert_close(separation(Xi), torch.stack([separation(X) for X in Xi]))


def test_error_is_the_distance_after_one_update():
    Xi, query = oracles.normal(6, 4, seed=0), oracles.normal(4, seed=1)
    expected = (update(Xi, query, 1.5, "lse_l2") - Xi[2]).norm()
    torch.testing.assert_close(retrieval_error(Xi, query, 1.5, 2, "lse_l2"), expected)


def test_fixed_point_near_a_pattern_is_where_retrieval_from_it_ends():
    Xi = oracles.normal(6, 4, seed=0)
    torch.testing.assert_close(fixed_point_near(Xi, 1.5, 2), retrieve(Xi, Xi[2], 1.5).state)


def test_orthonormal_patterns_in_closed_form():
    M, beta = 5, 4.0
    Xi = torch.eye(M, dtype=torch.float64)
    # scores (1, 0, 0, 0, 0): p = e^beta / (e^beta + M - 1), the rest shared equally
    p = math.exp(beta) / (math.exp(beta) + M - 1)
    error = math.hypot(1 - p, math.sqrt(M - 1) * (1 - p) / (M - 1))
    assert float(retrieval_error(Xi, Xi[0], beta, 0)) == pytest.approx(error)
    assert separation(Xi).tolist() == [1.0] * M
    assert float(query_margin(Xi, Xi[0], 0)) == 1.0
    assert float(margin_bound(Xi, Xi[0], beta, 0)) == pytest.approx(8 * math.exp(-beta))
    needed = 2 / (beta * M) + math.log(2 * 4 * M * beta) / beta
    assert bool(well_separated(Xi, beta, 0)) == (needed <= 1)
    assert bool(well_separated(Xi, 20.0, 0))
    assert not bool(well_separated(Xi, 1.0, 0))


def test_a_single_pattern_has_nothing_to_confuse():
    Xi, query = oracles.normal(1, 4, seed=0), oracles.normal(4, seed=1)
    assert separation(Xi).tolist() == [math.inf]
    assert float(query_margin(Xi, query, 0)) == math.inf
    assert float(margin_bound(Xi, query, 1.0, 0)) == 0
    assert float(ramsauer_bound(Xi, query, 1.0, 0)) == 0
    assert float(retrieval_error(Xi, query, 1.0, 0)) == 0
    assert bool(well_separated(Xi, 1.0, 0))


# ---- the bounds are theorems -----------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("beta", [0.5, 4.0, 20.0, 150.0])
def test_bounds_hold_on_thousands_of_draws(layout, beta):
    generator = oracles.generator(11)
    draws = 500
    Xi = draw_patterns(layout, 8, 6, generator, batch=draws)
    # Norms between 0.5 and 2: the theorems do not ask for equal ones.
    Xi = Xi * (0.5 + 1.5 * torch.rand(draws, 8, 1, generator=generator, dtype=torch.float64))
    for noise in (0.0, 0.2, 1.0):
        query = Xi[:, 0] + noise * gaussian(draws, 6, generator=generator) / math.sqrt(6)
        error = retrieval_error(Xi, query, beta, 0)
        elementary = margin_bound(Xi, query, beta, 0)
        ramsauer = ramsauer_bound(Xi, query, beta, 0)
        m = largest_norm(Xi)
        # 1e-12: errors that are rounding noise meet bounds that have underflowed to 0.
        assert (error <= elementary + 1e-12 * m).all()
        assert (error <= 2 * m + 1e-12).all()
        # x* is iterated to 1e-9; in the exponent that is at most beta * 2 m * 1e-9.
        assert (elementary <= ramsauer * (1 + 1e-5)).all()
        assert torch.equal(is_vacuous(ramsauer, Xi), ramsauer > 2 * m)


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    M=st.integers(2, 12),
    D=st.integers(1, 10),
    beta=st.floats(0.01, 100),
    noise=st.floats(0, 3),
)
def test_bounds_hold_on_any_problem(seed, M, D, beta, noise):
    Xi = oracles.normal(M, D, seed=seed)
    query = Xi[0] + noise * oracles.normal(D, seed=seed + 1)
    error, m = retrieval_error(Xi, query, beta, 0), largest_norm(Xi)
    assert error <= margin_bound(Xi, query, beta, 0) + 1e-12 * m
    assert error <= ramsauer_bound(Xi, query, beta, 0) * (1 + 1e-5) + 1e-12 * m


# ---- studies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("vary", VARIABLES)
def test_error_study_is_whole_and_never_violates_a_bound(vary):
    study = error_study(QUICK, vary)
    V, S = len(study.values), QUICK.draws
    for name in ("error", "bound_margin", "bound_ramsauer", "delta", "margin", "two_m"):
        assert getattr(study, name).shape == (V, S)
        assert not np.isnan(getattr(study, name)).any()
    for name in ("error_quantiles", "bound_margin_quantiles", "bound_ramsauer_quantiles"):
        bands = getattr(study, name)
        assert bands.shape == (V, 5)
        assert (bands[:, 1:] >= bands[:, :-1]).all()
    assert study.violations == 0
    assert study.bounds_apply
    assert (study.vacuous_ramsauer >= study.vacuous_margin).all()


def test_error_study_equals_single_draws():
    study = error_study(QUICK, "noise", (0.0, 0.7))
    Xi, direction = draw_study(QUICK)
    for draw in (0, 17, 39):
        query = Xi[draw, 0] + 0.7 * direction[draw]
        expected = (update(Xi[draw], query, QUICK.beta) - Xi[draw, 0]).norm()
        assert study.error[1, draw] == pytest.approx(float(expected), abs=1e-12)
        assert study.delta[1, draw] == pytest.approx(oracles.separation(Xi[draw].numpy(), 0))
        expected = oracles.margin(Xi[draw].numpy(), query.numpy(), 0)
        assert study.margin[1, draw] == pytest.approx(expected)
    np.testing.assert_allclose(
        study.error_quantiles[1], np.quantile(study.error[1], study.quantile_levels, method="lower")
    )


def test_error_study_knows_the_limits_of_beta():
    study = error_study(QUICK, "beta", (1e-6, 1e6))
    Xi, _ = draw_study(QUICK)
    average = (Xi.mean(dim=1) - Xi[:, 0]).norm(dim=1).numpy()
    np.testing.assert_allclose(study.error[0], average, atol=1e-5)
    right = study.margin[1] > 1e-3
    assert study.error[1][right].max() < 1e-12
    assert study.retrieved[1] == pytest.approx((study.margin[1] > 0).mean(), abs=1 / 40)


def test_the_seed_is_the_only_source_of_chance():
    torch.manual_seed(0)
    first = error_study(QUICK, "beta", (3.0,))
    torch.manual_seed(1)
    second = error_study(QUICK, "beta", (3.0,))
    np.testing.assert_array_equal(first.error, second.error)
    other = error_study(StudySettings(draws=40, patterns=8, dimension=10, seed=1), "beta", (3.0,))
    assert not np.array_equal(first.error, other.error)


@pytest.mark.parametrize("vary", ["beta", "noise"])
@pytest.mark.parametrize("energy", ENERGIES)
def test_bounds_are_claimed_exactly_where_they_hold(energy, vary):
    study = error_study(StudySettings(energy=energy, draws=100, patterns=8, dimension=10), vary)
    assert study.bounds_apply == (energy in BOUNDS_HOLD) == (energy != "polynomial")
    if study.bounds_apply:
        assert study.violations == 0
    elif vary == "beta":  # polynomial weights do not sum to 1, and a small beta shows it
        assert study.violations > 0


def test_lse_l2_bounds_need_one_norm():
    equal = oracles.orthogonal_rows(4, 6, seed=0, norm=2.0)
    assert bounds_apply(equal, "lse_l2")
    assert not bounds_apply(oracles.normal(4, 6, seed=0), "lse_l2")
    assert bounds_apply(oracles.normal(4, 6, seed=0), "sparse")


@hypothesis_settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), M=st.integers(2, 12), beta=st.floats(0.01, 100))
def test_margin_bound_holds_for_sparsemax_at_any_norms(seed, M, beta):
    Xi, query = oracles.normal(M, 5, seed=seed), oracles.normal(5, seed=seed + 1)
    error = retrieval_error(Xi, query, beta, 0, "sparse")
    assert error <= margin_bound(Xi, query, beta, 0) + 1e-12 * largest_norm(Xi)


@pytest.mark.parametrize("energy", ["lse_dot", "polynomial"])
def test_phase_map_equals_retrieval_one_by_one(energy):
    settings = StudySettings(energy=energy, draws=12, patterns=6, dimension=8)
    study = phase_map(settings, betas=(2.0, 12.0, 80.0), noises=(0.1, 1.5))
    assert study.share.shape == (2, 3, len(OUTCOMES))
    np.testing.assert_allclose(study.share.sum(axis=-1), 1)
    Xi, direction = draw_study(settings)
    for column, beta in enumerate(study.betas):
        for line, noise in enumerate(study.noises):
            codes = [
                retrieve(
                    Xi[s], Xi[s, 0] + noise * direction[s], beta, energy, 0, max_steps=100, tol=1e-6
                ).code
                for s in range(12)
            ]
            expected = np.bincount(codes, minlength=len(OUTCOMES)) / 12
            np.testing.assert_allclose(study.share[line, column], expected)
            assert study.most_common[line, column] == expected.argmax()
            assert study.retrieved[line, column] == expected[0]


def test_phase_map_shows_both_phases():
    study = phase_map(StudySettings(), draws=20)
    assert OUTCOMES[study.most_common[0, 0]] == "global average"
    assert OUTCOMES[study.most_common[0, -1]] == "retrieved"
    assert study.retrieved[-1, -1] < study.retrieved[0, -1]


# ---- Lemma 2.2 over draws --------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_margin_gain_always_holds_and_delta_can_fall(layout):
    study = reshaping_study(StudySettings(layout=layout, draws=500))
    assert study.largest_gain_residual < 1e-12
    assert (study.margin_gain_predicted >= -1e-12).all()  # equal norms
    assert study.share_margin_rises > 0.99
    if layout == "random":  # "about half of random noisy trials on the unit sphere"
        assert 0.35 < study.share_delta_falls < 0.65


def test_reshaping_study_equals_a_loop():
    study = reshaping_study(QUICK)
    Xi, direction = draw_study(QUICK)
    for draw in range(0, 40, 7):
        query = Xi[draw, 0] + QUICK.noise * direction[draw]
        query = query / query.norm()
        mu = int((Xi[draw] @ query).argmax())
        replaced = Xi[draw].clone()
        replaced[mu] = query
        before, after = Xi[draw].numpy(), replaced.numpy()
        assert study.delta_before[draw] == pytest.approx(oracles.separation(before, mu))
        assert study.delta_after[draw] == pytest.approx(oracles.separation(after, mu))
        assert study.margin_after[draw] == pytest.approx(oracles.margin(after, query.numpy(), mu))
        ended = update(replaced, query, QUICK.beta)
        assert study.error_after[draw] == pytest.approx(float((ended - query).norm()))
        expected = float((ended - Xi[draw, mu]).norm())
        assert study.error_to_original[draw] == pytest.approx(expected)
    assert study.share_delta_falls == (study.delta_after < study.delta_before).mean()


# ---- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": -1.0}, "beta must be a positive"),
        ({"noise": math.nan}, "noise must be a number in 0..1e6, got nan"),
        ({"seed": -1}, "seed must be"),
        ({"energy": "cubic"}, "unknown energy"),
        ({"layout": "spiral"}, "unknown layout"),
        ({"draws": 0}, "draws >= 1"),
        ({"draws": 10**6, "patterns": 64, "dimension": 64}, "reduce one of them"),
    ],
)
def test_bad_studies_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        StudySettings(**change)


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="cannot vary 'seed'; choose one of beta"):
        error_study(QUICK, "seed")
    with pytest.raises(ValueError, match="at least one value"):
        error_study(QUICK, "beta", ())
    with pytest.raises(ValueError, match="beta must be a positive"):
        error_study(QUICK, "beta", (0.0,))
    with pytest.raises(ValueError, match="at least one beta"):
        phase_map(QUICK, betas=())
    with pytest.raises(ValueError, match="at least 2 patterns"):
        reshaping_study(StudySettings(patterns=1))
