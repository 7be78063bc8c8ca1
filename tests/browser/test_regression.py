"""The regression and checkpoint pages as a reader meets them."""

import re

import pytest
from playwright.sync_api import expect

from models import zoo
from tests.browser.conftest import drawn

SMALL = "regression-checkpoint=linear-d5&regression-prompts=16&regression-length=30"


@pytest.fixture
def page(visitor, lab):
    return visitor.open(f"{lab}/regression?v=1&{SMALL}")


def field(page, key):
    return page.locator(f".st-key-regression-{key} input")


def type_in(page, key, value):
    field(page, key).fill(value)
    field(page, key).press("Enter")


def chart(page, key):
    return page.locator(f"[class*='st-key-regression-{key}'] .lab-chart")


def look(page):
    return page.locator(".lab-look")


def test_a_click_on_a_curve_reads_the_numbers_there(page):
    expect(look(page)).to_contain_text("After 15 examples the pooled R² of GPT-2 linear-d5")
    plot = chart(page, "curves").locator(".nsewdrag").first
    box = plot.bounding_box()
    # n runs from 1 to 30; the least-squares curve lies at R² = 1, just below the top.
    x = box["x"] + box["width"] * (9 - 1) / 29
    scale = box["height"] / 1.03
    page.mouse.click(x, box["y"] + 0.03 * scale)
    expect(field(page, "n")).to_have_value("9")
    expect(look(page)).to_contain_text("After 9 examples")


def test_shifted_inputs_are_shaded_in_words_and_one_click_leads_back(page):
    page.get_by_role("button", name="30 % shifted inputs").click()
    expect(page.get_by_text("30 % of the inputs around 2")).to_be_visible()
    drawn(page)
    expect(chart(page, "curves").get_by_text("outside the training law")).to_be_visible()
    page.get_by_role("button", name="Back into it").click()
    expect(field(page, "w2")).to_have_value("0")
    expect(page.get_by_text("Outside the training law")).to_have_count(0)


def test_what_does_not_fit_is_refused_and_the_picture_stays(page):
    before = chart(page, "curves").get_attribute("data-revision")
    type_in(page, "length", "150")
    expect(page.get_by_text("positions for 127 examples")).to_be_visible()
    drawn(page)
    assert chart(page, "curves").get_attribute("data-revision") == before
    page.get_by_role("button", name="Back to safe values").click()
    expect(field(page, "length")).to_have_value("30")
    expect(page.get_by_text("positions for 127 examples")).to_have_count(0)


def test_one_prompt_is_opened_beside_its_heads(page):
    page.get_by_role("radio", name="one prompt").click()
    expect(look(page)).to_contain_text("the truth is")
    drawn(page)
    for key in ("prompt", "examples"):
        expect(chart(page, key)).to_have_attribute("data-state", "drawn")
    page.get_by_role("button", name="Largest error").click()
    expect(page.get_by_text("number 1 from the largest")).to_be_visible()


def test_a_sweep_file_is_drawn(page, tmp_path):
    from core.prompts import PromptLaw
    from core.sweep import grid, run_sweep

    out = tmp_path / "small.parquet"
    points = grid(
        ["least squares"], {"w2": [0.0, 0.2, 0.4]}, law=PromptLaw(n_dims=2), lengths=(2, 3),
        n_prompts=8, n_resamples=20,
    )  # fmt: skip
    run_sweep(points, out=out)
    page.get_by_role("radio", name="sweep file").click()
    expect(page.get_by_text("python -m models.sweep").first).to_be_visible()
    page.locator("input[type=file]").set_input_files(out)
    expect(look(page)).to_contain_text("18 rows, 2 curves along w2")
    drawn(page)
    expect(chart(page, "sweep")).to_have_attribute("data-state", "drawn")


def test_a_checkpoint_is_brought_refused_accepted_and_asked(visitor, lab, tmp_path):
    page = visitor.open(f"{lab}/checkpoints?v=1&checkpoints-name=linear-d5&checkpoints-prompts=16")
    folder = zoo.CHECKPOINTS / "linear-d5"
    config, weights = folder / "config.json", (folder / "model.safetensors").read_bytes()
    cut = tmp_path / "model.safetensors"
    cut.write_bytes(weights[:-100])
    files = page.locator("input[type=file]")
    files.set_input_files([config, cut])
    expect(page.get_by_text("Refused: model.safetensors is truncated")).to_be_visible()
    page.get_by_role("button", name="Take all files out").click()
    expect(page.get_by_text("Refused")).to_have_count(0)
    files.set_input_files([config, folder / "model.safetensors"])
    expect(page.get_by_text("Accepted: config.json, model.safetensors")).to_be_visible()
    expect(page.get_by_role("button", name="Remove")).to_have_count(0)  # read files do not pile up
    expect(look(page)).to_contain_text("on 16 fresh prompts")
    page.get_by_role("button", name="Ask it on the regression page").click()
    expect(page).to_have_url(re.compile(r"/regression\?.*regression-checkpoint=uploaded"))
    expect(look(page)).to_contain_text("GPT-2 uploaded")
    drawn(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
