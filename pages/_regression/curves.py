"""The main picture: error against the number of examples, the checkpoint and baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pages._regression.asked import (
    Asked,
    Settings,
    ask,
    beside,
    check_lengths,
    drawn,
    read_at,
    say_outside,
    span,
)
from pages.ui import cache, charts, frame, learners
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.curves import Curve


@dataclass(frozen=True)
class Curves:
    asked: Asked
    curves: Mapping[str, Curve]  # the checkpoint, or checkpoints, first

    @property
    def n(self) -> np.ndarray:
        return np.arange(1, self.asked.draw.n_examples + 1)

    def shown(self) -> dict[str, charts.Band]:
        """From one example on; what is said without any is of no interest."""
        return {name: (c.values[1:], c.low[1:], c.high[1:]) for name, c in self.curves.items()}

    def at(self, name: str, n: int) -> tuple[float, float, float]:
        return self.curves[name].at(n)


def compute(s: Settings, wait: Progress) -> Curves:
    a = ask(s, s.checkpoint)
    check_lengths(s, a)
    who = {a.title: a.checkpoint} | beside(s, a.draw.law)
    return Curves(a, learners.curves(who, a.draw, s.measure, wait))


def show(page: frame.Page[Settings], r: Curves) -> None:
    s, a = page.settings, r.asked
    shown = r.shown()
    lowest, highest = span(s.measure, a, [shown[a.title][0]])
    page.chart(
        charts.regression_curves(
            r.n, shown, measure=s.measure, lowest=lowest, highest=highest, trained_to=a.trained_to,
            outside="outside the training law" if a.outside else "", read_at=s.n,
        ),
        "curves",
        f"{s.measure} of {', '.join(r.curves)} against 1 to {s.length} in-context examples",
        on_click=read_at,
    )  # fmt: skip
    say_outside(page, a)
    page.look_for(reading(s, r))
    page.refuted_by(
        "The paper says that the transformer learns in context like least squares on its training "
        "law, "
        "and that shifted inputs and wrong labels break it. Against the first: a length between d "
        "and k "
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
    text += f"; {best} **{reference:.4f}**, a difference of {gap:+.4f}"
    if best == "ridge" and "least squares" in r.curves:
        text += f"; least squares **{r.at('least squares', s.n)[0]:.4f}**"
    text += "."
    if s.length > a.trained_to:
        inside, end = r.at(a.title, a.trained_to)[0], r.at(a.title, s.length)[0]
        text += (
            f" From k = {a.trained_to}, the points of a prompt in its training, to {s.length} examples "
            f"it goes from {inside:.4f} to **{end:.4f}**."
        )
    return text


def code(s: Settings, r: Curves) -> str:
    who = {r.asked.title: r.asked.checkpoint} | beside(s, r.asked.draw.law)
    if s.view == "positions":
        who = {name: name for name in r.curves}
    read = [s.n] if s.length <= r.asked.trained_to else [s.n, r.asked.trained_to, s.length]
    return (
        drawn(r.asked, who)
        + "preds = {name: learner(prompts) for name, learner in learners.items()}\n"
        + f"generator = torch.Generator().manual_seed({s.seed})\n"
        + f"for c in curves(preds, prompts, {cache.METRICS[s.measure]!r}, generator=generator):\n"
        + f"    for n in {read!r}:\n"
        + "        value, low, high = c.at(n)\n"
        + "        print(f'{c.name}, {n} examples: {value:.4f} ({low:.3f} to {high:.3f})')\n"
    )
