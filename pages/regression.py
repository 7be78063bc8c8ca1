"""In-context regression: pretrained transformers answer prompts that a reader shifts, mislabels and lengthens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame, learners, panel, uploads
from pages.ui.cache import Band, Draw
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.prompts import PromptLaw
    from models.folder import Config

PAGE = "regression"

# Toggle -> what core calls the baseline, and what the picture calls it.
BESIDE = {
    "squares": ("least squares", "least squares"),
    "ridge": ("ridge", "ridge"),
    "averaging": ("averaging", "averaging"),
    "neighbours": ("nearest neighbours", "3 nearest neighbours"),
}
TREES = ("decision tree", "gradient boosting")
SHIFTS = np.round(np.linspace(0, 1, 11), 2)  # of w2, in the picture of the training law
N_KNOWN = 512  # prompts behind each of our numbers beside the paper's


@dataclass(frozen=True)
class Settings:
    view: str
    sweep: str | bytes
    checkpoint: str
    task: str
    covariates: str
    w2: float
    mean1: float
    mean2: float
    mixing: str
    power: float
    anywhere: bool
    scale: float
    similar: bool
    similarity: float
    accuracy: float
    corruption: str
    size: float
    measure: str
    n: int
    length: int
    prompts: int
    prompt: int
    tokens: str
    seed: int
    squares: bool
    ridge: bool
    averaging: bool
    neighbours: bool
    trees: bool


@dataclass(frozen=True)
class Known:
    """A number of CAMR section 4: test R^2 of its GPT-2. No other cell of its tables is known to us."""

    label: str
    n: int
    law: Mapping[str, Any]
    paper: float


KNOWN = (
    Known("15 examples, N(−2, I)", 15, {}, 0.9366),
    Known("15 examples, w₂ = 0.3 per input", 15, {"w2": 0.3}, 0.4043),
    Known("15 examples, w₂ = 0.3 per prompt", 15, {"w2": 0.3, "mixing": "prompt"}, 0.4043),
    Known("30 examples, 100 % right labels", 30, {}, 0.9998),
    Known(
        "30 examples, 80 % right labels", 30, {"corruption": "permuted", "accuracy": 0.8}, 0.8607
    ),
)

SCENARIOS = (
    controls.Scenario(
        name="home", label="In its training law", values={},
        claim="On the law it was trained on, the transformer stays within 0.05 of least squares, the "
        "best there is, at 10 and more examples.",
    ),
    controls.Scenario(
        name="shift", label="30 % shifted inputs", values={"w2": 0.3},
        claim="With 30 % of the inputs from N(2, I), its R² at 15 is at least 0.2 below least squares, "
        "which does not notice.",
    ),
    controls.Scenario(
        name="per-prompt", label="30 % shifted prompts", values={"w2": 0.3, "mixing": "per prompt"},
        claim="The other reading of the mixture: whole prompts come from N(2, I). R² at 15 is again at "
        "least 0.2 below least squares.",
    ),
    controls.Scenario(
        name="labels", label="20 % wrong labels", values={"accuracy": 0.8, "n": 30},
        claim="With a fifth of the labels permuted, it beats least squares at 30 examples less than "
        "ridge at the true noise does.",
    ),
    controls.Scenario(
        name="long", label="Past the training length", values={"length": 120, "n": 110},
        claim="Past the longest prompt of its training its R² falls, while least squares stays at 1.",
    ),
    controls.Scenario(
        name="hurts", label="One wrong label, closely",
        values={"view": "one prompt", "accuracy": 0.9, "n": 20, "corruption": "sign flip"},
        claim="Leaving out a single example moves the answer; the ones with a wrong label add most of "
        "the error.",
    ),
)  # fmt: skip


# --- From settings to results ------------------------------------------------------------------------


def law_of(s: Settings, config: Config) -> PromptLaw:
    """The law of the prompts these settings ask for, in the dimensions the checkpoint reads."""
    from core.prompts import PromptLaw
    from models.law import training_prompt_law

    trained = training_prompt_law(config)
    return PromptLaw(
        task=trained.task if s.task == "as trained" else s.task,
        n_dims=config.n_dims,
        covariates=s.covariates,
        w2=s.w2,
        mean1=s.mean1,
        mean2=s.mean2,
        mixing=s.mixing.removeprefix("per "),
        input_scale=s.scale,
        spectrum_power=s.power,
        free_queries=s.anywhere,
        corruption=s.corruption if s.accuracy < 1 else "none",
        accuracy=s.accuracy,
        corruption_size=s.size,
        similarity=s.similarity if s.similar else None,
    )


def training_values(config: Config) -> dict[str, Any]:
    """Controls that put the page on a checkpoint's training law."""
    from models.law import training_prompt_law

    law = training_prompt_law(config)
    rows = {row.key: row.default for row in controls.rows(PAGE)}
    kept = ("task", "scale", "similar", "accuracy", "mixing", "mean2")
    return {key: rows[key] for key in kept} | {
        "covariates": law.covariates,
        "w2": law.w2,
        "mean1": law.mean1,
    }


@dataclass(frozen=True)
class Asked:
    """A checkpoint, the prompts it is asked, and where they leave its training law (length apart)."""

    checkpoint: str
    title: str
    config: Config
    draw: Draw
    outside: tuple[str, ...]

    @property
    def trained_to(self) -> int:
        return self.config.law.n_examples


def ask(s: Settings, checkpoint: str) -> Asked:
    from models.law import outside_law

    if checkpoint not in cache.zoo_names() + uploads.names():
        raise ValueError(
            "there is no checkpoint to ask: train one with `python -m models.pretrain linear-d5`, or "
            "upload one on the Checkpoints page."
        )
    config = cache.checkpoint(checkpoint).config
    law = law_of(s, config)
    return Asked(
        checkpoint,
        learners.title(checkpoint, config),
        config,
        Draw(law, s.prompts, s.length, s.seed),
        tuple(outside_law(config, law, config.law.n_examples)),
    )


def check_lengths(s: Settings, a: Asked) -> None:
    learners.fit(a.checkpoint, a.config, s.length)
    if s.n > s.length:
        raise ValueError(
            f"n = {s.n} lies past the longest prompt, {s.length} examples: lower n or lengthen the prompt."
        )


def beside(s: Settings, law: PromptLaw) -> dict[str, str]:
    """Title to learner, for the baselines that are switched on. Without label noise the ridge is least
    squares, so that the two share a curve."""
    on = {label: f"baseline: {name}" for key, (name, label) in BESIDE.items() if getattr(s, key)}
    if s.trees:
        on |= {name: f"baseline: {name}" for name in TREES}
    if s.ridge and cache.ridge_is_least_squares(law):
        del on["ridge"]
        on.pop("least squares", None)
        on = {"least squares = ridge": "baseline: least squares"} | on
    return on


# --- The curves --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    asked: Asked
    curves: Mapping[str, Band]

    @property
    def n(self) -> np.ndarray:
        return np.arange(1, self.asked.draw.n_examples + 1)

    def at(self, name: str, n: int) -> tuple[float, float, float]:
        value, low, high = (float(v[n - 1]) for v in self.curves[name])
        return value, low, high


def compute_curves(s: Settings, wait: Progress) -> Curves:
    a = ask(s, s.checkpoint)
    check_lengths(s, a)
    who = {a.title: a.checkpoint} | beside(s, a.draw.law)
    return Curves(a, learners.curves(who, a.draw, s.measure, wait))


def show_curves(page: frame.Page[Settings], r: Curves) -> None:
    s, a = page.settings, r.asked
    lowest, highest = span(s.measure, a, [r.curves[a.title][0]])
    page.chart(
        charts.regression_curves(
            r.n, r.curves, measure=s.measure, lowest=lowest, highest=highest, trained_to=a.trained_to,
            outside="outside the training law" if a.outside else "", read_at=s.n,
        ),
        "curves",
        f"{s.measure} of {', '.join(r.curves)} against 1 to {s.length} in-context examples",
        on_click=read_at,
    )  # fmt: skip
    say_outside(page, a)
    page.look_for(reading(s, r))
    page.refuted_by(
        "The paper says that the transformer learns in context like least squares on its training law, "
        "and that shifted inputs and wrong labels break it. Against the first: a length between d and k "
        "where the bands of the two do not touch. Against the second: w₂ = 0.3 or α = 0.8 with the "
        "transformer's band still on the least-squares (or ridge) curve."
    )


def reading(s: Settings, r: Curves) -> str:
    a = r.asked
    value, low, high = r.at(a.title, s.n)
    text = (
        f"After **{s.n}** examples the {s.measure} of {a.title} is **{value:.4f}** "
        f"(95 % band {low:.3f} to {high:.3f})"
    )
    best = next((name for name in r.curves if name in ("ridge", "least squares = ridge")), None)
    best = best or next((name for name in r.curves if name == "least squares"), None)
    if best is None:
        return text + "."
    reference = r.at(best, s.n)[0]
    gap = value - reference
    text += f"; {best} **{reference:.4f}**, a difference of {gap:+.4f}."
    if s.length > a.trained_to:
        inside, end = r.at(a.title, a.trained_to)[0], r.at(a.title, s.length)[0]
        text += (
            f" From the longest prompt of its training to the longest here, {a.trained_to} to "
            f"{s.length} examples, it goes from {inside:.4f} to **{end:.4f}**."
        )
    return text


def read_at(point: dict[str, Any]) -> None:
    """A click on a curve reads the numbers there."""
    panel.set_values(PAGE, {"n": int(np.clip(round(point["x"]), 1, 200))})


def span(measure: str, a: Asked, shown: list[np.ndarray]) -> tuple[float, float]:
    """Ends of the measure's axis. They follow the checkpoints' curves, in steps."""
    if measure == "mean squared error":
        square = cache.label_scale(a.draw.law) ** 2
        return 1e-4 * square, 10 * square
    return charts.r2_floor(np.concatenate(shown)), 1.03


def say_outside(page: frame.Page[Settings], a: Asked) -> None:
    """Why the picture is shaded, and the way back."""
    if not a.outside:
        return
    with page.stage, st.container(horizontal=True, vertical_alignment="center", key="lab-outside"):
        st.caption(f"**Outside the training law of {a.checkpoint}:** {'; '.join(a.outside)}.")
        st.button(
            "Back into it", key=f"{PAGE}~inside", on_click=panel.set_values,
            args=(PAGE, training_values(a.config)), help="Set the controls to its training law.",
        )  # fmt: skip


# --- One prompt --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Opened:
    asked: Asked
    close: learners.CloseUp
    shown: Mapping[str, str]  # name of a prediction -> what the picture calls it


def compute_prompt(s: Settings, wait: Progress) -> Opened:
    a = ask(s, s.checkpoint)
    check_lengths(s, a)
    if s.prompt > s.prompts:
        raise ValueError(
            f"there is no prompt {s.prompt} among {s.prompts}: choose an earlier one or draw more."
        )
    shown = {}
    for title, learner in beside(s, a.draw.law).items():
        if learner not in learners.SLOW:
            name = learner.removeprefix("baseline: ")
            shown[name] = title
    close = learners.close_up(a.checkpoint, a.draw, s.prompt - 1, s.n, list(shown), wait)
    return Opened(a, close, {a.checkpoint: a.title} | shown)


def show_prompt(page: frame.Page[Settings], r: Opened) -> None:
    s, a, look = page.settings, r.asked, r.close.look
    pick_prompt(page, r)
    with page.stage:
        left, right = st.columns([5, 6], gap="medium")
    page.chart(
        charts.regression_prompt(look, a.checkpoint, r.shown),
        "prompt",
        f"The {s.n} examples of prompt {s.prompt}, the answers to its query and the truth",
        into=left,
    )
    other = next((n for n in ("ridge", "least squares") if n in look.predictions), None)
    page.chart(
        charts.regression_examples(
            look, a.checkpoint, r.shown.get(other or ""), other, picked(s.tokens, r.close.attention),
            r.close.heads, r.close.own, s.tokens,
        ),
        "examples",
        "Error that each example adds, and the attention of every layer and head to it",
        into=right,
    )  # fmt: skip
    say_outside(page, a)
    page.look_for(closely(s, r))
    page.refuted_by(
        "That examples with a wrong label are what hurts: sign-flip a tenth of the labels and look for "
        "prompts where the example that adds most to the error has a right one. That attention tells "
        "which example matters: a head whose brightest example can be left out without moving the "
        "answer while a dark one cannot."
    )


def picked(tokens: str, attention: np.ndarray | None) -> np.ndarray | None:
    if attention is None:
        return None
    return {
        "x and y": attention.sum(-1), "x alone": attention[..., 0], "y alone": attention[..., 1]
    }[tokens]  # fmt: skip


def pick_prompt(page: frame.Page[Settings], r: Opened) -> None:
    """Where this prompt stands among all, and the way to others worth opening."""
    s, errors = page.settings, r.close.errors
    order = np.argsort(errors)
    rank = len(errors) - int(np.flatnonzero(order == s.prompt - 1)[0])
    with page.stage, st.container(horizontal=True, vertical_alignment="center", key="lab-pick"):
        st.caption(
            f"Prompt {s.prompt} of {s.prompts} after {s.n} examples: |error| {errors[s.prompt - 1]:.3f}, "
            f"number {rank} from the largest."
        )
        for label, index in (
            ("Largest error", order[-1]),
            ("Middle", order[len(order) // 2]),
            ("Smallest", order[0]),
        ):
            st.button(
                label, key=f"{PAGE}~pick-{label}", on_click=panel.set_values,
                args=(PAGE, {"prompt": int(index) + 1}),
            )  # fmt: skip


def closely(s: Settings, r: Opened) -> str:
    look, name = r.close.look, r.asked.checkpoint
    answer = look.predictions[name]
    j, added = look.worst(name)
    label = "with a wrong label" if look.corrupted[j] else "with a right label"
    text = (
        f"{r.asked.title} answers **{answer:.4f}**, the truth is **{look.target:.4f}**: it is off by "
        f"{abs(answer - look.target):.4f}. "
    )
    if added <= 0:
        return text + "Every example helps: leaving out any one makes the error larger."
    return text + (
        f"Example **{j + 1}**, {label}, hurts most: without it the error would be **{added:.4f}** smaller. "
        f"{int((look.harm[name] > 0).sum())} of {look.n_pairs} examples hurt."
    )


# --- The paper's numbers -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """Ours beside the paper's."""

    checkpoint: str
    ours: Band
    best: np.ndarray  # ridge at the true noise, on the same prompts

    def agrees(self, i: int) -> bool:
        return bool(self.ours[1][i] <= KNOWN[i].paper <= self.ours[2][i])

    def verdict(self, i: int) -> str:
        gap = float(self.ours[0][i]) - KNOWN[i].paper
        if self.agrees(i):
            return "agrees"
        return f"does not: ours is {abs(gap):.4f} {'higher' if gap > 0 else 'lower'}"


def compute_numbers(s: Settings, wait: Progress) -> Numbers:
    from core.prompts import PromptLaw

    config = cache.checkpoint(s.checkpoint).config
    name = s.checkpoint
    if config.n_dims != 20 or config.law.task != "linear":
        order = ("linear-d20", "linear-d20-offset", "linear-d20-wide")
        name = next(one for one in order if one in cache.zoo_names())
    learners.fit(name, cache.checkpoint(name).config, 30)
    laws = [(PromptLaw(**known.law), known.n) for known in KNOWN]
    who = {"ours": name, "best": "baseline: ridge"}
    found = learners.at_length(who, laws, N_KNOWN, s.seed, "pooled R²", wait)
    return Numbers(name, found["ours"], found["best"][0])


def show_numbers(page: frame.Page[Settings], r: Numbers) -> None:
    s = page.settings
    if r.checkpoint != s.checkpoint:
        with page.stage:
            st.caption(
                f"The paper's numbers are for linear tasks in 20 dimensions. {s.checkpoint} reads others, "
                f"so **{r.checkpoint}** is asked."
            )
    page.chart(
        charts.regression_known(
            [known.label for known in KNOWN], np.array([known.paper for known in KNOWN]), r.ours, r.best,
            lowest=charts.r2_floor(r.ours[1]),
        ),
        "known",
        "Five rows: the paper's R², ours with its band, and that of ridge",
    )  # fmt: skip
    value, low, high = r.ours
    page.facts(
        ("paper", f"{r.checkpoint}, now", "95 % band", "ridge", "in words"),
        [
            (known.label, f"{known.paper:.4f}", f"{value[i]:.4f}", f"{low[i]:.4f} to {high[i]:.4f}",
             f"{r.best[i]:.4f}", r.verdict(i))
            for i, known in enumerate(KNOWN)
        ],
        f"Pooled R² over {N_KNOWN} prompts of exactly that length",
    )  # fmt: skip
    agree = sum(r.agrees(i) for i in range(len(KNOWN)))
    page.look_for(
        f"**{agree} of {len(KNOWN)}** rows agree: the paper's number lies in our band. Under w₂ = 0.3 "
        f"{r.checkpoint} has **{value[1]:.4f}** if every input picks its component and "
        f"**{value[2]:.4f}** if every prompt does; the paper has 0.4043 and does not say which."
    )
    page.refuted_by(
        "The band is over our prompts alone; the paper's own sampling and training are not in it, and its "
        "model's size is not known to us. A row that does not agree says that this checkpoint differs "
        "from the paper's, not that either is wrong. These four are the only cells of its tables we know."
    )


# --- Positions, and the training law -----------------------------------------------------------------


def compute_positions(s: Settings, wait: Progress) -> Curves:
    a = ask(s, "linear-d20")
    check_lengths(s, a)
    who = {name: name for name in ("linear-d20", "linear-d20-offset")}
    return Curves(a, learners.curves(who, a.draw, s.measure, wait))


def show_positions(page: frame.Page[Settings], r: Curves) -> None:
    s, a = page.settings, r.asked
    settled = [value[min(29, len(value) - 1) :] for value, _, _ in r.curves.values()]
    lowest, highest = span(s.measure, a, settled)
    if s.measure != "mean squared error":
        least = min(float(v.min()) for v in settled)
        lowest = next((f for f in (0.99, 0.98, 0.95, 0.9, 0.8, 0.5) if least > f), lowest)
        highest = 1 + (1 - lowest) / 12
    page.chart(
        charts.regression_curves(
            r.n, r.curves, measure=s.measure, lowest=lowest, highest=highest, trained_to=a.trained_to,
            outside="outside the training law" if a.outside else "", read_at=s.n,
        ),
        "positions",
        f"{s.measure} of linear-d20 and linear-d20-offset against 1 to {s.length} examples",
        on_click=read_at,
    )  # fmt: skip
    say_outside(page, a)
    fixed, offset = (r.at(name, s.length) for name in ("linear-d20", "linear-d20-offset"))
    apart = "do not touch" if fixed[2] < offset[1] or offset[2] < fixed[1] else "overlap"
    page.look_for(
        f"After **{s.length}** examples linear-d20 has **{fixed[0]:.4f}** ({fixed[1]:.4f} to "
        f"{fixed[2]:.4f}), linear-d20-offset **{offset[0]:.4f}** ({offset[1]:.4f} to {offset[2]:.4f}): "
        f"the bands {apart}. Same law, same {a.trained_to} examples in training; only in linear-d20-offset "
        "did the prompts start at random positions, so that every position was trained."
    )
    page.refuted_by(
        "The paper conjectures that positions cause the fall past the training length. If linear-d20-offset "
        "fell as linear-d20 does, something else would be the cause."
    )


@dataclass(frozen=True)
class Shifted:
    asked: Asked
    curves: Mapping[str, Band]  # over SHIFTS


def compute_law(s: Settings, wait: Progress) -> Shifted:
    a = ask(s, "linear-d20")
    learners.fit("linear-d20", a.config, s.n)
    if s.covariates != "mixture":
        raise ValueError(
            f"this picture varies the mixture weight w₂, which the law {s.covariates!r} does not have: "
            "choose mixture."
        )
    who = {name: name for name in ("linear-d20", "linear-d20-wide")}
    who["least squares"] = "baseline: least squares"
    laws = [(law, s.n) for law in learners.shifted(a.draw.law, SHIFTS)]
    return Shifted(a, learners.at_length(who, laws, s.prompts, s.seed, s.measure, wait))


def show_law(page: frame.Page[Settings], r: Shifted) -> None:
    s, a = page.settings, r.asked
    lowest, highest = span(s.measure, a, [r.curves["linear-d20"][0]])
    page.chart(
        charts.regression_curves(
            np.array(SHIFTS), r.curves, measure=s.measure, lowest=lowest, highest=highest,
            read_at=s.w2, symbol="w₂", x="w₂ share of inputs from N(μ₂, I)",
        ),
        "training-law",
        f"{s.measure} of linear-d20, linear-d20-wide and least squares against the share of shifted inputs",
        on_click=shift_to,
    )  # fmt: skip
    i = int(np.argmin(np.abs(np.array(SHIFTS) - s.w2)))
    narrow, wide, best = (float(r.curves[name][0][i]) for name in r.curves)
    page.look_for(
        f"At w₂ = **{SHIFTS[i]:g}** and {s.n} examples linear-d20, trained on N(−2, I) alone, has "
        f"**{narrow:.4f}**; linear-d20-wide, the same network trained on random mixtures and means, "
        f"**{wide:.4f}**; least squares {best:.4f}."
    )
    page.refuted_by(
        "If attention itself could not cope with shifted inputs, the wide checkpoint would fall as the "
        "narrow one does."
    )


def shift_to(point: dict[str, Any]) -> None:
    panel.set_values(PAGE, {"w2": float(np.clip(round(point["x"], 2), 0, 1))})


# --- The page ----------------------------------------------------------------------------------------

VIEWS: dict[str, tuple[Callable[[Settings, Progress], Any], Callable[..., None]]] = {
    "curves": (compute_curves, show_curves),
    "one prompt": (compute_prompt, show_prompt),
    "known numbers": (compute_numbers, show_numbers),
    "positions": (compute_positions, show_positions),
    "training law": (compute_law, show_law),
}


def snippet(s: Settings, r: Any) -> str:
    return ""


def render() -> None:
    page = frame.open_page(
        PAGE, Settings, SCENARIOS,
        lead="A pretrained transformer reads pairs of inputs and labels and answers the next input, without "
        "learning anything. Shift the inputs, spoil the labels, lengthen the prompt, and see when it fails.",
        equation=r"\hat y_{n+1} = f_\theta(x_1, y_1, \ldots, x_n, y_n, x_{n+1}), \qquad "
        r"R^2(n) = 1 - \frac{\sum (y - \hat y)^2}{\sum (y - \bar y)^2}",
        symbols={
            r"f_\theta": "the checkpoint, its weights frozen",
            r"x_i": "inputs in d dimensions; the paper's law is N(−2, I)",
            r"y_i": "labels, one function per prompt: y = β·x with β ~ N(0, I) for a linear task",
            r"R^2(n)": "over all prompts at one length n; 1 is perfect, 0 is answering the mean",
        },
    )  # fmt: skip
    with page.stage:
        wait = Progress(PAGE, st.empty(), 1)
    result = page.compute(lambda s: VIEWS[s.view][0](s, wait))
    wait.end()
    VIEWS[page.settings.view][1](page, result)
    page.finish(snippet(page.settings, result))
