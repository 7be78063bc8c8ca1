"""Generalisation: the page's numbers against loops in numpy, every claim, every control."""

import math
import re

import numpy as np
import pytest
from scipy.special import softmax
from streamlit.testing.v1 import AppTest

from core.generalization import GeneralizationSettings, bound
from core.generalization import _draw as draw_prompts
from pages import generalization
from pages.ui import cache, charts, controls, frame
from pages.ui.chart_view import pack

PAGE = "generalization"
DEFAULTS = controls.defaults(PAGE)
SMALL = {"prompts": 8, "longest": 16}


def settings(**changes):
    return generalization.Settings(**DEFAULTS | changes)


def script():
    from pages import generalization

    generalization.render()


@pytest.fixture
def pictures(monkeypatch):
    shown = {}

    def view(fig, *, key, **rest):
        shown[key.removeprefix(f"{PAGE}-")] = fig

    monkeypatch.setattr(frame, "chart_view", view)
    return shown


@pytest.fixture
def visit(pictures):
    def opened(**changes):
        app = AppTest.from_function(script, default_timeout=120)
        for key, value in changes.items():
            row = next(r for r in controls.rows(PAGE) if r.key == key)
            app.query_params[row.name] = row.text(value)
        pictures.clear()
        app.run()
        assert not app.exception
        return app

    return opened


def sentence(app):
    return next(m.value for m in app.markdown if "lab-look" in m.value)


def captions(app):
    return " ".join(c.value for c in app.caption)


def bold(text):
    return [float(x) for x in re.findall(r"\*\*(-?\d+(?:\.\d+)?)\*\*", text)]


def trace(fig, name):
    return next(t for t in charts.raw(fig)[0] if t.get("name") == name)


def study(name):
    scenario = next(s for s in generalization.SCENARIOS if s.name == name)
    s = generalization.Settings(**scenario.settings(PAGE))
    who = None if s.source in generalization.DRAWN else s.source
    return s, cache.generalization(who, **generalization.engine(s))


# ---- numbers -------------------------------------------------------------------------------------


def test_the_sentence_and_the_picture_say_what_loops_in_numpy_find(visit, pictures):
    app = visit(**SMALL)
    drawn = GeneralizationSettings(**generalization.engine(settings(**SMALL)))
    queries, keys, values, targets = (t.numpy() for t in draw_prompts(drawn, None, None))
    t, fresh = 16, drawn.fresh
    gamma = np.abs(np.einsum("bik,bjk->bij", queries, keys)).max()
    c0 = max(np.abs(values).max(), (values.max(1) - values.min(1)).max())
    largest, losses = 0.0, []
    for q, k, v, y in zip(queries, keys, values, targets, strict=True):
        for ask in range(t + fresh, t + 2 * fresh):
            told = softmax(k[:t] @ q[ask]) @ v[:t]
            losses.append(abs(told - y[ask]))
            for j in range(t):
                for new in range(t, t + fresh):
                    k2, v2 = k[:t].copy(), v[:t].copy()
                    k2[j], v2[j] = k[new], v[new]
                    largest = max(largest, abs(softmax(k2 @ q[ask]) @ v2 - told))
    fig = pictures["bound"]
    assert trace(fig, "largest swap drawn")["y"][-1] == pytest.approx(largest)
    allowed = c0 * (4 * gamma + 1) * np.exp(2 * gamma) / t
    assert trace(fig, "bound")["y"][-1] == pytest.approx(allowed)
    assert trace(pictures["errors"], "R, fresh pairs")["y"][-1] == pytest.approx(np.mean(losses))
    said = bold(sentence(app))
    assert said[0] == pytest.approx(gamma, abs=6e-4)
    assert said[2] == pytest.approx(largest, rel=6e-3)
    assert said[-1] == pytest.approx(np.mean(losses), abs=6e-5)
    assert "None of" in sentence(app)


def test_above_the_trivial_bound_it_is_grey_and_a_far_bound_is_named(visit, pictures):
    visit(source="raw keys", dimension=20, **SMALL)
    fig = pictures["bound"]
    layout = charts.raw(fig)[1]
    grey = layout["shapes"][0]
    s = GeneralizationSettings(
        **generalization.engine(settings(source="raw keys", dimension=20, **SMALL))
    )
    _, _, values, _ = (t.numpy() for t in draw_prompts(s, None, None))
    assert grey["y0"] == pytest.approx(2 * max(np.abs(values).max(), np.ptp(values, axis=1).max()))
    assert np.log10(grey["y1"]) == pytest.approx(layout["yaxis"]["range"][1])
    assert "far above this picture, at 10<sup>1" in layout["annotations"][0]["text"]
    assert np.isfinite(layout["yaxis"]["range"]).all()


def test_constants_by_hand_leave_prompts_out_or_are_refused(visit, pictures):
    hand = {"constants": "set by hand", "noise": 0.5, "c0": 0.7}
    app = visit(**hand, **SMALL)
    assert re.search(r"Only \d+(\.\d+)? % of the prompts meet", captions(app))
    drawn = trace(pictures["bound"], "bound")
    np.testing.assert_allclose(drawn["y"], bound(drawn["x"], 1.0, 0.7, 1.0))
    before = pack(pictures["bound"], {}, None)
    app.number_input(key=f"{PAGE}-gamma").set_value(0.2).run()
    assert not app.exception
    assert "no prompt meets Gamma = 0.2" in app.warning[0].value
    assert pack(pictures["bound"], {}, None) == before


def test_a_loss_steeper_than_m_by_hand_is_pointed_out(visit):
    app = visit(constants="set by hand", loss="squared", lipschitz=0.1, **SMALL)
    assert "is below the slope" in captions(app)


# ---- claims --------------------------------------------------------------------------------------


@pytest.mark.claim("holds")
def test_claim_a_bound_that_speaks():
    _, r = study("holds")
    assert r.constants.gamma == pytest.approx(1, abs=1e-6)
    assert math.ceil(10**r.log10_needed) == 19  # (4 + 1) e^2 / 2 = 18.47
    assert (r.vacuous == (r.lengths < 19)).all()
    assert r.violations == 0
    assert r.gap_fit.slope == pytest.approx(-1, abs=0.1)
    assert r.swap_fit.slope == pytest.approx(-1, abs=0.1)


@pytest.mark.claim("raw")
def test_claim_raw_keys_are_vacuous():
    _, r = study("raw")
    assert r.constants.gamma == pytest.approx(183, abs=5)
    assert r.log10_bound.min() > 150
    assert r.vacuous.all()
    assert r.gap.max() < 0.1
    assert r.violations == 0


@pytest.mark.claim("normalised")
def test_claim_the_same_keys_normalised():
    _, r = study("normalised")
    assert r.constants.gamma == pytest.approx(1, abs=1e-6)
    assert (r.vacuous == (r.lengths < 19)).all()
    # The gap falls by far more than the error, which the bound does not speak of.
    assert r.gap[0] / r.gap[-1] > 20
    assert 0.75 < r.risk[-1] / r.risk[0] < 1


@pytest.mark.claim("trained")
def test_claim_a_trained_head():
    s, r = study("trained")
    assert r.constants.gamma == pytest.approx(7.87, abs=0.01)
    assert r.log10_needed == pytest.approx(8, abs=0.1)
    assert r.vacuous.all()
    assert -0.6 < r.gap_fit.slope < 0
    assert r.violations == 0
    # The head's sharpness is its Gamma: keys and queries have norm 1.
    assert r.constants.gamma <= float(cache.regressor(s.source).model.beta) * (1 + 1e-5)


@pytest.mark.claim("hand")
def test_claim_constants_by_hand():
    _, r = study("hand")
    assert 0 < r.met < 1
    assert r.violations == 0


@pytest.mark.claim("scale")
def test_claim_scaling_the_inputs():
    scenario = next(s for s in generalization.SCENARIOS if s.name == "scale")
    s = generalization.Settings(**scenario.settings(PAGE))
    assert generalization.heads(s) == ("attention-1", "attention-1-raw")
    flat, raw = (
        cache.input_scaling(name, generalization.SCALES, **generalization.engine(s))
        for name in generalization.heads(s)
    )
    assert flat.gamma.max() / flat.gamma.min() < 1.02
    assert raw.gamma[-1] / raw.gamma[0] > 100


# ---- what every page promises --------------------------------------------------------------------


def test_a_trained_head_is_shaded_past_its_training_and_at_other_scales(visit, pictures):
    def amber():
        shapes = charts.raw(pictures["bound"])[1]["shapes"]
        return [s["x0"] for s in shapes if s.get("yref") == "paper"]

    app = visit(source="attention-1", longest=64, prompts=8)
    assert amber() == [50.0]
    assert "more than the 50 examples" in captions(app)
    app = visit(source="attention-1", longest=48, prompts=8)
    assert amber() == []
    assert "inside its training law" in captions(app)
    app = visit(source="attention-1", longest=48, prompts=8, scale=0.5)
    assert amber() == [2.0]
    assert "scaled by 0.5" in captions(app)


def test_heads_are_named_beside_their_counterpart(visit, pictures):
    app = visit(view="input scale", source="raw keys", **SMALL)
    names = [t["name"] for t in charts.raw(pictures["gamma"])[0]]
    assert names == ["raw keys", "normalised keys"]
    raw = trace(pictures["gamma"], "raw keys")
    np.testing.assert_allclose(raw["y"] / raw["y"][0], (np.array(generalization.SCALES) / 0.1) ** 2)
    assert "square of the scale" in sentence(app)


def test_without_one_layer_checkpoints_only_drawn_heads_are_offered(stand_ins, visit):
    row = next(r for r in controls.rows(PAGE) if r.key == "source")
    assert row.offered() == tuple(generalization.DRAWN)
    app = visit(**SMALL)
    assert not app.warning


def test_every_control_shown_is_answered(visit, pictures):
    app = visit(constants="set by hand", gamma=5.0, c0=3.0, lipschitz=2.0, scale=0.8, **SMALL)

    def state():
        return sentence(app), captions(app), {k: pack(f, {}, None) for k, f in pictures.items()}

    other = {"gamma": 6.0, "c0": 4.0, "lipschitz": 3.0, "seed": 3, "prompts": 16, "kappa": 2.0}
    other |= {"scale": 0.5, "dimension": 5, "noise": 0.7, "longest": 24}
    for name in [w.key for w in app.number_input]:
        key = name.removeprefix(f"{PAGE}-")
        before, value = state(), app.number_input(key=name).value
        app.number_input(key=name).set_value(other[key]).run()
        assert not app.exception
        assert not app.warning
        assert state() != before, name
        app.number_input(key=name).set_value(value).run()
    before = state()
    app.selectbox(key=f"{PAGE}-loss").set_value("squared").run()
    assert state() != before
