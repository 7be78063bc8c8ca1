"""Pictures of the generalisation page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pages.ui.charts.base import HUES, Figure, band, figure, line, token

if TYPE_CHECKING:
    from core.generalization import Generalization, ScalingStudy

_POWERS = {"type": "log", "exponentformat": "power", "dtick": 1}
_ABOVE = 1.6  # decades above the trivial bound at which the picture ends


def generalization_curves(r: Generalization, shaded_from: float | None = None) -> Figure:
    """The bound, the largest change by a swap and the gap along t; both axes logarithmic.

    Args:
        shaded_from: the checkpoint's training law ends at so many examples.
    """
    t, c = r.lengths, r.constants
    trivial = 2 * c.lipschitz * c.c0
    positive = [v[v > 0] for v in (r.gap, r.swap_mean)]
    low = float(np.log10(min(v.min(initial=trivial) for v in positive))) - 0.3
    top = float(np.log10(trivial)) + _ABOVE
    curves = {
        "bound": (r.bound, 1, "lines"),
        "best constant (ours)": (r.sharpest, 4, "lines"),
        "worst allowed swap": (r.worst, 3, "lines"),
        "largest swap drawn": (r.swap_max, 2, "lines+markers"),
        "gap R − R_emp": (r.gap, 0, "lines+markers"),
    }
    traces: list[dict[str, Any]] = [
        band(t, _above(r.gap_low), _above(r.gap_high), hue=HUES[0], group="gap R − R_emp")
    ]
    for name, (values, i, mode) in curves.items():
        there = np.isfinite(values) & (values > 0) & (values < 1e300)
        if there.any():
            traces.append(
                line(t[there], values[there], name, i, mode=mode, marker={"size": 6},
                     hovertemplate=f"{name}<br>%{{x}} examples: %{{y:.3g}}<extra></extra>")
            )  # fmt: skip
    if np.isfinite(r.gap_fit.level):
        traces.append(
            {"type": "scatter", "mode": "lines", "x": t, "y": r.gap_fit.at(t), "hoverinfo": "skip",
             "name": f"{r.gap_fit.level:.3g} / t, fitted to the gap",
             "line": {"color": token("muted"), "width": 1.3, "dash": "dot"}}
        )  # fmt: skip
    shapes: list[dict[str, Any]] = [
        {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": trivial, "y1": 10**top,
         "fillcolor": token("missing"), "opacity": 0.55, "line": {"width": 0}, "layer": "below"}
    ]  # fmt: skip
    words = f"vacuous: above 2MC₀ = {trivial:.3g} a bound says nothing"
    lowest = float(r.log10_bound.min())
    if lowest > top:
        words += f"<br>the bound lies far above this picture, at 10<sup>{lowest:.0f}</sup> and more"
    notes = [_note(words, 0.008, 0.99, "left")]
    if shaded_from is not None and shaded_from < t[-1]:
        start = max(float(shaded_from), float(t[0]))
        shapes.append(
            {"type": "rect", "x0": start, "x1": float(t[-1]), "yref": "paper", "y0": 0, "y1": 1,
             "fillcolor": token("amber"), "opacity": 0.09, "line": {"width": 0}}
        )  # fmt: skip
        notes.append(_note("outside the training law", 0.992, 0.03, "right"))
    return figure(
        *traces, x="t examples", y="change of the output times M, or gap", height=430,
        margin={"l": 64, "r": 12, "t": 62, "b": 46}, shapes=shapes, annotations=notes,
        xaxis={"type": "log", **_ticks(t[0], t[-1]), "range": _span(t)},
        yaxis={**_POWERS, "range": [low, top]},
        legend={"font": {"size": 12}, "traceorder": "normal"},
        meta={"narrow": {"height": 520}},
    )  # fmt: skip


def generalization_risks(r: Generalization) -> Figure:
    """The two errors whose difference the bound is about: at fresh pairs and at the prompt's own."""
    t = r.lengths
    curves = {"R, fresh pairs": (r.risk, 0), "R_emp, its own pairs": (r.empirical, 1)}
    top = 1.12 * float(max(r.risk.max(), r.empirical.max()))
    return figure(
        *(
            line(t, values, name, i, mode="lines+markers", marker={"size": 6},
                 hovertemplate=f"{name}<br>%{{x}} examples: %{{y:.4g}}<extra></extra>")
            for name, (values, i) in curves.items()
        ),
        x="t examples", y="mean loss", height=430, margin={"l": 58, "r": 12, "t": 62, "b": 46},
        xaxis={"type": "log", **_ticks(t[0], t[-1]), "range": _span(t)}, yaxis={"range": [0, top]},
        legend={"font": {"size": 12}, "traceorder": "normal"},
    )  # fmt: skip


def generalization_scaling(studies: Mapping[str, ScalingStudy], *, gap: bool) -> Figure:
    """Gamma of every head along the scale of the inputs, or its gap as a share of its error."""
    traces: list[dict[str, Any]] = []
    drawn: list[np.ndarray] = []
    for i, (name, s) in enumerate(studies.items()):
        values = np.maximum(s.gap / s.risk, 1e-12) if gap else s.gamma
        drawn.append(values)
        traces.append(
            line(s.scales, values, name, i, mode="lines+markers",
                 hovertemplate=f"{name}<br>scale %{{x:.3g}}: %{{y:.4g}}<extra></extra>")
        )  # fmt: skip
    every = np.log10(np.concatenate(drawn))
    scales = next(iter(studies.values())).scales
    return figure(
        *traces, x="scale of the inputs", y="gap / R" if gap else "Γ, the largest score",
        height=400, margin={"l": 64, "r": 12, "t": 40, "b": 46}, showlegend=True,
        xaxis={"type": "log", "tickvals": list(scales), "ticktext": [f"{s:g}" for s in scales],
               "range": _span(scales)},
        yaxis={**_POWERS, "range": [float(every.min()) - 0.3, float(every.max()) + 0.3]},
    )  # fmt: skip


def _above(values: np.ndarray) -> np.ndarray:
    """Inside what a logarithmic axis can show."""
    return np.clip(values, 1e-12, 1e300)


def _ticks(low: float, high: float) -> dict[str, Any]:
    ticks = [n for n in (2, 5, 10, 20, 50, 100, 200) if low <= n <= high]
    return {"tickvals": ticks, "ticktext": [str(n) for n in ticks]}


def _span(x: np.ndarray) -> list[float]:
    low, high = np.log10(x[[0, -1]])
    pad = 0.03 * (high - low)
    return [float(low - pad), float(high + pad)]


def _note(text: str, x: float, y: float, anchor: str) -> dict[str, Any]:
    return {
        "text": text, "showarrow": False, "xref": "paper", "yref": "paper", "x": x, "y": y,
        "xanchor": anchor, "yanchor": "top" if y > 0.5 else "bottom", "align": anchor,
        "font": {"size": 12, "color": token("ink")},
    }  # fmt: skip
