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
from chunkside.core.lease import Lease
from chunkside.core.policy import ONLY_IF_CACHED, as_full_get, proves_existence, wants_proof
from chunkside.core.ranges import encoding_of, part_answered
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import hides_absences, why_not_body
from chunkside.gateway.audit import Audits
from chunkside.gateway.edges import Edges
from chunkside.gateway.fills import Fills
from chunkside.gateway.findings import Arrival, Subject, subject_of
from chunkside.gateway.passing import Passing
from chunkside.gateway.ports import BodyReader, Content, OriginResponse
from chunkside.gateway.reply import Reply
from chunkside.gateway.shelf import Shelf


@dataclass(frozen=True, slots=True)
class Observing:
    """Of one route."""

    edges: Edges
    fills: Fills
    passing: Passing
    shelf: Shelf
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
        subject, reader = await self._would_be_served(request, decision)
        if subject is None:
            reply = await self._relay(request, content, entry)
            self._bring(request, decision, reply)
            return reply
        comparison = _Comparison(self.edges, self.audits, request, subject, reader)
        try:
            return await self._relay(request, content, entry, comparison)
        except BaseException:
            comparison.give_up()
            raise

    async def _would_be_served(
        self, request: Request, decision: Decision
    ) -> tuple[Subject | None, BodyReader | None]:
        """What would be answered with, and used so; with the file open, as it may soon fall."""
        if request.method != "GET":
            return None, None
        match decision:
            case Serve(held, ttl) if ttl > 0:
                subject = subject_of(request, held)
            case ServeAbsence(absent):
                self.edges.index.touch(request.absence_key)
                subject = subject_of(request, absent)
            case _:
                return None, None
        if subject is None or subject.file is None:
            return subject, None
        reader = await self.shelf.open(subject.file)
        return (None if reader is None else subject), reader

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
        question = decision.meanwhile if isinstance(decision, Serve) else decision
        if not isinstance(question, Fill) or not _is_worth_a_fill(request, reply, edges):
            return
        if not fills.is_running(request, question.range_value):
            fills.start(request, question)


def _is_worth_a_fill(request: Request, reply: Reply, edges: Edges) -> bool:
    """Whether what a fill brings would be stored, by what the origin just answered."""
    if reply.status == 403:
        return hides_absences(reply.status, request, edges.policy)
    if reply.status in edges.policy.absent_statuses:
        return edges.policy.cache_missing
    head = ResponseHead(reply.status, reply.fields, reply.length)
    is_of_a_body = reply.status in (200, 206, 304)
    return is_of_a_body and why_not_body(head, request, edges.policy) is None


class _Comparison:
    """Of what would have been answered with what is."""

    def __init__(
        self,
        edges: Edges,
        audits: Audits,
        request: Request,
        subject: Subject,
        reader: BodyReader | None,
    ) -> None:
        self._edges = edges
        self._audits = audits
        self._request = request
        self._would_be = subject
        self._reader = reader
        self._lease: Lease | None = edges.lease(subject.key)
        # Nothing was written since it was chosen, nor is being written now.
        self._is_current = edges.may_store(self._lease) and audits.stands(subject)

    def give_up(self) -> None:
        if self._lease is not None:
            self._edges.index.end(self._lease)
            self._lease = None

    def look(self, response: OriginResponse) -> OriginResponse:
        """Compares an answer as whoever is answered with it reads it."""
        subject, head = self._subject(response.head)
        if subject is None or head is None or not self._is_current:
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
        subject, held = self._would_be, self._would_be.held
        if isinstance(held, Absent):
            # A part of it, or that it meets a condition, shows as well that it is there.
            return subject, replace(head, status=200) if proves_existence(head.status) else head
        # What was asked for under a condition, or encoded, is no answer to a full GET.
        is_encoded = encoding_of(head.fields) != encoding_of(held.stored.fields)
        if head.status in (304, 412, 416) or is_encoded:
            return None, None
        if head.status != 206:
            return subject, head
        told = part_answered(self._request.fields.combined(b"range"), head.fields)
        if told is None or subject.file is None or held.body_for(told[0]) != subject.file:
            return None, None
        return replace(subject, part=told[0]), replace(head, status=200, length=told[1])

    async def _judge(
        self,
        subject: Subject,
        head: ResponseHead,
        arrival: Arrival,
        arrived: asyncio.Future[bool],
    ) -> None:
        received_at, lease = self._edges.now(), self._lease
        if lease is None:
            # It was no answer that anybody could be given.
            return
        try:
            is_proof = isinstance(subject.held, Absent) and 200 <= head.status < 300
            if not is_proof and not await arrived:
                return
            # Of a part, how long the whole is was told.
            length = arrival.count if subject.part is None else head.length or 0
            finding = await self._audits.judge_arrival(
                subject, head, arrival, length, received_at, self._reader
            )
            # Its entry may have fallen to this very answer; a write or a purge must not have come.
            stamps = self._edges.stamps.read(subject.key.object)
            now = self._edges.now()
            if stamps == lease.stamps and stamps.closed_until() <= now.boot:
                is_standing = self._audits.stands(subject) and self._edges.may_store(lease)
                self._audits.conclude(subject, finding, is_standing=is_standing)
        finally:
            self.give_up()


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
