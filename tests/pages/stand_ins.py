"""A zoo for tests: the committed linear-d5, and tiny networks under the names the pages know."""

import shutil
from pathlib import Path

import torch

from models import zoo
from models.config import RegressorConfig, TrainingLaw
from models.folder import write_folder
from models.gpt2_regressor import GPT2Regressor

TINY = {
    "linear-d20": TrainingLaw(n_examples=20),
    "linear-d20-offset": TrainingLaw(n_examples=20, positions="offset"),
    "linear-d20-wide": TrainingLaw(n_examples=20, mixed_prompts=0.7, mean_spread=0.25),
}


def tiny(law: TrainingLaw, seed: int = 0, n_dims: int = 20) -> GPT2Regressor:
    """Two layers of width 8, weights large enough that everything matters."""
    config = RegressorConfig(
        n_dims=n_dims, n_positions=80, n_embd=8, n_layer=2, n_head=2, target_scale=10.0, law=law
    )
    torch.manual_seed(seed)
    model = GPT2Regressor(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.ndim == 2 and "wte" not in name:
            weight.mul_(8)
    return model


def stand_in_zoo(folder: Path) -> Path:
    """Fill `folder` with checkpoints and their manifest."""
    shutil.copytree(zoo.CHECKPOINTS / "linear-d5", folder / "linear-d5")
    for seed, (name, law) in enumerate(TINY.items()):
        model = tiny(law, seed)
        card = {
            "name": name, "steps": 3, "of_steps": 4, "seconds": 120, "machine": "<b>test</b>",
            "curve": [{"step": 1, "loss": 1.0, "r2_10": 0.1}, 
                      {"step": 3, "loss": 0.5, "r2_10": 0.2}, {"step": "x"}, 7],
            "held_out": {"prompts": 8, "r2": {"5": 0.25, "10": 0.5, "x": 1}},
        }  # fmt: skip
        write_folder(folder / name, model.config, model.state_dict(), card)
    zoo.write_manifest(folder)
    return folder
