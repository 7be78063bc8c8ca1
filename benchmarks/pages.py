"""Slider release to new picture, page by page, above the floor: `python -m benchmarks.pages`.

The floor is a page that only prints its slider's value, moved in turn in the same run; see
`benchmarks/paint.py`. Every move asks for numbers that no cache holds.
"""

import argparse

from benchmarks.browser import ROOT, serve
from benchmarks.paint import measure

SLIDERS = (
    ("landscape", "β inverse temperature"),
    ("retrieval", "Noise of the query"),
    ("regression", "w₂ share of N(μ₂, I)"),
    ("regression?v=1&regression-accuracy=0.8", "w₂ share of N(μ₂, I)"),
    ("hidden_concept", "σ noise of the values"),
    ("hidden_concept?v=1&hidden_concept-view=predictors", "σ noise of the values"),
    ("generalization", "κ sharpness"),
    ("layers", "w₂ shifted share"),
    ("layers?v=1&layers-view=heads+ranked", "w₂ shifted share"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--moves", type=int, default=8, help="slider moves a page")
    moves = parser.parse_args().moves
    print(f"{'page':<52}{'page':>7}{'floor':>7}{'above':>7}{'95 %':>7}  ms, medians of {moves}")
    with serve(ROOT / "app.py") as lab, serve(ROOT / "benchmarks/floor.py") as floor:
        for page, slider in SLIDERS:
            r = measure(lab, page, slider, floor, moves)
            cells = (r["page"], r["floor"], r["above"], r["p95"])
            print(f"{page:<52}" + "".join(f"{value:>7.0f}" for value in cells), flush=True)


if __name__ == "__main__":
    main()
