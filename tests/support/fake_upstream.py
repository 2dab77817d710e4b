"""An origin without a network: the port Upstream, with answers by script and gates to hold them.

Left alone it behaves, as tests/support/origin.py does: conditionals, single ranges, PUT and DELETE
on `objects`. What an answer holds is settled when its request has arrived; a gate decides when it
goes on. So a GET that is held while a PUT passes carries what the object was before.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Literal
from urllib.parse import unquote_to_bytes

from chunkside.core.fields import Fields
from chunkside.core.request import SAFE_METHODS
from chunkside.core.response import ResponseHead
from chunkside.gateway.errors import (
    BodyTorn,
    OriginError,
    OriginNonsense,
    OriginNotAsked,
    OriginTooSlow,
    OriginUnreachable,
    RequestAborted,
)
from chunkside.gateway.ports import Clock, Observer, OriginRequest

DEADLINE_SECONDS = 20.0
LAST_MODIFIED = b"Wed, 01 Jul 2026 12:00:00 GMT"
_TRIES = 4
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})

Fault = Literal["refused", "dies", "silent", "garbage", "spared"]
"""No connection; one that dies after the request; one that says nothing; one that says no HTTP; an
origin that isn't asked, since it has failed for a while.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes on the wire. `announced` is the Content-Length if it isn't the body's own;
    `ends_after`: body bytes after which the connection is lost.
    """

    status: int = 200
    fields: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    framing: Literal["length", "chunked", "close"] = "length"
    announced: int | None = None
    ends_after: int | None = None


@dataclass(frozen=True, slots=True)
class Thing:
    """One object as the origin holds it."""

    body: bytes
    etag: bytes | None
    last_modified: bytes | None = LAST_MODIFIED
    fields: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(slots=True)
class Exchange:
    """One request as it reached the origin, and what came of it."""

    method: str
    target: bytes
    fields: Fields
    body: bytes
    status: int | None = None
    sent: int = 0
    is_open: bool = False


class Gate:
    """Holds answers before their head, or after so many bytes of their body."""

    def __init__(self, target: bytes, method: str, at: int | None, times: int) -> None:
        self.target = target
        self.method = method
        self.at = at
        self._left = times
        self._open = asyncio.Event()
        self._arrivals = asyncio.Semaphore(0)

    def admits(self, request: OriginRequest) -> bool:
        if not self._left or (request.method, request.target) != (self.method, self.target):
            return False
        self._left -= 1
        return True

    async def reached(self) -> None:
        """Returns once one more answer stands here."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._arrivals.acquire()

    def open(self) -> None:
        self._open.set()

    async def pass_through(self) -> None:
        self._arrivals.release()
        await self._open.wait()


Scripted = Answer | Fault | Callable[[OriginRequest], Answer | None]


class FakeUpstream:
    def __init__(self, clock: Clock, observer: Observer, *, chunk_bytes: int = 64 << 10) -> None:
        self.objects: dict[bytes, Thing] = {}
        # By path and by the value of the request field that selects among them.
        self.variants: dict[bytes, tuple[bytes, dict[bytes, Thing]]] = {}
        self.exchanges: list[Exchange] = []
        self.chunk_bytes = chunk_bytes
        self._clock = clock
        self._observer = observer
        self._scripts: list[tuple[bytes, str | None, Scripted, list[int]]] = []
        self._gates: list[Gate] = []

    # What a test does.

    def put(
        self,
        path: bytes,
        body: bytes,
        *,
        etag: bytes | None = b"",
        last_modified: bytes | None = LAST_MODIFIED,
        fields: tuple[tuple[bytes, bytes], ...] = (),
    ) -> Thing:
        """Puts an object under its decoded path; its ETag is made of the bytes unless given."""
        if etag == b"":
            etag = b'"%b"' % hashlib.sha1(body).hexdigest()[:16].encode()
        thing = self.objects[path] = Thing(body, etag, last_modified, fields)
        return thing

    def put_variants(self, path: bytes, name: bytes, bodies: dict[bytes, bytes]) -> None:
        """Puts a representation for each value of the request field `name`; what has another value,
        or none, gets the object at that path.
        """
        things = {
            value: Thing(body, b'"%b-%d"' % (value, len(body)), fields=((b"Vary", name),))
            for value, body in bodies.items()
        }
        self.variants[path] = name, things

    def script(
        self, target: bytes, what: Scripted, *, method: str | None = None, times: int = -1
    ) -> None:
        """Answers the next `times` requests for a raw target so, or all. A later script wins."""
        self._scripts.insert(0, (target, method, what, [times]))

    def behave(self) -> None:
        self._scripts.clear()

    def hold(
        self, target: bytes, at: int | None = None, *, method: str = "GET", times: int = 1
    ) -> Gate:
        """Holds the next `times` answers before their head, or after `at` bytes of their body."""
        gate = Gate(target, method, at, times)
        self._gates.append(gate)
        return gate

    def count(self, method: str | None = None, path: bytes | None = None) -> int:
        return len(self.requests(method, path))

    def requests(self, method: str | None = None, path: bytes | None = None) -> list[Exchange]:
        return [
            each
            for each in self.exchanges
            if method in (None, each.method) and path in (None, each.target.partition(b"?")[0])
        ]

    @property
    def open_answers(self) -> int:
        """Answers that were begun, and neither closed nor read to their end."""
        return sum(each.is_open for each in self.exchanges)

    # What the gateway does.

    async def send(self, request: OriginRequest) -> FakeResponse:
        tries = _TRIES if request.method in SAFE_METHODS and request.content is None else 1
        for left in reversed(range(tries)):
            try:
                return await self._send_once(request)
            except OriginUnreachable:
                if not left:
                    raise
        raise AssertionError("unreachable")

    async def _send_once(self, request: OriginRequest) -> FakeResponse:
        status: int | None = None
        try:
            scripted = self._scripted(request)
            if scripted == "refused":
                raise OriginUnreachable("refused")
            if scripted == "spared":
                raise OriginNotAsked("left alone", 7)
            body = await self._received(request)
            exchange = Exchange(request.method, request.target, request.fields, body)
            self.exchanges.append(exchange)
            answer = scripted if scripted is not None else self._behaved(request, body)
            gates = [gate for gate in self._gates if gate.admits(request)]
            for gate in gates:
                if gate.at is None:
                    await gate.pass_through()
            if isinstance(answer, str):
                raise _error_of(answer)
            status = exchange.status = answer.status
            exchange.is_open = True
            return FakeResponse(self, request, answer, gates, exchange)
        finally:
            self._observer.upstream_answered(request.key_class, request.method, status, 0.0)

    async def _received(self, request: OriginRequest) -> bytes:
        if request.content is None:
            return b""
        parts = []
        try:
            async for chunk in request.content.chunks:
                self._observer.upstream_sent(len(chunk))
                parts.append(chunk)
        except RequestAborted as error:
            raise OriginUnreachable("the upload broke off") from error
        return b"".join(parts)

    def _scripted(self, request: OriginRequest) -> Answer | Fault | None:
        for target, method, what, left in self._scripts:
            if target != request.target or method not in (None, request.method) or not left[0]:
                continue
            left[0] -= 1
            return what(request) if callable(what) else what
        return None

    def _behaved(self, request: OriginRequest, body: bytes) -> Answer:
        path = unquote_to_bytes(request.target.partition(b"?")[0])
        match request.method:
            case "GET" | "HEAD":
                name, things = self.variants.get(path, (b"", {}))
                thing = things.get(request.fields.combined(name), self.objects.get(path))
                return self._read(request, thing)
            case "PUT":
                status = 204 if path in self.objects else 201
                thing = self.put(path, body)
                return Answer(status, ((b"ETag", thing.etag or b""),))
            case "DELETE":
                return Answer(204 if self.objects.pop(path, None) is not None else 404)
            case _:
                return Answer(200)

    def _read(self, request: OriginRequest, thing: Thing | None) -> Answer:
        date = (b"Date", formatdate(self._clock.now().wall, usegmt=True).encode())
        if thing is None:
            return Answer(404, (date, (b"Content-Type", b"text/plain")), b"no such object\n")
        fields = [date, (b"Accept-Ranges", b"bytes"), *thing.fields]
        if thing.etag is not None:
            fields.append((b"ETag", thing.etag))
        if thing.last_modified is not None:
            fields.append((b"Last-Modified", thing.last_modified))
        asked = request.fields.get(b"if-none-match")
        if asked is not None and thing.etag is not None and asked in (b"*", thing.etag):
            return Answer(304, tuple(fields))
        return _slice(request.fields, thing, fields)

    def received(self, size: int) -> None:
        self._observer.upstream_received(size)


@dataclass(slots=True)
class FakeResponse:
    _upstream: FakeUpstream
    _request: OriginRequest
    _answer: Answer
    _gates: list[Gate]
    _exchange: Exchange
    head: ResponseHead = field(init=False)

    def __post_init__(self) -> None:
        answer = self._answer
        told = answer.announced if answer.announced is not None else len(answer.body)
        length = told if answer.framing == "length" else None
        if answer.status in (204, 304):
            length = None
        fields = Fields(answer.fields).end_to_end().without(_FRAMING)
        is_bodiless = self._request.method == "HEAD" or answer.status in (204, 304)
        is_framed = answer.framing != "close" or is_bodiless
        self.head = ResponseHead(answer.status, fields, length, is_framed)

    async def chunks(self) -> AsyncIterator[bytes]:
        body = b"" if self._is_bodiless() else self._answer.body
        for start, stop in self._pieces(len(body)):
            piece = body[start:stop]
            if piece:
                self._exchange.sent += len(piece)
                self._upstream.received(len(piece))
                yield piece
            for gate in self._gates:
                if gate.at == stop:
                    await gate.pass_through()
            if self._is_torn_at(stop, len(body)):
                self.close()
                raise BodyTorn
        self.close()

    def close(self) -> None:
        self._exchange.is_open = False

    def _is_bodiless(self) -> bool:
        return self._request.method == "HEAD" or self._answer.status in (204, 304)

    def _is_torn_at(self, position: int, end: int) -> bool:
        if self._is_bodiless():
            return False
        if position == self._answer.ends_after:
            return self._answer.framing != "close"
        announced = self._answer.announced
        return position == end and announced is not None and announced > end

    def _pieces(self, length: int) -> list[tuple[int, int]]:
        if self._answer.ends_after is not None:
            length = min(length, self._answer.ends_after)
        stops = {gate.at for gate in self._gates if gate.at is not None and gate.at <= length}
        stops |= set(range(self._upstream.chunk_bytes, length, self._upstream.chunk_bytes))
        ordered = sorted(stops | {length})
        return list(zip([0, *ordered], ordered, strict=False))


def _error_of(fault: Fault) -> OriginError:
    match fault:
        case "silent":
            return OriginTooSlow("silent")
        case "garbage":
            return OriginNonsense("garbage")
        case _:
            return OriginUnreachable(fault)


def _slice(asked: Fields, thing: Thing, fields: list[tuple[bytes, bytes]]) -> Answer:
    length = len(thing.body)
    bounds = re.fullmatch(rb"bytes=(\d*)-(\d*)", asked.get(b"range") or b"")
    condition = asked.get(b"if-range")
    if bounds is None or condition not in (None, thing.etag, thing.last_modified):
        return Answer(200, tuple(fields), thing.body)
    if not bounds[1]:
        first, last = max(0, length - int(bounds[2])), length - 1
    else:
        first, last = int(bounds[1]), min(int(bounds[2] or length), length - 1)
    if first > last:
        return Answer(416, ((b"Content-Range", b"bytes */%d" % length),))
    fields.append((b"Content-Range", b"bytes %d-%d/%d" % (first, last, length)))
    return Answer(206, tuple(fields), thing.body[first : last + 1])
