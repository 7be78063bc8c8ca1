"""Retrieval error: the page's numbers against loops in numpy, every control, every claim."""

import contextlib
import dataclasses
import io
import itertools
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core.hopfield import OUTCOMES
from core.reshape import reshaping_study
from core.separation import StudySettings, draw_study, error_study
from pages import retrieval
from pages.ui import charts, controls, frame
from pages.ui.chart_view import pack
from pages.ui.charts.retrieval import _inmost
from tests import oracles
from tests.colour import SIGHT, lab

DEFAULTS = controls.defaults("retrieval")
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"


def settings(**changes):
    return retrieval.Settings(**DEFAULTS | changes)


def script():
    from pages import retrieval

    retrieval.render()


@pytest.fixture
def pictures(monkeypatch):
    """The figures of the last run by key."""
    shown = {}

    def view(fig, *, key, **rest):
        shown[key.removeprefix("retrieval-")] = fig

    monkeypatch.setattr(frame, "chart_view", view)
    return shown


@pytest.fixture
def visit(pictures):
    """Opens the page with these settings in the address; `sentence(app)` is what it says."""

    def opened(**changes):
        app = AppTest.from_function(script, default_timeout=120)
        for key, value in changes.items():
            row = next(r for r in controls.rows("retrieval") if r.key == key)
            app.query_params[row.name] = row.text(value)
        pictures.clear()
        app.run()
        assert not app.exception
        return app

    return opened


def sentence(app):
    return next(m.value for m in app.markdown if "lab-look" in m.value)


def trace(fig, name):
    return next(t for t in charts.raw(fig)[0] if t.get("name") == name)


def numbers(text):
    """The bold numbers of a sentence."""
    return [float(n.replace("\u2009", "")) for n in re.findall(rf"\*\*({NUMBER})", text)]


# ---- error and bounds --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_hand():
    """Error, both bounds and shares of the default settings, draw by draw in numpy."""
    s = settings(draws=50)
    Xi, direction = draw_study(StudySettings(**retrieval.engine(s)))
    rows = []
    for patterns, step in zip(Xi.numpy(), direction.numpy(), strict=True):
        x, mu = patterns[0] + s.noise * step, patterns[0]

        def attend(state, patterns=patterns):
            weights = np.exp(s.beta * patterns @ state)
            return weights / weights.sum() @ patterns

        star = mu
        for _ in range(2000):
            star = attend(star)
        gap = oracles.separation(patterns, 0)
        scale = 2 * (s.memories - 1)
        away = max(np.linalg.norm(x - mu), np.linalg.norm(star - mu))
        needed = 2 / (s.beta * s.memories) + np.log(s.memories * scale * s.beta) / s.beta
        rows.append((
            np.linalg.norm(attend(x) - mu),
            scale * np.exp(-s.beta * oracles.margin(patterns, x, 0)),
            scale * np.exp(-s.beta * (gap - 2 * away)),
            gap >= needed,
            np.argmin(np.linalg.norm(patterns - attend(x), axis=1)) == 0,
        ))  # fmt: skip
    return np.array(rows, dtype=float).T


def lower_median(values):
    return np.sort(values)[(len(values) - 1) // 2]


def test_the_sentence_says_what_loops_in_numpy_find(visit, by_hand):
    error, a, b, separated, right = by_hand
    said = numbers(sentence(visit(draws=50)))
    assert said == pytest.approx([
        lower_median(error), lower_median(a), lower_median(b),
        100 * (a <= 2).mean(), 100 * (b <= 2).mean(), 100 * separated.mean(), 100 * right.mean(), 0,
    ], rel=2e-3)  # fmt: skip


def test_no_error_lies_above_a_bound_and_the_page_counts(visit):
    text = sentence(visit())
    assert "**0 of 4\u2009200**" in text  # 21 values of beta, 200 draws
    assert "(vacuous, above 2m)" in text
    assert "the median of bound (a) is **" in text  # which of 200 bounds it is


@pytest.mark.parametrize("axis", retrieval.AXES)
def test_the_picture_holds_the_study(visit, pictures, axis):
    visit(axis=axis, draws=50)
    along = retrieval.AXES[axis]
    s = StudySettings(**retrieval.engine(settings(draws=50)))
    study = error_study(s, along.vary, along.values)
    fig = pictures[f"error-{along.key}"]
    cloud = trace(fig, "error, draw by draw")
    np.testing.assert_array_equal(cloud["x"], np.repeat(along.values, 50))
    np.testing.assert_allclose(cloud["y"], study.error.ravel())
    np.testing.assert_allclose(trace(fig, "error, median")["y"], study.error_quantiles[:, 2])
    for name, bound in (
        ("(a) margin bound, median", study.bound_margin_quantiles),
        ("(b) Ramsauer Thm 5, median", study.bound_ramsauer_quantiles),
    ):
        drawn = trace(fig, name)["y"]
        np.testing.assert_allclose(drawn, np.clip(bound[:, 2], 1e-300, 1e300))
    shares = pictures[f"shares-{along.key}"]
    np.testing.assert_allclose(trace(shares, "well separated")["y"], 100 * study.well_separated)
    np.testing.assert_allclose(
        trace(shares, "(b) says something")["y"],
        100 * (study.bound_ramsauer <= study.two_m).mean(axis=1),
    )
    # The dotted line stands where the control stands.
    assert charts.raw(fig)[1]["shapes"][0]["x0"] == DEFAULTS[along.key]


def test_above_2m_it_is_grey_and_says_so(visit, pictures):
    visit()
    layout = charts.raw(pictures["error-beta"])[1]
    grey = layout["shapes"][1]
    assert grey["y0"] == pytest.approx(2.0)  # norms are 1 up to rounding
    assert (grey["layer"], grey["fillcolor"]) == ("above", charts.token("missing"))
    assert np.log10(grey["y1"]) == pytest.approx(layout["yaxis"]["range"][1])
    assert "vacuous: above 2m = 2" in layout["annotations"][0]["text"]


def test_where_neither_bound_is_a_theorem_none_is_drawn(visit, pictures):
    text = sentence(visit(family="polynomial", noise=1.5))
    fig = pictures["error-beta"]
    assert [t["name"] for t in charts.raw(fig)[0] if t.get("name")] == [
        "error, draw by draw", "error, median",
    ]  # fmt: skip
    assert "neither is a theorem" in charts.raw(fig)[1]["annotations"][0]["text"]
    # And rightly: on these draws the softmax bounds would be broken.
    broken = int(re.search(r"break one in (\d+) of", text)[1])
    study = error_study(
        StudySettings(**retrieval.engine(settings(family="polynomial", noise=1.5))),
        "beta", retrieval.BETAS,
    )  # fmt: skip
    assert broken == study.violations > 0


@pytest.mark.parametrize("family", ["Gaussian mixture", "sparse"])
def test_other_energies_have_bounds_only_with_their_proof(visit, pictures, family):
    app = visit(family=family)
    assert "(a) margin bound, median" in [
        t.get("name") for t in charts.raw(pictures["error-beta"])[0]
    ]
    assert "**0 of" in sentence(app)
    assert any(("norm 1" in c.value) or ("sparsemax" in c.value) for c in app.caption)


def test_errors_of_zero_and_infinite_bounds_leave_a_picture(visit, pictures):
    visit(family="sparse", beta=200.0, noise=2.0, axis="noise")
    for t in charts.raw(pictures["error-noise"])[0]:
        if t["mode"] == "lines" and t.get("name") != "error, median":
            assert np.isfinite(t["y"]).all()
            assert (np.asarray(t["y"]) > 0).all()
    low, high = charts.raw(pictures["error-noise"])[1]["yaxis"]["range"]
    assert -8 <= low < high


# ---- phase map ---------------------------------------------------------------------------------


def test_phase_map_shows_the_most_common_outcome_with_its_share(visit, pictures):
    s = settings(view="phase map", dimension=3, memories=12, draws=50)
    app = visit(view="phase map", dimension=3, memories=12, draws=50)
    found = retrieval.compute(s)
    covered = np.zeros(found.map.most_common.shape, dtype=int)
    for t in charts.raw(pictures["phases"])[0]:
        if t["type"] == "heatmap":
            inside = np.isfinite(t["z"])
            code = OUTCOMES.index(t["name"].replace("memory", "pattern"))
            assert (found.map.most_common[inside] == code).all()
            np.testing.assert_array_equal(t["z"][inside], found.map.share[inside].max(axis=-1))
            words = [w for row in t["text"] for w in row if w]
            assert len(words) == inside.sum()
            assert all(w.split("<br>")[0].endswith(f"% {t['name']}") for w in words)
            covered += inside
    assert (covered == 1).all()
    # The marked place, with all draws and in words.
    here = found.here.share[0, 0]
    assert here.sum() == pytest.approx(1)
    said = numbers(sentence(app))
    assert said == pytest.approx(sorted(100 * here[here > 0], reverse=True))
    bars = {t["name"]: t["x"][0] for t in charts.raw(pictures["outcomes"])[0]}
    named = [name.replace("pattern", "memory") for name in OUTCOMES]  # in the controls' words
    assert bars == pytest.approx({named[k]: 100 * v for k, v in enumerate(here) if v})


def facts(app):
    """The cells of the page's table, row by row."""
    table = next(h.value for h in app.get("html") if "lab-facts" in h.value)
    return {
        row[0]: row[1:]
        for row in (re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", r) for r in table.split("<tr>")[2:])
    }


@pytest.mark.parametrize(
    ("name", "direction", "least"), [("crowd", "up", 100), ("room", "down", 100)]
)
def test_a_claimed_trend_stands_in_the_numbers_with_both_ends(visit, name, direction, least):
    s = scenario(name)
    app = visit(**dataclasses.asdict(s))
    first, last, factor = facts(app)["median error |T(x) − ξ<sub>μ</sub>|"]
    median = retrieval.compute(s).along.error_quantiles[:, 2]
    assert [float(first), float(last)] == pytest.approx(median[[0, -1]], rel=5e-3)
    assert factor.endswith(direction)
    assert float(factor.split()[0]) == pytest.approx(
        max(median[0] / median[-1], median[-1] / median[0]), rel=5e-3
    )
    assert float(factor.split()[0]) > least


def test_the_cell_of_the_map_is_the_map_at_that_place():
    s = settings(view="phase map", beta=retrieval.BETAS[9], noise=0.5, draws=50, memories=6)
    found = retrieval.compute(s)
    alone = retrieval.cache.phase_map(
        (s.beta,), (0.5,), 40, *retrieval.SETTLED, **retrieval.engine(s, "beta", "noise", "draws")
    )
    np.testing.assert_array_equal(found.map.share[5, 9], alone.share[0, 0])


@pytest.mark.parametrize(
    ("x", "y", "beta", "noise"),
    [(7.6, 0.52, 7.41, 0.5), (0.01, -3.0, 0.5, 0.0), (1e4, 99.0, 200.0, 2.0)],
)
def test_a_click_goes_to_the_cell_under_the_mouse(monkeypatch, x, y, beta, noise):
    moved = {}
    monkeypatch.setattr(retrieval.panel, "set_values", lambda page, values: moved.update(values))
    retrieval.clicked({"x": x, "y": y, "curve": 0, "point": None})
    assert moved == {"beta": beta, "noise": noise}
    for row in controls.rows("retrieval"):
        if row.key in moved:
            assert row.check(moved[row.key]) == moved[row.key]


def test_a_click_beside_the_map_moves_nothing(monkeypatch):
    monkeypatch.setattr(retrieval.panel, "set_values", lambda *a: pytest.fail("moved"))
    retrieval.clicked({"x": None, "y": 0.5, "curve": 0, "point": None})


@pytest.mark.parametrize("theme", charts.COLOURS)
@pytest.mark.parametrize("deficiency", SIGHT)
def test_outcomes_stay_apart_under_colour_blindness_and_have_a_mark_each(theme, deficiency):
    assert len(charts.OUTCOME_HUES) == len(set(charts.OUTCOME_MARKS)) == len(OUTCOMES)
    colours = [charts.COLOURS[theme][h] for h in charts.OUTCOME_HUES]
    for a, b in itertools.combinations(colours, 2):
        assert np.linalg.norm(lab(a, deficiency) - lab(b, deficiency)) > 8, (a, b)


def test_names_of_regions_stand_inside_them():
    mine = np.zeros((9, 12), dtype=bool)
    mine[2:7, 3:10] = True
    assert _inmost(mine) == (4, 6, 3)
    ring = np.ones((5, 5), dtype=bool)
    ring[1:4, 1:4] = False
    row, column, depth = _inmost(ring)
    assert ring[row, column]
    assert depth == 1


# ---- reshaping ---------------------------------------------------------------------------------


def test_reshaping_in_numpy_and_on_the_page(visit, pictures):
    s = settings(view="reshaping", noise=0.5, draws=50)
    Xi, direction = draw_study(StudySettings(**retrieval.engine(s)))
    before, after, gains, expected = [], [], [], []
    for patterns, step in zip(Xi.numpy(), direction.numpy(), strict=True):
        x = patterns[0] + s.noise * step
        x /= np.linalg.norm(x)
        mu = int(np.argmax(patterns @ x))
        moved = patterns.copy()
        moved[mu] = x
        before.append(oracles.separation(patterns, mu))
        after.append(oracles.separation(moved, mu))
        gains.append(oracles.margin(moved, x, mu) - oracles.margin(patterns, x, mu))
        expected.append(x @ x - x @ patterns[mu])
    before, after = np.array(before), np.array(after)
    np.testing.assert_allclose(gains, expected, atol=1e-12)

    text = sentence(visit(view="reshaping", noise=0.5, draws=50))
    assert numbers(text)[0] == pytest.approx(100 * (after < before).mean())
    assert "The margin rises in **100" in text
    falls = trace(pictures["reshaping-delta"], "Δ falls")
    np.testing.assert_allclose(falls["x"], before[after < before], atol=1e-12)
    np.testing.assert_allclose(falls["y"], after[after < before], atol=1e-12)
    for picture in ("reshaping-margin", "reshaping-error", "margin-gain"):
        assert len(trace(pictures[picture], "Δ falls")["x"]) == (after < before).sum()
    gain = [t for t in charts.raw(pictures["margin-gain"])[0] if t["mode"] == "markers"]
    for t in gain:
        np.testing.assert_allclose(t["y"], t["x"], atol=1e-12)


# ---- what every page promises ------------------------------------------------------------------

OTHER = {
    "axis": "noise", "family": "sparse", "beta": 12.0, "noise": 0.7, "layout": "clustered",
    "memories": 9, "dimension": 11, "draws": 100, "seed": 5,
}  # fmt: skip


@pytest.mark.parametrize("view", [retrieval.ERRORS, retrieval.PHASES, retrieval.RESHAPING])
def test_every_control_shown_is_answered(visit, pictures, view):
    app = visit(view=view, draws=50, memories=6, dimension=6, noise=0.6)

    def state():
        return sentence(app), {k: pack(f, {}, None) for k, f in pictures.items()}

    shown = [w.key for w in (*app.number_input, *app.selectbox)]
    assert len(shown) == (9 if view == retrieval.ERRORS else 8)
    for name in shown:
        key = name.removeprefix("retrieval-")
        before, was = state(), app.session_state[name]
        widget = next(w for w in (*app.number_input, *app.selectbox) if w.key == name)
        pictures.clear()
        widget.set_value(OTHER[key]).run()
        assert not app.exception
        words, figures = state()
        assert figures != before[1] or words != before[0], key
        app.session_state[name] = was
        app.run()


@pytest.mark.parametrize("scenario", retrieval.SCENARIOS, ids=lambda s: s.name)
def test_the_code_of_a_scenario_prints_the_numbers_of_the_page(visit, scenario):
    s = retrieval.Settings(**scenario.settings("retrieval"))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(retrieval.snippet(s), {})
    out = [float(n) for n in re.findall(rf" ({NUMBER})\b", printed.getvalue())]
    said = numbers(sentence(visit(**scenario.settings("retrieval"))))
    if s.view == retrieval.ERRORS:
        # three errors, four shares, the count and what it is of
        assert [*out[:3], *(100 * v for v in out[3:7])] == pytest.approx(said[:7], rel=1e-2)
        assert out[7] == said[7] == 0
    elif s.view == retrieval.PHASES:
        assert sorted(100 * v for v in out if v) == pytest.approx(sorted(said), rel=1e-2)
    else:
        delta, margin, error, residual = out
        assert [100 * delta, 100 * margin, residual, 100 * error] == pytest.approx(said[:4])


def test_a_move_computes_only_what_depends_on_it():
    phases = [
        retrieval.compute(settings(view="phase map", beta=b, noise=n, draws=50))
        for b, n in ((2.0, 0.1), (30.0, 1.1))
    ]
    assert phases[0].map is phases[1].map
    for axis, along in retrieval.AXES.items():
        kind = type(DEFAULTS[along.key])  # 2.0 where it is a float
        low, high = (
            retrieval.compute(settings(axis=axis, draws=50, **{along.key: kind(value)}))
            for value in (2, 4)
        )
        assert low.along is high.along
        assert low.here is not high.here


@pytest.mark.parametrize("view", [retrieval.ERRORS, retrieval.PHASES, retrieval.RESHAPING])
@pytest.mark.parametrize("family", retrieval.ENERGY)
def test_the_ends_of_the_controls_give_a_picture(visit, pictures, view, family):
    # Circle and two dimensions: overlaps of exactly 1, draws without a match, errors of exactly 0.
    corner = {"beta": 200.0, "noise": 2.0, "memories": 24, "dimension": 2, "layout": "on a circle"}
    app = visit(view=view, family=family, draws=50, axis="noise", **corner)
    assert not app.warning
    assert pictures
    assert "nan" not in sentence(app)


def test_everything_a_reader_needs_is_said(visit):
    for view in (retrieval.ERRORS, retrieval.PHASES, retrieval.RESHAPING):
        app = visit(view=view, draws=50)
        assert app.latex
        assert [e.label for e in app.expander] == ["What would refute it"]
    assert "(ours)" in retrieval.REFUTED[retrieval.RESHAPING]
    assert 3 <= len(retrieval.SCENARIOS) <= 6


# ---- the claims of the scenarios, by numbers -----------------------------------------------------


def scenario(name):
    chosen = next(s for s in retrieval.SCENARIOS if s.name == name)
    return retrieval.Settings(**chosen.settings("retrieval"))


@pytest.fixture(params=[0, 1, 2], ids=lambda seed: f"seed{seed}")
def study(request):
    """The study of a scenario; claims have to hold on other draws than the page's first, too."""

    def found(name):
        s = dataclasses.replace(scenario(name), seed=request.param)
        return retrieval.compute(s)

    return found


@pytest.mark.claim("bounds")
def test_claim_two_bounds_take_hold(study):
    r = study("bounds").along
    assert r.violations == 0
    assert r.vacuous_margin[0] == r.vacuous_ramsauer[0] == 1
    first_a = np.argmax(r.vacuous_margin < 0.5)
    first_b = np.argmax(r.vacuous_ramsauer < 0.5)
    assert 0 < first_a < first_b


@pytest.mark.claim("silent")
def test_claim_theorem_5_falls_silent(study):
    r = study("silent").here
    assert r.vacuous_ramsauer[0] == 1
    assert r.retrieved[0] == 1


@pytest.mark.claim("crowd")
def test_claim_crowding(study):
    r = study("crowd").along
    median = dict(zip(r.values, r.error_quantiles[:, 2], strict=True))
    assert (r.values[0], r.values[-1]) == (2, 64)
    assert median[64] > 100 * median[2]
    assert r.well_separated[-1] == 0


@pytest.mark.claim("room")
def test_claim_room(study):
    r = study("room").along
    assert r.error_quantiles[0, 2] > 100 * r.error_quantiles[-1, 2]
    delta = np.median(r.delta, axis=1)
    assert (np.diff(delta) > 0).all()


@pytest.mark.claim("phases")
def test_claim_four_phases(study):
    r = study("phases").map
    where = {OUTCOMES[k]: np.argwhere(r.most_common == k) for k in range(4)}
    assert all(len(cells) > 5 for cells in where.values())
    beta = {name: r.betas[cells[:, 1]] for name, cells in where.items()}
    noise = {name: r.noises[cells[:, 0]] for name, cells in where.items()}
    assert beta["global average"].max() < beta["mixture"].min()
    assert np.median(beta["mixture"]) < min(beta["retrieved"].min(), beta["wrong pattern"].min())
    assert np.median(noise["retrieved"]) < np.median(noise["wrong pattern"])


@pytest.mark.claim("lemma")
def test_claim_when_delta_falls(study):
    r = study("lemma")
    assert 0.35 < r.share_delta_falls < 0.65
    assert r.share_margin_rises == r.share_error_falls == 1
    assert (r.error_to_original > r.error_before).all()
    assert r.largest_gain_residual < 1e-14
    again = reshaping_study(r.settings)
    assert again.share_delta_falls == r.share_delta_falls
