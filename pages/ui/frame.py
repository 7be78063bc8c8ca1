"""The frame of a page: what stands where, and what happens when numbers go wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from pages import catalog
from pages.ui import panel, share
from pages.ui.chart_view import Frames, chart_view
from pages.ui.controls import Scenario, defaults

S = TypeVar("S")
R = TypeVar("R")

_open = threading.local()  # .page: the page this run has opened
_STYLE = f"<style>{(Path(__file__).parent / 'style.css').read_text()}</style>"


def framed(render: Callable[[], None]) -> None:
    """Run a page's `render()` as Streamlit's page: style sheet first, then the page as a fragment.

    A moved control then reruns the page alone, not the router and its navigation.
    """
    st.html(_STYLE)
    st.fragment(_complete)(render)


def _complete(render: Callable[[], None]) -> None:
    _open.page = None
    try:
        render()
    except (
        Exception
    ):  # the page's own failure: its controls stay, to leave the settings that caused it
        _surround_open()
        raise
    _surround_open()


def _surround_open() -> None:
    if _open.page is not None:
        _open.page.surround()


def open_page(
    name: str,
    settings: Callable[..., S],
    scenarios: Sequence[Scenario] = (),
    *,
    lead: str,
    equation: str | Callable[[Mapping[str, Any]], str] = "",
    symbols: Mapping[str, str] | None = None,
) -> Page[S]:
    """Lay a page out and return it, to draw the pictures on; head and controls come by themselves.

    On the first run they are drawn at once. On later runs they are drawn last: the browser then has the new
    picture before it is sent dozens of widgets that stand there already, which halves the time from a
    slider's release to the picture.

    Args:
        name: of the page, as in the catalog.
        settings: the page's frozen dataclass; its fields are the keys of the page's controls.
        scenarios: the one-click presets.
        lead: one or two sentences under the title.
        equation: LaTeX without delimiters; a function of the settings where a control chooses it.
        symbols: `{LaTeX: what it is}` for each symbol of the equation.
    """
    first = panel.open_link(name, {s.name: s.values for s in scenarios})
    words = Words(lead, equation, symbols or {}, scenarios)
    page: Page[S] = Page(catalog.page(name), settings, panel.values(name), words)
    _open.page = page
    if first:
        page.surround()
    return page


@dataclass(frozen=True)
class Words:
    """What stands around the pictures and is no control."""

    lead: str
    equation: str | Callable[[Mapping[str, Any]], str]
    symbols: Mapping[str, str]
    scenarios: Sequence[Scenario]


class Page(Generic[S]):
    """One run of one page. `settings` are those of the picture, the last good one after an error."""

    def __init__(
        self,
        entry: catalog.Entry,
        make: Callable[..., S],
        values: Mapping[str, Any],
        words: Words,
    ) -> None:
        self.entry = entry
        self.name = entry.name
        self.values = dict(values)
        self.settings: S = make(**values)
        self._make = make
        self._words = words
        self._surrounded = False
        self._figures: dict[str, go.Figure] = {}
        self._said: list[str] = []
        # Every place exists before anything is put into one, so that the order of drawing is free.
        with st.container(key="lab-head"):
            title = st.container(
                horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute",
                key="lab-title",
            )  # fmt: skip
            self._title = title.container(width="content")
            self._tools = title.container(
                horizontal=True, width="content", key="lab-share", gap="small"
            )
            self._head = st.container()
        self._scenes = st.container(horizontal=True, key="lab-scenarios", gap="small")
        with st.container(horizontal=True, key="lab-body", gap="large"):
            self._controls = st.container(key="lab-controls", gap="small", width=300)
            self.stage = st.container(key="lab-stage")
        self._tabs = self.stage.container()

    def surround(self) -> None:
        """Draw head, scenarios and controls, once a run."""
        if self._surrounded:
            return
        self._surrounded = True
        name, words = self.name, self._words
        shown = panel.values(name)
        with self._controls:
            panel.draw(name)
        with self._tabs:
            panel.tabs(name)
        with self._scenes:
            _scenarios(name, words.scenarios, shown)
        with self._title:
            st.html(
                f'<p class="lab-eyebrow">{self.entry.group}</p>'
                f'<h1 class="lab-h1">{self.entry.title}</h1>'
            )
        with self._head:
            st.markdown(words.lead)
            if words.equation:
                _equation(words, shown)
            for notice in panel.notices(name):
                st.warning(notice, icon=":material/link_off:")

    def compute(
        self,
        compute: Callable[[S], R],
        finite: Callable[[R], Mapping[str, Any]] | None = None,
    ) -> R:
        """`compute(settings)`. If that raises ValueError, its message is shown and the last good picture's
        settings take over (`self.settings` changes with them).

        Args:
            compute: settings to result; normally one call into `ui/cache.py`.
            finite: result to `{name of a quantity: array}` that should be finite. Where one is not, the page
                says which and offers the way back.
        """
        good: dict[str, Any] = st.session_state.get(f"{self.name}~good") or defaults(self.name)
        try:
            result = compute(self.settings)
        except ValueError as reason:
            try:
                settings = self._make(**good)
                result = compute(settings)
            except ValueError:  # not even those
                self._warn(str(reason), None)
                self.surround()
                st.stop()
            self._warn(f"{reason} The picture shows the last settings that worked.", good)
            self.values, self.settings = dict(good), settings
            return result
        broken = _not_finite(finite(result)) if finite is not None else ""
        if broken:
            self._warn(f"{broken} Those cells are grey.", good)
        else:
            st.session_state[f"{self.name}~good"] = self.values
        return result

    def _warn(self, message: str, back: Mapping[str, Any] | None) -> None:
        with (
            self.stage,
            st.container(horizontal=True, vertical_alignment="center", key="lab-warning"),
        ):
            st.warning(message, icon=":material/error:")
            if back is not None:
                st.button(
                    "Back to safe values", on_click=panel.set_values, args=(self.name, dict(back)),
                    key=f"{self.name}~back", type="primary",
                )  # fmt: skip

    def chart(
        self,
        fig: go.Figure,
        key: str,
        alt: str,
        *,
        frames: Frames | None = None,
        on_click: Callable[[dict[str, Any]], None] | None = None,
        exported: bool = True,
        into: Any = None,
    ) -> None:
        """A picture on the stage, or `into` a column of it. `key` names it on the page and in exports."""
        if exported:
            self._figures[key] = fig
        with into if into is not None else self.stage:
            chart_view(
                fig, key=f"{self.name}-{key}", alt=alt, frames=frames, on_click=on_click,
                file_name=f"{self.name}-{key}",
            )  # fmt: skip

    def look_for(self, sentence: str) -> None:
        """What to look for, with the live numbers in it."""
        self._said.append(sentence)
        with self.stage:
            st.markdown(f'<div class="lab-look">\n\n{sentence}\n\n</div>', unsafe_allow_html=True)

    def facts(
        self,
        columns: Sequence[str],
        rows: Sequence[tuple[str, ...]],
        caption: str = "",
        *,
        into: Any = None,
    ) -> None:
        """A small table of numbers. A row starts with its name; cells are HTML, so escape what is typed."""
        head = "".join(f'<th scope="col">{c}</th>' for c in ("", *columns))
        body = "".join(
            f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>"
            for name, *cells in rows
        )
        with into if into is not None else self.stage:
            st.html(
                f'<table class="lab-facts"><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
                f"<tbody>{body}</tbody></table>"
            )

    def refuted_by(self, text: str) -> None:
        """What would refute the claim this page tests."""
        with self.stage, st.expander("What would refute it"):
            st.markdown(text)

    def finish(self, snippet: str) -> None:
        """Copy-link and Export, once the pictures are known. `snippet` prints the page's numbers."""
        with self._tools:
            share.copy_link(self.name, self.values)
            share.exports(
                self.name, self.entry.title, self.values, self._figures, snippet, self._said
            )
        self.surround()


def _equation(words: Words, values: Mapping[str, Any]) -> None:
    formula = words.equation(values) if callable(words.equation) else words.equation
    with st.container(horizontal=True, vertical_alignment="center", key="lab-equation"):
        st.latex(formula, width="content")
        if words.symbols:
            with st.popover("Symbols", type="tertiary"):
                st.markdown(
                    "\n\n".join(f"${k}$ &nbsp; {text}" for k, text in words.symbols.items())
                )


def _scenarios(name: str, scenarios: Sequence[Scenario], values: Mapping[str, Any]) -> None:
    claim = ""
    for s in scenarios:
        chosen = s.settings(name) == dict(values)
        claim = s.claim if chosen else claim
        st.button(
            s.label, key=f"{name}~preset-{s.name}", help=s.claim, on_click=_choose, args=(name, s),
            type="primary" if chosen else "secondary", wrap=False,
        )  # fmt: skip
    if claim:
        st.caption(claim)


def _choose(name: str, scenario: Scenario) -> None:
    panel.forget_notices(name)
    panel.set_values(name, scenario.settings(name))


def _not_finite(quantities: Mapping[str, Any]) -> str:
    parts = []
    for name, array in quantities.items():
        a = np.asarray(array)
        bad = int(a.size - np.isfinite(a).sum())
        if bad:
            parts.append(f"{name} is not finite at {bad} of {a.size} points")
    return "; ".join(parts) + "." if parts else ""
