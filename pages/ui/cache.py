"""Every `st.cache_*` of the lab, and only here.

Results are frozen dataclasses that all sessions share: `cache_resource` hands out the same object without
copying, so nobody may write into one. Keys are scalars and seeds (Streamlit only samples large arrays when
it hashes them), sizes are bounded, and `core` is imported inside so that a page without torch stays free of it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import streamlit as st

from pages.ui import uploads

if TYPE_CHECKING:
    from core.landscape import Landscape
    from core.prompts import PromptLaw, Prompts
    from models.folder import Config
    from models.predictor import TransformerPredictor

F = TypeVar("F", bound=Callable)


def shared(entries: int = 64) -> Callable[[F], F]:
    """Decorator: keep up to `entries` results, shared by all sessions, never copied."""
    return st.cache_resource(max_entries=entries, show_spinner=False)


# ---- landscape ---------------------------------------------------------------------------------


@shared(24)
def landscape(table: str | bytes | None, **settings: Any) -> Landscape:
    """`core.landscape.landscape` of these settings; `table` is a pasted or uploaded one, or None."""
    from core.landscape import LandscapeSettings, landscape
    from core.tables import as_rows, parse_table

    patterns = None if table is None else as_rows(parse_table(table))
    return landscape(LandscapeSettings(patterns=patterns, **settings))


# ---- regression and checkpoints ----------------------------------------------------------------

ZOO: Path | None = None
"""Where the checkpoints lie; None is the zoo's own folder. Tests point it elsewhere."""

PIECE = 64
"""Prompts answered between two looks at the progress bar."""

_GATE = threading.BoundedSemaphore(os.cpu_count() or 1)
_WARM: set[tuple[str, str]] = set()


def zoo_folder() -> Path:
    from models import zoo

    return ZOO or zoo.CHECKPOINTS


def zoo_names() -> tuple[str, ...]:
    """Checkpoints in the zoo."""
    from models import zoo

    return zoo.names(zoo_folder())


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


@shared(32)
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
    """The checkpoint as a predictor. All sessions together make as many passes at once as there are cores."""
    torch_on_one_thread()
    if name == uploads.NAME and (upload := uploads.current()):
        from models.predictor import TransformerPredictor

        return TransformerPredictor(upload.model, name, lambda: _GATE)
    loaded = _zoo_regressor(name, str(zoo_folder()))
    _WARM.add((name, str(zoo_folder())))
    return loaded


@shared(8)
def _zoo_regressor(name: str, root: str) -> TransformerPredictor:
    from models import zoo

    return zoo.predictor(name, Path(root), lambda: _GATE)


@shared(1)
def torch_on_one_thread() -> None:
    """Import torch and give each operation one thread: sessions share the cores by passes, not by operations,
    because threads of one operation that meet other load wait for each other."""
    import torch

    torch.set_num_threads(1)


@shared(1)
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="predict")


@shared(8)
def prompts(law: PromptLaw, n_prompts: int, n_points: int, seed: int) -> Prompts:
    """`core.prompts.sample_prompts` with a generator of this seed."""
    import torch

    from core.prompts import sample_prompts

    return sample_prompts(law, n_prompts, n_points, torch.Generator().manual_seed(seed))


def answers(
    who: str,
    law: PromptLaw,
    n_prompts: int,
    n_points: int,
    seed: int,
    tick: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Predictions `(B, P)` of a checkpoint, or of `"baseline: NAME"`, for these prompts.

    Pieces of PIECE prompts are kept one by one, so that work that was broken off goes on where it stopped.
    `tick(prompts of the piece)` is called after each.
    """
    baseline = who.removeprefix("baseline: ") if who.startswith("baseline: ") else None
    parts = []
    for start in range(0, n_prompts, PIECE):
        if baseline is not None:
            part = _baseline_piece(baseline, law, n_prompts, n_points, seed, start)
        else:
            upload = uploads.current() if who == uploads.NAME else None
            key = upload.key if upload else f"{zoo_folder()}/{who}"
            part = _checkpoint_piece(key, law, n_prompts, n_points, seed, start, regressor(who))
        parts.append(part)
        tick(len(part))
    return np.concatenate(parts)


@shared(256)
def _baseline_piece(
    name: str, law: PromptLaw, n_prompts: int, n_points: int, seed: int, start: int
) -> np.ndarray:
    from core.predictors import BASELINES

    piece = prompts(law, n_prompts, n_points, seed).take(slice(start, start + PIECE))
    return BASELINES[name](law)(piece).numpy()


@shared(256)
def _checkpoint_piece(
    key: str,
    law: PromptLaw,
    n_prompts: int,
    n_points: int,
    seed: int,
    start: int,
    _predictor: TransformerPredictor,
) -> np.ndarray:
    piece = prompts(law, n_prompts, n_points, seed).take(slice(start, start + PIECE))
    share = -(-piece.n_prompts // (os.cpu_count() or 1))
    shares = [piece.take(slice(i, i + share)) for i in range(0, piece.n_prompts, share)]
    return np.concatenate([p.numpy() for p in _workers().map(_predictor, shares)])
