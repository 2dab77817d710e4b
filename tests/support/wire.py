"""The data port on a real socket, and a client that writes and reads exact bytes, in one loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Self

from chunkside.aiohttp_internals.serving import Server
from chunkside.core.cache_status import Result
from chunkside.gateway.at_once import AtOnce
from chunkside.server.crowd import Crowd
from chunkside.server.door import Door
from chunkside.server.fast_lane import FastLane
from chunkside.server.front import Front, Lane, Timers
from chunkside.server.handler import DataPort
from chunkside.server.observer import Series, TargetObserver
from chunkside.server.peers import Peers
from chunkside.server.request_lines import RequestLines
from tests.support.fake_upstream import DEADLINE_SECONDS
from tests.support.house import House
from tests.support.turns import turns

INSTANCE = "chunkside-0a0b0c0d"


@dataclass(frozen=True, slots=True)
class Ended:
    """One request as it was counted."""

    method: str
    result: str
    status: int | None
    body_bytes: int


@dataclass
class Port:
    number: int
    ended: list[Ended] = field(default_factory=list)
    routes: list[str] = field(default_factory=list)
    """What each counted under, in the same order."""
    lane: FastLane | None = None
    data: DataPort | None = None

    @property
    def handler(self) -> DataPort:
        assert self.data is not None
        return self.data

    @property
    def fast_lane(self) -> FastLane:
        assert self.lane is not None, "this port has none"
        return self.lane

    def request_ended(
        self,
        route: str,
        key_class: str,
        method: str,
        result: Result,
        status: int | None,
        body_bytes: int,
        seconds: float,
    ) -> None:
        self.routes.append(route)
        self.ended.append(Ended(method, result, status, body_bytes))

    def series(
        self, route: str, key_class: str, method: str, result: Result, status: int | None
    ) -> Series:
        def ended(body_bytes: int, seconds: float) -> None:
            self.request_ended(route, key_class, method, result, status, body_bytes, seconds)

        return SimpleNamespace(ended=ended)

    async def connect(self, limit: int = 1 << 24, source: str = "127.0.0.1") -> Wire:
        """`limit`: bytes that the client takes in ahead of being asked for them. `source`: its
        address.
        """
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.number, limit=limit, local_addr=(source, 0)
        )
        return Wire(reader, writer)

    async def until_ended(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.ended) < count:
                await turns()


@contextlib.asynccontextmanager
async def data_port(
    house: House,
    timers: Timers | None = None,
    lane: Lane | None = None,
    crowd: Crowd | None = None,
    *,
    beside: Iterable[House] = (),
    has_fast_lane: bool = True,
    peers: Peers | None = None,
    lines: RequestLines | None = None,
    targets: TargetObserver | None = None,
) -> AsyncIterator[Port]:
    """The data port as app.py builds it, before a house's gateway and those of routes beside it.

    `lane`: another one in the fast lane's place.
    """
    port = Port(0)
    houses = (house, *beside)
    seats = [(each.route, each.gateway) for each in houses]
    handler = DataPort(seats, port, INSTANCE, peers=peers, lines=lines, targets=targets)
    port.data = handler
    if has_fast_lane and lane is None:
        lane = port.lane = FastLane(
            [(each.route, AtOnce(each.edges, each.gateway.audits.sampler)) for each in houses],
            handler.is_welcome,
            port,
            handler.via,
            house.edges.clock,
            house.now.boot_seconds,
            lines,
        )
        port.lane.targets = targets or port.lane.targets
    server = Server(
        handler,
        handler.error_page,
        access_log=None,
        auto_decompress=False,
        read_bufsize=256 << 10,
    )
    guests = Crowd(1000) if crowd is None else crowd
    make = partial(Front, server, handler, timers or Timers(), guests, lane)
    listener = socket.create_server(("127.0.0.1", 0))
    port.number = listener.getsockname()[1]
    door = Door(listener, make)
    try:
        yield port
    finally:
        await door.close()
        await server.shutdown(0.1)
        await house.settled()


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is what came, even if less than promised."""

    head: bytes
    body: bytes
    is_complete: bool

    @property
    def status(self) -> int:
        """0 where the connection ended before a head."""
        return int(self.head.split(b" ", 2)[1]) if self.head else 0

    def values(self, name: bytes) -> list[bytes]:
        lines = [line.partition(b": ") for line in self.head.split(b"\r\n")[1:]]
        return [value for each, _, value in lines if each.lower() == name.lower()]

    def value(self, name: bytes) -> bytes | None:
        values = self.values(name)
        return b", ".join(values) if values else None


class Wire:
    """One connection. `async with` closes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    async def send(self, message: bytes) -> None:
        self.writer.write(message)
        await self.writer.drain()

    async def head(self) -> bytes:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self, method: str = "GET") -> Answer:
        """The next final answer, framed as RFC 9112 §6.3 says."""
        try:
            head = await self.head()
        except (asyncio.IncompleteReadError, ConnectionError):
            return Answer(b"", b"", is_complete=False)
        answer = Answer(head, b"", is_complete=True)
        if method == "HEAD" or answer.status in (204, 304):
            return answer
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await self._body(answer, parts)
        except asyncio.IncompleteReadError as error:
            return Answer(head, b"".join([*parts, error.partial]), is_complete=False)
        except ConnectionError:
            return Answer(head, b"".join(parts), is_complete=False)
        return Answer(head, b"".join(parts), is_complete=True)

    async def _body(self, answer: Answer, parts: list[bytes]) -> None:
        length = answer.value(b"content-length")
        if length is not None:
            parts.append(await self.reader.readexactly(int(length)))
        elif answer.value(b"transfer-encoding") == b"chunked":
            while size := int((await self.reader.readuntil(b"\r\n")).strip(), 16):
                parts.append((await self.reader.readexactly(size + 2))[:-2])
            assert await self.reader.readexactly(2) == b"\r\n"
        else:
            parts.append(await self.reader.read(-1))

    async def ask(self, request: bytes, method: str = "GET") -> Answer:
        await self.send(request)
        return await self.answer(method)

    async def is_closed(self) -> bool:
        """Whether the other side ends the connection with nothing more to say."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True


def get(target: bytes = b"/a/c/0", *lines: bytes, method: bytes = b"GET") -> bytes:
    return b"\r\n".join(
        [method + b" " + target + b" HTTP/1.1", b"Host: localhost", *lines, b"", b""]
    )


def put(target: bytes, body: bytes, *lines: bytes) -> bytes:
    return get(target, b"Content-Length: %d" % len(body), *lines, method=b"PUT") + body
