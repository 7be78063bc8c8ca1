"""Pin the picture as A, move a control, see B beside it.

What is pinned lives in the session, and its settings in the page's link (`pin=`). After a reload A is made again once,
by a visit that nobody sees; a moved control never makes it again.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.ui import compare, lesson, panel, unseen, uploads
from pages.ui.chart_view import chart_view
from pages.ui.charts import Figure
from pages.ui.compare import Compared
from pages.ui.shown import Shown
from pages.ui.words import sentence


@dataclass
class Pinned:
    """A of one page, and where its words stand. `shown` is None until A has been drawn in this session."""

    page: str
    values: Mapping[str, Any]
    shown: Shown | None = None
    place: Any = None

    def other(self, values: Mapping[str, Any]) -> Shown | None:
        """A, if these settings are not A's own."""
        return self.shown if dict(values) != dict(self.values) else None

    def beside(self, key: str, figure: Figure, values: Mapping[str, Any]) -> Compared | None:
        a = self.other(values)
        return compare.compared(key, figure, a) if a else None

    def finish(self, b: Shown, stage: Any) -> None:
        """The words above the pictures and the numbers below them."""
        a = self.other(b.values)
        if dict(b.values) == dict(self.values):
            keep(self.page, self.values, b)
        elif a is None:  # the page was asked for A at first, and refused it in the words above
            forget(self.page)
            return
        with self.place:
            _bar(self, a, b)
        if a is None:
            return
        with stage:
            table = compare.numbers(a, b)
            said = "".join(f"<p><b>A said:</b> {text}</p>" for text in map(_bare, a.said))
            if table or said:
                st.html(
                    f'<div class="lab-compared">{table.html() if table else ""}'
                    f'<div class="lab-said">{said}</div></div>'
                )


def _bare(markdown: str) -> str:
    from pages.ui import report

    return report.inline(" ".join(markdown.split()))


def pinned(page: str) -> Pinned | None:
    """What is pinned in this session; at first, what the page's link pins."""
    if f"{page}~pin" not in st.session_state and (values := panel.pinned_by_link(page)) is not None:
        keep(page, values, None)
    return st.session_state.get(f"{page}~pin")


def keep(page: str, values: Mapping[str, Any], shown: Shown | None) -> None:
    st.session_state[f"{page}~pin"] = Pinned(page, dict(values), shown)


def forget(page: str) -> None:
    st.session_state[f"{page}~pin"] = None


def take_up(
    page: str, values: Mapping[str, Any], stage: Any, render: Callable[[], None] | None
) -> Pinned | None:
    """What is pinned on this page, ready to be compared with, and its place at the top of the stage. `render`
    draws the page; without it, its module is asked."""
    a = pinned(page)
    if a is None:
        return None
    with stage:
        place = st.container(key="lab-pin")
    shown = a.shown
    if shown is None and dict(values) != dict(a.values):
        with place:
            slot = st.empty()
        try:
            shown = _made_again(a, slot, render)
        except ValueError as reason:
            forget(page)
            slot.warning(
                f"The pinned picture A cannot be drawn: {sentence(str(reason))} The pin was taken off."
            )
            return None
        slot.empty()
        keep(page, a.values, shown)
    return Pinned(page, a.values, shown, place)


def _made_again(a: Pinned, slot: Any, render: Callable[[], None] | None) -> Shown:
    session = {}
    if (upload := uploads.current()) is not None:
        session[uploads.PLACE] = upload

    def waiting() -> None:
        slot.caption("Drawing the pinned picture A once more …")  # and here a moved control ends it

    return unseen.visit(a.page, a.values, render=render, session=session, waiting=waiting)


def _pin(b: Shown) -> None:
    keep(b.page, b.values, b)
    st.toast("Pinned as A. Move a control to compare.")


def button(b: Shown) -> None:
    """Pin what is shown, in place of what was pinned."""
    st.button(
        "Pin as A", key=f"{b.page}~pin-button", on_click=_pin, args=(b,),
        help="Keep this picture. Then move a control: the new picture, B, is compared with it.",
    )  # fmt: skip


def _bar(pin: Pinned, a: Shown | None, b: Shown) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if a is None:
            st.html(
                '<p class="lab-pin-words"><b>A</b> is pinned and shown. Move a control, and B is compared with it.</p>'
            )
        else:
            words = compare.settings_in_words(b.page, a.values, b.values)
            words = html.escape(words) or "nothing that counts in this picture differs"
            st.html(f'<p class="lab-pin-words"><b>A → B</b> {words}</p>')
            st.button("Back to A", key=f"{pin.page}~pin-back", on_click=_back, args=(pin.page, a))
            st.button(
                "Swap", key=f"{pin.page}~pin-swap", on_click=_swap, args=(pin.page, a, b),
                help="B becomes the pinned one, and the controls go to A.",
            )  # fmt: skip
        st.button("Unpin", key=f"{pin.page}~pin-off", on_click=forget, args=(pin.page,))


def _back(page: str, a: Shown) -> None:
    from pages.ui import frame

    panel.forget_notices(page)
    locked = lesson.of(page).locked
    frame.move(page, {key: value for key, value in a.values.items() if key not in locked})


def _swap(page: str, a: Shown, b: Shown) -> None:
    keep(page, b.values, b)
    _back(page, a)


def difference(page: str, key: str, compared: Compared) -> None:
    """What stands below a picture of B: B − A, or why there is none."""
    if compared.difference is not None:
        chart_view(
            compared.difference, key=f"{page}-{key}-difference", alt=compared.alt,
            file_name=f"{page}-{key}-difference",
        )  # fmt: skip
    if compared.note:
        st.caption(compared.note)
