"""Hidden concept: the belief over what a prompt's values follow, and whether attention averages it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame, uploads
from pages.ui.chart_view import Frames
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.concept_study import HarmByKind, HiddenConcept

PAGE = "hidden_concept"
POSTERIOR, PREDICTORS, INFLUENCE, RESHAPED = (
    "posterior", "predictors", "influence", "reshaped memories",
)  # fmt: skip
FRAMES = 48  # a longer prompt is played in this many frames, its first examples all

# What the page calls things, and what core calls them.
KEYS = {
    "uniform on the sphere": "sphere",
    "Gaussian": "gaussian",
    "each near the one before": "autoregressive",
    "all near one direction": "equicorrelated",
    "regression inputs": "paper",
}
KERNEL = {"linear": "linear", "RBF": "rbf", "exponential": "exponential"}


@dataclass(frozen=True)
class Settings:
    view: str
    examples: int
    dimension: int
    noise: float
    keys: str
    correlation: float
    scale: float
    irrelevant: float
    contradicting: float
    opposition: float
    kappa: float
    kernel: str
    length: float
    assumed: str
    rho: float
    gpt2: bool
    n: int
    ridge: float
    tolerance: float
    prompts: int
    seed: int


SCENARIOS = (
    controls.Scenario(
        name="narrows",
        label="The belief narrows",
        values={},
        claim="Each example is a line of concepts that explain it. After 30 the 95 % region is small, "
        "holds the truth in 88 to 100 % of the prompts, and the mean is within 0.2 |z| of it.",
        look="the region as it is played, and the truth inside it.",
        refuted="a truth inside in fewer than 88 % of the prompts, or a mean more than 0.2 |z| "
        "off.",
    ),
    controls.Scenario(
        name="biased",
        label="A biased concept",
        values={"contradicting": 0.3, "examples": 60},
        claim="Three examples in ten follow the opposite concept: the belief settles 0.6 |z| from the "
        "truth, is as sure as ever, and its 95 % region misses the truth in most prompts.",
        look="a small region that does not hold the truth.",
        refuted="a region that holds the truth in half of the prompts.",
    ),
    controls.Scenario(
        name="hurts",
        label="Which example hurts",
        values={
            "view": INFLUENCE, "dimension": 4, "examples": 24, "n": 24, "contradicting": 0.2,
            "noise": 0.1,
        },
        claim="Over 64 prompts a contradicting example adds to BMA's error, by more than two standard "
        "errors; a consistent one lowers it.",
        look="the bars of contradicting examples beside those of consistent ones.",
        refuted="contradicting examples whose mean is within two standard errors of 0.",
    ),
    controls.Scenario(
        name="closes",
        label="The gap closes, slowly",
        values={
            "view": PREDICTORS, "dimension": 5, "examples": 100, "noise": 0.1, "prompts": 192,
            "gpt2": False,
        },
        claim="Softmax times C comes closer to BMA, its gap falling like t to a power between −0.3 and "
        "−0.7, while raw softmax stays where it is. Even at 100 examples softmax times C errs more "
        "than 100 times as much as BMA.",
        look="the slope of the gap of softmax × C, and raw softmax, which is flat.",
        refuted="a power outside −0.3 to −0.7, or a raw softmax that comes closer.",
    ),
    controls.Scenario(
        name="mean",
        label="GPT-2 on its own law",
        values={
            "view": PREDICTORS, "dimension": 20, "examples": 45, "noise": 0.0, "kappa": 1.0,
            "keys": "regression inputs",
        },
        claim="Keys with a mean: no single C repairs softmax, and its gap to BMA hardly moves over "
        "the last half. GPT-2 is more than 5 times nearer to BMA at 45 examples.",
        look="the gaps to BMA at 45 examples.",
        refuted="a single C that closes the gap, or a GPT-2 less than 5 times nearer than softmax.",
    ),
    controls.Scenario(
        name="ghosts",
        label="Ghosts cancel",
        values={"view": RESHAPED, "dimension": 8, "examples": 40, "noise": 0.2},
        claim="Up to t = d = 8 reshaping is exact and BMA on reshaped ghosts is BMA on the prompt, to "
        "1e-9. From t = 9 on it differs by more than 10 %.",
        look="the jump between t = 8 and t = 9.",
        refuted="a difference above 1e-9 up to t = 8, or below 10 % after it.",
    ),
)  # fmt: skip


# ---- what is computed ----------------------------------------------------------------------------


def engine(s: Settings) -> dict[str, Any]:
    """The keywords of `core.concept_study.ConceptSettings` these settings stand for."""
    return {
        "dimension": s.dimension, "examples": s.examples, "prompts": s.prompts,
        "keys": KEYS[s.keys], "correlation": s.correlation, "scale": s.scale, "noise": s.noise,
        "ridge_penalty": s.rho if s.assumed == "set by hand" else None, "kernel": KERNEL[s.kernel],
        "length": s.length, "kappa": s.kappa, "irrelevant": s.irrelevant,
        "contradicting": s.contradicting, "opposition": s.opposition,
        "position": min(s.n, s.examples), "reshape_ridge": s.ridge,
        "reshape_tolerance": s.tolerance, "seed": s.seed,
    }  # fmt: skip


@dataclass(frozen=True)
class Result:
    study: HiddenConcept
    gpt2: str | None  # the checkpoint that was asked
    harm: HarmByKind | None  # in the picture of influence


def compute(s: Settings, wait: Progress) -> Result:
    who = cache.gpt2_of(s.dimension) if s.gpt2 and s.view == PREDICTORS else None
    if who is not None:
        if not cache.is_warm(who):
            wait.say(f"Loading {who} …")
            cache.regressor(who)
        wait.total = s.prompts
    study = cache.hidden_concept(who, wait.tick, **engine(s))
    return Result(study, who, cache.concept_harm(**engine(s)) if s.view == INFLUENCE else None)


def finite(r: Result) -> dict[str, Any]:
    return {
        "the belief": r.study.posterior.mean,
        **{c.name: c.error for c in r.study.curves if c.name != r.gpt2},
    }


def outside(s: Settings, who: str) -> tuple[list[str], int]:
    """Why these prompts are outside GPT-2's training law, and how many examples it was trained on."""
    from models.law import trained_examples

    config = cache.checkpoint(who).config
    trained = f"N({config.law.mean:g}, I)".replace("-", "−")
    reasons = []
    if s.keys != "regression inputs" or config.law.mean != -2 or s.scale != 1:
        scale = f" times {s.scale:g}" if s.scale != 1 else ""
        reasons.append(f"keys {s.keys}{scale}, in training {trained}")
    if config.law.task != "linear":
        reasons.append(f"values linear in the keys, in training {config.law.task}")
    if s.noise:
        reasons.append("noisy values, in training exact")
    if s.irrelevant or s.contradicting:
        reasons.append("examples of other concepts, in training of one")
    return reasons, trained_examples(config)


# ---- pictures ------------------------------------------------------------------------------------


def steps(r: HiddenConcept) -> np.ndarray:
    """The numbers of examples that have a frame."""
    t = r.lengths[-1]
    if t < FRAMES:
        return r.lengths
    return np.unique(np.rint(np.geomspace(1, t + 1, FRAMES) - 1).astype(int))


def frames(fig: Any, r: HiddenConcept) -> Frames:
    """What each further example changes in `fig`, whose moving traces are known by their `uid`."""
    number = {t["uid"]: i for i, t in enumerate(charts.raw(fig)[0]) if "uid" in t}
    p, data = r.posterior, []
    reach = 3 * charts.plane_reach(r)
    for t in steps(r):
        now = slice(t, t + 1)
        moved: dict[str, dict[str, Any]] = {
            "here-y": {"x": np.array([t]), "y": p.to_truth[2, now]},
            "here-y2": {"x": np.array([t]), "y": 100 * p.covered[now]},
            "spectrum": {"y": p.spectrum[t]},
        }
        if p.ellipses is not None:
            for kind in range(len(charts.KIND_LOOKS)):
                mine = np.flatnonzero(r.kinds[:t] == kind)
                x, y = charts.concept_lines(r.keys[mine], r.values[mine], reach)
                moved[f"lines-{kind}"] = {"x": x, "y": y}
            moved |= {
                "region": {"x": p.ellipses[t, :, 0], "y": p.ellipses[t, :, 1]},
                "way": {"x": p.mean[: t + 1, 0], "y": p.mean[: t + 1, 1]},
                "mean": {"x": p.mean[now, 0], "y": p.mean[now, 1]},
            }
        data.append({number[uid]: change for uid, change in moved.items() if uid in number})
    labels = [f"{t} of {r.lengths[-1]} examples" for t in steps(r)]
    return Frames(data=data, labels=labels, group=PAGE)


def draw_posterior(page: frame.Page[Settings], r: Result) -> None:
    s, study = page.settings, r.study
    with page.stage:
        left, right = st.columns([0.54, 0.46])
    flat = s.dimension == 2
    fig = charts.concept_plane(study) if flat else charts.concept_spectrum(study)
    what = "95 % region of the belief in the plane" if flat else "Spectrum of the belief"
    alt = f"{what} after {s.examples} examples; {study.posterior.information[-1]:.2f} nats learnt."
    page.chart(fig, "belief" if flat else "spectrum", alt, frames=frames(fig, study), into=left)
    beside = charts.concept_belief(study)
    alt = f"Distance of the belief from the true concept against t, over {s.prompts} prompts."
    page.chart(beside, "distance", alt, frames=frames(beside, study), into=right)
    page.look_for(look_posterior(s, study))
    with page.stage:
        about = "Left, row 1 of z in prompt 1; right, bands 5 to 95 % of the prompts"
        limits = "; dotted, where the distance tends, and 95 %" if s.contradicting else ""
        kernel = (
            f" The belief drawn is over a linear concept; BMA answers with the {s.kernel} kernel."
            if s.kernel != "linear"
            else ""
        )
        st.caption(f"{about}{limits}. Play shows the examples arrive one by one.{kernel}")


def draw_predictors(page: frame.Page[Settings], r: Result) -> None:
    s, names = page.settings, titles(r)
    reasons, trained_to = outside(s, r.gpt2) if r.gpt2 else ([], 0)
    shaded = None if r.gpt2 is None else 1.0 if reasons else float(trained_to)
    with page.stage:
        left, right = st.columns(2)
    for column, key, gap in ((left, "error", False), (right, "gap", True)):
        fig = charts.concept_curves(r.study, names, gap=gap, shaded_from=shaded)
        what = "Gap to BMA" if gap else "Squared error"
        page.chart(fig, key, f"{what} of {', '.join(names.values())} against t", into=column)
    page.look_for(look_predictors(s, r))
    with page.stage:
        st.caption(asked(s, r, reasons, trained_to))
    columns = ("error", "gap to BMA", "90 % interval of the gap")
    page.facts(columns, facts_predictors(r), f"After {s.examples} examples, {s.prompts} prompts")


def draw_influence(page: frame.Page[Settings], r: Result) -> None:
    s, study = page.settings, r.study
    page.chart(
        charts.concept_influence(study.influence, study.kinds),
        "influence",
        f"Influence of {study.position} examples of one prompt on concept, answer, error and margin",
    )
    page.look_for(look_influence(s, r))
    assert r.harm is not None
    h = r.harm
    rows = [
        (
            kind, str(h.count[k]), f"{h.concept[k]:.4f}",
            f"{h.harm[k]:+.4f} <small>± {h.harm_error[k]:.4f}</small>",
        )
        for k, kind in enumerate(h.kinds)
        if h.count[k]
    ]  # fmt: skip
    page.facts(
        ("examples", "moves the concept by, / |z|", "adds to the error"), rows,
        f"Mean over all examples of a kind in {min(64, s.prompts)} prompts, ± standard error",
    )  # fmt: skip
    with page.stage:
        st.caption(
            "A bar is the quantity with the example minus without it; diamonds are the same for the "
            "answer of softmax × C. Squared error is against the "
            "clean value z·q: above 0 the example hurts. The margin is the best q·k minus the second "
            "best, so only the examples that hold these places can move it."
        )


def draw_reshaped(page: frame.Page[Settings], r: Result) -> None:
    q = r.study.reshaped
    page.chart(
        charts.concept_reshaped(r.study),
        "reshaped",
        "Difference of BMA on reshaped ghosts from BMA on the prompt, against t",
    )
    page.look_for(look_reshaped(page.settings, r.study))
    rows = [
        (
            f"t = {t}", str(q.rank[i]), f"{q.condition[i]:.3g}", f"{q.residual_keys[i]:.3g}",
            f"{q.residual_values[i]:.3g}", f"{q.difference[i]:.3g}", f"{q.difference_ghosts[i]:.3g}",
        )
        for i, t in enumerate(q.lengths)
    ]  # fmt: skip
    columns = ("rank", "condition", "residual W₁", "residual W₂", "difference", "ghosts untouched")
    page.facts(columns, rows, f"Medians of {q.prompts} prompts; difference relative to BMA on K, V")
    with page.stage:
        st.caption(
            f"{q.reason} Ghosts are keys of the same law with values of an unrelated concept. "
            "BMA on W₁K̃, W₂Ṽ takes the place of BMA on K, V: where W₁ and W₂ are exact the "
            "ghosts cancel, so nothing of the pretrained memories is left in the answer."
        )


# ---- words and numbers ---------------------------------------------------------------------------


def titles(r: Result) -> dict[str, str]:
    """Curve to its name on the picture."""
    named = {"BMA": "BMA attention", "softmax": "softmax, raw", "softmax x C": "softmax × C"}
    return named | ({r.gpt2: f"GPT-2 {r.gpt2}"} if r.gpt2 else {})


def size(error: float) -> str:
    """An error in digits that say something."""
    if error < 1e-12:  # rounding of float64
        return "0"
    if error >= 1e4:
        return f"{error:.3g}"
    return f"{error:.4f}" if error >= 1e-3 else f"{error:.2g}"


def count(examples: int) -> str:
    return "1 example" if examples == 1 else f"{examples} examples"


def look_posterior(s: Settings, r: HiddenConcept) -> str:
    p = r.posterior
    start = (
        f"After **{s.examples}** example{'s' * (s.examples > 1)} the belief lies "
        f"**{p.to_truth[2, -1]:.3f}** |z| from the true concept (median of {s.prompts} prompts; 1 "
        "before any) and its 95 % region holds the "
        f"truth in **{100 * p.covered[-1]:.1f}** % of them. Prompt 1 has taught "
        f"**{p.information[-1]:.2f}** nats about it."
    )
    if s.contradicting or s.irrelevant:
        sure = p.covered[-1] < 0.5
        start += (
            f" With this mixture the belief tends to **{p.limit_to_truth:.3f}** |z| from z and "
            f"{p.limit_to_other:.3f} |z| from z′ *(ours)*"
            + (": it is sure, and wrong." if sure else ".")
        )
    elif s.noise == 0 and s.assumed != "set by hand":
        start += (
            " Values have no noise here, and a belief without any has no volume: ρ stands at "
            "1e-8 instead of 0, so the region is wider than the truth needs and holds it in more "
            "than 95 % of the prompts."
        )
    return start


def look_predictors(s: Settings, r: Result) -> str:
    study = r.study
    raw, scaled, bma = (study.curve(name) for name in ("softmax", "softmax x C", "BMA"))
    limit = ""
    if math.isfinite(study.softmax_limit_error):
        whose = "its limit (1 − 1/C)²"
        if s.irrelevant or s.contradicting:
            whose = "its limit under this mixture *(ours)*"
        limit = f" ({whose}: **{size(study.softmax_limit_error)}**)"
    text = (
        f"After {count(s.examples)} the error is **{size(bma.error[-1])}** for BMA, "
        f"**{size(raw.error[-1])}** for raw softmax{limit}, **{size(scaled.error[-1])}** times "
        f"C = **{study.scale_factor:{'.3f' if study.scale_factor < 1e4 else '.3g'}}**"
    )
    if not math.isfinite(study.softmax_limit_error):
        text += " (of these keys no theorem gives a C)"
    if r.gpt2:
        said = study.curve(r.gpt2).error[-1]
        value = f"**{size(said)}**" if math.isfinite(said) else "silent past its last position"
        text += f", GPT-2: {value}"
    return f"{text}. {verdict(s, study)}"


def verdict(s: Settings, r: HiddenConcept) -> str:
    """Whether softmax × C approaches BMA here, from the slope of its gap."""
    from core.concept_study import KEY_LAWS

    gap, slope = r.curve("softmax x C").gap[-1], r.gap_slope
    if not math.isfinite(slope):
        return "Too few examples to say whether the gap between softmax × C and BMA closes."
    fell = (
        f"The gap of softmax × C to BMA, a root mean square, is **{size(gap)}** and goes like t to the "
        f"**{slope:.2f}**"
    )
    if s.irrelevant or s.contradicting or s.kernel != "linear":
        says = "the examples or the kernel are not those of the theorem"
    elif slope < -0.25:
        says = "it closes; a mean of t draws has −0.5"
    elif KEY_LAWS[KEYS[s.keys]].exact:
        says = "it does not close at these lengths, though in the limit it must"
    else:
        says = "it does not close: for these keys no single C repairs softmax"
    worse = ""
    if r.curve("softmax x C").error[-1] > r.curve("softmax").error[-1] * (1 + 1e-9):
        worse = " At this length C makes softmax worse: it also multiplies the scatter of the mean."
    return f"{fell} over the last half: {says}.{worse}"


def asked(s: Settings, r: Result, reasons: list[str], trained_to: int) -> str:
    from core.concept_study import KEY_LAWS

    note = KEY_LAWS[KEYS[s.keys]].note
    parts = [note.replace("A_d(kappa) z q", "z q / C").replace("kappa", "κ")]
    parts.append(
        "Bands: 90 % over prompts. Dotted on the left: the limit of raw softmax, and 1, the error "
        "of answering 0."
    )
    if r.gpt2:
        if s.examples > trained_to:
            reasons = [*reasons, f"more than the {trained_to} examples of its training"]
        why = f"outside its training law, shaded: {'; '.join(reasons)}" if reasons else ""
        parts.append(f"**GPT-2 {r.gpt2}** is {why or 'inside its training law'}.")
    elif s.gpt2:
        parts.append(
            f"**GPT-2 is not asked**: no checkpoint here reads {s.dimension} dimensions. "
            "linear-d5 reads 5, linear-d20 reads 20."
        )
    return " ".join(parts)


def facts_predictors(r: Result) -> list[tuple[str, ...]]:
    rows = []
    for name, title in titles(r).items():
        c = r.study.curve(name)
        if not math.isfinite(c.error[-1]):
            rows.append((title, "past its last position", "–", "–"))
        else:
            interval = f"{size(c.gap_low[-1])} to {size(c.gap_high[-1])}"
            rows.append((title, size(c.error[-1]), size(c.gap[-1]), interval))
    return rows


def look_influence(s: Settings, r: Result) -> str:
    i, kinds, h = r.study.influence, r.study.kinds, r.harm
    assert h is not None
    most, worst = int(np.argmax(i.concept)), int(np.argmax(i.harm_bma))
    name = [look[0] for look in charts.KIND_LOOKS]
    text = (
        f"Of the first {count(r.study.position)} of prompt 1, number {most + 1} "
        f"({name[kinds[most]]}) moves the concept most, by **{i.concept[most]:.4f}**, and "
    )
    if i.harm_bma[worst] > 0:
        text += (
            f"number {worst + 1} ({name[kinds[worst]]}) changes the squared error of BMA for the "
            f"worse most, by **{i.harm_bma[worst]:.4f}**."
        )
    else:
        text += (
            f"none makes the squared error of BMA larger: number {worst + 1} "
            f"({name[kinds[worst]]}) lowers it least, by **{-i.harm_bma[worst]:.4f}**."
        )
    means = ", ".join(
        f"{kind} **{h.harm[k]:.4f}** ± {h.harm_error[k]:.4f}"
        for k, kind in enumerate(h.kinds)
        if h.count[k]
    )
    return f"{text} Over {min(64, s.prompts)} prompts an example adds to the error on average: {means}."


def why_missed(r: HiddenConcept) -> str:
    q = r.reshaped
    if q.rank[-1] < q.lengths[-1]:
        return f"√(1 − rank/t) = **{q.expected_residual[-1]:.3f}**"
    if r.settings.reshape_ridge:
        return "the ridge shrinks it; without one it could be exact"
    return "within the rank, but the ghosts are too nearly dependent"


def look_reshaped(s: Settings, r: HiddenConcept) -> str:
    q = r.reshaped
    exact = np.array(q.exact)
    parts = []
    if exact.any():
        parts.append(
            f"Up to t = {q.lengths[exact][-1]} both maps are exact, and BMA on the reshaped ghosts "
            f"differs from BMA on the prompt by at most {q.difference[exact].max():.0e}: the ghosts "
            "cancel."
        )
    if not exact[-1]:
        kept = q.difference[-1] < 1e-4
        parts.append(
            f"At t = {q.lengths[-1]} W₁ misses the keys by **{q.residual_keys[-1]:.3f}** "
            f"({why_missed(r)}) and the answers differ by "
            f"**{q.difference[-1]:.3f}**"
            + (": they agree all the same, as exact linear values allow." if kept else ".")
        )
    parts.append(f"Ghosts left as they are: **{q.difference_ghosts[-1]:.3f}**.")
    return " ".join(parts)


EQUATION = {
    POSTERIOR: r"v_i = z\,k_i + \varepsilon_i,\qquad z\mid k_{1..t}, v_{1..t} \sim "
    r"N\!\left(V^\top (KK^\top+\rho I)^{-1} K,\;(I + K^\top K/\sigma^2)^{-1}\right)",
    PREDICTORS: r"V^\top (G+\rho I)^{-1} g(q)\;\overset{t\to\infty}{\longleftrightarrow}\;"
    r"C\; V^\top \mathrm{softmax}(\kappa K q),\qquad C = I_{d/2-1}(\kappa)\,/\,I_{d/2}(\kappa)",
    INFLUENCE: r"\hat z - \hat z_{\setminus j},\qquad \hat z\,q - \hat z_{\setminus j}\,q,\qquad "
    r"\hat z = V^\top (G+\rho I)^{-1} \Phi",
    RESHAPED: r"(W_1\tilde K,\,W_2\tilde V)\;\text{in place of}\;(K, V),\qquad W_1 = K\tilde K^{+},"
    r"\quad W_2 = V\tilde V^{+}",
}

SYMBOLS = {
    r"k_i,\; v_i": "key and value of example i of t; K, V hold them all, as rows; d is their dimension",
    r"z": "the hidden concept: the matrix that all values of a prompt follow",
    r"\hat z": "the mean of the belief about z",
    r"\varepsilon_i": "noise of value i; N is the normal distribution",
    r"\sigma": "noise of a value; the prior of a row of z is N(0, I), so ρ = σ² unless set by hand",
    r"G,\; g(q)": "kernel of the keys with each other, and with the query q; Φ their features",
    r"\kappa": "sharpness of softmax attention",
    r"C": "what softmax must be multiplied by, for keys uniform on the sphere *(ours)*; "
    "I with an index is the modified Bessel function, else the identity. Other laws have their own C",
    r"\setminus j": "without example j",
    r"\tilde K,\; \tilde V": "ghosts: keys and values of the pretrained memories",
    r"W_1, W_2": "the linear maps that best send ghosts to examples; ⁺ is the pseudo-inverse",
}

REFUTED = {
    POSTERIOR: r"""
*The belief is calibrated:* with consistent examples, noise above 0 and the true ρ, its 95 % region
holds the truth in 95 % of the prompts at every $t$, up to the scatter of so many prompts (64: about ±5).
*A biased concept is a mixture (ours):* the belief tends to $(1-a-b)\,z + b\,z'$ at shares $a$ of
irrelevant and $b$ of contradicting examples. A median distance that settles elsewhere refutes it.""",
    PREDICTORS: r"""
*Zhang et al. 2023, Prop. 4.3:* for independent pairs and keys of norm 1, BMA attention tends to a
constant times softmax attention. Keys uniform on the sphere and a gap that levels off above 0 as
$t$ grows would refute it. It says nothing of how many examples that takes, and nothing of keys that
are correlated or have a mean: choose those and see the gap stay.""",
    INFLUENCE: r"""
*Contradicting examples make the concept worse:* a mean harm of contradicting examples that is not
above that of consistent ones by more than its error. Single bars can go either way: an example that
contradicts can cancel another's noise.""",
    RESHAPED: r"""
*Ghosts cancel:* one length at which both maps are exact, no ridge, and a difference above
$10^{-9}$. Past $t = d$ the claim is not made: one linear map cannot send every ghost to its example.""",
}

DRAW = {
    POSTERIOR: draw_posterior,
    PREDICTORS: draw_predictors,
    INFLUENCE: draw_influence,
    RESHAPED: draw_reshaped,
}


def snippet(s: Settings, r: Result) -> str:
    """Prints the numbers of the sentence under the picture."""
    arguments = "".join(f"    {k}={v!r},\n" for k, v in engine(s).items())
    gpt2 = "" if r.gpt2 is None else f', {{"GPT-2": zoo.predictor({r.gpt2!r})}}'
    if r.gpt2 and r.study.settings.examples > cache.checkpoint(r.gpt2).config.max_examples:
        gpt2 = ""  # longer than its positions: the page shows what fits
    if r.gpt2 == uploads.NAME:
        gpt2 = ""  # its files are with whoever uploaded it
    tail = {
        POSTERIOR: """p = r.posterior
print(f"distance from the truth {p.to_truth[2, -1]:.6f} |z|, its limit {p.limit_to_truth:.6f}")
print(f"truth inside the 95 % region in {100 * p.covered[-1]:.4f} % of the prompts")
print(f"learnt {p.information[-1]:.6f} nats")
""",
        PREDICTORS: """for c in r.curves:
    print(f"{c.name}: error {c.error[-1]:.8f}, gap to BMA {c.gap[-1]:.6f}")
print(f"C {r.scale_factor:.6f}, limit of raw softmax {r.softmax_limit_error:.6f}")
print(f"slope of the gap {r.gap_slope:.6f}")
""",
        INFLUENCE: """i, h = r.influence, harm_by_kind(settings)
print(f"largest pull on the concept {i.concept.max():.6f}, largest harm {i.harm_bma.max():.6f}")
for kind, harm, error in zip(h.kinds, h.harm, h.harm_error):
    print(f"{kind}: {harm:.6f} +- {error:.6f}")
""",
        RESHAPED: """q = r.reshaped
for i, t in enumerate(q.lengths):
    print(f"t = {t}: exact {q.exact[i]}, W1 residual {q.residual_keys[i]:.6f} "
          f"(expected {q.expected_residual[i]:.6f}), difference {q.difference[i]:.6f}, "
          f"ghosts untouched {q.difference_ghosts[i]:.6f}")
""",
    }[s.view]
    harm = "harm_by_kind, " if s.view == INFLUENCE else ""
    return (
        f"from core.concept_study import ConceptSettings, {harm}hidden_concept\n"
        + ("from models import zoo\n" if gpt2 else "")
        + f"\nsettings = ConceptSettings(\n{arguments})\n"
        + f"r = hidden_concept(settings{gpt2})\n{tail}"
    )


def equation(values: Mapping[str, Any]) -> str:
    return EQUATION[values["view"]]


def render() -> None:
    page = frame.open_page(
        PAGE, Settings, SCENARIOS,
        lead="All values of a prompt follow one hidden concept. Watch the belief about it narrow, and "
        "whether softmax attention answers as that belief would.",
        equation=equation, symbols=SYMBOLS,
    )  # fmt: skip
    r = page.compute_long(compute, finite)
    DRAW[page.settings.view](page, r)
    page.refuted_by(REFUTED[page.settings.view])
    page.finish(snippet(page.settings, r))
