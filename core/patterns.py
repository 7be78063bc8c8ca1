"""Where stored patterns come from: layouts drawn at random, one function and one row each.

Every layout returns patterns of unit norm, so beta means the same thing in all of them and the
separation of a pattern is `1 - (its largest cosine with another)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

CLUSTER_SPREAD = 0.35  # length of a pattern's offset from its unit-norm cluster centre
CORRELATION = 0.5  # expected cosine between two "correlated" patterns


def gaussian(*shape: int, generator: torch.Generator) -> Tensor:
    """Standard normal draws, float64, whose prefix does not depend on how many are asked for.

    `torch.randn` fills in blocks of 16 and treats a ragged last block differently, so adding one
    pattern would move the others; drawing whole blocks keeps the first M patterns where they were.
    """
    count = math.prod(shape)
    blocks = max(1, -(-count // 16))
    flat = torch.randn(16 * blocks, generator=generator, dtype=torch.float64)
    return flat[:count].reshape(shape)


def check_seed(seed: int) -> int:
    """A seed that leaves room for one stream per purpose, or ValueError."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number in 0..2^32 - 1, got {seed}")
    return seed


def on_sphere(points: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
    """Scale rows to unit norm; a zero row stays zero."""
    return points / points.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(points.dtype).tiny)


def random_patterns(
    batch: int, M: int, D: int, generator: torch.Generator
) -> Float[Tensor, "batch M D"]:
    """Independent and uniform on the unit sphere."""
    return on_sphere(gaussian(batch, M, D, generator=generator))


def clustered_patterns(
    batch: int, M: int, D: int, generator: torch.Generator
) -> Float[Tensor, "batch M D"]:
    """About sqrt(M) clusters; pattern j belongs to cluster j modulo their number."""
    clusters = max(1, round(math.sqrt(M)))
    centres = on_sphere(gaussian(batch, clusters, D, generator=generator))
    offsets = gaussian(batch, M, D, generator=generator) * (CLUSTER_SPREAD / math.sqrt(D))
    return on_sphere(centres[:, torch.arange(M) % clusters] + offsets)


def correlated_patterns(
    batch: int, M: int, D: int, generator: torch.Generator
) -> Float[Tensor, "batch M D"]:
    """A shared direction plus independent parts: two patterns have cosine about 0.5."""
    shared = on_sphere(gaussian(batch, 1, D, generator=generator))
    own = on_sphere(gaussian(batch, M, D, generator=generator))
    return on_sphere(math.sqrt(CORRELATION) * shared + math.sqrt(1 - CORRELATION) * own)


def circle_patterns(
    batch: int, M: int, D: int, generator: torch.Generator
) -> Float[Tensor, "batch M D"]:
    """Equally spaced on the unit circle of a random plane: rank 2 whatever M is."""
    angles = torch.arange(M, dtype=torch.float64) * (2 * math.pi / M)
    circle = torch.stack([angles.cos(), angles.sin()], dim=-1)  # (M, 2)
    if D == 2:
        return circle.expand(batch, M, 2).clone()
    frame, _ = torch.linalg.qr(gaussian(batch, D, 2, generator=generator))
    return circle @ frame.mT


@dataclass(frozen=True)
class Layout:
    """A row of `LAYOUTS`: how patterns are placed, and the words for it."""

    name: str
    title: str
    description: str
    draw: Callable[[int, int, int, torch.Generator], Tensor]


LAYOUTS: dict[str, Layout] = {
    row.name: row
    for row in (
        Layout(
            "random",
            "Random on the sphere",
            "Independent and uniform on the unit sphere: nearly orthogonal in high dimension.",
            random_patterns,
        ),
        Layout(
            "clustered",
            "Clustered",
            "About sqrt(M) clusters: neighbours are hard to tell apart, clusters are not.",
            clustered_patterns,
        ),
        Layout(
            "correlated",
            "Correlated",
            "All patterns share one direction: any two have cosine about 0.5.",
            correlated_patterns,
        ),
        Layout(
            "circle",
            "On a circle",
            "Equally spaced on a circle in a random plane: rank 2, so W1 cannot fit more than two "
            "unrelated examples exactly.",
            circle_patterns,
        ),
    )
}


def draw_patterns(
    layout: str, M: int, D: int, generator: torch.Generator, batch: int | None = None
) -> Float[Tensor, "*batch M D"]:
    """Unit-norm patterns `(M, D)`, or `(batch, M, D)` independent draws of them, float64.

    Raises ValueError for an unknown layout, M < 1 or D < 2.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}; choose one of {', '.join(LAYOUTS)}")
    if M < 1 or D < 2:
        raise ValueError(f"expected M >= 1 patterns of dimension D >= 2, got M = {M}, D = {D}")
    drawn = LAYOUTS[layout].draw(1 if batch is None else batch, M, D, generator)
    return drawn[0] if batch is None else drawn
