"""What a teacher's link puts on a page, and the builder that makes such a link. What it says stands in `lesson.py`."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import streamlit as st

from pages import tours
from pages.ui import lesson, panel, share
from pages.ui.controls import Control, Scenario, rows, write_link
from pages.ui.lesson import LONGEST, Lesson

STATES = ("free", "locked", "hidden")
NOW = "the settings as they stand now"


def banner(page: str) -> None:
    """Title and question of the lesson above the page. Both came with the address, so they are plain text."""
    asked = lesson.of(page)
    if not asked.stated():
        return
    with st.container(key="lab-lesson", gap="xsmall"):
        title = f'<p class="lab-lesson-title">{html.escape(asked.title)}</p>' if asked.title else ""
        question = (
            f'<p class="lab-lesson-question">{html.escape(asked.question)}</p>'
            if asked.question
            else ""
        )
        if title or question:
            st.html(title + question)
        if asked.restricts:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                held = [f"{len(asked.locked)} locked"] * bool(asked.locked)
                held += [f"{len(asked.hidden)} hidden"] * bool(asked.hidden)
                said = f"{' and '.join(held)} by this link."
                st.html(f'<p class="lab-note">Controls: {said}</p>', width="content")
                st.button(
                    "Show all controls", key=f"{page}~show-all", on_click=lesson.show_all, args=(page,),
                    type="tertiary", help="This lab is no exam: every control may be seen and moved.",
                )  # fmt: skip


def builder(page: str, scenarios: Sequence[Scenario]) -> None:
    """The Teach menu: what the page opens with, its words, and what of its controls can be seen and moved."""
    with st.popover("Teach", key=f"{page}~teach-menu", on_change="rerun") as menu:
        if not menu.open:
            return
        st.markdown("**A link for your class.** It opens this page as you set it here.")
        title = st.text_input("Title", max_chars=LONGEST["title"], key=f"{page}~teach-title")
        question = st.text_area(
            "Question", max_chars=LONGEST["question"], height=80, key=f"{page}~teach-question"
        )
        starts = _starts(page, scenarios)
        start = st.selectbox(
            "Opens with", list(starts), key=f"{page}~teach-start", filter_mode=None
        )
        link = st.container(key="lab-teach-link", gap="xsmall")
        st.markdown("**Controls**")
        with st.container(horizontal=True, gap="small"):
            for state in STATES:
                st.button(
                    f"All {state}",
                    key=f"{page}~teach-all-{state}",
                    on_click=_all,
                    args=(page, state),
                )
        states: dict[str, str] = {}
        with st.container(key="lab-teach-rows", gap="xsmall"):
            for section, group in groupby(rows(page), key=lambda row: row.section):
                if section:
                    st.html(f'<p class="lab-section">{section}</p>')
                for row in group:
                    states[row.key] = _state(row)
        asked = Lesson(
            title=lesson.clean(title or ""), question=lesson.clean(question or ""),
            locked=tuple(key for key, state in states.items() if state == "locked"),
            hidden=tuple(key for key, state in states.items() if state == "hidden"),
        )  # fmt: skip
        query = _query(page, starts[start], asked)
        with link:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                share.copy_link(page, query)
                st.link_button(
                    "Preview",
                    f"?{query}",
                    type="tertiary",
                    help="As your class sees it, in a new tab.",
                )
            st.caption(
                "Students can press *Show all controls*: the lab is no exam, and the link keeps no secret."
            )


def _starts(page: str, scenarios: Sequence[Scenario]) -> dict[str, Scenario | int | None]:
    """What the page can open with, by what the list says: as it stands, a scenario, or a step of its tour."""
    steps = tours.of(page)
    return (
        {NOW: None}
        | {f"scenario: {s.label}": s for s in scenarios}
        | {f"tour, step {n} of {len(steps)}": n for n in range(1, len(steps) + 1)}
    )


def _query(page: str, start: Scenario | int | None, asked: Lesson) -> str:
    """The link's query. It states every control, so that no later default changes what a class sees."""
    more: dict[str, str] = {}
    settings: dict[str, Any] = panel.values(page)
    if isinstance(start, Scenario):
        settings = start.settings(page)
    elif isinstance(start, int):
        settings = tours.of(page)[start - 1].settings(page)
        more = {"tour": str(start)}
    return write_link(page, settings, more=more | asked.stated())


def _state(row: Control) -> str:
    with st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    ):
        st.html(f'<span class="lab-teach-name">{html.escape(row.label)}</span>', width="content")
        key = f"{row.name}~teach"
        st.session_state.setdefault(key, STATES[0])
        return st.segmented_control(
            row.label, STATES, key=key, required=True, label_visibility="collapsed", wrap=False
        )


def _all(page: str, state: str) -> None:
    for row in rows(page):
        st.session_state[f"{row.name}~teach"] = state
