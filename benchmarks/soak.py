"""Does memory stay flat? `python -m benchmarks.soak`: 500 moved controls over all pages and 30 closed tabs.

After a warm-up, which fills the caches, memory of the server and its workers may grow by 50 MiB and stays below
1.2 GiB. Ends with status 1 where it does not, or where a page showed an error.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

from benchmarks.browser import ROOT, serve
from benchmarks.load import PAGES
from benchmarks.protocol import Client, figures, memory

GROWTH, MOST = 50, 1.2 * 1024  # MiB
ALL = (*PAGES, "text")
QUERY = {
    "text": "v=1&text-queries=16&text-examples=2"
}  # a change of text takes seconds, not a minute


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--changes", type=int, default=500)
    parser.add_argument("--tabs", type=int, default=30, help="closed on the way")
    parser.add_argument("--warm", type=int, default=200, help="changes before memory counts")
    parser.add_argument("--without-text", action="store_true", help="leave the language model out")
    a = parser.parse_args(arguments)
    pages = PAGES if a.without_text else ALL
    draw, errors = random.Random(0), []
    seen: list[float] = []
    with serve(ROOT / "app.py") as address:
        client, closed = Client(address, pages[0], QUERY.get(pages[0], "")), 0
        client.open(600)
        base = 0.0
        every = max(1, (a.warm + a.changes) // max(a.tabs, 1))
        for i in range(a.warm + a.changes):
            if i % every == every - 1:  # another tab on the next page
                errors += client.errors
                client.cut()
                closed += 1
                page = pages[closed % len(pages)]
                client = Client(address, page, QUERY.get(page, ""))
                client.open(600)
            client.move(draw, 600)
            if i == a.warm - 1:
                base = memory(address)
            if i % 25 == 24:
                seen.append(memory(address))
                now = figures(address)
                print(
                    f"{i + 1:>5} changes, {closed:>3} tabs closed: {seen[-1]:6.0f} MiB; results "
                    f"{now['reshape_cache_bytes'] / 2**20:5.0f} MiB, workers {now['reshape_workers']:.0f}",
                    flush=True,
                )
        errors += client.errors
        client.cut()
        last, most = memory(address), max(seen, default=0.0)
    print(
        f"after the warm-up {base:.0f} MiB, at the end {last:.0f}, most {most:.0f}; errors {len(errors)}"
    )
    for text in sorted(set(errors)):
        print(f"  {errors.count(text)} x {text}")
    if errors or last - base > GROWTH or most > MOST:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
