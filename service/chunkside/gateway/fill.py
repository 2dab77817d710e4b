"""Bringing one answer from the origin, and what comes of it for those who wait.

A fill outlives whoever started it. It asks for a whole representation or for one range of it,
without the client's conditions, judges the answer's head, and then either streams the body into the
store while everybody reads along, or gives everybody the same small answer, or hands an answer that
may not be shared to one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
from chunkside.core.heads import head_of_hidden
from chunkside.core.lease import Lease
from chunkside.core.policy import conclude, conclude_absence, fill_fields, proves_existence
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import is_refusal_of_absence
from chunkside.core.variants import is_selected_by
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import BodyTorn, OriginError, OriginNonsense, OriginUnreachable
from chunkside.gateway.growing import GrowingBody
from chunkside.gateway.holding import Holding
from chunkside.gateway.keeping import NOT_KEPT, Keeping, abandon_once_read
from chunkside.gateway.origin import Begun, Span, whole_body
from chunkside.gateway.outcomes import (
    Answered,
    Apart,
    Failed,
    Filled,
    Freshened,
    Outcome,
    is_for,
    is_of,
)
from chunkside.gateway.ports import BodyWriter, OriginRequest, OriginResponse
from chunkside.gateway.rewrites import weigh_absence, weigh_document, weigh_part, weigh_unkept

_SHARED_ANSWER_BYTES: Final = 64 << 10
TOO_LARGE: Final = "not_stored_too_large"


@dataclass(frozen=True, slots=True)
class Joined:
    """What one who waited got. `is_expected`: a body in it counts on him to follow or decline.
    `is_unfit`: it was asked for before what was known when he came, and has other bytes; or it is
    of a variant that his request doesn't select.
    """

    outcome: Outcome
    is_expected: bool
    is_unfit: bool


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
        on_orphaned: Callable[[Fill], None],
        hid_absence: Callable[[Request, float], Awaitable[bool]],
    ) -> None:
        self.request = request
        self.range_value = asked.range_value
        self.lease = lease
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.waiters = 0
        self._edges = edges
        self._decision = asked
        self._is_for_absence = is_for_absence
        self._on_orphaned = on_orphaned
        self._hid_absence = hid_absence
        self._had_a_reader = False
        self._holding = Holding(edges, request, asked.range_value)
        self._held = self._holding.entry()
        self._began = edges.now()

    def growing(self) -> Filled | None:
        """The body where one is arriving already."""
        outcome = self._given()
        return outcome if isinstance(outcome, Filled) else None

    def is_open_to(self, request: Request, stamps: StampPair) -> bool:
        """Whether a request that sees `stamps` may share this fill's answer.

        Once the head is there, the answer must be the request's and fresh; those who waited for it
        have it anyway.
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
            return not self.lease.is_refuted or bool(self.lease.only)
        if not isinstance(outcome, Filled) or outcome.body.is_torn or not outcome.body.is_kept:
            return False
        if not self.lease.is_for(outcome.stored):
            # Other bytes, or none, were seen since.
            return False
        if not is_selected_by(outcome.stored, request.fields):
            return False
        return remaining(outcome.stored, edges.now(), edges.policy) > 0

    @property
    def will_be_validated(self) -> bool:
        """Whether its body is there, will be stored, and may not be used without asking."""
        filled, edges = self.growing(), self._edges
        return (
            filled is not None
            and filled.is_stored
            and filled.body.is_whole
            and remaining(filled.stored, edges.now(), edges.policy) <= 0
            and self.lease.is_for(filled.stored)
            and edges.may_store(self.lease)
        )

    async def join(self, request: Request) -> Joined:
        known = self.lease.only
        is_expected = not self.outcome.done()
        self.waiters += 1
        self._had_a_reader = True
        try:
            outcome = await asyncio.shield(self.outcome)
        except asyncio.CancelledError:
            self.waiters -= 1
            self.leave(is_expected=is_expected)
            self._may_be_orphaned()
            raise
        self.waiters -= 1
        is_outdated = bool(known) and not is_of(outcome, known)
        is_his = is_for(outcome, self.request.fields, request.fields)
        return Joined(outcome, is_expected, is_outdated or not is_his)

    def leave(self, *, is_expected: bool) -> None:
        """One who waited will not follow a body, or does already; nor claim an answer."""
        outcome = self._given()
        if isinstance(outcome, Filled) and is_expected:
            outcome.body.decline()
        elif isinstance(outcome, Apart) and not self.waiters:
            outcome.let_go()

    @property
    def is_orphan(self) -> bool:
        """Whether all are gone who wanted what is still on its way."""
        if not self._had_a_reader or self.waiters:
            return False
        outcome = self._given()
        return outcome is None or (isinstance(outcome, Filled) and outcome.body.is_alone)

    def _may_be_orphaned(self) -> None:
        if self.is_orphan:
            self._on_orphaned(self)

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
        response = await self._edges.upstream.send(_get(self.request, fields))
        try:
            return await self._judge(response, sent_at)
        finally:
            if not isinstance(self._given(), Apart):
                response.close()

    async def _ask_without_conditions(self) -> str:
        """The origin can't say whether what is held still stands: it falls, and is brought anew."""
        self._holding.let_fall(self.lease)
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
            edges.refute(self.request.key, by=self.lease)
        edges.hear_refusal(self.request, response.head.status)
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
                return self._pass_on(response, reason)
            case Nonsense(detail):
                if asked.stale is not None and response.head.status == 304:
                    return await self._ask_without_conditions()
                raise OriginNonsense(detail)
            case _:
                assert_never(conclusion)

    def _pass_on(self, response: OriginResponse, reason: NotStored) -> str:
        weigh_unkept(self._edges, self.request, self._held)
        is_surely_held = self._holding.is_surely(response.head, self._began)
        if reason is not NotStored.TOO_LARGE or not is_surely_held:
            self._holding.let_fall(self.lease)
        self._hand_over(response, reason)
        return f"not_stored_{reason.replace('-', '_')}"

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
        told, policy = bytes(body), self._edges.policy
        may_hide = is_refusal_of_absence(head, told, self.request, policy)
        is_proven = may_hide and await self._is_proven()
        is_stored = self._judge_absence(head, told, sent_at, is_proven=is_proven)
        answered = Answered(head, told, is_stored, head.status)
        if is_proven:
            hidden = policy.of_absence
            answered = replace(answered, head=head_of_hidden(head, hidden), body=hidden.body)
        self.outcome.set_result(answered)
        return "absent" if is_stored else "not_stored_status"

    async def _is_proven(self) -> bool:
        """Whether a refusal was that of a missing key: that takes a question more to tell."""
        seconds = self._edges.read_seconds - (self._edges.now().boot - self._began.boot)
        # What was seen to be there meanwhile may have been there all along.
        return await self._hid_absence(self.request, seconds) and not self.lease.is_refuted

    def _judge_absence(
        self, head: ResponseHead, body: bytes, sent_at: Now, *, is_proven: bool
    ) -> bool:
        edges = self._edges
        conclusion = conclude_absence(self.request, head, body, edges.policy, is_proven=is_proven)
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
            return edges.remember_absence(self.lease, absent, self.request.absence_key)
        if head.status in (404, 410):
            weigh_absence(edges, self.request, self._held)
        told = replace(head, status=404) if is_proven else head
        is_news = not self._holding.agrees_with(told)
        if head.status in (401, 403, 404, 410, 416) and is_news:
            self._holding.let_fall(self.lease)
        return False

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
        keeping = Keeping(self._edges, self.lease)
        try:
            writer = None if is_held else await keeping.begin(stored, length, part)
            body = GrowingBody(length, writer, self.waiters, self._may_be_orphaned)
            self.outcome.set_result(Filled(stored, body, is_held or writer is not None, part))
            outcome = await self._stream(response, keeping, writer)
        finally:
            keeping.release()
        return "freshened" if is_held and outcome == NOT_KEPT else outcome

    async def _stream(
        self, response: OriginResponse, keeping: Keeping, writer: BodyWriter | None
    ) -> str:
        filled = self.growing()
        assert filled is not None
        stored, body, part, edges = filled.stored, filled.body, filled.part, self._edges
        span = Span(0 if part is None else part.first, body.length, stored.length)
        try:
            asked = full_get(self.request)
            async with aclosing(whole_body(edges.upstream, asked, response, span)) as chunks:
                async for chunk in chunks:
                    if not await body.wait_for_followers():
                        return "abandoned"
                    body.publish(chunk)
                    writer = await keeping.keep(writer, body, chunk)
            body.finish()
        except BodyTorn:
            return "torn"
        finally:
            if not body.is_whole:
                body.tear()
                if writer is not None:
                    await writer.abandon()
        if writer is not None and not body.is_kept:
            await abandon_once_read(writer, body)
            return TOO_LARGE
        stored = stored if part is not None else replace(stored, length=body.end)
        return await keeping.commit(writer, stored, body)


def full_get(request: Request) -> OriginRequest:
    """What asks for the whole of what a request asks for, with its own credential."""
    return _get(request, fill_fields(request, None))


def _get(request: Request, fields: Fields) -> OriginRequest:
    return OriginRequest("GET", request.target, fields, request.key_class)
