"""Purges: what an administrator asks to be forgotten falls as if it had been written; what he
doubts is asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

from chunkside.core.entry import Absent, helds, oldest_request
from chunkside.core.key import CacheKey, Object
from chunkside.core.listing import listings_above
from chunkside.core.subtree import is_beneath
from chunkside.gateway.edges import Edges
from chunkside.gateway.ports import Found
from chunkside.gateway.reclaiming import BATCH, batches, in_batches


@dataclass(slots=True)
class Purged:
    """`objects` were stamped; `bodies`, `ranges` and `markers` of them were held here and fell."""

    objects: int = 0
    bodies: int = 0
    ranges: int = 0
    markers: int = 0


@dataclass(frozen=True, slots=True)
class _Span:
    """Boot-clock seconds; `after` is not in it."""

    after: float
    until: float

    def __contains__(self, boot: float) -> bool:
        return self.after < boot <= self.until


@dataclass(frozen=True, slots=True)
class Softened:
    """Of what was held here `bodies` and `ranges` must be validated, and `markers` fell."""

    bodies: int
    ranges: int
    markers: int


class Purging:
    """Purges reach every process on the directory, and those to come, by the stamp table."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def object(self, target: Object) -> Purged:
        purged = Purged()
        self._note(target, "a purge")
        self._forget_above(target)
        await self._forget([target], purged)
        return purged

    async def prefix(self, location: str, path: bytes) -> Purged:
        """All objects at `path` and beneath it: `/a/b` means `/a/b` and `/a/b/…`, not `/a/bc`.

        What is asked for from now on is left alone where it can be, even if it is stored before all
        of them have been stamped. What only another process knows, such as its markers, is doubted.
        """
        edges, root, began = self._edges, Object(location, path), self._edges.now().boot
        edges.doubt(root, with_beneath=True)
        self._note(root, "a purge", with_beneath=True)
        self._forget_above(root)
        looks_on_disk = edges.store.is_shared or edges.is_scanning
        purged = Purged()
        # First what is under way: it is older than the purge, and may be stored at any moment.
        leased = {key.object for key in edges.index.leased_keys()}
        await self._forget((target for target in leased if _is_within(target, root)), purged)
        async for keys in batches(edges.index, root):
            await self._forget(self._held_before(keys, began), purged)
        if looks_on_disk:
            # Another process's, or not read yet.
            async for found in edges.store.scan():
                await self._forget(self._found_before(found, root, began), purged)
        return purged

    async def location(self, location: str) -> Purged:
        """Everything of one origin, and whatever any process holds of it."""
        edges, root = self._edges, Object(location, b"/")
        counts = edges.index.counts_of(location)
        self._note(root, "a purge", with_beneath=True)
        edges.stamp_anew(root, whole_location=True)
        async for keys in batches(edges.index, root):
            edges.drop_fallen(keys, "purged")
        fell = counts["body"], counts["range"], counts["marker"]
        return Purged(sum(fell), *fell)

    async def soften_object(self, target: Object) -> Softened:
        """Bodies of `target` are validated before their next use; markers fall."""
        edges = self._edges
        edges.doubt(target, with_beneath=False)
        self._note(target, "a soft purge")
        self._forget_above(target)
        return await self._soften(in_batches(edges.index.keys_of(target)))

    async def soften_prefix(self, location: str, path: bytes) -> Softened:
        """The same for all objects at `path` and beneath it."""
        edges, root = self._edges, Object(location, path)
        edges.doubt(root, with_beneath=True)
        self._note(root, "a soft purge", with_beneath=True)
        self._forget_above(root)
        return await self._soften(batches(edges.index, root))

    def _note(self, target: Object, cause: str, *, with_beneath: bool = False) -> None:
        edges = self._edges
        edges.shared.fallen.note(target, cause, edges.now(), with_beneath=with_beneath)

    def _forget_above(self, target: Object) -> None:
        """That nothing lies in a directory above it; of no use to be counted."""
        for listing in listings_above(target):
            self._edges.stamp_anew(listing)
            self._edges.drop_fallen(self._edges.index.keys_of(listing), "purged")

    def _held_before(self, keys: Iterable[CacheKey], began: float) -> Iterator[Object]:
        spared = self._spared(began)
        for key in keys:
            entry = self._edges.index.look_up(key)
            if entry is None:
                continue
            if oldest_request(entry).boot not in spared:
                yield key.object

    def _found_before(self, batch: list[Found], root: Object, began: float) -> Iterator[Object]:
        stamps, spared = self._edges.stamps, self._spared(began)
        for found in batch:
            target = found.stored.key.object
            is_dead = found.table_id == stamps.id and found.stamps != stamps.read(target)
            if is_dead or found.stored.requested_at.boot in spared:
                continue
            if _is_within(target, root):
                yield target

    def _spared(self, began: float) -> _Span:
        """When what is left alone was asked for. What seems to come from the future does not: the
        clock was set back since its file was written. Nor does anything where another process may
        hold something older of the same object.
        """
        return _Span(began, began if self._edges.store.is_shared else self._edges.now().boot)

    async def _forget(self, targets: Iterable[Object], purged: Purged) -> None:
        """Stamps and drops `targets`, and adds to `purged`. Between batches others have their
        turns: `targets` is read no further than to the next batch's end.
        """
        objects: set[Object] = set()
        keys: set[CacheKey] = set()
        for target in targets:
            self._edges.stamp_anew(target)
            objects.add(target)
            keys |= self._edges.index.keys_of(target)
            if max(len(objects), len(keys)) > BATCH:
                await self._drop(keys, purged)
                purged.objects += len(objects)
                objects, keys = set(), set()
                await asyncio.sleep(0)
        await self._drop(keys, purged)
        purged.objects += len(objects)

    async def _drop(self, keys: Iterable[CacheKey], purged: Purged) -> None:
        async for batch in in_batches(keys):
            self._drop_batch(batch, purged)

    def _drop_batch(self, keys: Iterable[CacheKey], purged: Purged) -> None:
        tallies = self._edges.index.tallies
        held = {kind: tally.count for kind, tally in tallies.items()}
        self._edges.drop_fallen(keys, "purged")
        fell = {kind: held[kind] - tally.count for kind, tally in tallies.items()}
        purged.bodies += fell["body"]
        purged.ranges += fell["range"]
        purged.markers += fell["marker"]

    async def _soften(self, batches_of_keys: AsyncIterator[list[CacheKey]]) -> Softened:
        edges, index = self._edges, self._edges.index
        bodies = ranges = markers = 0
        async for keys in batches_of_keys:
            # What a write fell on is not there to be doubted.
            edges.drop_fallen(keys)
            for key in keys:
                entry = index.look_up(key)
                files = [body for held in helds(entry) for body in held.bodies]
                bodies += sum(body.part is None for body in files)
                ranges += sum(body.part is not None for body in files)
                markers += isinstance(entry, Absent)
                edges.discard(index.make_stale(key, "purged"))
        return Softened(bodies, ranges, markers)


def _is_within(target: Object, root: Object) -> bool:
    return target.location == root.location and is_beneath(target.path, root.path)
