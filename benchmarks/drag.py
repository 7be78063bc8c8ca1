"""Frames a second while a point of the landscape is dragged: `python -m benchmarks.drag`.

A 101 x 101 grid on both sides with M = 24 memories, the query's way and the basins, in headless Chromium.
The pointer moves once a frame, from the page itself, so that the browser's own clock is the only one. Also
given: milliseconds the browser computes and paints on the canvas per move, which a busy machine moves less.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.browser import ALL_DRAWN, ROOT, chromium, serve

TARGET = 50  # frames a second
LINK = "landscape?landscape-memories=24&landscape-examples=24&landscape-basins=true"
# Drags the query in a circle and notes when each frame came and what it took to draw.
DRAG = """async (moves) => {
  const root = document.querySelector("[class*='st-key-landscape-before-after'] .lab-chart");
  const plot = root.querySelector(".js-plotly-plot");
  const [box, { xaxis, yaxis }] = [plot.getBoundingClientRect(), plot._fullLayout];
  const [across, up] = [(v) => box.left + xaxis._offset + xaxis.d2p(v), (v) => box.top + yaxis._offset + yaxis.d2p(v)];
  const path = plot.data.find((t) => t.uid === "path-before");
  const send = (name, x, y) => plot.dispatchEvent(new PointerEvent(name, {
    clientX: x, clientY: y, pointerId: 1, buttons: 1, bubbles: true, cancelable: true }));
  const frame = () => new Promise(requestAnimationFrame);
  const [x, y] = [across(path.x[0]), up(path.y[0])];
  send("pointerdown", x, y);
  const [times, costs] = [[], []];
  for (let i = 0; i <= moves; i++) {
    const turn = 2 * Math.PI * i / 100;
    send("pointermove", x - 60 + 60 * Math.cos(turn), y + 6 + 60 * Math.sin(turn));
    times.push(await frame());
    if (i) costs.push(Number(root.dataset.frameMs));
  }
  const frames = Number(root.dataset.frames);
  send("pointercancel", x, y);
  return { gaps: times.slice(1).map((t, i) => t - times[i]), costs, frames };
}"""


def measure(link: str = LINK, moves: int = 200) -> dict[str, float]:
    """Medians: `fps` frames a second, `ms` computed and painted per move; `frames` drawn in all."""
    with serve(ROOT / "app.py") as lab, chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{lab}/{link}")
        page.wait_for_selector(".lab-chart[data-painted]", timeout=120_000)
        page.wait_for_function(ALL_DRAWN, timeout=120_000)
        page.evaluate(DRAG, 30)  # warms the compiler up
        r = page.evaluate(DRAG, moves)
    fps = 1000 / statistics.median(r["gaps"])
    return {"fps": fps, "ms": statistics.median(r["costs"]), "frames": r["frames"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--moves", type=int, default=200)
    moves = parser.parse_args().moves
    print(f"{'picture':<34}{'frames/s':>9}{'ms/move':>9}   medians of {moves}, target {TARGET}")
    for name, link in (
        ("M = 24, with basins", LINK),
        ("M = 24, without basins", LINK.replace("&landscape-basins=true", "")),
        ("the page as it opens", "landscape"),
    ):
        r = measure(link, moves)
        print(f"{name:<34}{r['fps']:>9.1f}{r['ms']:>9.2f}", flush=True)


if __name__ == "__main__":
    main()
