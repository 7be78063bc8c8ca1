"""A `state.pt` written by Garg et al.'s published code becomes a checkpoint folder of ours.

    python -m models.convert state.pt --config config.yaml models/checkpoints/garg-linear
    python -m models.convert state.pt --size standard models/checkpoints/garg-linear

Their trainer saves `{"model_state_dict", "optimizer_state_dict", "train_step"}`, or the bare model
state in `model_STEP.pt`; `torch.load(weights_only=True)` reads tensors and refuses anything that
would run. Their names `_read_in`, `_backbone`, `_read_out` become ours, y stays unscaled
(`target_scale` 1), buffers of old transformers versions and the unused word embedding are dropped.
"""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models import zoo
from models.config import RegressorConfig, TrainingLaw
from models.folder import CheckpointError, expected_shapes, write_folder

# (n_embd, n_layer, n_head) of the published configurations
SIZES = {"tiny": (64, 3, 2), "small": (128, 6, 4), "standard": (256, 12, 8)}
TASKS = {
    "linear_regression": "linear",
    "sparse_linear_regression": "sparse",
    "relu_2nn_regression": "relu",
    "decision_tree": "tree",
}
# What the settings of a task must be for `core.prompts` to draw it.
_SETTINGS = {
    "linear": {"scale": 1},
    "sparse": {"scale": 1, "sparsity": 3},
    "relu": {"scale": 1, "hidden_layer_size": 100},
    "tree": {"depth": 4},
}
# Causal masks that older transformers versions kept in the state.
_BUFFER = re.compile(r"_backbone\.h\.\d+\.attn\.(bias|masked_bias)")


def convert(
    state_path: Path,
    out: Path,
    size: str | None = None,
    config_path: Path | None = None,
    task: str = "linear_regression",
    n_examples: int = 41,
) -> RegressorConfig:
    """Write the folder `out` from a state; `n_head` comes from their config.yaml or a size's name.

    `task` and `n_examples` (the points of a training prompt) matter for the law alone and are read
    from config.yaml where it is given. Predictions are those of their model to float rounding.
    Raises CheckpointError for anything else than such a state.
    """
    state, step = read_state(state_path)
    shape = _shape(state, "_read_in.weight")
    n_embd, n_dims = shape[0], shape[1]
    n_layer = len({k for k in state if re.fullmatch(r"_backbone\.h\.\d+\.ln_1\.weight", k)})
    n_positions = _shape(state, "_backbone.wpe.weight")[0]
    if config_path is not None:
        n_head, task, n_examples = _from_yaml(config_path, (n_embd, n_layer, n_dims))
    elif size is not None:
        expected = SIZES[size]
        if (n_embd, n_layer) != expected[:2]:
            raise CheckpointError(
                f"size {size} has n_embd {expected[0]} and n_layer {expected[1]}, the state has "
                f"{n_embd} and {n_layer}; give the right --size or its config.yaml"
            )
        n_head = expected[2]
    else:
        raise CheckpointError("the state does not tell n_head: give --size or --config")
    if task not in TASKS:
        raise CheckpointError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    if 2 * n_examples > n_positions:
        raise CheckpointError(
            f"training prompts of {n_examples} points do not fit the {n_positions} positions of "
            "the state; give the right --examples or config.yaml"
        )
    config = RegressorConfig(
        n_dims=n_dims,
        n_positions=n_positions,
        n_embd=n_embd,
        n_layer=n_layer,
        n_head=n_head,
        target_scale=1.0,
        law=TrainingLaw(TASKS[task], mean=0.0, n_examples=n_examples),
    )
    card = {
        "name": out.name,
        "law": asdict(config.law),
        "steps": step,
        "source": "a state.pt of Garg et al. 2022, converted",
    }
    write_folder(out, config, renamed(state, config), card)
    return config


def read_state(path: Path) -> tuple[dict[str, Tensor], int | None]:
    """Their model state and its training step, tensors only."""
    try:
        raw = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise CheckpointError(f"{path.name} is no state of tensors: {reason}") from error
    step = None
    if isinstance(raw, Mapping) and "model_state_dict" in raw:
        step = raw.get("train_step")
        raw = raw["model_state_dict"]
    if not isinstance(raw, Mapping) or not all(isinstance(v, Tensor) for v in raw.values()):
        raise CheckpointError(
            f"{path.name}: expected model_state_dict, optimizer_state_dict and train_step"
        )
    return dict(raw), step if isinstance(step, int) else None


def renamed(state: Mapping[str, Tensor], config: RegressorConfig) -> dict[str, Tensor]:
    """Their tensors under our names, float32 and finite. CheckpointError for any other set."""
    weights = {k.removeprefix("_"): v.float() for k, v in state.items() if not _BUFFER.fullmatch(k)}
    if "backbone.wte.weight" in weights:  # a word embedding that vectors never use
        weights["backbone.wte.weight"] = torch.zeros(1, config.n_embd)
    expected = expected_shapes(config)
    for key in sorted(expected.keys() | weights.keys()):
        got = tuple(weights[key].shape) if key in weights else None
        if got != expected.get(key):
            raise CheckpointError(
                f"_{key}: expected {_words(expected.get(key))}, the state has {_words(got)}; only "
                "their GPT-2 regressors (softmax attention) can be converted"
            )
        if not weights[key].isfinite().all():
            raise CheckpointError(f"_{key} holds NaN or infinite numbers; that training diverged")
    return weights


def _words(shape: tuple[int, ...] | None) -> str:
    return "no such tensor" if shape is None else f"shape {list(shape)}"


def _shape(state: Mapping[str, Tensor], key: str) -> torch.Size:
    if key not in state or state[key].ndim != 2:
        raise CheckpointError(f"the state has no matrix {key}: it is no regressor of Garg et al.")
    return state[key].shape


def _from_yaml(path: Path, sizes: tuple[int, int, int]) -> tuple[int, str, int]:
    """(n_head, task, n_examples) of their config.yaml, whose sizes must be those of the state."""
    import yaml

    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path.name} is no YAML: {str(error).splitlines()[0]}") from error
    model, training = _section(raw, path, "model"), _section(raw, path, "training")
    named = tuple(model.get(key) for key in ("n_embd", "n_layer", "n_dims"))
    if model.get("family", "gpt2") != "gpt2" or named != sizes:
        raise CheckpointError(
            f"{path.name} describes family {model.get('family')!r} with n_embd, n_layer, n_dims "
            f"{named}, the state is a gpt2 with {sizes}; give the config.yaml of this state"
        )
    task = training.get("task")
    if training.get("data", "gaussian") != "gaussian":
        raise CheckpointError(f"{path.name}: inputs must be gaussian, got {training['data']!r}")
    settings = training.get("task_kwargs") or {}
    for key, value in settings.items() if isinstance(settings, dict) else []:
        if task in TASKS and _SETTINGS[TASKS[task]].get(key) != value:
            raise CheckpointError(f"{path.name}: {task} with {key} = {value!r} is not drawn here")
    points = _section(_section(training, path, "curriculum"), path, "points")
    end, n_head = points.get("end"), model.get("n_head")
    if not isinstance(end, int) or not isinstance(n_head, int):
        raise CheckpointError(
            f"{path.name}: model.n_head and training.curriculum.points.end must be whole numbers"
        )
    return n_head, str(task), end


def _section(raw: Any, path: Path, name: str) -> dict[str, Any]:
    section = raw.get(name) if isinstance(raw, dict) else None
    if not isinstance(section, dict):
        raise CheckpointError(f"{path.name}: section {name} is missing")
    return section


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("state", type=Path, help="state.pt or model_STEP.pt")
    parser.add_argument("out", type=Path, help="folder to write, its name becomes the checkpoint's")
    known = parser.add_mutually_exclusive_group(required=True)
    known.add_argument("--config", type=Path, help="the config.yaml beside the state")
    known.add_argument("--size", choices=SIZES, help="a published size")
    parser.add_argument("--task", choices=TASKS, default="linear_regression", help="with --size")
    parser.add_argument("--examples", type=int, default=41, help="points of a training prompt")
    args = parser.parse_args(arguments)
    try:
        config = convert(args.state, args.out, args.size, args.config, args.task, args.examples)
        if args.out.resolve().parent == zoo.CHECKPOINTS:
            zoo.register(args.out.name)
    except (ValueError, OSError) as error:
        raise SystemExit(f"models.convert: {error}") from error
    print(f"{args.out}: {config}")


if __name__ == "__main__":
    main()
