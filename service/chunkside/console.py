"""What the admin port shows of the sidecar, and does to it."""

from __future__ import annotations

import importlib.metadata
import math
import re
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import assert_never

from chunkside.core.entry import Absent, Now, Present
from chunkside.core.freshness import Policy, age, remaining
from chunkside.core.key import Object, object_path
from chunkside.core.route import Route
from chunkside.gateway.edges import Edges
from chunkside.gateway.fills import Fills
from chunkside.gateway.inventory import Held, Inventory
from chunkside.gateway.purging import Purged, Purging, Softened
from chunkside.metrics import Metrics
from chunkside.server.admin import (
    BadCursor,
    EntriesRequest,
    PurgeAll,
    PurgePrefix,
    PurgeRequest,
    PurgeTarget,
)
from chunkside.settings import Settings, UpstreamAddress

_SOFT_NOTE = (
    "Only this process knows: another one on the same directory, and this one after a restart, "
    "goes on with what it holds."
)


@dataclass(slots=True)
class SidecarConsole:
    """The admin port's Console. `cache_dir`: None where bodies are in memory. `obstacle`: why it is
    not ready, if it isn't.
    """

    settings: Settings
    upstream: UpstreamAddress
    cache_dir: Path | None
    route: Route
    edges: Edges
    fills: Fills
    metrics: Metrics
    obstacle: str | None = "starting"
    _started: Now = field(init=False)
    # Places mean nothing to another run: a cursor names its own.
    _run: str = field(init=False, default_factory=lambda: secrets.token_hex(4))

    def __post_init__(self) -> None:
        self._started = self.edges.now()

    def why_not_ready(self) -> str | None:
        return self.obstacle

    def stats(self) -> dict[str, object]:
        index = self.edges.index
        return {
            **asdict(self.metrics.summary()),
            "bodies": index.body_count,
            "markers": index.marker_count,
            "current_size": index.total_bytes,
            "max_size": index.limits.budget_bytes,
            "fills_in_flight": self.fills.in_flight,
        }

    def info(self) -> dict[str, object]:
        index, policy = self.edges.index, self.edges.policy
        return {
            # As zarr's CacheStore.cache_info() has them.
            "cache_store_type": type(self.edges.store).__name__,
            "max_age_seconds": _seconds(policy.ttl),
            "max_size": index.limits.budget_bytes,
            "current_size": index.total_bytes,
            # A write is not cached, it invalidates.
            "cache_set_data": False,
            "cache_missing": policy.cache_missing,
            "tracked_keys": index.body_count + index.marker_count,
            "cached_keys": index.body_count,
            "missing_keys": index.marker_count,
            # What it has not.
            "ttl": _seconds(policy.ttl),
            "negative_ttl": _seconds(policy.negative_ttl),
            "metadata_ttl": _seconds(policy.metadata_ttl),
            "upstream": str(self.upstream),
            "cache_dir": None if self.cache_dir is None else str(self.cache_dir),
            "version": importlib.metadata.version("chunkside"),
            "uptime_seconds": self.edges.now().boot - self._started.boot,
        }

    async def entries(self, request: EntriesRequest) -> dict[str, object]:
        root = Object(self.route.location, self._path(request.prefix))
        place = 0 if request.after is None else self._place(request.after)
        page = await Inventory(self.edges).page(root, place, request.limit)
        now, policy = self.edges.now(), self.edges.policy
        return {
            "entries": [
                _members(held, target, now, policy)
                for held in page.held
                if (target := self.route.data_port_target(held.key.target)) is not None
            ],
            "next": None if page.next_place is None else f"{self._run}-{page.next_place:x}",
        }

    def _place(self, cursor: str) -> int:
        found = re.fullmatch(r"([0-9a-f]{8})-([0-9a-f]{1,8})", cursor)
        if found is None or found[1] != self._run:
            raise BadCursor(cursor)
        return int(found[2], 16)

    async def purge(self, request: PurgeRequest) -> dict[str, object]:
        if request.is_soft:
            return {**asdict(await self._soften(request)), "note": _SOFT_NOTE}
        report: dict[str, object] = asdict(await self._purge(request))
        if isinstance(request, PurgePrefix) and self.edges.store.is_shared:
            report["note"] = (
                "Other processes share this directory: absences that only they remember under the "
                f"prefix live up to negative_ttl ({self.settings.negative_ttl:g} s) longer."
            )
        return report

    async def _purge(self, request: PurgeRequest) -> Purged:
        purging, location = Purging(self.edges), self.route.location
        match request:
            case PurgeTarget(target):
                return await purging.object(Object(location, self._path(target)))
            case PurgePrefix(prefix):
                return await purging.prefix(location, self._path(prefix))
            case PurgeAll():
                return await purging.location(location)
            case _:
                assert_never(request)

    async def _soften(self, request: PurgeRequest) -> Softened:
        purging, location = Purging(self.edges), self.route.location
        match request:
            case PurgeTarget(target):
                return await purging.soften_object(Object(location, self._path(target)))
            case PurgePrefix(prefix):
                return await purging.soften_prefix(location, self._path(prefix))
            case PurgeAll():
                return await purging.soften_prefix(location, b"/")
            case _:
                assert_never(request)

    def _path(self, data_port_target: bytes) -> bytes:
        return object_path(self.route.origin_path(data_port_target))


def _members(held: Held, target: bytes, now: Now, policy: Policy) -> dict[str, object]:
    """`bytes`: of the body. `ttl`: negative by how long it has been stale."""
    partition = held.key.namespace.partition
    members: dict[str, object] = {"target": target.decode(errors="backslashreplace")}
    match held.entry:
        case Present(stored, body, _, must_validate):
            elapsed = age(stored.requested_at, now, stored.initial_age)
            left = remaining(stored, now, policy)
            members |= {"kind": "body", "status": stored.status, "bytes": body.length}
        case Absent(status, requested_at, lifetime):
            must_validate = False
            elapsed = age(requested_at, now)
            left = lifetime - elapsed
            members |= {"kind": "marker", "status": status, "bytes": 0}
        case _:
            assert_never(held.entry)
    return members | {
        "age": _seconds(elapsed),
        "ttl": _seconds(left),
        "must_validate": must_validate,
        "partition": partition[:8].decode() or None,
    }


def _seconds(value: float) -> float | str:
    """JSON has no infinity: a word, as cache_info() has it."""
    if math.isfinite(value):
        return value
    return "infinity" if value > 0 else "-infinity"
