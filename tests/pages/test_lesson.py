"""A teacher's link: what it says comes back, what is wrong is said, and nothing in it is markup."""

from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.ui import controls, lesson, panel, teach
from pages.ui.lesson import LONGEST, Lesson
from tests.pages.visits import fresh, visit, widget

KEYS = [row.key for row in controls.rows("landscape")]


def read(query):
    return lesson.read("landscape", parse_qs(query, keep_blank_values=True))


@st.composite
def lessons(draw):
    states = draw(st.lists(st.sampled_from(teach.STATES), min_size=len(KEYS), max_size=len(KEYS)))
    chosen = {
        s: tuple(k for k, x in zip(KEYS, states, strict=True) if x == s) for s in teach.STATES
    }
    words = {name: lesson.clean(draw(st.text(max_size=most))) for name, most in LONGEST.items()}
    return Lesson(**words, locked=chosen["locked"], hidden=chosen["hidden"])


@given(lessons())
def test_a_lesson_comes_back_from_its_link_beside_the_settings(asked):
    settings = controls.defaults("landscape")
    query = controls.write_link("landscape", settings, more=asked.stated())
    found, said = read(query)
    assert found == asked
    assert said == ()
    link = controls.read_link("landscape", parse_qs(query, keep_blank_values=True))
    assert link.values == settings
    assert link.notices == ()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("title=" + 81 * "x", "`title` is longer than 80 characters (81)"),
        ("question=" + 401 * "x", "`question` is longer than 400 characters (401)"),
        ("lock=beta,colour", "asks to lock `colour`: this page has no such control"),
        ("hide=landscape-beta", "asks to hide `landscape-beta`"),
        ("hide=a,b,c,d,e,f", "`a`, `b`, `c`, `d`, …: this page"),
        ("lock=" + 30 * "x", "`" + 19 * "x" + "…`"),
    ],
)
def test_what_is_wrong_is_said_and_costs_that_value_only(query, words):
    found, (said,) = read(f"{query}&{'hide' if query.startswith('lock') else 'lock'}=seed")
    assert words in said
    assert "seed" in (*found.locked, *found.hidden)
    assert found.title == found.question == ""


def test_words_are_one_line_of_what_can_be_seen():
    found, _ = read("title=a%00b%E2%80%AEc%0A%0Ad&lock=beta,beta,,seed&hide=seed")
    assert found.title == "a b c d"  # no zero byte, no turned direction, no line break
    assert found.locked == ("beta",)  # what is hidden need not be locked
    assert found.hidden == ("seed",)


def test_a_lesson_on_a_page():
    """Title and question as text, locked and hidden controls, and the way back to all of them."""
    at = fresh("landscape")
    at.query_params["title"] = "<img src=x onerror=alert(1)> **a** $x^2$"
    at.query_params["question"] = "Which <b>well</b>?"
    at.query_params["lock"] = "beta,view,query,nope"
    at.query_params["hide"] = "seed,layout"
    at.query_params["landscape-beta"] = "9"
    at.run()
    assert not at.exception
    words = [str(h.value) for h in at.get("html") if "lab-lesson" in str(h.value)]
    assert len(words) == 1
    assert "&lt;img src=x onerror=alert(1)&gt; **a** $x^2$" in words[0]
    assert "Which &lt;b&gt;well&lt;/b&gt;?" in words[0]
    assert not any("onerror" in str(m.value) for m in (*at.markdown, *at.caption, *at.warning))
    assert "`nope`" in at.warning[0].value
    beta = widget(at, "landscape-beta")
    assert (beta.value, beta.disabled) == (9, True)
    assert at.select_slider(key="landscape-beta~slider").disabled
    assert widget(at, "landscape-view").disabled
    assert not widget(at, "landscape-examples").disabled
    drawn = [w.key for kind in (at.number_input, at.selectbox) for w in kind]
    assert "landscape-seed" not in drawn
    assert "landscape-layout" not in drawn
    assert "landscape-memories" in drawn  # its gate is hidden, not closed
    presets = [b.key for b in at.button if b.key and "~preset-" in b.key]
    assert presets == []  # a scenario would move what is locked
    link = next(str(h.value) for h in at.get("html") if "lab-link" in str(h.value))
    assert "lock=view%2Cbeta%2Cquery" in link
    assert "nope" not in link

    at.button(key="landscape~show-all").click().run()
    assert not at.exception
    assert not widget(at, "landscape-beta").disabled
    assert widget(at, "landscape-beta").value == 9
    assert widget(at, "landscape-seed").value == 0
    assert [b.key for b in at.button if b.key and "~preset-" in b.key]
    assert any("Which &lt;b&gt;well" in str(h.value) for h in at.get("html"))


def test_a_click_on_a_picture_moves_what_is_not_locked(monkeypatch):
    state = {"query": "a noisy memory", "x": 0.0}
    monkeypatch.setattr(panel, "values", lambda page: dict(state))
    monkeypatch.setattr(panel, "set_values", lambda page, values: state.update(values))
    monkeypatch.setattr(lesson, "of", lambda page: Lesson(locked=("query",)))
    panel.keep_locked("landscape", lambda: state.update(query="placed", x=0.5))
    assert state == {"query": "a noisy memory", "x": 0.5}


def test_the_builder_states_what_a_page_opens_with():
    from pages import landscape, tours

    starts = teach._starts("landscape", landscape.SCENARIOS)
    assert len(starts) == 1 + len(landscape.SCENARIOS) + len(tours.of("landscape"))
    asked = Lesson(title="T", hidden=("seed",))
    sharp = next(s for s in landscape.SCENARIOS if s.name == "sharp")
    for start, wanted, step in ((sharp, sharp, None), (5, tours.of("landscape")[4], "5")):
        query = parse_qs(teach._query("landscape", start, asked), keep_blank_values=True)
        link = controls.read_link("landscape", query)
        assert link.values == wanted.settings("landscape")
        assert query.get("tour", [None])[-1] == step
        assert lesson.read("landscape", query) == (asked, ())


def test_without_a_lesson_nothing_of_it_is_drawn():
    at = visit("landscape", {})
    assert not any("lab-lesson" in str(h.value) for h in at.get("html"))
    assert not any(b.key == "landscape~show-all" for b in at.button)
