"""What the driver's parts share: the index, the policy, and the ports to the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from chunkside.core.budget import Reason, Removal
from chunkside.core.changes import Changes
from chunkside.core.entry import Absent, Entry, Now, Present
from chunkside.core.freshness import Policy
from chunkside.core.index import Index, Lease
from chunkside.core.key import CacheKey, Object
from chunkside.gateway.errors import StoreFault
from chunkside.gateway.ports import BodyStore, Clock, Observer, StampTable, Upstream
from chunkside.gateway.sweeping import BATCH, Sweeper
from chunkside.gateway.tasks import Tasks

Stamped = TypeVar("Stamped")


@dataclass(slots=True)
class Edges:
    """`write_seconds`: the longest that a write may take. `uncommitted_bytes`: of small bodies that
    were answered and wait for their commit. `is_scanning`: the directory has not been read whole
    yet, so that the index may lack what lies on disk.
    """

    index: Index
    policy: Policy
    store: BodyStore
    stamps: StampTable
    upstream: Upstream
    clock: Clock
    observer: Observer
    write_seconds: float = 300.0
    tasks: Tasks = field(default_factory=Tasks)
    uncommitted_bytes: int = 0
    changes: Changes = field(default_factory=Changes)
    is_scanning: bool = True
    _sweeper: Sweeper = field(init=False)

    def __post_init__(self) -> None:
        self._sweeper = Sweeper(self.index, self.tasks, self.drop_fallen)

    def now(self) -> Now:
        return self.clock.now()

    def lease(self, key: CacheKey) -> Lease:
        # What has fallen goes first: its going would revoke this lease.
        self.drop_fallen([key])
        return self.index.lease(key, self.stamps.read(key.object), self.now())

    def look_up(self, key: CacheKey) -> Entry | None:
        """The key's entry as far as it holds under the current stamps and beneath its array.

        What a write fell on is dropped; of an array that was rewritten at the origin a marker is
        forgotten and a body must be validated.
        """
        entry, target = self.index.look_up(key), key.object
        if entry is None:
            return None
        if entry.token != self.stamps.read(target).token:
            self.discard(self.index.drop(key, "invalidated"))
            return None
        if isinstance(entry, Present) and entry.must_validate:
            return entry
        asked_at = (entry.stored if isinstance(entry, Present) else entry).requested_at
        if asked_at.boot <= self.changes.last_above(target):
            self.discard(self.index.make_stale(key, "invalidated"))
            return self.index.look_up(key)
        return entry

    def drop_fallen(self, keys: Iterable[CacheKey], reason: Reason = "invalidated") -> None:
        """Drops what was stored under other stamps than the current ones."""
        removals = []
        for key in keys:
            entry = self.index.look_up(key)
            if entry is not None and entry.token != self.stamps.read(key.object).token:
                removals += self.index.drop(key, reason)
        self.discard(removals)

    def note_change(self, key: CacheKey) -> None:
        """A metadata document proved to be another than what is known beneath its directory."""
        self.changes.note(key.object, self.now().boot)
        self.observer.invalidated("metadata")

    def store_body(self, lease: Lease, present: Present) -> bool:
        """Makes a committed file the key's entry; where the lease forbids it, has the file
        removed.
        """
        current = self.stamps.read(lease.key.object)
        removals = self.index.store(lease, current, present, self.now())
        if removals is None:
            self.discard([Removal("body", "invalidated", present.body)])
            return False
        self.discard(removals)
        return all(removal.body != present.body for removal in removals)

    def remember_absence(self, lease: Lease, absent: Absent) -> bool:
        current = self.stamps.read(lease.key.object)
        removals = self.index.remember(lease, current, absent, self.now())
        if removals is None:
            return False
        self.discard(removals)
        return self.index.look_up(lease.key) is not None

    def freshen(self, lease: Lease, present: Present) -> bool:
        current = self.stamps.read(lease.key.object)
        removals = self.index.freshen(lease, current, present, self.now())
        if removals is None:
            return False
        self.discard(removals)
        return True

    def may_store(self, lease: Lease) -> bool:
        return lease.allows(self.stamps.read(lease.key.object), self.now())

    def discard(self, removals: Iterable[Removal]) -> None:
        """Counts what died and has its files unlinked."""
        bodies = []
        for removal in removals:
            self.observer.removed(removal.kind, removal.reason)
            if removal.body is not None:
                bodies.append(removal.body)
        if bodies:
            self.tasks.start(self.store.remove(bodies), "unlinking of bodies")

    # Writes and purges. Stamp first, drop after: what can't be unlinked is dead all the same.

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
            is_much = sum(index.held_of(target.location)) > BATCH
        else:
            held = (key for key in index.keys_of(target) if index.look_up(key))
            is_much = len(list(islice(held, BATCH + 1))) > BATCH
        if is_much:
            self._sweeper.sweep(target.location)
        elif whole_location:
            self.discard(index.drop_location(target.location, "invalidated"))
        else:
            self.discard(index.drop_object(target, "invalidated"))
