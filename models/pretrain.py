"""Train an in-context regressor from a recipe: resumable, seeded, on CPU, one GPU, or under
torchrun.

    python -m models.pretrain linear-d20                  # a recipe of RECIPES, resumed if it was
    begun python -m models.pretrain linear-d20 --minutes 30     # stop then, resumable; export what
    is there torchrun --nproc-per-node 2 -m models.pretrain linear-d20

State lives in runs/NAME/ (safetensors and JSON, nothing pickled) and the result in
models/checkpoints/NAME/. Every batch is drawn from a generator seeded by (seed, step) and every
schedule is a function of the step, so a killed and resumed training ends with the same bits as one
that ran through (on the CPU, same machine and thread count).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.config import RegressorConfig, TrainingLaw
from models.gpt2_regressor import GPT2Regressor
from models.optim import Muon, split_parameters

ROOT = Path(__file__).resolve().parent.parent
CHECKPOINTS = ROOT / "models" / "checkpoints"


@dataclass(frozen=True)
class Recipe:
    """All that decides the weights, besides the machine's arithmetic."""

    model: RegressorConfig
    steps: int
    batch: int = 64
    seed: int = 0
    muon_lr: float = 0.02  # for the matrices inside the blocks
    adam_lr: float = 2e-3  # for embeddings, biases, norms, read-in and read-out
    warmup: int = 200
    decay_share: float = 0.7  # linear decay to 0 over this last share of the steps
    clip: float = 1.0  # on the gradient norm of the AdamW part; Muon's update has a fixed size
    curriculum: int = 2000  # steps over which the active dimensions (or the depth) grow; 0: none
    weighted: bool = True  # loss weighted by 1 / (best possible error at that length + delta)
    delta: tuple[float, float] = (0.05, 0.01)  # first and last delta, geometric in between
    start_from: str = ""  # name of a checkpoint whose weights are the start


def _linear(n_dims: int, **law: Any) -> RegressorConfig:
    law = {"n_examples": 50, **law}
    mean = law.get("mean", -2.0)
    return RegressorConfig(
        n_dims=n_dims,
        target_scale=round(math.sqrt(n_dims * (1 + mean**2)), 3),  # standard deviation of y
        law=TrainingLaw(**law),
    )


RECIPES: dict[str, Recipe] = {
    "linear-d5": Recipe(_linear(5, n_examples=20), steps=2500, curriculum=500),
    "linear-d20": Recipe(_linear(20), steps=7000),
    "linear-d20-offset": Recipe(
        _linear(20, positions="offset"),
        steps=1200,
        curriculum=0,
        muon_lr=0.008,
        adam_lr=8e-4,
        delta=(0.01, 0.01),
        start_from="linear-d20",
    ),
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
    "relu-d10": Recipe(
        RegressorConfig(n_dims=10, target_scale=1.0, law=TrainingLaw("relu", mean=0.0)),
        steps=6000,
        curriculum=800,
        weighted=False,
    ),
    "tree-d10": Recipe(
        RegressorConfig(
            n_dims=10,
            n_layer=6,
            n_embd=128,
            n_head=8,
            target_scale=1.0,
            law=TrainingLaw("tree", mean=0.0),
        ),
        steps=5000,
        muon_lr=0.01,
        curriculum=2500,
        weighted=False,
    ),
}


def schedule(recipe: Recipe, step: int) -> float:
    """Learning-rate factor: linear warm-up, constant, linear decay to 0 over the last
    `decay_share`."""
    up = min(1.0, (step + 1) / max(1, recipe.warmup))
    decay = recipe.decay_share * recipe.steps
    return up * min(1.0, (recipe.steps - step) / max(1.0, decay))


def stage(recipe: Recipe, step: int) -> tuple[int, int]:
    """(active dimensions, examples) at a step; trees grow in depth instead and keep all
    dimensions."""
    config, law = recipe.model, recipe.model.law
    if step >= recipe.curriculum or law.task == "tree":
        return config.n_dims, law.n_examples
    dims = min(config.n_dims, 2 + int((config.n_dims - 1) * step / recipe.curriculum))
    examples = (
        math.ceil((2 * dims + 1) / 10) * 10
    )  # few lengths: a compiled model compiles few times
    return dims, min(examples, law.n_examples)


def draw(
    recipe: Recipe, step: int, batch: int, generator: torch.Generator
) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P"]]:
    """A batch of training prompts at this stage of the curriculum, in the units of the full
    task."""
    config, law = recipe.model, recipe.model.law
    dims, n = stage(recipe, step)
    xs = torch.randn(batch, n, config.n_dims, generator=generator)
    mean = torch.full((batch, 1, 1), law.mean)
    if law.mean_spread:
        mean = mean * (1 + law.mean_spread * torch.randn(batch, 1, 1, generator=generator))
    if law.mixed_prompts:
        share = torch.rand(batch, 1, 1, generator=generator)
        share *= torch.rand(batch, 1, 1, generator=generator) < law.mixed_prompts
        flipped = torch.rand(batch, n, 1, generator=generator) < share
        mean = mean * (1 - 2 * flipped.float())
    xs = xs + mean
    xs[..., dims:] = 0.0
    if law.task == "linear":
        weights = torch.randn(batch, config.n_dims, 1, generator=generator)
        return xs, (xs @ weights)[..., 0] * math.sqrt(config.n_dims / dims)
    if law.task == "relu":
        hidden = 100
        inner = torch.randn(batch, config.n_dims, hidden, generator=generator)
        outer = torch.randn(batch, hidden, 1, generator=generator)
        ys = (torch.relu(xs @ inner) @ outer)[..., 0]
        # y of one prompt has variance E relu(z)^2 summed: dims / 2 per unit; to variance 1
        return xs, ys / math.sqrt(hidden * dims / 2)
    progress = min(1.0, step / recipe.curriculum) if recipe.curriculum else 1.0
    depth = min(4, 1 + int(4 * progress))
    return xs, tree_values(xs, depth, generator)


def tree_values(
    xs: Float[Tensor, "B P D"], depth: int, generator: torch.Generator
) -> Float[Tensor, "B P"]:
    """Values of one random tree per prompt: a node tests the sign of one coordinate, leaves N(0,
    1)."""
    batch, n, n_dims = xs.shape
    coordinate = torch.randint(n_dims, (batch, 2**depth - 1), generator=generator)
    leaves = torch.randn(batch, 2**depth, generator=generator)
    node = torch.zeros(batch, n, dtype=torch.long)
    for _ in range(depth):
        tested = coordinate.gather(1, node)  # (B, P)
        right = xs.gather(2, tested[..., None])[..., 0] > 0
        node = 2 * node + 1 + right.long()
    return leaves.gather(1, node - (2**depth - 1))


def loss_weights(recipe: Recipe, step: int) -> Float[Tensor, " P"]:
    """1 / (best possible error at that length + delta), mean 1; the best error is that of least
    squares.

    Variance of y left after i examples in d dimensions, as a share: the mean direction (share s of
    y's variance) is known after one example, each further example takes one dimension of the rest.
    """
    dims, n = stage(recipe, step)
    if not recipe.weighted:
        return torch.ones(n)
    shared = recipe.model.law.mean**2 / (1 + recipe.model.law.mean**2)
    seen = torch.arange(n, dtype=torch.float32)
    if shared:
        best = (1 - shared) * (1 - (seen - 1) / max(1, dims - 1))
        best[0] = 1.0
    else:
        best = 1 - seen / dims
    first, last = recipe.delta
    delta = first * (last / first) ** (step / recipe.steps)
    weights = 1 / (best.clamp(min=0) + delta)
    return weights / weights.mean()


@torch.no_grad()
def centre_read_in(model: GPT2Regressor) -> None:
    """Read-in bias that takes the mean input to 0, so that the shared mean does not drown the
    rest."""
    weight = model.read_in.weight
    model.read_in.bias.copy_(-weight.sum(dim=1) * model.config.law.mean)


def held_out(
    recipe: Recipe, n_prompts: int = 512
) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P"]]:
    """Prompts of the full task that training never draws (its generator seeds are all >= 0)."""
    return draw(recipe, recipe.steps, n_prompts, torch.Generator().manual_seed(-1))


@torch.no_grad()
def evaluate(
    model: GPT2Regressor, xs: Float[Tensor, "B P D"], ys: Float[Tensor, "B P"]
) -> Float[Tensor, " P"]:
    """Pooled R^2 at each position (equations.md sec. 4)."""
    device = next(model.parameters()).device
    preds = torch.cat([model(x.to(device), y.to(device)).cpu() for x, y in _chunks(xs, ys, 64)])
    return 1 - (ys - preds).square().sum(0) / (ys - ys.mean(0)).square().sum(0)


def _chunks(xs: Tensor, ys: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(xs.split(size), ys.split(size), strict=True)


@dataclass
class Trainer:
    """Model, optimisers and step of one training; `save` and `restore` keep every bit of them."""

    recipe: Recipe
    device: str = "cpu"
    step: int = 0
    seconds: float = 0.0
    log: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.manual_seed(self.recipe.seed)  # initial weights; the only use of the global generator
        self.model = GPT2Regressor(self.recipe.model)
        if self.recipe.start_from:
            weights = load_file(CHECKPOINTS / self.recipe.start_from / "model.safetensors")
            self.model.load_state_dict(weights)
        else:
            centre_read_in(self.model)
        self.model.to(self.device)
        inside, self.rest = split_parameters(self.model)
        self.muon = Muon(inside, lr=self.recipe.muon_lr)
        self.adam = torch.optim.AdamW(
            list(self.rest.values()), lr=self.recipe.adam_lr, betas=(0.9, 0.95), weight_decay=0.0
        )

    def train_step(self, rank: int = 0, world: int = 1) -> float:
        """One step; under torchrun each rank takes its rows of the same batch, gradients are
        averaged."""
        recipe = self.recipe
        generator = torch.Generator().manual_seed(recipe.seed * 10_000_019 + self.step)
        xs, ys = draw(recipe, self.step, recipe.batch, generator)
        offset = torch.zeros((), dtype=torch.long)
        if recipe.model.law.positions == "offset":
            room = recipe.model.n_positions - 2 * xs.shape[1]
            offset = torch.randint(room + 1, (), generator=generator)
        rows = slice(rank, None, world)
        xs, ys, offset = xs[rows].to(self.device), ys[rows].to(self.device), offset.to(self.device)
        weights = loss_weights(recipe, self.step).to(self.device)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            preds = self.model(xs, ys, offset=offset)
        loss = ((preds - ys) / recipe.model.target_scale).square().mul(weights).mean()
        self.adam.zero_grad()
        for param in self.muon.params.values():
            param.grad = None
        loss.backward()
        if world > 1:
            _average_gradients([*self.muon.params.values(), *self.rest.values()], world)
        torch.nn.utils.clip_grad_norm_(self.rest.values(), recipe.clip)
        factor = schedule(recipe, self.step)
        self.muon.step(factor)
        for group in self.adam.param_groups:
            group["lr"] = recipe.adam_lr * factor
        self.adam.step()
        self.step += 1
        return float(loss.detach())

    def save(self, folder: Path) -> None:
        """Everything needed to go on, replaced atomically: a kill leaves the old state or the new
        one."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"muon.{k}": v for k, v in self.muon.buffers.items()}
        for name, param in self.rest.items():
            for key, value in self.adam.state.get(param, {}).items():
                tensors[f"adam.{name}.{key}"] = value
        meta = {"step": self.step, "seconds": self.seconds, "log": self.log}
        meta["recipe"] = asdict(self.recipe)
        # One file holds both, so that weights and step cannot come from different moments.
        partial = folder / "state.partial"
        cpu = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
        save_file(cpu, partial, metadata={"training": json.dumps(meta)})
        partial.replace(folder / "state.safetensors")

    def restore(self, folder: Path) -> None:
        """Take up the state that `save` left. Raises ValueError if it belongs to another recipe."""
        from safetensors import safe_open

        path = folder / "state.safetensors"
        with safe_open(path, framework="pt") as file:
            meta = json.loads(file.metadata()["training"])
        if meta["recipe"] != json.loads(json.dumps(asdict(self.recipe))):
            raise ValueError(
                f"{path} was begun with another recipe; finish it with that one, or start over with --fresh"
            )
        tensors = load_file(path)
        own = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(own)
        for name in self.muon.buffers:
            self.muon.buffers[name].copy_(tensors[f"muon.{name}"])
        for name, param in self.rest.items():
            state = {
                key: tensors[f"adam.{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")
            }
            moved = {k: v if k == "step" else v.to(self.device) for k, v in state.items()}
            self.adam.state[param] = moved
        self.step, self.seconds, self.log = meta["step"], meta["seconds"], meta["log"]


def _average_gradients(params: list[torch.nn.Parameter], world: int) -> None:
    grads = [p.grad for p in params if p.grad is not None]
    flat = torch.cat([g.flatten() for g in grads])
    torch.distributed.all_reduce(flat)
    flat /= world
    start = 0
    for grad in grads:
        grad.copy_(flat[start : start + grad.numel()].view_as(grad))
        start += grad.numel()


def export(trainer: Trainer, folder: Path, name: str) -> dict[str, Any]:
    """Write config.json, model.safetensors and card.json of a checkpoint; returns the card."""
    from sklearn import __version__ as sklearn_version
    from transformers import __version__ as transformers_version

    recipe = trainer.recipe
    xs, ys = held_out(recipe)
    r2 = evaluate(trainer.model, xs, ys)
    n = recipe.model.law.n_examples
    positions = [p for p in (5, 10, 15, 20, 30, 45, 49) if p < n]
    card = {
        "name": name,
        "law": asdict(recipe.model.law),
        "steps": trainer.step,
        "of_steps": recipe.steps,
        "seconds": round(trainer.seconds),
        "machine": f"{platform.machine()} {trainer.device}, {torch.get_num_threads()} thread(s)",
        "recipe": asdict(recipe),
        "curve": trainer.log,
        "held_out": {"prompts": len(xs), "r2": {str(p): round(float(r2[p]), 5) for p in positions}},
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers_version,
            "scikit-learn": sklearn_version,
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    weights = {k: v.detach().cpu().contiguous() for k, v in trainer.model.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(recipe.model.to_json(), indent=1) + "\n")
    (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n")
    return card


def train(
    name: str,
    recipe: Recipe,
    runs: Path,
    checkpoints: Path,
    minutes: float = math.inf,
    device: str = "cpu",
    eval_every: int = 250,
    save_every: int = 100,
    quiet: bool = False,
) -> Trainer:
    """Train to the recipe's end or until `minutes` of this call have passed, then export."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    trainer = Trainer(recipe, device)
    folder = runs / name
    if (folder / "state.safetensors").exists():
        trainer.restore(folder)
    xs, ys = held_out(recipe, 256)
    begun = last = time.monotonic()
    loss = math.nan
    while trainer.step < recipe.steps and time.monotonic() - begun < 60 * minutes:
        loss = trainer.train_step(rank, world)
        now = time.monotonic()
        trainer.seconds += now - last
        last = now
        if trainer.step % eval_every == 0 or trainer.step == recipe.steps:
            r2 = evaluate(trainer.model, xs, ys)
            n = recipe.model.law.n_examples
            row = {"step": trainer.step, "seconds": round(trainer.seconds), "loss": loss}
            row |= {f"r2_{p}": round(float(r2[p]), 4) for p in (10, 15, 30, 45) if p < n}
            trainer.log.append(row)
            if rank == 0 and not quiet:
                left = (recipe.steps - trainer.step) * trainer.seconds / trainer.step / 60
                print(json.dumps(row), f"{left:.0f} min left", flush=True)
            last = time.monotonic()  # evaluation is not training time
        if rank == 0 and trainer.step % save_every == 0:
            trainer.save(folder)
    if rank == 0:
        trainer.save(folder)
        export(trainer, checkpoints / name, name)
    return trainer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this long")
    parser.add_argument("--steps", type=int, help="length of the training instead of the recipe's")
    parser.add_argument("--seed", type=int, help="seed instead of the recipe's")
    parser.add_argument("--start-from", help="checkpoint to start from instead of the recipe's")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's own choice)")
    parser.add_argument("--fresh", action="store_true", help="forget an earlier begun state")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    parser.add_argument("--checkpoints", type=Path, default=CHECKPOINTS)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    recipe = RECIPES[args.name]
    given = {"steps": args.steps, "seed": args.seed, "start_from": args.start_from}
    recipe = replace(recipe, **{k: v for k, v in given.items() if v is not None})
    if "WORLD_SIZE" in os.environ:
        torch.distributed.init_process_group("nccl" if args.device == "cuda" else "gloo")
        if args.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if args.fresh:
        (args.runs / args.name / "state.safetensors").unlink(missing_ok=True)
    train(args.name, recipe, args.runs, args.checkpoints, args.minutes, args.device)


if __name__ == "__main__":
    main()
