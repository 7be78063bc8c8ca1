"""The frame of a page: what stands where, and what happens when numbers go wrong."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import streamlit as st

from pages import catalog, tours
from pages.ui import (
    cache,
    lesson,
    observe,
    panel,
    pin,
    share,
    teach,
    terms,
    tour,
    visit,
    workers,
)  # fmt: skip
from pages.ui.chart_view import Frames, Live, chart_view
from pages.ui.charts import Figure
from pages.ui.component import component
from pages.ui.controls import LINK_VERSION, Link, Scenario, defaults
from pages.ui.progress import Progress
from pages.ui.shown import Facts, Shown
from pages.ui.words import sentence

S = TypeVar("S")
R = TypeVar("R")

_seen_modules: dict[str, int] = {}
# Of the script thread: .asked, .places, .name, and .unseen of such a visit.
_run = threading.local()
_aid = component("aid", html='<div class="lab-aid"><p class="lab-spoken" role="status"></p></div>')
_pulse = component("pulse", html='<span class="lab-pulse"></span>')
# The first shows itself to a keyboard only, which has forty controls to go through before the picture; the
# second stands on narrow screens, where it opens the controls at the foot of the window.
_DRAWER = (
    '<button type="button" class="lab-skip">Skip to the picture</button>'
    '<button type="button" class="lab-drawer" aria-expanded="false">Controls</button>'
)
_NO_SCENARIO = "These settings are no scenario. Each button loads one: a claim, what to look for, how it would fail."
_STYLE = f"<style>{(Path(__file__).parent / 'style.css').read_text()}</style>"


def framed(render: Callable[[], None]) -> None:
    """Run a page's `render()` as Streamlit's page: what surrounds the picture first, then the picture.

    Both are fragments, so that a moved control reruns the picture and its own row and nothing else: a
    browser that is sent dozens of widgets which stand there already needs as long for them as for the
    picture.
    """
    observe.start()
    st.html(_STYLE)
    _aid(data={}, key="lab-aid")
    words = _words_of(render)
    if words is None:  # a page without controls, and it has drawn itself
        return
    name = words.entry.name
    _open_link(words)
    st.session_state[f"{name}~framed"] = True
    panel.drawn(name, whole=False)
    places = Places()
    places.surround(words, keyed=True)
    with places.stage:
        coming = st.empty()  # stands there always, so that what follows keeps its place
        if f"{name}~good" not in st.session_state:
            coming.html(
                f'<p class="lab-coming">{words.entry.blurb} The picture is on its way …</p>'
            )
        _run.whole = True
        try:
            st.fragment(_picture, key=panel.picture(name))(render, places)
        finally:
            _run.whole = False
        coming.empty()
    with places.foot:
        st.fragment(_foot, key=panel.foot(name))(name)
    panel.drawn(name, whole=True)
    _set_aside()


def _open_link(words: Words) -> None:
    """Before anything is drawn: take what the address asks for on a first visit, then a step of a tour just taken."""
    name = words.entry.name
    if not panel.opened(name):
        query = {k: st.query_params.get_all(k) for k in st.query_params}
        at, said = tour.read(name, query)
        step: dict[str, Any] = {}
        if at is not None:
            tour.begin(at)
            step, said = tour.settable(name, tours.of(at[0])[at[1] - 1])
        panel.open_link(name, {s.name: s.values for s in words.scenarios}, step)
        asked, more = lesson.read(name, query)
        lesson.begin(name, asked)
        panel.note(name, (*said, *more))
    tour.follow(name)


def _set_aside() -> None:
    """Take what imports have brought out of the garbage collector's sight, once per batch of imports."""
    if len(sys.modules) > _seen_modules.get("count", 0) + 50:
        gc.collect()
        gc.freeze()
        _seen_modules["count"] = len(sys.modules)


class _Opened(BaseException):
    """Ends a `render()` that is only asked what its page is."""


def _words_of(render: Callable[[], None]) -> Words | None:
    """What `render()` tells `open_page`; None if it never calls it. It runs up to that call only."""
    _run.asked, _run.places = True, None
    try:
        render()
    except _Opened as opened:
        return opened.args[0]
    finally:
        _run.asked = False
    return None


def _picture(render: Callable[[], None], places: Places) -> None:
    _run.places, _run.folded, _run.render = places, [], render
    name = None
    try:
        render()
        name = _run.name
    finally:
        _run.places = _run.render = None
        folded, _run.folded = _run.folded, None
    if name is None:
        return
    late = panel.fold(name, folded, whole=getattr(_run, "whole", False))
    if late or panel.outdated(name):
        st.rerun()  # the picture's own widgets have moved controls that stand beside it


def _foot(name: str) -> None:
    """What is folded away below the pictures. It seldom changes, so a moved control does not send it again."""
    for title, text in panel.folded(name):
        with st.expander(title):
            st.markdown(terms.linked(text))


def open_page(
    name: str,
    settings: Callable[..., S],
    scenarios: Sequence[Scenario] = (),
    *,
    lead: str,
    equation: str | Callable[[Mapping[str, Any]], str] = "",
    symbols: Mapping[str, str] | None = None,
) -> Page[S]:
    """Open a page to draw pictures on; head and controls come by themselves.

    Args:
        name: of the page, as in the catalog.
        settings: the page's frozen dataclass; its fields are the keys of the page's controls.
        scenarios: the one-click presets.
        lead: one or two sentences under the title.
        equation: LaTeX without delimiters; a function of the settings where a control chooses it.
        symbols: `{LaTeX: what it is}` for each symbol of the equation.
    """
    words = Words(catalog.page(name), lead, equation, symbols or {}, scenarios)
    if getattr(_run, "asked", False):
        raise _Opened(words)
    places = getattr(_run, "places", None)
    if places is None:  # not framed: a test that calls render() by itself
        _open_link(words)
        places = Places()
        places.surround(words, keyed=False)
        stage = places.stage
    else:
        panel.taken_up(name)
        stage = st.container()
    _run.name = name
    cache.forget_used()
    page = Page(words, settings, panel.values(name), stage, places)
    if not getattr(_run, "unseen", False):
        page.pinned = pin.take_up(name, page.values, stage, getattr(_run, "render", None))
    return page


@dataclass
class _Unseen:
    """What a visit that nobody sees brings back."""

    shown: Shown | None = None
    again: bool = False


def unseen(
    name: str, render: Callable[[], None], values: Mapping[str, Any], session: Mapping[str, Any]
) -> tuple[Shown, bool]:
    """Run `render()` in a session of its own, see `unseen.visit`: what it shows, and whether it wants to go on."""
    for key, value in session.items():
        st.session_state[key] = value
    st.session_state[f"{name}~link"] = Link({}, LINK_VERSION, None, ())
    panel.set_values(name, values)
    _run.unseen, _run.places, _run.folded = _Unseen(), Places(), []
    try:
        render()
    finally:
        came, _run.unseen, _run.places, _run.folded = _run.unseen, None, None, None
    if came.shown is None:
        raise ValueError(f"the page {name!r} has no picture under these settings.")
    return came.shown, came.again


@dataclass(frozen=True)
class Words:
    """What stands around the pictures and is no control."""

    entry: catalog.Entry
    lead: str
    equation: str | Callable[[Mapping[str, Any]], str]
    symbols: Mapping[str, str]
    scenarios: Sequence[Scenario]

    def formula(self, values: Mapping[str, Any]) -> str:
        return self.equation(values) if callable(self.equation) else self.equation

    def scenario(self, values: Mapping[str, Any]) -> Scenario | None:
        """The scenario these settings are, if any."""
        name = self.entry.name
        return next((s for s in self.scenarios if s.settings(name) == dict(values)), None)


class Places:
    """Where things stand on a page."""

    def __init__(self) -> None:
        self.exports: Any = None  # until `surround`
        with st.container(key="lab-head"):
            with st.container(
                horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute",
                key="lab-title",
            ):  # fmt: skip
                self.title = st.container(width="content")
                self.tools = st.container(width="content", key="lab-share")
            self.lesson = st.container()
            self.head = st.container()
        self.scenes = st.container()
        with st.container(horizontal=True, key="lab-body", gap="large"):
            self.controls = st.container(key="lab-controls", gap="small", width=300)
            with st.container(key="lab-stage"):
                self.tour = st.container()
                self.tabs = st.container(key="lab-tabs")
                self.waiting = st.container(key="lab-waiting")
                self.stage = st.container()
                self.foot = st.container()

    def surround(self, words: Words, *, keyed: bool) -> None:
        """Draw head, scenarios and controls; `keyed`: as fragments that a moved control can rerun."""
        entry = words.entry

        def part(key: str, draw: Callable[[], None]) -> None:
            st.fragment(draw, key=f"{entry.name}~{key}")() if keyed else draw()

        with self.title:
            st.html(
                f'<p class="lab-eyebrow">{entry.group}</p><h1 class="lab-h1">{entry.title}</h1>'
            )
            with self.tools, st.container(horizontal=True, width="content", gap="small"):
                tour.start_button(entry.name)
                with st.container(width="content"):  # a fragment is as wide as it may be
                    part("teach", lambda: teach.builder(entry.name, words.scenarios))
                share.copy_button(entry.name)
                self.exports = st.container(horizontal=True, width="content", gap="small")
            self.exports.empty()  # a place must be written to once before a fragment may use it
        with self.lesson:
            teach.banner(entry.name)
        with self.head:
            part("head", lambda: _head(words))
        with self.scenes:
            part("scenes", lambda: _scenarios(words))
        with self.controls:
            st.html(_DRAWER)
            part("panel", lambda: panel.draw(entry.name, keyed=keyed))
        with self.tour:
            tour.bar(entry.name)
        with self.tabs:
            panel.tabs(entry.name)
        self.waiting.empty()
        panel.surrounded(entry.name, words.formula, words.scenario)


class Page(Generic[S]):
    """One run of one page. `settings` are those of the picture, the last good one after an error."""

    def __init__(
        self,
        words: Words,
        make: Callable[..., S],
        values: Mapping[str, Any],
        stage: Any,
        places: Places,
    ) -> None:
        self.words = words
        self.entry = words.entry
        self.name = words.entry.name
        self.values = dict(values)
        self.settings: S = make(**values)
        self.stage = stage
        self._make = make
        self._exports = places.exports
        self._waiting = places.waiting
        self.pinned: pin.Pinned | None = None
        self._figures: dict[str, Figure] = {}
        self._alts: dict[str, str] = {}
        self._tables: list[Facts] = []
        self._said: list[str] = []
        self._folded: list[tuple[str, str]] = []

    def compute(
        self,
        compute: Callable[[S], R],
        finite: Callable[[R], Mapping[str, Any]] | None = None,
        *,
        dear: bool = False,
    ) -> R:
        """`compute(settings)`. If that raises ValueError, its message is shown and the last good picture's
        settings take over (`self.settings` changes with them).

        Args:
            compute: settings to result; normally one call into `ui/cache.py`.
            finite: result to `{name of a quantity: array}` that should be finite. Where one is not, the page
                says which and offers the way back.
            dear: the work takes long, so where no settings have worked yet nothing is drawn in place of what
                was asked for; else the page's defaults are.
        """
        worked = st.session_state.get(f"{self.name}~good")
        good: dict[str, Any] = worked or defaults(self.name)
        # Written to in every run: a fragment may use a place around it only if it did in a run of all the page.
        compute = visit.watched(compute, self.name, self._waiting.empty())
        try:
            result = compute(self.settings)
        except workers.Ended as reason:
            self._warn(f"{reason} What was found so far is kept.", self.values, label="Go on")
            st.stop()
        except ValueError as reason:
            if getattr(_run, "unseen", None):
                raise
            if dear and worked is None:
                self._warn(_sentence(reason), good, key="lab-refused")
                st.stop()
            try:
                settings = self._make(**good)
                result = compute(settings)
            except ValueError:  # not even those
                self._warn(_sentence(reason), None)
                st.stop()
            whose = "the last settings that worked" if worked else "this page's defaults"
            self._warn(
                f"{_sentence(reason)} The picture and the numbers are those of {whose}.",
                good, key="lab-refused",
            )  # fmt: skip
            self.values, self.settings = dict(good), settings
            return result
        broken = _not_finite(finite(result)) if finite is not None else ""
        if broken:
            self._warn(f"{broken} Those cells are grey.", good)
        else:
            st.session_state[f"{self.name}~good"] = self.values
        return result

    def compute_long(
        self,
        compute: Callable[[S, Progress], R],
        finite: Callable[[R], Mapping[str, Any]] | None = None,
        *,
        dear: bool = False,
    ) -> R:
        """`compute(settings, progress)` as `Page.compute` does it, its bar over the picture meanwhile."""
        with self.stage:
            wait = Progress(self.name, st.empty(), 1)
        result = self.compute(lambda settings: compute(settings, wait), finite, dear=dear)
        wait.end()
        return result

    def _warn(
        self,
        message: str,
        back: Mapping[str, Any] | None,
        key: str = "lab-warning",
        label: str = "Back to safe values",
    ) -> None:
        with self.stage, st.container(horizontal=True, vertical_alignment="center", key=key):
            st.warning(message, icon=":material/error:")
            if back is not None:
                st.button(
                    label, on_click=move, args=(self.name, dict(back)),
                    key=f"{self.name}~back", type="primary",
                )  # fmt: skip

    def chart(
        self,
        fig: Figure,
        key: str,
        alt: str,
        *,
        frames: Frames | None = None,
        on_click: Callable[[dict[str, Any]], None] | None = None,
        live: Live | None = None,
        on_drag: Callable[[dict[str, Any]], None] | None = None,
        exported: bool = True,
        into: Any = None,
    ) -> None:
        """A picture on the stage, or `into` a column of it. `key` names it on the page and in exports."""
        if exported:
            self._figures[key], self._alts[key] = fig, alt
        if getattr(
            _run, "unseen", None
        ):  # nobody looks, and outside a server components have no files
            return
        compared = self.pinned.beside(key, fig, self.values) if self.pinned and exported else None

        def told(
            act: Callable[[dict[str, Any]], None] | None,
        ) -> Callable[[dict[str, Any]], None] | None:
            def tell(point: dict[str, Any]) -> None:
                assert act is not None
                panel.keep_locked(self.name, lambda: act(point))
                panel.rerun_all(self.name)

            return tell if act else None

        more = {} if live is None else {"live": live, "on_drag": told(on_drag)}
        with into if into is not None else self.stage:
            chart_view(
                compared.figure if compared else fig, key=f"{self.name}-{key}", alt=alt, frames=frames,
                on_click=told(on_click), file_name=f"{self.name}-{key}", **more,
            )  # fmt: skip
            if compared:
                pin.difference(self.name, key, compared)

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
        table = Facts(columns, rows, caption)
        self._tables.append(table)
        with into if into is not None else self.stage:
            st.html(table.html())

    def facts_beside(self, *tables: Facts) -> None:
        """Tables side by side where there is room; one element, which the browser has sooner than several."""
        self._tables += tables
        parts = "".join(f"<div>{table.html()}</div>" for table in tables)
        with self.stage:
            st.html(f'<div class="lab-tables">{parts}</div>')

    def again(self) -> None:
        """Draw the picture once more when this one stands on the screen: for work done in slices.

        The browser asks for it. So a moved control, a click or a closed tab has its turn between two
        slices, and nothing else is needed to stop the work. The last call of a page.
        """
        if (visit := getattr(_run, "unseen", None)) is not None:
            visit.again = True
            return
        if not panel.framed(self.name):
            st.rerun()
        key = f"{self.name}~pulse"
        beat = st.session_state[f"{key}-beat"] = st.session_state.get(f"{key}-beat", 0) + 1
        with self.stage:
            _pulse(data={"beat": beat}, key=key, on_beat_change=lambda: None)

    def refuted_by(self, text: str) -> None:
        """What would refute the claim this page tests."""
        self.fold("What would refute it", text)

    def fold(self, title: str, text: str) -> None:
        """Words that hold whatever the numbers are, to be opened below the pictures."""
        self._folded.append((title, text))
        folded = getattr(_run, "folded", None)
        if folded is not None:
            folded.append((title, text))
            return
        with self.stage, st.expander(title):  # not framed
            st.markdown(terms.linked(text))

    def finish(self, snippet: str) -> None:
        """Link, Pin and Export, once the pictures are known. `snippet` prints the page's numbers."""
        shown = Shown(
            page=self.name,
            values=self.values,
            lead=self.words.lead,
            formula=self.words.formula(self.values),
            symbols=self.words.symbols,
            figures=self._figures,
            alts=self._alts,
            tables=tuple(self._tables),
            said=tuple(self._said),
            folded=tuple(self._folded),
            snippet=snippet,
            used=cache.used(),
        )
        if (visit := getattr(_run, "unseen", None)) is not None:
            visit.shown = shown
            return
        if self.pinned:
            self.pinned.finish(shown, self.stage)
        kept = pin.pinned(self.name)
        with self._exports:
            pin.button(shown)
            share.exports(shown, kept and kept.other(self.values))
            more = tour.stated(self.name) | lesson.of(self.name).stated()
            share.state_link(self.name, self.values, kept and kept.values, more)


def _head(words: Words) -> None:
    name = words.entry.name
    st.markdown(terms.linked(words.lead))
    formula = words.formula(panel.values(name))
    if formula:
        with st.container(horizontal=True, vertical_alignment="center", key="lab-equation"):
            st.latex(formula, width="content")
            if words.symbols:
                with st.popover("Symbols", type="tertiary", key="lab-symbols"):
                    # A table, so that the words stand below one another. A bar would end its cell.
                    lines = (
                        f"| ${k}$ | {text.replace('|', '&#124;')} |"
                        for k, text in words.symbols.items()
                    )
                    st.markdown("\n".join(["| | |", "|:--|:--|", *lines]))
    if said := panel.notices(name):
        text = said[0]
        if len(said) > 1:
            text = "\n".join([f"{len(said)} notes on this link:\n", *(f"- {n}" for n in said)])
        st.warning(text, icon=":material/link_off:")


def _scenarios(words: Words) -> None:
    name = words.entry.name
    if lesson.of(name).restricts:  # a scenario moves every control
        return
    chosen = words.scenario(panel.values(name))
    with st.container(horizontal=True, key="lab-scenarios", gap="small"):
        for s in words.scenarios:
            st.button(
                s.label, key=f"{name}~preset-{s.name}", help=s.claim, on_click=_choose,
                args=(name, s), type="primary" if s is chosen else "secondary", wrap=False,
            )  # fmt: skip
        if not words.scenarios or tour.here(name) is not None:  # a step has words of its own
            return
        # Words always stand here, or the picture would jump under the mouse that drags one of its points.
        lines = [_NO_SCENARIO]
        if chosen is not None:
            more = (("Look for", chosen.look), ("Refuted by", chosen.refuted))
            lines = [chosen.claim, *(f"**{what}** {text}" for what, text in more if text)]
        st.caption(terms.linked(" ".join(lines)))


def _choose(name: str, scenario: Scenario) -> None:
    panel.forget_notices(name)
    move(name, scenario.settings(name))


def move(name: str, values: Mapping[str, Any]) -> None:
    """Callback of a widget that moves controls: set them, and rerun all of the page."""
    panel.set_values(name, values)
    if panel.framed(name):
        st.rerun()


def _sentence(reason: ValueError) -> str:
    """An engine's message as Markdown, closed: another sentence may follow."""
    text = str(reason)
    return sentence(text if text.endswith((".", "!", "?")) else f"{text}.")


def _not_finite(quantities: Mapping[str, Any]) -> str:
    parts = []
    for name, array in quantities.items():
        a = np.asarray(array)
        bad = int(a.size - np.isfinite(a).sum())
        if bad:
            parts.append(f"{name} is not finite at {bad} of {a.size} points")
    return "; ".join(parts) + "." if parts else ""
