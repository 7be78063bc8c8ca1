"""In-context learning on text: tasks, prompts of k examples, and how well a language model answers.

A task is a set of items: a text, the answers it may get and which of them is right. Classification
has the same answers for every text, its labels; a word task ("France" -> "Paris") has its own for
each. The model is passed in (`LanguageModel`): it says how probable each answer is after a prompt,
as the sum of the log-probabilities of the answer's tokens.

Everything random hangs on `(seed, number of the item)` alone: the examples of a question do not
depend on how many others are asked, and its k examples are the first k of its 2k.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

__all__ = [
    "FORMATS",
    "MOST_EXAMPLES",
    "PIECE",
    "SELECTIONS",
    "Band",
    "Example",
    "Item",
    "LanguageModel",
    "Prompting",
    "Question",
    "Scores",
    "Task",
    "TaskError",
    "answer",
    "answer_piece",
    "band",
    "bundled",
    "bundled_names",
    "measure",
    "questions",
    "read_tweeteval",
    "read_tweeteval_folder",
    "read_tweeteval_zip",
    "with_words",
]

TASKS = Path(__file__).parent / "tasks"
MOST_EXAMPLES = 32
MAX_BYTES = 32 * 2**20  # of one TweetEval file; its largest have 5 MiB
MAX_LINES = 100_000  # of a file: twice the longest of TweetEval; each becomes an Item
MAX_ALL_BYTES = 2 * MAX_BYTES  # of the files of a zip together, unpacked
MAX_LABELS = 64
MADE_UP = ("foo", "bar", "baz", "qux", "wug", "dax", "blick", "zorp")
"""Label words without a meaning: what they stand for can only be learnt from the examples."""

FORMATS: dict[str, tuple[str, str, str]] = {
    # name: (before the text, between text and answer, between examples)
    "arrow": ("", " ->", "\n"),
    "input and output": ("Input: ", "\nOutput:", "\n\n"),
    "text and label": ("Text: ", "\nLabel:", "\n\n"),
}
SELECTIONS = ("random", "one draw for all", "most similar")


class TaskError(ValueError):
    """Files that are no task; the message says what was expected, what came and what to do."""


# --- Tasks ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """A text, the answers it may get, and which of them is right."""

    text: str
    options: tuple[str, ...]
    right: int

    @property
    def answer(self) -> str:
        return self.options[self.right]


@dataclass(frozen=True)
class Task:
    """Items to draw examples from and items to ask."""

    name: str
    pool: tuple[Item, ...]
    asked: tuple[Item, ...]
    labels: tuple[str, ...] = ()
    """What the right answers are called, if all items share them; empty for a word task."""
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.pool) < 2 or not self.asked:
            raise TaskError(
                f"{self.name}: expected at least 2 texts to learn from and 1 to ask, got "
                f"{len(self.pool)} and {len(self.asked)}"
            )

    @property
    def one_set(self) -> bool:
        """Whether examples come from the items that are asked; an item is then never its own."""
        return self.pool is self.asked

    @cached_property
    def _grams(self) -> tuple[object, object]:
        from sklearn.feature_extraction.text import TfidfVectorizer

        # Three letters at a time: it compares single words as well as sentences.
        fit = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), sublinear_tf=True)
        return fit, fit.fit_transform([item.text for item in self.pool])

    def similarity(self, text: str) -> np.ndarray:
        """Cosine between the TF-IDF vectors of a text and of every text of the pool, `(n,)`."""
        fit, pool = self._grams
        return np.asarray((pool @ fit.transform([text]).T).todense()).ravel()  # type: ignore


def bundled_names() -> tuple[str, ...]:
    """The small tasks that come with the lab."""
    return tuple(
        sorted(
            path.stem.replace("-", " ") for path in TASKS.glob("*.tsv") if path.stem != "outside"
        )
    )


def bundled(name: str) -> Task:
    """A task of the lab, every item of it to learn from and to ask.

    A line of its file is a text, its right answer and, in a word task, wrong answers, separated by
    tabs. Lines that start with # are remarks; `# labels:` names the answers all lines share.
    """
    if name not in bundled_names():
        raise TaskError(f"task: expected one of {', '.join(bundled_names())}; got {name!r}")
    labels: tuple[str, ...] = ()
    notes: list[str] = []
    items: list[Item] = []
    for line in (TASKS / f"{name.replace(' ', '-')}.tsv").read_text("utf-8").splitlines():
        if line.startswith("# labels:"):
            labels = tuple(word.strip() for word in line.partition(":")[2].split(","))
        elif line.startswith("#"):
            notes.append(line.lstrip("# "))
        elif line.strip():
            text, answer, *wrong = line.split("\t")
            options = labels or (answer, *wrong)
            items.append(Item(text, options, options.index(answer)))
    same = tuple(items)
    return Task(name, same, same, labels, " ".join(notes))


def outside_texts() -> tuple[str, ...]:
    """Sentences of everyday news: texts of no task here."""
    lines = (TASKS / "outside.tsv").read_text("utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def with_words(task: Task, words: Sequence[str]) -> Task:
    """The task with other words for its labels, the same order."""
    if not task.labels:
        raise TaskError(f"{task.name} has an answer of its own for each text: no labels to rename")
    clean = tuple(word.strip() for word in words)
    if len(clean) != len(task.labels) or len(set(clean)) != len(clean) or not all(clean):
        raise TaskError(
            f"label words: expected {len(task.labels)} different words, for "
            f"{', '.join(task.labels)}; got {', '.join(words) or 'none'}"
        )
    pool = tuple(Item(i.text, clean, i.right) for i in task.pool)
    asked = pool if task.one_set else tuple(Item(i.text, clean, i.right) for i in task.asked)
    return Task(task.name, pool, asked, task.labels, task.note)


def read_tweeteval_folder(folder: Path) -> Task:
    """The task in a TweetEval folder; only files of its names are read."""
    if not folder.is_dir():
        raise TaskError(f"expected a folder, {folder} is none: give one with mapping.txt in it")
    files: dict[str, bytes] = {}
    try:
        for path in sorted(folder.iterdir()):
            if _FILE.fullmatch(path.name) and path.is_file():
                if path.is_symlink():  # it may lead out of the folders that are open
                    raise TaskError(f"{path.name} is a link: put the file itself there")
                if path.stat().st_size > MAX_BYTES:
                    raise TaskError(f"{path.name} has more than {MAX_BYTES >> 20} MiB: shorten it")
                files[path.name] = path.read_bytes()
    except OSError as reason:
        raise TaskError(
            f"{folder.name} or a file of it cannot be read here: {reason.strerror}"
        ) from reason
    return read_tweeteval(files, folder.name)


def read_tweeteval_zip(data: bytes) -> Task:
    """The task in a zip of a TweetEval folder. Nothing is written to disk."""
    files: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist()[:1000]:
                name = info.filename.rsplit("/", 1)[-1]
                if not _FILE.fullmatch(name):
                    continue
                if name in files or info.file_size > MAX_BYTES:
                    raise TaskError(f"the zip's {name} stands there twice or is too large")
                if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise TaskError(f"the zip's {name} is not packed by deflate: pack it anew")
                with archive.open(info) as file:  # it may be larger than it says
                    files[name] = file.read(MAX_BYTES + 1)
                if sum(map(len, files.values())) > MAX_ALL_BYTES:
                    raise TaskError(
                        f"the zip unpacks to more than {MAX_ALL_BYTES >> 20} MiB: shorten its files"
                    )
    except TaskError:
        raise
    except (
        zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError,
        zlib.error,
    ) as reason:  # fmt: skip
        raise TaskError(
            "expected a zip of a folder with mapping.txt and train_text.txt; this file is no zip, "
            "is damaged, or needs a password. Pack it anew"
        ) from reason
    return read_tweeteval(files)


_FILE = re.compile(r"mapping\.txt|(train|val|test)_(text|labels)\.txt")


def read_tweeteval(files: Mapping[str, bytes], name: str = "uploaded") -> Task:
    """The task in files of TweetEval's format: `train_text.txt` with one text a line,
    `train_labels.txt` with the number of its label, the same for `val` and `test`, and
    `mapping.txt` with a number and a name a line.

    Lines without text are dropped with their labels. Examples come from the training texts,
    questions from the test texts, or the validation texts, or the training texts if there are no
    others.
    """
    if "mapping.txt" not in files:
        raise TaskError(
            f"{name}: mapping.txt is missing, got {', '.join(sorted(files)) or 'no such file'}; "
            "it holds the number and the name of a label on each line"
        )
    numbers, names = _mapping(_lines("mapping.txt", files["mapping.txt"]))
    splits = {
        split: items
        for split in ("train", "val", "test")
        if (items := _split(files, split, numbers, names))
    }
    if not splits:
        raise TaskError(
            f"{name}: expected train_text.txt and train_labels.txt (or val, or test), got "
            f"{', '.join(sorted(files))}"
        )
    first, last = next(iter(splits)), list(splits)[-1]
    last = "test" if "test" in splits else last
    pool = splits[first]
    return Task(name, pool, pool if last == first else splits[last], names)


def _lines(file: str, data: bytes) -> list[str]:
    if len(data) > MAX_BYTES:
        raise TaskError(f"{file} has more than {MAX_BYTES >> 20} MiB: shorten it")
    if data.count(b"\n") > MAX_LINES:
        raise TaskError(f"{file} has more than {MAX_LINES:,} lines: keep the first of them")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskError(
            f"{file} is not UTF-8 text (byte {error.start}): save it as UTF-8"
        ) from None
    lines = text.replace("\r\n", "\n").split("\n")  # not splitlines: tweets hold odd separators
    return lines[:-1] if lines[-1] == "" else lines


def _is_whole(text: str) -> bool:
    return text.isdecimal() and len(text) < 10


def _mapping(lines: Sequence[str]) -> tuple[dict[int, int], tuple[str, ...]]:
    """Number of a label -> its place, and the names by place."""
    numbers: dict[int, int] = {}
    names: list[str] = []
    for at, line in enumerate(lines, 1):
        if not line.strip():
            continue
        number, _, label = line.strip().partition("\t")
        if not _is_whole(number) or not label.strip() or int(number) in numbers:
            raise TaskError(
                f"mapping.txt, line {at}: expected a new number, a tab and a name, got {line[:60]!r}"
            )
        numbers[int(number)] = len(names)
        names.append(label.strip().strip("_"))
    if not 2 <= len(names) <= MAX_LABELS or len(set(names)) != len(names):
        raise TaskError(
            f"mapping.txt: expected 2 to {MAX_LABELS} labels of different names, got {len(names)}"
        )
    return numbers, tuple(names)


def _split(
    files: Mapping[str, bytes], split: str, numbers: Mapping[int, int], names: tuple[str, ...]
) -> tuple[Item, ...]:
    text_file, label_file = f"{split}_text.txt", f"{split}_labels.txt"
    if text_file not in files and label_file not in files:
        return ()
    for file in (text_file, label_file):
        if file not in files:
            raise TaskError(f"{file} is missing: each text file goes with a file of labels")
    texts, labels = (_lines(file, files[file]) for file in (text_file, label_file))
    if len(texts) != len(labels):
        raise TaskError(
            f"{text_file} has {len(texts)} lines and {label_file} {len(labels)}: expected the same "
            "number, line by line"
        )
    items = []
    for at, (text, label) in enumerate(zip(texts, labels, strict=True), 1):
        if not text.strip():
            continue
        if not _is_whole(label.strip()) or int(label) not in numbers:
            raise TaskError(
                f"{label_file}, line {at}: expected one of {', '.join(map(str, numbers))}, got "
                f"{label[:20]!r}"
            )
        items.append(Item(" ".join(text.split()), names, numbers[int(label)]))
    return tuple(items)


# --- Prompts --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prompting:
    """How prompts are made. `right` is the share of in-domain examples with the right answer,
    `outside` the share of examples whose text is of another domain; both are met exactly, up to
    rounding, in every prompt."""

    selection: str = "random"
    right: float = 1.0
    outside: float = 0.0
    format: str = "arrow"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.selection not in SELECTIONS:
            raise ValueError(
                f"selection: expected one of {', '.join(SELECTIONS)}; got {self.selection!r}"
            )
        if self.format not in FORMATS:
            raise ValueError(f"format: expected one of {', '.join(FORMATS)}; got {self.format!r}")
        for name in ("right", "outside"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: expected a share from 0 to 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Example:
    """One line of a prompt. `kind`: "right", "wrong" or "outside"."""

    text: str
    answer: str
    kind: str


@dataclass(frozen=True)
class Question:
    """A prompt and the answers to compare after it."""

    prompt: str
    item: Item
    examples: tuple[Example, ...] = field(repr=False)

    @property
    def continuations(self) -> tuple[str, ...]:
        return tuple(f" {option}" for option in self.item.options)


def questions(task: Task, k: int, how: Prompting, n: int, start: int = 0) -> tuple[Question, ...]:
    """Questions number `start` to `n - 1` of the task, each after k examples.

    Fewer come if the task has fewer. "random" draws examples anew for each question, "one draw for
    all" takes the same for all of them, "most similar" those whose text is most similar to the
    question's, the most similar last. A wrong answer is the right one of another item, or another
    label. An example from outside has a text of another domain and an answer drawn from those of
    the task's items, as in Min et al. (2022), "Rethinking the Role of Demonstrations".
    """
    if not 0 <= k <= MOST_EXAMPLES:
        raise ValueError(f"k: expected 0 to {MOST_EXAMPLES} examples, got {k}")
    shared = how.selection == "one draw for all"
    order = np.random.default_rng([how.seed, 1]).permutation(len(task.asked))
    if task.one_set and shared:  # what may be an example is not asked
        kept, order = order[:MOST_EXAMPLES], order[MOST_EXAMPLES:]
    else:
        kept = np.random.default_rng([how.seed, 2]).permutation(len(task.pool))
    if k > len(kept) - (task.one_set and not shared):
        raise ValueError(f"k: {task.name} has only {len(kept)} items to learn from, got k = {k}")
    return tuple(
        _question(task, k, how, int(number), kept if shared else None) for number in order[start:n]
    )


def _question(task: Task, k: int, how: Prompting, number: int, kept: np.ndarray | None) -> Question:
    item = task.asked[number]
    # The draws are made for MOST_EXAMPLES examples whatever k is, so that prompts are nested.
    rng = np.random.default_rng([how.seed, 3] if kept is not None else [how.seed, 4, number])
    drawn = kept if kept is not None else rng.permutation(len(task.pool))
    if task.one_set:
        drawn = drawn[drawn != number]
    if how.selection == "most similar":
        near = task.similarity(item.text)[drawn]
        drawn = drawn[np.argsort(-near, kind="stable")]  # ties in random order
    drawn = drawn[:k]
    if how.selection == "most similar":
        drawn = drawn[::-1]
    away, wrong = rng.random(MOST_EXAMPLES)[:k], rng.random(MOST_EXAMPLES)[:k]
    n_away = round(how.outside * k)
    n_wrong = round((1 - how.right) * (k - n_away))
    outside = np.argsort(away)[:n_away]
    wrong[outside] = 2.0
    mislabelled = set(np.argsort(wrong)[:n_wrong].tolist())
    foreign = outside_texts() if n_away else ()
    texts = rng.permutation(max(len(foreign), 1))
    picks = rng.random((MOST_EXAMPLES, 2))
    examples = []
    for at, index in enumerate(drawn):
        source = task.pool[index]
        if at in outside:
            text = foreign[texts[at % len(texts)]]
            examples.append(Example(text, _any_answer(task, source, picks[at]), "outside"))
        elif at in mislabelled:
            examples.append(Example(source.text, _wrong_answer(task, source, picks[at]), "wrong"))
        else:
            examples.append(Example(source.text, source.answer, "right"))
    before, between, after = FORMATS[how.format]
    shown = [f"{before}{e.text}{between} {e.answer}{after}" for e in examples]
    return Question("".join([*shown, f"{before}{item.text}{between}"]), item, tuple(examples))


def _any_answer(task: Task, item: Item, u: np.ndarray) -> str:
    if task.labels:
        return item.options[int(u[0] * len(item.options))]
    return task.pool[int(u[0] * len(task.pool))].answer


def _wrong_answer(task: Task, item: Item, u: np.ndarray) -> str:
    if task.labels:
        step = 1 + int(u[0] * (len(item.options) - 1))
        return item.options[(item.right + step) % len(item.options)]
    others = [i.answer for i in task.pool if i.answer != item.answer]
    return others[int(u[0] * len(others))]


# --- Answers --------------------------------------------------------------------------------------


@runtime_checkable
class LanguageModel(Protocol):
    """Says how probable each continuation of a prompt is."""

    @property
    def name(self) -> str: ...

    def score(self, asked: Sequence[tuple[str, Sequence[str]]]) -> Iterator[tuple[int, np.ndarray]]:
        """For each `(prompt, continuations)` its number and, in natural logarithms, the summed
        log-probability of the tokens of each continuation; in any order, as they are ready."""
        ...


PIECE = 8
"""Questions that are scored together. In half precision a sum depends on what else is in its
batch, in the third digit: always the same pieces give always the same numbers."""


def answer(model: LanguageModel, asked: Sequence[Question]) -> Scores:
    """The model's scores for questions, PIECE by PIECE."""
    rows: list[np.ndarray] = []
    for start in range(0, len(asked), PIECE):
        rows += answer_piece(model, asked[start : start + PIECE])
    return Scores.of(asked, rows)


def answer_piece(model: LanguageModel, piece: Sequence[Question]) -> list[np.ndarray]:
    """The model's summed log-probabilities for the answers of each question, all in one go."""
    rows = dict(model.score([(q.prompt, q.continuations) for q in piece]))
    return [rows[i] for i in range(len(piece))]


@dataclass(frozen=True)
class Scores:
    """Log-probabilities of all answers to B questions; NaN past an item's own number of them."""

    log_probs: np.ndarray  # (B, L)
    right: np.ndarray  # (B,) int

    @staticmethod
    def of(asked: Sequence[Question], rows: Sequence[np.ndarray]) -> Scores:
        table = np.full((len(rows), max(len(row) for row in rows)), np.nan)
        for at, row in enumerate(rows):
            table[at, : len(row)] = row
        return Scores(table, np.array([q.item.right for q in asked]))

    @property
    def probabilities(self) -> np.ndarray:
        """Among the answers offered, `(B, L)`: they sum to 1; 0 where there is no answer."""
        top = np.nanmax(self.log_probs, axis=1, keepdims=True)
        p = np.nan_to_num(np.exp(self.log_probs - top))
        return p / p.sum(1, keepdims=True)

    @property
    def answers(self) -> np.ndarray:
        """The most probable answer of each question, `(B,)`; the first of equals."""
        return np.nanargmax(self.log_probs, axis=1)


@dataclass(frozen=True)
class Band:
    """A measure with the ends of its band and the value of a baseline that does not read."""

    value: float
    low: float
    high: float
    baseline: float


def band(sample: np.ndarray, baseline: float, level: float) -> Band:
    """A value, `sample[0]`, and the percentile interval of its resamples, undefined ones left out."""
    value, resampled = float(sample[0]), sample[1:]
    good = resampled[np.isfinite(resampled)]
    if not len(good):
        return Band(value, np.nan, np.nan, baseline)
    low, high = np.quantile(good, [(1 - level) / 2, (1 + level) / 2])
    return Band(value, float(low), float(high), baseline)


def measure(
    task: Task,
    scores: Scores,
    seed: int = 0,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
) -> dict[str, Band]:
    """Accuracy, AUC and macro-F1 with bootstrap bands over questions.

    They equal scikit-learn's `accuracy_score`, `roc_auc_score` (for more than two labels
    `multi_class="ovr", average="macro"`) and `f1_score(average="macro", zero_division=0)`. The
    baseline always answers the label that is most frequent among the questions: no constant answer
    does better. A word task has accuracy alone: its answers are no classes; its baseline guesses.
    """
    n = len(scores.right)
    drawn = np.random.default_rng([seed, 5]).integers(n, size=(n_resamples, n))
    rows = np.arange(n_resamples)[:, None] * n
    counts = np.bincount((drawn + rows).ravel(), minlength=n_resamples * n).reshape(-1, n)
    weights = np.concatenate([np.ones((1, n)), counts])  # the first row: all as they are
    hits = (scores.answers == scores.right).astype(float)
    accuracy = weights @ hits / n
    if not task.labels:
        guess = float((1 / (~np.isnan(scores.log_probs)).sum(1)).mean())
        undefined = Band(np.nan, np.nan, np.nan, np.nan)
        return {
            "accuracy": band(accuracy, guess, level),
            "AUC": undefined,
            "macro-F1": undefined,
        }
    n_labels = len(task.labels)
    always = np.full(n, np.bincount(scores.right).argmax())
    auc = _auc(scores.probabilities, scores.right, weights, n_labels)
    f1 = _macro_f1(scores.answers, scores.right, weights, n_labels)
    f1_always = _macro_f1(always, scores.right, weights[:1], n_labels)
    return {
        "accuracy": band(accuracy, float((always == scores.right).mean()), level),
        "AUC": band(auc, 0.5, level),
        "macro-F1": band(f1, float(f1_always[0]), level),
    }


def _auc(
    probabilities: np.ndarray, right: np.ndarray, weights: np.ndarray, n_labels: int
) -> np.ndarray:
    """AUC under every row of weights: the share of (positive, negative) pairs in order."""
    found = []
    for label in [1] if n_labels == 2 else range(n_labels):
        score, positive = probabilities[:, label], right == label
        above = score[positive][:, None] - score[~positive][None, :]
        order = (above > 0) + 0.5 * (above == 0)
        wins = ((weights[:, positive] @ order) * weights[:, ~positive]).sum(1)
        pairs = weights[:, positive].sum(1) * weights[:, ~positive].sum(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            found.append(np.where(pairs > 0, wins / pairs, np.nan))
    return np.mean(found, axis=0)


def _macro_f1(
    answers: np.ndarray, right: np.ndarray, weights: np.ndarray, n_labels: int
) -> np.ndarray:
    """Macro-F1 under every row of weights; a label that nobody has or answers counts 0."""
    total = np.zeros(len(weights))
    for label in range(n_labels):
        said, true = answers == label, right == label
        hits = weights @ (said & true).astype(float)
        all_of = weights @ (said.astype(float) + true.astype(float))
        total += np.divide(2 * hits, all_of, out=np.zeros_like(hits), where=all_of > 0)
    return total / n_labels
