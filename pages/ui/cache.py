"""Every cache of the lab, and only here.

Results are frozen dataclasses that all sessions share and nobody may write into. Keys are scalars and seeds,
sizes are bounded in bytes (`store.py`), heavy functions wait for their session's turn (`gate.py`), and `core`
is imported inside so that a page without torch stays free of it.
"""

from __future__ import annotations

import copy
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pages.ui import limits, uploads
from pages.ui.gate import Gate
from pages.ui.store import Store
from pages.ui.workers import Pool

if TYPE_CHECKING:
    from torch import Tensor

    from core.bigrams import TriggerLaw
    from core.concept_study import ConceptSettings, HarmByKind, HiddenConcept
    from core.curves import Curve
    from core.generalization import Generalization, ScalingStudy
    from core.ghosts import Ghosts, GhostSettings, Progress
    from core.induction import Embedding, Head, RecallStudy
    from core.landscape import Landscape, Plane
    from core.layers import LayerReading
    from core.one_prompt import OnePrompt
    from core.prompts import PromptLaw, Prompts
    from core.reshape import ReshapingStudy
    from core.separation import ErrorStudy, PhaseMap
    from core.sweep_table import SweepTable
    from core.text import Band, Prompting, Scores, Task
    from models.folder import Config
    from models.induction_transformer import Training
    from models.predictor import TransformerPredictor
    from models.reshaped_memories import ReshapedModel
    from models.text_lm import TextModel

F = TypeVar("F", bound=Callable)


GATE = Gate(limits.TURNS.value)
"""Where heavy functions wait for their session's turn."""

SEARCHES = Gate(1)
"""All searches of all sessions together take one core's time at most, so that the rest stays quick."""

TEXTS = Gate(max(1, limits.WORKERS.value))
"""Where text runs wait: they have processes of their own."""

GATES = (GATE, SEARCHES, TEXTS)

WORKERS = Pool(lambda: limits.WORKERS.value, lambda: limits.IDLE.value)

STORE = Store(lambda: limits.CACHE.value * limits.MIB, GATE)


def shared(entries: int = 64) -> Callable[[F], F]:
    """Decorator: keep up to `entries` results of a heavy function, shared by all sessions, never copied."""
    return STORE.shared(entries)


def quick(entries: int = 64) -> Callable[[F], F]:
    """The same for what is done at once, whoever else computes."""
    return STORE.shared(entries, heavy=False)


def loaded(entries: int) -> Callable[[F], F]:
    """The same for models: they are few, and count as such and not against the bytes of results."""
    return STORE.shared(entries, heavy=False, counted=False)


# ---- what answered ------------------------------------------------------------------------------

_ASKED = threading.local()


def forget_used() -> None:
    """From now on, note which models this thread's page asks, whether or not the answer is kept."""
    _ASKED.names = {}


def _note_used(kind: str, name: str) -> None:
    if not name.startswith("baseline: "):
        getattr(_ASKED, "names", {})[kind, name] = None


def used() -> tuple[tuple[str, str], ...]:
    """Kind and name of every model that was asked since `forget_used`."""
    return tuple(getattr(_ASKED, "names", {}))


def sums(kind: str, name: str) -> dict[str, str]:
    """sha256 by file of a model that was asked: of the zoo, this session's upload, or a language model."""
    if kind == "text":
        from models import text_lm

        return _file_sums(tuple(map(str, text_lm.files_of(name))))
    if name == uploads.NAME and (upload := uploads.current()):
        return dict(upload.sha256)
    from models import zoo

    return zoo.sums(name, zoo_folder())


LARGEST_SUMMED = 2**30
"""Bytes of a file past which its size is told and not its sum, which would take many seconds."""


@shared(8)
def _file_sums(paths: tuple[str, ...]) -> dict[str, str]:
    said = {}
    for path in map(Path, paths):
        if (size := path.stat().st_size) > LARGEST_SUMMED:
            said[path.name] = f"{size} bytes, no sum taken"
            continue
        with path.open("rb") as file:
            said[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return said


# ---- landscape ---------------------------------------------------------------------------------


@quick(24)
def landscape(table: str | bytes | None, **settings: Any) -> Landscape:
    """`core.landscape.landscape` of these settings; `table` is a pasted or uploaded one, or None."""
    torch_on_one_thread()
    from core.landscape import LandscapeSettings, landscape
    from core.tables import as_rows, parse_table

    patterns = None if table is None else as_rows(parse_table(table))
    return landscape(LandscapeSettings(patterns=patterns, **settings))


# ---- regression and checkpoints ----------------------------------------------------------------

METRICS = {
    "pooled R²": "pooled R2",
    "within-task R²": "within-task R2",
    "mean squared error": "MSE",
}
"""What pages call a measure, and what `core.curves` does."""

ZOO: Path | None = None
"""Where the checkpoints lie; None is the zoo's own folder. Tests point it elsewhere."""

PIECE = 64
"""Prompts answered between two looks at the progress bar."""

_GATE = threading.BoundedSemaphore(
    os.cpu_count() or 1
)  # passes of a network, of all threads together
_WARM: set[tuple[str, str]] = set()


def zoo_folder() -> Path:
    from models import zoo

    return ZOO or zoo.CHECKPOINTS


def zoo_names() -> tuple[str, ...]:
    """Checkpoints in the zoo."""
    from models import zoo

    return zoo.names(zoo_folder())


def zoo_sums() -> dict[str, dict[str, str]]:
    """sha256 of the files of every checkpoint in the zoo."""
    from models import zoo

    return {name: zoo.sums(name, zoo_folder()) for name in zoo.names(zoo_folder())}


def regression_views() -> tuple[str, ...]:
    """The pictures of the regression page that depend on which checkpoints are there."""
    there = set(zoo_names())
    can = {
        "known numbers": bool(there & {"linear-d20", "linear-d20-offset", "linear-d20-wide"}),
        "positions": {"linear-d20", "linear-d20-offset"} <= there,
        "training law": {"linear-d20", "linear-d20-wide"} <= there,
        "sweep file": True,
    }
    return tuple(view for view in can if can[view])


@dataclass(frozen=True)
class CheckpointFacts:
    """What there is to know of a checkpoint without reading its weights."""

    config: Config
    card: dict[str, Any]
    sha256: dict[str, str]  # by file name
    n_bytes: int
    n_weights: int


def checkpoint(name: str) -> CheckpointFacts:
    """Of the zoo, or of this session's upload. ValueError if there is none of that name."""
    if name == uploads.NAME and (upload := uploads.current()):
        from models import folder

        n_weights = folder.n_weights(upload.config)
        return CheckpointFacts(
            upload.config, dict(upload.card), dict(upload.sha256), upload.n_bytes, n_weights
        )
    return _zoo_checkpoint(name, str(zoo_folder()))


@quick(32)
def _zoo_checkpoint(name: str, root: str) -> CheckpointFacts:
    from models import folder, zoo

    config, card = zoo.config(name, Path(root)), zoo.card(name, Path(root))
    files = folder.read_files(Path(root) / name)
    sums = {
        file: hashlib.sha256(data).hexdigest()
        for file, data in sorted(files.items())
        if file != folder.CARD
    }
    return CheckpointFacts(
        config, card, sums, sum(map(len, files.values())), folder.n_weights(config)
    )


def is_warm(name: str) -> bool:
    """Whether this checkpoint answers without an import and without reading a file."""
    return (name, str(zoo_folder())) in _WARM or (name == uploads.NAME and "torch" in sys.modules)


def regressor(name: str) -> TransformerPredictor:
    """The checkpoint as a predictor. All sessions together make at most one pass a core at once."""
    torch_on_one_thread()
    if name == uploads.NAME and (upload := uploads.current()):
        from models.predictor import TransformerPredictor

        return TransformerPredictor(upload.model, name, lambda: _GATE)
    loaded = _zoo_regressor(name, str(zoo_folder()))
    _WARM.add((name, str(zoo_folder())))
    return loaded


@loaded(8)
def _zoo_regressor(name: str, root: str) -> TransformerPredictor:
    from models import zoo

    return zoo.predictor(name, Path(root), lambda: _GATE)


@loaded(1)
def torch_on_one_thread() -> None:
    """Import torch and give each operation one thread.

    Sessions share the cores by passes: threads of one operation that meet other load wait for each
    other. Seen: on two busy cores a study of 0.2 s took more than 100 s with two threads.
    """
    import torch

    torch.set_num_threads(1)


@loaded(1)
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="predict")


@dataclass(frozen=True)
class Draw:
    """Which prompts: `n_prompts` of the law, each of `n_examples` examples and a query."""

    law: PromptLaw
    n_prompts: int
    n_examples: int
    seed: int


MOST_NUMBERS = 10_000_000
"""In the inputs of one draw: 76 MiB. Eight draws are kept, for all sessions together."""


@quick(8)
def prompts(draw: Draw) -> Prompts:
    """`core.prompts.sample_prompts` with a generator of the draw's seed. ValueError past
    MOST_NUMBERS, which only an uploaded checkpoint of many dimensions can ask for."""
    import torch

    size = draw.n_prompts * (draw.n_examples + 1) * draw.law.n_dims
    if size > MOST_NUMBERS:
        raise ValueError(
            f"{draw.n_prompts} prompts of {draw.n_examples + 1} inputs in {draw.law.n_dims} "
            f"dimensions are {size:,} numbers, at most {MOST_NUMBERS:,} are drawn: take fewer "
            "prompts, or shorter ones."
        )

    from core.prompts import sample_prompts

    generator = torch.Generator().manual_seed(draw.seed)
    return sample_prompts(draw.law, draw.n_prompts, draw.n_examples + 1, generator)


def answers(
    who: str,
    draw: Draw,
    tick: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Predictions `(B, P)` of a checkpoint, or of `"baseline: NAME"`, for these prompts.

    Pieces of PIECE prompts are kept one by one, so that work that was broken off goes on where it
    stopped. `tick(prompts of the piece)` is called after each.
    """
    baseline = who.removeprefix("baseline: ") if who.startswith("baseline: ") else None
    parts = []
    for start in range(0, draw.n_prompts, PIECE):
        if baseline is not None:
            part = _baseline_piece(baseline, draw, start)
        else:
            part = _checkpoint_piece(_key(who), draw, start, regressor(who))
        parts.append(part)
        if tick is not None:
            tick(len(part))
    return np.concatenate(parts)


@shared(256)
def _baseline_piece(name: str, draw: Draw, start: int) -> np.ndarray:
    from core.predictors import BASELINES

    piece = prompts(draw).take(slice(start, start + PIECE))
    return BASELINES[name](draw.law)(piece).numpy()


@shared(256)
def _checkpoint_piece(
    key: str,
    draw: Draw,
    start: int,
    _predictor: TransformerPredictor,
) -> np.ndarray:
    piece = prompts(draw).take(slice(start, start + PIECE))
    share = -(-piece.n_prompts // (os.cpu_count() or 1))
    shares = [piece.take(slice(i, i + share)) for i in range(0, piece.n_prompts, share)]
    return np.concatenate([p.numpy() for p in _workers().map(_predictor, shares)])


def curve(who: str, draw: Draw, measure: str, tick: Callable[[int], None] | None = None) -> Curve:
    """`core.curves.curve` of a learner: the measure after 0, 1, 2, ... examples and its band."""
    return _curve(who, _key(who), draw, measure, answers(who, draw, tick))


@shared(256)
def _curve(name: str, key: str, draw: Draw, measure: str, _preds: np.ndarray) -> Curve:
    import torch

    from core.curves import curve

    generator = torch.Generator().manual_seed(draw.seed)
    return curve(
        name, torch.from_numpy(_preds), prompts(draw), METRICS[measure], generator=generator
    )


@shared(32)
def difference(who: str, other: str, root: str, draw: Draw, measure: str) -> Curve:
    """`core.curves.difference`: a learner's measure minus the other's, on the same prompts."""
    import torch

    from core.curves import difference

    ours, theirs = (torch.from_numpy(answers(w, draw)) for w in (who, other))
    generator = torch.Generator().manual_seed(draw.seed)
    return difference(
        f"{who} - {other}", ours, theirs, prompts(draw), METRICS[measure], generator=generator
    )


def ridge_is_least_squares(law: PromptLaw) -> bool:
    """Whether labels have no noise, where the ridge at the true noise is least squares."""
    from core.prompts import label_noise_variance

    return label_noise_variance(law) == 0


def label_scale(law: PromptLaw) -> float:
    """`core.prompts.label_scale`."""
    from core.prompts import label_scale

    return label_scale(law)


def torch_is_loaded() -> bool:
    return "torch" in sys.modules


@shared(64)
def _one_prompt(
    key: str,
    draw: Draw,
    prompt: int,
    n: int,
    beside: tuple[str, ...],
    _predictor: TransformerPredictor,
) -> OnePrompt:
    from core.one_prompt import look_closely
    from core.predictors import BASELINES

    learners = {_predictor.name: _predictor} | {name: BASELINES[name](draw.law) for name in beside}
    return look_closely(learners, prompts(draw), prompt, n)


def one_prompt(
    who: str,
    draw: Draw,
    prompt: int,
    n: int,
    beside: tuple[str, ...] = (),
) -> OnePrompt:
    """`core.one_prompt.look_closely` with the checkpoint `who` and baselines beside it."""
    return _one_prompt(_key(who), draw, prompt, n, beside, regressor(who))


def attention(who: str, draw: Draw, prompt: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """What the query of a prompt attends to after n examples.

    Weights `(L, H, n, 2)` to the x and y token of each example and `(L, H)` to the query's own
    token. A checkpoint of one attention layer over pairs has `(1, 1, n, 1)` and no own token.
    """
    return _attention(_key(who), draw, prompt, n, regressor(who))


@shared(64)
def _attention(
    key: str, draw: Draw, prompt: int, n: int, _predictor: TransformerPredictor
) -> tuple[np.ndarray, np.ndarray]:
    import torch

    from models.one_layer_attention import OneLayerAttention
    from models.predictor import attention

    drawn, model = prompts(draw), _predictor.model
    with _GATE, torch.inference_mode():
        if isinstance(model, OneLayerAttention):
            keys = model.keys(drawn.xs[prompt, :n].float())
            query = model.queries(drawn.queries[prompt, n].float())
            weights = (model.beta * keys @ query).softmax(0)
            return weights.numpy().reshape(1, 1, n, 1), np.zeros((1, 1))
        seen = attention(model, drawn, prompt, n)
        return seen.weights.numpy(), seen.itself.numpy()


def _key(who: str) -> str:
    """Who answers, in the key of a cache: an upload is known by its sums, not by its name."""
    _note_used("regressor", who)
    upload = uploads.current() if who == uploads.NAME else None
    return upload.key if upload else f"{zoo_folder()}/{who}"


@quick(4)
def sweep_table(table: str | bytes) -> SweepTable:
    """`core.sweep_table.parse` of an uploaded or pasted sweep."""
    from core.sweep_table import parse

    return parse(table)


# ---- retrieval error -----------------------------------------------------------------------------


@shared(32)
def error_sweep(vary: str, values: tuple[float, ...], **settings: Any) -> ErrorStudy:
    """`core.separation.error_study`. Leave the setting that varies out: the study is then the
    same, and found again, wherever its control stands."""
    torch_on_one_thread()
    from core.separation import StudySettings, error_study

    return error_study(StudySettings(**settings), vary, values)


@shared(32)
def phase_map(
    betas: tuple[float, ...],
    noises: tuple[float, ...],
    draws: int,
    max_steps: int,
    tol: float,
    **settings: Any,
) -> PhaseMap:
    """`core.separation.phase_map`; it does not depend on beta and noise of the settings."""
    torch_on_one_thread()
    from core.separation import StudySettings, phase_map

    return phase_map(StudySettings(**settings), betas, noises, draws, max_steps, tol)


@shared(32)
def reshaping_study(**settings: Any) -> ReshapingStudy:
    """`core.reshape.reshaping_study`."""
    torch_on_one_thread()
    from core.reshape import reshaping_study
    from core.separation import StudySettings

    return reshaping_study(StudySettings(**settings))


# ---- in-context text -----------------------------------------------------------------------------

ROUND = 16
"""Questions answered between two looks at the progress bar."""


@dataclass(frozen=True)
class TextTask:
    """Which task: one of the lab's, a folder as it stood (`stamp`), or a zip."""

    name: str
    folder: str = ""
    stamp: str = ""
    archive: bytes = b""
    words: tuple[str, ...] = ()


@quick(8)
def text_task(which: TextTask) -> Task:
    """`core.text`'s task of this description."""
    from core import text

    if which.archive:
        task = text.read_tweeteval_zip(which.archive)
    elif which.folder:
        task = text.read_tweeteval_folder(Path(which.folder))
    else:
        task = text.bundled(which.name)
    return text.with_words(task, which.words) if which.words else task


_TEXT_MODELS: set[str] = set()


def text_model_is_warm(which: str) -> bool:
    return which in _TEXT_MODELS


def text_precision(which: str) -> str:
    """Get a causal language model loaded (`models.text_lm.load`), and say in what numbers it computes."""
    said = _text_precision(which, in_process=not limits.WORKERS.value)
    _TEXT_MODELS.add(which)
    return said


@STORE.shared(8, gate=TEXTS)
def _text_precision(which: str, in_process: bool) -> str:
    if not in_process:
        return WORKERS("text_model", which)
    return str(text_model(which).model.dtype).removeprefix("torch.")


def text_model(which: str) -> TextModel:
    """The model in this process: where there are no workers. Two are kept."""
    torch_on_one_thread()
    return _text_model(which)


@loaded(2)
def _text_model(which: str) -> TextModel:
    from models import text_lm

    return text_lm.load(which)


def text_scores(
    which: TextTask,
    model: str,
    k: int,
    how: Prompting,
    n: int,
    tick: Callable[[int], None] | None = None,
) -> Scores:
    """`core.text.answer` of n questions after k examples; `tick(questions)` after each round.

    Rounds are kept one by one, so that more questions cost only what is new.
    """
    from core import text

    _note_used("text", model)
    asked = text.questions(text_task(which), k, how, n)
    rows: list[np.ndarray] = []
    for start in range(0, len(asked), ROUND):
        stop = min(start + ROUND, len(asked))
        rows += _text_round(_text_key(which), model, k, how, start, stop, which)
        if tick is not None:
            tick(stop - start)
    return text.Scores.of(asked, rows)


def _text_key(which: TextTask) -> str:
    return hashlib.sha256(repr(which).encode()).hexdigest()


@STORE.shared(2048, gate=TEXTS)
def _text_round(
    task: str, model: str, k: int, how: Prompting, start: int, stop: int, _which: TextTask
) -> list[np.ndarray]:
    from core import text

    asked = text.questions(text_task(_which), k, how, stop, start)
    if limits.WORKERS.value:
        return WORKERS(
            "score_text", model, [(q.prompt, q.continuations) for q in asked], text.PIECE
        )
    lm = text_model(model)

    def piece(at: int) -> list[np.ndarray]:
        with _GATE:
            return text.answer_piece(lm, asked[at : at + text.PIECE])

    return [row for part in _workers().map(piece, range(0, len(asked), text.PIECE)) for row in part]


def text_measures(
    which: TextTask, model: str, k: int, how: Prompting, n: int, scores: Scores
) -> dict[str, Band]:
    """`core.text.measure` of those scores."""
    return _text_measures(_text_key(which), model, k, how, n, which, scores)


@shared(512)
def _text_measures(
    task: str, model: str, k: int, how: Prompting, n: int, _which: TextTask, _scores: Scores
) -> dict[str, Band]:
    from core import text

    return text.measure(text_task(_which), _scores, how.seed)


# ---- hidden concept ------------------------------------------------------------------------------

_DRAWN = (
    "dimension", "examples", "prompts", "keys", "correlation", "scale", "noise", "irrelevant",
    "contradicting", "opposition", "seed",
)  # fmt: skip
"""The settings that the prompts depend on; GPT-2 is not asked again when another one moves."""


def gpt2_of(dimension: int) -> str | None:
    """The GPT-2 that reads inputs of so many dimensions: this session's upload, else of the zoo."""
    fits = [
        name
        for name in uploads.names() + zoo_names()
        if hasattr(config := checkpoint(name).config, "n_layer") and config.n_dims == dimension
    ]
    return min(fits, key=lambda name: (name != uploads.NAME, len(name), name), default=None)


def hidden_concept(
    gpt2: str | None, tick: Callable[[int], None] | None = None, **settings: Any
) -> HiddenConcept:
    """`core.concept_study.hidden_concept`, with a GPT-2 on the same prompts if one is named.

    Past its last position GPT-2's answers are NaN.
    """
    from core.concept_study import ConceptSettings

    given = ConceptSettings(**settings)
    answered = None if gpt2 is None else _concept_answers(gpt2, given, tick)
    return _hidden_concept(given, gpt2 and _key(gpt2), gpt2, answered)


@shared(24)
def _hidden_concept(
    settings: ConceptSettings, key: str | None, name: str | None, _answers: np.ndarray | None
) -> HiddenConcept:
    from core.concept_study import hidden_concept

    if name is None or _answers is None:
        return hidden_concept(settings)
    return hidden_concept(settings, {name: _Said(name, _answers)})


@dataclass(frozen=True)
class _Said:
    """A predictor that has answered these prompts before."""

    name: str
    answers: np.ndarray

    def __call__(self, prompts: Prompts) -> Tensor:
        import torch

        return torch.from_numpy(self.answers)


def _concept_answers(
    who: str, settings: ConceptSettings, tick: Callable[[int], None] | None
) -> np.ndarray:
    from core.concept_study import ConceptSettings

    drawn = ConceptSettings(**{name: getattr(settings, name) for name in _DRAWN})
    parts = []
    for start in range(0, drawn.prompts, PIECE):
        parts.append(_concept_piece(_key(who), drawn, start, regressor(who)))
        if tick is not None:
            tick(len(parts[-1]))
    return np.concatenate(parts)


@shared(32)
def _concept_piece(
    key: str, drawn: ConceptSettings, start: int, _predictor: TransformerPredictor
) -> np.ndarray:
    from core.concept_study import draw_concepts

    asked = draw_concepts(drawn).as_prompts().take(slice(start, start + PIECE))
    out = np.full(asked.ys.shape, np.nan)
    reach = min(asked.n_points, _predictor.model.config.max_examples + 1)
    out[:, :reach] = _predictor(asked.first(reach)).numpy()
    return out


@shared(24)
def concept_harm(**settings: Any) -> HarmByKind:
    """`core.concept_study.harm_by_kind`."""
    from core.concept_study import ConceptSettings, harm_by_kind

    return harm_by_kind(ConceptSettings(**settings))


# ---- generalisation ------------------------------------------------------------------------------


def one_layer_names() -> tuple[str, ...]:
    """The one-layer attention checkpoints of the zoo: those the theorem speaks of."""
    return tuple(n for n in zoo_names() if not hasattr(checkpoint(n).config, "n_layer"))


def generalization(who: str | None, **settings: Any) -> Generalization:
    """`core.generalization.generalization`; with a checkpoint, of its head on its training law."""
    return _generalization(who and _key(who), who and regressor(who), **settings)


@shared(48)
def _generalization(
    key: str | None, _predictor: TransformerPredictor | None, **settings: Any
) -> Generalization:
    from core.generalization import GeneralizationSettings, generalization

    return generalization(GeneralizationSettings(**settings), *_head(_predictor))


def input_scaling(who: str | None, scales: tuple[float, ...], **settings: Any) -> ScalingStudy:
    """`core.generalization.scaling_study`, as above."""
    return _input_scaling(who and _key(who), scales, who and regressor(who), **settings)


@shared(48)
def _input_scaling(
    key: str | None,
    scales: tuple[float, ...],
    _predictor: TransformerPredictor | None,
    **settings: Any,
) -> ScalingStudy:
    from core.generalization import GeneralizationSettings, scaling_study

    head, law = _head(_predictor)
    return scaling_study(GeneralizationSettings(**settings), head, law, scales)


def _head(predictor: TransformerPredictor | None) -> tuple[Any, PromptLaw | None]:
    if predictor is None:
        return None, None
    from models.law import training_prompt_law

    model: Any = predictor.model
    return model.head, training_prompt_law(model.config)


# ---- ghost examples ------------------------------------------------------------------------------


class Search:
    """A search for ghosts that goes on where it was left, for every session that asks for the same.

    It advances only while a page asks it to, so leaving or closing that page stops it.
    """

    def __init__(self, begin: Callable[[], Iterator[Progress]]) -> None:
        self._begin, self._lock = begin, threading.Lock()
        self._rest = begin()
        self.newest: Progress | None = None
        self.seconds = 0.0  # spent at work, without the pauses between slices

    def advance(self, until: float | None) -> Progress:
        """Search until `time.monotonic()` passes `until`, one report at least; None: stand still.

        A search that has not begun makes its first report in any case.
        """
        with self._lock:
            if self.newest is None or until is not None:
                self._step()  # one in any case: a queue may have used up the time
            while until is not None and time.monotonic() < until and not self._done:
                self._step()
            assert self.newest is not None
            return self.newest

    @property
    def _done(self) -> bool:
        return self.newest is not None and self.newest.ghosts.finished

    def _step(self) -> None:
        if self._done:
            return
        with SEARCHES.turn():
            start = time.monotonic()
            try:
                self.newest = next(self._rest)
            except BaseException:  # a generator that raised is dead: begin anew next time
                self._rest, self.newest, self.seconds = self._begin(), None, 0.0
                raise
            self.seconds += time.monotonic() - start

    @property
    def share(self) -> float:
        """Of the steps, how many are done."""
        return self.newest.step / self.newest.of if self.newest else 0.0


def ghost_search(who: str, settings: GhostSettings) -> Search:
    """`core.ghosts.construct` against a checkpoint, to be advanced in slices."""
    return _ghost_search(_key(who), settings, regressor(who))


@quick(64)
def _ghost_search(key: str, settings: GhostSettings, _predictor: TransformerPredictor) -> Search:
    from functools import partial

    from core.ghosts import construct
    from models.keys_values import ask

    return Search(lambda: construct(partial(ask, _predictor.model), settings))


def reshaped_ghosts(
    who: str, progress: Progress, searched: bool, prompt: int, **maps: Any
) -> ReshapedModel:
    """`models.reshaped_memories.reshape_ghosts` in float64, of the best restart's ghosts.

    Args:
        searched: take them as found; else the prompt of the law that their search began from.
        prompt: number of the true prompt, counted from 1.
        maps: ridge, tolerance and across_heads.
    """
    found = progress.ghosts
    which = (progress.step if searched else 0, found.best)
    return _reshaped_ghosts(
        _key(who), found.settings, which, prompt, tuple(maps.items()), found, regressor(who)
    )


@shared(256)
def _reshaped_ghosts(
    key: str,
    settings: GhostSettings,
    which: tuple[int, int],
    prompt: int,
    maps: tuple[tuple[str, Any], ...],
    _ghosts: Ghosts,
    _predictor: TransformerPredictor,
) -> ReshapedModel:
    import torch

    from core.prompts import sample_prompts
    from models.reshaped_memories import reshape_ghosts

    t, (step, best) = settings.examples, which
    draw = torch.Generator().manual_seed(settings.seed + prompt)
    true = sample_prompts(settings.law, 1, t + GHOST_QUERIES, draw)
    xs, ys = true.xs[0].double(), true.ys[0].double()
    ghosts = (_ghosts.xs, _ghosts.ys) if step else (_ghosts.start_xs, _ghosts.start_ys)
    with _GATE:
        return reshape_ghosts(
            _in_float64(key, _predictor), xs[:t], ys[:t], ghosts[0][best], ghosts[1][best],
            xs[t:], ys[t:], **dict(maps),
        )  # fmt: skip


GHOST_QUERIES = 64
"""How many queries of one task are asked after the true prompt and after what replaces it."""


@loaded(8)
def _in_float64(key: str, _predictor: TransformerPredictor) -> Any:
    """The checkpoint's weights in float64, where an exact map is exact to 1e-10 and not to 1e-6."""
    return copy.deepcopy(_predictor.model).double()


# ---- layers --------------------------------------------------------------------------------------


def layer_reading(who: str, draw: Draw, lengths: tuple[int, ...]) -> LayerReading:
    """`models.layer_reading.read_layers` of a checkpoint on these prompts at these lengths."""
    return _layer_reading(_key(who), draw, lengths, regressor(who))


@shared(32)
def _layer_reading(
    key: str, draw: Draw, lengths: tuple[int, ...], _predictor: TransformerPredictor
) -> LayerReading:
    from models.layer_reading import read_layers

    return read_layers(_predictor.model, prompts(draw), lengths, lambda: _GATE)


# ---- induction head ------------------------------------------------------------------------------


@quick(64)
def induction_prompt(triggers: str, odds: float, length: int, seed: int) -> str:
    """A prompt drawn from the bigram model, ending in a trigger that came before."""
    from core.bigrams import TriggerLaw, decode, draw_prompt

    return decode(draw_prompt(TriggerLaw(triggers, odds), length, np.random.default_rng(seed)))


@quick(16)
def induction_embedding(dimension: int, places: int, seed: int) -> Embedding:
    """`core.induction.random_embedding`, or orthonormal vectors where `dimension` is 0."""
    from core.induction import orthonormal, random_embedding

    if not dimension:
        return orthonormal(places)
    return random_embedding(dimension, places, np.random.default_rng(seed))


@quick(64)
def induction_heads(prompt: str, dimension: int, seed: int, **settings: Any) -> tuple[Head, ...]:
    """Closed form, matrices in orthonormal vectors, matrices in the embedding of `dimension`."""
    from core.bigrams import encode
    from core.induction import HeadSettings, head, run

    tokens, s = encode(prompt), HeadSettings(**settings)
    exact = run(tokens, induction_embedding(0, len(tokens), 0), s)
    embedded = exact
    if dimension:
        embedded = run(tokens, induction_embedding(dimension, len(tokens), seed), s)
    return head(tokens, s), exact, embedded


@shared(32)
def induction_recall(memories: int, dimensions: tuple[int, ...], seed: int) -> RecallStudy:
    """`core.induction.recall_study` of 20 draws a dimension."""
    from core.induction import recall_study

    return recall_study(memories, dimensions, 20, np.random.default_rng(seed))


@dataclass(frozen=True)
class InductionTraining:
    """A training of the zoo read on one prompt, snapshot by snapshot."""

    law: TriggerLaw
    longest: int
    card: dict[str, Any]
    logits: np.ndarray  # (S, V)
    attention1: np.ndarray  # (S, T, T)
    attention2: np.ndarray  # (S, T, T)


def induction_law(name: str) -> TriggerLaw:
    """The law a training of the zoo drew its prompts from."""
    from models import zoo

    return zoo.training_config(name, zoo_folder()).law


def induction_training(name: str, prompt: str) -> InductionTraining:
    """Raises ValueError for a prompt the model has no positions for."""
    torch_on_one_thread()
    _note_used("training", name)
    return _induction_training(name, prompt, str(zoo_folder()))


@shared(32)
def _induction_training(name: str, prompt: str, root: str) -> InductionTraining:
    from core.bigrams import encode
    from models import zoo
    from models.induction_transformer import read_prompt

    config = zoo.training_config(name, Path(root))
    # What is too long the model itself refuses, and says why.
    tokens = encode(prompt, most=max(config.n_positions, len(prompt)))
    with _GATE:
        read = read_prompt(_induction_snapshots(name, root), tokens)
    return InductionTraining(config.law, config.n_positions, zoo.card(name, Path(root)), *read)


def on_plane(plane: Plane, points: np.ndarray) -> np.ndarray:
    """Where points `(N, D)` lie on a landscape's plane, `(N, 2)`."""
    import torch

    return plane.project(torch.from_numpy(points)).numpy()


@loaded(2)
def _induction_snapshots(name: str, root: str) -> Training:
    from models import zoo

    return zoo.training(name, Path(root))
