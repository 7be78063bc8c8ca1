"""Milliseconds behind the landscape page: `python -m benchmarks.landscape`.

The engine half times `core.landscape.landscape` at the size of the project's target: a 201 x 201
grid of both landscapes, M = t = D = 64, retrieval before and after, basins and stationary points
from 15 x 15 starts, W1 and W2. Medians over repetitions with a different seed each, so no result
can be reused; the first call, which warms caches up, does not count.

The browser half moves a slider of the page in Chromium and waits for the new picture, above the floor
of a page that only prints its slider's value; see `benchmarks/paint.py`.
"""

import argparse
import statistics
import time
from dataclasses import replace

import torch

from benchmarks.browser import ROOT, serve
from benchmarks.paint import measure
from core.hopfield import ENERGIES
from core.landscape import LandscapeSettings, landscape

TARGET_MS = 30.0
PAINT_TARGET_MS = 150.0
SLIDERS = ("β inverse temperature", "Distance of the examples")
SETTINGS = LandscapeSettings(dimension=64, memories=64, examples=64, grid=201)
BETAS = (1.0, 8.0, 100.0)


def engine_ms(
    settings: LandscapeSettings = SETTINGS, repetitions: int = 15
) -> tuple[float, float, float, float]:
    """One call of `landscape` in milliseconds: median, 10th and 90th percentile, and median CPU.

    On a machine that is busy with other work the CPU time, not the wall clock, is to be believed.
    """
    landscape(settings)
    walls, cpus = [], []
    for seed in range(repetitions):
        wall, cpu = time.perf_counter(), time.process_time()
        landscape(replace(settings, seed=seed))
        walls.append(1000 * (time.perf_counter() - wall))
        cpus.append(1000 * (time.process_time() - cpu))
    deciles = statistics.quantiles(walls, n=10)
    return statistics.median(walls), deciles[0], deciles[-1], statistics.median(cpus)


def report_engine(repetitions: int) -> None:
    """A line for each energy and beta."""
    print(f"engine, {torch.get_num_threads()} thread(s), target {TARGET_MS:.0f} ms median")
    print(f"{'energy':<12}{'beta':>7}{'median':>9}{'10 %':>9}{'90 %':>9}{'cpu':>9}  ms")
    for energy in ENERGIES:
        for beta in BETAS:
            numbers = engine_ms(replace(SETTINGS, energy=energy, beta=beta), repetitions)
            print(f"{energy:<12}{beta:>7g}" + "".join(f"{value:>9.1f}" for value in numbers))


def report_paint(moves: int) -> None:
    """A line for each slider: release to picture in the 2-D view, above the floor."""
    print(f"slider to paint, target {PAINT_TARGET_MS:.0f} ms above the floor, {moves} moves")
    print(f"{'slider':<26}{'page':>7}{'floor':>7}{'above':>7}{'95 %':>7}  ms, medians")
    with serve(ROOT / "app.py") as lab, serve(ROOT / "benchmarks/floor.py") as floor:
        for slider in SLIDERS:
            r = measure(lab, "landscape", slider, floor, moves)
            cells = (r["page"], r["floor"], r["above"], r["p95"])
            print(f"{slider:<26}" + "".join(f"{value:>7.0f}" for value in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--moves", type=int, default=20, help="slider moves in the browser half")
    parser.add_argument("--half", choices=("engine", "browser"), help="run one half only")
    parser.add_argument("--threads", type=int, help="torch threads; default: torch's own")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.half != "browser":
        report_engine(arguments.repetitions)
    if arguments.half != "engine":
        report_paint(arguments.moves)


if __name__ == "__main__":
    main()
