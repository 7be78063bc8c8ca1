"""Files that leave the lab."""

import csv
import hashlib
import io
import json
from html.parser import HTMLParser

import numpy as np
import pytest

from models import zoo
from pages.ui import charts, controls, provenance, report, share
from pages.ui.shown import Facts, Shown

LINK = "http://x/retrieval?v=1&retrieval-beta=4&b=<"


def table(figures, source=""):
    return list(csv.DictReader(io.StringIO(share.table_csv(figures, source))))


def shown(**parts):
    x = np.arange(3.0)
    plain = {
        "page": "retrieval", "values": controls.defaults("retrieval"), "lead": "Lead.",
        "formula": r"y = \arg\max_k \tfrac{1}{k}", "symbols": {r"\beta": "sharpness"},
        "figures": {"one": charts.lines(x, {"a": x})}, "alts": {"one": "A line"}, "tables": (),
        "said": ("what to **look** for",), "folded": (), "snippet": "", "used": (),
    }  # fmt: skip
    return Shown(**(plain | parts))


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


def test_the_csv_says_once_where_it_comes_from_and_reads_as_a_table():
    x = np.arange(3.0)
    rows = table({"one": charts.lines(x, {"a": x, "b": x})}, "the lab; the link")
    assert [r["source"] for r in rows] == ["the lab; the link"] + [""] * 5
    assert [float(r["y"]) for r in rows] == [0, 1, 2, 0, 1, 2]


def test_settings_name_their_lab_link_libraries_and_how_to_cite():
    s = shown()
    body = json.loads(share.settings_json(s, provenance.provenance(s, LINK)))
    assert body["settings"] == dict(s.values)
    assert (body["page"], body["link"], body["seed"]) == ("retrieval", LINK, 0)
    assert body["versions"]["numpy"] == np.__version__
    assert "wu2025camr" in body["cite"]["paper"]
    assert LINK in body["cite"]["lab"]


def test_the_sums_of_a_checkpoint_are_those_of_its_files():
    folder = zoo.CHECKPOINTS / "linear-d5"
    block = provenance.provenance(shown(used=(("regressor", "linear-d5"),)), LINK)
    sums = block["checkpoints"]["linear-d5"]
    assert sums
    for file, said in sums.items():
        assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == said
    for text in (provenance.one_line(block), provenance.comment(block)):
        assert all(said in text for said in sums.values())


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def body_of(text):
    return text[text.index("<body>") :]


def test_a_report_needs_no_network_and_escapes_what_was_typed():
    typed = {"layout": "<script>alert(1)</script>"}
    text = report.document(shown(values=controls.defaults("retrieval") | typed), LINK)
    tags = Tags()
    tags.feed(text)
    foreign = [
        a for t, a in tags.found
        if t in ("script", "link", "img") and not str(a.get("src", a.get("href", "data:"))).startswith("data:")
    ]  # fmt: skip
    assert not foreign
    assert "alert(1)</script>" not in text
    assert "what to <b>look</b> for" in text


def test_a_report_says_settings_as_the_page_does_and_formulas_as_mathml():
    text = body_of(report.document(shown(), LINK))
    assert '<th scope="row">β inverse temperature</th><td>8</td>' in text
    assert "retrieval-beta</" not in text
    assert text.count("<math") == 2
    assert "\\" not in "".join(part.split("</math>")[0] for part in text.split("<math")[1:])


def test_a_report_of_a_pinned_page_holds_both():
    one, other = (
        shown(
            values=controls.defaults("retrieval") | {"beta": beta},
            tables=(Facts(("",), [("error", f"{beta:.2f}")]),),
            figures={"one": charts.lines(np.arange(3.0), {"a": np.full(3, beta)})},
        )
        for beta in (8.0, 20.0)
    )
    text = body_of(report.document(other, LINK, one))
    assert "β inverse temperature 8 → 20" in text
    assert "<td>8.00</td><td>20.00</td><td>+12.00</td>" in text
    assert "A: a" in text
    assert text.count('class="plotly-graph-div"') == 2, "the picture and B − A"


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("**a *b* c** `x_1` < 3", "<b>a <i>b</i> c</b> <code>x_1</code> &lt; 3"),
        ("[words](https://x.org/a_b) and [here](/text?v=1)",
         '<a href="https://x.org/a_b">words</a> and here'),
        (r"2 \* 3 * 4", "2 * 3 * 4"),
    ],
)  # fmt: skip
def test_the_sentences_markdown_becomes_html(markdown, html):
    assert report.inline(markdown) == html


def test_a_snippet_says_where_it_comes_from_and_still_runs(capsys):
    link = "http://localhost/cut?v=1&cut-table=1%2C2%0A3"
    block = provenance.provenance(shown(page="cut"), link)
    text = share.headed("print(6 * 7)\n", block)
    exec(compile(text, "cut.py", "exec"), {})
    assert capsys.readouterr().out == "42\n"
    assert link in text
    assert "PYTHONPATH=. .venv/bin/python cut.py" in text
