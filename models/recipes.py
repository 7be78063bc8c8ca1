"""Recipes: all that decides the weights of a checkpoint, besides the machine's arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from core.prompts import PromptLaw, label_scale, sample_prompts
from models.config import RegressorConfig, TrainingLaw
from models.law import training_prompt_law


@dataclass(frozen=True)
class Recipe:
    """A training from first to last step. Kept with the state; only the same one resumes it."""

    model: RegressorConfig
    steps: int
    batch: int = 64
    seed: int = 0
    optimizer: str = "muon"  # for the matrices inside the blocks; "adamw" takes adam_lr for all
    muon_lr: float = 0.02  # for the matrices inside the blocks
    adam_lr: float = 2e-3  # for embeddings, biases, norms, read-in and read-out
    warmup: int = 200
    decay_share: float = 0.7  # linear decay to 0 over this last share of the steps
    clip: float = 1.0  # on the gradient norm of the AdamW part; Muon's update has a fixed size
    curriculum: int = 2000  # steps over which active dimensions (or depth) grow; 0: none
    weighted: bool = True  # loss weighted by 1 / (best possible error at that length + delta)
    delta: tuple[float, float] = (0.05, 0.01)  # first and last delta, geometric in between
    start_from: str = ""  # name of a checkpoint whose weights are the start

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise ValueError(
                f"steps and batch must be 1 or more, got {self.steps} and {self.batch}"
            )
        if self.optimizer not in ("muon", "adamw"):
            raise ValueError(f"optimizer must be 'muon' or 'adamw', got {self.optimizer!r}")
        if 2 * self.model.law.n_examples > self.model.n_positions:
            raise ValueError(
                f"{self.model.law.n_examples} examples take {2 * self.model.law.n_examples} "
                f"positions, the model has {self.model.n_positions}; raise n_positions"
            )

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Recipe:
        """The recipe in a state; fields younger than the state take their defaults."""
        raw = dict(raw)
        return cls(
            **raw | {"model": RegressorConfig.from_json(raw["model"]), "delta": tuple(raw["delta"])}
        )

    def of_length(self, steps: int) -> Recipe:
        """The same recipe in so many steps, the curriculum (and a shorter warm-up) with it."""
        factor = steps / self.steps
        return replace(
            self,
            steps=steps,
            warmup=min(self.warmup, math.ceil(self.warmup * factor)),
            curriculum=math.ceil(self.curriculum * factor),
        )


def _regressor(law: TrainingLaw, n_dims: int, **sizes: Any) -> RegressorConfig:
    """Sizes with the scale that takes y of this law to variance 1 (exact, before any mixture)."""
    task_law = training_prompt_law(RegressorConfig(n_dims=n_dims, law=law))
    plain = replace(task_law, random_share=0.0, mean_spread=0.0)
    return RegressorConfig(n_dims=n_dims, law=law, target_scale=label_scale(plain), **sizes)


def _linear(n_dims: int, **law: Any) -> RegressorConfig:
    return _regressor(TrainingLaw(**law), n_dims)


_NARROW = Recipe(_linear(20), steps=7000)  # the paper's law

RECIPES: dict[str, Recipe] = {
    "linear-d5": Recipe(_linear(5, n_examples=20), steps=2500, curriculum=500),
    "linear-d20": _NARROW,
    # every position embedding is trained: answers whether positions cause the fall past 50
    "linear-d20-offset": Recipe(
        _linear(20, positions="offset"),
        steps=1200,
        curriculum=0,
        muon_lr=0.008,
        adam_lr=8e-4,
        delta=(0.01, 0.01),
        start_from="linear-d20",
    ),
    # random mixtures and means: should not break under shift
    "linear-d20-wide": Recipe(
        _linear(20, positions="offset", mixed_prompts=0.7, mean_spread=0.25),
        steps=4000,
        curriculum=0,
        muon_lr=0.012,
        adam_lr=1.2e-3,
        delta=(0.05, 0.02),
        start_from="linear-d20-offset",
    ),
    "linear-d20-isotropic": Recipe(_linear(20, mean=0.0), steps=6000),
    # the size of Garg et al.'s standard model; for a GPU (bf16, written in shards)
    "linear-d20-large": replace(
        _NARROW,
        model=_regressor(TrainingLaw(), 20, n_embd=256, n_head=8),
        batch=256,
        steps=20_000,
        muon_lr=0.01,
        adam_lr=1e-3,
    ),
    "relu-d10": Recipe(
        _regressor(TrainingLaw("relu", mean=0.0), 10), steps=6000, curriculum=800, weighted=False
    ),
    # heads matter for trees: with 2 heads R^2 stays near 0.1
    "tree-d10": Recipe(
        _regressor(TrainingLaw("tree", mean=0.0), 10, n_layer=6, n_embd=128, n_head=8),
        steps=5000,
        muon_lr=0.01,
        curriculum=2500,
        weighted=False,
    ),
}


def schedule(recipe: Recipe, step: int) -> float:
    """Factor on the learning rates: linear warm-up, constant, linear decay to 0 at the end."""
    up = min(1.0, (step + 1) / max(1, recipe.warmup))
    decay = recipe.decay_share * recipe.steps
    return up * min(1.0, (recipe.steps - step) / max(1.0, decay))


def stage(recipe: Recipe, step: int) -> tuple[int, int]:
    """(active dimensions, points) at a step; trees grow in depth and keep all dimensions."""
    config, law = recipe.model, recipe.model.law
    if step >= recipe.curriculum or law.task == "tree":
        return config.n_dims, law.n_examples
    dims = min(config.n_dims, 2 + int((config.n_dims - 1) * step / recipe.curriculum))
    points = math.ceil((2 * dims + 1) / 10) * 10  # few lengths: a compiled model compiles few times
    return dims, min(points, law.n_examples)


def draw(
    recipe: Recipe, step: int, batch: int, generator: torch.Generator
) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P"]]:
    """Training prompts of this stage of the curriculum: `sample_prompts` of the training law.

    With d of D dimensions active, labels are scaled by sqrt(D / d), so that y keeps its variance.
    """
    law: PromptLaw = training_prompt_law(recipe.model)
    dims, n_points = stage(recipe, step)
    if law.task == "decision tree" and step < recipe.curriculum:
        grown = 1 + int(law.tree_depth * step / recipe.curriculum)
        law = replace(law, tree_depth=min(law.tree_depth, grown))
    prompts = sample_prompts(law, batch, n_points, generator, dtype=torch.float32, active_dims=dims)
    return prompts.xs, prompts.ys * math.sqrt(law.n_dims / dims)


def loss_weights(recipe: Recipe, step: int) -> Float[Tensor, " P"]:
    """1 / (best possible error at that length + delta), mean 1; the best is that of least squares.

    Share of y's variance left after i pairs in d dimensions: the mean direction (a share s of it)
    is known after one pair, each further pair takes one dimension of the rest.
    """
    dims, n_points = stage(recipe, step)
    if not recipe.weighted:
        return torch.ones(n_points)
    shared = recipe.model.law.mean**2 / (1 + recipe.model.law.mean**2)
    seen = torch.arange(n_points, dtype=torch.float32)
    if shared:
        best = (1 - shared) * (1 - (seen - 1) / max(1, dims - 1))
        best[0] = 1.0
    else:
        best = 1 - seen / dims
    first, last = recipe.delta
    delta = first * (last / first) ** (step / recipe.steps)
    weights = 1 / (best.clamp(min=0) + delta)
    return weights / weights.mean()
