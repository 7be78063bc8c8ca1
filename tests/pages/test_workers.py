"""Worker processes: what they answer, and what happens when one is killed."""

import os
import signal
import threading

import numpy as np
import pytest

from pages.ui.gate import Superseded, Visitor, visiting
from pages.ui.workers import Ended, Failed, Pool


@pytest.fixture
def pool():
    pool = Pool(lambda: 1, lambda: 600, "tests.pages.worker_jobs")
    yield pool
    pool.close()


def test_a_killed_worker_is_told_and_replaced(pool):
    assert pool("pid") == pool("pid") != os.getpid(), "one process for all jobs"
    (first,) = pool.pids

    def kill():
        os.kill(first, signal.SIGKILL)

    # The look between two looks at the pipe: the job is under way then.
    with visiting(Visitor("a", look=kill)), pytest.raises(Ended, match="has ended"):
        pool("hang")
    assert np.array_equal(pool("double", np.arange(3)), [0, 2, 4])
    assert pool.died == 1
    assert pool.pids != [first]


def test_one_killed_at_rest_is_replaced_unseen(pool):
    first = pool("pid")
    os.kill(first, signal.SIGKILL)
    pool._workers[0].process.wait()
    assert pool("pid") != first


def test_refusals_are_for_the_reader_and_other_errors_are_not(pool):
    with pytest.raises(ValueError, match="no such thing"):
        pool("refuse")
    with pytest.raises(Failed) as caught:
        pool("fail")
    assert str(caught.value) == "KeyError"
    assert pool.started == 1, "neither costs the process"


def test_who_does_not_wait_for_the_answer_does_not_spoil_the_next(pool):
    def gone():
        raise Superseded

    pool("pid")
    with visiting(Visitor("a", look=gone)), pytest.raises(Superseded):
        pool("hang")
    # The worker still hangs in that job: a newer one gets it only when it is free, or a new process.
    os.kill(pool.pids[0], signal.SIGKILL)
    pool._workers[0].process.wait()
    assert pool("double", 4) == 8


def test_a_worker_without_work_ends():
    pool = Pool(lambda: 1, lambda: 0.05, "tests.pages.worker_jobs")
    pool("pid")
    process = pool._workers[0].process if pool._workers else None
    ended = threading.Event()
    while process is not None and pool._workers and not ended.wait(0.01):
        pass
    assert pool.pids == []
