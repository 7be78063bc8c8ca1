"""A search as a reader meets it: it grows on the screen, stops, goes on, and lets controls move."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import drawn

# Long enough that it cannot end before it is stopped.
LONG = "ghosts-checkpoint=linear-d5&ghosts-examples=3&ghosts-restarts=2&ghosts-steps=2000"


@pytest.fixture
def page(visitor, lab):
    return visitor.open(f"{lab}/ghosts?v=1&{LONG}", wait=False)


def button(page, name):
    return page.get_by_test_id("stMainBlockContainer").get_by_role("button", name=name, exact=True)


def bar(page):
    return page.get_by_test_id("stProgress")


def test_a_search_grows_stops_and_goes_on(page):
    expect(bar(page)).to_contain_text(
        re.compile(r"Searching: t = 3, step \d+ of 2000, about \d+ s")
    )
    first = int(re.search(r"step (\d+)", bar(page).inner_text())[1])
    expect(bar(page)).not_to_contain_text(f"step {first} of")  # the browser asks for more by itself
    button(page, "Stop").click()
    expect(bar(page)).to_contain_text("Stopped at t = 3")
    drawn(page)
    stopped = bar(page).inner_text()
    chart = page.locator("[class*='st-key-ghosts-losses'] .lab-chart")
    expect(chart).to_have_attribute("data-state", "drawn")
    assert bar(page).inner_text() == stopped
    button(page, "Go on").click()
    expect(bar(page)).to_contain_text("Searching")
    expect(bar(page)).not_to_contain_text(re.search(r"step \d+ of", stopped)[0])
    # a control moves in the middle of it, and stays where it was put
    field = page.locator(".st-key-ghosts-steps input").first
    field.fill("20")
    field.press("Enter")
    expect(bar(page)).to_have_count(0)
    drawn(page)
    expect(field).to_have_value("20")
    expect(page.locator(".lab-look")).to_contain_text("After 20 steps the best of 2 searches")
    expect(page.get_by_test_id("stException")).to_have_count(0)
