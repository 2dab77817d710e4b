"""An origin that misbehaves on a script: what goes wrong, and with which of its requests."""

from __future__ import annotations

import asyncio
import hashlib
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Final, Literal, Self

from tests.support.raw_origin import Heard, RawOrigin

Schedule = Literal["once", "half the time", "always"]
SCHEDULES: Final[tuple[Schedule, ...]] = ("once", "half the time", "always")

# What an answer is cut after.
_SOME: Final = 300


class FaultyOrigin:
    """Holds `objects` by target, and does its work until it is this request's turn to be failed."""

    def __init__(self, fault: str, schedule: Schedule) -> None:
        self.objects: dict[bytes, bytes] = {}
        self.is_mended = False
        self._fault = fault
        self._schedule = schedule
        self._turns = 0
        self._mended = asyncio.Event()
        greet = self._accept_slowly if fault == SLOW_ACCEPT else None
        self._raw = RawOrigin(self._speak, greet)

    async def __aenter__(self) -> Self:
        await self._raw.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._raw.__aexit__()

    @property
    def url(self) -> str:
        return self._raw.url

    @property
    def heard(self) -> list[Heard]:
        return self._raw.heard

    def count(self, method: str, target: bytes) -> int:
        return sum((each.method, each.target) == (method, target) for each in self._raw.heard)

    def mend(self) -> None:
        """From now on it does what it should; what it holds up goes on."""
        self.is_mended = True
        self._mended.set()

    def _is_due(self) -> bool:
        self._turns += 1
        if self.is_mended:
            return False
        match self._schedule:
            case "once":
                return self._turns == 1
            case "half the time":
                return self._turns % 2 == 1
            case "always":
                return True

    async def _accept_slowly(self, _: int) -> None:
        if self._is_due():
            await self._mended.wait()

    async def _speak(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        if self._fault == IDLE_CLOSE:
            # Whoever trusts a connection that was used before is left without an answer.
            is_due = heard.number > 1 and self._is_due()
        else:
            is_due = self._fault != SLOW_ACCEPT and self._is_due()
        if not is_due:
            writer.write(self._answer(heard))
            await writer.drain()
            return
        await FAULTS[self._fault](self, heard, writer)

    def _answer(self, heard: Heard) -> bytes:
        """What a sane origin says; a write is carried out."""
        if heard.method == "PUT":
            self.objects[heard.target] = heard.body
            return _head(b"201 Created", 0)
        body = self.objects.get(heard.target)
        if body is None:
            return _head(b"404 Not Found", 7) + b"no such"
        etag = b'"%b"' % hashlib.sha1(body).hexdigest()[:16].encode()
        lines = (b"ETag: " + etag, b"Accept-Ranges: bytes")
        asked = re.search(rb"\r\nRange: bytes=(\d+)-(\d*)\r\n", heard.head, re.IGNORECASE)
        if asked is None:
            return _head(b"200 OK", len(body), *lines) + body
        first, last = int(asked[1]), int(asked[2] or len(body) - 1)
        part = body[first : last + 1]
        told = b"Content-Range: bytes %d-%d/%d" % (first, first + len(part) - 1, len(body))
        return _head(b"206 Partial Content", len(part), *lines, told) + part

    async def silent(self, _: Heard, writer: asyncio.StreamWriter) -> None:
        await self._mended.wait()
        writer.close()

    async def stalls(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(self._answer(heard)[:_SOME])
        await writer.drain()
        await self._mended.wait()
        writer.close()


def _head(status: bytes, length: int, *lines: bytes) -> bytes:
    every = (b"HTTP/1.1 " + status, b"Content-Length: %d" % length, *lines)
    return b"\r\n".join(every) + b"\r\n\r\n"


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


Misbehave = Callable[[FaultyOrigin, Heard, asyncio.StreamWriter], Awaitable[None]]


async def _resets(_: FaultyOrigin, __: Heard, writer: asyncio.StreamWriter) -> None:
    _reset(writer)


async def _carries_out_and_resets(
    origin: FaultyOrigin, heard: Heard, writer: asyncio.StreamWriter
) -> None:
    origin._answer(heard)
    _reset(writer)


async def _closes(_: FaultyOrigin, __: Heard, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _resets_within(origin: FaultyOrigin, heard: Heard, writer: asyncio.StreamWriter) -> None:
    writer.write(origin._answer(heard)[:_SOME])
    await writer.drain()
    _reset(writer)


async def _trickles(origin: FaultyOrigin, heard: Heard, writer: asyncio.StreamWriter) -> None:
    answer = origin._answer(heard)
    for start in range(0, _SOME, 30):
        writer.write(answer[start : start + 30])
        await writer.drain()
        await asyncio.sleep(0.02)  # polls: a slow origin is what is played
    writer.write(answer[_SOME:])
    await writer.drain()


def _says(change: Callable[[bytes], bytes]) -> Misbehave:
    async def speak(origin: FaultyOrigin, heard: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(change(origin._answer(heard)))
        await writer.drain()
        writer.close()

    return speak


def _refuses(status: bytes, *lines: bytes) -> Misbehave:
    async def speak(_: FaultyOrigin, __: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(status, 4, *lines) + b"busy")
        await writer.drain()

    return speak


def _longer(answer: bytes) -> bytes:
    return re.sub(
        rb"Content-Length: (\d+)", lambda told: b"Content-Length: %d" % (int(told[1]) + 9), answer
    )


def _chunked(answer: bytes) -> bytes:
    """Without its last chunk."""
    head, _, body = answer.partition(b"\r\n\r\n")
    head = re.sub(rb"Content-Length: \d+", b"Transfer-Encoding: chunked", head)
    return head + b"\r\n\r\n%x\r\n%b\r\n" % (len(body), body) if body else head + b"\r\n\r\n"


def _two_lengths(answer: bytes) -> bytes:
    return answer.replace(b"Content-Length", b"Content-Length: 3\r\nContent-Length", 1)


SLOW_ACCEPT: Final = "accepts slowly"
IDLE_CLOSE: Final = "closes what was idle"

FAULTS: Final[dict[str, Misbehave]] = {
    "resets": _resets,
    "does the work, then resets": _carries_out_and_resets,
    "closes without an answer": _closes,
    "says nothing": FaultyOrigin.silent,
    "breaks off in the head": _says(lambda answer: answer[:20]),
    "resets within the body": _resets_within,
    "stalls within the body": FaultyOrigin.stalls,
    "trickles": _trickles,
    "sends less than it says": _says(_longer),
    "leaves out the last chunk": _says(_chunked),
    "sends more than it says": _says(lambda answer: answer + b"HTTP/1.1 404 Gone\r\n\r\n"),
    "tells two lengths": _says(_two_lengths),
    "speaks no HTTP": _says(lambda _: b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "says 204": _says(lambda _: b"HTTP/1.1 204 No Content\r\n\r\n"),
    "breaks off in a 404": _says(lambda _: _head(b"404 Not Found", 99) + b"no such"),
    "429": _refuses(b"429 Too Many Requests", b"Retry-After: 1"),
    "500": _refuses(b"500 Internal Server Error"),
    "502": _refuses(b"502 Bad Gateway"),
    "503": _refuses(b"503 Service Unavailable", b"Retry-After: 1"),
    "504": _refuses(b"504 Gateway Timeout"),
    SLOW_ACCEPT: _closes,
    IDLE_CLOSE: _closes,
}
