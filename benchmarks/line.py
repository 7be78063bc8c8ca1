"""A line to a server that can be cut: a loopback port that forwards to another one until it is told not to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Line:
    """Forwards connections; `cut()` breaks all of them and takes no more until `mend()`."""

    def __init__(self, port: int) -> None:
        self._to, self._whole = port, True
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        with suppress(OSError):  # the door was closed
            while True:
                near, _ = self._door.accept()
                with self._lock:
                    if not self._whole:
                        near.close()
                        continue
                    far = socket.create_connection(("127.0.0.1", self._to))
                    self._open += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
        for end in (source, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        with self._lock:
            self._whole, broken, self._open = False, self._open, []
        for end in broken:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def mend(self) -> None:
        with self._lock:
            self._whole = True


@contextmanager
def line(address: str) -> Iterator[Line]:
    """A line to `address`, cut for good at the end."""
    made = Line(int(address.rsplit(":", 1)[1]))
    try:
        yield made
    finally:
        made.cut()
        made._door.close()
