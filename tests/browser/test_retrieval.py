"""Retrieval error in a real browser: the click on the phase map, links, the views."""

import re
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import drawn

PAGE = "retrieval"
# Pixels of a point of the phase map, from the upper left corner of its picture.
AT = """([beta, noise]) => {
  const plot = document.querySelector("[class*='st-key-retrieval-phases'] .js-plotly-plot");
  const { xaxis, yaxis } = plot._fullLayout;
  return { x: xaxis._offset + xaxis.d2p(beta), y: yaxis._offset + yaxis.d2p(noise) };
}"""


def field(page, key):
    return page.locator(f".st-key-{PAGE}-{key} input")


def sentence(page):
    return page.locator(".lab-look")


def chart(page, key):
    return page.locator(f"[class*='st-key-{PAGE}-{key}'] .lab-chart")


def test_a_click_on_the_phase_map_sets_beta_and_noise(visitor, lab):
    page = visitor.open(f"{lab}/{PAGE}?preset=phases")
    expect(sentence(page)).to_contain_text("At β = 60 and noise 0.8")
    expect(chart(page, "phases").locator(".js-plotly-plot")).to_be_visible()
    drawn(page)
    # Between two cells: the click goes to the nearer one.
    chart(page, "phases").locator(".lab-chart-plot").click(position=page.evaluate(AT, [3.1, 1.33]))
    expect(field(page, "beta")).to_have_value("3.02")
    expect(field(page, "noise")).to_have_value("1.3")
    expect(sentence(page)).to_contain_text("At β = 3.02 and noise 1.3, 200 draws end as")
    expect(sentence(page)).to_contain_text(re.compile(r"\d+\u202f% mixture"))
    drawn(page)
    expect(page).to_have_url(re.compile(r"retrieval-beta=3\.02.*retrieval-noise=1\.3"))

    said = sentence(page).inner_text()
    again = visitor.open(page.url)
    expect(sentence(again)).to_have_text(said)


def test_each_view_is_one_click_away_and_draws(visitor, lab, pictures):
    page = visitor.open(f"{lab}/{PAGE}")
    expect(chart(page, "error-beta")).to_have_attribute("data-state", "drawn")
    expect(sentence(page)).to_contain_text(re.compile(r"Errors above a bound.*: 0 of 4\u2009200"))
    for view, key, words, refuted in (
        ("phase map", "phases", "Click a cell", "A phase that theory forbids"),
        ("reshaping", "margin-gain", "Δ falls in", "CAMR Lemma 2.2, as reconstructed"),
        ("error and bounds", "error-beta", "the median error is", "One error above a bound"),
    ):
        page.get_by_role("radio", name=view).click()
        expect(sentence(page)).to_contain_text(words)
        expect(chart(page, key)).to_have_attribute("data-state", "drawn")
        expect(page.get_by_test_id("stExpander").get_by_text(refuted)).to_be_attached()
        drawn(page)
        page.screenshot(path=pictures / f"{PAGE}-{view.replace(' ', '-')}.png")


@pytest.mark.parametrize("preset", ["bounds", "phases", "lemma"])
def test_the_main_picture_stands_on_the_first_screen(visitor, lab, preset):
    page = visitor.open(f"{lab}/{PAGE}?preset={preset}", width=1280, height=800)
    for box in (c.bounding_box() for c in page.locator(".lab-chart").all()[:1]):
        assert box["y"] + box["height"] <= 800


def test_a_phone_sees_all_three_views_without_scrolling_sideways(visitor, lab):
    page = visitor.open(f"{lab}/{PAGE}?preset=lemma", width=390, height=844)
    boxes = [c.bounding_box() for c in page.locator(".lab-chart").all()]
    assert len(boxes) == 4
    assert all(b["x"] >= 0 and b["x"] + b["width"] <= 390 for b in boxes)
    # Under one another, not side by side.
    assert all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(boxes))
