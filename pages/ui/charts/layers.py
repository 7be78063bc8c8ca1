"""Pictures of the layers page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pages.ui.charts.base import DIVERGING, Figure, band, figure, heatmap, line, series, token
from pages.ui.charts.ghosts import _head_axis, _heads

if TYPE_CHECKING:
    from core.layers import RankedHead


def layers_map(
    n: np.ndarray, values: np.ndarray, name: str, *, read_at: int, trained_to: int, log: bool
) -> Figure:
    """One reading of every head (rows) as examples arrive (columns).

    Args:
        values: `(L, H, N)`, means over prompts.
        log: colour by the order of magnitude.
    """
    n_layers, n_heads, _ = values.shape
    names, _ = _heads(values[..., 0])
    z = values.reshape(n_layers * n_heads, -1)
    known = z[np.isfinite(z)]
    signed = bool((known < 0).any()) and not log
    shade = np.log10(np.where(np.isfinite(z) & (z > 0), z, np.nan)) if log else z
    spread = float(np.quantile(np.abs(known), 0.98)) if known.size else 0.0
    spread = spread or 1.0
    look: dict[str, Any] = {"zmin": -spread, "zmax": spread, "colorscale": DIVERGING}
    bar: dict[str, Any] = {"thickness": 10, "x": 1.01}
    if log and np.isfinite(shade).any():
        ticks = np.arange(np.ceil(np.nanmin(shade)), np.floor(np.nanmax(shade)) + 1)
        bar |= {"tickvals": ticks, "ticktext": [f"{10.0**k:g}" for k in ticks]}
    return figure(
        heatmap(
            shade, np.arange(len(n)), np.arange(len(z)), name, zsmooth=False,
            customdata=z, text=[[row] * len(n) for row in names], colorbar=bar,
            hovertemplate="%{text}, " + name + ": %{customdata:.4g}<extra></extra>",
            **(look if signed else {}),
        ),
        height=max(300, 130 + 13 * len(z)),
        xaxis={"title": {"text": "n in-context examples"}, "tickvals": np.arange(len(n)),
               "ticktext": [str(k) for k in n], "showgrid": False},
        yaxis={"autorange": "reversed", "title": {"text": "layer"}, "showgrid": False,
               "tickvals": np.arange(n_layers) * n_heads + (n_heads - 1) / 2,
               "ticktext": [str(i + 1) for i in range(n_layers)]},
        shapes=[_box(int(np.flatnonzero(n == read_at)[0]), token("vermillion"), 2)]
        + [_past(int(i)) for i in np.flatnonzero(n > trained_to)[:1]],
        margin={"t": 10, "l": 52, "r": 60},
        plot_bgcolor=token("missing"),
    )  # fmt: skip


def _box(i: int, colour: str, width: float) -> dict[str, Any]:
    return {
        "type": "rect", "xref": "x", "yref": "y domain", "x0": i - 0.5, "x1": i + 0.5, "y0": 0,
        "y1": 1, "line": {"color": colour, "width": width}, "fillcolor": "rgba(0,0,0,0)",
    }  # fmt: skip


def _past(i: int) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "yref": "y domain", "x0": i - 0.5, "x1": i - 0.5, "y0": 0,
        "y1": 1, "line": {"color": token("amber"), "width": 2, "dash": "dash"},
    }  # fmt: skip


def layers_moved(n: np.ndarray, moved: np.ndarray, read_at: int) -> Figure:
    """Distance the residual stream moves in every layer, as a share of its length.

    Args:
        moved: `(L, N)`, means over prompts.
    """
    at = int(np.flatnonzero(n == read_at)[0])
    layer = np.arange(1, len(moved) + 1)
    picks = [("n = 0", 0, 2)] if n[0] == 0 and at else []
    picks.append((f"n = {read_at}", at, 0))
    return figure(
        *(
            line(layer, moved[:, k], name, i, mode="lines+markers", marker={"size": 7},
                 hovertemplate="layer %{x}: %{y:.3g}<extra>" + name + "</extra>")
            for name, k, i in picks
        ),
        height=300, x="layer", y="distance moved / length",
        yaxis={"type": "log", "exponentformat": "power"},
        xaxis={"tickvals": layer, "range": [0.5, len(moved) + 0.5]},
        margin={"t": 10, "l": 62}, showlegend=True,
    )  # fmt: skip


def layers_ranked(ranked: Sequence[RankedHead], title: str, uniform: float) -> Figure:
    """Heads, the most Hopfield-like first.

    Args:
        title: of the score.
        uniform: the score of a head that weighs everything alike; NaN if that says nothing.
    """
    names = [f"{h.layer + 1}.{h.head + 1}" for h in ranked]
    score = np.array([h.score for h in ranked])
    return figure(
        {
            "type": "bar", "x": names, "y": score, "name": title,
            "marker": {"color": [token("blue" if v >= 0 else "vermillion") for v in score]},
            "hovertemplate": "layer.head %{x}: %{y:.4g}<extra></extra>",
        },
        height=330, y=title, bargap=0.25, margin={"t": 10, "l": 62},
        xaxis={"type": "category", "title": {"text": "layer.head"}, "tickfont": {"size": 11}},
        shapes=[] if not np.isfinite(uniform) else [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": uniform, "y1": uniform,
             "line": {"color": token("muted"), "width": 1.5, "dash": "dot"}}],
        annotations=[] if not np.isfinite(uniform) else [
            {"text": "dotted: all keys weighed alike", "xref": "paper", "yref": "paper", "x": 1,
             "y": 1, "xanchor": "right", "yanchor": "top", "showarrow": False,
             "font": {"size": 12, "color": token("muted")}}],
    )  # fmt: skip


def layers_falls(ranked: Sequence[RankedHead]) -> Figure:
    """Every head: energy lost by moving onto the retrieved key, against energy lost by what the
    layer really writes."""
    layer = np.array([h.layer + 1 for h in ranked])
    head = np.array([h.head for h in ranked])
    x, y = (np.array([getattr(h, k) for h in ranked]) for k in ("fall", "own_fall"))
    most = float(np.nanmax(np.abs(y))) * 1.15 or 1.0
    return figure(
        *(
            {
                "type": "scatter", "mode": "markers+text", "x": x[head == k], "y": y[head == k],
                "text": [str(v) for v in layer[head == k]], "textposition": "top center",
                "textfont": {"size": 11, "color": token("muted")}, "name": f"head {k + 1}",
                "marker": series(k)["marker"],
                "hovertemplate": "layer %{text}: one update %{x:.3g}, own write %{y:.3g}"
                f"<extra>head {k + 1}</extra>",
            }
            for k in np.unique(head)
        ),
        height=330, x="share of E lost in one Hopfield update",
        y="share lost by the layer's write", margin={"t": 10, "l": 62}, showlegend=True,
        xaxis={"range": [0, 1.02]},
        yaxis={"range": [-most, most], "zeroline": True, "zerolinecolor": token("muted")},
    )  # fmt: skip


def layers_conditions(
    readings: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]], name: str, log: bool
) -> Figure:
    """One reading layer by layer under several laws, with its band over prompts.

    Args:
        readings: law to `(L,)` mean over heads, lower and upper.
    """
    traces: list[dict[str, Any]] = []
    for i, (label, (value, low, high)) in enumerate(readings.items()):
        layer = np.arange(1, len(value) + 1)
        traces.append(band(layer, low, high, hue=("blue", "vermillion", "green")[i], group=label))
        traces.append(
            line(layer, value, label, i, mode="lines+markers", marker={"size": 7},
                 hovertemplate="layer %{x}: %{y:.4g}<extra>" + label + "</extra>")
        )  # fmt: skip
    layers = len(next(iter(readings.values()))[0])
    return figure(
        *traces, height=400, x="layer", y=name, margin={"t": 10, "l": 66},
        xaxis={"tickvals": np.arange(1, layers + 1), "range": [0.5, layers + 0.5]},
        yaxis={"type": "log", "exponentformat": "power"} if log else {},
    )  # fmt: skip


def layers_energies(before: np.ndarray, update: np.ndarray, own: np.ndarray, name: str) -> Figure:
    """One prompt, head by head: the energy of its query, where one Hopfield update would take it,
    and where the layer's own write takes it.

    Args:
        before, update, own: `(L, H)` energies.
    """
    names, at = _heads(before)
    stems = np.stack([before.ravel(), own.ravel(), np.full(before.size, np.nan)], 1).ravel()
    rises = own > before
    look = [
        ("energy of the query", before, 0, None),
        ("after one Hopfield update", update, 2, None),
    ]
    look += [("after the layer's write: lower", own, 3, ~rises),
             ("after the layer's write: higher", own, 1, rises)]  # fmt: skip
    return figure(
        {
            "type": "scatter", "mode": "lines", "x": np.repeat(at, 3), "y": stems,
            "line": {"color": token("faint"), "width": 1.2}, "showlegend": False,
            "hoverinfo": "skip", "name": "from query to write",
        },
        *(
            {
                "type": "scatter", "mode": "markers", "name": label,
                "x": at if which is None else at[which.ravel()],
                "y": values.ravel() if which is None else values[which],
                "marker": series(i)["marker"],
                "text": names if which is None else [
                    names[k] for k in np.flatnonzero(which.ravel())],
                "hovertemplate": "%{text}<br>" + label + ": %{y:.4g}<extra></extra>",
            }
            for label, values, i, which in look
        ),
        height=420, y=name, xaxis=_head_axis(before.shape), margin={"t": 10, "l": 66, "b": 62},
        yaxis={"type": "log", "exponentformat": "power"}, legend={"font": {"size": 12}},
    )  # fmt: skip
