"""Arrays in, plotly Figure out. No Streamlit, no mathematics.

Colours are written as tokens (`var(--blue)`); `COLOURS` says what a token is in light and in dark. The chart
component resolves them in the browser, `resolved()` does for files. Hue is never alone: the i-th series also
has its own dash and its own marker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

if TYPE_CHECKING:
    from core.landscape import Landscape
    from core.one_prompt import OnePrompt
    from core.separation import ErrorStudy, PhaseMap
    from core.sweep_table import SweepCurve

# Okabe and Ito's hues, which stay apart under every common colour blindness, moved in lightness until each
# has at least 3:1 against its background.
COLOURS: dict[str, dict[str, str]] = {
    "light": {
        "blue": "#0b6aa2", "vermillion": "#c94f00", "green": "#00805c", "purple": "#a84a80",
        "amber": "#946400", "sky": "#2583b8", "ink": "#1d2730", "muted": "#5c6770", "faint": "#a9adb0",
        "grid": "#e7e3db", "paper": "#fdfcfa", "missing": "#d3d0c9", "zero": "#f4f2ed",
    },
    "dark": {
        "blue": "#5cb3e6", "vermillion": "#ff8a4c", "green": "#35c79f", "purple": "#e39ac4",
        "amber": "#e6b040", "sky": "#9ad4f5", "ink": "#e4e8eb", "muted": "#a3afb9", "faint": "#5b6670",
        "grid": "#2a333c", "paper": "#12171d", "missing": "#3a4149", "zero": "#20272f",
    },
}  # fmt: skip

HUES = ("blue", "vermillion", "green", "purple", "amber", "sky")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "cross")

CHECKED = os.environ.get("RESHAPE_CHECK_FIGURES") == "1"

FONT = "Source Sans, Source Sans Pro, Helvetica Neue, Arial, sans-serif"

# Lightness rises steadily from low to high, so it reads in grey and under colour blindness.
SEQUENTIAL = [
    [0.0, "#0c1b3a"], [0.15, "#133a66"], [0.32, "#1d6a8f"], [0.5, "#3d98a2"],
    [0.68, "#7dc0ae"], [0.85, "#c2e3c8"], [1.0, "#f5f8de"],
]  # fmt: skip
DIVERGING = [
    [0.0, "#0a4f80"], [0.25, "#5a9cc6"], [0.5, "var(--zero)"], [0.75, "#e39a6b"], [1.0, "#a33c00"],
]  # fmt: skip


def token(name: str) -> str:
    """`"blue"` -> `"var(--blue)"`, a colour that follows the theme."""
    if name not in COLOURS["light"]:
        raise ValueError(f"no colour {name!r}; there are {', '.join(COLOURS['light'])}")
    return f"var(--{name})"


def series(i: int, width: float = 2.2) -> dict[str, Any]:
    """Line and marker of the i-th series: hue, dash and marker change together."""
    hue = token(HUES[i % len(HUES)])
    return {
        "line": {"color": hue, "width": width, "dash": DASHES[i % len(DASHES)]},
        "marker": {"color": hue, "size": 8, "symbol": MARKERS[i % len(MARKERS)]},
    }


def template(theme: str) -> dict[str, Any]:
    """What every figure looks like before it says anything itself."""
    c = COLOURS[theme]
    axis = {
        "gridcolor": c["grid"], "zeroline": False, "linecolor": c["faint"], "tickcolor": c["faint"],
        "ticks": "outside", "ticklen": 4, "showline": True,
        "title": {"standoff": 8, "font": {"size": 14}}, "tickfont": {"color": c["muted"]},
    }  # fmt: skip
    scene = {
        "backgroundcolor": c["paper"], "gridcolor": c["grid"], "linecolor": c["faint"],
        "zeroline": False, "showbackground": False, "tickfont": {"color": c["muted"], "size": 11},
    }  # fmt: skip
    bar = {"outlinewidth": 0, "thickness": 12, "tickfont": {"color": c["muted"]}, "ticks": ""}
    return {
        "layout": {
            "font": {"family": FONT, "size": 13, "color": c["ink"]},
            "paper_bgcolor": c["paper"],
            "plot_bgcolor": c["paper"],
            "colorway": [c[h] for h in HUES],
            # Fixed: measuring labels to find the margin (automargin) is a third of a redraw.
            "margin": {"l": 60, "r": 16, "t": 44, "b": 50},
            "title": {"font": {"size": 15}, "x": 0.01, "xanchor": "left"},
            "xaxis": axis,
            "yaxis": axis,
            "scene": {
                "xaxis": scene, "yaxis": scene, "zaxis": scene,
                "camera": {"eye": {"x": 1.35, "y": -1.35, "z": 0.95}},
            },
            "legend": {
                "orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "bgcolor": "rgba(0,0,0,0)",
            },
            "hoverlabel": {
                "bgcolor": c["paper"], "bordercolor": c["faint"],
                "font": {"family": FONT, "color": c["ink"], "size": 13},
            },
            "hovermode": "closest",
            "annotationdefaults": {"font": {"color": c["muted"]}, "arrowcolor": c["muted"]},
            "shapedefaults": {"line": {"color": c["faint"]}},
        },
        "data": {
            "heatmap": [{"colorscale": SEQUENTIAL, "colorbar": bar}],
            "contour": [{"colorscale": SEQUENTIAL, "colorbar": bar}],
            "surface": [{"colorscale": SEQUENTIAL, "colorbar": bar}],
        },
    }  # fmt: skip


def figure(
    *traces: Mapping[str, Any],
    x: str = "",
    y: str = "",
    title: str = "",
    height: int = 420,
    **layout: Any,
) -> go.Figure:
    """A figure in the lab's style.

    Plain dicts go in without plotly's own checks, which would cost more than all the rest of a rerun;
    with `CHECKED` on, as in the tests, every attribute is checked.

    Args:
        traces: plotly traces as dicts with a `type`: `line()`, `heatmap()` or your own.
        x, y: axis titles.
        layout: further plotly layout, merged into what is set here.
    """
    # With a template of its own, even an empty one, a figure does not copy plotly's, which is large.
    base: dict[str, Any] = {"height": height, "title": {"text": title}, "template": {}}
    base |= {f"{n}axis": {"title": {"text": text}} for n, text in (("x", x), ("y", y)) if text}
    fig = go.Figure(data=list(traces), layout=merged(base, layout), _validate=CHECKED)
    fig._layout.pop("template", None)  # ours comes with the theme
    return fig


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `more` laid over it, dict by dict."""
    out = dict(base)
    for k, v in more.items():
        old = out.get(k)
        out[k] = merged(old, v) if isinstance(v, Mapping) and isinstance(old, Mapping) else v
    return out


def line(x: Any, y: Any, name: str, i: int = 0, *, mode: str = "lines", **trace: Any) -> dict:
    """A curve in the i-th style. `mode` as in plotly: "lines", "markers", "lines+markers"."""
    base = {"type": "scatter", "x": x, "y": y, "name": name, "mode": mode, "legendgroup": name}
    return merged(base | series(i), trace)


def lines(
    x: np.ndarray,
    curves: Mapping[str, np.ndarray],
    /,
    *,
    bands: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    markers: bool = False,
    first: int = 0,
    **layout: Any,
) -> go.Figure:
    """Named curves over one x, each with an optional band `(lower, upper)` of the same name.

    Args:
        x: `(n,)`.
        curves: `{name: (n,)}`.
        first: number of the first curve's style, so that a baseline keeps its look across figures.
    """
    traces: list[Any] = []
    mode = "lines+markers" if markers else "lines"
    for i, (name, y) in enumerate(curves.items(), start=first):
        if bands and name in bands:
            traces.append(band(x, *bands[name], hue=HUES[i % len(HUES)], group=name))
        traces.append(line(x, y, name, i, mode=mode))
    return figure(*traces, **layout)


def band(x: np.ndarray, low: np.ndarray, high: np.ndarray, *, hue: str, group: str = "") -> dict:
    """A shaded region between two curves of one x."""
    return {
        "type": "scatter", "x": np.concatenate([x, x[::-1]]), "y": np.concatenate([high, low[::-1]]),
        "fill": "toself", "fillcolor": token(hue), "opacity": 0.16, "line": {"width": 0}, "mode": "lines",
        "hoverinfo": "skip", "showlegend": False, "legendgroup": group,
    }  # fmt: skip


def heatmap(z: np.ndarray, x: Any = None, y: Any = None, name: str = "", **trace: Any) -> dict:
    """A heatmap trace, `z (len(y), len(x))`. Cells that are not finite stay open: see `greyed()`."""
    base = {"type": "heatmap", "z": finite(z), "x": x, "y": y, "name": name, "hoverongaps": False}
    # "fast": one pixel a cell, scaled by the browser, instead of one rectangle a cell.
    return merged(base | {"zsmooth": "fast"}, trace)


def surface(z: np.ndarray, x: Any = None, y: Any = None, name: str = "", **trace: Any) -> dict:
    """The same numbers in 3-D. At most 81 x 81 points: WebGL may be software."""
    if max(np.shape(z)) > 81:
        raise ValueError(f"a surface takes at most 81 x 81 points, got {np.shape(z)}: thin it out")
    return merged({"type": "surface", "z": finite(z), "x": x, "y": y, "name": name}, trace)


def square(x: str = "", y: str = "") -> dict[str, Any]:
    """Layout of a plane whose two axes have one scale."""
    return {
        "xaxis": {"title": {"text": x}, "constrain": "domain"},
        "yaxis": {"title": {"text": y}, "constrain": "domain", "scaleanchor": "x"},
    }


def greyed(fig: go.Figure) -> go.Figure:
    """Shows the cells without a finite value in grey instead of as background."""
    fig._layout["plot_bgcolor"] = token("missing")
    return fig


def home_landscape(
    energy: np.ndarray, grid: np.ndarray, memories: np.ndarray, path: np.ndarray
) -> go.Figure:
    """The picture of the home page: `energy (n, n)` on `grid (n,)`, `memories (M, 2)`, `path (steps, 2)`."""
    ring = {"size": 11, "line": {"color": token("paper"), "width": 2}}
    return figure(
        heatmap(energy, grid, grid, "energy", showscale=False, hoverinfo="skip"),
        line(*memories.T, "memories", 0, mode="markers", marker=ring),
        line(*path.T, "query", 1, mode="lines+markers", line={"color": "#ffffff", "dash": "solid"},
             marker={"color": token("vermillion"), **ring}),
        height=400, margin={"l": 8, "r": 8, "t": 36, "b": 8},
        **merged(square(), {"xaxis": {"visible": False}, "yaxis": {"visible": False}}),
    )  # fmt: skip


def finite(values: np.ndarray) -> np.ndarray:
    """The array with every infinity turned to NaN, which plotly leaves out instead of going blank."""
    values = np.asarray(values)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return values
    return np.where(np.isfinite(values), values, np.nan)


def raw(fig: go.Figure) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Data and layout as plotly.py holds them: arrays are arrays, nothing is copied. Do not write."""
    return fig._data, fig._layout


def resolved(fig: go.Figure, theme: str = "light") -> go.Figure:
    """The figure with tokens turned to colours and the theme's look, for files that leave the lab."""
    data, layout = (_replace(part, COLOURS[theme]) for part in raw(fig))
    layout = merged(layout, (layout.get("meta") or {}).get("file") or {})
    look = {"template": template(theme), "paper_bgcolor": "#ffffff"}
    return go.Figure(data=data, layout={"plot_bgcolor": "#ffffff"} | layout | look)


def _replace(node: Any, colours: Mapping[str, str]) -> Any:
    if isinstance(node, str):
        return colours.get(node[6:-1], node) if node.startswith("var(--") else node
    if isinstance(node, dict):
        return {k: _replace(v, colours) for k, v in node.items()}
    if isinstance(node, (list, tuple)):
        return [_replace(v, colours) for v in node]
    return node


def plotted(fig: go.Figure) -> list[dict[str, Any]]:
    """The numbers of every trace, as columns, for the CSV of what is plotted.

    A trace is called what its `meta["series"]` says, or as in the legend.
    """
    tables: list[dict[str, Any]] = []
    for i, t in enumerate(raw(fig)[0]):
        if t.get("hoverinfo") == "skip" and t.get("fill") == "toself":
            half = len(t["x"]) // 2
            name = f"{t.get('legendgroup') or i} band"
            low, high = t["y"][half:][::-1], t["y"][:half]
            tables.append({"series": name, "x": t["x"][:half], "low": low, "high": high})
            continue
        columns = {k: t[k] for k in ("x", "y", "z") if t.get(k) is not None}
        if columns:
            series = (t.get("meta") or {}).get("series") or t.get("name")
            tables.append({"series": series or f"{t['type']} {i + 1}", **columns})
    return tables


# ---- regression and checkpoints ----------------------------------------------------------------

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
) -> go.Figure:
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


def regression_prompt(look: OnePrompt, model: str, shown: Mapping[str, str]) -> go.Figure:
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
        ("wrong label", look.corrupted, "x"),
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
) -> go.Figure:
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
) -> go.Figure:
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


def sweep_lines(axis: str, curves: Sequence[SweepCurve], **layout: Any) -> go.Figure:
    """The curves of a sweep's table along one of its columns, each with its band."""
    traces: list[Any] = []
    for i, c in enumerate(curves):
        traces += [
            band(c.x, finite(c.low), finite(c.high), hue=HUES[i % len(HUES)], group=c.name),
            line(c.x, c.values, c.name, i, mode="lines+markers"),
        ]
    return figure(*traces, x=axis, height=420, margin={"t": 30}, **layout)


def training_curve(steps: np.ndarray, r2: Mapping[str, np.ndarray], loss: np.ndarray) -> go.Figure:
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


# ---- landscape ---------------------------------------------------------------------------------

# What lies on the heatmap keeps its colour in both themes, because the heatmap does.
_WHITE, _NIGHT, _QUERY, _EXAMPLE = "#ffffff", "#0c1b3a", "#ff6a3d", "#ffc53d"
# Points a side that pictures are drawn from. Plotly colours a heatmap cell by cell and needs longer for it
# than the engine for the numbers; smoothed and a third of a screen wide, 101 look like 201.
_PAIR, _CONTOURS = 101, 51
_LEVELS = 14  # contour lines
_NAMED = 24  # memories up to which each shows its number
# On the page the legend and the colour bar are HTML, which costs nothing to leave as it is; plotly's own
# take a third of a redraw. A file has them in the picture.
_FILE = {
    "showlegend": True,
    "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
    "margin": {"b": 84},
    "coloraxis": {"showscale": True},
}


def landscape_pair(r: Landscape, units: tuple[str, str]) -> go.Figure:
    """Before and after reshaping side by side: one colour scale, one zoom."""
    across, up = _axes(r)
    return figure(
        *_slice(r, r.before.energy, "before", r.colour_range, _PAIR),
        *_slice(r, r.after.energy, "after", r.colour_range, _PAIR, axes="2"),
        *_marks(r, "before"),
        *_marks(r, "after", axes="2", legend=False),
        height=402,
        xaxis={"domain": [0, 0.485], "title": {"text": units[0]}, **across},
        xaxis2={
            "domain": [0.515, 1],
            "title": {"text": units[0]},
            "anchor": "y2",
            "matches": "x",
            **across,
        },
        yaxis={"title": {"text": units[1]}, "scaleanchor": "x", **up},
        yaxis2={"anchor": "x2", "matches": "y", "showticklabels": False, "ticks": "", **up},
        coloraxis=_colours(r.colour_range),
        showlegend=False,
        plot_bgcolor=token("missing"),
        margin={"l": 48, "r": 12, "t": 26, "b": 44},
        annotations=[
            _heading("Before: the pretrained memories", "x", "y"),
            _heading(_after(r), "x2", "y2"),
        ],
        meta={
            "file": _FILE,
            "square": [["xaxis", "yaxis"], ["xaxis2", "yaxis2"]],
            "fill": {"aspect": 0.47, "extra": 70, "above": 398},
            "narrow": {
                "height": 740,
                "xaxis": {"domain": [0, 1]},
                "xaxis2": {"domain": [0, 1]},
                "yaxis": {"domain": [0.555, 1]},
                "yaxis2": {"domain": [0, 0.445], "showticklabels": True, "ticks": "outside"},
            },
        },
    )


def landscape_plane(r: Landscape, view: str, units: tuple[str, str]) -> go.Figure:
    """One picture of the plane: `"after"`, or `"difference"` (after minus before)."""
    if view == "difference":
        top = r.difference_range or 1.0
        span = (-top, top)
        layers = _slice(r, r.difference, "difference", span)
        marks = _marks(r, "after", ink=token("ink"))
        title = "After minus before: blue where the context lowers E"
    else:
        span = r.colour_range
        layers, marks = _slice(r, r.after.energy, "after", span), _marks(r, "after")
        title = _after(r)
    across, up = _axes(r)
    return figure(
        *layers,
        *marks,
        coloraxis=_colours(span, DIVERGING if view == "difference" else SEQUENTIAL),
        meta={"file": _FILE, "square": [["xaxis", "yaxis"]], "narrow": {"height": 430}},
        height=430,
        xaxis={"title": {"text": units[0]}, **across},
        yaxis={"title": {"text": units[1]}, "scaleanchor": "x", **up},
        showlegend=False,
        plot_bgcolor=token("missing"),
        margin={"l": 48, "r": 12, "t": 26, "b": 44},
        annotations=[_heading(title, "x", "y")],
    )


def _axes(r: Landscape) -> list[dict[str, Any]]:
    """Both axes: what the grid covers, square, without lines that the heatmap would hide."""
    plain = {"constrain": "domain", "showgrid": False, "showline": False}
    return [{"range": [float(a[0]), float(a[-1])], **plain} for a in (r.xs, r.ys)]


def _heading(text: str, x: str, y: str) -> dict[str, Any]:
    """A title that stays with its subplot however the subplots are arranged."""
    return {
        "text": f"<b>{text}</b>", "xref": f"{x} domain", "yref": f"{y} domain", "x": 0, "y": 1,
        "xanchor": "left", "yanchor": "bottom", "yshift": 4, "showarrow": False,
        "font": {"size": 14, "color": token("ink")},
    }  # fmt: skip


def _after(r: Landscape) -> str:
    t = r.settings.examples
    return f"After {t} example{'' if t == 1 else 's'}, strength {r.settings.strength:g}"


def _colours(span: tuple[float, float], scale: list = SEQUENTIAL) -> dict[str, Any]:
    """One colour axis for all traces of a figure."""
    bar = {"thickness": 10, "x": 1.01, "title": {"text": "E", "side": "top"}}
    return {
        "cmin": span[0],
        "cmax": span[1],
        "colorscale": scale,
        "showscale": False,
        "colorbar": bar,
    }


def _slice(
    r: Landscape,
    z: np.ndarray,
    which: str,
    span: tuple[float, float],
    points: int = 401,
    axes: str = "",
) -> list[dict]:
    """Colour and contour lines. Lines come from a coarser grid: they cost more than the colour."""
    at = {"xaxis": f"x{axes}", "yaxis": f"y{axes}"}
    fine, every = (-(-(len(r.xs) - 1) // (n - 1)) for n in (points, _CONTOURS))
    low, high = span
    return [
        heatmap(
            z[::fine, ::fine], r.xs[::fine], r.ys[::fine], "energy", zsmooth="fast", coloraxis="coloraxis",
            hovertemplate="%{x:.3f}, %{y:.3f}<br>E = %{z:.4f}<extra></extra>",
            meta={"series": f"energy, {which}"}, **at,
        ),
        {
            "type": "contour", "z": finite(z[::every, ::every]), "x": r.xs[::every],
            "y": r.ys[::every], "name": "contours", "hoverinfo": "skip", "showscale": False,
            "contours": {"coloring": "none", "start": low, "end": high,
                         "size": (high - low) / _LEVELS or 1.0},
            "line": {"color": "rgba(128,128,128,0.5)" if which == "difference"
                     else "rgba(255,255,255,0.38)", "width": 0.8},
            "showlegend": False, "meta": {"series": f"contours, {which}"}, **at,
        },
    ]  # fmt: skip


def _marks(
    r: Landscape, which: str, axes: str = "", legend: bool = True, ink: str = _WHITE
) -> list[dict]:
    """Memories, examples, the query's path and the two lowest points of one side."""
    side = getattr(r, which)
    at = {"xaxis": f"x{axes}", "yaxis": f"y{axes}", "showlegend": legend}
    scale = r.before.largest_norm or 1.0
    few = len(side.points) <= _NAMED

    def mark(points: np.ndarray, off: np.ndarray, name: str, marker: dict, **more: Any) -> dict:
        # The farther off the plane a point lies, the fainter it is.
        marker = {"opacity": 1 - 0.65 * np.minimum(off / scale, 1), **marker}
        base = {
            "type": "scatter", "x": points[:, 0], "y": points[:, 1], "name": name, "mode": "markers",
            "legendgroup": name, "customdata": off, "marker": marker,
            "meta": {"series": f"{name}, {which}"}, **at,
        }  # fmt: skip
        return base | more

    edge = {"color": _NIGHT, "width": 1}
    off_plane = "<br>%{customdata:.3f} off the plane<extra></extra>"
    numbers = [str(i) for i in range(len(side.points))]
    # In two dimensions the slice is the space, and has one lowest point.
    kinds = 1 if r.plane.kind == "identity" else 2
    traces = [
        mark(
            r.example_points, r.example_off_plane, "examples",
            {"size": 16 if few else 8, "symbol": "square", "color": _EXAMPLE, "line": edge},
            text=[f"{j}, of memory {p}" for j, p in enumerate(r.pairs)],
            hovertemplate="example %{text}" + off_plane,
        ),
        mark(
            np.stack([side.space_minimum, side.slice_minimum])[:kinds],
            np.array([side.space_off_plane, 0.0])[:kinds], "lowest points",
            {"symbol": ["diamond-open", "square-open"][:kinds], "size": [27, 24][:kinds],
             "color": ink, "line": {"width": 1.8, "color": ink}},
            text=["minimum of the space", "point of the slice"][:kinds],
            hovertemplate="lowest %{text}" + off_plane,
        ),
        mark(
            side.path, side.path_off_plane, "query",
            {"size": np.r_[9, np.full(max(len(side.path) - 1, 0), 5)], "color": _QUERY,
             "line": {"color": _WHITE, "width": 1}, "opacity": 1},
            uid=f"path-{which}", mode="lines+markers", line={"color": _QUERY, "width": 3},
            hovertemplate="query on its way" + off_plane,
        ),
        mark(
            side.path[-1:], side.path_off_plane[-1:], "state",
            {"size": 21, "symbol": "circle-open", "color": _QUERY, "opacity": 1,
             "line": {"color": _QUERY, "width": 3.5}},
            uid=f"state-{which}", legendgroup="query", showlegend=False,
            hovertemplate="state of the query" + off_plane,
        ),
        # Last, so that no line hides their numbers.
        mark(
            side.points, side.off_plane, "memories",
            {"size": 17 if few else 8, "color": _WHITE, "line": edge},
            mode="markers+text" if few else "markers", text=numbers,
            textfont={"color": _NIGHT, "size": 11}, hovertemplate="memory %{text}" + off_plane,
        ),
    ]  # fmt: skip
    if few:
        start, least = r.before.points, 0.06 * float(r.xs[-1] - r.xs[0])
        arrows = (
            _arrows(start, side.points, "moved by W₁", ink, least, at)
            if which == "after"
            else _arrows(start[r.pairs], r.example_points, "its example", _EXAMPLE, least, at)
        )
        traces.insert(0, arrows)
    return traces


def _arrows(
    start: np.ndarray, end: np.ndarray, name: str, colour: str, least: float, at: Mapping[str, Any]
) -> dict:
    """Thin arrows from point to point, as one trace; the tips stop short of the marks there, and what
    hardly moves has none."""
    far = np.linalg.norm(end - start, axis=1) > least
    start, end = start[far], end[far]
    gap = np.full(len(start), np.nan)
    x, y = (np.stack([start[:, i], end[:, i], gap], axis=1).ravel() for i in (0, 1))
    tip = np.tile([0.0, 1.0, 0.0], len(start))
    return {
        "type": "scatter", "x": x, "y": y, "name": name, "mode": "lines+markers", "opacity": 0.85,
        "line": {"color": colour, "width": 1.4}, "hoverinfo": "skip",
        "marker": {"symbol": "arrow", "angleref": "previous", "color": colour, "opacity": 1,
                   "size": 10 * tip, "standoff": 9 * tip},
        **at, "showlegend": False,
    }  # fmt: skip


def landscape_surface(r: Landscape, which: str, units: tuple[str, str]) -> go.Figure:
    """Energy as height over the plane with the query's path on it, at most 81 x 81 points."""
    side = getattr(r, which)
    every = -(-(len(r.xs) - 1) // 80)
    xs, ys, z = r.xs[::every], r.ys[::every], side.energy[::every, ::every]
    low, high = r.colour_range
    lift = 0.03 * (high - low)

    def on(points: np.ndarray) -> np.ndarray:
        """Just above the slice, at the grid point nearest to each point."""
        ix, iy = (
            np.clip(np.rint((points[:, i] - axis[0]) / (axis[1] - axis[0])), 0, len(axis) - 1)
            for i, axis in enumerate((r.xs, r.ys))
        )
        return side.energy[iy.astype(int), ix.astype(int)] + lift

    axis = {"showspikes": False, "nticks": 5}
    return figure(
        surface(
            z, xs, ys, "energy", coloraxis="coloraxis", showlegend=False,
            contours={"z": {"show": True, "start": low, "end": high,
                            "size": (high - low) / 18 or 1.0, "color": "rgba(255,255,255,0.3)",
                            "width": 1, "highlight": False}},
            lighting={"ambient": 0.75, "diffuse": 0.5, "specular": 0.05},
            hovertemplate="%{x:.3f}, %{y:.3f}<br>E = %{z:.4f}<extra></extra>",
        ),
        {
            "type": "scatter3d", "x": side.points[:, 0], "y": side.points[:, 1],
            "z": on(side.points), "name": "memories", "mode": "markers",
            "marker": {"size": 5, "color": _WHITE, "line": {"color": _NIGHT, "width": 1}},
            "text": [str(i) for i in range(len(side.points))],
            "hovertemplate": "memory %{text}<extra></extra>",
        },
        {
            "type": "scatter3d", "x": side.path[:, 0], "y": side.path[:, 1], "z": on(side.path),
            "name": "query", "mode": "lines+markers", "line": {"color": _QUERY, "width": 6},
            "marker": {"size": 4, "color": _QUERY}, "hoverinfo": "skip",
        },
        height=430,
        annotations=[
            {"text": f"<b>{'Before: the pretrained memories' if which == 'before' else _after(r)}</b>",
             "xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "top",
             "showarrow": False, "font": {"size": 14, "color": token("ink")}}
        ],
        scene={
            "xaxis": {"title": {"text": units[0], "font": {"size": 12}}, **axis},
            "yaxis": {"title": {"text": units[1], "font": {"size": 12}}, **axis},
            "zaxis": {"title": {"text": "E"}, "range": [low, high], **axis},
            "aspectmode": "manual",
            "aspectratio": {"x": 1, "y": 1, "z": 0.6},
            "camera": {"eye": {"x": 1.12, "y": -1.25, "z": 1.05}, "center": {"z": -0.1}},
        },
        showlegend=False,
        margin={"l": 0, "r": 0, "t": 6, "b": 6},
        coloraxis=_colours(r.colour_range),
        meta={"narrow": {"height": 430}, "file": {"coloraxis": {"showscale": True}}},
    )  # fmt: skip


def gradient(scale: list) -> str:
    """A colour scale as a CSS gradient, left low. The middle of `DIVERGING` follows the theme."""
    zero = "light-dark({}, {})".format(*(COLOURS[theme]["zero"] for theme in COLOURS))
    stops = (f"{zero if c.startswith('var') else c} {100 * at:g}%" for at, c in scale)
    return f"linear-gradient(to right, {', '.join(stops)})"


def landscape_retrieval(r: Landscape, shown: np.ndarray) -> go.Figure:
    """Energy at each step, and how attention spreads over the memories `shown` at the last one."""
    traces: list[dict] = []
    for i, which in enumerate(("before", "after")):
        side, look = getattr(r, which), series(i)
        step = np.arange(len(side.path_energies))
        traces += [
            line(
                step, side.path_energies, which, i, meta={"series": f"energy of the state, {which}"},
                hovertemplate="step %{x}<br>E = %{y:.5f}<extra></extra>",
            ),
            line(
                step[-1:], side.path_energies[-1:], f"{which}, now", i, mode="markers",
                marker={"size": 11}, uid=f"energy-{which}", showlegend=False, hoverinfo="skip",
                legendgroup=which,
            ),
            {
                "type": "bar", "x": shown, "y": side.weights[-1, shown], "name": which,
                "uid": f"weights-{which}", "legendgroup": which, "showlegend": False,
                "xaxis": "x2", "yaxis": "y2", "meta": {"series": f"attention, {which}"},
                "marker": {"color": look["line"]["color"], "pattern": {"shape": "/" if i else ""}},
                "hovertemplate": "memory %{x}<br>weight %{y:.4f}<extra></extra>",
            },
        ]  # fmt: skip
    longest = max(len(r.before.path), len(r.after.path)) - 1
    whole = {"dtick": 1} if longest <= 12 else {}
    return figure(
        *traces,
        height=230,
        xaxis={"domain": [0, 0.46], "title": {"text": "step"}, **whole},
        yaxis={"title": {"text": "E of the state"}},
        xaxis2={
            "domain": [0.56, 1],
            "title": {"text": "memory"},
            "type": "category",
            "anchor": "y2",
            "showgrid": False,
            **({"dtick": 1} if len(shown) <= 16 else {}),
        },
        yaxis2={"anchor": "x2", "title": {"text": "attention"}, "range": [0, 1.04]},
        margin={"l": 64, "r": 12, "t": 30, "b": 44},
        bargap=0.25,
        meta={
            "narrow": {
                "height": 440,
                "xaxis": {"domain": [0, 1]},
                "xaxis2": {"domain": [0, 1]},
                "yaxis": {"domain": [0.6, 1]},
                "yaxis2": {"domain": [0, 0.4]},
            }
        },
    )


# ---- retrieval error -----------------------------------------------------------------------------

CLOUD = 60  # draws a value of the axis has in the cloud; the bands are of all draws
_TALLEST = 2.3  # decades: where an axis of errors and bounds ends above


def retrieval_error(
    sweep: ErrorStudy, *, axis: str, here: float, ticks: Sequence[float] = (), words: str = ""
) -> go.Figure:
    """Error of every draw with quantile bands, under both bounds, along one setting.

    Args:
        axis: title of the x axis.
        here: value of that setting which the controls have.
        ticks: of a logarithmic x axis; none: it is linear.
        words: why no bound is drawn; "" if they are.
    """
    x, error = sweep.values, sweep.error_quantiles
    bounds = {} if words else {
        "(a) margin bound": (_edge(sweep.bound_margin_quantiles), 1),
        "(b) Ramsauer Thm 5": (_edge(sweep.bound_ramsauer_quantiles), 2),
    }  # fmt: skip
    many = min(CLOUD, sweep.error.shape[1])
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "markers", "hoverinfo": "skip",
            "name": "error, draw by draw", "x": np.repeat(x, many),
            "y": sweep.error[:, :many].ravel(),
            "marker": {"color": token("blue"), "size": 4, "opacity": 0.3},
        },
        *(
            band(x, _edge(error[:, low]), _edge(error[:, high]), hue="blue", group=f"error, {name}")
            for name, low, high in (("5 to 95 %", 0, 4), ("25 to 75 %", 1, 3))
        ),
        *(
            band(x, q[:, 1], q[:, 3], hue=HUES[i], group=f"{name}, 25 to 75 %")
            for name, (q, i) in bounds.items()
        ),
        *(
            line(
                x, q[:, 2], f"{name}, median", i, line={"width": 2.8 if name == "error" else 2.2},
                hovertemplate=f"{name}: median %{{y:.3g}} at %{{x:.3g}}<extra></extra>",
            )
            for name, (q, i) in {"error": (error, 0), **bounds}.items()
        ),
    ]  # fmt: skip
    shapes, top = [_here(here)], _TALLEST
    if words:
        top = max(0.3, float(np.log10(_edge(error[:, 4]).max()))) + 0.9
        notes = [_note_at(words, top, left=True)]
    else:
        # Painted over the bounds, so that a bound is grey wherever it says nothing.
        two_m = float(sweep.two_m.max())
        shapes.append(
            {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": two_m, "y1": 10**top,
             "fillcolor": token("missing"), "opacity": 0.8, "line": {"width": 0}, "layer": "above"}
        )  # fmt: skip
        text = f"vacuous: above 2m = {two_m:g} a bound says nothing"
        medians = np.stack([q[:, 2] for q, _ in bounds.values()], axis=1)
        crowded = ((medians > two_m) & (medians < 10**top)).any(axis=1)
        half = len(x) // 2
        notes = [_note_at(text, top, left=bool(crowded[:half].sum() < crowded[-half:].sum()))]
    return figure(
        *traces, x=axis, y="|T(x) − ξ<sub>μ</sub>|", height=376, shapes=shapes, annotations=notes,
        margin={"t": 8}, xaxis=_scale(x, ticks), legend={"traceorder": "normal"},
        yaxis={**_DECADES, "range": [_lowest(error), top]},
    )  # fmt: skip


def retrieval_shares(
    sweep: ErrorStudy, *, axis: str, here: float, ticks: Sequence[float] = (), bounds: bool
) -> go.Figure:
    """In how many draws retrieval works, a bound says something, and memories are far apart."""
    shares = {"nearest memory is the right one": (sweep.retrieved, 0)}
    if bounds:
        shares |= {
            "(a) says something": (1 - sweep.vacuous_margin, 1),
            "(b) says something": (1 - sweep.vacuous_ramsauer, 2),
            "well separated": (sweep.well_separated, 3),
        }
    return figure(
        *(
            line(
                sweep.values, 100 * share, name, i, mode="lines+markers", marker={"size": 6},
                hovertemplate=f"{name}: %{{y:.3g}} % of draws at %{{x:.3g}}<extra></extra>",
            )
            for name, (share, i) in shares.items()
        ),
        x=axis, y="% of draws", height=250, margin={"t": 8}, shapes=[_here(here)],
        xaxis=_scale(sweep.values, ticks), yaxis={"range": [-4, 104], "dtick": 25}, showlegend=True,
    )  # fmt: skip


_DECADES = {
    "type": "log", "tickvals": [10.0**e for e in range(-8, 3)],
    "ticktext": [*(f"10⁻{e}" for e in "⁸⁷⁶⁵⁴³²¹"), "1", "10", "100"],
}  # fmt: skip


def _edge(values: np.ndarray) -> np.ndarray:
    """Inside what a logarithmic axis can show: neither 0 nor infinite."""
    return np.clip(values, np.finfo(float).tiny, 1e300)


def _lowest(values: np.ndarray) -> float:
    """Decade at which an axis of errors starts: that of the smallest, within 1e-8 and 1e-2."""
    return float(np.clip(np.floor(np.log10(_edge(values).min())), -8, -2))


def _scale(x: np.ndarray, ticks: Sequence[float]) -> dict[str, Any]:
    """Range and ticks of an axis over `x`, which ascends; logarithmic where it has ticks."""
    ends = np.log10(x[[0, -1]]) if ticks else x[[0, -1]]
    pad = 0.02 * (ends[1] - ends[0])
    kind = {"type": "log", "tickvals": list(ticks), "ticktext": [f"{t:g}" for t in ticks]}
    return {"range": [float(ends[0] - pad), float(ends[1] + pad)], **(kind if ticks else {})}


def _here(x: float) -> dict[str, Any]:
    """The upright line where the controls stand."""
    return {
        "type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1,
        "line": {"color": token("ink"), "width": 1.2, "dash": "dot"},
    }  # fmt: skip


def _note_at(text: str, y: float, *, left: bool) -> dict[str, Any]:
    """Words under the height `y`, at the left or the right end of the picture."""
    return {
        "text": text, "showarrow": False, "xref": "paper", "x": 0.006 if left else 0.994,
        "xanchor": "left" if left else "right", "y": y, "yanchor": "top",
        "font": {"size": 12.5, "color": token("ink")},
    }  # fmt: skip


OUTCOME_HUES = ("blue", "vermillion", "green", "faint", "purple", "ink")
OUTCOME_MARKS = ("circle", "x", "diamond", "square", "cross", "triangle-up")
"""Of the outcomes, in the order of `core.hopfield.OUTCOMES`."""


def phase_map(r: PhaseMap, beta: float, noise: float, ticks: Sequence[float]) -> go.Figure:
    """The most common outcome over beta and noise; the stronger the colour, the larger its share.

    Args:
        beta, noise: where the controls stand; marked.
        ticks: of the logarithmic beta axis.
    """
    traces: list[dict[str, Any]] = []
    notes = []
    for k, name in enumerate(r.outcomes):
        mine = r.most_common == k
        if not mine.any():
            continue
        hue = token(OUTCOME_HUES[k])
        traces.append(
            heatmap(
                np.where(mine, r.share[..., k], np.nan), r.betas, r.noises, name, zmin=0, zmax=1,
                xgap=1, ygap=1, colorscale=[[0, token("paper")], [1, hue]], showscale=False,
                text=_shares_in_words(r, mine), meta={"series": f"share of {name}, where largest"},
                hovertemplate="β %{x:.3g}, noise %{y:.2g}<br>%{text}<extra></extra>",
            )
        )  # fmt: skip
        traces.append(
            {"type": "scatter", "mode": "markers", "x": [None], "y": [None], "name": name,
             "marker": {"color": hue, "size": 12, "symbol": OUTCOME_MARKS[k]}}
        )  # fmt: skip
        row, column, depth = _inmost(mine)
        if depth > 1:  # wide enough to hold its name
            notes.append(
                {"text": f"<b>{name}</b>", "x": float(np.log10(r.betas[column])),
                 "y": float(r.noises[row]), "showarrow": False, "opacity": 0.94, "borderpad": 3,
                 "font": {"size": 14, "color": token("ink")}, "bgcolor": token("paper")}
            )  # fmt: skip
    traces.append(
        {"type": "scatter", "mode": "markers", "x": [beta], "y": [noise], "name": "β and noise set",
         "hoverinfo": "skip",
         "marker": {"symbol": "circle-open", "size": 17, "color": token("ink"),
                    "line": {"width": 3}}}
    )  # fmt: skip
    return figure(
        *traces, x="β inverse temperature", y="noise of the query", height=390, margin={"t": 8},
        xaxis={"type": "log", "tickvals": list(ticks), "ticktext": [f"{t:g}" for t in ticks],
               "showgrid": False},
        yaxis={"showgrid": False}, annotations=notes, legend={"traceorder": "normal"},
    )  # fmt: skip


def _shares_in_words(r: PhaseMap, mine: np.ndarray) -> list[list[str]]:
    """For each cell of `mine`, its outcomes from the most common on."""

    def words(cell: np.ndarray) -> str:
        order = [k for k in np.argsort(-cell, kind="stable") if cell[k]]
        return "<br>".join(f"{100 * cell[k]:.3g} % {r.outcomes[k]}" for k in order)

    return [
        [words(cell) if inside else "" for cell, inside in zip(*pair, strict=True)]
        for pair in zip(r.share, mine, strict=True)
    ]


def _inmost(mine: np.ndarray) -> tuple[int, int, int]:
    """Row and column of the cell farthest from its region's border, and how far that is in cells."""
    left, depth = np.pad(mine, 1), np.zeros(mine.shape, dtype=int)
    while left.any():
        depth += left[1:-1, 1:-1]
        inner = left.copy()
        for axis, by in ((0, 1), (0, -1), (1, 1), (1, -1)):
            inner &= np.roll(left, by, axis=axis)
        left = inner
    rows, columns = np.nonzero(depth == depth.max())
    # Of several such cells, the one nearest to their middle.
    best = np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2)
    return int(rows[best]), int(columns[best]), int(depth.max())


def outcome_bar(share: np.ndarray, names: Sequence[str]) -> go.Figure:
    """One bar of 100 %, divided among the outcomes at one place of the phase map."""

    def label(name: str, part: float) -> str:
        return f"{name}<br>{100 * part:.3g} %" if part > 0.3 else f"{100 * part:.3g} %"

    return figure(
        *(
            {
                "type": "bar", "orientation": "h", "x": [100 * part], "y": [""], "name": name,
                "text": [label(name, part) if part >= 0.07 else ""], "textposition": "inside",
                "insidetextanchor": "middle", "textangle": 0, "constraintext": "none",
                "textfont": {"color": token("paper"), "size": 13},
                "marker": {"color": token(OUTCOME_HUES[k] if k != 3 else "muted"),
                           "line": {"color": token("paper"), "width": 1}},
                "hovertemplate": f"{name}: %{{x:.4g}} % of draws<extra></extra>",
            }
            for k, (name, part) in enumerate(zip(names, share, strict=True))
            if part > 0
        ),
        x="% of draws at the β and noise set", height=130, barmode="stack", showlegend=False,
        margin={"t": 8}, xaxis={"range": [0, 100]}, yaxis={"showticklabels": False, "ticks": ""},
        bargap=0.2,
    )  # fmt: skip


def before_after(
    before: np.ndarray, after: np.ndarray, falls: np.ndarray, *, title: str = "", log: bool = False,
    x: str = "before", y: str = "after", height: int = 330,
) -> go.Figure:  # fmt: skip
    """A quantity before and after reshaping, a mark a draw; crosses are draws in which Delta falls.

    Args:
        falls: `(S,)`, whether Delta falls in this draw.
        log: both axes logarithmic, not below 1e-8.
        x, y: axis titles, where it is not before and after.
    """
    both = np.concatenate([before, after])
    if log:
        both = np.log10(np.clip(both, 1e-8, None))
    pad = max(0.06 * float(np.ptp(both)), 1e-3)
    ends = [float(both.min()) - pad, float(both.max()) + pad]
    diagonal = [10**e for e in ends] if log else ends
    kind = _DECADES if log else {}
    return figure(
        {"type": "scatter", "mode": "lines", "x": diagonal, "y": diagonal, "name": "no change",
         "hoverinfo": "skip", "showlegend": False,
         "line": {"color": token("muted"), "width": 1.2, "dash": "dash"}},
        *(
            {
                "type": "scatter", "mode": "markers", "x": before[those], "y": after[those],
                "name": words, "hovertemplate": f"{x} %{{x:.4g}}<br>{y} %{{y:.4g}}",
                "marker": {"color": token(hue), "symbol": mark, "size": 6.5, "opacity": 0.75},
            }
            for words, those, hue, mark in (
                ("Δ rises", ~falls, "blue", "circle"), ("Δ falls", falls, "vermillion", "x"),
            )
        ),
        title=title, x=x, y=y, height=height, margin={"t": 56 if title else 8},
        legend={"y": 1.01, "font": {"size": 12}}, xaxis={**kind, "range": ends},
        yaxis={**kind, "range": ends},
    )  # fmt: skip
