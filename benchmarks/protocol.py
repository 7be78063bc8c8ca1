"""A visitor without a browser: it speaks Streamlit's WebSocket protocol, opens a page and moves its controls."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.request import urlopen

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

NO_TOKEN = "PLACEHOLDER_AUTH_TOKEN"  # what the browser sends where nobody signs in
MOST_BYTES = 64 * 2**20


@dataclass
class Field:
    """A number field that stands on the page."""

    id: str
    label: str
    fragment: str
    value: float
    low: float
    high: float
    whole: bool


@dataclass
class Client:
    """One tab. `errors` are exceptions the page showed and cuts that nobody asked for."""

    address: str
    page: str
    query: str = ""
    fields: dict[str, Field] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    session: str = ""

    def __post_init__(self) -> None:
        self._states: dict[str, tuple[str, float]] = {}
        self._socket: ClientConnection | None = None

    def open(self, patience: float = 120) -> float:
        """Connect, or connect again as the same session, and run the page; seconds until it is there."""
        self.connect(patience)
        return self.run(patience=patience)

    def connect(self, patience: float = 120) -> None:
        """Connect only."""
        protocols: list[Any] = ["streamlit", NO_TOKEN, *([self.session] if self.session else [])]
        url = self.address.replace("http", "ws", 1) + "/_stcore/stream"
        # `with` would end the connection in the method that makes it.
        self._socket = connect(
            url, subprotocols=protocols, max_size=MOST_BYTES, open_timeout=patience
        ).__enter__()

    def cut(self) -> None:
        """The connection breaks, or the tab is closed: the server cannot tell."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def run(self, fragment: str = "", patience: float = 120, wait: bool = True) -> float:
        """Ask for a rerun with the controls as they stand; seconds until it has ended."""
        ask = BackMsg()
        state = ask.rerun_script
        state.query_string, state.page_name, state.fragment_id = self.query, self.page, fragment
        state.widget_states.SetInParent()
        for name, (kind, value) in self._states.items():
            setattr(state.widget_states.widgets.add(id=name), kind, value)
        start = time.monotonic()
        assert self._socket is not None
        self._socket.send(ask.SerializeToString())
        return self.settle(start, patience) if wait else 0.0

    def settle(self, start: float | None = None, patience: float = 120) -> float:
        """Read until the script has ended; seconds since `start`."""
        start = time.monotonic() if start is None else start
        while True:
            message = self.read(max(0.01, start + patience - time.monotonic()))
            early = ForwardMsg.FINISHED_EARLY_FOR_RERUN
            if message.WhichOneof("type") == "script_finished" and message.script_finished != early:
                return time.monotonic() - start

    def read(self, patience: float) -> ForwardMsg:
        """The next message, noted."""
        assert self._socket is not None
        try:
            raw = self._socket.recv(timeout=patience)
        except ConnectionClosed:
            self.errors.append("disconnected")
            raise
        assert isinstance(raw, bytes)
        message = ForwardMsg.FromString(raw)
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.session = message.new_session.initialize.session_id or self.session
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._element(message.delta)
        return message

    def _element(self, delta: Any) -> None:
        element = delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(f"{element.exception.type} on {self.page}")
        elif kind == "markdown":
            self.texts.append(element.markdown.body)
        elif kind == "number_input":
            n = element.number_input
            value = n.value if n.set_value else n.default
            old = self.fields.get(n.id)
            if old is not None and not n.set_value and n.id in self._states:
                value = old.value
            self.fields[n.id] = Field(
                n.id, n.label, delta.fragment_id, value,
                n.min if n.has_min else 0.0, n.max if n.has_max else 10**6, n.data_type == n.INT,
            )  # fmt: skip

    def set(self, which: Field, value: float, *, wait: bool = True, patience: float = 120) -> float:
        """Move a number field; seconds until the page says so."""
        value = min(max(value, which.low), which.high)
        self._states[which.id] = (
            ("int_value", round(value)) if which.whole else ("double_value", value)
        )
        which.value = value
        return self.run(which.fragment, patience, wait)

    def field(self, label: str) -> Field:
        return next(f for f in self.fields.values() if f.label.startswith(label))

    def move(self, draw: random.Random, patience: float = 120) -> float:
        """Move one of the page's numbers somewhat, as somebody who tries things out."""
        which = draw.choice(sorted(self.fields.values(), key=lambda f: f.id))
        if which.whole:
            value: float = which.value + draw.choice((-2, -1, 1, 2))
        else:
            value = which.value * draw.uniform(0.9, 1.1) + (which.value == 0) * draw.uniform(0, 0.1)
        return self.set(which, value, patience=patience)


def figures(address: str) -> dict[str, float]:
    """What `/_stcore/metrics` says of ours, series without labels only."""
    with urlopen(f"{address}/_stcore/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    rows = (line.split(" ") for line in lines if line.startswith("reshape") and "{" not in line)
    return {name: float(value) for name, value in rows}


def memory(address: str) -> float:
    """MiB of the server and its workers."""
    now = figures(address)
    bytes_ = now["reshape_resident_bytes"] + now["reshape_worker_resident_bytes"]
    return bytes_ / 2**20
