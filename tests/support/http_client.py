"""An HTTP/1.1 client on a bare socket: targets go as they are, bodies come as they come."""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.support.deadline import DEADLINE_SECONDS


@dataclass(frozen=True, slots=True)
class Head:
    status: int
    headers: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: str) -> str | None:
        """All values of a field joined as RFC 9110 §5.3 has it; None where there is none."""
        values = self.values(name)
        return ", ".join(values) if values else None


@dataclass(frozen=True, slots=True)
class Response:
    head: Head
    body: bytes
    """What came, even if less than promised."""
    is_complete: bool

    @property
    def status(self) -> int:
        return self.head.status

    def value(self, name: str) -> str | None:
        return self.head.value(name)


class Connection:
    """One connection, one exchange at a time; a context manager."""

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        assert split.hostname is not None
        assert split.port is not None
        self._host = f"{split.hostname}:{split.port}"
        self._socket = socket.create_connection((split.hostname, split.port), DEADLINE_SECONDS)
        self._buffer = bytearray()
        self._method = "GET"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | None = None,
    ) -> None:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self._method = method
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))

    def send_raw(self, message: bytes) -> None:
        self._socket.sendall(message)

    def head(self) -> Head:
        """The head of the next response that is final."""
        while True:
            status_line = self._line().split(" ", 2)
            headers = []
            while line := self._line():
                name, _, value = line.partition(":")
                headers.append((name, value.strip()))
            if int(status_line[1]) >= 200:
                return Head(int(status_line[1]), tuple(headers))

    def exactly(self, count: int) -> bytes:
        """The next bytes of the body; EOFError if the connection ends before."""
        while len(self._buffer) < count:
            self._more()
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def response(self) -> Response:
        return self.rest(self.head())

    def rest(self, head: Head) -> Response:
        """The response whose head has been read already."""
        if self._method == "HEAD" or head.status in (204, 304):
            return Response(head, b"", is_complete=True)
        parts: list[bytes] = []
        try:
            is_complete = self._body(head, parts)
        except (EOFError, ConnectionError):
            is_complete = False
            parts.append(bytes(self._buffer))
        return Response(head, b"".join(parts), is_complete)

    def rest_of(self, head: Head, begun: int) -> bytes:
        """What still comes of a body of known length of which `begun` bytes were read."""
        left = int(head.value("Content-Length") or "0") - begun
        try:
            return self.exactly(left)
        except (EOFError, ConnectionError):
            return bytes(self._buffer)

    def _body(self, head: Head, parts: list[bytes]) -> bool:
        length = head.value("Content-Length")
        if length is not None:
            parts.append(self.exactly(int(length)))
            return True
        if "chunked" not in (head.value("Transfer-Encoding") or ""):
            raise AssertionError("a body that only the end of the connection ends")
        while size := int(self._line().split(";")[0], 16):
            parts.append(self.exactly(size))
            self._line()
        while self._line():
            pass
        return True

    def _line(self) -> str:
        while (end := self._buffer.find(b"\r\n")) < 0:
            self._more()
        line = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 2]
        return line

    def _more(self) -> None:
        received = self._socket.recv(1024 * 1024)
        if not received:
            raise EOFError
        self._buffer += received


def exchange(
    url: str,
    target: str,
    method: str = "GET",
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | None = None,
) -> Response:
    """One request on a connection of its own."""
    with Connection(url) as connection:
        connection.send(method, target, headers, body)
        return connection.response()
