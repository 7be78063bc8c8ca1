"""Asks checkpoints and baselines through the caches, for the regression and checkpoint pages.

A learner is named `"linear-d20"` (a checkpoint), `"uploaded"` (this session's) or
`"baseline: ridge"`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pages.ui import cache
from pages.ui.cache import Draw
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.curves import Curve
    from core.one_prompt import OnePrompt
    from core.prompts import PromptLaw
    from models.folder import Config

SLOW = ("baseline: decision tree", "baseline: gradient boosting")


def title(checkpoint: str, config: Config) -> str:
    """What pictures call a checkpoint."""
    return f"GPT-2 {checkpoint}" if hasattr(config, "n_layer") else checkpoint


def fit(checkpoint: str, config: Config, n_examples: int) -> None:
    """ValueError if a prompt of that many examples does not fit into the checkpoint's positions."""
    most = config.max_examples
    if n_examples > most:
        tokens = getattr(config, "n_positions", None)
        why = f" (n_positions = {tokens} tokens, two for an example)" if tokens else ""
        raise ValueError(
            f"{checkpoint} has positions for {most} examples and a query{why}: prompts of "
            f"{n_examples} "
            "do not fit. Shorten the longest prompt."
        )


def ready(wait: Progress, learners: Iterable[str]) -> None:
    """Get the checkpoints among the learners loaded, and say so: the first also starts PyTorch."""
    for name in learners:
        if name.startswith("baseline: ") or cache.is_warm(name):
            continue
        if not cache.torch_is_loaded():
            wait.say("Starting PyTorch, once after the server came up …")
            cache.torch_on_one_thread()
        wait.say(f"Loading {name} …")
        cache.regressor(name)


def curves(
    learners: Mapping[str, str], draw: Draw, measure: str, wait: Progress
) -> dict[str, Curve]:
    """`{title: learner}` to `{title: its curve}`, all on the same prompts."""
    ready(wait, learners.values())
    slow = [w for w in learners.values() if not w.startswith("baseline: ") or w in SLOW]
    wait.total = draw.n_prompts * len(slow)
    return {
        name: cache.curve(w, draw, measure, wait.tick if w in slow else None)
        for name, w in learners.items()
    }


@dataclass(frozen=True)
class CloseUp:
    """One prompt, and what the checkpoint attends to there."""

    look: OnePrompt
    heads: tuple[str, ...]  # "layer 1, head 2", ...
    attention: np.ndarray  # (heads, n, 2): to the x and the y token of each example; or (1, n, 1)
    own: np.ndarray  # (heads,): to the query's own token
    errors: np.ndarray  # (B,): |error| on every prompt of the draw, to find one worth opening


def close_up(
    checkpoint: str, draw: Draw, prompt: int, n: int, beside: Sequence[str], wait: Progress
) -> CloseUp:
    """Open prompt number `prompt` (from 0) of the draw at its first n examples."""
    ready(wait, [checkpoint])
    wait.total = draw.n_prompts
    preds = cache.answers(checkpoint, draw, wait.tick)
    errors = np.abs(preds - cache.prompts(draw).targets.numpy())[:, n]
    look = cache.one_prompt(checkpoint, draw, prompt, n, tuple(beside))
    weights, own = cache.attention(checkpoint, draw, prompt, n)
    heads = tuple(f"layer {i + 1}, head {j + 1}" for i, j in np.ndindex(own.shape))
    return CloseUp(look, heads, weights.reshape(len(heads), n, -1), own.ravel(), errors)


def at_length(
    learners: Mapping[str, str],
    laws: Sequence[tuple[PromptLaw, int]],
    n_prompts: int,
    seed: int,
    measure: str,
    wait: Progress,
) -> dict[str, np.ndarray]:
    """`(3, len(laws))`: value, low and high of each learner after n examples of each `(law, n)`.

    Prompts have exactly n examples, so that shares of labels are exact.
    """
    ready(wait, learners.values())
    asked = [w for w in learners.values() if not w.startswith("baseline: ")]
    wait.total = len(asked) * n_prompts * sum(n for _, n in laws)
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in learners}
    for law, n in laws:
        draw = Draw(law, n_prompts, n, seed)
        for name, w in learners.items():
            tick = (lambda done, n=n: wait.tick(n * done)) if w in asked else None
            found[name].append(cache.curve(w, draw, measure, tick).at(n))
    return {name: np.array(rows).T for name, rows in found.items()}


def shifted(law: PromptLaw, shares: Sequence[float]) -> list[PromptLaw]:
    """The law with each of these mixture weights."""
    return [replace(law, w2=float(w2)) for w2 in shares]


def law_in_words(config: Config) -> str:
    """The training law of a checkpoint: its inputs, its labels, its prompts."""
    from models.law import training_prompt_law

    law = training_prompt_law(config)
    if law.random_share:
        inputs = (
            f"x ~ N({_signed(law.mean1)}, I) or N({_signed(law.mean2)}, I), mixed at a random "
            f"share in "
            f"{law.random_share:.0%} of the prompts"
        )
        if law.mean_spread:
            inputs += f", all inputs of a prompt shifted by N(0, {law.mean_spread:g}²)"
    else:
        inputs = f"x ~ N({_signed(law.mean1)}, I)"
    labels = {
        "linear": "y = β·x with β ~ N(0, I)",
        "sparse linear": f"y = β·x, {law.sparsity} entries of β not zero",
        "decision tree": f"y from a decision tree of depth {law.tree_depth}",
        "relu net": f"y from a ReLU net with {law.hidden} hidden units",
    }[law.task]
    where = ", begun at random positions" if config.law.positions == "offset" else ""
    points = f"{config.law.n_examples} points a prompt{where}"
    return f"{inputs} in {law.n_dims} dimensions; {labels}; {points}"


def _signed(x: float) -> str:
    return f"{x:g}".replace("-", "−")
