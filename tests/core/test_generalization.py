"""The bound is never exceeded, and what is measured is what is said to be measured."""

import math

import numpy as np
import pytest
import scipy.special
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.generalization import (
    KEYS,
    GeneralizationSettings,
    bound,
    generalization,
    log10_bound,
    log10_needed,
    scaling_study,
    sharpest,
    swapped_outputs,
    worst_swap,
)
from core.generalization import _draw as draw_prompts


def prompt(t: int, gamma: float, c0: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = gamma * (2 * torch.rand(t, generator=generator, dtype=torch.float64) - 1)
    values = c0 * (2 * torch.rand(t, generator=generator, dtype=torch.float64) - 1)
    return scores, values


def output(scores: np.ndarray, values: np.ndarray) -> float:
    return float(scipy.special.softmax(scores) @ values)


# ---- the bound ----------------------------------------------------------------------------------


def test_bound_has_the_stated_value_and_never_overflows_in_logarithms():
    assert bound(1.0, 1.0) == pytest.approx(36.9, abs=0.05)
    assert bound(50.0, 0.7, 2.0, 3.0) == pytest.approx(6 * 3.8 * math.exp(1.4) / 50)
    assert log10_bound(1.0, 1e4) == pytest.approx(2e4 / math.log(10) + math.log10(4e4 + 1))
    assert np.isinf(bound(1.0, 1e4))
    with pytest.raises(ValueError, match="gamma: expected a finite number >= 0"):
        bound(1.0, -1.0)


@settings(max_examples=100, deadline=None)
@given(
    t=st.integers(1, 40),
    gamma=st.floats(0, 4),
    c0=st.floats(0.01, 10),
    seed=st.integers(0, 2**31 - 1),
)
def test_no_swap_exceeds_the_bound(t, gamma, c0, seed):
    """Random prompts, all their swaps with random pairs that meet the hypotheses, and the worst."""
    scores, values = prompt(t, gamma, c0, seed)
    new_scores, new_values = prompt(20, gamma, c0, seed + 1)
    allowed = (values[:, None] - new_values[None]).abs() <= c0
    change = swapped_outputs(scores, values, new_scores, new_values) - output(
        scores.numpy(), values.numpy()
    )
    limit = float(bound(t, gamma, c0)) * (1 + 1e-9)
    assert (change.abs()[allowed] <= limit).all()
    worst = float(worst_swap(scores, values, gamma, c0))
    assert (change.abs()[allowed] <= worst * (1 + 1e-9)).all()
    assert worst <= float(sharpest(t, gamma, c0)) * (1 + 1e-9) <= limit * (1 + 1e-6)


@pytest.mark.parametrize(("t", "gamma"), [(1, 1.0), (2, 0.3), (5, 3.0), (30, 0.1)])
def test_no_optimised_prompt_and_swap_exceed_the_sharpest_constant_and_some_reach_it(t, gamma):
    """Adversary: gradient ascent over all scores and values, 40 starts at once, c0 = 1.

    tanh keeps scores within Gamma, values within 1 and the new value within 1 of the old one.
    """
    generator = torch.Generator().manual_seed(0)
    raw = torch.randn(40, 2 * t + 2, generator=generator, dtype=torch.float64).requires_grad_()
    optimiser = torch.optim.Adam([raw], lr=0.15)
    best = 0.0
    for _ in range(200):
        scores = gamma * raw[:, :t].tanh()
        values = raw[:, t : 2 * t].tanh()
        low, high = (values[:, 0] - 1).clamp_min(-1), (values[:, 0] + 1).clamp_max(1)
        new_value = low + (high - low) * (1 + raw[:, -1].tanh()) / 2
        new_scores = torch.cat((gamma * raw[:, -2:-1].tanh(), scores[:, 1:]), 1)
        new_values = torch.cat((new_value[:, None], values[:, 1:]), 1)
        change = (new_scores.softmax(1) * new_values).sum(1) - (scores.softmax(1) * values).sum(1)
        best = max(best, float(change.detach().abs().max()))
        optimiser.zero_grad()
        (-change.abs().sum()).backward()
        optimiser.step()
    assert best <= float(sharpest(t, gamma)) * (1 + 1e-9)
    assert best >= 0.98 * float(sharpest(t, gamma))  # tanh never quite reaches a corner


def test_sharpest_is_finite_for_every_gamma():
    values = sharpest(np.array([1.0, 2.0, 100.0]), 1e5)
    np.testing.assert_allclose(values, [1.0, 2.0, 2.0])


# ---- swaps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1.0, 30.0, 2000.0])
@pytest.mark.parametrize("t", [1, 2, 6])
def test_swapped_outputs_equal_the_changed_prompt(t, gamma):
    scores, values = prompt(t, gamma, 1.0, 3)
    new_scores, new_values = prompt(4, gamma, 1.0, 4)
    found = swapped_outputs(scores, values, new_scores, new_values)
    for j in range(t):
        for s in range(4):
            changed, told = scores.numpy().copy(), values.numpy().copy()
            changed[j], told[j] = new_scores[s], new_values[s]
            assert float(found[j, s]) == pytest.approx(output(changed, told), abs=1e-11)


def test_worst_swap_equals_a_search_over_a_grid():
    scores, values = prompt(5, 1.5, 0.8, 7)
    told_before = values.tolist()
    before, largest = output(scores.numpy(), values.numpy()), 0.0
    for j in range(5):
        for score in np.linspace(-1.5, 1.5, 31):
            for value in np.linspace(
                max(-0.8, told_before[j] - 0.8), min(0.8, told_before[j] + 0.8), 31
            ):
                changed, told = scores.numpy().copy(), values.numpy().copy()
                changed[j], told[j] = score, value
                largest = max(largest, abs(output(changed, told) - before))
    assert float(worst_swap(scores, values, 1.5, 0.8)) == pytest.approx(largest, abs=1e-12)


# ---- the study ----------------------------------------------------------------------------------

SMALL = {"prompts": 24, "longest": 64, "fresh": 8}


@pytest.mark.parametrize("keys", list(KEYS))
@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_order_of_the_curves_and_no_violation(keys, loss):
    found = generalization(GeneralizationSettings(keys=keys, loss=loss, **SMALL))
    assert found.violations == 0
    assert found.swaps > 100_000
    assert found.met == 1.0
    tolerance = 1 + 1e-9
    assert (found.swap_mean <= found.swap_max).all()
    assert (found.swap_max <= found.worst * tolerance).all()
    assert (found.worst_mean <= found.worst * tolerance).all()
    assert (found.worst <= found.sharpest * tolerance).all()
    assert (found.sharpest <= found.bound * tolerance).all()
    assert (found.gap <= found.bound).all()
    np.testing.assert_allclose(np.log10(found.bound), found.log10_bound)


def test_gap_and_stability_fall_as_one_over_t_for_unit_keys():
    found = generalization(GeneralizationSettings(prompts=48))
    assert found.swap_fit.slope == pytest.approx(-1, abs=0.06)
    assert found.gap_fit.slope == pytest.approx(-1, abs=0.1)
    fitted = found.gap_fit.at(found.lengths[2:])  # t = 2, 3 are not yet on the line
    np.testing.assert_allclose(fitted, found.gap[2:], rtol=0.25)


def test_gap_is_risk_minus_empirical_risk_in_the_mean():
    """The paired estimate against the difference of the two means, many prompts."""
    found = generalization(GeneralizationSettings(prompts=512, longest=8, fresh=32, noise=0.5))
    # a risk over 512 x 32 fresh pairs has a standard error of about 0.002
    np.testing.assert_allclose(found.gap, found.risk - found.empirical, atol=0.006)


def test_risks_are_what_they_are_said_to_be():
    settings_ = GeneralizationSettings(prompts=3, longest=6, fresh=4, kappa=2.0)
    queries, keys, values, targets = (t.numpy() for t in draw_prompts(settings_, None, None))
    found = generalization(settings_)
    risks, empirical = [], []
    for b in range(3):
        for i in range(10, 14):
            scores = keys[b, :6] @ queries[b, i]
            risks.append(abs(output(scores, values[b, :6]) - targets[b, i]))
        for i in range(6):
            scores = keys[b, :6] @ queries[b, i]
            empirical.append(abs(output(scores, values[b, :6]) - targets[b, i]))
    assert found.risk[-1] == pytest.approx(np.mean(risks))
    assert found.empirical[-1] == pytest.approx(np.mean(empirical))


def test_constants_are_those_of_the_draws():
    settings_ = GeneralizationSettings(keys="raw", dimension=5, loss="squared", **SMALL)
    queries, keys, values, _ = draw_prompts(settings_, None, None)
    constants = generalization(settings_).constants
    assert constants.gamma == pytest.approx(float((queries @ keys.mT).abs().max()))
    spread = float((values.amax(1) - values.amin(1)).max())
    assert constants.c0 == pytest.approx(max(float(values.abs().max()), spread))
    assert constants.c0 <= settings_.value_size
    assert constants.lipschitz == pytest.approx(2 * float(values.max() - values.min()))


def test_raw_keys_are_vacuous_and_normalised_ones_are_not():
    raw = generalization(GeneralizationSettings(keys="raw", dimension=20, **SMALL))
    assert raw.vacuous.all()
    assert raw.log10_needed > 50
    assert "normalise the keys" in raw.reason
    unit = generalization(GeneralizationSettings(keys="normalised", dimension=20, **SMALL))
    assert not unit.vacuous[-1]
    assert "informative from" in unit.reason
    low = generalization(GeneralizationSettings(kappa=0.01, **SMALL))
    assert not low.vacuous.any()
    assert "every length" in low.reason


def test_needed_is_where_the_bound_meets_the_trivial_one():
    t = 10 ** log10_needed(1.3)
    assert float(bound(t, 1.3, 0.7, 2.0)) == pytest.approx(2 * 2.0 * 0.7)


def test_constants_by_hand_select_the_prompts_that_meet_them():
    loose = generalization(GeneralizationSettings(gamma=2.0, c0=3.0, lipschitz=1.5, **SMALL))
    assert loose.met == 1.0
    assert loose.constants.gamma == 2.0
    np.testing.assert_allclose(loose.bound, 1.5 * 3 * 9 * math.exp(4) / loose.lengths)
    settings_ = GeneralizationSettings(c0=0.8, noise=0.5, **SMALL)
    _, _, values, _ = draw_prompts(settings_, None, None)
    meets = (values.amax(1) - values.amin(1) <= 0.8).double().mean()
    assert 0 < float(meets) < 1
    some = generalization(settings_)
    assert some.met == pytest.approx(float(meets))
    assert some.violations == 0
    with pytest.raises(ValueError, match=r"no prompt meets Gamma = 0\.5"):
        generalization(GeneralizationSettings(gamma=0.5, **SMALL))


def test_a_head_brings_its_own_keys_and_scaling_moves_gamma():
    def head(xs, ys):
        return 0.01 * xs, xs, ys / 40

    found = generalization(GeneralizationSettings(**SMALL), head)
    assert found.violations == 0
    study = scaling_study(GeneralizationSettings(**SMALL), head, scales=(0.5, 1.0, 2.0))
    np.testing.assert_allclose(study.gamma / study.gamma[0], [1, 4, 16], rtol=1e-9)
    assert (np.diff(study.log10_bound) > 0).all()
    assert study.length == 64


def test_queries_of_a_head_are_used_as_given():
    """A head whose keys ignore the input averages all values: no gap between any two queries."""

    def head(xs, ys):
        flat = torch.zeros(*xs.shape[:2], 1)
        return flat, flat, ys

    found = generalization(GeneralizationSettings(**SMALL), head)
    assert found.constants.measured_gamma == 0
    np.testing.assert_allclose(
        found.sharpest, found.constants.lipschitz * found.constants.c0 / found.lengths, rtol=1e-9
    )
    np.testing.assert_allclose(found.bound, found.sharpest)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"keys": "cube"}, "keys: expected one of sphere"),
        ({"loss": "hinge"}, "loss: expected one of absolute"),
        ({"longest": 2}, "longest: expected a whole number"),
        ({"kappa": float("nan")}, "kappa: expected a number"),
        ({"gamma": -1.0}, "gamma: expected a number in"),
        ({"prompts": 1024, "fresh": 64, "longest": 512}, "lower one of them"),
    ],
)
def test_bad_settings_name_their_field(bad, message):
    with pytest.raises(ValueError, match=message):
        GeneralizationSettings(**bad)
