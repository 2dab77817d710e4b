"""The routes of a running sidecar: what each one has of its own, built from its settings, and which
of them hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from chunkside.core.cors import Pages
from chunkside.core.freshness import Policy
from chunkside.core.index import Index
from chunkside.core.route import Route
from chunkside.gateway.edges import Edges, Shared
from chunkside.gateway.gateway import Gateway
from chunkside.gateway.ports import BodyStore, Clock, StampTable, Upstream
from chunkside.gateway.tasks import Tasks
from chunkside.metrics import Metrics
from chunkside.settings import (
    BucketAddress,
    ConfiguredRoute,
    DirectoryAddress,
    RouteSettings,
    allows_writes,
    auth_kind,
    client_credentials_of,
    differing,
    identity_of,
    may_sign,
    other_answers,
    resolve_max_body,
    resolve_negative_scope,
    same_way,
    tls_files,
)
from chunkside.upstream.aws import find, region
from chunkside.upstream.credential import Credential
from chunkside.upstream.file import FileUpstream
from chunkside.upstream.hops import Means
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.reading import Files
from chunkside.upstream.redirects import Redirects
from chunkside.upstream.root import Root
from chunkside.upstream.s3 import FIRST_REGION, S3, S3Endpoint
from chunkside.upstream.tls import Tls
from chunkside.upstream.unused import AWS, find_unused
from chunkside.upstream.wire import Times

# What sets the date of an object itself, and never takes one from whoever puts it there.
_OBJECT_STORES: Final = frozenset({"s3", "gs", "az"})
# botocore looks for the code.
_NO_SUCH_KEY: Final = b"<Error><Code>NoSuchKey</Code></Error>"


@dataclass(frozen=True, slots=True)
class OpenRoute:
    """`configured` holds all settings of the route. `close` lets go of its connections.
    `credential`: the sidecar's own there.
    """

    configured: ConfiguredRoute
    route: Route
    edges: Edges
    gateway: Gateway
    close: Callable[[], Awaitable[None]]
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class _Way:
    """To an origin. `identity`: of the sidecar's own credential there, "" for none."""

    upstream: Upstream
    close: Callable[[], Awaitable[None]]
    credential: Credential | None = None
    identity: str = ""


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
                self._leaving.append(old)
                self._farewells.start(self._see_off(old), "the end of a route")
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

    async def close(self) -> None:
        """Closes all connections, whatever is under way on them."""
        await self._farewells.finish(0.0)
        for each in self.open:
            await each.close()

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
        if before is not None and same_way(before.configured, configured):
            is_same_place = before.configured.upstream == configured.upstream
            if is_same_place and not differing(before.configured, configured):
                return before
            way = _Way(before.edges.upstream, before.close, before.credential)
            return self._route(configured, replace(way, identity=before.route.identity))
        own = means.get(configured.prefix) or means_of(configured)
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
        return OpenRoute(configured, route, edges, Gateway(edges), way.close, way.credential)


def means_of(configured: ConfiguredRoute) -> Means:
    """Reads files. Raises UnfitFile."""
    settings = configured.settings
    chain = find(is_required=settings.upstream_auth == "aws") if may_sign(configured) else None
    return Means(Tls(tls_files(configured)), _credential(settings), _redirects(settings), chain)


def upstream_of(
    configured: ConfiguredRoute, metrics: Metrics, clock: Clock, instance: str, means: Means
) -> HttpUpstream | FileUpstream:
    """The way to a route's origin. It must be closed. `instance`: the process's name in `Via`."""
    settings, address = configured.settings, configured.upstream
    observer = metrics.of(configured.prefix)
    if isinstance(address, BucketAddress):
        unused = find_unused(AWS, configured.prefix, is_off=settings.upstream_auth == "none")
        store = S3(_endpoint(address, settings), means.chain, clock, observer, unused)
        means = replace(means, store=store)
    if isinstance(address, DirectoryAddress):
        name = f"the directory of route {configured.prefix}"
        files = Files(Root(address.directory))
        return FileUpstream(name, files, _times(settings), observer, clock=clock)
    return HttpUpstream(
        address.location,
        _times(settings),
        observer,
        via=f"1.1 {instance}".encode(),
        clock=clock,
        means=means,
    )


def _endpoint(address: BucketAddress, settings: RouteSettings) -> S3Endpoint:
    return S3Endpoint(
        location=address.location,
        is_aws=address.endpoint is None,
        region=settings.upstream_region or region() or FIRST_REGION,
        addressing=settings.upstream_addressing,
        requester_pays=settings.upstream_requester_pays,
    )


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
        obeys_origin=settings.upstream_cache_control == "obey",
        obeys_clients=settings.client_cache_control == "obey",
        forwards_cookies=settings.cookies == "forward",
        client_credentials=client_credentials_of(configured),
        is_object_store=_is_object_store(configured),
        absence_body=_NO_SUCH_KEY if isinstance(configured.upstream, BucketAddress) else b"",
        targeted=tuple(name.lower().encode() for name in settings.targeted_cache_control),
    )


def _is_object_store(configured: ConfiguredRoute) -> bool:
    upstream = configured.upstream
    return not isinstance(upstream, DirectoryAddress) and upstream.scheme in _OBJECT_STORES


def _times(settings: RouteSettings) -> Times:
    return Times(
        connect=settings.upstream_connect_timeout,
        first_byte=settings.upstream_first_byte_timeout,
        idle=settings.upstream_idle_timeout,
        deadline=settings.upstream_deadline,
        write=settings.upstream_write_timeout,
        retries=settings.upstream_retries,
        connections=settings.upstream_connections,
        queue=settings.upstream_queue,
    )


def _credential(settings: RouteSettings) -> Credential | None:
    kind, file = auth_kind(settings), settings.upstream_auth_file
    return None if kind is None or file is None else Credential(kind, file)


def _redirects(settings: RouteSettings) -> Redirects | None:
    hosts = settings.follow_redirects
    return Redirects(hosts, _credential_names(settings)) if hosts else None


def _credential_names(settings: RouteSettings) -> frozenset[bytes]:
    return frozenset(name.lower().encode() for name in settings.credential_headers)


def _pages(settings: RouteSettings) -> Pages | None:
    origins = frozenset(origin.encode() for origin in settings.cors_origins)
    return Pages(origins) if origins else None


def route_of(configured: ConfiguredRoute, secret: bytes, identity: str | None = None) -> Route:
    """`identity`: of the sidecar's own credential, where settings alone don't tell it."""
    settings, upstream = configured.settings, configured.upstream
    return Route(
        name=configured.prefix,
        location=upstream.location,
        prefix=upstream.prefix.encode(),
        secret=secret,
        credential_names=_credential_names(settings),
        ignored_query=frozenset(name.encode() for name in settings.ignored_query),
        metadata_names=settings.metadata_names,
        forwards_cookies=settings.cookies == "forward",
        at=configured.prefix.removesuffix("/").encode(),
        pages=_pages(settings),
        identity=identity_of(configured) if identity is None else identity,
        client_credentials=client_credentials_of(configured),
        admits=upstream.scope.encode() if isinstance(upstream, BucketAddress) else None,
    )
