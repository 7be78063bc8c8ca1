"""What breaks under shift is the training law: two checkpoints against the share of shifted "
"inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pages._regression.asked import PAGE, Asked, Settings, ask, law_code, span
from pages.ui import cache, charts, frame, learners, panel
from pages.ui.progress import Progress

SHIFTS = tuple(i / 10 for i in range(11))  # of w2


@dataclass(frozen=True)
class Shifted:
    asked: Asked
    curves: Mapping[str, np.ndarray]  # (3, len(SHIFTS)): value, low, high


def compute(s: Settings, wait: Progress) -> Shifted:
    a = ask(s, "linear-d20")
    learners.fit("linear-d20", a.config, s.n)
    if s.covariates != "mixture":
        raise ValueError(
            f"this picture varies the mixture weight w₂, which the law {s.covariates!r} does not "
            f"have: "
            "choose mixture."
        )
    who = {name: name for name in ("linear-d20", "linear-d20-wide")}
    who["least squares"] = "baseline: least squares"
    laws = [(law, s.n) for law in learners.shifted(a.draw.law, SHIFTS)]
    return Shifted(a, learners.at_length(who, laws, s.prompts, s.seed, s.measure, wait))


def show(page: frame.Page[Settings], r: Shifted) -> None:
    s, a = page.settings, r.asked
    lowest, highest = span(s.measure, a, [r.curves["linear-d20"][0]])
    page.chart(
        charts.regression_curves(
            np.array(SHIFTS), {name: tuple(c) for name, c in r.curves.items()},
            measure=s.measure, lowest=lowest, highest=highest,
            read_at=s.w2, symbol="w₂", x="w₂ share of inputs from N(μ₂, I)",
        ),
        "training-law",
        f"{s.measure} of linear-d20, linear-d20-wide and least squares against the share of "
        "shifted inputs",
        on_click=shift_to,
    )  # fmt: skip
    i = int(np.argmin(np.abs(np.array(SHIFTS) - s.w2)))
    narrow, wide, best = (float(r.curves[name][0][i]) for name in r.curves)
    page.look_for(
        f"At w₂ = **{SHIFTS[i]:g}** and {s.n} examples linear-d20, trained on N(−2, I) alone, "
        f"has **{narrow:.4f}**; linear-d20-wide, the same network trained on random mixtures and "
        f"means, "
        f"**{wide:.4f}**; least squares {best:.4f}."
    )
    page.refuted_by(
        "If attention itself could not cope with shifted inputs, the wide checkpoint would fall as "
        "the "
        "narrow one does."
    )


def shift_to(point: dict[str, Any]) -> None:
    panel.set_values(PAGE, {"w2": float(np.clip(round(point["x"], 2), 0, 1))})


def code(s: Settings, r: Shifted) -> str:
    d = r.asked.draw
    return (
        "from dataclasses import replace\n\nimport torch\n\n"
        "from core.curves import curve\nfrom core.predictors import LeastSquares\n"
        "from core.prompts import PromptLaw, sample_prompts\nfrom models import zoo\n\n"
        f"law = {law_code(d.law)}\n"
        "for learner in (zoo.predictor('linear-d20'), zoo.predictor('linear-d20-wide'), "
        "LeastSquares()):\n"
        f"    for w2 in {SHIFTS!r}:\n"
        f"        generator = torch.Generator().manual_seed({d.seed})\n"
        f"        prompts = sample_prompts(replace(law, w2=w2), {d.n_prompts}, {s.n + 1}, "
        f"generator)\n"
        f"        generator = torch.Generator().manual_seed({d.seed})\n"
        f"        c = curve(learner.name, learner(prompts), prompts, {cache.METRICS[s.measure]!r}, "
        "generator=generator)\n"
        f"        print(f'{{c.name}}, w2 = {{w2:g}}: {{c.at({s.n})[0]:.4f}}')\n"
    )
