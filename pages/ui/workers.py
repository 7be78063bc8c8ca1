"""Worker processes of the server: long text runs are computed there, and a killed one is replaced. No Streamlit.

A worker costs memory of its own (torch, transformers and the language model), so that there is one by default, it
starts when it is first needed and ends after a minute without work.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from pages.ui.gate import LOOK, visitor

ROOT = Path(__file__).parents[2]


class Ended(RuntimeError):
    """The process that computed is gone. The next one is asked as if nothing had been."""


class Failed(RuntimeError):
    """A job raised something that is not for the reader."""


class _Worker:
    def __init__(self, module: str) -> None:
        self.pipe, theirs = Pipe()
        command = [sys.executable, "-m", module, str(theirs.fileno())]
        # Not `multiprocessing.Process`, whose child would run Streamlit's script once more on its way.
        self.process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()
        self.used = time.monotonic()
        self.busy = False

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.wait()


class Pool:
    """Up to `most` worker processes.

    Args:
        most: how many, asked anew at each job.
        idle: seconds without a job after which a worker ends.
        module: what a worker runs.
    """

    def __init__(
        self, most: Callable[[], int], idle: Callable[[], float], module: str = "models.worker"
    ) -> None:
        self._most, self._idle, self._module = most, idle, module
        self._free = threading.Condition()
        self._workers: list[_Worker] = []
        self._numbers = itertools.count()
        self.started = self.died = 0

    @property
    def pids(self) -> list[int]:
        return [w.process.pid for w in list(self._workers)]

    def __call__(self, job: str, *arguments: Any) -> Any:
        """The job's result.

        Raises Ended if its process was killed, ValueError if the job refused, Failed for any other error; and
        whatever `look` of this thread's visitor raises: the worker then ends its job unheard.
        """
        worker = self._take()
        try:
            result = self._ask(worker, next(self._numbers), job, arguments)
        except Ended:
            worker.process.kill()  # in case only its pipe broke
            worker.process.wait()
            raise
        finally:
            self._give(worker)
        kind, *rest = result
        if kind == "done":
            return rest[0]
        if rest[0] == "refused":
            raise ValueError(rest[1])
        raise Failed(rest[0])

    def _ask(self, worker: _Worker, number: int, job: str, arguments: tuple[Any, ...]) -> Any:
        who, pipe = visitor(), worker.pipe
        try:
            pipe.send((number, job, arguments))
            while True:
                while not pipe.poll(LOOK):
                    who.look()
                answered, *result = pipe.recv()
                if answered == number:  # else of a job that nobody waited for
                    return result
        except (EOFError, OSError):
            self.died += 1
            raise Ended(
                "The process that computed this has ended, perhaps because memory ran short."
            ) from None

    def _take(self) -> _Worker:
        with self._free:
            while True:
                for worker in self._workers:
                    if not worker.busy and worker.process.poll() is None:
                        worker.busy = True
                        return worker
                for worker in [w for w in self._workers if w.process.poll() is not None]:
                    if not worker.busy:
                        self._workers.remove(worker)
                        worker.end()
                if len(self._workers) < max(1, self._most()):
                    worker = _Worker(self._module)
                    self.started += 1
                    worker.busy = True
                    self._workers.append(worker)
                    return worker
                self._free.wait(LOOK)
                visitor().look()

    def _give(self, worker: _Worker) -> None:
        with self._free:
            worker.busy, worker.used = False, time.monotonic()
            self._free.notify()
        timer = threading.Timer(self._idle(), self._rest)
        timer.daemon = True
        timer.start()

    def _rest(self) -> None:
        """End the workers that have had nothing to do."""
        now = time.monotonic()
        with self._free:
            for worker in list(self._workers):
                if not worker.busy and now - worker.used >= self._idle() - 0.01:
                    self._workers.remove(worker)
                    worker.end()

    def close(self) -> None:
        """End all workers, at work or not."""
        with self._free:
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()
