"""Purges: what an administrator asks to be forgotten falls as if it had been written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from chunkside.core.key import CacheKey, Object
from chunkside.gateway.edges import Edges

_BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class Purged:
    """`objects` were stamped; `bodies` and `markers` of them were held here and fell."""

    objects: int
    bodies: int
    markers: int


class Purging:
    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def object(self, target: Object) -> Purged:
        return await self._forget([target])

    async def prefix(self, location: str, path: bytes) -> Purged:
        """All objects at `path` and beneath it: `/a/b` means `/a/b` and `/a/b/…`, not `/a/bc`."""
        found = {
            key.object
            for key in self._known_keys()
            if key.namespace.location == location and _is_beneath(key.object.path, path)
        }
        if self._edges.store.is_shared or self._edges.is_scanning:
            found |= await self._on_disk(location, path)
        return await self._forget(found)

    async def location(self, location: str) -> Purged:
        """Everything of one origin, and whatever any process holds of it."""
        edges = self._edges
        held = (edges.index.body_count, edges.index.marker_count)
        edges.purge(Object(location, b"/"), whole_location=True)
        fell = (held[0] - edges.index.body_count, held[1] - edges.index.marker_count)
        return Purged(sum(fell), *fell)

    def _known_keys(self) -> Iterator[CacheKey]:
        yield from self._edges.index.keys()
        yield from self._edges.index.leased_keys()

    async def _on_disk(self, location: str, path: bytes) -> set[Object]:
        """Objects whose files the index doesn't know: another process's, or not read yet."""
        found = set()
        async for batch in self._edges.store.scan():
            for body in batch:
                target = body.stored.key.object
                if target.location == location and _is_beneath(target.path, path):
                    found.add(target)
        return found

    async def _forget(self, targets: Iterable[Object]) -> Purged:
        """In batches, so that a large purge never holds the loop."""
        index = self._edges.index
        objects = bodies = markers = 0
        for number, target in enumerate(targets, start=1):
            held = index.body_count, index.marker_count
            self._edges.purge(target, whole_location=False)
            bodies += held[0] - index.body_count
            markers += held[1] - index.marker_count
            objects = number
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        return Purged(objects, bodies, markers)


def _is_beneath(path: bytes, prefix: bytes) -> bool:
    return path == prefix or path.startswith(prefix.rstrip(b"/") + b"/")
