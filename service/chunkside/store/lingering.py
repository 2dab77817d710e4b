"""Bytes of files that are unlinked and still open: free once their last reader has gone."""

from __future__ import annotations

import weakref
from threading import RLock

from chunkside.core.entry import BodyRef
from chunkside.store.readers import DiskReader


class Lingering:
    def __init__(self) -> None:
        self._open: weakref.WeakValueDictionary[tuple[int, int], DiskReader] = (
            weakref.WeakValueDictionary()
        )
        # A reader may end in any thread, even in the midst of counting another.
        self._counting = RLock()
        self.bytes = 0

    def opened(self, reader: DiskReader) -> None:
        self._open[reader.body.name] = reader

    def unlinked(self, body: BodyRef) -> None:
        """Counts it once, however often that is told."""
        reader = self._open.pop(body.name, None)
        if reader is not None:
            self._add(body.charge)
            weakref.finalize(reader, self._add, -body.charge)

    def _add(self, size: int) -> None:
        with self._counting:
            self.bytes += size
