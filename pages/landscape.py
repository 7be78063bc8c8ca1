"""Landscape: the energy under a query, before and after in-context examples reshape the memories."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame, panel
from pages.ui.chart_view import Frames

if TYPE_CHECKING:
    from core.landscape import Landscape, Side

PAGE = "landscape"

# What the page calls things, and what core calls them.
ENERGY = {
    "log-sum-exp": "lse_dot",
    "Gaussian mixture": "lse_l2",
    "polynomial": "polynomial",
    "sparse": "sparse",
}
LAYOUT = {
    "random": "random",
    "clustered": "clustered",
    "correlated": "correlated",
    "on a circle": "circle",
}
PLANE = {"through the query": "query", "principal components": "pca"}
TABLE = "your table"
FRAMES = 48  # a longer path is played in this many frames, early steps first
BARS = 48  # attention is drawn for at most this many memories


@dataclass(frozen=True)
class Settings:
    view: str
    strength: float
    examples: int
    shift: float
    lemma: bool
    family: str
    beta: float
    layout: str
    table: str | bytes
    memories: int
    dimension: int
    seed: int
    query: str
    noise: float
    x: float
    y: float
    plane: str
    ridge: float
    tolerance: float


SCENARIOS: tuple[controls.Scenario, ...] = ()


def engine(s: Settings) -> dict[str, Any]:
    """The keywords of `core.landscape.LandscapeSettings` these settings stand for."""
    own = s.layout == TABLE
    return {
        "energy": ENERGY[s.family],
        "beta": s.beta,
        **({} if own else {"dimension": s.dimension, "memories": s.memories}),
        "examples": s.examples,
        **({} if own else {"layout": LAYOUT[s.layout]}),
        "strength": s.strength,
        "ridge": s.ridge,
        "tolerance": s.tolerance,
        "noise": s.noise,
        "shift": s.shift,
        "query_as_example": s.lemma,
        "seed": s.seed,
        "plane": PLANE[s.plane],
        "query_at": (s.x, s.y) if s.query == "placed" else None,
    }


def compute(s: Settings) -> Landscape:
    if s.layout == TABLE and s.table == controls.ELSEWHERE:
        raise ValueError(
            "This picture was made from an uploaded file, which a link cannot carry. Upload the same "
            "file again, or paste a table."
        )
    return cache.landscape(s.table if s.layout == TABLE else None, **engine(s))


def equation(values: Mapping[str, Any]) -> str:
    from core.hopfield import ENERGIES

    return ENERGIES[ENERGY[values["family"]]].latex + (
        r",\qquad \xi_\mu \mapsto \bigl[(1-s)\,I + s\,W_1\bigr]\xi_\mu,\quad W_1 = K\tilde K^{+}"
    )


SYMBOLS = {
    r"x": "the query, and the state it becomes",
    r"\xi_\mu": "memory number μ, counted from 0; M of them in D dimensions; m is the largest norm",
    r"\beta": "inverse temperature: how sharply attention picks one memory",
    r"n": "degree of the polynomial energy",
    r"K": "the keys of the t in-context examples, as columns",
    r"\tilde K": "their ghosts: the memories the examples are paired with",
    r"W_1": "the linear map that best sends ghosts to examples; ⁺ is the pseudo-inverse",
    r"s": "strength of reshaping, 0 to 1",
    r"\Delta_\mu": "separation of memory μ: ξ_μ·ξ_μ minus its largest overlap with another memory",
}


def clicked(point: dict[str, Any]) -> None:
    """The query goes where the mouse was."""
    if point.get("x") is None or point.get("y") is None:
        return
    panel.set_values(
        PAGE, {"query": "placed", "x": round(point["x"], 4), "y": round(point["y"], 4)}
    )


def steps(r: Landscape) -> np.ndarray:
    """The steps of the retrieval that have a frame: all, or early ones densely if there are many."""
    last = max(len(r.before.path), len(r.after.path)) - 1
    if last < FRAMES:
        return np.arange(last + 1)
    return np.unique(np.rint(np.geomspace(1, last + 1, FRAMES) - 1).astype(int))


def shown_memories(r: Landscape) -> np.ndarray:
    """Which memories the attention chart shows, ascending: those that ever get most."""
    most = np.maximum(r.before.weights.max(axis=0), r.after.weights.max(axis=0))
    return np.sort(np.argsort(-most, kind="stable")[:BARS])


def frames(fig: Any, r: Landscape, shown: np.ndarray) -> Frames:
    """What each step changes in `fig`: its traces are told apart by `uid`."""
    number = {t["uid"]: i for i, t in enumerate(charts.raw(fig)[0]) if "uid" in t}
    data, labels = [], []
    for k in steps(r):
        changes: dict[int, dict[str, Any]] = {}
        for which in ("before", "after"):
            side = getattr(r, which)
            at = min(int(k), len(side.path) - 1)
            moved = {
                "path": {"x": side.path[: at + 1, 0], "y": side.path[: at + 1, 1]},
                "state": {"x": side.path[at : at + 1, 0], "y": side.path[at : at + 1, 1]},
                "energy": {"x": np.array([at]), "y": side.path_energies[at : at + 1]},
                "weights": {"y": side.weights[at, shown]},
            }
            for what, change in moved.items():
                if (trace := number.get(f"{what}-{which}")) is not None:
                    changes[trace] = change
        data.append(changes)
        labels.append(f"step {k} of {steps(r)[-1]}")
    return Frames(data=data, labels=labels, group="retrieval")


def units(r: Landscape) -> tuple[str, str]:
    """What the axes of the plane are."""
    return {
        "identity": ("x₁", "x₂"),
        "query": ("from the query to memory 0", "at a right angle, towards the rival"),
        "pca": ("first principal component", "second principal component"),
    }[r.plane.kind]


# ---- words and numbers ---------------------------------------------------------------------------


def ended(side: Side) -> str:
    n = len(side.path) - 1
    return f"{side.outcome} <small>in {n} step{'' if n == 1 else 's'}</small>"


def moved(r: Landscape) -> float:
    """How far reshaping moves the lowest minimum of the space, in R^D."""
    before, after = r.before.stationary.states, r.after.stationary.states
    return float(np.linalg.norm(after[0] - before[0])) if len(before) and len(after) else math.nan


def look(r: Landscape) -> str:
    before, after, mu = r.before, r.after, r.target
    keys = r.reshaping.keys
    delta = (before.delta[mu], after.delta[mu])
    fit = (
        f"W₁ sends all {keys.rows} ghosts exactly to their examples"
        if keys.exact
        else f"W₁ misses the examples by **{keys.residual:.1%}**"
    )
    return (
        f"The query ends as **{before.outcome}** before the context and as **{after.outcome}** after. "
        f"The lowest minimum of the space moves by **{moved(r):.4f}**. Δ of memory {mu} "
        f"{'falls' if delta[1] < delta[0] else 'rises'} from **{delta[0]:.4f}** to "
        f"**{delta[1]:.4f}**, the margin goes from **{before.margin:.4f}** to "
        f"**{after.margin:.4f}**. {fit}."
    )


def snippet(s: Settings) -> str:
    return ""


def render() -> None:
    page = frame.open_page(
        PAGE,
        Settings,
        SCENARIOS,
        lead="Every prompt is a query that rolls downhill among stored memories. In-context examples "
        "move the memories, and the hills with them. Click the picture to place the query.",
        equation=equation,
        symbols=SYMBOLS,
    )
    r = page.compute(compute, lambda r: {"energy E": [r.before.energy, r.after.energy]})
    s = page.settings
    shown = shown_memories(r)
    trace = charts.landscape_retrieval(r, shown)

    if s.view == "before | after":
        fig = charts.landscape_pair(r, units(r))
        page.chart(fig, "pair", "pair", frames=frames(fig, r, shown), on_click=clicked)
        page.chart(trace, "retrieval", "trace", frames=frames(trace, r, shown))
    else:
        with page.stage:
            left, right = st.columns([0.58, 0.42])
        if s.view.startswith("3-D"):
            fig = charts.landscape_surface(r, s.view.split()[1], units(r))
            page.chart(fig, "surface", "surface", into=left)
        else:
            fig = charts.landscape_plane(r, s.view, units(r))
            page.chart(
                fig, s.view, "plane", frames=frames(fig, r, shown), on_click=clicked, into=left
            )
        page.chart(trace, "retrieval", "trace", frames=frames(trace, r, shown), into=right)
    page.look_for(look(r))
    page.finish(snippet(s))
