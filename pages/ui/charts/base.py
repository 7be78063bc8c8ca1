"""Arrays in, plotly Figure out. No Streamlit, no mathematics.

Colours are written as tokens (`var(--blue)`); `COLOURS` says what a token is in light and in dark. The chart
component resolves them in the browser, `resolved()` does for files. Hue is never alone: the i-th series also
has its own dash and its own marker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

# Okabe and Ito's hues, which stay apart under every common colour blindness, moved in lightness until each
# has at least 3:1 against its background.
COLOURS: dict[str, dict[str, str]] = {
    "light": {
        "blue": "#0b6aa2", "vermillion": "#c94f00", "green": "#00805c", "purple": "#a84a80",
        "amber": "#946400", "sky": "#2583b8", "ink": "#1d2730", "muted": "#5c6770", "faint": "#8b9095",
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


class Figure:
    """What plotly.js draws, as plain dicts. Making plotly.py's own object of it costs more than all the rest
    of a moved control, so that is left to those who ask for it: tests and files that leave the lab."""

    def __init__(self, data: list[dict[str, Any]], layout: dict[str, Any]) -> None:
        self._data, self._layout = data, layout

    def plotly(self) -> go.Figure:
        """The same as a checked `plotly.graph_objects.Figure`."""
        return go.Figure(data=self._data, layout={"template": None} | self._layout)

    @property
    def data(self) -> tuple[Any, ...]:
        return self.plotly().data

    @property
    def layout(self) -> Any:
        return self.plotly().layout

    def to_json(self) -> str:
        return self.plotly().to_json()


def figure(
    *traces: Mapping[str, Any],
    x: str = "",
    y: str = "",
    title: str = "",
    height: int = 420,
    **layout: Any,
) -> Figure:
    """A figure in the lab's style.

    Plain dicts go in without plotly's own checks, which would cost more than all the rest of a rerun;
    with `CHECKED` on, as in the tests, every attribute is checked.

    Args:
        traces: plotly traces as dicts with a `type`: `line()`, `heatmap()` or your own.
        x, y: axis titles.
        layout: further plotly layout, merged into what is set here.
    """
    base: dict[str, Any] = {"height": height, "title": {"text": title}}
    base |= {f"{n}axis": {"title": {"text": text}} for n, text in (("x", x), ("y", y)) if text}
    fig = Figure([dict(t) for t in traces], merged(base, layout))
    if CHECKED:
        fig.plotly()
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
) -> Figure:
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


def greyed(fig: Figure) -> Figure:
    """Shows the cells without a finite value in grey instead of as background."""
    fig._layout["plot_bgcolor"] = token("missing")
    return fig


def finite(values: np.ndarray) -> np.ndarray:
    """The array with every infinity turned to NaN, which plotly leaves out instead of going blank."""
    values = np.asarray(values)
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return values
    return np.where(np.isfinite(values), values, np.nan)


def raw(fig: Figure | go.Figure) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Data and layout as plotly.py holds them: arrays are arrays, nothing is copied. Do not write."""
    return fig._data, fig._layout


def resolved(fig: Figure, theme: str = "light") -> go.Figure:
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


def plotted(fig: Figure) -> list[dict[str, Any]]:
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


def gradient(scale: list) -> str:
    """A colour scale as a CSS gradient, left low. The middle of `DIVERGING` follows the theme."""
    zero = "light-dark({}, {})".format(*(COLOURS[theme]["zero"] for theme in COLOURS))
    stops = (f"{zero if c.startswith('var') else c} {100 * at:g}%" for at, c in scale)
    return f"linear-gradient(to right, {', '.join(stops)})"
