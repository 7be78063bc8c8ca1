"""Training steps a second: `python -m benchmarks.pretrain [--compile]`.

Our trainer beside a plain loop on the same model, written as Garg et al. train theirs: Hugging Face
GPT-2 as it comes (its GELU is `gelu_new`), mean squared error at all positions, Adam on everything.
Same sizes, batch, law and curriculum; both sides take turns, medians. On a busy machine the CPU
time is to be believed.

A step of ours does more (Muon's orthogonalised update, weights by position), so steps are not the
whole story: `--race 0.8` trains both from scratch, in turns, until the pooled R^2 after
`--race-examples` pairs is reached on held-out prompts, and prints steps and CPU seconds.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2Model

from models.config import RegressorConfig
from models.pretrain import Trainer, held_out, pooled_r2
from models.recipes import RECIPES, Recipe, draw


class Plain:
    """Model and loop as the published code has them; their learning rate is 1e-4."""

    def __init__(self, recipe: Recipe) -> None:
        config: RegressorConfig = recipe.model
        torch.manual_seed(recipe.seed)
        self.recipe, self.step, self.scale = recipe, 0, config.target_scale
        self.backbone = GPT2Model(
            GPT2Config(
                n_positions=config.n_positions,
                n_embd=config.n_embd,
                n_layer=config.n_layer,
                n_head=config.n_head,
                resid_pdrop=0.0,
                embd_pdrop=0.0,
                attn_pdrop=0.0,
                use_cache=False,
            )
        )
        self.read_in = nn.Linear(config.n_dims, config.n_embd)
        self.read_out = nn.Linear(config.n_embd, 1)
        modules = nn.ModuleList((self.backbone, self.read_in, self.read_out))
        self.optimizer = torch.optim.Adam(modules.parameters(), lr=1e-4)

    def predict(self, xs: Tensor, ys: Tensor) -> Tensor:
        """Targets in units of their spread, as the trainer has them: that alone helps Adam."""
        labels = torch.nn.functional.pad((ys / self.scale)[..., None], (0, xs.shape[2] - 1))
        tokens = torch.stack((xs, labels), dim=2).flatten(1, 2)
        hidden = self.backbone(inputs_embeds=self.read_in(tokens)).last_hidden_state
        return self.read_out(hidden)[:, ::2, 0] * self.scale

    def train_step(self) -> float:
        generator = torch.Generator().manual_seed(self.step)
        xs, ys = draw(self.recipe, self.step, self.recipe.batch, generator)
        loss = ((self.predict(xs, ys) - ys) / self.scale).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return float(loss.detach())


def steps_a_second(recipe: Recipe, compile_with: str, repetitions: int) -> None:
    """Both sides at the full length, in turns."""
    full = replace(recipe, curriculum=0, start_from="")
    ours, plain = Trainer(full, compile_with=compile_with), Plain(full)
    sides: dict[str, Callable[[], float]] = {"plain": plain.train_step, "ours": ours.train_step}
    wall: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    for repetition in range(repetitions + 2):
        for name, step in sides.items():
            begun, used = time.perf_counter(), time.process_time()
            step()
            if repetition >= 2:  # the first two compile and fill caches
                wall[name].append(time.perf_counter() - begun)
                cpu[name].append(time.process_time() - used)
    config = recipe.model
    print(
        f"{config.n_layer} x {config.n_embd}, {recipe.batch} x {config.law.n_examples} points, "
        f"{torch.get_num_threads()} thread(s), medians of {repetitions}"
    )
    rates = {}
    for name in sides:
        rates[name] = 1 / statistics.median(wall[name]), 1 / statistics.median(cpu[name])
        label = name + (f" ({compile_with})" if name == "ours" and compile_with else "")
        print(f"{label:18s} {rates[name][0]:7.2f} steps/s   {rates[name][1]:7.2f} steps/CPU s")
    ratios = [ours / plain for ours, plain in zip(rates["ours"], rates["plain"], strict=True)]
    print(f"{'ratio':18s} {ratios[0]:7.2f}           {ratios[1]:7.2f}")


def race(recipe: Recipe, goal: float, n_examples: int, cpu_minutes: float) -> None:
    """CPU seconds of training until the goal is reached, evaluated every 50 steps."""
    prompts = held_out(recipe, 256)
    ours, plain = Trainer(recipe), Plain(recipe)
    answers: dict[str, tuple[Callable[[], float], Callable[[Tensor, Tensor], Tensor]]] = {
        "ours": (ours.train_step, ours.model),
        "plain": (plain.train_step, plain.predict),
    }
    print(f"until R^2 {goal} after {n_examples} examples, at most {cpu_minutes:g} CPU minutes each")
    for name, (step, predict) in answers.items():
        used, steps, reached = 0.0, 0, -math.inf
        while reached < goal and used < 60 * cpu_minutes and steps < recipe.steps:
            begun = time.process_time()
            for _ in range(50):
                step()
            used += time.process_time() - begun
            steps += 50
            with torch.inference_mode():
                reached = float(
                    pooled_r2(predict(prompts.xs, prompts.ys), prompts.targets)[n_examples]
                )
        print(f"{name:18s} R^2 {reached:.3f} after {steps} steps, {used:.0f} CPU s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", choices=sorted(RECIPES), default="linear-d20")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="ours under torch.compile")
    parser.add_argument("--race", type=float, help="R^2 to reach, trained from scratch")
    parser.add_argument("--race-examples", type=int, default=15)
    parser.add_argument("--race-minutes", type=float, default=30.0, help="CPU minutes a side")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    recipe = RECIPES[arguments.recipe]
    if arguments.race is None:
        compile_with = "inductor" if arguments.compile else ""
        steps_a_second(recipe, compile_with, arguments.repetitions)
    else:
        race(recipe, arguments.race, arguments.race_examples, arguments.race_minutes)


if __name__ == "__main__":
    main()
