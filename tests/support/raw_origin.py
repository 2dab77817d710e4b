"""An origin that says exactly the bytes it is told, in the test's own loop: for what is no HTTP,
and for connections that die.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

Speak = Callable[["Heard", asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Heard:
    """One request as it came. `connection` counts from 1, `number` within it from 1."""

    head: bytes
    body: bytes
    connection: int
    number: int

    @property
    def request_line(self) -> bytes:
        return self.head.partition(b"\r\n")[0]

    @property
    def method(self) -> str:
        return self.request_line.split(b" ")[0].decode()

    @property
    def target(self) -> bytes:
        return self.request_line.split(b" ")[1]


@dataclass
class RawOrigin:
    """`speak` writes the answer to each request; a connection it closed is not read again. `greet`
    has its turn before a connection, which it is given the number of, is read at all.
    """

    speak: Speak
    greet: Callable[[int], Awaitable[None]] | None = None
    tls: ssl.SSLContext | None = None
    heard: list[Heard] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    most_open: int = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, backlog=1024, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        scheme = "http" if self.tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._tasks: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        connection, number = self.connections, 0
        try:
            if self.greet is not None:
                await self.greet(connection)
            while not writer.is_closing():
                number += 1
                head = await reader.readuntil(b"\r\n\r\n")
                heard = Heard(head, await _body(head, reader), connection, number)
                self.heard.append(heard)
                await self.speak(heard, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except asyncio.CancelledError:
            # asyncio's streams report a cancelled handler as a fault; this one is ours.
            pass
        finally:
            self._tasks.discard(task)
            self.open -= 1
            writer.close()


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    fields = {name.lower(): value.strip() for name, _, value in lines}
    if fields.get(b"transfer-encoding") == b"chunked":
        parts = []
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return b"".join(parts)
    return await reader.readexactly(int(fields.get(b"content-length", b"0")))


def says(*pieces: bytes, then_closes: bool = False) -> Speak:
    async def speak(_: Heard, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if then_closes:
            writer.close()

    return speak


OK = says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
closes = says(then_closes=True)
