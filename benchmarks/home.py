"""Home page: from the first request to a server that has just come up, to words, energies and picture.

The energies stand first as an image; then plotly.js draws them with memories and query, to be played.

    python -m benchmarks.home [--runs 5]

Each run starts its own server and a browser with an empty cache.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.browser import ALL_DRAWN, ROOT, chromium, serve

NOW = "() => performance.now()"
PAINTED = """() => new Promise((done) => {
  const look = () => document.querySelector(".lab-home-poster img")?.complete
    ? requestAnimationFrame(() => done(performance.now()))
    : requestAnimationFrame(look);
  look();
})"""


def once() -> tuple[float, float, float]:
    """Milliseconds from navigation to the map's cards, to the image, and to the picture."""
    with serve(ROOT / "app.py") as address, chromium() as browser:
        page = browser.new_page()
        page.goto(address, wait_until="commit")
        image = page.evaluate(PAINTED)
        page.locator("[class*='st-key-lab-card-']").last.wait_for()
        words = page.evaluate(NOW)
        page.wait_for_selector(".lab-chart[data-painted]")
        page.wait_for_function(ALL_DRAWN)
        return words, image, float(page.locator(".lab-chart").get_attribute("data-painted"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = [once() for _ in range(parser.parse_args().runs)]
    words, image, picture = (statistics.median(r[i] for r in runs) for i in range(3))
    print(
        f"home: words after {words:.0f} ms, energies after {image:.0f} ms, picture after {picture:.0f} ms "
        f"(medians of {len(runs)})"
    )


if __name__ == "__main__":
    main()
