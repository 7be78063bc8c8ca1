"""Tours: every step can be set and shows what it speaks of; walking, links, leaving."""

from itertools import pairwise

import pytest

from pages import catalog, tours
from pages.ui import controls, tour
from tests.pages.visits import fresh, visit

WITH_CONTROLS = [e.name for e in catalog.PAGES if controls.rows(e.name)]
STEPS = [
    pytest.param(name, tour.page_of(name, step), step, id=f"{name}-{number}")
    for name, steps in tours.TOURS.items()
    for number, step in enumerate(steps, 1)
]


def test_the_lab_and_every_page_with_controls_have_a_tour():
    assert set(tours.TOURS) == {tours.LAB, *WITH_CONTROLS}
    assert 5 <= len(tours.of(tours.LAB)) <= 9
    for name in WITH_CONTROLS:
        assert 3 <= len(tours.of(name)) <= 9, name
        assert catalog.page(name).tour == tours.of(name)


def test_the_tour_of_the_lab_crosses_pages_and_begins_with_the_paper():
    pages = [step.page for step in tours.of(tours.LAB)]
    assert pages[0] == "landscape"
    assert len(set(pages)) >= 3
    assert sum(a != b for a, b in pairwise(pages)) == len(set(pages)) - 1


@pytest.mark.parametrize(("name", "page", "step"), STEPS)
def test_a_step_can_be_set_and_what_it_speaks_of_is_drawn(name, page, step):
    known = {row.key: row for row in controls.rows(page)}
    for key, value in step.values.items():
        assert known[key].check(value) == value
    assert 20 < len(step.say) <= 260
    assert step.say.rstrip("*").endswith(".")
    assert bool(step.page) == (name == tours.LAB)
    if step.at in tour.PARTS:
        return
    settings, row = step.settings(page), known[step.at]
    while row.when is not None:
        assert settings[row.when[0]] in row.when[1], f"{row.key} is not drawn at this step"
        row = known[row.when[0]]


def shown(at, page):
    """The settings as the session has them."""
    state = at.session_state
    return {r.key: state[r.name] for r in controls.rows(page) if r.name in state}


def bar(at):
    """What the bar says; "" without a tour."""
    return next((str(h.value) for h in at.get("html") if "lab-tour-say" in str(h.value)), "")


def press(at, key):
    at.button(key=key).click().run()
    assert not at.exception, at.exception


def test_a_tour_is_walked_on_and_back_and_lets_go():
    at = visit("landscape", {"beta": 7.5})
    assert bar(at) == ""
    press(at, "landscape~tour")
    steps = tours.of("landscape")
    for number, step in enumerate(steps, 1):
        assert f"{number} of {len(steps)}" in bar(at)
        assert shown(at, "landscape") == step.settings("landscape")
        assert not at.warning
        assert f"tour={number}" in link(at)
        if number < len(steps):
            press(at, "lab-tour-next")
    press(at, "lab-tour-back")
    assert f"{len(steps) - 1} of" in bar(at)
    at.number_input(key="landscape-beta").set_value(3.0).run()
    assert f"{len(steps) - 1} of" in bar(at)
    press(at, "lab-tour-leave")
    assert bar(at) == ""
    assert shown(at, "landscape") == steps[-2].settings("landscape") | {"beta": 3.0}
    assert "tour=" not in link(at)


def link(at):
    return next(str(h.value) for h in at.get("html") if "lab-link" in str(h.value))


def test_a_link_opens_at_a_step_and_its_own_settings_count_first():
    at = fresh("landscape")
    at.query_params["tour"] = "lab-4"
    at.query_params["landscape-beta"] = "5.0"
    at.run()
    assert "Tour of the lab · 4 of" in bar(at)
    wanted = tours.of(tours.LAB)[3].settings("landscape") | {"beta": 5.0}
    assert shown(at, "landscape") == wanted
    assert "tour=lab-4" in link(at)
    assert not at.warning


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("99", "no step of this page's tour: it has steps 1 to"),
        ("0", "no step"),
        ("-1", "no step"),
        ("²", "no step"),
        ("lab-", "no step of the lab's tour"),
        ("lab-99", "no step of the lab's tour"),
        ("", "no step"),
        ("3;`x`", "no step"),
        ("lab-5", "stands on the page Retrieval error"),
    ],
)
def test_a_step_that_is_none_is_said(text, words):
    at, (said,) = tour.read("landscape", {"tour": [text]})
    assert at is None
    assert words in said


def test_every_step_is_read_back():
    for name, steps in tours.TOURS.items():
        for number, step in enumerate(steps, 1):
            text = f"lab-{number}" if name == tours.LAB else str(number)
            found, said = tour.read(tour.page_of(name, step), {"tour": [text]})
            assert found == (name, number)
            assert said == ()


def test_a_checkpoint_that_is_not_here_costs_a_notice(monkeypatch):
    step = tours.Step("name", "Look.", {"name": "gone", "prompts": 32})
    monkeypatch.setitem(tours.TOURS, "checkpoints", (step,))
    settings, (said,) = tour.settable("checkpoints", step)
    assert settings == controls.defaults("checkpoints") | {"prompts": 32}
    assert "sets Checkpoint to gone, which is none of" in said
