"""Draws a page's controls and returns their values. What a control is stands in `controls.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import streamlit as st

from pages.ui import lesson, words
from pages.ui.controls import (
    ELSEWHERE,
    LINK_VERSION,
    Choice,
    Control,
    Number,
    Text,
    Toggle,
    in_effect,
    read_link,
    rows,
)

KEPT: dict[str, Any] = {"persist_state": "session"}
# Why not `bind="query-params"`: seen in Chromium, a bound widget that a callback moves (the field when its
# slider is dragged, every control of a scenario) pushes an entry of the browser's history each time, so that
# Back walks through slider positions and through half of a scenario; it drops defaults from the address, reads
# 2.5 as 2, and sends one more message a rerun. Here the address is read once, below, and written by the
# Copy-link component, which replaces the history entry.


def opened(page: str) -> bool:
    """Whether the page has run in this session."""
    return f"{page}~link" in st.session_state


def open_link(
    page: str,
    presets: Mapping[str, Mapping[str, Any]],
    step: Mapping[str, Any] | None = None,
) -> bool:
    """On the page's first run in a session, take the settings from the address. Whether it was that run.
    What the address states counts before the settings of a tour's `step`.

    What was wrong with it stays in `notices(page)` until a control moves.
    """
    if opened(page):
        return False
    link = read_link(page, {k: st.query_params.get_all(k) for k in st.query_params}, presets)
    st.session_state[f"{page}~link"] = link
    base = {row.key: row.default_of(link.version) for row in rows(page)}
    preset = presets[link.preset] if link.preset else {}
    set_values(page, base | dict(preset) | dict(step or {}) | link.values)
    return True


def version(page: str) -> int:
    """The link version this session reads the page's address with."""
    link = st.session_state.get(f"{page}~link")
    return link.version if link else LINK_VERSION


def pinned_by_link(page: str) -> dict[str, Any] | None:
    """The settings that the link this session opened the page with pins."""
    link = st.session_state.get(f"{page}~link")
    return link.pin if link else None


def notices(page: str) -> tuple[str, ...]:
    return st.session_state[f"{page}~link"].notices if f"{page}~link" in st.session_state else ()


def note(page: str, notices: Iterable[str]) -> None:
    """Add to the notices on the page's link."""
    link = st.session_state[f"{page}~link"]
    st.session_state[f"{page}~link"] = replace(link, notices=(*link.notices, *notices))


def forget_notices(page: str) -> None:
    link = st.session_state.get(f"{page}~link")
    if link is not None and link.notices:
        st.session_state[f"{page}~link"] = replace(link, notices=())


def set_values(page: str, values: Mapping[str, Any]) -> None:
    """Move controls from code: a scenario, a click on a picture, a tour step. Call it before the widgets
    are drawn, so from a callback. Values are checked like a link's."""
    known = {row.key: row for row in rows(page)}
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"page {page!r} has no control {key!r}; it has {', '.join(known)}")
        row = known[key]
        if isinstance(row, Text) and row.upload:
            hold(row, value)
            if row.holds(value):
                continue
        st.session_state[row.name] = row.check(value)


def hold(row: Text, value: str | bytes | None, file: str = "") -> None:
    """Keep an uploaded value that is too large for the field, which then says so; anything else frees the
    place."""
    place = f"{row.page}~{row.key}-held"
    before = st.session_state.get(place)
    if value is not None and row.holds(value):
        known = before[0] if before and before[1] == value else "A file"
        st.session_state[place] = (file or known, value)
        st.session_state[row.name] = ELSEWHERE
    elif before:
        del st.session_state[place]
        if st.session_state.get(row.name) == ELSEWHERE:
            st.session_state[row.name] = row.default_of(version(row.page))


def _held(row: Control) -> tuple[str, Any] | None:
    return st.session_state.get(f"{row.page}~{row.key}-held")


def values(page: str) -> dict[str, Any]:
    """The settings as they stand, before or after their widgets are drawn, and for those not drawn."""
    return {row.key: _value(row) for row in rows(page)}


def _value(row: Control) -> Any:
    held = _held(row)
    if held is not None:
        return held[1]
    value = st.session_state.get(row.name)
    gone = isinstance(row, Choice) and value not in row.offered()
    return row.default_of(version(row.page)) if value is None or gone else value


def picture(page: str) -> str:
    """Key of the fragment that draws the page's pictures."""
    return f"{page}~picture"


def foot(page: str) -> str:
    """Key of the fragment that draws what is folded away below the pictures."""
    return f"{page}~foot"


def fold(page: str, words: list[tuple[str, str]], *, whole: bool) -> bool:
    """Note what the foot is to say; `whole`: in a run of all the page. Whether it says something else now and
    is not drawn in this run."""
    changed = words != folded(page)
    st.session_state[f"{page}~folded"] = words
    due = st.session_state.pop(f"{page}~foot-due", False)
    if not changed or due or whole:
        return False
    st.session_state[f"{page}~foot-live"] = (
        True  # it follows numbers: from now on, draw it with them
    )
    return True


def folded(page: str) -> list[tuple[str, str]]:
    return st.session_state.get(f"{page}~folded", [])


def framed(page: str) -> bool:
    """Whether the page runs as fragments that a callback can rerun one by one."""
    return bool(st.session_state.get(f"{page}~framed"))


def surrounded(page: str, *seen: Callable[[Mapping[str, Any]], Any]) -> None:
    """Note what the words around the picture depend on, to see when a moved control changes them."""
    formula, scenario = seen
    st.session_state[f"{page}~words"] = {"head": formula, "scenes": scenario}
    st.session_state.pop(f"{page}~due", None)


def drawn(page: str, whole: bool) -> None:
    """Note whether a run of all the page has come to its end. A moved control, or a refusal with nothing to
    draw, can end it in the picture: then the foot is not there to be rerun."""
    st.session_state[f"{page}~whole"] = whole


def _rerun(page: str, parts: list[str]) -> None:
    """In a callback: rerun the picture and these parts, or all of a page that has not stood there whole."""
    if not st.session_state.get(f"{page}~whole"):
        st.rerun()
    st.rerun([picture(page), *parts])


def rerun_all(page: str) -> None:
    """In a callback that moved controls from code: rerun all that depends on them."""
    if framed(page):
        st.session_state[f"{page}~due"] = True
        st.session_state[f"{page}~foot-due"] = True
        parts = ("panel", "scenes", "head", "foot")
        _rerun(page, [f"{page}~{part}" for part in parts])


def taken_up(page: str) -> None:
    """The picture now runs with the values as they stand."""
    st.session_state[f"{page}~running"] = st.session_state.pop(f"{page}~due", False)


def outdated(page: str) -> bool:
    """Whether a control shows another value than it has, which no rerun under way will mend."""
    if st.session_state.get(f"{page}~running"):  # a control was moved, and nothing else
        return False
    now = values(page)
    return any(now[key] != value for key, value in st.session_state[f"{page}~shown"].items())


def draw(page: str, *, keyed: bool) -> None:
    """Draw the controls of the page that stand in the panel, top to bottom.

    Args:
        keyed: give each slider with its field a fragment of its own, which is rerun when one moves the other.
    """
    current = values(page)
    tabbed = {row.key for row in rows(page) if isinstance(row, Choice) and row.tabs}
    before = st.session_state.get(f"{page}~shown", {})
    st.session_state[f"{page}~shown"] = {k: v for k, v in before.items() if k in tabbed}
    section = ""
    drawn = in_effect(page, current)
    hidden = lesson.of(page).hidden
    for row in rows(page):
        if isinstance(row, Choice) and row.tabs:
            continue
        if row.key in hidden:
            st.session_state.pop(f"{row.name}~slider", None)  # as below
            continue
        if row not in drawn:
            # The browser forgets a slider that goes. What Python remembers of it would stop the value from
            # being sent again, and the slider would come back at its lowest stop.
            st.session_state.pop(f"{row.name}~slider", None)
            continue
        if row.section != section:
            section = row.section
            if section:
                st.html(f'<p class="lab-section">{section}</p>')
        if isinstance(row, Number) and row.slider:
            st.fragment(_row, key=f"{row.name}~row")(row) if keyed else _row(row)
        else:
            _row(row)


def _row(row: Control) -> None:
    _WIDGETS[type(row)](row, version(row.page))
    st.session_state[f"{row.page}~shown"][row.key] = _value(row)


def _locked(row: Control) -> bool:
    """Whether a lesson shows the control and does not let it move."""
    return row.key in lesson.of(row.page).locked


def keep_locked(page: str, move: Callable[[], None]) -> None:
    """Let a click on a picture move controls, but those a lesson has locked."""
    before = values(page)
    move()
    set_values(page, {key: before[key] for key in lesson.of(page).locked})


def _touched(row: Control) -> None:
    """A control has moved: rerun the picture, and of what surrounds it only what now reads otherwise."""
    page = row.page
    noted = bool(notices(page))
    forget_notices(page)
    if not framed(page):
        return
    now = values(page)
    before = now | {row.key: st.session_state[f"{page}~shown"].get(row.key, now[row.key])}
    seen = st.session_state[f"{page}~words"]
    due = [part for part, depends in seen.items() if depends(now) != depends(before)]
    if noted and "head" not in due:
        due.append("head")
    gates = any(other.when and other.when[0] == row.key for other in rows(page))
    if gates or (isinstance(row, Text) and row.upload):
        due.append("panel")
    # The foot's words change with choices if at all.
    foot_due = not isinstance(row, Number) or bool(st.session_state.get(f"{page}~foot-live"))
    st.session_state[f"{page}~foot-due"] = foot_due
    if foot_due:
        due.append("foot")
    keys = [f"{page}~{part}" for part in due]
    if isinstance(row, Number) and row.slider and "panel" not in due:
        keys.append(f"{row.name}~row")
    else:
        st.session_state[f"{page}~shown"][row.key] = now[row.key]
    st.session_state[f"{page}~due"] = True
    _rerun(page, keys)


def _number(row: Number, version: int) -> None:
    kind = int if row.whole else float
    # The field holds the exact value and the slider follows it, so the field is made first; the style sheet
    # puts it on the right.
    value = st.number_input(
        f"{row.label}, exact" if row.slider else row.label,
        min_value=kind(row.low),
        max_value=kind(row.high),
        value=kind(row.default_of(version)),
        step=kind(row.step) if row.whole or not row.log else None,
        format=None if row.whole else "%.6g",
        key=row.name,
        help=None if row.slider else row.help or None,
        on_change=_touched,
        args=(row,),
        required=row.slider,
        disabled=_locked(row),
        label_visibility="collapsed" if row.slider else "visible",
        **KEPT,
    )
    if value is None:  # an emptied seed field
        value = row.default_of(version)
    if row.slider:
        _slider(row, value)


def _slider(row: Number, value: float) -> None:
    key = f"{row.name}~slider"
    if row.log:
        stops = sorted({*row.stops(), value})  # the thumb says what the field says
        if st.session_state.get(key) != value:
            st.session_state[key] = value
        st.select_slider(
            row.label, stops, format_func=lambda s: f"{s:.6g}", key=key, help=row.help or None,
            on_change=_follow, args=(row, key), disabled=_locked(row),
        )  # fmt: skip
        return
    if st.session_state.get(key) != value:
        st.session_state[key] = value
    kind = int if row.whole else float
    st.slider(
        row.label, kind(row.low), kind(row.high), step=kind(row.step), key=key,
        format=None if row.whole else "%.4g", help=row.help or None, on_change=_follow, args=(row, key),
        disabled=_locked(row),
    )  # fmt: skip


def _follow(row: Number, key: str) -> None:
    st.session_state[row.name] = st.session_state[key]
    _touched(row)


def tabs(page: str) -> None:
    """Draw the page's rows of buttons, which stand above the pictures."""
    for row in rows(page):
        if isinstance(row, Choice) and row.tabs and row.key not in lesson.of(page).hidden:
            st.segmented_control(
                row.label, row.offered(), default=row.default_of(version(page)), required=True,
                key=row.name, help=row.help or None, on_change=_touched, args=(row,),
                label_visibility="collapsed", disabled=_locked(row), **KEPT,
            )  # fmt: skip
            st.session_state[f"{page}~shown"][row.key] = _value(row)


def _choice(row: Choice, version: int) -> None:
    options = row.offered()
    st.selectbox(
        row.label, options, index=options.index(row.default_of(version)), key=row.name,
        help=row.help or None, on_change=_touched, args=(row,), filter_mode=None, disabled=_locked(row),
        **KEPT,
    )  # fmt: skip


def _toggle(row: Toggle, version: int) -> None:
    st.toggle(
        row.label, row.default_of(version), key=row.name, help=row.help or None,
        on_change=_touched, args=(row,), disabled=_locked(row), **KEPT,
    )  # fmt: skip


def _text(row: Text, version: int) -> None:
    st.text_area(
        row.label, row.default_of(version), key=row.name, help=row.help or None, max_chars=row.longest,
        height=28 * row.lines, on_change=_typed, args=(row,), disabled=_locked(row), **KEPT,
    )  # fmt: skip
    if row.upload and not _locked(row):
        _upload(row)


def _typed(row: Text) -> None:
    if _held(row):  # the last thing done counts
        hold(row, None)
        st.session_state[f"{row.page}~{row.key}-uploads"] = _uploads(row) + 1
    _touched(row)


def _uploads(row: Text) -> int:
    """Number of the upload widget: a new number is a new, empty one."""
    return st.session_state.get(f"{row.page}~{row.key}-uploads", 0)


def _upload(row: Text) -> None:
    """The place for a file under the field; says when a file counts instead of the field."""
    key = f"{row.page}~{row.key}-upload-{_uploads(row)}"
    chosen = st.file_uploader(
        f"{row.label}, from a file", type=list(row.upload), key=key, on_change=_received,
        args=(row, key), label_visibility="collapsed",
    )  # fmt: skip
    held = _held(row)
    if held is None:
        return
    if row.refused(held[1]):
        st.caption(
            f"**{words.plain(held[0])}** was refused: the message above the picture says why."
        )
    else:
        st.caption(
            f"**{words.plain(held[0])}** is in use. A link cannot carry it: send the exported settings instead."
        )
    if chosen is None:  # after a visit to another page its own cross is gone
        st.button("Use the field instead", key=f"{key}-drop", on_click=_dropped, args=(row,))


def _dropped(row: Text) -> None:
    hold(row, None)
    _touched(row)


def _received(row: Text, key: str) -> None:
    file = st.session_state[key]
    if file is None:
        return _dropped(row)
    value: str | bytes = file.getvalue()
    with suppress(UnicodeDecodeError):  # the page says what it takes
        value = value.decode("utf-8-sig").replace("\r\n", "\n").strip()
    hold(row, value, file.name)
    if not row.holds(value):
        st.session_state[row.name] = value
    _touched(row)


_WIDGETS: dict[type[Control], Callable[..., Any]] = {
    Number: _number, Choice: _choice, Toggle: _toggle, Text: _text,
}  # fmt: skip
