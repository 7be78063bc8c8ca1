"""Pictures of the hidden-concept page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pages.ui.charts.base import HUES, Figure, band, figure, finite, line, token

if TYPE_CHECKING:
    from core.concept_study import HiddenConcept
    from core.hidden_concept import Influence

KIND_LOOKS = (
    ("consistent", "blue", "circle", "solid"),
    ("irrelevant", "amber", "square", "dot"),
    ("contradicting", "vermillion", "x", "dash"),
)
"""Name, hue, marker and dash of each kind of example, in the order of `core.concept_study.KINDS`."""

_POWERS = {"type": "log", "exponentformat": "power", "dtick": 1}


# ---- the belief ----------------------------------------------------------------------------------


def concept_lines(
    keys: np.ndarray, values: np.ndarray, reach: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where concepts explain an example exactly: the line z·k = v, once per example, in gaps of NaN.

    Args:
        keys, values: `(n, 2)` and `(n,)`.
        reach: half the length of a line.
    """
    size2 = np.maximum((keys**2).sum(1, keepdims=True), 1e-300)
    foot = values[:, None] * keys / size2
    along = reach * np.stack((-keys[:, 1], keys[:, 0]), axis=1) / np.sqrt(size2)
    points = np.stack((foot - along, foot + along, np.full_like(foot, np.nan)), axis=1)
    return points[..., 0].ravel(), points[..., 1].ravel()


def concept_plane(r: HiddenConcept) -> Figure:
    """Two dimensions: the 95 % region of the belief, its mean, and a line for every example."""
    p, reach = r.posterior, plane_reach(r)
    assert p.ellipses is not None
    t = len(r.lengths) - 1
    traces: list[dict[str, Any]] = []
    for kind, (name, hue, _, dash) in enumerate(KIND_LOOKS):
        mine = np.flatnonzero(r.kinds[:t] == kind)
        if len(mine):
            x, y = concept_lines(r.keys[mine], r.values[mine], 3 * reach)
            traces.append(
                {"type": "scatter", "mode": "lines", "x": x, "y": y, "opacity": 0.4,
                 "name": f"{name} example" if len(mine) < t else "example", "hoverinfo": "skip",
                 "uid": f"lines-{kind}", "line": {"color": token(hue), "width": 1.1, "dash": dash}}
            )  # fmt: skip
    traces += [
        {"type": "scatter", "mode": "lines", "x": p.ellipses[-1, :, 0], "y": p.ellipses[-1, :, 1],
         "name": "95 % region", "uid": "region", "fill": "toself", "fillcolor": token("sky"),
         "opacity": 0.55, "hoverinfo": "skip", "line": {"color": token("blue"), "width": 2}},
        line(
            p.mean[:, 0], p.mean[:, 1], "mean, and its way", 0, mode="lines", uid="way",
            line={"color": token("ink"), "width": 1.4, "dash": "solid"}, hoverinfo="skip",
        ),
        {"type": "scatter", "mode": "markers", "x": p.mean[-1:, 0], "y": p.mean[-1:, 1],
         "uid": "mean", "showlegend": False, "name": "mean",
         "marker": {"color": token("ink"), "size": 9, "symbol": "circle"}},
        {"type": "scatter", "mode": "markers", "x": p.truth[:1], "y": p.truth[1:],
         "name": "true concept z", "marker": {"color": token("green"), "size": 15,
         "symbol": "star", "line": {"color": token("paper"), "width": 1}}},
    ]  # fmt: skip
    if r.settings.contradicting:
        traces.append(
            {"type": "scatter", "mode": "markers", "x": p.other[:1], "y": p.other[1:],
             "name": "the other, z′", "marker": {"color": token("vermillion"), "size": 12,
             "symbol": "x", "line": {"color": token("paper"), "width": 1}}}
        )  # fmt: skip
    return figure(
        *traces, height=450, margin={"l": 52, "r": 12, "t": 62, "b": 44},
        xaxis={"title": {"text": "z₁"}, "range": [-reach, reach]},
        yaxis={"title": {"text": "z₂"}, "range": [-reach, reach], "scaleanchor": "x"},
        legend={"font": {"size": 12}, "traceorder": "normal"},
        meta={"square": [["xaxis", "yaxis"]], "narrow": {"height": 500}},
    )  # fmt: skip


def plane_reach(r: HiddenConcept) -> float:
    """Half the side of the picture of the plane: z, z′ and the means lie inside."""
    p = r.posterior
    points = np.concatenate((p.mean, p.truth[None], p.other[None]))
    return float(max(1.2, 1.15 * np.abs(points).max()))


def concept_spectrum(r: HiddenConcept) -> Figure:
    """More dimensions: eigenvalues of the belief's covariance, after t examples and before any."""
    spectrum = finite(r.posterior.spectrum)
    index = np.arange(1, spectrum.shape[1] + 1)
    mark = {"size": 6} if len(index) > 20 else {}
    smallest = np.nanmin(np.where(spectrum > 0, spectrum, np.nan))
    low = float(np.floor(np.log10(max(smallest, 1e-12))))
    return figure(
        line(index, spectrum[0], "before any example", 4, mode="lines+markers",
             line={"color": token("faint"), "dash": "dash"}, marker={"color": token("faint"), **mark}),
        line(index, spectrum[-1], "after t examples", 0, mode="lines+markers", uid="spectrum",
             marker=mark, hovertemplate="direction %{x}<br>variance %{y:.3g}<extra></extra>"),
        x="direction, from the least to the best known", y="variance of the belief along it",
        height=450, margin={"t": 40}, legend={"traceorder": "normal"},
        xaxis={"range": [0.5, len(index) + 0.5], **({"dtick": 1} if len(index) < 12 else {})},
        yaxis={**_POWERS, "range": [low, 0.35 + float(np.log10(spectrum[0].max()))]},
    )  # fmt: skip


def concept_belief(r: HiddenConcept) -> Figure:
    """How far the belief is from the truth, and how often its 95 % region holds it, along t."""
    p, t = r.posterior, r.lengths
    shown = {"from z": (p.to_truth, p.limit_to_truth, 0)}
    if r.settings.contradicting:
        shown["from z′"] = (p.to_other, p.limit_to_other, 1)
    traces: list[dict[str, Any]] = []
    shapes = []
    for name, (quantiles, limit, i) in shown.items():
        traces.append(band(t, quantiles[0], quantiles[4], hue=HUES[i], group=f"{name}, 5 to 95 %"))
        traces.append(
            line(t, quantiles[2], f"{name}, median", i,
                 hovertemplate=f"%{{x}} examples: %{{y:.3f}} |z| {name}<extra></extra>")
        )  # fmt: skip
        if limit:
            shapes.append(_level(limit, HUES[i], "y"))
    traces.append(
        line(t, 100 * p.covered, "truth inside", 2, xaxis="x", yaxis="y2",
             hovertemplate="%{x} examples: %{y:.3g} % of prompts<extra></extra>")
    )  # fmt: skip
    shapes.append(_level(95, "green", "y2"))
    for at, axis in ((float(p.to_truth[2, -1]), "y"), (float(100 * p.covered[-1]), "y2")):
        traces.append(
            {"type": "scatter", "mode": "markers", "x": t[-1:], "y": np.array([at]), "yaxis": axis,
             "uid": f"here-{axis}", "showlegend": False, "hoverinfo": "skip", "name": "t",
             "marker": {"color": token("ink"), "size": 9}}
        )  # fmt: skip
    top = float(max(1.1, np.nanmax([q[4].max() for q, _, _ in shown.values()])))
    return figure(
        *traces, height=450, shapes=shapes, margin={"l": 58, "r": 12, "t": 62, "b": 44},
        xaxis={"title": {"text": "t examples"}, "anchor": "y2"},
        yaxis={"title": {"text": "distance / |z|"}, "domain": [0.4, 1], "range": [0, top]},
        yaxis2={"title": {"text": "% of prompts"}, "domain": [0, 0.32], "range": [-4, 104],
                "dtick": 50},
        legend={"font": {"size": 12}, "traceorder": "normal"},
    )  # fmt: skip


def _level(y: float, hue: str, axis: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": axis, "y0": y, "y1": y,
        "line": {"color": token(hue), "width": 1.3, "dash": "dot"},
    }  # fmt: skip


# ---- who answers ---------------------------------------------------------------------------------


def concept_curves(
    r: HiddenConcept, titles: Mapping[str, str], *, gap: bool, shaded_from: float | None = None
) -> Figure:
    """Error of every predictor, or its gap to BMA, along t; both axes logarithmic.

    Args:
        titles: curve of `r` to its name on the picture, in the order of their looks.
        gap: the root mean square distance from BMA instead of the error.
        shaded_from: GPT-2's training law ends at so many examples, 1: it does not hold here at all.
    """
    t = r.lengths[1:]
    traces: list[dict[str, Any]] = []
    drawn: list[np.ndarray] = []
    for i, (name, title) in enumerate(titles.items()):
        c = r.curve(name)
        parts = (c.gap, c.gap_low, c.gap_high) if gap else (c.error, c.error_low, c.error_high)
        value, low, high = (np.maximum(v[1:], 1e-30) for v in parts)
        there = np.isfinite(value)
        if (gap and name == "BMA") or not there.any():
            continue
        drawn.append(value[there] if name != "BMA" else np.ones(0))  # BMA may be exact
        traces += [
            band(t[there], low[there], high[there], hue=HUES[i], group=title),
            line(t[there], value[there], title, i,
                 hovertemplate=f"{title}<br>%{{x}} examples: %{{y:.4g}}<extra></extra>"),
        ]  # fmt: skip
    shapes: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    if shaded_from is not None and shaded_from < t[-1]:
        shapes.append(
            {"type": "rect", "x0": shaded_from, "x1": float(t[-1]), "yref": "paper", "y0": 0,
             "y1": 1, "fillcolor": token("amber"), "opacity": 0.09, "line": {"width": 0}}
        )  # fmt: skip
        words = "GPT-2: outside its training law"
        notes.append(_note(words, x=1, y=0.99, xanchor="right"))
    if gap:
        c = r.curve("softmax x C")
        start = max(1, len(t) // 2)
        guide = c.gap[start] * np.sqrt(start / t)
        traces.append(
            {"type": "scatter", "mode": "lines", "x": t, "y": guide, "name": "∝ 1/√t",
             "hoverinfo": "skip", "line": {"color": token("muted"), "width": 1.2, "dash": "dot"}}
        )  # fmt: skip
    else:
        shapes.append({**_level(1.0, "faint", "y"), "layer": "below"})
        if np.isfinite(r.softmax_limit_error):
            shapes.append(_level(r.softmax_limit_error, HUES[1], "y"))
    every = np.concatenate(drawn) if drawn else np.ones(1)
    # BMA is shown down to 1/300 of the others: exact, it would stretch the picture to no end.
    low, high = np.log10(np.clip([every.min() / (1 if gap else 300), every.max()], 1e-8, 1e8))
    return figure(
        *traces, x="t examples", y="gap to BMA" if gap else "squared error / variance of z·q",
        height=400, margin={"l": 64, "r": 12, "t": 62, "b": 46}, shapes=shapes, annotations=notes,
        xaxis={"type": "log", **_counts(t), "range": [0, float(np.log10(max(2, t[-1])))]},
        yaxis={**_POWERS, "range": [float(low) - 0.15, float(max(high, 0)) + 0.3],
               **({"dtick": "D2"} if max(high, 0) - low < 2 else {})},
        legend={"font": {"size": 12}, "traceorder": "normal"},
    )  # fmt: skip


def _counts(t: np.ndarray) -> dict[str, Any]:
    ticks = [n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500) if n <= t[-1]]
    return {"tickvals": ticks, "ticktext": [str(n) for n in ticks]}


def _note(text: str, *, x: float, y: float, xanchor: str) -> dict[str, Any]:
    return {
        "text": text, "showarrow": False, "xref": "paper", "yref": "paper", "x": x, "y": y,
        "xanchor": xanchor, "yanchor": "top", "font": {"size": 12, "color": token("ink")},
    }  # fmt: skip


# ---- influence -----------------------------------------------------------------------------------


def concept_influence(i: Influence, kinds: np.ndarray) -> Figure:
    """What each example of prompt 1 does: with it minus without it, a bar an example."""
    rows: Sequence[tuple[str, np.ndarray]] = (
        ("concept moved", i.concept),
        ("answer", i.bma),
        ("squared error", i.harm_bma),
        ("query margin", i.margin),
    )
    n = len(i.concept)
    number = np.arange(1, n + 1)
    height = 0.205
    traces: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    for row, (title, values) in enumerate(rows):
        name = f"y{row + 1}" if row else "y"
        top = 1 - row * 0.265
        axes[f"yaxis{row + 1 if row else ''}"] = {
            "domain": [max(0.0, top - height), top], "title": {"text": title, "font": {"size": 12}},
            "zeroline": True, "zerolinecolor": token("faint"), "nticks": 6,
        }  # fmt: skip
        for kind, (label, hue, mark, _) in enumerate(KIND_LOOKS):
            mine = kinds[:n] == kind
            if not mine.any():
                continue
            traces.append(
                {"type": "bar", "x": number[mine], "y": finite(values[mine]), "name": label,
                 "yaxis": name, "legendgroup": label, "showlegend": row == 0,
                 "meta": {"series": f"{title}, {label}"}, "width": 0.75,
                 "marker": {"color": token(hue), "pattern": {"shape": _PATTERNS[mark]}},
                 "hovertemplate": f"example %{{x}}, {label}<br>{title}: %{{y:.4g}}<extra></extra>"}
            )  # fmt: skip
    traces.append(
        {"type": "scatter", "mode": "markers", "x": number, "y": finite(i.softmax),
         "name": "softmax × C", "yaxis": "y2", "meta": {"series": "softmax × C answer"},
         "marker": {"color": token("muted"), "symbol": "diamond-open", "size": 7},
         "hovertemplate": "example %{x}<br>softmax × C answer: %{y:.4g}<extra></extra>"}
    )  # fmt: skip
    return figure(
        *traces, height=560, margin={"l": 72, "r": 12, "t": 34, "b": 46}, barmode="overlay",
        xaxis={"title": {"text": "example, in the order of the prompt"}, "anchor": f"y{len(rows)}",
               "range": [0.4, n + 0.6], **({"dtick": 1} if n <= 24 else {})},
        legend={"traceorder": "normal"}, **axes,
        meta={"narrow": {"height": 560, "xaxis": {"dtick": max(1, n // 6)}}},
    )  # fmt: skip


_PATTERNS = {"circle": "", "square": ".", "x": "/"}


# ---- reshaped memories ---------------------------------------------------------------------------


def concept_reshaped(r: HiddenConcept) -> Figure:
    """BMA on reshaped memories against BMA on the prompt, and the residual of the maps, along t."""
    q, d = r.reshaped, r.settings.dimension
    floor = 1e-17
    curves = {
        "ghosts as they are": (q.difference_ghosts, 3),
        "reshaped ghosts": (q.difference, 0),
        "residual of W₁": (q.residual_keys, 1),
        "√(1 − rank/t)": (q.expected_residual, 4),
    }
    shapes, notes = [], []
    if q.lengths[-1] > d:
        shapes.append(
            {"type": "line", "x0": d, "x1": d, "yref": "paper", "y0": 0, "y1": 1,
             "line": {"color": token("ink"), "width": 1.2, "dash": "dot"}}
        )  # fmt: skip
        notes.append(
            {"text": f"t = d = {d}", "x": float(np.log10(d)), "y": 0.02, "yref": "paper",
             "xanchor": "right", "yanchor": "bottom", "showarrow": False, "xshift": -5,
             "font": {"size": 12, "color": token("ink")}}
        )  # fmt: skip
    return figure(
        *(
            line(
                q.lengths[values > 0] if i == 4 else q.lengths,
                values[values > 0] if i == 4 else np.maximum(values, floor),
                name, i, mode="lines+markers", marker={"size": 7},
                hovertemplate=f"{name}<br>%{{x}} examples: %{{y:.3g}}<extra></extra>",
            )
            for name, (values, i) in curves.items()
        ),
        x="t examples, and as many ghosts", y="relative difference, or residual", height=430,
        margin={"l": 64, "r": 12, "t": 62, "b": 46}, shapes=shapes, annotations=notes,
        xaxis={"type": "log", **_counts(q.lengths),
               "range": [-0.03, float(np.log10(max(2, q.lengths[-1]))) + 0.03]},
        yaxis={**_POWERS, "dtick": 4, "range": [-17.3, 1.0]},
        legend={"font": {"size": 12}, "traceorder": "normal"},
    )  # fmt: skip
