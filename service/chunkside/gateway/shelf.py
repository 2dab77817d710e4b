"""Replies from store: a whole body, a part of it, or only its head."""

from __future__ import annotations

from collections.abc import AsyncIterator

from chunkside.core.cache_status import CacheStatus, Result
from chunkside.core.decision import ServeAbsence
from chunkside.core.entry import Present, Stored
from chunkside.core.freshness import age
from chunkside.core.heads import SelectedHead, head_of, head_of_absence
from chunkside.core.policy import fill_fields
from chunkside.core.ranges import select
from chunkside.core.request import Request
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.gateway.origin import rest_until
from chunkside.gateway.ports import BodyReader, Buffer, OriginRequest
from chunkside.gateway.reply import SLICE_BYTES, Reply


class Shelf:
    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    def absence(self, request: Request, decision: ServeAbsence) -> Reply:
        edges, absent = self._edges, decision.absent
        edges.index.touch(request.key)
        head = head_of_absence(absent)
        status = CacheStatus(is_hit=True, ttl=decision.ttl, detail="negative")
        elapsed = age(absent.requested_at, edges.now())
        return Reply(head.status, head.fields, b"", 0, "negative_hit", status, elapsed)

    async def body(
        self, request: Request, present: Present, result: Result, status: CacheStatus
    ) -> Reply | None:
        """None where the file turned out to be of no use, and the entry is dropped."""
        reader = await self._open(present)
        if reader is None:
            return None
        stored = present.stored
        is_get = request.method == "GET"
        head = head_of(stored, select(request.fields, stored, is_get=is_get))
        elapsed = age(stored.requested_at, self._edges.now(), stored.initial_age)
        body: bytes | AsyncIterator[Buffer] = b""
        if is_get and head.length:
            whole = reader.read_now()
            body = (
                self._stream(request, stored, reader, head)
                if whole is None
                else bytes(whole[head.first : head.end])
            )
        return Reply(head.status, head.fields, body, head.length, result, status, elapsed)

    async def _stream(
        self, request: Request, stored: Stored, reader: BodyReader, head: SelectedHead
    ) -> AsyncIterator[Buffer]:
        """The selected bytes; from the origin, of the same version, where the file fails midway."""
        position = head.first
        try:
            while position < head.end:
                piece = await reader.read(position, min(SLICE_BYTES, head.end - position))
                position += len(piece)
                yield piece
            return
        except BodyTorn:
            asked = OriginRequest(
                "GET", request.target, fill_fields(request, None), request.key_class
            )
        async for piece in rest_until(self._edges.upstream, asked, stored, position, head.end):
            yield piece

    async def _open(self, present: Present) -> BodyReader | None:
        edges, key = self._edges, present.stored.key
        reader = edges.store.reader(present.body)
        if reader is None:
            try:
                reader = await edges.store.open(present.body)
            except StoreFault as fault:
                edges.observer.store_failed(fault.operation, fault.cause)
                edges.discard(edges.index.drop_if(key, present, "corrupt"))
                return None
        edges.index.touch(key)
        return reader
