"""In-context regression prompts: tasks, covariate laws, label corruptions, similarity.

A prompt is a draw of one task and of `P` inputs with their labels. `PromptLaw` holds every setting
of the law as one flat frozen dataclass, `sample_prompts` draws from it. Three registries are the
one place to change: `TASKS`, `COVARIATES`, `CORRUPTIONS`.

Common random numbers: draws are made in one order (task, inputs, mixing, query, corruption) and
their number does not depend on the continuous settings. With one seed, moving `w2`, the means or
`accuracy` therefore moves the same prompts instead of drawing new ones.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = [
    "CORRUPTIONS",
    "COVARIATES",
    "TASKS",
    "Covariates",
    "PromptLaw",
    "Prompts",
    "Task",
    "departures",
    "label_noise_variance",
    "label_scale",
    "random_cycle",
    "sample_prompts",
]


@dataclass(frozen=True)
class Prompts:
    """`B` prompts of `P` points. The prediction at position `i` sees the pairs before `i` only.

    `queries is xs` (the same object) unless a law asks elsewhere: every x is asked before its
    label is shown. `targets` and `clean_ys` are never corrupted.
    """

    xs: Float[Tensor, "B P D"]  # in-context inputs
    ys: Float[Tensor, "B P"]  # their labels as shown to the learner, possibly corrupted
    queries: Float[Tensor, "B P D"]  # asked after i pairs
    targets: Float[Tensor, "B P"]  # clean label of queries[:, i]
    clean_ys: Float[Tensor, "B P"] | None = None  # clean labels of xs
    corrupted: Bool[Tensor, "B P"] | None = None  # where ys was corrupted
    task_weights: Float[Tensor, "B D"] | None = None  # beta of a linear task, for diagnosis

    @property
    def n_prompts(self) -> int:
        return self.xs.shape[0]

    @property
    def n_points(self) -> int:
        """Positions, that is the largest number of in-context pairs plus one."""
        return self.xs.shape[1]

    @property
    def n_dims(self) -> int:
        return self.xs.shape[2]

    def take(self, prompts: slice | Int[Tensor, " K"]) -> "Prompts":
        """The chosen prompts; `queries is xs` survives."""
        return self._map(lambda field: field[prompts])

    def first(self, n_points: int) -> "Prompts":
        """The first `n_points` positions of every prompt; `queries is xs` survives."""
        return self._map(lambda field: field if field is self.task_weights else field[:, :n_points])

    def to(self, *args, **kwargs) -> "Prompts":
        """`Tensor.to` on every floating tensor (dtype, device); `queries is xs` survives."""
        return self._map(
            lambda field: field.to(*args, **kwargs) if field.is_floating_point() else field
        )

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Prompts":
        done: dict[int, Tensor] = {}  # one result per object keeps shared tensors shared
        new: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and id(value) not in done:
                done[id(value)] = change(value)
            new[field.name] = None if value is None else done[id(value)]
        return Prompts(**new)


Number = float | int


@dataclass(frozen=True)
class PromptLaw:
    """Every setting of a prompt law; the defaults are the training law of CAMR section 4.

    Raises ValueError, naming the field, for any value outside its range.
    """

    task: str = "linear"  # a key of TASKS
    n_dims: int = 20  # D
    covariates: str = "mixture"  # a key of COVARIATES

    # The mixture law (1 - w2) N(mean1, I) + w2 N(mean2, I); a mean m stands for m (1, ..., 1).
    w2: Number = 0.0
    mean1: Number = -2.0
    mean2: Number = 2.0
    mixing: str = "input"  # "input": every x picks its component; "prompt": one pick a prompt
    random_share: Number = 0.0  # share of prompts whose w2 is drawn uniformly from 0..1 instead
    mean_spread: Number = 0.0  # sd of one shift a prompt, common to both means

    input_scale: Number = 1.0  # every input is multiplied by it, under every covariate law
    spectrum_power: Number = 2.0  # skewed: the i-th eigenvalue is proportional to i^-power
    free_queries: bool = False  # subspace, quadrants: ask anywhere in N(0, I), not where xs lie

    corruption: str = "none"  # a key of CORRUPTIONS
    accuracy: Number = 1.0  # share of in-context labels left alone
    corruption_size: Number = 1.0  # in units of label_scale(law), where the kind has a size

    similarity: Number | None = None  # cosine between the one query of a prompt and its inputs

    sparsity: int = 3  # sparse linear: weights that are not zero
    tree_depth: int = 4
    hidden: int = 100  # ReLU net: hidden units

    def __post_init__(self) -> None:
        _one_of("task", self.task, TASKS)
        _one_of("covariates", self.covariates, COVARIATES)
        _one_of("corruption", self.corruption, CORRUPTIONS)
        _one_of("mixing", self.mixing, ("input", "prompt"))
        _whole("n_dims", self.n_dims, 1, 1024)
        _whole("tree_depth", self.tree_depth, 1, 12)
        _whole("hidden", self.hidden, 1, 100_000)
        _whole("sparsity", self.sparsity, 1, 1024)
        if self.task == "sparse linear" and self.sparsity > self.n_dims:
            raise ValueError(
                f"sparsity counts the weights that are not zero: expected at most n_dims="
                f"{self.n_dims}, got {self.sparsity}. Lower sparsity or raise n_dims."
            )
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is None and name == "similarity":
                continue
            _between(name, value, low, high)
            object.__setattr__(self, name, float(value))  # 0 and 0.0 are one law
        if self.similarity is not None and self.n_dims == 1 and abs(self.similarity) != 1:
            raise ValueError(
                f"similarity={self.similarity} needs at least 2 dimensions: in one dimension "
                "two inputs have cosine 1 or -1. Raise n_dims."
            )
        if self.covariates == "half subspace" and self.n_dims < 2:
            raise ValueError("half subspace needs n_dims >= 2, got 1. Raise n_dims.")


_RANGES = {
    "w2": (0.0, 1.0),
    "mean1": (-1e3, 1e3),
    "mean2": (-1e3, 1e3),
    "random_share": (0.0, 1.0),
    "mean_spread": (0.0, 1e3),
    "input_scale": (1e-6, 1e6),
    "spectrum_power": (0.0, 8.0),
    "accuracy": (0.0, 1.0),
    "corruption_size": (-1e6, 1e6),
    "similarity": (-1.0, 1.0),
}


def sample_prompts(
    law: PromptLaw,
    n_prompts: int,
    n_points: int,
    generator: torch.Generator,
    *,
    dtype: torch.dtype = torch.float64,
    active_dims: int | None = None,
) -> Prompts:
    """Draws `n_prompts` prompts of `n_points` points on the generator's device.

    The last position is only ever asked, so a prompt holds `n = n_points - 1` pairs, and position
    `i` is asked after `i` of them.

    What "a share of the labels is wrong" means at every length: a uniformly random subset of the
    `n` pairs is corrupted. The whole prompt has the share exactly when `(1 - accuracy) n` is a
    whole number, and every prefix has it in expectation, because a uniform subset does not know
    positions. For a number at one exact length, draw `n_points = length + 1` and read the last
    position. Otherwise the subset has one of the two neighbouring sizes, at random so that the
    expectation is right. One label alone cannot be permuted: size 1 becomes 0 or 2 at even odds.
    A permuted label in a prefix may be the label of an input shown later; it is always a label of
    the same task.

    `active_dims` zeroes the inputs from that dimension on before they are labelled (curriculum).
    With `law.similarity` one query stands at all positions of a prompt.
    """
    _whole("n_prompts", n_prompts, 1, 10_000_000)
    _whole("n_points", n_points, 1, 100_000)
    if active_dims is not None:
        _whole("active_dims", active_dims, 1, law.n_dims)

    task = TASKS[law.task]
    parameters = task.draw(law, n_prompts, generator, dtype)
    xs, queries = COVARIATES[law.covariates].draw(law, n_prompts, n_points, generator, dtype)
    if law.input_scale != 1:
        same, xs = queries is xs, xs * law.input_scale
        queries = xs if same else queries * law.input_scale
    if law.similarity is not None:
        xs, queries = _at_cosine(law.similarity, xs, queries, generator)
    if active_dims is not None and active_dims < law.n_dims:
        keep = (torch.arange(law.n_dims, device=xs.device) < active_dims).to(dtype)
        same, xs = queries is xs, xs * keep
        queries = xs if same else queries * keep

    clean = task.label(parameters, xs)
    if queries is xs:
        targets = clean
    elif law.similarity is not None:
        targets = task.label(parameters, queries[:, :1]).expand(-1, n_points)
    else:
        targets = task.label(parameters, queries)

    corrupted, ys = None, clean
    if law.corruption != "none":
        corrupted = _choose_corrupted(law, n_prompts, n_points, generator)
        ys = CORRUPTIONS[law.corruption](
            clean, corrupted, law.corruption_size * label_scale(law), generator
        )
    weights = parameters[0] if task.linear else None
    return Prompts(xs, ys, queries, targets, clean, corrupted, weights)


# --- Tasks ---------------------------------------------------------------------------------------

Parameters = tuple[Tensor, ...]


@dataclass(frozen=True)
class Task:
    """`draw(law, B, generator, dtype) -> parameters`, `label(parameters, xs (B, P, D)) -> (B, P)`.

    `mean_square(law, e)` is E[y^2] over tasks and inputs, `e` being E|x|^2.
    """

    draw: Callable[[PromptLaw, int, torch.Generator, torch.dtype], Parameters]
    label: Callable[[Parameters, Tensor], Tensor]
    mean_square: Callable[[PromptLaw, float], float]
    linear: bool = False


def _normal(
    shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype
) -> Float[Tensor, "..."]:
    return torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)


def _uniform(
    shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype
) -> Float[Tensor, "..."]:
    return torch.rand(shape, generator=generator, dtype=dtype, device=generator.device)


def _draw_linear(
    law: PromptLaw, n_prompts: int, generator: torch.Generator, dtype: torch.dtype
) -> Parameters:
    return (_normal((n_prompts, law.n_dims), generator, dtype),)


def _label_linear(parameters: Parameters, xs: Float[Tensor, "B P D"]) -> Float[Tensor, "B P"]:
    return torch.bmm(xs, parameters[0].unsqueeze(-1)).squeeze(-1)


def _draw_sparse(
    law: PromptLaw, n_prompts: int, generator: torch.Generator, dtype: torch.dtype
) -> Parameters:
    weights = _normal((n_prompts, law.n_dims), generator, dtype)
    ranks = _uniform((n_prompts, law.n_dims), generator, torch.float64).argsort(1).argsort(1)
    return (weights * (ranks < law.sparsity),)


def _draw_tree(
    law: PromptLaw, n_prompts: int, generator: torch.Generator, dtype: torch.dtype
) -> Parameters:
    """A full binary tree in heap order: node j has children 2j + 1 (x <= 0) and 2j + 2."""
    inner, leaves = 2**law.tree_depth - 1, 2**law.tree_depth
    coordinates = torch.randint(
        law.n_dims, (n_prompts, inner), generator=generator, device=generator.device
    )
    return coordinates, _normal((n_prompts, leaves), generator, dtype)


def _label_tree(parameters: Parameters, xs: Float[Tensor, "B P D"]) -> Float[Tensor, "B P"]:
    coordinates, leaves = parameters
    inner = coordinates.shape[1]
    node = torch.zeros(xs.shape[:2], dtype=torch.int64, device=xs.device)
    for _ in range(int(math.log2(inner + 1))):
        tested = xs.gather(2, coordinates.gather(1, node).unsqueeze(2)).squeeze(2)
        node = 2 * node + 1 + (tested > 0)
    return leaves.gather(1, node - inner)


def _draw_relu(
    law: PromptLaw, n_prompts: int, generator: torch.Generator, dtype: torch.dtype
) -> Parameters:
    first = _normal((n_prompts, law.n_dims, law.hidden), generator, dtype)
    second = _normal((n_prompts, law.hidden, 1), generator, dtype)
    return first, second


def _label_relu(parameters: Parameters, xs: Float[Tensor, "B P D"]) -> Float[Tensor, "B P"]:
    first, second = parameters
    return math.sqrt(2 / first.shape[2]) * (torch.relu(xs @ first) @ second).squeeze(-1)


TASKS: dict[str, Task] = {
    # y = beta.x, beta ~ N(0, I)
    "linear": Task(_draw_linear, _label_linear, lambda law, e: e, linear=True),
    # the same with `sparsity` weights kept, the others zero (Garg et al. 2022)
    "sparse linear": Task(
        _draw_sparse, _label_linear, lambda law, e: e * law.sparsity / law.n_dims, linear=True
    ),
    # a node tests the sign of one coordinate, leaves are N(0, 1) (Garg et al. 2022)
    "decision tree": Task(_draw_tree, _label_tree, lambda law, e: 1.0),
    # sqrt(2/h) a.relu(W x), all weights N(0, 1) (Garg et al. 2022)
    "relu net": Task(_draw_relu, _label_relu, lambda law, e: e),
}


# --- Covariate laws ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Covariates:
    """`draw(law, B, P, generator, dtype) -> (xs, queries)`, the same object when they are the same.

    `mean_square(law)` is E|x|^2 and `spread(law)` is E|x - mean within a prompt|^2, both before
    `input_scale`.
    """

    draw: Callable[[PromptLaw, int, int, torch.Generator, torch.dtype], tuple[Tensor, Tensor]]
    mean_square: Callable[[PromptLaw], float]
    spread: Callable[[PromptLaw], float]


def _mixture(
    law: PromptLaw, n_prompts: int, n_points: int, generator: torch.Generator, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    xs = _normal((n_prompts, n_points, law.n_dims), generator, dtype)
    pick = _uniform((n_prompts, n_points if law.mixing == "input" else 1), generator, dtype)
    is_random, share = _uniform((2, n_prompts, 1), generator, dtype)
    shift = law.mean_spread * _normal((n_prompts, 1), generator, dtype)
    share = torch.where(is_random < law.random_share, share, torch.full_like(share, law.w2))
    means = shift + torch.where(pick < share, law.mean2, law.mean1)
    xs += means.to(dtype).unsqueeze(2)
    return xs, xs


def _isotropic(
    law: PromptLaw, n_prompts: int, n_points: int, generator: torch.Generator, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    xs = _normal((n_prompts, n_points, law.n_dims), generator, dtype)
    return xs, xs


def _random_basis(
    n_prompts: int, n_dims: int, generator: torch.Generator, dtype: torch.dtype
) -> Float[Tensor, "B D D"]:
    """Haar orthogonal matrices: QR of a Gaussian with the signs of R's diagonal undone."""
    q, r = torch.linalg.qr(_normal((n_prompts, n_dims, n_dims), generator, dtype))
    return q * torch.sign(torch.diagonal(r, dim1=1, dim2=2)).unsqueeze(1)


def _skewed(
    law: PromptLaw, n_prompts: int, n_points: int, generator: torch.Generator, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    xs = _normal((n_prompts, n_points, law.n_dims), generator, dtype)
    eigenvalues = torch.arange(1, law.n_dims + 1, dtype=dtype, device=xs.device).pow(
        -law.spectrum_power
    )
    eigenvalues *= law.n_dims / eigenvalues.sum()  # trace D, as N(0, I) has
    xs = (xs * eigenvalues.sqrt()) @ _random_basis(n_prompts, law.n_dims, generator, dtype).mT
    return xs, xs


def _half_subspace(
    law: PromptLaw, n_prompts: int, n_points: int, generator: torch.Generator, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    half = law.n_dims // 2
    free = _normal((n_prompts, n_points, law.n_dims), generator, dtype)
    basis = _random_basis(n_prompts, law.n_dims, generator, dtype)[:, :, :half]
    xs = math.sqrt(law.n_dims / half) * (free[:, :, :half] @ basis.mT)
    return xs, free if law.free_queries else xs


def _random_quadrants(
    law: PromptLaw, n_prompts: int, n_points: int, generator: torch.Generator, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    free = _normal((n_prompts, n_points, law.n_dims), generator, dtype)
    signs = 1 - 2 * (_uniform((n_prompts, 1, law.n_dims), generator, dtype) < 0.5).to(dtype)
    xs = free.abs() * signs
    return xs, free if law.free_queries else xs


def _mixture_mean_square(law: PromptLaw) -> float:
    w2 = (1 - law.random_share) * law.w2 + law.random_share / 2
    means = (1 - w2) * law.mean1**2 + w2 * law.mean2**2
    return law.n_dims * (1 + means + law.mean_spread**2)


def _mixture_spread(law: PromptLaw) -> float:
    between = 0.0  # E[share (1 - share)] of the prompts, 1/6 for a uniform share
    if law.mixing == "input":
        between = (1 - law.random_share) * law.w2 * (1 - law.w2) + law.random_share / 6
    return law.n_dims * (1 + between * (law.mean2 - law.mean1) ** 2)


COVARIATES: dict[str, Covariates] = {
    "mixture": Covariates(_mixture, _mixture_mean_square, _mixture_spread),
    "isotropic": Covariates(_isotropic, lambda law: law.n_dims, lambda law: law.n_dims),
    # N(0, S), a random eigenbasis in each prompt, eigenvalues i^-power, trace D (Garg et al.)
    "skewed spectrum": Covariates(_skewed, lambda law: law.n_dims, lambda law: law.n_dims),
    # N(0, I) in a random subspace of D // 2 dimensions in each prompt, trace D (Garg et al.)
    "half subspace": Covariates(_half_subspace, lambda law: law.n_dims, lambda law: law.n_dims),
    # N(0, I) folded into one random orthant in each prompt (Garg et al.); folding a coordinate
    # keeps its square and takes away its mean: variance 1 - 2/pi
    "random quadrants": Covariates(
        _random_quadrants, lambda law: law.n_dims, lambda law: law.n_dims * (1 - 2 / math.pi)
    ),
}


def _at_cosine(
    cosine: float,
    xs: Float[Tensor, "B P D"],
    queries: Float[Tensor, "B P D"],
    generator: torch.Generator,
) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P D"]]:
    """Turns the inputs to `|z_i| (c q^ + sqrt(1 - c^2) u_i)`; the last position's draw is asked.

    u_i is uniform on the unit sphere orthogonal to q^; norms are kept.
    """
    query = queries[:, -1:]
    unit_query = query / query.norm(dim=2, keepdim=True)
    across = _normal(tuple(xs.shape), generator, xs.dtype)
    for _ in range(2):  # the second pass removes what rounding left of q^
        across = across - (across * unit_query).sum(2, keepdim=True) * unit_query
    across = across / across.norm(dim=2, keepdim=True).clamp_min(torch.finfo(xs.dtype).tiny)
    turned = cosine * unit_query + math.sqrt(1 - cosine**2) * across
    return xs.norm(dim=2, keepdim=True) * turned, query.expand_as(xs)


# --- Label corruptions ---------------------------------------------------------------------------


def _choose_corrupted(
    law: PromptLaw, n_prompts: int, n_points: int, generator: torch.Generator
) -> Bool[Tensor, "B P"]:
    n_pairs = n_points - 1
    keys = _uniform((n_prompts, n_points), generator, torch.float64)
    rounding, pairing = _uniform((2, n_prompts), generator, torch.float64)
    expected = round((1 - law.accuracy) * n_pairs, 9)  # 0.2 * 30 is 6, not 6 + 1e-15
    size = (expected // 1 + (rounding < expected % 1)).long()
    if law.corruption == "permuted":
        size = torch.where(size == 1, 2 * (pairing < 0.5).long(), size)
        if n_pairs < 2:
            size = torch.zeros_like(size)
    keys[:, -1] = 2.0  # the last position is only asked, its label is shown to nobody
    return keys.argsort(1).argsort(1) < size.unsqueeze(1)


def random_cycle(mask: Bool[Tensor, "B P"], generator: torch.Generator) -> Int[Tensor, "B P"]:
    """Row by row, a uniformly random cycle through the masked positions, identity elsewhere.

    A cycle moves every one of its elements: a derangement without rejection (the limit of
    Sattolo's shuffle), provided a row has no single masked position.
    """
    n_prompts, n_points = mask.shape
    keys = torch.where(mask, _uniform((n_prompts, n_points), generator, torch.float64), 2.0)
    order = keys.argsort(1)  # masked positions first, shuffled
    size = mask.sum(1, keepdim=True)
    place = torch.arange(n_points, device=mask.device).expand_as(order)
    successor = torch.where(place + 1 < size, place + 1, torch.where(place < size, 0, place))
    return torch.empty_like(order).scatter_(1, order, order.gather(1, successor))


def _permuted(
    clean: Tensor, mask: Tensor, size: float, generator: torch.Generator
) -> Float[Tensor, "B P"]:
    return clean.gather(1, random_cycle(mask, generator))


def _constant_bias(
    clean: Tensor, mask: Tensor, size: float, generator: torch.Generator
) -> Float[Tensor, "B P"]:
    return clean + size * mask.to(clean.dtype)


def _gaussian(
    clean: Tensor, mask: Tensor, size: float, generator: torch.Generator
) -> Float[Tensor, "B P"]:
    return clean + size * mask * _normal(tuple(clean.shape), generator, clean.dtype)


def _heavy_tail(
    clean: Tensor, mask: Tensor, size: float, generator: torch.Generator
) -> Float[Tensor, "B P"]:
    """Student t with 3 degrees of freedom, scaled to variance 1: only the tail differs."""
    normals = _normal((4, *clean.shape), generator, clean.dtype)
    unit = normals[0] / normals[1:].square().sum(0).sqrt()  # t_3 / sqrt(3)
    return clean + size * mask * unit


def _sign_flip(
    clean: Tensor, mask: Tensor, size: float, generator: torch.Generator
) -> Float[Tensor, "B P"]:
    return torch.where(mask, -clean, clean)


# name -> f(clean (B, P), mask (B, P), size in label units, generator) -> ys (B, P)
CORRUPTIONS: dict[str, Callable[[Tensor, Tensor, float, torch.Generator], Tensor]] = {
    "none": lambda clean, mask, size, generator: clean,
    "permuted": _permuted,
    "constant bias": _constant_bias,
    "gaussian": _gaussian,
    "heavy tail": _heavy_tail,
    "sign flip": _sign_flip,
}


# --- What is known of a law in closed form -------------------------------------------------------


def label_scale(law: PromptLaw) -> float:
    """Root mean square of a clean label over tasks and inputs: 10 under the law of CAMR sec. 4."""
    inputs = law.input_scale**2 * COVARIATES[law.covariates].mean_square(law)
    return math.sqrt(TASKS[law.task].mean_square(law, inputs))


def label_noise_variance(law: PromptLaw) -> float:
    """E(shown label - clean label)^2 over in-context pairs: the "true noise" of a ridge.

    Exact for linear tasks without `similarity`. A permuted label is another draw of the same
    task, so it misses by twice the within-task variance; for the other tasks and with
    `similarity` the total variance stands in for it, an upper bound.
    """
    share = 1 - law.accuracy
    scale = label_scale(law)
    if law.corruption == "permuted":
        within = scale**2
        if TASKS[law.task].linear and law.similarity is None:
            covariates = COVARIATES[law.covariates]
            within *= covariates.spread(law) / covariates.mean_square(law)
        return share * 2 * within
    if law.corruption == "sign flip":
        return share * 4 * scale**2
    if law.corruption == "none":
        return 0.0
    return share * (law.corruption_size * scale) ** 2


def departures(law: PromptLaw, trained: PromptLaw) -> tuple[str, ...]:
    """Names of the settings in which `law` leaves the law a checkpoint was trained on.

    Settings without effect are ignored (mixture weights under "isotropic", `corruption_size` with
    accuracy 1, ...); a fixed w2 inside a law trained on random w2 is no departure.
    """
    changed = []
    for field in fields(law):
        ours, theirs = getattr(law, field.name), getattr(trained, field.name)
        if ours != theirs and field.name not in _without_effect(law, trained):
            changed.append(field.name)
    return tuple(changed)


def _without_effect(law: PromptLaw, trained: PromptLaw) -> set[str]:
    idle = set()
    if law.covariates != "mixture":
        idle |= {"w2", "mean1", "mean2", "mixing", "random_share", "mean_spread"}
    if law.covariates != "skewed spectrum":
        idle |= {"spectrum_power"}
    if law.covariates not in ("half subspace", "random quadrants"):
        idle |= {"free_queries"}
    if law.task != "sparse linear":
        idle |= {"sparsity"}
    if law.task != "decision tree":
        idle |= {"tree_depth"}
    if law.task != "relu net":
        idle |= {"hidden"}
    if trained.random_share > 0:
        idle |= {"w2", "random_share"}
    if law.w2 == 0 and law.random_share == 0:
        idle |= {"mean2", "mixing"}
    if law.corruption == "none" and trained.corruption == "none":
        idle |= {"accuracy", "corruption_size"}
    if law.accuracy == 1 and trained.accuracy == 1:
        idle |= {"corruption", "corruption_size"}
    if law.mean_spread <= trained.mean_spread:
        idle |= {"mean_spread"}
    return idle


# --- Checks --------------------------------------------------------------------------------------


def _one_of(name: str, value: object, allowed) -> None:
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, allowed))}; got {value!r}.")


def _whole(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}: expected a whole number from {low} to {high}, got {value!r}.")


def _between(name: str, value: object, low: float, high: float) -> None:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not ok:
        raise ValueError(f"{name}: expected a number from {low:g} to {high:g}, got {value!r}.")
