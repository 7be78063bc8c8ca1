"""Hidden concept and generalisation in a real browser: frames that play together, a phone, links."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import drawn


def chart(page, name):
    return page.locator(f"[class*='st-key-{name}'] .lab-chart")


def test_examples_arrive_one_by_one_in_both_pictures(visitor, lab):
    page = visitor.open(f"{lab}/hidden_concept")
    both = [chart(page, f"hidden_concept-{key}") for key in ("belief", "distance")]

    def shown(t):
        for picture in both:
            expect(picture.locator("output")).to_have_text(f"{t} of 30 examples")

    shown(30)
    both[0].get_by_role("button", name="Back to the start").click()
    shown(0)
    both[1].get_by_role("button", name="One step on").click()
    shown(1)
    lines = (
        "() => document.querySelector(\"[class*='st-key-hidden_concept-belief'] .js-plotly-plot\")"
        ".data.find((t) => t.uid === 'lines-0').x.length"
    )
    assert page.evaluate(lines) == 3  # one line, and the gap after it
    both[0].get_by_role("button", name="Play").click()
    shown(30)


def test_views_and_scenarios_are_one_click_away(visitor, lab):
    page = visitor.open(f"{lab}/hidden_concept")
    for view, words in (
        ("influence", "moves the concept most"),
        ("reshaped memories", "Ghosts left as they are"),
        ("posterior", "nats"),
    ):
        page.get_by_role("radio", name=view).click()
        expect(page.locator(".lab-look")).to_contain_text(words)
        drawn(page)
    page = visitor.open(f"{lab}/generalization")
    page.get_by_role("button", name="Raw keys: vacuous").click()
    expect(page.locator(".lab-look")).to_contain_text("which says nothing")
    drawn(page)
    expect(page).to_have_url(re.compile(r"generalization-source=raw"))


def test_a_phone_sees_the_pictures_under_one_another(visitor, lab):
    for path in ("hidden_concept", "generalization"):
        page = visitor.open(f"{lab}/{path}", width=390, height=844)
        boxes = [c.bounding_box() for c in page.locator(".lab-chart").all()]
        assert len(boxes) == 2
        assert all(b["x"] >= 0 and b["x"] + b["width"] <= 390 for b in boxes)
        assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
