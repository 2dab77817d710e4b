"""Stands before a store and writes down what it was asked, and how much it sent: bytes pass as they
are, so that what was signed for this address is verified.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.support.deadline import DEADLINE_SECONDS

_PIECE = 1 << 16


@dataclass
class CountingProxy:
    """`asked`: method, target and status of each request that was answered."""

    url: str
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    body_bytes: int = 0

    def targets(self, *statuses: int) -> list[str]:
        return [target for _, target, status in self.asked if not statuses or status in statuses]

    def forget(self) -> None:
        self.asked.clear()
        self.body_bytes = 0


@contextmanager
def counting_proxy(store: str) -> Iterator[CountingProxy]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    proxy = CountingProxy(f"http://127.0.0.1:{listener.getsockname()[1]}")
    there = urlsplit(store)
    open_sockets: list[socket.socket] = [listener]
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection((there.hostname, there.port), DEADLINE_SECONDS)
            open_sockets.extend((near, far))
            start(_serve, proxy, near, far)

    def start(run: Callable[..., None], *arguments: object) -> None:
        threads.append(threading.Thread(target=run, args=arguments, daemon=True))
        threads[-1].start()

    start(accept)
    try:
        yield proxy
    finally:
        for each in open_sockets:
            # It may have ended already.
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in threads:
            thread.join(DEADLINE_SECONDS)


def _serve(proxy: CountingProxy, near: socket.socket, far: socket.socket) -> None:
    """One connection: a request, then its answer, and so on."""
    asks, answers = _Stream(near, far), _Stream(far, near)
    try:
        while True:
            first, length = asks.head()
            method, target, _ = first.split(b" ", 2)
            asks.body(length or 0)
            status, length = 100, None
            while status < 200:
                line, length = answers.head()
                status = int(line.split(b" ", 2)[1])
            proxy.asked.append((method.decode(), target.decode(), status))
            if method != b"HEAD" and status not in (204, 304):
                assert length is not None, "an answer of unknown length"
                proxy.body_bytes += length
                answers.body(length)
    except (OSError, EOFError):
        pass
    finally:
        near.close()
        far.close()


class _Stream:
    """What one side says, passed on to the other as it is read."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._source = source
        self._sink = sink
        self._read = b""

    def head(self) -> tuple[bytes, int | None]:
        """The first line of a message, and its Content-Length."""
        while b"\r\n\r\n" not in self._read:
            self._more()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        self._sink.sendall(head + b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        fields = {name.lower(): value for name, _, value in (x.partition(b":") for x in lines)}
        assert b"transfer-encoding" not in fields, "a body in chunks"
        length = fields.get(b"content-length")
        return first, None if length is None else int(length)

    def body(self, length: int) -> None:
        while length:
            if not self._read:
                self._more()
            piece, self._read = self._read[:length], self._read[length:]
            self._sink.sendall(piece)
            length -= len(piece)

    def _more(self) -> None:
        received = self._source.recv(_PIECE)
        if not received:
            raise EOFError
        self._read += received
