"""Points moved by hand: text in, points out, and what the page does with them."""

import numpy as np
import pytest

from pages import landscape as page
from pages.ui import controls, moved, panel


def test_the_text_is_read_as_it_was_written():
    points = (("example", 2, -0.25, 1e-6), ("memory", 0, 0.5, -0.2), ("memory", 11, 3.0, 4.0))
    assert moved.parse(moved.text(points)) == points
    assert moved.parse(" Memory 0: .5, -2e-1 ;\n\nmemory 0: 1, 2") == (("memory", 0, 1.0, 2.0),)
    assert moved.parse("") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory: 1, 2", "expected lines such as"),
        ("query 0: 1, 2", "'query 0: 1, 2'"),
        ("memory 0: nan, 2", "expected lines such as"),
        ("memory 0: 1e9, 2", "size at most 1e6"),
        ("\n".join(f"memory {i}: 0, 0" for i in range(65)), "at most 64"),
    ],
)
def test_what_cannot_be_read_is_said(text, words):
    with pytest.raises(ValueError, match="Moved points") as refused:
        moved.parse(text)
    assert words in str(refused.value)


def test_most_points_fit_the_field():
    (row,) = (r for r in controls.rows("landscape") if r.key == "moved")
    longest = [("example", i, -0.0001234567, -123456.0) for i in range(moved.MOST)]
    assert len(moved.text(longest)) <= row.longest


@pytest.mark.parametrize(
    "told",
    [
        {}, {"kind": "memory", "index": 0, "x": None, "y": 1.0}, {"kind": "path", "index": 0, "x": 1, "y": 1},
        {"kind": "memory", "index": "0", "x": 1.0, "y": 1.0}, {"kind": "example", "index": -1, "x": 1, "y": 1},
    ],
)  # fmt: skip
def test_what_no_drag_says_moves_nothing(monkeypatch, told):
    monkeypatch.setattr(panel, "set_values", lambda *a: pytest.fail("it moved a control"))
    monkeypatch.setattr(panel, "values", lambda p: {"moved": ""})
    page.dragged(told)


def test_a_second_drag_of_a_point_replaces_the_first(monkeypatch):
    held = {"moved": "memory 3: 0.1, 0.2\nexample 0: 1, 1"}
    monkeypatch.setattr(panel, "values", lambda p: held)
    monkeypatch.setattr(panel, "set_values", lambda p, v: held.update(v))
    page.dragged({"kind": "memory", "index": 3, "x": 0.123456789, "y": -1})
    assert moved.parse(held["moved"]) == (("example", 0, 1.0, 1.0), ("memory", 3, 0.12346, -1.0))
    held["moved"] = "nobody can read this"
    page.dragged({"kind": "example", "index": 1, "x": 0.5, "y": 0.5})
    assert held["moved"] == "example 1: 0.5, 0.5"


def test_settings_and_link_carry_them():
    s = page.Settings(
        **controls.defaults("landscape") | {"moved": "memory 0: 0.5, 0.5", "basins": True}
    )
    keywords = page.engine(s)
    assert keywords["moved"] == (("memory", 0, 0.5, 0.5),)
    assert keywords["starts"] == page.BASINS
    r = page.compute(s)
    np.testing.assert_array_equal(r.before.memories[0], [0.5, 0.5])
    assert "moved=(('memory', 0, 0.5, 0.5),)" in page.snippet(s)
    assert "1 point was moved by hand" in page.notes(s, r)


def drawn(**changes):
    s = page.Settings(**controls.defaults("landscape") | changes)
    return s, page.compute(s)


def test_the_browser_gets_both_landscapes_whole():
    s, r = drawn(layout="random", memories=5, dimension=9, strength=0.25, moved="memory 0: 1, 1")
    live = page.live(s, r)
    assert not live.whole
    memories = live.scene["memories"].reshape(5, 9)
    full = live.scene["full"].reshape(5, 9)
    np.testing.assert_allclose(memories + 0.25 * (full - memories), r.after.memories, atol=1e-12)
    said = page.notes(s, r)
    assert "only the query can be dragged" in said
    assert "do nothing in more than 2 dimensions" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lemma": True, "dimension": 5}, "the query is an example"),
        (
            {"layout": "your table", "table": "\n".join(f"{i}, 1" for i in range(97))},
            "more than 96 memories",
        ),
    ],
)
def test_where_nothing_can_be_dragged_the_page_says_why(changes, words):
    s, r = drawn(**changes)
    assert page.live(s, r) is None
    assert words in page.notes(s, r)
