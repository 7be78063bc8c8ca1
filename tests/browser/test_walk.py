"""One walk through every page of the lab, in light, in dark and on a phone, with pictures kept.

Axe looks at each: at everything in light, at colours alone in dark, where nothing else differs, and on a phone at
what a narrow screen changes.
"""

import pytest
from playwright.sync_api import expect

from pages import catalog
from tests.browser import axe
from tests.browser.conftest import drawn

MAIN = "document.querySelector('[data-testid=stMain]')"
SHAPE = ("list", "listitem", "scrollable-region-focusable", "target-size", "button-name", "link-name", "label",
         "aria-hidden-focus", "nested-interactive", "aria-allowed-role")  # fmt: skip
PAPER = {"light": "rgb(253, 252, 250)", "dark": "rgb(18, 23, 29)"}


@pytest.mark.parametrize("entry", catalog.PAGES, ids=lambda e: e.name)
def test_walk(visitor, lab, pictures, entry):
    path = "" if entry is catalog.HOME else entry.name
    page = visitor.open(f"{lab}/{path}")
    for look, scheme, width, rules in (
        ("light", "light", 1280, ()),
        ("dark", "dark", 1280, ("color-contrast",)),
        ("phone", "light", 390, SHAPE),
    ):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        expect(page.locator(".stApp")).to_have_css("background-color", PAPER[scheme])
        expect(page.get_by_role("heading", level=1)).to_have_text(entry.title)
        expect(page.get_by_test_id("stException")).to_have_count(0)
        drawn(page)
        page.wait_for_function(f"{MAIN}.scrollWidth <= {MAIN}.clientWidth")  # nothing sideways
        axe.check(page, *rules)
        height = min(page.evaluate(f"{MAIN}.scrollHeight"), 4000)
        page.set_viewport_size({"width": width, "height": height})
        drawn(page)
        page.screenshot(path=pictures / f"{entry.name}-{look}.png")


def test_home_leads_to_every_page(visitor, lab):
    page = visitor.open(lab)
    expect(page.locator(".lab-home-poster")).to_be_hidden()  # the picture has taken its place
    for entry in catalog.PAGES:
        if entry is not catalog.HOME:
            card = page.locator(f".st-key-lab-card-{entry.name}")
            expect(card.get_by_role("link", name=entry.title)).to_be_visible()
            expect(card).to_contain_text(entry.blurb)
    first = catalog.PAGES[1]
    page.locator(f".st-key-lab-card-{first.name}").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(first.title)
    assert f"/{first.name}" in page.url
