"""The lab without a mouse, without sight of the picture, without motion, on a phone and on paper."""

import json
import re
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.conftest import drawn

# Of the element that has the focus: its name, and whether it, its parts or what stands around it looked different
# while it had the focus. The look is compared when the focus has moved on.
STOP = """() => {
    const look = (e) => {
        const s = getComputedStyle(e);
        const line = s.outlineStyle === "none" ? "" : s.outline;
        return [line, s.boxShadow, s.borderColor, s.backgroundColor, s.clipPath].join("|");
    };
    const last = globalThis.lastStop;
    const shown = !last || last.parts.some((e, i) => look(e) !== last.looks[i]);
    const e = document.activeElement;
    const parts = [e, ...e.children];
    for (let p = e, i = 0; i < 4 && p.parentElement; i++) {
        p = p.parentElement;
        parts.push(p, p.previousElementSibling, p.nextElementSibling);
    }
    const kept = parts.filter(Boolean);
    const left = last?.name;
    const name = (e.getAttribute("aria-label") || e.innerText || "")
        .replace(/keyboard_arrow_right|expand_more/, "").trim().slice(0, 80); // symbols drawn as words
    globalThis.lastStop = { parts: kept, looks: kept.map(look), name };
    return { name, tag: e.tagName, type: e.type ?? "", left, shown };
}"""


INSIDE = "document.querySelector('[data-testid=stPopoverBody]')?.contains(document.activeElement)"


class Keyboard:
    """Walks a page by Tab alone and notes where it has been."""

    def __init__(self, page):
        self.page = page
        self.names = []
        self.unseen = []

    def to(self, name, type_=""):
        """Press Tab until the element of this name has the focus."""
        for _ in range(60):
            self.page.keyboard.press("Tab")
            stop = self.page.evaluate(STOP)
            if not stop["shown"]:
                self.unseen.append(stop["left"])
            assert stop["tag"] != "BODY", f"the page ended before {name!r}: {self.names}"
            assert stop["name"], f"a stop without a name after {self.names[-1]!r}"
            self.names.append(stop["name"])
            if stop["name"].startswith(name) and stop["type"].startswith(type_):
                return
        raise AssertionError(f"no {name!r} within 60 stops: {self.names}")

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        self.page.evaluate(
            "globalThis.lastStop = undefined"
        )  # it looks different for other reasons now


def test_by_keyboard_alone(visitor, lab):
    page = visitor.open(f"{lab}/landscape", reduced_motion="reduce")  # a ring is there at once
    expect(page.locator(".lab-look")).to_be_visible()  # nothing is mounted anew from here on
    drawn(page)
    spoken = page.locator(".lab-aid [role=status]")
    keys = Keyboard(page)

    keys.to("Export")
    keys.press("Enter")
    expect(page.get_by_role("button", name="Settings as JSON")).to_be_visible()
    page.wait_for_function(INSIDE)
    keys.to("Settings as JSON")
    with page.expect_download() as waiting:
        keys.press("Enter")
    assert json.loads(Path(waiting.value.path()).read_text())["settings"]["strength"] == 1.0
    keys.press("Escape")
    expect(page.get_by_role("button", name="Export")).to_be_focused()

    keys.to("query")  # a word of the glossary, in the lead
    word = page.locator(".st-key-lab-head a[href='glossary?term=query']")
    expect(word).to_be_focused()
    expect(word).to_have_attribute("title", re.compile("The vector that asks"))
    keys.to("Symbols")
    keys.to("Skip to the picture")
    expect(page.locator(".lab-skip")).to_be_focused()

    assert spoken.inner_text() == "", "nothing has moved yet"
    keys.to("s reshaping strength", "range")
    keys.press("ArrowLeft")
    expect(page.locator(".st-key-landscape-strength input")).to_have_value("0.99")
    drawn(page)
    expect(spoken).to_contain_text("The query ends at memory 0 before the context")
    assert "annotation" not in spoken.inner_text()
    expect(page.get_by_role("slider", name="s reshaping strength")).to_be_focused()

    keys.to("before | after")
    keys.press("ArrowRight", "Enter")
    expect(page).to_have_url(re.compile("landscape-view=after"))
    drawn(page)

    keys.to("Back to the start")
    keys.press("Enter")
    label = page.locator(".st-key-lab-stage output").first
    expect(label).to_have_text(re.compile("^step 0 of"))
    keys.to("Energy on the plane")
    picture = page.locator(".lab-chart-plot").first
    expect(picture).to_be_focused()
    keys.press("ArrowRight")
    expect(label).to_have_text(re.compile("^step 1 of"))
    keys.press("End", "Home", " ")
    expect(page.get_by_role("button", name="Pause").first).to_be_visible()
    words = page.locator(f"#{picture.get_attribute('aria-describedby')}")
    expect(words).to_contain_text("The arrow keys step through the frames")
    expect(words).to_contain_text(re.compile(r"from -?\d"))
    keys.to("What would refute it")
    assert not keys.unseen
    order = [keys.names.index(n) for n in ("Export", "Symbols", "Skip to the picture", "Play")]
    assert order == sorted(order)

    page.locator(".lab-skip").focus()
    page.keyboard.press("Enter")
    expect(picture).to_be_focused()


def test_a_phone_a_still_picture_and_a_sheet_of_paper(visitor, lab):
    page = visitor.open(
        f"{lab}/landscape?preset=context", dark=True, width=390, height=844, has_touch=True,
        reduced_motion="reduce",
    )  # fmt: skip
    drawer, panel = page.locator(".lab-drawer"), page.locator(".st-key-lab-controls")
    slider = page.get_by_role("slider", name="s reshaping strength")
    expect(drawer).to_have_attribute("aria-expanded", "false")
    expect(slider).to_be_hidden()
    assert panel.bounding_box()["height"] < 60
    drawer.tap()
    expect(drawer).to_have_attribute("aria-expanded", "true")
    expect(slider).to_be_visible()
    picture = page.locator(".lab-chart").first
    top = panel.bounding_box()["y"]
    assert top > 0.6 * 844
    seen = picture.bounding_box()
    assert seen["y"] >= 0
    assert seen["y"] + 0.5 * seen["height"] < top, "most of the first picture stands above"
    slider.press("ArrowLeft")
    expect(page.locator(".st-key-landscape-strength input")).to_have_value("0.99")
    drawn(page)
    expect(slider).to_be_visible()
    for name in ("Play", "Save as PNG"):
        box = page.get_by_role("button", name=name).first.bounding_box()
        assert min(box["width"], box["height"]) >= 40
    drawer.tap()
    expect(slider).to_be_hidden()

    moving = """() => [...document.querySelectorAll("*")].map((e) => getComputedStyle(e)).flatMap((s) =>
        [s.transitionDuration, s.animationDuration].flatMap((d) => d.split(",").map(parseFloat)))
        .reduce((a, b) => Math.max(a, b), 0)"""
    assert page.evaluate(moving) <= 1e-4, "seconds that anything takes to move"

    page.emulate_media(media="print")
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.locator("h1")).to_have_css("color", "rgb(29, 39, 48)")
    ink = ".lab-chart .xtick text"
    expect(page.locator(ink).first).to_have_css("fill", "rgb(92, 103, 112)")  # the light theme's
    for hidden in (".st-key-lab-controls", ".stAppHeader", ".lab-chart-tools", ".st-key-lab-share"):
        expect(page.locator(hidden).first).to_be_hidden()
    expect(page.locator(".lab-look")).to_be_visible()
    expect(page.locator(".lab-facts").first).to_be_visible()
    widths = page.locator(".lab-chart-plot .main-svg").evaluate_all(
        "(all) => all.map((e) => e.clientWidth)"
    )
    assert max(widths) <= 680, "A4 within its margins"
    page.emulate_media(media="screen")
    expect(page.locator(ink).first).to_have_css("fill", "rgb(163, 175, 185)")
