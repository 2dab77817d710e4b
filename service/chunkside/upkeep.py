"""What a running sidecar looks after, and says in its log: a failing disk, a lost stamp table."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any, Final

from chunkside.metrics import Metrics
from chunkside.store.body_store import DiskBodyStore
from chunkside.store.stamps import FileStampTable

log = logging.getLogger(__name__)

_EVERY_SECONDS: Final = 5.0
_YOUNG_SECONDS: Final = 0.05
_NEW_OBJECTS: Final = 20_000


class TellingMetrics(Metrics):
    """Counts, and says once when the store begins to fail and when it works again."""

    _store_fails = False

    def store_failed(self, operation: str, cause: str) -> None:
        super().store_failed(operation, cause)
        if not self._store_fails:
            self._store_fails = True
            log.warning(
                "the cache directory fails (%s: %s): reads go on, bodies may not be stored",
                operation,
                cause,
            )

    def fill_ended(self, outcome: str) -> None:
        super().fill_ended(outcome)
        if outcome == "stored" and self._store_fails:
            self._store_fails = False
            log.warning("the cache directory works again")


async def tidy(store: DiskBodyStore, scan: asyncio.Task[None]) -> None:
    """Once the directory has been read: removes what older versions left in it."""
    await asyncio.wait([scan])
    if count := await store.drop_old_formats():
        log.info("files of an older version removed from the cache directory: %d", count)


def collect_less_often() -> None:
    """Has the garbage collector look after so many new objects, for it finds next to nothing: by
    its own figures it took an eighth of the time that a small fill takes.
    """
    gc.set_threshold(_NEW_OBJECTS)


async def spare_from_collection(scan: asyncio.Task[Any]) -> None:
    """Keeps the garbage collector away from what the scan takes in: a look at all of a hundred
    thousand entries holds the loop for half a second, again and again as they grow in number.

    What is young is collected all the same. Entries are no part of cycles: they are freed like
    everything else when they fall.
    """
    gc.disable()
    try:
        while not scan.done():
            await asyncio.wait([scan], timeout=_YOUNG_SECONDS)
            gc.collect(1)
        gc.freeze()
    finally:
        gc.enable()


class TableUpkeep:
    """Brings a process back to its directory's table of stamps."""

    def __init__(self, table: FileStampTable) -> None:
        self._table = table
        self._is_lost = False

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            self.look()

    def look(self) -> None:
        """Mends the table where it must be. Blocks for as long as the disk takes to make one."""
        table = self._table
        if not table.left_directory and not table.is_displaced():
            return
        if table.repair():
            self._is_lost = False
            log.warning("stamps are written to the cache directory again")
        elif not self._is_lost:
            self._is_lost = True
            log.error(
                "stamps can't be written to the cache directory: what a write or a purge made "
                "stale is not served by this process, but may be after a restart, and by others "
                "that share the directory. Mend the disk, or remove v1 from the directory"
            )
