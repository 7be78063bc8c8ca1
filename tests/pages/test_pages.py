"""Every page of the catalog, found by itself: it opens, one control moves, a number follows."""

import base64
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from streamlit.testing.v1 import AppTest

from pages import catalog, home
from pages.ui import controls, share

ROOT = Path(__file__).parents[2]
PAGES = [e for e in catalog.PAGES if controls.rows(e.name)]


def opened(name, **query):
    # AppTest runs the function's source on its own, so the name travels in the source.
    at = AppTest.from_string(
        f"import importlib\nimportlib.import_module('pages.{name}').render()", default_timeout=240
    )
    for key, value in query.items():
        at.query_params[f"{name}-{key}"] = value
    at.run()
    assert not at.exception, at.exception
    return at


def words(at):
    return "\n".join(m.value for m in (*at.markdown, *at.get("html")) if "lab-" in str(m.value))


@pytest.fixture
def exported(monkeypatch):
    """What a page last handed to its Export menu: `snippet` and the sentences `said`."""
    seen = {}

    def exports(shown, pinned=None):
        seen.update(snippet=shown.snippet, said=list(shown.said))

    monkeypatch.setattr(share, "exports", exports)
    return seen


def test_home_shows_the_map():
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=240).run()
    assert not at.exception
    text = "\n".join(str(h.value) for h in at.get("html"))
    assert "Reshape Lab" in text
    for entry in catalog.PAGES[1:]:
        assert entry.blurb in text


def test_the_poster_of_home_shows_the_energies_that_plotly_draws():
    grid, memories = np.linspace(-1, 1, 41), np.array([[0.5, 0.0], [-0.5, 0.25]])
    energy, _ = home.landscape(6.0, np.array([0.1, 0.1]), memories, grid)
    file = base64.b64decode(re.search(r"base64,([^\"]+)", home.poster(energy))[1])
    grey = np.asarray(Image.open(io.BytesIO(file)).convert("L")).astype(float)
    assert grey.shape == energy.shape
    order = energy[::-1].argsort(axis=None)  # the first row of an image is its top
    assert (np.diff(grey.ravel()[order]) >= -1.5).all()  # lightness rises with energy


@pytest.mark.parametrize("entry", PAGES, ids=lambda e: e.name)
def test_a_page_opens_and_answers_a_control(entry):
    at = opened(entry.name)
    assert any(f">{entry.title}</h1>" in str(h.value) for h in at.get("html"))
    before = words(at)
    assert re.search(r"\*\*-?\d", before), "no live number in what to look for"
    assert not at.warning
    drawn = {w.key for w in at.number_input}
    row = next(
        r for r in controls.rows(entry.name)
        if isinstance(r, controls.Number) and r.slider and r.name in drawn
    )  # fmt: skip
    value = row.low if row.default != row.low else row.high
    at.number_input(key=row.name).set_value(value).run()
    assert not at.exception
    assert at.session_state[row.name] == value
    assert words(at) != before or at.warning, f"moving {row.name} changed no number"


@pytest.mark.parametrize("entry", PAGES, ids=lambda e: e.name)
def test_the_snippet_prints_numbers_of_the_page(entry, exported):
    """The exported program, run on its own, agrees with the page to every digit the page shows."""
    opened(entry.name)
    code = exported["snippet"]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = [float(x) for x in re.findall(r"-?\d+\.\d+(?:e[+-]?\d+)?", done.stdout)]
    shown = re.findall(r"\*\*(-?\d+\.\d+)\*\*", "\n".join(exported["said"]))
    assert shown, "no live number in what to look for"

    def agree(text):
        unit = 10.0 ** -len(text.split(".")[1])
        return any(abs(float(text) - p) <= 0.51 * unit for p in printed)

    assert [text for text in shown if agree(text)] == shown, (shown, done.stdout)
