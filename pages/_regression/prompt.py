"""One prompt looked at closely: points, answers, the attention to each example and what each "
"does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import streamlit as st

from pages._regression.asked import (
    PAGE,
    Asked,
    Settings,
    ask,
    beside,
    check_lengths,
    drawn,
    say_outside,
)
from pages.ui import charts, frame, learners, panel
from pages.ui.progress import Progress


@dataclass(frozen=True)
class Opened:
    asked: Asked
    close: learners.CloseUp
    shown: Mapping[str, str]  # name of a prediction -> what the picture calls it


def compute(s: Settings, wait: Progress) -> Opened:
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


def show(page: frame.Page[Settings], r: Opened) -> None:
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
            look, a.checkpoint, other, picked(s.tokens, r.close.attention), r.close.heads,
            r.close.own, s.tokens,
        ),
        "examples",
        "Error that each example adds, and the attention of every layer and head to it",
        into=right,
    )  # fmt: skip
    say_outside(page, a)
    ticks = f" Ticks: the same for {other}." if other else ""
    with page.stage:
        st.caption(
            "Bars: hatched, the example adds to the error; plain, the error is larger without it."
            f"{ticks} On the left an example has the colour of its bar, the paler the less it does."
        )
    page.look_for(closely(s, r))
    page.refuted_by(
        "That examples with a wrong label are what hurts: sign-flip a tenth of the labels and look "
        "for "
        "prompts where the example that adds most to the error has a right one. That attention "
        "tells "
        "which example matters: a head whose brightest example can be left out without moving the "
        "answer while a dark one cannot."
    )


def picked(tokens: str, attention: np.ndarray) -> np.ndarray:
    """The weights to draw: to one token of each example or to both. A pair may be one token."""
    if attention.shape[-1] == 1 or tokens == "x and y":
        return attention.sum(-1)
    return attention[..., ("x alone", "y alone").index(tokens)]


def pick_prompt(page: frame.Page[Settings], r: Opened) -> None:
    """Where this prompt stands among all, and the way to others worth opening."""
    s, errors = page.settings, r.close.errors
    order = np.argsort(errors)
    rank = len(errors) - int(np.flatnonzero(order == s.prompt - 1)[0])
    with page.stage, st.container(horizontal=True, vertical_alignment="center", key="lab-pick"):
        st.caption(
            f"Prompt {s.prompt} of {s.prompts} after {s.n} examples: |error| "
            f"{errors[s.prompt - 1]:.3f}, "
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
        f"{r.asked.title} answers **{answer:.4f}**, the truth is **{look.target:.4f}**: it is off "
        f"by "
        f"{abs(answer - look.target):.4f}. "
    )
    if not np.any(look.harm[name]):
        return text + "No example matters: the answer is the same without any one."
    if added <= 0:
        return text + "Every example helps: leaving out any one makes the error larger."
    return text + (
        f"Example **{j + 1}**, {label}, hurts most: without it the error would be **{added:.4f}** "
        f"smaller. "
        f"{int((look.harm[name] > 0).sum())} of {look.n_pairs} examples hurt, "
        f"{int(look.corrupted.sum())} have a wrong label."
    )


def code(s: Settings, r: Opened) -> str:
    who = {r.asked.title: r.asked.checkpoint} | {t: f"baseline: {n}" for n, t in r.shown.items()
                                                 if n != r.asked.checkpoint}  # fmt: skip
    return (
        drawn(r.asked, who)
        + f"look = look_closely(learners, prompts, prompt={s.prompt - 1}, n_pairs={s.n})\n"
        + "print(f'truth {look.target:.4f}')\n"
        + "for name, answer in look.predictions.items():\n"
        + "    j, added = look.worst(name)\n"
        + "    print(f'{name} {answer:.4f}; example {j + 1} adds {added:.4f} to its error')\n"
    )
