"""The text page in a real browser: first picture, a scenario, one prompt, a folder refused."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import drawn

FEW = "text-queries=16&text-examples=2"


def sentence(page):
    return page.locator(".lab-look")


def chart(page, key):
    return page.locator(f"[class*='st-key-text-{key}'] .lab-chart")


def test_the_small_model_answers_and_a_prompt_is_opened(visitor, lab, pictures):
    page = visitor.open(f"{lab}/text?v=1&{FEW}")
    expect(sentence(page)).to_contain_text(re.compile(r"Accuracy goes from 0\.\d{4} without"))
    expect(chart(page, "accuracy")).to_have_attribute("data-state", "drawn")
    drawn(page)
    page.get_by_role("radio", name="one prompt").click()
    expect(page.locator(".lab-prompt")).to_contain_text("->")
    expect(sentence(page)).to_contain_text("The right answer")
    drawn(page)
    page.screenshot(path=pictures / "text-prompt.png", full_page=True)


def test_a_link_to_a_folder_that_is_not_open_is_refused_and_nothing_is_asked(visitor, lab):
    page = visitor.open(f"{lab}/text?v=1&{FEW}&text-task=your+data&text-folder=/etc")
    expect(page.get_by_text("expected a folder below")).to_be_visible()
    drawn(page)
    expect(chart(page, "accuracy")).to_have_count(0)
    expect(page.get_by_test_id("stException")).to_have_count(0)
