"""Trying the cache out without trusting it: the origin answers everything, verbatim, while the
cache decides, stores and forgets as if it answered; and what it would have answered is compared
with what the origin did.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from chunkside.core.cache_status import CacheStatus
from chunkside.core.decision import (
    Decision,
    Fill,
    Forward,
    Refuse,
    Serve,
    ServeAbsence,
    Write,
)
from chunkside.core.entry import Absent, Selected
from chunkside.core.key import CacheKey
from chunkside.core.lease import Lease
from chunkside.core.policy import ONLY_IF_CACHED, as_full_get, wants_proof
from chunkside.core.ranges import encoding_of, part_answered
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import why_not_body
from chunkside.gateway.audit import Audits
from chunkside.gateway.edges import Edges
from chunkside.gateway.fills import Fills
from chunkside.gateway.findings import Arrival, Subject, subject_of
from chunkside.gateway.passing import Passing
from chunkside.gateway.ports import Content, OriginResponse
from chunkside.gateway.reply import Reply


@dataclass(frozen=True, slots=True)
class Observing:
    """Of one route."""

    edges: Edges
    fills: Fills
    passing: Passing
    audits: Audits

    async def answer(
        self,
        request: Request,
        content: Content | None,
        decision: Decision,
        entry: Selected | None,
    ) -> Reply | None:
        """None for what is the same whether the cache answers or not. Raises OriginError."""
        if isinstance(decision, Write) or (
            isinstance(decision, Refuse) and decision is not ONLY_IF_CACHED
        ):
            return None
        held = _would_be_served(request, decision)
        if held is None:
            reply = await self._relay(request, content, entry)
            self._bring(request, decision, reply)
            return reply
        comparison = _Comparison(self.edges, self.audits, request, held)
        try:
            return await self._relay(request, content, entry, comparison)
        except BaseException:
            comparison.give_up()
            raise

    async def _relay(
        self,
        request: Request,
        content: Content | None,
        entry: Selected | None,
        comparison: _Comparison | None = None,
    ) -> Reply:
        look = None if comparison is None else comparison.look
        reply = await self.passing.relay(request, content, Forward.BYPASS, entry, look)
        reply.cache_status = CacheStatus(
            forward=Forward.BYPASS, fwd_status=reply.cache_status.fwd_status, detail="observe"
        )
        return reply

    def _bring(self, request: Request, decision: Decision, reply: Reply) -> None:
        """Has what is not held brought for the next one, by a request of its own. Readers come
        first: fills have half of the connections at most.
        """
        edges, fills = self.edges, self.fills
        if fills.in_flight >= edges.most_orphans:
            return
        if wants_proof(request, reply.status, reply.fields, edges.policy):
            fills.prove_absence(as_full_get(request))
        if not isinstance(decision, Fill) or not _is_worth_a_fill(request, reply, edges):
            return
        if not fills.is_running(request, decision.range_value):
            fills.start(request, decision)


def _would_be_served(request: Request, decision: Decision) -> Selected | None:
    match decision:
        case Serve(held, ttl) if ttl > 0 and request.method == "GET":
            return held
        case ServeAbsence(absent) if request.method == "GET":
            return absent
        case _:
            return None


def _is_worth_a_fill(request: Request, reply: Reply, edges: Edges) -> bool:
    """Whether what a fill brings would be stored, by what the origin just answered."""
    if reply.status in edges.policy.absent_statuses:
        return edges.policy.cache_missing
    head = ResponseHead(reply.status, reply.fields, reply.length)
    is_of_a_body = reply.status in (200, 206, 304)
    return is_of_a_body and why_not_body(head, request, edges.policy) is None


class _Comparison:
    """Of what would have been answered with what is."""

    def __init__(self, edges: Edges, audits: Audits, request: Request, held: Selected) -> None:
        self._edges = edges
        self._audits = audits
        self._request = request
        self._held = held
        self._lease: Lease | None = edges.lease(_key_of(request, held))
        self._was_open = edges.may_store(self._lease)

    def give_up(self) -> None:
        if self._lease is not None:
            self._edges.index.end(self._lease)
            self._lease = None

    def look(self, response: OriginResponse) -> OriginResponse:
        """Compares an answer as whoever is answered with it reads it."""
        subject, head = self._subject(response.head)
        if subject is None or head is None or not self._was_open:
            self.give_up()
            return response
        arrived: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        part = subject.part
        arrival = subject.arrival() if part is None else Arrival(0, part.length)
        work = self._judge(subject, head, arrival, arrived)
        self._edges.tasks.start(work, "a comparison")
        return _Watched(response, arrival, arrived)

    def _subject(self, head: ResponseHead) -> tuple[Subject | None, ResponseHead | None]:
        """What is to be compared with an answer, and its head as that of the whole."""
        held, request = self._held, self._request
        full = as_full_get(request)
        if isinstance(held, Absent):
            return Subject(full, held, None), head
        # What was asked for under a condition, or encoded, is no answer to a full GET.
        if head.status in (304, 412, 416) or encoding_of(head.fields) != encoding_of(
            held.stored.fields
        ):
            return None, None
        if head.status != 206:
            return subject_of(full, held), head
        told = part_answered(request.fields.combined(b"range"), head.fields)
        file = None if told is None else held.body_for(told[0])
        if told is None or file is None:
            return None, None
        whole = replace(head, status=200, length=told[1])
        return Subject(full, held, file, told[0]), whole

    async def _judge(
        self,
        subject: Subject,
        head: ResponseHead,
        arrival: Arrival,
        arrived: asyncio.Future[bool],
    ) -> None:
        received_at = self._edges.now()
        try:
            is_proof = isinstance(subject.held, Absent) and 200 <= head.status < 300
            if not is_proof and not await arrived:
                return
            # Of a part, how long the whole is was told.
            length = arrival.count if subject.part is None else head.length or 0
            finding = await self._audits.judge_arrival(subject, head, arrival, length, received_at)
            lease = self._lease
            assert lease is not None
            # Its entry may have fallen to this very answer; a write or a purge must not have come.
            stamps = self._edges.stamps.read(subject.key.object)
            now = self._edges.now()
            if stamps == lease.stamps and stamps.closed_until() <= now.boot:
                is_standing = self._audits.stands(subject) and self._edges.may_store(lease)
                self._audits.conclude(subject, finding, is_standing=is_standing)
        finally:
            self.give_up()


def _key_of(request: Request, held: Selected) -> CacheKey:
    return request.absence_key if isinstance(held, Absent) else request.key


@dataclass(slots=True)
class _Watched:
    """An answer whose bytes are seen on their way. `arrived`: whether all of them were."""

    _response: OriginResponse
    _arrival: Arrival
    _arrived: asyncio.Future[bool]

    @property
    def head(self) -> ResponseHead:
        return self._response.head

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.chunks():
            self._arrival.take(chunk)
            yield chunk
        self._end(is_whole=True)

    def close(self) -> None:
        self._response.close()
        self._end(is_whole=False)

    def _end(self, *, is_whole: bool) -> None:
        if not self._arrived.done():
            self._arrived.set_result(is_whole)
