"""Links: what they say, what they refuse, and that old ones keep their meaning."""

from itertools import pairwise
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.ui import controls
from pages.ui.controls import Choice, Number, Text, Toggle, read_link, write_link

PAGE = "links"
ROWS = (
    Number(page=PAGE, key="beta", label="β", default=4.0, low=0.1, high=100.0, step=0.1, log=True),
    Number(page=PAGE, key="count", label="M", default=5, low=1, high=64, step=1),
    Choice(page=PAGE, key="shape", label="Shape", default="line", options=("line", "on a circle")),
    Toggle(page=PAGE, key="on", label="On", default=False),
    Text(page=PAGE, key="rows", label="Rows", default="", longest=40),
)


@pytest.fixture(autouse=True)
def table(monkeypatch):
    monkeypatch.setattr(controls, "TABLE", ROWS)


def read(query, presets=()):
    return read_link(PAGE, parse_qs(query, keep_blank_values=True), presets)


@given(
    st.fixed_dictionaries(
        {
            "beta": st.floats(0.1, 100.0),
            "count": st.integers(1, 64),
            "shape": st.sampled_from(["line", "on a circle"]),
            "on": st.booleans(),
            "rows": st.text(max_size=40),
        }
    )
)
def test_a_link_gives_back_exactly_what_went_in(settings):
    link = read(write_link(PAGE, settings))
    assert link.values == settings
    assert link.notices == ()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("links-beta=2000", "outside 0.1 to 100"),
        ("links-beta=nan", "not a finite number"),
        ("links-beta=inf", "not a finite number"),
        ("links-beta=", "not a number"),
        ("links-beta=1e999", "not a finite number"),
        ("links-beta=four", "not a number"),
        ("links-count=2.5", "not a whole number"),
        ("links-count=0", "outside 1 to 64"),
        ("links-shape=square", "none of line, on a circle"),
        ("links-on=maybe", "neither true nor false"),
        ("links-rows=" + 50 * "x", "longer than 40"),
        ("links-gone=1", "no control of this page"),
        ("color=red", "no control of this page"),
        ("preset=unknown", "no scenario of this page"),
        ("v=99", "no link version"),
        ("v=one", "no link version"),
        ("v=%C2%B2", "no link version"),  # a digit to isdigit(), not to int()
    ],
)
def test_what_is_wrong_is_said_and_costs_that_value_only(query, words):
    link = read(f"{query}&links-shape=on+a+circle" if "shape" not in query else query)
    assert len(link.notices) == 1
    assert words in link.notices[0]
    assert set(link.values) <= {"shape"}


def test_of_a_repeated_parameter_the_last_counts_and_all_are_named():
    link = read("links-count=2&links-count=3")
    assert link.values == {"count": 3}
    assert link.notices == ("`links-count` is given 2 times (`2`, `3`); the last one counts, `3`.",)
    wrong = read("links-count=2&links-count=900")
    assert wrong.values == {}
    assert "the default `5` stands" in wrong.notices[-1]
    assert read("v=1&v=1").notices[0].startswith("`v` is given 2 times")


def test_settings_of_another_page_are_named_together(monkeypatch):
    other = Number(page="other", key="beta", label="β", default=1.0, low=0.0, high=9.0, step=0.1)
    more = Number(page="other", key="n", label="n", default=1, low=0, high=9, step=1)
    monkeypatch.setattr(controls, "TABLE", (*ROWS, other, more))
    link = read("links-count=3&other-beta=2&other-n=4")
    assert link.values == {"count": 3}
    assert link.notices == (
        "2 settings belong to the page `other`, not here, and had no effect: `other-beta`, `other-n`.",
    )


def test_a_notice_cannot_carry_markup():
    notice = read("links-beta=`[x](javascript:1)%0a%3Cb%3E`").notices[0]
    inside = notice.split("`")[1]
    assert "\n" not in notice
    assert inside.startswith("links-beta=?[x]")  # stays within the code span
    assert len(read("links-beta=" + 9999 * "1").notices[0]) < 200


def test_streamlits_own_parameters_are_left_alone():
    assert read("embed=true&embed_options=dark_theme&v=1").notices == ()


def test_a_preset_is_read():
    assert read("preset=flat", presets=("flat",)).preset == "flat"


def test_old_links_keep_the_old_default(monkeypatch):
    changed = Number(
        page=PAGE, key="beta", label="β", default=9.0, low=0.1, high=100.0, step=0.1, was={1: 4.0, 3: 7.0}
    )  # fmt: skip
    monkeypatch.setattr(controls, "LINK_VERSION", 4)
    monkeypatch.setattr(controls, "TABLE", (changed,))
    assert [changed.default_of(v) for v in (1, 2, 3, 4)] == [4.0, 7.0, 7.0, 9.0]
    assert read("v=1").version == 1
    assert read("").version == 4
    assert "v=4" in write_link(PAGE, {"beta": 9.0})


def test_a_renamed_option_is_still_understood():
    row = Choice(
        page=PAGE, key="s", label="S", default="ring", options=("ring",), renamed={"circle": "ring"}
    )
    assert row.parse("circle") == "ring"


def test_log_stops_are_even_in_the_logarithm():
    stops = ROWS[0].stops()
    assert stops[0] == 0.1
    assert stops[-1] == 100.0
    assert len(stops) == 31  # ten a decade over three decades
    ratios = [b / a for a, b in pairwise(stops)]
    # Preferred numbers: 1.25 to 1.6 is the largest factor, 2.4 % above the smallest.
    assert max(ratios) / min(ratios) < 1.025


@pytest.mark.parametrize("step", [0.5, 0.1, 0.05, 0.02])
@pytest.mark.parametrize("default", [4.0, 7.3])
def test_round_numbers_and_the_default_are_stops_of_a_log_slider(step, default):
    row = Number(
        page=PAGE, key="b", label="b", default=default, low=0.1, high=1000.0, step=step, log=True
    )
    stops = row.stops()
    assert {0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, default} <= set(stops)
    assert all(float(f"{s:.3g}") == s for s in stops)
    gaps = [b / a for a, b in pairwise(stops)]
    assert max(gaps) <= 10 ** max(step, 1 / 40) * (1.03 if step < 0.5 else 1)


def test_log_stops_of_whole_numbers_are_whole_and_distinct():
    row = Number(page=PAGE, key="n", label="n", default=8, low=1, high=1000, step=1, log=True)
    assert all(isinstance(s, int) for s in row.stops())
    assert row.stops()[0] == 1
    assert row.stops()[-1] == 1000
