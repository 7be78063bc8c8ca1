"""Landscape: the energy under a query, before and after in-context examples reshape memories."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame, moved, panel
from pages.ui.chart_view import Frames, Live
from pages.ui.memory_words import ENERGY, LAYOUT, in_our_words

if TYPE_CHECKING:
    from core.landscape import Landscape, Side

PAGE = "landscape"

PLANE = {"through the query": "query", "principal components": "pca"}
TABLE = "your table"
FRAMES = 48  # a longer path is played in this many frames, its early steps all
BASINS = 41  # starts a side from which basins are mapped where they are shown
LIVE = 96  # memories up to which the browser can follow a dragged point
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
    basins: bool
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
    moved: str


SCENARIOS = (
    controls.Scenario(
        name="context",
        label="Context moves the minimum",
        values={},
        claim="Two examples pull their two memories onto themselves, exactly, and the same linear map "
        "drags the other four along: the query ends more than 0.2 from where it ended before.",
        look="the query's path on the left and on the right, and where each ends.",
        refuted="two ends less than 0.2 apart, or a W₁ that misses the two examples.",
    ),
    controls.Scenario(
        name="overfull",
        label="More examples than the rank",
        values={"examples": 12, "shift": 1.0},
        claim="Twelve examples in two dimensions: no linear map can follow them all. The best one "
        "misses them by more than half of their size, and the query ends at the wrong memory.",
        look="squares that no arrow reaches, and the miss in per cent in the sentence.",
        refuted="a miss below half of the examples' size, or a query that ends at memory 0.",
    ),
    controls.Scenario(
        name="falls",
        label="Δ falls",
        values={
            "layout": "random", "memories": 6, "dimension": 8, "examples": 6, "shift": 0.0,
            "lemma": True, "noise": 0.5, "seed": 39,
        },
        claim="Lemma 2.2 exactly: only the most similar memory moves, onto the query. The margin "
        "rises by |x|² − x·ξ, as it must; Δ falls by more than 0.2.",
        look="Δ and the margin in the table, before and after.",
        refuted="a margin that changes by anything but |x|² − x·ξ, or a Δ that falls by less "
        "than 0.2.",
    ),
    controls.Scenario(
        name="mixture",
        label="A mixture",
        values={
            "layout": "clustered", "memories": 9, "dimension": 16, "examples": 9, "beta": 10.0,
            "plane": "principal components",
        },
        claim="Three memories of one cluster share one well: before the context the query ends "
        "between the three, at none of them. The examples pull the cluster apart.",
        look="how many bars share the attention at the last step, before and after.",
        refuted="a query that ends at one memory before the context.",
    ),
    controls.Scenario(
        name="sharp",
        label="Sharp β",
        values={"beta": 200.0},
        claim="At β = 200 each memory has its own well, with sharp ridges between: one step retrieves "
        "memory 0 with an error below 1e-9.",
        look="the ridges between the wells, and the error in the table.",
        refuted="an error above 1e-9 after one step, or another memory than 0.",
    ),
    controls.Scenario(
        name="slice",
        label="A slice of 32 dimensions",
        values={"layout": "random", "memories": 12, "dimension": 32, "examples": 12},
        claim="The picture is a plane in 32 dimensions. After reshaping, the lowest minimum of the "
        "space lies more than 0.5 off it and deeper than anything on it.",
        look="the diamond, fainter the farther off the picture, beside the lowest point on it.",
        refuted="a lowest minimum less than 0.5 off the plane, or a point on it that lies deeper.",
    ),
)  # fmt: skip

SYMBOLS = {
    r"x": "the query, and the state it becomes",
    r"E": "the energy: retrieval goes downhill on it",
    r"\xi_\mu": "memory number μ, counted from 0; M of them in D dimensions, m their largest norm",
    r"\beta": "inverse temperature: how sharply attention picks one memory",
    r"n": "degree of the polynomial energy; []₊ leaves out what is below 0",
    r"\Psi^*(z)": "what the sparse energy has in place of log-sum-exp: it makes small weights exactly "
    "0. p are weights that sum to 1 (the set Δ); Ξ holds the memories as rows",
    r"K": "keys of the t in-context examples, as columns",
    r"\tilde K": "their ghosts: a ghost is the memory an example is paired with",
    r"W_1": "the linear map that best sends ghosts to examples; ⁺ is the pseudo-inverse",
    r"W_2": "the same kind of map for the values, the vectors that attention averages",
    r"s": "strength of reshaping, from 0 to 1; I is the map that leaves all in place",
    r"\Delta_\mu": "separation of memory μ: $\\xi_\\mu\\cdot\\xi_\\mu$ minus its largest product with another memory",
    r"S_\mu(x)": "margin of the query: $x\\cdot\\xi_\\mu$ minus its largest product with another memory",
}

REFUTED = r"""
- An exact map that misses: $t$ independent ghosts, no ridge, and a residual of $W_1$ above
  $10^{-10}$.
- An energy that rises along the query's path, at any step, in any family.
- The log-sum-exp energy, and an error $|T(x)-\xi_\mu|$ above bound (a), or above bound (b).
- *The query is an example* with the other examples at distance 0, $s = 1$, and a margin that
  changes by anything but $|x|^2 - x\cdot\xi_\mu$ *(ours)*.

What the page does refute: that reshaping always raises the separation $\Delta_\mu$, as CAMR's
Lemma 2.2 can be read. The scenario *Δ falls* is one of many draws in which it does not.
"""


def engine(s: Settings) -> dict[str, Any]:
    """The keywords of `core.landscape.LandscapeSettings` these settings stand for."""
    drawn = {"layout": LAYOUT.get(s.layout), "memories": s.memories, "dimension": s.dimension}
    return {
        "energy": ENERGY[s.family],
        "beta": s.beta,
        **({} if s.layout == TABLE else drawn),
        "examples": s.examples,
        "shift": s.shift,
        "query_as_example": s.lemma,
        "strength": s.strength,
        "ridge": s.ridge,
        "tolerance": s.tolerance,
        "noise": s.noise,
        "query_at": (s.x, s.y) if s.query == "placed" else None,
        "plane": PLANE[s.plane],
        "seed": s.seed,
        **({"moved": moved.parse(s.moved)} if s.moved.strip() else {}),
        **({"starts": BASINS} if s.basins else {}),
    }


def compute(s: Settings) -> Landscape:
    if s.layout == TABLE and s.table == controls.ELSEWHERE:
        raise ValueError(
            "This picture was made from an uploaded file, and a link cannot carry that. Upload "
            "the file here, or paste a table."
        )
    keywords = engine(s)
    try:
        return cache.landscape(s.table if s.layout == TABLE else None, **keywords)
    except ValueError as reason:
        raise ValueError(in_our_words(str(reason))) from None


def equation(values: Mapping[str, Any]) -> str:
    from core.hopfield import ENERGIES

    return ENERGIES[ENERGY[values["family"]]].latex + (
        r",\qquad \xi_\mu \mapsto \bigl[(1-s)\,I + s\,W_1\bigr]\xi_\mu,\quad W_1 = K\tilde K^{+}"
    )


def clicked(point: dict[str, Any]) -> None:
    """The query goes where the mouse was."""
    if isinstance(point.get("x"), float | int) and isinstance(point.get("y"), float | int):
        at = {key: float(f"{point[key]:.5g}") for key in ("x", "y")}
        panel.set_values(PAGE, {"query": "placed", **at})


def dragged(point: dict[str, Any]) -> None:
    """A point was let go somewhere else: the query goes there, or its place is noted among the moved points."""
    kind, index = point.get("kind"), point.get("index")
    if kind == "query":
        return clicked(point)
    at = [point.get("x"), point.get("y")]
    if (
        kind not in ("memory", "example")
        or not (isinstance(index, int) and 0 <= index < 1000)
        or not all(isinstance(v, int | float) and math.isfinite(v) for v in at)
    ):
        return
    x, y = (float(f"{v:.5g}") for v in at)
    before: tuple[moved.Moved, ...] = ()
    with contextlib.suppress(ValueError):  # a text that nobody can read has no points to keep
        before = moved.parse(panel.values(PAGE)["moved"])
    kept = tuple(m for m in before if m[:2] != (kind, index))
    panel.set_values(PAGE, {"moved": moved.text(sorted((*kept, (kind, index, x, y))))})


# ---- pictures ------------------------------------------------------------------------------------


def units(r: Landscape) -> tuple[str, str]:
    """What the axes of the plane are."""
    return {
        "identity": ("x₁", "x₂"),
        "query": ("from the query to memory 0", "towards the rival"),
        "pca": ("1st principal component", "2nd principal component"),
    }[r.plane.kind]


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
    """What each step changes in `fig`, whose moving traces are known by their `uid`."""
    number = {t["uid"]: i for i, t in enumerate(charts.raw(fig)[0]) if "uid" in t}
    played = steps(r)
    data: list[dict[int, dict[str, Any]]] = []
    for k in played:
        changes: dict[int, dict[str, Any]] = {}
        for which, side in (("before", r.before), ("after", r.after)):
            at = min(int(k), len(side.path) - 1)
            now, until = slice(at, at + 1), slice(at + 1)
            moved = {
                "path": {"x": side.path[until, 0], "y": side.path[until, 1]},
                "state": {"x": side.path[now, 0], "y": side.path[now, 1]},
                "energy": {"x": np.array([at]), "y": side.path_energies[now]},
                "weights": {"y": side.weights[at, shown]},
            }
            for what, change in moved.items():
                if (trace := number.get(f"{what}-{which}")) is not None:
                    changes[trace] = change
        data.append(changes)
    return Frames(data=data, labels=[f"step {k} of {played[-1]}" for k in played], group=PAGE)


def live(s: Settings, r: Landscape) -> Live | None:
    """What the browser needs so that energies follow a dragged point; None where `still()` says why not."""
    if still(s, r):
        return None
    before, whole = r.before.memories, r.plane.kind == "identity"
    scene = {
        "memories": before.ravel(),
        "M": len(before),
        # In two dimensions the browser solves for W1 itself; else no drag changes the map.
        "full": (before @ r.reshaping.W1.numpy().T).ravel(),
        "examples": (r.own_examples if whole else r.example_points).ravel(),
        "pairs": np.arange(len(r.examples)) % len(before) if whole else r.pairs,
        "query": r.query_point,
        "placed": s.query == "placed",
        "lemma": s.lemma,
        "family": r.settings.energy,
        "beta": s.beta,
        "strength": s.strength,
        "ridge": s.ridge,
        "tolerance": s.tolerance,
        "origin": r.plane.origin.numpy(),
        "basis": r.plane.basis.numpy().ravel(),
    }
    side_by_side = {"xaxis": "before", "xaxis2": "after"}
    panels = side_by_side if s.view == "before | after" else {"xaxis": s.view}
    # A query off the plane starts where the browser does not know.
    followed = ("beta", "strength") if r.query_off_plane < 1e-9 else ()
    sliders = {name: f"st-key-{PAGE}-{name}-slider" for name in followed}
    return Live(scene, panels, whole, sliders)


def still(s: Settings, r: Landscape) -> str:
    """Why nothing can be dragged, in words; empty if something can."""
    if len(r.before.memories) > LIVE:
        return f"With more than {LIVE} memories nothing can be dragged; a click still places the query."
    if s.lemma and r.plane.kind != "identity":
        return (
            "Nothing can be dragged here: the query is an example, and where it goes the map W₁ follows, which "
            "the browser works out in two dimensions only. A click still places the query."
        )
    return ""


def tied(r: Landscape) -> bool:
    """Whether in a picture the lowest minimum is as deep as another, up to rounding."""
    low, high = r.colour_range
    return any(
        np.count_nonzero(side.stationary.energies <= side.space_energy + 1e-9 * (high - low)) > 1
        for side in (r.before, r.after)
    )


def key(r: Landscape, view: str, basins: bool = False) -> str:
    """The colours and marks of the plane explained, as HTML."""
    flat = r.plane.kind == "identity"
    marks = {"disc": "memory", "ring": "query"}
    if not view.startswith("3-D"):
        marks |= {"square": "example", "arrow": "moves to"}
        one = "one of several equal lowest minima" if tied(r) else "lowest minimum"
        marks |= {"diamond": one if flat else f"{one} of the space"}
        marks |= {} if flat else {"box": "lowest on the slice"}
    if view == "difference":
        low, high = -r.difference_range, r.difference_range
        name, colours = "change of E", charts.gradient(charts.DIVERGING)
    else:
        (low, high), name, colours = r.colour_range, "E", charts.gradient(charts.SEQUENTIAL)
    bar = f'{name} {number(low)} <i style="background: {colours}"></i> {number(high)}'
    named = "".join(f'<span><b class="{m}"></b>{words}</span>' for m, words in marks.items())
    tints = ""
    if basins and not view.startswith("3-D"):
        tints = (
            "<span>A basin is tinted by the memory at which retrieval from there ends, as its number shows; "
            "grey: a mixture, or none</span>"
        )
    return f'<p class="lab-key"><span>{bar}</span>{named}{tints}</p>'


def draw(page: frame.Page[Settings], r: Landscape) -> None:
    s, shown = page.settings, shown_memories(r)
    what = (
        f"{len(r.before.memories)} memories and {len(r.examples)} examples; the query ends at "
        f"{ending(r.before)} before and at {ending(r.after)} after reshaping"
    )
    beside = None  # where the small charts go: below, unless there is room at the side
    if s.view == "before | after":
        fig = charts.landscape_pair(r, units(r), basins=s.basins)
        alt = f"Energy on the plane before and after reshaping: {what}."
        page.chart(
            fig, "before-after", alt, frames=frames(fig, r, shown), on_click=clicked,
            live=live(s, r), on_drag=dragged,
        )  # fmt: skip
        with page.stage:
            st.html(key(r, s.view, s.basins))
    else:
        with page.stage:
            at, beside = st.columns([0.57, 0.43])
        if s.view.startswith("3-D"):
            side = s.view.removeprefix("3-D ")
            fig = charts.landscape_surface(r, side, units(r))
            alt = f"Energy as height over the plane, {side} reshaping: {what}."
            page.chart(fig, "surface", alt, on_click=clicked, into=at)
        else:
            fig = charts.landscape_plane(r, s.view, units(r), basins=s.basins)
            alt = f"Energy on the plane, {s.view}: {what}."
            moving = frames(fig, r, shown)
            page.chart(
                fig, s.view, alt, frames=moving, on_click=clicked, live=live(s, r), on_drag=dragged,
                into=at,
            )  # fmt: skip
        with at:
            st.html(key(r, s.view, s.basins))
    trace = charts.landscape_retrieval(r, shown)
    alt = f"Energy of the state at each step, and attention over the memories: {what}."
    page.chart(trace, "retrieval", alt, frames=frames(trace, r, shown), into=beside)


# ---- words and numbers ---------------------------------------------------------------------------


def number(value: float) -> str:
    """Four decimals, five digits of what is large, powers of ten where those would say nothing."""
    if not math.isfinite(value):
        return "not finite" if math.isnan(value) else "∞"
    size = abs(value)
    if size < 1e-12:  # rounding of float64 at these sizes
        return "0"
    if not 1e-3 <= size < 1e4:
        return power(value, 2)
    return f"{value:.4f}" if size < 10 else f"{value:.5g}"


def power(value: float, decimals: int) -> str:
    """`1.6e4`: a power of ten as people write it."""
    digits, exponent = f"{value:.{decimals}e}".split("e")
    return f"{digits}e{int(exponent)}"


def ending(side: Side) -> str:
    """Where the query ends, in words."""
    words = {
        "retrieved": "memory {n}",
        "wrong pattern": "memory {n}, a wrong one",
        "mixture": "a mixture of {n} memories",
        "global average": "the average of all memories",
        "not converged": "no point yet",
        "no match": "the origin, without a match",
    }
    kind = next(k for k in words if side.outcome.startswith(k))
    return words[kind].format(n=side.outcome.split()[-1])


def end(side: Side) -> np.ndarray:
    """Where the query ends, in R^D."""
    return side.weights[-1] @ side.memories


def moves(r: Landscape) -> float:
    """How far reshaping moves the point where the query ends, in R^D."""
    return float(np.linalg.norm(end(r.after) - end(r.before)))


def look(r: Landscape) -> str:
    before, after, mu, keys = r.before, r.after, r.target, r.reshaping.keys
    change = after.delta[mu] - before.delta[mu]
    goes = "stays at" if abs(change) < 1e-12 else "falls from" if change < 0 else "rises from"
    follows = (
        "follows all examples"
        if keys.exact
        else f"misses the examples by **{100 * keys.residual:.3g} %** of their size"
    )
    return (
        f"The query ends at **{ending(before)}** before the context and at **{ending(after)}** "
        f"after it; the two ends are **{number(moves(r))}** apart. Δ of memory {mu} {goes} "
        f"**{number(before.delta[mu])}** to **{number(after.delta[mu])}**, the query's margin goes "
        f"from **{number(before.margin)}** to **{number(after.margin)}**. W₁ {follows}."
    )


def notes(s: Settings, r: Landscape) -> str:
    """Why W1 fits or not, and what in these settings has no effect."""
    t, M = len(r.examples), len(r.before.memories)
    said = [in_our_words(r.reshaping.keys.reason)]
    if t > M:
        said.append(f"With t = {t} examples on M = {M} memories, a memory is the ghost of several.")
    if s.strength < 1:
        said.append(f"At s = {s.strength:g} the memories have not moved all the way.")
    if r.plane.kind == "identity" and s.plane == "principal components":
        said.append("In 2 dimensions there is only one plane, so the choice of it does nothing.")
    said += by_hand(s, r)
    if not (r.before.converged and r.after.converged):
        said.append(in_our_words((r.after if r.before.converged else r.before).message))
    return " ".join(said)


def by_hand(s: Settings, r: Landscape) -> list[str]:
    """What was moved by hand, and what cannot be."""
    said, flat = [], r.plane.kind == "identity"
    if (reason := still(s, r)) and not s.view.startswith("3-D"):
        said.append(reason)
    elif not flat:
        said.append(
            "In more than 2 dimensions only the query can be dragged: the plane of the picture is made from "
            "the memories, and would tilt with them."
        )
    points = moved.parse(s.moved)
    counts = {"memory": len(r.before.memories), "example": len(r.examples)}
    moving = [m for m in points if flat and m[1] < counts[m[0]]]
    if moving:
        one = len(moving) == 1
        said.append(
            f"{len(moving)} point{' was' if one else 's were'} moved by hand; empty *Moved points* under Fine "
            f"points to put {'it' if one else 'them'} back."
        )
    if len(points) > len(moving):
        said.append(
            f"{len(points) - len(moving)} of the moved points "
            + ("do nothing: there is no memory or example of that number." if flat else
               "do nothing in more than 2 dimensions.")
        )  # fmt: skip
    return said


def bound(side: Side, value: float, vacuous: bool) -> str:
    """A bound as HTML; one that says nothing with few digits."""
    if not side.bounds_apply:
        return "<small>no theorem here</small>"
    if not vacuous:
        return number(value)
    size = power(value, 1) if 1e3 <= value < math.inf else f"{value:.3g}".replace("inf", "∞")
    return f"{size}, <small>vacuous (&gt; 2m)</small>"


def sides(r: Landscape) -> list[tuple[str, ...]]:
    """Rows of the table before | after."""
    mu, both = r.target, (r.before, r.after)

    def row(name: str, of: Any) -> tuple[str, ...]:
        return (name, *(of(side) for side in both))

    return [
        row("Query ends at", ending),
        row("Steps", lambda e: str(len(e.path) - 1)),
        row("Energy at the end", lambda e: number(e.path_energies[-1])),
        row(f"Separation Δ<sub>{mu}</sub>", lambda e: number(e.delta[mu])),
        row("Margin S", lambda e: number(e.margin)),
        row(f"Error |T(x) − ξ<sub>{mu}</sub>|", lambda e: number(e.error)),
        row(
            "Bound (a), elementary",
            lambda e: bound(e, e.bound_margin, e.bound_margin > 2 * e.largest_norm),
        ),
        row("Bound (b), Ramsauer Thm 5", lambda e: bound(e, e.bound_ramsauer, e.vacuous)),
        row("Lowest energy on the slice", lambda e: number(e.slice_energy)),
        row("Lowest minimum in space", lambda e: number(e.space_energy)),
        row("its distance off the plane", lambda e: number(e.space_off_plane)),
        row("Memories off the plane, mean", lambda e: number(float(e.off_plane.mean()))),
    ]


def fit(r: Landscape) -> list[tuple[str, ...]]:
    """Rows of the table of W1 and W2."""
    both = (r.reshaping.keys, r.reshaping.values)

    def row(name: str, of: Any) -> tuple[str, ...]:
        return (name, *(of(d) for d in both))

    return [
        row("Examples t", lambda d: str(d.rows)),
        row("Rank of their ghosts", lambda d: str(d.rank)),
        row("Condition number", lambda d: number(d.condition)),
        row("Relative residual", lambda d: number(d.residual)),
        row("√(1 − rank/t)", lambda d: number(d.expected_residual)),
    ]


def off_plane(r: Landscape) -> str:
    return (
        "A ghost is the memory an example is paired with. W₁ sends ghosts to examples (the keys), W₂ "
        "the ghosts' values to the examples' values, the vectors that attention averages. "
        "The residual is |W₁K̃ − K| / |K|; for examples that have nothing to do with their ghosts "
        "it would be about √(1 − rank/t). "
        f"Off the plane lie the query by {number(r.query_off_plane)} and the examples by "
        f"{number(float(r.example_off_plane.mean()))} on average; fainter marks lie farther off. "
        f"Were memory {r.target} alone moved onto the query, its margin would change by "
        f"|x|² − x·ξ = {number(r.margin_gain_predicted)} <em>(ours)</em>, which is a rise where the "
        "query is as long as the memory or longer."
    )


def snippet(s: Settings) -> str:
    own = s.layout == TABLE
    arguments = "".join(f"    {k}={v!r},\n" for k, v in engine(s).items())
    if own:
        arguments += f"    patterns=as_rows(parse_table({s.table!r})),\n"
    return (
        "import numpy as np\n\n"
        "from core.landscape import LandscapeSettings, landscape\n"
        + ("from core.tables import as_rows, parse_table\n" if own else "")
        + f"\nr = landscape(LandscapeSettings(\n{arguments}))\n"
        + """mu, keys = r.target, r.reshaping.keys
for name, side in (("before", r.before), ("after", r.after)):
    print(f"{name}: {side.outcome} in {len(side.path) - 1} steps")
    print(f"  Delta of memory {mu} {side.delta[mu]:.4f}, margin {side.margin:.4f}, "
          f"error {side.error:.4g}")
    print(f"  lowest on the slice {side.slice_energy:.4f}, in space {side.space_energy:.4f}")
end = [side.weights[-1] @ side.memories for side in (r.before, r.after)]
print(f"the query's end moves by {np.linalg.norm(end[1] - end[0]):.4f}")
print(f"W1: rank {keys.rank}, residual {keys.residual:.4g}. {keys.reason}")
"""
    )


def render() -> None:
    page = frame.open_page(
        PAGE,
        Settings,
        SCENARIOS,
        lead="In-context examples move memories, and the wells a query falls into. Drag any point; click to "
        "place the query.",
        equation=equation,
        symbols=SYMBOLS,
    )
    r = page.compute(compute, lambda r: {"the energy E": [r.before.energy, r.after.energy]})
    s = page.settings
    draw(page, r)
    page.look_for(look(r))
    with page.stage:
        st.caption(notes(s, r))
    page.facts_beside(
        frame.Facts(("before", "after"), sides(r), "The query and its memories"),
        frame.Facts(
            ("keys W₁", "values W₂"), fit(r), "The maps from ghosts to examples", off_plane(r)
        ),
    )
    from core.landscape import SEMANTICS

    page.fold("What reshaping means here", SEMANTICS.replace("(ours)", "*(ours)*"))
    page.refuted_by(REFUTED)
    page.finish(snippet(s))
