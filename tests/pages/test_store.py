"""The cache of results: one making for all who ask, bounded in bytes."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from pages.ui.gate import Gate, Superseded, Visitor, visiting
from pages.ui.store import Store, nbytes

PATIENCE = 30
KIB = 1024


@dataclass(frozen=True)
class Result:
    a: np.ndarray
    b: torch.Tensor


def near(value):
    return pytest.approx(value, rel=0.1)


def test_bytes_of_arrays_tensors_and_what_holds_them():
    a, b = np.zeros(10_000), torch.zeros(20_000, dtype=torch.float32)
    assert nbytes(a) == near(80_000)
    assert nbytes(Result(a, b)) == near(160_000)
    assert nbytes([a, (a, {"a": a})]) == near(80_000), "the same array three times"
    assert nbytes(a[:10]) == near(80_000), "a view keeps all of it alive"
    assert nbytes(b[:10]) == near(80_000)
    assert nbytes(b"x" * 50_000) == near(50_000)
    net = torch.nn.Sequential(torch.nn.Linear(100, 100), torch.nn.Linear(100, 100))
    assert nbytes(net) == near(2 * 4 * 100 * 101)
    loop = []
    loop.append(loop)
    assert nbytes(loop) < 1000


def test_the_oldest_leave_when_the_bytes_are_used_up():
    store, made = Store(lambda: 100 * KIB, Gate(1)), []

    @store.shared(64)
    def block(i):
        made.append(i)
        return np.zeros(30 * KIB, np.uint8)

    for i in (0, 1, 2):
        block(i)
    block(0)  # used again: 1 is the oldest now
    block(3)
    assert store.bytes <= 100 * KIB
    for i in (0, 2, 3):
        block(i)
    assert made == [0, 1, 2, 3]
    block(1)
    assert made == [0, 1, 2, 3, 1]
    assert store.bytes <= 100 * KIB


def test_a_result_larger_than_the_limit_is_given_and_not_kept():
    store = Store(lambda: 10 * KIB, Gate(1))
    small = store.shared(4)(lambda i: np.zeros(KIB, np.uint8))
    large = store.shared(4)(lambda: np.ones(50 * KIB, np.uint8))
    small(0)
    assert large().sum() == 50 * KIB
    assert 0 < store.bytes <= 10 * KIB


def test_models_are_bounded_in_number_and_do_not_push_results_out():
    store = Store(lambda: 10 * KIB, Gate(1))
    model = store.shared(2, counted=False)(lambda name: np.zeros(50 * KIB, np.uint8))
    kept = store.shared(4)(lambda i: np.zeros(KIB, np.uint8))
    first = kept(0)
    for name in "abc":
        model(name)
    assert kept(0) is first
    assert store.held_bytes == near(100 * KIB)


def test_keys_are_arguments_by_kind_and_leave_underscored_ones_out():
    store, made = Store(lambda: KIB**2, Gate(1)), []

    @store.shared(64)
    def f(a, _b=None, c=2, **more):
        made.append((a, c, more))
        return a, c

    f(1)
    f(1, object())
    f(a=1, c=2)
    assert len(made) == 1
    f(1.0)
    f(True)
    f(1, c=3)
    f(1, d=3)
    assert len(made) == 5
    f.clear()
    f(1)
    assert len(made) == 6


def test_one_making_for_all_who_ask_together():
    store, made, go = Store(lambda: KIB**2, Gate(4)), [], threading.Event()
    inside = threading.Event()

    @store.shared(4)
    def slow():
        made.append(1)
        inside.set()
        assert go.wait(PATIENCE)
        return object()

    found = []

    def ask(name):
        with visiting(Visitor(name)):
            found.append(slow())

    threads = [threading.Thread(target=ask, args=(str(i),), daemon=True) for i in range(5)]
    threads[0].start()
    assert inside.wait(PATIENCE)
    for thread in threads[1:]:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(made) == 1
    assert len(found) == 5
    assert len(set(map(id, found))) == 1


def test_who_waits_for_a_making_that_is_cancelled_makes_it():
    store, go, inside = Store(lambda: KIB**2, Gate(2)), threading.Event(), threading.Event()
    turns = []

    @store.shared(4)
    def slow():
        turns.append(1)
        if len(turns) > 1:
            return "made"
        inside.set()
        assert go.wait(PATIENCE)
        raise Superseded

    found, looked = [], threading.Event()

    def first():
        with visiting(Visitor("a")), pytest.raises(Superseded):
            slow()

    def second():
        with visiting(Visitor("b", look=looked.set)):
            found.append(slow())

    threads = [threading.Thread(target=f, daemon=True) for f in (first, second)]
    threads[0].start()
    assert inside.wait(PATIENCE)
    threads[1].start()
    assert looked.wait(PATIENCE)  # it waits for the first
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == ["made"]


def test_errors_are_not_kept():
    store, made = Store(lambda: KIB**2, Gate(1)), []

    @store.shared(4)
    def fails():
        made.append(1)
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            fails()
    assert len(made) == 2
    assert store.gate.busy == 0
    assert len(store) == 0
