"""Colours that can be told apart, figures that plotly accepts, numbers that never blank a picture."""

import itertools

import numpy as np
import pytest

from pages.ui import charts
from tests.colour import SIGHT, contrast, distance, lab


@pytest.mark.parametrize("theme", charts.COLOURS)
def test_every_hue_stands_out_from_the_page(theme):
    colours = charts.COLOURS[theme]
    for hue in (*charts.HUES, "faint"):
        assert contrast(colours[hue], colours["paper"]) >= 3.0, hue  # WCAG 1.4.11, graphics
    for text in ("ink", "muted"):
        assert contrast(colours[text], colours["paper"]) >= 4.5, text  # WCAG 1.4.3


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((50, 2.49, -0.001), (50, -2.49, 0.0009), 7.1792),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ],
)
def test_the_distance_of_colours_is_ciede2000(a, b, expected):
    assert distance(np.array(a), np.array(b)) == pytest.approx(expected, abs=5e-5)


# 1 is what an eye just tells apart in two patches that touch. Lines are thin and lie apart, which takes several.
APART = 6.0


@pytest.mark.parametrize("theme", charts.COLOURS)
@pytest.mark.parametrize("deficiency", SIGHT)
def test_hues_stay_apart_under_colour_blindness_or_differ_otherwise(theme, deficiency):
    seen = [lab(charts.COLOURS[theme][h], deficiency) for h in charts.HUES]
    for i, j in itertools.combinations(range(len(seen)), 2):
        if distance(seen[i], seen[j]) < APART:
            assert max(i, j) >= 4, "of the first four hues each pair is told apart by colour alone"
            a, b = charts.series(i), charts.series(j)
            assert a["line"]["dash"] != b["line"]["dash"]
            assert a["marker"]["symbol"] != b["marker"]["symbol"]


@pytest.mark.parametrize("deficiency", SIGHT)
def test_kinds_of_example_that_look_alike_differ_in_mark_and_dash(deficiency):
    for theme, (a, b) in itertools.product(
        charts.COLOURS, itertools.combinations(charts.KIND_LOOKS, 2)
    ):
        hues = [lab(charts.COLOURS[theme][look[1]], deficiency) for look in (a, b)]
        if distance(*hues) < APART:
            assert a[2] != b[2]
            assert a[3] != b[3]


def test_hue_is_never_alone():
    styles = [charts.series(i) for i in range(6)]
    assert len({s["line"]["dash"] for s in styles}) == 6
    assert len({s["marker"]["symbol"] for s in styles}) == 6


@pytest.mark.parametrize("deficiency", SIGHT)
def test_lightness_of_the_sequential_scale_rises(deficiency):
    lightness = [lab(colour, deficiency)[0] for _, colour in charts.SEQUENTIAL]
    assert np.all(np.diff(lightness) > 4)


@pytest.mark.parametrize("theme", charts.COLOURS)
@pytest.mark.parametrize("deficiency", SIGHT)
def test_the_diverging_scale_has_two_sides(theme, deficiency):
    """Blue against orange on either side of 0, and each side leaves the colour of 0 behind step by step."""
    zero = charts.COLOURS[theme]["zero"]
    low, _, middle, _, high = scale = [
        lab(zero if c.startswith("var") else c, deficiency) for _, c in charts.DIVERGING
    ]
    assert distance(low, high) > 3 * APART
    assert distance(scale[1], scale[3]) > 3 * APART
    for side in (scale[1::-1], scale[3:]):
        assert all(distance(middle, c) > APART for c in side)
    if (
        theme == "light"
    ):  # in dark the middle is dark: there the outer ends turn back in lightness, not in hue
        lightness = [c[0] for c in scale]
        assert np.all(np.diff(lightness[:3]) > 4)
        assert np.all(np.diff(lightness[2:]) < -4)


def test_both_themes_know_the_same_tokens():
    assert charts.COLOURS["light"].keys() == charts.COLOURS["dark"].keys()
    with pytest.raises(ValueError, match="no colour 'pink'"):
        charts.token("pink")


def test_figures_are_checked_in_tests():
    assert charts.CHECKED
    with pytest.raises(ValueError, match="colr"):
        charts.figure({"type": "scatter", "colr": "red"})


def test_layouts_merge():
    fig = charts.figure(x="u", xaxis={"type": "log"}, title="E")
    assert fig.layout.xaxis.title.text == "u"
    assert fig.layout.xaxis.type == "log"


def test_infinities_become_gaps():
    z = np.array([[1.0, np.inf], [-np.inf, np.nan]])
    assert np.isnan(charts.finite(z)).sum() == 3
    assert charts.finite(np.arange(3)).dtype.kind == "i"


def test_a_surface_is_kept_small():
    with pytest.raises(ValueError, match="81 x 81"):
        charts.surface(np.zeros((82, 10)))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_resolved_figures_have_no_tokens_left(theme):
    x = np.arange(4.0)
    fig = charts.lines(x, {"a": x}, bands={"a": (x - 1, x + 1)})
    text = charts.resolved(charts.greyed(fig), theme).to_json()
    assert "var(--" not in text
    assert charts.COLOURS[theme]["blue"] in text


def test_what_is_plotted_is_what_was_given():
    x = np.arange(4.0)
    fig = charts.lines(x, {"a": x * 2}, bands={"a": (x - 1, x + 1)})
    band, curve = charts.plotted(fig)
    assert band["series"] == "a band"
    np.testing.assert_array_equal(band["low"], x - 1)
    np.testing.assert_array_equal(band["high"], x + 1)
    np.testing.assert_array_equal(curve["y"], x * 2)
