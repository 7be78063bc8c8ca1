"""A and B in one picture, in words and in numbers."""

import numpy as np
import pytest

from pages.ui import charts, compare, controls
from pages.ui.shown import Facts, Shown

X = np.arange(5.0)


def shown(figure=None, *, values=None, tables=(), said=()):
    figures = {} if figure is None else {"picture": figure}
    values = values or controls.defaults("retrieval")
    return Shown(
        page="retrieval", values=values, lead="", formula="", symbols={}, figures=figures,
        alts={}, tables=tuple(tables), said=tuple(said), folded=(), snippet="", used=(),
    )  # fmt: skip


def lines(y, **layout):
    return charts.lines(X, {"error": y, "baseline": X**2}, **layout)


def beside(b, a):
    return compare.compared("picture", b, shown(a))


def test_a_stands_behind_b_in_grey_and_keeps_every_number_of_b():
    a, b = lines(X + 1), lines(3 * X)
    both = beside(b, a)
    ours, drawn = charts.raw(b)[0], charts.raw(both.figure)[0]
    assert drawn[: len(ours)] == ours, "frames and clicks count on these numbers"
    (behind,) = drawn[len(ours) :]  # the baseline that did not move is drawn once
    assert behind["name"] == "A: error"
    np.testing.assert_array_equal(behind["y"], X + 1)
    assert behind["zorder"] < 0
    assert behind["line"]["dash"] != "solid"
    assert charts.COLOURS["light"]["muted"] == charts.resolved(both.figure).data[-1].line.color


def test_the_difference_is_b_minus_a():
    change = {t.name: t.y for t in beside(lines(3 * X), lines(X + 1)).difference.data}
    np.testing.assert_array_equal(change["error"], 2 * X - 1)
    np.testing.assert_array_equal(change["baseline"], np.zeros(5))


def test_on_an_axis_of_powers_it_is_the_quotient():
    log = {"yaxis": {"type": "log"}}
    change = beside(lines(10.0 ** (X + 2), **log), lines(10.0**X, **log)).difference
    np.testing.assert_allclose(change.data[0].y, 100.0)
    assert change.layout.yaxis.type == "log"
    assert "÷" in change.layout.title.text


def test_a_curve_that_leaves_the_picture_does_not_set_the_scale_of_the_difference():
    view = {"yaxis": {"range": [0, 20]}}
    a, b = (charts.lines(X, {"in": X + i, "out": X - 1e6 * i}, **view) for i in (0, 1))
    low, high = beside(b, a).difference.layout.yaxis.range
    assert -1 < low <= 0
    assert 1 < high < 2


def test_curves_over_another_x_stand_together_without_a_difference():
    b = charts.lines(X + 0.5, {"error": X})
    both = beside(b, lines(X))
    assert both.difference is None
    assert "A: error" in [t.name for t in both.figure.data]


def test_the_axes_hold_both():
    a, b = (lines(X + span[0], yaxis={"range": span}) for span in ([-3, 1], [0, 9]))
    assert beside(b, a).figure.layout.yaxis.range == (-3, 9)


def test_bars_are_marked_where_a_ended_and_crowded_ones_are_left_out():
    def bars(*heights):
        return charts.figure(*({"type": "bar", "x": X, "y": y, "name": "w"} for y in heights))

    behind = beside(bars(X), bars(X + 1)).figure.data[-1]
    assert (behind.type, behind.mode) == ("scatter", "markers")
    np.testing.assert_array_equal(behind.y, X + 1)
    crowded = beside(bars(X, X), bars(X + 1, X))
    assert len(crowded.figure.data) == 2
    assert crowded.note


def test_planes_are_subtracted_on_one_grid_and_refused_on_two():
    z = np.arange(6.0).reshape(2, 3)
    a = charts.figure(charts.heatmap(z, [0, 1, 2], [0, 1]))
    b = charts.figure(charts.heatmap(z * 3, [0, 1, 2], [0, 1]))
    change = beside(b, a).difference.data[0]
    np.testing.assert_array_equal(change.z, 2 * z)
    assert change.zmin == -change.zmax == -10
    other = beside(charts.figure(charts.heatmap(z, [0, 1, 3], [0, 1])), a)
    assert other.difference is None
    assert "cannot be subtracted" in other.note


def test_basins_are_no_numbers_and_plotly_paints_the_difference():
    z = np.arange(4.0).reshape(2, 2)
    basins = {"type": "heatmap", "z": z % 2, "x": [0, 1], "y": [0, 1], "meta": {"basins": 24}}

    def plane(scale, *more):
        energy = {"type": "heatmap", "z": z * scale, "x": [0, 1], "y": [0, 1]}
        return charts.Figure([*more, energy], {"meta": {"canvas": True, "square": True}})

    change = beside(plane(3, basins), plane(1)).difference
    traces, layout = charts.raw(change)
    np.testing.assert_array_equal([t["z"] for t in traces], [2 * z])
    assert layout["meta"] == {"square": True}


def test_another_picture_is_said_to_be_one():
    both = compare.compared("else", lines(X), shown(lines(X)))
    assert both.note == compare.OTHER_PICTURE
    assert both.difference is None


def test_the_difference_of_settings_in_words():
    a = controls.defaults("retrieval")
    b = a | {"beta": 20.0, "noise": 0.4}
    words = compare.settings_in_words("retrieval", a, b)
    assert words == "β inverse temperature 8 → 20, noise of the query 0.2 → 0.4"
    assert compare.settings_in_words("retrieval", a, a) == ""
    a = controls.defaults("induction")  # a label that ends in a number is parted from the value
    assert compare.settings_in_words("induction", a, a | {"beta2": 2.0}) == "β₂ layer 2: 5 → 2"


def test_a_control_that_is_not_drawn_is_not_spoken_of():
    a = controls.defaults("landscape")  # the table counts in the layout "a table" alone
    assert compare.settings_in_words("landscape", a, a | {"table": "1, 2\n3, 4"}) == ""


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("0.9150", "0.9140", "−0.0010"),
        ("24.5 %", "25.5 %", "+1.0 points"),
        ("−0.5", "1.25", "+1.75"),
        ("4 200", "4 100", "−100"),
        ("1e-06", "3e-06", "+2e−06"),
        ("0.1 <small>± 0.3</small>", "0.2", "+0.1"),
        ("3.02, <small>vacuous</small>", "4.02", "+1.00"),
        ("memory 0", "memory 1", ""),
        ("5 %", "0.05", ""),
    ],
)
def test_cells_are_subtracted_in_the_digits_they_show(old, new, change):
    assert compare.change(old, new) == change


def test_numbers_of_tables_and_sentences_stand_side_by_side():
    def page(beta, error, share):
        table = Facts(("first", "last"), [("median", error, "1"), ("name", "x", "y")], "Ends")
        text = (
            f"At β = {beta}, M = 3 the error is **{error}**; of 5 draws, it holds in **{share}** %."
        )
        return shown(tables=[table], said=[text])

    table = compare.numbers(page(8, "0.25", "10"), page(20, "0.50", "40"))
    assert table.columns == ("A", "B", "B − A")
    assert table.rows == [
        ("the error", "0.25", "0.50", "+0.25"),
        ("it holds in", "10 %", "40 %", "+30 points"),
        ("median, first", "0.25", "0.50", "+0.25"),
    ]
    assert table.note == "1 other number is the same."
    same = page(8, "0.25", "10")
    assert compare.numbers(same, same) is None
