"""Bringing one answer from the origin, and what comes of it for those who wait.

A fill outlives whoever started it. It asks for a whole representation or for one range of it,
without the client's conditions, judges the answer's head, and then either streams the body into the
store while everybody reads along, or gives everybody the same small answer, or hands an answer that
may not be shared to one of them.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final, assert_never

from chunkside.core.decision import Fill as FillDecision
from chunkside.core.decision import (
    Freshen,
    JudgeWhole,
    Nonsense,
    NotStored,
    PassOn,
    StoreAbsence,
    StoreBody,
    StorePart,
)
from chunkside.core.entry import Absent, Now, Part, StampPair, Stored
from chunkside.core.fields import Fields
from chunkside.core.freshness import remaining
from chunkside.core.lease import Lease
from chunkside.core.policy import conclude, conclude_absence, fill_fields, proves_existence
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import (
    BodyTorn,
    OriginError,
    OriginNonsense,
    OriginUnreachable,
    StoreFault,
)
from chunkside.gateway.growing import SMALL_BODY_BYTES, GrowingBody
from chunkside.gateway.origin import Begun, Span, whole_body
from chunkside.gateway.outcomes import Answered, Apart, Failed, Filled, Freshened, Outcome, is_of
from chunkside.gateway.ports import BodyWriter, OriginRequest, OriginResponse
from chunkside.gateway.rewrites import weigh_absence, weigh_document, weigh_part, weigh_unkept

_SHARED_ANSWER_BYTES: Final = 64 << 10
# Small bodies are answered before they are committed; this many bytes of them may wait for that.
UNCOMMITTED_BYTES: Final = 64 << 20
TOO_LARGE: Final = "not_stored_too_large"


@dataclass(frozen=True, slots=True)
class Joined:
    """What one who waited got. `is_expected`: a body in it counts on him to follow or decline.
    `is_outdated`: it was asked for before what was known when he came, and has other bytes.
    """

    outcome: Outcome
    is_expected: bool
    is_outdated: bool


class Fill:
    """`outcome` is set once the answer's head, or its whole where it is small, is there."""

    def __init__(
        self,
        edges: Edges,
        request: Request,
        asked: FillDecision,
        lease: Lease,
        *,
        is_for_absence: bool,
    ) -> None:
        self.request = request
        self.range_value = asked.range_value
        self.lease = lease
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.waiters = 0
        self._edges = edges
        self._decision = asked
        self._is_for_absence = is_for_absence
        self._held = edges.index.look_up(request.key)
        self._began = edges.now()

    @property
    def asked(self) -> OriginRequest:
        """A full GET, for those who need the rest of a body by themselves."""
        return self._request_with(fill_fields(self.request, None))

    def _request_with(self, fields: Fields) -> OriginRequest:
        return OriginRequest("GET", self.request.target, fields, self.request.key_class)

    def growing(self) -> Filled | None:
        """The body where one is arriving already."""
        outcome = self._given()
        return outcome if isinstance(outcome, Filled) else None

    def is_open_to(self, stamps: StampPair) -> bool:
        """Whether a request that sees `stamps` may share this fill's answer.

        Once the head is there, the answer must be fresh too; those who waited for it have it
        anyway.
        """
        edges, target = self._edges, self.request.key.object
        if self.lease.is_revoked or self.lease.stamps != stamps:
            return False
        if edges.doubts.has_doubted(target, self._began.boot):
            return False
        outcome = self._given()
        if outcome is None:
            # An absence may be what is coming, and would be older than the proof against it. Where
            # it is known what should come, `join` tells whether it did.
            return not self.lease.is_refuted or self.lease.only is not None
        if not isinstance(outcome, Filled) or outcome.body.is_torn or not outcome.body.is_kept:
            return False
        if self.lease.only is not None and not is_of(outcome, self.lease.only):
            # Other bytes were seen since.
            return False
        return remaining(outcome.stored, edges.now(), edges.policy) > 0

    async def join(self) -> Joined:
        known = self.lease.only
        is_expected = not self.outcome.done()
        self.waiters += 1
        try:
            outcome = await asyncio.shield(self.outcome)
        except asyncio.CancelledError:
            self.waiters -= 1
            self.leave(is_expected=is_expected)
            raise
        self.waiters -= 1
        return Joined(outcome, is_expected, known is not None and not is_of(outcome, known))

    def leave(self, *, is_expected: bool) -> None:
        """One who waited will not follow a body, or does already; nor claim an answer."""
        outcome = self._given()
        if isinstance(outcome, Filled) and is_expected:
            outcome.body.decline()
        elif isinstance(outcome, Apart) and not self.waiters:
            outcome.let_go()

    async def run(self) -> str:
        """Carries the fill out; gives a word for how it ended."""
        try:
            return await self._ask()
        except OriginError as error:
            self.outcome.set_result(Failed(error))
            return "failed"

    async def _ask(self) -> str:
        sent_at, asked = self._edges.now(), self._decision
        fields = fill_fields(self.request, asked.stale, asked.range_value)
        response = await self._edges.upstream.send(self._request_with(fields))
        try:
            return await self._judge(response, sent_at)
        finally:
            if not isinstance(self._given(), Apart):
                response.close()

    async def _ask_without_conditions(self) -> str:
        """The origin can't say whether what is held still stands: it falls, and is brought anew."""
        self._let_fall()
        # What fell revoked this fill's own lease too, and what comes now is asked for anew.
        self._edges.index.end(self.lease)
        self.lease = self._edges.lease(self.request.key)
        self._decision = replace(self._decision, stale=None)
        return await self._ask()

    def _given(self) -> Outcome | None:
        return self.outcome.result() if self.outcome.done() else None

    async def _judge(self, response: OriginResponse, sent_at: Now) -> str:
        edges = self._edges
        if proves_existence(response.head.status):
            edges.discard(edges.index.refute(self.request.key, by=self.lease))
        asked = self._decision
        conclusion = conclude(self.request, asked, response.head, sent_at, edges.policy)
        match conclusion:
            case StoreBody() if self._is_for_absence and not self.waiters:
                self._hand_over(response, NotStored.UNASKED)
                return "not_stored_unasked"
            case StoreBody(stored):
                response = await weigh_document(edges, self.request, self._held, stored, response)
                edges.see(self.lease, stored)
                return await self._bring(response, stored, response.head.length, None)
            case StorePart(stored, part):
                edges.see(self.lease, stored)
                weigh_part(edges, self.request, self._held, stored)
                is_held = edges.confirm(self.lease, stored, part)
                return await self._bring(response, stored, part.length, part, is_held=is_held)
            case Freshen(stored):
                assert asked.stale is not None
                fresh = replace(asked.stale, stored=stored, must_validate=False)
                is_stored = edges.freshen(self.lease, asked.stale, stored)
                self.outcome.set_result(Freshened(fresh, is_stored))
                return "freshened"
            case JudgeWhole():
                return await self._share(response, sent_at)
            case PassOn(reason):
                weigh_unkept(edges, self.request, self._held)
                self._let_fall()
                self._hand_over(response, reason)
                return f"not_stored_{reason.replace('-', '_')}"
            case Nonsense(detail):
                if asked.stale is not None and response.head.status == 304:
                    return await self._ask_without_conditions()
                raise OriginNonsense(detail)
            case _:
                assert_never(conclusion)

    def _hand_over(self, response: OriginResponse, reason: NotStored) -> None:
        """Gives an answer that may not be shared to whoever claims it first."""
        apart = Apart(response.head, response, reason)
        self.outcome.set_result(apart)
        if not self.waiters:
            apart.let_go()

    # An absence or an error.

    async def _share(self, response: OriginResponse, sent_at: Now) -> str:
        head = response.head
        if head.length is not None and head.length > _SHARED_ANSWER_BYTES:
            self._hand_over(response, NotStored.STATUS)
            return "not_stored_status"
        body = bytearray()
        chunks = response.chunks()
        try:
            async for chunk in chunks:
                body += chunk
                if len(body) > _SHARED_ANSWER_BYTES:
                    self._hand_over(Begun(response, bytes(body), chunks), NotStored.STATUS)
                    return "not_stored_status"
        except BodyTorn as torn:
            # Half an answer proves nothing, least of all an absence.
            raise OriginUnreachable("The origin broke off in the middle of its answer.") from torn
        is_stored = self._judge_absence(head, bytes(body), sent_at)
        self.outcome.set_result(Answered(head, bytes(body), is_stored))
        return "absent" if is_stored else "not_stored_status"

    def _judge_absence(self, head: ResponseHead, body: bytes, sent_at: Now) -> bool:
        edges = self._edges
        conclusion = conclude_absence(self.request, head, body, edges.policy)
        # Of a range only the next full GET is told that the whole is absent.
        if isinstance(conclusion, StoreAbsence) and self.range_value is None:
            weigh_absence(edges, self.request, self._held)
            absent = Absent(
                head.status,
                sent_at,
                conclusion.lifetime,
                self.lease.stamps.token,
                conclusion.allows_any_origin,
            )
            return edges.remember_absence(self.lease, absent)
        # A range that what is held would satisfy is refused with 416: there is something else now.
        if head.status in (401, 403, 404, 410, 416):
            if head.status in (404, 410):
                weigh_absence(edges, self.request, self._held)
            self._let_fall()
        return False

    def _let_fall(self) -> None:
        """The origin has something else now than what is held, even if that can't be kept."""
        edges = self._edges
        if edges.may_store(self.lease):
            edges.discard(edges.index.drop(self.request.key, "replaced"))

    # A body.

    async def _bring(
        self,
        response: OriginResponse,
        stored: Stored,
        length: int | None,
        part: Part | None,
        *,
        is_held: bool = False,
    ) -> str:
        edges = self._edges
        writer = None if is_held else await self._begin(stored, length, part)
        body = GrowingBody(length, writer, expected=self.waiters)
        self.outcome.set_result(Filled(stored, body, is_held or writer is not None, part))
        span = Span(0 if part is None else part.first, length, stored.length)
        try:
            async with aclosing(whole_body(edges.upstream, self.asked, response, span)) as chunks:
                async for chunk in chunks:
                    if not await body.wait_for_followers():
                        return "abandoned"
                    body.publish(chunk)
                    writer = await self._keep(writer, body, chunk)
            body.finish()
        except BodyTorn:
            return "torn"
        finally:
            if not body.is_whole:
                body.tear()
                if writer is not None:
                    await writer.abandon()
        if is_held:
            return "freshened"
        if writer is not None and not body.is_kept:
            return await self._outgrown(writer, body)
        stored = stored if part is not None else replace(stored, length=body.end)
        return await self._commit(writer, stored, body)

    async def _outgrown(self, writer: BodyWriter, body: GrowingBody) -> str:
        """The body proved too large to be kept."""
        await _abandon_once_read(writer, body)
        return TOO_LARGE

    async def _begin(
        self, stored: Stored, length: int | None, part: Part | None
    ) -> BodyWriter | None:
        edges = self._edges
        if not edges.may_store(self.lease):
            return None
        try:
            return await edges.store.begin(stored, self.lease.stamps, length, part)
        except StoreFault as fault:
            edges.observer.store_failed(fault.operation, fault.cause)
            return None

    async def _keep(
        self, writer: BodyWriter | None, body: GrowingBody, chunk: bytes
    ) -> BodyWriter | None:
        """Writes the newest chunk; gives the writer for the next, None where there is no use."""
        if writer is None or not body.is_kept:
            return writer
        if body.end > self._edges.policy.max_body_bytes:
            body.stop_keeping()
            return writer
        try:
            await writer.append(chunk)
        except StoreFault as fault:
            self._edges.observer.store_failed(fault.operation, fault.cause)
            body.lose_writer()
            await writer.abandon()
            return None
        body.written()
        return writer

    async def _commit(self, writer: BodyWriter | None, stored: Stored, body: GrowingBody) -> str:
        if writer is None:
            return "not_stored_disk"
        edges, length = self._edges, body.end
        waiting = length if length <= SMALL_BODY_BYTES else 0
        if not edges.may_store(self.lease) or edges.uncommitted_bytes + waiting > UNCOMMITTED_BYTES:
            body.stop_keeping()
            await _abandon_once_read(writer, body)
            return "refused"
        edges.uncommitted_bytes += waiting
        try:
            committed = await writer.commit(length)
        except StoreFault as fault:
            edges.observer.store_failed(fault.operation, fault.cause)
            await writer.abandon()
            return "not_stored_disk"
        finally:
            edges.uncommitted_bytes -= waiting
        return "stored" if edges.store_body(self.lease, stored, committed) else "refused"


async def _abandon_once_read(writer: BodyWriter, body: GrowingBody) -> None:
    """Lets go of a body that won't be kept once nobody needs what was written of it."""
    try:
        await body.until_nobody_reads_back()
    finally:
        await writer.abandon()
