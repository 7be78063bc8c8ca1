"""A session at the gate: whose turn it is, what its page says while it waits, and when it wants something newer."""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequestType

from pages.ui import gate, observe

S = TypeVar("S")
R = TypeVar("R")


def session() -> str:
    """A short random name of this session, for the queue and the log. Streamlit's own id would let whoever
    reads it take the session over."""
    if "lab~session" not in st.session_state:
        st.session_state["lab~session"] = secrets.token_hex(4)
    return st.session_state["lab~session"]


def watched(compute: Callable[[S], R], page: str, place: Any) -> Callable[[S], R]:
    """`compute`, as this session's: it waits for its turns, says so in `place`, and leaves a line in the log."""

    @functools.wraps(compute)
    def run(settings: S) -> R:
        said: list[int | None] = [None]

        def waiting(before: int | None) -> None:
            look(page)
            if before == said[0]:
                return
            said[0] = before
            if before is None:
                place.empty()
            else:
                place.caption(f":material/hourglass_empty: {gate.in_words(before)}")

        who = gate.Visitor(session(), waiting, lambda: look(page))
        start, failed = time.monotonic(), ""
        try:
            with gate.visiting(who):
                return compute(settings)
        except gate.Superseded:
            failed = "cancelled"
            st.stop()
        except BaseException as reason:
            failed = "refused" if isinstance(reason, ValueError) else type(reason).__name__
            if failed in ("RerunException", "StopException"):
                failed = "cancelled"
            raise
        finally:
            observe.computed(who, page, time.monotonic() - start, failed)

    return run


def look(page: str) -> None:
    """End this run if the session has asked for something newer; the newer request takes over.

    Streamlit ends a run at its next call when all of the page is asked for, but not when a fragment is: a
    moved control would wait for the end of work that nobody wants any more. So such a request is turned into
    one that ends the run and does again what the run leaves undone.
    """
    ctx = get_script_run_ctx(suppress_warning=True)
    requests = ctx.script_requests if ctx is not None else None
    if ctx is not None and requests is not None and _fragment_asked(requests):
        st.session_state[f"{page}~whole"] = False  # so that a moved control reruns all of the page
        with requests._lock:
            asked = requests._rerun_data
            if requests._state is ScriptRequestType.RERUN and asked.fragment_id_queue:
                running = ctx.fragment_ids_this_run or []
                queue = [*asked.fragment_id_queue, *running] if running else []
                requests._rerun_data = replace(
                    asked, fragment_id_queue=list(dict.fromkeys(queue)),
                    is_fragment_scoped_rerun=bool(queue),
                )  # fmt: skip
    st.session_state.get("lab~session")  # Streamlit looks for requests whenever its state is read


def _fragment_asked(requests: Any) -> bool:
    return requests._state is ScriptRequestType.RERUN and bool(
        requests._rerun_data.fragment_id_queue
    )
