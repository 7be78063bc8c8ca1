"""Do positions cause the fall past the training length? The same prompts through two "
"checkpoints."""

from __future__ import annotations

from pages._regression.asked import Settings, ask, check_lengths, read_at, say_outside, span
from pages._regression.curves import Curves, code
from pages.ui import cache, charts, frame, learners
from pages.ui.progress import Progress

__all__ = ["code", "compute", "show"]


def compute(s: Settings, wait: Progress) -> Curves:
    a = ask(s, "linear-d20")
    check_lengths(s, a)
    who = {name: name for name in ("linear-d20", "linear-d20-offset")}
    return Curves(a, learners.curves(who, a.draw, s.measure, wait))


def show(page: frame.Page[Settings], r: Curves) -> None:
    s, a = page.settings, r.asked
    shown = r.shown()
    settled = [value[min(29, len(value) - 1) :] for value, _, _ in shown.values()]
    lowest, highest = span(s.measure, a, settled)
    if s.measure != "mean squared error":
        least = min(float(v.min()) for v in settled)
        lowest = next((f for f in (0.99, 0.98, 0.95, 0.9, 0.8, 0.5) if least > f), lowest)
        highest = 1 + (1 - lowest) / 12
    page.chart(
        charts.regression_curves(
            r.n, shown, measure=s.measure, lowest=lowest, highest=highest, trained_to=a.trained_to,
            outside="outside the training law" if a.outside else "", read_at=s.n,
        ),
        "positions",
        f"{s.measure} of linear-d20 and linear-d20-offset against 1 to {s.length} examples",
        on_click=read_at,
    )  # fmt: skip
    say_outside(page, a)
    fixed, offset = (r.at(name, s.length)[0] for name in ("linear-d20", "linear-d20-offset"))
    gap, low, high = cache.difference(
        "linear-d20-offset", "linear-d20", str(cache.zoo_folder()), a.draw, s.measure
    ).at(s.length)
    apart = "excludes" if low > 0 or high < 0 else "does not exclude"
    page.look_for(
        f"After **{s.length}** examples linear-d20 has **{fixed:.4f}**, linear-d20-offset "
        f"**{offset:.4f}**. The difference on the same prompts is {gap:+.4f}, and its 95 % band, "
        f"{low:.4f} to {high:.4f}, {apart} 0. Same law, prompts of {a.trained_to} points in "
        "training; only for linear-d20-offset did training prompts begin at random positions, so that all were "
        "trained."
    )
    page.refuted_by(
        "The paper conjectures that positions cause the fall past the training length. If "
        "linear-d20-offset "
        "fell as linear-d20 does, something else would be the cause."
    )
