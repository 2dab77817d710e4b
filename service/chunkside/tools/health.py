"""`chunkside health`: whether the sidecar of these settings is ready, asked of its admin port.

It runs every few seconds beside the sidecar, within the same memory limit: it imports little.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from chunkside.core.printable import printable
from chunkside.settings.addresses import ListenAddress, TcpAddress, UnixAddress

EXIT_READY: Final = 0
EXIT_NOT_READY: Final = 1
_REQUEST: Final = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_MOST_BYTES: Final = 64 << 10
_STATUS_READY: Final = b"200"
_STATUS_NOT_READY: Final = b"503"


def health(admin_listen: Iterable[ListenAddress], timeout_seconds: float) -> int:
    """Gives the exit code; one line tells what came of it. The first that answers counts."""
    trouble = ""
    for address in admin_listen:
        for family, place in _places(address):
            try:
                status, told = _ask(family, place, timeout_seconds)
            except OSError as error:
                trouble = f"{address} does not answer: {error.strerror or error}"
                continue
            if status == _STATUS_READY:
                print("ready")
                return EXIT_READY
            if status != _STATUS_NOT_READY:
                shown = status.decode(errors="replace")
                told = f"{address} answered {shown}: is that the admin port of a sidecar?"
            return _not_ready(told)
    return _not_ready(trouble)


def _not_ready(trouble: str) -> int:
    print(f"chunkside: not ready: {printable(trouble)}", file=sys.stderr)
    return EXIT_NOT_READY


def _places(address: ListenAddress) -> Iterator[tuple[socket.AddressFamily, str | tuple[str, int]]]:
    """Where a listener is reached from this machine; no name is looked up for loopback."""
    match address:
        case UnixAddress(path):
            yield socket.AF_UNIX, path
        case TcpAddress("localhost", port):
            yield socket.AF_INET, ("127.0.0.1", port)
            yield socket.AF_INET6, ("::1", port)
        case TcpAddress("0.0.0.0", port):  # noqa: S104
            yield socket.AF_INET, ("127.0.0.1", port)
        case TcpAddress("::", port):
            yield socket.AF_INET6, ("::1", port)
        case TcpAddress(host, port):
            yield (socket.AF_INET6 if ":" in host else socket.AF_INET), (host, port)


def _ask(
    family: socket.AddressFamily, place: str | tuple[str, int], timeout_seconds: float
) -> tuple[bytes, str]:
    """Status and body. Raises OSError."""
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        connection.connect(place)
        connection.sendall(_REQUEST)
        answer = b""
        while len(answer) < _MOST_BYTES and (piece := connection.recv(_MOST_BYTES)):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if not status:
        raise ConnectionError("something else listens there")
    return status[0], body.decode(errors="replace").strip()
