"""Pictures of the ghost examples page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pages.ui.charts.base import Figure, band, figure, line, merged, series, token
from pages.ui.charts.regression import _note, _shade, _upright

if TYPE_CHECKING:
    from core.ghosts import Ghosts
    from models.reshaped_memories import ReshapedModel

_NEAREST_ZERO = 1e-17  # what is smaller is drawn here: a logarithmic axis has no 0
EXACT = 1e-10


def ghost_losses(g: Ghosts, fitted: float) -> Figure:
    """Loss of every restart against the step, and what there is to compare it with.

    Args:
        fitted: mean square label, what answering 0 to every query would miss it by.
    """
    losses, end = _seen(g.losses), g.settings.steps
    levels = {
        "before the search": (float(np.median(g.start_mse)), "vermillion", "dash"),
        "labels 0, no search": (float(np.median(g.silent_mse)), "green", "dot"),
        "a label's mean square": (fitted, "muted", "dashdot"),
    }
    traces: list[dict[str, Any]] = [
        line(
            g.steps, losses[:, r], f"restart {r + 1}", 0, showlegend=False,
            line={"color": token("blue"), "width": 1, "dash": "solid"}, opacity=0.4,
            hovertemplate=f"restart {r + 1}, step %{{x}}: %{{y:.3g}}<extra></extra>",
        )
        for r in range(losses.shape[1]) if r != g.best
    ] + [
        line(
            g.steps, losses[:, g.best], f"best restart ({g.best + 1})", 0,
            hovertemplate="best, step %{x}: %{y:.3g}<extra></extra>",
        ),
        *(
            {
                "type": "scatter", "mode": "lines", "x": [0, end], "y": [max(y, _NEAREST_ZERO)] * 2,
                "name": name, "line": {"color": token(hue), "width": 1.8, "dash": dash},
                "hovertemplate": f"{name}: %{{y:.4g}}<extra></extra>",
            }
            for name, (y, hue, dash) in levels.items()
        ),
    ]  # fmt: skip
    shown = [losses, *(np.array([y]) for y, _, _ in levels.values())]
    return figure(
        *traces, height=380, x="step", y="mean square difference",
        xaxis={"range": [0, end]}, yaxis=_decades(*shown), margin={"t": 10, "l": 66},
        legend={"font": {"size": 12}},
    )  # fmt: skip


def ghost_labels(g: Ghosts) -> Figure:
    """The best restart, ghost by ghost: its label and how far its input went, start and end."""
    number = np.arange(1, g.xs.shape[1] + 1)
    before, after = g.start_ys[g.best].double().numpy(), g.ys[g.best].double().numpy()
    moved = (g.xs[g.best] - g.start_xs[g.best]).double().norm(dim=-1).numpy()
    most = float(np.abs(np.concatenate([before, after])).max()) * 1.12 or 1.0
    stems = np.stack([before, after, np.full_like(before, np.nan)], 1).ravel()
    return figure(
        {
            "type": "scatter", "mode": "lines", "x": np.repeat(number, 3), "y": stems,
            "line": {"color": token("faint"), "width": 1}, "showlegend": False, "hoverinfo": "skip",
            "name": "from start to end",
        },
        _dots(number, before, "label at the start", 1, open=True),
        _dots(number, after, "label after the search", 0),
        {
            "type": "bar", "x": number, "y": moved, "name": "way of the input", "xaxis": "x2",
            "yaxis": "y2", "marker": {"color": token("muted")}, "showlegend": False,
            "hovertemplate": "ghost %{x}: its input moved by %{y:.3g}<extra></extra>",
        },
        height=380, margin={"t": 10, "l": 56}, bargap=0.3,
        xaxis={"showticklabels": False, "range": [0.3, len(number) + 0.7]},
        yaxis={"domain": [0.42, 1], "title": {"text": "label y"}, "range": [-most, most],
               "zeroline": True, "zerolinecolor": token("faint")},
        xaxis2={"anchor": "y2", "matches": "x", "title": {"text": "ghost"}},
        yaxis2={"domain": [0, 0.32], "anchor": "x2", "title": {"text": "input moved"},
                "rangemode": "tozero"},
        legend={"font": {"size": 12}},
    )  # fmt: skip


def ghost_layers(searched: ReshapedModel, drawn: ReshapedModel) -> Figure:
    """Relative error of every layer's and head's attention with ghosts in place of the prompt."""
    names, at = _heads(searched.layers.error)
    rows = {
        "ghosts as they are": searched.layers.error_ghosts,
        "reshaped": searched.layers.error,
        "reshaped, without a search": drawn.layers.error,
    }
    order = (1, 0, 2)
    shown = [_seen(values).ravel() for values in rows.values()]
    traces = [
        _dots(at, y, name, i, open=i == 2, size=11 if i == 2 else 8, text=names)
        for (name, y, i) in zip(rows, shown, order, strict=True)
    ]
    return figure(
        *traces, height=360, y="|o′ − o| / |o|", yaxis=_decades(np.array([EXACT]), *shown),
        xaxis=_head_axis(searched.layers.error.shape), shapes=[_level(EXACT)],
        annotations=[_exact_note()], margin={"t": 10, "l": 66, "b": 62}, showlegend=True,
        legend={"font": {"size": 12}},
    )  # fmt: skip


def ghost_maps(r: ReshapedModel) -> Figure:
    """What W1 and W2 had to work with: residual, condition and rank of the ghosts, by head."""
    names, at = _heads(r.layers.error)
    shape = r.layers.error.shape
    panels = {
        "residual": (r.layers.residual_keys, r.layers.residual_values, True),
        "condition": (r.layers.condition_keys, r.layers.condition_values, True),
        "rank": (r.layers.rank_keys, r.layers.rank_values, False),
    }
    traces, layout = [], {}
    for row, (name, (keys, values, log)) in enumerate(panels.items()):
        n = "" if row == 0 else str(row + 1)
        for i, (what, array) in enumerate((("keys, W₁", keys), ("values, W₂", values))):
            y = _seen(array).ravel() if log else array.ravel()
            y = np.where(np.isfinite(y), y, np.nan)
            dots = _dots(at, y, what, i, text=names, size=7)
            traces.append(
                dots | {"xaxis": f"x{n}", "yaxis": f"y{n}", "showlegend": row == 0,
                        "meta": {"series": f"{name} of {what}"}}
            )  # fmt: skip
        top = 1 - 0.35 * row
        scale = _decades(keys, values, ticks=3) if log else {"rangemode": "tozero"}
        layout[f"yaxis{n}"] = merged(
            scale, {"domain": [top - 0.3, top], "anchor": f"x{n}", "title": {"text": name}}
        )
        last = row == len(panels) - 1
        layout[f"xaxis{n}"] = merged(
            _head_axis(shape, title=last),
            {"anchor": f"y{n}", "showticklabels": last} | ({} if row == 0 else {"matches": "x"}),
        )
    return figure(
        *traces, height=430, margin={"t": 10, "l": 66, "b": 62}, legend={"font": {"size": 12}},
        **layout,
    )  # fmt: skip


def ghost_answers(r: ReshapedModel) -> Figure:
    """The model's answer to every query: after what stands in for the prompt, against after it."""
    most = float(np.abs(np.concatenate([r.prompt, r.reshaped, r.ghosts])).max()) * 1.08 or 1.0
    ends = np.array([-most, most])
    return figure(
        {
            "type": "scatter", "mode": "lines", "x": ends, "y": ends, "name": "the same answer",
            "line": {"color": token("faint"), "width": 1.5}, "hoverinfo": "skip",
            "showlegend": False,
        },
        _dots(r.prompt, r.ghosts, "ghosts as they are", 1, open=True),
        _dots(r.prompt, r.reshaped, "reshaped ghosts", 0),
        height=430, x="answer after the true prompt", y="answer with ghosts",
        xaxis={"range": [-most, most]}, yaxis={"range": [-most, most]},
        margin={"t": 10, "l": 56}, legend={"font": {"size": 12}},
    )  # fmt: skip


def ghost_mse_along(
    t: Sequence[int],
    mse: np.ndarray,
    start: np.ndarray,
    silent: np.ndarray,
    open_at: int | None,
    trained_to: int,
    paper: Sequence[float],
) -> Figure:
    """Held-out error of ghosts against their number, with the spread over restarts.

    Args:
        mse, start, silent: `(T, R)`: after the search, before it, and with labels 0 instead of it.
        open_at: number of ghosts whose search still runs.
        trained_to: most examples in training; what is longer is shaded.
        paper: averages the paper gives.
    """
    x = np.array(t)
    low, mid, high = (_seen(f(mse, axis=1)) for f in (np.min, np.median, np.max))
    others = {"before the search": start, "labels 0, no search": silent}
    levels = [
        {
            "type": "scatter", "mode": "lines", "x": [x[0], x[-1]], "y": [y, y],
            "name": "the paper's averages", "showlegend": i == 0, "legendgroup": "paper",
            "line": {"color": token("muted"), "width": 1.5, "dash": "dashdot"},
            "hovertemplate": "the paper: %{y}<extra></extra>",
        }
        for i, y in enumerate(paper)
    ]  # fmt: skip
    return figure(
        band(x, low, high, hue="blue", group="after the search"),
        line(x, mid, "after the search", 0, mode="lines+markers",
             hovertemplate="t = %{x}: median %{y:.3g}<extra></extra>"),
        *(
            line(x, _seen(np.median(y, axis=1)), name, i, mode="lines+markers",
                 marker={"size": 6}, hovertemplate="t = %{x}: median %{y:.3g}<extra></extra>")
            for i, (name, y) in enumerate(others.items(), start=1)
        ),
        *levels,
        height=380, x="t ghosts", y="mean square difference",
        yaxis=_decades(low, high, start, silent, np.array(paper)),
        **_along(x, open_at, trained_to),
    )  # fmt: skip


def ghost_reshaped_along(
    t: Sequence[int],
    errors: Mapping[str, np.ndarray],
    limit: float,
    open_at: int | None,
    trained_to: int,
) -> Figure:
    """Relative error of the model's answers, end to end, against the number of ghosts.

    Args:
        errors: name to `(T,)`; the first is the reshaped ghosts.
        limit: most ghosts for which W1 and W2 can be exact.
    """
    x = np.array(t)
    order = (0, 2, 1)
    shown = [_seen(y) for y in errors.values()]
    layout = _along(x, open_at, trained_to)
    shapes = [*layout.pop("shapes"), _level(EXACT)]
    notes = [*layout.pop("annotations"), _exact_note()]
    if x[0] <= limit <= x[-1]:
        shapes.append(_upright(limit, "dot"))
        notes.append(merged(_note(f"rank limit, t = {limit:g}", float(np.log10(limit)), "left"),
                            {"y": 0.5, "yanchor": "middle", "yshift": 0}))  # fmt: skip
    return figure(
        *(
            line(x, y, name, i, mode="lines+markers", marker={"size": 11 if i == 2 else 7},
                 hovertemplate=name + ", t = %{x}: %{y:.3g}<extra></extra>")
            for (name, y, i) in zip(errors, shown, order, strict=True)
        ),
        height=380, x="t ghosts", y="error of the answers, relative",
        yaxis=_decades(np.array([EXACT]), *shown), shapes=shapes, annotations=notes, **layout,
    )  # fmt: skip


def _along(x: np.ndarray, open_at: int | None, trained_to: int) -> dict[str, Any]:
    """Axis of the number of ghosts, and what is marked on it."""
    ends = np.log10([x[0], max(x[-1], x[0] + 1)])
    shapes, notes = [], []
    if trained_to < x[-1]:
        shapes.append(_shade(max(trained_to, x[0]), x[-1]))
        notes.append(_note("longer than in training", float(ends[1]), "right"))
    if open_at is not None:
        shapes.append(_upright(open_at, "dash"))
        notes.append(_note(f"t = {open_at} still runs", float(np.log10(open_at)), "right", 1))
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100) if x[0] <= n <= x[-1]]
    pad = 0.02 * (ends[1] - ends[0])
    return {
        "shapes": shapes, "annotations": notes, "margin": {"t": 10, "l": 66},
        "legend": {"font": {"size": 12}},
        "xaxis": {"type": "log", "tickvals": ticks, "ticktext": [str(n) for n in ticks],
                  "range": [float(ends[0] - pad), float(ends[1] + pad)]},
    }  # fmt: skip


def _dots(
    x: Any, y: np.ndarray, name: str, i: int, *, open: bool = False, size: int = 8, text: Any = None
) -> dict[str, Any]:
    look = series(i)["marker"]
    ring = {"symbol": f"{look['symbol']}-open", "line": {"width": 2}} if open else {}
    hover = ("%{text}<br>" if text is not None else "") + name + ": %{y:.3g}<extra></extra>"
    return {
        "type": "scatter", "mode": "markers", "x": x, "y": y, "name": name, "legendgroup": name,
        "marker": look | {"size": size} | ring, "hovertemplate": hover,
        **({} if text is None else {"text": text}),
    }  # fmt: skip


def _heads(like: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Name and place of every head: heads of one layer stand close together."""
    heads = like.shape[1]
    layer, head = (grid.ravel() for grid in np.indices(like.shape))
    names = [f"layer {i + 1}, head {j + 1}" for i, j in zip(layer, head, strict=True)]
    return names, layer + 1 + (head - (heads - 1) / 2) * 0.5 / heads


def _head_axis(shape: tuple[int, ...], title: bool = True) -> dict[str, Any]:
    ticks = np.arange(1, shape[0] + 1)
    words = "layer" if shape[1] == 1 else f"layer, its {shape[1]} heads side by side"
    return {
        "tickvals": ticks, "ticktext": [str(n) for n in ticks], "range": [0.4, shape[0] + 0.6],
        **({"title": {"text": words}} if title else {}),
    }  # fmt: skip


def _level(y: float) -> dict[str, Any]:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "layer": "below",
        "line": {"color": token("muted"), "width": 1.2, "dash": "dot"},
    }  # fmt: skip


def _exact_note() -> dict[str, Any]:
    return {
        "text": "below: exact", "xref": "paper", "x": 1, "y": float(np.log10(EXACT)),
        "xanchor": "right", "yanchor": "top", "showarrow": False,
        "font": {"size": 12, "color": token("muted")},
    }  # fmt: skip


def _seen(values: np.ndarray) -> np.ndarray:
    """What a logarithmic axis can show of errors: 0 becomes the smallest number it has."""
    values = np.asarray(values, dtype=float)
    return np.where(values < _NEAREST_ZERO, _NEAREST_ZERO, values)


def _decades(*shown: np.ndarray, ticks: int = 7) -> dict[str, Any]:
    """A logarithmic axis over all these numbers, in whole decades."""
    values = np.concatenate([np.ravel(_seen(part)) for part in shown])
    values = values[np.isfinite(values)]
    if not values.size:  # nothing to show: plotly's own axis
        return {"type": "log", "exponentformat": "power"}
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()) + 0.05)
    step = int(np.ceil((high - low) / ticks)) or 1
    return {
        "type": "log", "range": [float(low) - 0.15, float(high) + 0.1], "dtick": step,
        "exponentformat": "power",
    }  # fmt: skip
