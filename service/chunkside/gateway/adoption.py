"""Taking in what lies on disk and the index doesn't know: after a restart, or from another
process.
"""

from __future__ import annotations

from chunkside.core.budget import Removal
from chunkside.core.entry import Present
from chunkside.core.key import CacheKey
from chunkside.gateway.edges import Edges
from chunkside.gateway.ports import Found


class Adoption:
    """Until the directory has been read whole, and while others write to it, a miss looks at its
    path.
    """

    def __init__(self, edges: Edges) -> None:
        self._edges = edges

    async def look(self, key: CacheKey) -> Present | None:
        """The entry of a body that the index missed; None where there is none that may be used."""
        store = self._edges.store
        if not self._edges.is_scanning and not store.is_shared:
            return None
        found = await store.find(key)
        return None if found is None else self.adopt(found)

    async def scan(self) -> None:
        """Takes in everything, batch by batch; answers go on meanwhile."""
        try:
            async for batch in self._edges.store.scan():
                for found in batch:
                    self.adopt(found)
        finally:
            self._edges.is_scanning = False

    def adopt(self, found: Found) -> Present | None:
        """Makes a found body the key's entry where the stamps allow it; a dead one is removed.

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
            edges.discard([Removal("body", "invalidated", found.body)])
            return None
        present = Present(found.stored, found.body, current.token, must_validate=not is_vouched_for)
        # What a write fell on is in nobody's way.
        edges.drop_fallen([found.stored.key])
        removals = edges.index.adopt(present)
        if removals is None:
            return None
        edges.discard(removals)
        is_held = all(removal.body != present.body for removal in removals)
        return present if is_held else None
