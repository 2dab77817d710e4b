"""A client that sends exactly the bytes it is told, and reads until nobody says anything more."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.deadline import DEADLINE_SECONDS


@dataclass(frozen=True, slots=True)
class Final:
    """One final answer; `lines` are its field lines as they came."""

    status: int
    lines: tuple[bytes, ...]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        split = (line.partition(b":") for line in self.lines)
        return [value.strip() for each, _, value in split if each.lower() == name.lower()]


@dataclass(frozen=True, slots=True)
class Said:
    """All that came on one connection before it was closed."""

    answers: tuple[Final, ...]
    interim: tuple[int, ...]


def say(
    url: str, message: bytes, *methods: str, half_closes: bool = False, hangs_up: bool = True
) -> Said:
    """Sends `message` on a connection of its own, and reads until the other side closes it.

    `methods`: those of the requests in it, where one is a HEAD; else all are taken for GETs.
    `hangs_up`: a last request that asks for the end follows. It is answered by nobody who has
    closed the connection before, and its answer is left out.
    """
    last = b"GET /the-end HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    split = urlsplit(url)
    with socket.create_connection((split.hostname, split.port), DEADLINE_SECONDS) as sock:
        parts = [message]
        if hangs_up and not half_closes:
            parts.append(last)
        received = _exchange(sock, b"".join(parts), half_closes=half_closes)
    return _parse(received, methods)


def send_only(url: str, message: bytes) -> Said:
    """Sends `message`, and reads until the other side closes the connection of its own accord."""
    return say(url, message, hangs_up=False)


def _exchange(sock: socket.socket, message: bytes, *, half_closes: bool) -> bytes:
    received = bytearray()
    try:
        sock.sendall(message)
        if half_closes:
            sock.shutdown(socket.SHUT_WR)
        while piece := sock.recv(1 << 16):
            received += piece
    except ConnectionError:
        # Whoever refuses a message need not read all of it.
        pass
    return bytes(received)


def _parse(received: bytes, methods: tuple[str, ...]) -> Said:
    answers: list[Final] = []
    interim: list[int] = []
    while received:
        head, _, received = received.partition(b"\r\n\r\n")
        status_line, *lines = head.split(b"\r\n")
        status = int(status_line.split(b" ")[1])
        if status < 200:
            interim.append(status)
            continue
        method = methods[len(answers)] if len(answers) < len(methods) else "GET"
        body, received = _body(received, status, method, lines)
        answers.append(Final(status, tuple(lines), body))
    return Said(tuple(answers), tuple(interim))


def _body(rest: bytes, status: int, method: str, lines: list[bytes]) -> tuple[bytes, bytes]:
    if method == "HEAD" or status in (204, 304):
        return b"", rest
    named = {name.lower(): value.strip() for name, _, value in (x.partition(b":") for x in lines)}
    if b"content-length" in named:
        length = int(named[b"content-length"])
        assert len(rest) >= length, "an answer that breaks off"
        return rest[:length], rest[length:]
    if named.get(b"transfer-encoding") != b"chunked":
        return rest, b""
    body = b""
    while True:
        size_line, _, rest = rest.partition(b"\r\n")
        size = int(size_line.partition(b";")[0], 16)
        if size == 0:
            while (trailer := rest.partition(b"\r\n"))[0]:
                rest = trailer[2]
            return body, trailer[2]
        body, rest = body + rest[:size], rest[size + 2 :]
