"""One layer, one softmax head, no positions: the model that the theorems are about.

Over pairs (x_i, y_i) and a query q,

    k_i = W_K x_i + b_K,   v_i = W_V [x_i; y_i],   s_i = beta (W_Q q + b_Q) . k_i,
    prediction = w . sum_i softmax(s)_i v_i,

with keys and queries divided by their norm if `normalised`: then |s_i| <= beta on every input,
which is the Gamma of the generalisation bound. Keys see x only, as the query does; values see the
pair, so that they fill `n_value` dimensions and can be reshaped by a map W2 (values of y alone
have rank one). Without examples the softmax is empty and the prediction is 0, the prior mean of a
linear task.

Source: CAMR sec. 3 and appendix; the parametrisation is ours.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from models.config import TrainingLaw, _number

KIND = "one_layer_attention"


@dataclass(frozen=True)
class OneLayerConfig:
    """Sizes and law of a `OneLayerAttention`; config.json has `"kind": "one_layer_attention"`."""

    n_dims: int = 20
    n_key: int = 20
    n_value: int = 21  # n_dims + 1: as many as a pair has numbers
    normalised: bool = True
    target_scale: float = 10.0
    law: TrainingLaw = field(default_factory=TrainingLaw)

    LIMITS: ClassVar[dict[str, tuple[int, int]]] = {
        "n_dims": (1, 1024),
        "n_key": (1, 2048),
        "n_value": (1, 2048),
    }

    def __post_init__(self) -> None:
        for name, (low, high) in self.LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(f"{name} must be a whole number in {low}..{high}, got {value!r}")
        if not isinstance(self.normalised, bool):
            raise ValueError(f"normalised must be true or false, got {self.normalised!r}")
        _number("target_scale", self.target_scale, 1e-6, 1e6)

    @property
    def max_examples(self) -> int:
        """No positions, so no length is out of reach; the limit keeps the scores in memory."""
        return 4096

    def to_json(self) -> dict[str, Any]:
        return {"kind": KIND, **asdict(self)}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> OneLayerConfig:
        """The config in a parsed `config.json`. Raises ValueError naming the key that is wrong."""
        if not isinstance(raw, dict) or raw.get("kind") != KIND:
            got = raw.get("kind") if isinstance(raw, dict) else type(raw).__name__
            raise ValueError(f'config.json must be an object with "kind": "{KIND}", got {got!r}')
        raw = {k: v for k, v in raw.items() if k != "kind"}
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


class OneLayerAttention(nn.Module):
    """`preds = model(xs, ys)`: preds[:, i] is the answer at x_i (or queries[:, i]) after the pairs
    before i.

    Same call as `GPT2Regressor`; callers live in the units of y. Differentiable in every argument.
    """

    def __init__(self, config: OneLayerConfig):
        super().__init__()
        self.config = config
        self.key = nn.Linear(config.n_dims, config.n_key)
        self.query = nn.Linear(config.n_dims, config.n_key)
        self.value = nn.Linear(config.n_dims + 1, config.n_value, bias=False)
        self.read_out = nn.Linear(config.n_value, 1, bias=False)
        # raw keys start where transformers do, at 1/sqrt(d); unit keys need a sharper start
        start = 1.0 if config.normalised else 1 / math.sqrt(config.n_key)
        self.log_beta = nn.Parameter(torch.tensor(math.log(start)))

    @property
    def beta(self) -> Float[Tensor, ""]:
        """Inverse temperature of the softmax; with normalised keys a bound on every |score|."""
        return self.log_beta.exp()

    def keys(self, xs: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch K"]:
        """Keys of the inputs, of norm 1 if `normalised`."""
        return self._scaled(self.key(xs))

    def queries(self, xs: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch K"]:
        """What an input asks, of norm 1 if `normalised`."""
        return self._scaled(self.query(xs))

    def values(
        self, xs: Float[Tensor, "*batch D"], ys: Float[Tensor, "*batch"]
    ) -> Float[Tensor, "*batch V"]:
        """Values of the pairs."""
        return self.value(torch.cat((xs, ys[..., None] / self.config.target_scale), dim=-1))

    def read(self, retrieved: Float[Tensor, "*batch V"]) -> Float[Tensor, "*batch"]:
        """Prediction of a weighted mean of values, in the units of y."""
        return self.read_out(retrieved)[..., 0] * self.config.target_scale

    def _scaled(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1) if self.config.normalised else vectors

    def forward(
        self,
        xs: Float[Tensor, "B P D"],
        ys: Float[Tensor, "B P"],
        queries: Float[Tensor, "B P D"] | None = None,
    ) -> Float[Tensor, "B P"]:
        """Predictions at every length in one pass; preds[:, 0] is 0."""
        asked = self.queries(xs if queries is None else queries)
        scores = self.beta * asked @ self.keys(xs).transpose(-1, -2)  # (B, P, P)
        seen = torch.ones_like(scores[0], dtype=torch.bool).tril(-1)
        # row 0 sees nothing: the finite fill keeps its softmax (and gradient) finite, the mask
        # empties it
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1) * seen
        return self.read(weights @ self.values(xs, ys))

    def ask(
        self,
        xs: Float[Tensor, "B T D"],
        ys: Float[Tensor, "B T"],
        queries: Float[Tensor, "B Q D"],
    ) -> Float[Tensor, "B Q"]:
        """Answers to all queries after all T pairs; 0 where T = 0."""
        scores = self.beta * self.queries(queries) @ self.keys(xs).transpose(-1, -2)  # (B, Q, T)
        return self.read(scores.softmax(-1) @ self.values(xs, ys))

    def head(
        self, xs: Float[Tensor, "B P D"], ys: Float[Tensor, "B P"]
    ) -> tuple[Float[Tensor, "B P K"], Float[Tensor, "B P K"], Float[Tensor, "B P"]]:
        """Queries times beta, keys, and values as read out: what `core.generalization` measures.

        The prediction is `softmax(queries @ keys) @ values`, in the units of y. Inputs of any float
        dtype are taken.
        """
        dtype = self.log_beta.dtype
        xs, ys = xs.to(dtype), ys.to(dtype)
        return self.beta * self.queries(xs), self.keys(xs), self.read(self.values(xs, ys))

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config.to_json(), indent=1) + "\n")
        weights = {k: v.detach().cpu().contiguous() for k, v in self.state_dict().items()}
        save_file(weights, folder / "model.safetensors")

    @classmethod
    def load(cls, folder: Path) -> OneLayerAttention:
        """The model in a folder, in eval mode. Raises ValueError if config and weights disagree."""
        folder = Path(folder)
        config = OneLayerConfig.from_json(json.loads((folder / "config.json").read_text()))
        model = cls(config)
        try:
            model.load_state_dict(load_file(folder / "model.safetensors"))
        except RuntimeError as error:
            raise ValueError(f"{folder.name}: weights do not fit config.json: {error}") from error
        return model.eval()
