"""Reports of every page without a browser, and what a pinned page costs."""

import re
from html import unescape
from urllib.parse import urlsplit

import pytest

from pages import catalog, report
from pages.ui import compare, controls, frame, pin, share, unseen
from tests.pages.visits import visit

PAGES = [e.name for e in catalog.PAGES if controls.rows(e.name) and e.name != "checkpoints"]

SMALL = {"ghosts": {"restarts": 1, "steps": 40}, "text": {"examples": 1, "queries": 8}}
"""Settings of pages whose defaults take long."""


@pytest.fixture
def menu(monkeypatch):
    """What the page last handed to its Export menu: what it shows, and what is pinned."""
    handed = []
    monkeypatch.setattr(share, "exports", lambda shown, a=None: handed.append((shown, a)))
    return handed


def numbers(shown):
    return [[row for table in shown.tables for row in table.rows], shown.said, shown.folded]


@pytest.mark.parametrize("name", PAGES)
def test_the_command_and_the_menu_report_the_same(name, menu):
    visit(name, SMALL.get(name, {}))
    ours, _ = menu[-1]
    page, text = report.report(f"{name}?{controls.write_link(name, ours.values)}")
    theirs = unseen.visit(name, ours.values)
    assert page == name
    assert numbers(theirs) == numbers(ours)
    assert theirs.snippet == ours.snippet
    assert list(theirs.figures) == list(ours.figures)
    shown = text[text.index("<body>") :]
    assert shown.count('class="plotly-graph-div"') == len(ours.figures) > 0
    for value in re.findall(r"\*\*(-?\d+\.\d+)\*\*", " ".join(ours.said)):
        assert f"<b>{value}</b>" in shown
    assert catalog.page(name).claim in unescape(shown)
    formulas = "".join(part.split("</math>")[0] for part in shown.split("<math")[1:])
    assert formulas
    assert "\\" not in formulas


def test_a_pin_in_a_link_is_drawn_once_and_a_moved_control_does_not_draw_it_again(
    menu, monkeypatch
):
    drawn = []
    original = unseen.visit
    monkeypatch.setattr(pin.unseen, "visit", lambda *a, **k: drawn.append(a) or original(*a, **k))
    at = visit("retrieval", {"noise": 0.4}, pin="1~noise~0.3")
    b, a = menu[-1]
    assert (a.values["noise"], b.values["noise"]) == (0.3, 0.4)
    assert numbers(a) != numbers(b)
    at.number_input(key="retrieval-beta").set_value(20.0).run()
    b, again = menu[-1]
    assert b.values["beta"] == 20.0
    assert numbers(again) == numbers(a)
    assert len(drawn) == 1
    words = "".join(str(h.value) for h in at.get("html"))
    assert "β inverse temperature 8 → 20, noise of the query 0.3 → 0.4" in words
    at.button(key="retrieval~pin-swap").click().run()
    b, swapped = menu[-1]
    assert numbers(b) == numbers(a)
    assert swapped.values["beta"] == 20.0
    at.button(key="retrieval~pin-back").click().run()
    b, none = menu[-1]
    assert none is None
    assert b.values["beta"] == 20.0
    at.button(key="retrieval~pin-off").click().run()
    assert not [w for w in at.button if w.key.startswith("retrieval~pin-o")]
    assert len(drawn) == 1
    assert not at.exception


def test_a_pin_the_page_cannot_draw_is_taken_off_with_the_reason():
    for own in (
        {},
        {"n": 100, "length": 50},
    ):  # B is another setting, or the very one that is refused
        at = visit("regression", own, pin="1~n~100~length~50")
        assert any("n = 100 lies past the longest prompt" in w.value for w in at.warning)
        assert not [w for w in at.button if w.key == "regression~pin-off"]
        assert "pin=" not in "".join(str(h.value) for h in at.get("html") if "data-link" in h.value)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("nowhere?v=1", "expected a link to one of landscape"),
        ("http://[", "expected a link, got"),
        ("http://localhost:8501/home", "expected a link to one of"),
        ("landscape?landscape-noise=2000", "is outside"),
        ("landscape?v=1&pin=2", "no pin"),
        ("landscape?preset=none", "is no scenario"),
        ("regression?regression-n=100&regression-length=50", "past the longest prompt"),
        ("landscape?landscape-table=%28an+uploaded+file%29", "uploaded file"),
    ],
)
def test_a_bad_link_is_one_sentence_and_exit_code_2(link, said, capsys, tmp_path):
    assert report.main([link, "-o", str(tmp_path / "r.html")]) == 2
    out = capsys.readouterr()
    assert said in out.err
    assert "Traceback" not in out.err
    assert not list(tmp_path.iterdir())


def test_the_reports_link_leads_back_to_both_settings(tmp_path, capsys):
    path = tmp_path / "r.html"
    link = "https://lab.example/retrieval?v=1&retrieval-noise=0.4&retrieval-draws=50&pin=1~draws~50"
    assert report.main([link, "-o", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(path)
    text = path.read_text()
    assert "noise of the query 0.2 → 0.4" in text
    found = unescape(re.search(r'in the lab: <a href="([^"]+)"', text)[1])
    assert urlsplit(found).netloc == "lab.example"
    assert "pin=1~draws~50" in found
    assert "retrieval-noise=0.4" in found


def test_slices_are_worked_to_their_end():
    """A page that computes in slices asks for the next one; a visit that nobody sees goes on by itself."""
    done = []

    def render():
        page = frame.open_page("retrieval", dict, lead="")
        done.append(1)
        page.look_for(f"slice {len(done)}")
        page.finish("")
        if len(done) < 3:
            page.again()

    shown = unseen.visit("retrieval", controls.defaults("retrieval"), render=render)
    assert shown.said == ("slice 3",)


def test_a_visit_that_nobody_waits_for_is_given_up():
    class Enough(Exception):
        pass

    def waiting():
        raise Enough

    with pytest.raises(Enough):
        unseen.visit("retrieval", controls.defaults("retrieval"), waiting=waiting)


def test_the_compared_numbers_are_those_of_the_pages():
    base = controls.defaults("retrieval") | {"draws": 50}
    a, b = (unseen.visit("retrieval", base | {"noise": noise}) for noise in (0.2, 0.4))
    for label, old, new, change in compare.numbers(a, b).rows:
        assert old in " ".join(a.said) or any(old in row for t in a.tables for row in t.rows), label
        assert new in " ".join(b.said) or any(new in row for t in b.tables for row in t.rows), label
        if "." in change and "%" not in old and "e" not in old:
            minus = float(change.split()[0].replace("−", "-"))
            assert minus == pytest.approx(float(new) - float(old), abs=1e-9), label
