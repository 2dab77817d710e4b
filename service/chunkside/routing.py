"""The routes of a running sidecar: what each one has of its own, built from its settings, and which
of them hold.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Final

from chunkside.core.buckets import spelled_plainly
from chunkside.core.cors import Pages
from chunkside.core.freshness import SAYS_NOTHING, Policy, Said
from chunkside.core.index import Index
from chunkside.core.route import Route
from chunkside.gateway.edges import Edges, Shared
from chunkside.gateway.gateway import Gateway
from chunkside.gateway.ports import BodyStore, Clock, Observer, StampTable, Upstream
from chunkside.gateway.tasks import Tasks
from chunkside.metrics import Metrics
from chunkside.settings import (
    BucketAddress,
    ConfiguredRoute,
    DirectoryAddress,
    RouteSettings,
    allows_writes,
    client_credentials_of,
    differing,
    identity_of,
    is_azure,
    may_sign,
    obeys_origin,
    other_answers,
    resolve_max_body,
    resolve_negative_scope,
    same_way,
)
from chunkside.upstream.absences import NO_SUCH_KEY
from chunkside.upstream.credential import Credential
from chunkside.upstream.hops import Means
from chunkside.upstream.search import NotYet, Search
from chunkside.upstream.watched import UnfitFile
from chunkside.ways import credential_names, means_of, upstream_of

log = logging.getLogger(__name__)

# What sets the date of an object itself, and never takes one from whoever puts it there.
_OBJECT_STORES: Final = frozenset({"s3", "gs", "az"})
# It goes before Range.
_OWN_RANGE: Final = b"x-ms-range"
_XML: Final = (b"Content-Type", b"application/xml")
_NO_SUCH_KEY: Final = Said((_XML,), NO_SUCH_KEY)
# Azure's own client fails where there is no message.
_BLOB_NOT_FOUND: Final = Said(
    (_XML, (b"x-ms-error-code", b"BlobNotFound")),
    b"<Error><Code>BlobNotFound</Code><Message>The blob does not exist.</Message></Error>",
)


@dataclass(frozen=True, slots=True)
class OpenRoute:
    """`configured` holds all settings of the route. `close` lets go of its connections.
    `credential`: the sidecar's own there. `search`: where it isn't known yet whose that is.
    """

    configured: ConfiguredRoute
    route: Route
    edges: Edges
    gateway: Gateway
    close: Callable[[], Awaitable[None]]
    credential: Credential | None = None
    search: Search | None = None


@dataclass(frozen=True, slots=True)
class _Way:
    """To an origin. `identity`: of the sidecar's own credential there, "" for none. `search`: as of
    the route.
    """

    upstream: Upstream
    close: Callable[[], Awaitable[None]]
    credential: Credential | None = None
    identity: str = ""
    search: Search | None = None


@dataclass(frozen=True, slots=True)
class Ground:
    """What all routes of a process stand on. `secret` keys the partition hash, `instance` is the
    process's name in `Via`.
    """

    index: Index
    store: BodyStore
    stamps: StampTable
    clock: Clock
    metrics: Metrics
    secret: bytes
    instance: str


class CurrentRoutes:
    """The routes that hold, in the order of their settings. `open` is changed in one step, and what
    is in it never: a route with other settings is another one.
    """

    def __init__(self, configured: Iterable[ConfiguredRoute], ground: Ground) -> None:
        self._ground = ground
        self.shared = Shared()
        # Those that hold no longer and still have something under way.
        self._leaving: list[OpenRoute] = []
        self._farewells = Tasks()
        self._searching: list[Search] = []
        self.open = tuple(self._opened(each, None, {}) for each in configured)

    @property
    def under_way(self) -> tuple[OpenRoute, ...]:
        """All on which something may be under way."""
        return *self.open, *self._leaving

    def change(
        self, configured: Iterable[ConfiguredRoute], means: Mapping[str, Means]
    ) -> dict[str, frozenset[str]]:
        """Opens what is new. What is under way on the others ends under the settings that it began
        with; then their connections are closed. `means`: of each route, by its prefix.

        Gives the origins whose stored answers fell, and the settings that they fell for.
        """
        configured = tuple(configured)
        self._ground.metrics.add_routes(each.prefix for each in configured)
        before = {each.configured.prefix: each for each in self.open}
        self.open = tuple(self._opened(each, before.get(each.prefix), means) for each in configured)
        for old in before.values():
            if all(old is not each for each in self.open):
                self._see_off_later(old)
        return self._forget_other_answers()

    def _forget_other_answers(self) -> dict[str, frozenset[str]]:
        may_store = [old for old in self._leaving if not old.edges.is_outdated]
        fell = other_answers(
            (old.configured for old in may_store), (each.configured for each in self.open)
        )
        for old in may_store:
            old.edges.is_outdated = old.route.location in fell
        for location in fell:
            self.open[0].edges.forget_location(location)
        return fell

    def search(self, tell: Callable[[], None]) -> None:
        """Has each route of which it isn't known yet find out with whose credentials it asks, and
        then ask so; `tell` hears of each that `open` has another for.
        """
        for each in self.open:
            if each.search is not None and each.search not in self._searching:
                self._searching.append(each.search)
                self._farewells.start(self._find_out(each, each.search, tell), "a search")

    async def _find_out(self, old: OpenRoute, search: Search, tell: Callable[[], None]) -> None:
        try:
            means = await search.means()
            if means is not None and any(old is each for each in self.open):
                new = self._opened(old.configured, None, {old.configured.prefix: means})
                self.open = tuple(new if each is old else each for each in self.open)
                self._see_off_later(old)
                tell()
        finally:
            self._searching.remove(search)
            search.end()

    async def close(self) -> None:
        """Closes all connections, whatever is under way on them."""
        await self._farewells.finish(0.0)
        for each in self.open:
            await each.close()

    def _see_off_later(self, old: OpenRoute) -> None:
        self._leaving.append(old)
        if old.search is not None:
            # Whoever waits for it is answered by the route in its place.
            old.search.end()
        self._farewells.start(self._see_off(old), "the end of a route")

    async def _see_off(self, old: OpenRoute) -> None:
        try:
            await old.edges.visits.until_none()
        finally:
            self._leaving = [each for each in self._leaving if each is not old]
            if all(each.edges.upstream is not old.edges.upstream for each in self.under_way):
                await old.close()
            name = old.configured.prefix
            if all(each.configured.prefix != name for each in self.under_way):
                self._ground.metrics.drop_route(name)

    def _opened(
        self,
        configured: ConfiguredRoute,
        before: OpenRoute | None,
        means: Mapping[str, Means],
    ) -> OpenRoute:
        """`before`: the route that has held at its path; what of it still fits is taken over."""
        is_known = before is not None and before.search is None
        if before is not None and is_known and same_way(before.configured, configured):
            is_same_place = before.configured.upstream == configured.upstream
            if is_same_place and not differing(before.configured, configured):
                return before
            way = _Way(before.edges.upstream, before.close, before.credential)
            return self._route(configured, replace(way, identity=before.route.identity))
        own = means.get(configured.prefix) or (
            None if may_sign(configured) else means_of(configured)
        )
        if own is None or not own.is_known:
            observer = self._ground.metrics.of(configured.prefix)
            return self._route(configured, _unknown(configured, observer))
        ground = self._ground
        upstream = upstream_of(configured, ground.metrics, ground.clock, ground.instance, own)
        identity = identity_of(configured)
        if own.chain is not None:
            identity = " ".join(filter(None, (identity, own.chain.identity)))
        way = _Way(upstream, upstream.close, own.credential, identity)
        return self._route(configured, way)

    def _route(self, configured: ConfiguredRoute, way: _Way) -> OpenRoute:
        settings, ground = configured.settings, self._ground
        route = route_of(configured, ground.secret, way.identity)
        edges = Edges(
            index=ground.index,
            policy=policy_of(configured, ground.index.limits.budget_bytes),
            store=ground.store,
            stamps=ground.stamps,
            upstream=way.upstream,
            clock=ground.clock,
            observer=ground.metrics.of(configured.prefix),
            read_seconds=settings.upstream_deadline,
            write_seconds=settings.upstream_write_timeout,
            most_orphans=settings.upstream_connections // 2,
            audit_share=settings.audit_share,
            only_observes=settings.mode == "observe",
            root=route.scope,
            shared=self.shared,
        )
        return OpenRoute(
            configured, route, edges, Gateway(edges), way.close, way.credential, way.search
        )


def _unknown(configured: ConfiguredRoute, observer: Observer) -> _Way:
    """While it isn't known with whose credentials a store is asked: nobody else's place."""

    def look() -> Means | None:
        try:
            means = means_of(configured)
        except UnfitFile as error:
            log.warning("route %s: %s", configured.prefix, error)
            upstream.trouble = str(error)
            return None
        if means.is_known:
            return means
        upstream.trouble = means.trouble
        return None

    upstream = NotYet(observer)
    return _Way(upstream, upstream.close, identity=f"not yet {token_hex(8)}", search=Search(look))


def policy_of(configured: ConfiguredRoute, budget_bytes: int) -> Policy:
    settings, allow_writes = configured.settings, allows_writes(configured)
    return Policy(
        ttl=settings.ttl,
        negative_ttl=settings.negative_ttl,
        metadata_ttl=settings.metadata_ttl,
        cache_missing=settings.cache_missing,
        allow_writes=allow_writes,
        max_body_bytes=resolve_max_body(settings.max_body_size, budget_bytes),
        negative_scope=resolve_negative_scope(settings.negative_scope, allow_writes=allow_writes),
        absent_statuses=settings.absent_statuses,
        stale_if_error=settings.stale_if_error,
        is_strict=settings.profile == "strict",
        obeys_origin=obeys_origin(configured.upstream, settings),
        obeys_clients=settings.client_cache_control == "obey",
        forwards_cookies=settings.cookies == "forward",
        client_credentials=client_credentials_of(configured),
        is_object_store=_is_object_store(configured),
        of_absence=_of_absence(configured),
        targeted=tuple(name.lower().encode() for name in settings.targeted_cache_control),
    )


def _is_object_store(configured: ConfiguredRoute) -> bool:
    upstream = configured.upstream
    return not isinstance(upstream, DirectoryAddress) and upstream.scheme in _OBJECT_STORES


def _of_absence(configured: ConfiguredRoute) -> Said:
    upstream = configured.upstream
    if not isinstance(upstream, BucketAddress):
        return SAYS_NOTHING
    return _BLOB_NOT_FOUND if is_azure(upstream) else _NO_SUCH_KEY


def _pages(settings: RouteSettings) -> Pages | None:
    origins = frozenset(origin.encode() for origin in settings.cors_origins)
    return Pages(origins) if origins else None


def route_of(configured: ConfiguredRoute, secret: bytes, identity: str | None = None) -> Route:
    """`identity`: of the sidecar's own credential, where settings alone don't tell it."""
    settings, upstream = configured.settings, configured.upstream
    admits = upstream.scope.encode() if isinstance(upstream, BucketAddress) else None
    is_googles = isinstance(upstream, BucketAddress) and upstream.scheme == "gs"
    return Route(
        name=configured.prefix,
        location=upstream.location,
        prefix=upstream.prefix.encode(),
        secret=secret,
        credential_names=credential_names(settings),
        ignored_query=frozenset(name.encode() for name in settings.ignored_query),
        metadata_names=settings.metadata_names,
        forwards_cookies=settings.cookies == "forward",
        at=configured.prefix.removesuffix("/").encode(),
        pages=_pages(settings),
        identity=identity_of(configured) if identity is None else identity,
        client_credentials=client_credentials_of(configured),
        admits=spelled_plainly(admits) if admits and is_googles else admits,
        is_googles=is_googles,
        own_range=_OWN_RANGE if is_azure(upstream) else b"",
        preserves_host=settings.preserve_host,
    )
