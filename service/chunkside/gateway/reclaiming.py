"""Going through all that the index holds in batches, between which others have their turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import Final

from chunkside.core.index import Index
from chunkside.core.key import CacheKey, Object
from chunkside.core.subtree import walk
from chunkside.gateway.tasks import Tasks

# The most entries that fall before others have their turn: some milliseconds. On a busy loop a
# sweep gets no more than that of each turn, so that much less would take for ever.
BATCH: Final = 256
# Looking at a place costs a twentieth of what dropping its entry does.
_MOST_PLACES: Final = 4096


async def batches(index: Index, root: Object) -> AsyncIterator[list[CacheKey]]:
    """Keys of all that is held now at and beneath `root`; before each batch others have their turn.
    What is stored meanwhile may be among them, too, or be missed.
    """
    place, end = 0, index.place_count
    while place < end:
        await asyncio.sleep(0)
        keys = []
        rest = range(place, min(place + _MOST_PLACES, end))
        place = rest.stop
        for at, key in walk(index, root, rest):
            keys.append(key)
            if len(keys) == BATCH:
                place = at + 1
                break
        yield keys


async def in_batches(keys: Iterable[CacheKey]) -> AsyncIterator[list[CacheKey]]:
    """Keys that are known already; between two batches others have their turn."""
    rest = iter(keys)
    batch = list(islice(rest, BATCH))
    while batch:
        yield batch
        batch = list(islice(rest, BATCH))
        if batch:
            await asyncio.sleep(0)


class Reclaimer:
    """Drops what the stamp of a whole origin fell on. That is dead at once for whoever looks it up;
    here only what it takes is given back.

    However many writes come while it goes round, it then goes round once more.
    """

    def __init__(
        self, index: Index, tasks: Tasks, drop_fallen: Callable[[Iterable[CacheKey]], object]
    ) -> None:
        self._index = index
        self._tasks = tasks
        self._drop_fallen = drop_fallen
        self._due: set[str] = set()
        self._is_running = False

    def reclaim(self, location: str) -> None:
        self._due.add(location)
        if not self._is_running:
            self._is_running = True
            self._tasks.start(self._run(), "giving back what has fallen")

    async def _run(self) -> None:
        try:
            while self._due:
                root = Object(self._due.pop(), b"/")
                async for keys in batches(self._index, root):
                    self._drop_fallen(keys)
        finally:
            self._is_running = False
