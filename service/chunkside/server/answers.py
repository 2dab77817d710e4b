"""Whole answers to whole heads that came again, within bounds."""

from __future__ import annotations

from typing import Final

from chunkside.core.entry import Now
from chunkside.core.key import KeyClass
from chunkside.gateway.at_once import Absence, AtOnce, Bytes, Kept
from chunkside.server.observer import Series

# Up to this size a body is joined to its head: one buffer for the transport. Beyond it that is done
# for an answer that is kept: the kernel copies less dearly out of memory than out of a mapped file.
JOINED_BYTES: Final = 128 << 10
_MOST_ANSWERS: Final = 16_384
_MOST_BYTES: Final = 32 << 20
# Of those that are large, so that they leave room for thousands of others.
_MOST_LARGE_BYTES: Final = 16 << 20
# What one takes beside its body and the request: its own head, and what holds them.
_ANSWER_BYTES: Final = 1536
# An answer that nobody asked for in so long makes room for another.
_IDLE_SECONDS: Final = 10.0


def cost_of(head: bytes, body_bytes: int) -> int:
    """Bytes of memory, roughly."""
    return len(head) + body_bytes + _ANSWER_BYTES


class Answer:
    """A whole answer to a whole head. `until`: by the boot clock, when its Date or Age are of
    another second or it is fresh no longer. `cost`: bytes of memory, roughly.
    """

    __slots__ = ("at_once", "content", "cost", "found", "kept", "key_class", "series", "until")

    def __init__(
        self, at_once: AtOnce, kept: Kept, key_class: KeyClass, series: Series, cost: int
    ) -> None:
        self.at_once = at_once
        self.kept = kept
        self.key_class: KeyClass = key_class
        self.series = series
        self.cost = cost

    def say(self, found: Absence | Bytes, content: bytes, now: Now) -> None:
        """From now on, and for as long as it is true to the second."""
        self.content = content
        if isinstance(found, Bytes):
            # Of the bytes one copy is enough.
            of_head = len(content) - len(found.content)
            found = found._replace(content=memoryview(content)[of_head:])
        self.found = found
        self.until = now.boot + min(found.ttl, 1 - found.elapsed % 1, 1 - now.wall % 1)


class Answers:
    """`held`: by the request's head, least lately asked for first."""

    def __init__(self) -> None:
        self.held: dict[bytes, Answer] = {}
        self.bytes = 0
        self.large_bytes = 0
        self._came_once: set[int] = set()

    def comes_again(self, head: bytes) -> bool:
        """Whether a head came before not long ago, for which its answer is kept."""
        if head in self.held:
            return True
        name = hash(head)
        if name in self._came_once:
            self._came_once.discard(name)
            return True
        if len(self._came_once) >= _MOST_ANSWERS:
            self._came_once.clear()
        self._came_once.add(name)
        return False

    def has_room(self, cost: int, now: Now) -> bool:
        """Makes it, if those that nobody asks for any more leave it."""
        while self.held and self._is_full(cost):
            oldest = next(iter(self.held))
            # Where more are asked for in turn than have room, those that are in stay: the one that
            # is asked for next would be the first to go.
            if self.held[oldest].until + _IDLE_SECONDS > now.boot:
                return False
            self.forget(oldest)
        return True

    def keep(self, head: bytes, answer: Answer) -> None:
        if head in self.held:
            self.forget(head)
        self.held[head] = answer
        self._count(answer.cost)

    def asked_for(self, head: bytes) -> None:
        self.held[head] = self.held.pop(head)

    def forget(self, head: bytes) -> None:
        self._count(-self.held.pop(head).cost)

    def _count(self, cost: int) -> None:
        self.bytes += cost
        if abs(cost) > JOINED_BYTES:
            self.large_bytes += cost

    def _is_full(self, cost: int) -> bool:
        is_large = cost > JOINED_BYTES
        return (
            len(self.held) >= _MOST_ANSWERS
            or self.bytes + cost > _MOST_BYTES
            or (is_large and self.large_bytes + cost > _MOST_LARGE_BYTES)
        )
