"""Puts the sidecar together, and owns the order of starting and stopping."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import resource
import secrets
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from aiohttp import web

from chunkside import logs
from chunkside.aiohttp_internals import UnfitAiohttp, check_aiohttp
from chunkside.aiohttp_internals.serving import Server
from chunkside.cache import Cache, cache_of, limits_of
from chunkside.clock import SystemClock, boot_seconds
from chunkside.console import SidecarConsole
from chunkside.core.index import Index
from chunkside.core.route import Route
from chunkside.gateway.at_once import AtOnce
from chunkside.gateway.gateway import Gateway
from chunkside.gateway.sweeper import Sweeper
from chunkside.gateway.tasks import Tasks
from chunkside.gauges import Gauges
from chunkside.hangups import Hangups
from chunkside.listening import Ports
from chunkside.metrics import Saved
from chunkside.metrics.recent import Recent
from chunkside.notices import Serving
from chunkside.reload import Read, Reloader
from chunkside.routing import CurrentRoutes, Ground
from chunkside.server.admin import admin_app
from chunkside.server.admin_door import bounded
from chunkside.server.crowd import Crowd
from chunkside.server.door import Door
from chunkside.server.fast_lane import FastLane
from chunkside.server.front import Front, Timers
from chunkside.server.handler import DataPort
from chunkside.server.listeners import Listener
from chunkside.server.peers import Peers
from chunkside.server.request_lines import RequestLines
from chunkside.settings import (
    ConfigurationError,
    ConfiguredRoute,
    Settings,
    cautions,
    refuse_cache_beneath,
    refuse_open_ports,
    require_routes,
    taken_up,
)
from chunkside.stopping import Stopping
from chunkside.store.body_store import Bounds, DiskBodyStore
from chunkside.store.memory import MemoryBodyStore
from chunkside.store.stamps import FileStampTable
from chunkside.upkeep import (
    TableUpkeep,
    TellingMetrics,
    collect_less_often,
    spare_from_collection,
    tidy,
)

log = logging.getLogger(__name__)

_WANTED_DESCRIPTORS: Final = 65_536
_MOST_READERS: Final = 4096
# For what is cut off to come to its end, and for an answer of the admin port, which is short.
_LAST_SECONDS: Final = 0.5
_SEARCHING: Final = "it is being found out with whose credentials stores are asked"


def serve(settings: Settings, load: Callable[[], Settings], hangups: Hangups, ports: Ports) -> int:
    """Runs the sidecar until SIGTERM or SIGINT; gives the exit code. Raises ConfigurationError.

    `load` brings all settings, as it brought `settings`, again with each of `hangups`.
    """
    logs.configure(settings.log_level, is_json=settings.log_format == "json")
    try:
        check_aiohttp()
    except UnfitAiohttp as error:
        raise ConfigurationError("aiohttp", None, "3.14.3 to 3.14.*", str(error)) from error
    routes = require_routes(settings)
    for caution in cautions(settings):
        log.warning(caution)
    cache = cache_of(settings)
    if cache.chosen is not None:
        refuse_cache_beneath((route.upstream for route in routes), cache.chosen.directory)
    collect_less_often()
    with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
        runner.run(_run(partial(Sidecar, settings, routes, cache, load), hangups, ports))
    return 0


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


async def _run(make: Callable[[], Sidecar], hangups: Hangups, ports: Ports) -> None:
    stopping = Stopping()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.ask)
    sidecar, data, admin = make(), ports.data, ports.admin
    try:
        await sidecar.start(data, admin)
        hangups.hear(partial(loop.call_soon_threadsafe, sidecar.reloader.ask))
        serving = sidecar.serving(data, admin)
        serving.say_started(is_for_people=sidecar.settings.log_format == "console")
        await stopping.asked()
    finally:
        hangups.ignore()
        await sidecar.stop(stopping)
    serving.say_ended(sidecar.saved())


class Sidecar:
    """All parts of one process."""

    def __init__(
        self,
        settings: Settings,
        configured: tuple[ConfiguredRoute, ...],
        cache: Cache,
        load: Callable[[], Settings],
    ) -> None:
        self.settings = settings
        self._cache = cache
        instance = f"chunkside-{secrets.token_hex(4)}"
        self._version = importlib.metadata.version("chunkside")
        self._started = time.monotonic()
        self._lines = RequestLines(settings.log_requests)
        self._metrics = TellingMetrics(self._version, [each.prefix for each in configured])
        self._descriptors = _raise_descriptor_limit()
        # The other half is for files, the origin and the admin port.
        self._crowd = Crowd(self._descriptors // 2)
        self._store = self._make_store()
        self._index = Index(limits_of(settings, cache.budget))
        ground = Ground(
            self._index,
            self._store,
            cache.table,
            SystemClock(),
            self._metrics,
            cache.secret,
            instance,
        )
        self._routes = CurrentRoutes(configured, ground)
        self._gauges = Gauges(self._index, self._store, self._routes, cache)
        self._recent = Recent(self._metrics.counted)
        self._port = self._make_port(instance)
        self._lane = self._make_lane(ground)
        self._console = SidecarConsole(
            settings,
            self._gauges.directory,
            self._routes.open,
            self._metrics,
            self._gauges.disk_usage,
            self._recent,
        )
        self._server = Server(
            self._port,
            self._port.error_page,
            access_log=None,
            auto_decompress=False,
            read_bufsize=256 << 10,
        )
        self._sweeper = self._make_sweeper()
        table = cache.table
        self._upkeep = TableUpkeep(table) if isinstance(table, FileStampTable) else None
        self._background = Tasks()
        self.reloader = Reloader(load, self._refuse, self._take_up, self._metrics, self._background)
        self._doors: list[Door] = []
        self._admin_doors: list[Door] = []
        self._admin: web.AppRunner | None = None
        self._metrics.watch(self._gauges.read)

    def _seats(self) -> list[tuple[Route, Gateway]]:
        return [(each.route, each.gateway) for each in self._routes.open]

    def _lanes(self) -> list[tuple[Route, AtOnce]]:
        return [
            (each.route, AtOnce(each.edges, each.gateway.audits.sampler))
            for each in self._routes.open
        ]

    def _refuse(self, told: Settings) -> None:
        """Where they don't go with the ports and the cache directory, which stay."""
        settings, _ = taken_up(self.settings, told)
        refuse_open_ports(settings)
        if self._cache.chosen is not None:
            upstreams = (route.upstream for route in require_routes(settings))
            refuse_cache_beneath(upstreams, self._cache.chosen.directory)

    def _take_up(self, read: Read) -> None:
        """Has other settings hold, for whatever is asked from now on."""
        known = cautions(self.settings)
        self.settings, waiting = taken_up(self.settings, read.settings)
        fell = self._routes.change(read.routes, read.means)
        self._lines.share = self.settings.log_requests
        self._answer_by_current_routes()
        self._routes.search(self._answer_by_current_routes)
        if self._sweeper is not None:
            self._sweeper.retention_seconds = self.settings.retention
        logs.take(self.settings.log_level, is_json=self.settings.log_format == "json")
        log.info("settings were read anew; routes: %s", ", ".join(r.prefix for r in read.routes))
        for location, names in fell.items():
            log.info("all of %s is forgotten, since %s changed", location, ", ".join(sorted(names)))
        if waiting:
            log.warning("needs a restart, and stays as it was: %s", ", ".join(waiting))
        for caution in cautions(self.settings):
            if caution not in known:
                log.warning(caution)

    def _answer_by_current_routes(self) -> None:
        waits = {
            each.route.name: each.search.wait
            for each in self._routes.open
            if each.search is not None
        }
        self._port.take(self._seats(), *_admitted(self.settings), waits)
        self._lane.take(self._lanes())
        self._console.take(self.settings, self._routes.open)

    async def _get_ready(self) -> None:
        """Once it is known with whose credentials stores are asked, or has been waited for."""
        searches = [each.search for each in self._routes.open if each.search is not None]
        await asyncio.gather(*(each.until_looked() for each in searches))
        if self._console.obstacle == _SEARCHING:
            self._console.obstacle = None

    def _make_port(self, instance: str) -> DataPort:
        admitted = _admitted(self.settings)
        return DataPort(
            self._seats(), self._metrics, instance, *admitted, self._lines, self._recent
        )

    def _make_lane(self, ground: Ground) -> FastLane:
        lane = FastLane(
            self._lanes(),
            self._port.is_welcome,
            self._metrics,
            self._port.via,
            ground.clock,
            boot_seconds,
            self._lines,
        )
        lane.targets = self._recent
        return lane

    def _make_sweeper(self) -> Sweeper | None:
        store, any_route = self._store, self._routes.open[0]
        if not isinstance(store, DiskBodyStore):
            return None
        return Sweeper(any_route.edges, store, self.settings.retention, self._metrics.sweep_ended)

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
            map_bodies=self.settings.loop == "uvloop" or sys.version_info >= (3, 12),
            reader_limit=min(self._descriptors // 4, _MOST_READERS),
            bounds=Bounds(cache.min_free, cache.budget),
        )

    async def start(self, data: list[Listener], admin: list[Listener]) -> None:
        if isinstance(self._store, DiskBodyStore):
            await self._store.start()
        # One scan takes in what all routes left there.
        first = self._routes.open[0]
        scan = first.edges.tasks.start(
            first.gateway.adoption.scan(), "the scan of the cache directory"
        )
        if isinstance(self._store, DiskBodyStore):
            self._background.start(tidy(self._store, scan), "the removal of older formats")
            self._background.start(spare_from_collection(scan), "sparing what is scanned")
        for sock in (sock for listener in data for sock in listener.sockets):
            self._doors.append(Door(sock, self._front))
        self._admin = web.AppRunner(
            admin_app(self._console, self._metrics, lambda: _hosts(self.settings)),
            access_log=None,
            shutdown_timeout=_LAST_SECONDS,
        )
        await self._admin.setup()
        assert self._admin.server is not None
        make_protocol = bounded(self._admin.server)
        for sock in (sock for listener in admin for sock in listener.sockets):
            self._admin_doors.append(Door(sock, make_protocol))
        if self._upkeep is not None:
            self._background.start(self._upkeep.run(), "the upkeep of the stamps")
        if self._sweeper is not None:
            self._background.start(self._sweeper.run(), "the sweeper")
        self._background.start(self._recent.run(), "the last minutes")
        self._console.obstacle = _SEARCHING
        self._answer_by_current_routes()
        self._routes.search(self._answer_by_current_routes)
        self._background.start(self._get_ready(), "the wait for credentials")

    def _front(self) -> Front:
        timers = Timers(self.settings.header_timeout, self.settings.idle_timeout)
        return Front(self._server, self._port, timers, self._crowd, self._lane)

    async def stop(self, stopping: Stopping) -> None:
        """Takes requests for as long as it was told, lets what runs end, within the time allowed,
        and closes from the outside in. The admin port, which tells that it stops, is closed last.
        """
        self._console.obstacle = "stopping"
        drain_time, seconds = self.settings.drain_time, self.settings.shutdown_timeout
        if drain_time and stopping.is_asked:
            log.info("stopping: requests are taken for %g s more", drain_time)
            await stopping.pause(drain_time)
        log.info("stopping: no more requests are taken")
        for door in self._doors:
            await door.close()
        # Quiet connections have nothing to end.
        self._server.pre_shutdown()
        if not await stopping.allow(self._finish(seconds), seconds + 2 * _LAST_SECONDS):
            log.warning("requests that did not end in time are cut off")
            await self._finish(0.0)
        await self._background.finish(0.0)
        if self._upkeep is not None:
            self._upkeep.look()
        for door in self._admin_doors:
            await door.close()
        if self._admin is not None:
            await self._admin.cleanup()
        await self._routes.close()
        await self._store.close()

    async def _finish(self, seconds: float) -> None:
        """Has requests and then fills end; those that last longer are cancelled."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        # To aiohttp 0 is no limit at all.
        await self._server.shutdown(max(_LAST_SECONDS, seconds))
        for route in self._routes.under_way:
            route.gateway.audits.stop()
        await self._routes.shared.tasks.finish(max(_LAST_SECONDS, deadline - loop.time()))

    def serving(self, data: list[Listener], admin: list[Listener]) -> Serving:
        return Serving(
            version=self._version,
            routes=require_routes(self.settings),
            data=data,
            admin=admin,
            directory=self._gauges.directory,
            limits=self._index.limits,
            started=self._started,
        )

    def saved(self) -> Saved:
        return self._metrics.saved()


def _admitted(settings: Settings) -> tuple[frozenset[bytes], Peers]:
    """Names that the data port is asked by, and who may ask."""
    return _hosts(settings), Peers(settings.allowed_clients)


def _hosts(settings: Settings) -> frozenset[bytes]:
    return frozenset(name.encode() for name in settings.allowed_hosts)
