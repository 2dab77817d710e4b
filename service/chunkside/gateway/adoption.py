"""Taking in what lies on disk and the index doesn't know: after a restart, or from another
process.
"""

from __future__ import annotations

from dataclasses import replace

from chunkside.core.budget import removal_of
from chunkside.core.entry import Now, Part, Stored
from chunkside.core.key import CacheKey
from chunkside.gateway.edges import Edges
from chunkside.gateway.ports import Found, as_held


class Adoption:
    """Until the directory has been read whole, and while others write to it, a miss looks at its
    path.
    """

    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def look(self, key: CacheKey, part: Part | None) -> None:
        """Takes in the body that the index missed, else the range."""
        store = self._edges.store
        if not self._edges.is_scanning and not store.is_shared:
            return
        found = await store.find(key)
        if found is None and part is not None:
            found = await store.find(key, part)
        if found is not None:
            self.adopt(found)

    async def scan(self) -> None:
        """Takes in everything, batch by batch; answers go on meanwhile."""
        try:
            async for batch in self._edges.store.scan():
                for found in batch:
                    self.adopt(found)
        finally:
            self._edges.is_scanning = False

    def adopt(self, found: Found) -> None:
        """Makes what was found the key's entry, or joins it to that, where the stamps allow it; a
        dead file is removed.

        A body stored under another table may have been written over unseen: it is validated before
        its first use, or dropped if it can't be.
        """
        edges = self._edges
        current = edges.stamps.read(found.stored.key.object)
        is_vouched_for = found.table_id == edges.stamps.id
        is_dead = (
            found.stamps != current if is_vouched_for else not found.stored.has_validator
        )  # fmt: skip
        if is_dead:
            edges.discard([removal_of(found.body, "invalidated")])
            return
        stored = found.stored if is_vouched_for else self._by_this_boot(found.stored)
        held = as_held(stored, found.body, current.token, must_validate=not is_vouched_for)
        # What a write fell on is in nobody's way.
        edges.drop_fallen([found.stored.key])
        edges.discard(edges.index.adopt(held) or [])

    def _by_this_boot(self, stored: Stored) -> Stored:
        """With the time of its request told from the wall clock alone."""
        now, wall = self._edges.now(), stored.requested_at.wall
        return replace(stored, requested_at=Now(now.boot - (now.wall - wall), wall))
