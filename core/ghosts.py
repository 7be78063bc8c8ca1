"""Ghost examples: soft prompts that a frozen model cannot tell from no prompt, and what they
reshape to.

`construct(ask, settings)` finds t pairs (c~, r~) by prompt tuning (CAMR App. E.5): with the model
frozen, minimise over the pairs the mean over queries c of

    (f([ghosts, c]) - f([c]))^2,

f([c]) the model's own answer without any example (a GPT-2 reads c as its first token; a one-layer
attention answers 0, its empty softmax). Any differentiable model serves, through one call

    ask(xs (R, t, D), ys (R, t), queries (R, Q, D)) -> answers (R, Q) after all t pairs.

`construct` is a generator: restarts run side by side in one batch, every progress carries the
ghosts so far, and closing it (or leaving the loop) cancels without loss.

`reshaped_attention` then asks the question that CAMR left open: with W1, W2 from the ghosts' keys
and values of a layer, does attention over the reshaped ghosts W1 K~, W2 V~ give what attention
over the true prompt gives? It is a function of keys, values and queries alone;
`models.keys_values` takes them out of a model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.prompts import PromptLaw, label_scale, sample_prompts
from core.reshape import apply, reshape

Ask = Callable[[Tensor, Tensor, Tensor], Tensor]
MOST_NUMBERS = (
    200_000  # restarts x queries x examples in one step: seconds a step beyond, on one core
)


@dataclass(frozen=True)
class GhostSettings:
    """How ghosts are searched. Raises ValueError naming the field that is out of range."""

    examples: int = 10  # t
    restarts: int = 4  # searches from different starts, side by side
    queries: int = 64  # fresh queries a step
    steps: int = 150
    learning_rate: float = 0.05  # of Adam, with cosine decay to 0; in units of x, and of y's scale
    held_out: int = 256  # queries that the search never sees
    every: int = 5  # steps between two reports
    law: PromptLaw = field(default_factory=PromptLaw)  # where queries and starts come from
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("examples", 1, 512),
            ("restarts", 1, 64),
            ("queries", 1, 1024),
            ("steps", 1, 100_000),
            ("held_out", 2, 4096),
            ("every", 1, 10_000),
            ("seed", 0, 2**31 - 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(f"{name}: expected a whole number in {low}..{high}, got {value!r}")
        if not 0 < self.learning_rate <= 10:
            raise ValueError(
                f"learning_rate: expected a number in (0, 10], got {self.learning_rate!r}"
            )
        size = self.restarts * self.queries * self.examples
        if size > MOST_NUMBERS:
            raise ValueError(
                f"restarts x queries x examples: expected at most {MOST_NUMBERS:,} in one step, "
                f"got {size:,}; lower one of them"
            )


@dataclass(frozen=True)
class Ghosts:
    """R searches for t ghosts after some steps; errors are mean squares in units of y^2."""

    settings: GhostSettings
    xs: Float[Tensor, "R t D"]
    ys: Float[Tensor, "R t"]
    start_xs: Float[Tensor, "R t D"]  # the prompts of the law that the searches began from
    start_ys: Float[Tensor, "R t"]
    steps: Int[np.ndarray, " S"]  # where the losses were taken, 0 included
    losses: Float[np.ndarray, "S R"]  # on the queries of that step
    mse: Float[np.ndarray, " R"]  # on held-out queries
    start_mse: Float[np.ndarray, " R"]  # the same before the search: prompts of the law
    silent_mse: Float[np.ndarray, " R"]  # the same without a search: those prompts, every label 0
    relative: Float[np.ndarray, " R"]  # mse over the variance of a label
    reference: float  # mean of f([c])^2 over held-out queries: what there is to reproduce
    rank: Int[np.ndarray, " R"]  # of the ghosts' inputs (t, D)
    condition: Float[np.ndarray, " R"]  # largest over smallest singular value; inf if dependent
    finished: bool
    seconds: float

    @property
    def best(self) -> int:
        """The restart with the smallest held-out error."""
        return int(np.nanargmin(self.mse))

    @property
    def spread(self) -> tuple[float, float, float]:
        """Smallest, median and largest held-out error over restarts."""
        return float(self.mse.min()), float(np.median(self.mse)), float(self.mse.max())


@dataclass(frozen=True)
class Progress:
    """One report of a search."""

    step: int
    of: int
    seconds: float
    seconds_left: float
    ghosts: Ghosts


def construct(
    ask: Ask, settings: GhostSettings, dtype: torch.dtype = torch.float32
) -> Iterator[Progress]:
    """Search for ghosts; yields every `settings.every` steps and after the last.

    Starts are prompts of the law with labels that fit them. `dtype` is that of the model. The
    model's own parameters collect no gradient. Raises ValueError where a model's answers, or ghosts
    that a large learning rate throws about, are no finite numbers.
    """
    draw = torch.Generator().manual_seed(settings.seed)
    scale = label_scale(settings.law)
    start = sample_prompts(
        settings.law, settings.restarts, settings.examples, draw, dtype=torch.float64
    )

    def fresh(count: int) -> tuple[Tensor, Tensor]:
        """Queries of the law and what the model answers to them alone."""
        queries = sample_prompts(settings.law, count, 1, draw).queries[:, 0].to(dtype)
        nothing = queries.new_zeros(1, 0, settings.law.n_dims), queries.new_zeros(1, 0)
        with torch.no_grad():
            return queries, ask(*nothing, queries[None])[0]

    held_out, wanted_held_out = fresh(settings.held_out)
    xs = start.xs.to(dtype).clone().requires_grad_()
    ys = (start.ys / scale).to(dtype).clone().requires_grad_()  # labels in units of their scale
    start_xs, start_ys = xs.detach().clone(), ys.detach() * scale
    start_mse = _held_out(ask, start_xs, start_ys, held_out, wanted_held_out)
    silent_mse = _held_out(ask, start_xs, 0 * start_ys, held_out, wanted_held_out)
    if not np.isfinite((start_mse, silent_mse)).all():
        raise ValueError(
            "the model's answers to prompts of its own law are not finite numbers: choose another "
            "checkpoint"
        )
    optimiser = torch.optim.Adam([xs, ys], lr=settings.learning_rate, betas=(0.9, 0.98))
    begun = time.monotonic()
    taken: list[int] = []
    losses: list[np.ndarray] = []
    for step in range(settings.steps):
        queries, wanted = fresh(settings.queries)
        answers = ask(xs, ys * scale, queries.expand(settings.restarts, -1, -1))
        miss = (answers - wanted).square().mean(1)  # (R,)
        taken.append(step)
        losses.append(miss.detach().double().numpy())
        rate = settings.learning_rate * 0.5 * (1 + math.cos(math.pi * step / settings.steps))
        optimiser.param_groups[0]["lr"] = rate
        # a sum over restarts: Adam works entry by entry, so each search is as if it ran alone
        grads = torch.autograd.grad(miss.sum() / scale**2, (xs, ys))
        xs.grad, ys.grad = grads
        optimiser.step()
        last = step + 1 == settings.steps
        if last or (step + 1) % settings.every == 0:
            seconds = time.monotonic() - begun
            mse = _held_out(ask, xs, ys * scale, held_out, wanted_held_out)
            if not (xs.isfinite().all() and ys.isfinite().all() and np.isfinite(mse).all()):
                raise ValueError(
                    f"by step {step + 1} the search has left the finite numbers: lower the "
                    f"learning rate, now {settings.learning_rate:g}, or choose another checkpoint"
                )
            sizes = torch.linalg.svdvals(xs.detach().double())  # (R, min(t, D))
            small = sizes[:, -1] <= sizes[:, 0] * max(xs.shape[1:]) * torch.finfo(dtype).eps
            condition = torch.where(small, math.inf, sizes[:, 0] / sizes[:, -1])
            ghosts = Ghosts(
                settings=settings,
                xs=xs.detach().clone(),
                ys=ys.detach() * scale,
                start_xs=start_xs,
                start_ys=start_ys,
                steps=np.array(taken),
                losses=np.stack(losses),
                mse=mse,
                start_mse=start_mse,
                silent_mse=silent_mse,
                relative=mse / scale**2,
                reference=float(wanted_held_out.double().square().mean()),
                rank=torch.linalg.matrix_rank(xs.detach().double(), rtol=1e-6).numpy(),
                condition=condition.numpy(),
                finished=last,
                seconds=seconds,
            )
            left = seconds / (step + 1) * (settings.steps - step - 1)
            yield Progress(step + 1, settings.steps, seconds, left, ghosts)


@torch.no_grad()
def _held_out(
    ask: Ask, xs: Tensor, ys: Tensor, queries: Float[Tensor, "N D"], wanted: Float[Tensor, " N"]
) -> Float[np.ndarray, " R"]:
    answers = ask(xs, ys, queries.expand(len(xs), -1, -1))
    return (answers - wanted).double().square().mean(1).numpy()


# ---- reshaped ghosts in place of the prompt -----------------------------------------------------


@dataclass(frozen=True)
class ReshapedAttention:
    """Per layer and head (leading shape `*h`): reshaped ghosts against the true prompt, one query
    set.

    `error` is `|o' - o| / |o|` over all queries, o the attention output with the true keys and
    values of the prompt, o' with W1 K~, W2 V~ in their place; `error_ghosts` the same with K~, V~
    as they are.
    """

    residual_keys: Float[np.ndarray, "*h"]  # |W1 K~ - K| / |K|
    residual_values: Float[np.ndarray, "*h"]
    expected_residual: Float[np.ndarray, "*h"]  # sqrt(1 - rank/T) of unrelated Gaussian keys
    rank_keys: Int[np.ndarray, "*h"]
    rank_values: Int[np.ndarray, "*h"]
    condition_keys: Float[np.ndarray, "*h"]
    condition_values: Float[np.ndarray, "*h"]
    exact: Bool[np.ndarray, "*h"]
    error: Float[np.ndarray, "*h"]
    error_ghosts: Float[np.ndarray, "*h"]
    moved_weight: Float[
        np.ndarray, "*h"
    ]  # softmax weight put elsewhere, in [0, 1], mean over queries
    keys: Float[Tensor, "*h T d"]  # W1 K~
    values: Float[Tensor, "*h T v"]  # W2 V~


def reshaped_attention(
    ghost_keys: Float[Tensor, "*h G d"],
    ghost_values: Float[Tensor, "*h G v"],
    keys: Float[Tensor, "*h T d"],
    values: Float[Tensor, "*h T v"],
    queries: Float[Tensor, "*h Q d"],
    beta: float,
    own_keys: Float[Tensor, "*h Q d"] | None = None,
    own_values: Float[Tensor, "*h Q v"] | None = None,
    ridge: float = 0.0,
    tolerance: float | None = None,
    across_heads: bool = False,
) -> ReshapedAttention:
    """W1, W2 of every layer and head, and attention at the queries with the reshaped ghosts.

    `across_heads`: one pair of maps for all heads of a layer, on their keys (values) side by side.
    It has H times the dimensions, so it stays exact for H times as many ghosts; the last leading
    axis counts heads, and what is said of the maps repeats along it.

    Queries, and the token a query keeps of itself (`own_*`, GPT-2), are those of the true prompt
    in all three cases, so every layer is judged alone: errors of earlier layers do not enter.
    float64 inside. Raises ValueError if the shapes differ.
    """
    if ghost_keys.shape != keys.shape or ghost_values.shape != values.shape:
        raise ValueError(
            f"expected as many ghosts as examples, got keys {tuple(ghost_keys.shape)} and "
            f"{tuple(keys.shape)}; construct ghosts of the prompt's length"
        )
    shape = keys.shape[:-2]
    if across_heads and not shape:
        raise ValueError("across_heads: expected keys (*layers, heads, T, d), got one head only")
    double = [t.double() for t in (ghost_keys, ghost_values, keys, values)]
    rows = [_side_by_side(t) if across_heads else t for t in double]
    flat = [t.reshape(-1, *t.shape[-2:]) for t in rows]
    maps = [reshape(k, v, gk, gv, ridge, tolerance) for gk, gv, k, v in zip(*flat, strict=True)]
    reshaped = [
        torch.stack([apply(W, row) for W, row in zip(Ws, ghosts, strict=True)]).reshape(like.shape)
        for Ws, ghosts, like in (
            ([m.W1 for m in maps], flat[0], rows[0]),
            ([m.W2 for m in maps], flat[1], rows[1]),
        )
    ]
    if across_heads:
        maps = [m for m in maps for _ in range(shape[-1])]
        reshaped = [t.unflatten(-1, (shape[-1], -1)).movedim(-2, -3) for t in reshaped]
    new_keys, new_values = reshaped

    asked = queries.double()
    own_k = None if own_keys is None else own_keys.double()
    own_v = None if own_values is None else own_values.double()
    true, weights = attend(double[2], double[3], asked, beta, own_k, own_v)
    new, new_weights = attend(new_keys, new_values, asked, beta, own_k, own_v)
    left, _ = attend(double[0], double[1], asked, beta, own_k, own_v)
    size = true.norm(dim=(-2, -1)).clamp_min(1e-300)

    def column(pick: Callable) -> np.ndarray:
        return np.array([pick(m) for m in maps]).reshape(shape)

    return ReshapedAttention(
        residual_keys=column(lambda m: m.keys.residual),
        residual_values=column(lambda m: m.values.residual),
        expected_residual=column(lambda m: m.keys.expected_residual),
        rank_keys=column(lambda m: m.keys.rank),
        rank_values=column(lambda m: m.values.rank),
        condition_keys=column(lambda m: m.keys.condition),
        condition_values=column(lambda m: m.values.condition),
        exact=column(lambda m: m.keys.exact and m.values.exact),
        error=((new - true).norm(dim=(-2, -1)) / size).numpy(),
        error_ghosts=((left - true).norm(dim=(-2, -1)) / size).numpy(),
        moved_weight=(0.5 * (new_weights - weights).abs().sum(-1).mean(-1)).numpy(),
        keys=new_keys,
        values=new_values,
    )


def attend(
    keys: Float[Tensor, "*h T d"],
    values: Float[Tensor, "*h T v"],
    queries: Float[Tensor, "*h Q d"],
    beta: float,
    own_keys: Float[Tensor, "*h Q d"] | None = None,
    own_values: Float[Tensor, "*h Q v"] | None = None,
) -> tuple[Float[Tensor, "*h Q v"], Float[Tensor, "*h Q N"]]:
    """Attention outputs and weights; with `own_*` a query also sees its own token, the last
    weight.
    """
    scores = queries @ keys.mT
    if own_keys is None or own_values is None:
        weights = (beta * scores).softmax(-1)
        return weights @ values, weights
    own = (queries * own_keys).sum(-1, keepdim=True)
    weights = (beta * torch.cat((scores, own), dim=-1)).softmax(-1)
    return weights[..., :-1] @ values + weights[..., -1:] * own_values, weights


def _side_by_side(heads: Float[Tensor, "*l H T d"]) -> Float[Tensor, "*l T Hd"]:
    return heads.movedim(-3, -2).flatten(-2)
