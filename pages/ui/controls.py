"""The one table of controls, and how a link is read and written. No widgets here: `panel.py` draws them.

A control is one row of `TABLE`. Its widget, its URL parameter (`page-key`), its bounds, the checks a
link goes through and the fields of the exported settings all come from that row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, unquote_plus, urlencode

LINK_VERSION = 1
"""Written as `v=` into every link. When a default changes: raise this by one and record the old default
in the row, `was={1: old}`. Links of version 1 then keep meaning what they meant."""

ELSEWHERE = "(an uploaded file)"
"""What a link says in place of a file too large for it."""

_R10 = (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)
_R20 = (*_R10, 1.12, 1.4, 1.8, 2.24, 2.8, 3.55, 4.5, 5.6, 7.1, 9)
_R40 = (*_R20, 1.06, 1.18, 1.32, 1.5, 1.7, 1.9, 2.12, 2.36, 2.65, 3, 3.35, 3.75, 4.25, 4.75, 5.3, 6, 6.7, 7.5,
        8.5, 9.5)  # fmt: skip
PREFERRED = {3: (1, 2, 5), 10: _R10, 20: _R20, 40: _R40}
"""Numbers from 1 to 10 that people like to read, by how many: 1-2-5, then the series of ISO 3."""

RESERVED = frozenset(
    {"v", "preset", "pin", "tour", "lock", "hide", "title", "question", "embed", "embed_options"}
)
"""Parameters of a link that are no control; what the later ones mean stands in `tour.py` and `lesson.py`."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """What all controls share. `key` is unique within `page`; `default` is what a fresh page shows."""

    page: str
    key: str
    label: str
    default: Any
    help: str = ""
    section: str = ""
    when: tuple[str, tuple[Any, ...]] | None = None
    """Drawn only while control `when[0]` of the same page has one of the values `when[1]`."""
    was: Mapping[int, Any] = field(default_factory=dict)
    """`{link version: default up to that version}`."""

    @property
    def name(self) -> str:
        """Widget key and URL parameter."""
        return f"{self.page}-{self.key}"

    def default_of(self, version: int) -> Any:
        """The default that a link of this version means when it leaves the control out."""
        later = [v for v in self.was if v >= version]
        return self.was[min(later)] if later else self.default

    def parse(self, text: str) -> Any:
        """The value a link's text stands for. Raises ValueError with the reason."""
        raise NotImplementedError

    def text(self, value: Any) -> str:
        """How a link spells the value: the spelling Streamlit's own URL binding uses."""
        return str(value)

    def check(self, value: Any) -> Any:
        """The value itself if this control can hold it. Raises ValueError with the reason."""
        return self.parse(self.text(value))


@dataclass(frozen=True, kw_only=True)
class Number(Control):
    """A slider with a number field beside it. Whole numbers when default, low, high and step are ints."""

    low: float
    high: float
    step: float
    log: bool = False
    """Slider in equal factors, about `1 / step` stops to a factor of ten; the field takes any value."""
    slider: bool = True
    """False: number field alone (seeds)."""

    @property
    def whole(self) -> bool:
        return all(isinstance(v, int) for v in (self.default, self.low, self.high, self.step))

    def parse(self, text: str) -> float | int:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("is not a number") from None
        if not math.isfinite(value):
            raise ValueError("is not a finite number")
        if not self.low <= value <= self.high:
            raise ValueError(f"is outside {self.low:g} to {self.high:g}")
        if self.whole and value != int(value):
            raise ValueError("is not a whole number")
        return int(value) if self.whole else value

    def stops(self) -> list[float]:
        """Where a log slider can stand: preferred numbers in (nearly) equal factors, the ends and the default.

        1, 2, 5 and 10 times any power of ten are always among them."""
        size = min((n for n in PREFERRED if n >= 1 / self.step), default=max(PREFERRED))
        first, last = (math.floor(math.log10(v)) for v in (self.low, self.high))
        raw = (float(f"{m}e{d}") for d in range(first, last + 1) for m in PREFERRED[size])
        inside = {round(v) if self.whole else v for v in raw if self.low <= v <= self.high}
        return sorted({self.low, *inside, self.default, self.high})


@dataclass(frozen=True, kw_only=True)
class Choice(Control):
    """One of a few options. An option is spelt the same on the page, in a link and in the settings, so
    keep it short and human: `"on a circle"`. To rename one, leave the old name in `renamed={old: new}`."""

    options: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    more: Callable[[], tuple[str, ...]] | None = None
    """Further options that are only there now: a checkpoint that lies in the zoo or came by upload."""
    tabs: bool = False
    """Drawn as a row of buttons above the pictures instead of a list in the panel."""

    def offered(self) -> tuple[str, ...]:
        """All options as they stand now."""
        return self.options + (self.more() if self.more else ())

    def default_of(self, version: int) -> str:
        default, offered = super().default_of(version), self.offered()
        return default if default in offered else offered[0]  # its checkpoint may not be here

    def parse(self, text: str) -> str:
        text, offered = self.renamed.get(text, text), self.offered()
        if text not in offered:
            raise ValueError(f"is none of {', '.join(offered)}")
        return text


@dataclass(frozen=True, kw_only=True)
class Toggle(Control):
    """On or off."""

    def parse(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("is neither true nor false")
        return text.lower() == "true"

    def text(self, value: Any) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, kw_only=True)
class Text(Control):
    """A short text, such as a pasted table. Longer than `longest` characters it is refused in a link.

    With `upload` a file may take its place. A file that fits is put into the field, and so into the link;
    a larger one is held in the session, where it is the control's value (bytes, if it is not text) but not
    the link's: the link says `ELSEWHERE`, for the page to explain.
    """

    longest: int = 2000
    lines: int = 4
    upload: tuple[str, ...] = ()
    """Endings of the files it takes."""
    reader: Callable[[str | bytes], Any] | None = None
    """Reads a value; what it cannot use it refuses with a ValueError."""

    def refused(self, value: str | bytes) -> bool:
        """Whether `reader` cannot use the value."""
        try:
            if self.reader is not None:
                self.reader(value)
        except ValueError:
            return True
        return False

    def parse(self, text: str) -> str:
        if len(text) > self.longest:
            raise ValueError(f"is longer than {self.longest} characters")
        return text

    def text(self, value: Any) -> str:
        return ELSEWHERE if self.holds(value) else str(value)

    def holds(self, value: Any) -> bool:
        """Whether the value is one for the session, not for the field."""
        return bool(self.upload) and (isinstance(value, bytes) or len(value) > self.longest)


def seed(page: str, *, section: str = "", label: str = "Seed", **changes: Any) -> Number:
    """The seed row every random page has."""
    return Number(
        page=page, key="seed", label=label, default=0, low=0, high=2**31 - 1, step=1,
        slider=False, section=section, help="The same seed draws the same numbers.", **changes,
    )  # fmt: skip


def _memories(table: str | bytes) -> Any:
    from core.tables import parse_table

    return parse_table(table)


def _sweep(table: str | bytes) -> Any:
    from pages.ui import cache

    return cache.sweep_table(table)


LANDSCAPE: tuple[Control, ...] = (
    Choice(
        page="landscape", key="view", label="View", tabs=True, default="before | after",
        options=("before | after", "after", "difference", "3-D before", "3-D after"),
    ),
    Number(
        page="landscape", key="strength", label="s reshaping strength", section="Reshaping",
        default=1.0, low=0.0, high=1.0, step=0.01,
        help="0 leaves the memories as they were pretrained, 1 moves them as far as the examples say.",
    ),
    Number(
        page="landscape", key="examples", label="t in-context examples", section="Reshaping",
        default=2, low=1, high=96, step=1,
        help="Example j is paired with memory j, counting round when t exceeds M. Past the rank of "
        "those memories no linear map can follow all examples.",
    ),
    Number(
        page="landscape", key="shift", label="Distance of the examples", section="Reshaping",
        default=0.6, low=0.0, high=2.0, step=0.05,
        help="How far each example lies from its memory, relative to the memory's length.",
    ),
    Toggle(
        page="landscape", key="lemma", label="The query is an example", section="Reshaping",
        default=False,
        help="The example paired with the query's memory is the query itself, as in Lemma 2.2.",
    ),
    Choice(
        page="landscape", key="family", label="Energy", section="Energy", default="log-sum-exp",
        options=("log-sum-exp", "Gaussian mixture", "polynomial", "sparse"),
        help="log-sum-exp is the modern Hopfield energy: one update is one softmax attention.",
    ),
    Number(
        page="landscape", key="beta", label="β inverse temperature", section="Energy",
        default=20.0, low=0.1, high=1000.0, step=0.05, log=True,
        help="Large β: every memory has a well of its own. Small β: one well for all.",
    ),
    Toggle(
        page="landscape", key="basins", label="Show the basins", section="Energy", default=False,
        help="A point's basin is tinted by the memory at which retrieval from the point ends, grey where it "
        "ends at a mixture of several memories, or at none.",
    ),
    Choice(
        page="landscape", key="layout", label="Layout", section="Memories", default="on a circle",
        options=("random", "clustered", "correlated", "on a circle", "your table"),
        help="How the memories lie on the unit sphere, or a table of your own.",
    ),
    Text(
        page="landscape", key="table", label="One memory a line", section="Memories",
        default="1.0, 0.1, 0.0\n0.2, 1.0, 0.1\n0.0, 0.2, 1.0\n-0.7, 0.6, 0.3\n0.5, -0.8, 0.2",
        when=("layout", ("your table",)), lines=5, upload=("csv", "tsv", "txt"), reader=_memories,
        help="Numbers separated by commas, semicolons, tabs or spaces, or a CSV file below: 2 to 512 "
        "rows of 2 to 256 numbers.",
    ),
    Number(
        page="landscape", key="memories", label="M memories", section="Memories", default=6,
        low=2, high=64, step=1, help="The more there are, the less room each has.",
        when=("layout", ("random", "clustered", "correlated", "on a circle")),
    ),
    Number(
        page="landscape", key="dimension", label="D dimension", section="Memories", default=2,
        low=2, high=64, step=1, when=("layout", ("random", "clustered", "correlated", "on a circle")),
        help="In more than 2 dimensions the picture is a slice, and points may lie off it.",
    ),
    seed("landscape", section="Memories"),
    Choice(
        page="landscape", key="query", label="Query", section="Query", default="a noisy memory",
        options=("a noisy memory", "placed"),
        help="Memory 0 with noise, or where you click on the picture.",
    ),
    Number(
        page="landscape", key="noise", label="Noise of the query", section="Query", default=0.4,
        low=0.0, high=3.0, step=0.05,
        help="Relative to the memory's length. The plane of the picture is made from this query, "
        "also when another one is placed on it.",
    ),
    Number(
        page="landscape", key="x", label="Across", section="Query", default=0.0, low=-1e6, high=1e6,
        step=0.05, slider=False, help="Where the query is placed, on the picture's horizontal axis.",
        when=("query", ("placed",)),
    ),
    Number(
        page="landscape", key="y", label="Up", section="Query", default=0.0, low=-1e6, high=1e6,
        step=0.05, slider=False, help="Where the query is placed, on the picture's vertical axis.",
        when=("query", ("placed",)),
    ),
    Choice(
        page="landscape", key="plane", label="Plane of the picture", section="Fine points",
        default="through the query", options=("through the query", "principal components"),
        help="Through the query, its memory and the strongest rival; or where memories and examples "
        "spread most. In 2 dimensions there is only one plane.",
    ),
    Number(
        page="landscape", key="ridge", label="ρ ridge", section="Fine points", default=0.0, low=0.0,
        high=10.0, step=0.01, help="Shrinks W1: K K~ᵀ (K~ K~ᵀ + ρ I)⁻¹.",
    ),
    Number(
        page="landscape", key="tolerance", label="Rank tolerance", section="Fine points",
        default=1e-12, low=1e-15, high=0.1, step=0.5, log=True,
        help="Directions of the ghosts whose singular value is below this share of the largest "
        "one count as absent.",
    ),
    Text(
        page="landscape", key="moved", label="Moved points", section="Fine points", default="",
        longest=2400, lines=3,
        help="Memories and examples that were dragged, in two dimensions: one a line, such as "
        "memory 0: 0.5, -0.2. Empty: all lie where they were drawn.",
    ),
)  # fmt: skip


def _checkpoints() -> tuple[str, ...]:
    from pages.ui import cache, uploads

    return (cache.zoo_names() or ("none",)) + uploads.names()


def _regression_views() -> tuple[str, ...]:
    from pages.ui import cache

    return cache.regression_views()


def _first_checkpoint() -> str:
    from pages.ui import cache

    names = cache.zoo_names() or ("none",)
    return next((name for name in ("linear-d20", "linear-d5") if name in names), names[0])


_PROMPT_VIEWS = ("view", ("curves", "one prompt", "positions", "training law"))

REGRESSION: tuple[Control, ...] = (
    Choice(
        page="regression", key="view", label="Picture", tabs=True, default="curves",
        options=("curves", "one prompt"), more=_regression_views,
    ),
    Text(
        page="regression", key="sweep", label="Sweep", section="File", default="", longest=2000,
        lines=5, upload=("csv", "parquet"), when=("view", ("sweep file",)), reader=_sweep,
        help="The table that `python -m models.sweep` writes: upload the CSV or Parquet file, or "
        "paste a small CSV.",
    ),
    Choice(
        page="regression", key="axis", label="Along", section="File", default="what varies most",
        when=("view", ("sweep file",)),
        options=(
            "what varies most", "n_examples", "w2", "mean1", "mean2", "mean_spread", "random_share",
            "input_scale", "spectrum_power", "accuracy", "corruption_size", "similarity", "n_dims",
            "sparsity", "tree_depth", "hidden",
        ),
        help="The column drawn to the right. All other columns that vary tell curves apart.",
    ),
    Choice(
        page="regression", key="checkpoint", label="Checkpoint", section="Model", options=(),
        more=_checkpoints, default=_first_checkpoint(),
        when=("view", ("curves", "one prompt", "known numbers")),
        help="The pretrained transformer that answers. The Checkpoints page tells what each was "
        "trained on and takes your own.",
    ),
    Choice(
        page="regression", key="task", label="Task", section="Model", default="as trained",
        options=("as trained", "linear", "sparse linear", "decision tree", "relu net"),
        when=_PROMPT_VIEWS, help="What the labels are: one function per prompt, drawn anew.",
    ),
    Choice(
        page="regression", key="covariates", label="Law of the inputs", section="Inputs",
        default="mixture", when=_PROMPT_VIEWS,
        options=("mixture", "isotropic", "skewed spectrum", "half subspace", "random quadrants"),
        help="mixture: (1 − w₂) N(μ₁, I) + w₂ N(μ₂, I). isotropic: N(0, I). The other three are the "
        "shifts of Garg et al. (2022), each with E|x|² = d.",
    ),
    Number(
        page="regression", key="w2", label="w₂ share of N(μ₂, I)", section="Inputs",
        default=0.0, low=0.0, high=1.0, step=0.01, when=("covariates", ("mixture",)),
        help="The covariate shift: this share of the inputs comes from the other component.",
    ),
    Number(
        page="regression", key="mean1", label="μ₁ main mean", section="Inputs",
        default=-2.0, low=-5.0, high=5.0, step=0.1, when=("covariates", ("mixture",)),
        help="The mean of every coordinate.",
    ),
    Number(
        page="regression", key="mean2", label="μ₂ other mean", section="Inputs",
        default=2.0, low=-5.0, high=5.0, step=0.1, when=("covariates", ("mixture",)),
        help="The mean of every coordinate. Of no effect while w₂ is 0.",
    ),
    Choice(
        page="regression", key="mixing", label="Component is drawn", section="Inputs",
        default="per input", options=("per input", "per prompt"), when=("covariates", ("mixture",)),
        help="Per input, every prompt mixes both components. Per prompt, all its inputs come from one.",
    ),
    Number(
        page="regression", key="power", label="Decay of the spectrum", section="Inputs",
        default=2.0, low=0.0, high=4.0, step=0.1, when=("covariates", ("skewed spectrum",)),
        help="The i-th eigenvalue of the covariance is proportional to i to the minus this.",
    ),
    Toggle(
        page="regression", key="anywhere", label="Ask anywhere", section="Inputs", default=False,
        when=("covariates", ("half subspace", "random quadrants")),
        help="On: queries come from N(0, I). Off: from where the examples lie.",
    ),
    Number(
        page="regression", key="scale", label="Scale of the inputs", section="Inputs",
        default=1.0, low=0.1, high=10.0, step=0.05, log=True, when=_PROMPT_VIEWS,
        help="Every input is multiplied by it.",
    ),
    Toggle(
        page="regression", key="similar", label="Set the similarity", section="Inputs",
        default=False, when=_PROMPT_VIEWS,
        help="On: all examples of a prompt have one cosine with its query; their lengths stay.",
    ),
    Number(
        page="regression", key="similarity", label="c cosine with the query", section="Inputs",
        default=0.8, low=-1.0, high=1.0, step=0.01, when=("similar", (True,)),
        help="1: every example points where the query points.",
    ),
    Number(
        page="regression", key="accuracy", label="α label accuracy", section="Labels",
        default=1.0, low=0.0, high=1.0, step=0.01, when=_PROMPT_VIEWS,
        help="Share of the examples' labels that are right. The query's own label always is.",
    ),
    Choice(
        page="regression", key="corruption", label="The others are", section="Labels",
        default="permuted", when=_PROMPT_VIEWS,
        options=("permuted", "constant bias", "gaussian", "heavy tail", "sign flip"),
        help="What happens to wrong labels. permuted: they change places among themselves, as in the "
        "paper. Of no effect while α is 1.",
    ),
    Number(
        page="regression", key="size", label="Size of the corruption", section="Labels",
        default=1.0, low=0.0, high=5.0, step=0.05,
        when=("corruption", ("constant bias", "gaussian", "heavy tail")),
        help="In units of the root mean square of a clean label.",
    ),
    Choice(
        page="regression", key="measure", label="Measure", section="Reading",
        default="pooled R²", options=("pooled R²", "within-task R²", "mean squared error"),
        when=("view", ("curves", "positions", "training law", "sweep file")),
        help="Pooled over tasks, as the paper does: 80 % of the variance of y is then the mean "
        "direction of the inputs, which flatters. Within-task R² takes each prompt's mean out.",
    ),
    Number(
        page="regression", key="n", label="n examples, read here", section="Reading",
        default=15, low=1, high=200, step=1,
        when=("view", ("curves", "one prompt", "positions", "training law")),
        help="The length at which the numbers are read and the prompt is opened. A click on a curve "
        "sets it.",
    ),
    Number(
        page="regression", key="length", label="Longest prompt", section="Reading",
        default=75, low=2, high=200, step=1, when=("view", ("curves", "one prompt", "positions")),
        help="Examples in a prompt. A checkpoint has a last position; past it the page refuses.",
    ),
    Number(
        page="regression", key="prompts", label="Prompts", section="Reading",
        default=64, low=8, high=512, step=8, when=_PROMPT_VIEWS,
        help="More prompts, narrower bands, longer waits.",
    ),
    Number(
        page="regression", key="prompt", label="Prompt", section="Reading",
        default=1, low=1, high=512, step=1, when=("view", ("one prompt",)),
        help="Which of the prompts is opened.",
    ),
    Choice(
        page="regression", key="tokens", label="Attention to", section="Reading",
        default="x and y", options=("x and y", "x alone", "y alone"), when=("view", ("one prompt",)),
        help="An example is two tokens, its input x and its label y.",
    ),
    seed("regression", section="Reading", when=("view", (*_PROMPT_VIEWS[1], "known numbers"))),
    Toggle(
        page="regression", key="squares", label="Least squares", section="Beside it", default=True,
        when=("view", ("curves", "one prompt")), help="Minimum-norm least squares of the examples.",
    ),
    Toggle(
        page="regression", key="ridge", label="Ridge", section="Beside it", default=True,
        when=("view", ("curves", "one prompt")),
        help="Ridge at the true label noise: Bayesian model averaging. Without noise it is least "
        "squares.",
    ),
    Toggle(
        page="regression", key="averaging", label="Averaging", section="Beside it", default=True,
        when=("view", ("curves", "one prompt")),
        help="Weights = mean of x y: one step of gradient descent from zero.",
    ),
    Toggle(
        page="regression", key="neighbours", label="3 nearest neighbours", section="Beside it",
        default=True, when=("view", ("curves", "one prompt")),
        help="Mean label of the three nearest inputs.",
    ),
    Toggle(
        page="regression", key="trees", label="Tree and boosting", section="Beside it",
        default=False, when=("view", ("curves",)),
        help="scikit-learn's decision tree and gradient boosting, fitted anew to every prompt at ten "
        "and at five lengths: seconds, not milliseconds. Decision tree task only.",
    ),
)  # fmt: skip

CHECKPOINTS: tuple[Control, ...] = (
    Choice(
        page="checkpoints", key="name", label="Checkpoint", options=(), more=_checkpoints,
        default=_first_checkpoint(), section="Model", help="The trained model to look at.",
    ),
    Number(
        page="checkpoints", key="prompts", label="Prompts", section="Measured now", default=128,
        low=16, high=512, step=16, help="Fresh prompts from the training law, asked here and now.",
    ),
    seed("checkpoints", section="Measured now"),
)  # fmt: skip

_ERROR_VIEW = ("view", ("error and bounds",))

RETRIEVAL: tuple[Control, ...] = (
    Choice(
        page="retrieval", key="view", label="Picture", tabs=True, default="error and bounds",
        options=("error and bounds", "phase map", "reshaping"),
    ),
    Choice(
        page="retrieval", key="axis", label="Error along", section="Picture",
        default="inverse temperature", when=_ERROR_VIEW,
        options=("inverse temperature", "noise", "memories", "dimension"),
        help="This setting runs over its whole range; the dotted line stands where its control is.",
    ),
    Choice(
        page="retrieval", key="family", label="Energy", section="Retrieval", default="log-sum-exp",
        options=("log-sum-exp", "Gaussian mixture", "polynomial", "sparse"),
        help="log-sum-exp is the modern Hopfield energy: one update is one softmax attention.",
    ),
    Number(
        page="retrieval", key="beta", label="β inverse temperature", section="Retrieval",
        default=8.0, low=0.5, high=200.0, step=0.05, log=True,
        help="Large β: one memory takes all the weight. Small β: all memories are averaged.",
    ),
    Number(
        page="retrieval", key="noise", label="Noise of the query", section="Retrieval",
        default=0.2, low=0.0, high=2.0, step=0.05,
        help="The query is memory 0 plus Gaussian noise of about this length; memories have length 1.",
    ),
    Choice(
        page="retrieval", key="layout", label="Layout", section="Memories", default="random",
        options=("random", "clustered", "correlated", "on a circle"),
        help="How the memories lie on the unit sphere.",
    ),
    Number(
        page="retrieval", key="memories", label="M memories", section="Memories", default=16,
        low=2, high=64, step=1, help="The more there are, the less room each has.",
    ),
    Number(
        page="retrieval", key="dimension", label="D dimension", section="Memories", default=20,
        low=2, high=64, step=1, help="Random memories are farther apart in more dimensions.",
    ),
    Number(
        page="retrieval", key="draws", label="Draws", section="Sample", default=200, low=50,
        high=1000, step=50,
        help="Independent draws of memories and query. The phase map takes 40 a cell, 20 past M = 32.",
    ),
    seed("retrieval", section="Sample"),
)  # fmt: skip

# ---- in-context text -----------------------------------------------------------------------------

TEXT_FOLDER = "your data"
_LABELLED = ("animals", "sentiment", TEXT_FOLDER)

TEXT: tuple[Control, ...] = (
    Choice(
        page="text", key="view", label="Picture", tabs=True, default="against k",
        options=("against k", "one prompt"),
    ),
    Choice(
        page="text", key="task", label="Task", section="Task", default="capitals",
        options=("capitals", "plurals", "past tense", "antonyms", "animals", "sentiment", TEXT_FOLDER),
        help="Six small tasks of 62 to 66 items come with the lab. In the first four each text has "
        "answers of its own, in the last three all texts share their labels.",
    ),
    Text(
        page="text", key="folder", label="Folder, or a zip of it", section="Task", default="",
        longest=400, lines=3, upload=("zip",), when=("task", (TEXT_FOLDER,)),
        help="In TweetEval's format: train_text.txt and train_labels.txt line by line, the same for "
        "test, and mapping.txt with number, tab and name of each label. The path is one on the "
        "machine that serves the lab.",
    ),
    Choice(
        page="text", key="words", label="Label words", section="Task", default="their names",
        options=("their names", "made up", "your own"), when=("task", _LABELLED),
        help="made up: foo, bar, baz, ... What they stand for can only be learnt from the examples.",
    ),
    Text(
        page="text", key="own", label="Words, with commas between", section="Task", default="",
        longest=400, lines=3, when=("words", ("your own",)),
        help="As many as there are labels, in their order.",
    ),
    Number(
        page="text", key="examples", label="k, most examples", section="Prompt", default=8, low=1,
        high=32, step=1, help="The curve stands at 0, 1, 2, 4, 8, ... examples and at this number.",
    ),
    Choice(
        page="text", key="selection", label="Examples", section="Prompt", default="random",
        options=("random", "one draw for all", "most similar"),
        help="random: drawn anew for each question. one draw for all: the same for all questions; "
        "the band then knows nothing of other draws. most similar: by TF-IDF cosine of three-letter "
        "pieces, the most similar last.",
    ),
    Number(
        page="text", key="right", label="Share of right answers", section="Prompt", default=1.0,
        low=0.0, high=1.0, step=0.05,
        help="Of the examples. The others get the answer of another item, or another label.",
    ),
    Number(
        page="text", key="outside", label="Share from outside", section="Prompt", default=0.0,
        low=0.0, high=1.0, step=0.05,
        help="Of the examples: a sentence of everyday news with an answer drawn from the task's.",
    ),
    Choice(
        page="text", key="format", label="Format", section="Prompt", default="arrow",
        options=("arrow", "input and output", "text and label"), help="How an example is written.",
    ),
    Number(
        page="text", key="queries", label="Questions", section="Sample", default=32, low=8, high=256,
        step=8, help="More questions, narrower bands, longer waits.",
    ),
    Number(
        page="text", key="prompt", label="Question opened", section="Sample", default=1, low=1,
        high=256, step=1, when=("view", ("one prompt",)), help="Which of the questions is shown in full.",
    ),
    seed("text", section="Sample"),
    Text(
        page="text", key="model", label="Language model", section="Model", default="SmolLM2-135M",
        longest=400, lines=3,
        help="SmolLM2-135M, a folder on the machine that serves the lab, or a hub id such as "
        "EleutherAI/gpt-j-6b that was downloaded there before. safetensors or GGUF only.",
    ),
)  # fmt: skip

# ---- hidden concept ------------------------------------------------------------------------------

_CORRELATED = ("keys", ("each near the one before", "all near one direction"))
_ANSWERED = ("view", ("predictors", "influence", "reshaped memories"))
_MEASURED = ("view", ("posterior", "predictors", "influence"))

HIDDEN_CONCEPT: tuple[Control, ...] = (
    Choice(
        page="hidden_concept", key="view", label="Picture", tabs=True, default="posterior",
        options=("posterior", "predictors", "influence", "reshaped memories"),
    ),
    Number(
        page="hidden_concept", key="examples", label="t examples", section="Examples", default=30,
        low=1, high=128, step=1, help="In-context pairs of a key and its value.",
    ),
    Number(
        page="hidden_concept", key="dimension", label="d dimension of the keys", section="Examples",
        default=2, low=2, high=64, step=1,
        help="In 2 dimensions the belief is drawn as an ellipse, else as its spectrum. GPT-2 answers "
        "where a checkpoint reads keys of this dimension.",
    ),
    Number(
        page="hidden_concept", key="noise", label="σ noise of the values", section="Examples",
        default=0.5, low=0.0, high=3.0, step=0.05,
        help="A value is z·k plus Gaussian noise of this size. Rows of z are drawn from N(0, I).",
    ),
    Choice(
        page="hidden_concept", key="keys", label="Law of the keys", section="Examples",
        default="uniform on the sphere",
        options=("uniform on the sphere", "Gaussian", "each near the one before",
                 "all near one direction", "regression inputs"),
        help="The third and the fourth break the assumption that examples are independent. Regression "
        "inputs are N(−2, I), the law GPT-2 was trained on.",
    ),
    Number(
        page="hidden_concept", key="correlation", label="Correlation of the keys",
        section="Examples", default=0.8, low=0.0, high=0.99, step=0.01, when=_CORRELATED,
        help="Mean cosine of two neighbours, or of any two keys of a prompt.",
    ),
    Number(
        page="hidden_concept", key="scale", label="Scale of the keys", section="Examples",
        default=1.0, low=0.1, high=10.0, step=0.05, log=True, help="Every key is multiplied by it.",
    ),
    Number(
        page="hidden_concept", key="irrelevant", label="Irrelevant examples",
        section="A biased context", default=0.0, low=0.0, high=1.0, step=0.05,
        help="Share of the examples whose value is chance.",
    ),
    Number(
        page="hidden_concept", key="contradicting", label="Contradicting examples",
        section="A biased context", default=0.0, low=0.0, high=1.0, step=0.05,
        help="Share of the examples that follow another concept z′.",
    ),
    Number(
        page="hidden_concept", key="opposition", label="Cosine of z′ with z",
        section="A biased context", default=-1.0, low=-1.0, high=1.0, step=0.05,
        help="−1: the other concept is the opposite one. Of no effect without contradicting examples.",
    ),
    Number(
        page="hidden_concept", key="kappa", label="κ sharpness of softmax", section="Who answers",
        default=2.0, low=0.05, high=100.0, step=0.05, log=True, when=_ANSWERED,
        help="Softmax attention weighs example i by exp(κ q·kᵢ). Also of the exponential kernel.",
    ),
    Choice(
        page="hidden_concept", key="kernel", label="Kernel of BMA", section="Who answers",
        default="linear", options=("linear", "RBF", "exponential"), when=_ANSWERED,
        help="What BMA believes that values depend on. The examples are linear.",
    ),
    Number(
        page="hidden_concept", key="length", label="ℓ length of the RBF kernel",
        section="Who answers", default=1.0, low=0.05, high=20.0, step=0.05, log=True,
        when=("kernel", ("RBF",)), help="Keys much nearer than this count as the same.",
    ),
    Choice(
        page="hidden_concept", key="assumed", label="ρ that BMA assumes", section="Who answers",
        default="the true σ²", options=("the true σ²", "set by hand"),
        help="ρ is the noise variance over the prior variance.",
    ),
    Number(
        page="hidden_concept", key="rho", label="ρ", section="Who answers", default=0.1, low=1e-6,
        high=100.0, step=0.1, log=True, when=("assumed", ("set by hand",)),
        help="The larger, the more BMA distrusts the examples.",
    ),
    Toggle(
        page="hidden_concept", key="gpt2", label="Ask GPT-2", section="Who answers", default=True,
        when=("view", ("predictors",)), help="A checkpoint that reads keys of d dimensions.",
    ),
    Number(
        page="hidden_concept", key="n", label="n examples, read here", section="Reading",
        default=12, low=1, high=128, step=1, when=("view", ("influence",)),
        help="The examples whose influence is drawn; all there are, if fewer.",
    ),
    Number(
        page="hidden_concept", key="ridge", label="Ridge of W₁ and W₂", section="Reading",
        default=0.0, low=0.0, high=10.0, step=0.01, when=("view", ("reshaped memories",)),
        help="Shrinks the maps: K K~ᵀ (K~ K~ᵀ + ridge · I)⁻¹.",
    ),
    Number(
        page="hidden_concept", key="tolerance", label="Rank tolerance", section="Reading",
        default=1e-12, low=1e-15, high=0.1, step=0.5, log=True, when=("view", ("reshaped memories",)),
        help="Directions of the ghosts whose singular value is below this share of the largest "
        "count as absent.",
    ),
    Number(
        page="hidden_concept", key="prompts", label="Prompts", section="Reading", default=64, low=8,
        high=192, step=8, when=_MEASURED, help="Curves and bands are over these; prompt 1 is drawn.",
    ),
    seed("hidden_concept", section="Reading"),
)  # fmt: skip

# ---- generalisation ------------------------------------------------------------------------------

_DRAWN_KEYS = ("source", ("unit keys", "raw keys", "normalised keys"))


def _one_layer() -> tuple[str, ...]:
    from pages.ui import cache

    return cache.one_layer_names()


GENERALIZATION: tuple[Control, ...] = (
    Choice(
        page="generalization", key="view", label="Picture", tabs=True, default="bound and measured",
        options=("bound and measured", "input scale"),
    ),
    Choice(
        page="generalization", key="source", label="Attention head", section="Head",
        default="unit keys", options=("unit keys", "raw keys", "normalised keys"), more=_one_layer,
        help="Keys uniform on the sphere; regression inputs N(−2, I) as they are, or divided by their "
        "norm; or a trained one-layer checkpoint on its regression prompts.",
    ),
    Number(
        page="generalization", key="kappa", label="κ sharpness", section="Head", default=1.0,
        low=0.01, high=100.0, step=0.05, log=True, when=_DRAWN_KEYS,
        help="A score is κ q·k. A checkpoint has its own.",
    ),
    Number(
        page="generalization", key="dimension", label="d dimension of the keys", section="Head",
        default=8, low=2, high=64, step=1, when=_DRAWN_KEYS, help="Coordinates of a key.",
    ),
    Number(
        page="generalization", key="noise", label="Chance in the values", section="Head",
        default=0.2, low=0.0, high=1.0, step=0.05, when=_DRAWN_KEYS,
        help="Share of a value that the key does not tell.",
    ),
    Number(
        page="generalization", key="scale", label="Scale of the inputs", section="Head", default=1.0,
        low=0.05, high=20.0, step=0.05, log=True, when=("view", ("bound and measured",)),
        help="Every input is multiplied by it, before a checkpoint normalises its keys.",
    ),
    Choice(
        page="generalization", key="constants", label="Γ, C₀ and M", section="Constants",
        default="estimated", options=("estimated", "set by hand"),
        when=("view", ("bound and measured",)),
        help="Estimated: the largest score, value and slope of the loss in the draws.",
    ),
    Number(
        page="generalization", key="gamma", label="Γ bound on scores", section="Constants",
        default=1.0, low=0.01, high=1000.0, step=0.05, log=True, when=("constants", ("set by hand",)),
        help="Prompts with a larger score are left out, as the theorem does not speak of them.",
    ),
    Number(
        page="generalization", key="c0", label="C₀ bound on values", section="Constants",
        default=1.0, low=0.01, high=1000.0, step=0.05, log=True, when=("constants", ("set by hand",)),
        help="Also on the difference of two values of a prompt.",
    ),
    Number(
        page="generalization", key="lipschitz", label="M slope of the loss", section="Constants",
        default=1.0, low=0.01, high=1000.0, step=0.05, log=True, when=("constants", ("set by hand",)),
        help="1 for the absolute loss. Too small a value is not noticed by the draws of scores.",
    ),
    Choice(
        page="generalization", key="loss", label="Loss", section="Measured", default="absolute",
        options=("absolute", "squared"), help="How the miss of an answer is counted.",
    ),
    Number(
        page="generalization", key="longest", label="Longest prompt", section="Measured",
        default=128, low=8, high=256, step=8, help="Ten lengths from 2 to it are measured.",
    ),
    Number(
        page="generalization", key="prompts", label="Prompts", section="Measured", default=48, low=8,
        high=128, step=8, help="More prompts, narrower band, longer waits.",
    ),
    seed("generalization", section="Measured"),
)  # fmt: skip

# ---- ghost examples and layers -------------------------------------------------------------------


def _ghost_checkpoint() -> str:
    return "attention-1" if "attention-1" in _checkpoints() else _first_checkpoint()


GHOSTS: tuple[Control, ...] = (
    Choice(
        page="ghosts", key="view", label="Picture", tabs=True, default="search",
        options=("search", "reshaped", "against t"),
    ),
    Choice(
        page="ghosts", key="checkpoint", label="Checkpoint", section="Model", options=(),
        more=_checkpoints, default=_ghost_checkpoint(),
        help="The frozen model. One-layer attention is searched in a second, a GPT-2 in half a "
        "minute.",
    ),
    Number(
        page="ghosts", key="examples", label="t ghosts", section="Ghosts", default=10, low=1,
        high=100, step=1, when=("view", ("search", "reshaped")),
        help="How many pairs are searched for, and how many examples the true prompt has.",
    ),
    Number(
        page="ghosts", key="restarts", label="Restarts", section="Ghosts", default=4, low=1, high=8,
        step=1, help="Searches that begin at different prompts, side by side.",
    ),
    seed("ghosts", section="Ghosts"),
    Number(
        page="ghosts", key="steps", label="Steps", section="Search", default=300, low=10, high=2000,
        step=10, help="Of Adam, with a rate that falls to 0 along a cosine.",
    ),
    Number(
        page="ghosts", key="rate", label="Learning rate", section="Search", default=0.05, low=0.005,
        high=0.5, step=0.1, log=True, help="In units of x, and of the labels' standard deviation.",
    ),
    Number(
        page="ghosts", key="queries", label="Queries a step", section="Search", default=32, low=8,
        high=128, step=8, help="Fresh ones at every step. The error is read on 128 others.",
    ),
    Number(
        page="ghosts", key="prompt", label="True prompt", section="Reshaping", default=1, low=1,
        high=100, step=1, when=("view", ("reshaped", "against t")),
        help="Which prompt of the training law the reshaped ghosts are to stand in for.",
    ),
    Toggle(
        page="ghosts", key="across", label="One map for all heads", section="Reshaping",
        default=False, when=("view", ("reshaped", "against t")),
        help="Keys of all heads side by side: more dimensions, so that the maps stay exact for more "
        "ghosts. A single head has nothing to put side by side.",
    ),
    Number(
        page="ghosts", key="ridge", label="ρ ridge", section="Reshaping", default=0.0, low=0.0,
        high=10.0, step=0.01, when=("view", ("reshaped", "against t")),
        help="Shrinks W1: K K~ᵀ (K~ K~ᵀ + ρ I)⁻¹, and W2 likewise.",
    ),
    Number(
        page="ghosts", key="tolerance", label="Rank tolerance", section="Reshaping", default=1e-14,
        low=1e-15, high=0.1, step=0.5, log=True, when=("view", ("reshaped", "against t")),
        help="Directions of the ghosts whose singular value is below this share of the largest one "
        "count as absent.",
    ),
)  # fmt: skip

LAYERS: tuple[Control, ...] = (
    Choice(
        page="layers", key="view", label="Picture", tabs=True, default="every head",
        options=("every head", "heads ranked", "shift and labels", "one prompt"),
    ),
    Choice(
        page="layers", key="checkpoint", label="Checkpoint", section="Model", options=(),
        more=_checkpoints, default=_first_checkpoint(), help="The trained transformer that is read.",
    ),
    Choice(
        page="layers", key="reading", label="Reading", section="Reading",
        default="effective memories", when=("view", ("every head", "shift and labels")),
        options=(
            "effective memories", "weight on the best key", "margin", "energy",
            "fall in one update", "fall by its own write", "weight on labels",
        ),
        help="What is read of every head: the symbols say what each is.",
    ),
    Choice(
        page="layers", key="by", label="Ranked by", section="Reading",
        default="weight on the best key", when=("view", ("heads ranked",)),
        options=(
            "weight on the best key", "fall in one update", "fall by its own write",
            "few effective memories",
        ),
        help="What makes a head act like a Hopfield network.",
    ),
    Number(
        page="layers", key="n", label="n examples, read here", section="Reading", default=20, low=1,
        high=100, step=1, help="How many examples the query sees.",
    ),
    Number(
        page="layers", key="w2", label="w₂ shifted share", section="Prompts", default=0.0, low=0.0,
        high=1.0, step=0.05, when=("view", ("every head", "heads ranked", "one prompt")),
        help="This share of the inputs comes from N(2, I) and not from N(−2, I).",
    ),
    Number(
        page="layers", key="accuracy", label="α label accuracy", section="Prompts", default=1.0,
        low=0.0, high=1.0, step=0.05, when=("view", ("every head", "heads ranked", "one prompt")),
        help="Share of right labels; the others are permuted among themselves.",
    ),
    Number(
        page="layers", key="shift", label="w₂ compared", section="Prompts", default=0.3, low=0.0,
        high=1.0, step=0.05, when=("view", ("shift and labels",)),
        help="Shifted share of the inputs in the second curve; its labels are all right.",
    ),
    Number(
        page="layers", key="right", label="α compared", section="Prompts", default=0.5, low=0.0,
        high=1.0, step=0.05, when=("view", ("shift and labels",)),
        help="Share of right labels in the third curve; its inputs are not shifted.",
    ),
    Number(
        page="layers", key="prompts", label="Prompts", section="Prompts", default=16, low=4,
        high=64, step=4, when=("view", ("every head", "heads ranked", "shift and labels")),
        help="Readings are means over these.",
    ),
    Number(
        page="layers", key="prompt", label="Prompt", section="Prompts", default=1, low=1, high=64,
        step=1, when=("view", ("one prompt",)), help="Which prompt is opened.",
    ),
    seed("layers", section="Prompts"),
)  # fmt: skip

# ---- induction head ----

_PROMPT_TABS = ("view", ("attention", "logits", "training", "energy"))
_HEAD_TABS = ("view", ("attention", "logits", "length", "positions", "energy"))

INDUCTION: tuple[Control, ...] = (
    Choice(
        page="induction", key="view", label="Picture", tabs=True, default="attention",
        options=("attention", "logits", "length", "positions", "memories", "training", "energy"),
    ),
    Choice(
        page="induction", key="source", label="Prompt", section="Prompt", default="typed",
        options=("typed", "drawn"), when=_PROMPT_TABS,
        help="Type letters, or draw them from the bigram model with its triggers.",
    ),
    Text(
        page="induction", key="prompt", label="Letters a to z", section="Prompt",
        default="the quota fell q", longest=200, lines=3, when=("source", ("typed",)),
        help="Every letter is a token; blanks do not count. The last letter asks.",
    ),
    Number(
        page="induction", key="length", label="T length", section="Prompt", default=32, low=8,
        high=96, step=1, when=("source", ("drawn",)),
        help="The draw is cut so that it ends in a trigger which came before.",
    ),
    Text(
        page="induction", key="triggers", label="Q triggers", section="Prompt", default="q",
        longest=24, lines=3, when=("view", (*_HEAD_TABS[1], "memories")),
        help="The letters layer 2 asks about. In a drawn prompt each is always followed by one "
        "letter, drawn anew per prompt.",
    ),
    Number(
        page="induction", key="beta1", label="β₁ layer 1", section="Weights", default=60.0, low=0.0,
        high=60.0, step=0.5, when=_HEAD_TABS,
        help="How sharply a position looks at the one before it.",
    ),
    Number(
        page="induction", key="beta2", label="β₂ layer 2", section="Weights", default=5.0, low=0.0,
        high=12.0, step=0.1, when=_HEAD_TABS,
        help="How sharply the last letter looks for positions whose buffer holds it.",
    ),
    Number(
        page="induction", key="gamma", label="γ context", section="Weights", default=4.0, low=0.0,
        high=12.0, step=0.1, when=_HEAD_TABS, help="Weight of what the context says.",
    ),
    Number(
        page="induction", key="bigram", label="λ bigram law", section="Weights", default=1.0,
        low=0.0, high=4.0, step=0.05, when=_HEAD_TABS,
        help="Weight of what is known without context.",
    ),
    Number(
        page="induction", key="odds", label="R odds of the favourite", section="Weights",
        default=10.0, low=1.0, high=1000.0, step=0.05, log=True, when=_HEAD_TABS,
        help="Under the bigram law, the next letter of the alphabet follows R times as often as any "
        "other.",
    ),
    Choice(
        page="induction", key="positions", label="Positions", section="Wiring", default="relative",
        options=("relative", "absolute"),
        when=("view", ("attention", "logits", "length", "memories", "energy")),
        help="Relative: one back is the same everywhere. Absolute: a pair of positions is stored "
        "for each place up to T_max.",
    ),
    Number(
        page="induction", key="tmax", label="T_max stored positions", section="Wiring", default=64,
        low=2, high=128, step=1, when=("view", (*_HEAD_TABS[1], "memories")),
        help="Of no effect on relative positions.",
    ),
    Number(
        page="induction", key="span", label="T prompt length", section="Wiring", default=120,
        low=16, high=400, step=1, when=("view", ("positions",)), help="Letters of the longest prompt drawn.",
    ),
    Choice(
        page="induction", key="ablated", label="Emptied memory", section="Wiring",
        default="none", options=("none", "previous position", "key", "output"),
        when=("view", (*_HEAD_TABS[1], "memories")),
        help="Set one of the three memories to 0 and see the head fail.",
    ),
    Choice(
        page="induction", key="vectors", label="Vectors", section="Embedding", default="orthonormal",
        options=("orthonormal", "random"),
        when=("view", ("attention", "logits", "length", "memories")),
        help="Orthonormal vectors keep memories apart. Random ones share D dimensions and cross-talk.",
    ),
    Number(
        page="induction", key="dimension", label="D dimension", section="Embedding", default=128,
        low=16, high=512, step=1, when=("vectors", ("random",)),
        help="Random vectors are closer to perpendicular in more dimensions.",
    ),
    Number(
        page="induction", key="memories", label="M memories", section="Embedding", default=26,
        low=2, high=64, step=1, when=("view", ("memories",)),
        help="Of the curve below: pairs stored in one matrix.",
    ),
    seed("induction", section="Seed"),
)  # fmt: skip

TABLE: tuple[Control, ...] = (
    *LANDSCAPE,
    *RETRIEVAL,
    *REGRESSION,
    *TEXT,
    *HIDDEN_CONCEPT,
    *GHOSTS,
    *GENERALIZATION,
    *LAYERS,
    *INDUCTION,
    *CHECKPOINTS,
)


def rows(page: str) -> tuple[Control, ...]:
    """The controls of one page, in the order they are drawn."""
    return tuple(row for row in TABLE if row.page == page)


def register(*more: Control) -> None:
    """Add rows from outside this file. Only test pages do; the lab's own rows stand in `TABLE`."""
    global TABLE
    known = {row.name for row in TABLE}
    TABLE += tuple(row for row in more if row.name not in known)


def defaults(page: str, version: int = LINK_VERSION) -> dict[str, Any]:
    return {row.key: row.default_of(version) for row in rows(page)}


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A named setting of a page, set with one click.

    Attributes:
        name: short name for links, `?preset=name`.
        label: what the button says.
        values: `{control key: value}`; every other control goes to its default.
        claim: what this scenario shows, in a sentence or two.
        look: what to look for in the picture.
        refuted: what would refute the claim.
    """

    name: str
    label: str
    values: Mapping[str, Any]
    claim: str
    look: str = ""
    refuted: str = ""

    def settings(self, page: str) -> dict[str, Any]:
        """All controls of the page as this scenario sets them."""
        return defaults(page) | dict(self.values)


@dataclass(frozen=True)
class Link:
    """What a link asks for: the values it states, its version and preset, what was wrong with it, and the
    settings that are pinned in it."""

    values: dict[str, Any]
    version: int
    preset: str | None
    notices: tuple[str, ...]
    pin: dict[str, Any] | None = None


def read_link(page: str, query: Mapping[str, list[str]], presets: Iterable[str] = ()) -> Link:
    """Read a page's link. Whatever is wrong with a value costs that value only, and is said.

    Args:
        page: name of the page the link opens.
        query: every parameter with all its values, as they stood in the address.
        presets: names of the page's scenarios.
    """
    known = {row.name: row for row in rows(page)}
    values: dict[str, Any] = {}
    notices: list[str] = []
    elsewhere: dict[str, list[str]] = {}  # page -> its parameters
    version, preset, pin = LINK_VERSION, None, None
    for name, given in query.items():
        shown = f"`{printable(name)}={printable(given[-1])}`"
        if len(given) > 1 and (name in known or name in ("v", "preset", "pin")):
            listed = ", ".join(f"`{printable(text, 20)}`" for text in given[:4])
            more = ", …" if len(given) > 4 else ""
            notices.append(
                f"`{printable(name)}` is given {len(given)} times ({listed}{more}); the last one counts, "
                f"`{printable(given[-1], 20)}`."
            )
        if name in known:
            row = known[name]
            try:
                values[row.key] = row.parse(given[-1])
            except ValueError as reason:
                default = row.text(row.default)
                notices.append(f"{shown} {reason}; the default `{default}` stands.")
        elif name == "v":
            if said := _version(given[-1]):
                version = said
            else:
                notices.append(
                    f"{shown} is no link version this lab knows; read as {LINK_VERSION}."
                )
        elif name == "preset":
            if given[-1] in set(presets):
                preset = given[-1]
            else:
                notices.append(f"{shown} is no scenario of this page; the defaults stand.")
        elif name == "pin":
            try:
                pin = read_pin(page, given[-1])
            except ValueError as reason:
                notices.append(f"{shown} {reason}, so nothing is pinned.")
        elif (other := _other_page(name, page)) is not None:
            elsewhere.setdefault(other, []).append(name)
        elif name not in RESERVED:
            notices.append(f"{shown} is no control of this page and was ignored.")
    for other, names in elsewhere.items():
        listed = ", ".join(f"`{name}`" for name in names[:4]) + (", …" if len(names) > 4 else "")
        what = "setting belongs" if len(names) == 1 else "settings belong"
        notices.append(
            f"{len(names)} {what} to the page `{other}`, not here, and had no effect: {listed}."
        )
    return Link(values, version, preset, tuple(notices), pin)


def _version(text: str) -> int:
    """The link version a text says; 0 if it is none this lab has written."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) and int(text) <= LINK_VERSION else 0


def write_link(
    page: str,
    values: Mapping[str, Any],
    pinned: Mapping[str, Any] | None = None,
    more: Mapping[str, str] | None = None,
) -> str:
    """The query string that states every control of the page, so that no later default can change it, and the
    settings that are pinned. `more`: the step of a tour, a lesson."""
    stated = {row.name: row.text(values[row.key]) for row in rows(page) if row.key in values}
    pin = {} if pinned is None else {"pin": write_pin(page, pinned)}
    return urlencode({"v": LINK_VERSION, **stated, **pin, **(more or {})})


def write_pin(page: str, values: Mapping[str, Any]) -> str:
    """Settings as a short text for `pin=`: the link version, then key and value of each control that is not at
    that version's default, all parted by `~`."""
    parts = [str(LINK_VERSION)]
    for row in rows(page):
        if values[row.key] != row.default_of(LINK_VERSION):
            parts += [row.key, quote_plus(row.text(values[row.key])).replace("~", "%7E")]
    return "~".join(parts)


def read_pin(page: str, text: str) -> dict[str, Any]:
    """All settings of the page that `write_pin` wrote down. Raises ValueError with the reason: half of a pinned
    setting would be another one, so a pin is read as a whole or not at all."""
    version, *parts = text.split("~")
    if not _version(version) or len(parts) % 2:
        raise ValueError("is no pin this lab knows")
    known = {row.key: row for row in rows(page)}
    values = {key: row.default_of(_version(version)) for key, row in known.items()}
    for key, given in zip(parts[::2], parts[1::2], strict=True):
        value = unquote_plus(given)
        if key not in known:
            raise ValueError(f"names `{printable(key)}`, which is no control of this page")
        if value == ELSEWHERE:
            raise ValueError("was made with an uploaded file, which a link cannot carry")
        try:
            values[key] = known[key].parse(value)
        except ValueError as reason:
            raise ValueError(
                f"says `{printable(key)}` = `{printable(value)}`, which {reason}"
            ) from None
    return values


# ---- settings in words ----


def in_effect(page: str, values: Mapping[str, Any]) -> tuple[Control, ...]:
    """The controls that are drawn under these settings: the others say nothing now."""
    shown: list[Control] = []
    hidden: set[str] = set()
    for row in rows(page):
        if row.when and (row.when[0] in hidden or values[row.when[0]] not in row.when[1]):
            hidden.add(row.key)
        else:
            shown.append(row)
    return tuple(shown)


def value_in_words(row: Control, value: Any, longest: int = 60) -> str:
    """A value as a reader sees it on the page: `0.4`, `on`, `on a circle`."""
    if isinstance(row, Toggle):
        return "on" if value else "off"
    if isinstance(row, Number):
        return str(value) if row.whole else f"{value:.6g}"
    return printable(row.text(value), longest) or "(empty)"


def label_in_words(row: Control) -> str:
    """Its label as part of a sentence: `Noise` becomes `noise`, `β inverse temperature` and `M` stay."""
    first, _, _ = row.label.partition(" ")
    plain = len(first) > 1 and first[1:].islower() and first.isascii()
    return row.label[0].lower() + row.label[1:] if plain else row.label


def differing(
    page: str, a: Mapping[str, Any], b: Mapping[str, Any]
) -> tuple[tuple[str, str, str], ...]:
    """Label, value under `a` and value under `b` of each control that differs and counts under one of them."""
    counts = {row.key for values in (a, b) for row in in_effect(page, values)}
    return tuple(
        (
            label_in_words(row),
            value_in_words(row, a[row.key], 40),
            value_in_words(row, b[row.key], 40),
        )
        for row in rows(page)
        if row.key in counts and a[row.key] != b[row.key]
    )


def _other_page(name: str, page: str) -> str | None:
    return next((row.page for row in TABLE if row.name == name and row.page != page), None)


def printable(text: str, longest: int = 60) -> str:
    """Text of a link as a notice may show it."""
    clean = "".join(c if c.isprintable() and c != "`" else "?" for c in text)
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"
