"""What somebody typed, uploaded or linked stands on a page as text, whatever it says."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pages.ui import charts, report, share, words
from tests.pages.visits import said, visit

HOSTILE = "<img src=x onerror=alert(1)> $x^2$ ![i](http://a.b/c) [l](http://d.e) **b** `c`"
MARKED = {"text", "softbreak", "text_special"}


def kinds(markdown):
    """What a CommonMark reader finds in one paragraph besides text; HTML is allowed, as on the page."""
    tokens = MarkdownIt("commonmark", {"html": True}).parse(f"so: {markdown} end")
    return {c.type for t in tokens for c in t.children or [t]} - {
        "paragraph_open",
        "paragraph_close",
    }


def shown(markdown):
    (inline,) = [t for t in MarkdownIt("commonmark").parse(markdown) if t.type == "inline"]
    return "".join(c.content for c in inline.children)


def test_the_hostile_text_would_do_something():
    assert {"html_inline", "image", "link_open", "strong_open", "code_inline"} <= kinds(HOSTILE)


@given(st.one_of(st.text(alphabet="`*_[]()<>$!\\ab&;:/#~", max_size=40), st.just(HOSTILE)))
def test_plain_text_is_nothing_but_text(text):
    assert kinds(words.plain(text)) <= MARKED
    assert not re.search(r"(?<!\\)(\\\\)*\$", words.plain(text))  # no formula either
    assert words.unmarked(words.plain(text)) == " ".join(text.split())


@given(st.text(alphabet="`*_[]()<>$!\\ab&;", max_size=40))
def test_a_sentence_keeps_code_and_nothing_else(text):
    assert kinds(words.sentence(text)) <= {*MARKED, "code_inline"}


def test_a_sentence_reads_as_it_was_meant():
    text = words.sentence("Give a file that `python -m models.sweep` wrote, not 'a_b*c'.")
    assert shown(text) == "Give a file that python -m models.sweep wrote, not 'a_b*c'."
    assert "`python -m models.sweep` wrote" in text


def test_an_address_is_no_link():
    text = words.plain("http://a.b and www.a.b")
    assert "://" not in text
    assert "www." not in text


SWEEP = "predictor,seed,n_examples,metric,value,low,high\n" + "".join(
    f"{HOSTILE},0,{n},pooled R2,0.{n},0.1,0.9\n" for n in (3, 5)
)


def test_a_sweep_from_a_link_is_shown_as_text():
    at = visit("regression", {"view": "sweep file", "sweep": SWEEP})
    assert words.plain(HOSTILE) in said(at)
    assert HOSTILE not in " ".join(m.value for m in at.markdown)


@pytest.mark.parametrize(
    ("page", "values"),
    [
        ("landscape", {"layout": "your table", "table": f"1,2\n{HOSTILE},4"}),
        ("regression", {"view": "sweep file", "sweep": SWEEP.replace("pooled R2", HOSTILE)}),
        ("text", {"task": "your data", "folder": f"/{HOSTILE}"}),
        ("text", {"model": f"/{HOSTILE}"}),
    ],
)
def test_a_refusal_quotes_as_text(page, values):
    at = visit(page, values)
    (warning, *_) = [w.value for w in at.warning]
    assert not kinds(warning) - {*MARKED, "code_inline"}, warning
    assert "img" in warning  # it does quote


def test_charts_and_exports_take_no_html():
    from core.sweep_table import parse

    (curve,) = parse(SWEEP).curves("pooled R2", "n_examples")
    fig = charts.sweep_lines("n_examples", [curve])
    assert all("<" not in t.get("name", "") for t in charts.base.raw(fig)[0])
    assert curve.name in share.table_csv({"sweep": fig})
    body = report.paragraphs(f"**{words.plain(HOSTILE)}** 1")
    assert "<img" not in body
    assert "onerror=alert(1)&gt; $x^2$ ![i]" in body.replace("\u2060", "")
    fig = charts.text_prompt(np.array([0]), [HOSTILE, "b"], 0, np.array([[0.5, 0.5]]))
    assert all("<" not in t["hovertemplate"].split(": ")[0] for t in charts.base.raw(fig)[0])
