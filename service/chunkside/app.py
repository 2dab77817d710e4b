"""Puts the sidecar together, and owns the order of starting and stopping."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import resource
import secrets
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from chunkside import logs
from chunkside.aiohttp_internals import Server, UnfitAiohttp, check_aiohttp
from chunkside.console import SidecarConsole
from chunkside.core.budget import Limits
from chunkside.core.entry import Now
from chunkside.core.index import Index
from chunkside.gateway.at_once import AtOnce
from chunkside.gateway.errors import StoreFault
from chunkside.gateway.ports import Clock
from chunkside.gateway.sweeper import Sweeper
from chunkside.gateway.tasks import Tasks
from chunkside.metrics import GaugeReading
from chunkside.routing import Ground, open_routes
from chunkside.server.admin import admin_app
from chunkside.server.crowd import Crowd
from chunkside.server.fast_lane import FastLane
from chunkside.server.front import Front, Timers
from chunkside.server.handler import DataPort
from chunkside.server.listeners import (
    BACKLOG,
    CannotListen,
    Listener,
    listen_tcp,
    listen_unix,
)
from chunkside.server.peers import Peers
from chunkside.settings import (
    ConfigurationError,
    ConfiguredRoute,
    ListenAddress,
    Settings,
    TcpAddress,
    cautions,
    memory_limit,
    open_cache,
    refuse_open_ports,
    refuse_unfit_files,
    require_routes,
    resolve_cache_size,
    resolve_marker_reserve,
    resolve_memory_size,
    resolve_min_free,
)
from chunkside.store.body_store import Bounds, DiskBodyStore
from chunkside.store.filesystem import Chosen, measure
from chunkside.store.memory import MemoryBodyStore
from chunkside.store.stamps import FileStampTable, MemoryStampTable, load_secret
from chunkside.upkeep import TableUpkeep, TellingMetrics, spare_from_collection, tidy

log = logging.getLogger(__name__)

_WANTED_DESCRIPTORS: Final = 65_536
_MOST_READERS: Final = 4096


def serve(settings: Settings) -> int:
    """Runs the sidecar until SIGTERM or SIGINT; gives the exit code. Raises ConfigurationError."""
    logs.configure(settings.log_level)
    try:
        check_aiohttp()
    except UnfitAiohttp as error:
        raise ConfigurationError("aiohttp", None, "3.14.3 to 3.14.*", str(error)) from error
    routes = require_routes(settings)
    refuse_unfit_files(settings)
    refuse_open_ports(settings)
    for caution in cautions(settings):
        log.warning(caution)
    cache = _open_cache(settings)
    with contextlib.ExitStack() as sockets:
        data = _listen(settings.listen, "listen", sockets)
        admin = _listen(settings.admin_listen, "admin_listen", sockets)
        with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
            runner.run(_run(settings, routes, cache, data, admin))
    return 0


class SystemClock:
    """Both clocks of this machine."""

    def now(self) -> Now:
        return Now(boot_seconds(), time.time())


if sys.platform == "linux":
    boot_seconds = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:
    # Nearest to it elsewhere; whether it counts suspends differs.
    boot_seconds = time.monotonic


@dataclass(frozen=True, slots=True)
class Cache:
    """Where bodies go: `chosen` is None for memory. Sizes in bytes; `min_free` of the volume."""

    chosen: Chosen | None
    budget: int
    min_free: int
    table: MemoryStampTable
    secret: bytes


def _open_cache(settings: Settings) -> Cache:
    choice = open_cache(settings)
    for warning in choice.warnings:
        log.warning(warning)
    if isinstance(choice, Chosen):
        directory = str(choice.directory)
        volume = measure(choice.directory)
        budget = resolve_cache_size(settings.cache_size, volume.total_bytes, volume.free_bytes)
        try:
            table = FileStampTable(directory, boot_seconds)
            floor = resolve_min_free(settings.min_free, volume.total_bytes)
            return Cache(choice, budget, floor, table, load_secret(directory))
        except StoreFault as fault:
            if settings.cache_dir is not None:
                raise ConfigurationError(
                    "cache_dir", directory, "a directory that can be written", str(fault)
                ) from fault
            log.warning("%s can't be used (%s): bodies are kept in memory", directory, fault)
    else:
        log.warning("bodies are kept in memory, since %s", choice.because)
    budget = resolve_memory_size(settings.memory_size, memory_limit())
    return Cache(None, budget, 0, MemoryStampTable(boot_seconds), secrets.token_bytes(32))


def _listen(
    addresses: Iterable[ListenAddress], setting: str, sockets: contextlib.ExitStack
) -> list[Listener]:
    listeners = []
    for address in addresses:
        try:
            listener = (
                listen_tcp(address.host, address.port)
                if isinstance(address, TcpAddress)
                else listen_unix(address.path)
            )
        except CannotListen as error:
            raise ConfigurationError(
                setting,
                address,
                "an address of this machine that is free; port 0 picks one",
                f"choose another with --{setting.replace('_', '-')}",
                reason=str(error),
            ) from error
        sockets.callback(listener.close)
        listeners.append(listener)
    return listeners


def _loop_factory(settings: Settings) -> type[asyncio.AbstractEventLoop]:
    if settings.loop == "uvloop":
        import uvloop  # noqa: PLC0415 - not installed everywhere that the stock loop is chosen

        return uvloop.Loop
    return asyncio.SelectorEventLoop


def _raise_descriptor_limit() -> int:
    """Every mapping and connection costs a descriptor; gives how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    wanted = min(wanted, _WANTED_DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


async def _run(
    settings: Settings,
    routes: tuple[ConfiguredRoute, ...],
    cache: Cache,
    data: list[Listener],
    admin: list[Listener],
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    sidecar = Sidecar(settings, routes, cache)
    try:
        await sidecar.start(data, admin)
        for listener in data:
            print(f"data port: {listener.name}", flush=True)  # noqa: T201
        for route in settings.routes:
            print(f"route: {_url_of(route, data)} -> {route.upstream}/", flush=True)  # noqa: T201
        for listener in admin:
            print(f"admin port: {listener.name}", flush=True)  # noqa: T201
        await stopping.wait()
    finally:
        await sidecar.stop()


def _url_of(route: ConfiguredRoute, data: list[Listener]) -> str:
    """Where a reader reaches a route; its path alone where that takes a socket."""
    path = route.prefix.removesuffix("/") + "/"
    urls = [listener.name for listener in data if not listener.name.startswith("unix:")]
    return urls[0].removesuffix("/") + path if urls else path


class Sidecar:
    """All parts of one process."""

    def __init__(
        self, settings: Settings, configured: tuple[ConfiguredRoute, ...], cache: Cache
    ) -> None:
        self._settings = settings
        self._cache = cache
        instance = f"chunkside-{secrets.token_hex(4)}"
        self._metrics = TellingMetrics(
            importlib.metadata.version("chunkside"), [each.prefix for each in configured]
        )
        self._allowed_hosts = frozenset(name.encode() for name in settings.allowed_hosts)
        self._descriptors = _raise_descriptor_limit()
        # The other half is for files, the origin and the admin port.
        self._crowd = Crowd(self._descriptors // 2)
        self._store = self._make_store()
        self._index = Index(_limits(settings, cache.budget))
        ground = Ground(
            self._index,
            self._store,
            cache.table,
            SystemClock(),
            self._metrics,
            cache.secret,
            instance,
        )
        self._routes = open_routes(configured, ground)
        self._port = DataPort(
            [(each.route, each.gateway) for each in self._routes],
            self._metrics,
            instance,
            self._allowed_hosts,
            Peers(settings.allowed_clients),
        )
        self._lane = self._make_lane(ground.clock)
        self._console = SidecarConsole(
            settings,
            None if cache.chosen is None else cache.chosen.directory,
            self._routes,
            self._metrics,
            self._disk_usage,
        )
        self._server = Server(
            self._port,
            self._port.error_page,
            access_log=None,
            auto_decompress=False,
            read_bufsize=256 << 10,
        )
        store, any_route = self._store, self._routes[0]
        self._sweeper = (
            Sweeper(any_route.edges, store, settings.retention, self._metrics.sweep_ended)
            if isinstance(store, DiskBodyStore)
            else None
        )
        table = cache.table
        self._upkeep = TableUpkeep(table) if isinstance(table, FileStampTable) else None
        self._background = Tasks()
        self._listening: list[asyncio.Server] = []
        self._admin: web.AppRunner | None = None
        self._metrics.watch(self._read_gauges)

    def _make_lane(self, clock: Clock) -> FastLane:
        return FastLane(
            [(each.route, AtOnce(each.edges)) for each in self._routes],
            self._port.is_welcome,
            self._metrics,
            self._port.via,
            clock,
            boot_seconds,
        )

    def _make_store(self) -> DiskBodyStore | MemoryBodyStore:
        cache = self._cache
        if cache.chosen is None:
            return MemoryBodyStore(cache.table)
        return DiskBodyStore(
            str(cache.chosen.directory),
            cache.table,
            self._metrics.store_failed,
            # The stock loop of 3.11 copies what a socket doesn't take in user space, where a
            # truncated file is SIGBUS.
            map_bodies=self._settings.loop == "uvloop" or sys.version_info >= (3, 12),
            reader_limit=min(self._descriptors // 4, _MOST_READERS),
            bounds=Bounds(cache.min_free, cache.budget),
        )

    async def start(self, data: list[Listener], admin: list[Listener]) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(self._store, DiskBodyStore):
            await self._store.start()
        # One scan takes in what all routes left there.
        first = self._routes[0]
        scan = first.edges.tasks.start(
            first.gateway.adoption.scan(), "the scan of the cache directory"
        )
        if isinstance(self._store, DiskBodyStore):
            self._background.start(tidy(self._store, scan), "the removal of older formats")
            self._background.start(spare_from_collection(scan), "sparing what is scanned")
        timers = Timers(self._settings.header_timeout, self._settings.idle_timeout)
        for sock in (sock for listener in data for sock in listener.sockets):
            make = partial(Front, self._server, self._port, timers, self._crowd, self._lane)
            self._listening.append(await loop.create_server(make, sock=sock, backlog=BACKLOG))
        self._admin = web.AppRunner(
            admin_app(self._console, self._metrics, self._allowed_hosts), access_log=None
        )
        await self._admin.setup()
        for sock in (sock for listener in admin for sock in listener.sockets):
            await web.SockSite(self._admin, sock, backlog=BACKLOG).start()
        if self._upkeep is not None:
            self._background.start(self._upkeep.run(), "the upkeep of the stamps")
        if self._sweeper is not None:
            self._background.start(self._sweeper.run(), "the sweeper")
        self._console.obstacle = None

    async def stop(self) -> None:
        """Lets what runs end, within the time allowed; then closes from the outside in."""
        self._console.obstacle = "stopping"
        log.info("stopping")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.shutdown_timeout
        for listening in self._listening:
            listening.close()
        # Quiet connections have nothing to end.
        self._server.pre_shutdown()
        try:
            async with asyncio.timeout(self._settings.shutdown_timeout + 1):
                await self._server.shutdown(self._settings.shutdown_timeout)
        except TimeoutError:
            log.warning("requests that did not end in time are cut off")
        await self._routes[0].edges.tasks.finish(max(0.1, deadline - loop.time()))
        await self._background.finish(0.0)
        if self._upkeep is not None:
            self._upkeep.look()
        if self._admin is not None:
            await self._admin.cleanup()
        for route in self._routes:
            await route.close()
        await self._store.close()

    def _disk_usage(self) -> dict[str, int | None]:
        """What the cache takes of the disk beside what the budget counts."""
        store = self._store
        if not isinstance(store, DiskBodyStore):
            return {"lingering_bytes": 0, "directory_bytes": None}
        return {"lingering_bytes": store.lingering_bytes, "directory_bytes": store.directory_bytes}

    def _read_gauges(self) -> GaugeReading:
        index, usage = self._index, self._disk_usage()
        chosen = self._cache.chosen
        return GaugeReading(
            index_entries={kind: tally.count for kind, tally in index.tallies.items()},
            index_memory_bytes={kind: tally.memory for kind, tally in index.tallies.items()},
            index_memory_limit_bytes=index.limits.memory_bytes,
            stored_bytes={kind: tally.charge for kind, tally in index.tallies.items()},
            stored_limit_bytes=index.limits.budget_bytes,
            disk_free_bytes=None if chosen is None else measure(chosen.directory).free_bytes,
            mapped_bytes=getattr(self._store, "mapped_bytes", 0),
            lingering_bytes=usage["lingering_bytes"] or 0,
            directory_bytes=usage["directory_bytes"],
            fills_in_flight=sum(route.gateway.fills.in_flight for route in self._routes),
            fill_waiters=sum(route.gateway.fills.waiters for route in self._routes),
        )


def _limits(settings: Settings, budget: int) -> Limits:
    return Limits(
        budget_bytes=budget,
        marker_reserve_bytes=resolve_marker_reserve(settings.marker_reserve, budget),
        max_markers=settings.max_markers,
        memory_bytes=resolve_memory_size(settings.index_memory, memory_limit()),
    )
