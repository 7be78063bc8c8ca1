"""What a link pins: read back whole, or refused whole."""

from urllib.parse import parse_qs

import pytest

from pages.ui import controls

PAGES = sorted({row.page for row in controls.TABLE})


@pytest.mark.parametrize("page", PAGES)
def test_a_pin_reads_back_through_a_link(page):
    values = controls.defaults(page)
    for row in controls.rows(page):
        if isinstance(row, controls.Number):
            values[row.key] = row.high
        elif isinstance(row, controls.Text):
            values[row.key] = "a~b c&d=é%7E\n1, 2"
        elif isinstance(row, controls.Toggle):
            values[row.key] = not row.default
    query = parse_qs(
        controls.write_link(page, controls.defaults(page), values), keep_blank_values=True
    )
    link = controls.read_link(page, query)
    assert link.notices == ()
    assert link.pin == values
    assert link.values == controls.defaults(page)


def test_a_pin_states_what_differs_from_the_defaults_of_its_version():
    values = controls.defaults("retrieval")
    assert controls.write_pin("retrieval", values) == "1"
    assert controls.write_pin("retrieval", values | {"beta": 20.0}) == "1~beta~20.0"


@pytest.mark.parametrize(
    ("pin", "reason"),
    [
        ("", "no pin"),
        ("99~beta~2", "no pin"),
        ("1~beta", "no pin"),
        ("1~beta~hot", "not a number"),
        ("1~beta~1e9", "outside"),
        ("1~nothing~1", "no control of this page"),
    ],
)
def test_a_bad_pin_is_refused_whole_and_said(pin, reason):
    link = controls.read_link("retrieval", {"pin": [pin], "retrieval-beta": ["9"]})
    assert link.pin is None
    assert link.values == {"beta": 9.0}
    (notice,) = link.notices
    assert reason in notice
    assert "nothing is pinned" in notice


def test_a_pin_of_an_uploaded_file_is_refused():
    pin = f"1~table~{controls.ELSEWHERE.replace(' ', '+')}"
    assert "uploaded file" in controls.read_link("landscape", {"pin": [pin]}).notices[0]
