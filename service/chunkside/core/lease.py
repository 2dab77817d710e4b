"""The right to store what an origin says of a key, as of the moment before it was asked."""

from __future__ import annotations

from chunkside.core.entry import Now, StampPair
from chunkside.core.key import CacheKey
from chunkside.core.ranges import Generation


class Lease:
    """`only`: bytes of that generation were stored meanwhile, so that nothing but more of them may
    be. `is_refuted`: the key was seen to exist since; an absence would be older than that.
    """

    __slots__ = ("is_refuted", "is_revoked", "key", "only", "stamps")

    def __init__(self, key: CacheKey, stamps: StampPair, *, is_revoked: bool) -> None:
        self.key = key
        self.stamps = stamps
        self.is_revoked = is_revoked
        self.is_refuted = False
        self.only: Generation | None = None

    def allows(self, current: StampPair, now: Now) -> bool:
        """Whether nothing was written, purged or learned of the key since, but `only`."""
        return not self.is_revoked and current == self.stamps and current.closed_until() <= now.boot

    def is_for(self, generation: Generation | None) -> bool:
        """Whether bytes of a generation may be stored, as far as `only` goes."""
        return self.only is None or self.only == generation

    def limit(self, generation: Generation | None) -> None:
        """Bytes of a generation took the place of whatever was known."""
        if generation is None or not self.is_for(generation):
            self.is_revoked = True
        self.only = generation
