"""A page as one HTML file: claim, equation, pictures, numbers, settings, and where they come from.

It opens without a network and prints. Formulas are MathML, which browsers draw themselves.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pages import catalog
from pages.ui import charts, compare
from pages.ui.controls import in_effect, rows, value_in_words
from pages.ui.provenance import HOW, LAB, provenance
from pages.ui.shown import Facts, Shown

_STYLE = Path(__file__).with_suffix(".css")


def document(b: Shown, link: str, a: Shown | None = None) -> str:
    """The report of what a page shows.

    Args:
        b: what it shows.
        link: the page's permalink with these settings.
        a: what is pinned on it, if something is.
    """
    entry = catalog.page(b.page)
    block = provenance(b, link)
    body = "\n".join(
        [
            f'<p class="eyebrow">{html.escape(entry.group)}</p><h1>{html.escape(entry.title)}</h1>',
            paragraphs(b.lead),
            f'<p class="claim"><b>The claim that is tested.</b> {html.escape(entry.claim)}</p>'
            if entry.claim
            else "",
            *_equation(b),
            *_compared(a, b),
            "<h2>What to look for</h2>" if b.said else "",
            *map(paragraphs, b.said),
            *_pictures(a, b),
            *_tables(a, b),
            *(f"<h2>{html.escape(title)}</h2>{paragraphs(text)}" for title, text in b.folded),
            "<h2>Settings</h2>",
            _settings(a, b),
            *_origin(block),
        ]
    )
    from plotly.offline import get_plotlyjs

    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(entry.title)} - {LAB}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>{_STYLE.read_text(encoding="utf-8")}</style><script>{get_plotlyjs()}</script></head>
<body>
{body}
</body></html>
"""


def _equation(b: Shown) -> Iterator[str]:
    if b.formula:
        yield f'<div class="equation">{mathml(b.formula, display=True)}</div>'
    if b.symbols:
        lines = "".join(
            f"<tr><td>{mathml(symbol)}</td><td>{inline(text)}</td></tr>"
            for symbol, text in b.symbols.items()
        )
        yield f'<table class="symbols">{lines}</table>'


def _compared(a: Shown | None, b: Shown) -> Iterator[str]:
    if a is None:
        return
    words = compare.settings_in_words(b.page, a.values, b.values)
    yield "<h2>A, which is pinned, and B</h2>"
    yield f"<p><b>A → B</b> {html.escape(words) or 'nothing that counts in this picture differs'}.</p>"
    if table := compare.numbers(a, b):
        yield table.html()
    for text in a.said:
        yield paragraphs(f"**A said:** {text}")
    yield '<p class="note">All that follows is B, and A in grey where a picture has room for it.</p>'


def _pictures(a: Shown | None, b: Shown) -> Iterator[str]:
    for key, figure in b.figures.items():
        compared = compare.compared(key, figure, a) if a else compare.Compared(figure)
        yield _picture(compared.figure, b.alts.get(key, key))
        if compared.difference is not None:
            yield _picture(compared.difference, compared.alt)
        if compared.note:
            yield f'<p class="note">{html.escape(compared.note)}</p>'


def _picture(figure: charts.Figure, words: str) -> str:
    drawn = charts.resolved(figure).to_html(
        full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
    )
    return f"<figure>{drawn}<figcaption>{html.escape(words)}</figcaption></figure>"


def _tables(a: Shown | None, b: Shown) -> Iterator[str]:
    if b.tables:
        yield "<h2>Numbers</h2>"
    for table in b.tables:
        yield table.html()


def _settings(a: Shown | None, b: Shown) -> str:
    """Labels and values as they stand on the page; a control that is not drawn has no say."""
    columns = ("A", "B") if a else ("",)
    shown = [s for s in (a, b) if s is not None]
    counts = {row.key for s in shown for row in in_effect(s.page, s.values)}
    lines: list[tuple[str, ...]] = []
    section = ""
    for row in rows(b.page):
        if row.key not in counts:
            continue
        if row.section and row.section != section:
            section = row.section
            lines.append((f"<b>{html.escape(section)}</b>", *("" for _ in shown)))
        cells = (html.escape(value_in_words(row, s.values[row.key], 2000)) for s in shown)
        lines.append((html.escape(row.label), *cells))
    return Facts(columns, lines).html()


def _origin(block: dict[str, Any]) -> Iterator[str]:
    link = html.escape(block["link"])
    versions = ", ".join(f"{k} {v}" for k, v in block["versions"].items())
    yield "<h2>Where these numbers come from</h2>"
    seed = "" if block["seed"] is None else f" Seed {block['seed']}."
    yield f"<p>{LAB} {block['lab_version']}; {html.escape(versions)}.{seed}</p>"
    yield f'<p>The same settings in the lab: <a href="{link}">{link}</a></p>'
    for name, files in block["checkpoints"].items():
        sums = "".join(
            f'<tr><td>{html.escape(file)}</td><td class="sum">{html.escape(s)}</td></tr>'
            for file, s in files.items()
        )
        yield f"<table><caption>Checkpoint {html.escape(name)}, sha256</caption>{sums}</table>"
    cite = block["cite"]
    yield f"<h2>How to cite</h2><p>{HOW}</p>"
    yield f"<pre>{html.escape(cite['paper'])}</pre><pre>{html.escape(cite['lab'])}</pre>"


# ---- words ---------------------------------------------------------------------------------------


def mathml(latex: str, display: bool = False) -> str:
    """A formula as MathML."""
    from latex2mathml.converter import convert

    known = re.sub(
        r"\\arg(?![a-z])", r"\\operatorname{arg}", latex
    )  # which the library does not know
    return convert(known, display="block" if display else "inline")


_INLINE = re.compile(
    r"\$(?P<math>[^$]+)\$|`(?P<code>[^`]+)`|\*\*(?P<bold>.+?)\*\*|\*(?P<italic>[^*\s](?:[^*]*[^*\s])?)\*"
    r"|\[(?P<words>[^\]]+)\]\((?P<url>[^)\s]+)\)|\\(?P<plain>[\\`*_{}\[\]<>()#$~|&:-])",
    re.DOTALL,
)


def inline(markdown: str) -> str:
    """The markdown that the pages' sentences use, as HTML: bold, italic, code, links and formulas."""
    out, at = [], 0
    for m in _INLINE.finditer(markdown):
        out.append(_typed(markdown[at : m.start()]))
        at = m.end()
        if m["math"]:
            out.append(mathml(m["math"]))
        elif m["code"]:
            out.append(f"<code>{_typed(m['code'])}</code>")
        elif m["bold"]:
            out.append(f"<b>{inline(m['bold'])}</b>")
        elif m["italic"]:
            out.append(f"<i>{inline(m['italic'])}</i>")
        elif m["plain"]:
            out.append(html.escape(m["plain"]))
        elif m["url"].startswith(("http://", "https://")):
            out.append(f'<a href="{_typed(m["url"])}">{inline(m["words"])}</a>')
        else:  # a link within the lab leads nowhere from a file
            out.append(inline(m["words"]))
    out.append(_typed(markdown[at:]))
    return "".join(out)


def _typed(text: str) -> str:
    """Escaped; entities that the text already holds stay what they are."""
    return html.escape(html.unescape(text))


def paragraphs(markdown: str) -> str:
    """Paragraphs and lists of `- ` of such sentences."""
    out = []
    for part in re.split(r"\n\s*\n", markdown.strip()):
        if not part:
            continue
        lead, *items = re.split(r"(?m)^\s*- ", part)
        if lead.strip():
            out.append(f"<p>{inline(lead.strip())}</p>")
        if items:
            out.append("<ul>" + "".join(f"<li>{inline(i.strip())}</li>" for i in items) + "</ul>")
    return "\n".join(out)
