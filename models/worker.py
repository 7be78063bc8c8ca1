"""A process that computes for the lab's server, and may be killed without harm: `python -m models.worker FD`.

It reads `(number, job, arguments)` from the pipe FD and answers `(number, "done", result)` or `(number, "failed",
kind, message)`; it ends when the server does. Both ends of the pipe are ours, made by the server for this one
process, so that what travels as a pickle comes from nobody else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

NICENESS = 5
"""Pages that answer in a moment come before what is computed here."""

Asked = Sequence[tuple[str, tuple[str, ...]]]
_models: dict[str, Any] = {}


def text_model(which: str) -> str:
    """Load a language model in place of the one before; says in what numbers it computes."""
    import torch

    from models import text_lm

    torch.set_num_threads(1)  # pieces share the cores, see `score_text`
    if which not in _models:
        _models.clear()
        _models[which] = text_lm.load(which)
    return str(_models[which].model.dtype).removeprefix("torch.")


def score_text(which: str, asked: Asked, piece: int) -> list[np.ndarray]:
    """Log-probabilities of the answers to each `(prompt, answers)`, `piece` questions at a time."""
    text_model(which)
    lm = _models[which]

    def part(start: int) -> list[np.ndarray]:
        some = list(asked[start : start + piece])
        rows = dict(lm.score(some))
        return [rows[i] for i in range(len(some))]

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [row for rows in pool.map(part, range(0, len(asked), piece)) for row in rows]


JOBS: Mapping[str, Callable[..., Any]] = {"text_model": text_model, "score_text": score_text}


def serve(pipe: Connection, jobs: Mapping[str, Callable[..., Any]]) -> None:
    """Do one job after another until the other end closes."""
    while True:
        try:
            number, job, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer: tuple[Any, ...] = (number, "done", jobs[job](*arguments))
        except Exception as reason:
            kind = "refused" if isinstance(reason, ValueError) else type(reason).__name__
            answer = (number, "failed", kind, str(reason))
        pipe.send(answer)


def main(jobs: Mapping[str, Callable[..., Any]] = JOBS) -> None:
    os.nice(NICENESS)
    serve(Connection(int(sys.argv[1])), jobs)


if __name__ == "__main__":
    main()
