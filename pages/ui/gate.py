"""Who may compute now: a queue over sessions, one place each, in the order they came. No Streamlit here.

Long work is cut into turns (64 prompts, 16 questions, one study). Between two turns a session goes to the end
of the queue, so that a class of thirty advances together and nobody's long study keeps the others out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

LOOK = 0.25
"""Seconds between two looks whether somebody who waits still wants to."""


class Superseded(BaseException):
    """The session has asked for something newer. No `except Exception` may take it for an error."""


@dataclass
class Tally:
    """What one request has cost so far."""

    queue_seconds: float = 0.0
    work_seconds: float = 0.0
    hits: int = 0
    misses: int = 0


@dataclass
class Visitor:
    """On whose behalf this thread computes.

    Attributes:
        session: whose turns these are.
        waiting: called with the number of people before, again and again while the thread waits, and with None
            when it does not any more. It may raise to leave the queue.
        look: called between two turns; it raises if the work is not wanted any more.
    """

    session: str
    waiting: Callable[[int | None], None] = lambda before: None
    look: Callable[[], None] = lambda: None
    tally: Tally = field(default_factory=Tally)


_here = threading.local()  # .visitor, .inside


@contextmanager
def visiting(visitor: Visitor) -> Iterator[Visitor]:
    """Everything this thread computes inside is the visitor's."""
    before = getattr(_here, "visitor", None)
    _here.visitor = visitor
    try:
        yield visitor
    finally:
        _here.visitor = before


def visitor() -> Visitor:
    """Whose work this thread does; a tool or a test without a session counts as one of its own."""
    found = getattr(_here, "visitor", None)
    return found if found is not None else Visitor(f"thread {threading.get_ident()}")


@contextmanager
def through() -> Iterator[None]:
    """Let what this thread computes inside pass every gate: for work that others may be waiting for."""
    before = getattr(_here, "inside", False)
    _here.inside = True
    try:
        yield
    finally:
        _here.inside = before


@dataclass(eq=False)
class _Place:
    session: str
    newer: bool = False  # the session has come again since
    in_turn: bool = False


class Gate:
    """At most `width` sessions compute at once, each in one turn; the rest stand in a queue."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._change = threading.Condition()
        self._queue: list[_Place] = []
        self._inside: list[_Place] = []

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn of this thread's visitor and hold it inside. A turn in a turn is the same turn.

        A session that comes again while an earlier request of its own waits takes that one's place: the
        earlier one raises Superseded, and so does one that computes, at its next turn.
        """
        if getattr(_here, "inside", False):
            yield
            return
        who = visitor()
        who.look()
        place = self._enter(who)
        _here.inside = True
        try:
            yield
        finally:
            _here.inside = False
            self._leave(place)

    def _enter(self, who: Visitor) -> _Place:
        place, start, told = _Place(who.session), time.monotonic(), False
        with self._change:
            for at, older in enumerate(self._queue):
                if (
                    older.session == who.session
                ):  # the newest request stands where the older one stood
                    older.newer, self._queue[at] = True, place
                    break
            else:
                self._queue.append(place)
            self._call()
        try:
            while True:
                with self._change:
                    if not place.in_turn and not place.newer:
                        self._change.wait(LOOK)
                    if place.newer and not place.in_turn:
                        raise Superseded
                    if place.in_turn:
                        break
                    before = self._before(place)
                who.waiting(before)  # outside the lock: it may take a while, and it may raise
                told = True
            if told:
                who.waiting(None)
        except BaseException:
            self._leave(place)
            raise
        finally:
            who.tally.queue_seconds += time.monotonic() - start
        return place

    def _leave(self, place: _Place) -> None:
        with self._change:
            if place in self._queue:
                self._queue.remove(place)
            if place in self._inside:
                self._inside.remove(place)
            self._call()

    def _call(self) -> None:
        """Let in whoever is next; a session that is inside already lets the one behind it pass."""
        for place in list(self._queue):
            if len(self._inside) >= self.width:
                break
            if all(other.session != place.session for other in self._inside):
                self._queue.remove(place)
                self._inside.append(place)
                place.in_turn = True
        self._change.notify_all()

    def _before(self, place: _Place) -> int:
        ahead = self._queue[: self._queue.index(place)]
        return len({other.session for other in (*self._inside, *ahead)} - {place.session})

    @property
    def waiting(self) -> int:
        """How many stand in the queue."""
        return len(self._queue)

    @property
    def busy(self) -> int:
        """How many compute."""
        return len(self._inside)


def in_words(before: int) -> str:
    """What the page says to somebody who waits."""
    if before == 0:
        return "Your turn is next."
    return f"{before} {'person' if before == 1 else 'people'} before you."
