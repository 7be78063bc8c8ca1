"""Points moved by hand, as the text of a control: `memory 3: 0.41, -0.2`, one a line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

Moved = tuple[str, int, float, float]
"""`"memory"` or `"example"`, its number from 0, and where it lies."""

MOST = 64  # points: what a link has room for
_NUMBER = r"([-+]?\d*\.?\d+(?:e[-+]?\d+)?)"
_LINE = re.compile(
    rf"(memory|example)\s+(\d{{1,3}})\s*:\s*{_NUMBER}\s*,\s*{_NUMBER}", re.IGNORECASE
)


def parse(text: str) -> tuple[Moved, ...]:
    """The points of a text; the last line about a point counts. Raises ValueError with the line it cannot read."""
    found: dict[tuple[str, int], Moved] = {}
    for line in filter(None, map(str.strip, re.split(r"[\n;]", text))):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(
                f"Moved points: expected lines such as 'memory 0: 0.5, -0.2' or 'example 1: 0.3, 0.8', got "
                f"{line[:60]!r}. Correct the line or empty the field."
            )
        kind, index, x, y = match.groups()
        at = (float(x), float(y))
        if not all(math.isfinite(v) and abs(v) <= 1e6 for v in at):
            raise ValueError(
                f"Moved points: expected coordinates of size at most 1e6, got {line[:60]!r}. Correct the line or "
                "empty the field."
            )
        found[kind.lower(), int(index)] = (kind.lower(), int(index), *at)
    if len(found) > MOST:
        raise ValueError(
            f"Moved points: expected at most {MOST} of them, got {len(found)}. Take some lines out."
        )
    return tuple(sorted(found.values()))


def text(points: Iterable[Moved]) -> str:
    """The text that `parse` reads as these points."""
    return "\n".join(f"{kind} {index}: {x:.5g}, {y:.5g}" for kind, index, x, y in points)
