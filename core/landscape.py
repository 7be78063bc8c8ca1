"""The energy landscape on a plane, before and after reshaping: all that the Landscape page draws.

`landscape(settings)` draws memories, in-context examples and a query, reshapes the memories, and
returns both landscapes on one plane. Energies live in D dimensions: the picture is a slice. What
it hides is returned too: how far each point lies off the plane, and where the minimum of the whole
space is as opposed to the lowest point of the slice.

A grid costs N x M, not N x D: on the plane `x = origin + basis c`, scores are
`Xi basis c + (Xi origin + b)`. For the log-sum-exp energies it costs less still, see `_lse_grid`.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from core.hopfield import (
    Energy,
    attention,
    check_beta,
    check_patterns,
    classify,
    describe,
    energy_of,
    energy_row,
    gradient,
    hessian,
    retrieve,
    retrieve_batch,
    sparsemax_step,
)
from core.patterns import LAYOUTS, check_seed, draw_patterns, gaussian
from core.reshape import Reshaping, apply, interpolate, reshape, reshaping_map
from core.separation import (
    bounds_apply,
    largest_norm,
    margin_bound,
    query_margin,
    ramsauer_bound,
    retrieval_error,
    separation,
)

SEMANTICS = (
    "The pretrained landscape stores M memories. A prompt of t examples arrives; example j is "
    "paired with memory j (counting round when t > M), which is its ghost. W1 = K K~^+ is the "
    "linear map that sends ghosts K~ to examples K, as well as one linear map can, and the "
    "reshaped memories are W(s) = (1 - s) I + s W1 applied to all M memories. With t = M this is "
    "the reshaping of the paper, W1 K~. What we add (ours): with t < M the other memories are "
    "moved by the same map, and lose what lies outside the span of the ghosts; with t > M several "
    "examples share one ghost, which can only go to their mean. The values are the keys through "
    "one random linear task map, W2 = V V~^+ from them. Energies, weights and retrieval after "
    "reshaping are those of the reshaped memories."
)

MAX_DIMENSION = 256
MAX_MEMORIES = 512
FARTHEST = 1e6  # squares of lengths stay finite with room to spare
MAX_STEPS = 300  # of the query's retrieval
_TOGETHER = 24  # steps after which starts that have come together go on as one
_LATE_GROUPS = 24  # ends of slow retrievals that Newton's method is tried on
MERGE = 1e-3  # fixed points nearer than this (relative to the largest pattern norm) are one


@dataclass(frozen=True)
class LandscapeSettings:
    """Everything the picture depends on; hashable, so a cache can key on it.

    Lengths are relative to pattern norms: the query is a memory plus Gaussian noise of expected
    length about `noise`; each example is its ghost plus Gaussian noise of length about `shift`,
    scaled back to the ghost's norm.
    """

    energy: str = "lse_dot"
    beta: float = 8.0
    dimension: int = 16  # D
    memories: int = 4  # M
    examples: int = 4  # t
    layout: str = "random"
    strength: float = 1.0  # s
    ridge: float = 0.0
    tolerance: float | None = None  # relative rank tolerance of the pseudo-inverse
    noise: float = 0.3
    shift: float = 0.8
    query_as_example: bool = False  # Lemma 2.2: the target's example is the query itself
    seed: int = 0
    plane: Literal["query", "pca"] = "query"
    grid: int = 201
    starts: int = 15  # basins are mapped from starts x starts points of the plane
    patterns: tuple[tuple[float, ...], ...] | None = None  # uploaded, in place of a layout
    query_at: tuple[float, float] | None = None  # plane coordinates, in place of a noisy memory
    # ("memory" or "example", index, x, y): where a point lies instead of where it was drawn. Only
    # in two dimensions, where the plane is the space; entries beyond M or t move nothing.
    moved: tuple[tuple[str, int, float, float], ...] = ()

    def __post_init__(self) -> None:
        energy_row(self.energy)
        check_beta(self.beta)
        if self.layout not in LAYOUTS:
            raise ValueError(f"unknown layout {self.layout!r}; choose one of {', '.join(LAYOUTS)}")
        if self.plane not in ("query", "pca"):
            raise ValueError(f"plane must be 'query' or 'pca', got {self.plane!r}")
        for name, low, high in (
            ("dimension", 2, MAX_DIMENSION),
            ("memories", 1, MAX_MEMORIES),
            ("examples", 1, MAX_MEMORIES),
            ("grid", 3, 401),
            ("starts", 2, 41),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} must be in {low}..{high}, got {value}")
        check_seed(self.seed)
        for name in ("ridge", "noise", "shift"):
            value = getattr(self, name)
            if not 0 <= value <= FARTHEST:
                raise ValueError(f"{name} must be a number in 0..{FARTHEST:g}, got {value}")
        if not 0 <= self.strength <= 1:
            raise ValueError(f"strength must be in [0, 1], got {self.strength}")
        if self.query_at is not None and not all(abs(c) <= FARTHEST for c in self.query_at):
            raise ValueError(
                f"query_at must be two coordinates of size at most {FARTHEST:g}, "
                f"got {self.query_at}"
            )
        for entry in self.moved:
            kind, index, *at = entry
            near = all(abs(c) <= FARTHEST for c in at)
            if kind not in ("memory", "example") or index < 0 or not near:
                raise ValueError(
                    "moved must hold entries ('memory' or 'example', index from 0, x, y) with "
                    f"coordinates of size at most {FARTHEST:g}, got {entry}"
                )


# ---- the plane -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plane:
    """A plane `origin + basis c` in R^D with orthonormal basis columns."""

    kind: str  # "identity" (D = 2), "query" or "pca"
    origin: Float[Tensor, "D"]
    basis: Float[Tensor, "D 2"]

    def project(self, points: Float[Tensor, "N D"]) -> Float[Tensor, "N 2"]:
        """Plane coordinates of the nearest point of the plane."""
        return (points - self.origin) @ self.basis

    def off_plane(self, points: Float[Tensor, "N D"]) -> Float[Tensor, "N"]:
        """Distance to the plane."""
        return (points - self.lift(self.project(points))).norm(dim=-1)

    def lift(self, coordinates: Float[Tensor, "N 2"]) -> Float[Tensor, "N D"]:
        """The point of R^D at plane coordinates."""
        return self.origin + coordinates @ self.basis.mT


def _orthonormal(directions: Float[Tensor, "K D"]) -> Float[Tensor, "D 2"]:
    """Gram-Schmidt over the directions, then the coordinate axes, until two are found.

    Coincident points (noise 0, one memory, repeated patterns) span less than a plane; the axes
    complete it, so a picture always exists.
    """
    D = directions.shape[1]
    scale = directions.norm(dim=1).amax()
    chosen: list[Tensor] = []
    for direction in [*directions, *(torch.eye(D, dtype=directions.dtype) * (scale + 1))]:
        for _ in range(2):  # twice is enough for orthogonality to rounding
            for axis in chosen:
                direction = direction - (direction @ axis) * axis
        length = direction.norm()
        if length > 1e-8 * (scale + 1):
            chosen.append(direction / length)
        if len(chosen) == 2:
            break
    return torch.stack(chosen, dim=1)


def _whole_plane(points: Float[Tensor, "N 2"]) -> Plane:
    return Plane("identity", points.new_zeros(2), torch.eye(2, dtype=points.dtype))


def plane_through(points: Float[Tensor, "3 D"]) -> Plane:
    """The plane through three points, centred on them; first axis from the first to the second.

    For D = 2 the plane itself: origin 0 and the coordinate axes.
    """
    if points.shape[1] == 2:
        return _whole_plane(points)
    basis = _orthonormal(points[1:] - points[0])
    return Plane("query", points.mean(dim=0), basis)


def principal_plane(points: Float[Tensor, "N D"]) -> Plane:
    """The plane of the two leading principal components; equals scikit-learn's PCA up to signs.

    Signs are fixed so that the largest loading of each axis is positive.
    """
    if points.shape[1] == 2:
        return _whole_plane(points)
    origin = points.mean(dim=0)
    _, _, axes = torch.linalg.svd(points - origin, full_matrices=False)
    signs = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True)).sign()
    return Plane("pca", origin, _orthonormal((axes * signs)[:2]))


# ---- energies on a grid ----------------------------------------------------------------------

# Largest variation of an exponent inside a block: exp(-300) * exp(-300) is still a float64.
_BLOCK_RANGE = 300.0
_BLOCK = 41  # grid points a side: M x 41^2 floats stay in the cache, few patterns matter in each


def _lse_grid(
    along_x: Float[Tensor, "M"],
    along_y: Float[Tensor, "M"],
    level: Float[Tensor, "M"],
    xs: Float[Tensor, "G"],
    ys: Float[Tensor, "H"],
    beta: float,
) -> Float[Tensor, "H G"]:
    """`lse(beta, along_x x + along_y y + level)` on a grid, exact in float64.

    `exp(beta (a x + b y + c))` is a product of a function of x and one of y, so the sum over
    patterns is a matrix product: G + H rows of exponentials instead of G x H. To be safe from
    overflow the grid is cut into blocks, each with exponents measured from its centre: blocks are
    as large as keeps the variation inside them below 300.
    """
    G, H = len(xs), len(ys)
    spread = beta * float(along_x.max() - along_x.min() + along_y.max() - along_y.min())
    step = max(float(xs[1] - xs[0]), float(ys[1] - ys[0]))
    size = min(max(G, H), int(min(2 * _BLOCK_RANGE / max(spread * step, 1e-300), 1e6)))
    if size < 4:  # blocks of a point or two save nothing
        scores = along_y[:, None, None] * ys[:, None] + along_x[:, None, None] * xs
        return torch.logsumexp(beta * (scores + level[:, None, None]), dim=0) / beta

    def blocks(axis: Tensor) -> tuple[Tensor, Tensor]:
        """Block centres `(B,)` and offsets from them `(B, size)`; the last block runs over."""
        count = -(-len(axis) // size)
        start = axis[0] + step_of(axis) * size * torch.arange(count, dtype=axis.dtype)
        offsets = step_of(axis) * (torch.arange(size, dtype=axis.dtype) - (size - 1) / 2)
        return start - offsets[0], offsets

    def step_of(axis: Tensor) -> Tensor:
        return (axis[-1] - axis[0]) / (len(axis) - 1)

    (cx, dx), (cy, dy) = blocks(xs), blocks(ys)
    centre = beta * (cy[:, None, None] * along_y + cx[None, :, None] * along_x + level)  # (BH,BG,M)
    top = centre.amax(dim=-1, keepdim=True)
    # An offset common to all patterns shifts the result only: measure slopes from their midpoint.
    ax, ay = _midpoint(along_x), _midpoint(along_y)
    in_x = (beta * dx[:, None] * (along_x - ax)).exp()  # (size, M)
    in_y = (beta * dy[:, None] * (along_y - ay)).exp()
    weighted = (centre - top).exp().unsqueeze(-2) * in_x  # (BH, BG, size, M)
    total = weighted @ in_y.mT  # (BH, BG, size_x, size_y)
    lse = total.log() / beta + top.unsqueeze(-1) / beta
    lse = lse + (dx * ax)[:, None] + dy * ay
    whole = lse.permute(0, 3, 1, 2).reshape(len(cy) * size, len(cx) * size)
    return whole[:H, :G]


def _midpoint(slopes: Tensor) -> Tensor:
    return (slopes.max() + slopes.min()) / 2


def _power_grid(
    over: Float[Tensor, "M G"], up: Float[Tensor, "M H"], beta: float
) -> Float[Tensor, "H G"]:
    """`power_norm` of the scores `over + up`, through logarithms: several times faster than powers.

    2^-100 adds nothing to a sum of at least 2^-40, and smaller floats (subnormal) are slow.
    """
    n = 1 + beta
    low, high = _best_scores(over, up)
    scores = over.unsqueeze(1) + up.unsqueeze(2)
    if low > 0 and n * math.log2(high / low) < 40:  # one measure for the whole block
        scores.mul_(1 / high)
        if n in (2, 3):  # torch multiplies
            return scores.clamp_min_(0).pow_(n).sum(dim=0).pow_(1 / n).mul_(high)
        logs = scores.clamp_min_(1e-30).log2_()
        return logs.mul_(n).clamp_min_(-100).exp2_().sum(dim=0).log2_().div_(n).exp2_().mul_(high)
    top = scores.amax(dim=0)
    logs = scores.clamp_min_(1e-30).log2_()
    peak = top.clamp_min(1e-30).log2()
    total = torch.add(-n * peak, logs, alpha=n).clamp_min_(-100).exp2_().sum(dim=0)
    value = (peak + total.log2() / n).exp2()
    return torch.where(top > 1e-30, value, torch.zeros_like(value))


def _best_scores(over: Float[Tensor, "M G"], up: Float[Tensor, "M H"]) -> tuple[float, float]:
    """Between which numbers the largest score lies anywhere in a block."""
    low = over.amin(dim=1) + up.amin(dim=1)
    high = over.amax(dim=1) + up.amax(dim=1)
    return float(low.amax()), float(high.amax())


def _sparse_grid(
    over: Float[Tensor, "M G"], up: Float[Tensor, "M H"], beta: float
) -> Float[Tensor, "H G"]:
    """`sparse_conjugate` of the scores `over + up`, by Newton's method on the threshold.

    In units of scores: `f(t) = sum [z - t]_+ - 1/beta` is convex, decreasing and piecewise linear.
    A set S of memories gives a t that is linear on the plane and never above the root (see
    `hopfield.sparsemax_step`), and the root where S is the support. The largest over the supports
    at a lattice of points is the start; Newton never overshoots from there. The conjugate is the
    minimum over t of `t + beta sum [z - t]_+^2 / 2 + 1/(2 beta)`, where an error of f enters
    squared: `|beta f| <= 1e-3` will do.
    """
    scores = over.unsqueeze(1) + up.unsqueeze(2)
    side = 4 if len(over) > 8 else 1  # few memories: Newton is as quick
    down, right = (torch.linspace(0, n - 1, min(n, side)).long() for n in scores.shape[1:])
    some = (over[:, right].unsqueeze(1) + up[:, down].unsqueeze(2)).flatten(1).mT.contiguous()
    support = sparsemax_step(some, beta, torch.ones_like(some)).sign_()  # (K, M)
    size = support.sum(dim=1, keepdim=True)
    level = (support @ over / size).unsqueeze(1) + ((support @ up - 1 / beta) / size).unsqueeze(2)
    t = level.amax(dim=0)
    rest = (scores - t).relu_()
    for _ in range(len(scores)):
        excess = rest.sum(dim=0) - 1 / beta
        if beta * float(excess.amax()) <= 1e-3:
            break
        count = rest.sign_().sum(dim=0).clamp_min_(1)
        rest = torch.sub(scores, t := t + excess / count, out=rest).relu_()
    return t + rest.square_().sum(dim=0) * (beta / 2) + 1 / (2 * beta)


def _blockwise_grid(
    along: Float[Tensor, "M 2"],
    level: Float[Tensor, "M"],
    xs: Float[Tensor, "G"],
    ys: Float[Tensor, "H"],
    beta: float,
    energy: str,
) -> Float[Tensor, "H G"]:
    """polynomial or sparse potential on a grid, in blocks, each with the patterns it can feel.

    Scores are linear, so over a block they stay within `slope . half-width` of the score at its
    centre. sparse gives no weight to a score `1/beta` below the best; polynomial gives one of
    ratio r the share r^n, negligible below 2^-30.
    """
    kernel = _power_grid if energy == "polynomial" else _sparse_grid
    across = (along[:, 0, None] * xs).float()  # (M, G)
    upward = (along[:, 1, None] * ys + level[:, None]).float()  # (M, H)
    potential = torch.empty(len(ys), len(xs))
    for top in range(0, len(ys), _BLOCK):
        rows = slice(top, top + _BLOCK)
        up = upward[:, rows]
        low_up, high_up = up.amin(dim=1), up.amax(dim=1)
        for left in range(0, len(xs), _BLOCK):
            columns = slice(left, left + _BLOCK)
            over = across[:, columns]
            best = float((over.amin(dim=1) + low_up).amax())  # the largest score is never below
            if energy == "sparse":  # noqa: SIM108 - three cases in one line do not read
                reach = best - 1 / beta
            else:
                reach = best * 2 ** (-30 / (1 + beta)) if best > 0 else -math.inf
            # Rounding of the float32 sums must not decide: keep a little more.
            near = over.amax(dim=1) + high_up >= reach - 1e-5 * abs(reach)
            potential[rows, columns] = kernel(over[near], up[near], beta)
    return potential.to(along.dtype)


def energy_slice(
    Xi: Float[Tensor, "M D"],
    plane: Plane,
    xs: Float[Tensor, "G"],
    ys: Float[Tensor, "H"],
    beta: float,
    energy: str = "lse_dot",
) -> Float[Tensor, "H G"]:
    """Energy on the plane at every `(ys[i], xs[j])`, equally spaced; equals `energy_of` there.

    float64 throughout for the log-sum-exp energies (equal to rounding). polynomial and sparse
    evaluate scores in float32: within 1e-5 of `m^2 + |x|^2`, far below a pixel's colour step.
    """
    row: Energy = energy_row(energy)
    along = Xi @ plane.basis  # (M, 2)
    level = Xi @ plane.origin + row.bias(Xi)
    if energy in ("lse_dot", "lse_l2"):
        potential = _lse_grid(along[:, 0], along[:, 1], level, xs, ys, beta)
    elif energy in ("polynomial", "sparse"):
        potential = _blockwise_grid(along, level, xs, ys, beta, energy)
    else:  # an energy without a fast path yet: its own definition
        points = torch.cartesian_prod(ys, xs).flip(1)
        return energy_of(Xi, plane.lift(points), beta, energy).reshape(len(ys), len(xs))
    tilt = plane.origin @ plane.basis
    half = (xs * xs / 2 + xs * tilt[0]) + (ys * ys / 2 + ys * tilt[1])[:, None]
    return half - potential + (plane.origin @ plane.origin / 2 + row.constant(Xi, beta))


# ---- stationary points -----------------------------------------------------------------------


@dataclass(frozen=True)
class Stationary:
    """Fixed points in R^D reached from a grid of starts on the plane, lowest energy first."""

    states: Float[np.ndarray, "P D"]
    points: Float[np.ndarray, "P 2"]  # projected on the plane
    off_plane: Float[np.ndarray, "P"]
    energies: Float[np.ndarray, "P"]
    kinds: tuple[str, ...]  # "minimum", or "saddle" if the Hessian is not positive definite
    share: Float[np.ndarray, "P"]  # share of starts that end there
    outcome: tuple[str, ...]  # "retrieved 3", "mixture of 2", ...


def _merge(states: Float[Tensor, "N D"], radius: float) -> tuple[Int[Tensor, "N"], Tensor]:
    """Group states nearer than `radius` to the first of their group; labels and first indices."""
    points = states.double().numpy()
    squares = (points * points).sum(axis=1)
    labels = np.full(len(points), -1)
    firsts: list[int] = []
    for first in range(len(points)):
        if labels[first] < 0:
            apart = squares + (squares[first] - radius * radius) - 2 * (points @ points[first])
            labels[(apart <= 0) & (labels < 0)] = len(firsts)
            labels[first] = len(firsts)
            firsts.append(first)
    return torch.from_numpy(labels), torch.tensor(firsts, dtype=torch.long)


def _polish(
    Xi: Float[Tensor, "M D"], states: Float[Tensor, "P D"], beta: float, energy: str, rounds: int
) -> tuple[Float[Tensor, "P D"], Bool[Tensor, "P"], Float[Tensor, "P"]]:
    """Newton's method towards the stationary point next to each state.

    A step is taken where the Hessian is positive definite and the gradient shrinks. Returns the
    states, whether the last Hessian was positive definite, and the gradient norms.
    """
    slope = gradient(Xi, states, beta, energy)
    definite = torch.ones(len(states), dtype=torch.bool)
    for _ in range(rounds):
        factor, failed = torch.linalg.cholesky_ex(hessian(Xi, states, beta, energy))
        definite = failed == 0
        step = torch.cholesky_solve(slope.unsqueeze(-1), factor).squeeze(-1)
        trial = states - torch.where(definite.unsqueeze(-1), step, 0.0)
        trial_slope = gradient(Xi, trial, beta, energy)
        better = (trial_slope.norm(dim=1) < slope.norm(dim=1)).unsqueeze(-1)
        states, slope = torch.where(better, trial, states), torch.where(better, trial_slope, slope)
        if not better.any():  # at rounding, or on a ridge
            break
    return states, definite, slope.norm(dim=1)


def stationary_points(
    Xi: Float[Tensor, "M D"],
    starts: Float[Tensor, "N D"],
    beta: float,
    energy: str = "lse_dot",
    plane: Plane | None = None,
    max_steps: int = 60,
) -> tuple[Stationary, Int[np.ndarray, "N"]]:
    """Fixed points from many starts, merged, and which one each start ends in (-1: not known).

    Retrieval in float32 finds basins. After `_TOGETHER` steps starts whose states lie within `MERGE`
    go on as one: theirs is one end, unless a ridge runs between them. Each distinct end is then
    polished by Newton's method in float64. Where two minima are about to merge retrieval is slow,
    and Newton finishes what has not arrived after `max_steps` more, unless it would leave the
    neighbourhood: then the end is not
    known. A point is a minimum if the Cholesky factorisation of its Hessian exists.
    """
    plane = plane or plane_through(Xi[:1].expand(3, -1))
    m = float(largest_norm(Xi)) or 1.0
    single = Xi.float()

    def follow(states: Tensor, steps: int, hasten_after: int | None) -> tuple[Tensor, Tensor]:
        found = retrieve_batch(
            single, states.float(), beta, energy, None, steps, 3e-6, None, hasten_after
        )
        return found.weights.to(Xi.dtype) @ Xi, found.converged

    states, converged = follow(starts, _TOGETHER, None)
    moving = (~converged).nonzero().squeeze(1)
    if len(moving):
        groups, firsts = _merge(states[moving], MERGE * m)
        further, there = follow(states[moving][firsts], max_steps, 8)
        states[moving], converged[moving] = further[groups], there[groups]
    basins = np.full(len(starts), -1)

    arrived, late = (index.nonzero().squeeze(1) for index in (converged, ~converged))
    groups, firsts = _merge(states[arrived], MERGE * m)
    ends, definite, _ = _polish(Xi, states[arrived][firsts], beta, energy, rounds=2)
    if len(late):
        late_groups, late_firsts = _merge(states[late], 20 * MERGE * m)
        late_firsts = late_firsts[:_LATE_GROUPS]
        from_states = states[late][late_firsts]
        polished, sure, slopes = _polish(Xi, from_states, beta, energy, rounds=8)
        near = (polished - from_states).norm(dim=1) <= 0.25 * m
        kept = (near & sure & (slopes <= 1e-8 * m)).nonzero().squeeze(1)
        position = torch.full((len(late),), -1)  # of each late group among the kept, or -1
        position[kept] = len(ends) + torch.arange(len(kept))
        arrived, groups = torch.cat([arrived, late]), torch.cat([groups, position[late_groups]])
        ends = torch.cat([ends, polished[kept]])
        definite = torch.cat([definite, sure[kept]])
    same, firsts = _merge(ends, MERGE * m)
    ends, definite = ends[firsts], definite[firsts]
    known = groups >= 0
    arrived, labels = arrived[known], same[groups[known]]

    energies = energy_of(Xi, ends, beta, energy)
    order = energies.argsort()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order))
    basins[arrived.numpy()] = rank[labels].numpy()
    ends = ends[order]
    weights = attention(Xi, ends, beta, energy)
    winners = weights.argmax(dim=1)
    codes, effective = classify(weights, winners, torch.ones_like(winners, dtype=torch.bool))
    counts = np.bincount(basins[basins >= 0], minlength=len(ends))
    return (
        Stationary(
            states=ends.numpy(),
            points=plane.project(ends).numpy(),
            off_plane=plane.off_plane(ends).numpy(),
            energies=energies[order].numpy(),
            kinds=tuple("minimum" if ok else "saddle" for ok in definite[order].tolist()),
            share=counts / max(len(starts), 1),
            outcome=tuple(
                describe(code, winner, count)
                for code, winner, count in zip(
                    codes.tolist(), winners.tolist(), effective.tolist(), strict=True
                )
            ),
        ),
        basins,
    )


# ---- the page's result -----------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One landscape, before or after reshaping. Arrays are numpy; grids are indexed [iy, ix]."""

    memories: Float[np.ndarray, "M D"]
    points: Float[np.ndarray, "M 2"]
    off_plane: Float[np.ndarray, "M"]
    energy: Float[np.ndarray, "G G"]
    path: Float[np.ndarray, "S1 2"]  # the query's trajectory on the plane, query first
    path_off_plane: Float[np.ndarray, "S1"]
    path_energies: Float[np.ndarray, "S1"]  # true energies in R^D, not those of the slice
    weights: Float[np.ndarray, "S1 M"]
    outcome: str
    code: int
    message: str
    converged: bool
    effective: float
    delta: Float[np.ndarray, "M"]
    largest_norm: float
    margin: float  # of the query for the target
    error: float  # |T(x) - xi_mu|, xi_mu the target as stored on this side
    bounds_apply: bool  # whether the bounds are theorems here, see core.separation.bounds_apply
    bound_margin: float  # NaN where they do not apply
    bound_ramsauer: float
    vacuous: bool  # the Ramsauer bound is above 2 m
    stationary: Stationary
    basins: Int[np.ndarray, "B B"]  # index into stationary, -1 = not converged
    slice_minimum: Float[np.ndarray, "2"]  # lowest grid point of the slice
    slice_energy: float
    space_minimum: Float[np.ndarray, "2"]  # lowest point found in R^D from this plane, projected
    space_energy: float
    space_off_plane: float


@dataclass(frozen=True)
class Landscape:
    """Both landscapes on one plane and one pair of axes."""

    settings: LandscapeSettings
    plane: Plane
    xs: Float[np.ndarray, "G"]
    ys: Float[np.ndarray, "G"]
    basin_xs: Float[np.ndarray, "B"]
    basin_ys: Float[np.ndarray, "B"]
    before: Side
    after: Side
    difference: Float[np.ndarray, "G G"]  # after - before
    colour_range: tuple[float, float]  # of before and after together
    difference_range: float  # largest absolute difference
    query: Float[np.ndarray, "D"]
    query_point: Float[np.ndarray, "2"]
    query_off_plane: float
    examples: Float[np.ndarray, "T D"]
    example_points: Float[np.ndarray, "T 2"]
    example_off_plane: Float[np.ndarray, "T"]
    own_examples: Float[np.ndarray, "T D"]  # before the query took the place of one (Lemma 2.2)
    pairs: Int[np.ndarray, "T"]  # the memory that is each example's ghost
    target: int  # mu: the memory the query was made from; after a click, the most similar one
    reshaping: Reshaping
    margin_gain_predicted: float  # |x|^2 - x.xi_mu, were xi_mu replaced by the query


def _generator(seed: int, purpose: int) -> torch.Generator:
    """One stream for each purpose, so that moving one slider leaves the other draws alone."""
    return torch.Generator().manual_seed(int(seed) * 8 + purpose)


def _memories(settings: LandscapeSettings) -> Float[Tensor, "M D"]:
    if settings.patterns is None:
        return draw_patterns(
            settings.layout,
            settings.memories,
            settings.dimension,
            _generator(settings.seed, 0),
        )
    lengths = {len(row) for row in settings.patterns}
    if len(lengths) != 1:
        raise ValueError("uploaded patterns must be rows of one length; pass them as a table")
    Xi = check_patterns(torch.tensor(settings.patterns, dtype=torch.float64))
    if Xi.shape[1] < 2 or Xi.shape[1] > MAX_DIMENSION or Xi.shape[0] > MAX_MEMORIES:
        raise ValueError(
            f"uploaded patterns must have 2..{MAX_DIMENSION} columns and at most {MAX_MEMORIES} "
            f"rows, got {Xi.shape[0]} rows of {Xi.shape[1]}"
        )
    return Xi


def _perturbed(
    points: Float[Tensor, "N D"], length: float, generator: torch.Generator
) -> Float[Tensor, "N D"]:
    """Points plus Gaussian noise whose expected length is about `length` times the point's norm."""
    noise = gaussian(*points.shape, generator=generator) / math.sqrt(points.shape[1])
    return points + length * points.norm(dim=1, keepdim=True) * noise


def _axes(
    points: Float[Tensor, "N 2"], placed: Float[Tensor, "K 2"], count: int
) -> tuple[Tensor, Tensor]:
    """A square window around points with a margin of 20 %.

    Points placed by hand do not move it while they lie inside: a picture that follows the mouse
    would run away from it. Outside, they count as all others do.
    """

    def window(points: Tensor) -> tuple[Tensor, float]:
        low, high = points.amin(dim=0), points.amax(dim=0)
        return (low + high) / 2, 0.6 * float((high - low).amax()) or 1.0

    centre, half = window(points)
    if bool(((placed - centre).abs() > 0.97 * half).any()):
        centre, half = window(torch.cat([points, placed]))
    xs, ys = (
        torch.linspace(float(c) - half, float(c) + half, count, dtype=points.dtype) for c in centre
    )
    return xs, ys


def landscape(settings: LandscapeSettings) -> Landscape:
    """All that the Landscape page draws, from settings alone; see `SEMANTICS` for the story.

    Raises ValueError for uploaded patterns that do not fit.
    """
    Xi = _memories(settings)
    M, t, beta, energy = len(Xi), settings.examples, settings.beta, settings.energy
    seed = settings.seed

    # The plane is made from the generated query, so that a click does not move it.
    query = _perturbed(Xi[:1], settings.noise, _generator(seed, 1))[0]
    pairs = torch.arange(t) % M
    ghosts = Xi[pairs]
    examples = _perturbed(ghosts, settings.shift, _generator(seed, 2))
    norms = examples.norm(dim=1, keepdim=True).clamp_min(torch.finfo(Xi.dtype).tiny)
    examples = examples / norms * ghosts.norm(dim=1, keepdim=True)
    if settings.plane == "pca":
        plane = principal_plane(torch.cat([Xi, examples, query[None]]))
    else:
        others = Xi @ query
        others[0] = -math.inf
        rival = Xi[int(others.argmax())] if M > 1 else examples[0]
        plane = plane_through(torch.stack([query, Xi[0], rival]))

    target, drawn = 0, None
    if settings.moved or settings.query_at is not None:  # where all would lie untouched by hand
        keys = examples.clone()
        if settings.query_as_example:
            keys[0] = query
        W = reshaping_map(keys, ghosts, settings.ridge, settings.tolerance)
        drawn = torch.cat([Xi, apply(W, Xi), keys, query[None]])
    if plane.kind == "identity" and settings.moved:
        Xi = Xi.clone()
        for kind, index, *at in settings.moved:
            points = Xi if kind == "memory" else examples
            if index < len(points):
                points[index] = torch.tensor(at, dtype=Xi.dtype)
        ghosts = Xi[pairs]
    if settings.query_at is not None:
        query = plane.lift(torch.tensor([settings.query_at], dtype=Xi.dtype))[0]
        target = int((Xi @ query).argmax())
    own_examples = examples.clone()
    if settings.query_as_example:
        if target not in pairs:
            pairs[-1] = target
            ghosts = Xi[pairs]
        examples[int((pairs == target).nonzero()[0])] = query

    D = Xi.shape[1]
    task = gaussian(2, D, D, generator=_generator(seed, 3)) / math.sqrt(D)  # pretraining, prompt
    reshaping = reshape(
        examples,
        examples @ task[1].mT,
        ghosts,
        ghosts @ task[0].mT,
        settings.ridge,
        settings.tolerance,
    )
    full = apply(reshaping.W1, Xi)
    reshaped = apply(interpolate(reshaping.W1, settings.strength), Xi)

    # Memories in between lie between both ends, so this window serves every strength.
    placed = torch.cat([Xi, full, examples, query[None]])
    drawn = placed if drawn is None else drawn
    xs, ys = _axes(plane.project(drawn), plane.project(placed), settings.grid)
    pick = torch.linspace(0, settings.grid - 1, settings.starts).round().long()
    basin_xs, basin_ys = xs[pick], ys[pick]
    starts = plane.lift(torch.cartesian_prod(basin_ys, basin_xs).flip(1))

    def side(memories: Tensor) -> Side:
        grid = energy_slice(memories, plane, xs, ys, beta, energy)
        path = retrieve(memories, query, beta, energy, target, MAX_STEPS)
        lowest = int(grid.argmin())
        bottom = torch.stack([xs[lowest % len(xs)], ys[lowest // len(xs)]])
        # One more start, where the slice is lowest: the minimum of the space is never above it.
        from_bottom = plane.lift(bottom[None])
        stationary, basins = stationary_points(
            memories, torch.cat([starts, from_bottom]), beta, energy, plane
        )
        m = float(largest_norm(memories))
        proven = bounds_apply(memories, energy)
        bounds = [
            float(bound(memories, query, beta, target)) if proven else math.nan
            for bound in (margin_bound, ramsauer_bound)
        ]
        if basins[-1] < 0:  # its end is not known, see `stationary_points`
            descent = retrieve(memories, from_bottom[0], beta, energy, target, MAX_STEPS)
            deepest, depth = descent.state, float(descent.energies[-1])
        if basins[-1] >= 0 or (len(stationary.energies) and stationary.energies[0] <= depth):
            deepest, depth = torch.from_numpy(stationary.states[0]), float(stationary.energies[0])
        return Side(
            memories=memories.numpy(),
            points=plane.project(memories).numpy(),
            off_plane=plane.off_plane(memories).numpy(),
            energy=grid.numpy(),
            path=plane.project(path.trajectory).numpy(),
            path_off_plane=plane.off_plane(path.trajectory).numpy(),
            path_energies=path.energies.numpy(),
            weights=path.weights.numpy(),
            outcome=path.outcome,
            code=path.code,
            message=path.message,
            converged=path.converged,
            effective=path.effective,
            delta=separation(memories).numpy(),
            largest_norm=m,
            margin=float(query_margin(memories, query, target)),
            error=float(retrieval_error(memories, query, beta, target, energy)),
            bounds_apply=proven,
            bound_margin=bounds[0],
            bound_ramsauer=bounds[1],
            vacuous=bounds[1] > 2 * m,
            stationary=stationary,
            basins=basins[:-1].reshape(len(basin_ys), len(basin_xs)),
            slice_minimum=bottom.numpy(),
            slice_energy=float(grid.flatten()[lowest]),
            space_minimum=plane.project(deepest[None])[0].numpy(),
            space_energy=depth,
            space_off_plane=float(plane.off_plane(deepest[None])[0]),
        )

    before, after = side(Xi), side(reshaped)
    difference = after.energy - before.energy
    return Landscape(
        settings=settings,
        plane=plane,
        xs=xs.numpy(),
        ys=ys.numpy(),
        basin_xs=basin_xs.numpy(),
        basin_ys=basin_ys.numpy(),
        before=before,
        after=after,
        difference=difference,
        colour_range=(
            float(min(before.energy.min(), after.energy.min())),
            float(max(before.energy.max(), after.energy.max())),
        ),
        difference_range=float(np.abs(difference).max()),
        query=query.numpy(),
        query_point=plane.project(query[None])[0].numpy(),
        query_off_plane=float(plane.off_plane(query[None])[0]),
        examples=examples.numpy(),
        example_points=plane.project(examples).numpy(),
        example_off_plane=plane.off_plane(examples).numpy(),
        own_examples=own_examples.numpy(),
        pairs=pairs.numpy(),
        target=target,
        reshaping=reshaping,
        margin_gain_predicted=float(query @ query - query @ Xi[target]),
    )
