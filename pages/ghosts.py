"""Ghost examples: soft prompts that a frozen model cannot tell from none, and their reshaping."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages._regression.asked import law_code, learner_code
from pages.ui import cache, charts, controls, frame, learners, uploads
from pages.ui.progress import Progress as Bar

if TYPE_CHECKING:
    from core.ghosts import Ghosts, GhostSettings, Progress
    from models.folder import Config
    from models.reshaped_memories import ReshapedModel

PAGE = "ghosts"
SEARCH, RESHAPED, ALONG = "search", "reshaped", "against t"
HELD_OUT = 128
SLICE = 0.4  # seconds of search between two pictures
PAPER = (0.0003, 0.001)  # averages over t up to 75 that CAMR App. E.5 gives, in its own units
MOST_ALONG = 200  # a rank limit past it is not gone to
NUMBERS = (1, 2, 5, 10, 20, 30, 50, 75)  # of ghosts, along t; the rank limit comes on top


@dataclass(frozen=True)
class Settings:
    view: str
    checkpoint: str
    examples: int
    restarts: int
    seed: int
    steps: int
    rate: float
    queries: int
    prompt: int
    across: bool
    ridge: float
    tolerance: float


SCENARIOS = (
    controls.Scenario(
        name="labels", label="Ghosts of one layer", values={},
        claim="Every search ends more than a thousand times below the prompt it began from, by "
        "turning the ghosts' labels to 0. Labels of 0 alone, without any search, end below 0.001.",
        look="the loss of every restart, and of labels of 0 without a search.",
        refuted="a search that gains less than a factor of 1000, or labels of 0 above 0.001.",
    ),
    controls.Scenario(
        name="gpt", label="Ghosts of GPT-2",
        values={"checkpoint": "linear-d5", "examples": 5, "steps": 150},
        claim="Five ghosts of a GPT-2 take seconds. The best of four searches ends more than a "
        "thousand times below its start, and here it beats labels of 0; the worst does not.",
        look="the best and the worst of the four searches beside labels of 0.",
        refuted="a best search within a factor of 1000 of its start, or above labels of 0.",
    ),
    controls.Scenario(
        name="exact", label="Reshaped, exactly", values={"view": RESHAPED, "examples": 20},
        claim="Twenty ghosts in twenty dimensions: attention over reshaped ghosts is attention over "
        "the true prompt, within 1e-10. So it is for ghosts that nobody searched.",
        look="the error of every head, for searched and for drawn ghosts.",
        refuted="an error above 1e-10, for either kind of ghosts.",
    ),
    controls.Scenario(
        name="past", label="One ghost past the rank", values={"view": RESHAPED, "examples": 21},
        claim="Twenty-one ghosts in twenty dimensions: no linear map can follow them, and the "
        "answers are off by more than 1 %.",
        look="the residual, and the error of the answers.",
        refuted="answers that are off by less than 1 %.",
    ),
    controls.Scenario(
        name="deep", label="Twelve layers at their limit",
        values={"view": RESHAPED, "checkpoint": "linear-d5", "examples": 16, "steps": 50,
                "restarts": 2},
        claim="A GPT-2 keeps two tokens an example in heads of 32 dimensions: at 16 ghosts all 24 "
        "heads are exact and so are its answers, through every layer.",
        look="24 heads, all at the level of rounding.",
        refuted="one head that is not exact, or answers that are not.",
    ),
    controls.Scenario(
        name="along", label="Where it breaks", values={"view": ALONG, "steps": 200},
        claim="From 1 to 75 ghosts: the answers are exact up to t = 20, the dimensions of a key, "
        "and off by more than 1 % from 21 on, with or without a search.",
        look="the step between t = 20 and t = 21.",
        refuted="answers that are off before 21, or by less than 1 % from there on.",
    ),
)  # fmt: skip

SYMBOLS = {
    r"f_\theta": "the checkpoint; its weights do not move",
    r"(\tilde c_j, \tilde r_j)": "ghost j: an input and a label, t of them, free to be any numbers",
    r"c": "a query, drawn from the checkpoint's training law",
    r"f_\theta([c])": "its answer without any example; one-layer attention then answers 0",
    r"K, V": "keys and values of the true prompt in one head, as columns",
    r"\tilde K, \tilde V": "those of the ghosts; ⁺ is the pseudo-inverse",
    r"W_1, W_2": "the linear maps that best send ghosts to examples",
    r"q,\; \beta": "the head's query, and its inverse temperature: how sharply it picks",
    r"o, o'": "a head's output over the true prompt, and over reshaped ghosts",
}

REFUTED = {
    SEARCH: r"""
*The paper:* a frozen model holds ghost examples that prompt tuning can find. A search that never
comes below the error of the prompt it began from would refute it. *What weakens it:* if labels
of 0 do as well without a search, then what the search finds is little more than *no
information*, and the ghosts say nothing about what pretraining stored.""",
    RESHAPED: r"""
*The paper, left to its future work:* attention over reshaped ghosts $W_1\tilde K, W_2\tilde V$
reproduces attention over the true prompt. A head whose ghosts have full column rank and whose
output still differs by more than $10^{-10}$ would refute it. *What it does not show:* that the
ghosts matter. Any $t$ independent ghosts can be sent to any $t$ examples by a linear map, so
ghosts that nobody searched have to do as well, and the page measures that they do. Past the rank
the claim fails, as $\sqrt{1-\mathrm{rank}/T}$ says for unrelated keys.""",
}
REFUTED[ALONG] = REFUTED[SEARCH] + "\n" + REFUTED[RESHAPED]


# ---- what is computed ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Ghosts of one length as far as their search has come, and what they reshape to."""

    progress: Progress
    searched: ReshapedModel | None  # None where the picture does not show it
    drawn: ReshapedModel | None  # the same from the prompt that the search began from

    @property
    def ghosts(self) -> Ghosts:
        return self.progress.ghosts

    @property
    def t(self) -> int:
        return self.ghosts.settings.examples


@dataclass(frozen=True)
class Result:
    config: Config
    found: tuple[Found, ...]
    share: float  # of the work done
    left: float  # seconds, estimated
    limit: float  # most ghosts for which both maps can be exact
    trained_to: int

    @property
    def finished(self) -> bool:
        return self.share >= 1


def lengths(s: Settings, config: Config) -> tuple[int, ...]:
    if s.view != ALONG:
        return (s.examples,)
    limit = int(rank_limit(config, s.across))
    most = min(config.max_examples, MOST_ALONG)
    return tuple(sorted({n for n in (*NUMBERS, limit, limit + 1) if 1 <= n <= most}))


def rank_limit(config: Config, across: bool) -> float:
    """Most ghosts whose keys and values can have full column rank in every head."""
    if hasattr(config, "n_layer"):  # a GPT-2 keeps two tokens an example
        return config.n_embd // (1 if across else config.n_head) / 2
    return min(config.n_key, config.n_value)


def search_of(s: Settings, config: Config, t: int) -> GhostSettings:
    from core.ghosts import GhostSettings
    from models.law import training_prompt_law

    # a report at least every third of a second, so that a moved control is soon answered
    deep = hasattr(config, "n_layer")
    every = max(1, min(5, 1200 // (s.restarts * (2 * t + s.queries)))) if deep else 10
    return GhostSettings(
        examples=t, restarts=s.restarts, queries=s.queries, steps=s.steps, learning_rate=s.rate,
        held_out=HELD_OUT, every=every, law=training_prompt_law(config), seed=s.seed,
    )  # fmt: skip


def maps(s: Settings) -> dict[str, Any]:
    return {"ridge": s.ridge, "tolerance": s.tolerance, "across_heads": s.across}


def compute(s: Settings, seconds: float | None, wait: Bar) -> Result:
    """As far as the searches come in so many more seconds; None: as far as they are."""
    from models.law import trained_examples

    if s.checkpoint not in cache.zoo_names() + uploads.names():
        raise ValueError("there is no checkpoint to search against: train or upload one.")
    config = cache.checkpoint(s.checkpoint).config
    chosen = lengths(s, config)
    learners.fit(s.checkpoint, config, max(chosen))
    learners.ready(wait, [s.checkpoint])  # loading is no part of the slice
    until = None if seconds is None else time.monotonic() + seconds
    found: list[Found] = []
    done = whole = spent = 0.0
    for t in chosen:
        search = cache.ghost_search(s.checkpoint, search_of(s, config, t))
        if not found or found[-1].ghosts.finished:
            progress = search.advance(until)
            searched = drawn = None
            if s.view != SEARCH and (s.view == RESHAPED or progress.ghosts.finished):
                searched, drawn = (
                    cache.reshaped_ghosts(s.checkpoint, progress, which, s.prompt, **maps(s))
                    for which in (True, False)
                )
            found.append(Found(progress, searched, drawn))
        whole += t + 10  # about how a step's cost grows with t
        done += (t + 10) * search.share
        spent += search.seconds
    left = spent / done * (whole - done) if done else 0.0
    return Result(
        config, tuple(found), 1.0 if found[-1].t == chosen[-1] and found[-1].ghosts.finished
        else min(done / whole, 0.999), left, rank_limit(config, s.across), trained_examples(config),
    )  # fmt: skip


def finite(r: Result) -> dict[str, Any]:
    shown = [m for f in r.found for m in (f.searched, f.drawn) if m is not None]
    found = {"the error of the ghosts": [f.ghosts.mse for f in r.found]}
    if shown:
        found["the model's answers"] = [(m.prompt, m.reshaped, m.ghosts) for m in shown]
        found["attention over reshaped ghosts"] = [m.layers.error for m in shown]
    return found


def stopped(s: Settings) -> bool:
    return st.session_state.get(f"{PAGE}~stopped") == work(s)


def work(s: Settings) -> tuple[Any, ...]:
    """What is searched for, as opposed to how it is shown."""
    kind = ALONG if s.view == ALONG else s.examples
    return (kind, s.checkpoint, s.restarts, s.seed, s.steps, s.rate, s.queries)


def stop(what: tuple[Any, ...] | None) -> None:
    st.session_state[f"{PAGE}~stopped"] = what


# ---- words and numbers ---------------------------------------------------------------------------


def number(value: float) -> str:
    """Four digits; powers of ten where there are too many zeros."""
    if np.isnan(value):
        return "not defined"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    return "0" if value == 0 else f"{value:#.4g}".rstrip(".")


def share(part: int, whole: int) -> str:
    return "all" if part == whole else "none" if not part else f"{part} of {whole}"


def look_search(s: Settings, r: Result) -> str:
    g = r.found[0].ghosts
    low, _, high = g.spread
    silent = float(np.median(g.silent_mse))
    below = int((g.mse < silent).sum())
    labels = [float(y[g.best].double().square().mean().sqrt()) for y in (g.start_ys, g.ys)]
    return (
        f"After {g.steps[-1] + 1} steps the best of {s.restarts} searches for {g.xs.shape[1]} "
        f"ghosts misses the answer without examples by **{number(low)}** (mean square), the worst "
        f"by **{number(high)}**; the prompts they began from by "
        f"**{number(float(np.median(g.start_mse)))}**. Those prompts with every label set to 0, and "
        f"no search, miss it by **{number(silent)}**; of the searches {share(below, s.restarts)} "
        f"{'does' if below <= 1 < s.restarts else 'do'} better than that. The search takes the labels of the "
        f"best ghosts from a root mean square of {labels[0]:.3g} to {labels[1]:.2g}."
    )


def restarts(r: Result) -> list[tuple[str, ...]]:
    g = r.found[0].ghosts
    return [
        (
            f"restart {i + 1}" + (" <small>best</small>" if i == g.best else ""),
            number(g.start_mse[i]), number(g.silent_mse[i]), number(g.mse[i]),
            number(g.relative[i]), str(g.rank[i]), number(g.condition[i]),
        )
        for i in range(len(g.mse))
    ]  # fmt: skip


def verdict(s: Settings, f: Found, limit: float) -> str:
    assert f.searched is not None
    layers = f.searched.layers
    if not f.searched.prompt.any():
        return (
            "The model answers 0 whatever it is shown, so there is nothing to reproduce and the "
            "claim is not tested."
        )
    if layers.exact.all():
        return "The claim holds here: the maps are exact in every head."
    if s.ridge > 0:
        return "A ridge shrinks the maps, so they are not exact."
    if f.t > limit:
        return (
            f"The claim fails here, as it must: {f.t} ghosts need more than the {limit:g} that the "
            "dimensions of a head have room for."
        )
    return "The claim fails here, within the rank: these ghosts are too nearly dependent."


def look_reshaped(s: Settings, r: Result) -> str:
    f = r.found[0]
    assert f.searched is not None
    assert f.drawn is not None
    a, b = f.searched, f.drawn
    if not a.prompt.any():
        return verdict(s, f, r.limit)
    return (
        f"With {f.t} reshaped ghosts in place of {f.t} examples, the largest error of a head's "
        f"attention is **{number(float(a.layers.error.max()))}**, and that of the model's answers, "
        f"through all layers, is **{number(a.error)}**; with the ghosts as they are it is "
        f"**{number(a.error_ghosts)}**. {verdict(s, f, r.limit)} Ghosts that were never searched, "
        f"reshaped in the same way, give **{number(b.error)}**: the maps do the work, not the "
        f"search."
    )


def reshaping_facts(r: Result) -> list[tuple[str, ...]]:
    f = r.found[0]
    assert f.searched is not None
    assert f.drawn is not None
    both = (f.searched, f.drawn)

    def row(name: str, of: Any) -> tuple[str, ...]:
        return (name, *(of(m) for m in both))

    def ends(name: str) -> Any:
        def text(m: ReshapedModel) -> str:
            values = getattr(m.layers, name)
            low, high = number(float(values.min())), number(float(values.max()))
            return low if low == high else f"{low} to {high}"

        return text

    def ranks(m: ReshapedModel) -> str:
        return " and ".join(
            str(int(getattr(m.layers, f"rank_{k}").min())) for k in ("keys", "values")
        )

    return [
        row("Error of the answers, end to end", lambda m: number(m.error)),
        row("the same, ghosts as they are", lambda m: number(m.error_ghosts)),
        row("Error of a head's attention", ends("error")),
        row("the same, ghosts as they are", ends("error_ghosts")),
        row("Softmax weight put elsewhere", ends("moved_weight")),
        row("Residual |W₁K̃ − K| / |K|", ends("residual_keys")),
        row("Residual |W₂Ṽ − V| / |V|", ends("residual_values")),
        row("√(1 − rank/t), unrelated keys", ends("expected_residual")),
        row("Smallest rank of K̃ and Ṽ", ranks),
        row("Condition of K̃", ends("condition_keys")),
        row("Condition of Ṽ", ends("condition_values")),
    ]


def look_along(s: Settings, r: Result) -> str:
    done = [f for f in r.found if f.searched is not None]
    if not done:
        return f"The search for **{r.found[0].t}** ghost is under way."
    mse = np.array([np.median(f.ghosts.mse) for f in done])
    silent = np.array([np.median(f.ghosts.silent_mse) for f in done])
    text = (
        f"Averaged over {len(done)} numbers of ghosts from 1 to {done[-1].t}, the median search "
        f"misses the answer without examples by **{number(float(mse.mean()))}**, labels of 0 "
        f"without a search by **{number(float(silent.mean()))}**. "
    )
    errors = {f.t: (f.searched.error, f.drawn.error) for f in done if f.searched and f.drawn}
    inside = {t: e for t, e in errors.items() if t <= r.limit}
    past = {t: e for t, e in errors.items() if t > r.limit}
    if inside:
        worst = max(a for a, _ in inside.values())
        text += (
            f"Up to t = {r.limit:g}, the rank limit, reshaped ghosts give the true prompt's answers "
            f"within **{number(worst)}**. "
        )
    if past:
        first, last = min(past), max(past)
        text += f"Past it they are off: by **{number(past[first][0])}** at t = {first}"
        text += f", by **{number(past[last][0])}** at t = {last}. " if last > first else ". "
        text += (
            f"Unsearched ghosts give **{number(past[last][1])}** there: the search changes little."
        )
    return text


LEAD = (
    "Does a frozen model hold *ghost examples*, and do examples reshape them? Search for some, then "
    "put them in the place of a true prompt."
)


def equation(values: Mapping[str, Any]) -> str:
    search = (
        r"\min_{\tilde c, \tilde r}\; \mathbb{E}_c \bigl(f_\theta([(\tilde c_1, \tilde r_1), \ldots,"
        r"(\tilde c_t, \tilde r_t), c]) - f_\theta([c])\bigr)^2"
    )
    reshape = (
        r"W_1 = K\tilde K^{+},\; W_2 = V\tilde V^{+}:\qquad o' = W_2\tilde V\, \mathrm{softmax}"
        r"(\beta\,(W_1\tilde K)^{\!\top} q) \overset{?}{=} V\,\mathrm{softmax}(\beta K^{\!\top} q) "
        r"= o"
    )
    return search if values["view"] == SEARCH else reshape


# ---- the page ------------------------------------------------------------------------------------


def bar(page: frame.Page[Settings], r: Result) -> None:
    """How far the search has come, and the buttons that stop it or let it go on."""
    s, g = page.settings, r.found[-1].ghosts
    if r.finished:
        return
    at = f"t = {r.found[-1].t}, step {g.steps[-1] + 1} of {s.steps}"
    with page.stage, st.container(horizontal=True, vertical_alignment="center", key="lab-search"):
        if stopped(s):
            st.progress(r.share, f"Stopped at {at}.")
            st.button("Go on", key=f"{PAGE}~go", on_click=stop, args=(None,), type="primary")
        else:
            left = f"about {r.left:.0f} s left" if r.left >= 1 else "nearly done"
            st.progress(r.share, f"Searching: {at}, {left}.")
            st.button("Stop", key=f"{PAGE}~stop", on_click=stop, args=(work(s),))


def say_longer(page: frame.Page[Settings], r: Result) -> None:
    longest = max(lengths(page.settings, r.config))
    if longest > r.trained_to:
        with page.stage:
            st.caption(
                f"**Outside the training law of {page.settings.checkpoint}:** {longest} examples "
                f"before the query; in training at most {r.trained_to}."
            )


def draw(page: frame.Page[Settings], r: Result) -> None:
    s, f = page.settings, r.found[0]
    fitted = cache.label_scale(f.ghosts.settings.law) ** 2
    if s.view == ALONG:
        draw_along(page, r)
        return
    with page.stage:
        left, right = st.columns([0.55, 0.45], gap="medium")
    if s.view == SEARCH:
        page.chart(
            charts.ghost_losses(f.ghosts, fitted), "losses",
            "Loss of every restart against the step of the search", into=left,
        )  # fmt: skip
        page.chart(
            charts.ghost_labels(f.ghosts), "labels",
            "Label of every ghost before and after the search, and the way of its input",
            into=right,
        )  # fmt: skip
        page.look_for(look_search(s, r))
        page.facts(
            ("start", "labels 0", "found", "of E y²", "rank", "condition"), restarts(r),
            "Mean square difference from the answer without examples, on held-out queries",
        )  # fmt: skip
        with page.stage:
            st.caption(
                f"In units of y², whose mean is {fitted:g}. The answer without examples is itself "
                f"{number(f.ghosts.reference)} in mean square. CAMR reports averages of 0.0003 and "
                "0.001 up to t = 75, whose units we do not know. Rank and condition are those "
                "of the ghosts' inputs."
            )
        return
    assert f.searched is not None
    assert f.drawn is not None
    page.chart(
        charts.ghost_layers(f.searched, f.drawn), "layers",
        "Relative error of every head's attention: ghosts as they are, reshaped, and unsearched",
        into=left,
    )  # fmt: skip
    page.chart(
        charts.ghost_answers(f.searched), "answers",
        "Answers to 64 queries with ghosts, against answers after the true prompt", into=right,
    )  # fmt: skip
    page.look_for(look_reshaped(s, r))
    with page.stage:
        st.caption(
            "Each head is judged alone, at the true prompt's own queries *(ours)*; the answers let "
            "errors of early layers reach the later ones. All in float64; below 1e-10 counts as "
            f"exact. {cache.GHOST_QUERIES} queries of the prompt's own task."
        )
        left, right = st.columns([0.48, 0.52], gap="large")
    page.chart(
        charts.ghost_maps(f.searched), "maps",
        "Residual of W1 and W2, condition and rank of the ghosts' keys and values, by head",
        into=left,
    )  # fmt: skip
    page.facts(
        ("searched", "not searched"), reshaping_facts(r), "Reshaped ghosts against the true prompt",
        into=right,
    )  # fmt: skip


def draw_along(page: frame.Page[Settings], r: Result) -> None:
    s = page.settings
    t = [f.t for f in r.found]
    open_at = None if r.finished else t[-1]
    mse, start, silent = (
        np.stack([getattr(f.ghosts, name) for f in r.found])
        for name in ("mse", "start_mse", "silent_mse")
    )
    page.chart(
        charts.ghost_mse_along(t, mse, start, silent, open_at, r.trained_to, PAPER), "mse-along",
        "Error of the ghosts against their number, with the spread over restarts",
    )  # fmt: skip
    done = [f for f in r.found if f.searched is not None]
    if done:
        errors = {
            "reshaped ghosts": np.array([f.searched.error for f in done if f.searched]),
            "reshaped, without a search": np.array([f.drawn.error for f in done if f.drawn]),
            "ghosts as they are": np.array([f.searched.error_ghosts for f in done if f.searched]),
        }
        page.chart(
            charts.ghost_reshaped_along(
                [f.t for f in done], errors, r.limit, open_at, r.trained_to
            ),
            "reshaped-along",
            "Error of the model's answers with reshaped ghosts, against their number",
        )  # fmt: skip
    page.look_for(look_along(s, r))
    with page.stage:
        st.caption(
            f"Band: all {s.restarts} restarts. Dash-dotted: 0.0003 and 0.001, the averages CAMR "
            "gives, whose units we do not know. Below: one true prompt, the best restart's "
            "ghosts, error relative to the root mean square of the true prompt's answers *(ours)*."
        )


def snippet(s: Settings, r: Result) -> str:
    """Prints the numbers of the sentence under the pictures, from a finished search."""
    settings = search_of(s, r.config, 1)
    reshaping = s.view != SEARCH
    own = s.checkpoint == uploads.NAME
    return (
        ("from pathlib import Path\n" if own else "")
        + "from functools import partial\n\nimport torch\n\n"
        + "from core.ghosts import GhostSettings, construct\n"
        + "from core.prompts import PromptLaw"
        + (", sample_prompts" if reshaping else "")
        + "\nfrom models import zoo\n"
        + ("from models.folder import read_folder\n" if own else "")
        + "from models.keys_values import ask\n"
        + ("from models.predictor import TransformerPredictor\n" if own else "")
        + ("from models.reshaped_memories import reshape_ghosts\n" if reshaping else "")
        + "\ntorch.set_num_threads(1)  # sums in one order, so that a long search ends the same\n"
        + f"model = {learner_code(s.checkpoint)}.model\n"
        + f"law = {law_code(settings.law)}\n"
        + "found = {}\n"
        + f"for t in {lengths(s, r.config)!r}:\n"
        + f"    settings = GhostSettings(\n        examples=t, restarts={s.restarts}, "
        + f"queries={s.queries}, steps={s.steps},\n        learning_rate={s.rate!r}, "
        + f"held_out={HELD_OUT}, law=law, seed={s.seed},\n    )\n"
        + "    *_, last = construct(partial(ask, model), settings)\n"
        + "    found[t] = last.ghosts\n"
        + _PRINT_SEARCH
        + (_PRINT_RESHAPED.format(seed=s.seed + s.prompt, maps=maps(s)) if reshaping else "")
        + (_PRINT_MEANS if s.view == ALONG else "")
    )


_PRINT_SEARCH = """for t, g in found.items():
    low, middle, high = g.spread
    start, silent = (float(torch.tensor(m).quantile(0.5)) for m in (g.start_mse, g.silent_mse))
    print(f"{t} ghosts: best {low:#.4g}, median {middle:#.4g}, worst {high:#.4g}")
    print(f"  before the search {start:#.4g}, labels 0 {silent:#.4g}")
"""

_PRINT_RESHAPED = """model = model.double()
for t, g in found.items():
    true = sample_prompts(law, 1, t + 64, torch.Generator().manual_seed({seed}))
    xs, ys, b = true.xs[0], true.ys[0], g.best
    for name, gx, gy in (
        ("searched", g.xs[b], g.ys[b]), ("not searched", g.start_xs[b], g.start_ys[b])
    ):
        m = reshape_ghosts(
            model, xs[:t], ys[:t], gx, gy, xs[t:], ys[t:], **{maps!r}
        )
        print(f"{{t}} ghosts, {{name}}: head {{m.layers.error.max():#.4g}}, "
              f"answers {{m.error:#.4g}}, as they are {{m.error_ghosts:#.4g}}")
"""

_PRINT_MEANS = """mse = torch.tensor([g.mse for g in found.values()]).quantile(0.5, dim=1)
silent = torch.tensor([g.silent_mse for g in found.values()]).quantile(0.5, dim=1)
print(f"averages: searched {mse.mean():#.4g}, labels 0 {silent.mean():#.4g}")
"""


def render() -> None:
    page = frame.open_page(PAGE, Settings, SCENARIOS, lead=LEAD, equation=equation, symbols=SYMBOLS)
    with page.stage:
        wait = Bar(PAGE, st.empty(), 1)
    r = page.compute(lambda s: compute(s, None if stopped(s) else SLICE, wait), finite)
    wait.end()
    bar(page, r)
    draw(page, r)
    say_longer(page, r)
    page.refuted_by(REFUTED[page.settings.view])
    page.finish(snippet(page.settings, r))
    if not r.finished and not stopped(page.settings):
        page.again()
