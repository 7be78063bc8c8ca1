"""Results that all sessions share: made once whoever asks at the same time, bounded in bytes. No Streamlit here.

A result is found by the function that made it and by its arguments, which are scalars, strings and frozen
dataclasses; an argument that begins with `_` is no part of the key. Nothing is copied, so nobody may write into a
result.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import numpy as np

from pages.ui.gate import LOOK, Gate, through, visitor

F = TypeVar("F", bound=Callable)


_NOTHING = (
    bool,
    int,
    float,
    complex,
    type,
    FunctionType,
    MethodType,
    BuiltinFunctionType,
    ModuleType,
)
MOST_OBJECTS = 200_000
"""Looked at for one size: a walk that comes this far has found far more than a result."""


def nbytes(value: Any) -> int:
    """Bytes of the arrays, tensors, strings and containers that hang on `value`, each counted once.

    A view counts as the whole array it keeps alive; any object counts as 64 bytes besides.
    """
    torch = sys.modules.get("torch")
    seen: set[int] = set()
    rest, total = [value], 0
    while rest and len(seen) < MOST_OBJECTS:
        x = rest.pop()
        while isinstance(x, np.ndarray) and isinstance(x.base, np.ndarray):
            x = x.base
        if x is None or isinstance(x, _NOTHING):
            continue
        tensor = torch is not None and isinstance(x, torch.Tensor)
        which = x.untyped_storage().data_ptr() if tensor else id(x)
        if which in seen:
            continue
        seen.add(which)
        total += 64
        if tensor:
            total += x.untyped_storage().nbytes()
        elif isinstance(x, np.ndarray):
            total += x.nbytes
        elif isinstance(x, str | bytes):
            total += len(x)
        elif isinstance(x, Mapping):
            rest += [*x.keys(), *x.values()]
        elif isinstance(x, list | tuple | set | frozenset):
            rest += x
        else:
            rest += getattr(x, "__dict__", {}).values()
    return total


class _Flight:
    """A result in the making."""

    def __init__(self) -> None:
        self.landed = threading.Event()


class Store:
    """Keeps the results of many functions, the least recently used of all leaving first.

    Args:
        limit: most bytes, asked at each new result.
        gate: what heavy functions wait at.
    """

    def __init__(self, limit: Callable[[], int], gate: Gate) -> None:
        self.limit, self.gate = limit, gate
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple, tuple[Any, int, bool]] = OrderedDict()
        self._of: dict[
            Callable, OrderedDict[tuple, None]
        ] = {}  # keys by function, oldest use first
        self._flights: dict[tuple, _Flight] = {}
        self.bytes = 0  # of results that count against the limit
        self.held_bytes = 0  # of models, which are bounded in number
        self.hits = self.misses = self.dropped = 0

    def shared(
        self, entries: int, *, heavy: bool = True, counted: bool = True, gate: Gate | None = None
    ) -> Callable[[F], F]:
        """Decorator: keep up to `entries` results of this function.

        Args:
            heavy: it takes a turn at the gate. Where not, nothing it calls waits at the gate either.
            counted: its results count against the limit, and leave when that is reached.
            gate: where it waits for its turn, if not where the others do.
        """

        door = (gate or self.gate) if heavy else None

        def decorate(function: F) -> F:
            key_of = _key_of(function)

            @functools.wraps(function)
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                key = key_of(args, kwargs)
                return self._get(key, lambda: function(*args, **kwargs), entries, door, counted)

            def clear() -> None:
                with self._lock:
                    for key in list(self._of.get(function, ())):
                        self._drop(key)

            wrapped.clear = clear  # type: ignore[attr-defined]
            return wrapped  # type: ignore[return-value]

        return decorate

    def _get(
        self, key: tuple, make: Callable[[], Any], entries: int, door: Gate | None, counted: bool
    ) -> Any:
        who = visitor()
        while True:
            found, flight = self._look(key)
            if found is not None:
                who.tally.hits += 1
                return found[0]
            if flight is not None:  # somebody makes it now: one is enough
                self._await(flight)
                continue
            if door is None:
                with through():
                    made = self._make(key, make, entries, counted)
            else:
                with door.turn():
                    made = self._make(key, make, entries, counted)
            if made is not None:
                return made[0]

    def _look(self, key: tuple) -> tuple[tuple[Any] | None, _Flight | None]:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                self._of[key[0]].move_to_end(key)
                self.hits += 1
                return (self._kept[key][0],), None
            return None, self._flights.get(key)

    def _await(self, flight: _Flight) -> None:
        who, start = visitor(), time.monotonic()
        try:
            while not flight.landed.wait(LOOK):
                who.look()
        finally:
            who.tally.queue_seconds += time.monotonic() - start

    def _make(
        self, key: tuple, make: Callable[[], Any], entries: int, counted: bool
    ) -> tuple[Any] | None:
        """Make and keep it; None if another one was there first, who is making it or has."""
        flight = _Flight()
        with self._lock:
            if key in self._kept or key in self._flights:
                return None
            self._flights[key] = flight
            self.misses += 1
        who, start = visitor(), time.monotonic()
        nested = who.tally.work_seconds
        who.tally.misses += 1
        try:
            made = make()
            size = nbytes((key, made))
            with self._lock:
                self._keep(key, made, size, entries, counted)
        finally:
            with self._lock:
                del self._flights[key]
            flight.landed.set()
            who.tally.work_seconds = nested + time.monotonic() - start
        return (made,)

    def _keep(self, key: tuple, made: Any, size: int, entries: int, counted: bool) -> None:
        if counted and size > self.limit():
            self.dropped += 1
            return
        self._kept[key] = (made, size, counted)
        mine = self._of.setdefault(key[0], OrderedDict())
        mine[key] = None
        self._count(size, counted)
        while len(mine) > entries:
            self._drop(next(iter(mine)))
        if self.bytes > self.limit():
            for other in [k for k, (_, _, c) in self._kept.items() if c and k != key]:
                self._drop(other)
                if self.bytes <= self.limit():
                    break

    def _drop(self, key: tuple) -> None:
        _, size, counted = self._kept.pop(key)
        del self._of[key[0]][key]
        self._count(-size, counted)
        self.dropped += 1

    def _count(self, size: int, counted: bool) -> None:
        if counted:
            self.bytes += size
        else:
            self.held_bytes += size

    def __len__(self) -> int:
        return len(self._kept)


def _key_of(function: Callable) -> Callable[[tuple, dict], tuple]:
    """Arguments to key. 1, 1.0 and True are three keys: a page may print what it was given."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    counted = [i for i, n in enumerate(names) if not n.startswith("_")]
    last = len(names)
    known = dict(zip(names[::-1], (function.__defaults__ or ())[::-1], strict=False))

    def key(args: tuple, kwargs: dict) -> tuple:
        given = dict(kwargs)
        row = [
            args[i] if i < len(args) else given.pop(names[i], known.get(names[i])) for i in counted
        ]
        named: Iterable = sorted((k, v) for k, v in given.items() if not k.startswith("_"))
        values = (*row, *args[last:])
        return (
            function, *((type(v), v) for v in values), *((k, type(v), v) for k, v in named),
        )  # fmt: skip

    return key
