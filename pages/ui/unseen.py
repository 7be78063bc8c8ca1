"""A visit to a page that nobody sees: it runs as in a browser and what it would show is handed back.

So a pinned picture can be made again from its link, and a report without a browser or a server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from streamlit.runtime.fragment import MemoryFragmentStorage
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import add_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.state import SafeSessionState, SessionState

from pages.ui.shown import Shown

BEAT = 0.2
"""Seconds between two calls of `waiting`."""


class _Left(BaseException):
    """Ends a visit that nobody waits for any more."""


def visit(
    page: str,
    values: Mapping[str, Any],
    *,
    render: Callable[[], None] | None = None,
    session: Mapping[str, Any] | None = None,
    waiting: Callable[[], None] = lambda: None,
) -> Shown:
    """What the page shows under these settings. Work that a page does in slices is done to its end.

    It runs in a thread and a session of its own, whose messages go nowhere: what stands on a reader's page, and
    what that session remembers, stays untouched. Results come from the caches all sessions share.

    Args:
        values: of all controls of the page.
        render: the page's; its module is asked if it is not given.
        session: what the visit is to know of the caller's session, such as an uploaded checkpoint.
        waiting: called now and then meanwhile. If it raises, the visit is given up.

    Raises ValueError with the page's reason where it cannot use the settings.
    """
    left = threading.Event()
    came: dict[str, Any] = {}

    def enqueue(message: Any) -> None:
        if left.is_set():
            raise _Left

    def run() -> None:
        from pages.ui import frame

        try:
            # The context is made here: it takes the thread that makes it for its own.
            state = SessionState()
            context = ScriptRunContext(
                session_id="unseen",
                _enqueue=enqueue,
                query_string="",
                session_state=SafeSessionState(state, lambda: None),
                uploaded_file_mgr=MemoryUploadedFileManager("/unseen"),
                main_script_path="",
                user_info={},
                fragment_storage=MemoryFragmentStorage(),
                pages_manager=PagesManager(""),
            )
            add_script_run_ctx(threading.current_thread(), context)
            draw = render or import_module(f"pages.{page}").render
            while True:
                context.reset()
                shown, again = frame.unseen(page, draw, values, session or {})
                if not again:
                    break
            came["shown"] = shown
        except _Left:
            pass
        except BaseException as reason:
            came["reason"] = reason

    thread = threading.Thread(target=run, name=f"unseen {page}", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(BEAT)
            waiting()
    except BaseException:
        left.set()
        raise
    if "reason" in came:
        raise came["reason"]
    return came["shown"]
