"""A sweep's table, uploaded or pasted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages._regression.asked import Settings
from pages.ui import cache, charts, controls, frame, words
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.sweep_table import SweepCurve

MOST_CURVES = 12
COMMAND = (
    "python -m models.sweep --checkpoint linear-d20 --baselines least_squares \\\n"
    "    --w2 0,0.1,0.2,0.3,0.5 --length 15,30 --seeds 0,1,2 --out sweep.parquet"
)


@dataclass(frozen=True)
class Sweep:
    axis: str
    curves: tuple[SweepCurve, ...]
    n_rows: int


def compute(s: Settings, wait: Progress) -> Sweep | None:
    if s.sweep == controls.ELSEWHERE:
        raise ValueError(
            "the link means an uploaded file, which a link cannot carry: upload it again."
        )
    if not s.sweep:
        return None
    table = cache.sweep_table(s.sweep)
    if not table.axes:
        raise ValueError("nothing varies in this sweep: sweep a grid of at least two settings.")
    axis = table.axes[0] if s.axis == "what varies most" else s.axis
    return Sweep(axis, table.curves(cache.METRICS[s.measure], axis), len(table.rows))


def show(page: frame.Page[Settings], r: Sweep | None) -> None:
    s = page.settings
    if r is None:
        with page.stage:
            st.markdown(
                "A sweep asks checkpoints and baselines over a grid of shifts, accuracies, lengths "
                "and seeds "
                "and writes one table. Run one, then upload its file on the left."
            )
            st.code(COMMAND, language="bash")
        return
    few = r.curves[:MOST_CURVES]
    values = np.concatenate([c.values for c in few])
    if s.measure == "mean squared error":
        axes: dict[str, Any] = {"yaxis": {"type": "log", "title": {"text": s.measure}}}
    else:
        axes = {"yaxis": {"range": [charts.r2_floor(values), 1.03], "title": {"text": s.measure}}}
    page.chart(
        charts.sweep_lines(r.axis, few, **axes), "sweep", f"{s.measure} of the sweep along {r.axis}"
    )
    if len(r.curves) > MOST_CURVES:
        with page.stage:
            st.caption(
                f"The first {MOST_CURVES} of {len(r.curves)} curves; sweep or select fewer "
                f"settings to see "
                "the others."
            )
    steepest = max(few, key=lambda c: float(np.nanmax(c.values) - np.nanmin(c.values)))
    seeds = max(c.n_seeds for c in few)
    page.look_for(
        f"{r.n_rows} rows, {len(r.curves)} curves along {r.axis}. What changes most along it is "
        f"**{words.plain(steepest.name)}**: from {np.nanmin(steepest.values):.4f} to "
        f"**{np.nanmax(steepest.values):.4f}**."
        + (f" Values are means over {seeds} seeds, bands the hull of theirs." if seeds > 1 else "")
    )


def code(s: Settings, r: Sweep | None) -> str:
    if r is None:
        how = "".join(f"# {line}\n" for line in COMMAND.splitlines())
        return how + "from core.curves import METRICS\n\nprint(*METRICS, sep='\\n')\n"
    return (
        "from pathlib import Path\n\nfrom core.sweep_table import parse\n\n"
        "table = parse(Path('your-sweep.parquet').read_bytes())\n"
        f"for c in table.curves({cache.METRICS[s.measure]!r}, {r.axis!r}):\n"
        "    print(c.name, *(f'{v:.4f}' for v in c.values))\n"
    )
