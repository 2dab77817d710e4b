"""What is held, where it lies, and what it costs: the books of the index.

A key has one place or none, so it can't be two things. Ranges and variants have places of their own
and hang under their key's. Nothing here knows a limit or a lease.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from chunkside.core.budget import (
    HANGING_FILE_BYTES,
    Kind,
    Reason,
    Removal,
    Tally,
    cost_of_entry,
    cost_of_marker,
    hangs,
    kind_of,
    removal_of,
)
from chunkside.core.entry import (
    Absent,
    BodyRef,
    Entry,
    Held,
    Partial,
    Present,
    Variants,
    helds,
    of_variant,
)
from chunkside.core.key import CacheKey
from chunkside.core.places import Places
from chunkside.core.slots import BODIES, TOPS, Slots


class Holdings:
    def __init__(self) -> None:
        self.markers = Tally()
        self.bodies = Tally()
        self.ranges = Tally()
        self.places = Places()
        # How many of each kind are of one origin.
        self._by_location: defaultdict[str, Counter[Kind]] = defaultdict(Counter)
        self._slots = Slots()
        self.touch_at = self._slots.touch
        self.at_places = self._slots.what
        self._hanging: dict[tuple[int, int], int] = {}

    # Looking.

    def entry(self, key: CacheKey) -> Entry | None:
        slot = self.places.find(key)
        return None if slot is None else self.entry_at(slot)

    def entry_at(self, slot: int) -> Entry:
        what = self._slots.what[slot]
        return self._slots.unpack(slot) if isinstance(what, bytes) else _as_entry(what)

    def touch(self, key: CacheKey) -> None:
        slot = self.places.find(key)
        if slot is not None:
            self._slots.touch(slot)

    def touch_file(self, body: BodyRef) -> None:
        if not hangs(body):
            self.touch(body.key)
        elif (slot := self._hanging.get(body.name)) is not None:
            self._slots.touch(slot)

    def has_hanging(self, body: BodyRef) -> bool:
        """Whether a file is held that hangs under its key."""
        return body.name in self._hanging

    def marker_to_evict(self) -> CacheKey:
        slot = self._slots.marker_to_evict()
        assert slot is not None, "no marker is left to evict, and a budget is exceeded"
        return self._key_of(slot)

    def body_to_evict(self) -> BodyRef:
        """The least recently used file."""
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
        if isinstance(what, bytes):
            return CacheKey(self.places.namespace(self._slots.space(slot)), what)
        return helds(_as_entry(what))[0].stored.key

    @property
    def tallies(self) -> dict[Kind, Tally]:
        return {"body": self.bodies, "range": self.ranges, "marker": self.markers}

    @property
    def key_count(self) -> int:
        return self.places.count

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
        """Gives a key that has none its entry; one more where what it has are other variants. With
        its one file.
        """
        key = held.stored.key
        if not hangs(only_body(held)):
            assert isinstance(held, Present)
            self._put_top(key, held)
            self.bodies.add(held.body.charge, cost_of_entry(held))
            self._count("body", key, 1)
            return
        slot = self.places.find(key)
        if slot is None:
            slot = self._put_top(key, Variants((held,)) if held.stored.variant else held)
        else:
            self._slots.what[slot] = self._variants_at(slot).with_held(held)
        self._tally_of(held).add(0, cost_of_entry(held), count=0)
        self._hang(only_body(held), slot)

    def _put_top(self, key: CacheKey, what: Held | Variants) -> int:
        slot = self._slots.add(what, self.places.number(key.namespace))
        self.places.put(key, slot)
        return slot

    def put_marker(self, key: CacheKey, absent: Absent) -> None:
        slot = self._slots.add(key.target, self.places.number(key.namespace))
        self.places.put(key, slot)
        self._slots.pack(slot, absent)
        cost = cost_of_marker(key)
        self.markers.add(cost, cost)
        self._count("marker", key, 1)

    def replace(self, new: Held) -> None:
        """Puts another state of the same kind, and of the same files, in its place, which is used
        as it was.
        """
        slot = self._slot_of(new)
        if new.stored.variant:
            variants = self._variants_at(slot)
            old = variants.get(new.stored.variant)
            self._slots.what[slot] = variants.with_held(new)
        else:
            what = self._slots.what[slot]
            old = what if isinstance(what, Present | Partial) else None
            self._slots.what[slot] = new
        assert old is not None
        assert type(old) is type(new)
        self._tally_of(new).memory += cost_of_entry(new) - cost_of_entry(old)

    def join(self, partial: Partial, body: BodyRef) -> list[Removal]:
        """Adds a range to those held, in place of those that lie within it."""
        grown, within = partial.with_body(body)
        self.replace(grown)
        removed = [self._unhang(held, "replaced") for held in within]
        self._hang(body, self._slot_of(partial))
        return removed

    def take(self, key: CacheKey, reason: Reason) -> list[Removal]:
        """Forgets the key."""
        slot = self.places.take(key)
        if slot is None:
            return []
        what = self._slots.what[slot]
        self._slots.free(slot)
        if isinstance(what, bytes):
            cost = cost_of_marker(key)
            self.markers.add(-cost, -cost, count=-1)
            self._count("marker", key, -1)
            return [Removal("marker", reason)]
        if isinstance(what, Present):
            self.bodies.add(-what.body.charge, -cost_of_entry(what), count=-1)
            self._count("body", key, -1)
            return [removal_of(what.body, reason)]
        removed = []
        for held in helds(_as_entry(what)):
            self._tally_of(held).add(0, -cost_of_entry(held), count=0)
            removed += [self._unhang(body, reason) for body in held.bodies]
        return removed

    def take_variant(self, held: Held, reason: Reason) -> list[Removal]:
        """Forgets one variant; the key, too, where it was the last."""
        key, slot = held.stored.key, self._slot_of(held)
        variants = self._variants_at(slot)
        if len(variants.of) == 1:
            return self.take(key, reason)
        self._slots.what[slot] = variants.without(held.stored.variant)
        self._tally_of(held).add(0, -cost_of_entry(held), count=0)
        return [self._unhang(body, reason) for body in held.bodies]

    def take_file(self, body: BodyRef, reason: Reason) -> list[Removal]:
        """Forgets one file where it is held; with it what it was the last of."""
        held = of_variant(self.entry(body.key), body.variant)
        if held is None or not (body.name in self._hanging or held.bodies == (body,)):
            return []
        if isinstance(held, Partial) and len(held.bodies) > 1:
            self.replace(held.without_body(body))
            return [self._unhang(body, reason)]
        return self.take_variant(held, reason) if body.variant else self.take(body.key, reason)

    def _slot_of(self, held: Held) -> int:
        slot = self.places.find(held.stored.key)
        assert slot is not None
        return slot

    def _variants_at(self, slot: int) -> Variants:
        what = self._slots.what[slot]
        assert isinstance(what, Variants), "a variant beside what doesn't vary"
        return what

    def _tally_of(self, held: Held) -> Tally:
        return self.bodies if isinstance(held, Present) else self.ranges

    def _hang(self, body: BodyRef, beside: int) -> None:
        self._hanging[body.name] = self._slots.add(body, self._slots.space(beside))
        self.tallies[kind_of(body)].add(body.charge, HANGING_FILE_BYTES)
        self._count(kind_of(body), body.key, 1)

    def _unhang(self, body: BodyRef, reason: Reason) -> Removal:
        self._slots.free(self._hanging.pop(body.name))
        self.tallies[kind_of(body)].add(-body.charge, -HANGING_FILE_BYTES, count=-1)
        self._count(kind_of(body), body.key, -1)
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
        hanging = [what for what in files if isinstance(what, BodyRef)]
        tops = [_as_entry(slots.what[slot]) for slot in slots.in_order(TOPS)]
        listed = [
            *markers,
            *(present.stored.key for present in bodies),
            *(helds(top)[0].stored.key for top in tops),
        ]
        assert len(set(listed)) == len(listed) == self.key_count, "a key has two places"
        assert set(listed) == set(self.places.keys()), "what is listed is not what is held"
        beneath = [held for top in tops for held in helds(top)]
        held_files = [body for held in beneath for body in held.bodies]
        assert set(held_files) == set(hanging), "a file hangs under no key, or has no place"
        assert len(held_files) == len(hanging) == len(self._hanging)
        for top in tops:
            _check_top(top)
        costs = sum(map(cost_of_marker, markers))
        assert self.markers == Tally(len(markers), costs, costs)
        self._check_tallies([*bodies, *beneath], hanging)

    def _check_tallies(self, entries: list[Held], hanging: list[BodyRef]) -> None:
        for kind, tally in self.tallies.items():
            assert tally.count == sum(counts[kind] for counts in self._by_location.values())
            if kind == "marker":
                continue
            wanted = Present if kind == "body" else Partial
            own = [held for held in entries if isinstance(held, wanted)]
            files = [body for held in own for body in held.bodies]
            memory = sum(map(cost_of_entry, own))
            memory += HANGING_FILE_BYTES * sum(kind_of(body) == kind for body in hanging)
            assert tally == Tally(len(files), sum(body.charge for body in files), memory)


def _as_entry(what: object) -> Held | Variants:
    assert isinstance(what, Present | Partial | Variants), "no entry lies there"
    return what


def _check_top(top: Held | Variants) -> None:
    """Raises AssertionError where an entry isn't as it should be."""
    variants = [held.stored.variant for held in helds(top)]
    assert len(set(variants)) == len(variants) > 0, "a variant is held twice"
    assert all(variants) == isinstance(top, Variants), "what varies, and what doesn't"
    for held in helds(top):
        assert {body.variant for body in held.bodies} == {held.stored.variant}
        if isinstance(held, Partial):
            _check_order(held)


def _check_order(partial: Partial) -> None:
    """Raises AssertionError where a range lies within another."""
    assert partial.bodies, "a key is held for no range"
    for before, after in zip(partial.bodies, partial.bodies[1:], strict=False):
        assert before.first < after.first
        assert before.last < after.last


def only_body(held: Held) -> BodyRef:
    """The file of what was stored or found by itself."""
    [body] = held.bodies
    return body
