"""What is held, where it lies, and what it costs: the books of the index.

A key has one place or none, so it can't be two things. Ranges have places of their own and hang
under their key's. Nothing here knows a limit or a lease.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from chunkside.core.budget import (
    RANGE_FIXED_BYTES,
    Kind,
    Reason,
    Removal,
    Tally,
    cost_of_entry,
    cost_of_marker,
    removal_of,
)
from chunkside.core.entry import Absent, BodyRef, Entry, Held, Partial, Present
from chunkside.core.key import CacheKey
from chunkside.core.places import Places
from chunkside.core.slots import BODIES, PARTIALS, Slots


class Holdings:
    def __init__(self) -> None:
        self.markers = Tally()
        self.bodies = Tally()
        self.ranges = Tally()
        self.places = Places()
        # How many of each kind are of one origin.
        self._by_location: defaultdict[str, Counter[Kind]] = defaultdict(Counter)
        self._slots = Slots()
        self._range_slots: dict[tuple[int, int], int] = {}

    # Looking.

    def entry(self, key: CacheKey) -> Entry | None:
        slot = self.places.find(key)
        if slot is None:
            return None
        what = self._slots.what[slot]
        return what if isinstance(what, Present | Partial) else self._slots.unpack(slot)

    def touch(self, key: CacheKey) -> None:
        slot = self.places.find(key)
        if slot is not None:
            self._slots.touch(slot)

    def touch_range(self, body: BodyRef) -> None:
        slot = self._range_slots.get(body.name)
        if slot is not None:
            self._slots.touch(slot)

    def has_range(self, body: BodyRef) -> bool:
        return body.name in self._range_slots

    def marker_to_evict(self) -> CacheKey:
        slot = self._slots.marker_to_evict()
        assert slot is not None, "no marker is left to evict, and a budget is exceeded"
        return self._key_of(slot)

    def body_to_evict(self) -> BodyRef:
        """The least recently used body or range."""
        slot = self._slots.oldest(BODIES)
        what = None if slot is None else self._slots.what[slot]
        assert isinstance(what, Present | BodyRef), "nothing is left to evict"
        return what if isinstance(what, BodyRef) else what.body

    @property
    def place_count(self) -> int:
        return len(self._slots.what)

    def key_at(self, place: int) -> CacheKey | None:
        """The key whose entry lies at a place; None where there is no entry."""
        what = self._slots.what[place]
        return None if what is None or isinstance(what, BodyRef) else self._key_of(place)

    def _key_of(self, slot: int) -> CacheKey:
        what = self._slots.what[slot]
        if isinstance(what, Present | Partial):
            return what.stored.key
        assert isinstance(what, bytes)
        return CacheKey(self.places.namespace(self._slots.space(slot)), what)

    @property
    def tallies(self) -> dict[Kind, Tally]:
        return {"body": self.bodies, "range": self.ranges, "marker": self.markers}

    @property
    def key_count(self) -> int:
        return self.bodies.count + self._slots.count(PARTIALS) + self.markers.count

    def counts_of(self, location: str) -> dict[Kind, int]:
        """How many bodies, ranges and markers of one origin are held."""
        counts = self._by_location.get(location, Counter[Kind]())
        return {kind: counts[kind] for kind in self.tallies}

    @property
    def file_bytes(self) -> int:
        return self.bodies.charge + self.ranges.charge

    @property
    def file_memory(self) -> int:
        return self.bodies.memory + self.ranges.memory

    # Changing.

    def put(self, held: Held) -> None:
        """Gives a key that has none its entry; of a Partial, with its one range."""
        key = held.stored.key
        slot = self._slots.add(held, self.places.number(key.namespace))
        self.places.put(key, slot)
        if isinstance(held, Present):
            self.bodies.add(held.body.charge, cost_of_entry(held))
            self._count("body", key, 1)
        else:
            self.ranges.add(0, cost_of_entry(held), count=0)
            self._put_range(only_body(held), slot)

    def put_marker(self, key: CacheKey, absent: Absent) -> None:
        slot = self._slots.add(key.target, self.places.number(key.namespace))
        self.places.put(key, slot)
        self._slots.pack(slot, absent)
        cost = cost_of_marker(key)
        self.markers.add(cost, cost)
        self._count("marker", key, 1)

    def replace(self, held: Held) -> None:
        """Puts another entry of the same kind in its key's place, which is used as it was."""
        slot = self._slot_of(held)
        old = self._slots.what[slot]
        assert isinstance(old, Present | Partial)
        assert type(old) is type(held)
        self._slots.what[slot] = held
        tally = self.bodies if isinstance(held, Present) else self.ranges
        tally.memory += cost_of_entry(held) - cost_of_entry(old)

    def join(self, partial: Partial, body: BodyRef) -> list[Removal]:
        """Adds a range to the key's, in place of those that lie within it."""
        grown, within = partial.with_body(body)
        self.replace(grown)
        removed = [self._take_range(held, "replaced") for held in within]
        self._put_range(body, self._slot_of(partial))
        return removed

    def take(self, key: CacheKey, reason: Reason) -> list[Removal]:
        """Forgets the key."""
        slot = self.places.take(key)
        if slot is None:
            return []
        what = self._slots.what[slot]
        self._slots.free(slot)
        if isinstance(what, Present):
            self.bodies.add(-what.body.charge, -cost_of_entry(what), count=-1)
            self._count("body", key, -1)
            return [removal_of(what.body, reason)]
        if isinstance(what, Partial):
            self.ranges.add(0, -cost_of_entry(what), count=0)
            return [self._take_range(body, reason) for body in what.bodies]
        cost = cost_of_marker(key)
        self.markers.add(-cost, -cost, count=-1)
        self._count("marker", key, -1)
        return [Removal("marker", reason)]

    def take_range(self, body: BodyRef, reason: Reason) -> list[Removal]:
        """Forgets one range; the key, too, where it was the last."""
        if body.name not in self._range_slots:
            return []
        partial = self.entry(body.key)
        assert isinstance(partial, Partial), "a range hangs under nothing"
        if len(partial.bodies) == 1:
            return self.take(body.key, reason)
        self.replace(partial.without_body(body))
        return [self._take_range(body, reason)]

    def _slot_of(self, held: Held) -> int:
        slot = self.places.find(held.stored.key)
        assert slot is not None
        return slot

    def _put_range(self, body: BodyRef, beside: int) -> None:
        self._range_slots[body.name] = self._slots.add(body, self._slots.space(beside))
        self.ranges.add(body.charge, RANGE_FIXED_BYTES)
        self._count("range", body.key, 1)

    def _take_range(self, body: BodyRef, reason: Reason) -> Removal:
        self._slots.free(self._range_slots.pop(body.name))
        self.ranges.add(-body.charge, -RANGE_FIXED_BYTES, count=-1)
        self._count("range", body.key, -1)
        return removal_of(body, reason)

    def _count(self, kind: Kind, key: CacheKey, step: int) -> None:
        self._by_location[key.namespace.location][kind] += step

    # Invariants.

    def check_invariants(self) -> None:
        """Raises AssertionError where the books don't agree. For tests; O(n)."""
        self.places.check_invariants()
        slots = self._slots
        markers = [self._key_of(slot) for slot in slots.markers()]
        files = [slots.what[slot] for slot in slots.in_order(BODIES)]
        bodies = [what for what in files if isinstance(what, Present)]
        ranges = [what for what in files if isinstance(what, BodyRef)]
        tops = [slots.what[slot] for slot in slots.in_order(PARTIALS)]
        partials = [what for what in tops if isinstance(what, Partial)]
        listed = [
            *markers,
            *(present.stored.key for present in bodies),
            *(partial.stored.key for partial in partials),
        ]
        assert len(set(listed)) == len(listed) == self.key_count, "a key has two places"
        assert set(listed) == set(self.places.keys()), "what is listed is not what is held"
        hanging = [body for partial in partials for body in partial.bodies]
        assert set(hanging) == set(ranges), "a range hangs under no key, or has no place"
        assert len(hanging) == len(ranges) == len(self._range_slots)
        for partial in partials:
            _check_order(partial)
        for kind, tally in self.tallies.items():
            assert tally.count == sum(counts[kind] for counts in self._by_location.values())
        costs = sum(map(cost_of_marker, markers))
        assert self.markers == Tally(len(markers), costs, costs)
        memory, charge = sum(map(cost_of_entry, bodies)), sum(held.body.charge for held in bodies)
        assert self.bodies == Tally(len(bodies), charge, memory)
        memory = sum(map(cost_of_entry, partials)) + len(ranges) * RANGE_FIXED_BYTES
        assert self.ranges == Tally(len(ranges), sum(body.charge for body in ranges), memory)


def _check_order(partial: Partial) -> None:
    """Raises AssertionError where a range lies within another."""
    assert partial.bodies, "a key is held for no range"
    for before, after in zip(partial.bodies, partial.bodies[1:], strict=False):
        assert before.first < after.first
        assert before.last < after.last


def only_body(held: Held) -> BodyRef:
    """The file of what was stored or found by itself."""
    if isinstance(held, Present):
        return held.body
    [body] = held.bodies
    return body
