"""What a scrape reads of the sidecar's state: books that are kept anyway, and nothing is walked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chunkside.cache import Cache
from chunkside.core.index import Index
from chunkside.metrics import CredentialReading, GaugeReading
from chunkside.routing import CurrentRoutes
from chunkside.store.body_store import DiskBodyStore
from chunkside.store.filesystem import measure
from chunkside.store.memory import MemoryBodyStore
from chunkside.store.stamps import FileStampTable


@dataclass(frozen=True, slots=True)
class Gauges:
    index: Index
    store: DiskBodyStore | MemoryBodyStore
    routes: CurrentRoutes
    cache: Cache

    @property
    def directory(self) -> Path | None:
        """Of the cache; None where bodies are in memory."""
        return None if self.cache.chosen is None else self.cache.chosen.directory

    def read(self) -> GaugeReading:
        tallies, usage, store = self.index.tallies, self.disk_usage(), self.store
        routes, table = self.routes.under_way, self.cache.table
        return GaugeReading(
            index_entries={kind: tally.count for kind, tally in tallies.items()},
            index_memory_bytes={kind: tally.memory for kind, tally in tallies.items()},
            index_memory_limit_bytes=self.index.limits.memory_bytes,
            stored_bytes={kind: tally.charge for kind, tally in tallies.items()},
            stored_limit_bytes=self.index.limits.budget_bytes,
            disk_free_bytes=None if self.directory is None else measure(self.directory).free_bytes,
            mapped_bytes=store.mapped_bytes if isinstance(store, DiskBodyStore) else 0,
            lingering_bytes=usage["lingering_bytes"] or 0,
            directory_bytes=usage["directory_bytes"],
            degraded={
                "directory": self.cache.is_degraded,
                "stamps": isinstance(table, FileStampTable) and table.left_directory,
            },
            fills_in_flight=sum(each.gateway.fills.in_flight for each in routes),
            fill_waiters=sum(each.gateway.fills.waiters for each in routes),
            partitions=self.index.partition_count,
            credentials={
                each.configured.prefix: CredentialReading(
                    each.credential.loaded_at, each.credential.expires_at
                )
                for each in self.routes.open
                if each.credential is not None
            },
        )

    def disk_usage(self) -> dict[str, int | None]:
        """What the cache takes of the disk beside what the budget counts."""
        store = self.store
        if not isinstance(store, DiskBodyStore):
            return {"lingering_bytes": 0, "directory_bytes": None}
        return {"lingering_bytes": store.lingering_bytes, "directory_bytes": store.directory_bytes}
