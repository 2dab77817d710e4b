"""Asking the origin again for what is answered from store, and what to do about its answer.

In the background, a few at once and a few waiting: no client waits for an audit, nor is asked for
anything. The question is the audited request's own, with its credential and no other's. What was
written, purged or brought anew meanwhile is left alone, and not judged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, assert_never

from chunkside.core.ancestry import directory_of
from chunkside.core.audit import (
    Agrees,
    Changed,
    Judgement,
    Told,
    Undecided,
    Why,
    Wrong,
    judge,
    kind_of,
)
from chunkside.core.entry import Absent, BodyRef, Now, Selected
from chunkside.core.key import CacheKey
from chunkside.core.ranges import generation_of
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import stored_of
from chunkside.core.variants import choose
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import BodyTorn, OriginError, StoreFault
from chunkside.gateway.fill import full_get
from chunkside.gateway.findings import Arrival, Finding, Subject, evidence, subject_of
from chunkside.gateway.ports import BodyReader, OriginResponse
from chunkside.gateway.sampling import Sampler

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 2
MOST_WAITING: Final = 64
_OVERTAKEN: Final = Undecided(
    Why.OVERTAKEN, "meanwhile it was written, purged or brought anew, or a write still runs"
)
_REFUSED: Final = Undecided(
    Why.ERROR, "the origin answers 403, and its array's document doesn't prove it an absence's"
)
_MOST_LINES: Final = 20
_LINES_SECONDS: Final = 60.0


class Audits:
    """Of one route. `hid_absence`: whether the refusal of a request, come just now, was that of a
    missing key, for all that can be told within so many seconds.
    """

    def __init__(
        self, edges: Edges, hid_absence: Callable[[Request, float], Awaitable[bool]]
    ) -> None:
        share = edges.audit_share
        # Where all is asked of the origin anyway, all is compared.
        self.sampler = Sampler(share) if share > 0 and not edges.only_observes else None
        self._edges = edges
        self._hid_absence = hid_absence
        self._waiting: deque[Subject] = deque()
        self._known: set[tuple[CacheKey, BodyRef | None]] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._lines: deque[float] = deque(maxlen=_MOST_LINES)
        self._is_stopped = False

    @property
    def under_way(self) -> int:
        """How many run or wait."""
        return len(self._known)

    def stop(self) -> None:
        """Those that run end without a verdict, and those that wait won't begin."""
        self._is_stopped = True
        for worker in self._workers:
            worker.cancel()
        for subject in self._waiting:
            self._known.discard((subject.key, subject.file))
        self._waiting.clear()

    def sample(self, request: Request, held: Selected) -> None:
        """Hears of a hit, and audits some."""
        if self.sampler is None or self._is_stopped or not self.sampler.is_due():
            return
        subject = subject_of(request, held)
        if subject is None or (subject.key, subject.file) in self._known:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._edges.observer.audit_left_out(Why.BUSY)
            return
        self._known.add((subject.key, subject.file))
        self._waiting.append(subject)
        if len(self._workers) < MOST_AT_ONCE:
            self._edges.visits.enter()
            worker = self._edges.tasks.start(self._work(), "audits")
            self._workers.add(worker)
            worker.add_done_callback(self._worked)

    async def _work(self) -> None:
        while self._waiting:
            subject = self._waiting.popleft()
            try:
                await self.ask(subject)
            finally:
                self._known.discard((subject.key, subject.file))

    def _worked(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        self._edges.visits.leave()

    async def ask(self, subject: Subject) -> Finding:
        """Asks the origin, and drops what is held where that isn't so."""
        edges = self._edges
        lease = edges.lease(subject.key)
        try:
            if not edges.may_store(lease) or not self.stands(subject):
                return self.conclude(subject, Finding(_OVERTAKEN), is_standing=False)
            finding = await self.compare(subject)
            is_standing = edges.may_store(lease) and self.stands(subject)
            if not is_standing and _is_of_what_stood(finding.judgement):
                finding = replace(finding, judgement=_OVERTAKEN)
            return self.conclude(subject, finding, is_standing=is_standing)
        finally:
            edges.index.end(lease)

    async def look(self, request: Request) -> ResponseHead | OriginError:
        """How the origin answers a GET of what isn't held, or why it doesn't."""
        asked = full_get(request)
        if request.is_signed:
            # What a signature is for may not be changed.
            asked = replace(asked, fields=request.fields, is_signed=True)
        try:
            response = await self._edges.upstream.send(asked)
        except OriginError as error:
            return error
        response.close()
        return response.head

    async def compare(self, subject: Subject) -> Finding:
        """What the origin says by now."""
        held = subject.held
        most = self._edges.policy.max_body_bytes
        if not isinstance(held, Absent) and held.stored.length > most:
            return Finding(Undecided(Why.TOO_LARGE, "it is larger than max_body_size"))
        try:
            response = await self._edges.upstream.send(full_get(subject.request))
        except OriginError as error:
            return Finding(Undecided(Why.ERROR, str(error)))
        head, received_at = response.head, self._edges.now()
        self._edges.hear_refusal(subject.request, head.status)
        arrival = subject.arrival()
        try:
            # That something is there its head proves.
            is_proof = isinstance(held, Absent) and 200 <= head.status < 300
            failure = None if is_proof else await _receive(response, arrival, most)
        finally:
            response.close()
        if failure is not None:
            return Finding(failure, head, arrival.count)
        return await self.judge_arrival(subject, head, arrival, arrival.count, received_at)

    async def judge_arrival(
        self,
        subject: Subject,
        head: ResponseHead,
        arrival: Arrival,
        length: int,
        received_at: Now,
        reader: BodyReader | None = None,
    ) -> Finding:
        """What an answer that has arrived whole says of what is held. `length`: of the whole
        representation that it is, or is a part of. `reader`: of the file, where it was open before.
        """
        held, file = subject.held, subject.file
        told = Told(head, received_at, body=arrival.beginning)
        sums: tuple[int | None, int | None] = None, None
        if file is not None and not isinstance(held, Absent) and head.status == held.stored.status:
            try:
                start, size = subject.span(file)
                if reader is None:
                    held_sum = await self._edges.store.checksum(file, start, size)
                else:
                    held_sum = await reader.checksum(start, size)
                sums = held_sum, arrival.checksum
            except BodyTorn:
                # Its store has heard.
                pass
            except StoreFault as fault:
                if self.stands(subject):
                    self._edges.observer.store_failed(fault.operation, fault.cause)
            else:
                is_same = sums[0] == sums[1] and length == held.stored.length
                told = replace(told, is_same=is_same)
        judgement = judge(subject.request, held, told, self._edges.policy)
        if isinstance(judgement, Agrees) and head.status == 403:
            seconds = self._edges.read_seconds
            if not await self._hid_absence(subject.request, seconds):
                judgement = _REFUSED
        return Finding(judgement, head, arrival.count, *sums)

    def stands(self, subject: Subject) -> bool:
        """Whether what is audited is still what is held."""
        edges, held = self._edges, subject.held
        now = choose(edges.look_up(subject.key), subject.request.fields)
        if isinstance(held, Absent) and isinstance(now, Absent):
            # For how long it holds the route may see otherwise than the one that it was made by.
            return now._replace(lifetime=held.lifetime) == held
        if isinstance(held, Absent) or now is None or isinstance(now, Absent):
            return False
        is_there = subject.file is None or subject.file in now.bodies
        is_as_sure = now.must_validate == held.must_validate and now.token == held.token
        return is_there and is_as_sure and generation_of(now.stored) == generation_of(held.stored)

    def conclude(self, subject: Subject, finding: Finding, *, is_standing: bool) -> Finding:
        """Counts what was found; drops what isn't so, if it is still there."""
        observer, judgement = self._edges.observer, finding.judgement
        match judgement:
            case Undecided(why):
                observer.audit_left_out(why)
                return finding
            case Agrees():
                observer.audited(kind_of(subject.held), "agree")
                return finding
            case Changed():
                observer.audited(kind_of(subject.held), "changed")
            case Wrong():
                observer.audited(kind_of(subject.held), "wrong")
                self._tell(subject, finding, judgement)
            case _:
                assert_never(judgement)
        if is_standing:
            self._drop(subject, finding)
        return replace(finding, is_dropped=is_standing)

    def _drop(self, subject: Subject, finding: Finding) -> None:
        edges, target = self._edges, subject.key.object
        edges.discard(edges.index.drop(subject.key, "invalidated"))
        edges.observer.invalidated("audit")
        edges.shared.fallen.note(target, "an audit", edges.now())
        if subject.request.key_class == "metadata" and finding.head is not None:
            # Readers must not be told of the new array's shape and be given the old one's chunks.
            edges.note_change(target)
            edges.shared.fallen.note_beneath(directory_of(target), "an audit", edges.now())
            now = stored_of(subject.request, finding.head, edges.now(), edges.policy)
            edges.doubts.see(target, generation_of(now) if finding.head.status == 200 else None)

    def _tell(self, subject: Subject, finding: Finding, judgement: Wrong) -> None:
        """Says what is wrong with all its evidence; only so many lines a minute."""
        now = self._edges.now().boot
        if len(self._lines) == _MOST_LINES and now - self._lines[0] < _LINES_SECONDS:
            return
        self._lines.append(now)
        log.error(
            "what was held was wrong, and is dropped: %s",
            judgement.because,
            extra=evidence(subject, finding),
        )


def _is_of_what_stood(judgement: Judgement) -> bool:
    """Whether it says something of what was held, or of its file."""
    return not isinstance(judgement, Undecided) or judgement.why is Why.UNREADABLE


async def _receive(response: OriginResponse, arrival: Arrival, most: int) -> Undecided | None:
    """Reads an answer to its end, `most` bytes of it; what came between, if anything."""
    head = response.head
    if head.length is not None and head.length > most:
        return Undecided(Why.TOO_LARGE, "the origin's answer is larger than max_body_size")
    try:
        async for chunk in response.chunks():
            arrival.take(chunk)
            if arrival.count > most:
                return Undecided(Why.TOO_LARGE, "the origin's answer is larger than max_body_size")
    except BodyTorn:
        return Undecided(Why.ERROR, "the origin broke off in the middle of its answer")
    return None
