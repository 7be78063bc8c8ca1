"""What the regression page asks: a checkpoint, prompts, and where those leave its training law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame, learners, panel, uploads
from pages.ui.cache import Draw

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


@dataclass(frozen=True)
class Settings:
    view: str
    sweep: str | bytes
    axis: str
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
    """A checkpoint, the prompts it is asked, and where they leave its training law (length
    apart)."""

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
            "there is no checkpoint to ask: train one with `python -m models.pretrain linear-d5`, "
            "or "
            "upload one on the Checkpoints page."
        )
    config = cache.checkpoint(checkpoint).config
    law = law_of(s, config)
    return Asked(
        checkpoint,
        learners.title(checkpoint, config),
        config,
        Draw(law, s.prompts, s.length, s.seed),
        tuple(outside_law(config, law, 1)),
    )


def check_lengths(s: Settings, a: Asked) -> None:
    learners.fit(a.checkpoint, a.config, s.length)
    if s.n > s.length:
        raise ValueError(
            f"n = {s.n} lies past the longest prompt, {s.length} examples: lower n or lengthen the "
            f"prompt."
        )


def beside(s: Settings, law: PromptLaw) -> dict[str, str]:
    """Title to learner, for the baselines that are switched on.

    Without label noise the ridge is least squares, so that the two share a curve.
    """
    on = {label: f"baseline: {name}" for key, (name, label) in BESIDE.items() if getattr(s, key)}
    if s.trees:
        on |= {name: f"baseline: {name}" for name in TREES}
    if s.squares and s.ridge and cache.ridge_is_least_squares(law):
        del on["ridge"], on["least squares"]
        on = {"least squares = ridge": "baseline: least squares"} | on
    return on


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


# --- Code that gives the same numbers without the lab ---------------------------------------------


def law_code(law: PromptLaw) -> str:
    """The constructor call with what differs from the defaults."""
    changed = {
        f.name: getattr(law, f.name) for f in fields(law) if getattr(law, f.name) != f.default
    }
    return f"PromptLaw({', '.join(f'{k}={v!r}' for k, v in changed.items())})"


def learner_code(learner: str) -> str:
    if learner.startswith("baseline: "):
        return f"BASELINES[{learner.removeprefix('baseline: ')!r}](law)"
    if learner == uploads.NAME:
        return "TransformerPredictor(read_folder(Path('your-checkpoint')), 'uploaded')"
    return f"zoo.predictor({learner!r})"


def drawn(a: Asked, who: Mapping[str, str]) -> str:
    """Code that draws the prompts and makes the learners."""
    d = a.draw
    own = uploads.NAME in who.values()
    lines = [
        "from pathlib import Path\n\n" if own else "",
        "import torch\n\n",
        "from core.curves import curves, difference\n",
        "from core.one_prompt import look_closely\n",
        "from core.predictors import BASELINES\n",
        "from core.prompts import PromptLaw, sample_prompts\n",
        "from models import zoo\n",
        "from models.folder import read_folder\n" if own else "",
        "from models.predictor import TransformerPredictor\n" if own else "",
        f"\nlaw = {law_code(d.law)}\n",
        f"prompts = sample_prompts(law, {d.n_prompts}, {d.n_examples + 1}, "
        f"torch.Generator().manual_seed({d.seed}))\n",
        "learners = {\n",
        *(f"    {name!r}: {learner_code(w)},\n" for name, w in who.items()),
        "}\n",
    ]
    return "".join(lines)
