"""Replies from store: a whole body, a part of it, or only its head."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from chunkside.core.cache_status import CacheStatus, Result
from chunkside.core.decision import ServeAbsence
from chunkside.core.entry import BodyRef, Held, Part, Present, Stored
from chunkside.core.freshness import age
from chunkside.core.heads import SelectedHead, head_of, head_of_absence
from chunkside.core.policy import fill_fields
from chunkside.core.ranges import select
from chunkside.core.request import Request
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.gateway.growing import SMALL_BODY_BYTES
from chunkside.gateway.origin import rest_until
from chunkside.gateway.ports import BodyReader, Buffer, OriginRequest
from chunkside.gateway.reply import SLICE_BYTES, Reply


class Shelf:
    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    def absence(self, request: Request, decision: ServeAbsence) -> Reply:
        edges, absent = self._edges, decision.absent
        edges.index.touch(request.key)
        said = edges.policy.of_absence
        head = head_of_absence(absent, said)
        status = CacheStatus(is_hit=True, ttl=decision.ttl, detail="negative")
        elapsed = age(absent.requested_at, edges.now())
        body, length = said.body, head.length
        return Reply(head.status, head.fields, body, length, "negative_hit", status, elapsed)

    async def body(
        self, request: Request, held: Held, result: Result, status: CacheStatus
    ) -> Reply | None:
        """None where the file turned out to be of no use, and what was held of it is dropped."""
        stored = held.stored
        is_get = request.method == "GET"
        head = head_of(stored, select(request.fields, stored, is_get=is_get))
        elapsed = age(stored.requested_at, self._edges.now(), stored.initial_age)
        file = _file(held, head if is_get else None)
        body: bytes | AsyncIterator[Buffer] = b""
        if file is None:
            if is_get and head.length:
                # What is held lacks these bytes: a head without them would put the connection out
                # of step.
                return None
            self._edges.index.touch(stored.key)
        else:
            reader = await self.open(file)
            if reader is None:
                return None
            if is_get and head.length:
                is_small = head.length <= SMALL_BODY_BYTES
                at_hand = (
                    reader.read_now(head.first - file.first, head.length) if is_small else None
                )
                body = (
                    self._stream(request, stored, _Source(reader, file.first), head)
                    if at_hand is None
                    else bytes(at_hand)
                )
        return Reply(head.status, head.fields, body, head.length, result, status, elapsed)

    async def _stream(
        self, request: Request, stored: Stored, source: _Source, head: SelectedHead
    ) -> AsyncIterator[Buffer]:
        """The selected bytes; from the origin, of the same version, where the file fails midway."""
        position = head.first
        try:
            while position < head.end:
                most = min(SLICE_BYTES, head.end - position)
                piece = await source.reader.read(position - source.first, most)
                position += len(piece)
                yield piece
            return
        except BodyTorn:
            asked = OriginRequest(
                "GET", request.target, fill_fields(request, None), request.key_class
            )
        async for piece in rest_until(self._edges.upstream, asked, stored, position, head.end):
            yield piece

    async def open(self, file: BodyRef) -> BodyReader | None:
        """None where it turned out to be of no use; then it is dropped."""
        edges = self._edges
        reader = edges.store.reader(file)
        if reader is None:
            try:
                reader = await edges.store.open(file)
            except StoreFault as fault:
                edges.observer.store_failed(fault.operation, fault.cause)
                edges.discard(edges.index.drop_file(file, "corrupt"))
                return None
        edges.index.touch_body(file)
        return reader


@dataclass(frozen=True, slots=True)
class _Source:
    """`first`: where in the representation the reader's bytes begin."""

    reader: BodyReader
    first: int


def _file(held: Held, head: SelectedHead | None) -> BodyRef | None:
    """The file of the bytes that `head` selects; None where none are needed.

    Of a whole body it is looked at even then: its head is of no use where its bytes are gone.
    """
    if isinstance(held, Present):
        return held.body
    if head is None or not head.length:
        return None
    return held.body_for(Part(head.first, head.end - 1))
