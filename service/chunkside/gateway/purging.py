"""Purges: what an administrator asks to be forgotten falls as if it had been written; what he
doubts is asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final

from chunkside.core.entry import Absent, Partial, Present
from chunkside.core.index import Index
from chunkside.core.key import CacheKey, Object
from chunkside.core.subtree import is_beneath, walk
from chunkside.gateway.edges import Edges

_BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class Purged:
    """`objects` were stamped; `bodies`, `ranges` and `markers` of them were held here and fell."""

    objects: int
    bodies: int
    ranges: int
    markers: int


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
        return await self._forget([target])

    async def prefix(self, location: str, path: bytes) -> Purged:
        """All objects at `path` and beneath it: `/a/b` means `/a/b` and `/a/b/…`, not `/a/bc`.

        What is found is stamped. What only another process knows, such as its markers, is doubted.
        """
        self._edges.doubt(Object(location, path), with_beneath=True)
        leased = (key.object for key in self._edges.index.leased_keys())
        found = {target for target in leased if _is_within(target, location, path)}
        async for keys in self._held(Object(location, path)):
            found.update(key.object for key in keys)
        if self._edges.store.is_shared or self._edges.is_scanning:
            found |= await self._on_disk(location, path)
        return await self._forget(found)

    async def location(self, location: str) -> Purged:
        """Everything of one origin, and whatever any process holds of it."""
        edges = self._edges
        held = _counts(edges.index)
        edges.purge(Object(location, b"/"), whole_location=True)
        fell = _since(held, edges.index)
        return Purged(sum(fell), *fell)

    def soften_object(self, target: Object) -> Softened:
        """Bodies of `target` are validated before their next use; markers fall."""
        edges = self._edges
        edges.doubt(target, with_beneath=False)
        return self._soften(edges.index.keys_of(target))

    async def soften_prefix(self, location: str, path: bytes) -> Softened:
        """The same for all objects at `path` and beneath it."""
        edges, root = self._edges, Object(location, path)
        edges.doubt(root, with_beneath=True)
        bodies = ranges = markers = 0
        async for keys in self._held(root):
            softened = self._soften(keys)
            bodies += softened.bodies
            ranges += softened.ranges
            markers += softened.markers
        return Softened(bodies, ranges, markers)

    async def _held(self, root: Object) -> AsyncIterator[list[CacheKey]]:
        """Keys of all that is held now at and beneath `root`, in batches between which others have
        their turn. What they store meanwhile may be missed.
        """
        index = self._edges.index
        for first in range(0, index.place_count, _BATCH):
            yield [key for _, key in walk(index, root, range(first, first + _BATCH))]
            await asyncio.sleep(0)

    async def _on_disk(self, location: str, path: bytes) -> set[Object]:
        """Objects whose files the index doesn't know: another process's, or not read yet."""
        found = set()
        async for batch in self._edges.store.scan():
            for body in batch:
                target = body.stored.key.object
                if _is_within(target, location, path):
                    found.add(target)
        return found

    async def _forget(self, targets: Iterable[Object]) -> Purged:
        """In batches, so that a large purge never holds the loop."""
        index = self._edges.index
        objects = bodies = ranges = markers = 0
        for number, target in enumerate(targets, start=1):
            held = _counts(index)
            self._edges.purge(target, whole_location=False)
            fell = _since(held, index)
            bodies, ranges, markers = bodies + fell[0], ranges + fell[1], markers + fell[2]
            objects = number
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        return Purged(objects, bodies, ranges, markers)

    def _soften(self, keys: Iterable[CacheKey]) -> Softened:
        index = self._edges.index
        bodies = ranges = markers = 0
        for key in keys:
            entry = index.look_up(key)
            bodies += isinstance(entry, Present)
            ranges += len(entry.bodies) if isinstance(entry, Partial) else 0
            markers += isinstance(entry, Absent)
            self._edges.discard(index.make_stale(key, "purged"))
        return Softened(bodies, ranges, markers)


def _counts(index: Index) -> tuple[int, int, int]:
    return index.bodies.count, index.ranges.count, index.markers.count


def _since(before: tuple[int, int, int], index: Index) -> tuple[int, int, int]:
    now = _counts(index)
    return before[0] - now[0], before[1] - now[1], before[2] - now[2]


def _is_within(target: Object, location: str, path: bytes) -> bool:
    return target.location == location and is_beneath(target.path, path)
