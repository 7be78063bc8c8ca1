"""Retrieval error: how far one update lands from the right memory, and what theory promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame, panel
from pages.ui.memory_words import ENERGY, LAYOUT, in_our_words

if TYPE_CHECKING:
    from core.reshape import ReshapingStudy
    from core.separation import ErrorStudy, PhaseMap

PAGE = "retrieval"
ERRORS, PHASES, RESHAPING = "error and bounds", "phase map", "reshaping"


@dataclass(frozen=True)
class Settings:
    view: str
    axis: str
    family: str
    beta: float
    noise: float
    layout: str
    memories: int
    dimension: int
    draws: int
    seed: int


@dataclass(frozen=True)
class Axis:
    """A setting the error is drawn along: its name here and in core, the values it runs over."""

    key: str
    vary: str
    symbol: str
    title: str
    values: tuple[float, ...]
    ticks: tuple[float, ...] = ()  # of a logarithmic axis


BETAS = tuple(float(f"{b:.3g}") for b in np.geomspace(0.5, 200, 21))
NOISES = tuple(round(0.1 * i, 1) for i in range(21))
COUNTS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
BETA_TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200)
COUNT_TICKS = (2, 4, 8, 16, 32, 64)
AXES = {
    "inverse temperature": Axis("beta", "beta", "β", "β inverse temperature", BETAS, BETA_TICKS),
    "noise": Axis("noise", "noise", "noise", "noise of the query", NOISES),
    "memories": Axis("memories", "patterns", "M", "M memories", COUNTS, COUNT_TICKS),
    "dimension": Axis("dimension", "dimension", "D", "D dimension", COUNTS, COUNT_TICKS),
}

SCENARIOS = (
    controls.Scenario(
        name="bounds",
        label="Two bounds take hold",
        values={},
        claim="No draw lies above a bound. At small β neither bound says anything; as β grows, (a) "
        "takes hold first and Theorem 5 later.",
        look="where the lines of (a) and (b) leave the grey band.",
        refuted="one error above a bound, or (b) taking hold before (a).",
    ),
    controls.Scenario(
        name="silent",
        label="Theorem 5 falls silent",
        values={"axis": "noise", "noise": 0.8, "beta": 20.0, "dimension": 64},
        claim="At noise 0.8 Theorem 5 is vacuous in every draw, and yet every draw is retrieved.",
        look="the line of Theorem 5 in the grey band, and the share retrieved.",
        refuted="a draw in which Theorem 5 says something, or one that is not retrieved.",
    ),
    controls.Scenario(
        name="crowd",
        label="Crowding",
        values={"axis": "memories", "beta": 10.0, "dimension": 8, "memories": 64},
        claim="From 2 to 64 memories in 8 dimensions the median error grows more than a hundredfold, and "
        "no draw of 64 is well separated.",
        look="the median of the errors from left to right, and both ends in the table.",
        refuted="a factor below 100, or a well separated draw at M = 64.",
    ),
    controls.Scenario(
        name="room",
        label="Room",
        values={"axis": "dimension", "beta": 12.0, "memories": 32, "dimension": 64},
        claim="32 memories in 2 to 64 dimensions: Δ grows, and the median error falls more than a "
        "hundredfold.",
        look="the median of the errors from left to right, and Δ at both ends in the table.",
        refuted="a Δ that falls, or a median error that falls by less than a factor of 100.",
    ),
    controls.Scenario(
        name="phases",
        label="Four phases",
        values={"view": PHASES, "dimension": 3, "memories": 12, "noise": 0.8, "beta": 60.0},
        claim="In three dimensions β decides between the average, a mixture and one memory; noise "
        "decides whether it is the right one.",
        look="four colours: small β at the left, much noise at the top.",
        refuted="an outcome that rules nowhere in the map.",
    ),
    controls.Scenario(
        name="lemma",
        label="When Δ falls",
        values={"view": RESHAPING, "noise": 0.5},
        claim="Moving the most similar memory onto the query lowers Δ in about half of the draws; "
        "the margin rises and the error against the moved memory falls in all of them. Against the place "
        "where the memory lay before, the error rises.",
        look="the crosses: draws in which Δ falls.",
        refuted="Δ rising in every draw, or one margin that falls.",
    ),
)


# ---- what is computed ----------------------------------------------------------------------------


def engine(s: Settings, *without: str) -> dict[str, Any]:
    """The keywords of `core.separation.StudySettings` these settings stand for, some left out."""
    full = {
        "energy": ENERGY[s.family], "beta": s.beta, "noise": s.noise, "patterns": s.memories,
        "dimension": s.dimension, "layout": LAYOUT[s.layout], "draws": s.draws, "seed": s.seed,
    }  # fmt: skip
    return {k: v for k, v in full.items() if k not in without}


# Most steps of a retrieval, and how far a step may still move the weights when it is settled.
# The outcome is a category: for random memories 5000 steps to 1e-7 changed none of 121 cells.
SETTLED = (100, 1e-3)


@dataclass(frozen=True)
class Errors:
    along: ErrorStudy
    here: ErrorStudy  # one value: where the controls stand


@dataclass(frozen=True)
class Phases:
    map: PhaseMap
    here: PhaseMap  # one cell of all draws: where the controls stand


def compute(s: Settings) -> Errors | Phases | ReshapingStudy:
    try:
        return study(s)
    except ValueError as reason:
        raise ValueError(in_our_words(str(reason))) from None


def study(s: Settings) -> Errors | Phases | ReshapingStudy:
    if s.view == ERRORS:
        axis = AXES[s.axis]
        return Errors(
            along=cache.error_sweep(axis.vary, axis.values, **engine(s, axis.vary)),
            here=cache.error_sweep("beta", (s.beta,), **engine(s, "beta")),
        )
    if s.view == PHASES:
        rest = engine(s, "beta", "noise", "draws")
        draws = min(s.draws, 40 if s.memories <= 32 else 20)
        return Phases(
            map=cache.phase_map(BETAS, NOISES, draws, *SETTLED, **rest),
            here=cache.phase_map((s.beta,), (s.noise,), s.draws, *SETTLED, **rest),
        )
    return cache.reshaping_study(**engine(s))


def no_bound(family: str) -> str:
    """Why the bounds are not drawn for this energy; "" if they hold."""
    from core.separation import BOUNDS_HOLD

    if ENERGY[family] in BOUNDS_HOLD:
        return ""
    return f"no bound drawn: neither is a theorem for the {family} energy"


def finite(r: Errors | Phases | ReshapingStudy) -> dict[str, Any]:
    # A bound may overflow: infinity is then the right answer, and vacuous.
    return {"error": r.along.error} if isinstance(r, Errors) else {}


def clicked(point: dict[str, Any]) -> None:
    """The cell under the mouse sets beta and noise."""
    if point.get("x") is None or point.get("y") is None or point["x"] <= 0:
        return
    beta = min(BETAS, key=lambda b: abs(np.log(b / point["x"])))
    noise = min(NOISES, key=lambda n: abs(n - point["y"]))
    panel.set_values(PAGE, {"beta": beta, "noise": noise})


# ---- words and numbers ---------------------------------------------------------------------------


def percent(share: float) -> str:
    return f"{100 * share:.3g}\u202f%"  # a space that does not break


def thousands(n: int) -> str:
    return f"{n:,}".replace(",", "\u2009")  # thin space


def look_errors(r: Errors, s: Settings) -> str:
    here, along = r.here, r.along
    start = (
        f"At β = {s.beta:g}, noise {s.noise:g}, M = {s.memories} and D = {s.dimension} the median "
        f"error is **{here.error_quantiles[0, 2]:.4g}**"
    )
    right = f"the nearest memory is the right one in **{percent(here.retrieved[0])}**"
    if no_bound(s.family):
        return (
            f"{start}; {right} of {s.draws} draws. Were the bounds drawn here, the error would "
            f"break one in {thousands(along.violations)} of {thousands(along.error.size)} draws."
        )

    def bound(value: float) -> str:
        size = f"**{value:.4g}**".replace("inf", "∞")
        return size + (" (vacuous, above 2m)" if value > here.two_m[0, 0] else "")

    return (
        f"{start}; the median of bound (a) is {bound(here.bound_margin_quantiles[0, 2])}, that of (b) "
        f"{bound(here.bound_ramsauer_quantiles[0, 2])}. Of {s.draws} draws, (a) says something in "
        f"**{percent(1 - here.vacuous_margin[0])}**, (b) in "
        f"**{percent(1 - here.vacuous_ramsauer[0])}**, the memory is well separated in "
        f"**{percent(here.well_separated[0])}**, and {right}. Errors above a bound in the whole "
        f"picture: **{thousands(along.violations)} of {thousands(along.error.size)}**."
    )


def ends(r: ErrorStudy) -> list[tuple[str, ...]]:
    """Both ends of the axis and the factor between them, for what the scenarios claim a trend of."""

    def row(name: str, first: float, last: float) -> tuple[str, ...]:
        low, high = sorted((first, last))
        factor = "–" if low <= 0 else f"{high / low:.3g}" + (" up" if last > first else " down")
        return name, f"{first:.3g}", f"{last:.3g}", factor if low != high else "none"

    def share(name: str, of: np.ndarray) -> tuple[str, ...]:
        return name, percent(of[0]), percent(of[-1]), "–"

    delta = np.median(r.delta, axis=1)
    return [
        row("median error |T(x) − ξ<sub>μ</sub>|", *r.error_quantiles[[0, -1], 2]),
        row("median separation Δ<sub>μ</sub>", delta[0], delta[-1]),
        share("well separated", r.well_separated),
        share("nearest to the right memory", r.retrieved),
    ]


def look_phases(r: Phases, s: Settings) -> str:
    share = r.here.share[0, 0]
    order = [k for k in np.argsort(-share, kind="stable") if share[k]]
    parts = ", ".join(f"**{percent(share[k])}** {in_our_words(r.here.outcomes[k])}" for k in order)
    return (
        f"At β = {s.beta:g} and noise {s.noise:g}, {s.draws} draws end as {parts}. Click a cell to "
        f"go there. A cell has the colour of its most common outcome, the stronger the larger its "
        f"share of {r.map.draws} draws."
    )


def look_reshaping(r: ReshapingStudy, s: Settings) -> str:
    farther = float((r.error_to_original > r.error_before).mean())
    return (
        f"Δ falls in **{percent(r.share_delta_falls)}** of {s.draws} draws, where the lemma has it "
        f"rise. The margin rises in **{percent(r.share_margin_rises)}**, by |x|² − x·ξ to within "
        f"**{r.largest_gain_residual:.1g}**. The error falls in "
        f"**{percent(r.share_error_falls)}**, measured to the memory where it now lies; measured "
        f"to where it lay before, it rises in **{percent(farther)}**."
    )


def facts_reshaping(r: ReshapingStudy) -> list[tuple[str, ...]]:
    def row(name: str, before: np.ndarray, after: np.ndarray) -> tuple[str, ...]:
        return (
            name, f"{np.median(before):.4g}", f"{np.median(after):.4g}",
            percent(float((after > before).mean())), percent(float((after < before).mean())),
        )  # fmt: skip

    return [
        row("separation Δ<sub>μ</sub>", r.delta_before, r.delta_after),
        row("margin S<sub>μ</sub>(x)", r.margin_before, r.margin_after),
        row("error, to the memory where it now lies", r.error_before, r.error_after),
        row("error, to where it lay before", r.error_before, r.error_to_original),
    ]


LEAD = "How far does one step of retrieval land from the right memory, and what can be promised?"


def equation(values: Mapping[str, Any]) -> str:
    if values["view"] == PHASES:
        return (
            r"x \;\mapsto\; T(x) = x - \nabla E(x) \;\mapsto\; T(T(x)) \mapsto \cdots \mapsto x^*"
        )
    if values["view"] == RESHAPING:
        return (
            r"\xi_\mu \mapsto x:\qquad S'_\mu(x) - S_\mu(x) = \|x\|^2 - x\cdot\xi_\mu = "
            r"\tfrac12\|x-\xi_\mu\|^2 \ge 0"
        )
    if no_bound(values["family"]):
        return r"\|T(x)-\xi_\mu\|,\qquad T(x) = x - \nabla E(x)"
    return (
        r"\|T(x)-\xi_\mu\| \;\overset{(a)}{\le}\; 2m(M-1)\,e^{-\beta S_\mu(x)} "
        r"\;\overset{(b)}{\le}\; 2m(M-1)\,"
        r"e^{-\beta\left(\Delta_\mu - 2m\max(\|x-\xi_\mu\|,\,\|x^*-\xi_\mu\|)\right)}"
    )


SYMBOLS = {
    r"x": "the query: a memory plus noise",
    r"T(x)": "the state after one update; for log-sum-exp, one softmax attention",
    r"\xi_\mu": "its memory, one of M in D dimensions; m is the largest norm, here 1",
    r"\beta": "inverse temperature",
    r"S_\mu(x)": r"margin: $x\cdot\xi_\mu$ minus the largest $x\cdot\xi_\nu$ of another memory",
    r"\Delta_\mu": r"separation: $\xi_\mu\cdot\xi_\mu$ minus its largest overlap with another memory",
    r"x^*": r"the fixed point reached from $\xi_\mu$; in the phase map, from x",
    r"E": "the energy; its gradient is x − T(x)",
    r"(a)": "margin bound, elementary: every other weight is at most exp(−β S)",
    r"(b)": "Ramsauer et al. 2020, Theorem 5",
}

REFUTED = {
    ERRORS: r"""
One error above a bound. The count over the whole picture stands in the sentence above; where the
bounds are theorems it has to read 0. Both are compared draw by draw, with $10^{-12}$ for
rounding. Nothing can refute a bound above $2m$: that is what vacuous means. *Well separated* is
the condition of Ramsauer et al., $\Delta_\mu \ge \frac{2}{\beta M} +
\frac1\beta\log\bigl(2(M-1)M\beta m^2\bigr)$. Patterns have norm 1; the noise is Gaussian, its
length about the number shown.""",
    PHASES: r"""
A phase that theory forbids: the right memory as β goes to 0, where there is one basin for all
queries, or a mixture at large β among well separated memories. An outcome is read off the
weights at the fixed point: $k = \exp(\text{entropy})$ memories share them. If $k$ rounds to 1,
it is one memory, right or wrong; if $k \ge 0.9\,M$, the global average; else a mixture. *Not
converged*: after 100 steps a step still moves the weights by more than 0.001. *No match*
(polynomial only): no memory has a positive overlap.""",
    RESHAPING: r"""
*CAMR Lemma 2.2, as reconstructed here (ours):* making the query the most similar memory raises Δ
and lowers the error. A draw with falling Δ refutes the first half as a statement about every
draw: the crosses. *What always holds (ours):* the margin changes by $\|x\|^2 - x\cdot\xi_\mu$,
for equal norms $\tfrac12\|x-\xi_\mu\|^2 \ge 0$. One draw off the diagonal of the last picture
would refute it. Queries are scaled to norm 1 on this picture, as the lemma compares directions.""",
}


# ---- the page ------------------------------------------------------------------------------------


def snippet(s: Settings) -> str:
    """Prints the numbers of the sentence under the picture."""
    arguments = ", ".join(f"{k}={v!r}" for k, v in engine(s).items())
    if s.view == RESHAPING:
        return (
            "from core.reshape import reshaping_study\n"
            "from core.separation import StudySettings\n\n"
            f"study = reshaping_study(StudySettings({arguments}))\n"
            'print(f"delta falls in     {study.share_delta_falls:.4f} of draws")\n'
            'print(f"margin rises in    {study.share_margin_rises:.4f}")\n'
            'print(f"error falls in     {study.share_error_falls:.4f}")\n'
            'print(f"gain - predicted   {study.largest_gain_residual:.1g}")\n'
        )
    if s.view == PHASES:
        return (
            "from core.separation import StudySettings, phase_map\n\n"
            f"settings = StudySettings({arguments})\n"
            "here = phase_map(\n"
            "    settings, (settings.beta,), (settings.noise,), settings.draws, "
            f"max_steps={SETTLED[0]}, tol={SETTLED[1]}\n"
            ")\n"
            "for outcome, share in zip(here.outcomes, here.share[0, 0]):\n"
            '    print(f"{outcome:16} {share:.4f}")\n'
        )
    axis = AXES[s.axis]
    return (
        "from core.separation import StudySettings, error_study\n\n"
        f"settings = StudySettings({arguments})\n"
        'here = error_study(settings, "beta", (settings.beta,))\n'
        f'along = error_study(settings, "{axis.vary}", {axis.values})\n'
        'print(f"median error       {here.error_quantiles[0, 2]:.4g}")\n'
        'print(f"median bound (a)   {here.bound_margin_quantiles[0, 2]:.4g}")\n'
        'print(f"median bound (b)   {here.bound_ramsauer_quantiles[0, 2]:.4g}")\n'
        'print(f"(a) says something {1 - here.vacuous_margin[0]:.4f}")\n'
        'print(f"(b) says something {1 - here.vacuous_ramsauer[0]:.4f}")\n'
        'print(f"well separated     {here.well_separated[0]:.4f}")\n'
        'print(f"retrieved          {here.retrieved[0]:.4f}")\n'
        'print(f"above a bound      {along.violations} of {along.error.size}")\n'
    )


def draw_errors(page: frame.Page[Settings], r: Errors) -> None:
    s, axis, why_not = page.settings, AXES[page.settings.axis], no_bound(page.settings.family)
    at = {"axis": axis.title, "here": getattr(s, axis.key), "ticks": axis.ticks}
    page.chart(
        charts.retrieval_error(r.along, words=why_not, **at),
        f"error-{axis.key}",
        f"Retrieval error of {s.draws} draws against {axis.title}, logarithmic, with quantile bands"
        + ("" if why_not else ", under the margin bound and Theorem 5; grey above 2m"),
    )
    page.look_for(look_errors(r, s))
    first, last = (f"{axis.symbol} = {v:g}" for v in r.along.values[[0, -1]])
    page.facts((first, last, "factor"), ends(r.along), f"From one end to the other, {axis.title}")
    proof = ""
    if not why_not:
        from core.separation import BOUNDS_HOLD

        proof = " " + BOUNDS_HOLD[ENERGY[s.family]]
    with page.stage:
        dots, none = min(s.draws, charts.CLOUD), int((r.along.error == 0).sum())
        zeros = (
            f" {thousands(none)} errors are exactly 0 and lie below any logarithmic axis."
            if none
            else ""
        )
        # The lines of the bounds are medians over draws; without this a dot above one looks like a refutation.
        above = (
            ""
            if why_not
            else " Every draw has its own bound and the lines are their medians, so a dot above a line is "
            "no error above its bound; those are counted in the sentence above."
        )
        st.caption(
            f"Dots: {dots} draws a value. Bands: 25 to 75 % of {s.draws} draws, for the error also "
            f"5 to 95 %.{above}{zeros}{proof}"
        )
    page.chart(
        charts.retrieval_shares(r.along, bounds=not why_not, **at),
        f"shares-{axis.key}",
        f"Shares of draws, in percent, against {axis.title}",
    )


def draw_phases(page: frame.Page[Settings], r: Phases) -> None:
    s = page.settings
    page.chart(
        charts.phase_map(r.map, s.beta, s.noise, BETA_TICKS),
        "phases",
        f"Most common outcome of {r.map.draws} draws over inverse temperature and noise",
        on_click=clicked,
    )
    page.look_for(look_phases(r, s))
    page.chart(
        charts.outcome_bar(r.here.share[0, 0], [in_our_words(name) for name in r.here.outcomes]),
        "outcomes",
        "Shares of the outcomes where the controls stand",
    )


def draw_reshaping(page: frame.Page[Settings], r: ReshapingStudy) -> None:
    falls = r.delta_after < r.delta_before
    with page.stage:
        columns = st.columns(3)
    for column, key, title, before, after, log in (
        (columns[0], "delta", "separation Δ", r.delta_before, r.delta_after, False),
        (columns[1], "margin", "margin S", r.margin_before, r.margin_after, False),
        (columns[2], "error", "retrieval error", r.error_before, r.error_after, True),
    ):
        page.chart(
            charts.before_after(before, after, falls, title=title, log=log),
            f"reshaping-{key}",
            f"{title} before and after reshaping, draws in which Delta falls marked by crosses",
            into=column,
        )
    page.look_for(look_reshaping(r, page.settings))
    page.facts(
        ("before", "after", "rises in", "falls in"), facts_reshaping(r), "Medians of the draws"
    )
    page.chart(
        charts.before_after(
            r.margin_gain_predicted,
            r.margin_gain,
            falls,
            height=250,
            x="gain of the margin as predicted, |x|² − x·ξ",
            y="as measured",
        ),
        "margin-gain",
        "Measured against predicted gain of the margin: every draw on the diagonal",
    )


def render() -> None:
    page = frame.open_page(PAGE, Settings, SCENARIOS, lead=LEAD, equation=equation, symbols=SYMBOLS)
    r = page.compute(compute, finite)
    match r:
        case Errors():
            draw_errors(page, r)
        case Phases():
            draw_phases(page, r)
        case _:
            draw_reshaping(page, r)
    page.refuted_by(REFUTED[page.settings.view])
    page.finish(snippet(page.settings))
