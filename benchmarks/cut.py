"""A browser whose network goes for 20 seconds: `python -m benchmarks.cut`. Are the settings kept?

Chromium opens the landscape page over a line that is then cut. Reported: the value of a control before the cut, after
it, and after one more move.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.browser import ALL_DRAWN, ROOT, chromium, serve
from benchmarks.line import line

OFFLINE = "document.querySelector('[data-testid=stConnectionStatus]') !== null"


def cut(page: Any, wire: Any, seconds: float) -> list[str]:
    """Values of two controls before the cut, after it, and once the second was moved then."""
    found = []
    memories, noise = (
        page.get_by_role("spinbutton", name=name)
        for name in ("M memories, exact", "Noise of the query, exact")
    )

    def read() -> None:
        page.wait_for_function(ALL_DRAWN)
        found.append(f"M = {memories.input_value()}, noise = {noise.input_value()}")

    def move(control: Any, value: str) -> None:
        control.fill(value)
        control.press("Enter")
        page.wait_for_function(f"location.search.includes('={value}')")

    move(memories, "9")
    read()
    wire.cut()
    time.sleep(seconds)
    wire.mend()
    page.wait_for_function(f"!({OFFLINE})")
    read()
    move(noise, "0.7")
    read()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    seconds = parser.parse_args(arguments).seconds
    with serve(ROOT / "app.py") as address, line(address) as wire, chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(120_000)
        page.goto(f"{wire.address}/landscape")
        page.wait_for_function(ALL_DRAWN)
        found = cut(page, wire, seconds)
        for when, values in zip(("before", "after", "and then moved"), found, strict=True):
            print(f"{when}: {values}")
    if found[0] != found[1] or found[2] != "M = 9, noise = 0.7":
        raise SystemExit("settings were lost")


if __name__ == "__main__":
    main()
