"""The right to store what an origin says of a key, as of the moment before it was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chunkside.core.entry import Now, StampPair, Stored
from chunkside.core.key import CacheKey, Object
from chunkside.core.ranges import Generation, generation_of


class Lease:
    """`only`: bytes of those generations were stored meanwhile, by variant, so that nothing but
    more of them may be. `is_refuted`: the key was seen to exist since; an absence would be older
    than that. `is_denied`: it was seen to be absent, and bytes would be older than that.
    """

    __slots__ = ("is_denied", "is_refuted", "is_revoked", "key", "only", "stamps")

    def __init__(self, key: CacheKey, stamps: StampPair, *, is_revoked: bool) -> None:
        self.key = key
        self.stamps = stamps
        self.is_revoked = is_revoked
        self.is_refuted = False
        self.is_denied = False
        self.only: dict[bytes, Generation | None] = {}

    def allows(self, current: StampPair, now: Now) -> bool:
        """Whether nothing was written, purged or learned of the key since, but `only`."""
        return not self.is_revoked and current == self.stamps and current.closed_until() <= now.boot

    def is_for(self, new: Stored) -> bool:
        """Whether bytes under that head may be stored, as far as `only` goes."""
        return not self.is_denied and is_more_of(new, self.only)

    def limit(self, new: Stored) -> None:
        """Bytes under that head took the place of whatever was known of their variant."""
        generation = generation_of(new)
        if generation is None or not self.is_for(new):
            self.is_revoked = True
        self.only = {**self.only, new.variant: generation}


def is_more_of(new: Stored, known: Mapping[bytes, Generation | None]) -> bool:
    """Whether bytes under that head contradict nothing of what is known, by variant: they are of
    the same generation, or of a variant that is not among it.

    Where an origin begins to vary its answers, or no longer does, nobody can tell which are newer.
    """
    if new.variant in known:
        return known[new.variant] == generation_of(new)
    return not known or (new.variant != b"" and b"" not in known)


class Leases:
    """All that run, by key."""

    def __init__(self) -> None:
        self._of_key: dict[CacheKey, set[Lease]] = {}
        self._of_object: dict[Object, set[CacheKey]] = {}

    def __contains__(self, key: CacheKey) -> bool:
        return key in self._of_key

    def all_keys(self) -> list[CacheKey]:
        return list(self._of_key)

    def keys_of(self, target: Object) -> set[CacheKey]:
        return set(self._of_object.get(target, ()))

    def begin(self, key: CacheKey, stamps: StampPair, now: Now) -> Lease:
        """A lease to be ended by `end`. While a write of the object runs it allows nothing."""
        lease = Lease(key, stamps, is_revoked=stamps.closed_until() > now.boot)
        self._of_key.setdefault(key, set()).add(lease)
        self._of_object.setdefault(key.object, set()).add(key)
        return lease

    def end(self, lease: Lease) -> None:
        # Nobody would revoke it any more.
        lease.is_revoked = True
        key = lease.key
        held = self._of_key.get(key, set())
        held.discard(lease)
        if held or key not in self._of_key:
            return
        del self._of_key[key]
        keys = self._of_object[key.object]
        keys.discard(key)
        if not keys:
            del self._of_object[key.object]

    def others(self, key: CacheKey, but: Lease | None) -> Iterator[Lease]:
        return (lease for lease in self._of_key.get(key, ()) if lease is not but)

    def deny(self, key: CacheKey, but: Lease | None = None) -> None:
        """The key was seen to be absent."""
        for lease in self.others(key, but):
            lease.is_denied = True

    def revoke(self, key: CacheKey, but: Lease | None = None) -> None:
        for lease in self.others(key, but):
            lease.is_revoked = True
