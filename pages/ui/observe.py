"""What a host sees: a line of JSON for every computation, and figures at `/_stcore/metrics`.

No line and no figure holds anything a person typed, an address or a path: of an error only its class is told.
"""

from __future__ import annotations

import json
import logging
import math
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pages.ui.gate import Visitor

STARTED = time.time()
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "off": 100}
VARIABLE = "RESHAPE_LOG"
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_log = logging.getLogger("reshape")
_lock = threading.Lock()
_ready = False


# ---- the log -------------------------------------------------------------------------------------


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{stamp}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        return json.dumps(line | {"event": record.msg} | getattr(record, "facts", {}))


def start() -> None:
    """Open the log and tell Streamlit of our figures; once, and again only where it did not work."""
    global _ready
    with _lock:
        if _ready:
            return
        _ready = True
        if not _log.handlers:
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(_Lines())
            _log.addHandler(handler)
        _log.propagate = False
        _log.setLevel(LEVELS.get(os.environ.get(VARIABLE, "").strip().lower(), LEVELS["warning"]))
        from streamlit.runtime import Runtime

        if Runtime.exists():
            Runtime.instance().stats_mgr.register_provider(Figures())


def tell(event: str, level: str = "info", **facts: Any) -> None:
    """A line of the log. `facts` are numbers and words of ours."""
    _log.log(LEVELS[level], event, extra={"facts": facts})


def computed(who: Visitor, page: str, seconds: float, failed: str) -> None:
    """Note one computation of a page; `failed`: "", "refused", "cancelled" or the class of an error."""
    tally = who.tally
    SECONDS.add(seconds - tally.queue_seconds, page)
    QUEUE.add(tally.queue_seconds, page)
    if failed:
        FAILED.add(1, failed)
    broken = bool(failed) and failed not in ("refused", "cancelled")
    tell(
        "computation", "error" if broken else "info", request=secrets.token_hex(4), session=who.session,
        page=page, seconds=round(seconds, 4), queue_seconds=round(tally.queue_seconds, 4),
        cache_hit=tally.misses == 0, made=tally.misses, found=tally.hits, error=failed or None,
    )  # fmt: skip


# ---- the figures ---------------------------------------------------------------------------------


class Seconds:
    """A histogram by page."""

    def __init__(self, name: str, words: str) -> None:
        self.name, self.words = name, words
        self._lock = threading.Lock()
        self._of: dict[str, list[float]] = {}  # counts by bucket, then the sum

    def add(self, seconds: float, page: str) -> None:
        with self._lock:
            row = self._of.setdefault(page, [0.0] * (len(BUCKETS) + 2))
            row[sum(b < seconds for b in BUCKETS)] += 1
            row[-1] += seconds

    def stats(self) -> list[Any]:
        from streamlit.runtime.stats import HistogramStat

        out = []
        with self._lock:
            rows = {page: list(row) for page, row in self._of.items()}
        for page, row in rows.items():
            counts = [int(sum(row[: i + 1])) for i in range(len(BUCKETS) + 1)]
            buckets = tuple(zip((*BUCKETS, math.inf), counts, strict=True))
            out.append(
                HistogramStat(
                    self.name, buckets, row[-1], counts[-1], {"page": page}, "seconds", self.words
                )
            )
        return out


class Count:
    """A counter by a word of ours."""

    def __init__(self, name: str, label: str, words: str) -> None:
        self.name, self.label, self.words = name, label, words
        self._lock = threading.Lock()
        self.values: dict[str, int] = {}

    def add(self, n: int, word: str) -> None:
        with self._lock:
            self.values[word] = self.values.get(word, 0) + n

    def stats(self) -> list[Any]:
        from streamlit.runtime.stats import CounterStat

        return [
            CounterStat(self.name, n, {self.label: word}, "", self.words)
            for word, n in dict(self.values).items()
        ]


SECONDS = Seconds("reshape_computation_seconds", "Seconds of work by page, without the queue.")
QUEUE = Seconds("reshape_queue_seconds", "Seconds in the queue by page.")
FAILED = Count("reshape_unfinished", "why", "Computations refused, cancelled or failed.")


def resident_bytes(pid: int | str = "self") -> int:
    """Memory of a process that lies in RAM; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def all_resident_bytes() -> int:
    """Memory of the server and its workers."""
    from pages.ui import cache

    return sum(map(resident_bytes, ("self", *cache.WORKERS.pids)))


def gauges() -> dict[str, tuple[int, str]]:
    """Name to value and words."""
    from pages.ui import cache, uploads

    store, gates = cache.STORE, cache.GATES
    return {
        "reshape_queue_length": (sum(g.waiting for g in gates), "Sessions that wait for a turn."),
        "reshape_computing": (sum(g.busy for g in gates), "Sessions that have a turn."),
        "reshape_cache_bytes": (store.bytes, "Bytes of results kept."),
        "reshape_cache_entries": (len(store), "Results and models kept."),
        "reshape_model_bytes": (store.held_bytes, "Bytes of models kept."),
        "reshape_upload_bytes": (uploads.total(), "Bytes of uploaded checkpoints."),
        "reshape_resident_bytes": (resident_bytes(), "Memory of the server."),
        "reshape_workers": (len(cache.WORKERS.pids), "Worker processes."),
        "reshape_worker_resident_bytes": (
            all_resident_bytes() - resident_bytes(),
            "Memory of the workers.",
        ),
        "reshape_uptime_seconds": (int(time.time() - STARTED), "Since the server began."),
    }


def counters() -> dict[str, tuple[int, str]]:
    from pages.ui import cache

    store = cache.STORE
    return {
        "reshape_workers_died": (cache.WORKERS.died, "Worker processes that were killed."),
        "reshape_cache_hits": (store.hits, "Results found in the cache."),
        "reshape_cache_misses": (store.misses, "Results that had to be made."),
        "reshape_cache_dropped": (store.dropped, "Results that left the cache."),
    }


class Figures:
    """Ours among Streamlit's figures: a `streamlit.runtime.stats.StatsProvider`."""

    def _all(self) -> dict[str, Callable[[], list[Any]]]:
        from streamlit.runtime.stats import CounterStat, GaugeStat

        def one(kind: Any, name: str, value: int, words: str) -> Callable[[], list[Any]]:
            return lambda: [kind(name, value, None, "", words)]

        found: dict[str, Callable[[], list[Any]]] = {
            name: one(GaugeStat, name, *rest) for name, rest in gauges().items()
        }
        found |= {name: one(CounterStat, name, *rest) for name, rest in counters().items()}
        return found | {row.name: row.stats for row in (SECONDS, QUEUE, FAILED)}

    @property
    def stats_families(self) -> Sequence[str]:
        return tuple(self._all())

    def get_stats(self, family_names: Sequence[str] | None = None) -> Mapping[str, Sequence[Any]]:
        wanted = self._all()
        return {n: f() for n, f in wanted.items() if family_names is None or n in family_names}
