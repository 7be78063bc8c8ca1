"""Folders a visitor may name: only those below the places the operator opens."""

from __future__ import annotations

import os
from pathlib import Path

ROOTS = "RESHAPE_DATA"
"""Environment variable: folders that may be read, separated like a search path."""
_LAB = Path(__file__).resolve().parents[2]


def roots() -> list[Path]:
    """Where data and models may lie: what the variable says, else the folder the lab stands in."""
    given = [Path(p).expanduser() for p in os.environ.get(ROOTS, "").split(os.pathsep) if p]
    beside = _LAB if _LAB.parent == Path(_LAB.anchor) else _LAB.parent  # never the whole disk
    return [p.resolve() for p in given or [beside]]


def allowed(path: str) -> Path:
    """The folder, links followed. A path without a leading slash starts at the lab.

    Whether a path outside the roots exists is not told.
    """
    if "\0" in path:  # which no system call takes
        raise ValueError("a path holds no zero byte: type it anew.")
    full = Path(path.strip())
    full = (full if full.is_absolute() else _LAB / full).resolve()
    if not any(full.is_relative_to(root) for root in roots()):
        opened = ", ".join(map(str, roots()))
        raise ValueError(
            f"expected a folder below {opened}, got {path.strip()[:120]!r}. Who runs the lab can "
            f"open others: {ROOTS}=/one/folder:/another before it starts."
        )
    try:
        there = full.is_dir()
    except OSError:  # not for the lab's user to see
        there = False
    if not there:
        raise ValueError(f"there is no folder {path.strip()[:120]!r}: check how it is spelt.")
    return full


def stamp(folder: Path) -> str:
    """Changes when a file of the folder does."""
    try:
        files = sorted(p for p in folder.iterdir() if p.is_file())[:100]
        return " ".join(f"{p.name}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in files)
    except OSError as reason:
        raise ValueError(
            f"the folder {folder.name[:120]!r} cannot be read here: {reason.strerror}."
        ) from reason
