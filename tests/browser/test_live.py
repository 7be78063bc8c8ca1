"""Dragging: the browser's engine against Python's, and a drag on the page from press to link."""

import base64
import re
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import expect

from benchmarks.browser import ROOT
from core.hopfield import ENERGIES
from core.landscape import LandscapeSettings, landscape
from tests.browser.test_landscape import AT, chart, settled

# The module as a page would import it, without a server.
RUN = """async ([module, scene, xs, ys]) => {
  const { sides } = await import(module);
  for (const k of ["memories", "full", "examples", "origin", "basis"])
    scene[k] = Float64Array.from(scene[k]);
  scene.plane = scene;
  const { before, after } = sides(scene);
  const finer = (v) => Array.from({ length: 5 * v.length - 4 }, (_, i) => v[0] + i * (v[1] - v[0]) / 5);
  return [before, after].map((s) => ({
    energy: s.grid(xs, ys).z.map((row) => [...row]), path: s.path(...scene.query), memories: [...s.memories],
    basins: scene.basis.length === 4
      ? s.basins(xs, ys, s.grid(finer(xs), finer(ys), true)).map((r) => [...r]) : [],
  }));
}"""
BASE = LandscapeSettings(dimension=2, memories=7, examples=3, grid=21, starts=21, noise=0.5)
CASES = {
    "fits": BASE,
    "one example, rank 1": replace(BASE, examples=1, layout="circle"),
    "more examples than the rank": replace(BASE, examples=11, shift=1.4, strength=0.6),
    "ridge": replace(BASE, ridge=0.7, strength=0.8),
    "rank tolerance": replace(BASE, examples=2, tolerance=0.95),
    "the query is an example": replace(BASE, query_as_example=True, query_at=(0.4, -0.9)),
    "moved": replace(BASE, moved=(("memory", 1, 0.3, -2.1), ("example", 2, -0.4, 0.1))),
    "sharp": replace(BASE, beta=300.0),
    "flat": replace(BASE, beta=0.2),
    "20 dimensions": replace(BASE, dimension=20, query_at=(0.3, 0.2), strength=0.7),
    "principal plane": replace(BASE, dimension=9, plane="pca", query_at=(0.1, 0.4)),
}  # fmt: skip


def scene(s, r):
    """What the page sends, written down anew."""
    flat = s.dimension == 2
    return {
        "memories": r.before.memories.ravel().tolist(), "M": s.memories,
        "full": (r.before.memories @ r.reshaping.W1.numpy().T).ravel().tolist(),
        "examples": r.own_examples.ravel().tolist(), "pairs": [j % s.memories for j in range(s.examples)],
        "query": r.query_point.tolist(), "placed": s.query_at is not None, "lemma": s.query_as_example,
        "family": s.energy, "beta": s.beta, "strength": s.strength, "ridge": s.ridge,
        "tolerance": max(s.examples, 2) * 2.3e-16 if s.tolerance is None else s.tolerance,
        "origin": r.plane.origin.tolist(), "basis": r.plane.basis.numpy().ravel().tolist(),
    } | ({} if flat else {"examples": []})  # fmt: skip


@pytest.fixture(scope="module")
def engine(browser):
    """Runs `energy.js` on a scene."""
    text = (ROOT / "pages/ui/chart_view/energy.js").read_bytes()
    module = "data:text/javascript;base64," + base64.b64encode(text).decode()
    page = browser.new_page()
    yield lambda s, r: page.evaluate(RUN, [module, scene(s, r), r.xs.tolist(), r.ys.tolist()])
    page.close()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("energy", ENERGIES)
def test_the_browsers_engine_is_pythons(engine, energy, case):
    s = replace(CASES[case], energy=energy)
    r = landscape(s)
    for got, side in zip(engine(s, r), (r.before, r.after), strict=True):
        scale = side.largest_norm**2 + float(np.abs(side.energy).max())
        np.testing.assert_allclose(np.reshape(got["memories"], side.memories.shape), side.memories,
                                   atol=1e-9 * max(side.largest_norm, 1))  # fmt: skip
        np.testing.assert_allclose(got["energy"], side.energy, atol=1e-5 * scale)
        # Near a ridge a rounding decides; both must have the same ends then, which basins show.
        assert len(got["path"]) == pytest.approx(len(side.path), abs=1)
        np.testing.assert_allclose(got["path"][-1], side.path[-1], atol=1e-6 * side.largest_norm)
        if got["basins"]:
            ends = [
                int(o.split()[-1]) if o.startswith("retrieved") else -1
                for o in side.stationary.outcome
            ]
            python = np.array([*ends, -2])[side.basins]
            assert (python != got["basins"])[python > -2].mean() < 0.02


# Share of the bytes of the canvas that differ by more than 10 from those of the last call.
CHANGED = """() => {
  const node = document.querySelector("[class*='st-key-landscape-before-after'] .lab-chart-canvas");
  const { data } = node.getContext("2d").getImageData(0, 0, node.width, node.height);
  const last = window.lastCanvas ?? data;
  window.lastCanvas = data;
  return data.filter((v, i) => Math.abs(v - last[i]) > 10).length / data.length;
}"""


def test_a_drag_is_followed_in_the_browser_and_ends_in_the_link(visitor, lab):
    page = visitor.open(f"{lab}/landscape", width=1280, height=900)
    settled(page)
    picture, moved = chart(page, "before-after"), page.locator(".st-key-landscape-moved textarea")
    plot = picture.locator(".lab-chart-plot")

    def point(x, y):
        box, at = plot.bounding_box(), page.evaluate(AT, [x, y, ""])
        return box["x"] + at["x"], box["y"] + at["y"]

    # A memory, from the place its layout gives it: the picture changes before Python knows.
    revision = picture.get_attribute("data-revision")
    page.evaluate(CHANGED)
    page.mouse.move(*point(0.5, 3**0.5 / 2))
    expect(picture).to_have_attribute("data-grab", "open")
    page.mouse.down()
    page.mouse.move(*point(0.2, 0.9), steps=4)
    expect(picture).to_have_attribute("data-live", "true")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate(CHANGED) > 0.2  # with the last move on it
    assert picture.get_attribute("data-revision") == revision
    page.mouse.up()
    expect(moved).to_have_value(re.compile(r"^memory 1: 0\.(19|2)\d*, 0\.(89|9)\d*$"))
    expect(picture).not_to_have_attribute("data-revision", revision)
    settled(page)
    expect(picture).to_have_attribute("data-live", "")
    # The browser's energies were Python's: the picture is the same but for the marks, now plotly's.
    assert page.evaluate(CHANGED) < 0.06
    expect(page).to_have_url(re.compile("landscape-moved=memory"))

    # The query with the keyboard: Tab to it, three steps to the right, Enter.
    handle = picture.locator(".lab-chart-handle")
    handle.focus()
    expect(handle).to_have_attribute("aria-label", re.compile("^the query at"))
    for _ in range(3):
        handle.press("ArrowRight")
    handle.press("Enter")
    expect(page).to_have_url(re.compile("landscape-query=placed"))
    settled(page)

    # β, while its thumb is held.
    revision = picture.get_attribute("data-revision")
    thumb = page.get_by_role("slider", name="β inverse").locator(
        "xpath=ancestor::div[@data-rac][1]"
    )
    box = thumb.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 40, y, steps=4)
    expect(picture).to_have_attribute("data-live", "true")
    assert picture.get_attribute("data-revision") == revision
    page.mouse.up()
    expect(picture).to_have_attribute("data-live", "")
    expect(picture).not_to_have_attribute("data-revision", revision)

    expect(page).to_have_url(re.compile("landscape-beta=(?!20)"))
    said = page.locator(".lab-look").inner_text()
    other = visitor.open(page.url)
    expect(other.locator(".lab-look")).to_have_text(said)
