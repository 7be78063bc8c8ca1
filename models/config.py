"""Sizes and training law of a checkpoint: what `config.json` holds, checked before anything is built."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

TASKS = ("linear", "relu", "tree")
POSITIONS = ("fixed", "offset")


@dataclass(frozen=True)
class TrainingLaw:
    """The distribution a checkpoint was trained on; the page shades what lies outside.

    Inputs are `x ~ N(mean * s, I)` in every coordinate, where the sign `s` of an input is +1 with
    probability `1 - share`; `share` is drawn once per prompt, uniform on [0, 1] in `mixed_prompts` of the
    prompts and 0 in the others. `mean_spread` is the standard deviation of a Gaussian factor on `mean`,
    drawn once per prompt (0: fixed). `n_examples` is k, the in-context length seen in training.
    """

    task: str = "linear"
    mean: float = -2.0
    mixed_prompts: float = 0.0
    mean_spread: float = 0.0
    n_examples: int = 50
    positions: str = "fixed"

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {TASKS}, got {self.task!r}")
        if self.positions not in POSITIONS:
            raise ValueError(f"positions must be one of {POSITIONS}, got {self.positions!r}")
        if not 0 <= self.mixed_prompts <= 1:
            raise ValueError(f"mixed_prompts must lie in [0, 1], got {self.mixed_prompts}")
        if not 1 <= self.n_examples <= 10_000:
            raise ValueError(f"n_examples must lie in 1..10000, got {self.n_examples}")


@dataclass(frozen=True)
class RegressorConfig:
    """Sizes of a `GPT2Regressor`. `n_positions` counts tokens: an example takes two, x then y."""

    n_dims: int = 20
    n_positions: int = 256
    n_embd: int = 64
    n_layer: int = 12
    n_head: int = 2
    target_scale: float = 10.0
    law: TrainingLaw = field(default_factory=TrainingLaw)

    # Upper limits keep a hostile config.json from allocating the machine away.
    LIMITS = {
        "n_dims": (1, 1024),
        "n_positions": (2, 8192),
        "n_embd": (1, 2048),
        "n_layer": (1, 48),
        "n_head": (1, 64),
    }

    def __post_init__(self) -> None:
        for name, (low, high) in self.LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(f"{name} must be a whole number in {low}..{high}, got {value!r}")
        if self.n_embd % self.n_head:
            raise ValueError(
                f"n_embd ({self.n_embd}) must be a multiple of n_head ({self.n_head}); change one of them"
            )
        if not 0 < self.target_scale < 1e6:
            raise ValueError(f"target_scale must lie in (0, 1e6), got {self.target_scale!r}")

    @property
    def max_examples(self) -> int:
        """Pairs that fit before the query: the last token is an x, so a pair less than the half."""
        return self.n_positions // 2 - 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> RegressorConfig:
        """The config in a parsed `config.json`. Raises ValueError naming the key that is wrong."""
        if not isinstance(raw, dict):
            raise ValueError(f"config.json must hold an object, got {type(raw).__name__}")
        raw = dict(raw)
        law = raw.pop("law", {})
        if not isinstance(law, dict):
            raise ValueError(f"config.json: law must be an object, got {type(law).__name__}")
        for name, given, known in (("config.json", raw, cls), ("law", law, TrainingLaw)):
            unknown = set(given) - {f.name for f in fields(known)}
            if unknown:
                raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
        try:
            return cls(**raw, law=TrainingLaw(**law))
        except TypeError as error:
            raise ValueError(f"config.json: {error}") from error

    @classmethod
    def load(cls, folder: Path) -> RegressorConfig:
        return cls.from_json(json.loads((Path(folder) / "config.json").read_text()))
