"""Walks through the tours of `pages/tours.py`: the bar above the pictures, its keys, and the step in the address.

A step moves the page's controls when it is taken and then lets go: they can be moved at every step, and stay as
they are when the tour is left.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

import streamlit as st

from pages import catalog
from pages.tours import LAB, Step, of
from pages.ui import lesson, panel
from pages.ui.component import component
from pages.ui.controls import LINK_VERSION, printable, rows

PARTS = {
    "picture": ".st-key-lab-stage .lab-chart",
    "sentence": ".st-key-lab-stage .lab-look",
    "numbers": ".st-key-lab-stage :is(.lab-facts, .lab-tables)",
    "scenarios": ".st-key-lab-scenarios",
    "equation": ".st-key-lab-equation",
    "refuted": ".st-key-lab-stage .stExpander",
    "share": ".st-key-lab-share",
}
"""Parts of a page a step may speak of, beside its controls: what the browser finds them by."""

_AT = "lab~tour"  # (tour, number of the step from 1), in the session; absent outside a tour
_DUE = "lab~tour-due"  # the step has been taken and its controls are still to be moved

_keys = component("tour_keys", html='<span class="lab-tour-keys"></span>')


def page_of(tour: str, step: Step) -> str:
    """The page a step stands on."""
    return step.page if tour == LAB else tour


def read(
    page: str, query: Mapping[str, list[str]]
) -> tuple[tuple[str, int] | None, tuple[str, ...]]:
    """The step a link asks for, `tour=3` or `tour=lab-3`, and what was wrong with it."""
    if "tour" not in query:
        return None, ()
    text = query["tour"][-1]
    tour, number = (
        (LAB, text.removeprefix(f"{LAB}-")) if text.startswith(f"{LAB}-") else (page, text)
    )
    shown, known = f"`tour={printable(text, 20)}`", of(tour)
    if not re.fullmatch("[0-9]{1,3}", number) or not 1 <= int(number) <= len(known):
        whose = "the lab's tour" if tour == LAB else "this page's tour"
        has = f"it has steps 1 to {len(known)}" if known else "there is none"
        return None, (f"{shown} is no step of {whose}: {has}.",)
    other = page_of(tour, known[int(number) - 1])
    if other != page:
        title = catalog.page(other).title
        return None, (f"{shown} stands on the page {title}, not here, and had no effect.",)
    return (tour, int(number)), ()


def here(page: str) -> tuple[str, int, Step] | None:
    """Tour, number and step that stand on this page now."""
    at = st.session_state.get(_AT)
    if at is None:
        return None
    tour, number = at
    step = of(tour)[number - 1]
    return (tour, number, step) if page_of(tour, step) == page else None


def stated(page: str) -> dict[str, str]:
    """The parameter a link to this page states its step with."""
    at = here(page)
    if at is None:
        return {}
    tour, number, _ = at
    return {"tour": f"{LAB}-{number}" if tour == LAB else str(number)}


def begin(at: tuple[str, int]) -> None:
    """A link opens at this step: its settings are read with the link's own."""
    st.session_state[_AT] = at


def go(tour: str, number: int) -> None:
    """Callback: take this step. The controls move when the page runs."""
    st.session_state[_AT], st.session_state[_DUE] = (tour, number), True


def leave() -> None:
    """Callback: the tour ends and everything stays as it is."""
    st.session_state.pop(_AT, None)
    st.session_state.pop(_DUE, None)


def follow(page: str) -> None:
    """Before anything is drawn: move the controls of a step just taken, or go to the page it stands on."""
    if not st.session_state.get(_DUE):
        return
    tour, number = st.session_state[_AT]
    step = of(tour)[number - 1]
    other = page_of(tour, step)
    if other != page:
        st.switch_page(catalog.link(catalog.page(other)))
    st.session_state[_DUE] = False
    panel.forget_notices(page)
    settings, said = settable(page, step)
    panel.set_values(page, settings)
    panel.note(page, said)


def settable(page: str, step: Step) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of a step, and what of them cannot be set here: a checkpoint that this lab does not have."""
    settings = step.settings(page)
    said = []
    for row in rows(page):
        try:
            row.check(settings[row.key])
        except ValueError as reason:
            said.append(
                f"This step of the tour sets {row.label} to {settings[row.key]}, which {reason}; the default stands."
            )
            settings[row.key] = row.default_of(LINK_VERSION)
    return settings, tuple(said)


def start_button(page: str) -> None:
    """Begins the page's own tour."""
    if of(page) and here(page) is None and not lesson.of(page).restricts:
        st.button(
            "Tour", key=f"{page}~tour", on_click=go, args=(page, 1),
            help=f"{len(of(page))} steps through this page. They move the controls and then let go.",
        )  # fmt: skip


def bar(page: str) -> None:
    """The step that stands on this page, with the ways on, back and out."""
    at = here(page)
    if at is None:
        return
    tour, number, step = at
    last = len(of(tour))
    whose = "Tour of the lab" if tour == LAB else "Tour of this page"
    with st.container(key="lab-tour", gap="xsmall"):
        st.html(
            f'<p class="lab-eyebrow">{whose} · {number} of {last}</p>'
            f'<p class="lab-tour-say" role="status">{_html(step.say)}</p>'
        )
        with st.container(
            horizontal=True, vertical_alignment="center", gap="small", key="lab-tour-ways"
        ):
            st.button(
                "Back",
                key="lab-tour-back",
                on_click=go,
                args=(tour, number - 1),
                disabled=number == 1,
            )
            if number < last:
                st.button(
                    "Next",
                    key="lab-tour-next",
                    on_click=go,
                    args=(tour, number + 1),
                    type="primary",
                )
            st.button(
                "Leave the tour" if number < last else "Finish", key="lab-tour-leave", on_click=leave,
                type="tertiary" if number < last else "primary",
            )  # fmt: skip
            st.html('<span class="lab-tour-hint">Keys ← → Esc. Every control can be moved.</span>')
        _keys(data={"step": f"{tour}-{number}", "at": selector(page, step.at)}, key="lab-tour-keys")


def selector(page: str, at: str) -> str:
    """What the browser finds a part of the page or a control by."""
    if at in PARTS:
        return PARTS[at]
    assert any(row.key == at for row in rows(page)), at
    control = f".st-key-{page}-{at}"
    return f".stVerticalBlock:has(> {control}-slider), {control}"  # a slider with its field


def _html(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(text))
