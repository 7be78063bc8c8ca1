"""Answers known by other means than the code under test: numpy and scipy, loops, constructions."""

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping
import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import logsumexp
from torch import Tensor


@contextmanager
def run_time_types_off() -> Iterator[None]:
    """Calls as in the app, where jaxtyping and beartype do not refuse an argument first."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


def generator(seed: int) -> torch.Generator:
    """A seeded torch generator."""
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int) -> Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def orthogonal_rows(M: int, D: int, seed: int, norm: float = 1.0) -> Tensor:
    """M <= D orthogonal patterns of one norm."""
    return norm * torch.linalg.qr(normal(D, M, seed=seed))[0].mT


# ---- energies, one state, in numpy -----------------------------------------------------------


def lse_dot_energy(Xi: np.ndarray, x: np.ndarray, beta: float) -> float:
    m = max(np.linalg.norm(row) for row in Xi)
    return -logsumexp(beta * Xi @ x) / beta + x @ x / 2 + np.log(len(Xi)) / beta + m * m / 2


def lse_l2_energy(Xi: np.ndarray, x: np.ndarray, beta: float) -> float:
    squares = np.array([np.sum((x - row) ** 2) for row in Xi])
    return -logsumexp(-beta * squares / 2) / beta + np.log(len(Xi)) / beta


def polynomial_energy(Xi: np.ndarray, x: np.ndarray, beta: float) -> float:
    m = max(np.linalg.norm(row) for row in Xi)
    scores, n = Xi @ x, 1 + beta
    matched = scores[scores > 0]
    # The n-norm through logarithms: at beta = 1000 powers of scores overflow.
    norm = np.exp(logsumexp(n * np.log(matched)) / n) if len(matched) else 0.0
    return -norm + x @ x / 2 + m * m / 2


def sparsemax(z: np.ndarray) -> np.ndarray:
    """Projection onto the simplex: the threshold by bracketing, not by sorting."""
    tau = brentq(
        lambda t: np.maximum(z - t, 0).sum() - 1, z.max() - 1, z.max(), xtol=1e-14, rtol=1e-14
    )
    return np.maximum(z - tau, 0)


def sparse_energy(Xi: np.ndarray, x: np.ndarray, beta: float) -> float:
    """The conjugate as the maximum it is defined by, taken at its maximiser."""
    m = max(np.linalg.norm(row) for row in Xi)
    z = beta * Xi @ x
    p = sparsemax(z)
    conjugate = p @ z - (p @ p - 1) / 2
    return -conjugate / beta + x @ x / 2 + (1 - 1 / len(Xi)) / (2 * beta) + m * m / 2


ENERGIES = {
    "lse_dot": lse_dot_energy,
    "lse_l2": lse_l2_energy,
    "polynomial": polynomial_energy,
    "sparse": sparse_energy,
}


def two_pattern_amplitude(stiffness: float) -> float:
    """The positive root of `s = tanh(stiffness s)`, 0 if stiffness <= 1.

    For patterns a and -a the lse_dot update keeps to the line through them:
    `T(s a) = a tanh(beta |a|^2 s)`, so the fixed points are 0 and, above the critical
    `beta |a|^2 = 1`, plus and minus this root.
    """
    if stiffness <= 1:
        return 0.0
    return brentq(lambda s: np.tanh(stiffness * s) - s, 1e-9, 1.0, xtol=1e-15)


# ---- separation, by loops --------------------------------------------------------------------


def separation(Xi: np.ndarray, mu: int) -> float:
    return min(Xi[mu] @ Xi[mu] - Xi[mu] @ row for nu, row in enumerate(Xi) if nu != mu)


def margin(Xi: np.ndarray, x: np.ndarray, mu: int) -> float:
    return x @ Xi[mu] - max(x @ row for nu, row in enumerate(Xi) if nu != mu)
