"""The checkpoint a session brought along. It lives in the session's state and goes with it: nobody else sees it.
All sessions together may keep `limits.UPLOADS`."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.ui import limits

if TYPE_CHECKING:
    from models.folder import Config, Model

NAME = "uploaded"
"""What the controls call it."""
PLACE = "checkpoints~uploaded"
"""Where a session keeps it."""
_living: weakref.WeakSet[Upload] = weakref.WeakSet()  # those some session still holds


@dataclass(frozen=True, eq=False)
class Upload:
    """A checkpoint that passed every check of `models.folder`."""

    sha256: Mapping[str, str]  # file name -> sum, of config and weights
    n_bytes: int
    config: Config
    card: Mapping[str, Any]
    model: Model

    @property
    def key(self) -> str:
        """Says which checkpoint it is, in the keys of caches."""
        return " ".join(self.sha256.values())


def total() -> int:
    """Bytes of all sessions' uploads."""
    return sum(upload.n_bytes for upload in list(_living))


def names() -> tuple[str, ...]:
    """`("uploaded",)` once this session has uploaded a checkpoint."""
    return (NAME,) if current() is not None else ()


def current() -> Upload | None:
    if get_script_run_ctx(suppress_warning=True) is None:  # no session: a test, a tool
        return None
    return st.session_state.get(PLACE)


def keep(files: Mapping[str, bytes]) -> Upload:
    """Check uploaded files (name -> bytes) and keep the model for this session.

    It takes the place of an earlier one. Raises models.folder.CheckpointError, whose message is for
    the person who uploaded; what was kept before then stays.
    """
    from models import folder

    mine, coming = current(), sum(map(len, files.values()))
    room = limits.UPLOADS.value * limits.MIB - total() + (mine.n_bytes if mine else 0)
    if coming > room:
        raise folder.CheckpointError(
            f"{coming / limits.MIB:.1f} MiB do not fit now: all visitors together may keep "
            f"{limits.UPLOADS.value} MiB of uploads. Try again when others have left, or run the lab yourself"
        )
    model = folder.read_folder(files)
    bare = {name.replace("\\", "/").rsplit("/", 1)[-1]: data for name, data in files.items()}
    upload = Upload(
        sha256={
            name: hashlib.sha256(data).hexdigest()
            for name, data in sorted(bare.items())
            if name != folder.CARD
        },
        n_bytes=sum(map(len, bare.values())),
        config=model.config,
        card=folder.read_card(bare),
        model=model,
    )
    st.session_state[PLACE] = upload
    _living.add(upload)
    return upload
