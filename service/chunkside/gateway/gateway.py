"""The driver: looks up, has it decided, carries it out. One request in, one reply out."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from chunkside.core.cache_status import CacheStatus
from chunkside.core.decision import (
    Decision,
    Fill,
    FollowElseRelay,
    Forward,
    Refuse,
    Relay,
    Serve,
    ServeAbsence,
    Write,
)
from chunkside.core.entry import Absent, Held, Partial, Selected
from chunkside.core.freshness import absence_under
from chunkside.core.policy import (
    as_full_get,
    decide,
    leaves_open_what_is_absent,
    may_be_refused_for_absence,
    wants_proof,
)
from chunkside.core.probing import probe_asked
from chunkside.core.ranges import exact_part, single_range
from chunkside.core.request import Request
from chunkside.core.variants import choose
from chunkside.gateway.adoption import Adoption
from chunkside.gateway.audit import Audits
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import OriginError
from chunkside.gateway.fills import Fills
from chunkside.gateway.observing import Observing
from chunkside.gateway.passing import Passing
from chunkside.gateway.ports import Content
from chunkside.gateway.probing import Probing
from chunkside.gateway.refusals import Refusals
from chunkside.gateway.reply import Reply, error_reply, refusal
from chunkside.gateway.shelf import Shelf
from chunkside.gateway.waiting import Waiting


class Gateway:
    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self.fills = Fills(edges, self._hid_absence)
        self.adoption = Adoption(edges)
        self._passing = Passing(edges)
        self._probing = Probing(edges, self._passing)
        self._shelf = Shelf(edges)
        self._waiting = Waiting(edges, self.fills, self._passing, self._shelf)
        self._refusals = Refusals(edges, self._waiting)
        self.audits = Audits(edges, self._refusals.hid_absence)
        observing = Observing(edges, self.fills, self._passing, self._shelf, self.audits)
        self._observing = observing if edges.only_observes else None

    async def answer(self, request: Request, content: Content | None = None) -> Reply:
        """The reply to a request; the sidecar's own errors are replies too."""
        visits = self._edges.visits
        visits.enter()
        try:
            reply = await self._reply(request, content)
        except BaseException:
            visits.leave()
            raise
        reply.release = _both(reply.release, visits.leave)
        return reply

    async def _reply(self, request: Request, content: Content | None) -> Reply:
        try:
            probe = probe_asked(request, self._edges.policy)
            if probe is not None and self._observing is None:
                return await self._probing.answer(request, probe)
            entry = await self._find(request)
            reply = await self._answer(request, content, entry)
            if reply is None:
                # A body that can't be opened is a miss.
                reply = await self._answer(request, content, None)
            assert reply is not None, "served from store without an entry"
            return reply
        except OriginError as error:
            return error_reply(error)

    async def _answer(
        self, request: Request, content: Content | None, entry: Selected | None
    ) -> Reply | None:
        """None only where a body was to be served and its file is of no use."""
        decision = decide(request, entry, self._edges.now(), self._edges.policy)
        if self._observing is not None:
            reply = await self._observing.answer(request, content, decision, entry)
            if reply is not None:
                return reply
        return await self._carry_out(request, content, entry, decision)

    async def _carry_out(
        self, request: Request, content: Content | None, entry: Selected | None, decision: Decision
    ) -> Reply | None:
        match decision:
            case Serve(held, ttl, meanwhile):
                self._ask_meanwhile(request, meanwhile)
                return await self._serve(request, held, ttl)
            case ServeAbsence(absent):
                self.audits.sample(request, absent)
                return self._shelf.absence(request, decision)
            case Fill(range_value=None):
                return await self._waiting.answer(request, decision)
            case Fill():
                return await self._range(request, decision)
            case FollowElseRelay(forward):
                reply = await self._waiting.follow_range(request)
                return reply or await self._relay(request, content, forward, entry)
            case Relay(forward):
                return await self._relay(request, content, forward, entry)
            case Write():
                return await self._passing.write(request, content, decision)
            case Refuse():
                return refusal(decision)
            case _:
                assert_never(decision)

    async def _hid_absence(self, request: Request, within_seconds: float) -> bool:
        return await self._refusals.hid_absence(request, within_seconds)

    async def _serve(self, request: Request, held: Held, ttl: float) -> Reply | None:
        status = CacheStatus(is_hit=True, ttl=ttl)
        reply = await self._shelf.body(request, held, "hit" if ttl > 0 else "stale", status)
        if reply is not None and ttl > 0:
            self.audits.sample(request, held)
        return reply

    async def _range(self, request: Request, decision: Fill) -> Reply:
        reply = await self._waiting.follow_range(request)
        reply = reply or await self._waiting.answer(request, decision)
        return self._seek_proof(request, reply)

    def _ask_meanwhile(self, request: Request, question: Fill | None) -> None:
        """What is stale is served, and its origin asked for the next reader."""
        if question is None or self.fills.is_running(request, question.range_value):
            return
        self.fills.start(request, question)

    async def _relay(
        self,
        request: Request,
        content: Content | None,
        forward: Forward,
        entry: Selected | None,
    ) -> Reply:
        reply = await self._passing.relay(request, content, forward, entry)
        if leaves_open_what_is_absent(request, reply.status, reply.fields, self._edges.policy):
            return await self._waiting.tell_absence(request, reply)
        if may_be_refused_for_absence(request, reply.status, self._edges.policy):
            return await self._waiting.tell_refusal(request, reply)
        return self._seek_proof(request, reply)

    def _seek_proof(self, request: Request, reply: Reply) -> Reply:
        if reply.status == 403:
            # A range's own refusal has been looked into.
            return reply
        if wants_proof(request, reply.status, reply.fields, self._edges.policy):
            self.fills.prove_absence(as_full_get(request))
        return reply

    async def _find(self, request: Request) -> Selected | None:
        """What the key's entry has for a request, as far as it holds under the current stamps."""
        if request.method not in ("GET", "HEAD") or request.key_class == "listing":
            return None
        entry = choose(self._edges.known_of(request), request.fields)
        range_value = single_range(request.fields)
        part = None if range_value is None else exact_part(range_value)
        lacks_part = isinstance(entry, Partial) and (part is None or not entry.body_for(part))
        if entry is None or lacks_part:
            # While the disk was asked another's fill may have ended.
            await self.adoption.look(request.key, part)
            entry = choose(self._edges.known_of(request), request.fields)
        if entry is None and await self.fills.until_committed(request):
            entry = choose(self._edges.known_of(request), request.fields)
        if isinstance(entry, Absent):
            # It may have been made by a route that lets markers live longer.
            return absence_under(entry, request.key_class, self._edges.policy)
        return entry


def _both(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        try:
            first()
        finally:
            then()

    return both
