"""Landscape: the page's numbers against numpy, every control, every claim, every bad table."""

import contextlib
import dataclasses
import io
import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import logsumexp
from streamlit.testing.v1 import AppTest

from core.landscape import LandscapeSettings, landscape
from core.tables import as_rows, parse_table
from pages import landscape as page
from pages.ui import cache, charts, controls, frame, share
from pages.ui.chart_view import pack
from tests import oracles
from tests.pages.visits import unlinked

DEFAULTS = controls.defaults("landscape")
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"


def settings(**changes):
    return page.Settings(**DEFAULTS | changes)


def result(s):
    """What the engine finds for these settings, without the page's cache."""
    own = {"patterns": as_rows(parse_table(s.table))} if s.layout == page.TABLE else {}
    return landscape(LandscapeSettings(**page.engine(s), **own))


def script():
    from pages import landscape

    landscape.render()


@pytest.fixture
def drawn(monkeypatch):
    """What the last run drew, by key: figure and frames."""
    shown = {}

    def view(fig, *, key, frames=None, **rest):
        shown[key.removeprefix("landscape-")] = (fig, frames)

    monkeypatch.setattr(frame, "chart_view", view)
    return shown


@pytest.fixture
def visit(drawn):
    """Opens the page with these settings in the address."""

    def opened(**changes):
        app = AppTest.from_function(script, default_timeout=240)
        for key, value in changes.items():
            row = next(r for r in controls.rows("landscape") if r.key == key)
            app.query_params[row.name] = row.text(value)
        return again(app)

    def again(app):
        drawn.clear()
        app.run()
        assert not app.exception, app.exception
        return app

    opened.again = again
    return opened


def sentence(app):
    return next(m.value for m in app.markdown if "lab-look" in m.value)


def everything(app):
    """All words and numbers of the stage."""
    return "\n".join(str(e.value) for e in (*app.markdown, *app.caption, *app.get("html")))


def pictures(drawn):
    return {key: pack(fig, {}, frames) for key, (fig, frames) in drawn.items()}


def trace(fig, uid):
    return next(t for t in charts.raw(fig)[0] if t.get("uid") == uid)


# ---- numbers -------------------------------------------------------------------------------------


def test_the_sentence_says_what_numpy_finds(visit):
    s = settings()
    r = result(s)
    turn = 2 * np.pi * np.arange(6) / 6
    memories = np.stack([np.cos(turn), np.sin(turn)], axis=1)  # the layout, by its definition
    W = r.examples.T @ np.linalg.pinv(memories[:2].T)
    reshaped = memories @ W.T

    def end(patterns):
        x = r.query
        for _ in range(3000):
            z = s.beta * patterns @ x
            x = np.exp(z - logsumexp(z)) @ patterns
        return x

    said = [float(n) for n in re.findall(rf"\*\*({NUMBER})\*\*", sentence(visit()))]
    assert said == pytest.approx([
        np.linalg.norm(end(reshaped) - end(memories)),
        oracles.separation(memories, 0), oracles.separation(reshaped, 0),
        oracles.margin(memories, r.query, 0), oracles.margin(reshaped, r.query, 0),
    ], abs=5.1e-5)  # fmt: skip
    assert oracles.separation(memories, 0) == pytest.approx(0.5)  # 1 - cos 60 degrees


def test_the_picture_shows_the_energy(visit, drawn):
    visit()
    fig, _ = drawn["before-after"]
    r = result(settings())
    heat = [t for t in charts.raw(fig)[0] if t["type"] == "heatmap"]
    for t, side in zip(heat, (r.before, r.after), strict=True):
        for iy, ix in ((0, 0), (17, 80), (100, 3), (50, 50)):
            x = np.array([t["x"][ix], t["y"][iy]])
            assert t["z"][iy, ix] == pytest.approx(
                oracles.lse_dot_energy(side.memories, x, 20.0), abs=1e-12
            )
    layout = charts.raw(fig)[1]
    grids = np.stack([r.before.energy, r.after.energy])
    assert layout["coloraxis"]["cmin"] == grids.min()
    assert layout["coloraxis"]["cmax"] == grids.max()
    assert {t["coloraxis"] for t in heat} == {"coloraxis"}  # one scale for both
    assert layout["xaxis2"]["matches"] == "x"  # and one zoom


def test_the_difference_is_after_minus_before(visit, drawn):
    visit(view="difference")
    fig, _ = drawn["difference"]
    r = result(settings())
    heat = next(t for t in charts.raw(fig)[0] if t["type"] == "heatmap")
    assert np.array_equal(heat["z"], r.after.energy - r.before.energy)
    scale = charts.raw(fig)[1]["coloraxis"]
    assert scale["cmin"] == -scale["cmax"] == -np.abs(heat["z"]).max()


def test_3d_has_its_own_picture_of_few_points(visit, drawn):
    for side in ("before", "after"):
        visit(view=f"3-D {side}", family="sparse")
        fig, frames = drawn["surface"]
        z = next(t for t in charts.raw(fig)[0] if t["type"] == "surface")["z"]
        assert max(z.shape) <= 81
        assert frames is None
        r = result(settings(family="sparse"))
        grid = getattr(r, side).energy
        every = (len(grid) - 1) // (len(z) - 1)
        assert np.array_equal(z, grid[::every, ::every])


def test_both_pictures_play_the_same_steps(visit, drawn):
    visit()
    plane, plays = drawn["before-after"]
    small, follows = drawn["retrieval"]
    r = result(settings())
    assert plays.group == follows.group
    assert plays.labels == follows.labels
    assert len(plays.labels) == max(len(r.before.path), len(r.after.path))
    numbers = {t["uid"]: i for i, t in enumerate(charts.raw(plane)[0]) if "uid" in t}
    bars = {t["uid"]: i for i, t in enumerate(charts.raw(small)[0]) if "uid" in t}
    for k in range(len(plays.labels)):
        at = min(k, len(r.after.path) - 1)
        state = plays.data[k][numbers["state-after"]]
        assert [state["x"][0], state["y"][0]] == list(r.after.path[at])
        weights = follows.data[k][bars["weights-after"]]["y"]
        assert weights == pytest.approx(r.after.weights[at])
        # The weights at a state make the next one.
        if at + 1 < len(r.after.path):
            assert weights @ r.after.points == pytest.approx(r.after.path[at + 1])
    # What stands there before anybody plays is the last frame.
    assert list(trace(plane, "state-before")["x"]) == [r.before.path[-1, 0]]


def test_a_long_path_is_played_in_few_frames():
    long, short = (SimpleNamespace(path=np.zeros((n, 2))) for n in (400, 3))
    played = page.steps(SimpleNamespace(before=long, after=short))
    assert len(played) <= page.FRAMES
    assert list(played[:6]) == [0, 1, 2, 3, 4, 5]
    assert played[-1] == 399


def test_facts_hold_both_bounds_and_say_where_they_are_vacuous(visit):
    text = everything(visit())
    r = result(settings())
    side = r.before
    m, M = side.largest_norm, len(side.memories)
    a = 2 * m * (M - 1) * np.exp(-20.0 * oracles.margin(side.memories, r.query, 0))
    assert page.number(a) in text
    assert side.error <= a
    assert side.vacuous == (side.bound_ramsauer > 2 * m)
    assert (f"{side.bound_ramsauer:.3g}, <small>vacuous (&gt; 2m)" in text) == side.vacuous
    assert "no theorem here" in everything(visit(family="polynomial"))


def test_numbers_have_as_many_digits_as_help():
    said = {
        16225.5829: "1.62e4", 1234.5678: "1234.6", 12.345678: "12.346", 0.5: "0.5000", 1e-5: "1.00e-5",
        -0.25: "-0.2500", 1e-14: "0", 0.0: "0", float("inf"): "∞", float("nan"): "not finite",
    }  # fmt: skip
    assert {value: page.number(value) for value in said} == said
    side = SimpleNamespace(bounds_apply=True, bound_ramsauer=16225.5829, vacuous=True)
    assert page.bound(side, side.bound_ramsauer, True) == "1.6e4, <small>vacuous (&gt; 2m)</small>"


def test_the_thumb_says_what_the_field_says(visit):
    app = visit(beta=7.3)
    assert app.select_slider(key="landscape-beta~slider").value == 7.3
    app.number_input(key="landscape-beta").set_value(8.0)
    visit.again(app)
    assert app.select_slider(key="landscape-beta~slider").value == 8.0
    assert "7.3" not in app.select_slider(key="landscape-beta~slider").options


# ---- every control -------------------------------------------------------------------------------

# Another value for each control, and what else must be set for it to matter.
MOVES = {
    "view": ("after", {}),
    "strength": (0.5, {}),
    "examples": (5, {}),
    "shift": (1.1, {}),
    "lemma": (True, {}),
    "family": ("sparse", {}),
    "beta": (3.0, {}),
    "basins": (True, {}),
    "layout": ("clustered", {}),
    "table": ("1, 0\n0, 1\n-1, -1", {"layout": "your table"}),
    "memories": (9, {}),
    "dimension": (7, {}),
    "seed": (5, {}),
    "query": ("placed", {}),
    "noise": (0.9, {}),
    "x": (0.4, {"query": "placed"}),
    "y": (-0.3, {"query": "placed"}),
    "plane": ("principal components", {"dimension": 8, "layout": "random"}),
    "ridge": (0.5, {}),
    "tolerance": (0.1, {"layout": "correlated", "dimension": 12, "memories": 12, "examples": 12}),
    "moved": ("memory 0: 0.5, 0.5", {}),
}

BEFORE = {}  # pictures by what else is set


def test_no_control_is_forgotten():
    assert set(MOVES) == set(DEFAULTS)
    assert [f.name for f in dataclasses.fields(page.Settings)] == list(DEFAULTS)


@pytest.mark.parametrize("key", MOVES)
def test_every_control_changes_the_picture(visit, drawn, key):
    value, others = MOVES[key]
    asked = tuple(others.items())
    if asked not in BEFORE:
        visit(**others)
        BEFORE[asked] = pictures(drawn)
    before = BEFORE[asked]
    app = visit(**others, **{key: value})
    assert not app.warning
    assert pictures(drawn) != before


@pytest.mark.parametrize("family", page.ENERGY)
def test_every_family_shows_its_own_equation_and_finite_numbers(visit, family):
    from core.hopfield import ENERGIES

    app = visit(family=family, beta=1000.0)
    assert any(ENERGIES[page.ENERGY[family]].latex in e.value for e in app.latex)
    assert not app.warning
    assert "not finite" not in everything(app)


# ---- claims of the scenarios -----------------------------------------------------------------------


def scenario(name):
    chosen = next(s for s in page.SCENARIOS if s.name == name)
    return result(page.Settings(**chosen.settings("landscape")))


@pytest.mark.claim("context")
def test_context_moves_the_minimum():
    r = scenario("context")
    assert r.reshaping.keys.exact
    assert r.after.memories[:2] == pytest.approx(r.examples)
    assert page.moves(r) > 0.2


@pytest.mark.claim("overfull")
def test_more_examples_than_the_rank():
    r = scenario("overfull")
    assert r.reshaping.keys.residual > 0.5
    W = np.linalg.lstsq(r.before.memories[r.pairs], r.examples, rcond=None)[0]
    missed = np.linalg.norm(r.before.memories[r.pairs] @ W - r.examples)
    assert r.reshaping.keys.residual == pytest.approx(missed / np.linalg.norm(r.examples))
    assert r.after.outcome.startswith("wrong pattern")


@pytest.mark.claim("falls")
def test_delta_falls_although_the_margin_rises():
    r = scenario("falls")
    assert r.after.memories[0] == pytest.approx(r.query)
    assert r.after.memories[1:] == pytest.approx(r.before.memories[1:])
    gain = r.query @ r.query - r.query @ r.before.memories[0]
    assert r.after.margin - r.before.margin == pytest.approx(gain)
    assert gain > 0
    assert r.after.delta[0] < r.before.delta[0] - 0.2


@pytest.mark.claim("mixture")
def test_a_mixture_of_one_cluster():
    r = scenario("mixture")
    assert r.before.outcome == "mixture of 3"
    best = np.argsort(-r.before.weights[-1])[:3]
    assert sorted(best % 3) == [0, 0, 0]  # cluster of memory j is j modulo 3
    assert r.after.outcome == "retrieved 0"


@pytest.mark.claim("sharp")
def test_sharp_beta_retrieves_in_one_step():
    r = scenario("sharp")
    assert r.before.stationary.kinds.count("minimum") == 6
    assert len(r.before.path) - 1 == 1
    assert r.before.error < 1e-9


@pytest.mark.claim("slice")
def test_the_lowest_minimum_lies_off_the_slice():
    r = scenario("slice")
    assert r.after.space_off_plane > 0.5
    assert r.after.space_energy < r.after.slice_energy - 0.05


@pytest.mark.parametrize("chosen", page.SCENARIOS, ids=lambda s: s.name)
def test_scenarios_are_links_too(visit, chosen):
    app = AppTest.from_function(script, default_timeout=240)
    app.query_params["preset"] = chosen.name
    visit.again(app)
    assert not app.warning
    assert any(unlinked(c.value).startswith(chosen.claim) for c in app.caption)


# ---- words ---------------------------------------------------------------------------------------


def test_the_residual_comes_with_its_reason(visit):
    captions = " ".join(c.value for c in visit(examples=12, shift=1.0).caption)
    assert "t = 12 examples are more than the dimension D = 2" in captions
    assert "a memory is the ghost of several" in captions
    assert "Exact" in " ".join(c.value for c in visit().caption)


def test_settings_without_effect_are_named(visit):
    captions = " ".join(c.value for c in visit(plane="principal components", strength=0.5).caption)
    assert "only one plane" in captions
    assert "At s = 0.5" in captions


def test_the_semantics_say_what_is_ours(visit):
    text = unlinked(everything(visit()))
    assert "What we add *(ours)*" in text
    assert "W1 = K K~^+" in text


# ---- tables --------------------------------------------------------------------------------------

BAD = {
    "text": ("1,2\nthree,4\n5,6", "the text 'three'"),
    "NaN": ("1,2\nnan,4", "memories must be finite"),
    "one row": ("1,2,3", "one row only"),
    "300 columns": ("\n".join(",".join(["1"] * 300) for _ in range(3)), "300 columns"),
    "a million rows": ("1,2\n" * 1_000_000, "too large: 4.0 MB"),
    "2000 rows": ("1,2\n" * 2000, "2,000 rows"),
    "empty": (" \n", "empty"),
    "not text": (b"\xff\xfe\x00\x81,1\n2,3", "not UTF-8"),
    "a spreadsheet": (b"PK\x03\x04\xff", "Excel"),
}


@pytest.fixture
def own_table(visit, drawn):
    """The page with a good table of the visitor's own, and what it drew."""
    app = visit(layout="your table")
    assert not app.warning
    return app, pictures(drawn)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_explained_and_the_last_good_picture_stays(own_table, visit, drawn, name):
    app, good = own_table
    content, said = BAD[name]
    data = content if isinstance(content, bytes) else content.encode()
    app.file_uploader[0].set_value(("patterns.csv", data, "text/csv"))
    visit.again(app)
    assert said in app.warning[0].value
    assert "The picture and the numbers are those of the last settings" in app.warning[0].value
    assert "pattern" not in app.warning[0].value
    assert not any("is in use" in c.value for c in app.caption)
    assert pictures(drawn) == good
    next(b for b in app.button if b.label == "Back to safe values").click()
    visit.again(app)
    assert not app.warning
    assert pictures(drawn) == good


def test_a_pasted_mistake_is_explained_too(own_table, visit, drawn):
    app, good = own_table
    app.text_area[0].set_value("1, 2\n3")
    visit.again(app)
    assert "Line 2 has 1 entries" in app.warning[0].value
    assert pictures(drawn) == good


def test_a_small_file_goes_into_the_field_and_so_into_the_link(own_table, visit):
    app, _ = own_table
    app.file_uploader[0].set_value(("small.csv", b"1,0\r\n0,1\r\n-1,0.5\r\n", "text/csv"))
    visit.again(app)
    assert app.text_area[0].value == "1,0\n0,1\n-1,0.5"
    assert not app.warning
    assert "landscape-memories" not in {w.key for w in app.number_input}
    rows = np.array([[1, 0], [0, 1], [-1, 0.5]])
    assert page.number(oracles.separation(rows, 0)) in sentence(app)


def test_a_large_file_is_used_and_the_link_says_it_cannot_carry_it(own_table, visit, monkeypatch):
    app, _ = own_table
    seen = {}
    monkeypatch.setattr(
        share,
        "exports",
        lambda shown, pinned=None: seen.update(shown=shown, s=shown.values, c=shown.snippet),
    )
    big = np.random.default_rng(0).standard_normal((40, 12)).round(6)
    text = "\n".join(",".join(map(str, row)) for row in big)
    app.file_uploader[0].set_value(("big.csv", text.encode(), "text/csv"))
    visit.again(app)
    assert not app.warning
    assert any("big.csv" in c.value and "link cannot carry it" in c.value for c in app.caption)
    assert page.number(oracles.separation(big, 0)) in sentence(app)
    # The link names the gap, the settings file and the snippet carry the table.
    link = controls.write_link("landscape", seen["s"])
    read = controls.read_link("landscape", {"landscape-table": [controls.ELSEWHERE]})
    assert read.values["table"] == controls.ELSEWHERE
    assert "an+uploaded+file" in link
    assert "0.12573" in share.settings_json(seen["shown"], {})
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(seen["c"], {})
    assert f"Delta of memory 0 {oracles.separation(big, 0):.4f}" in out.getvalue()


def test_a_link_to_an_uploaded_table_asks_for_the_file(visit, drawn):
    app = visit(layout="your table", table=controls.ELSEWHERE)
    assert "a link cannot carry" in app.warning[0].value
    assert drawn


def test_typing_after_an_upload_counts(own_table, visit):
    app, _ = own_table
    app.file_uploader[0].set_value(("bad.csv", b"1,2\n" * 2000, "text/csv"))
    visit.again(app)
    app.text_area[0].set_value("3, 0\n0, 3")
    visit.again(app)
    assert not app.warning
    assert "**9.0000**" in sentence(app)  # separation of two orthogonal rows of length 3


# ---- clicks, links, numbers that are not finite ----------------------------------------------------


def test_a_click_places_the_query(monkeypatch):
    stored = {}
    monkeypatch.setattr(page.panel, "set_values", lambda p, v: stored.update(v))
    page.clicked({"x": 0.123456789, "y": -0.4, "curve": 0, "point": None})
    assert stored == {"query": "placed", "x": 0.12346, "y": -0.4}
    stored.clear()
    page.clicked({"x": None, "y": 0.1})  # beside the plane
    assert stored == {}


def test_a_placed_query_stands_where_it_was_put(visit, drawn):
    visit(query="placed", x=0.3, y=-0.2, dimension=9, layout="random")
    fig, frames = drawn["before-after"]
    start = frames.data[0]
    at = start[next(i for i, t in enumerate(charts.raw(fig)[0]) if t.get("uid") == "state-before")]
    assert [at["x"][0], at["y"][0]] == pytest.approx([0.3, -0.2])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("examples", "0", "outside 1 to 96"),
        ("memories", "nan", "not a finite number"),
        ("memories", "2.5", "not a whole number"),
        ("noise", "2000", "outside 0 to 3"),
        ("family", "hopfield", "is none of"),
        ("x", "1e9", "outside"),
    ],
)
def test_a_bad_link_costs_that_value_only(visit, name, text, said):
    app = AppTest.from_function(script, default_timeout=240)
    app.query_params[f"landscape-{name}"] = text
    app.query_params["landscape-beta"] = "7"
    visit.again(app)
    assert any(said in w.value for w in app.warning)
    assert app.session_state["landscape-beta"] == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"examples": 96, "memories": 2},
        {"memories": 64, "dimension": 2, "layout": "clustered"},
        {"layout": "your table", "memories": 64, "dimension": 64},
        {"query": "placed", "x": 1e6, "y": -1e6},
        {"noise": 0.0, "shift": 0.0, "memories": 2},
        {"lemma": True, "examples": 1, "noise": 3.0},
        {"plane": "principal components", "dimension": 2},
        {"layout": "your table", "table": "0,0\n0,0"},
    ],
)
def test_odd_combinations_draw(visit, drawn, changes):
    app = visit(**changes)
    assert not app.warning
    assert pictures(drawn)


def test_numbers_that_are_not_finite_are_named_and_grey(visit, drawn, monkeypatch):
    def broken(table, **kw):
        r = landscape(LandscapeSettings(**kw))
        energy = r.after.energy.copy()
        energy[3:6, 7] = np.nan
        return dataclasses.replace(r, after=dataclasses.replace(r.after, energy=energy))

    monkeypatch.setattr(cache, "landscape", broken)
    app = visit()
    assert "the energy E is not finite at 3 of" in app.warning[0].value
    fig, _ = drawn["before-after"]
    assert charts.raw(fig)[1]["plot_bgcolor"] == charts.token("missing")
    assert pictures(drawn)
