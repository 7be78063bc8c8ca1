"""A served lab among several visitors, who speak its protocol: the queue, the newest request, a cut line."""

import time

import pytest

from benchmarks.browser import ROOT, serve
from benchmarks.protocol import Client, figures
from tests.browser.conftest import PATIENCE

# Trees take seconds a turn: there is time to be seen waiting.
LONG = "v=1&regression-task=decision+tree&regression-trees=true&regression-seed={}"


@pytest.fixture(scope="module")
def one_turn():
    """A lab in which one visitor computes at a time."""
    with serve(ROOT / "app.py", RESHAPE_TURNS="1") as address:
        yield address


def until(address, holds):
    """Ask for the figures until they are so."""
    end = time.monotonic() + PATIENCE / 1000
    while not holds(figures(address)):
        assert time.monotonic() < end, figures(address)


def test_a_queue_that_says_how_long_and_a_newer_request_that_leaves_it(one_turn):
    first, second = (Client(one_turn, "regression", LONG.format(i)) for i in (1, 2))
    first.open(240)
    seed = first.field("Seed")
    first.set(seed, 11, wait=False)
    until(one_turn, lambda f: f["reshape_computing"] == 1)
    second.connect()
    second.run(wait=False)
    while not any("1 person before you" in text for text in second.texts):
        second.read(PATIENCE / 1000)
    before = figures(one_turn)["reshape_cache_misses_total"]
    first.set(seed, 12)  # ends the work on 11, which nobody wants any more
    second.settle(patience=240)
    assert first.errors == second.errors == []
    assert figures(one_turn)["reshape_queue_length"] == 0
    assert figures(one_turn)["reshape_cache_misses_total"] > before
    assert 'reshape_unfinished_total{why="cancelled"}' in metrics(one_turn)

    # A cut line: the session is found again, with what was set.
    first.cut()
    first.open()
    assert first.field("Seed").value == 12
    assert first.errors == []
    first.cut()
    second.cut()


def metrics(address):
    from urllib.request import urlopen

    with urlopen(f"{address}/_stcore/metrics", timeout=60) as answer:
        return answer.read().decode()
