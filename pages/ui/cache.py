"""Every `st.cache_*` of the lab, and only here.

Results are frozen dataclasses that all sessions share: `cache_resource` hands out the same object without
copying, so nobody may write into one. Keys are scalars and seeds (Streamlit only samples large arrays when
it hashes them), sizes are bounded, and `core` is imported inside so that a page without torch stays free of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

F = TypeVar("F", bound=Callable)


def shared(entries: int = 64) -> Callable[[F], F]:
    """Decorator: keep up to `entries` results, shared by all sessions, never copied."""
    return st.cache_resource(max_entries=entries, show_spinner=False)
