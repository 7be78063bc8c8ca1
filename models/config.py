"""Sizes and training law of a checkpoint: what `config.json` holds, checked before it is used."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from core.bigrams import TriggerLaw, V

TASKS = ("linear", "sparse", "relu", "tree")
POSITIONS = ("fixed", "offset")


@dataclass(frozen=True)
class TrainingLaw:
    """The distribution a checkpoint was trained on; the page shades what lies outside.

    Inputs are `x ~ N(mean * s, I)` in every coordinate, where the sign `s` of an input is +1 with
    probability `1 - share`; `share` is drawn once per prompt, uniform on [0, 1] in `mixed_prompts`
    of the prompts and 0 in the others. `mean_spread * |mean|` is the standard deviation of a
    Gaussian shift of all inputs of a prompt (0: none). `n_examples` is k, the in-context length
    seen in training. Tasks are those of `core.prompts`, in its units of y; `models.law` spells the
    law out as a `PromptLaw`.
    """

    task: str = "linear"
    mean: float = -2.0
    mixed_prompts: float = 0.0
    mean_spread: float = 0.0
    n_examples: int = 50
    positions: str = "fixed"

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task must be one of {TASKS}, got {_short(self.task)}")
        if self.positions not in POSITIONS:
            raise ValueError(f"positions must be one of {POSITIONS}, got {_short(self.positions)}")
        for name, low, high in (
            ("mean", -1e3, 1e3),
            ("mixed_prompts", 0, 1),
            ("mean_spread", 0, 1),
        ):
            _number(name, getattr(self, name), low, high)
        _whole("n_examples", self.n_examples, 1, 10_000)


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
    LIMITS: ClassVar[dict[str, tuple[int, int]]] = {
        "n_dims": (1, 1024),
        "n_positions": (2, 8192),
        "n_embd": (1, 2048),
        "n_layer": (1, 48),
        "n_head": (1, 64),
    }

    def __post_init__(self) -> None:
        for name, (low, high) in self.LIMITS.items():
            _whole(name, getattr(self, name), low, high)
        if self.n_embd % self.n_head:
            raise ValueError(
                f"n_embd ({self.n_embd}) must be a multiple of n_head ({self.n_head}); "
                "change one of them"
            )
        _number("target_scale", self.target_scale, 1e-6, 1e6)

    @property
    def max_examples(self) -> int:
        """Pairs that fit before the query: the last token is an x, so a pair less than the half."""
        return self.n_positions // 2 - 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> RegressorConfig:
        """The config in a parsed `config.json`, every size given. Raises ValueError naming the key
        that is wrong."""
        if not isinstance(raw, dict):
            raise ValueError(f"config.json must hold an object, got {type(raw).__name__}")
        raw = dict(raw)
        law = raw.pop("law", {})
        if not isinstance(law, dict):
            raise ValueError(f"config.json: law must be an object, got {type(law).__name__}")
        for name, given, known in (("config.json", raw, cls), ("law", law, TrainingLaw)):
            unknown = set(given) - {f.name for f in fields(known)}
            if unknown:
                hint = ""
                if "model_type" in raw:
                    hint = " (a language model's config? expected one written by models.pretrain)"
                raise ValueError(f"{name}: unknown keys {_short(sorted(unknown))}{hint}")
        missing = {f.name for f in fields(cls)} - set(raw) - {"law"}
        if missing:  # the sizes decide what is allocated: no silent defaults
            raise ValueError(f"config.json: missing keys {sorted(missing)}")
        return cls(**raw, law=TrainingLaw(**law))


@dataclass(frozen=True)
class InductionConfig:
    """Sizes, law and kept steps of the training of an induction head; config.json has a kind."""

    n_embd: int = 128
    n_positions: int = 64
    steps: tuple[int, ...] = (0,)
    law: TriggerLaw = field(default_factory=TriggerLaw)

    KIND: ClassVar[str] = "induction_transformer"
    LIMITS: ClassVar[dict[str, tuple[int, int]]] = {"n_embd": (1, 1024), "n_positions": (2, 1024)}

    def __post_init__(self) -> None:
        for name, (low, high) in self.LIMITS.items():
            _whole(name, getattr(self, name), low, high)
        steps = self.steps
        if not isinstance(steps, tuple) or not 1 <= len(steps) <= 64:
            raise ValueError(f"steps must be 1 to 64 whole numbers, got {_short(steps)}")
        for step in steps:
            _whole("steps", step, 0, 10_000_000)
        if list(steps) != sorted(set(steps)):
            raise ValueError(f"steps must rise, got {_short(steps)}")

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.KIND, **asdict(self), "steps": list(self.steps)}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> InductionConfig:
        """The config in a parsed `config.json`. Raises ValueError naming the key that is wrong."""
        if not isinstance(raw, dict) or raw.get("kind") != cls.KIND:
            got = raw.get("kind") if isinstance(raw, dict) else type(raw).__name__
            raise ValueError(
                f'config.json must be an object with "kind": "{cls.KIND}", got {got!r}'
            )
        expected = {f.name for f in fields(cls)}
        if set(raw) - {"kind"} != expected:
            raise ValueError(
                f"config.json: expected the keys {sorted(expected)}, got {_short(sorted(raw))}"
            )
        law = raw["law"]
        if not isinstance(law, dict) or set(law) != {"triggers", "odds"}:
            raise ValueError(f"law must be an object of triggers and odds, got {_short(law)}")
        _number("odds", law["odds"], 1, 1e6)
        if not isinstance(raw["steps"], list):
            raise ValueError(f"steps must be a list, got {_short(raw['steps'])}")
        return cls(raw["n_embd"], raw["n_positions"], tuple(raw["steps"]), TriggerLaw(**law))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor of a `Training`: learnt ones have a first axis of steps."""
        d = self.n_embd
        frozen: dict[str, tuple[int, ...]] = {
            "embed": (V, d),
            "unembed": (V, d),
            "position": (self.n_positions, d),
        }
        frozen |= {name: (d, d) for name in ("value1", "value2")}
        learnt = ("key1", "key2", "output2", "bigram")
        return frozen | {name: (len(self.steps), d, d) for name in learnt}


def _whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number in {low}..{high}, got {_short(value)}")


def _number(name: str, value: object, low: float, high: float) -> None:
    real = isinstance(value, int | float) and not isinstance(value, bool)
    if not real or not low <= value <= high:  # type: ignore[operator]  # NaN lies in no range
        raise ValueError(f"{name} must be a number in {low:g}..{high:g}, got {_short(value)}")


def _short(value: object) -> str:
    """A value from a stranger's file, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
