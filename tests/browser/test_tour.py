"""A tour by keyboard from the home page to its end, and a teacher's link from the builder to a student's window."""

import re

from playwright.sync_api import expect

from pages import tours
from tests.browser.conftest import drawn

LAB = tours.of(tours.LAB)


def say(page):
    return page.locator(".lab-tour-say")


def at_step(page, number):
    """The step stands there whole, with the part it speaks of marked."""
    expect(say(page)).to_have_text(LAB[number - 1].say.replace("**", ""))
    expect(page.locator(f"[data-lit='lab-{number}']")).to_have_count(1)
    expect(page.locator("[data-lab-lit]")).to_have_count(1)
    expect(page).to_have_url(re.compile(rf"/{LAB[number - 1].page}\?.*tour=lab-{number}\b"))


def test_the_tour_of_the_lab_by_keyboard(visitor, lab):
    page = visitor.open(lab)
    page.get_by_role("button", name="Take the tour").press("Enter")
    ends = []
    for number in range(1, 5):  # context moves the minimum; past the rank the map cannot follow
        at_step(page, number)
        drawn(page)
        ends.append(page.locator(".lab-look").inner_text())
        page.keyboard.press("ArrowRight")
    assert "follows all examples" in ends[1]
    assert float(re.search(r"ends are (\S+) apart", ends[1])[1]) > 0.2
    assert "misses the examples by" in ends[3]
    at_step(page, 5)
    page.keyboard.press("ArrowLeft")
    at_step(page, 4)
    field = page.locator(".st-key-landscape-examples input")
    field.press("ArrowRight")  # in a field the keys are the field's
    slider = page.get_by_role("slider", name="t in-context examples")
    slider.press("ArrowLeft")
    expect(field).to_have_value("11")
    expect(page).to_have_url(re.compile(r"landscape-examples=11&.*tour=lab-4"))
    page.reload()
    at_step(page, 4)  # a reload keeps the step and what was moved
    expect(field).to_have_value("11")
    for number in range(5, len(LAB) + 1):
        page.get_by_role("button", name="Next").press("Enter")
        at_step(page, number)
    expect(page.get_by_role("button", name="Next")).to_have_count(0)
    drawn(page)
    page.keyboard.press("Escape")
    expect(say(page)).to_have_count(0)
    expect(page.locator("[data-lab-lit]")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("tour="))


def test_the_bar_covers_nothing_on_a_phone(visitor, lab):
    page = visitor.open(f"{lab}/landscape?tour=3", width=390, height=844)
    bar, chart = (page.locator(s).first for s in (".st-key-lab-tour", ".lab-chart"))
    expect(bar).to_be_in_viewport()
    drawer = page.locator(".st-key-lab-controls")
    box, picture, controls = (part.bounding_box() for part in (bar, chart, drawer))
    assert box["y"] + box["height"] <= picture["y"] + 1
    assert box["y"] + box["height"] <= controls["y"] + 1


def test_a_teachers_link_from_the_builder_to_a_students_window(visitor, lab):
    page = visitor.open(f"{lab}/landscape")
    page.get_by_role("button", name="Teach").click()
    page.get_by_label("Title").fill("Wells <b>move</b>")
    page.get_by_label("Title").press("Tab")
    page.get_by_label("Question").fill("Which **way**? $x$")
    page.get_by_label("Question").press("Tab")
    page.get_by_role("button", name="All hidden").click()
    row = page.locator(".st-key-landscape-beta-teach")
    row.get_by_text("locked").click()
    page.locator(".st-key-landscape-strength-teach").get_by_text("free").click()
    link = page.get_by_role("link", name="Preview")
    expect(link).to_have_attribute(
        "href", re.compile(r"title=Wells.*question=Which.*lock=beta&hide=(?!.*strength)")
    )
    expect(page).not_to_have_url(re.compile("title="))  # the teacher's own address is not touched
    student = visitor.open(f"{lab}/landscape{link.get_attribute('href')}")
    expect(student.locator(".lab-lesson-title")).to_have_text("Wells <b>move</b>")
    expect(student.locator(".lab-lesson-question")).to_have_text("Which **way**? $x$")
    expect(student.locator(".st-key-landscape-beta input")).to_be_disabled()
    expect(student.locator(".st-key-landscape-strength input")).to_be_enabled()
    expect(student.locator(".st-key-landscape-noise")).to_have_count(0)
    show = student.get_by_role("button", name="Show all controls")
    show.click()
    expect(show).to_have_count(0)
    drawn(student)  # until then the locked field stands beside the new one
    expect(student.locator(".st-key-landscape-beta input")).to_be_enabled()
    expect(student.locator(".st-key-landscape-noise input")).to_be_visible()
    expect(student).not_to_have_url(re.compile("hide="))
