"""An origin that has nothing and says so at once, or one body beneath /body/, and a client that
keeps its connection: for loads that tests/support/origin.py and http_client.py are too slow for.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final, Self, cast
from urllib.parse import urlsplit

_NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
_FOUND: Final = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: %d\r\n\r\n'
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(slots=True)
class AbsentOrigin:
    """`asked` counts requests by the first segment of their path."""

    url: str
    body: bytes = b""
    asked: Counter[bytes] = field(default_factory=Counter)


@contextlib.asynccontextmanager
async def absent_origin(body: bytes = b"") -> AsyncIterator[AbsentOrigin]:
    """`body`: what is beneath /body/, if it isn't empty."""
    origin = AbsentOrigin("", body)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Connection(origin), "127.0.0.1", 0)
    origin.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield origin
    finally:
        listening.close()


class _Connection(asyncio.Protocol):
    def __init__(self, origin: AbsentOrigin) -> None:
        self._asked = origin.asked
        self._body = origin.body
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        segments = [head.split(b"/", 2)[1] for head in heads]
        self._asked.update(segments)
        if not self._body or b"body" not in segments:
            self._transport.write(_NOT_FOUND * len(heads))
            return
        for segment in segments:
            if segment == b"body":
                self._transport.write(_FOUND % len(self._body))
                self._transport.write(self._body)
            else:
                self._transport.write(_NOT_FOUND)


class Client:
    """One connection; `async with` closes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, url: str) -> Self:
        split = urlsplit(url)
        return cls(*await asyncio.open_connection(split.hostname, split.port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def statuses(self, *targets: bytes) -> list[int]:
        """Asks for all of them in one breath."""
        for target in targets:
            self._writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)
        return [(await self._answer())[0] for _ in targets]

    async def get(self, target: bytes) -> tuple[int, bytes]:
        self._writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)
        return await self._answer()

    async def post(self, target: bytes, content: bytes) -> tuple[int, bytes]:
        head = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % target
        self._writer.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(content), content))
        return await self._answer()

    async def _answer(self) -> tuple[int, bytes]:
        """The next answer's status and body; IncompleteReadError where the connection ends."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await self._reader.readexactly(int(length[1]) if length else 0)
        return int(head[9:12]), body
