"""One mapping, key → Present or Absent, in order of use, within its budgets.

A key has one place or none, so it can't be both. Whatever dies leaves through a return value, and
whoever called unlinks it: the index knows sizes and order, and no files. Nothing is stored but
under a lease, which any drop, absence or other generation of its key revokes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from chunkside.core.budget import Limits, Reason, Removal, cost_of_entry, cost_of_marker
from chunkside.core.entry import Absent, Entry, Now, Present, StampPair
from chunkside.core.key import CacheKey, Namespace, Object, is_plain
from chunkside.core.ranges import strong_validator
from chunkside.core.slots import BODIES, Slots


class Lease:
    """The right to store what an origin says of a key, as of the moment before it was asked."""

    __slots__ = ("is_refuted", "is_revoked", "key", "stamps")

    def __init__(self, key: CacheKey, stamps: StampPair, *, is_revoked: bool) -> None:
        self.key = key
        self.stamps = stamps
        self.is_revoked = is_revoked
        # The key was seen to exist since: an absence would be older than that.
        self.is_refuted = False

    def allows(self, current: StampPair, now: Now) -> bool:
        """Whether nothing was written, purged or learned of the key since."""
        return not self.is_revoked and current == self.stamps and current.closed_until() <= now.boot


@dataclass(slots=True)
class _Space:
    namespace: Namespace
    number: int
    entries: dict[bytes, int] = field(default_factory=dict)
    body_count: int = 0


class Index:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.marker_count = 0
        self.body_count = 0
        self.marker_bytes = 0
        self.body_bytes = 0
        self.body_memory_bytes = 0
        self._slots = Slots()
        self._spaces: dict[Namespace, _Space] = {}
        self._numbered: list[_Space | None] = []
        self._free_numbers: list[int] = []
        # Keys that are not their object's plain path, by object, so that a write finds them.
        self._spellings: dict[Object, set[CacheKey]] = {}
        self._leases: dict[CacheKey, set[Lease]] = {}

    # Looking.

    def look_up(self, key: CacheKey) -> Entry | None:
        slot = self._find(key)
        if slot is None:
            return None
        what = self._slots.what[slot]
        return what if isinstance(what, Present) else self._slots.unpack(slot)

    def touch(self, key: CacheKey) -> None:
        """Marks the key's entry as the most recently used of its kind."""
        slot = self._find(key)
        if slot is not None:
            self._slots.touch(slot)

    def keys(self) -> Iterator[CacheKey]:
        """A snapshot of every key held."""
        for space in list(self._spaces.values()):
            for target in list(space.entries):
                yield CacheKey(space.namespace, target)

    def keys_of(self, target: Object) -> set[CacheKey]:
        """Every key, held or not, under which a look-up may find something of an object."""
        keys = set(self._spellings.get(target, ()))
        # A path that holds a decoded `?` or `%` is no target of this object, but maybe of another.
        if is_plain(target.path):
            spaces = self._spaces_of(target.location)
            keys |= {CacheKey(space.namespace, target.path) for space in spaces}
        return keys

    def held_of(self, location: str) -> tuple[int, int]:
        """How many bodies and markers of one origin are held."""
        spaces = self._spaces_of(location)
        bodies = sum(space.body_count for space in spaces)
        return bodies, sum(len(space.entries) for space in spaces) - bodies

    @property
    def place_count(self) -> int:
        """Entries lie at places of smaller numbers, and stay there while they live."""
        return len(self._slots.what)

    def key_at(self, place: int) -> CacheKey | None:
        """The key whose entry lies at a place; None where the place is empty."""
        return None if self._slots.what[place] is None else self._key_of(place)

    @property
    def total_bytes(self) -> int:
        return self.marker_bytes + self.body_bytes

    def memory_bytes(self) -> dict[str, int]:
        """Resident bytes by kind of entry, as charged."""
        return {"body": self.body_memory_bytes, "marker": self.marker_bytes}

    @property
    def memory_in_use(self) -> int:
        return self.marker_bytes + self.body_memory_bytes

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

    def _revoke(self, key: CacheKey, but: Lease | None = None) -> None:
        for lease in self._leases.get(key, ()):
            if lease is not but:
                lease.is_revoked = True

    # Storing.

    def store(
        self, lease: Lease, current: StampPair, present: Present, now: Now
    ) -> list[Removal] | None:
        """Makes `present` the key's entry; gives what that cost, None where the lease forbids it.

        What is too large for the budget is among what it cost, and nothing else is evicted for it.
        """
        if not lease.allows(current, now):
            return None
        return self._put(present, lease)

    def adopt(self, present: Present) -> list[Removal] | None:
        """Takes in a body found on disk, unless something newer is known or on its way."""
        key = present.stored.key
        if self._find(key) is not None or key in self._leases:
            return None
        return self._put(present, None)

    def _put(self, present: Present, lease: Lease | None) -> list[Removal]:
        key = present.stored.key
        old = self.look_up(key)
        if not (isinstance(old, Present) and _is_same_generation(old, present)):
            self._revoke(key, but=lease)
        removed = self._take_out(key, "replaced")
        limits, cost = self.limits, cost_of_entry(present)
        if present.body.charge > limits.room_for_bodies:
            return [*removed, Removal("body", "budget", present.body)]
        if cost > limits.memory_for_bodies:
            return [*removed, Removal("body", "index_memory", present.body)]
        self._place(key, present)
        self._spaces[key.namespace].body_count += 1
        self.body_count += 1
        self.body_bytes += present.body.charge
        self.body_memory_bytes += cost
        return removed + self._make_room()

    def freshen(
        self, lease: Lease, current: StampPair, present: Present, now: Now
    ) -> list[Removal] | None:
        """Replaces a body's head, bytes unchanged; gives what a longer head cost, None where the
        lease forbids it.
        """
        slot = self._find(lease.key)
        if slot is None or not lease.allows(current, now):
            return None
        held = self._slots.what[slot]
        if not isinstance(held, Present) or held.body != present.body:
            return None
        self._slots.what[slot] = present
        self.body_memory_bytes += cost_of_entry(present) - cost_of_entry(held)
        return self._make_room()

    def remember(
        self, lease: Lease, current: StampPair, absent: Absent, now: Now
    ) -> list[Removal] | None:
        """Makes a marker of an absence; gives what died, None where the lease forbids it.

        What was held falls even where bodies leave no room to remember: an absence contradicts it.
        """
        if lease.is_refuted or not lease.allows(current, now):
            return None
        key = lease.key
        self._revoke(key, but=lease)
        removed = self._take_out(key, "replaced")
        limits, cost = self.limits, cost_of_marker(key)
        room = min(
            limits.budget_bytes - self.body_bytes, limits.memory_bytes - self.body_memory_bytes
        )
        if limits.max_markers < 1 or cost > room:
            return removed
        while self.marker_count >= limits.max_markers:
            removed += self._evict_marker("marker_cap")
        while self.total_bytes + cost > limits.budget_bytes:
            removed += self._evict_marker("budget")
        while self.memory_in_use + cost > limits.memory_bytes:
            removed += self._evict_marker("index_memory")
        self._slots.pack(self._place(key, key.target), absent)
        self.marker_count += 1
        self.marker_bytes += cost
        return removed

    def _make_room(self) -> list[Removal]:
        """Evicts until the budgets hold: markers down to their reserve, then bodies. The newest
        stays, since it fits alone.
        """
        limits, removed = self.limits, list[Removal]()
        while (
            self.total_bytes > limits.budget_bytes
            and self.marker_bytes > limits.marker_reserve_bytes
        ):
            removed += self._evict_marker("budget")
        while (
            self.memory_in_use > limits.memory_bytes
            and self.marker_bytes > limits.memory_reserve_bytes
        ):
            removed += self._evict_marker("index_memory")
        while self.body_bytes > limits.room_for_bodies or self.total_bytes > limits.budget_bytes:
            removed += self._evict(self._slots.oldest(BODIES), "budget")
        while (
            self.body_memory_bytes > limits.memory_for_bodies
            or self.memory_in_use > limits.memory_bytes
        ):
            removed += self._evict(self._slots.oldest(BODIES), "index_memory")
        return removed

    def _evict_marker(self, reason: Reason) -> list[Removal]:
        return self._evict(self._slots.marker_to_evict(), reason)

    def _evict(self, slot: int | None, reason: Reason) -> list[Removal]:
        assert slot is not None, "nothing is left to evict, and a budget is exceeded"
        return self._take_out(self._key_of(slot), reason)

    # Dropping.

    def drop(self, key: CacheKey, reason: Reason) -> list[Removal]:
        """Forgets the key and lets no fill that is under way bring it back."""
        self._revoke(key)
        return self._take_out(key, reason)

    def drop_if(self, key: CacheKey, entry: Entry, reason: Reason) -> list[Removal]:
        """Drops `entry` where it is still what is held."""
        return self.drop(key, reason) if self.look_up(key) == entry else []

    def refute(self, key: CacheKey, by: Lease | None = None) -> list[Removal]:
        """The key was seen to exist: drops its marker, and no absence that is on its way makes one.

        Fills go on: a body that arrives is no contradiction. `by`: the lease of the fill that saw.
        """
        for lease in self._leases.get(key, ()):
            lease.is_refuted = lease.is_refuted or lease is not by
        is_marker = isinstance(self.look_up(key), Absent)
        return self._take_out(key, "replaced") if is_marker else []

    def make_stale(self, key: CacheKey, reason: Reason) -> list[Removal]:
        """A body is validated before its next use, a marker falls. Fills go on."""
        slot = self._find(key)
        what = None if slot is None else self._slots.what[slot]
        if slot is None or not isinstance(what, Present):
            return self._take_out(key, reason)
        self._slots.what[slot] = replace(what, must_validate=True)
        return []

    def drop_object(self, target: Object, reason: Reason) -> list[Removal]:
        """Forgets every spelling, query and partition of an object."""
        keys = self.keys_of(target) | {key for key in self._leases if key.object == target}
        return self.drop_all(keys, reason)

    def drop_location(self, location: str, reason: Reason) -> list[Removal]:
        """Forgets everything of one origin."""
        spaces = self._spaces_of(location)
        keys = [CacheKey(space.namespace, target) for space in spaces for target in space.entries]
        keys += [key for key in self._leases if key.namespace.location == location]
        return self.drop_all(keys, reason)

    def drop_all(self, keys: Iterable[CacheKey], reason: Reason) -> list[Removal]:
        return [removal for key in keys for removal in self.drop(key, reason)]

    def leased_keys(self) -> list[CacheKey]:
        """Keys that a fill is under way for."""
        return list(self._leases)

    def _take_out(self, key: CacheKey, reason: Reason) -> list[Removal]:
        space = self._spaces.get(key.namespace)
        slot = space.entries.pop(key.target, None) if space is not None else None
        if space is None or slot is None:
            return []
        what = self._slots.what[slot]
        self._slots.free(slot)
        if not space.entries:
            del self._spaces[key.namespace]
            self._numbered[space.number] = None
            self._free_numbers.append(space.number)
        self._forget_spelling(key)
        if isinstance(what, Present):
            space.body_count -= 1
            self.body_count -= 1
            self.body_bytes -= what.body.charge
            self.body_memory_bytes -= cost_of_entry(what)
            return [Removal("body", reason, what.body)]
        self.marker_count -= 1
        self.marker_bytes -= cost_of_marker(key)
        return [Removal("marker", reason)]

    # Places.

    def _find(self, key: CacheKey) -> int | None:
        space = self._spaces.get(key.namespace)
        return None if space is None else space.entries.get(key.target)

    def _place(self, key: CacheKey, what: Present | bytes) -> int:
        space = self._spaces.get(key.namespace)
        if space is None:
            space = self._open_space(key.namespace)
        slot = space.entries[key.target] = self._slots.add(what, space.number)
        if not is_plain(key.target):
            self._spellings.setdefault(key.object, set()).add(key)
        return slot

    def _spaces_of(self, location: str) -> list[_Space]:
        return [space for name, space in self._spaces.items() if name.location == location]

    def _open_space(self, namespace: Namespace) -> _Space:
        if self._free_numbers:
            number = self._free_numbers.pop()
        else:
            number = len(self._numbered)
            self._numbered.append(None)
        space = self._numbered[number] = self._spaces[namespace] = _Space(namespace, number)
        return space

    def _key_of(self, slot: int) -> CacheKey:
        what = self._slots.what[slot]
        if isinstance(what, Present):
            return what.stored.key
        space = self._numbered[self._slots.space(slot)]
        assert space is not None and what is not None
        return CacheKey(space.namespace, what)

    def _forget_spelling(self, key: CacheKey) -> None:
        if is_plain(key.target):
            return
        spellings = self._spellings[key.object]
        spellings.discard(key)
        if not spellings:
            del self._spellings[key.object]

    # Invariants.

    def check_invariants(self) -> None:
        """Raises AssertionError where the books don't agree. For tests; O(n)."""
        markers = [self._key_of(slot) for slot in self._slots.markers()]
        bodies = [
            what
            for slot in self._slots.in_order(BODIES)
            if isinstance(what := self._slots.what[slot], Present)
        ]
        listed = {*markers, *(body.stored.key for body in bodies)}
        assert len(listed) == len(markers) + len(bodies), "a key has two places"
        assert listed == set(self.keys()), "what is listed is not what is held"
        assert (self.marker_count, self.body_count) == (len(markers), len(bodies))
        assert self.body_count == sum(space.body_count for space in self._spaces.values())
        assert self.marker_bytes == sum(map(cost_of_marker, markers))
        assert self.body_bytes == sum(body.body.charge for body in bodies)
        assert self.body_memory_bytes == sum(map(cost_of_entry, bodies))
        assert self.memory_in_use <= self.limits.memory_bytes, "over the memory"
        assert self.total_bytes <= max(self.limits.budget_bytes, 0), "over the budget"
        assert self.marker_count <= self.limits.max_markers
        spelled = {key for keys in self._spellings.values() for key in keys}
        assert spelled == {key for key in listed if not is_plain(key.target)}
        assert all(space.entries for space in self._spaces.values()), "an empty namespace is kept"
        assert len(self._numbered) == len(self._spaces) + len(self._free_numbers)


def _is_same_generation(one: Present, other: Present) -> bool:
    validator = strong_validator(one.stored.fields)
    return (
        validator is not None
        and validator == strong_validator(other.stored.fields)
        and one.stored.length == other.stored.length
    )
