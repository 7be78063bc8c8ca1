"""Files that leave the lab."""

import csv
import io
import json
from html.parser import HTMLParser

import numpy as np
import pytest

from pages.ui import charts, share


def table(figures):
    return list(csv.DictReader(io.StringIO(share.table_csv(figures))))


def test_csv_holds_every_cell_of_a_heatmap_at_its_place():
    z = np.arange(6.0).reshape(2, 3)
    fig = charts.figure(charts.heatmap(z, np.array([10.0, 20, 30]), np.array([1.0, 2]), "energy"))
    rows = table({"plane": fig})
    got = {(float(r["x"]), float(r["y"])): float(r["z"]) for r in rows}
    assert got == {
        (x, y): z[j, i] for i, x in enumerate((10, 20, 30)) for j, y in enumerate((1, 2))
    }
    assert {r["series"] for r in rows} == {"energy"}
    assert {r["picture"] for r in rows} == {"plane"}


def test_csv_numbers_survive_to_the_last_bit():
    y = np.random.default_rng(0).standard_normal(50)
    rows = table({"p": charts.lines(np.arange(50.0), {"a": y})})
    np.testing.assert_array_equal([float(r["y"]) for r in rows], y)


def test_csv_is_safe_to_open_in_a_spreadsheet():
    x = np.array([-1.0, 1.0])
    rows = table({"=cmd": charts.lines(x, {"@evil": x, "-2+3": x, " =x": x})})
    assert {r["series"] for r in rows} == {"'@evil", "'-2+3", "' =x"}
    assert {r["picture"] for r in rows} == {"'=cmd"}
    assert rows[0]["x"] == "-1.0"  # a number stays a number


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_formula_like_text_is_defused(text):
    assert share.safe_cell(text) == "'" + text


def test_settings_name_their_lab_and_link():
    body = json.loads(share.settings_json("demo", {"beta": 4.0, "on": True}, "http://x/demo?v=1"))
    assert body["settings"] == {"beta": 4.0, "on": True}
    assert body["page"] == "demo"
    assert body["link"].endswith("v=1")
    assert {"lab", "lab_version", "link_version"} <= body.keys()


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_html_needs_no_network_and_escapes_what_was_typed():
    x = np.arange(3.0)
    text = share.page_html(
        "A <b>title</b>", {"one": charts.lines(x, {"a": x})}, {"text": "<script>alert(1)</script>"},
        ["what to **look** for"], "http://x/?a=1&b=<",
    )  # fmt: skip
    tags = Tags()
    tags.feed(text)
    assert not [
        a for t, a in tags.found if t in ("script", "link", "img") and ("src" in a or "href" in a)
    ]
    assert "<b>title" not in text
    assert "alert(1)</script>" not in text
    assert "what to <b>look</b> for" in text


def test_a_snippet_says_where_it_comes_from_and_still_runs(capsys):
    link = "http://localhost/cut?v=1&cut-table=1%2C2%0A3"
    text = share.headed("print(6 * 7)\n", "cut", link)
    exec(compile(text, "cut.py", "exec"), {})
    assert capsys.readouterr().out == "42\n"
    assert link in text
    assert "PYTHONPATH=. .venv/bin/python cut.py" in text
