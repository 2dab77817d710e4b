"""One mapping, key → Present, Partial, Variants or Absent, in order of use, within its budgets.

Whatever dies leaves through a return value, and whoever called unlinks it: the index knows sizes
and order, and no files. Nothing is stored but under a lease, which any drop or absence of its key
revokes, and other bytes limit to more of their own generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from chunkside.core.budget import (
    Kind,
    Limits,
    Reason,
    Removal,
    Tally,
    removal_of,
)
from chunkside.core.entry import (
    Absent,
    BodyRef,
    Entry,
    Held,
    Now,
    Present,
    StampPair,
    Stored,
    Variants,
    helds,
    of_variant,
)
from chunkside.core.holdings import Holdings, only_body
from chunkside.core.key import CacheKey, Namespace, Object
from chunkside.core.lease import Lease, Leases
from chunkside.core.ranges import generation_of
from chunkside.core.rivalry import has_its_path, is_of_another, is_same_generation, rivals_of
from chunkside.core.room import Room

_MOST_VARIANTS: Final = 8


class Index:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._held = Holdings()
        self._room = Room(self._held, limits)
        self._leases = Leases()
        # Where a key's entry lies, for as long as nothing else is done here; what lies there, and
        # the use of it. Asked for by every hit, so without a call in between.
        self.place_of: Callable[[Namespace, bytes], int | None] = self._held.places.place
        self.entry_at: Callable[[int], Entry] = self._held.entry_at
        self.touch_at: Callable[[int], None] = self._held.touch_at
        # One thing at each place, another one whenever something else is known of its key.
        self.at_places: Sequence[object] = self._held.at_places

    # Looking.

    def look_up(self, key: CacheKey) -> Entry | None:
        return self._held.entry(key)

    def touch(self, key: CacheKey) -> None:
        """Marks the key's entry as the most recently used of its kind."""
        self._held.touch(key)

    def touch_body(self, body: BodyRef) -> None:
        """The same for a file: those of ranges and variants are used and evicted by themselves."""
        self._held.touch_file(body)

    def keys(self) -> Iterator[CacheKey]:
        """A snapshot of every key held."""
        return self._held.places.keys()

    def keys_of(self, target: Object) -> set[CacheKey]:
        """Every key, held or not, under which a look-up may find something of an object."""
        return self._held.places.keys_of(target)

    def counts_of(self, location: str) -> dict[Kind, int]:
        """How many bodies, ranges and markers of one origin are held."""
        return self._held.counts_of(location)

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
    def partition_count(self) -> int:
        """Namespaces that hold something: origins, by whose credential it was learnt."""
        return self._held.places.namespace_count

    @property
    def total_bytes(self) -> int:
        """What all entries are charged of the byte budget."""
        return self._room.total_bytes

    @property
    def reserved_bytes(self) -> int:
        return self._room.reserved_bytes

    @property
    def memory_in_use(self) -> int:
        """Resident bytes of all entries, as charged."""
        return self._room.memory_in_use

    # Leases.

    def lease(self, key: CacheKey, stamps: StampPair, now: Now) -> Lease:
        return self._leases.begin(key, stamps, now)

    def end(self, lease: Lease) -> None:
        self._leases.end(lease)

    def leased_keys(self) -> list[CacheKey]:
        """Keys that a fill is under way for."""
        return self._leases.all_keys()

    # Setting aside.

    def reserve(self, size: int) -> list[Removal] | None:
        """Sets bytes aside for a file on its way, to be given back by `release`; gives what made
        room for it, None where too much is set aside already.
        """
        return self._room.reserve(size)

    def release(self, size: int) -> None:
        self._room.release(size)

    # Storing.

    def store(self, lease: Lease, current: StampPair, new: Held, now: Now) -> list[Removal] | None:
        """Makes `new` the key's entry; gives what that cost, None where the lease forbids it.

        A Partial of one range joins what is held of its generation; a variant takes the place of
        that variant alone. What is too large for the budget is among what it cost, and nothing else
        is evicted for it.
        """
        if not lease.allows(current, now) or not lease.is_for(new.stored):
            return None
        return self._take_markers(new.stored.key) + self._put(new, lease)

    def adopt(self, new: Held) -> list[Removal] | None:
        """Takes in a body or a range found on disk; None where it is to be left alone, since it is
        known, or something newer may be on its way.

        Of two generations the one that was asked for later stays. A marker is newer than any file.
        """
        key, body = new.stored.key, only_body(new)
        entry = self.look_up(key)
        if key in self._leases or self._held.has_hanging(body):
            return None
        if isinstance(entry, Absent) or self._is_absent_to_some(key):
            return None if body.part is None else [removal_of(body, "replaced")]
        old, rivals = of_variant(entry, body.variant), rivals_of(entry, new.stored)
        if not rivals or is_same_generation(old, new):
            # Of two files that had one path nobody can say which is there by now.
            return None if has_its_path(old, body) else self._put(new, None)
        if isinstance(new, Present) and isinstance(old, Present):
            return None
        asked_at = new.stored.requested_at.wall
        if any(rival.stored.requested_at.wall >= asked_at for rival in rivals):
            return [removal_of(body, "replaced")]
        return self._put(new, None)

    def _is_absent_to_some(self, key: CacheKey) -> bool:
        """Whether one of those who share the bodies of a key saw that it is absent."""
        return key.namespace.is_shared and any(
            other.target == key.target and isinstance(self.look_up(other), Absent)
            for other in self.keys_of(key.object)
        )

    def _put(self, new: Held, lease: Lease | None) -> list[Removal]:
        key, body = new.stored.key, only_body(new)
        entry, refusal = self.look_up(key), self._room.refusal(new)
        old = of_variant(entry, body.variant)
        if is_same_generation(old, new):
            if body.part is not None:
                assert old is not None
                return self._join(old, new, body, refusal) + self._room.make()
        else:
            for other in self._leases.others(key, lease):
                other.limit(new.stored)
        removed = self._make_way(entry, new.stored)
        if refusal is not None:
            return [*removed, removal_of(body, refusal)]
        self._held.put(new)
        return removed + self._room.make()

    def _make_way(self, entry: Entry | None, new: Stored) -> list[Removal]:
        """Takes what bytes under a head take the place of."""
        if not isinstance(entry, Variants) or not new.variant:
            return self._held.take(new.key, "replaced")
        old = entry.get(new.variant)
        if old is None and len(entry.of) >= _MOST_VARIANTS:
            old = entry.of[0]
        return [] if old is None else self._held.take_variant(old, "replaced")

    def _join(self, old: Held, new: Held, body: BodyRef, refusal: Reason | None) -> list[Removal]:
        """Takes in a range of the very representation that is held, and the newer of both heads."""
        assert body.part is not None
        if new.stored.requested_at.boot >= old.stored.requested_at.boot:
            old = replace(old, stored=new.stored, must_validate=new.must_validate)
            self._held.replace(old)
        if refusal is not None:
            return [removal_of(body, refusal)]
        if isinstance(old, Present):
            return [removal_of(body, "replaced")]
        # What was committed to the path of a file that was held took its place there.
        if old.body_for(body.part) is not None and not has_its_path(old, body):
            return [removal_of(body, "replaced")]
        return self._held.join(old, body)

    def see(
        self, lease: Lease, new: Stored, *, is_allowed: bool, is_relayed: bool
    ) -> list[Removal]:
        """Bytes under the head `new` arrive: what is held of other ones falls, and fills are held
        to these, even if these can't be kept. `is_allowed`: whether the lease allows something.

        Where others were seen meanwhile nobody can say which are newer: only what was asked for
        before these falls. Those that are relayed hold nobody to what can't be told apart.
        """
        key, entry = lease.key, self.look_up(lease.key)
        same = of_variant(entry, new.variant)
        others = [held for held in rivals_of(entry, new) if is_of_another(held, new)]
        if not is_allowed or not lease.is_for(new):
            asked_at = new.requested_at.boot
            are_older = all(held.stored.requested_at.boot < asked_at for held in others)
            return self.drop(key, "replaced") if others and are_older else []
        if same is not None and not others:
            return []
        if generation_of(new) is not None or not is_relayed:
            for other in self._leases.others(key, lease):
                other.limit(new)
        return self._make_way(entry, new) if others else []

    def freshen(
        self, lease: Lease, current: StampPair, old: Held, stored: Stored, now: Now
    ) -> list[Removal] | None:
        """Gives what was held as `old` another head, bytes unchanged; gives what a longer head
        cost, None where the lease forbids it or other bytes are held.
        """
        held = of_variant(self.look_up(lease.key), old.stored.variant)
        if held is None or not lease.allows(current, now):
            return None
        if not (is_same_generation(held, old) or held.bodies == old.bodies):
            return None
        if held.token != current.token or not lease.is_for(held.stored):
            return None
        self._held.replace(replace(held, stored=stored, must_validate=False))
        return self._room.make()

    def remember(
        self,
        lease: Lease,
        current: StampPair,
        absent: Absent,
        now: Now,
        at: CacheKey | None = None,
    ) -> list[Removal] | None:
        """Makes a marker of an absence; gives what died, None where the lease forbids it.

        What was held falls even where bodies leave no room to remember: an absence contradicts it.
        `at`: where the marker lies, if the lease is for what many credentials share, of which one
        saw the absence. To the others it is no absence, but bytes on their way are older.
        """
        if lease.is_refuted or lease.only or not lease.allows(current, now):
            return None
        key = lease.key
        at = at or key
        assert not at.namespace.is_shared, "an absence is one credential's"
        if at == key:
            self._leases.revoke(key, but=lease)
            removed = self._held.take(key, "replaced")
        else:
            self._leases.deny(key, but=lease)
            removed = self._held.take(key, "replaced") + self._held.take(at, "replaced")
        evicted = self._room.make_for_marker(at)
        if evicted is not None:
            self._held.put_marker(at, absent)
        return removed + (evicted or [])

    # Dropping.

    def drop(self, key: CacheKey, reason: Reason) -> list[Removal]:
        """Forgets the key and lets no fill that is under way bring it back."""
        self._leases.revoke(key)
        return self._held.take(key, reason)

    def drop_file(self, body: BodyRef, reason: Reason) -> list[Removal]:
        """Forgets a body, or a range, whose siblings stay, where it is held. Fills go on."""
        return self._held.take_file(body, reason)

    def refute(self, key: CacheKey, by: Lease | None = None) -> list[Removal]:
        """The key was seen to exist: drops its marker, and no absence that is on its way makes one.

        Fills go on: a body that arrives is no contradiction. `by`: the lease of the fill that saw.
        """
        for lease in self._leases.others(key, by):
            lease.is_refuted = True
        return self._take_markers(key)

    def deny(self, key: CacheKey) -> list[Removal]:
        """The key was seen to be absent by what makes no marker: what is held falls, and no bytes
        that are on their way are stored.
        """
        self._leases.deny(key)
        return self._held.take(key, "replaced")

    def _take_markers(self, key: CacheKey) -> list[Removal]:
        """Drops what bytes of a key contradict: its marker; of what all credentials share those of
        its object, in each of their partitions.
        """
        keys = self.keys_of(key.object) if key.namespace.is_shared else {key}
        return [
            removal
            for each in keys
            if isinstance(self.look_up(each), Absent)
            for removal in self._held.take(each, "replaced")
        ]

    def make_stale(self, key: CacheKey, reason: Reason) -> list[Removal]:
        """What is held is validated before its next use, a marker falls. Fills go on."""
        held = helds(self.look_up(key))
        for each in held:
            self._held.replace(replace(each, must_validate=True))
        return [] if held else self._held.take(key, reason)

    def drop_object(self, target: Object, reason: Reason) -> list[Removal]:
        """Forgets every spelling, query and partition of an object."""
        keys = self.keys_of(target) | self._leases.keys_of(target)
        return self.drop_all(keys, reason)

    def drop_location(self, location: str, reason: Reason) -> list[Removal]:
        """Forgets everything of one origin."""
        keys = (*self.keys(), *self._leases.all_keys())
        return self.drop_all((key for key in keys if key.namespace.location == location), reason)

    def drop_all(self, keys: Iterable[CacheKey], reason: Reason) -> list[Removal]:
        return [removal for key in keys for removal in self.drop(key, reason)]

    # Invariants.

    def check_invariants(self) -> None:
        """Raises AssertionError where the books don't agree. For tests; O(n)."""
        self._held.check_invariants()
        self._room.check_invariants()
