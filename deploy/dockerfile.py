"""Reads the Dockerfile: its stages and steps, and which files of the checkout `.dockerignore` lets in.

Only what our Dockerfile uses is understood; anything else is refused, so that a check never passes over a step.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("ARG", "CMD", "COPY", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER", "WORKDIR")


@dataclass(frozen=True)
class Step:
    """One instruction, its lines joined."""

    kind: str
    text: str
    line: int


@dataclass
class Stage:
    """What stands between one FROM and the next."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)


def steps(text: str) -> Iterator[Step]:
    """The instructions of a Dockerfile. Raises ValueError for one that is not understood."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not (line.strip() or joined):
            continue
        first = first or number
        joined += line.strip().removesuffix("\\").rstrip() + " "
        if line.rstrip().endswith("\\"):
            continue
        kind, _, rest = joined.strip().partition(" ")
        if kind not in STEPS:
            raise ValueError(f"line {first}: expected one of {', '.join(STEPS)}, got {kind!r}")
        yield Step(kind, rest.strip(), first)
        joined, first = "", 0


def stages(text: str, arguments: Mapping[str, str] | None = None) -> list[Stage]:
    """The stages, with the arguments that stand before the first FROM put in."""
    known: dict[str, str] = {}
    found: list[Stage] = []
    for step in steps(text):
        if step.kind == "ARG" and not found:
            name, _, default = step.text.partition("=")
            known[name] = (arguments or {}).get(name, default)
        elif step.kind == "FROM":
            base, _, name = step.text.partition(" AS ")
            found.append(Stage(filled(base, known), name or str(len(found))))
        elif not found:
            raise ValueError(f"line {step.line}: {step.kind} stands before any FROM")
        else:
            found[-1].steps.append(step)
    return found


def filled(text: str, known: Mapping[str, str]) -> str:
    """The text with `${NAME}` and `$NAME` put in, as Docker does outside of RUN."""
    return re.sub(r"\$\{?(\w+)\}?", lambda m: known.get(m[1], ""), text)


def pairs(text: str) -> dict[str, str]:
    """`A=1 B="x y"` of an ENV or ARG."""
    return dict(word.partition("=")[::2] for word in shlex.split(text))


def command(text: str) -> list[str]:
    """The words of a CMD in its JSON form. Raises ValueError for the other form, which starts a shell."""
    words = json.loads(text)
    if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
        raise ValueError(f"expected a JSON list of words, got {text!r}")
    return words


def copied(text: str) -> tuple[str | None, list[str], str]:
    """The stage a COPY takes from (None: the checkout), its sources and its destination."""
    words = shlex.split(text)
    options = [w for w in words if w.startswith("--")]
    if any(not w.startswith("--from=") for w in options):
        raise ValueError(f"COPY: only --from is understood, got {text!r}")
    *sources, destination = [w for w in words if not w.startswith("--")]
    return (options[0].removeprefix("--from=") if options else None), sources, destination


class Context:
    """The files that a build may see: those of the checkout that `.dockerignore` lets in."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        lines = (root / ".dockerignore").read_text().splitlines()
        self.rules = [line.strip() for line in lines if line.strip() and line[0] != "#"]

    def lets_in(self, path: str) -> bool:
        """Whether a file, its path as below the checkout, goes to the builder. The last rule that fits counts."""
        parts = path.split("/")
        above = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
        allowed = True
        for rule in self.rules:
            pattern = rule.removeprefix("!")
            names = parts if pattern.startswith("**/") else above
            if any(fnmatch(name, pattern.removeprefix("**/")) for name in names):
                allowed = rule.startswith("!")
        return allowed

    def files(self, source: str) -> list[Path]:
        """The files that `COPY source` brings, as paths below the checkout."""
        start = self.root / source
        found = [Path(top) / name for top, _, names in os.walk(start) for name in names]
        if start.is_file():
            found = [start]
        below = (path.relative_to(self.root) for path in found)
        return sorted(path for path in below if self.lets_in(path.as_posix()))
