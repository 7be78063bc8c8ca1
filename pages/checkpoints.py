"""Checkpoints: what every pretrained model was trained on, how far it got, and a place for your "
"own."""

from __future__ import annotations

import html
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import numpy as np
import streamlit as st

from pages import catalog
from pages._regression.asked import PAGE as REGRESSION
from pages._regression.asked import training_values
from pages.ui import cache, charts, controls, frame, learners, panel, uploads, words
from pages.ui.cache import Draw
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.curves import Curve

PAGE = "checkpoints"
READ_AT = (5, 10, 15, 20, 30, 45)
LONGEST = 100  # examples asked for here, whatever was trained: the table ends at 45
_LENGTH = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True)
class Settings:
    name: str
    prompts: int
    seed: int


@dataclass(frozen=True)
class Shown:
    facts: cache.CheckpointFacts
    draw: Draw
    ours: Curve
    best: Curve  # least squares


# What each checkpoint of the zoo is there for, what to look for and what would refute it. Those that are there
# become the page's scenarios.
STORIES = (
    ("linear-d20", "The paper's law",
     "Twenty dimensions, x ~ N(−2, I): close to least squares on its own law.",
     "the two curves, close together.", "an R² more than 0.05 below least squares at 10 to 50 examples."),
    ("linear-d5", "Five dimensions",
     "The small one: within 0.01 of least squares from 10 examples on.",
     "the two curves from 10 examples on.", "a distance of 0.01 or more from 10 examples on."),
    ("linear-d20-offset", "Random positions",
     "Training prompts began anywhere, so every position is trained.",
     "the two curves, close together.", "an R² of 0.98 or less at 45 examples."),
    ("linear-d20-wide", "A wide law",
     "Random mixtures and means: less exact at home, at home almost everywhere.",
     "the distance of the curves, larger than that of linear-d20.",
     "an R² of 0.8 or less at 30 examples, or above 0.98."),
    ("attention-1", "One layer",
     "One softmax head cannot do least squares: its R² stays below 0.93.",
     "the curve, flat and far below least squares.", "an R² of 0.93 or more."),
    ("tree-d10", "Decision trees",
     "Trained on trees of depth 4, far from solved.",
     "how far both curves stay below 1.", "an R² of 0.8 or more at 45 examples."),
    ("relu-d10", "ReLU nets",
     "Trained on two-layer nets, which least squares cannot fit either.",
     "both curves, which stay below 1.", "a least squares of 0.9 or more at 45 examples."),
    ("attention-1-raw", "One layer, raw keys",
     "The same single head with keys of any length.",
     "the curve, flat and far below least squares.", "an R² of 0.93 or more."),
)  # fmt: skip
SCENARIOS = tuple(
    controls.Scenario(
        name=name, label=label, values={"name": name}, claim=claim, look=look, refuted=refuted
    )
    for name, label, claim, look, refuted in STORIES
    if name in cache.zoo_names()
)[:6]


def compute(s: Settings, wait: Progress) -> Shown:
    from models.law import training_prompt_law

    facts = cache.checkpoint(s.name)
    config = facts.config
    room = cache.MOST_NUMBERS // (s.prompts * config.n_dims) - 1
    longest = min(config.law.n_examples - 1, config.max_examples, LONGEST, room)
    draw = Draw(training_prompt_law(config), s.prompts, max(1, longest), s.seed)
    who = {"ours": s.name, "best": "baseline: least squares"}
    found = learners.curves(who, draw, "pooled R²", wait)
    return Shown(facts, draw, found["ours"], found["best"])


def read_at(draw: Draw) -> list[int]:
    """The lengths of the table; of prompts shorter than all of them, the longest."""
    return [k for k in READ_AT if k <= draw.n_examples] or [draw.n_examples]


def history(card: Mapping[str, Any]) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Steps, R^2 by length and loss out of a card, which may hold anything: what is no number is "
    "left out."""
    log = card.get("curve")
    rows = [row for row in log if isinstance(row, dict)] if isinstance(log, list) else []
    rows = [row for row in rows[:5000] if _number(row.get("step"))]
    lengths = [str(n) for n in READ_AT if any(_number(row.get(f"r2_{n}")) for row in rows)]

    def column(key: str) -> np.ndarray:
        return np.array([row[key] if _number(row.get(key)) else math.nan for row in rows], float)

    return column("step"), {n: column(f"r2_{n}") for n in lengths}, column("loss")


def _number(value: object) -> bool:
    """Whether a card's entry is a finite number that a float holds."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and -sys.float_info.max <= value <= sys.float_info.max  # type: ignore[operator]


def held_out(card: Mapping[str, Any]) -> dict[int, float]:
    """R^2 by length as the card says it was on held-out prompts."""
    noted = card.get("held_out")
    r2 = noted.get("r2") if isinstance(noted, dict) else None
    found = r2.items() if isinstance(r2, dict) else ()
    return {int(n): float(v) for n, v in found if _LENGTH.fullmatch(n) and _number(v)}


def show(page: frame.Page[Settings], r: Shown) -> None:
    s, facts = page.settings, r.facts
    config, said = facts.config, held_out(facts.card)
    title = learners.title(s.name, config)
    with page.stage:
        st.markdown(f"**{title}** was trained on {learners.law_in_words(config)}.")
        left, right = st.columns(2, gap="medium")
    n = r.ours.positions[1:]
    shown = {title: r.ours, "least squares": r.best}
    steps, r2, loss = history(facts.card)
    page.chart(
        charts.regression_curves(
            n, {name: (c.values[1:], c.low[1:], c.high[1:]) for name, c in shown.items()},
            measure="pooled R²", lowest=charts.r2_floor(r.ours.values[1:]), highest=1.03,
            height=340,
        ),
        "now",
        f"R² of {title} and of least squares on fresh prompts of its training law",
        into=left if len(steps) else page.stage,
    )  # fmt: skip
    if len(steps):
        page.chart(
            charts.training_curve(steps, r2, loss), "training",
            f"How {title} was trained: R² and loss by step", into=right,
        )  # fmt: skip
    at = read_at(r.draw)
    last = max(k for k in at if k in said) if said.keys() & set(at) else at[-1]
    now, low, high = r.ours.at(last)
    text = (
        f"After **{last}** {'example' if last == 1 else 'examples'} its R² is **{now:.4f}** "
        f"({low:.4f} to {high:.4f}) on {s.prompts} fresh prompts; least squares "
        f"{r.best.at(last)[0]:.4f}."
    )
    if last in said:
        text += f" Its card says {said[last]:.4f} on held-out prompts."
    page.look_for(text)
    page.facts(
        tuple(f"{k} examples" if k > 1 else "1 example" for k in at),
        [
            ("measured now", *(f"{r.ours.at(k)[0]:.4f}" for k in at)),
            ("its 95 % band", *("{1:.2f} to {2:.2f}".format(*r.ours.at(k)) for k in at)),
            ("said on its card", *(f"{said[k]:.4f}" if k in said else "–" for k in at)),
            ("least squares, now", *(f"{r.best.at(k)[0]:.4f}" for k in at)),
        ],
        "Pooled R²",
    )
    page.facts(("",), about(facts), "The file")
    with page.stage:
        if st.button("Ask it on the regression page", type="primary", key=f"{PAGE}~ask"):
            ask_there(s.name, facts)


def about(facts: cache.CheckpointFacts) -> list[tuple[str, ...]]:
    """Name and value of what is known of the file. Cards are strangers' text, so everything is
    escaped."""
    config, card = facts.config, facts.card
    rows = []
    if hasattr(config, "n_layer"):
        rows.append(
            (
                "network",
                f"{config.n_layer} layers of width {config.n_embd}, {config.n_head} heads each",
            )
        )
        rows.append(
            ("positions", f"{config.n_positions} tokens, so at most {config.max_examples} examples")
        )
    else:
        rows.append(
            ("network", f"one attention layer, keys of {config.n_key} dimensions, no positions")
        )
    rows.append(("weights", f"{facts.n_weights:,} in {facts.n_bytes / 2**20:.1f} MiB"))
    if _number(card.get("steps")):
        of = f" of {card['of_steps']:,}" if _number(card.get("of_steps")) else ""
        rows.append(("training steps", f"{card['steps']:,}{of}"))
    if _number(card.get("seconds")):
        rows.append(
            ("training time", f"{card['seconds'] / 60:.0f} minutes on {card.get('machine', '?')}")
        )
    versions = card.get("versions")
    if isinstance(versions, dict):
        rows.append(("written with", ", ".join(f"{k} {v}" for k, v in versions.items())))
    rows += [(f"sha256 of {name}", sum_) for name, sum_ in facts.sha256.items()]
    return [(html.escape(name), _cell(value)) for name, value in rows]


def _cell(value: str) -> str:
    short = value if len(value) <= 200 else value[:199] + "…"
    text = html.escape(short)
    wraps = 'style="overflow-wrap: anywhere"'
    return f"<code {wraps}>{text}</code>" if len(value) == 64 and value.isalnum() else text


def ask_there(name: str, facts: cache.CheckpointFacts) -> None:
    """Open the regression page on this checkpoint and its training law."""
    values = controls.defaults(REGRESSION) | training_values(facts.config) | {"checkpoint": name}
    st.session_state.pop(
        f"{REGRESSION}~link", None
    )  # read the address again, also on a second visit
    link = controls.write_link(
        REGRESSION, {k: values[k] for k in ("checkpoint", "mean1", "covariates")}
    )
    st.switch_page(catalog.link(catalog.page(REGRESSION)), query_params=dict(parse_qsl(link)))


def bring_your_own() -> None:
    """The place for a checkpoint of the reader's, and what became of it."""
    st.html('<h2 class="lab-h2">Bring your own</h2>')
    st.markdown(
        "A folder as `python -m models.pretrain` writes it: `config.json`, `model.safetensors` (or "
        "shards with "
        "their index), perhaps `card.json`. Everything is checked before it is used, nothing is "
        "unpickled, "
        "and it is there for you alone, until you close this tab."
    )
    # A new number is a new, empty widget: files that were read do not pile up in it.
    number = st.session_state.setdefault(f"{PAGE}~uploads", 0)
    files = st.file_uploader(
        "Files of one checkpoint", accept_multiple_files=True, key=f"{PAGE}~files-{number}"
    )
    seen = tuple((f.name, f.file_id) for f in files)
    if seen and st.session_state.get(f"{PAGE}~seen", (None,))[0] != seen:
        with st.spinner("Checking the files …"):
            try:
                uploads.keep({f.name: f.getvalue() for f in files})  # of one name, the newest
                refused = ""
            except ValueError as reason:
                refused = str(reason)
        st.session_state[f"{PAGE}~seen"] = (seen, refused)
        if not refused:
            st.session_state[f"{PAGE}~choose"] = uploads.NAME
            st.session_state[f"{PAGE}~uploads"] = number + 1
            st.rerun()
    read, refused = st.session_state.get(f"{PAGE}~seen", ((), ""))
    if not read or (refused and not seen):
        return
    if not refused:
        names = ", ".join(words.plain(name) for name in dict.fromkeys(name for name, _ in read))
        st.success(
            f"Accepted: {names}. It is shown above, and the regression page offers it as `uploaded`.",
            icon=":material/check_circle:",
        )
        return
    st.error(f"Refused: {words.sentence(refused)}.", icon=":material/block:")
    st.caption("Add what is missing, or a better file of the same name: the newest counts.")
    st.button("Take all files out", key=f"{PAGE}~start-over", on_click=_start_over)


def _start_over() -> None:
    st.session_state[f"{PAGE}~uploads"] += 1


def snippet(s: Settings, r: Shown) -> str:
    own = s.name == uploads.NAME
    learner = (
        "TransformerPredictor(read_folder(Path('your-checkpoint')))"
        if own
        else f"zoo.predictor({s.name!r})"
    )
    imports = (
        "from models.folder import read_folder\nfrom models.predictor import TransformerPredictor\n"
        if own
        else "from models import zoo\n"
    )
    at = read_at(r.draw)
    return (
        ("from pathlib import Path\n\n" if own else "")
        + "import torch\n\nfrom core.curves import curves\nfrom core.predictors import "
        "LeastSquares\n"
        + "from core.prompts import sample_prompts\n"
        + imports
        + "from models.law import training_prompt_law\n\n"
        + f"learner = {learner}\n"
        + "law = training_prompt_law(learner.model.config)\n"
        + f"prompts = sample_prompts(law, {s.prompts}, {r.draw.n_examples + 1}, "
        + f"torch.Generator().manual_seed({s.seed}))\n"
        + "preds = {p.name: p(prompts) for p in (learner, LeastSquares())}\n"
        + f"for c in curves(preds, prompts, generator=torch.Generator().manual_seed({s.seed})):\n"
        + f"    print(c.name, *(f'{{n}}: {{c.at(n)[0]:.4f}}' for n in {at!r}))\n"
    )


def render() -> None:
    chosen = st.session_state.pop(f"{PAGE}~choose", None)
    if chosen is not None:
        panel.set_values(PAGE, {"name": chosen})
    page = frame.open_page(
        PAGE, Settings, SCENARIOS,
        lead="The checkpoints of the lab: what each pretrained model was trained on, how far it got, "
        "measured again now, and the checksums of its files.",
    )  # fmt: skip
    with page.stage:
        wait = Progress(PAGE, st.empty(), 1)
    if page.values["name"] == "none":
        with page.stage:
            st.info(
                "No checkpoint lies in the zoo. Train one: `python -m models.pretrain linear-d5`."
            )
    else:
        result = page.compute(lambda s: compute(s, wait))
        wait.end()
        show(page, result)
        page.finish(snippet(page.settings, result))
    with page.stage:
        bring_your_own()
