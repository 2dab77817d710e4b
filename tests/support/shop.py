"""A way to an origin that is a store, asked as the gateway asks; what an origin says in turn."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from chunkside.core.fields import Fields
from chunkside.gateway.ports import OriginRequest
from chunkside.upstream.hops import Means, Store
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.unused import Unused
from chunkside.upstream.wire import Times
from tests.support.house import HandClock, Record
from tests.support.raw_origin import Heard, RawOrigin, Speak

TIMES = Times(connect=5.0, first_byte=10.0, idle=10.0, deadline=20.0, write=10.0, retries=0)
MakeStore = Callable[[HandClock, Record], Store]


class Shop:
    def __init__(self, url: str, make: MakeStore, unused: Unused | None = None) -> None:
        self.record, self.clock = Record(), HandClock()
        means = Means(store=make(self.clock, self.record), unused=unused)
        self.upstream = HttpUpstream(
            url, TIMES, self.record, via=b"1.1 t", clock=self.clock, means=means
        )

    async def read(self, asked: OriginRequest) -> tuple[int, bytes]:
        response = await self.upstream.send(asked)
        body = b"".join([chunk async for chunk in response.chunks()])
        response.close()
        return response.head.status, body


@asynccontextmanager
async def shop_before(
    speak: Speak, make: Callable[[str], MakeStore], unused: Unused | None = None
) -> AsyncIterator[tuple[Shop, RawOrigin]]:
    """`make`: of the origin's URL."""
    async with RawOrigin(speak) as origin, asyncio.timeout(30):
        shop = Shop(origin.url, make(origin.url), unused)
        try:
            yield shop, origin
        finally:
            await shop.upstream.close()


def ask(
    method: str = "GET",
    target: bytes = b"/data/a/c/0",
    *fields: tuple[bytes, bytes],
    is_signed: bool = False,
) -> OriginRequest:
    return OriginRequest(method, target, Fields(fields), "chunk", None, is_signed=is_signed)


def answer(status: int, body: bytes = b"", *lines: bytes) -> bytes:
    head = b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n" % (status, len(body))
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def xml(code: bytes, more: bytes = b"") -> bytes:
    return b"<Error><Code>%b</Code>%b</Error>" % (code, more)


def in_turn(*answers: bytes) -> Speak:
    """Says one after the other, and the last of them from then on."""
    left = list(answers)
    return _saying(lambda _: left)


def by_target(answers: dict[bytes, list[bytes]]) -> Speak:
    """`answers`: by target, all that are said in turn; the last one from then on."""
    left = {target: list(told) for target, told in answers.items()}
    return _saying(lambda heard: left[heard.target])


def _saying(left_for: Callable[[Heard], list[bytes]]) -> Speak:
    async def speak(heard: Heard, writer: asyncio.StreamWriter) -> None:
        left = left_for(heard)
        told = left.pop(0) if len(left) > 1 else left[0]
        if heard.method == "HEAD":
            told = told.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        writer.write(told)
        await writer.drain()

    return speak


def field(heard: Heard, name: bytes) -> Any:
    """Its value; None where it isn't there."""
    lines = [line.partition(b": ") for line in heard.head.split(b"\r\n")[1:]]
    found = [value for told, _, value in lines if told.lower() == name]
    return found[0] if found else None
