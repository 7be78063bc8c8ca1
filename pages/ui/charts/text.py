"""Pictures of the text page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pages.ui.charts.base import HUES, Figure, band, figure, line, token
from pages.ui.words import in_chart

_STYLE = {"accuracy": 0, "AUC": 1, "macro-F1": 2}


def text_measure(
    ks: np.ndarray,
    name: str,
    values: tuple[np.ndarray, np.ndarray, np.ndarray],
    baseline: np.ndarray,
    baseline_name: str,
) -> Figure:
    """A measure against the number of examples: value, band and the line of a baseline.

    Numbers of examples stand side by side, 0, 1, 2, 4, ..., at equal distances.
    """
    i, at = _STYLE[name], np.arange(len(ks))
    value, low, high = values
    return figure(
        band(at, low, high, hue=HUES[i], group=name),
        line(
            at, value, name, i, mode="lines+markers", customdata=ks,
            hovertemplate=name + " %{y:.3f} after %{customdata} examples<extra></extra>",
        ),
        {
            "type": "scatter", "x": at, "y": baseline, "name": baseline_name, "mode": "lines",
            "line": {"color": token("muted"), "width": 1.8, "dash": "dot"},
            "hovertemplate": baseline_name + " %{y:.3f}<extra></extra>",
        },
        x="k examples", y=name, height=360, showlegend=True,
        xaxis={"tickvals": at, "ticktext": [str(k) for k in ks],
               "range": [-0.15, len(ks) - 0.85]},
        yaxis={"range": [-0.03, 1.03], "dtick": 0.25},
        margin={"t": 34, "b": 46},
    )  # fmt: skip


def text_prompt(ks: np.ndarray, options: Sequence[str], right: int, p: np.ndarray) -> Figure:
    """Probability of each answer to one question, `(len(ks), options)`, as examples come in."""
    at = np.arange(len(ks))
    order = [right, *(j for j in range(len(options)) if j != right)]
    return figure(
        *(
            line(
                at, p[:, j], in_chart(options[j]) + (" (right)" if j == right else ""), i,
                mode="lines+markers", customdata=ks, meta={"series": options[j]},
                hovertemplate=in_chart(options[j]) + ": %{y:.3f} after %{customdata} examples<extra></extra>",
            )
            for i, j in enumerate(order)
        ),
        x="k examples", y="probability", height=340, showlegend=True,
        xaxis={"tickvals": at, "ticktext": [str(k) for k in ks],
               "range": [-0.15, len(ks) - 0.85]},
        yaxis={"range": [-0.03, 1.03], "dtick": 0.25},
        margin={"t": 34, "b": 46},
    )  # fmt: skip
