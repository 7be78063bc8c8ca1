import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from core import hopfield
from core.hopfield import (
    ENERGIES,
    OUTCOMES,
    attention,
    classify,
    energy_of,
    gradient,
    hessian,
    retrieve,
    retrieve_batch,
    update,
)
from tests import oracles

NAMES = tuple(ENERGIES)
BETAS = (0.1, 1.0, 8.0, 100.0, 1000.0)


def patterns_and_states(M=7, D=5, N=20, seed=0):
    return oracles.normal(M, D, seed=seed), oracles.normal(N, D, seed=seed + 1)


@st.composite
def problems(draw):
    """Patterns, a state, and an inverse temperature over seven orders of magnitude."""
    M, D = draw(st.integers(1, 9)), draw(st.integers(1, 7))
    seed = draw(st.integers(0, 2**20))
    scale = 10 ** draw(st.floats(-1, 2))
    beta = 10 ** draw(st.floats(-3, 3))
    Xi = scale * oracles.normal(M, D, seed=seed)
    state = scale * draw(st.floats(0.01, 3)) * oracles.normal(D, seed=seed + 1)
    return Xi, state, beta


# ---- definitions against oracles -------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", BETAS)
def test_energy_equals_its_numpy_oracle(name, beta):
    Xi, states = patterns_and_states()
    expected = [oracles.ENERGIES[name](Xi.numpy(), x, beta) for x in states.numpy()]
    np.testing.assert_allclose(energy_of(Xi, states, beta, name), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", BETAS)
def test_batched_twin_is_the_vmap(name, beta):
    Xi, states = patterns_and_states()
    row = ENERGIES[name]
    single = torch.vmap(row.function, (None, 0, None))(Xi, states, beta)
    torch.testing.assert_close(energy_of(Xi, states, beta, name), single, rtol=1e-12, atol=1e-12)
    moved = torch.vmap(row.update, (None, 0, None))(Xi, states, beta)
    torch.testing.assert_close(attention(Xi, states, beta, name) @ Xi, moved)
    torch.testing.assert_close(update(Xi, states[0], beta, name), moved[0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", [*BETAS, 2.0, 3.0])
def test_weights_of_the_retrieval_loops_equal_attention(name, beta):
    """Also from a far-off step before, at scores of 0 and below, and for one state in numpy."""
    Xi, states = patterns_and_states(M=12, D=6)
    states = torch.cat([states, -states.abs(), torch.zeros(1, 6, dtype=torch.float64)])
    row = ENERGIES[name]
    expected = attention(Xi, states, beta, name)
    scores = hopfield.scores_of(Xi, states, name)
    for before in (expected.roll(1, 0), torch.full_like(expected, 1 / 12)):
        if name == "sparse" or before.all():
            found = row.attend_step(scores.clone(), beta, before.clone())
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    for one, weights in zip(scores.numpy(), expected.numpy(), strict=True):
        np.testing.assert_allclose(row.attend_one(one, beta), weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0, 20.0])
def test_hastened_retrieval_ends_where_retrieval_ends(name, beta):
    """And from step to step, however many are allowed, the energy does not rise."""
    Xi, states = patterns_and_states(M=24, D=16, N=60)
    Xi = Xi / Xi.norm(dim=1, keepdim=True)
    states = states / 4
    plain = retrieve_batch(Xi, states, beta, name, max_steps=20_000)
    quick = retrieve_batch(Xi, states, beta, name, max_steps=20_000, hasten_after=48)
    assert quick.converged.all()
    torch.testing.assert_close(quick.states, plain.states, rtol=0, atol=1e-6)
    assert quick.steps.sum() <= plain.steps.sum() + 4 * len(states)
    if int(plain.steps.max()) > 200:
        assert quick.steps.max() < 0.75 * plain.steps.max()
    energies = [
        energy_of(
            Xi, retrieve_batch(Xi, states, beta, name, None, n, 0.0, None, 4).states, beta, name
        )
        for n in range(8, 40)
    ]
    assert (torch.stack(energies).diff(dim=0) <= 1e-12).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", BETAS)
def test_closed_form_gradient_equals_autograd(name, beta):
    Xi, states = patterns_and_states()
    grad = torch.func.grad(ENERGIES[name].function, argnums=1)
    expected = torch.vmap(grad, (None, 0, None))(Xi, states, beta)
    torch.testing.assert_close(gradient(Xi, states, beta, name), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", [0.3, 1.5, 8.0, 40.0])
def test_closed_form_hessian_equals_autograd(name, beta):
    Xi, states = patterns_and_states()
    if name == "polynomial" and beta < 1:
        # d^2/dz^2 [z]_+^(1+beta) is unbounded at 0+: autograd of the power gives inf * 0 there.
        states = Xi[:1].abs().expand(3, -1) + 1
        Xi = Xi.abs()
    second = torch.func.hessian(ENERGIES[name].function, argnums=1)
    expected = torch.stack([second(Xi, state, beta) for state in states])
    torch.testing.assert_close(hessian(Xi, states, beta, name), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("beta", BETAS)
def test_lse_dot_update_is_softmax_attention(beta):
    Xi, states = patterns_and_states()
    expected = torch.nn.functional.scaled_dot_product_attention(
        states[None], Xi[None], Xi[None], scale=beta
    )[0]
    torch.testing.assert_close(attention(Xi, states, beta) @ Xi, expected)


@pytest.mark.parametrize("beta", [0.5, 4.0])
def test_lse_l2_is_minus_the_log_density_of_a_gaussian_mixture(beta):
    Xi, states = patterns_and_states(M=4, D=3)
    densities = [
        np.mean([multivariate_normal(row, np.eye(3) / beta).pdf(x) for row in Xi.numpy()])
        for x in states.numpy()
    ]
    peak = (beta / (2 * math.pi)) ** 1.5
    expected = -np.log(np.array(densities) / peak) / beta
    np.testing.assert_allclose(energy_of(Xi, states, beta, "lse_l2"), expected, rtol=1e-10)


@pytest.mark.parametrize("beta", [0.5, 4.0, 60.0])
def test_sparse_weights_are_the_projection_onto_the_simplex(beta):
    Xi, states = patterns_and_states()
    expected = [oracles.sparsemax(beta * Xi.numpy() @ x) for x in states.numpy()]
    np.testing.assert_allclose(attention(Xi, states, beta, "sparse"), expected, atol=1e-10)


def test_polynomial_orders_states_of_one_norm_as_krotov_and_hopfield_do():
    Xi, states = patterns_and_states()
    states = states / states.norm(dim=1, keepdim=True)
    dense = -(states @ Xi.mT).clamp_min(0).pow(4).sum(dim=1)
    assert energy_of(Xi, states, 3.0, "polynomial").argsort().tolist() == dense.argsort().tolist()


@pytest.mark.parametrize("name", ["polynomial", "sparse"])
@pytest.mark.parametrize("beta", [2.0, 8.0, 100.0])
def test_orthogonal_patterns_are_exact_fixed_points(name, beta):
    Xi = oracles.orthogonal_rows(5, 8, seed=3, norm=1.5)
    torch.testing.assert_close(attention(Xi, Xi, beta, name) @ Xi, Xi, rtol=0, atol=1e-12)
    if name == "polynomial":  # and lie at energy 0, as the constant promises
        assert energy_of(Xi, Xi, beta, name).abs().max() < 1e-12


@pytest.mark.parametrize("beta", BETAS)
def test_both_lse_energies_agree_on_equal_norms_and_only_there(beta):
    Xi, states = patterns_and_states()
    equal = 1.7 * Xi / Xi.norm(dim=1, keepdim=True)
    one, other = (energy_of(equal, states, beta, name) for name in ("lse_dot", "lse_l2"))
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    gap = energy_of(Xi, states, beta, "lse_dot") - energy_of(Xi, states, beta, "lse_l2")
    assert gap.std() > 1e-3


# ---- facts as properties ---------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@hypothesis_settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_an_update_lowers_the_energy_by_half_its_squared_length(name, problem):
    Xi, state, beta = problem
    row = ENERGIES[name]
    moved = row.update(Xi, state, beta)
    before, after = row.function(Xi, state, beta), row.function(Xi, moved, beta)
    scale = 1 + Xi.square().sum(dim=1).max() + state @ state  # rounding is relative to this
    assert after <= before - (moved - state).square().sum() / 2 + 1e-12 * scale


@pytest.mark.parametrize("name", NAMES)
@hypothesis_settings(max_examples=30, deadline=None)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_permuting_patterns_changes_nothing(name, problem, seed):
    Xi, state, beta = problem
    order = torch.randperm(len(Xi), generator=oracles.generator(seed))
    row = ENERGIES[name]
    scale = float(1 + Xi.square().sum(dim=1).max() + state @ state)
    for function in (row.function, row.update):
        torch.testing.assert_close(
            function(Xi[order], state, beta),
            function(Xi, state, beta),
            rtol=1e-9,
            # At beta * scale ~ 1e8 the logits round to about 1e-8, and weights with them.
            atol=1e-14 * scale * (1 + beta * scale),
        )


@hypothesis_settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_energies_are_bounded_as_their_docstrings_say(problem):
    Xi, state, beta = problem
    m = Xi.norm(dim=1).max()
    slack = 1e-12 * (1 + m * m + state @ state)
    for name in ("lse_dot", "lse_l2", "sparse"):
        assert ENERGIES[name].function(Xi, state, beta) >= -slack
    inside = state * torch.clamp(m / state.norm(), max=1)
    assert ENERGIES["lse_dot"].function(Xi, inside, beta) <= 2 * m * m + slack
    largest = Xi.norm(p=2) * len(Xi)  # the n-norm of scores is at most their 1-norm
    assert ENERGIES["polynomial"].function(Xi, state, beta) >= (m * m - largest**2) / 2 - slack


@pytest.mark.parametrize("name", ["lse_dot", "lse_l2", "sparse"])
def test_beta_to_zero_gives_the_mean_pattern(name):
    Xi, states = patterns_and_states()
    moved = attention(Xi, states, 1e-9, name) @ Xi
    torch.testing.assert_close(moved, Xi.mean(dim=0).expand_as(moved), rtol=0, atol=1e-7)


def test_polynomial_at_beta_to_zero_sums_the_matching_patterns():
    Xi, states = patterns_and_states()
    expected = (states @ Xi.mT > 0).double() @ Xi
    torch.testing.assert_close(
        attention(Xi, states, 1e-9, "polynomial") @ Xi, expected, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("name", NAMES)
def test_beta_to_infinity_gives_the_best_matching_pattern(name):
    Xi, states = patterns_and_states()
    scores = states @ Xi.mT
    if name == "lse_l2":
        scores = -torch.cdist(states, Xi)
    expected = Xi[scores.argmax(dim=1)]
    if name == "polynomial":  # which needs a match: without a positive score it gives 0
        expected = torch.where(scores.amax(dim=1, keepdim=True) > 0, expected, 0.0)
    torch.testing.assert_close(attention(Xi, states, 1e6, name) @ Xi, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_finite_at_high_beta_and_large_norms(name):
    Xi = 100 * oracles.normal(30, 12, seed=5) / math.sqrt(12)
    states = 100 * oracles.normal(10, 12, seed=6)
    beta = 1e3
    assert energy_of(Xi, states, beta, name).isfinite().all()
    assert gradient(Xi, states, beta, name).isfinite().all()
    found = retrieve(Xi, states[0], beta, name)
    assert found.state.isfinite().all()
    assert found.converged


@pytest.mark.parametrize("name", NAMES)
def test_the_origin_and_all_negative_scores_are_harmless(name):
    Xi = oracles.normal(4, 3, seed=0).abs()
    for state in (torch.zeros(3, dtype=torch.float64), -torch.ones(3, dtype=torch.float64)):
        assert ENERGIES[name].function(Xi, state, 2.0).isfinite()
        grad = torch.func.grad(ENERGIES[name].function, argnums=1)(Xi, state, 2.0)
        torch.testing.assert_close(grad, gradient(Xi, state[None], 2.0, name)[0])


# ---- retrieval -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", [0.5, 5.0, 50.0])
def test_retrieval_ends_at_a_fixed_point_and_never_rises(name, beta):
    Xi, states = patterns_and_states(M=6, D=8)
    Xi = Xi / Xi.norm(dim=1, keepdim=True)
    found = retrieve(Xi, states[0], beta, name, max_steps=5000)
    assert found.converged
    torch.testing.assert_close(update(Xi, found.state, beta, name), found.state, rtol=0, atol=1e-8)
    assert (found.energies.diff() <= 1e-12).all()
    assert len(found.trajectory) == len(found.energies) == len(found.weights) == found.steps + 1
    torch.testing.assert_close(found.trajectory[0], states[0])
    stepped = torch.stack([update(Xi, state, beta, name) for state in found.trajectory[:-1]])
    torch.testing.assert_close(found.trajectory[1:], stepped, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.weights, attention(Xi, found.trajectory, beta, name))


@pytest.mark.parametrize(
    ("stiffness", "outcome"),
    [
        (0.5, "global average"),
        (0.9, "global average"),
        (1.2, "mixture of 2"),  # amplitude 0.66, weights 0.83 and 0.17: exp(entropy) is 1.58
        (2.0, "retrieved 0"),
        (10.0, "retrieved 0"),
    ],
)
def test_two_opposite_patterns_bifurcate_where_theory_says(stiffness, outcome):
    a = oracles.normal(6, seed=2)
    Xi = torch.stack([a, -a])
    beta = stiffness / float(a @ a)
    found = retrieve(Xi, 0.4 * a, beta, max_steps=5000, tol=1e-13)
    expected = oracles.two_pattern_amplitude(stiffness) * a
    torch.testing.assert_close(found.state, expected, rtol=0, atol=1e-9)
    assert found.outcome == outcome


def test_outcomes_in_words():
    Xi = oracles.orthogonal_rows(6, 8, seed=1)
    near = Xi[2] + 0.1 * Xi[3]
    right = retrieve(Xi, near, 30.0, target=2)
    assert (right.outcome, right.code, right.pattern) == ("retrieved 2", 0, 2)
    assert "pattern 2" in right.message
    wrong = retrieve(Xi, near, 30.0, target=5)
    assert wrong.outcome == "wrong pattern 2"
    assert "instead of 5" in wrong.message
    assert "noise" in wrong.message
    average = retrieve(Xi, near, 0.1)
    assert average.outcome == "global average"
    assert "Raise beta" in average.message
    assert average.effective == pytest.approx(6, abs=1e-3)
    twins = torch.cat([Xi, Xi[2:3] + 1e-3 * Xi[4]])
    mixture = retrieve(twins, near, 30.0, target=2)
    assert mixture.outcome == "mixture of 2"
    assert "Raise beta" in mixture.message
    stopped = retrieve(Xi, near, 3.0, max_steps=1)
    assert stopped.outcome == "not converged"
    assert not stopped.converged
    assert "max_steps" in stopped.message
    nothing = retrieve(Xi.abs(), -torch.ones(8, dtype=torch.float64), 3.0, "polynomial")
    assert nothing.outcome == "no match"
    assert "origin" in nothing.message
    assert nothing.state.norm() == 0


def test_one_pattern_is_always_retrieved():
    Xi = oracles.normal(1, 4, seed=0)
    for name in ("lse_dot", "lse_l2", "sparse"):
        found = retrieve(Xi, -3 * Xi[0], 2.0, name)
        assert found.outcome == "retrieved 0"
        torch.testing.assert_close(found.state, Xi[0])


def test_default_target_has_the_largest_score_at_the_query():
    Xi = torch.tensor([[3.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    query = torch.tensor([0.5, 0.6], dtype=torch.float64)
    assert retrieve(Xi, query, 1.0, "lse_dot").target == 0
    assert retrieve(Xi, query, 1.0, "lse_l2").target == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("beta", [1.5, 6.0, 60.0])
def test_batched_retrieval_equals_one_by_one(name, beta):
    Xi, states = patterns_and_states(M=9, D=6, N=40)
    targets = torch.arange(40) % 9
    batch = retrieve_batch(Xi, states, beta, name, targets)
    for index, state in enumerate(states):
        one = retrieve(Xi, state, beta, name, int(targets[index]))
        assert int(batch.codes[index]) == one.code
        assert bool(batch.converged[index]) == one.converged
        if one.converged:
            torch.testing.assert_close(batch.states[index], one.state, rtol=0, atol=1e-7)
            assert int(batch.steps[index]) == one.steps or name == "polynomial"
            assert float(batch.effective[index]) == pytest.approx(one.effective, abs=1e-6)


def test_batched_retrieval_over_sets_of_patterns():
    Xi, queries = oracles.normal(5, 7, 6, seed=0), oracles.normal(5, 3, 6, seed=1)
    batch = retrieve_batch(Xi, queries, 3.0)
    assert batch.states.shape == (5, 3, 6)
    for s in range(5):
        alone = retrieve_batch(Xi[s], queries[s], 3.0)
        torch.testing.assert_close(batch.states[s], alone.states)
        assert batch.codes[s].tolist() == alone.codes.tolist()
        assert batch.steps[s].tolist() == alone.steps.tolist()


def test_what_has_not_arrived_says_so():
    Xi, states = patterns_and_states()
    batch = retrieve_batch(Xi, states, 1.0, max_steps=2, tol=1e-15)
    assert not batch.converged.any()
    assert (batch.codes == OUTCOMES.index("not converged")).all()
    assert (batch.steps == 2).all()


def test_classify_counts_patterns_by_entropy():
    weights = torch.tensor(
        [
            [1.0, 0, 0, 0],
            [0.98, 0.02, 0, 0],
            [0.5, 0.5, 0, 0],
            [0.4, 0.3, 0.3, 0],
            [0.25, 0.25, 0.25, 0.25],
            [0, 0, 0, 0],
        ],
        dtype=torch.float64,
    )
    codes, effective = classify(
        weights, torch.tensor([0, 1, 0, 0, 0, 0]), torch.ones(6, dtype=torch.bool)
    )
    assert [OUTCOMES[code] for code in codes.tolist()] == [
        "retrieved",
        "wrong pattern",
        "mixture",
        "mixture",
        "global average",
        "no match",
    ]
    np.testing.assert_allclose(effective[[0, 2, 4]], [1, 2, 4])


# ---- failures and the registry ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 0.0}, "beta must be a positive number in 1e-09..1e\\+09, got 0.0"),
        ({"beta": math.nan}, "beta must be a positive number"),
        ({"beta": 1e300}, "beta must be a positive number"),
        ({"energy": "quartic"}, "unknown energy 'quartic'; choose one of lse_dot"),
        ({"query": torch.zeros(3, dtype=torch.float64)}, "dimension 5.*got 3"),
        ({"query": torch.full((5,), math.inf, dtype=torch.float64)}, "query contains NaN or inf"),
        ({"query": torch.zeros(2, 5, dtype=torch.float64)}, "one query"),
        ({"Xi": torch.full((7, 5), math.nan, dtype=torch.float64)}, "patterns contain NaN"),
        ({"Xi": torch.zeros(0, 5, dtype=torch.float64)}, "rows of a matrix"),
        ({"Xi": torch.zeros(7, 5, dtype=torch.long)}, "floating-point"),
        ({"target": 7}, "index in 0..6, got 7"),
        ({"max_steps": 0}, "max_steps must be at least 1"),
    ],
)
def test_bad_input_is_refused_with_a_reason(change, message):
    Xi, states = patterns_and_states()
    arguments = {"Xi": Xi, "query": states[0], "beta": 1.0} | change
    with oracles.run_time_types_off(), pytest.raises(Exception, match=message) as caught:
        retrieve(**arguments)
    assert isinstance(caught.value, ValueError)


def test_every_public_energy_function_is_a_row():
    functions = {name for name in vars(hopfield) if name.endswith("_energy")}
    assert functions == {f"{name}_energy" for name in ENERGIES}
    for name, row in ENERGIES.items():
        assert row.name == name
        assert row.function is getattr(hopfield, f"{name}_energy")
        assert row.update is getattr(hopfield, f"{name}_update")
        for field in dataclasses.fields(row):
            assert getattr(row, field.name)
