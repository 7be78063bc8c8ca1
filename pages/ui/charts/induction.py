"""Pictures of the induction page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pages.ui.charts.base import HUES, SEQUENTIAL, Figure, figure, heatmap, line, merged, token

if TYPE_CHECKING:
    from core.induction import PositionStudy, Recall, RecallStudy
    from core.landscape import Landscape

WEIGHTS = [[0.0, "var(--zero)"], [1.0, "var(--blue)"]]  # a weight of 0 fades into the page
SIGNED = [[0.0, "var(--vermillion)"], [0.5, "var(--zero)"], [1.0, "var(--blue)"]]


def places(letters: str) -> list[str]:
    """Names of the positions, each once: `"3 q"`."""
    return [f"{i} {letter}" for i, letter in enumerate(letters, start=1)]


def _lettered(letters: str, **axis: Any) -> dict[str, Any]:
    """An axis of positions that shows their letters only."""
    size = 12 if len(letters) <= 32 else 9 if len(letters) <= 64 else 6
    return {
        "type": "category", "tickvals": places(letters), "ticktext": list(letters), "ticks": "",
        "tickfont": {"size": size}, "tickangle": 0, "showgrid": False, **axis,
    }  # fmt: skip


def _heading(text: str, axes: str = "") -> dict[str, Any]:
    return {
        "text": f"<b>{text}</b>", "xref": f"x{axes} domain", "yref": f"y{axes} domain", "x": 0,
        "y": 1, "xanchor": "left", "yanchor": "bottom", "yshift": 4, "showarrow": False,
        "font": {"size": 14, "color": token("ink")},
    }  # fmt: skip


def _upright(x: float, words: str, *, left: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """A dotted line at x and its words at the head of the picture."""
    shape = {
        "type": "line", "x0": x, "x1": x, "yref": "y domain", "y0": 0, "y1": 1,
        "line": {"color": token("ink"), "width": 1.2, "dash": "dot"},
    }  # fmt: skip
    note = {
        "text": words, "x": x, "yref": "y domain", "y": 1, "yanchor": "top", "showarrow": False,
        "xanchor": "right" if left else "left", "xshift": -6 if left else 6,
        "font": {"size": 12.5, "color": token("ink")},
    }  # fmt: skip
    return shape, note


def attention_pair(
    A1: np.ndarray, A2: np.ndarray, letters: str, titles: tuple[str, str], height: int = 400
) -> Figure:
    """Both attention maps: rows ask, columns are attended to; what lies in the future is open."""
    names, past = places(letters), np.tri(len(letters), dtype=bool)
    traces = [
        heatmap(
            np.where(past, A, np.nan), names, names, f"layer {i}", zsmooth=False, zmin=0, zmax=1,
            colorscale=WEIGHTS, showscale=False, uid=f"layer-{i}", xaxis=f"x{axes}",
            yaxis=f"y{axes}", meta={"series": f"attention, layer {i}"},
            hovertemplate=f"layer {i}: %{{y}} attends to %{{x}}<br>weight %{{z:.4f}}<extra></extra>",
        )
        for i, (A, axes) in enumerate(((A1, ""), (A2, "2")), start=1)
    ]  # fmt: skip
    asks = {"autorange": "reversed", "showline": False}
    to = {"title": {"text": "attends to"}, "showline": False}
    return figure(
        *traces, height=height, showlegend=False, margin={"l": 44, "r": 12, "t": 28, "b": 44},
        xaxis=_lettered(letters, domain=[0, 0.47], **to),
        xaxis2=_lettered(letters, domain=[0.53, 1], anchor="y2", **to),
        yaxis=_lettered(letters, title={"text": "position that asks"}, **asks),
        yaxis2=_lettered(letters, anchor="x2", **asks),
        annotations=[_heading(titles[0]), _heading(titles[1], "2")],
        meta={"narrow": {"height": 720, "xaxis": {"domain": [0, 1]}, "xaxis2": {"domain": [0, 1]},
                         "yaxis": {"domain": [0.56, 1]}, "yaxis2": {"domain": [0, 0.43]}}},
    )  # fmt: skip


def buffer_map(buffer: np.ndarray, letters: str, shown: str) -> Figure:
    """What each position believes came before it.

    Args:
        buffer: `(T, K)`, of the letters `shown`.
    """
    return figure(
        heatmap(
            buffer.T, places(letters), list(shown), "buffer", zsmooth=False, zmin=0, zmax=1,
            colorscale=WEIGHTS, showscale=False, meta={"series": "buffer c_s(u)"},
            hovertemplate="%{x} believes %{y} came before it: %{z:.4f}<extra></extra>",
        ),
        height=max(190, 84 + 15 * len(shown)), margin={"l": 44, "r": 12, "t": 28, "b": 44},
        xaxis=_lettered(letters, title={"text": "position s"}, showline=False),
        yaxis={"type": "category", "title": {"text": "came before"}, "autorange": "reversed",
               "ticks": "", "showgrid": False, "dtick": 1, "showline": False},
        annotations=[_heading("Buffer: what position s believes came before it")],
    )  # fmt: skip


def logit_bars(parts: Mapping[str, np.ndarray], letters: str, total: np.ndarray) -> Figure:
    """What each letter's logit is made of, and the sum as a mark."""
    shapes = ("", "/", ".")
    return figure(
        *(
            {
                "type": "bar", "x": list(letters), "y": values, "name": name,
                "marker": {"color": token(HUES[i]), "pattern": {"shape": shapes[i]}},
                "hovertemplate": f"%{{x}}, {name}: %{{y:.4f}}<extra></extra>",
            }
            for i, (name, values) in enumerate(parts.items())
        ),
        {
            "type": "scatter", "mode": "markers", "x": list(letters), "y": total, "name": "logit",
            "marker": {"symbol": "line-ew", "size": 15, "color": token("ink"),
                       "line": {"width": 2.5, "color": token("ink")}},
            "hovertemplate": "%{x}, logit: %{y:.4f}<extra></extra>",
        },
        x="letter after the last one", y="logit ξ<sub>v</sub>", height=370, barmode="relative",
        margin={"t": 34}, bargap=0.25,
        xaxis={"type": "category", "tickangle": 0, "showgrid": False, "dtick": 1},
    )  # fmt: skip


def margin_curve(
    lengths: np.ndarray,
    curves: Mapping[str, np.ndarray],
    dots: tuple[np.ndarray, np.ndarray],
    take_over: float | None,
    dotted: str = "matrices",
) -> Figure:
    """Margin of context over the bigram favourite against prompt length.

    Args:
        dots: lengths and margins of the matrices; `dotted` is their name.
        take_over: the closed-form length, None if it is not in the picture.
    """
    shapes: list[dict[str, Any]] = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": 0,
         "line": {"color": token("muted"), "width": 1}}
    ]  # fmt: skip
    notes = []
    if take_over is not None:
        shape, note = _upright(take_over, f"T = {take_over:.1f}")
        shapes.append(shape)
        # On a logarithmic axis a note's x is the logarithm.
        notes.append({**note, "x": float(np.log10(take_over))})
    return figure(
        *(
            line(lengths, y, name, i, hovertemplate="T = %{x}: %{y:.4f}<extra>" + name + "</extra>")
            for i, (name, y) in enumerate(curves.items())
        ),
        line(*dots, dotted, 2, mode="markers",
             hovertemplate="T = %{x}: %{y:.4f}<extra>" + dotted + "</extra>"),
        x="T prompt length", y="ξ of the output − ξ of the favourite", height=400,
        xaxis={"type": "log", "dtick": "D1" if lengths[-1] < 50 else 1,
               "range": [float(np.log10(lengths[0])), float(np.log10(lengths[-1]))]},
        shapes=shapes, annotations=notes, margin={"t": 34},
    )  # fmt: skip


def position_curves(study: PositionStudy, t_max: int) -> Figure:
    """Weight on the right position, and the strongest position, against where the pair stands."""
    x = study.at
    shape, note = _upright(t_max, f"T<sub>max</sub> = {t_max}", left=t_max > (x[0] + x[-1]) / 2)
    note |= {"y": 0.5}  # clear of both curves, which run high or low
    traces = []
    for i, kind in enumerate(study.on_output):
        traces += [
            line(x, study.on_output[kind], kind, i,
                 hovertemplate="pair at %{x}: weight %{y:.4f}<extra>" + kind + "</extra>"),
            line(x, study.strongest[kind], kind, i, mode="markers", showlegend=False,
                 marker={"size": 4.5}, xaxis="x2", yaxis="y2", legendgroup=kind,
                 meta={"series": f"strongest position, {kind}"},
                 hovertemplate="pair at %{x}: position %{y}<extra>" + kind + "</extra>"),
        ]  # fmt: skip
    wide = {"range": [float(x[0]), float(x[-1])]}
    at = {"title": {"text": "position of the trigger's pair"}, **wide}
    return figure(
        *traces, height=380, margin={"t": 52},
        xaxis={"domain": [0, 0.45], **at},
        yaxis={"title": {"text": "weight on the output"}, "rangemode": "tozero"},
        xaxis2={"domain": [0.56, 1], "anchor": "y2", **at},
        yaxis2={"anchor": "x2", "title": {"text": "position with most weight"}, "rangemode": "tozero"},
        shapes=[shape, {**shape, "xref": "x2", "yref": "y2 domain"}], annotations=[note],
        legend={"y": 1.04},
        meta={"narrow": {"height": 640, "xaxis": {"domain": [0, 1]}, "xaxis2": {"domain": [0, 1]},
                         "yaxis": {"domain": [0.58, 1]}, "yaxis2": {"domain": [0, 0.4]}}},
    )  # fmt: skip


def _ticks(names: Sequence[str]) -> dict[str, Any]:
    """Every letter has its name, a few numbers have theirs."""
    return {"nticks": 8} if names[0].isdecimal() else {"dtick": 1}


def recall_tables(
    recalls: Mapping[str, Recall], axes: Mapping[str, tuple[list[str], list[str], str, str]]
) -> Figure:
    """The three memories asked one association after another: rows ask, columns answer.

    Args:
        axes: of each memory, the names of its rows and columns, and of both axes.
    """
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"annotations": []}
    narrow: dict[str, Any] = {"height": 960}
    for i, (name, r) in enumerate(recalls.items()):
        rows, columns, asked, answer = axes[name]
        n = "" if i == 0 else str(i + 1)
        traces.append(
            heatmap(
                r.table, columns, rows, name, zsmooth=False, zmin=-1, zmax=1, colorscale=SIGNED,
                showscale=False, xaxis=f"x{n}", yaxis=f"y{n}", meta={"series": f"recall, {name}"},
                hovertemplate="asked %{y}, answers %{x}: %{z:.3f}<extra></extra>",
            )
        )  # fmt: skip
        plain = {"type": "category", "showgrid": False, "showline": False, "ticks": "",
                 "tickangle": 0, "tickfont": {"size": 10}}  # fmt: skip
        layout[f"xaxis{n}"] = {
            **plain,
            **_ticks(columns), "domain": [0.355 * i, 0.355 * i + 0.29], "anchor": f"y{n}",
            "title": {"text": answer, "standoff": 4},
        }  # fmt: skip
        layout[f"yaxis{n}"] = {
            **plain,
            **_ticks(rows), "anchor": f"x{n}", "autorange": "reversed",
            "title": {"text": asked, "standoff": 4},
        }  # fmt: skip
        share = f"{100 * r.share:.3g} % right" if r.table.any() else "emptied"
        layout["annotations"].append(_heading(f"{name}: {share}", n))
        narrow[f"xaxis{n}"] = {"domain": [0, 1]}
        narrow[f"yaxis{n}"] = {"domain": [0.72 - 0.36 * i, 0.72 - 0.36 * i + 0.25]}
    return figure(
        *traces, height=340, showlegend=False, margin={"l": 48, "r": 12, "t": 30, "b": 46},
        meta={"narrow": narrow}, **layout,
    )  # fmt: skip


def recall_curve(
    study: RecallStudy, diagonal: np.ndarray, off: np.ndarray, dimension: int | None
) -> Figure:
    """Spread of recall against embedding dimension, dots measured, lines by formula."""
    x, shapes, notes = study.dimensions, [], []
    if dimension is not None:
        shape, note = _upright(dimension, f"D = {dimension}")
        shapes.append(shape)
        notes.append({**note, "x": float(np.log10(dimension))})
    return figure(
        line(x, off, "wrong pairs, formula", 1, mode="lines"),
        line(x, study.off_std, "wrong pairs, measured", 1, mode="markers"),
        line(x, diagonal, "right pairs, formula", 0, mode="lines"),
        line(x, study.diagonal_std, "right pairs, measured", 0, mode="markers"),
        line(x, 1 - study.right, "share recalled wrong", 3, mode="lines+markers"),
        x="D embedding dimension", y="recall: standard deviation, and share wrong", height=350, shapes=shapes,
        annotations=notes, margin={"t": 58},
        xaxis={"type": "log", "tickvals": list(x), "ticktext": [str(d) for d in x],
               "range": [float(np.log10(x[0] / 1.1)), float(np.log10(x[-1] * 1.1))]},
        yaxis={"rangemode": "tozero"},
    )  # fmt: skip


def training_progress(rows: Sequence[Mapping[str, float]], chance: float) -> Figure:
    """Loss, accuracy and the probes of a training, with the frame's step marked.

    The axis of steps is logarithmic; step 0 stands at its left end, off the scale.
    """
    steps = np.array([row["step"] for row in rows], dtype=float)
    first = steps[1] / 1.6
    x = np.where(steps == 0, first, steps)
    shares = {
        "accuracy after a repeated trigger": "repeated", "wk0 one back": "wk0",
        "wk1 trigger": "wk1", "wo1 output": "wo1",
    }  # fmt: skip
    text = [f"step {step:.0f}" for step in steps]

    def curve(key: str, name: str, i: int, **more: Any) -> dict[str, Any]:
        y = np.array([row[key] for row in rows])
        hover = "%{text}: %{y:.3f}<extra>" + name + "</extra>"
        return line(
            x, y, name, i, mode="lines+markers", text=text, hovertemplate=hover, marker={"size": 6},
            **more,
        )  # fmt: skip

    loss, least = (np.array([row[key] for row in rows]) for key in ("loss", "least_loss"))
    lower = {"xaxis": "x2", "yaxis": "y2"}
    now = {
        "type": "scatter", "mode": "lines", "x": [x[-1], x[-1]], "showlegend": False,
        "hoverinfo": "skip", "line": {"color": token("ink"), "width": 1.4, "dash": "dot"},
    }  # fmt: skip
    ticks = [first, 100, 300, 1000, 3000]
    scale = {
        "type": "log", "tickvals": ticks, "ticktext": ["0", *(f"{t:g}" for t in ticks[1:])],
        "range": [float(np.log10(first / 1.08)), float(np.log10(x[-1] * 1.08))],
        "title": {"text": "training step"},
    }  # fmt: skip
    bottom, top = float(least.min()) - 0.05, float(loss.max()) + 0.05
    return figure(
        *(curve(key, name, i) for i, (name, key) in enumerate(shares.items())),
        line(x[[0, -1]], [chance, chance], "chance", 4, showlegend=False, hoverinfo="skip",
             line={"width": 1.2, "dash": "dot", "color": token("muted")}),
        curve("loss", "loss", 4, **lower),
        line(x, least, "least possible loss", 5, **lower),
        {**now, "uid": "now-share", "y": [0, 1.04]},
        {**now, "uid": "now-loss", "y": [bottom, top], **lower},
        height=330, margin={"l": 50, "t": 58},
        xaxis={"domain": [0, 0.56], **scale},
        yaxis={"title": {"text": "share"}, "range": [0, 1.04]},
        xaxis2={"domain": [0.66, 1], "anchor": "y2", **scale},
        yaxis2={"anchor": "x2", "title": {"text": "loss, nats"}, "range": [bottom, top]},
        meta={"narrow": {"height": 620, "margin": {"t": 118}, "xaxis": {"domain": [0, 1]},
                         "xaxis2": {"domain": [0, 1]}, "yaxis": {"domain": [0.56, 1]},
                         "yaxis2": {"domain": [0, 0.36]}}},
    )  # fmt: skip


def hopfield_step(
    r: Landscape,
    step: np.ndarray,
    weights: np.ndarray,
    order: np.ndarray,
    letters: str,
    trigger: str,
) -> Figure:
    """Layer 2 as a retrieval: the energy over a plane of keys, and the weight of each position.

    Args:
        step: `(2, 2)`, the query and where one step takes it.
        weights: A2 of the last position, by position.
        order: which position each memory of `r` is the key of.
    """
    side = r.before
    names = places(letters)
    dark = "#0c1b3a"
    hover = [f"key of {names[i]}" for i in order]
    ends = {}  # the query may lie outside what the landscape drew
    for i, (axis, v) in enumerate((("xaxis", r.xs), ("yaxis", r.ys))):
        inside = [float(min(v[0], step[0, i] - 0.1)), float(max(v[-1], step[0, i] + 0.1))]
        ends[axis] = {"range": inside, "showgrid": False, "showline": False}
    return figure(
        heatmap(
            side.energy[::2, ::2], r.xs[::2], r.ys[::2], "energy", showscale=False,
            colorscale=SEQUENTIAL,
            hovertemplate="%{x:.3f}, %{y:.3f}<br>E = %{z:.4f}<extra></extra>",
        ),
        {
            "type": "scatter", "mode": "markers", "x": side.points[:, 0], "y": side.points[:, 1],
            "name": "keys, stored", "text": hover, "hovertemplate": "%{text}<extra></extra>",
            "marker": {"size": 11, "color": "#ffffff", "line": {"color": dark, "width": 1},
                       "opacity": 1 - 0.6 * np.minimum(side.off_plane, 1)},
        },
        {
            "type": "scatter", "mode": "lines+markers", "x": step[:, 0],
            "y": step[:, 1], "name": f"query {trigger}, one step",
            "line": {"color": "#ff6a3d", "width": 3}, "hoverinfo": "skip",
            "marker": {"size": [19, 8], "symbol": ["circle-open", "circle"], "color": "#ff6a3d",
                       "line": {"width": 3, "color": "#ff6a3d"}},
        },
        {
            "type": "bar", "x": names, "y": weights, "name": "weight", "showlegend": False,
            "xaxis": "x2", "yaxis": "y2", "marker": {"color": token("blue")},
            "hovertemplate": "%{x}: weight %{y:.4f}<extra></extra>",
            "meta": {"series": "attention of the last position, layer 2"},
        },
        height=400, margin={"l": 48, "r": 12, "t": 34, "b": 46},
        xaxis=merged(ends["xaxis"], {"domain": [0, 0.47], "title": {"text": "across the keys"}}),
        yaxis=merged(ends["yaxis"], {"title": {"text": "up"}}),
        xaxis2=_lettered(letters, domain=[0.56, 1], anchor="y2", title={"text": "position"}),
        yaxis2={"anchor": "x2", "title": {"text": "weight in layer 2"}, "rangemode": "tozero"},
        meta={"square": [["xaxis", "yaxis"]],
              "narrow": {"height": 700, "xaxis": {"domain": [0, 1]}, "xaxis2": {"domain": [0, 1]},
                         "yaxis": {"domain": [0.46, 1]}, "yaxis2": {"domain": [0, 0.34]}}},
    )  # fmt: skip
