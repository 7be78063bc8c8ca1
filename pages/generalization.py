"""Generalisation: the bound of one-layer attention beside what it bounds, and where it is silent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.generalization import Generalization, ScalingStudy

PAGE = "generalization"
BOUND, SCALING = "bound and measured", "input scale"
SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

# Drawn heads: what the page calls them, and what core calls their keys.
DRAWN = {"unit keys": "sphere", "raw keys": "raw", "normalised keys": "normalised"}
# The head that a head is compared with when the inputs are scaled.
BESIDE = {
    "unit keys": "raw keys",
    "raw keys": "normalised keys",
    "normalised keys": "raw keys",
    "attention-1": "attention-1-raw",
    "attention-1-raw": "attention-1",
}


@dataclass(frozen=True)
class Settings:
    view: str
    source: str
    kappa: float
    dimension: int
    noise: float
    scale: float
    constants: str
    gamma: float
    c0: float
    lipschitz: float
    loss: str
    longest: int
    prompts: int
    seed: int


SCENARIOS = (
    controls.Scenario(
        name="holds",
        label="A bound that speaks",
        values={},
        claim="Unit keys, κ = 1: Γ = 1. The bound is informative from 19 examples on, no swap exceeds "
        "it, and gap and stability fall like t to the power −1, within 0.1.",
        look="the distance of bound and swaps, and where the bound leaves the grey band.",
        refuted="one swap above the bound, or a slope more than 0.1 from −1.",
    ),
    controls.Scenario(
        name="raw",
        label="Raw keys: vacuous",
        values={"source": "raw keys", "dimension": 20, "longest": 256},
        claim="Keys N(−2, I) in 20 dimensions have Γ of about 180, and e^(2Γ) puts the bound at more "
        "than 10¹⁵⁰: it says nothing, though the measured gap is below 0.1.",
        look="the bound in the grey band, and the gap far below it.",
        refuted="a bound below 10¹⁵⁰, or a gap above 0.1.",
    ),
    controls.Scenario(
        name="normalised",
        label="The same keys, normalised",
        values={"source": "normalised keys", "dimension": 20},
        claim="Divided by their norm, the same inputs have Γ = 1, and the bound is informative from 19 "
        "examples on. It bounds the gap: the error itself hardly falls.",
        look="the bound leaving the grey band; the error beside the gap.",
        refuted="a Γ other than 1, or a bound that is silent at 19 examples.",
    ),
    controls.Scenario(
        name="trained",
        label="A trained head",
        values={"source": "attention-1"},
        claim="attention-1 normalises its keys, but training has sharpened it to Γ = 7.87: the bound "
        "needs 10⁸ examples. Its gap falls more slowly than 1/t at these lengths.",
        look="Γ in the sentence, and the number of examples the bound needs.",
        refuted="a bound that says something at these lengths, or a gap that falls like 1/t.",
    ),
    controls.Scenario(
        name="hand",
        label="Constants by hand",
        values={"constants": "set by hand", "gamma": 1.0, "c0": 0.8, "noise": 0.5},
        claim="With C₀ = 0.8 some prompts do not meet the hypotheses and are left out; among the rest "
        "no swap exceeds the bound.",
        look="how many prompts were left out, and the swaps beside the bound.",
        refuted="no prompt left out, or one swap above the bound.",
    ),
    controls.Scenario(
        name="scale",
        label="Scaling the inputs",
        values={"view": SCALING, "source": "attention-1"},
        claim="From scale 0.1 to 5, Γ of attention-1 stays within 2 %; that of attention-1-raw grows "
        "more than a hundredfold.",
        look="two lines: one flat, one that rises.",
        refuted="a Γ of attention-1 that changes by more than 2 %.",
    ),
)  # fmt: skip


# ---- what is computed ----------------------------------------------------------------------------


def engine(s: Settings) -> dict[str, Any]:
    """The keywords of `core.generalization.GeneralizationSettings` these settings stand for."""
    law = DRAWN.get(s.source)
    keys = {"keys": law, "dimension": s.dimension, "kappa": s.kappa, "noise": s.noise}
    hand = {"gamma": s.gamma, "c0": s.c0, "lipschitz": s.lipschitz}
    by_hand = s.constants == "set by hand" and s.view == BOUND
    return {
        **(keys if law else {}),
        **({"input_scale": s.scale} if s.view == BOUND else {}),
        **(hand if by_hand else {}),
        "loss": s.loss, "longest": s.longest, "prompts": s.prompts, "seed": s.seed,
    }  # fmt: skip


def heads(s: Settings) -> tuple[str, ...]:
    """The heads of the picture of scales: the chosen one and the one it is compared with."""
    other = BESIDE.get(s.source)
    there = other in DRAWN or other in cache.one_layer_names()
    return (s.source, other) if other and there else (s.source,)


def compute(s: Settings, wait: Progress) -> Generalization | dict[str, ScalingStudy]:
    asked = (s.source,) if s.view == BOUND else heads(s)
    for name in asked:
        if name not in DRAWN and not cache.is_warm(name):
            wait.say(f"Loading {name} …")
            cache.regressor(name)
    if s.view == BOUND:
        return cache.generalization(None if s.source in DRAWN else s.source, **engine(s))
    studies, wait.total = {}, len(asked)
    for name in asked:
        who = None if name in DRAWN else name
        changed = Settings(**(vars(s) | {"source": name}))
        studies[name] = cache.input_scaling(who, SCALES, **engine(changed))
        wait.tick()
    return studies


def outside(s: Settings) -> tuple[str, float | None]:
    """Why a checkpoint is outside its training law, and from how many examples on."""
    if s.source in DRAWN:
        return "", None
    from models.law import trained_examples

    trained = trained_examples(cache.checkpoint(s.source).config)
    if s.scale != 1:
        return f"inputs scaled by {s.scale:g}, in training by 1", 0.0
    if s.longest > trained:
        return f"more than the {trained} examples of its training", float(trained)
    return "", None


# ---- words and numbers ---------------------------------------------------------------------------


def sig(value: float) -> str:
    """Three digits that say something."""
    return f"{value:.3g}"


def ten(log10: float) -> str:
    """10⁸ for 8."""
    return "10" + f"{log10:.0f}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def power(log10: float) -> str:
    """10 to this power, in digits where they can be read."""
    return f"{10**log10:.4g}" if log10 < 4 else ten(log10)


def examples(log10: float) -> str:
    return f"{math.ceil(10**log10):,}" if log10 < 5 else ten(log10)


def look_bound(s: Settings, r: Generalization) -> str:
    c, t = r.constants, r.lengths[-1]
    silent = r.vacuous[-1]
    allowed = power(r.log10_bound[-1])
    verdict = (
        f"which says nothing: it is above 2MC₀ = {2 * c.lipschitz * c.c0:.3g}, and would fall below "
        f"it from about {examples(r.log10_needed)} examples on"
        if silent
        else f"**{10 ** r.log10_bound[-1] / r.gap[-1]:.0f}** times the gap"
        if r.gap[-1] > 0
        else "above the gap"
    )
    exceed = (
        f"**{r.violations}** of {r.swaps:,} swaps and mean gaps exceed the bound"
        if r.violations
        else f"None of {r.swaps:,} swaps exceeds the bound"
    )
    return (
        f"At t = {t} and Γ = **{c.gamma:.4g}** the gap is **{sig(r.gap[-1])}** (90 % interval "
        f"{sig(r.gap_low[-1])} to {sig(r.gap_high[-1])}) and the largest swap "
        f"**{sig(r.swap_max[-1])}**. "
        f"The bound allows {allowed if silent else f'**{allowed}**'}, {verdict}. {exceed}. The gap "
        f"goes like t to the **{r.gap_fit.slope:.2f}**, the largest swap like t to the "
        f"**{r.swap_fit.slope:.2f}**, where the bound has -1. It bounds the gap, not the error, "
        f"which is **{r.risk[-1]:.4f}**."
    )


def why(s: Settings, r: Generalization) -> str:
    """Plain words on where the bound is vacuous, which prompts were measured, and what is shaded."""
    c = r.constants
    reason = r.reason.replace("2 Gamma", "2Γ").replace("Gamma", "Γ").replace("C0", "C₀")
    reason = re.sub(r"10\^(\d+)", lambda found: ten(float(found[1])), reason)
    if s.source not in DRAWN and cache.checkpoint(s.source).config.normalised:
        reason = reason.split(" Scores are products")[0]
        reason += " Its keys have norm 1 already: Γ is the sharpness that training chose."
    said = [reason]
    if c.gamma > 3:
        said.append(
            "A score is a product of two norms and a sharpness; the bound takes every weight to be "
            "as large as e^(2Γ)/t, which no measured prompt comes near."
        )
    if r.met < 1:
        said.append(
            f"Only {100 * r.met:.3g} % of the prompts meet the Γ and C₀ set by hand; the others are "
            "left out, as the theorem does not speak of them."
        )
    if c.lipschitz < c.measured_lipschitz * (1 - 1e-9):
        said.append(
            f"M = {c.lipschitz:g} is below the slope {c.measured_lipschitz:.3g} of this loss, so the "
            "gap may exceed the bound without refuting it."
        )
    if s.source not in DRAWN:
        reason, _ = outside(s)
        where = f"shaded: {reason}" if reason else "all of it inside its training law"
        said.append(f"{s.source} on regression prompts of 20 dimensions, {where}.")
    said.append("The gap is measured pair by pair, so it is finer than R − R_emp of the picture.")
    return " ".join(said)


def facts_constants(r: Generalization) -> list[tuple[str, ...]]:
    c = r.constants
    return [
        ("Γ, largest score", f"{c.gamma:.4g}", f"{c.measured_gamma:.4g}"),
        ("C₀, largest value or difference", f"{c.c0:.4g}", f"{c.measured_c0:.4g}"),
        ("M, slope of the loss", f"{c.lipschitz:.4g}", f"{c.measured_lipschitz:.4g}"),
        ("examples the bound needs to speak", examples(r.log10_needed), ""),
        ("prompts that meet Γ and C₀", f"{100 * r.met:.3g} %", ""),
    ]


def look_scaling(s: Settings, studies: Mapping[str, ScalingStudy]) -> str:
    parts = []
    for name, study in studies.items():
        grown = study.gamma[-1] / study.gamma[0]
        parts.append(
            f"Γ of {name} goes from **{study.gamma[0]:.4g}** at scale {SCALES[0]:g} to "
            f"**{study.gamma[-1]:.4g}** at {SCALES[-1]:g}, a factor of **{grown:.4g}**; the bound "
            f"needs {examples(study.log10_needed[0])} and {examples(study.log10_needed[-1])} examples to "
            f"say anything"
        )
    tail = (
        "Normalised keys make Γ independent of the inputs, not small: training chose the sharpness."
        if s.source not in DRAWN
        else "These keys are scaled after they were drawn, so Γ grows with the square of the scale."
    )
    return f"{'. '.join(parts)}. {tail}"


EQUATION = {
    BOUND: r"\mathbb{E}\left[R(P_t) - R_{\mathrm{emp}}(P_t)\right] \;\le\; "
    r"M\,C_0\,(4\Gamma+1)\,e^{2\Gamma}\,/\,t",
    SCALING: r"\Gamma = \max_{q,\,i}\; |q\cdot k_i|,\qquad t_{\mathrm{needed}} = "
    r"\tfrac12\,(4\Gamma+1)\,e^{2\Gamma}",
}

SYMBOLS = {
    r"P_t": "a prompt of t pairs of a key and a value",
    r"R": "expected loss of the answer at a fresh pair of the prompt's own law",
    r"R_{\mathrm{emp}}": "mean loss at the prompt's own pairs, each asked with itself in the prompt",
    r"\Gamma": "bound on every attention score q·k, of a query with the key of an example i",
    r"C_0": "bound on every value, and on the difference of two values of a prompt",
    r"M": "Lipschitz constant: how fast the loss can change with the answer",
    r"t_{\mathrm{needed}}": "examples from which the bound is below 2MC₀, which no gap can exceed",
}

REFUTED = {
    BOUND: r"""
One swap of one pair, in a prompt that meets $\Gamma$ and $C_0$, that changes the output by more
than the bound over $M$; or a mean gap whose whole 90 % interval lies above it. The page counts both;
the worst swap that the hypotheses allow is among them, computed exactly. The constant
$(4\Gamma+1)\,e^{2\Gamma}$ is derived here from the stability of the output *(ours)*; *best constant
(ours)* is the smallest that holds for all prompts under the same hypotheses. Above $2MC_0$ nothing
can refute a bound: that is what vacuous means. A gap that falls more slowly than $1/t$ at some
lengths is no refutation either, while it stays below.""",
    SCALING: r"""
A head with keys and queries of norm 1 whose $\Gamma$ changes with the scale of its inputs by more
than the scatter of so many draws; or raw keys whose $\Gamma$ does not grow. The constants are
estimated anew at each scale, from at most 16 prompts.""",
}


# ---- the page ------------------------------------------------------------------------------------


def draw_bound(page: frame.Page[Settings], r: Generalization) -> None:
    s = page.settings
    with page.stage:
        left, right = st.columns([0.62, 0.38])
    page.chart(
        charts.generalization_curves(r, outside(s)[1]),
        "bound",
        f"Bound, measured stability and measured gap against 2 to {s.longest} examples, log axes",
        into=left,
    )
    page.chart(
        charts.generalization_risks(r),
        "errors",
        "Mean loss at fresh pairs and at the prompt's own pairs",
        into=right,
    )
    page.look_for(look_bound(s, r))
    with page.stage:
        st.caption(why(s, r))
    page.facts(("in use", "of the draws"), facts_constants(r), "The constants of the bound")


def draw_scaling(page: frame.Page[Settings], studies: dict[str, ScalingStudy]) -> None:
    with page.stage:
        left, right = st.columns(2)
    names = " and ".join(studies)
    for column, key, gap in ((left, "gamma", False), (right, "gap", True)):
        what = "Gap as a share of the error" if gap else "Largest attention score"
        fig = charts.generalization_scaling(studies, gap=gap)
        page.chart(fig, key, f"{what} of {names} against the scale of the inputs", into=column)
    page.look_for(look_scaling(page.settings, studies))
    rows = [
        (
            f"{name}, scale {scale:g}", f"{study.gamma[i]:.4g}", power(study.log10_bound[i]),
            f"{study.swap_max[i]:.4g}", f"{study.gap[i]:.4g}", f"{study.risk[i]:.4g}",
        )
        for name, study in studies.items()
        for i, scale in enumerate(study.scales)
    ]  # fmt: skip
    columns = ("Γ", "bound", "largest swap", "gap", "error R")
    page.facts(columns, rows, f"At t = {page.settings.longest}")
    said = "Where gap / R is near 1, a head is right at its own pairs because it looks them up."
    if page.settings.source not in DRAWN:
        said += " The checkpoints were trained at scale 1; other scales are outside their law."
    with page.stage:
        st.caption(said)


def snippet(s: Settings, r: Generalization | dict[str, ScalingStudy]) -> str:
    """Prints the numbers of the sentence under the picture."""

    def settings(of: Settings) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in engine(of).items())

    def head(name: str) -> str:
        return "" if name in DRAWN else f", zoo.predictor({name!r}).model.head"

    names = (s.source,) if s.view == BOUND else heads(s)
    load = "" if all(n in DRAWN for n in names) else "from models import zoo\n"
    if s.view == SCALING:
        rows = "".join(
            f"    {n!r}: scaling_study(\n        GeneralizationSettings("
            f"{settings(Settings(**(vars(s) | {'source': n})))})"
            f"{head(n) or ', None'},\n        scales={SCALES},\n    ),\n"
            for n in names
        )
        return (
            "from core.generalization import GeneralizationSettings, scaling_study\n"
            f"{load}\nstudies = {{\n{rows}}}\n"
            "for name, study in studies.items():\n"
            "    for scale, gamma in zip(study.scales, study.gamma):\n"
            '        print(f"{name}, scale {scale:g}: Gamma {gamma:.6f}")\n'
            '    print(f"  a factor of {study.gamma[-1] / study.gamma[0]:.6f}")\n'
        )
    return (
        "from core.generalization import GeneralizationSettings, generalization\n"
        f"{load}\nr = generalization(GeneralizationSettings({settings(s)}){head(s.source)})\n"
        + """c = r.constants
print(f"Gamma {c.gamma:.6f}, C0 {c.c0:.6f}, M {c.lipschitz:.6f}")
print(f"log10 of the bound {r.log10_bound[-1]:.6f}, bound {r.bound[-1]:.6f}")
print(f"gap {r.gap[-1]:.9f} ({r.gap_low[-1]:.9f} to {r.gap_high[-1]:.9f})")
print(f"largest swap {r.swap_max[-1]:.9f}, error {r.risk[-1]:.6f}")
print(f"slopes of gap {r.gap_fit.slope:.6f} and largest swap {r.swap_fit.slope:.6f}")
print(f"above the bound: {r.violations} of {r.swaps} swaps")
"""
    )


def finite(r: Generalization | dict[str, ScalingStudy]) -> dict[str, Any]:
    # The bound itself may overflow: infinity is then the right answer, and vacuous.
    if isinstance(r, dict):
        return {f"Γ of {name}": study.gamma for name, study in r.items()}
    return {"the gap": r.gap, "the largest swap": np.asarray(r.swap_max)}


def equation(values: Mapping[str, Any]) -> str:
    return EQUATION[values["view"]]


def render() -> None:
    page = frame.open_page(
        PAGE, Settings, SCENARIOS,
        lead="Does what attention makes of a prompt carry over to fresh pairs? A bound on the gap, what "
        "is measured, and where the bound says nothing.",
        equation=equation, symbols=SYMBOLS,
    )  # fmt: skip
    r = page.compute_long(compute, finite)
    if isinstance(r, dict):
        draw_scaling(page, r)
    else:
        draw_bound(page, r)
    page.refuted_by(REFUTED[page.settings.view])
    page.finish(snippet(page.settings, r))
