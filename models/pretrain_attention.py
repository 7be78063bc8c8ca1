"""Train a `OneLayerAttention`: minutes on one core, from scratch each time, seeded.

    python -m models.pretrain_attention attention-1        # unit-norm keys
    python -m models.pretrain_attention attention-1-raw    # raw keys, the twin

The result goes to models/checkpoints/NAME/. The card states the pooled R^2 (equations.md sec. 4)
beside that of min-norm least squares, which is the best possible, on the same held-out prompts.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from core.predictors import LeastSquares
from core.prompts import PromptLaw, Prompts, sample_prompts
from models.config import TrainingLaw
from models.one_layer_attention import OneLayerAttention, OneLayerConfig

CHECKPOINTS = Path(__file__).resolve().parent / "checkpoints"


@dataclass(frozen=True)
class AttentionRecipe:
    """All that decides the weights, besides the machine's arithmetic."""

    model: OneLayerConfig
    steps: int = 3000  # the curve is flat from 1000 on
    batch: int = 256
    seed: int = 0
    lr: float = 5e-3  # Adam, linear warm-up over 100 steps, cosine to 0
    clip: float = 1.0


RECIPES = {
    "attention-1": AttentionRecipe(OneLayerConfig(normalised=True, law=TrainingLaw())),
    "attention-1-raw": AttentionRecipe(OneLayerConfig(normalised=False, law=TrainingLaw())),
}


def prompts_of(config: OneLayerConfig, n_prompts: int, generator: torch.Generator) -> Prompts:
    """Prompts of the config's law, x ~ N(mean, I), y = beta . x, of `n_examples` + 1 points."""
    law = PromptLaw(n_dims=config.n_dims, mean1=config.law.mean)
    return sample_prompts(law, n_prompts, config.law.n_examples + 1, generator, dtype=torch.float32)


def pooled_r2(preds: Float[Tensor, "B P"], targets: Float[Tensor, "B P"]) -> Float[Tensor, " P"]:
    """R^2 pooled over prompts at each position."""
    residual = (targets - preds).square().sum(0)
    return 1 - residual / (targets - targets.mean(0)).square().sum(0)


@torch.no_grad()
def centre(model: OneLayerAttention) -> None:
    """Biases that take the mean input to 0, so that keys start as directions from the mean."""
    for layer in (model.key, model.query):
        layer.bias.copy_(-layer.weight.sum(1) * model.config.law.mean)


def train(
    recipe: AttentionRecipe, log_every: int = 500
) -> tuple[OneLayerAttention, dict[str, Any]]:
    """The trained model and its card. MSE over all positions that have seen an example."""
    torch.manual_seed(recipe.seed)  # initial weights; the only use of the global generator
    model = OneLayerAttention(recipe.model)
    centre(model)
    held_out = prompts_of(recipe.model, 2048, torch.Generator().manual_seed(2**40))
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.lr, betas=(0.9, 0.98))
    curve, begun = [], time.monotonic()
    shown = [p for p in (5, 10, 15, 20, 30, 45, 50) if p <= recipe.model.law.n_examples]
    for step in range(1, recipe.steps + 1):
        rate = min(1.0, step / 100) * 0.5 * (1 + math.cos(math.pi * step / recipe.steps))
        optimiser.param_groups[0]["lr"] = recipe.lr * rate
        generator = torch.Generator().manual_seed(recipe.seed * 10_000_019 + step)
        batch = prompts_of(recipe.model, recipe.batch, generator)
        errors = (model(batch.xs, batch.ys) - batch.targets)[:, 1:] / recipe.model.target_scale
        loss = errors.square().mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimiser.step()
        if step % log_every == 0 or step == recipe.steps:
            with torch.no_grad():
                r2 = pooled_r2(model(held_out.xs, held_out.ys), held_out.targets)
            row: dict[str, float] = {"step": step, "seconds": round(time.monotonic() - begun)}
            row |= {
                "loss": round(float(loss.detach()), 6),
                "beta": round(float(model.beta.detach()), 4),
            }
            row |= {f"r2_{p}": round(float(r2[p]), 4) for p in shown}
            curve.append(row)
            print(json.dumps(row), flush=True)
    seconds = time.monotonic() - begun
    best = pooled_r2(LeastSquares()(held_out), held_out.targets.double())
    card = {
        "kind": "one_layer_attention",
        "law": asdict(recipe.model.law),
        "steps": recipe.steps,
        "seconds": round(seconds),
        "machine": f"{platform.machine()} cpu, {torch.get_num_threads()} thread(s)",
        "recipe": asdict(recipe),
        "curve": curve,
        "no_examples": "the prediction is 0: an empty softmax",
        "held_out": {
            "prompts": held_out.n_prompts,
            "r2": {str(p): round(float(r2[p]), 5) for p in shown},
            "r2_least_squares": {str(p): round(float(best[p]), 5) for p in shown},
        },
        "versions": {"torch": torch.__version__},
    }
    return model.eval(), card


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--checkpoints", type=Path, default=CHECKPOINTS)
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's own choice)")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    model, card = train(RECIPES[args.name])
    folder = args.checkpoints / args.name
    model.save(folder)
    (folder / "card.json").write_text(json.dumps({"name": args.name, **card}, indent=1) + "\n")


if __name__ == "__main__":
    main()
