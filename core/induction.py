"""An induction head as three associative memories: exact, by closed form, and in random embeddings.

Two attention layers over letters z_1..z_T (Bietti et al. 2023; Wang & Sato 2024). Layer 1 looks one
position back, so that position s carries what came before it: the buffer c_s. Layer 2 looks, from
the last letter q, for positions whose buffer holds q, and copies what stands there. Each is an
associative memory, a matrix of outer products:

    W_K1 = beta1 sum_t p_{t-1} p_t^T            position -> the one before it
    W_K2 = beta2 sum_{q in Q} w_1(q) w_E(q)^T   trigger -> positions that come after it
    W_O2 = gamma sum_v w_U(v) (W_V2 w_E(v))^T   letter found -> letter predicted
    W_F  = lambda sum_{u,v} log pi(v|u) w_U(v) w_E(u)^T   the bigram law, without context

`head` is the closed form over orthonormal vectors; `run` multiplies the matrices of any embedding,
where `orthonormal` gives the same numbers and `random_embedding` adds cross-talk. The weights
beta1, beta2, gamma, lambda are ours: the papers learn them. Only differences of logits matter, so
the bigram part is counted from its smallest entry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from core.bigrams import V, bigram_log_odds, check_odds, check_triggers, encode, favourite

Tokens = Int[np.ndarray, " T"]
POSITIONS = ("relative", "absolute")
ABLATIONS = ("none", "previous", "key", "output")


@dataclass(frozen=True)
class HeadSettings:
    """Weights of the head.

    Attributes:
        triggers: the letters Q that layer 2 asks about.
        beta1, beta2: inverse temperatures of the two layers.
        gamma: weight of what the context says; `bigram_weight` (lambda): of the bigram law.
        odds: of the favourite letter under the bigram law.
        positions: "relative", or "absolute" with only the first `t_max` stored.
        ablated: which memory is emptied.
    """

    triggers: str = "q"
    beta1: float = 60.0
    beta2: float = 5.0
    gamma: float = 4.0
    bigram_weight: float = 1.0
    odds: float = 10.0
    positions: str = "relative"
    t_max: int = 64
    ablated: str = "none"

    def __post_init__(self) -> None:
        check_triggers(self.triggers)
        check_odds(self.odds)
        for name in ("beta1", "beta2", "gamma", "bigram_weight"):
            value = getattr(self, name)
            if not 0 <= value <= 300:  # exp stays finite
                raise ValueError(f"{name} must be a number in 0..300, got {value!r}")
        for name, known in (("positions", POSITIONS), ("ablated", ABLATIONS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, got {getattr(self, name)!r}")
        if self.t_max < 1:
            raise ValueError(f"t_max must be at least 1, got {self.t_max}")

    @property
    def trigger_ids(self) -> Int[np.ndarray, " K"]:
        return encode(self.triggers, least=0)


@dataclass(frozen=True)
class Head:
    """What both layers do with a prompt; row t is what position t sees and says."""

    tokens: Tokens
    attention1: Float[np.ndarray, "T T"]
    buffer: Float[np.ndarray, "T V"]  # c_s(u): how much s believes that u came before it
    attention2: Float[np.ndarray, "T T"]
    in_context: Float[np.ndarray, "T V"]
    bigram: Float[np.ndarray, "T V"]

    @property
    def logits(self) -> Float[np.ndarray, "T V"]:
        return self.in_context + self.bigram


# ---- closed form, orthonormal vectors ------------------------------------------------------------


def causal_softmax(scores: Float[np.ndarray, "T T"]) -> Float[np.ndarray, "T T"]:
    """Row t over columns 1..t."""
    masked = np.where(np.tri(len(scores), dtype=bool), scores, -np.inf)
    weights = np.exp(masked - masked.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def looks_back(length: int, s: HeadSettings) -> Bool[np.ndarray, " T"]:
    """Positions at which layer 1 has a previous position stored."""
    at = np.arange(length)
    stored = at < (s.t_max if s.positions == "absolute" else length)
    return (at > 0) & stored & (s.ablated != "previous")


def previous_attention(length: int, s: HeadSettings) -> Float[np.ndarray, "T T"]:
    """A1: weight `e^b1 / (e^b1 + t - 1)` on t - 1; uniform where no previous one is stored."""
    scores = np.zeros((length, length))
    at = np.flatnonzero(looks_back(length, s))
    scores[at, at - 1] = s.beta1
    return causal_softmax(scores)


def trigger_buffer(tokens: Tokens, token: int, s: HeadSettings) -> Float[np.ndarray, " T"]:
    """`c_s(u) = [f_s(u) + (e^b1 - 1) 1{z_{s-1} = u}] / (e^b1 + s - 1)` for one letter u."""
    here = tokens == token
    count, length = np.cumsum(here), np.arange(1, len(tokens) + 1)
    before = np.concatenate([[False], here[:-1]])
    shrunk = np.exp(-s.beta1)  # both sides of the fraction divided by e^b1: nothing overflows
    sharp = (count * shrunk + (1 - shrunk) * before) / (1 + (length - 1) * shrunk)
    return np.where(looks_back(len(tokens), s), sharp, count / length)


def last_attention(tokens: Tokens, s: HeadSettings) -> Float[np.ndarray, " T"]:
    """A2(T, .) alone, in time proportional to T."""
    q = int(tokens[-1])
    asks = q in s.trigger_ids and s.ablated != "key"
    scores = s.beta2 * trigger_buffer(tokens, q, s) if asks else np.zeros(len(tokens))
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def last_logits(
    tokens: Tokens, s: HeadSettings
) -> tuple[Float[np.ndarray, " V"], Float[np.ndarray, " V"]]:
    """In-context and bigram part of `xi_v = gamma sum_s A2(T,s) 1{z_s=v} + lambda log pi(v|q)`."""
    found = np.bincount(tokens, last_attention(tokens, s), V)
    gamma = 0.0 if s.ablated == "output" else s.gamma
    return gamma * found, s.bigram_weight * bigram_log_odds(s.odds)[tokens[-1]]


def head(tokens: Tokens, s: HeadSettings) -> Head:
    """Every position's attention, buffer and logits."""
    A1 = previous_attention(len(tokens), s)
    letters = np.eye(V)[tokens]
    buffer = A1 @ letters
    asks = np.isin(tokens, s.trigger_ids) & (s.ablated != "key")
    A2 = causal_softmax(s.beta2 * asks[:, None] * buffer[:, tokens].T)
    gamma = 0.0 if s.ablated == "output" else s.gamma
    bigram = s.bigram_weight * bigram_log_odds(s.odds)[tokens]
    return Head(tokens, A1, buffer, A2, gamma * A2 @ letters, bigram)


def sharp_in_context(tokens: Tokens, s: HeadSettings) -> Float[np.ndarray, " V"]:
    """The in-context logits as beta1 -> infinity, relative positions, nothing ablated.

    `gamma [f(v) + (e^b2 - 1) g(q,v)] / [T + (e^b2 - 1) n]` with f the counts of letters and g those
    of what follows q; `gamma f(v)/T` if q is no trigger. Position 1 has nothing before it, attends
    to itself and counts as its own follower.
    """
    counts = np.bincount(tokens, minlength=V).astype(float)
    q = tokens[-1]
    if q not in s.trigger_ids:
        return s.gamma * counts / len(tokens)
    before = np.concatenate([tokens[:1], tokens[:-1]])
    followers = np.bincount(tokens[before == q], minlength=V)
    boost = math.expm1(s.beta2)
    top = s.gamma * (counts + boost * followers)
    return top / (len(tokens) + boost * followers.sum())


def take_over_length(s: HeadSettings) -> float:
    """Length T from which the bigram favourite beats the letter found once in context.

    `1 + e^b2 (gamma / (lambda log R) - 1)`; infinite if the bigram law has no favourite.
    """
    favour = s.bigram_weight * math.log(s.odds)
    return math.inf if favour == 0 else 1 + math.exp(s.beta2) * (s.gamma / favour - 1)


def one_pair_prompt(length: int, trigger: int, output: int, at: int = 2) -> Tokens:
    """A prompt with the pair (trigger, output) at positions `at`, `at + 1`, and the trigger at the
    end.

    Between stand all letters but these two and the trigger's favourite, in turn.
    """
    if not 2 <= at <= length - 2:
        raise ValueError(f"the pair must stand between 2 and {length - 2}, got {at}")
    others = np.setdiff1d(np.arange(V), [trigger, output, favourite(trigger)])
    tokens = others[np.arange(length) % len(others)]
    tokens[at - 1], tokens[at], tokens[-1] = trigger, output, trigger
    return tokens


def margins(
    lengths: Sequence[int], s: HeadSettings, trigger: int, output: int
) -> Float[np.ndarray, " N"]:
    """Logit of the letter found in context minus that of the favourite, one pair a prompt."""
    found = []
    for length in lengths:
        in_context, bigram = last_logits(one_pair_prompt(length, trigger, output), s)
        logits = in_context + bigram
        found.append(logits[output] - logits[favourite(trigger)])
    return np.array(found)


def sharp_margins(lengths: Sequence[int], s: HeadSettings) -> Float[np.ndarray, " N"]:
    """The same as beta1 -> infinity: `gamma e^b2 / (e^b2 + T - 1) - lambda log R`."""
    T = np.asarray(lengths, dtype=float)
    favour = s.bigram_weight * math.log(s.odds)
    return s.gamma / (1 + (T - 1) * math.exp(-s.beta2)) - favour


@dataclass(frozen=True)
class PositionStudy:
    """What the last trigger attends to when its only pair stands at `at`, by kind of positions."""

    at: Int[np.ndarray, " N"]
    on_output: dict[str, Float[np.ndarray, " N"]]  # weight on at + 1, where the output stands
    strongest: dict[str, Int[np.ndarray, " N"]]  # the position with the most weight, from 1
    tied: dict[str, Bool[np.ndarray, " N"]]  # other positions have as much; the first is named


def position_study(
    length: int, at: Sequence[int], s: HeadSettings, trigger: int, output: int
) -> PositionStudy:
    """Relative and absolute positions side by side, the pair moved through the prompt."""
    rows = {
        kind: np.stack([
            last_attention(one_pair_prompt(length, trigger, output, i), replace(s, positions=kind))
            for i in at
        ])
        for kind in POSITIONS
    }  # fmt: skip
    places = np.asarray(at, dtype=np.int64)
    picked = np.arange(len(places))
    most = {kind: w >= w.max(axis=1, keepdims=True) - 1e-12 for kind, w in rows.items()}
    return PositionStudy(
        places,
        {kind: weights[picked, places] for kind, weights in rows.items()},
        {kind: first.argmax(axis=1) + 1 for kind, first in most.items()},
        {kind: first.sum(axis=1) > 1 for kind, first in most.items()},
    )


# ---- the matrices --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Embedding:
    """The vectors all memories are made of, as rows, and the two maps between layers."""

    letters: Float[np.ndarray, "V D"]  # w_E
    outputs: Float[np.ndarray, "V D"]  # w_U
    places: Float[np.ndarray, "N D"]  # p_t, or the vector of offset 0, 1, ... back
    value1: Float[np.ndarray, "D D"]  # W_OV1: w_1(u) = W_OV1 w_E(u)
    value2: Float[np.ndarray, "D D"]  # W_V2

    @property
    def before(self) -> Float[np.ndarray, "V D"]:
        """w_1(u): the letter u as what came before."""
        return self.letters @ self.value1.T

    @property
    def found(self) -> Float[np.ndarray, "V D"]:
        """W_V2 w_E(u): the letter u as what layer 2 found."""
        return self.letters @ self.value2.T


def orthonormal(n_places: int) -> Embedding:
    """A basis in blocks {w_E, w_1, W_V2 w_E, w_U, position}: no cross-talk at all."""
    basis = np.eye(4 * V + n_places)
    E, w1, found, U = (basis[i * V : (i + 1) * V] for i in range(4))
    return Embedding(E, U, basis[4 * V :], w1.T @ E, found.T @ E)


def random_embedding(dimension: int, n_places: int, rng: np.random.Generator) -> Embedding:
    """Independent unit vectors and random rotations: all memories share the D dimensions."""
    E, U, places = (unit_rows(n, dimension, rng) for n in (V, V, n_places))
    turns = (np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] for _ in range(2))
    return Embedding(E, U, places, *turns)


def unit_rows(n: int, dimension: int, rng: np.random.Generator) -> Float[np.ndarray, "n D"]:
    """Independent directions, uniform on the sphere."""
    rows = rng.normal(size=(n, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@dataclass(frozen=True)
class Memories:
    """The four matrices."""

    key1: Float[np.ndarray, "D D"]
    key2: Float[np.ndarray, "D D"]
    output2: Float[np.ndarray, "D D"]
    bigram: Float[np.ndarray, "D D"]


def memories(e: Embedding, s: HeadSettings) -> Memories:
    """Sums of outer products; an ablated memory is 0.

    With relative positions W_K1 stores, for every letter, the offset of one back *(ours)*.
    """
    if s.positions == "absolute":
        last = min(s.t_max, len(e.places))
        key1 = e.places[: last - 1].T @ e.places[1:last]
    else:
        key1 = np.outer(e.places[1], e.letters.sum(axis=0))
    q = s.trigger_ids
    parts = {
        "previous": s.beta1 * key1,
        "key": s.beta2 * e.before[q].T @ e.letters[q],
        "output": s.gamma * e.outputs.T @ e.found,
        "bigram": s.bigram_weight * e.outputs.T @ bigram_log_odds(s.odds).T @ e.letters,
    }
    if s.ablated != "none":
        parts[s.ablated] = np.zeros_like(parts[s.ablated])
    return Memories(*parts.values())


def run(tokens: Tokens, e: Embedding, s: HeadSettings) -> Head:
    """The forward pass with matrices. In `orthonormal` vectors it equals `head` to rounding."""
    w, T = memories(e, s), len(tokens)
    if len(e.places) < T:
        raise ValueError(f"the embedding has {len(e.places)} places, the prompt {T} letters")
    x = e.letters[tokens]
    if s.positions == "absolute":
        x = x + e.places[:T]
        scores = x @ w.key1.T @ x.T  # row t asks: x_s . W_K1 x_t
    else:
        asks = x @ w.key1.T
        offsets = np.maximum(np.arange(T)[:, None] - np.arange(T), 0)
        scores = asks @ x.T + np.take_along_axis(asks @ e.places[:T].T, offsets, axis=1)
    A1 = causal_softmax(scores)
    carried = A1 @ x @ e.value1.T
    x1 = x + carried
    A2 = causal_softmax(x1 @ w.key2.T @ x1.T)
    in_context = A2 @ x1 @ e.value2.T @ w.output2.T @ e.outputs.T
    bigram = x1 @ w.bigram.T @ e.outputs.T
    return Head(tokens, A1, carried @ e.before.T, A2, in_context, bigram)


# ---- recall --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recall:
    """What a memory answers: row = what is asked, column = what is read off, 1 = a whole memory."""

    table: Float[np.ndarray, "N K"]
    right: Int[np.ndarray, " N"]  # the column that should be the largest

    @property
    def share(self) -> float:
        """Share of rows whose largest entry is the right one; 0 for an empty memory."""
        hit = self.table.argmax(axis=1) == self.right
        return float((hit & (np.ptp(self.table, axis=1) > 0)).mean()) if len(hit) else 0.0


def recalls(e: Embedding, s: HeadSettings, length: int) -> dict[str, Recall]:
    """The three memories asked one association after another, each divided by its own weight."""
    one = replace(s, beta1=1.0, beta2=1.0, gamma=1.0)
    w, q = memories(e, one), one.trigger_ids
    if s.positions == "absolute":
        last = max(min(s.t_max, length), 2)
        previous = Recall((e.places[1:last] @ w.key1.T) @ e.places[:last].T, np.arange(last - 1))
    else:
        table = (e.letters @ w.key1.T) @ e.places[:length].T
        previous = Recall(table, np.ones(V, dtype=np.int64))
    return {
        "previous": previous,
        "key": Recall((e.letters[q] @ w.key2.T) @ e.before.T, q),
        "output": Recall((e.found @ w.output2.T) @ e.outputs.T, np.arange(V)),
    }


@dataclass(frozen=True)
class RecallStudy:
    """Recall of M random pairs `sum_mu u_mu v_mu^T` over dimensions; all draws of a dimension
    pooled."""

    dimensions: Int[np.ndarray, " N"]
    diagonal: Float[np.ndarray, " N"]
    diagonal_std: Float[np.ndarray, " N"]
    off_std: Float[np.ndarray, " N"]
    right: Float[np.ndarray, " N"]  # share of pairs whose largest answer is the right one


def recall_study(
    n_memories: int, dimensions: Sequence[int], draws: int, rng: np.random.Generator
) -> RecallStudy:
    """Measured beside `recall_spread`: mean and spread of `u_mu^T W v_nu`."""
    rows = []
    off = ~np.eye(n_memories, dtype=bool)
    for d in dimensions:
        u, v = (
            unit_rows(draws * n_memories, d, rng).reshape(draws, n_memories, d) for _ in range(2)
        )
        # u_mu^T (sum_k u_k v_k^T) v_nu = sum_k (u_mu . u_k)(v_k . v_nu): no d x d matrix.
        G = (u @ u.swapaxes(1, 2)) @ (v @ v.swapaxes(1, 2))
        diagonal = np.diagonal(G, axis1=1, axis2=2)
        hits = G.argmax(axis=1) == np.arange(n_memories)  # asked v_nu, answered u_mu
        rows.append((diagonal.mean(), diagonal.std(), G[:, off].std(), hits.mean()))
    return RecallStudy(np.asarray(dimensions, dtype=np.int64), *np.array(rows).T)


def recall_spread(
    n_memories: int, dimensions: Sequence[int]
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Standard deviation of recall on and off the diagonal in random unit vectors.

    `sqrt(M - 1) / d` around 1, and `sqrt(2/d + (M - 2)/d^2)` around 0.
    """
    d, M = np.asarray(dimensions, dtype=float), n_memories
    return np.sqrt(M - 1) / d, np.sqrt(2 / d + (M - 2) / d**2)


# ---- layer 2 as a Hopfield retrieval -------------------------------------------------------------


def hopfield_patterns(h: Head) -> tuple[Float[np.ndarray, "T K"], Int[np.ndarray, " K"]]:
    """Layer 2's keys as stored patterns: the buffers, over the letters that occur in the prompt.

    With the last letter's unit vector as query and beta2 as inverse temperature, the softmax of a
    Hopfield retrieval is A2(T, .), if the last letter is a trigger.
    """
    letters = np.unique(h.tokens)
    return h.buffer[:, letters], letters
