"""What a host sees of the lab, and what nobody may see in it."""

import io
import json
import logging
from pathlib import Path

import pytest

from models import zoo
from models.folder import CheckpointError
from pages.ui import cache, controls, limits, observe, uploads, visit, workers
from pages.ui.gate import Visitor
from tests.pages.visits import fresh
from tests.pages.visits import visit as visit_page

SECRET = "/home/someone/what-she-typed"


@pytest.fixture
def lines(monkeypatch):
    """The log from here on, as parsed."""
    observe.start()
    stream, log = io.StringIO(), logging.getLogger("reshape")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(log.handlers[0].formatter)
    monkeypatch.setattr(log, "handlers", [handler])
    monkeypatch.setattr(log, "level", logging.INFO)
    log.manager._clear_cache()
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    log.manager._clear_cache()


class Place:
    def empty(self):
        pass


def test_a_line_a_computation_that_leaks_nothing(lines):
    def fail(settings):
        raise RuntimeError(SECRET)

    assert visit.watched(lambda s: s + 1, "landscape", Place())(1) == 2
    with pytest.raises(RuntimeError):
        visit.watched(fail, "regression", Place())(SECRET)
    good, bad = lines()
    assert set(good) == set(bad) == {
        "time", "level", "event", "request", "session", "page", "seconds", "queue_seconds",
        "cache_hit", "made", "found", "error",
    }  # fmt: skip
    assert (good["level"], good["page"], good["error"]) == ("info", "landscape", None)
    assert (bad["level"], bad["page"], bad["error"]) == ("error", "regression", "RuntimeError")
    assert good["session"] == bad["session"]
    assert good["request"] != bad["request"]
    assert SECRET not in json.dumps([good, bad])


def test_figures_are_histograms_counters_and_gauges():
    who = Visitor("a")
    who.tally.queue_seconds = 3.0
    observe.computed(who, "a page", 3.2, "ValueError")
    found = observe.Figures().get_stats()
    assert set(found) == set(observe.Figures().stats_families)
    text = "\n".join(stat.to_metric_str() for stats in found.values() for stat in stats)
    assert 'reshape_computation_seconds_bucket{le="0.25",page="a page"} 1' in text
    assert 'reshape_computation_seconds_bucket{le="0.1",page="a page"} 0' in text
    assert 'reshape_queue_seconds_bucket{le="5.0",page="a page"} 1' in text
    assert 'reshape_unfinished_total{why="ValueError"}' in text
    for name in ("queue_length", "cache_bytes", "workers", "resident_bytes", "cache_hits_total"):
        assert f"\nreshape_{name} " in "\n" + text
    assert observe.resident_bytes() > 50 * limits.MIB


def test_about_says_what_runs_and_no_path(monkeypatch):
    monkeypatch.setenv("RESHAPE_CACHE_MB", "77")
    monkeypatch.setenv("RESHAPE_TURNS", "nonsense")
    at = visit_page("about", {})
    shown = " ".join(h.proto.body for h in at.get("html")) + " ".join(m.value for m in at.markdown)
    for name in zoo.names():
        for sum_ in zoo.sums(name).values():
            assert sum_ in shown
    assert "77 MiB" in shown
    assert limits.TURNS.value == limits.TURNS.default
    assert "1.67.0" in shown
    for path in (Path.cwd(), Path.home(), Path(zoo.__file__).parent):
        assert str(path) not in shown


def test_a_killed_worker_is_a_sentence_and_a_way_on(monkeypatch):
    compute = cache.landscape
    died = []

    def once(*args, **settings):
        if not died:
            died.append(1)
            raise workers.Ended("The process that computed this has ended.")
        return compute(*args, **settings)

    monkeypatch.setattr(cache, "landscape", once)
    at = fresh("landscape").run()
    assert not at.exception
    (told,) = [w.value for w in at.warning]
    assert told.startswith("The process that computed this has ended.")
    (button,) = [b for b in at.button if b.label == "Go on"]
    button.click().run()
    assert not at.exception
    assert not at.warning
    assert controls.rows("landscape")


def test_uploads_of_all_sessions_are_limited_together(monkeypatch):
    monkeypatch.setenv("RESHAPE_UPLOADS_MB", "1")
    with pytest.raises(CheckpointError, match="keep 1 MiB of uploads"):
        uploads.keep({"model.safetensors": bytes(2 * limits.MIB)})
