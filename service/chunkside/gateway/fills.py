"""At most one fill under way per key and `Origin`, and what comes of each for those who wait.

A fill outlives whoever started it. It asks for the whole representation without conditions, judges
the answer's head, and then either streams the body into the store while everybody reads along, or
gives everybody the same small answer, or hands an answer that may not be shared to one of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import aclosing
from dataclasses import replace
from typing import Final, assert_never

from chunkside.core.decision import (
    Freshen,
    JudgeWhole,
    Nonsense,
    NotStored,
    PassOn,
    StoreAbsence,
    StoreBody,
)
from chunkside.core.entry import Absent, Now, Present, StampPair, Stored
from chunkside.core.freshness import remaining
from chunkside.core.index import Lease
from chunkside.core.key import CacheKey
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
from chunkside.gateway.origin import Begun, whole_body
from chunkside.gateway.outcomes import Answered, Apart, Failed, Filled, Freshened, Outcome
from chunkside.gateway.ports import BodyWriter, OriginRequest, OriginResponse
from chunkside.gateway.rewrites import weigh_absence, weigh_document, weigh_unkept

_SHARED_ANSWER_BYTES: Final = 64 << 10
# Small bodies are answered before they are committed; this many bytes of them may wait for that.
UNCOMMITTED_BYTES: Final = 64 << 20
_APART_SECONDS: Final = 60.0
_TOO_LARGE: Final = "not_stored_too_large"
_MOST_APART: Final = 1024


class Fill:
    """`outcome` is set once the answer's head, or its whole where it is small, is there."""

    def __init__(
        self,
        edges: Edges,
        request: Request,
        stale: Present | None,
        lease: Lease,
        *,
        is_for_absence: bool,
    ) -> None:
        self.request = request
        self.lease = lease
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.waiters = 0
        self._edges = edges
        self._stale = stale
        self._is_for_absence = is_for_absence
        self._held = edges.index.look_up(request.key)
        self._began = edges.now()
        self._asked = OriginRequest(
            "GET", request.target, fill_fields(request, stale), request.key_class
        )

    @property
    def asked(self) -> OriginRequest:
        """The request as sent, for those who need the rest of a body by themselves."""
        return replace(self._asked, fields=fill_fields(self.request, None))

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
        if self._began.boot <= edges.changes.last_above(target):
            return False
        outcome = self._given()
        if outcome is None:
            # An absence may be what is coming, and would be older than the proof against it.
            return not self.lease.is_refuted
        if not isinstance(outcome, Filled) or outcome.body.is_torn or not outcome.body.is_kept:
            return False
        return remaining(outcome.stored, edges.now(), edges.policy) > 0

    async def join(self) -> tuple[Outcome, bool]:
        """The outcome, and whether a body that it holds counts on this caller to follow or
        decline.
        """
        is_expected = not self.outcome.done()
        self.waiters += 1
        try:
            outcome = await asyncio.shield(self.outcome)
        except asyncio.CancelledError:
            self.waiters -= 1
            if is_expected:
                self._lose_one()
            raise
        self.waiters -= 1
        return outcome, is_expected

    def _lose_one(self) -> None:
        """One who counted has left, perhaps after the outcome was there and before he saw it."""
        outcome = self._given()
        if isinstance(outcome, Filled):
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
        sent_at = self._edges.now()
        response = await self._edges.upstream.send(self._asked)
        try:
            return await self._judge(response, sent_at)
        finally:
            if not isinstance(self._given(), Apart):
                response.close()

    async def _ask_without_conditions(self) -> str:
        """The origin can't say whether what is held still stands: it falls, and is brought anew."""
        self._let_fall()
        self._stale = None
        self._asked = self.asked
        return await self._ask()

    def _given(self) -> Outcome | None:
        return self.outcome.result() if self.outcome.done() else None

    async def _judge(self, response: OriginResponse, sent_at: Now) -> str:
        edges = self._edges
        if proves_existence(response.head.status):
            edges.discard(edges.index.refute(self.request.key, by=self.lease))
        conclusion = conclude(self.request, self._stale, response.head, sent_at, edges.policy)
        match conclusion:
            case StoreBody() if self._is_for_absence and not self.waiters:
                self._hand_over(response, NotStored.UNASKED)
                return "not_stored_unasked"
            case StoreBody(stored):
                response = await weigh_document(edges, self.request, self._held, stored, response)
                return await self._bring(response, stored)
            case Freshen(stored):
                assert self._stale is not None
                fresh = Present(stored, self._stale.body, self.lease.stamps.token)
                is_stored = edges.freshen(self.lease, fresh)
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
                if self._stale is not None and response.head.status == 304:
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
        if isinstance(conclusion, StoreAbsence):
            weigh_absence(edges, self.request, self._held)
            absent = Absent(
                head.status,
                sent_at,
                conclusion.lifetime,
                self.lease.stamps.token,
                conclusion.allows_any_origin,
            )
            return edges.remember_absence(self.lease, absent)
        if head.status in (401, 403, 404, 410):
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

    async def _bring(self, response: OriginResponse, stored: Stored) -> str:
        edges = self._edges
        writer = await self._begin(stored, response.head.length)
        body = GrowingBody(response.head.length, writer, expected=self.waiters)
        self.outcome.set_result(Filled(stored, body, is_stored=writer is not None))
        try:
            async with aclosing(whole_body(edges.upstream, self._asked, response)) as chunks:
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
        if writer is not None and not body.is_kept:
            return await self._outgrown(writer, body)
        return await self._commit(writer, replace(stored, length=body.end))

    async def _outgrown(self, writer: BodyWriter, body: GrowingBody) -> str:
        """The body proved too large to be kept: what was written of it goes once it is read."""
        try:
            await body.until_nobody_reads_back()
        finally:
            await writer.abandon()
        return _TOO_LARGE

    async def _begin(self, stored: Stored, length: int | None) -> BodyWriter | None:
        edges = self._edges
        if not edges.may_store(self.lease):
            return None
        try:
            return await edges.store.begin(stored, self.lease.stamps, length)
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

    async def _commit(self, writer: BodyWriter | None, stored: Stored) -> str:
        if writer is None:
            return "not_stored_disk"
        edges = self._edges
        waiting = stored.length if stored.length <= SMALL_BODY_BYTES else 0
        if not edges.may_store(self.lease) or edges.uncommitted_bytes + waiting > UNCOMMITTED_BYTES:
            await writer.abandon()
            return "refused"
        edges.uncommitted_bytes += waiting
        try:
            body = await writer.commit(stored.length)
        except StoreFault as fault:
            edges.observer.store_failed(fault.operation, fault.cause)
            await writer.abandon()
            return "not_stored_disk"
        finally:
            edges.uncommitted_bytes -= waiting
        is_stored = edges.store_body(self.lease, Present(stored, body, self.lease.stamps.token))
        return "stored" if is_stored else "refused"


class Fills:
    """The fills under way, and the keys that are better asked for apart."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._running: dict[tuple[CacheKey, bytes | None], Fill] = {}
        self._apart: OrderedDict[CacheKey, float] = OrderedDict()

    @property
    def in_flight(self) -> int:
        return len(self._running)

    @property
    def waiters(self) -> int:
        return sum(fill.waiters for fill in self._running.values())

    def running(self, request: Request, stamps: StampPair) -> Fill | None:
        """The fill that this request may join."""
        fill = self._running.get(_name(request))
        return fill if fill is not None and fill.is_open_to(stamps) else None

    def prove_absence(self, request: Request) -> None:
        """Asks for the whole of a key that seems to be absent. A body that comes is not read,
        unless somebody wants it meanwhile.
        """
        if _name(request) not in self._running:
            self.start(request, None, is_for_absence=True)

    def start(
        self, request: Request, stale: Present | None, *, is_for_absence: bool = False
    ) -> Fill:
        lease = self._edges.lease(request.key)
        fill = Fill(self._edges, request, stale, lease, is_for_absence=is_for_absence)
        self._running[_name(request)] = fill
        self._edges.tasks.start(self._run(fill), "a fill")
        return fill

    async def _run(self, fill: Fill) -> None:
        outcome = "failed"
        try:
            outcome = await fill.run()
            if outcome == _TOO_LARGE:
                # Another fill would write as much in vain.
                self.keep_apart(fill.request.key)
        finally:
            if not fill.outcome.done():
                fill.outcome.set_result(Failed(OriginUnreachable("The fill was given up.")))
            name = _name(fill.request)
            if self._running.get(name) is fill:
                del self._running[name]
            self._edges.index.end(fill.lease)
            self._edges.observer.fill_ended(outcome)

    def keep_apart(self, key: CacheKey) -> None:
        """Answers for this key can't be shared: for a while nobody waits for another's."""
        self._apart[key] = self._edges.now().boot + _APART_SECONDS
        self._apart.move_to_end(key)
        if len(self._apart) > _MOST_APART:
            self._apart.popitem(last=False)

    def is_apart(self, key: CacheKey) -> bool:
        until = self._apart.get(key)
        if until is None:
            return False
        if until <= self._edges.now().boot:
            del self._apart[key]
            return False
        return True


def _name(request: Request) -> tuple[CacheKey, bytes | None]:
    return request.key, request.fields.get(b"origin")
