"""Layers: a deep transformer read as one retrieval after another, and how far that carries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages._regression.asked import law_code, learner_code
from pages.ghosts import number
from pages.ui import cache, charts, controls, frame, learners, uploads
from pages.ui.cache import Draw
from pages.ui.progress import Progress

if TYPE_CHECKING:
    from core.layers import LayerReading, RankedHead
    from core.prompts import PromptLaw
    from models.folder import Config

PAGE = "layers"
EVERY, RANKED, SHIFT, ONE = "every head", "heads ranked", "shift and labels", "one prompt"
LENGTHS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 75, 100)
LONGEST = 200  # examples read, as on the page of curves, however long the training was

# What the page calls a reading: its name in core, and whether it is drawn by orders of magnitude.
READINGS = {
    "effective memories": ("effective", True),
    "weight on the best key": ("best_weight", False),
    "margin": ("margin", True),
    "energy": ("energy", True),
    "fall in one update": ("fall", False),
    "fall by its own write": ("own_fall", False),
    "weight on labels": ("label_weight", False),
}
RANKINGS = {
    "weight on the best key": "best weight",
    "fall in one update": "energy fall",
    "fall by its own write": "own fall",
    "few effective memories": "few memories",
}


@dataclass(frozen=True)
class Settings:
    view: str
    checkpoint: str
    reading: str
    by: str
    n: int
    w2: float
    accuracy: float
    shift: float
    right: float
    prompts: int
    prompt: int
    seed: int


SCENARIOS = (
    controls.Scenario(
        name="arrive", label="Examples arrive", values={},
        claim="As examples arrive most heads average over more of them and single none out: the "
        "mean effective number of memories rises more than threefold from 5 examples to 20.",
        look="the colours of the heads as examples arrive, left to right.",
        refuted="a mean that rises less than threefold from 5 examples to 20.",
    ),
    controls.Scenario(
        name="shift", label="Shift is seen", values={"view": SHIFT},
        claim="Among mixed inputs heads attend to few: the effective number of memories falls below "
        "half. Permuting half of the labels moves it by less than 5 %: attention hardly notices.",
        look="the curve of shifted inputs beside the two others.",
        refuted="a mean above half under shift, or a move of 5 % or more under wrong labels.",
    ),
    controls.Scenario(
        name="ranked", label="The most Hopfield-like heads", values={"view": RANKED},
        claim="One head in layer 3 holds more than three times the mean weight on its best key. All "
        "heads lose energy in one Hopfield update; fewer than half do by what they really write.",
        look="the first bar, and how many bars of the own write lie below 0.",
        refuted="a best head within three times the mean, or a head that gains energy in one "
        "update.",
    ),
    controls.Scenario(
        name="offset", label="Trained at all positions",
        values={"view": RANKED, "checkpoint": "linear-d20-offset", "by": "fall by its own write"},
        claim="The same law with random positions in training: again fewer than half of the heads "
        "lower the energy of their query by their own write.",
        look="how many bars lie above 0.",
        refuted="half or more of the heads lowering their energy by their own write.",
    ),
    controls.Scenario(
        name="one", label="One prompt, all layers", values={"view": ONE},
        claim="In every head the Hopfield update lies below the query. The layer's own write lies "
        "above it in many.",
        look="three marks a head: its query, the update, its own write.",
        refuted="one update above its query, or no write above it.",
    ),
)  # fmt: skip

SYMBOLS = {
    r"q": "a head's query at the asked input",
    r"K,\; k_i": "the keys it sees, K holds them as rows: two tokens an example, x and y, and its own; n_k in all, m "
    "their largest norm",
    r"\beta": "inverse temperature, 1/√d of the head",
    r"p": "the head's attention weights; the largest on an example is the weight on the best key",
    r"T(q)": "one update of the Hopfield network that stores the keys",
    r"E": "its energy; the fall in one update is (E(q) − E(T(q))) / E(q)",
    r"\text{own write}": "q′ is what the same head would ask after its layer's attention has "
    "written to the residual stream; its fall is (E(q) − E(q′)) / E(q)",
    r"\text{margin}": "largest minus second-largest product of q with a key",
    r"\text{effective memories}": "exp of the entropy of p: how many keys share the weight",
}

EQUATION = (
    r"E(q) = -\tfrac1\beta \log\sum\nolimits_i e^{\beta\, k_i\cdot q} + \tfrac12|q|^2 + "
    r"\tfrac1\beta \log n_k + \tfrac12 m^2,\qquad T(q) = K^{\!\top} p,\quad p = "
    r"\mathrm{softmax}(\beta K q)"
)

REFUTED = r"""
*As a theorem:* one Hopfield update never raises the energy of a head. One reading with a negative
fall in one update would refute it (or the engine). *As a reading of the model (ours):* if layers
were retrievals one after another, what a layer really writes would lower the energy of its own
query, and heads that put most weight on one key would be those that lower it most. A share of
falls by the own write near one half, or a rank correlation near 0, refutes that reading; the
sentence above says which it is here."""


# ---- what is computed ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """A checkpoint read on prompts of one law, and its errors there."""

    reading: LayerReading
    draw: Draw
    error: np.ndarray  # (P,): mean square over that of a label
    outside: tuple[str, ...]

    def at(self, n: int) -> int:
        return int(np.flatnonzero(self.reading.lengths == n)[0])

    def values(self, name: str, n: int) -> np.ndarray:
        """`(B, L, H)` at one length."""
        return getattr(self.reading.heads, name)[..., self.at(n)]


@dataclass(frozen=True)
class Result:
    config: Config
    read: dict[str, Read]  # law in words to what was read; one but for SHIFT
    trained_to: int

    @property
    def first(self) -> Read:
        return next(iter(self.read.values()))


def laws(s: Settings, law: PromptLaw) -> dict[str, PromptLaw]:
    """What the prompts of the picture are drawn from."""

    def wrong(accuracy: float) -> dict[str, Any]:
        kind = "permuted" if accuracy < 1 else "none"
        return {"corruption": kind, "accuracy": accuracy}

    if s.view == SHIFT:
        return {
            "training law": law,
            f"w₂ = {s.shift:g}": replace(law, w2=s.shift),
            f"α = {s.right:g}": replace(law, **wrong(s.right)),
        }
    return {"": replace(law, w2=s.w2, **wrong(s.accuracy))}


def lengths(s: Settings, trained_to: int) -> tuple[int, ...]:
    if s.view != EVERY:
        return (s.n,)
    last = max(s.n, trained_to)
    return tuple(sorted({n for n in LENGTHS if n <= last} | {s.n, trained_to}))


def compute(s: Settings, wait: Progress) -> Result:
    from models.law import outside_law, trained_examples, training_prompt_law

    if s.checkpoint not in cache.zoo_names() + uploads.names():
        raise ValueError("there is no checkpoint to read: train or upload one.")
    config = cache.checkpoint(s.checkpoint).config
    asked = {EVERY: s.reading, SHIFT: s.reading, RANKED: s.by}.get(s.view, "")
    if not hasattr(config, "n_layer") and asked in ("fall by its own write", "weight on labels"):
        raise ValueError(
            f"{s.checkpoint} is one attention layer over pairs: it has no residual stream to write "
            f"to and no separate tokens for labels, so there is no {asked}. Choose another reading, "
            "or a GPT-2."
        )
    trained_to = min(trained_examples(config), LONGEST)
    chosen = lengths(s, trained_to)
    learners.fit(s.checkpoint, config, max(chosen))
    learners.ready(wait, [s.checkpoint])
    read = {}
    count = max(s.prompt, 4) if s.view == ONE else s.prompts
    for label, law in laws(s, training_prompt_law(config)).items():
        draw = Draw(law, count, max(chosen), s.seed)
        found = cache.layer_reading(s.checkpoint, draw, chosen)
        drawn = cache.prompts(draw).targets.numpy()[:, list(chosen)]
        error = ((found.predictions - drawn) ** 2).mean(0) / cache.label_scale(law) ** 2
        read[label] = Read(found, draw, error, tuple(outside_law(config, law, s.n)))
    return Result(config, read, trained_to)


def finite(r: Result) -> dict[str, Any]:
    """Without examples one layer alone has no energy, and some readings never have a number."""
    some = r.first.reading.lengths > 0
    read = [x.reading for x in r.read.values()]
    return {
        "the energy of a query": [x.heads.energy[..., some] for x in read],
        "its fall in one update": [x.heads.fall[..., some] for x in read],
        "the answer": [x.predictions for x in read],
    }


def over_heads(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`(B, L, H)` to each layer's mean over heads and prompts, and its 10 and 90 % over prompts."""
    per_prompt = values.mean(2)
    low, high = np.quantile(per_prompt, (0.1, 0.9), axis=0)
    return per_prompt.mean(0), low, high


def rank_correlation(ranked: tuple[RankedHead, ...]) -> float:
    """Spearman's, between weight on the best key and fall by the own write."""
    best, own = (np.array([getattr(h, k) for h in ranked]) for k in ("best_weight", "own_fall"))
    if len(ranked) < 3 or not np.isfinite(own).all():
        return float("nan")
    ranks = [np.argsort(np.argsort(v)) for v in (best, own)]
    return float(np.corrcoef(*ranks)[0, 1])


# ---- words and numbers ---------------------------------------------------------------------------


def percent(part: np.ndarray) -> str:
    return f"{100 * float(part.mean()):.3g}\u202f%"


def falls(r: Read, n: int) -> str:
    """What holds of the Hopfield reading, and what does not, in this picture's readings."""
    fall, own = (v[np.isfinite(v)] for v in (r.values("fall", n), r.values("own_fall", n)))
    if not fall.size:
        return "No energy here is a finite number, so there is nothing to compare."
    text = f"One Hopfield update lowers the energy in **{percent(fall >= 0)}** of the readings"
    text += ", as it must" if (fall >= 0).all() else ", and in theory in all"
    if not own.size:
        return f"{text}; one layer alone has no next query to compare."
    share = float((own > 0).mean())
    says = "mostly an analogy" if share < 0.75 else "borne out in most heads"
    return (
        f"{text}; what the layer itself writes lowers it in **{percent(own > 0)}**. "
        f"Layer by layer retrieval is {says} here."
    )


def keys_seen(config: Config, n: int) -> int:
    return 2 * n + 1 if hasattr(config, "n_layer") else n


def few_examples(r: Result) -> int:
    """The length read that is nearest to 5."""
    return int(min(r.first.reading.lengths, key=lambda n: abs(n - 5)))


def look_every(s: Settings, r: Result) -> str:
    name, _ = READINGS[s.reading]
    values = r.first.values(name, s.n).mean(0)
    effective = r.first.values("effective", s.n).mean(0)
    few = few_examples(r)
    then = float(r.first.values(name, few).mean())
    share = "" if s.reading == "effective memories" else (
        f"The weights are shared by **{number(float(effective.mean()))}** effective memories. "
    )  # fmt: skip
    return (
        f"{s.reading.capitalize()} after {s.n} examples, {keys_seen(r.config, s.n)} keys: "
        f"**{number(float(values.mean()))}** on average over {values.size} heads, from "
        f"{number(float(values.min()))} to {number(float(values.max()))}; the average after {few} "
        f"is **{number(then)}**. {share}"
        f"{falls(r.first, s.n)}"
    )


def look_ranked(s: Settings, r: Result, ranked: tuple[RankedHead, ...]) -> str:
    first = ranked[0]
    mean = float(np.mean([h.score for h in ranked]))
    text = (
        f"Layer {first.layer + 1}, head {first.head + 1} comes first of {len(ranked)} by "
        f"{s.by}: **{number(first.score)}**; the mean is **{number(mean)}**. {falls(r.first, s.n)}"
    )
    match = rank_correlation(ranked)
    if np.isfinite(match):
        text += (
            " Rank correlation of the weight on the best key with the fall by the own write: "
            f"**{match:.4f}**."
        )
    return text


def look_shift(s: Settings, r: Result) -> str:
    name, _ = READINGS[s.reading]
    means = [float(read.values(name, s.n).mean()) for read in r.read.values()]
    parts = ", ".join(
        f"**{number(mean)}** under {label}" if i == 0 else
        f"**{number(mean)}** under {label}{times(mean, means[0])}"
        for i, (label, mean) in enumerate(zip(r.read, means, strict=True))
    )  # fmt: skip
    errors = [read.error[read.at(s.n)] for read in r.read.values()]
    said = ", ".join(f"**{number(float(e))}**" for e in errors)
    return (
        f"{s.reading.capitalize()} after {s.n} examples, averaged over heads and {s.prompts} "
        f"prompts: {parts}. The answers miss the truth by {said} of a label's mean square, in this order."
    )


def times(value: float, of: float) -> str:
    return f" (× {value / of:.3g})" if of and np.isfinite(value / of) else ""


def look_one(s: Settings, r: Result) -> str:
    b, read = s.prompt - 1, r.first
    fall, own = (read.values(k, s.n)[b] for k in ("fall", "own_fall"))
    answer = float(read.reading.predictions[b, read.at(s.n)])
    truth = float(cache.prompts(read.draw).targets[b, s.n])
    text = (
        f"Prompt {s.prompt} after {s.n} examples: one Hopfield update lowers the energy in "
        f"{int((fall >= 0).sum())} of {fall.size} heads, by **{number(float(fall.mean()))}** of it "
        f"on average"
    )
    if np.isfinite(own).all():
        text += f"; the layer's own write lowers it in {int((own > 0).sum())}"
    return text + f". The answer is **{answer:.4f}**, the truth **{truth:.4f}**."


def table(s: Settings, r: Result) -> list[tuple[str, ...]]:
    rows = [
        ("answer's error, of E y²", *(number(float(x.error[x.at(s.n)])) for x in r.read.values()))
    ]
    for label, (name, _) in READINGS.items():
        means = [float(read.values(name, s.n).mean()) for read in r.read.values()]
        if np.isfinite(means).all():
            rows.append((label, *(number(m) for m in means)))
    return rows


# ---- the page ------------------------------------------------------------------------------------


def draw_every(page: frame.Page[Settings], r: Result) -> None:
    s, found = page.settings, r.first.reading
    name, log = READINGS[s.reading]
    at = None
    if found.moved is not None:
        with page.stage:
            at, side = st.columns([0.62, 0.38], gap="medium")
    page.chart(
        charts.layers_map(
            found.lengths, found.mean(name), s.reading, read_at=s.n, trained_to=r.trained_to,
            log=log,
        ),
        f"map-{name}",
        f"{s.reading} of every layer and head against the number of examples",
        into=at,
    )  # fmt: skip
    if found.moved is not None:
        page.chart(
            charts.layers_moved(found.lengths, found.moved.mean(0), s.n), "moved",
            "Distance the residual stream moves in every layer", into=side,
        )  # fmt: skip
    page.look_for(look_every(s, r))
    longer = grey = ""
    if found.lengths[-1] > r.trained_to:
        longer = (
            " Right of the dashed line prompts are longer than any in training, whose queries come "
            f"after at most {r.trained_to} examples."
        )
    if not np.isfinite(found.mean(name)).all():
        grey = " Grey: not defined."
    with page.stage:
        st.caption(
            f"Rows: layers, each with its heads. Means over prompts; frame: n.{longer}{grey} Layer 1 "
            "moves the stream by more than its length, because it starts from a bare input."
        )


def draw_ranked(page: frame.Page[Settings], r: Result) -> None:
    s = page.settings
    ranked = r.first.reading.ranked(RANKINGS[s.by], s.n)
    keys = keys_seen(r.config, s.n)
    uniform = {"weight on the best key": 1 / keys, "few effective memories": float(keys)}
    at = None
    both = np.isfinite([h.own_fall for h in ranked]).all()
    if both:
        with page.stage:
            at, side = st.columns([0.55, 0.45], gap="medium")
    page.chart(
        charts.layers_ranked(ranked, s.by.removeprefix("few "), uniform.get(s.by, np.nan)),
        "ranked", f"Heads ranked by {s.by}", into=at,
    )  # fmt: skip
    if both:
        page.chart(
            charts.layers_falls(ranked), "falls",
            "Energy lost in one Hopfield update against energy lost by the layer's own write",
            into=side,
        )  # fmt: skip
    page.look_for(look_ranked(s, r, ranked))


def draw_shift(page: frame.Page[Settings], r: Result) -> None:
    s = page.settings
    name, log = READINGS[s.reading]
    curves = {label: over_heads(read.values(name, s.n)) for label, read in r.read.items()}
    page.chart(
        charts.layers_conditions(curves, s.reading, log), f"conditions-{name}",
        f"{s.reading} layer by layer under three laws",
    )  # fmt: skip
    page.look_for(look_shift(s, r))
    with page.stage:
        st.caption("Lines: mean over the heads of a layer. Bands: 10 to 90 % of the prompts.")
    page.facts(tuple(r.read), table(s, r), "Means over heads and prompts")


def draw_one(page: frame.Page[Settings], r: Result) -> None:
    s, b = page.settings, page.settings.prompt - 1
    energy, fall, own = (r.first.values(k, s.n)[b] for k in ("energy", "fall", "own_fall"))
    page.chart(
        charts.layers_energies(energy, energy * (1 - fall), energy * (1 - own), "energy E"),
        "energies",
        "Energy of every head's query, after one Hopfield update, and after the layer's own write",
    )
    page.look_for(look_one(s, r))


def snippet(s: Settings, r: Result) -> str:
    own = s.checkpoint == uploads.NAME
    head = (
        ("from pathlib import Path\n\n" if own else "")
        + "import numpy as np\nimport torch\n\n"
        + "from core.prompts import PromptLaw, sample_prompts\nfrom models import zoo\n"
        + ("from models.folder import read_folder\n" if own else "")
        + "from models.layer_reading import read_layers\n"
        + ("from models.predictor import TransformerPredictor\n" if own else "")
        + f"\nmodel = {learner_code(s.checkpoint)}.model\n"
    )
    draws = "".join(
        f"    ({label!r}, {law_code(read.draw.law)}),\n" for label, read in r.read.items()
    )
    d = r.first.draw
    who = f"[{s.prompt - 1}:{s.prompt}]" if s.view == ONE else ""
    name, few = READINGS[s.reading][0], few_examples(r)
    then = (
        f"""    few = read_layers(model, prompts, ({few},))
    print(f"  {name} after {few}: {{few.heads.{name}.mean():#.4g}}")
"""
        if s.view == EVERY
        else ""
    )
    body = f"""laws = (
{draws})
for name, law in laws:
    prompts = sample_prompts(
        law, {d.n_prompts}, {d.n_examples + 1}, torch.Generator().manual_seed({s.seed})
    )
    r = read_layers(model, prompts, ({s.n},))
    print(name, "answers", r.predictions{who}[:, 0].round(4))
    print(name, "truth", prompts.targets{who}[:, {s.n}].numpy().round(4))
    miss = (r.predictions[:, 0] - prompts.targets[:, {s.n}].numpy()) ** 2
    print(f"error {{miss.mean() / {cache.label_scale(d.law) ** 2}:#.4g}}")
    for reading in ("effective", "best_weight", "margin", "energy", "fall", "own_fall",
                    "label_weight"):
        values = getattr(r.heads, reading){who}
        share = f", above 0 in {{(values > 0).mean():.4f}}" if "fall" in reading else ""
        print(f"  {{reading}}: {{values.mean():#.4g}}{{share}}")
{then}    for by in ("best weight", "energy fall", "own fall", "few memories"):
        heads = r.ranked(by)
        mean = np.mean([h.score for h in heads])
        print(f"  by {{by}}: layer {{heads[0].layer + 1}}, head {{heads[0].head + 1}}, "
              f"{{heads[0].score:#.4g}}; mean {{mean:#.4g}}")
    ranks = [np.argsort(np.argsort([getattr(h, k) for h in heads])) for k in
             ("best_weight", "own_fall")]
    if len(heads) > 2:
        print(f"  rank correlation {{np.corrcoef(*ranks)[0, 1]:.4f}}")
"""
    return head + body


DRAW = {EVERY: draw_every, RANKED: draw_ranked, SHIFT: draw_shift, ONE: draw_one}


def render() -> None:
    page = frame.open_page(
        PAGE, Settings, SCENARIOS,
        lead="Each head of a deep transformer is one step of an associative memory. Is the whole one "
        "retrieval after another?",
        equation=EQUATION, symbols=SYMBOLS,
    )  # fmt: skip
    r = page.compute_long(compute, finite)
    DRAW[page.settings.view](page, r)
    for label, read in r.read.items():
        if read.outside:
            with page.stage:
                which = f" ({label})" if label else ""
                st.caption(
                    f"**Outside the training law of {page.settings.checkpoint}{which}:** "
                    f"{'; '.join(read.outside)}."
                )
    with page.stage, st.expander("What holds, and what is an analogy"):
        from core.layers import SEMANTICS

        st.markdown(SEMANTICS.replace("(ours)", "*(ours)*"))
    page.refuted_by(REFUTED)
    page.finish(snippet(page.settings, r))
