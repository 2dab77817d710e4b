"""Makes room on the disk: what nobody has used for too long goes, and the oldest where the budget
or the volume's floor is exceeded, by whatever process. One process of a directory sweeps at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, assert_never

from chunkside.core.ages import Ages, Plan
from chunkside.core.budget import Reason, removal_of
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import StoreFault
from chunkside.gateway.ports import FileSeen, SweepableStore

_EVERY_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 1.0
# Under pressure a sweep follows a sweep no sooner than after some times as long as that took, and
# one that failed after the longest.
_LEAST_PAUSE_SECONDS: Final = 0.2
_MOST_PAUSE_SECONDS: Final = 5.0
_PAUSES: Final = 10.0
_LEAST_WRITTEN_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Swept:
    """Of `files` that were looked at, `total_bytes` in all, so many bytes were removed."""

    files: int
    total_bytes: int
    freed_bytes: int


class Sweeper:
    """`on_swept` hears how many seconds each sweep took."""

    def __init__(
        self,
        edges: Edges,
        store: SweepableStore,
        retention_seconds: float,
        on_swept: Callable[[float], None],
    ) -> None:
        self._edges = edges
        self._store = store
        self.retention_seconds = retention_seconds
        self._on_swept = on_swept
        self._swept_at = 0.0
        self._pause_seconds = _LEAST_PAUSE_SECONDS
        self._committed_bytes = 0

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.sweep()
            await self._until_due()

    async def _until_due(self) -> None:
        edges = self._edges
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await edges.shared.is_pressed.wait()
            self._store.let_go_of_unlinked()
            waited = edges.now().boot - self._swept_at
            if edges.shared.is_pressed.is_set() and waited < self._pause_seconds:
                await asyncio.sleep(self._pause_seconds - waited)
            if self.is_due():
                return

    def is_due(self) -> bool:
        """Whether the last sweep was long ago, much was written since, or room is wanted."""
        edges, budget = self._edges, self._edges.index.limits.budget_bytes
        enough = budget // 16
        if not self._store.holds_unknown_files:
            enough = max(enough, _LEAST_WRITTEN_BYTES)
        return (
            edges.shared.is_pressed.is_set()
            or edges.now().boot - self._swept_at >= _EVERY_SECONDS
            or self._store.committed_bytes - self._committed_bytes >= enough
        )

    async def sweep(self) -> Swept | None:
        """None where another process sweeps, or the disk can't be read."""
        edges, store = self._edges, self._store
        edges.shared.is_pressed.clear()
        self._swept_at, self._committed_bytes = edges.now().boot, store.committed_bytes
        try:
            if not await store.begin_sweep():
                return None
            try:
                swept = await self._sweep()
            finally:
                store.end_sweep()
        except StoreFault as fault:
            self._pause_seconds = _MOST_PAUSE_SECONDS
            edges.observer.store_failed(fault.operation, fault.cause)
            return None
        took_seconds = edges.now().boot - self._swept_at
        self._pause_seconds = min(
            max(_LEAST_PAUSE_SECONDS, _PAUSES * took_seconds), _MOST_PAUSE_SECONDS
        )
        self._on_swept(took_seconds)
        return swept

    async def _sweep(self) -> Swept:
        edges, store = self._edges, self._store
        ages = await self._count()
        over_budget = ages.total_bytes - self._target_bytes()
        wanted, edges.shared.wanted_bytes = edges.shared.wanted_bytes, 0
        short = store.missing_bytes(wanted) - store.lingering_bytes
        if short > 0 or store.lacks_inodes:
            # Some more, so that the next body doesn't need a sweep of its own.
            short = max(short, ages.total_bytes // 16)
        plan = ages.plan(self.retention_seconds, max(over_budget, short))
        reason: Reason = "budget" if over_budget >= short else "free_space"
        before = store.removed_bytes
        if plan.takes_any(ages):
            async for files in store.survey():
                await self._take(files, ages, plan, reason)
            await store.measure()
            # What could not be unlinked is still there.
            await self._count()
        return Swept(ages.files, ages.total_bytes, store.removed_bytes - before)

    async def _count(self) -> Ages:
        """How all files lie over time; other processes are told what they take."""
        store, ages = self._store, Ages(self._edges.now().wall)
        store.begin_count()
        async for files in store.survey():
            for file in files:
                ages.add(file.used_at, file.charge)
        store.end_count(ages.total_bytes)
        return ages

    def _target_bytes(self) -> int:
        """What all files together may take. Where there are others than this process's own, a
        quarter of the budget is left free, to be filled before the next sweep.
        """
        index = self._edges.index
        budget = index.limits.budget_bytes
        if self._store.holds_unknown_files:
            return budget - budget // 4 - self._store.set_aside_bytes
        return budget - index.reserved_bytes

    async def _take(
        self, files: Iterable[FileSeen], ages: Ages, plan: Plan, reason: Reason
    ) -> None:
        verdicts: dict[str, Reason] = {}
        for file in files:
            verdict = plan.judge(ages.as_used(file.used_at), file.charge)
            match verdict:
                case "expired":
                    verdicts[file.path] = "retention"
                case "oldest":
                    verdicts[file.path] = reason
                case "keep":
                    continue
                case _:
                    assert_never(verdict)
        if not verdicts:
            return
        edges = self._edges
        for path, body in await self._store.identify(list(verdicts)):
            removals = edges.index.drop_file(body, verdicts[path])
            # What this process doesn't hold is another's, or was not read yet.
            await edges.remove(removals or [removal_of(body, verdicts[path])])
