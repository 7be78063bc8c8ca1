"""A deep transformer read as one retrieval after another: every head as a Hopfield network.

At a query q with the keys K that a head sees, its softmax weights are `p = softmax(beta K q)`, and
in key space `T(q) = K^T p` is one update of the modern Hopfield network that stores the keys, with
the energy of equations.md sec. 1,

    E(q) = -lse(beta, K q) + |q|^2/2 + log(n)/beta + m^2/2 >= 0,      n keys, m their largest norm.

What holds: weights, energy, margin and effective memories are those of that network, and
`E(q) - E(T(q)) >= |q - T(q)|^2/2`. What is only an analogy: `SEMANTICS`. Shapes: `*h` leading axes
(prompts, layers, heads), P asked positions, T memory tokens. Any float dtype; results are numpy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

SEMANTICS = (
    "What holds: a head's weights are one Hopfield update over its keys, so its energy, margin and "
    "effective number of memories are exact, and moving the query onto the retrieved key can only "
    "lower the energy. What is an analogy (ours): the head returns a mixture of values, not of "
    "keys; an output matrix, the other heads, the MLP and the residual stream stand between that "
    "and the next layer's query; keys change from layer to layer. Whether the layer's own write "
    "lowers the energy of the same head's query is therefore measured, and it can rise."
)


@dataclass(frozen=True)
class HeadReadings:
    """Every head at every asked position; leading axes `*h`, last axis P. NaN where undefined."""

    energy: Float[np.ndarray, "*h P"]  # E(q) over the keys seen
    fall: Float[np.ndarray, "*h P"]  # (E(q) - E(T(q)))/E(q): share lost in one Hopfield update
    own_fall: Float[np.ndarray, "*h P"]  # (E(q) - E(q'))/E(q), q' asked after the layer's own write
    margin: Float[np.ndarray, "*h P"]  # best minus second-best q . k; NaN with one key
    effective: Float[np.ndarray, "*h P"]  # exp(entropy of the weights)
    best_weight: Float[np.ndarray, "*h P"]  # largest weight on a memory token (0 without any)
    best: Int[np.ndarray, "*h P"]  # which memory token; -1 without any
    own_weight: Float[np.ndarray, "*h P"]  # weight on the asked token itself (0 if it sees none)
    label_weight: Float[np.ndarray, "*h P"]  # weight on y tokens; NaN where tokens are pairs


def read_heads(
    queries: Float[Tensor, "*h P d"],
    keys: Float[Tensor, "*h T d"],
    seen: Bool[Tensor, "P T"],
    beta: float,
    own_keys: Float[Tensor, "*h P d"] | None = None,
    queries_after: Float[Tensor, "*h P d"] | None = None,
    interleaved: bool = True,
) -> HeadReadings:
    """Energy, margin and weights of every query over the keys it sees, all axes in one pass.

    `interleaved`: memory tokens are x1, y1, x2, y2, ... Raises ValueError unless beta > 0.
    """
    if not beta > 0:
        raise ValueError(f"beta: expected an inverse temperature > 0, got {beta}")
    n_tokens = keys.shape[-2]
    if not n_tokens:  # one unseen token in place of none: reductions below need an entry
        keys, seen = torch.zeros_like(queries[..., :1, :]), seen.new_zeros(len(seen), 1)
        n_tokens = 1
    scores = (queries @ keys.mT).masked_fill(~seen, -torch.inf)  # (*h, P, T)
    squares = keys.square().sum(-1)  # (*h, T)
    norms = squares.unsqueeze(-2).expand(scores.shape).masked_fill(~seen, 0)
    count = seen.sum(-1)
    if own_keys is not None:
        scores = torch.cat((scores, (queries * own_keys).sum(-1, keepdim=True)), dim=-1)
        norms = torch.cat((norms, own_keys.square().sum(-1, keepdim=True)), dim=-1)
        count = count + 1
    empty = count == 0
    scores[..., empty, :] = 0  # any finite score: what comes of these rows is overwritten with NaN
    largest2 = norms.amax(-1)  # m^2
    weights = (beta * scores).softmax(-1)
    constant = largest2 / 2 + count.clamp_min(1).to(scores.dtype).log() / beta

    def energy(scores: Tensor, states: Tensor) -> Tensor:
        return states.square().sum(-1) / 2 - (beta * scores).logsumexp(-1) / beta + constant

    def at(states: Tensor) -> Tensor:
        """Energy of other states over the same keys."""
        scores = (states @ keys.mT).masked_fill(~seen, -torch.inf)
        if own_keys is not None:
            scores = torch.cat((scores, (states * own_keys).sum(-1, keepdim=True)), dim=-1)
        scores[..., empty, :] = 0
        return energy(scores, states)

    before = energy(scores, queries)
    retrieved = weights[..., :n_tokens] @ keys
    if own_keys is not None:
        retrieved = retrieved + weights[..., n_tokens:] * own_keys
    unit = before.clamp_min(1e-30)
    fall = (before - at(retrieved)) / unit
    own_fall = (
        torch.full_like(fall, torch.nan)
        if queries_after is None
        else (before - at(queries_after)) / unit
    )
    if scores.shape[-1] > 1:
        top = scores.topk(2, dim=-1).values
        margin = torch.where(count > 1, top[..., 0] - top[..., 1], torch.nan)
    else:
        margin = torch.full_like(before, torch.nan)
    memory = weights[..., :n_tokens]
    best_weight, best = memory.max(-1)
    none = ~seen.any(-1)
    best_weight = best_weight.masked_fill(none, 0)
    best = best.masked_fill(none, -1)
    own = weights[..., n_tokens] if own_keys is not None else torch.zeros_like(before)
    labels = memory[..., 1::2].sum(-1) if interleaved else torch.full_like(before, torch.nan)
    entropy = torch.special.entr(weights).sum(-1)
    floats = [before, fall, own_fall, margin, entropy.exp(), best_weight, own, labels]
    energy_, fall_, own_fall_, margin_, effective_, best_weight_, own_, labels_ = (
        t.masked_fill(empty, torch.nan).cpu().numpy() for t in floats
    )
    return HeadReadings(
        energy=energy_,
        fall=fall_,
        own_fall=own_fall_,
        margin=margin_,
        effective=effective_,
        best_weight=best_weight_,
        best=best.cpu().numpy(),
        own_weight=own_,
        label_weight=labels_,
    )


def distance_moved(
    residual: Float[Tensor, "*b L1 P E"],
) -> Float[np.ndarray, "*b L P"]:
    """`|x_(l+1) - x_l| / |x_l|` of the residual stream, per layer."""
    before, after = residual[..., :-1, :, :], residual[..., 1:, :, :]
    moved = (after - before).norm(dim=-1) / before.norm(dim=-1).clamp_min(1e-30)
    return moved.cpu().numpy()


# ---- rankings -----------------------------------------------------------------------------------

# name -> (attribute of HeadReadings, is a larger value more Hopfield-like?, title)
RANKINGS: dict[str, tuple[str, bool, str]] = {
    "best weight": ("best_weight", True, "weight on the best key"),
    "energy fall": ("fall", True, "energy lost in one Hopfield update"),
    "own fall": ("own_fall", True, "energy lost by the layer's own write"),
    "few memories": ("effective", False, "few effective memories"),
}


@dataclass(frozen=True)
class RankedHead:
    """One head with the means it is ranked by, over prompts, at one length."""

    layer: int
    head: int
    score: float  # of the ranking asked for
    best_weight: float
    fall: float
    own_fall: float
    effective: float


@dataclass(frozen=True)
class LayerReading:
    """A model read on some prompts: B prompts, L layers, H heads, P lengths."""

    heads: HeadReadings  # arrays (B, L, H, P)
    moved: Float[np.ndarray, "B L P"] | None  # relative distance moved by the residual stream
    lengths: Int[np.ndarray, " P"]  # examples seen
    predictions: Float[np.ndarray, "B P"]

    def mean(self, name: str) -> Float[np.ndarray, "L H P"]:
        """Mean over prompts of one of the readings."""
        return _mean(getattr(self.heads, name), 0)

    def band(
        self, name: str, levels: tuple[float, float] = (0.1, 0.9)
    ) -> tuple[Float[np.ndarray, "L H P"], Float[np.ndarray, "L H P"]]:
        """Quantiles over prompts of one of the readings."""
        low, high = np.quantile(getattr(self.heads, name), levels, axis=0)
        return low, high

    def ranked(self, by: str = "best weight", length: int | None = None) -> tuple[RankedHead, ...]:
        """Heads, most Hopfield-like first, at one length (the longest by default).

        Raises ValueError for an unknown ranking or a length that was not read.
        """
        if by not in RANKINGS:
            raise ValueError(f"by: expected one of {', '.join(RANKINGS)}, got {by!r}")
        known = self.lengths.tolist()
        if length is not None and length not in known:
            raise ValueError(f"length: expected one of those read, {known}, got {length}")
        place = len(known) - 1 if length is None else known.index(length)
        attribute, larger, _ = RANKINGS[by]
        means = {
            name: _mean(getattr(self.heads, name)[..., place], 0)
            for name in ("best_weight", "fall", "own_fall", "effective")
        }
        found = [
            RankedHead(
                layer,
                head,
                float(means[attribute][layer, head]),
                *(float(means[name][layer, head]) for name in means),
            )
            for layer in range(means[attribute].shape[0])
            for head in range(means[attribute].shape[1])
        ]
        return tuple(sorted(found, key=lambda head: head.score, reverse=larger))


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean that ignores NaN and is NaN, without a warning, where nothing is left."""
    good = np.isfinite(values)
    total = np.where(good, values, 0).sum(axis)
    count = good.sum(axis)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
