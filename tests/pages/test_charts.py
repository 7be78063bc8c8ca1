"""Colours that can be told apart, figures that plotly accepts, numbers that never blank a picture."""

import itertools

import numpy as np
import pytest

from pages.ui import charts


def luminance(colour):
    """WCAG relative luminance of `#rrggbb`."""
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# Viénot, Brettel and Mollon 1999: what is left of linear RGB without L cones, without M cones.
DEFICIENT = {
    "protan": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
    "deutan": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
}


def seen(colour, deficiency):
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    if deficiency:
        linear = np.clip(np.array(DEFICIENT[deficiency]) @ linear, 0, 1)
    # CIE L*a*b*, D65.
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ linear / [0.9505, 1.0, 1.089]  # fmt: skip
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", charts.COLOURS)
def test_every_hue_stands_out_from_the_page(theme):
    colours = charts.COLOURS[theme]
    for hue in charts.HUES:
        assert contrast(colours[hue], colours["paper"]) >= 3.0, hue  # WCAG 1.4.11, graphics
    for text in ("ink", "muted"):
        assert contrast(colours[text], colours["paper"]) >= 4.5, text  # WCAG 1.4.3


@pytest.mark.parametrize("theme", charts.COLOURS)
@pytest.mark.parametrize("deficiency", [None, *DEFICIENT])
def test_the_first_four_hues_stay_apart_under_colour_blindness(theme, deficiency):
    colours = [charts.COLOURS[theme][h] for h in charts.HUES[:4]]
    for a, b in itertools.combinations(colours, 2):
        # 2.3 is the just noticeable difference; lines need several of them.
        assert np.linalg.norm(seen(a, deficiency) - seen(b, deficiency)) > 8, (a, b)


def test_hue_is_never_alone():
    styles = [charts.series(i) for i in range(6)]
    assert len({s["line"]["dash"] for s in styles}) == 6
    assert len({s["marker"]["symbol"] for s in styles}) == 6


@pytest.mark.parametrize("deficiency", [None, *DEFICIENT])
def test_lightness_of_the_sequential_scale_rises(deficiency):
    lightness = [seen(colour, deficiency)[0] for _, colour in charts.SEQUENTIAL]
    assert np.all(np.diff(lightness) > 4)


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
