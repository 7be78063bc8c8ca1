"""Glossary: the words of the lab, each in one or two sentences, with where to see it and who said it."""

from __future__ import annotations

import html

import streamlit as st

from pages import catalog
from pages.ui import terms

PAGE = "glossary"
LEAD = (
    "The words this lab uses, each in a sentence or two, in the order one may learn them. Dotted words on "
    "the other pages lead here."
)


def render() -> None:
    with st.container(key="lab-head"):
        entry = catalog.page(PAGE)
        st.html(f'<p class="lab-eyebrow">{entry.group}</p><h1 class="lab-h1">{entry.title}</h1>')
        st.markdown(LEAD)
    asked = _field()
    shown = terms.found(asked)
    if asked:
        _count(asked, len(shown))
    # One element: sixty would keep a browser busy for a second.
    body = "\n\n".join(_entry(t) for t in shown)
    with st.container(key="lab-terms"):
        st.markdown(body, unsafe_allow_html=True)


def _field() -> str:
    """The search field. A link's `term` is put into it once: the reader may then look for another."""
    linked = st.query_params.get("term", "")
    if linked != st.session_state.get(f"{PAGE}~linked"):
        st.session_state[f"{PAGE}~linked"] = linked
        known = terms.term(linked)
        st.session_state[f"{PAGE}-search"] = known.name if known else linked[:80]
    return st.text_input(
        "Find a word", key=f"{PAGE}-search", max_chars=80, icon=":material/search:",
        placeholder="margin, β, ridge, …", persist_state="session",
    ).strip()  # fmt: skip


def _count(asked: str, n: int) -> None:
    known = f"{n} of {len(terms.TERMS)} words"
    text = (
        known
        if n
        else f"No word here holds “{html.escape(asked)}”. Try a shorter one, or a symbol."
    )
    st.html(f'<p class="lab-note" role="status">{text}</p>')
    st.button("Show all words", key=f"{PAGE}~all", on_click=_all)


def _all() -> None:
    st.session_state[f"{PAGE}-search"] = ""


def _entry(t: terms.Term) -> str:
    symbol = f"${t.symbol}$ &ensp;" if t.symbol else ""
    where = ", ".join(f"[{_title(link)}]({link})" for link in t.see)
    return (
        f'<h2 id="{t.key}"><a href="{terms.address(t.key)}">{html.escape(t.name)}</a></h2>\n\n'
        f"{symbol}{t.says}\n\n<small>See it: {where}. *{t.source}.*</small>"
    )


def _title(link: str) -> str:
    return catalog.page(link.split("?")[0]).title
