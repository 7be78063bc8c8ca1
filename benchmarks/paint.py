"""Slider release to new picture painted, in a real Chromium, above the floor of a page that only
prints its slider's value.

    python -m benchmarks.paint                          # every catalogued page, its first slider
    python -m benchmarks.paint landscape:"β inverse temperature" --moves 30

Both clocks are the browser's own: from the pointer's release to the first frame after the last
picture that changed. Page and floor take turns within one run, so that whatever else the machine does
hits both.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from benchmarks.browser import ALL_DRAWN, ROOT, chromium, serve

# Counts from the release to the moment the last change stood on the screen. A chart says itself when
# it is painted; the floor's text is watched.
WATCH = """() => {
  const w = (window.watch = { released: 0, painted: 0 });
  const release = () => { w.released = performance.now(); w.painted = 0; };
  for (const e of ["pointerup", "mouseup"]) document.addEventListener(e, release, true);
  const shown = () => requestAnimationFrame(() => setTimeout(() => (w.painted = performance.now())));
  const chart = (all) => {
    for (const m of all) w.painted = Math.max(w.painted, Number(m.target.dataset.painted ?? 0));
  };
  if (document.querySelector("#floor")) {
    const text = { subtree: true, childList: true, characterData: true };
    new MutationObserver(shown).observe(document.querySelector("[data-testid=stMain]"), text);
  } else {
    const painted = { subtree: true, attributes: true, attributeFilter: ["data-painted"] };
    new MutationObserver(chart).observe(document.body, painted);
  }
}"""


class Subject:
    """An open page with one slider to move."""

    def __init__(self, page: Any, label: str) -> None:
        self.page = page
        sliders = page.get_by_role("slider")
        slider = page.get_by_role("slider", name=label).first if label else sliders.first
        slider.wait_for(state="attached", timeout=60_000)
        self.thumb = slider.locator("xpath=ancestor::div[@data-rac][1]")  # what the mouse can hold
        page.wait_for_function(ALL_DRAWN, timeout=60_000)
        self.thumb.scroll_into_view_if_needed()
        page.evaluate(WATCH)
        self.step = 7  # pixels; onward, so that every value is new and no cache answers

    def move(self) -> float:
        """Drag the thumb by a little and let go; milliseconds from release to paint."""
        box = self.thumb.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self._turn(x)
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + self.step, y, steps=3)
        mouse.up()
        self.page.wait_for_function("window.watch.painted > window.watch.released", timeout=30_000)
        self._settle()
        watch = self.page.evaluate("window.watch")
        return watch["painted"] - watch["released"]

    def _turn(self, x: float) -> None:
        """Turn round before an end of the track, by another step so as not to meet old values."""
        track = self.thumb.locator("xpath=..").bounding_box()
        left, right = track["x"], track["x"] + track["width"]
        if self.step > 0 and x + self.step > right:
            self.step = -(self.step - 1)
        elif self.step < 0 and x + self.step < left:
            self.step = -self.step + 2

    def _settle(self) -> None:
        last = -1.0
        while last != (last := self.page.evaluate("window.watch.painted")):
            self.page.wait_for_timeout(350)


def measure(
    address: str, path: str, label: str, floor_address: str, moves: int = 20
) -> dict[str, float]:
    """Milliseconds: medians `page` and `floor`, `above` their difference, `p95` of the page."""
    with chromium() as browser:
        view = {"width": 1280, "height": 900}
        one, two = browser.new_page(viewport=view), browser.new_page(viewport=view)
        one.goto(f"{address}/{path}")
        two.goto(floor_address)
        page, floor = Subject(one, label), Subject(two, "")
        times: dict[str, list[float]] = {"page": [], "floor": []}
        for i in range(moves + 2):
            for name, subject in (("page", page), ("floor", floor)):
                subject.page.bring_to_front()
                taken = subject.move()
                if i >= 2:  # the first two warm both up
                    times[name].append(taken)
    page_ms, floor_ms = (statistics.median(times[k]) for k in ("page", "floor"))
    p95 = sorted(times["page"])[max(0, round(0.95 * moves) - 1)]
    return {"page": page_ms, "floor": floor_ms, "above": page_ms - floor_ms, "p95": p95}


def main() -> None:
    from pages import catalog

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("pages", nargs="*", help="name, or name?query, or name:slider label")
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--script", default="app.py")
    args = parser.parse_args()
    names = args.pages or [e.name for e in catalog.PAGES if e is not catalog.HOME]
    print(f"{'page':28} {'ms':>8} {'floor':>7} {'above':>7} {'p95':>7}   medians of {args.moves}")
    with serve(ROOT / args.script) as lab, serve(ROOT / "benchmarks/floor.py") as floor:
        for name in names:
            path, _, label = name.partition(":")
            r = measure(lab, path, label, floor, args.moves)
            print(
                f"{path:28} {r['page']:8.0f} {r['floor']:7.0f} {r['above']:7.0f} {r['p95']:7.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
