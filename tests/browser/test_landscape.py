"""Landscape in a real browser: the click, the steps, the camera, the zoom, uploads, small screens."""

import re
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import drawn
from tests.browser.test_platform import STILL, camera

PAGE = "landscape"
# Pixels of a point of a subplot, from the upper left corner of its picture.
AT = """([x, y, which]) => {
  const plot = document.querySelector("[class*='st-key-landscape-before-after'] .js-plotly-plot");
  const { [`xaxis${which}`]: across, [`yaxis${which}`]: up } = plot._fullLayout;
  return { x: across._offset + across.d2p(x), y: up._offset + up.d2p(y) };
}"""
RANGES = """() => {
  const l = document.querySelector("[class*='st-key-landscape-before-after'] .js-plotly-plot")
    ._fullLayout;
  return [l.xaxis.range, l.xaxis2.range].map((r) => r.map((v) => +v.toFixed(6)));
}"""
SQUARE = """() => {
  const l = document.querySelector("[class*='st-key-landscape-before-after'] .js-plotly-plot")
    ._fullLayout;
  return [[l.xaxis, l.yaxis], [l.xaxis2, l.yaxis2]].map(([x, y]) =>
    (x._length / (x.range[1] - x.range[0])) / (y._length / (y.range[1] - y.range[0])));
}"""


def field(page, key):
    return page.locator(f".st-key-{PAGE}-{key} input")


def sentence(page):
    return page.locator(".lab-look")


def chart(page, key):
    return page.locator(f"[class*='st-key-{PAGE}-{key}'] .lab-chart")


@pytest.fixture
def visit(visitor, lab):
    """Opens the page and waits for its picture."""

    def opened(query="", **look):
        page = visitor.open(query if "://" in query else f"{lab}/{PAGE}{query}", **look)
        return settled(page)

    return opened


def settled(page, key="before-after"):
    expect(chart(page, key)).to_have_attribute("data-state", "drawn")
    return drawn(page)


@pytest.fixture
def landscape(visit):
    return visit(width=1280, height=800)


def test_the_picture_stands_on_the_first_screen_and_is_square(landscape):
    box = chart(landscape, "before-after").bounding_box()
    assert box["y"] + box["height"] <= 800
    assert landscape.evaluate(SQUARE) == pytest.approx([1, 1], abs=0.01)
    # Also after another window of another shape: both pictures stay square.
    landscape.get_by_role("button", name="A slice of 32 dimensions").click()
    expect(sentence(landscape)).to_contain_text("0.5679")
    settled(landscape)
    assert landscape.evaluate(SQUARE) == pytest.approx([1, 1], abs=0.01)


@pytest.mark.parametrize("which", ["", "2"])
def test_a_click_on_either_side_places_the_query(landscape, visit, which):
    page = landscape
    plot = chart(page, "before-after").locator(".lab-chart-plot")
    plot.click(position=page.evaluate(AT, [-0.4, 0.25, which]))
    expect(field(page, "x")).to_have_value(re.compile(r"^-0\.(39|40|4)"))
    expect(field(page, "y")).to_have_value(re.compile(r"^0\.2[45]"))
    expect(page).to_have_url(re.compile("landscape-query=placed"))
    expect(sentence(page)).not_to_contain_text("at memory 0 before")
    said = sentence(page).inner_text()
    other = visit(page.url)
    expect(sentence(other)).to_have_text(said)


def test_steps_play_in_the_browser_and_both_pictures_follow(landscape):
    page = landscape
    plane, small = chart(page, "before-after"), chart(page, "retrieval")
    labels = [c.locator("output") for c in (plane, small)]
    last = re.search(r"of (\d+)", labels[0].inner_text())[1]
    revision = plane.get_attribute("data-revision")

    def shown(step):
        for label in labels:
            expect(label).to_have_text(f"step {step} of {last}")

    shown(last)
    plane.get_by_role("button", name="Back to the start").click()
    shown(0)
    small.get_by_role("button", name="One step on").click()
    shown(1)
    plane.get_by_role("button", name="One step on").click()
    shown(2)
    small.get_by_role("button", name="One step back").click()
    shown(1)
    plane.get_by_role("button", name="Play").click()
    shown(last)
    assert plane.get_attribute("data-revision") == revision, "the server had no part in it"


def test_zooming_one_side_zooms_the_other_and_stays(landscape):
    page = landscape
    whole = page.evaluate(RANGES)
    assert whole[0] == whole[1]
    plot = chart(page, "before-after").locator(".lab-chart-plot").bounding_box()
    corners = [page.evaluate(AT, [x, y, ""]) for x, y in ((-0.6, 0.6), (0.4, -0.4))]
    (x0, y0), (x1, y1) = ((plot["x"] + c["x"], plot["y"] + c["y"]) for c in corners)
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move(x1, y1, steps=6)
    page.mouse.up()
    page.wait_for_function(f"(w) => ({RANGES})()[1][0] > w + 0.1", arg=whole[0][0])
    zoomed = page.evaluate(RANGES)
    assert zoomed[0] == zoomed[1]
    revision = chart(page, "before-after").get_attribute("data-revision")
    page.get_by_role("slider", name="β inverse").press("ArrowRight")
    expect(chart(page, "before-after")).not_to_have_attribute("data-revision", revision)
    assert page.evaluate(RANGES) == zoomed


def test_the_camera_stays_when_a_slider_moves_and_between_before_and_after(landscape):
    page = landscape
    page.get_by_role("radio", name="3-D after").click()
    solid = chart(page, "surface")
    settled(page, "surface")
    fresh = camera(solid)
    box = solid.locator(".lab-chart-plot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 50, steps=6)
    page.mouse.up()
    page.wait_for_function(STILL, arg="[class*='st-key-landscape-surface'] .js-plotly-plot")
    turned = camera(solid)
    assert turned != fresh, "the mouse turned nothing: the test would show nothing"
    for change in (
        lambda: page.get_by_role("slider", name="s reshaping").press("ArrowLeft"),
        lambda: page.get_by_role("radio", name="3-D before").click(),
    ):
        revision = solid.get_attribute("data-revision")
        change()
        expect(solid).not_to_have_attribute("data-revision", revision)
        assert camera(solid) == pytest.approx(turned, abs=1e-9)


def test_a_bad_upload_is_explained_and_the_picture_stays(visit):
    page = visit("?landscape-layout=your+table")
    picture = chart(page, "before-after")
    revision = picture.get_attribute("data-revision")
    upload = page.locator("[data-testid=stFileUploader] input[type=file]")
    for name, data, words in (
        ("nan.csv", b"1,2\nnan,4\n", "memories must be finite"),
        ("wide.csv", (b",".join([b"1"] * 300) + b"\n") * 3, "300 columns"),
        ("long.csv", b"1,2\n" * 1_000_000, "too large"),
    ):
        upload.set_input_files({"name": name, "mimeType": "text/csv", "buffer": data})
        expect(page.get_by_role("alert").filter(has_text=words)).to_be_visible()
        assert picture.get_attribute("data-revision") == revision
        for part in (picture, sentence(page), page.locator(".lab-facts").first):
            assert float(part.evaluate("(e) => getComputedStyle(e).opacity")) < 0.6, "dimmed"
    expect(page.get_by_text("is in use")).to_have_count(0)
    page.get_by_role("button", name="Back to safe values").click()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_large_upload_draws_and_the_copied_link_says_what_it_lacks(visit):
    page = visit("?landscape-layout=your+table", permissions=["clipboard-read", "clipboard-write"])
    rows = "\n".join(",".join(f"{(i * j) % 7 - 3:.6f}" for j in range(1, 11)) for i in range(1, 41))
    picture = chart(page, "before-after")
    revision = picture.get_attribute("data-revision")
    page.locator("[data-testid=stFileUploader] input[type=file]").set_input_files(
        {"name": "mine.csv", "mimeType": "text/csv", "buffer": rows.encode()}
    )
    expect(page.get_by_text("A link cannot carry it")).to_be_visible()
    expect(picture).not_to_have_attribute("data-revision", revision)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".lab-copy [role=status]")).to_contain_text("uploaded file is not in it")
    other = visit(page.evaluate("navigator.clipboard.readText()"))
    expect(other.get_by_role("alert")).to_contain_text("a link cannot carry that")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_each_view_is_one_click_away_and_draws(visit, pictures, dark):
    page = visit(dark=dark, width=1280, height=800)
    for view, key in (
        ("after", "after"),
        ("difference", "difference"),
        ("3-D before", "surface"),
        ("before | after", "before-after"),
    ):
        page.get_by_role("radio", name=view, exact=True).click()
        settled(page, key)
        look = "dark" if dark else "light"
        name = re.sub(r"\W+", "-", view)
        page.screenshot(path=pictures / f"{PAGE}-{name}-{look}.png")


def test_a_phone_shows_the_two_sides_below_each_other(visit):
    page = visit(width=390, height=844)
    boxes = [
        page.evaluate(
            """(which) => {
              const plot = document.querySelector(
                "[class*='st-key-landscape-before-after'] .js-plotly-plot");
              const { [`xaxis${which}`]: x, [`yaxis${which}`]: y } = plot._fullLayout;
              return { left: x._offset, right: x._offset + x._length,
                       top: y._offset, bottom: y._offset + y._length };
            }""",
            which,
        )
        for which in ("", "2")
    ]
    assert boxes[0]["bottom"] < boxes[1]["top"]
    assert all(b["right"] - b["left"] > 250 for b in boxes)
    shown = [c.bounding_box() for c in page.locator(".lab-chart").all()]
    assert all(b["x"] >= 0 and b["x"] + b["width"] <= 390 for b in shown)
    assert all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(shown))
