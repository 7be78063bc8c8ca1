"""In-context text: a language model answers after k examples, right ones, wrong ones, others."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st

from pages.ui import cache, charts, controls, frame, paths
from pages.ui.cache import TextTask
from pages.ui.progress import Progress
from pages.ui.words import plain, sentence

if TYPE_CHECKING:
    from core.text import Band, Prompting, Question, Scores, Task

PAGE = "text"
MEASURES = ("accuracy", "AUC", "macro-F1")
DEFAULT_MODEL = "SmolLM2-135M"


@dataclass(frozen=True)
class Settings:
    view: str
    task: str
    folder: str | bytes
    words: str
    own: str
    examples: int
    selection: str
    right: float
    outside: float
    format: str
    queries: int
    prompt: int
    seed: int
    model: str


SCENARIOS = (
    controls.Scenario(
        name="capitals", label="Capitals", values={},
        claim="Without examples the model goes on with the people or the continent, and fewer than "
        "1 answer in 5 is a capital; after 8 examples more than 9 in 10 are.",
        look="accuracy at k = 0 and at k = 8.",
        refuted="20 % or more right without examples, or 90 % or fewer after 8.",
    ),
    controls.Scenario(
        name="plurals", label="Plurals", values={"task": "plurals"},
        claim="From fewer than 1 right answer in 10 without examples to more than 9 in 10 after 8.",
        look="accuracy at k = 0 and at k = 8.",
        refuted="10 % or more right without examples, or 90 % or fewer after 8.",
    ),
    controls.Scenario(
        name="wrong", label="All examples wrong", values={"right": 0.0},
        claim="Every country of the examples gets the capital of another. The answers are still "
        "capitals, the right ones, in more than 8 of 10: what a prompt teaches here is the kind of "
        "the answer, not the pairs.",
        look="accuracy at k = 8, although no example is right.",
        refuted="80 % or fewer right answers after 8 wrong examples.",
    ),
    controls.Scenario(
        name="made-up", label="Made-up labels",
        values={"task": "animals", "words": "made up", "examples": 16},
        claim="Animals are foo, objects are bar. After 16 examples the AUC is above 0.7: the model "
        "orders the two. Its accuracy stays below the line: one of the words is always likelier.",
        look="AUC and accuracy at k = 16, apart from each other.",
        refuted="an AUC of 0.7 or less, or an accuracy above the line.",
    ),
    controls.Scenario(
        name="sentiment", label="Known labels", values={"task": "sentiment"},
        claim="It knew before: without examples the AUC for positive against negative is above "
        "0.95. The examples add less than 0.05 to it.",
        look="the AUC at k = 0.",
        refuted="an AUC below 0.95 without examples, or a gain of 0.05 or more.",
    ),
    controls.Scenario(
        name="one", label="One prompt",
        values={"view": "one prompt", "task": "past tense", "prompt": 3},
        claim="One prompt in full: the probability of the past tense rises above 0.8 as examples "
        "come in.",
        look="the line of the right answer as examples come in.",
        refuted="a probability of 0.8 or less at the end.",
    ),
)  # fmt: skip

SYMBOLS = {
    r"x_i, y_i": "text and answer of example i, written out in the prompt",
    r"x": "the text that is asked",
    r"y_{<t},\, y_t": "the tokens of an answer before t, and number t",
    r"k": "number of examples in the prompt",
    r"p_\theta": "the probability the language model gives to the next token",
    r"\hat y": "the answer the model is taken to give: the most probable of those offered",
}


@dataclass(frozen=True)
class Result:
    task: Task
    how: Prompting
    ks: np.ndarray
    scores: tuple[Scores, ...]  # one a k
    bands: tuple[dict[str, Band], ...]

    @property
    def n(self) -> int:
        return len(self.scores[0].right)

    def curve(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = [b[name] for b in self.bands]
        value, low, high = (np.array([getattr(r, part) for r in rows])
                            for part in ("value", "low", "high"))  # fmt: skip
        return value, low, high

    def baseline(self, name: str) -> np.ndarray:
        return np.array([b[name].baseline for b in self.bands])


def lengths(most: int) -> tuple[int, ...]:
    """Numbers of examples on the curve: 0, 1, 2, 4, ... and the last."""
    return tuple(sorted({0, most, *(2**i for i in range(6) if 2**i < most)}))


def task_of(s: Settings) -> TextTask:
    """What the controls mean, label words included. ValueError says what is amiss."""
    if s.task != controls.TEXT_FOLDER:
        which = TextTask(s.task)
    elif s.folder == controls.ELSEWHERE:
        raise ValueError("the link means an uploaded zip, which it cannot carry: upload it again.")
    elif isinstance(s.folder, bytes):
        which = TextTask("uploaded", archive=s.folder)
    elif s.folder.strip():
        folder = paths.allowed(s.folder)
        which = TextTask(folder.name, folder=str(folder), stamp=paths.stamp(folder))
    else:
        raise ValueError("name a folder in TweetEval's format, or upload a zip of it.")
    labels = cache.text_task(which).labels
    if not labels or s.words == "their names":
        return which
    if s.words == "made up":
        from core.text import MADE_UP

        if len(labels) > len(MADE_UP):
            raise ValueError(
                f"there are {len(MADE_UP)} made-up words, this task has {len(labels)} labels: give "
                "words of your own."
            )
        words = MADE_UP[: len(labels)]
    else:
        words = tuple(w.strip() for w in s.own.split(",") if w.strip())
        if not words:
            raise ValueError(
                f"type {len(labels)} words, for {', '.join(labels)}, with commas between."
            )
    named = TextTask(which.name, which.folder, which.stamp, which.archive, words)
    cache.text_task(named)  # says now if the words do not fit
    return named


def model_of(s: Settings) -> str:
    """The model, as `models.text_lm.load` takes it. A folder must lie where folders may be read."""
    from models import text_lm

    which = s.model.strip() or DEFAULT_MODEL
    if which == DEFAULT_MODEL or text_lm.is_hub_id(which):
        return which
    return str(paths.allowed(which))


def compute(s: Settings, wait: Progress) -> Result:
    from core.text import Prompting, questions

    which, model = task_of(s), model_of(s)
    task = cache.text_task(which)
    how = Prompting(s.selection, s.right, s.outside, s.format, s.seed)
    ks = lengths(s.examples)
    n = len(questions(task, ks[-1], how, s.queries))  # also says if k is too large for the task
    if s.view == "one prompt" and s.prompt > n:
        raise ValueError(f"there is no question {s.prompt} among {n}: open an earlier one.")
    if not cache.text_model_is_warm(model):
        wait.say(
            f"Loading {plain(model)}: seconds, or about half a minute when {DEFAULT_MODEL} is unpacked for "
            "the first time …"
        )
        cache.text_precision(model)
    wait.total = n * sum(k + 1 for k in ks)  # a question after k examples is about k + 1 lines
    scores = []
    for k in ks:
        done = lambda asked, k=k: wait.tick(asked * (k + 1))  # noqa: E731
        scores.append(cache.text_scores(which, model, k, how, n, done))
    bands = tuple(
        cache.text_measures(which, model, k, how, n, found)
        for k, found in zip(ks, scores, strict=True)
    )
    return Result(task, how, np.array(ks), tuple(scores), bands)


# ---- pictures and words --------------------------------------------------------------------------


def shown(r: Result) -> tuple[str, ...]:
    """The measures that these questions have. AUC needs each label to be right once, and wrong once."""
    names = MEASURES if r.task.labels else ("accuracy",)
    return tuple(n for n in names if np.isfinite(r.bands[-1][n].value))


def labels_asked(r: Result) -> set[int]:
    return set(r.scores[-1].right.tolist())


def show_curves(page: frame.Page[Settings], r: Result) -> None:
    names = shown(r)
    with page.stage:
        places = st.columns(len(names)) if len(names) > 1 else [st.container()]
    for name, place in zip(names, places, strict=True):
        baseline = "majority" if r.task.labels else "guessing"
        if name == "AUC":
            baseline = "chance"
        page.chart(
            charts.text_measure(r.ks, name, r.curve(name), r.baseline(name), baseline),
            name.lower(),
            f"{name} after {', '.join(map(str, r.ks))} examples, with band and baseline",
            into=place,
        )
    page.look_for(reading(r))
    with page.stage:
        st.caption(notes(page.settings, r))
    first, last = r.bands[0], r.bands[-1]
    page.facts(
        ("no examples", f"{r.ks[-1]} examples", "95 % band", "baseline"),
        [
            (name, f"{first[name].value:.4f}", f"{last[name].value:.4f}",
             f"{last[name].low:.3f} to {last[name].high:.3f}", f"{last[name].baseline:.4f}")
            for name in names
        ],
        f"{r.n} questions",
    )  # fmt: skip


def reading(r: Result) -> str:
    """What the curve says, and whether the bands allow it."""
    first, last = r.bands[0]["accuracy"], r.bands[-1]["accuracy"]
    text = (
        f"Accuracy goes from **{first.value:.4f}** without examples to **{last.value:.4f}** after "
        f"{r.ks[-1]}: {verdict(first, last)}."
    )
    if "AUC" in shown(r):
        auc, before = r.bands[-1]["AUC"], r.bands[0]["AUC"]
        text += f" The AUC goes from {before.value:.3f} to **{auc.value:.4f}**"
        if auc.low <= 0.5 <= auc.high:
            text += f", and its band holds 0.5: **no better than chance** on these {r.n} questions"
        text += "."
    return text


def verdict(first: Band, last: Band) -> str:
    if last.low > first.high:
        rise = "it rises, the bands are apart"
    elif last.high < first.low:
        rise = "it falls, the bands are apart"
    else:
        rise = "the bands overlap, so nothing is shown to change"
    base = last.baseline
    if last.low > base:
        return f"{rise}, and it ends above the baseline {base:.3f}"
    if last.high < base:
        return f"{rise}, and it ends below the baseline {base:.3f}"
    return f"{rise}, and it ends no different from the baseline {base:.3f}"


def notes(s: Settings, r: Result) -> str:
    """What was asked, and what the bands leave out."""
    said = [r.task.note] if r.task.note else []
    if r.n < s.queries:
        said.append(f"{r.n} questions are all there are.")
    if r.task.labels and "AUC" not in shown(r):
        missing = [n for i, n in enumerate(r.task.labels) if i not in labels_asked(r)]
        said.append(
            f"There is no AUC: none of these {r.n} questions is {', '.join(missing)}, so nothing can "
            "be told apart from it. Ask more questions."
        )
    if r.task.labels:
        said.append("The majority line always answers the most frequent label of the questions.")
        words = r.task.pool[0].options
        if words != r.task.labels:
            said.append(
                "Label words: "
                + ", ".join(f"{w} for {n}" for w, n in zip(words, r.task.labels, strict=True)) + "."
            )  # fmt: skip
    else:
        said.append(
            "Guessing picks one of the answers offered. Answers are no classes here, so there is neither AUC nor F1."
        )
    if s.selection == "one draw for all":
        said.append("All questions share their examples: the band is for these examples only.")
    said.append(
        "Bands: 95 % of 1000 resamples of the questions; where all answers are right they have no "
        f"width. Computed in {precision(model_of(s))}."
    )
    return sentence(" ".join(said))


def precision(model: str) -> str:
    return cache.text_precision(model)


def show_prompt(page: frame.Page[Settings], r: Result) -> None:
    from core.text import questions

    s = page.settings
    (q,) = questions(r.task, int(r.ks[-1]), r.how, s.prompt, s.prompt - 1)
    at = s.prompt - 1
    n = len(q.item.options)
    p = np.stack([found.probabilities[at, :n] for found in r.scores])
    with page.stage:
        left, right = st.columns([5, 6], gap="medium")
    with left:
        st.html(written(q, r.how.format))
    page.chart(
        charts.text_prompt(r.ks, q.item.options, q.item.right, p), "prompt",
        "Probability of each answer as examples come in", into=right,
    )  # fmt: skip
    last = r.scores[-1].log_probs[at]
    page.facts(
        ("log-probability", "among these", "without examples"),
        [
            (html.escape(option) + (" (right)" if j == q.item.right else ""), f"{last[j]:.4f}",
             f"{p[-1, j]:.4f}", f"{p[0, j]:.4f}")
            for j, option in enumerate(q.item.options)
        ],
        f"Answers to question {s.prompt} after {r.ks[-1]} examples",
        into=right,
    )  # fmt: skip
    mine = p[:, q.item.right]
    page.look_for(
        f"The right answer, “{plain(q.item.answer)}”, has probability **{mine[0]:.4f}** among "
        f"those offered without examples and **{mine[-1]:.4f}** after {r.ks[-1]}."
    )


def written(q: Question, style: str) -> str:
    """The prompt as HTML, wrong answers and texts from outside marked."""
    from core.text import FORMATS

    before, between, after = FORMATS[style]
    marks = {"right": ("", ""), "wrong": ("wrong answer", "lab-wrong"),
             "outside": ("from outside", "lab-outside")}  # fmt: skip
    parts = []
    for e in q.examples:
        title, css = marks[e.kind]
        line = html.escape(f"{before}{e.text}{between} {e.answer}")
        parts.append(
            (f'<span class="{css}" title="{title}">{line}</span>' if css else line) + after
        )
    parts.append(f"<b>{html.escape(f'{before}{q.item.text}{between}')}</b>")
    kinds = {e.kind for e in q.examples}
    key = " ".join(
        f'<span class="{css}">{title}</span>' for kind, (title, css) in marks.items()
        if css and kind in kinds
    )  # fmt: skip
    return f'<pre class="lab-prompt">{"".join(parts)}</pre>' + (f"<p>{key}</p>" if key else "")


REFUTED = """
The paper: examples in the prompt help, and they help less if their answers are wrong or their texts
come from elsewhere. Against it: a curve whose last band overlaps the first; with *Share of right
answers* at 0, an accuracy as high as at 1 (on the word tasks that is what you see: the prompt
teaches the kind of the answer); with *Share from outside* at 1, the same. Against the model here:
an AUC whose band holds 0.5 says it does not tell the labels apart, whatever its accuracy. On hate
speech (TweetEval's *hate*) SmolLM2-135M is such a case. The paper's GPT-J has 6 billion weights, 45
times as many: name its folder under *Language model* to ask it.
"""


def snippet(s: Settings, r: Result) -> str:
    which = task_of(s)
    if which.archive or which.folder:
        task = "text.read_tweeteval_folder(Path('your-folder'))"
    else:
        task = f"text.bundled({which.name!r})"
    if which.words:
        task = f"text.with_words({task}, {which.words!r})"
    model = s.model.strip() or DEFAULT_MODEL
    head = (
        ("from pathlib import Path\n\n" if "Path(" in task else "")
        + "import torch\n\nfrom core import text\nfrom models import text_lm\n\n"
        + "torch.set_num_threads(1)  # as the lab does; in half precision it shows in the third digit\n"
        + f"task = {task}\n"
        + f"how = text.Prompting({s.selection!r}, {s.right!r}, {s.outside!r}, {s.format!r}, {s.seed})\n"
        + f"lm = text_lm.load({model!r})\n"
        + f"for k in {tuple(int(k) for k in r.ks)!r}:\n"
        + f"    scores = text.answer(lm, text.questions(task, k, how, {r.n}))\n"
    )
    if s.view == "one prompt":
        right = r.scores[0].right[s.prompt - 1]
        return head + (
            f"    p = scores.probabilities[{s.prompt - 1}, {right}]\n"
            "    print(f'{k} examples: the right answer has probability {p:.4f}')\n"
        )
    return head + (
        "    for name, b in text.measure(task, scores, how.seed).items():\n"
        "        print(f'{k} examples, {name}: {b.value:.4f} ({b.low:.3f} to {b.high:.3f})')\n"
    )


def finite(r: Result) -> Mapping[str, Any]:
    return {"a log-probability": np.concatenate([
        s.log_probs[np.arange(len(s.right)), s.right] for s in r.scores
    ])}  # fmt: skip


def render() -> None:
    page = frame.open_page(
        PAGE, Settings, SCENARIOS,
        lead="A small language model reads k examples and answers the next text. Does it learn the "
        "task from them?",
        equation=r"\hat y = \arg\max_{y} \sum_t \log p_\theta(y_t \mid x_1, y_1, \ldots, x_k, y_k, x, "
        r"y_{<t})",
        symbols=SYMBOLS,
    )  # fmt: skip
    r = page.compute_long(compute, finite, dear=True)
    (show_prompt if page.settings.view == "one prompt" else show_curves)(page, r)
    page.refuted_by(REFUTED)
    page.finish(snippet(page.settings, r))
