"""What is held of the key that a fill is for, beside what the origin says of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from chunkside.core.entry import Absent, Now, Selected, of_variant
from chunkside.core.lease import Lease
from chunkside.core.ranges import generation_of, part_answered
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import stored_of
from chunkside.core.variants import choose
from chunkside.gateway.edges import Edges


@dataclass(frozen=True, slots=True)
class Holding:
    """`range_value`: what is asked for of it; None for the whole."""

    edges: Edges
    request: Request
    range_value: bytes | None

    def entry(self) -> Selected | None:
        index, request = self.edges.index, self.request
        entry = index.look_up(request.key) or index.look_up(request.absence_key)
        return choose(entry, request.fields)

    def agrees_with(self, head: ResponseHead) -> bool:
        """Whether an answer that has no body says nothing against what is held."""
        held = self.entry()
        if isinstance(held, Absent):
            # Of a range, or where this route remembers no absences.
            is_no_news = self.range_value is not None or not self.edges.policy.cache_missing
            return is_no_news and head.status in (404, 410)
        told = head.fields.combined(b"content-range").lower()
        return (
            held is not None and head.status == 416 and told == b"bytes */%d" % held.stored.length
        )

    def is_surely(self, head: ResponseHead, asked_at: Now) -> bool:
        """Whether an answer that is too large to be kept is surely of what is held of its key."""
        length = head.length
        if head.status == 206:
            answered = part_answered(self.range_value or b"", head.fields)
            length = None if answered is None else answered[1]
        if length is None:
            return False
        whole, policy = replace(head, length=length), self.edges.policy
        stored = stored_of(self.request, whole, asked_at, policy)
        held = of_variant(self.edges.index.look_up(self.request.key), stored.variant)
        generation = generation_of(stored)
        return (
            held is not None
            and generation is not None
            and (generation == generation_of(held.stored))
        )

    def let_fall(self, lease: Lease) -> None:
        """The origin has something else now than what is held, even if that can't be kept."""
        edges, request = self.edges, self.request
        if edges.may_store(lease):
            fallen = edges.index.drop_all({request.key, request.absence_key}, "replaced")
            edges.discard(fallen)
