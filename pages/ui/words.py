"""Text that somebody typed, uploaded or put into a link, made fit to stand among the lab's own words.

Streamlit's sentences are Markdown with formulas and links, its charts take a little HTML. Whatever came from
outside passes through one of these on its way there.
"""

from __future__ import annotations

import html
import re

_MARKS = re.compile(r"[\\`*_{}\[\]<>()#$~|&]")
_SPAN = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_JOINER = "\u2060"  # shows as nothing, and keeps an address from turning into a link


def plain(text: str) -> str:
    """Markdown that shows this text as it is: no emphasis, formula, link, picture or HTML."""
    return _MARKS.sub(r"\\\g<0>", _ADDRESS.sub(_JOINER, " ".join(text.split())))


def sentence(text: str) -> str:
    """A message of the engine, which may quote what came in: its `code` stays, all else is plain."""
    text = " ".join(text.split())
    parts, end = [], 0
    for span in _SPAN.finditer(text):
        parts += [_spaced(text[end : span.start()]), span[0]]
        end = span.end()
    return "".join([*parts, _spaced(text[end:])])


def _spaced(text: str) -> str:
    """`plain`, with the blanks at either end that join it to its neighbours."""
    lead = " " if text[:1] == " " else ""
    tail = " " if text[1:] and text[-1] == " " else ""
    return f"{lead}{plain(text)}{tail}"


def unmarked(text: str) -> str:
    """What `plain` was given, up to blanks: for places that read no Markdown."""
    return re.sub(r"\\([\\`*_{}\[\]<>()#$~|&])", r"\1", text.replace(_JOINER, ""))


def in_chart(text: str) -> str:
    """A label of a chart, whose `<b>` and `<a>` plotly would obey."""
    return html.escape(text, quote=False)
