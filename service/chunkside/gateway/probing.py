"""Whether anything lies beneath a key that is absent: from its markers, else from the origin."""

from __future__ import annotations

from chunkside.core.cache_status import CacheStatus
from chunkside.core.decision import Forward, ServeAbsence, StoreAbsence
from chunkside.core.entry import Absent, Now
from chunkside.core.fields import Fields
from chunkside.core.freshness import age
from chunkside.core.lease import Lease
from chunkside.core.listing import Probe, nothing
from chunkside.core.probing import conclude_probe, decide_probe
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.gateway.edges import Edges
from chunkside.gateway.origin import read_ahead
from chunkside.gateway.passing import Passing
from chunkside.gateway.ports import OriginRequest
from chunkside.gateway.reply import Reply

_LONGEST_BYTES = 64 << 10
_XML = Fields(((b"Content-Type", b"application/xml"),))


class Probing:
    def __init__(self, edges: Edges, passing: Passing) -> None:
        self._edges = edges
        self._passing = passing

    async def answer(self, request: Request, probe: Probe) -> Reply:
        """Raises OriginError."""
        edges = self._edges
        held = edges.look_up(probe.of), edges.look_up(probe.beneath)
        decision = decide_probe(request, probe, held, edges.now(), edges.policy)
        if decision is not None:
            return self._remembered(probe, decision)
        forward = Forward.REQUEST if request.control == "refresh" else Forward.URI_MISS
        lease = edges.lease(probe.beneath)
        try:
            return await self._ask(request, probe, lease, forward)
        finally:
            edges.index.end(lease)

    def _remembered(self, probe: Probe, decision: ServeAbsence) -> Reply:
        index = self._edges.index
        index.touch(probe.of)
        index.touch(probe.beneath)
        body, elapsed = nothing(probe), age(decision.absent.requested_at, self._edges.now())
        status = CacheStatus(is_hit=True, ttl=decision.ttl, detail="negative")
        return Reply(200, _XML, body, len(body), "negative_hit", status, elapsed)

    async def _ask(self, request: Request, probe: Probe, lease: Lease, forward: Forward) -> Reply:
        sent_at = self._edges.now()
        asked = OriginRequest("GET", request.target, request.fields, request.key_class)
        response = await self._edges.upstream.send(asked)
        try:
            # Half an answer proves nothing, least of all an absence.
            body, response = await read_ahead(response, _LONGEST_BYTES)
        except BaseException:
            response.close()
            raise
        head, is_stored = response.head, False
        if body is not None:
            is_stored = self._judge(probe, lease, head, body, sent_at)
        status = CacheStatus(forward=forward, fwd_status=head.status, is_stored=is_stored)
        return self._passing.pass_on(request, response, "miss", status)

    def _judge(
        self, probe: Probe, lease: Lease, head: ResponseHead, body: bytes, sent_at: Now
    ) -> bool:
        edges = self._edges
        conclusion = conclude_probe(probe, head, body, edges.policy)
        if isinstance(conclusion, StoreAbsence):
            token = lease.stamps.token
            absent = Absent(404, sent_at, conclusion.lifetime, token, allows_any_origin=False)
            return edges.remember_absence(lease, absent, probe.beneath)
        if head.status == 200:
            edges.discard(edges.index.drop(probe.beneath, "replaced"))
        return False
