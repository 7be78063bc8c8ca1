"""A lesson: what a teacher's link asks of a page beside its settings. No widgets here: `teach.py` draws them.

`title=` and `question=` stand above the page, `lock=beta,noise` shows controls that cannot be moved, `hide=seed` leaves
controls out. The lab is no exam: one click shows all controls again, and nothing here keeps a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import streamlit as st

from pages.ui.controls import printable, rows

LONGEST = {"title": 80, "question": 400}
"""Characters of the words a link may put on a page."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What a teacher's link asks for. `locked` and `hidden` are keys of the page's controls, in its order."""

    title: str = ""
    question: str = ""
    locked: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    @property
    def restricts(self) -> bool:
        return bool(self.locked or self.hidden)

    def stated(self) -> dict[str, str]:
        """The parameters a link spells it with; `{}` for no lesson."""
        words = {"title": self.title, "question": self.question}
        lists = {"lock": ",".join(self.locked), "hide": ",".join(self.hidden)}
        return {name: text for name, text in (words | lists).items() if text}


def clean(text: str) -> str:
    """One line of what can be seen: no control characters, and none that turn the direction of the text."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def read(page: str, query: Mapping[str, list[str]]) -> tuple[Lesson, tuple[str, ...]]:
    """The lesson of a link, and what was wrong with it. What is wrong costs that value only."""
    notices: list[str] = []
    words = {}
    for name, longest in LONGEST.items():
        text = clean(query.get(name, [""])[-1])
        if len(text) > longest:
            notices.append(
                f"`{name}` is longer than {longest} characters ({len(text)}) and was left out."
            )
            text = ""
        words[name] = text
    known = [row.key for row in rows(page)]
    named: dict[str, set[str]] = {}
    for name, verb in (("lock", "lock"), ("hide", "hide")):
        given = {part.strip() for part in query.get(name, [""])[-1].split(",")} - {""}
        unknown = sorted(given - set(known))
        if unknown:
            listed = ", ".join(f"`{printable(part, 20)}`" for part in unknown[:4])
            more = ", …" if len(unknown) > 4 else ""
            notices.append(
                f"The link asks to {verb} {listed}{more}: this page has no such control. It has "
                f"{', '.join(known)}."
            )
        named[name] = given & set(known)
    hidden = tuple(key for key in known if key in named["hide"])
    locked = tuple(key for key in known if key in named["lock"] - named["hide"])
    return Lesson(**words, locked=locked, hidden=hidden), tuple(notices)


def of(page: str) -> Lesson:
    """The lesson this session's visit to the page is in; an empty one if none."""
    return st.session_state.get(f"{page}~lesson", Lesson())


def begin(page: str, lesson: Lesson) -> None:
    st.session_state[f"{page}~lesson"] = lesson


def show_all(page: str) -> None:
    """The student wants every control. Title and question stay."""
    begin(page, replace(of(page), locked=(), hidden=()))
