"""Train an `InductionTransformer` and keep it at steps on a log scale: minutes on one core.

    python -m models.pretrain_induction induction-2
    python -m models.pretrain_induction induction-2 --threads 1

Killed and begun again it goes on: the state lies in runs/NAME/ (safetensors), every batch comes
from a generator seeded by (seed, step). The result goes to models/checkpoints/NAME/.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from core.bigrams import TriggerLaw, least_losses, repeated_triggers, sample
from models import zoo
from models.config import InductionConfig
from models.folder import write_folder
from models.induction_transformer import FROZEN, LEARNT, InductionTransformer, probes

ROOT = Path(__file__).resolve().parent.parent
STATE = "state.safetensors"
HELD_OUT = 512  # prompts of the rows of a card
HELD_OUT_SEED = 2**40


def log_steps(last: int, count: int) -> tuple[int, ...]:
    """0, then `count - 1` whole steps in nearly equal factors from 50 to `last`."""
    raw = np.geomspace(min(50, last), last, count - 1)
    return (0, *sorted({round(float(step)) for step in raw}))


@dataclass(frozen=True)
class InductionRecipe:
    """All that decides the weights, besides the machine's arithmetic."""

    model: InductionConfig
    batch: int = 64
    seed: int = 0
    lr: float = 3e-3  # Adam, linear warm-up over 50 steps, cosine to a tenth
    clip: float = 1.0

    @property
    def last(self) -> int:
        return self.model.steps[-1]


RECIPES = {
    "induction-2": InductionRecipe(
        InductionConfig(
            n_embd=128,
            n_positions=64,
            steps=log_steps(3000, 18),
            law=TriggerLaw(triggers="jkqvwxyz", odds=10.0),
        )
    ),
}


def batch_of(recipe: InductionRecipe, n_prompts: int, seed: int) -> np.ndarray:
    """Prompts of one letter more than there are positions: the last is only a target."""
    rng = np.random.default_rng((recipe.seed, seed))
    return sample(recipe.model.law, n_prompts, recipe.model.n_positions + 1, rng)[0]


def losses(model: InductionTransformer, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Loss in nats and whether the guess is right, at every position `(B, T)`."""
    logits = model(tokens[:, :-1])[0]
    targets = tokens[:, 1:]
    loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
    return loss, logits.argmax(-1) == targets


@torch.no_grad()
def measure(recipe: InductionRecipe, model: InductionTransformer) -> dict[str, float]:
    """A row of the card, on prompts that training never draws.

    `repeated`: accuracy on the letter after a trigger that has stood before; `first`: after one
    that has not, where chance is the best anyone can do.
    """
    tokens, law = batch_of(recipe, HELD_OUT, HELD_OUT_SEED), recipe.model.law
    loss, right = losses(model, torch.from_numpy(tokens))
    asked = tokens[:, :-1]
    trigger = np.isin(asked, law.trigger_ids)
    again = repeated_triggers(asked, law)
    where = {"repeated": again, "first": trigger & ~again, "others": ~trigger}
    row = {"loss": float(loss.mean()), "least_loss": float(least_losses(asked, law).mean())}
    row |= {name: float(right[torch.from_numpy(at)].float().mean()) for name, at in where.items()}
    return {k: round(v, 5) for k, v in (row | probes(model, law)).items()}


def train(
    recipe: InductionRecipe, state: Path | None = None, save_every: int = 500
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors of all snapshots and the card. With `state`, a file to go on from and to save to."""
    generator = torch.Generator().manual_seed(recipe.seed)
    model = InductionTransformer(recipe.model.n_embd, recipe.model.n_positions, generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.lr, betas=(0.9, 0.98))
    step, seconds = 0, 0.0
    curve: list[dict[str, float]] = []
    kept: dict[str, list[Tensor]] = {name: [] for name in LEARNT}
    if state is not None and state.exists():
        step, seconds, curve, kept = _restore(state, recipe, model, optimiser)
    begun = time.monotonic() - seconds
    while True:
        if step in recipe.model.steps and step not in [row["step"] for row in curve]:
            for name in LEARNT:
                kept[name].append(getattr(model, name).detach().clone())
            seconds = time.monotonic() - begun
            curve.append({"step": step, "seconds": round(seconds, 1), **measure(recipe, model)})
            print(json.dumps(curve[-1]), flush=True)
        if step == recipe.last:
            break
        if state is not None and step and step % save_every == 0:
            _save(state, recipe, model, optimiser, step, time.monotonic() - begun, curve, kept)
        rate = min(1.0, (step + 1) / 50) * (0.55 + 0.45 * math.cos(math.pi * step / recipe.last))
        optimiser.param_groups[0]["lr"] = recipe.lr * rate
        loss = losses(model, torch.from_numpy(batch_of(recipe, recipe.batch, step)))[0].mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimiser.step()
        step += 1
    tensors = {name: getattr(model, name) for name in FROZEN}
    tensors |= {name: torch.stack(kept[name]) for name in LEARNT}
    law = recipe.model.law
    card = {
        "kind": "induction_transformer",
        "law": asdict(law),
        "steps": recipe.last,
        "seconds": round(seconds),
        "machine": f"{platform.machine()} cpu, {torch.get_num_threads()} thread(s)",
        "recipe": asdict(recipe),
        "chance": round(1 / len(law.output_ids), 5),
        "curve": curve,
        "held_out": {"prompts": HELD_OUT, **{k: v for k, v in curve[-1].items() if k != "seconds"}},
        "versions": {"torch": torch.__version__},
    }
    return tensors, card


def _save(
    path: Path,
    recipe: InductionRecipe,
    model: InductionTransformer,
    optimiser: torch.optim.Adam,
    step: int,
    seconds: float,
    curve: list[dict[str, float]],
    kept: dict[str, list[Tensor]],
) -> None:
    tensors = {f"model.{k}": v.detach() for k, v in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        moments = optimiser.state[parameter]
        tensors |= {f"adam.{name}.{k}": moments[k] for k in ("exp_avg", "exp_avg_sq")}
    tensors |= {f"kept.{name}": torch.stack(parts) for name, parts in kept.items()}
    noted = {"recipe": repr(recipe), "step": step, "seconds": seconds, "curve": curve}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, metadata={"state": json.dumps(noted)})
    partial.replace(path)


def _restore(
    path: Path,
    recipe: InductionRecipe,
    model: InductionTransformer,
    optimiser: torch.optim.Adam,
) -> tuple[int, float, list[dict[str, float]], dict[str, list[Tensor]]]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        noted = json.loads(file.metadata()["state"])
    if noted["recipe"] != repr(recipe):
        raise ValueError(f"{path} is of another recipe; give --fresh or move it away")
    tensors = load_file(path)
    model.load_state_dict({k[6:]: v for k, v in tensors.items() if k.startswith("model.")})
    for name, parameter in model.named_parameters():
        moments = {k: tensors[f"adam.{name}.{k}"] for k in ("exp_avg", "exp_avg_sq")}
        optimiser.state[parameter] = {"step": torch.tensor(float(noted["step"])), **moments}
    kept = {name: list(tensors[f"kept.{name}"]) for name in LEARNT}
    return noted["step"], noted["seconds"], noted["curve"], kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--checkpoints", type=Path, default=zoo.CHECKPOINTS)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's own choice)")
    parser.add_argument("--steps", type=int, help="train this long instead, for a try")
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    recipe, state = RECIPES[args.name], args.runs / args.name / STATE
    if args.steps:
        steps = log_steps(args.steps, len(recipe.model.steps))
        recipe = replace(recipe, model=replace(recipe.model, steps=steps))
    if args.fresh:
        state.unlink(missing_ok=True)
    tensors, card = train(recipe, state)
    write_folder(args.checkpoints / args.name, recipe.model, tensors, {"name": args.name, **card})
    zoo.register(args.name, args.checkpoints)


if __name__ == "__main__":
    main()
