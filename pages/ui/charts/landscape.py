"""Pictures of the landscape and home pages."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pages.ui.charts.base import (
    DIVERGING,
    SEQUENTIAL,
    Figure,
    figure,
    finite,
    heatmap,
    line,
    merged,
    series,
    square,
    surface,
    token,
)

if TYPE_CHECKING:
    from core.landscape import Landscape

# What lies on the heatmap keeps its colour in both themes, because the heatmap does.
_WHITE, _NIGHT, _QUERY, _EXAMPLE = "#ffffff", "#0c1b3a", "#ff6a3d", "#ffc53d"
# Points a side that pictures are drawn from. Plotly colours a heatmap cell by cell and needs longer for it
# than the engine for the numbers; smoothed and a third of a screen wide, 101 look like 201.
_PAIR, _CONTOURS = 101, 51
_LEVELS = 14  # contour lines
_TINTS = 24  # basins of so many memories have a colour of their own; then they begin again
_NAMED = 24  # memories up to which each shows its number
# On the page the legend and the colour bar are HTML, which costs nothing to leave as it is; plotly's own
# take a third of a redraw. A file has them in the picture.
_FILE = {
    "showlegend": True,
    "legend": {"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
    "margin": {"b": 84},
    "coloraxis": {"showscale": True},
}


def landscape_pair(r: Landscape, units: tuple[str, str], basins: bool = False) -> Figure:
    """Before and after reshaping side by side: one colour scale, one zoom."""
    across, up = _axes(r)
    return figure(
        *_slice(r, r.before.energy, "before", r.colour_range, _PAIR),
        *_slice(r, r.after.energy, "after", r.colour_range, _PAIR, axes="2"),
        *(_basins(r, "before") + _basins(r, "after", axes="2") if basins else []),
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
            "canvas": True,
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


def landscape_plane(
    r: Landscape, view: str, units: tuple[str, str], basins: bool = False
) -> Figure:
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
        *(_basins(r, "after") if basins else []),
        *marks,
        coloraxis=_colours(span, DIVERGING if view == "difference" else SEQUENTIAL),
        meta={
            "canvas": True,
            "file": _FILE,
            "square": [["xaxis", "yaxis"]],
            "narrow": {"height": 430},
        },
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


def _basins(r: Landscape, which: str, axes: str = "") -> list[dict]:
    """Every start tinted by the memory at which its retrieval ends; grey (-1) where that is a mixture or
    none, open where it is not known."""
    side = getattr(r, which)
    ends = [o.split()[-1] if o.startswith("retrieved") else "-1" for o in side.stationary.outcome]
    labels = np.array([*(int(e) for e in ends), 0])[side.basins].astype(float)
    labels[side.basins < 0] = np.nan
    return [
        heatmap(
            np.where(labels < 0, labels, labels % _TINTS), r.basin_xs, r.basin_ys, f"basins, {which}",
            zsmooth=False, zmin=-1.5, zmax=_TINTS - 0.5, colorscale=_tints(), showscale=False,
            opacity=0.5, hoverinfo="skip",
            meta={"series": f"memory at which retrieval ends, {which}", "basins": _TINTS},
            xaxis=f"x{axes}", yaxis=f"y{axes}",
        )
    ]  # fmt: skip


def _tints() -> list[list]:
    """Grey, then hues a golden angle apart, so that neighbours in number differ; in plateaus."""
    colours = ["#8a8a8a"]
    for i in range(_TINTS):
        # Lightness steps too: a second channel where hues look alike.
        rgb = colorsys.hls_to_rgb((0.08 + i * 0.381966) % 1, (0.42, 0.62, 0.52)[i % 3], 0.75)
        colours.append("#" + "".join(f"{round(255 * c):02x}" for c in rgb))
    n = len(colours)
    return [[at / n, c] for i, c in enumerate(colours) for at in (i, i + 1)]


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
            hovertemplate="lowest %{text}" + ("<extra></extra>" if kinds == 1 else off_plane),
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


def landscape_surface(r: Landscape, which: str, units: tuple[str, str]) -> Figure:
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


def landscape_retrieval(r: Landscape, shown: np.ndarray) -> Figure:
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


def home_landscape(
    energy: np.ndarray, grid: np.ndarray, memories: np.ndarray, path: np.ndarray
) -> Figure:
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
