"""The queue in front of heavy work, with threads for sessions."""

import threading

import pytest

from pages.ui import gate
from pages.ui.gate import Gate, Superseded, Visitor, visiting

PATIENCE = 30


class Session(threading.Thread):
    """Takes turns at a gate and notes each in `log`; waits inside a turn for `go`."""

    def __init__(self, door, name, log, turns=1, go=None, look=lambda: None):
        super().__init__(daemon=True)
        self.door, self.session, self.log, self.turns = door, name, log, turns
        self.go, self.look = go, look
        self.told, self.inside, self.ended = [], threading.Event(), None
        self.tellings = threading.Semaphore(0)

    def waiting(self, before):
        self.told.append(before)
        self.tellings.release()

    def run(self):
        try:
            with visiting(Visitor(self.session, self.waiting, self.look)):
                for _ in range(self.turns):
                    with self.door.turn():
                        self.log.append(self.session)
                        self.inside.set()
                        assert self.go is None or self.go.wait(PATIENCE)
        except BaseException as reason:
            self.ended = reason


def queued(door, n):
    """Wait until n stand in the queue."""
    with door._change:
        assert door._change.wait_for(lambda: door.waiting == n, PATIENCE)


def join(*threads):
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def held(door, log, name="first"):
    """A session that has its turn, and the event that ends it."""
    go = threading.Event()
    first = Session(door, name, log, go=go)
    first.start()
    assert first.inside.wait(PATIENCE)
    return first, go


def test_turns_go_round_in_the_order_of_coming():
    door, log = Gate(1), []
    first, go = held(door, log)
    others = []
    for i, name in enumerate("abc"):
        others.append(Session(door, name, log, turns=3))
        others[-1].start()
        queued(door, i + 1)
    go.set()
    join(first, *others)
    assert log == ["first", *"abc" * 3]  # three long studies advance together


def test_whoever_waits_hears_how_many_are_before():
    door, log = Gate(1), []
    first, go = held(door, log)
    others = []
    for i, name in enumerate("abc"):
        others.append(Session(door, name, log))
        others[-1].start()
        queued(door, i + 1)
    for other in others:
        assert other.tellings.acquire(timeout=PATIENCE)
    assert [other.told[0] for other in others] == [1, 2, 3]
    go.set()
    join(first, *others)
    assert all(other.told[-1] is None for other in others)
    assert door.waiting == door.busy == 0


def test_the_newest_request_of_a_session_takes_its_older_ones_place():
    door, log = Gate(1), []
    first, go = held(door, log)
    older, other, newer = (Session(door, name, log) for name in ("a", "b", "a"))
    older.start()
    queued(door, 1)
    other.start()
    queued(door, 2)
    newer.start()
    join(older)  # at once, while the gate is still held
    assert isinstance(older.ended, Superseded)
    assert door.waiting == 2
    go.set()
    join(first, other, newer)
    assert log == ["first", "a", "b"]


def test_who_is_cancelled_leaves_the_queue():
    door, log = Gate(1), []
    first, go = held(door, log)

    def gone(before):
        raise KeyboardInterrupt

    leaver, stayer = Session(door, "a", log), Session(door, "b", log)
    leaver.waiting = gone
    leaver.start()
    join(leaver)
    assert isinstance(leaver.ended, KeyboardInterrupt)
    stayer.start()
    queued(door, 1)
    go.set()
    join(first, stayer)
    assert log == ["first", "b"]


def test_a_request_is_looked_at_before_each_turn():
    door, log, looks = Gate(1), [], []

    def look():
        looks.append(1)
        if len(looks) == 3:
            raise Superseded

    session = Session(door, "a", log, turns=9, look=look)
    session.start()
    join(session)
    assert log == ["a", "a"]
    assert door.busy == 0


def test_one_session_holds_one_turn_however_wide_the_gate():
    door, log = Gate(2), []
    first, go = held(door, log, "a")
    again, other = Session(door, "a", log), Session(door, "b", log)
    again.start()
    queued(door, 1)
    other.start()
    join(other)  # passes the one in front of it
    assert log == ["a", "b"]
    go.set()
    join(first, again)


def test_a_turn_in_a_turn_is_the_same_turn():
    door = Gate(1)
    with door.turn(), door.turn():
        assert door.busy == 1
    assert door.busy == 0


def test_work_that_raises_gives_its_turn_back():
    door = Gate(1)
    with pytest.raises(ZeroDivisionError), door.turn():
        raise ZeroDivisionError
    assert door.busy == 0


@pytest.mark.parametrize(
    ("before", "words"),
    [(0, "Your turn is next."), (1, "1 person before you."), (2, "2 people before you.")],
)
def test_words(before, words):
    assert gate.in_words(before) == words
