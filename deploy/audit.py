"""What the lab stands on: every package with version and licence, and known weaknesses where they can be looked up.

    python -m deploy.audit

Fails only for a dependency that is installed in another version than requirements.txt pins, or that pip-audit knows a
weakness of. The advisories lie on the network; without it, or without pip-audit, that is said and nothing fails. No
list of advisories is kept here: one that nobody renews would tell old news as all clear.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("requirements.txt", "requirements-text.txt")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;#]+)", re.MULTILINE)
# What pip-audit says when it could not ask, rather than what it found.
_UNREACHED = re.compile(
    r"ConnectionError|ServiceError|Max retries|timed out|resolve|HTTPError|SSLError", re.IGNORECASE
)


def pinned() -> dict[str, str]:
    """Name -> version of every direct dependency."""
    return {n: v for file in FILES for n, v in _PIN.findall((ROOT / file).read_text())}


def wrong(pins: dict[str, str]) -> list[str]:
    """A sentence for every dependency that is not installed as it is pinned."""
    said = []
    for name, version in pins.items():
        try:
            there = metadata.version(name).split("+")[0]  # +cpu says where torch was built
        except metadata.PackageNotFoundError:
            there = "none"
        if there != version:
            said.append(
                f"{name}: pinned {version}, installed {there}. Run `make run` to install it anew."
            )
    return said


def needed(pins: dict[str, str]) -> list[str]:
    """All that the pins bring along, sorted: what is really in the image."""
    found: dict[str, str] = {}
    todo = list(pins)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # wanted on another system, or left out on purpose
            continue
        found[name] = package.metadata["Name"]
        todo += [
            re.split(r"[^A-Za-z0-9._-]", r)[0]
            for r in package.requires or ()
            if "extra ==" not in r
        ]
    return sorted(found.values(), key=str.lower)


def licence(name: str) -> str:
    """As the package declares it, in a few words."""
    said = metadata.metadata(name)
    classifiers = [
        c.rsplit(" :: ", 1)[-1] for c in said.get_all("Classifier") or () if c.startswith("License")
    ]
    first = (said.get("License") or "").strip().splitlines()
    return (
        said.get("License-Expression")
        or ", ".join(classifiers)
        or (first[0][:60] if first else "")
        or "not declared"
    )


def lines() -> Iterator[str]:
    for name in needed(pinned()):
        yield f"{name:32s} {metadata.version(name):16s} {licence(name)[:60]}"


def weaknesses() -> int:
    """Ask pip-audit; 1 if it found something."""
    if util.find_spec("pip_audit") is None:
        print("known weaknesses: not looked up, pip-audit is not installed (pip install pip-audit)")
        return 0
    files = [word for file in FILES for word in ("-r", file)]
    found = subprocess.run(
        [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--progress-spinner", "off", *files],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if found.returncode and _UNREACHED.search(found.stderr):
        print("known weaknesses: not looked up, the advisories cannot be reached from here")
        return 0
    print(found.stdout, found.stderr, sep="")
    return int(found.returncode != 0)


def main() -> int:
    print(*lines(), sep="\n")
    said = wrong(pinned())
    print(*said, sep="\n")
    return int(bool(said)) or weaknesses()


if __name__ == "__main__":
    sys.exit(main())
