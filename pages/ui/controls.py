"""The one table of controls, and how a link is read and written. No widgets here: `panel.py` draws them.

A control is one row of `TABLE`. Its widget, its URL parameter (`page-key`), its bounds, the checks a
link goes through and the fields of the exported settings all come from that row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

LINK_VERSION = 1
"""Written as `v=` into every link. When a default changes: raise this by one and record the old default
in the row, `was={1: old}`. Links of version 1 then keep meaning what they meant."""

ELSEWHERE = "(an uploaded file)"
"""What a link says in place of a file too large for it."""

RESERVED = frozenset({"v", "preset", "embed", "embed_options"})


@dataclass(frozen=True, kw_only=True)
class Control:
    """What all controls share. `key` is unique within `page`; `default` is what a fresh page shows."""

    page: str
    key: str
    label: str
    default: Any
    help: str = ""
    section: str = ""
    when: tuple[str, tuple[Any, ...]] | None = None
    """Drawn only while control `when[0]` of the same page has one of the values `when[1]`."""
    was: Mapping[int, Any] = field(default_factory=dict)
    """`{link version: default up to that version}`."""

    @property
    def name(self) -> str:
        """Widget key and URL parameter."""
        return f"{self.page}-{self.key}"

    def default_of(self, version: int) -> Any:
        """The default that a link of this version means when it leaves the control out."""
        later = [v for v in self.was if v >= version]
        return self.was[min(later)] if later else self.default

    def parse(self, text: str) -> Any:
        """The value a link's text stands for. Raises ValueError with the reason."""
        raise NotImplementedError

    def text(self, value: Any) -> str:
        """How a link spells the value: the spelling Streamlit's own URL binding uses."""
        return str(value)

    def check(self, value: Any) -> Any:
        """The value itself if this control can hold it. Raises ValueError with the reason."""
        return self.parse(self.text(value))


@dataclass(frozen=True, kw_only=True)
class Number(Control):
    """A slider with a number field beside it. Whole numbers when default, low, high and step are ints."""

    low: float
    high: float
    step: float
    log: bool = False
    """Slider in equal factors, about `1 / step` stops to a factor of ten; the field takes any value."""
    slider: bool = True
    """False: number field alone (seeds)."""

    @property
    def whole(self) -> bool:
        return all(isinstance(v, int) for v in (self.default, self.low, self.high, self.step))

    def parse(self, text: str) -> float | int:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("is not a number") from None
        if not math.isfinite(value):
            raise ValueError("is not a finite number")
        if not self.low <= value <= self.high:
            raise ValueError(f"is outside {self.low:g} to {self.high:g}")
        if self.whole and value != int(value):
            raise ValueError("is not a whole number")
        return int(value) if self.whole else value

    def stops(self) -> list[float]:
        """Where a log slider can stand: round numbers in (nearly) equal factors from low to high."""
        decades = math.log10(self.high / self.low)
        count = max(2, round(decades / self.step) + 1)
        raw = (self.low * (self.high / self.low) ** (i / (count - 1)) for i in range(count))
        rounded = (int(round(v)) if self.whole else float(f"{v:.3g}") for v in raw)
        return sorted({self.low, *rounded, self.high} - {v for v in rounded if v > self.high})


@dataclass(frozen=True, kw_only=True)
class Choice(Control):
    """One of a few options. An option is spelt the same on the page, in a link and in the settings, so
    keep it short and human: `"on a circle"`. To rename one, leave the old name in `renamed={old: new}`."""

    options: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    more: Callable[[], tuple[str, ...]] | None = None
    """Further options that are only there now: a checkpoint that lies in the zoo or came by upload."""
    tabs: bool = False
    """Drawn as a row of buttons above the pictures instead of a list in the panel."""

    def offered(self) -> tuple[str, ...]:
        """All options as they stand now."""
        return self.options + (self.more() if self.more else ())

    def parse(self, text: str) -> str:
        text, offered = self.renamed.get(text, text), self.offered()
        if text not in offered:
            raise ValueError(f"is none of {', '.join(offered)}")
        return text


@dataclass(frozen=True, kw_only=True)
class Toggle(Control):
    """On or off."""

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("is neither true nor false")
        return text.lower() == "true"

    def text(self, value: Any) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, kw_only=True)
class Text(Control):
    """A short text, such as a pasted table. Longer than `longest` characters it is refused in a link.

    With `upload` a file may take its place. A file that fits is put into the field, and so into the link;
    a larger one is held in the session, where it is the control's value (bytes, if it is not text) but not
    the link's: the link says `ELSEWHERE`, for the page to explain.
    """

    longest: int = 2000
    lines: int = 4
    upload: tuple[str, ...] = ()
    """Endings of the files it takes."""

    def parse(self, text: str) -> str:
        if len(text) > self.longest:
            raise ValueError(f"is longer than {self.longest} characters")
        return text

    def text(self, value: Any) -> str:
        return ELSEWHERE if self.holds(value) else str(value)

    def holds(self, value: Any) -> bool:
        """Whether the value is one for the session, not for the field."""
        return bool(self.upload) and (isinstance(value, bytes) or len(value) > self.longest)


def seed(page: str, *, section: str = "", label: str = "Seed", **changes: Any) -> Number:
    """The seed row every random page has."""
    return Number(
        page=page, key="seed", label=label, default=0, low=0, high=2**31 - 1, step=1,
        slider=False, section=section, help="The same seed draws the same numbers.", **changes,
    )  # fmt: skip


TABLE: tuple[Control, ...] = ()


def rows(page: str) -> tuple[Control, ...]:
    """The controls of one page, in the order they are drawn."""
    return tuple(row for row in TABLE if row.page == page)


def register(*more: Control) -> None:
    """Add rows from outside this file. Only test pages do; the lab's own rows stand in `TABLE`."""
    global TABLE
    known = {row.name for row in TABLE}
    TABLE += tuple(row for row in more if row.name not in known)


def defaults(page: str, version: int = LINK_VERSION) -> dict[str, Any]:
    return {row.key: row.default_of(version) for row in rows(page)}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A named setting of a page, set with one click.

    Attributes:
        name: short name for links, `?preset=name`.
        label: what the button says.
        values: `{control key: value}`; every other control goes to its default.
        claim: what this scenario shows, one sentence.
    """

    name: str
    label: str
    values: Mapping[str, Any]
    claim: str

    def settings(self, page: str) -> dict[str, Any]:
        """All controls of the page as this scenario sets them."""
        return defaults(page) | dict(self.values)


@dataclass(frozen=True)
class Link:
    """What a link asks for: the values it states, its version and preset, and what was wrong with it."""

    values: dict[str, Any]
    version: int
    preset: str | None
    notices: tuple[str, ...]


def read_link(page: str, query: Mapping[str, list[str]], presets: Iterable[str] = ()) -> Link:
    """Read a page's link. Whatever is wrong with a value costs that value only, and is said.

    Args:
        page: name of the page the link opens.
        query: every parameter with all its values, as they stood in the address.
        presets: names of the page's scenarios.
    """
    known = {row.name: row for row in rows(page)}
    values: dict[str, Any] = {}
    notices: list[str] = []
    version, preset = LINK_VERSION, None
    for name, given in query.items():
        shown = f"`{_printable(name)}={_printable(given[-1])}`"
        if name in known:
            row = known[name]
            if len(given) > 1:
                notices.append(
                    f"`{_printable(name)}` is given {len(given)} times; the default stands."
                )
                continue
            try:
                values[row.key] = row.parse(given[0])
            except ValueError as reason:
                default = row.text(row.default)
                notices.append(f"{shown} {reason}; the default `{default}` stands.")
        elif name == "v":
            if given[-1].isdecimal() and 1 <= int(given[-1]) <= LINK_VERSION:
                version = int(given[-1])
            else:
                notices.append(
                    f"{shown} is no link version this lab knows; read as {LINK_VERSION}."
                )
        elif name == "preset":
            if given[-1] in set(presets):
                preset = given[-1]
            else:
                notices.append(f"{shown} is no scenario of this page; the defaults stand.")
        elif name not in RESERVED and not _of_other_page(name, page):
            notices.append(f"{shown} is no control of this page and was ignored.")
    return Link(values, version, preset, tuple(notices))


def write_link(page: str, values: Mapping[str, Any]) -> str:
    """The query string that states every control of the page, so that no later default can change it."""
    stated = {row.name: row.text(values[row.key]) for row in rows(page) if row.key in values}
    return urlencode({"v": LINK_VERSION, **stated})


def _of_other_page(name: str, page: str) -> bool:
    return any(row.name == name for row in TABLE if row.page != page)


def _printable(text: str, longest: int = 60) -> str:
    clean = "".join(c if c.isprintable() and c != "`" else "?" for c in text)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"
