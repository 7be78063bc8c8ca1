"""Nothing lies about unregistered: pages, controls, scenarios."""

import dataclasses
import importlib
from pathlib import Path

import pytest

from pages import catalog
from pages.ui import controls

ROOT = Path(__file__).parents[1]
NAMES = [e.name for e in catalog.PAGES]
WITH_CONTROLS = [n for n in NAMES if controls.rows(n)]

COMMANDS = {"report"}
"""Files beside the pages that are run by `python -m pages.NAME`."""


def module(name):
    return importlib.import_module(f"pages.{name}")


def test_every_page_file_is_catalogued_and_every_row_has_its_file():
    files = {p.stem for p in (ROOT / "pages").glob("*.py")} - {"__init__", "catalog", "tours"}
    assert files - COMMANDS == set(NAMES)
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_can_be_run_and_is_no_page(name):
    assert callable(module(name).main)
    assert not hasattr(module(name), "render")
    assert '__name__ == "__main__"' in (ROOT / "pages" / f"{name}.py").read_text()


@pytest.mark.parametrize("entry", catalog.PAGES, ids=lambda e: e.name)
def test_a_row_says_what_the_map_needs(entry):
    assert callable(module(entry.name).render)
    assert entry.title
    assert entry.blurb.endswith(".")
    assert entry.icon.startswith(":material/"), "emoji icons are fetched from a network"


def test_every_control_belongs_to_a_page_and_has_its_own_name():
    assert {row.page for row in controls.TABLE} <= set(NAMES)
    names = [row.name for row in controls.TABLE]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", WITH_CONTROLS)
def test_settings_are_the_controls(name):
    fields = [f.name for f in dataclasses.fields(module(name).Settings)]
    assert sorted(fields) == sorted(row.key for row in controls.rows(name))
    assert module(name).Settings.__dataclass_params__.frozen


@pytest.mark.parametrize("row", controls.TABLE, ids=lambda r: r.name)
def test_a_row_is_sound(row):
    default = row.default_of(controls.LINK_VERSION)
    assert row.check(default) == default
    assert row.parse(row.text(default)) == default
    assert row.label
    if row.when is not None:
        gate = next(r for r in controls.rows(row.page) if r.key == row.when[0])
        if not getattr(gate, "more", None):  # else an option may be one that is not here now
            assert all(gate.check(value) == value for value in row.when[1])
    for version, default in row.was.items():
        assert 1 <= version < controls.LINK_VERSION
        assert row.check(default) == default
    if isinstance(row, controls.Number) and row.log:
        stops = row.stops()
        assert stops[0] == row.low
        assert stops[-1] == row.high
        assert stops == sorted(set(stops))


@pytest.mark.parametrize("name", WITH_CONTROLS)
def test_scenarios_are_sound(name):
    scenarios = module(name).SCENARIOS
    assert 3 <= len(scenarios) <= 6, "a page has three to six scenarios"
    assert len({s.name for s in scenarios}) == len({s.label for s in scenarios}) == len(scenarios)
    known = {row.key: row for row in controls.rows(name)}
    for s in scenarios:
        assert s.claim.rstrip().endswith((".", "?")), s.name
        for text in (s.look, s.refuted):  # a line each, below the buttons
            assert 10 < len(text) <= 110, s.name
            assert text.endswith("."), s.name
        for key, value in s.values.items():
            assert known[key].check(value) == value, (s.name, key)


@pytest.mark.parametrize("name", WITH_CONTROLS)
def test_every_scenario_has_a_test_of_its_claim(name):
    """`@pytest.mark.claim` says which test finds the claimed relation in the scenario's numbers."""
    tests = importlib.import_module(f"tests.pages.test_{name}")
    marks = [
        mark
        for key, test in vars(tests).items()
        if key.startswith("test_")
        for mark in getattr(test, "pytestmark", [])
        if mark.name == "claim"
    ]
    named = [scenario for mark in marks for scenario in mark.args]
    assert len(named) == len(set(named)), "one test a claim"
    assert {s.name for s in module(name).SCENARIOS} <= set(named)
    stories = {row[0] for row in getattr(module(name), "STORIES", ())}  # some may not be here
    assert set(named) <= {s.name for s in module(name).SCENARIOS} | stories


@pytest.mark.parametrize("name", WITH_CONTROLS)
def test_a_link_states_every_control_and_reads_back(name):
    settings = controls.defaults(name) | dict(module(name).SCENARIOS[0].values)
    from urllib.parse import parse_qs

    query = parse_qs(controls.write_link(name, settings), keep_blank_values=True)
    link = controls.read_link(name, query)
    assert link.notices == ()
    assert link.values == settings
