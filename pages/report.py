"""The report of a page without a browser or a server.

    python -m pages.report 'landscape?v=1&landscape-beta=20' -o report.html

The link is one that *Copy link* gives, or what follows its host. Exit code 2 and one sentence where it cannot be used.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from pages import catalog

HOST = "http://localhost:8501"
"""Of the permalink in the report, where the link names none."""


class LinkError(ValueError):
    """A link of which no report can be made; the message says why and what to do."""


def report(link: str) -> tuple[str, str]:
    """Name of the page and the report as HTML. Raises LinkError.

    A reader of a page is told what was wrong with a link and sees the rest; nobody watches here, so a link with
    anything wrong is refused.
    """
    from pages.ui import controls, unseen
    from pages.ui import report as reports

    try:
        parts = urlsplit(link if "://" in link else f"{HOST}/{link.lstrip('/')}")
        query = parse_qs(parts.query, keep_blank_values=True)
    except ValueError as reason:
        raise LinkError(f"expected a link, got {link[:120]!r}: {reason}.") from reason
    name = parts.path.rstrip("/").rsplit("/", 1)[-1]
    pages = [e.name for e in catalog.PAGES if controls.rows(e.name)]
    if name not in pages:
        raise LinkError(
            f"expected a link to one of {', '.join(pages)}, got {link[:120]!r}: copy it with Copy link."
        )
    module = import_module(f"pages.{name}")
    presets = {s.name: s.values for s in module.SCENARIOS}
    read = controls.read_link(name, query, presets)
    if read.notices:
        raise LinkError(" ".join(read.notices))
    base = {row.key: row.default_of(read.version) for row in controls.rows(name)}
    values = base | dict(presets[read.preset] if read.preset else {}) | read.values
    held = [r.label for r in controls.rows(name) if r.text(values[r.key]) == controls.ELSEWHERE]
    if held:
        raise LinkError(
            f"{held[0]} was an uploaded file, which a link does not carry: use the page's Export."
        )
    try:
        b = unseen.visit(name, values)
        a = None
        if read.pin is not None and read.pin != values:
            a = unseen.visit(name, read.pin)
    except ValueError as reason:
        raise LinkError(str(reason)) from reason
    address = f"{parts.scheme}://{parts.netloc}{parts.path}?"
    permalink = address + controls.write_link(name, values, read.pin)
    return name, reports.document(b, permalink, a)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pages.report", description=__doc__.split("\n")[0]
    )
    parser.add_argument("link", metavar="LINK", help="a page's link, whole or from its name on")
    parser.add_argument(
        "-o", "--out", metavar="FILE", help="default: PAGE-report.html; - prints it"
    )
    given = parser.parse_args(arguments)
    logging.disable(logging.WARNING)  # Streamlit remarks that no server runs
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        name, text = report(given.link)
        if given.out == "-":
            sys.stdout.write(text)
            return 0
        path = Path(given.out or f"{name}-report.html")
        path.write_text(text, encoding="utf-8")
    except (LinkError, OSError) as reason:
        print(f"pages.report: {reason}", file=sys.stderr)
        return 2
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
