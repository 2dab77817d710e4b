"""What one request gets from a fill, its own or another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final, assert_never

from chunkside.core.cache_status import CacheStatus, Result
from chunkside.core.decision import Fill, Forward
from chunkside.core.entry import of_variant
from chunkside.core.freshness import may_serve_stale, remaining
from chunkside.core.heads import head_of_hidden
from chunkside.core.policy import (
    as_full_get,
    has_what_is_asked_for,
    proves_existence,
    touches_the_cache,
)
from chunkside.core.ranges import part_asked
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.variants import choose
from chunkside.gateway.delivery import Delivery
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import (
    BodyTorn,
    OriginError,
    OriginNonsense,
    OriginUnreachable,
    OwnFault,
)
from chunkside.gateway.fill import full_get
from chunkside.gateway.fills import Fills
from chunkside.gateway.outcomes import Answered, Apart, Failed, Filled, Freshened
from chunkside.gateway.passing import Passing
from chunkside.gateway.ports import Buffer
from chunkside.gateway.reply import Reply
from chunkside.gateway.shelf import Shelf

# A range waits for a body under way whose end is no farther than this before its first byte.
_NEAR_BYTES: Final = 1 << 20
# A store's own are some hundred.
_LONGEST_REFUSAL_BYTES: Final = 64 << 10


async def _read_ahead(reply: Reply, pieces: AsyncIterator[Buffer]) -> Reply:
    """With its body, and its connection free; as it was where that is longer than a store's own.
    Raises OriginError.
    """
    read = bytearray()
    try:
        async for piece in pieces:
            read += piece
            if len(read) > _LONGEST_REFUSAL_BYTES:
                return replace(reply, body=_put_back(bytes(read), pieces))
    except BaseException as error:
        reply.release()
        if isinstance(error, BodyTorn):
            raise OriginUnreachable("The origin broke off in the middle of its answer.") from error
        raise
    reply.release()
    return replace(reply, body=bytes(read), length=len(read), release=lambda: None)


async def _put_back(read: bytes, more: AsyncIterator[Buffer]) -> AsyncIterator[Buffer]:
    yield read
    async for piece in more:
        yield piece


@dataclass(frozen=True, slots=True)
class Waiting:
    edges: Edges
    fills: Fills
    passing: Passing
    shelf: Shelf

    async def answer(self, request: Request, decision: Fill) -> Reply:
        """Joins the fill under way for this key, or starts one. Raises OriginError."""
        edges = self.edges
        if self.fills.is_apart(request, decision.range_value):
            return await self._alone(request, decision)
        stamps = edges.stamps.read(request.key.object)
        # What others asked for before may be older than what this request wants to know.
        fill = (
            None if decision.is_anew else self.fills.running(request, stamps, decision.range_value)
        )
        is_collapsed = fill is not None
        if fill is None:
            fill = self.fills.start(request, decision)
        joined = await fill.join(request)
        if joined.is_unfit:
            fill.leave(is_expected=joined.is_expected)
            return await self._alone(request, decision)
        outcome = joined.outcome
        result: Result = "collapsed" if is_collapsed else "miss"
        status = CacheStatus(forward=decision.forward, is_collapsed=is_collapsed)
        match outcome:
            case Filled():
                delivery = Delivery(edges.upstream, request, outcome)
                fill.leave(is_expected=joined.is_expected)
                fwd_status = outcome.stored.status if outcome.part is None else 206
                status = replace(status, fwd_status=fwd_status, is_stored=outcome.is_stored)
                return await delivery.reply(result, status)
            case Freshened(held, is_stored):
                status = replace(status, fwd_status=304, is_stored=is_stored)
                # Whoever asked for the validation may have needed no bytes: they need not be held.
                has_it = has_what_is_asked_for(request, held)
                reply = (
                    await self.shelf.body(request, held, "revalidated", status) if has_it else None
                )
                return reply or await self._alone(request, decision)
            case Answered():
                return await self._answered(request, decision, outcome, result, status)
            case Apart():
                return await self._apart(request, decision, outcome, result, status)
            case Failed(error):
                return await self._failed(request, decision, error, status)
            case _:
                assert_never(outcome)

    async def follow_range(self, request: Request) -> Reply | None:
        """A range out of a body that is arriving, where its first byte is near; else None."""
        edges = self.edges
        fill = self.fills.running(request, edges.stamps.read(request.key.object), None)
        filled = fill.growing() if fill is not None else None
        if filled is None or filled.body.length is None:
            return None
        body = filled.body
        part = part_asked(request.fields.combined(b"range"), filled.body.length)
        if part is None or part.first > body.end + _NEAR_BYTES:
            return None
        status = CacheStatus(forward=Forward.PARTIAL, is_collapsed=True, fwd_status=200)
        delivery = Delivery(edges.upstream, request, filled, part.first)
        return await delivery.reply("collapsed", status)

    async def tell_absence(self, request: Request, reply: Reply) -> Reply:
        """A HEAD's 404, once a full GET has told that it is the key's. Raises OriginError."""
        try:
            status = await self._status_of_get(as_full_get(request))
        except BaseException:
            reply.release()
            raise
        if status == reply.status:
            return reply
        reply.release()
        told = f"The origin answers {reply.status} to HEAD and {status} to GET."
        if not proves_existence(status):
            raise OriginUnreachable(told)
        again = await self.passing.relay(request, None, Forward.METHOD, None)
        if again.status == reply.status:
            again.release()
            raise OriginNonsense(told)
        return again

    async def tell_refusal(self, request: Request, reply: Reply) -> Reply:
        """A relayed 403, once a full GET has told whether it hides that the key is absent."""
        if not isinstance(reply.body, bytes):
            # Nor does it keep a connection while another is waited for.
            reply = await _read_ahead(reply, reply.body)
            if not isinstance(reply.body, bytes):
                return reply
        try:
            status = await self._status_of_get(as_full_get(request))
        except OriginError:
            return reply
        except BaseException:
            reply.release()
            raise
        if status not in (404, 410):
            return reply
        refused = ResponseHead(reply.status, reply.fields, reply.length)
        hidden = self.edges.policy.of_absence
        head, body = head_of_hidden(refused, hidden), hidden.body
        if request.method == "HEAD":
            body = b""
        reply.release()
        return Reply(head.status, head.fields, body, head.length, reply.result, reply.cache_status)

    async def _status_of_get(self, question: Request) -> int:
        """Of a whole GET, which makes a marker where its answer proves an absence, and whose body
        nobody reads.
        """
        if not touches_the_cache(question):
            response = await self.edges.upstream.send(full_get(question))
            response.close()
            return response.head.status
        stamps = self.edges.stamps.read(question.key.object)
        fill = self.fills.running(question, stamps, None)
        if fill is None:
            decision = Fill(Forward.URI_MISS)
            fill = self.fills.start(question, decision, is_for_absence=True)
        # Nobody who waits for its body.
        match await asyncio.shield(fill.outcome):
            case Failed(error):
                raise error
            case Answered(head) | Apart(head):
                return head.status
            case _:
                return 200

    async def _alone(self, request: Request, decision: Fill) -> Reply:
        held = choose(self.edges.known_of(request), request.fields)
        return await self.passing.relay(request, None, decision.forward, held)

    async def _answered(
        self,
        request: Request,
        decision: Fill,
        outcome: Answered,
        result: Result,
        status: CacheStatus,
    ) -> Reply:
        head = outcome.head
        if head.status == 429 or head.status >= 500:
            status = replace(status, fwd_status=head.status)
            reply = await self._stale_instead(request, decision, status)
            if reply is not None:
                return reply
        status = replace(status, fwd_status=outcome.origin_status, is_stored=outcome.is_stored)
        return Reply(head.status, head.fields, outcome.body, len(outcome.body), result, status)

    async def _apart(
        self, request: Request, decision: Fill, outcome: Apart, result: Result, status: CacheStatus
    ) -> Reply:
        self.fills.keep_apart(request, decision.range_value)
        response = outcome.claim()
        if response is None:
            return await self._alone(request, decision)
        status = replace(status, detail=f"not-stored-{outcome.reason}")
        return self.passing.pass_on(request, response, result, status)

    async def _failed(
        self, request: Request, decision: Fill, error: OriginError, status: CacheStatus
    ) -> Reply:
        if isinstance(error, OwnFault):
            raise error
        reply = await self._stale_instead(request, decision, status)
        if reply is None:
            raise error
        return reply

    async def _stale_instead(
        self, request: Request, decision: Fill, status: CacheStatus
    ) -> Reply | None:
        """The stale body where the origin failed and its rules allow it."""
        edges, held = self.edges, decision.stale
        # The entry may have fallen while the origin was asked, here or by another process's write.
        if held is None:
            return None
        if of_variant(edges.look_up(request.key), held.stored.variant) != held:
            return None
        if not may_serve_stale(held, edges.now(), edges.policy):
            return None
        ttl = remaining(held.stored, edges.now(), edges.policy)
        status = replace(status, ttl=ttl, detail="stale-if-error")
        return await self.shelf.body(request, held, "stale", status)
