"""Induction head: a two-layer transformer as three associative memories, exact, noisy and trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame
from pages.ui.chart_view import Frames

if TYPE_CHECKING:
    from core.induction import Embedding, Head, HeadSettings, PositionStudy, Recall, RecallStudy
    from core.landscape import Landscape
    from pages.ui.cache import InductionTraining

PAGE = "induction"
ATTENTION, LOGITS, LENGTH, POSITIONS = "attention", "logits", "length", "positions"
MEMORIES, TRAINING, ENERGY = "memories", "training", "energy"
TRAINED = "induction-2"
LONGEST = 128  # letters in a prompt whose attention is drawn
DIMENSIONS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
MATRIX_LENGTHS = (5, 8, 13, 21, 34, 55, 89, 144, 233)  # at which the margin is taken from matrices
TIE = 1e-9  # logits, margins and weights closer than this differ by rounding only
LEAST_BETA = 0.1  # at which an energy is drawn
TABLE_LIMIT = 2000  # characters a link can carry of a table


@dataclass(frozen=True)
class Settings:
    view: str
    source: str
    prompt: str
    length: int
    triggers: str
    beta1: float
    beta2: float
    gamma: float
    bigram: float
    odds: float
    positions: str
    tmax: int
    span: int
    ablated: str
    vectors: str
    dimension: int
    memories: int
    seed: int


SCENARIOS = (
    controls.Scenario(
        name="head",
        label="Context wins",
        values={},
        claim="u came once after q. Layer 2 finds it there and puts more than 0.9 of its weight on "
        "it: u ends 1.4 above r, the favourite of the bigram law.",
        look="the last row of layer 2, and the two tallest bars under *logits*.",
        refuted="a weight on u of 0.9 or less, or r ahead of u.",
    ),
    controls.Scenario(
        name="tie",
        label="A tie at 1.99333",
        values={"view": LOGITS, "prompt": "q o x o q", "bigram": 0.0},
        claim="Position 1 has nothing before it and attends to itself, so a prompt that begins with "
        "its trigger counts q as its own follower: q and o tie at 4(e⁵ + 1)/(2e⁵ + 3) = 1.99333.",
        look="the bars of q and o, equally tall.",
        refuted="two logits that differ, or stand at anything but 1.99333.",
    ),
    controls.Scenario(
        name="takeover",
        label="Too long to win",
        values={"view": LENGTH},
        claim="One pair in context beats a favourite of odds 10 up to T = 110 letters and loses from "
        "111 on: the closed form says 110.4.",
        look="where the curve crosses 0.",
        refuted="a crossing at another length than 110 to 111.",
    ),
    controls.Scenario(
        name="positions",
        label="Past the last position",
        values={"view": POSITIONS, "tmax": 64},
        claim="With absolute positions stored up to 64, a pair beyond is not found: the weight on "
        "its output falls to less than a tenth. Relative positions do not care.",
        look="the two lines right of T = 64.",
        refuted="a weight beyond 64 of a tenth or more, or relative positions that fall.",
    ),
    controls.Scenario(
        name="crosstalk",
        label="Cross-talk",
        values={"view": MEMORIES, "vectors": "random", "dimension": 48},
        claim="26 random pairs in 48 dimensions recall themselves as 1 ± 0.104 and each other as "
        "0 ± 0.228. Twice the dimensions halve the first; the second takes up to four times.",
        look="the two clouds: right pairs around 1, wrong ones around 0.",
        refuted="spreads other than 0.104 and 0.228, by more than their sampling error.",
    ),
    controls.Scenario(
        name="birth",
        label="A head is born",
        values={"view": TRAINING, "prompt": "the quick brown fox q"},
        claim="The output and the trigger memory are learnt first, and accuracy hardly moves. When "
        "layer 1 learns to look back, it jumps from below 0.25 to above 0.9.",
        look="the order in which the memories rise, and accuracy beside them.",
        refuted="a jump of accuracy before layer 1 looks back.",
    ),
)

SYMBOLS = {
    r"z_1 \dots z_T": "the letters of the prompt; q is the last one, o what followed it before",
    r"1\{\ldots\}": "1 if it holds, else 0",
    r"A_1, A_2": "attention of layers 1 and 2, from a position t or T to a position s",
    r"c_s(u)": "the buffer: how much position s believes that u came before it",
    r"Q": "the triggers, the letters layer 2 asks about",
    r"\beta_1, \beta_2": "inverse temperatures of the two layers (ours: the papers learn them)",
    r"\gamma, \lambda": "weights of context and bigram law (ours)",
    r"\pi(v|q)": "the bigram law: the letter after q in the alphabet, its favourite, is R times as "
    "likely as any other (ours)",
    r"\xi_v": "logit of letter v, counted so that a rare letter without context has 0; fav is the "
    "favourite",
    r"W": "a memory: a matrix that holds M pairs in D dimensions. Asked with v of pair μ it answers u of "
    "the same pair; ν is another pair",
    r"W_U, W_F, W_O, W_V": "maps of the trained model: from a vector to logits, from the last letter "
    "alone, from what layer 2 found, and what layer 2 takes of a letter",
    r"W_{K1}, W_{K2}": "its memories of layers 1 and 2: what came one back, what came before a trigger",
    r"x_s": "the vector that stands for letter s; x alone: the state that layer 2 retrieves from",
    r"E": "energy of layer 2 read as an associative memory",
    r"C,\; e_q": "the buffers of all positions, as rows, and the unit vector of letter q",
}

LEAD = "How does a transformer continue a pattern it has seen once? Two layers, three memories."


def equation(values: Mapping[str, Any]) -> str:
    view = values["view"]
    if view == LENGTH:
        return (
            r"\xi_o-\xi_{\mathrm{fav}} = \frac{\gamma\,e^{\beta_2}}{e^{\beta_2}+T-1}-\lambda\log R"
            r"\;>\;0 \iff T < 1+e^{\beta_2}\Bigl(\frac{\gamma}{\lambda\log R}-1\Bigr)"
        )
    if view == POSITIONS:
        return (
            r"A_1(t,t-1)=\frac{e^{\beta_1}}{e^{\beta_1}+t-1},\qquad "
            r"\text{absolute, } t>T_{\max}:\ A_1(t,s)=\tfrac1t"
        )
    if view == MEMORIES:
        return (
            r"W=\sum_\mu u_\mu v_\mu^\top:\quad u_\mu^\top W v_\mu = 1\pm\frac{\sqrt{M-1}}{D},"
            r"\qquad u_\mu^\top W v_\nu = 0\pm\sqrt{\frac2D+\frac{M-2}{D^2}}"
        )
    if view == TRAINING:
        return (
            r"\text{logits} = W_U\Bigl(W_F\,x_T + W_O\sum_s A_2(T,s)\,W_V\,x_s\Bigr),\qquad "
            r"W_{K1}, W_{K2}, W_O, W_F \text{ learnt from } 0"
        )
    if view == ENERGY:
        return (
            r"E(x) = -\tfrac1{\beta_2}\log\sum_s e^{\beta_2\,c_s\cdot x}+\tfrac12|x|^2+\text{const},"
            r"\qquad A_2(T,\cdot)=\mathrm{softmax}(\beta_2\,C\,e_q)"
        )
    return (
        r"\xi_v=\gamma\sum_s A_2(T,s)\,1\{z_s=v\}+\lambda\log\pi(v|q),\qquad "
        r"A_2(T,s)\propto e^{\beta_2\,1\{q\in Q\}\,c_s(q)}"
    )


# ---- what is computed ----------------------------------------------------------------------------


def engine(s: Settings) -> dict[str, Any]:
    """The keywords of `core.induction.HeadSettings` these settings stand for."""
    return {
        "triggers": letters(s.triggers), "beta1": s.beta1, "beta2": s.beta2, "gamma": s.gamma,
        "bigram_weight": s.bigram, "odds": s.odds, "positions": s.positions, "t_max": s.tmax,
        "ablated": s.ablated.removesuffix(" position"),
    }  # fmt: skip


def letters(text: str) -> str:
    return "".join(text.split()).lower()


def dimension(s: Settings) -> int:
    """Of the random embedding; 0 for orthonormal vectors."""
    return s.dimension if s.vectors == "random" else 0


def prompt(s: Settings) -> str:
    if s.source == "typed":
        return letters(s.prompt)
    if s.view == TRAINING:
        law = cache.induction_law(TRAINED)
        return cache.induction_prompt(law.triggers, law.odds, s.length, s.seed)
    return cache.induction_prompt(letters(s.triggers), s.odds, s.length, s.seed)


def pair(triggers: str) -> tuple[int, int]:
    """Trigger and output of the prompts with one pair: the first trigger, and o or the next letter
    that is neither a trigger nor the favourite."""
    from core.bigrams import LETTERS, favourite

    if not triggers:
        raise ValueError("This picture needs a trigger, and Q is empty. Type a letter there.")
    q = LETTERS.index(triggers[0])
    free = (v for v in range(26) if LETTERS[v] not in triggers and v != favourite(q))
    return q, min(free, key=lambda v: (v - LETTERS.index("o")) % 26)


@dataclass(frozen=True)
class Run:
    """One prompt through the head."""

    prompt: str
    closed: Head
    exact: Head  # matrices of orthonormal vectors
    shown: Head  # matrices of the vectors chosen

    @property
    def gap(self) -> float:
        """How far the matrices of orthonormal vectors are from the closed form."""
        return float(np.abs(self.exact.logits - self.closed.logits).max())


@dataclass(frozen=True)
class Lengths:
    lengths: np.ndarray
    sharp: np.ndarray
    here: np.ndarray
    at: np.ndarray
    matrices: np.ndarray
    take_over: float
    q: int
    o: int


@dataclass(frozen=True)
class Places:
    study: PositionStudy
    q: int
    o: int


@dataclass(frozen=True)
class Stored:
    recalls: dict[str, Recall]
    study: RecallStudy
    places: int


@dataclass(frozen=True)
class Retrieved:
    prompt: str
    closed: Head
    table: str
    order: np.ndarray  # positions in the order of the table's rows
    landscape: Landscape
    asks: bool  # whether the last letter asks layer 2 for anything
    step: np.ndarray  # (2, 2): the query and where one step takes it, on the landscape's plane
    away: float  # of the query from the strongest key, where the landscape page begins


def compute(s: Settings) -> Any:
    from core import induction
    from core.bigrams import encode

    head = induction.HeadSettings(**engine(s))
    match s.view:
        case "length":
            return lengths(s, head)
        case "positions":
            q, o = pair(head.triggers)
            at = range(2, s.span - 1)
            return Places(induction.position_study(s.span, at, head, q, o), q, o)
        case "memories":
            n = max(s.tmax if s.positions == "absolute" else 24, 3)
            vectors = cache.induction_embedding(dimension(s), n, s.seed)
            study = cache.induction_recall(s.memories, DIMENSIONS, s.seed)
            return Stored(induction.recalls(vectors, head, n), study, n)
        case "training":
            return cache.induction_training(TRAINED, prompt(s))
    text = prompt(s)
    encode(text, most=LONGEST)
    if s.view == ENERGY:
        return retrieved(text, cache.induction_heads(text, 0, 0, **engine(s))[0], s)
    return Run(text, *cache.induction_heads(text, dimension(s), s.seed, **engine(s)))


def lengths(s: Settings, head: HeadSettings) -> Lengths:
    from core import induction

    q, o = pair(head.triggers)
    take_over = induction.take_over_length(head)
    last = min(max(3 * take_over if math.isfinite(take_over) else 0, 300), 4000)
    T = np.rint(np.geomspace(4, last, 60)).astype(int)
    # Both lengths beside a change of sign are drawn, so that the sentence names the right one.
    T = np.append(T, crossings(T, lambda each: induction.margins(each, head, q, o)))
    if 4 < take_over < last:
        T = np.append(T, [math.floor(take_over), math.ceil(take_over)])
    T = np.unique(T)
    each = T.tolist()
    found = []
    for length in MATRIX_LENGTHS:
        vectors: Embedding = cache.induction_embedding(dimension(s), length, s.seed)
        run = induction.run(induction.one_pair_prompt(length, q, o), vectors, head)
        found.append(run.logits[-1, o] - run.logits[-1, (q + 1) % 26])
    return Lengths(
        T, induction.sharp_margins(each, head), induction.margins(each, head, q, o),
        np.array(MATRIX_LENGTHS), np.array(found), take_over, q, o,
    )  # fmt: skip


def crossings(T: np.ndarray, margin: Callable[[list[int]], np.ndarray]) -> np.ndarray:
    """The neighbouring whole numbers between which the sign changes, by bisection."""
    ahead = margin(T.tolist()) > TIE
    found: list[int] = []
    for i in np.flatnonzero(ahead[1:] != ahead[:-1]):
        low, high = int(T[i]), int(T[i + 1])
        while high - low > 1:
            middle = (low + high) // 2
            if (margin([middle])[0] > TIE) == ahead[i]:
                low = middle
            else:
                high = middle
        found += [low, high]
    return np.array(found, dtype=int)


def retrieved(text: str, h: Head, s: Settings) -> Retrieved:
    """Layer 2's keys as memories of the landscape's engine, the strongest one first."""
    from core.induction import hopfield_patterns

    patterns, kept = hopfield_patterns(h)
    if patterns.shape[1] < 2:
        raise ValueError("This picture needs two different letters in the prompt. Type another.")
    weights = h.attention2[-1]
    order = np.argsort(-weights, kind="stable")
    table = "\n".join(", ".join(f"{x:.4g}" for x in row) for row in patterns[order])
    r = cache.landscape(table, **landscape_engine(s))
    asks = text[-1] in letters(s.triggers) and s.ablated != "key"
    query = (kept == h.tokens[-1]) * float(asks)
    away = float(np.linalg.norm(query - patterns[order[0]]))
    step = cache.on_plane(r.plane, np.stack([query, weights @ patterns]))
    return Retrieved(text, h, table, order, r, asks, step, away)


def landscape_engine(s: Settings) -> dict[str, Any]:
    """The query is the strongest key itself; nothing is reshaped."""
    return {
        "energy": "lse_dot", "beta": max(s.beta2, LEAST_BETA), "examples": 1, "shift": 0.0,
        "strength": 0.0, "noise": 0.0, "plane": "pca", "seed": 0,
    }  # fmt: skip


def landscape_link(r: Retrieved, s: Settings) -> str:
    """The landscape page with these patterns; "" if the table is too long for a link."""
    if len(r.table) > TABLE_LIMIT:
        return ""
    values = controls.defaults("landscape") | {
        "view": "after", "strength": 0.0, "examples": 1, "shift": 0.0, "noise": 0.0, "seed": 0,
        "beta": max(s.beta2, LEAST_BETA), "layout": "your table", "table": r.table,
        "plane": "principal components",
    }  # fmt: skip
    return f"landscape?{controls.write_link('landscape', values)}"


# ---- words and numbers ---------------------------------------------------------------------------


def number(x: float) -> str:
    return f"{x:.4f}"


def letter(token: int) -> str:
    from core.bigrams import LETTERS

    return LETTERS[int(token)]


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def followers(text: str) -> list[int]:
    """Positions, from 0, of what followed the last letter earlier in the prompt."""
    return [i for i in range(1, len(text)) if text[i - 1] == text[-1]]


def one_back(h: Head) -> float:
    """Mean weight of layer 1 on the position before."""
    return float(np.diagonal(h.attention1, -1).mean())


def look_run(r: Run, s: Settings) -> str:
    h, q = r.shown, r.prompt[-1]
    weights, verdict = h.attention2[-1], first(h.logits[-1])
    even = float(np.ptp(weights)) < TIE
    if q not in letters(s.triggers):
        counts = (
            f"spreads evenly over {len(r.prompt)} positions and counts letters"
            if even
            else "should spread evenly, but cross-talk leaves weights between "
            f"**{number(weights.min())}** and **{number(weights.max())}**"
        )
        return f"The last letter {q} is no trigger, so layer 2 {counts}. {verdict}"
    back = f"Layer 1 puts **{number(one_back(h))}** of its weight one back, on average"
    if not followers(r.prompt):
        return f"{back}, but {q} has not stood before: there is nothing to find. {verdict}"
    weight = float(weights[followers(r.prompt)].sum())
    evenly = ", and every position gets the same" if even else ""
    return f"{back}; layer 2 puts **{number(weight)}** on what came after {q} before{evenly}. {verdict}"


def first(total: np.ndarray) -> str:
    """The letters with the largest logit and the next largest."""
    best = total.max()
    leads = total > best - TIE
    if leads.sum() > 1:
        return f"{listed(leads)} tie at ξ = **{best:.5f}**."
    next_best = total[~leads].max()
    return (
        f"{listed(leads)} comes out first with ξ = **{number(best)}**, before "
        f"{listed(~leads & (total > next_best - TIE))} with **{number(next_best)}**."
    )


def listed(which: np.ndarray, most: int = 6) -> str:
    """`**a**, **b** and **c**`, or how many letters there are."""
    names = [f"**{letter(v)}**" for v in np.flatnonzero(which)]
    if len(names) > most:
        return f"{len(names)} letters"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def check(r: Run) -> str:
    return (
        f"Live check: in all {r.closed.logits.size} logits of this prompt, the matrices of "
        f"orthonormal vectors differ from the closed form by at most {r.gap:.1g} (10⁻¹⁰ allowed)."
    )


def look_lengths(r: Lengths, s: Settings) -> str:
    o, fav, q = letter(r.o), letter((r.q + 1) % 26), letter(r.q)
    rival = f"{fav}, the favourite, has odds {s.odds:g}"
    if not math.isfinite(r.take_over):
        rival = f"the rival is {fav}: the bigram law has no " + (
            "favourite" if s.odds == 1 else "weight"
        )
    T, margin, whose = r.lengths, r.here, "the head as set"
    if dimension(s):
        T, margin, whose = r.at, r.matrices, f"in these random vectors of D = {s.dimension} context"
    said = (
        f"{q} {o} stands once near the start, {q} at the end; {rival}. {look_closed(r, s)} At "
        f"T = {T[0]} the margin is **{number(margin[0])}**; {whose} {wins(T, margin)}."
    )
    if dimension(s):
        said += f" The same head in orthonormal vectors {wins(r.lengths, r.here)}."
    return said


def other_than_closed(s: Settings) -> list[str]:
    """In what the head as set differs from the one the closed form describes, beside beta1."""
    differs = {
        "orthonormal vectors": dimension(s) > 0, "relative positions": s.positions == "absolute",
        "no memory emptied": s.ablated != "none",
    }  # fmt: skip
    return [name for name, it_does in differs.items() if it_does]


def look_closed(r: Lengths, s: Settings) -> str:
    holds_for = ", ".join(["β₁ → ∞", *other_than_closed(s)])
    form = f"The closed form *(ours)*, for {holds_for}, has"
    if not math.isfinite(r.take_over):
        return f"{form} {'context win' if s.gamma else 'a tie'} at every length."
    if r.take_over <= r.lengths[0]:
        return f"{form} context win at no length drawn: γ is too small."
    return f"{form} context win below T = **{r.take_over:.1f}**."


def wins(T: np.ndarray, margin: np.ndarray) -> str:
    """At which of these lengths the margin is above 0."""
    ahead, ties = margin > TIE, np.abs(margin) <= TIE
    drawn = f"drawn, T = {T[0]} to {T[-1]}"
    n = int(ahead.sum())
    if ties.all():
        return f"ties at every length {drawn}"
    if n == len(T):
        return f"wins at every length {drawn}"
    if n and ahead[:n].all():
        return f"wins up to T = {T[n - 1]} and at no length drawn beyond"
    said = f"wins at {n} of {len(T)} lengths drawn" if n else f"wins at no length {drawn}"
    return said + (f", and ties at {ties.sum()}" if ties.any() else "")


def look_places(r: Places, s: Settings) -> str:
    relative, absolute = r.study.on_output.values()
    past = r.study.at + 1 > s.tmax  # the output stands one further on
    if np.abs(relative - absolute).max() < 5e-5:
        why = f"All {s.span} positions are stored, and both" if s.span <= s.tmax else "Both"
        return f"{why} kinds agree: the weight on the output is {spread(relative)}."
    if not past.any():
        return (
            f"The output is stored wherever the pair stands, but not the last position, {s.span}. "
            f"With relative positions the weight on the output is {spread(relative)}; with "
            f"absolute ones it is {spread(absolute)}."
        )
    return (
        f"In {past.sum()} of {past.size} places the output stands past T_max = {s.tmax}: the weight "
        f"on it is at most **{number(relative[past].max())}** with relative and "
        f"**{number(absolute[past].max())}** with absolute positions. The strongest position there: "
        f"with relative positions {strongest(r, 'relative', past, s.span)}; with absolute ones "
        f"{strongest(r, 'absolute', past, s.span)}."
    )


def spread(weight: np.ndarray) -> str:
    low, high = number(weight.min()), number(weight.max())
    if low == high:
        return f"**{low}** wherever the pair stands"
    return f"between **{low}** and **{high}**, by where the pair stands"


def strongest(r: Places, kind: str, among: np.ndarray, length: int) -> str:
    """How often which position has the most weight."""
    at, most = r.study.at[among], r.study.strongest[kind][among]
    alone = ~r.study.tied[kind][among]
    q = letter(r.q)
    named = {"the output": at + 1, f"the pair's own {q}": at, f"the last {q}": length}
    counts = {name: int((alone & (most == place)).sum()) for name, place in named.items()}
    counts["one of several equal ones"] = int((~alone).sum())
    counts["another"] = at.size - sum(counts.values())
    return ", ".join(f"{name} in {n}" for name, n in counts.items() if n)


def look_stored(r: Stored, s: Settings) -> str:
    from core.induction import recall_spread

    holds = [x.share for x in r.recalls.values() if x.table.any()]
    shares = ", ".join(f"{name} {recalled(x)}" for name, x in r.recalls.items())
    diagonal, off = (float(x[0]) for x in recall_spread(s.memories, [s.dimension]))
    if not dimension(s):
        every = "Every" if all(share == 1 for share in holds) else "Not every"
        return (
            f"{every} association that is stored in orthonormal vectors is recalled ({shares}). "
            f"Choose random vectors: at D = {s.dimension} and M = {s.memories} recall spreads by "
            f"**{number(diagonal)}** around 1, by the formula."
        )
    return (
        f"At D = {s.dimension} and by the formulas, {s.memories} random pairs recall themselves as "
        f"1 ± **{number(diagonal)}** and each other as 0 ± **{number(off)}**. Right answers of this "
        f"draw of the three memories: {shares}."
    )


def recalled(r: Recall) -> str:
    if not len(r.right):
        return "without a trigger to ask about"
    return f"{100 * r.share:.3g} %" if r.table.any() else "emptied"


def look_training(r: InductionTraining, text: str) -> str:
    rows = r.card["curve"]
    start, end = rows[0], rows[-1]
    born = next((row["step"] for row in rows if row["repeated"] > 0.5), None)
    probability = softmax(r.logits[-1])
    best = int(probability.argmax())
    said = (
        f"Accuracy after a repeated trigger goes from **{start['repeated']:.3f}** (chance "
        f"**{r.card['chance']:.3f}**) to **{end['repeated']:.3f}**"
    )
    if born is not None:
        said += f", past one half by step {born}"
    ask = text[-1]
    note = "" if ask in r.law.triggers else f" {ask} is not among them, so expect a bigram guess."
    return (
        f"{said}. At the end the probes read wk0 **{end['wk0']:.3f}**, wk1 **{end['wk1']:.3f}**, "
        f"wo1 **{end['wo1']:.3f}**. After this prompt it says **{letter(best)}** with probability "
        f"**{probability[best]:.3f}**. Trained triggers: {r.law.triggers}.{note}"
    )


def look_retrieved(r: Retrieved, s: Settings) -> str:
    weights = r.closed.attention2[-1]
    best = int(weights.argmax())
    q = r.prompt[-1]
    drawn = (
        f" The picture needs a β₂ above 0 and shows {LEAST_BETA}." if s.beta2 < LEAST_BETA else ""
    )
    if not r.asks:
        why = "is no trigger" if q not in letters(s.triggers) else "finds the key memory emptied"
        return f"{q} {why}: the query is 0, and every key gets **{number(weights[best])}**.{drawn}"
    strongest = np.flatnonzero(weights >= weights[best] - TIE)
    said = (
        f"The keys of layer 2 are the stored patterns, the unit vector of {q} is the query, β₂ the "
        "inverse temperature. Equal keys lie on one another. One Hopfield step puts "
        f"**{number(weights[best])}** on "
    )
    if len(strongest) == len(weights):
        said += "each position, the mean of the keys"
    elif len(strongest) > 1:
        which = ", ".join(str(i + 1) for i in strongest)
        values = "".join(r.prompt[i] for i in strongest)
        said += f"each of the positions {which}, which tie; their values are **{values}**"
    else:
        said += f"position {best + 1}, whose value is **{r.prompt[best]}**"
    return f"{said}: the head reads values, not keys, so it retrieves once and stops.{drawn}"


REFUTED = {
    "head": r"""
- Matrices in orthonormal vectors that differ from the closed form by more than $10^{-10}$.
- A memory that is not needed: the previous-position or the key memory emptied, and the weight on
  what followed the trigger does not fall; or the output memory emptied, and in-context logits stay.
- At large $\beta_1$, in-context logits other than
  $\gamma\,[f(v)+(e^{\beta_2}-1)\,g(q,v)]\,/\,[T+(e^{\beta_2}-1)\,n]$ *(ours)*, with $f$ the counts
  of letters and $g$ those of what followed $q$, $n$ in all. Position 1 attends to itself and counts
  as its own follower.

$\beta_1,\beta_2,\gamma,\lambda$, the bigram law and the relative form of $W_{K1}$ are ours; that
these outer products make an induction head is the papers' (Bietti et al. 2023, Wang & Sato 2024).
""",
    LENGTH: r"""
A margin above 0 beyond the marked length, or below 0 before it, at large $\beta_1$, in orthonormal
vectors, with relative positions and no memory emptied. The formula and the marked length are ours.
The prompts hold all letters but the pair and the favourite in turn, so that only these two compete.
""",
    POSITIONS: r"""
A pair at $s>T_{\max}$ that absolute positions find, or one that relative positions miss, at large
$\beta_1$. Which position they take instead is ours: $s$ if $T>2s$, $T$ if $T<2s$, a tie if $T=2s$,
because the trigger is $1/s$ of what $s$ has seen and $2/T$ of what $T$ has seen.
""",
    MEMORIES: r"""
Dots off the lines by more than sampling allows: 20 draws a dimension. The formulas hold for
independent unit vectors, and are ours. *Share recalled wrong*: for how many stored pairs some other
answer is larger than the right one.
""",
    TRAINING: r"""
A head that answers while one of its memories is not there: accuracy above one half before wk0, wk1
and wo1 have risen. The probes: **wk0** share of positions whose strongest key in $W_{K1}$ is the one
before; **wk1** share of triggers whose strongest key in $W_{K2}$ is *came after this trigger*; **wo1**
share of outputs that $W_O$ reads out as themselves. Embeddings, $W_U$, $W_V$ are random and frozen,
as in Bietti et al. (2023); the data law is ours.
""",
    ENERGY: r"""
Weights of this retrieval that differ from layer 2's attention: a test holds them to $10^{-14}$. What
is *not* a Hopfield network here: the keys are retrieved by, the letters at their places are read
(hetero-association), and there is no second step. Reading layer 2 as this energy is ours.
""",
}


# ---- the page ------------------------------------------------------------------------------------


def draw_attention(page: frame.Page[Settings], r: Run) -> None:
    h, text = r.shown, r.prompt
    titles = ("Layer 1: one back", "Layer 2: what followed")
    page.chart(
        charts.attention_pair(h.attention1, h.attention2, text, titles),
        "attention",
        f"Attention of both layers over the prompt {text}",
    )
    page.look_for(look_run(r, page.settings))
    shown = "".join(sorted(set(text)))
    page.chart(
        charts.buffer_map(h.buffer[:, [ord(c) - 97 for c in shown]], text, shown),
        "buffer",
        "What each position believes came before it",
    )
    with page.stage:
        st.caption(check(r))


def draw_logits(page: frame.Page[Settings], r: Run) -> None:
    from core.bigrams import LETTERS

    closed, total = r.closed, r.shown.logits[-1]
    parts = {"in-context": closed.in_context[-1], "bigram law": closed.bigram[-1]}
    if dimension(page.settings):
        parts["cross-talk"] = total - closed.logits[-1]
    page.chart(
        charts.logit_bars(parts, LETTERS, total),
        "logits",
        "Logit of each letter, stacked by where it comes from",
    )
    page.look_for(look_run(r, page.settings))
    best = np.argsort(-total, kind="stable")[:5]
    probability = softmax(total)
    page.facts(
        ("in-context", "bigram law", "cross-talk", "logit", "probability"),
        [
            (
                letter(v), number(closed.in_context[-1, v]), number(closed.bigram[-1, v]),
                number(total[v] - closed.logits[-1, v] if dimension(page.settings) else 0.0),
                number(total[v]), number(probability[v]),
            )
            for v in best
        ],
        "The five likeliest letters",
    )  # fmt: skip
    with page.stage:
        st.caption(check(r))


def draw_lengths(page: frame.Page[Settings], r: Lengths) -> None:
    marked = r.take_over if r.lengths[0] < r.take_over < r.lengths[-1] else None
    there = r.at <= r.lengths[-1]
    s, closed = page.settings, "closed form, β₁ → ∞"
    curves = {
        ", ".join([closed, *other_than_closed(s)]): r.sharp,
        "the head as set" + (" in orthonormal vectors" if dimension(s) else ""): r.here,
    }
    page.chart(
        charts.margin_curve(
            r.lengths, curves, (r.at[there], r.matrices[there]), marked,
            f"random vectors, D = {s.dimension}" if dimension(s) else "matrices",
        ),
        "length",
        "Margin of the letter found in context over the favourite against prompt length",
    )  # fmt: skip
    page.look_for(look_lengths(r, s))


def draw_places(page: frame.Page[Settings], r: Places) -> None:
    page.chart(
        charts.position_curves(r.study, page.settings.tmax),
        "positions",
        "Weight on the output and strongest position against the position of the pair",
    )
    page.look_for(look_places(r, page.settings))


def draw_stored(page: frame.Page[Settings], r: Stored) -> None:
    from core.bigrams import LETTERS
    from core.induction import recall_spread

    s, names = page.settings, list(LETTERS)
    absolute = s.positions == "absolute"
    n = len(r.recalls["previous"].right)
    previous = (
        ([str(t) for t in range(2, n + 2)], [str(t) for t in range(1, n + 2)], "position", "before")
        if absolute
        else (names, [str(t) for t in range(r.places)], "letter", "letters back")
    )
    axes = {
        "previous": previous,
        "key": (list(letters(s.triggers)), names, "trigger", "after letter"),
        "output": (names, names, "letter found", "letter said"),
    }
    asked = {k: v for k, v in r.recalls.items() if len(v.right)}
    page.chart(
        charts.recall_tables(asked, axes), "memories", "Recall of the three memories, association by "
        "association",
    )  # fmt: skip
    page.look_for(look_stored(r, s))
    formula = recall_spread(s.memories, DIMENSIONS)
    page.chart(
        charts.recall_curve(r.study, *formula, dimension(s) or None),
        "recall",
        "Spread of recall in random embeddings against their dimension",
    )


def draw_training(page: frame.Page[Settings], r: InductionTraining) -> None:
    text, rows = prompt(page.settings), r.card["curve"]
    progress = charts.training_progress(rows, r.card["chance"])
    maps = charts.attention_pair(
        r.attention1[-1], r.attention2[-1], text, ("Layer 1", "Layer 2"), height=380
    )
    labels = []
    for row, logits in zip(rows, r.logits, strict=True):
        p = softmax(logits)
        labels.append(f"step {row['step']}: says {letter(p.argmax())}, {100 * p.max():.0f} %")
    page.chart(
        progress, "training", "Loss, accuracy and probes against training step",
        frames=Frames(marks(progress), labels, group=PAGE, pause=600),
    )  # fmt: skip
    page.look_for(look_training(r, text))
    past = np.tri(len(text), dtype=bool)
    seen = [
        {i: {"z": np.where(past, A[k], np.nan)} for i, A in enumerate((r.attention1, r.attention2))}
        for k in range(len(rows))
    ]
    page.chart(
        maps, "trained-attention", f"Attention of the trained model over {text}, step by step",
        frames=Frames(seen, labels, group=PAGE, pause=600),
    )  # fmt: skip


def marks(progress: charts.Figure) -> list[dict[int, dict[str, Any]]]:
    """Where the dotted lines stand in each frame."""
    traces = charts.raw(progress)[0]
    at = [i for i, t in enumerate(traces) if str(t.get("uid", "")).startswith("now-")]
    return [{i: {"x": np.array([x, x])} for i in at} for x in traces[0]["x"]]


def draw_retrieved(page: frame.Page[Settings], r: Retrieved) -> None:
    s = page.settings
    page.chart(
        charts.hopfield_step(
            r.landscape, r.step, r.closed.attention2[-1], r.order, r.prompt, r.prompt[-1]
        ),
        "energy",
        "Energy over a plane of the keys with one retrieval step, and the weight of each position",
    )
    page.look_for(look_retrieved(r, s))
    link = landscape_link(r, s)
    with page.stage:
        if link:
            st.link_button("These keys on the landscape page", link, icon=":material/landscape:")
            if r.away > 1e-4:
                st.caption(
                    f"There the query begins at the strongest key, {r.away:.2g} from the query here."
                )
        else:
            st.caption("The prompt is too long for a link to the landscape page. Shorten it.")


def snippet(s: Settings) -> str:
    """Prints the numbers of the sentence under the picture."""
    head = ", ".join(f"{k}={v!r}" for k, v in engine(s).items())
    start = (
        "import numpy as np\n\nfrom core import induction\nfrom core.bigrams import decode, encode\n\n"
        f"s = induction.HeadSettings({head})\n"
    )
    if s.view == TRAINING:
        return (
            "import numpy as np\n\nfrom core.bigrams import LETTERS, encode\nfrom models import zoo\n"
            "from models.induction_transformer import read_prompt\n\n"
            f'card = zoo.card("{TRAINED}")\n'
            "print(f\"chance {card['chance']:.3f}\")\n"
            'for row in card["curve"]:\n'
            '    print(*(f"{k} {row[k]:.3f}" for k in ("step", "repeated", "wk0", "wk1", "wo1")))\n'
            f'logits = read_prompt(zoo.training("{TRAINED}"), encode("{prompt(s)}"))[0][-1]\n'
            "p = np.exp(logits - logits.max())\n"
            'print(LETTERS[p.argmax()], f"{p.max() / p.sum():.3f}")\n'
        )
    if s.view in (LENGTH, POSITIONS):
        q, o = pair(letters(s.triggers))
        if s.view == LENGTH:
            start += (
                'print(f"take-over length {induction.take_over_length(s):.1f}")\n'
                f"T = [4, 10, 100, 1000]\n"
                f"for length, margin in zip(T, induction.margins(T, s, {q}, {o})):\n"
                '    print(length, f"{margin:.4f}")\n'
            )
            if not dimension(s):
                return start
            return start + (
                f"for length in {MATRIX_LENGTHS}:\n"
                f"    rng = np.random.default_rng({s.seed})\n"
                f"    vectors = induction.random_embedding({s.dimension}, length, rng)\n"
                f"    tokens = induction.one_pair_prompt(length, {q}, {o})\n"
                "    logits = induction.run(tokens, vectors, s).logits[-1]\n"
                f"    margin = logits[{o}] - logits[{(q + 1) % 26}]\n"
                '    print("random vectors", length, f"{margin:.4f}")\n'
            )
        return start + (
            f"study = induction.position_study({s.span}, range(2, {s.span - 1}), s, {q}, {o})\n"
            f"past = study.at + 1 > {s.tmax}\n"
            "for kind, weight in study.on_output.items():\n"
            '    print(kind, f"{weight.min():.4f} {weight.max():.4f}")\n'
            "    if past.any():\n"
            '        print("  past T_max", f"{weight[past].max():.4f}")\n'
        )
    if s.view == MEMORIES:
        return start + (
            f"diagonal, off = induction.recall_spread({s.memories}, [{s.dimension}])\n"
            'print(f"{diagonal[0]:.4f} {off[0]:.4f}")\n'
            f"rng = np.random.default_rng({s.seed})\n"
            f"study = induction.recall_study({s.memories}, {DIMENSIONS}, 20, rng)\n"
            "print(study)\n"
        )
    vectors = "induction.orthonormal(len(tokens))"
    if dimension(s) and s.view != ENERGY:
        vectors = (
            f"induction.random_embedding({s.dimension}, len(tokens), "
            f"np.random.default_rng({s.seed}))"
        )
    return start + (
        f'tokens = encode("{prompt(s)}")\n'
        f"h = induction.run(tokens, {vectors}, s)\n"
        "logits = h.logits[-1]\n"
        'print(f"one back {np.diagonal(h.attention1, -1).mean():.4f}")\n'
        "after = np.flatnonzero(tokens[:-1] == tokens[-1]) + 1\n"
        'print(f"on what followed {h.attention2[-1, after].sum():.4f}, "\n'
        '      f"most {h.attention2[-1].max():.4f}, least {h.attention2[-1].min():.4f}")\n'
        "for v in np.argsort(-logits)[:5]:\n"
        '    print(decode([v]), f"{logits[v]:.4f} {logits[v]:.5f}")\n'
    )


def finite(r: Any) -> dict[str, Any]:
    if isinstance(r, Run):
        return {"logits": r.shown.logits}
    return (
        {"margin": r.here, "margin of the matrices": r.matrices} if isinstance(r, Lengths) else {}
    )


DRAW = {
    ATTENTION: draw_attention, LOGITS: draw_logits, LENGTH: draw_lengths, POSITIONS: draw_places,
    MEMORIES: draw_stored, TRAINING: draw_training, ENERGY: draw_retrieved,
}  # fmt: skip


def render() -> None:
    page = frame.open_page(PAGE, Settings, SCENARIOS, lead=LEAD, equation=equation, symbols=SYMBOLS)
    r = page.compute(compute, finite)
    view = page.settings.view
    DRAW[view](page, r)
    page.refuted_by(REFUTED.get(view, REFUTED["head"]))
    page.finish(snippet(page.settings))
