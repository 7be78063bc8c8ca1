"""Train an in-context regressor from a recipe: resumable, seeded, on CPU, one GPU, or torchrun.

    python -m models.pretrain linear-d20                  # begun before? then it goes on
    python -m models.pretrain linear-d20 --minutes 30     # stop then, resumable; export it as it is
    python -m models.pretrain linear-d20 --minutes 30 --fit-schedule   # all of it in 30 minutes
    torchrun --nproc-per-node 2 -m models.pretrain linear-d20

State lives in runs/NAME/ (safetensors and JSON, nothing pickled) and the result in
models/checkpoints/NAME/. Every batch is drawn from a generator seeded by (seed, step) and every
schedule is a function of the step, so a killed and resumed training ends with the same bits as one
that ran through (on the CPU, same machine and thread count).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from core.predictors import BASELINES, DecisionTree
from core.prompts import Prompts
from models import zoo
from models.folder import write_folder
from models.gpt2_regressor import GPT2Regressor
from models.law import training_prompt_law
from models.optim import Muon, split_parameters
from models.predictor import TransformerPredictor
from models.recipes import RECIPES, Recipe, draw, loss_weights, schedule

ROOT = Path(__file__).resolve().parent.parent
STATE = "state.safetensors"
SHOWN = (5, 10, 15, 20, 30, 45, 49)  # numbers of examples that rows and cards report

# Baselines of `core.predictors` that a card stands beside; without label noise ridge at the true
# noise is least squares.
REFERENCES = {
    "linear": ("least squares",),
    "sparse": ("least squares",),
    "relu": ("least squares", "nearest neighbours"),
    "tree": ("nearest neighbours", "decision tree"),
}


# --- Evaluation ----------------------------------------------------------------------------------


def held_out(recipe: Recipe, n_prompts: int) -> Prompts:
    """Prompts of the full task that training never draws (its generator seeds are all >= 0)."""
    xs, ys = draw(recipe, recipe.steps, n_prompts, torch.Generator().manual_seed(-1))
    return Prompts(xs, ys, xs, ys)


def pooled_r2(preds: Float[Tensor, "B P"], targets: Float[Tensor, "B P"]) -> Float[Tensor, " P"]:
    """R^2 pooled over prompts at each position (equations.md sec. 4)."""
    residual = (targets - preds).square().sum(0)
    return 1 - residual / (targets - targets.mean(0)).square().sum(0)


def reference_r2(recipe: Recipe, prompts: Prompts) -> dict[str, dict[int, float]]:
    """Pooled R^2 of the fitting baselines at the shown lengths."""
    law = training_prompt_law(recipe.model)
    lengths = tuple(p for p in SHOWN if p < prompts.n_points)
    result = {}
    for name in REFERENCES[recipe.model.law.task]:
        fitted = BASELINES[name](law)
        if isinstance(fitted, DecisionTree):
            fitted = replace(fitted, lengths=lengths)
        result[name] = _shown(pooled_r2(fitted(prompts), prompts.targets.double()))
    return result


def _shown(r2: Float[Tensor, " P"]) -> dict[int, float]:
    return {p: round(float(r2[p]), 5) for p in SHOWN if p < len(r2)}


@torch.no_grad()
def centre_read_in(model: GPT2Regressor) -> None:
    """Read-in bias that takes the mean input to 0: the shared mean must not drown the rest."""
    weight = model.read_in.weight
    model.read_in.bias.copy_(-weight.sum(dim=1) * model.config.law.mean)


# --- Training ------------------------------------------------------------------------------------


class DivergedError(RuntimeError):
    """The loss is no number any more."""


@dataclass
class Trainer:
    """Model, optimisers and step of one training; `save` and `restore` keep every bit of them.

    `compile_with` names a `torch.compile` backend ("": none). The compiled twin shares the weights,
    so states do not depend on it; its kernels round differently.
    """

    recipe: Recipe
    device: str = "cpu"
    compile_with: str = ""
    checkpoints: Path = zoo.CHECKPOINTS
    step: int = 0
    seconds: float = 0.0
    log: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        recipe = self.recipe
        torch.manual_seed(recipe.seed)  # initial weights; the only use of the global generator
        self.model = GPT2Regressor(recipe.model)
        if recipe.start_from:
            start = zoo.load(recipe.start_from, self.checkpoints)
            self.model.load_state_dict(start.state_dict())
        else:
            centre_read_in(self.model)
        self.model.to(self.device)
        self.forward: Callable[..., Tensor] = self.model
        if self.compile_with:
            self.forward = torch.compile(self.model, dynamic=False, backend=self.compile_with)
        inside, self.rest = split_parameters(self.model)
        if recipe.optimizer == "adamw":
            self.rest, inside = self.rest | inside, {}
        self.muon = Muon(inside, lr=recipe.muon_lr)
        self.adam = torch.optim.AdamW(
            list(self.rest.values()), lr=recipe.adam_lr, betas=(0.9, 0.95), weight_decay=0.0
        )

    def train_step(self, rank: int = 0, world: int = 1) -> float:
        """One step; its loss. Each of `world` ranks takes its rows of the same batch.

        Raises DivergedError when the loss is not finite; the weights are then those of before.
        """
        recipe = self.recipe
        generator = torch.Generator().manual_seed(recipe.seed * 10_000_019 + self.step)
        xs, ys = draw(recipe, self.step, recipe.batch, generator)
        offset = torch.zeros((), dtype=torch.long)
        if recipe.model.law.positions == "offset":
            room = recipe.model.n_positions - 2 * xs.shape[1]
            offset = torch.randint(room + 1, (), generator=generator)
        rows = slice(rank, None, world)
        like = self.model.read_in.weight
        xs, ys, offset = xs[rows].to(like), ys[rows].to(like), offset.to(self.device)
        weights = loss_weights(recipe, self.step).to(like)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            preds = self.forward(xs, ys, offset=offset)
        errors = (preds - ys) / recipe.model.target_scale
        loss = errors.square().mul(weights).mean()
        self.adam.zero_grad()
        for param in self.muon.params.values():
            param.grad = None
        loss.backward()
        total = loss.detach().clone()
        if world > 1:
            params = [*self.muon.params.values(), *self.rest.values()]
            _average([total, *(p.grad for p in params if p.grad is not None)], world)
        if not total.isfinite():
            raise DivergedError(
                f"the loss is {float(total)} at step {self.step}; lower muon_lr and adam_lr, or "
                "start from the last checkpoint with another seed"
            )
        torch.nn.utils.clip_grad_norm_(self.rest.values(), recipe.clip)
        factor = schedule(recipe, self.step)
        self.muon.step(factor)
        for group in self.adam.param_groups:
            group["lr"] = recipe.adam_lr * factor
        self.adam.step()
        self.step += 1
        return float(total)

    def save(self, folder: Path) -> None:
        """Everything needed to go on, replaced whole: a kill leaves the old or the new state."""
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
        partial.replace(folder / STATE)

    def restore(self, folder: Path) -> None:
        """Take up the state that `save` left. Raises ValueError if it is of another recipe."""
        path = folder / STATE
        meta = state_meta(folder)
        if Recipe.from_json(meta["recipe"]) != self.recipe:
            raise ValueError(
                f"{path} was begun with another recipe (steps, seed or sizes); finish it with that "
                "one, or start over with --fresh"
            )
        tensors = load_file(path)
        own = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(own)
        for name in self.muon.buffers:
            self.muon.buffers[name].copy_(tensors[f"muon.{name}"])
        for name, param in self.rest.items():
            keys = ("step", "exp_avg", "exp_avg_sq")
            state = {k: tensors[f"adam.{name}.{k}"] for k in keys if f"adam.{name}.{k}" in tensors}
            if state:  # AdamW keeps its step counter on the CPU
                moved = {k: v if k == "step" else v.to(self.device) for k, v in state.items()}
                self.adam.state[param] = moved
        self.step, self.seconds, self.log = meta["step"], meta["seconds"], meta["log"]


def state_meta(folder: Path) -> dict[str, Any]:
    """Step, seconds, log and recipe of a saved state."""
    with safe_open(folder / STATE, framework="pt") as file:
        return json.loads(file.metadata()["training"])


def _average(tensors: list[Tensor], world: int) -> None:
    """Mean over ranks, in place, in one message."""
    flat = torch.cat([t.flatten() for t in tensors])
    torch.distributed.all_reduce(flat)
    flat /= world
    start = 0
    for tensor in tensors:
        tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def seconds_per_step(recipe: Recipe, device: str, compile_with: str, n_steps: int = 8) -> float:
    """Median seconds of a step at the full length, on a throwaway copy that leaves no trace.

    All ranks of a distributed training must call it together.
    """
    rank, world = _rank_and_world()
    fresh = replace(recipe, start_from="", curriculum=0)
    trainer = Trainer(fresh, device, compile_with)
    spent = []
    for _ in range(n_steps + 2):
        begun = time.perf_counter()
        trainer.train_step(rank, world)
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent[2:])  # the first two compile and fill caches


def fitted_recipe(
    recipe: Recipe, minutes: float, device: str, compile_with: str, runs: Path, name: str
) -> Recipe:
    """The recipe with as many steps as fit into `minutes`, measured; a begun one keeps its own.

    The curriculum's shorter prompts make up for evaluation and saving. Raises ValueError when not
    even ten steps fit.
    """
    folder = runs / name
    if (folder / STATE).exists():
        begun = Recipe.from_json(state_meta(folder)["recipe"])
        if recipe.of_length(begun.steps) != begun:
            raise ValueError(
                f"{folder / STATE} was begun with another recipe; finish it with that one, or "
                "start over with --fresh"
            )
        return begun
    steps = torch.tensor(60 * minutes / seconds_per_step(recipe, device, compile_with))
    if _rank_and_world()[1] > 1:
        steps = steps.to(device)
        torch.distributed.broadcast(steps, src=0)
    if steps < 10:
        raise ValueError(f"{minutes:g} minutes hold {float(steps):.1f} steps; give more time")
    return recipe.of_length(int(steps))


def _rank_and_world() -> tuple[int, int]:
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def train(
    name: str,
    recipe: Recipe,
    runs: Path,
    checkpoints: Path,
    minutes: float = math.inf,
    device: str = "cpu",
    compile_with: str = "",
    eval_every: int = 250,
    save_every: int = 100,
    report: Callable[[str], None] | None = print,
    stop: Callable[[], bool] = lambda: False,
) -> Trainer:
    """Train to the recipe's end or until `minutes` of this call have passed, then export.

    Goes on from the state in `runs / name` if there is one. `report` gets a line at each evaluation
    and, on a terminal, the line of progress; None is silent. Once `stop()` is true the state is
    saved between two steps and nothing is exported.
    Under torchrun all ranks must call this; rank 0 saves, evaluates and exports.
    """
    rank, world = _rank_and_world()
    if recipe.batch % world:
        raise ValueError(
            f"batch ({recipe.batch}) must be a multiple of the number of processes ({world})"
        )
    trainer = Trainer(recipe, device, compile_with, checkpoints)
    folder = runs / name
    if (folder / STATE).exists():
        trainer.restore(folder)
    speak = report if report and rank == 0 else _silent
    prompts = held_out(recipe, 256)
    references = reference_r2(recipe, prompts) if rank == 0 else {}
    progress = Progress(name, recipe.steps, trainer.step, speak is print)
    begun = time.monotonic()
    try:
        while trainer.step < recipe.steps:
            over = stop() or time.monotonic() - begun >= 60 * minutes
            if _agreed(over, world, device):
                break
            start = time.monotonic()
            loss = trainer.train_step(rank, world)
            spent = time.monotonic() - start
            trainer.seconds += spent
            progress.update(trainer.step, loss, spent)
            due = trainer.step % eval_every == 0 or trainer.step == recipe.steps
            if due and rank == 0:
                row = evaluation_row(trainer, prompts, loss)
                trainer.log.append(row)
                progress.clear()
                speak(f"{json.dumps(row)} {_beside(references)} {progress.left()} left")
            if rank == 0 and trainer.step % save_every == 0:
                trainer.save(folder)
    finally:
        progress.clear()
    if rank == 0:
        trainer.save(folder)
        if stop():
            speak(f"stopped at step {trainer.step}; the same command goes on from there")
            return trainer
        export(trainer, checkpoints / name, name)
    return trainer


def _silent(text: str) -> None:
    pass


def _agreed(over: bool, world: int, device: str) -> bool:
    """Whether to end: rank 0 decides for all, or ranks would wait for one that has left."""
    if world == 1:
        return over
    flag = torch.tensor(float(over), device=device)
    torch.distributed.broadcast(flag, src=0)
    return bool(flag)


def evaluation_row(trainer: Trainer, prompts: Prompts, loss: float) -> dict[str, float]:
    """Step, seconds, loss and pooled R^2 at a few lengths."""
    r2 = _shown(pooled_r2(TransformerPredictor(trainer.model)(prompts), prompts.targets))
    row = {"step": trainer.step, "seconds": round(trainer.seconds), "loss": round(loss, 6)}
    return row | {f"r2_{p}": r2[p] for p in (10, 15, 30, 45) if p in r2}


def _beside(references: dict[str, dict[int, float]]) -> str:
    """The baselines at the lengths of a row: `least squares 0.78 0.94 1.00 1.00;`."""
    parts = []
    for name, r2 in references.items():
        numbers = " ".join(f"{r2[p]:.3f}" for p in (10, 15, 30, 45) if p in r2)
        parts.append(f"{name} {numbers};")
    return " ".join(parts)


@dataclass
class Progress:
    """One line that is rewritten on a terminal, with the time left from the last hundred steps."""

    name: str
    steps: int
    step: int
    live: bool
    pace: float = 0.0  # seconds a step, exponentially averaged over about a hundred steps
    shown: float = 0.0

    def update(self, step: int, loss: float, spent: float) -> None:
        self.step = step
        self.pace = spent if not self.pace else self.pace + 0.02 * (spent - self.pace)
        now = time.monotonic()
        if self.live and sys.stdout.isatty() and now - self.shown > 0.5:
            self.shown = now
            share = step / self.steps
            text = (
                f"{self.name} {step}/{self.steps} {share:4.0%} loss {loss:.4f} "
                f"{self.pace:.2f} s a step, {self.left()} left"
            )
            print(f"\r\033[K{text}", end="", flush=True)

    def left(self) -> str:
        seconds = (self.steps - self.step) * self.pace
        return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

    def clear(self) -> None:
        if self.live and sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)


# --- Export --------------------------------------------------------------------------------------


def export(trainer: Trainer, folder: Path, name: str, n_prompts: int = 512) -> dict[str, Any]:
    """Write the checkpoint folder and note it in the manifest; returns the card."""
    from sklearn import __version__ as sklearn_version
    from transformers import __version__ as transformers_version

    recipe = trainer.recipe
    prompts = held_out(recipe, n_prompts)
    r2 = _shown(pooled_r2(TransformerPredictor(trainer.model)(prompts), prompts.targets))
    card = {
        "name": name,
        "law": asdict(recipe.model.law),
        "steps": trainer.step,
        "of_steps": recipe.steps,
        "seconds": round(trainer.seconds),
        "machine": f"{platform.machine()} {trainer.device}, {torch.get_num_threads()} thread(s)",
        "recipe": asdict(recipe),
        "curve": trainer.log,
        "held_out": {"prompts": n_prompts, "r2": r2, **reference_r2(recipe, prompts)},
        "code": code_version(),
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers_version,
            "scikit-learn": sklearn_version,
        },
    }
    write_folder(folder, recipe.model, trainer.model.state_dict(), card)
    zoo.register(name, folder.parent)
    return card


def code_version() -> str:
    """A short hash of the files that decide a training: recipes, model, optimiser, prompts."""
    files = ["models/recipes.py", "models/pretrain.py", "models/gpt2_regressor.py"]
    files += ["models/optim.py", "models/law.py", "core/prompts.py"]
    digest = hashlib.sha256()
    for file in files:
        digest.update((ROOT / file).read_bytes())
    return digest.hexdigest()[:12]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this long")
    parser.add_argument(
        "--fit-schedule",
        action="store_true",
        help="measure, then fix the number of steps so that the whole schedule fits into --minutes",
    )
    parser.add_argument("--steps", type=int, help="length of the training instead of the recipe's")
    parser.add_argument("--batch", type=int, help="prompts a step instead of the recipe's")
    parser.add_argument("--seed", type=int, help="seed instead of the recipe's")
    parser.add_argument("--optimizer", choices=("muon", "adamw"), help="instead of the recipe's")
    parser.add_argument("--start-from", help="checkpoint to start from instead of the recipe's")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="torch threads (default: torch's own choice)")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model (inductor)")
    parser.add_argument("--eval-every", type=int, default=250, help="steps between evaluations")
    parser.add_argument("--save-every", type=int, default=100, help="steps between saved states")
    parser.add_argument("--fresh", action="store_true", help="forget a begun state (else resumed)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs")
    parser.add_argument("--checkpoints", type=Path, default=zoo.CHECKPOINTS)
    args = parser.parse_args(arguments)
    if args.fit_schedule and (args.steps or not math.isfinite(args.minutes)):
        parser.error("--fit-schedule finds the number of steps: give --minutes and not --steps")
    if args.threads:
        torch.set_num_threads(args.threads)
    given = {"seed": args.seed, "start_from": args.start_from, "batch": args.batch}
    given |= {"optimizer": args.optimizer}
    recipe = replace(RECIPES[args.name], **{k: v for k, v in given.items() if v is not None})
    if args.steps:
        recipe = recipe.of_length(args.steps)
    rank, world = _rank_and_world()
    if world > 1:
        torch.distributed.init_process_group("nccl" if args.device == "cuda" else "gloo")
        if args.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if args.fresh and rank == 0:
        (args.runs / args.name / STATE).unlink(missing_ok=True)
    if world > 1:
        torch.distributed.barrier()
    compile_with = "inductor" if args.compile else ""
    stops: list[int] = []  # Ctrl-C and a polite kill end a training between two steps
    before = {
        number: signal.signal(number, lambda got, frame: stops.append(got))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        minutes = args.minutes
        if args.fit_schedule:
            recipe = fitted_recipe(recipe, minutes, args.device, compile_with, args.runs, args.name)
            minutes = math.inf
        train(
            args.name,
            recipe,
            args.runs,
            args.checkpoints,
            minutes,
            args.device,
            compile_with,
            args.eval_every,
            args.save_every,
            stop=lambda: bool(stops),
        )
    except (ValueError, DivergedError) as error:
        raise SystemExit(f"models.pretrain: {error}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if world > 1:
            torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
