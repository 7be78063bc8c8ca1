"""Induction head in a real browser: typing a prompt, playing the training, the way to the landscape."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import drawn

PAGE = "induction"
VIEWS = {
    "logits": "logits", "length": "length", "positions": "positions", "memories": "memories",
    "training": "training", "energy": "energy", "attention": "attention",
}  # fmt: skip


def sentence(page):
    return page.locator(".lab-look")


def chart(page, key):
    return page.locator(f"[class*='st-key-{PAGE}-{key}'] .lab-chart")


def test_a_typed_prompt_is_answered(visitor, lab):
    page = visitor.open(f"{lab}/{PAGE}")
    expect(sentence(page)).to_contain_text("u comes out first")
    field = page.locator(f".st-key-{PAGE}-prompt textarea")
    field.fill("a q b z q")
    field.press("Control+Enter")
    expect(sentence(page)).to_contain_text("b comes out first")
    drawn(page)
    expect(page).to_have_url(re.compile(r"induction-prompt=a\+q\+b\+z\+q"))


@pytest.mark.parametrize("look", [{}, {"dark": True}, {"width": 390, "height": 844}],
                         ids=["light", "dark", "phone"])  # fmt: skip
def test_each_view_draws_and_fits(visitor, lab, pictures, look, request):
    page = visitor.open(f"{lab}/{PAGE}?{PAGE}-vectors=random", **look)
    for view, key in VIEWS.items():
        page.get_by_role("radio", name=view, exact=True).click()
        expect(chart(page, key)).to_have_attribute("data-state", "drawn")
        drawn(page)
        main = "document.querySelector('[data-testid=stMain]')"
        assert page.evaluate(f"{main}.scrollWidth <= {main}.clientWidth"), (
            f"{view} scrolls sideways"
        )
        page.screenshot(
            path=pictures / f"{PAGE}-{view}-{request.node.callspec.id}.png", full_page=False
        )


def test_a_slider_that_went_comes_back_with_its_value(visitor, lab):
    page = visitor.open(f"{lab}/{PAGE}")
    said = sentence(page).inner_text()
    for view in ("training", "attention"):
        page.get_by_role("radio", name=view, exact=True).click()
        drawn(page)
    slider = page.locator(f".st-key-{PAGE}-beta1-slider").get_by_role("slider")
    expect(slider).to_have_value("60")
    page.get_by_role("radio", name="logits", exact=True).click()
    expect(chart(page, "logits")).to_have_attribute("data-state", "drawn")
    page.get_by_role("radio", name="attention", exact=True).click()
    expect(page.locator(f".st-key-{PAGE}-beta1 input")).to_have_value("60")
    expect(sentence(page)).to_have_text(said)


def test_the_training_plays_in_both_pictures(visitor, lab):
    page = visitor.open(f"{lab}/{PAGE}?preset=birth")
    first, second = chart(page, "training"), chart(page, "trained-attention")
    first.get_by_role("button", name="Back to the start").click()
    for one in (first, second):
        expect(one.locator("output")).to_contain_text("step 0:")
    first.get_by_role("button", name="One step on").click()
    for one in (first, second):
        expect(one.locator("output")).to_contain_text("step 50:")


def test_the_keys_open_on_the_landscape_page(visitor, lab):
    page = visitor.open(f"{lab}/{PAGE}?{PAGE}-view=energy")
    link = page.get_by_role("link", name="These keys on the landscape page")
    address = link.get_attribute("href")
    there = visitor.open(f"{lab}/{address.lstrip('/')}")
    expect(there.get_by_role("heading", level=1)).to_have_text("Landscape")
    expect(there.get_by_test_id("stAlert")).to_have_count(0)
    expect(sentence(there)).to_contain_text("memory 0")
