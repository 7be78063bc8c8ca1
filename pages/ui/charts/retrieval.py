"""Pictures of the retrieval page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pages.ui.charts.base import (
    HUES,
    Figure,
    band,
    figure,
    heatmap,
    line,
    token,
)
from pages.ui.memory_words import in_our_words

if TYPE_CHECKING:
    from core.separation import ErrorStudy, PhaseMap

CLOUD = 60  # draws a value of the axis has in the cloud; the bands are of all draws
_TALLEST = 2.3  # decades: where an axis of errors and bounds ends above


def retrieval_error(
    sweep: ErrorStudy, *, axis: str, here: float, ticks: Sequence[float] = (), words: str = ""
) -> Figure:
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
) -> Figure:
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


def phase_map(r: PhaseMap, beta: float, noise: float, ticks: Sequence[float]) -> Figure:
    """The most common outcome over beta and noise; the stronger the colour, the larger its share.

    Args:
        beta, noise: where the controls stand; marked.
        ticks: of the logarithmic beta axis.
    """
    traces: list[dict[str, Any]] = []
    notes = []
    for k, name in enumerate(map(in_our_words, r.outcomes)):
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
        return "<br>".join(f"{100 * cell[k]:.3g} % {in_our_words(r.outcomes[k])}" for k in order)

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


def outcome_bar(share: np.ndarray, names: Sequence[str]) -> Figure:
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
) -> Figure:  # fmt: skip
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
