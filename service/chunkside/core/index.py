"""One mapping, key → Present, Partial or Absent, in order of use, within its budgets.

Whatever dies leaves through a return value, and whoever called unlinks it: the index knows sizes
and order, and no files. Nothing is stored but under a lease, which any drop or absence of its key
revokes, and other bytes limit to more of their own generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from chunkside.core.budget import (
    RANGE_FIXED_BYTES,
    Kind,
    Limits,
    Reason,
    Removal,
    Tally,
    cost_of_entry,
    cost_of_marker,
    removal_of,
)
from chunkside.core.entry import (
    Absent,
    BodyRef,
    Entry,
    Held,
    Now,
    Partial,
    Present,
    StampPair,
    Stored,
)
from chunkside.core.holdings import Holdings, only_body
from chunkside.core.key import CacheKey, Object
from chunkside.core.lease import Lease
from chunkside.core.policy import is_changed
from chunkside.core.ranges import generation_of


class Index:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._held = Holdings()
        self._leases: dict[CacheKey, set[Lease]] = {}

    # Looking.

    def look_up(self, key: CacheKey) -> Entry | None:
        return self._held.entry(key)

    def touch(self, key: CacheKey) -> None:
        """Marks the key's entry as the most recently used of its kind."""
        self._held.touch(key)

    def touch_body(self, body: BodyRef) -> None:
        """The same for a body, or for a range, which is used and evicted by itself."""
        if body.part is None:
            self._held.touch(body.key)
        else:
            self._held.touch_range(body)

    def keys(self) -> Iterator[CacheKey]:
        """A snapshot of every key held."""
        return self._held.places.keys()

    def keys_of(self, target: Object) -> set[CacheKey]:
        """Every key, held or not, under which a look-up may find something of an object."""
        return self._held.places.keys_of(target)

    @property
    def place_count(self) -> int:
        """Entries lie at places of smaller numbers, and stay there while they live."""
        return self._held.place_count

    def key_at(self, place: int) -> CacheKey | None:
        """The key whose entry lies at a place; None where there is no entry."""
        return self._held.key_at(place)

    @property
    def tallies(self) -> dict[Kind, Tally]:
        return self._held.tallies

    @property
    def markers(self) -> Tally:
        return self._held.markers

    @property
    def bodies(self) -> Tally:
        return self._held.bodies

    @property
    def ranges(self) -> Tally:
        return self._held.ranges

    @property
    def key_count(self) -> int:
        """Keys that have an entry, however many ranges hang under them."""
        return self._held.key_count

    @property
    def total_bytes(self) -> int:
        """What all entries are charged of the byte budget."""
        return self.markers.charge + self._held.file_bytes

    @property
    def memory_in_use(self) -> int:
        """Resident bytes of all entries, as charged."""
        return self.markers.memory + self._held.file_memory

    # Leases.

    def lease(self, key: CacheKey, stamps: StampPair, now: Now) -> Lease:
        """A lease to be ended by `end`. While a write of the object runs it allows nothing."""
        lease = Lease(key, stamps, is_revoked=stamps.closed_until() > now.boot)
        self._leases.setdefault(key, set()).add(lease)
        return lease

    def end(self, lease: Lease) -> None:
        # Nobody would revoke it any more.
        lease.is_revoked = True
        held = self._leases.get(lease.key, set())
        held.discard(lease)
        if not held:
            self._leases.pop(lease.key, None)

    def leased_keys(self) -> list[CacheKey]:
        """Keys that a fill is under way for."""
        return list(self._leases)

    def _others(self, key: CacheKey, but: Lease | None) -> Iterator[Lease]:
        return (lease for lease in self._leases.get(key, ()) if lease is not but)

    def _revoke(self, key: CacheKey, but: Lease | None = None) -> None:
        for lease in self._others(key, but):
            lease.is_revoked = True

    # Storing.

    def store(self, lease: Lease, current: StampPair, new: Held, now: Now) -> list[Removal] | None:
        """Makes `new` the key's entry; gives what that cost, None where the lease forbids it.

        A Partial of one range joins what is held of its generation. What is too large for the
        budget is among what it cost, and nothing else is evicted for it.
        """
        if not lease.allows(current, now) or not lease.is_for(generation_of(new.stored)):
            return None
        return self._put(new, lease)

    def adopt(self, new: Held) -> list[Removal] | None:
        """Takes in a body or a range found on disk; None where it is to be left alone, since it is
        known, or something newer may be on its way.

        Of two generations the one that was asked for later stays. A marker is newer than any file.
        """
        key, body = new.stored.key, only_body(new)
        old = self.look_up(key)
        if key in self._leases or self._held.has_range(body):
            return None
        if old is None or _is_same_generation(old, new):
            # Of two files that had one path nobody can say which is there by now.
            return None if _has_its_path(old, body) else self._put(new, None)
        if isinstance(new, Present) and not isinstance(old, Partial):
            return None
        if isinstance(old, Absent) or old.stored.requested_at.wall >= new.stored.requested_at.wall:
            return [removal_of(body, "replaced")]
        return self._put(new, None)

    def _put(self, new: Held, lease: Lease | None) -> list[Removal]:
        key, body = new.stored.key, only_body(new)
        old, refusal = self.look_up(key), self._why_too_large(new)
        if _is_same_generation(old, new):
            if body.part is not None:
                return self._join(new, body, refusal) + self._make_room()
        else:
            for other in self._others(key, lease):
                other.limit(generation_of(new.stored))
        removed = self._held.take(key, "replaced")
        if refusal is not None:
            return [*removed, removal_of(body, refusal)]
        self._held.put(new)
        return removed + self._make_room()

    def _join(self, new: Held, body: BodyRef, refusal: Reason | None) -> list[Removal]:
        """Takes in a range of the very representation that is held, and the newer of both heads."""
        old = self.look_up(new.stored.key)
        assert isinstance(old, Present | Partial)
        assert body.part is not None
        if new.stored.requested_at.boot >= old.stored.requested_at.boot:
            old = replace(old, stored=new.stored, must_validate=new.must_validate)
            self._held.replace(old)
        if refusal is not None:
            return [removal_of(body, refusal)]
        if isinstance(old, Present):
            return [removal_of(body, "replaced")]
        # What was committed to the path of a file that was held took its place there.
        if old.body_for(body.part) is not None and not _has_its_path(old, body):
            return [removal_of(body, "replaced")]
        return self._held.join(old, body)

    def _why_too_large(self, new: Held) -> Reason | None:
        body = only_body(new)
        if body.charge > self.limits.room_for_bodies:
            return "budget"
        memory = cost_of_entry(new) + (0 if body.part is None else RANGE_FIXED_BYTES)
        return "index_memory" if memory > self.limits.memory_for_bodies else None

    def see(
        self, lease: Lease, new: Stored, *, is_allowed: bool, is_relayed: bool
    ) -> list[Removal]:
        """Bytes under the head `new` arrive: what is held of other ones falls, and fills are held
        to these, even if these can't be kept. `is_allowed`: whether the lease allows something.

        Where others were seen meanwhile nobody can say which are newer: only what was asked for
        before these falls. Those that are relayed hold nobody to what can't be told apart.
        """
        key, generation, entry = lease.key, generation_of(new), self.look_up(lease.key)
        held = entry.stored if isinstance(entry, Present | Partial) else None
        is_other = held is not None and _is_of_another(entry, new)
        if not is_allowed or not lease.is_for(generation):
            is_older = held is not None and held.requested_at.boot < new.requested_at.boot
            return self.drop(key, "replaced") if is_other and is_older else []
        if held is not None and not is_other:
            return []
        if generation is not None or not is_relayed:
            for other in self._others(key, lease):
                other.limit(generation)
        return self._held.take(key, "replaced") if is_other else []

    def freshen(
        self, lease: Lease, current: StampPair, old: Held, stored: Stored, now: Now
    ) -> list[Removal] | None:
        """Gives what was held as `old` another head, bytes unchanged; gives what a longer head
        cost, None where the lease forbids it or other bytes are held.
        """
        held = self.look_up(lease.key)
        if not isinstance(held, Present | Partial) or not lease.allows(current, now):
            return None
        if not (_is_same_generation(held, old) or _files(held) == _files(old)):
            return None
        if held.token != current.token or not lease.is_for(generation_of(held.stored)):
            return None
        self._held.replace(replace(held, stored=stored, must_validate=False))
        return self._make_room()

    def remember(
        self, lease: Lease, current: StampPair, absent: Absent, now: Now
    ) -> list[Removal] | None:
        """Makes a marker of an absence; gives what died, None where the lease forbids it.

        What was held falls even where bodies leave no room to remember: an absence contradicts it.
        """
        if lease.is_refuted or lease.only is not None or not lease.allows(current, now):
            return None
        key, limits = lease.key, self.limits
        self._revoke(key, but=lease)
        removed = self._held.take(key, "replaced")
        cost = cost_of_marker(key)
        room = min(
            limits.budget_bytes - self._held.file_bytes,
            limits.memory_bytes - self._held.file_memory,
        )
        if limits.max_markers < 1 or cost > room:
            return removed
        while self.markers.count >= limits.max_markers:
            removed += self._evict_marker("marker_cap")
        while self.total_bytes + cost > limits.budget_bytes:
            removed += self._evict_marker("budget")
        while self.memory_in_use + cost > limits.memory_bytes:
            removed += self._evict_marker("index_memory")
        self._held.put_marker(key, absent)
        return removed

    def _make_room(self) -> list[Removal]:
        """Evicts until the budgets hold: markers down to their reserve, then bodies and ranges. The
        newest stays, since it fits alone.
        """
        held, limits, removed = self._held, self.limits, list[Removal]()
        while (
            self.total_bytes > limits.budget_bytes
            and self.markers.charge > limits.marker_reserve_bytes
        ):
            removed += self._evict_marker("budget")
        while (
            self.memory_in_use > limits.memory_bytes
            and self.markers.memory > limits.memory_reserve_bytes
        ):
            removed += self._evict_marker("index_memory")
        while held.file_bytes > limits.room_for_bodies or self.total_bytes > limits.budget_bytes:
            removed += self._evict_body("budget")
        while (
            held.file_memory > limits.memory_for_bodies or self.memory_in_use > limits.memory_bytes
        ):
            removed += self._evict_body("index_memory")
        return removed

    def _evict_marker(self, reason: Reason) -> list[Removal]:
        return self._held.take(self._held.marker_to_evict(), reason)

    def _evict_body(self, reason: Reason) -> list[Removal]:
        body = self._held.body_to_evict()
        if body.part is None:
            return self._held.take(body.key, reason)
        return self._held.take_range(body, reason)

    # Dropping.

    def drop(self, key: CacheKey, reason: Reason) -> list[Removal]:
        """Forgets the key and lets no fill that is under way bring it back."""
        self._revoke(key)
        return self._held.take(key, reason)

    def drop_if(self, key: CacheKey, entry: Entry, reason: Reason) -> list[Removal]:
        """Drops `entry` where it is still what is held."""
        return self.drop(key, reason) if self.look_up(key) == entry else []

    def drop_range(self, body: BodyRef, reason: Reason) -> list[Removal]:
        """Forgets one range. Others of its key stay, and fills go on."""
        return self._held.take_range(body, reason)

    def refute(self, key: CacheKey, by: Lease | None = None) -> list[Removal]:
        """The key was seen to exist: drops its marker, and no absence that is on its way makes one.

        Fills go on: a body that arrives is no contradiction. `by`: the lease of the fill that saw.
        """
        for lease in self._others(key, by):
            lease.is_refuted = True
        is_marker = isinstance(self.look_up(key), Absent)
        return self._held.take(key, "replaced") if is_marker else []

    def make_stale(self, key: CacheKey, reason: Reason) -> list[Removal]:
        """What is held is validated before its next use, a marker falls. Fills go on."""
        held = self.look_up(key)
        if not isinstance(held, Present | Partial):
            return self._held.take(key, reason)
        self._held.replace(replace(held, must_validate=True))
        return []

    def drop_object(self, target: Object, reason: Reason) -> list[Removal]:
        """Forgets every spelling, query and partition of an object."""
        keys = self.keys_of(target) | {key for key in self._leases if key.object == target}
        return self.drop_all(keys, reason)

    def drop_location(self, location: str, reason: Reason) -> list[Removal]:
        """Forgets everything of one origin."""
        keys = [key for key in self.keys() if key.namespace.location == location]
        keys += [key for key in self._leases if key.namespace.location == location]
        return self.drop_all(keys, reason)

    def drop_all(self, keys: Iterable[CacheKey], reason: Reason) -> list[Removal]:
        return [removal for key in keys for removal in self.drop(key, reason)]

    # Invariants.

    def check_invariants(self) -> None:
        """Raises AssertionError where the books don't agree. For tests; O(n)."""
        self._held.check_invariants()
        limits = self.limits
        assert self.memory_in_use <= limits.memory_bytes, "over the memory"
        assert self.total_bytes <= max(limits.budget_bytes, 0), "over the budget"
        assert self.markers.count <= limits.max_markers


def _is_of_another(entry: Entry | None, new: Stored) -> bool:
    """Whether what is held is surely not of the representation that `new` is the head of."""
    generation = generation_of(new)
    if generation is None or not isinstance(entry, Present | Partial):
        return is_changed(entry, new) is True
    return generation != generation_of(entry.stored)


def _has_its_path(entry: Entry | None, body: BodyRef) -> bool:
    """Whether a file is held that has, or had, the path of `body`."""
    if not isinstance(entry, Partial) or body.part is None:
        return isinstance(entry, Present) and body.part is None
    known = entry.body_for(body.part)
    return known is not None and known.part == body.part


def _files(held: Held) -> tuple[BodyRef, ...]:
    return (held.body,) if isinstance(held, Present) else held.bodies


def _is_same_generation(one: Entry | None, other: Held) -> bool:
    """Whether both are bytes of one representation, under the same stamps."""
    if not isinstance(one, Present | Partial) or one.token != other.token:
        return False
    generation = generation_of(one.stored)
    return generation is not None and generation == generation_of(other.stored)
