"""Many visitors at once, moving controls: `python -m benchmarks.load`.

Each client is one tab that speaks Streamlit's protocol; it opens a page, moves a number, waits until the page has
said so, thinks for a moment and moves the next. Some are cut off and come back as the browser does, with their
session, and some close their tab and open another. Reported: p50 and p95 from the move to the end of the script,
errors, settings lost by a cut, memory over time. Only a server that this command starts is asked.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.browser import ROOT, serve
from benchmarks.protocol import Client, memory

PAGES = (
    "landscape", "regression", "hidden_concept", "retrieval", "generalization", "layers",
    "induction", "checkpoints", "ghosts",
)  # fmt: skip
MOST_CLIENTS, MOST_SECONDS = 64, 900


@dataclass
class Report:
    """What all clients saw."""

    moves: dict[str, list[float]] = field(default_factory=dict)
    openings: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    cuts: int = 0
    lost: int = 0
    closed: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)

    @property
    def seconds(self) -> list[float]:
        return [s for row in self.moves.values() for s in row]

    def quantile(self, q: float) -> float:
        return float(np.quantile(self.seconds, q)) if self.seconds else float("nan")


def visit(
    address: str, number: int, until: float, think: float, cut: float, report: Report
) -> None:
    """One visitor's time at the lab."""
    draw = random.Random(number)
    client = Client(address, PAGES[number % len(PAGES)])
    try:
        report.openings.append(client.open())
        done = 0
        while time.monotonic() < until:
            seconds = client.move(draw)
            report.moves.setdefault(client.page, []).append(seconds)
            done += 1
            time.sleep(draw.expovariate(1 / think))
            if done % 10 == 5 and number % 3 == 0:  # the network goes, and comes back
                before = {f.id: f.value for f in client.fields.values()}
                client.cut()
                time.sleep(cut)
                client.open()
                report.cuts += 1
                after = {f.id: f.value for f in client.fields.values()}
                report.lost += any(after.get(k, v) != v for k, v in before.items())
            if done % 10 == 9 and number % 3 == 1:  # the tab is closed, and another one opened
                report.errors += client.errors
                client.cut()
                report.closed += 1
                client = Client(address, draw.choice(PAGES))
                report.openings.append(client.open())
    except Exception as reason:
        report.errors.append(f"{type(reason).__name__} on {client.page}")
    finally:
        report.errors += client.errors
        client.cut()


def load(clients: int, seconds: float, think: float, cut: float) -> Report:
    """Let so many visitors at a server of our own for so long."""
    report = Report()
    with serve(ROOT / "app.py") as address:
        for page in PAGES:  # what is loaded once, is loaded before the clock starts
            first = Client(address, page)
            first.open(300)
            first.cut()
        start = time.monotonic()
        threads = [
            threading.Thread(
                target=visit, args=(address, i, start + seconds, think, cut, report), daemon=True
            )
            for i in range(clients)
        ]
        for thread in threads:
            thread.start()
        while (
            any(thread.is_alive() for thread in threads) and time.monotonic() < start + 3 * seconds
        ):
            report.memory.append((time.monotonic() - start, memory(address)))
            time.sleep(min(5.0, seconds / 4))
        for thread in threads:
            thread.join(1)
            if thread.is_alive():
                report.errors.append("a visitor was never answered")
    return report


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--clients", type=int, default=10, help=f"visitors, at most {MOST_CLIENTS}")
    parser.add_argument("--seconds", type=float, default=60, help=f"at most {MOST_SECONDS}")
    parser.add_argument("--think", type=float, default=1.0, help="seconds between two moves, mean")
    parser.add_argument("--cut", type=float, default=2.0, help="seconds without a network")
    a = parser.parse_args(arguments)
    if not 1 <= a.clients <= MOST_CLIENTS or not 1 <= a.seconds <= MOST_SECONDS:
        parser.error(f"expected 1 to {MOST_CLIENTS} clients and 1 to {MOST_SECONDS} seconds")
    r = load(a.clients, a.seconds, a.think, a.cut)
    print(f"{a.clients} visitors, {a.seconds:g} s, {len(r.seconds)} moves")
    for page, seconds in sorted(r.moves.items()):
        p50, p95 = np.quantile(seconds, (0.5, 0.95))
        print(f"  {page:<16}{len(seconds):>5} moves   p50 {p50:6.2f} s   p95 {p95:6.2f} s")
    print(
        f"  all             {len(r.seconds):>5} moves   p50 {r.quantile(0.5):6.2f} s   p95 {r.quantile(0.95):6.2f} s"
    )
    print(f"opening a page: p95 {np.quantile(r.openings or [np.nan], 0.95):.2f} s")
    print(f"cuts {r.cuts}, settings lost {r.lost}; tabs closed {r.closed}; errors {len(r.errors)}")
    for text in sorted(set(r.errors)):
        print(f"  {r.errors.count(text)} x {text}")
    print("MiB after s: " + ", ".join(f"{m:.0f} ({t:.0f})" for t, m in r.memory))


if __name__ == "__main__":
    main()
