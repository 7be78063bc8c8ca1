"""The README's screenshots, from the running lab.

python -m benchmarks.pictures docs
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.browser import ALL_DRAWN, ROOT, chromium, serve

SHOTS = {"landscape": "landscape"}  # file name: path and query


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="where the PNG files go")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with serve(ROOT / "app.py") as address, chromium() as browser:
        for name, path in SHOTS.items():
            for scheme in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": 1280, "height": 800}, color_scheme=scheme
                )
                page.goto(f"{address}/{path}")
                page.wait_for_selector(".lab-chart[data-painted]", timeout=120_000)
                page.wait_for_function(ALL_DRAWN, timeout=120_000)
                page.screenshot(path=folder / f"{name}-{scheme}.png")
                page.close()


if __name__ == "__main__":
    main()
