"""What is held at and beneath a path, page by page, for an administrator to read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from chunkside.core.entry import Absent, Selected, helds
from chunkside.core.key import CacheKey, Object
from chunkside.core.subtree import walk
from chunkside.gateway.edges import Edges

_MOST_PLACES: Final = 10_000
_BATCH: Final = 512


@dataclass(frozen=True, slots=True)
class Listed:
    """`entry`: the key's, or one of its variants."""

    key: CacheKey
    entry: Selected


@dataclass(frozen=True, slots=True)
class Page:
    """`next_place`: where the next page begins; None where there is none."""

    held: list[Listed]
    next_place: int | None


class Inventory:
    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def page(self, root: Object, place: int, limit: int) -> Page:
        """At most `limit` of what is held at and beneath `root`, from a place of the index on; more
        only where the last key has several variants.

        A page may hold less and not be the last: it looks at 10,000 places at most, in batches, so
        that it never holds the loop. What lives through all pages is on exactly one of them; what
        is stored meanwhile may be missed, or be there twice. What a GET would find to have fallen
        falls here too.
        """
        index = self._edges.index
        end = place + _MOST_PLACES
        held: list[Listed] = []
        for first in range(place, min(end, index.place_count), _BATCH):
            for at, key in walk(index, root, range(first, min(first + _BATCH, end))):
                entry = self._edges.look_up(key)
                if entry is None:
                    continue
                of_key = (entry,) if isinstance(entry, Absent) else helds(entry)
                held += [Listed(key, each) for each in of_key]
                if len(held) >= limit:
                    return Page(held, self._if_any(at + 1))
            await asyncio.sleep(0)
        return Page(held, self._if_any(end))

    def _if_any(self, place: int) -> int | None:
        return place if place < self._edges.index.place_count else None
