"""Home page: from the first request to a server that has just come up, to words and to picture.

    python -m benchmarks.home [--runs 5]

Each run starts its own server and a browser with an empty cache.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.browser import ALL_DRAWN, ROOT, chromium, serve

NOW = "() => performance.now()"


def once() -> tuple[float, float]:
    """Milliseconds from navigation to the map's cards, and to the picture."""
    with serve(ROOT / "app.py") as address, chromium() as browser:
        page = browser.new_page()
        page.goto(address, wait_until="commit")
        page.locator("[class*='st-key-lab-card-']").last.wait_for()
        words = page.evaluate(NOW)
        page.wait_for_selector(".lab-chart[data-painted]")
        page.wait_for_function(ALL_DRAWN)
        return words, float(page.locator(".lab-chart").get_attribute("data-painted"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = [once() for _ in range(parser.parse_args().runs)]
    words, picture = (statistics.median(r[i] for r in runs) for i in (0, 1))
    print(
        f"home: words after {words:.0f} ms, picture after {picture:.0f} ms (medians of {len(runs)})"
    )


if __name__ == "__main__":
    main()
