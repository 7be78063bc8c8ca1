"""In-context regression: transformers answer prompts that a reader shifts, mislabels, lengthens.

Each picture of the page is one module of `pages/_regression` with `compute`, `show` and `code`.
"""

from __future__ import annotations

from pages._regression import curves, numbers, positions, prompt, sweep, training_law
from pages._regression.asked import PAGE, Settings
from pages.ui import controls, frame

VIEWS = {
    "curves": curves,
    "one prompt": prompt,
    "known numbers": numbers,
    "positions": positions,
    "training law": training_law,
    "sweep file": sweep,
}

SCENARIOS = (
    controls.Scenario(
        name="home", label="In its training law", values={},
        claim="On the law it was trained on, the transformer stays within 0.05 of least squares, "
        "the "
        "best there is, at 10 and more examples.",
        look="the transformer's curve beside that of least squares, from 10 examples on.",
        refuted="a distance of more than 0.05 in R² at 10 or more examples.",
    ),
    controls.Scenario(
        name="shift", label="30 % shifted inputs", values={"w2": 0.3},
        claim="With 30 % of the inputs from N(2, I), its R² at 15 is at least 0.2 below least "
        "squares, "
        "which does not notice.",
        look="the two curves at n = 15, the dotted line.",
        refuted="a transformer less than 0.2 below least squares at 15.",
    ),
    controls.Scenario(
        name="per-prompt", label="30 % shifted prompts", values={"w2": 0.3, "mixing": "per prompt"},
        claim="The other reading of the mixture: whole prompts come from N(2, I). R² at 15 is "
        "again at "
        "least 0.2 below least squares.",
        look="the two curves at n = 15, the dotted line.",
        refuted="a transformer less than 0.2 below least squares at 15.",
    ),
    controls.Scenario(
        name="labels", label="20 % wrong labels", values={"accuracy": 0.8, "n": 20},
        claim="With a fifth of the labels permuted, least squares falls below zero at 20 examples, as "
        "many as dimensions. The transformer dips there too, to more than 0.1 below ridge at the "
        "true noise, and stays above 0.4.",
        look="the dip of every curve near 20 examples.",
        refuted="least squares above zero at 20, or the transformer within 0.1 of ridge or "
        "below 0.4.",
    ),
    controls.Scenario(
        name="long", label="Past the training length", values={"length": 120, "n": 110},
        claim="Past the longest prompt of its training its R² falls, while least squares stays at "
        "1.",
        look="the transformer's curve in the amber region.",
        refuted="an R² past the training length as high as before it, or least squares below 1.",
    ),
    controls.Scenario(
        name="hurts", label="Wrong labels, closely",
        values={"view": "one prompt", "accuracy": 0.9, "n": 20, "corruption": "sign flip"},
        claim="Two of the 20 labels of this prompt have the wrong sign. The example that hurts most is one of "
        "them: without it the error would be less than half as large.",
        look="the tallest bar of what each example adds to the error, and whether its label is "
        "wrong.",
        refuted="a right example that hurts most, or an error that stays above half without it.",
    ),
)  # fmt: skip


def render() -> None:
    page = frame.open_page(
        PAGE, Settings, SCENARIOS,
        lead="A frozen transformer reads inputs with their labels and answers the next input. See "
        "when it fails.",
        equation=r"\hat y_{n+1} = f_\theta(x_1, y_1, \ldots, x_n, y_n, x_{n+1})",
        symbols={
            r"f_\theta": "the checkpoint; its weights do not move",
            r"x_i": "inputs in d dimensions; the paper's law is N(−2, I)",
            r"y_i": "labels, one function a prompt: y = β·x with β ~ N(0, I) if it is linear",
            r"R^2(n) = 1 - \frac{\sum (y - \hat y)^2}{\sum (y - \bar y)^2}":
                "over all prompts at one length n: 1 is perfect, 0 is answering the mean",
        },
    )  # fmt: skip
    result = page.compute_long(lambda s, wait: VIEWS[s.view].compute(s, wait))
    VIEWS[page.settings.view].show(page, result)
    page.finish(VIEWS[page.settings.view].code(page.settings, result))
