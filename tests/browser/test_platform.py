"""What every page stands on, each promise in a real browser."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import ROOT, drawn


def field(page, key):
    """The number field of a control."""
    return page.locator(f".st-key-demo-{key} input")


def slider(page, label):
    return page.get_by_role("slider", name=label)


def type_in(page, key, value):
    field(page, key).fill(value)
    field(page, key).press("Enter")


def sentence(page):
    return page.locator(".lab-look")


def chart(page, key):
    return page.locator(f"[class*='st-key-demo-{key}'] .lab-chart")


def test_slider_and_field_are_one_control(demo):
    slider(demo, "Noise").press("ArrowRight")
    expect(field(demo, "noise")).to_have_value("0.2")
    type_in(demo, "noise", "7.3")
    expect(slider(demo, "Noise")).to_have_attribute("aria-valuetext", "7.3")


def test_a_log_slider_shows_the_value_of_the_field_and_goes_on_from_there(demo):
    type_in(demo, "beta", "7.3")
    expect(slider(demo, "β inverse temperature")).to_have_attribute("aria-valuetext", "7.3")
    expect(sentence(demo)).to_contain_text("36.5000")  # 7.3 x 5: the exact value counts
    slider(demo, "β inverse temperature").press("ArrowRight")
    expect(field(demo, "beta")).to_have_value("8")
    slider(demo, "β inverse temperature").press("ArrowRight")  # the focus is still there
    expect(field(demo, "beta")).to_have_value("9")


def test_the_address_is_the_link_and_back_leaves_the_page(visitor, demo_lab):
    page = visitor.open(demo_lab, wait=False)
    page.get_by_role("link", name="Demo").click()
    expect(page).to_have_url(re.compile(r"/demo\?v=1&demo-beta=4\.0&.*demo-seed=0$"))
    entries = page.evaluate("history.length")
    type_in(page, "beta", "7.3")
    expect(page).to_have_url(re.compile(r"demo-beta=7\.3&"))
    slider(page, "Noise").press("ArrowRight")
    expect(page).to_have_url(re.compile(r"demo-noise=0\.2&"))
    page.get_by_role("button", name="Sharp wells").click()
    expect(page).to_have_url(re.compile(r"demo-beta=40\.0&demo-noise=0\.1&"))
    assert page.evaluate("history.length") == entries, "settings leave no trace in the history"
    page.go_back()
    expect(page.get_by_text("else", exact=True)).to_be_visible()
    page.go_forward()
    expect(field(page, "beta")).to_have_value("40")


def test_a_copied_link_shows_the_same_numbers_in_a_private_window(demo, visitor, demo_lab):
    demo.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=demo_lab)
    type_in(demo, "beta", "7.3")
    demo.get_by_role("combobox", name="Layout").click()
    demo.get_by_role("option", name="on a circle").click()
    expect(demo).to_have_url(re.compile("on\\+a\\+circle"))
    drawn(demo)
    expect(sentence(demo)).to_contain_text("36.5000")
    demo.get_by_role("button", name="Copy link").click()
    expect(demo.locator(".lab-copy [role=status]")).to_contain_text("Link copied")
    link = demo.evaluate("navigator.clipboard.readText()")
    for key in ("beta", "noise", "count", "layout", "broken", "x", "y", "seed"):
        assert f"demo-{key}=" in link, "a link states every control"
    other = visitor.open(link)
    expect(sentence(other)).to_have_text(sentence(demo).inner_text())
    expect(field(other, "beta")).to_have_value("7.3")


def test_without_a_clipboard_the_link_is_there_to_copy(demo):
    demo.evaluate("""() => {
        navigator.clipboard.writeText = () => Promise.reject(new Error("not here"));
        document.execCommand = () => false;
    }""")
    sizes = [
        demo.get_by_role("button", name=name).bounding_box() for name in ("Copy link", "Export")
    ]
    assert sizes[0]["height"] == sizes[1]["height"]
    demo.get_by_role("button", name="Copy link").click()
    link = demo.get_by_role("textbox", name="Link to these settings")
    expect(link).to_be_visible()
    expect(link).to_have_value(re.compile(r"/demo\?v=1&demo-beta=4"))
    expect(demo.locator(".lab-copy [role=status]")).to_contain_text("Ctrl+C")


def test_a_bad_link_loads_with_defaults_and_says_so(visitor, demo_lab):
    page = visitor.open(
        f"{demo_lab}/demo?demo-noise=2000&demo-beta=nan&preset=unknown&colour=red&demo-count=2.5"
        "&demo-layout=on+a+circle"
    )
    notices = page.get_by_role("alert")
    expect(notices).to_have_count(1)  # one banner with a list
    expect(notices).to_contain_text("5 notes on this link")
    for words in (
        "demo-noise=2000 is outside 0 to 10",
        "demo-beta=nan is not a finite number",
        "preset=unknown is no scenario",
        "colour=red is no control",
        "demo-count=2.5 is not a whole number",
    ):
        expect(notices.filter(has_text=words)).to_have_count(1)
    expect(field(page, "noise")).to_have_value("0.1")
    expect(field(page, "beta")).to_have_value("4")
    expect(field(page, "count")).to_have_value("5")
    expect(sentence(page)).to_contain_text("20.0000")
    expect(page).to_have_url(re.compile(r"\?v=1&demo-beta=4\.0&.*demo-layout=on\+a\+circle"))
    assert "colour" not in page.url
    slider(page, "Noise").press("ArrowRight")
    expect(notices).to_have_count(0)


def test_a_scenario_is_one_click_and_one_word_of_a_link(demo, visitor, demo_lab):
    demo.get_by_role("button", name="Sharp wells").click()
    expect(field(demo, "beta")).to_have_value("40")
    expect(demo).to_have_url(re.compile(r"demo-beta=40"))
    expect(demo.get_by_test_id("stCaptionContainer").get_by_text("One well")).to_be_visible()
    other = visitor.open(f"{demo_lab}/demo?preset=sharp")
    expect(field(other, "beta")).to_have_value("40")
    expect(other).to_have_url(re.compile(r"\?v=1&demo-beta=40"))
    assert "preset" not in other.url


def test_settings_survive_a_visit_to_another_page(demo):
    type_in(demo, "beta", "7.3")
    expect(sentence(demo)).to_contain_text("36.5000")
    demo.get_by_role("link", name="Other").click()
    expect(demo.get_by_text("else", exact=True)).to_be_visible()
    demo.get_by_role("link", name="Demo").click()
    expect(field(demo, "beta")).to_have_value("7.3")
    expect(slider(demo, "β inverse")).to_have_attribute("aria-valuetext", "7.3")
    expect(demo).to_have_url(re.compile(r"demo-beta=7\.3"))


CAMERA = """(e) => JSON.stringify(
    e.querySelector(".js-plotly-plot")._fullLayout.scene._scene.getCamera())"""

# A turned camera glides on for some frames; this is true once it stood still for twenty.
STILL = """(selector) => {
    const scene = document.querySelector(selector)._fullLayout.scene._scene;
    const now = JSON.stringify(scene.getCamera());
    const seen = (window.glide ??= { still: 0 });
    seen.still = seen.camera === now ? seen.still + 1 : 0;
    seen.camera = now;
    return seen.still >= 20;
}"""


def camera(chart) -> dict[str, float]:
    """Of a chart in 3-D. Redrawn, it is computed anew: equal up to rounding of its last digits."""
    parts = json.loads(chart.evaluate(CAMERA))
    names = ("up", "eye", "center")
    return {f"{name}.{axis}": v for name in names for axis, v in parts.get(name, {}).items()}


def test_a_camera_turned_with_the_mouse_stays_when_a_slider_moves(demo):
    demo.get_by_text("Also in 3-D").click()
    solid = chart(demo, "surface")
    expect(solid).to_have_attribute("data-state", "drawn")
    drawn(demo)
    solid.scroll_into_view_if_needed()
    before = camera(solid)
    box = solid.locator(".lab-chart-plot").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    demo.mouse.move(x, y)
    demo.mouse.down()
    demo.mouse.move(x + 140, y + 60, steps=6)
    demo.mouse.up()
    demo.wait_for_function(STILL, arg="[class*='st-key-demo-surface'] .js-plotly-plot")
    turned = camera(solid)
    assert turned != before, "the mouse turned nothing: the test would show nothing"
    revision = solid.get_attribute("data-revision")
    solid.evaluate("(e) => { e.querySelector('.js-plotly-plot').marked = true; }")
    slider(demo, "Noise").press("ArrowRight")
    expect(solid).not_to_have_attribute("data-revision", revision)
    assert camera(solid) == pytest.approx(turned, abs=1e-9)
    assert solid.evaluate("(e) => e.querySelector('.js-plotly-plot').marked"), "same node"


def test_a_zoom_stays_when_a_slider_moves_and_one_button_resets_it(demo):
    rows = chart(demo, "rows")
    rows.scroll_into_view_if_needed()
    view = "(e) => e.querySelector('.js-plotly-plot')._fullLayout.xaxis.range.map((v) => +v.toFixed(6))"
    whole = rows.evaluate(view)
    box = rows.locator(".nsewdrag").first.bounding_box()
    demo.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.2)
    demo.mouse.down()
    demo.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.8, steps=6)
    demo.mouse.up()
    demo.wait_for_function(
        "([sel, whole]) => { const r = document.querySelector(sel)._fullLayout.xaxis.range;"
        " return Math.abs(r[0] - whole[0]) > 0.1; }",
        arg=["[class*='st-key-demo-rows'] .js-plotly-plot", whole],
    )
    zoomed = rows.evaluate(view)
    revision = rows.get_attribute("data-revision")
    slider(demo, "Noise").press("ArrowRight")
    expect(rows).not_to_have_attribute("data-revision", revision)
    assert rows.evaluate(view) == zoomed
    rows.get_by_role("button", name="Reset the view").click()
    demo.wait_for_function(
        "([sel, whole]) => Math.abs(document.querySelector(sel)._fullLayout.xaxis.range[0] - whole[0]) < 1e-6",
        arg=["[class*='st-key-demo-rows'] .js-plotly-plot", whole],
    )


def test_a_click_on_the_plane_sets_the_query(demo):
    plane = chart(demo, "plane")
    at = plane.evaluate("""(e) => {
        const { xaxis, yaxis } = e.querySelector(".js-plotly-plot")._fullLayout;
        const box = e.querySelector(".js-plotly-plot").getBoundingClientRect();
        return [box.left + xaxis._offset + xaxis.d2p(-0.503), box.top + yaxis._offset + yaxis.d2p(0.611)];
    }""")
    demo.mouse.click(*at)
    expect(field(demo, "x")).to_have_value(re.compile(r"-0\.(5|50|51)$"))  # a pixel is 0.007 wide
    expect(field(demo, "y")).to_have_value(re.compile(r"0\.6[12]?$"))


def test_frames_play_in_the_browser_alone(demo):
    plane = chart(demo, "plane")
    label = plane.locator("output")
    expect(label).to_have_text("step 11 of 11")
    sent = []
    demo.on("websocket", lambda ws: ws.on("framesent", lambda _: sent.append(1)))
    plane.get_by_role("button", name="Back to the start").click()
    expect(label).to_have_text("step 0 of 11")
    plane.get_by_role("button", name="One step on").click()
    expect(label).to_have_text("step 1 of 11")
    shown = "(e) => e.querySelector('.js-plotly-plot').data[1].x.length"
    expect(plane).to_have_attribute("data-frame", "1")
    assert plane.evaluate(shown) == 2
    plane.get_by_role("button", name="One step back").click()
    expect(plane).to_have_attribute("data-frame", "0")
    plane.get_by_role("button", name="Play").press("Enter")  # the keyboard reaches it
    expect(plane.get_by_role("button", name="Pause")).to_be_visible()
    expect(label).to_have_text("step 11 of 11")
    expect(plane.get_by_role("button", name="Play")).to_be_visible()
    assert plane.evaluate(shown) == 12
    assert not sent


def test_numbers_that_are_not_finite_are_named_greyed_and_left_with_one_click(demo):
    demo.get_by_text("Break some numbers").click()
    warning = demo.get_by_role("alert").filter(
        has_text="energy E is not finite at 200 of 6561 points"
    )
    expect(warning).to_be_visible()
    expect(chart(demo, "plane")).to_have_attribute("data-state", "drawn")
    demo.get_by_role("button", name="Back to safe values").click()
    expect(warning).to_have_count(0)
    expect(demo.get_by_role("switch", name="Break some numbers")).not_to_be_checked()


def test_settings_that_cannot_be_computed_leave_the_last_good_picture(demo):
    before = chart(demo, "plane").get_attribute("data-revision")
    type_in(demo, "beta", "7.3")
    expect(sentence(demo)).to_contain_text("36.5000")
    expect(chart(demo, "plane")).not_to_have_attribute("data-revision", before)
    revision = chart(demo, "plane").get_attribute("data-revision")
    type_in(demo, "count", "60")
    expect(demo.get_by_role("alert")).to_contain_text("at most 50 memories: choose fewer")
    expect(sentence(demo)).to_contain_text("36.5000")
    assert chart(demo, "plane").get_attribute("data-revision") == revision
    demo.get_by_role("button", name="Back to safe values").click()
    expect(field(demo, "count")).to_have_value("5")


@pytest.fixture
def exported(demo):
    """Downloads a file of the Export menu."""

    def download(name):
        if not demo.get_by_role("button", name=name).is_visible():
            demo.get_by_role("button", name="Export").click()
        with demo.expect_download() as waiting:
            demo.get_by_role("button", name=name).click()
        return waiting.value

    return download


def test_the_csv_holds_what_is_plotted(demo, exported):
    file = exported("Numbers as CSV")
    assert file.suggested_filename == "demo.csv"
    rows = list(csv.DictReader(Path(file.path()).read_text().splitlines()))
    plane = [float(r["z"]) for r in rows if r["series"] == "energy"]
    assert len(plane) == 81 * 81
    low = re.search(r"lowest energy is (-?[\d.]+)\.", sentence(demo).inner_text())[1]
    assert f"{min(plane):.4f}" == low


def test_the_settings_come_as_json(demo, exported):
    body = json.loads(Path(exported("Settings as JSON").path()).read_text())
    assert body["settings"]["beta"] == 4.0
    assert "demo-beta=4.0" in body["link"]


def test_the_snippet_prints_the_numbers_of_the_page(demo, exported):
    path = exported("Python snippet").path()
    done = subprocess.run(
        [sys.executable, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"{float(done.stdout):.4f}" in sentence(demo).inner_text()


def test_the_html_opens_without_lab_or_network(demo, exported, visitor, tmp_path):
    path = tmp_path / "demo.html"
    exported("Report as HTML").save_as(path)
    page = visitor.open(path.as_uri(), wait=False, offline=True)
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    assert page.locator(".js-plotly-plot").count() == 2
    expect(page.get_by_text("lowest energy")).to_be_visible()
    expect(page.get_by_role("link", name="demo")).to_have_attribute("href", re.compile("beta=4"))


PIXEL = """async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const c = canvas.getContext("2d");
    c.drawImage(image, 0, 0);
    return { size: [image.width, image.height], corner: [...c.getImageData(2, 2, 1, 1).data] };
}"""


@pytest.mark.parametrize("dark", [False, True])
def test_png_and_svg_are_opaque_and_white_in_light_and_dark(visitor, demo_lab, dark):
    import base64

    page = visitor.open(f"{demo_lab}/demo", dark=dark)
    rows = chart(page, "rows")
    with page.expect_download() as waiting:
        rows.get_by_role("button", name="Save as PNG").click()
    png = waiting.value
    assert png.suggested_filename == "demo-rows.png"
    data = base64.b64encode(Path(png.path()).read_bytes()).decode()
    seen = page.evaluate(PIXEL, f"data:image/png;base64,{data}")
    assert seen["corner"] == [255, 255, 255, 255]
    assert min(seen["size"]) >= 600
    with page.expect_download() as waiting:
        rows.get_by_role("button", name="Save as SVG").click()
    svg = Path(waiting.value.path()).read_text()
    assert "rgb(255, 255, 255)" in svg
    assert "rgb(11, 106, 162)" in svg  # the light theme's blue, legible on white


def test_charts_follow_the_theme(visitor, demo_lab):
    colour = "(e) => getComputedStyle(e.querySelector('.xtick text')).fill"
    light = chart(visitor.open(f"{demo_lab}/demo"), "rows").evaluate(colour)
    dark = chart(visitor.open(f"{demo_lab}/demo", dark=True), "rows").evaluate(colour)
    assert light == "rgb(92, 103, 112)"
    assert dark == "rgb(163, 175, 185)"


def test_plotly_is_fetched_once_and_from_here(visitor, demo_lab):
    page = visitor.open("about:blank", wait=False)
    fetched = []
    page.on("request", lambda r: fetched.append(r.url))
    page.goto(f"{demo_lab}/demo")
    drawn(page)
    assert sum("plotly.min.js" in url for url in fetched) == 1
    before = len(fetched)
    revision = chart(page, "plane").get_attribute("data-revision")
    slider(page, "Noise").press("ArrowRight")
    expect(chart(page, "plane")).not_to_have_attribute("data-revision", revision)
    assert not [url for url in fetched[before:] if url.endswith(".js")]
    visitor.wrong = [w for w in visitor.wrong if "foreign request" not in w]  # from about:blank


def test_picture_and_numbers_come_together(visitor, demo_lab):
    page = visitor.open("about:blank", wait=False)
    held = []
    page.route("**/plotly.min.js", lambda route: held.append(route))
    page.goto(f"{demo_lab}/demo")
    coming = chart(page, "plane").get_by_role("status")
    expect(coming).to_have_text("Drawing … Heatmap of the energy")
    expect(sentence(page)).to_be_attached()
    expect(sentence(page)).not_to_be_visible()
    held[0].continue_()
    expect(sentence(page)).to_be_visible()
    expect(chart(page, "plane")).to_have_attribute("data-state", "drawn")
    visitor.wrong = [w for w in visitor.wrong if "foreign request" not in w]  # from about:blank


def test_a_chart_that_cannot_be_drawn_says_so(visitor, demo_lab):
    page = visitor.open("about:blank", wait=False)
    page.route("**/plotly.min.js", lambda route: route.abort())
    page.goto(f"{demo_lab}/demo")
    expect(chart(page, "plane").get_by_role("status")).to_contain_text(
        "could not be drawn: plotly.js could not be loaded"
    )
    visitor.wrong = []  # meant


def test_charts_have_names_for_those_who_cannot_see_them(demo):
    expect(demo.get_by_role("img", name="Heatmap of the energy")).to_be_visible()
    for button in demo.locator(".lab-chart-tools button").all():
        assert button.get_attribute("aria-label")


def test_a_chart_fills_the_screen_and_comes_back(demo):
    plane = chart(demo, "plane")
    width = "(e) => e.querySelector('.js-plotly-plot')._fullLayout.width"
    small = plane.evaluate(width)
    plane.get_by_role("button", name="Full screen").click()
    demo.wait_for_function(
        "(small) => document.fullscreenElement?.querySelector('.js-plotly-plot')._fullLayout.width > small",
        arg=small,
    )
    demo.evaluate("document.exitFullscreen()")
    demo.wait_for_function(
        "(small) => document.querySelector(\"[class*='st-key-demo-plane'] .js-plotly-plot\")"
        "._fullLayout.width === small",
        arg=small,
    )


def test_narrow_screens_scroll_one_way_only(visitor, demo_lab):
    page = visitor.open(f"{demo_lab}/demo", width=390, height=844)
    over = "document.querySelector('[data-testid=stMain]')"
    assert page.evaluate(f"{over}.scrollWidth <= {over}.clientWidth")
    top = chart(page, "plane").bounding_box()
    assert top["width"] <= 390
    controls = page.locator(".st-key-lab-controls").bounding_box()
    assert top["y"] < controls["y"] < controls["y"] + controls["height"] <= 844, (
        "a drawer at the foot"
    )


def test_the_controls_stay_beside_the_pictures_when_the_page_scrolls(visitor, demo_lab):
    page = visitor.open(f"{demo_lab}/demo", height=700)
    page.get_by_text("What would refute it").scroll_into_view_if_needed()
    expect(slider(page, "Noise").locator("xpath=ancestor::div[@data-rac][1]")).to_be_in_viewport()
