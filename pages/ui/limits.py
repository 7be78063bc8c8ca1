"""The limits in force, each from an environment variable with a default that fits 1.2 GiB and two cores."""

from __future__ import annotations

import os
from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True)
class Limit:
    """A whole number that a host may set.

    Attributes:
        name: of the environment variable.
        default: where the variable is absent, or no whole number of that range.
        unit: what it counts.
        what: what it limits, for the About page.
    """

    name: str
    default: int
    low: int
    high: int
    unit: str
    what: str

    @property
    def value(self) -> int:
        text = os.environ.get(self.name, "").strip()
        given = int(text) if text.isascii() and text.isdigit() else self.default
        return given if self.low <= given <= self.high else self.default


CACHE = Limit("RESHAPE_CACHE_MB", 128, 1, 65536, "MiB", "results kept")
UPLOADS = Limit("RESHAPE_UPLOADS_MB", 256, 1, 65536, "MiB", "uploads kept")
TURNS = Limit(
    "RESHAPE_TURNS", max(1, min(os.cpu_count() or 1, 64)), 1, 64, "people",
    "computing at once",
)  # fmt: skip
WORKERS = Limit(
    "RESHAPE_WORKERS", 1, 0, 16, "",
    "worker processes for text",
)  # fmt: skip
IDLE = Limit("RESHAPE_WORKER_IDLE", 60, 1, 86400, "seconds", "a worker ends after")

ALL = (CACHE, UPLOADS, TURNS, WORKERS, IDLE)
