"""The routes of a running sidecar: what each one has of its own, built from its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from chunkside.core.cors import Pages
from chunkside.core.freshness import Policy
from chunkside.core.index import Index
from chunkside.core.route import Route
from chunkside.gateway.edges import Edges, Shared
from chunkside.gateway.gateway import Gateway
from chunkside.gateway.ports import BodyStore, Clock, StampTable
from chunkside.metrics import Metrics
from chunkside.settings import (
    ConfiguredRoute,
    RouteSettings,
    resolve_max_body,
    resolve_negative_scope,
)
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.tls import Authorities
from chunkside.upstream.wire import Times


@dataclass(frozen=True, slots=True)
class OpenRoute:
    """`configured` holds all settings of the route. `close` lets go of its connections."""

    configured: ConfiguredRoute
    route: Route
    edges: Edges
    gateway: Gateway
    close: Callable[[], Awaitable[None]]


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


def open_routes(configured: Iterable[ConfiguredRoute], ground: Ground) -> list[OpenRoute]:
    shared = Shared()
    return [_open(each, ground, shared) for each in configured]


def _open(configured: ConfiguredRoute, ground: Ground, shared: Shared) -> OpenRoute:
    settings = configured.settings
    observer = ground.metrics.of(configured.prefix)
    upstream = HttpUpstream(
        configured.upstream.location,
        _times(settings),
        observer,
        via=f"1.1 {ground.instance}".encode(),
        clock=ground.clock,
        authorities=Authorities(settings.upstream_ca_file),
    )
    edges = Edges(
        index=ground.index,
        policy=policy_of(settings, ground.index.limits.budget_bytes),
        store=ground.store,
        stamps=ground.stamps,
        upstream=upstream,
        clock=ground.clock,
        observer=observer,
        write_seconds=settings.upstream_write_timeout,
        most_orphans=settings.upstream_connections // 2,
        shared=shared,
    )
    route = route_of(configured, ground.secret)
    return OpenRoute(configured, route, edges, Gateway(edges), upstream.close)


def policy_of(settings: RouteSettings, budget_bytes: int) -> Policy:
    return Policy(
        ttl=settings.ttl,
        negative_ttl=settings.negative_ttl,
        metadata_ttl=settings.metadata_ttl,
        cache_missing=settings.cache_missing,
        allow_writes=settings.allow_writes,
        max_body_bytes=resolve_max_body(settings.max_body_size, budget_bytes),
        negative_scope=resolve_negative_scope(
            settings.negative_scope, allow_writes=settings.allow_writes
        ),
        absent_statuses=settings.absent_statuses,
        stale_if_error=settings.stale_if_error,
        is_strict=settings.profile == "strict",
        obeys_origin=settings.upstream_cache_control == "obey",
        obeys_clients=settings.client_cache_control == "obey",
        forwards_cookies=settings.cookies == "forward",
        client_credentials=settings.client_credentials,
        targeted=tuple(name.lower().encode() for name in settings.targeted_cache_control),
    )


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


def _pages(settings: RouteSettings) -> Pages | None:
    origins = frozenset(origin.encode() for origin in settings.cors_origins)
    return Pages(origins) if origins else None


def route_of(configured: ConfiguredRoute, secret: bytes) -> Route:
    settings, upstream = configured.settings, configured.upstream
    return Route(
        name=configured.prefix,
        location=upstream.location,
        prefix=upstream.prefix.encode(),
        secret=secret,
        credential_names=frozenset(name.lower().encode() for name in settings.credential_headers),
        ignored_query=frozenset(name.encode() for name in settings.ignored_query),
        metadata_names=settings.metadata_names,
        forwards_cookies=settings.cookies == "forward",
        at=configured.prefix.removesuffix("/").encode(),
        pages=_pages(settings),
        client_credentials=settings.client_credentials,
    )
