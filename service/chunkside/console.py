"""What the admin port shows of the sidecar, and does to it."""

from __future__ import annotations

import importlib.metadata
import math
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, assert_never

from chunkside.chunk_map import map_of
from chunkside.core.decision import Refuse
from chunkside.core.entry import Absent, Now, Partial, Present, Selected
from chunkside.core.freshness import Policy, absence_under, age, remaining
from chunkside.core.key import Object
from chunkside.core.route import Route
from chunkside.core.routes import Branch, Routes, whole, without_covered
from chunkside.gateway.edges import Edges
from chunkside.gateway.inventory import Inventory, Listed
from chunkside.gateway.purging import Purged, Purging, Softened
from chunkside.held_file import held_file
from chunkside.metrics import Metrics
from chunkside.metrics.reading import Reading
from chunkside.metrics.recent import Recent
from chunkside.routing import OpenRoute
from chunkside.server.admin import BadCursor, NoSuchRoute
from chunkside.server.admin_requests import (
    EntriesRequest,
    PurgeAll,
    PurgePrefix,
    PurgeRequest,
    PurgeRoute,
    PurgeTarget,
)
from chunkside.server.map_page import ChunkMap, MapRequest
from chunkside.server.stored_file import FileRequest, HeldFile
from chunkside.server.why_page import WhyRequest
from chunkside.settings import (
    RouteSettings,
    Settings,
    UpstreamAddress,
    auth_kind,
    client_credentials_of,
    may_sign,
)
from chunkside.status import status_of
from chunkside.verify import verify
from chunkside.why import explain

_CURSOR: Final = re.compile(r"([0-9a-f]{8})-([0-9a-f]{1,4})-([0-9a-f]{1,8})")


# What a purge means of one route's origin, beside a Branch: one object, or all of its location.


@dataclass(frozen=True, slots=True)
class _One:
    route: Route
    object: Object


@dataclass(frozen=True, slots=True)
class _Location:
    route: Route


_Scope = _One | Branch | _Location


@dataclass(slots=True)
class SidecarConsole:
    """The admin port's Console. `cache_dir`: None where bodies are in memory. `usage`: what the
    cache takes of the disk beside what the budget counts, by names for `/info`. `recent`: the last
    minutes. `obstacle`: why it is not ready, if it isn't.
    """

    settings: Settings
    cache_dir: Path | None
    open_routes: Sequence[OpenRoute]
    metrics: Metrics
    usage: Callable[[], Mapping[str, int | None]] = dict
    recent: Recent = field(default_factory=Recent)
    obstacle: str | None = "starting"
    _routes: Routes = field(init=False)
    _started: Now = field(init=False)
    # Places mean nothing to another run: a cursor names its own.
    _run: str = field(init=False)

    def __post_init__(self) -> None:
        self._started = self._any_edges.now()
        self.take(self.settings, self.open_routes)

    def take(self, settings: Settings, open_routes: Sequence[OpenRoute]) -> None:
        """Shows these from now on. Cursors number what there was before."""
        self.settings, self.open_routes = settings, open_routes
        self._routes = Routes(each.route for each in open_routes)
        self._run = secrets.token_hex(4)

    @property
    def _any_edges(self) -> Edges:
        """One route's, for what all of them share."""
        return self.open_routes[0].edges

    def _edges(self, route: Route) -> Edges:
        """Another's where the route is gone by now: of this one nothing is needed but the place."""
        found = (each.edges for each in self.open_routes if each.route is route)
        return next(found, self._any_edges)

    def why_not_ready(self) -> str | None:
        return self.obstacle

    def stats(self) -> dict[str, object]:
        index = self._any_edges.index
        return {
            **asdict(self.metrics.summary()),
            "bodies": index.bodies.count,
            "ranges": index.ranges.count,
            "markers": index.markers.count,
            "current_size": index.total_bytes,
            "max_size": index.limits.budget_bytes,
            "fills_in_flight": sum(each.gateway.fills.in_flight for each in self.open_routes),
        }

    def info(self) -> dict[str, object]:
        """Where there are several routes, the lifetimes beside them are those of a route that has
        none of its own.
        """
        edges, settings = self._any_edges, self.settings
        index, upstream = edges.index, settings.upstream
        return {
            # As zarr's CacheStore.cache_info() has them.
            "cache_store_type": type(edges.store).__name__,
            "max_age_seconds": _seconds(settings.ttl),
            "max_size": index.limits.budget_bytes,
            "current_size": index.total_bytes,
            # A write is not cached, it invalidates.
            "cache_set_data": False,
            "cache_missing": settings.cache_missing,
            "tracked_keys": index.key_count,
            "cached_keys": index.key_count - index.markers.count,
            "missing_keys": index.markers.count,
            # What it has not.
            "ttl": _seconds(settings.ttl),
            "negative_ttl": _seconds(settings.negative_ttl),
            "metadata_ttl": _seconds(settings.metadata_ttl),
            "upstream": None if upstream is None else str(upstream),
            "routes": [_route_members(each) for each in self.open_routes],
            "cache_dir": None if self.cache_dir is None else str(self.cache_dir),
            **self.usage(),
            "version": importlib.metadata.version("chunkside"),
            "config_loaded_at": _told_time(self.metrics.last_reload.succeeded_at),
            "config_last_reload_successful": self.metrics.last_reload.is_successful,
            "uptime_seconds": edges.now().boot - self._started.boot,
        }

    def status(self) -> dict[str, object]:
        """Also what `/info` shows, under `configuration`."""
        reading = Reading(self.metrics.collect())
        return status_of(
            reading,
            self.recent,
            self.info(),
            self.obstacle,
            is_scanning=self._any_edges.is_scanning,
        )

    # What is held.

    async def entries(self, request: EntriesRequest) -> dict[str, object]:
        """What several routes lead to is told under each, by the target that it has there."""
        branches = self._branches(request.prefix)
        number, place = (0, 0) if request.after is None else self._place(request.after)
        shown: list[dict[str, object]] = []
        while number < len(branches) and len(shown) < request.limit:
            branch = branches[number]
            root = Object(branch.route.location, branch.path)
            inventory = Inventory(self._edges(branch.route))
            page = await inventory.page(root, place, request.limit - len(shown))
            shown += self._shown(branch.route, page.held)
            if page.next_place is not None:
                place = page.next_place
                break
            number, place = number + 1, 0
        is_end = number >= len(branches)
        return {
            "entries": shown,
            "next": None if is_end else f"{self._run}-{number:x}-{place:x}",
        }

    def _place(self, cursor: str) -> tuple[int, int]:
        """The number of a branch, and a place of the index."""
        found = _CURSOR.fullmatch(cursor)
        if found is None or found[1] != self._run:
            raise BadCursor(cursor)
        return int(found[2], 16), int(found[3], 16)

    def _shown(self, route: Route, page: Iterable[Listed]) -> list[dict[str, object]]:
        edges, shown = self._edges(route), []
        now, policy = edges.now(), edges.policy
        for held in page:
            if held.key.namespace.identity != route.identity:
                continue
            target = route.data_port_target(held.key.target)
            # Another route may be the one that takes what this one would call by that target.
            if target is None or self._routes.choose(target) is not route:
                continue
            entry: Selected | None = held.entry
            if isinstance(entry, Absent):
                key_class = route.classify(held.key.target)
                entry = absence_under(entry, key_class, policy)
            if entry is not None:
                members = _members(Listed(held.key, entry), target, now, policy)
                shown.append({"route": route.name, **members})
        return shown

    async def file(self, request: FileRequest) -> HeldFile | Refuse:
        route = self._routes.choose(request.target)
        if isinstance(route, Refuse):
            return route
        return await held_file(next(e for e in self.open_routes if e.route is route), request)

    async def why(self, request: WhyRequest) -> dict[str, object] | Refuse:
        route = self._routes.choose(request.target)
        if isinstance(route, Refuse):
            return route
        return await explain(next(e for e in self.open_routes if e.route is route), request)

    async def map(self, request: MapRequest) -> ChunkMap | Refuse:
        route = self._routes.choose(request.target or b"/")
        if isinstance(route, Refuse):
            return route
        return await map_of(next(e for e in self.open_routes if e.route is route), request)

    async def verify(self, request: WhyRequest) -> dict[str, object] | Refuse:
        route = self._routes.choose(request.target)
        if isinstance(route, Refuse):
            return route
        return await verify(next(e for e in self.open_routes if e.route is route), request)

    # Purges.

    async def purge(self, request: PurgeRequest) -> dict[str, object]:
        scopes = self._scopes(request)
        for scope in scopes:
            self._edges(scope.route).observer.invalidated("purge")
        if request.is_soft:
            return _sum([await self._soften(scope) for scope in scopes])
        return _sum([await self._forget(scope) for scope in scopes])

    def _scopes(self, request: PurgeRequest) -> Sequence[_Scope]:
        match request:
            case PurgeTarget(target):
                route = self._choose(target)
                return [_One(route, route.object_of(target))]
            case PurgePrefix(prefix):
                return without_covered(self._branches(prefix))
            case PurgeRoute(name):
                named = self._routes.named(name)
                if named is None:
                    raise NoSuchRoute(f"No route is called so. There are: {self._routes.shown}.")
                is_all = self._routes.is_all_of_its_location(named)
                return [_Location(named) if is_all else whole(named)]
            case PurgeAll():
                return [_Location(route) for route in self._routes.one_of_each_location()]
            case _:
                assert_never(request)

    async def _forget(self, scope: _Scope) -> Purged:
        purging, location = Purging(self._edges(scope.route)), scope.route.location
        match scope:
            case _One(_, target):
                return await purging.object(target)
            case Branch(_, path):
                return await purging.prefix(location, path)
            case _Location():
                return await purging.location(location)
            case _:
                assert_never(scope)

    async def _soften(self, scope: _Scope) -> Softened:
        purging, location = Purging(self._edges(scope.route)), scope.route.location
        match scope:
            case _One(_, target):
                return await purging.soften_object(target)
            case Branch(_, path):
                return await purging.soften_prefix(location, path)
            case _Location():
                return await purging.soften_prefix(location, b"/")
            case _:
                assert_never(scope)

    # Routes.

    def _choose(self, target: bytes) -> Route:
        route = self._routes.choose(target)
        if isinstance(route, Refuse):
            raise NoSuchRoute(route.detail)
        return route

    def _branches(self, prefix: bytes) -> list[Branch]:
        """At least one."""
        branches = self._routes.branches(prefix)
        if not branches:
            raise NoSuchRoute(f"No route is there. There are: {self._routes.shown}.")
        return branches


def _sum(reports: Iterable[Purged | Softened]) -> dict[str, object]:
    total: Counter[str] = Counter()
    for report in reports:
        total.update(asdict(report))
    return dict(total)


def _route_members(each: OpenRoute) -> dict[str, object]:
    """A route and its settings, `auto` resolved."""
    configured, policy = each.configured, each.edges.policy
    told = {name: _plain(getattr(configured.settings, name)) for name in RouteSettings.model_fields}
    return {
        "prefix": configured.prefix,
        "upstream": str(configured.upstream),
        **told,
        "max_body_size": policy.max_body_bytes,
        "negative_scope": policy.negative_scope,
        "allow_writes": policy.allow_writes,
        "client_credentials": client_credentials_of(configured),
        "upstream_cache_control": "obey" if policy.obeys_origin else "ignore",
        # Of a store, what its own chain of credentials finds may change.
        "upstream_auth": auth_kind(configured.settings)
        or (configured.settings.upstream_auth if may_sign(configured) else "none"),
    }


def _plain(value: object) -> object:
    """A setting's value as JSON has it."""
    match value:
        case float():
            return _seconds(value)
        case tuple():
            return [each if isinstance(each, int) else str(each) for each in value]
        case frozenset():
            return sorted(value)
        case Path():
            # Where secrets lie is nobody's business who may look at a page.
            return "set"
        case UpstreamAddress():
            return str(value)
        case _:
            return value


def _members(held: Listed, target: bytes, now: Now, policy: Policy) -> dict[str, object]:
    """`bytes`: of the body. `ttl`: negative by how long it has been stale."""
    partition = held.key.namespace.partition
    members: dict[str, object] = {"target": target.decode(errors="backslashreplace")}
    match held.entry:
        case Present(stored, body, _, must_validate):
            elapsed = age(stored.requested_at, now, stored.initial_age)
            left = remaining(stored, now, policy)
            variant = stored.variant
            members |= {"kind": "body", "status": stored.status, "bytes": body.length}
        case Partial(stored, bodies, _, must_validate):
            elapsed = age(stored.requested_at, now, stored.initial_age)
            left = remaining(stored, now, policy)
            size, variant = sum(body.length for body in bodies), stored.variant
            members |= {"kind": "range", "status": 206, "bytes": size, "ranges": len(bodies)}
        case Absent(status, requested_at, lifetime):
            must_validate, variant = False, b""
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
        "variant": variant.hex()[:8] or None,
    }


def _told_time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _seconds(value: float) -> float | str:
    """JSON has no infinity: a word, as cache_info() has it."""
    if math.isfinite(value):
        return value
    return "infinity" if value > 0 else "-infinity"
