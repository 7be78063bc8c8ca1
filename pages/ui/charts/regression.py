"""Pictures of the regression and checkpoints pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pages.ui.charts.base import (
    DIVERGING,
    HUES,
    Figure,
    band,
    figure,
    finite,
    line,
    series,
    token,
)
from pages.ui.words import in_chart

if TYPE_CHECKING:
    from core.one_prompt import OnePrompt
    from core.sweep_table import SweepCurve

# A baseline keeps its look from picture to picture; the checkpoint is always the first.
_LEARNERS = {
    "least squares": 1,
    "least squares = ridge": 1,
    "ridge": 2,
    "averaging": 3,
    "3 nearest neighbours": 4,
    "nearest neighbours": 4,
    "decision tree": 5,
}

Band = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Value, lower and upper end, each `(n,)`."""


def _learner(name: str) -> dict[str, Any]:
    if name == "gradient boosting":
        grey = token("muted")
        return {
            "line": {"color": grey, "width": 2.2, "dash": "dot"},
            "marker": {"color": grey, "size": 8, "symbol": "star"},
        }
    return series(_LEARNERS.get(name, 0))


def _trace(kind: str, **trace: Any) -> dict[str, Any]:
    return {"type": kind, **trace}


def r2_floor(values: np.ndarray) -> float:
    """Where an R^2 axis ends below: one of a few round numbers, so that it rarely moves."""
    least = np.nanmin(values) if np.isfinite(values).any() else 0.0
    return next((f for f in (0.0, -0.5, -1.0, -2.0) if least >= f), -4.0)


def regression_curves(
    n: np.ndarray,
    curves: Mapping[str, Band],
    *,
    measure: str,
    lowest: float,
    highest: float,
    trained_to: int | None = None,
    outside: str = "",
    read_at: float | None = None,
    symbol: str = "n",
    first: int = 0,
    height: int = 384,
    x: str = "n in-context examples",
) -> Figure:
    """Error measure against the number of examples, one curve a learner, with its band.

    Args:
        n: `(N,)` lengths.
        curves: learner to value and band, the checkpoint first.
        lowest, highest: ends of the measure's axis; a curve wholly below says so in the legend.
        trained_to: longest prompt of the training; what is longer is shaded.
        outside: words over the picture where all of it is outside the training law, else "".
        read_at: where the page reads its numbers, on the axis of `symbol`.
        symbol: what the axis counts.
        first: number of the first curve's look among those that are no baseline.
    """
    log = measure == "mean squared error"
    traces: list[Any] = []
    own = first
    for name, (value, low, high) in curves.items():
        if name in _LEARNERS or name == "gradient boosting":
            look = _learner(name)
        else:
            look, own = series(own), own + 1 + (own == 0)  # style 1 is least squares
        there = np.isfinite(value)
        if not there.any():
            continue
        hidden = bool((value[there] < lowest).all())
        label = f"{name} (below the picture)" if hidden else name
        below = lowest / 10 if log else 40 * lowest - 40
        low, high = (np.clip(v[there], below, None) for v in (low, high))
        shaded = band(n[there], low, high, hue="muted", group=name)
        shaded["fillcolor"] = look["line"]["color"]
        sparse = there.sum() < len(n) or len(n) < 20
        traces += [
            shaded,
            _trace("scatter",
                x=n[there], y=value[there], name=label, legendgroup=name, meta={"series": name},
                mode="lines+markers" if sparse else "lines",
                hovertemplate="%{x} examples<br>%{y:.4f}<extra>" + name + "</extra>", **look,
            ),
        ]  # fmt: skip
    shapes, notes = [], []
    if outside:
        shapes.append(_shade(n[0], n[-1]))
        notes.append(_note(outside, n[-1], "right", line=1))
    if trained_to is not None and trained_to < n[-1]:
        if not outside:
            shapes.append(_shade(trained_to, n[-1]))
        shapes.append(_upright(trained_to, "dash"))
        notes.append(_note(f"k = {trained_to}", trained_to, "right"))
        notes.append(_note(_LONGER, n[-1], "right"))
    if read_at is not None:
        shapes.append(_upright(read_at, "dot"))
        right = read_at > 0.85 * n[-1]
        notes.append(_note(f"{symbol} = {read_at:g}", read_at, "right" if right else "left"))
    span = [np.log10(lowest), np.log10(highest)] if log else [lowest, highest]
    return figure(
        *traces,
        height=height,
        xaxis={"title": {"text": x}, "range": [float(n[0]), float(n[-1])]},
        yaxis={"title": {"text": measure}, "range": span, "type": "log" if log else "linear",
               **({"exponentformat": "power", "dtick": 1} if log else {})},
        shapes=shapes,
        annotations=notes,
        hovermode="x unified",
        margin={"t": 30, "b": 46},
        meta={"narrow": {"annotations": [note for note in notes if note["text"] != _LONGER]}},
    )  # fmt: skip


_LONGER = "longer than in training"


def _shade(start: float, end: float) -> dict[str, Any]:
    return {
        "type": "rect", "xref": "x", "yref": "y domain", "x0": start, "x1": end, "y0": 0, "y1": 1,
        "fillcolor": token("amber"), "opacity": 0.10, "line": {"width": 0}, "layer": "below",
    }  # fmt: skip


def _upright(x: float, dash: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": "x", "yref": "y domain", "x0": x, "x1": x, "y0": 0, "y1": 1,
        "line": {"color": token("muted"), "width": 1.2, "dash": dash}, "layer": "below",
    }  # fmt: skip


def _note(text: str, x: float, anchor: str, line: int = 0) -> dict[str, Any]:
    """Words at the foot of the picture, `line` lines up."""
    return {
        "text": text, "xref": "x", "yref": "y domain", "x": x, "y": 0, "xanchor": anchor,
        "yanchor": "bottom", "showarrow": False, "xshift": -5 if anchor == "right" else 5,
        "yshift": 3 + 18 * line, "font": {"size": 12, "color": token("muted")},
    }  # fmt: skip


def regression_prompt(look: OnePrompt, model: str, shown: Mapping[str, str]) -> Figure:
    """One prompt in the plane (task direction or distance, label): its examples, coloured by what
    each does to the checkpoint's error, the answers and the truth.

    Args:
        model: name of the checkpoint among the predictions.
        shown: name of a prediction to what the legend calls it.
    """
    harm = look.harm[model]
    most = float(np.abs(harm).max()) or 1.0
    traces: list[Any] = []
    if look.slope is not None:
        along = np.append(look.along, look.query_along)
        ends = np.array([along.min(), along.max()])
        traces.append(
            _trace("scatter",
                x=ends, y=look.slope * ends, mode="lines", name="truth", hoverinfo="skip",
                line={"color": token("faint"), "width": 1.5},
            )
        )  # fmt: skip
    number = np.arange(1, look.n_pairs + 1)
    for name, which, symbol in (
        ("example", ~look.corrupted, "circle"),
        ("wrong label", look.corrupted, "triangle-down"),
    ):
        if which.any():
            traces.append(
                _trace("scatter",
                    x=look.along[which], y=look.shown[which], mode="markers", name=name,
                    customdata=np.stack([number[which], harm[which]], 1),
                    marker={
                        "symbol": symbol, "size": 10, "color": harm[which],
                        "cmin": -most, "cmax": most, "colorscale": DIVERGING,
                        "line": {"color": token("muted"), "width": 0.8},
                        "showscale": False,
                    },
                    hovertemplate="example %{customdata[0]}<br>label %{y:.3f}"
                    "<br>error it adds %{customdata[1]:+.4f}<extra></extra>",
                )
            )  # fmt: skip
    traces.append(
        _trace("scatter",
            x=[look.query_along], y=[look.target], mode="markers", name="true answer",
            marker={"symbol": "star", "size": 15, "color": token("ink")},
            hovertemplate="truth %{y:.4f}<extra></extra>",
        )
    )  # fmt: skip
    near = [*look.shown, look.target, look.predictions[model]]
    near += [look.predictions[n] for n in ("least squares", "ridge") if n in look.predictions]
    pad = 0.06 * (max(near) - min(near)) or 1.0
    lowest, highest = min(near) - pad, max(near) + pad
    for name, label in shown.items():
        marker = _learner(name if name != model else "")["marker"]
        if not lowest <= look.predictions[name] <= highest:
            label += " (off)"
        traces.append(
            _trace("scatter",
                x=[look.query_along], y=[look.predictions[name]], mode="markers", name=label,
                marker={**marker, "size": 12, "symbol": f"{marker['symbol']}-open",
                        "line": {"width": 2.5}},
                hovertemplate=label + " %{y:.4f}<extra></extra>",
            )
        )  # fmt: skip
    return figure(
        *traces,
        height=440,
        xaxis={"title": {"text": "x along the task's own direction" if look.slope is not None
                         else "distance to the query"}},
        yaxis={"title": {"text": "label y"}, "range": [lowest, highest]},
        legend={"orientation": "h", "x": 0, "y": -0.24, "yanchor": "top", "font": {"size": 12},
                "entrywidth": 0.48, "entrywidthmode": "fraction"},
        margin={"t": 12, "b": 132},
    )  # fmt: skip


def regression_examples(
    look: OnePrompt,
    model: str,
    other: str | None,
    attention: np.ndarray,
    heads: Sequence[str],
    own: np.ndarray,
    tokens: str,
) -> Figure:
    """Example by example: how much it adds to the error, and how much each head attends to it.

    Args:
        attention: `(rows, n)` weights, one row a layer and head.
        heads: what each row is called.
        own: `(rows,)` weight on the query's own token.
    """
    number = np.arange(1, look.n_pairs + 1)
    harm = look.harm[model]
    hue = np.where(harm > 0, token("vermillion"), token("blue"))
    traces: list[Any] = [
        _trace("bar",
            x=number, y=harm, name=model,
            marker={"color": hue.tolist(), "pattern": {
                "shape": ["/" if h > 0 else "" for h in harm], "fillmode": "overlay",
                "fgcolor": token("paper"), "solidity": 0.25, "size": 6}},
            showlegend=False,
            hovertemplate="example %{x}<br>adds %{y:+.4f} to the error<extra></extra>",
            meta={"series": f"error added, {model}"},
        )
    ]  # fmt: skip
    if other is not None:
        traces.append(
            _trace("scatter",
                x=number, y=look.harm[other], name=other, mode="markers",
                marker={"symbol": "line-ew", "size": 8,
                        "line": {"color": token("ink"), "width": 1.5}},
                hovertemplate=f"{other}: %{{y:+.4f}}<extra></extra>",
                meta={"series": f"error added, {other}"},
            )
        )  # fmt: skip
    rows = np.arange(len(heads))
    top = float(np.quantile(attention, 0.995)) or 1.0
    first = [i for i, h in enumerate(heads) if h.endswith("head 1")]
    traces.append(
        _trace("heatmap",
            x=number, y=rows, z=attention, xaxis="x2", yaxis="y2", zmin=0, zmax=top,
            name="attention",
            text=[[h] * look.n_pairs for h in heads],
            customdata=np.repeat(own[:, None], look.n_pairs, 1),
            colorbar={"thickness": 10, "len": 0.6, "y": 0, "yanchor": "bottom", "x": 1.01},
            hovertemplate="%{text}, example %{x}<br>weight %{z:.4f}"
            "<br>on the query itself %{customdata:.4f}<extra></extra>",
        )
    )  # fmt: skip
    return figure(
        *traces,
        height=max(440, 190 + 9 * len(heads)),
        annotations=[
            _over("Error each example adds", "y"),
            _over(f"Attention of every head to {tokens} of the example", "y2"),
        ],
        xaxis={"showticklabels": False},
        yaxis={"domain": [0.76, 1], "nticks": 4},
        xaxis2={"anchor": "y2", "matches": "x", "title": {"text": "example"}},
        yaxis2={
            "domain": [0, 0.62], "anchor": "x2", "autorange": "reversed", "tickvals": first,
            "ticktext": [str(1 + i) for i in range(len(first))], "title": {"text": "layer"},
        },
        legend={"x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "font": {"size": 12}},
        margin={"l": 52, "r": 52, "t": 30, "b": 46},
        bargap=0.15,
        meta={"narrow": {"showlegend": False, "height": 440}},
    )  # fmt: skip


def _over(text: str, axis: str) -> dict[str, Any]:
    return {
        "text": f"<b>{text}</b>", "xref": "paper", "yref": f"{axis} domain", "x": 0, "y": 1,
        "xanchor": "left", "yanchor": "bottom", "yshift": 3, "showarrow": False,
        "font": {"size": 13, "color": token("ink")},
    }  # fmt: skip


def regression_known(
    rows: Sequence[str], known: np.ndarray, ours: Band, best: np.ndarray, lowest: float
) -> Figure:
    """The paper's numbers beside ours, one row each, ours with its band."""
    at = np.arange(len(rows))
    value, low, high = ours
    return figure(
        _trace("scatter",
            x=best, y=at, mode="markers", name="ridge at the true noise, same prompts",
            marker={"symbol": "line-ns", "size": 16, "line": {"color": token("muted"), "width": 2}},
            hovertemplate="ridge %{x:.4f}<extra></extra>",
        ),
        _trace("scatter",
            x=value, y=at, mode="markers", name="ours, measured now",
            error_x={"type": "data", "symmetric": False, "array": high - value,
                     "arrayminus": value - low, "color": token("blue"), "thickness": 2, "width": 6},
            marker={"symbol": "circle", "size": 10, "color": token("blue")},
            hovertemplate="ours %{x:.4f}<extra></extra>",
        ),
        _trace("scatter",
            x=known, y=at, mode="markers", name="the paper",
            marker={"symbol": "diamond-open", "size": 14, "color": token("vermillion"),
                    "line": {"width": 2.5}},
            hovertemplate="paper %{x:.4f}<extra></extra>",
        ),
        height=86 + 42 * len(rows),
        xaxis={"title": {"text": "pooled R²"}, "range": [lowest, 1.03]},
        yaxis={"tickvals": at, "ticktext": list(rows), "range": [len(rows) - 0.5, -0.5],
               "automargin": True, "showgrid": False},
        margin={"l": 20, "t": 30, "b": 46},
    )  # fmt: skip


def sweep_lines(axis: str, curves: Sequence[SweepCurve], **layout: Any) -> Figure:
    """The curves of a sweep's table along one of its columns, each with its band."""
    traces: list[Any] = []
    for i, c in enumerate(curves):
        traces += [
            band(c.x, finite(c.low), finite(c.high), hue=HUES[i % len(HUES)], group=c.name),
            line(c.x, c.values, in_chart(c.name), i, mode="lines+markers", legendgroup=c.name,
                 meta={"series": c.name}),
        ]  # fmt: skip
    return figure(*traces, x=axis, height=420, margin={"t": 30}, **layout)


def training_curve(steps: np.ndarray, r2: Mapping[str, np.ndarray], loss: np.ndarray) -> Figure:
    """How a checkpoint came about: R^2 at some lengths on held-out prompts, and the loss."""
    traces: list[Any] = [
        _trace("scatter",
            x=steps, y=value, name=f"n = {length}", mode="lines+markers",
            meta={"series": f"R² after {length} examples"},
            **{**series(i), "marker": {**series(i)["marker"], "size": 5}},
        )
        for i, (length, value) in enumerate(r2.items())
    ]  # fmt: skip
    traces.append(
        _trace("scatter",
            x=steps, y=loss, name="loss (right)", mode="lines", yaxis="y2",
            line={"color": token("faint"), "width": 1.5},
        )
    )  # fmt: skip
    values = np.concatenate([*r2.values(), [1.0]]) if r2 else np.array([0.0, 1.0])
    return figure(
        *traces,
        height=340,
        xaxis={"title": {"text": "step"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "pooled R²"}, "range": [max(r2_floor(values), -0.5), 1.03]},
        yaxis2={"overlaying": "y", "side": "right", "type": "log", "showgrid": False,
                "exponentformat": "power", "dtick": 1},
        margin={"r": 52, "t": 44, "b": 46},
    )  # fmt: skip
