"""A page pinned as A, and B beside it."""

import json
import re
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import drawn

NAMES = "e => e.querySelector('.js-plotly-plot').data.map(t => t.name)"


def chart(page, key):
    return page.locator(f".st-key-demo-{key}-view .lab-chart")


def test_a_pinned_picture_stays_beside_what_is_shown(demo, visitor, tmp_path):
    def beta(value):
        field = demo.locator(".st-key-demo-beta input")
        field.fill(value)
        field.press("Enter")

    words = demo.locator(".lab-pin-words")
    demo.get_by_role("button", name="Pin as A").click()
    expect(words).to_contain_text("A is pinned")
    before = demo.locator(".lab-look b, .lab-look strong").first.inner_text()
    beta("8")
    expect(words).to_have_text("A → B β inverse temperature 4 → 8")

    def compared():
        expect(words).to_contain_text("4 → 8")
        drawn(demo)
        assert chart(demo, "rows").evaluate(NAMES).count("A: middle row") == 1
        row = demo.locator(".lab-compared tr", has_text="β M")
        expect(row.locator("td")).to_have_text([before, "40.0000", "+20.0000"])

    compared()
    rise = "e => e.querySelector('.js-plotly-plot').data.map(t => Math.max(...t.y.map(Math.abs)))"
    assert all(most > 0 for most in chart(demo, "rows-difference").evaluate(rise))
    # The plane's path is still played: its numbers are where they were.
    chart(demo, "plane").get_by_role("button", name="Back to the start").click()
    expect(chart(demo, "plane")).to_have_attribute("data-frame", "0")
    assert chart(demo, "plane-difference").evaluate(NAMES) == ["B − A"]

    demo.get_by_role("link", name="Other").click()
    expect(demo.get_by_text("else", exact=True)).to_be_visible()
    demo.get_by_role("link", name="Demo").click()
    compared()
    expect(demo).to_have_url(re.compile(r"demo-beta=8\.0&.*&pin=1$"))
    demo.reload()
    compared()

    demo.get_by_role("button", name="Export").click()
    with demo.expect_download() as waiting:
        demo.get_by_role("button", name="Report as HTML").click()
    path = tmp_path / "report.html"
    waiting.value.save_as(path)
    with demo.expect_download() as waiting:
        demo.get_by_role("button", name="Settings as JSON").click()
    body = json.loads(Path(waiting.value.path()).read_text())
    assert body["link"].endswith("&pin=1")
    assert body["versions"]["streamlit"]
    demo.keyboard.press("Escape")

    report = visitor.open(path.as_uri(), wait=False, offline=True)
    expect(report.locator(".js-plotly-plot .main-svg").last).to_be_attached()
    assert report.locator(".js-plotly-plot").count() == 4, "two pictures and their differences"
    expect(report.get_by_text("β inverse temperature 4 → 8")).to_be_visible()
    assert report.locator(".equation math").bounding_box()["height"] > 20
    cells = report.locator("table", has_text="What became").locator("tr", has_text="β M")
    expect(cells.locator("td")).to_have_text([before, "40.0000", "+20.0000"])

    demo.get_by_role("button", name="Swap").click()
    expect(words).to_contain_text("8 → 4")
    demo.get_by_role("button", name="Unpin").click()
    expect(words).to_have_count(0)
    expect(demo).not_to_have_url(re.compile("pin="))
