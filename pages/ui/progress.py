"""The bar that stands over a picture while a long computation runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from pages.ui import gate, panel

PATIENCE = 0.4
"""Seconds a computation may take before the bar is shown."""


class Progress:
    """Share of the work done, with an estimate of the time left and a way to stop.

    Every `tick` looks whether the session has asked for something newer (`visit.look`), which ends the run: moving
    any control stops the work. `Stop` goes back to the last settings that gave a picture.
    """

    def __init__(self, page: str, slot: Any, total: float, what: str = "Computing") -> None:
        self.page, self.slot, self.total, self.what = page, slot, total, what
        self.done = 0.0
        self.start = time.monotonic()
        self._bar: Callable[[float, str], Any] | None = None

    def say(self, text: str) -> None:
        """What happens now, at once: loading, which cannot be measured."""
        self._show(0.0, text)
        self.start = time.monotonic()  # the estimate is for what comes after

    def tick(self, done: float = 1.0) -> None:
        """Some of the work is done."""
        self.done += done
        gate.visitor().look()
        spent = time.monotonic() - self.start
        if self._bar is None and (spent < PATIENCE or self.done >= self.total):
            return
        left = spent / self.done * (self.total - self.done)
        about = f"about {left:.0f} s left" if left >= 1 else "nearly done"
        self._show(min(1.0, self.done / self.total), f"{self.what}: {about}.")

    def end(self) -> None:
        self.slot.empty()
        self._bar = None

    def _show(self, share: float, text: str) -> None:
        if self._bar is None:
            with self.slot.container(horizontal=True, vertical_alignment="center"):
                bar = st.empty()
                good: Mapping[str, Any] | None = st.session_state.get(f"{self.page}~good")
                if good is not None:
                    st.button(
                        "Stop", key=f"{self.page}~stop", on_click=panel.set_values,
                        args=(self.page, dict(good)),
                    )  # fmt: skip
            self._bar = bar.progress
        self._bar(share, text)
