"""The four numbers of the paper that are known to us, beside ours, measured now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from pages._regression.asked import Settings, learner_code
from pages.ui import cache, charts, frame, learners, uploads
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.curves import KnownNumber, Verdict

N_KNOWN = 512  # prompts behind each of our numbers


@dataclass(frozen=True)
class Numbers:
    """The paper's numbers beside ours, one row a number and reading of it."""

    checkpoint: str
    rows: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    best: np.ndarray  # ridge at the true noise, on the same prompts


def known_rows() -> list[tuple[str, KnownNumber]]:
    """What each number is called. A mixture can be read in two ways; the paper does not say "
    "which."""
    from core.curves import KNOWN_NUMBERS

    rows: list[tuple[str, KnownNumber]] = []
    for known in KNOWN_NUMBERS:
        law, name = known.law, f"{known.n_examples} examples"
        if law.w2:
            mixed = replace(known, law=replace(law, mixing="prompt"))
            rows.append((f"{name}, w₂ = {law.w2:g} per input", known))
            rows.append((f"{name}, w₂ = {law.w2:g} per prompt", mixed))
        elif law.accuracy < 1:
            rows.append((f"{name}, {law.accuracy:.0%} right labels", known))
        else:
            rows.append((f"{name}, its training law", known))
    return rows


def compute(s: Settings, wait: Progress) -> Numbers:
    from core.curves import agreement

    name, config = s.checkpoint, cache.checkpoint(s.checkpoint).config
    if config.n_dims != 20 or config.law.task != "linear" or config.max_examples < 30:
        order = ("linear-d20", "linear-d20-offset", "linear-d20-wide")
        name = next(one for one in order if one in cache.zoo_names())
    rows = known_rows()
    laws = [(known.law, known.n_examples) for _, known in rows]
    who = {"ours": name, "best": "baseline: ridge"}
    found = learners.at_length(who, laws, N_KNOWN, s.seed, "pooled R²", wait)
    verdicts = tuple(
        agreement(known.value, *found["ours"][:, i], decimals=known.decimals)
        for i, (_, known) in enumerate(rows)
    )
    return Numbers(name, tuple(label for label, _ in rows), verdicts, found["best"][0])


def show(page: frame.Page[Settings], r: Numbers) -> None:
    s = page.settings
    if r.checkpoint != s.checkpoint:
        with page.stage:
            st.caption(
                f"The paper's numbers are for linear tasks in 20 dimensions. {s.checkpoint} reads "
                f"others, "
                f"so **{r.checkpoint}** is asked."
            )
    paper, value, low, high = (
        np.array([getattr(v, name) for v in r.verdicts])
        for name in ("known", "value", "low", "high")
    )
    page.chart(
        charts.regression_known(r.rows, paper, (value, low, high), r.best, charts.r2_floor(low)),
        "known",
        "The paper's R² row by row, ours with its band, and that of ridge",
    )
    page.facts(
        ("paper", f"{r.checkpoint}, now", "95 % band", "ridge", "in words"),
        [
            (row, f"{v.known:.4f}", f"{v.value:.4f}", f"{v.low:.4f} to {v.high:.4f}",
             f"{r.best[i]:.4f}", v.words.split(";")[0])
            for i, (row, v) in enumerate(zip(r.rows, r.verdicts, strict=True))
        ],
        f"Pooled R² over {N_KNOWN} prompts of exactly that length",
    )  # fmt: skip
    agree = [row for row, v in zip(r.rows, r.verdicts, strict=True) if v.agrees]
    mixed = [(row, v) for row, v in zip(r.rows, r.verdicts, strict=True) if "w₂" in row]
    page.look_for(
        f"**{len(agree)} of {len(r.rows)}** rows agree: the paper's number lies in our band. The "
        f"mixture "
        "row is read in two ways, because the paper does not say which: "
        + "; ".join(f"{row.rsplit(' per ', 1)[1]} by {row.rsplit(' per ', 1)[1]} "
                    f"**{v.value:.4f}** against {v.known:.4f}" for row, v in mixed)
        + "."
    )  # fmt: skip
    page.refuted_by(
        "Our band is over prompts alone: the paper's own sampling and training are not in it, and "
        "the size "
        "of its model is not known to us. A row that does not agree says that this checkpoint "
        "differs from "
        "the paper's. These four numbers are the only cells of its tables known to us; the others "
        "are not "
        "shown."
    )


def code(s: Settings, r: Numbers) -> str:
    own = r.checkpoint == uploads.NAME
    return (
        ("from pathlib import Path\n\n" if own else "")
        + "from dataclasses import replace\n\nimport torch\n\n"
        + "from core.curves import KNOWN_NUMBERS, measure_known\n"
        + ("from models.folder import read_folder\n"
           "from models.predictor import TransformerPredictor\n" if own else "from models import "
           "zoo\n")
        + f"\nlearner = {learner_code(r.checkpoint)}\n"
        + "for known in KNOWN_NUMBERS:\n"
        + "    mixings = ('input', 'prompt') if known.law.w2 else ('input',)\n"
        + "    for mixing in mixings:\n"
        + "        number = replace(known, law=replace(known.law, mixing=mixing))\n"
        + f"        generator = torch.Generator().manual_seed({s.seed})\n"
        + f"        verdict = measure_known(number, learner, {N_KNOWN}, generator)\n"
        + "        print(f'{number.n_examples} examples, {mixing}: {verdict.words}')\n"
    )  # fmt: skip
