"""What the driver's parts share: the index, the policy, and the ports to the world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from chunkside.core.budget import Reason, Removal, removal_of
from chunkside.core.entry import (
    Absent,
    BodyRef,
    Entry,
    Held,
    Now,
    Part,
    Partial,
    Present,
    Stored,
    of_variant,
    oldest_request,
    tokens_of,
)
from chunkside.core.freshness import Policy
from chunkside.core.index import Index
from chunkside.core.key import CacheKey, Object
from chunkside.core.lease import Lease
from chunkside.core.listing import listings_above
from chunkside.core.ranges import generation_of
from chunkside.core.request import Request
from chunkside.gateway.denials import Denials
from chunkside.gateway.doubts import Doubts
from chunkside.gateway.errors import StoreFault
from chunkside.gateway.health import Health
from chunkside.gateway.invalidations import Invalidations
from chunkside.gateway.leaving import Leaving
from chunkside.gateway.ports import BodyStore, Clock, Observer, StampTable, Upstream, as_held
from chunkside.gateway.reclaiming import BATCH, Reclaimer
from chunkside.gateway.tasks import Tasks
from chunkside.gateway.visits import Visits

Stamped = TypeVar("Stamped")


@dataclass(slots=True)
class Shared:
    """What changes as the process runs, and is one for all of its routes.

    `uncommitted_bytes`: of bodies that were answered and wait for their commit, in memory.
    `is_scanning`: the directory has not been read whole yet, so that the index may lack what lies
    on disk. `is_pressed` is set where a body was not stored for want of room on the volume;
    `wanted_bytes`: the most that one of those would have taken.
    """

    tasks: Tasks = field(default_factory=Tasks)
    health: Health = field(default_factory=Health)
    leaving: Leaving = field(default_factory=Leaving)
    fallen: Invalidations = field(default_factory=Invalidations)
    denials: Denials = field(default_factory=Denials)
    is_pressed: asyncio.Event = field(default_factory=asyncio.Event)
    wanted_bytes: int = 0
    uncommitted_bytes: int = 0
    is_scanning: bool = True


@dataclass(slots=True)
class Edges:
    """What one route stands on. Index, store, stamps, clock and `shared` are the same objects for
    all routes of a process; policy, upstream and observer are the route's own.

    They are never changed: a route with other settings stands on other ones. `is_outdated` says
    that what was asked for under these settings may not be stored any more.

    `read_seconds`: the longest that the answer to a read may take to begin; `write_seconds`: that a
    write may take. `most_orphans`: fills that go on after all who waited for them have left; each
    may hold a connection. `audit_share`: of hits, which are asked for again. `only_observes`:
    readers are answered by the origin each time. `root`: what all targets begin with that the route
    admits.
    """

    index: Index
    policy: Policy
    store: BodyStore
    stamps: StampTable
    upstream: Upstream
    clock: Clock
    observer: Observer
    read_seconds: float = 25.0
    write_seconds: float = 300.0
    most_orphans: int = 64
    audit_share: float = 0.0
    only_observes: bool = False
    root: bytes = b""
    shared: Shared = field(default_factory=Shared)
    visits: Visits = field(default_factory=Visits)
    is_outdated: bool = False
    doubts: Doubts = field(init=False)
    _reclaimer: Reclaimer = field(init=False)

    def __post_init__(self) -> None:
        self.doubts = Doubts(self.stamps)
        self._reclaimer = Reclaimer(self.index, self.tasks, self.drop_fallen)

    @property
    def tasks(self) -> Tasks:
        return self.shared.tasks

    @property
    def uncommitted_bytes(self) -> int:
        return self.shared.uncommitted_bytes

    @uncommitted_bytes.setter
    def uncommitted_bytes(self, size: int) -> None:
        self.shared.uncommitted_bytes = size

    @property
    def is_scanning(self) -> bool:
        return self.shared.is_scanning

    @is_scanning.setter
    def is_scanning(self, is_scanning: bool) -> None:
        self.shared.is_scanning = is_scanning

    def now(self) -> Now:
        return self.clock.now()

    def lease(self, key: CacheKey) -> Lease:
        # What has fallen goes first: its going would revoke this lease.
        self.drop_fallen([key])
        lease = self.index.lease(key, self.stamps.read(key.object), self.now())
        lease.is_revoked = lease.is_revoked or self.is_outdated
        return lease

    def look_up(self, key: CacheKey) -> Entry | None:
        """The key's entry as far as it holds under the current stamps and beneath its array.

        What a write fell on is dropped; of an array that was rewritten at the origin a marker is
        forgotten and a body must be validated.
        """
        entry, target = self.index.look_up(key), key.object
        if entry is None:
            return None
        if tokens_of(entry) != {self.stamps.read(target).token}:
            self.discard(self.index.drop(key, "invalidated"))
            return None
        if isinstance(entry, Present | Partial) and entry.must_validate:
            return entry
        if self.doubts.has_doubted(target, oldest_request(entry).boot):
            self.discard(self.index.make_stale(key, "invalidated"))
            return self.index.look_up(key)
        return entry

    def known_of(self, request: Request) -> Entry | None:
        """What may answer a request: bytes, or the absence that its own credential saw."""
        entry = self.look_up(request.key)
        if entry is None and request.own_space is not None:
            return self.look_up(request.absence_key)
        return entry

    def drop_fallen(self, keys: Iterable[CacheKey], reason: Reason = "invalidated") -> None:
        """Drops what was stored under other stamps than the current ones."""
        removals = []
        for key in keys:
            entry = self.index.look_up(key)
            if entry is not None and tokens_of(entry) != {self.stamps.read(key.object).token}:
                removals += self.index.drop(key, reason)
        self.discard(removals)

    def note_change(self, document: Object) -> None:
        """A metadata document proved to be another than what is known beneath its directory."""
        self._stamp(lambda: self.doubts.note(document, self.now().boot))
        self.observer.invalidated("metadata")

    def hear_refusal(self, request: Request, status: int) -> None:
        """What a document is answered proves nothing of its array where it was refused just now."""
        is_refusal = status in (401, 403) and 403 in self.policy.absent_statuses
        if is_refusal and request.key_class == "metadata" and not request.is_signed:
            self.shared.denials.note(request.absence_key, self.now().boot)

    def store_body(self, lease: Lease, stored: Stored, body: BodyRef) -> bool:
        """Makes a committed file the key's entry, or a range of it; where the lease forbids it, has
        the file removed.
        """
        current = self.stamps.read(lease.key.object)
        held = as_held(stored, body, lease.stamps.token)
        removals = self.index.store(lease, current, held, self.now())
        if removals is None:
            self.discard([removal_of(body, "invalidated")])
            return False
        self.discard(removals)
        return all(removal.body != body for removal in removals)

    def remember_absence(self, lease: Lease, absent: Absent, at: CacheKey) -> bool:
        current = self.stamps.read(lease.key.object)
        removals = self.index.remember(lease, current, absent, self.now(), at)
        if removals is None:
            return False
        self.discard(removals)
        # Its array may have been found rewritten since it was asked for.
        return self.look_up(at) is not None

    def freshen(self, lease: Lease, held: Held, stored: Stored) -> bool:
        current = self.stamps.read(lease.key.object)
        removals = self.index.freshen(lease, current, held, stored, self.now())
        if removals is None:
            return False
        self.discard(removals)
        return True

    def see(self, lease: Lease, stored: Stored, *, is_relayed: bool = False) -> None:
        """The origin begins to answer with bytes: what is of other ones is older from now on, even
        if these can't be kept.
        """
        is_allowed = self.may_store(lease)
        removals = self.index.see(lease, stored, is_allowed=is_allowed, is_relayed=is_relayed)
        self.discard(removals)

    def confirm(self, lease: Lease, stored: Stored, part: Part) -> bool:
        """Freshens what is held if it has `part` of the very representation that `stored` is of."""
        held = of_variant(self.look_up(lease.key), stored.variant)
        if held is None or held.body_for(part) is None:
            return False
        generation = generation_of(stored)
        if generation is None or generation != generation_of(held.stored):
            return False
        return self.freshen(lease, held, stored)

    def may_store(self, lease: Lease) -> bool:
        return lease.allows(self.stamps.read(lease.key.object), self.now())

    def refute(self, key: CacheKey, by: Lease | None = None) -> None:
        """The key was seen to exist: nobody is told any more that it doesn't, or that nothing lies
        in the directories above it. `by`: the lease of the fill that saw.
        """
        removals = self.index.refute(key, by)
        if self.policy.negative_scope == "all":
            for listing in listings_above(key.object):
                removals += self.index.refute(CacheKey(key.namespace, listing.path))
        self.discard(removals)

    def discard(self, removals: Iterable[Removal]) -> None:
        """Counts what died and has its files unlinked."""
        bodies = self._count(removals)
        if bodies:
            unlinked = self.shared.leaving.unlink(self.store, bodies)
            self.tasks.start(unlinked, "unlinking of bodies")

    async def remove(self, removals: Iterable[Removal]) -> None:
        """The same, and waits until they are unlinked."""
        await self.shared.leaving.unlink(self.store, self._count(removals))

    def _count(self, removals: Iterable[Removal]) -> list[BodyRef]:
        bodies = []
        for removal in removals:
            self.observer.removed(removal.kind, removal.reason)
            if removal.body is not None:
                bodies.append(removal.body)
        return bodies

    # Room on the disk.

    async def reserve(self, size: int) -> bool:
        """Sets bytes aside for a file on its way, and returns once what had to go has gone; False
        where it is not to be stored. `release` gives them back.
        """
        if self.shared.health.is_resting(self.now().boot):
            return False
        if not self.store.has_room(size):
            self.shared.is_pressed.set()
            self.shared.wanted_bytes = max(self.shared.wanted_bytes, size)
            return False
        if not self.store.set_aside(size, is_index_whole=not self.is_scanning):
            if not self.is_scanning:
                self.shared.is_pressed.set()
            return False
        removals = self.index.reserve(size)
        if removals is None:
            self.store.give_back(size)
            return False
        self.discard(removals)
        try:
            has_room = await self.shared.leaving.until(self._fits)
        except BaseException:
            self.release(size)
            raise
        if not has_room:
            self.release(size)
        return has_room

    def release(self, size: int) -> None:
        """Gives back what was set aside."""
        self.index.release(size)
        self.store.give_back(size)

    def _fits(self) -> bool:
        """Whether all is within the budget that lies on the disk or has been set aside."""
        index = self.index
        held = index.bodies.charge + index.ranges.charge + self.shared.leaving.bytes
        return held + index.reserved_bytes <= index.limits.budget_bytes

    def store_failed(self, fault: StoreFault) -> None:
        """Something could not be written."""
        self.observer.store_failed(fault.operation, fault.cause)
        self.shared.health.failed(fault, self.now().boot)
        self.shared.is_pressed.set()

    # Writes and purges. Stamp first, drop after: what can't be unlinked is dead all the same.

    def doubt(self, target: Object, *, with_beneath: bool) -> None:
        """What is known of `target`, and of all beneath it, must be asked about again."""
        boot = self.now().boot
        self._stamp(lambda: self.doubts.doubt(target, boot, with_beneath=with_beneath))

    def begin_write(self, target: Object, seconds: float, *, whole_location: bool) -> int:
        """Lets nobody store anything of `target` for `seconds`, and forgets what is held of it.

        What it gives names the write for `end_write`.
        """
        name = self._stamp(
            lambda: self.stamps.close(target, seconds, whole_location=whole_location)
        )
        self._forget(target, whole_location=whole_location)
        return name

    def end_write(
        self, target: Object, name: int, closed_for: float, *, whole_location: bool
    ) -> None:
        """Forgets once more. With `closed_for` 0 the object may be stored again at once."""
        self._stamp(
            lambda: (
                self.stamps.close(target, closed_for, whole_location=whole_location, ends=name)
                if closed_for
                else self.stamps.renew(target, whole_location=whole_location, ends=name)
            )
        )
        self._forget(target, whole_location=whole_location)

    def forget(self, target: Object) -> None:
        """Stamps as a write does that has ended, and forgets what is held."""
        for each in (target, *listings_above(target)):
            self.stamp_anew(each)
            self._forget(each, whole_location=False)

    def forget_location(self, location: str) -> None:
        """The same for everything of one origin."""
        root = Object(location, b"/")
        self.shared.fallen.note_beneath(root, "a change of settings", self.now())
        self.stamp_anew(root, whole_location=True)
        self._forget(root, whole_location=True)

    def stamp_anew(self, target: Object, *, whole_location: bool = False) -> None:
        """Stamps as a write does, and closes nothing. What is held is dead; whoever purges drops
        it.
        """
        self._stamp(lambda: self.stamps.renew(target, whole_location=whole_location, ends=None))

    def _stamp(self, write: Callable[[], Stamped]) -> Stamped:
        try:
            return write()
        except StoreFault as fault:
            # The table has left the directory: all its stamps are new ones, and this can't fail.
            self.observer.store_failed(fault.operation, fault.cause)
            return write()

    def _forget(self, target: Object, *, whole_location: bool) -> None:
        """What is much goes by and by: it is dead, and no write waits for its end."""
        index = self.index
        if whole_location:
            is_much = sum(index.counts_of(target.location).values()) > BATCH
        else:
            held = (key for key in index.keys_of(target) if index.look_up(key))
            is_much = len(list(islice(held, BATCH + 1))) > BATCH
        if is_much:
            self._reclaimer.reclaim(target.location)
        elif whole_location:
            self.discard(index.drop_location(target.location, "invalidated"))
        else:
            self.discard(index.drop_object(target, "invalidated"))
