"""Settings read anew while the sidecar runs: on SIGHUP, as a whole or not at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chunkside.gateway.tasks import Tasks
from chunkside.metrics import Metrics
from chunkside.routing import authorities_of
from chunkside.settings import (
    ConfigurationError,
    ConfiguredRoute,
    Settings,
    refuse_cache_beneath,
    refuse_unfit_files,
    require_routes,
)
from chunkside.upstream.tls import Authorities, UnfitAuthorities

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Read:
    """Settings that hold together, and what of them lies in files. `authorities` by prefix."""

    settings: Settings
    routes: tuple[ConfiguredRoute, ...]
    authorities: Mapping[str, Authorities]


def read_anew(load: Callable[[], Settings], cache_directory: Path | None) -> Read:
    """Blocks. Raises ConfigurationError."""
    settings = load()
    routes = require_routes(settings)
    refuse_unfit_files(settings)
    if cache_directory is not None:
        refuse_cache_beneath((route.upstream for route in routes), cache_directory)
    try:
        return Read(settings, routes, {each.prefix: authorities_of(each) for each in routes})
    except UnfitAuthorities as error:
        # It was fit a moment ago.
        raise ConfigurationError(
            "upstream_ca_file", None, "a file that stays as it is", reason=str(error)
        ) from error


class Reloader:
    """`load` brings all settings, and may block; `take_up` has them hold, in one step.
    `cache_directory`: the one in use, which no upstream may lead to.
    """

    def __init__(
        self,
        load: Callable[[], Settings],
        cache_directory: Path | None,
        take_up: Callable[[Read], None],
        metrics: Metrics,
        tasks: Tasks,
    ) -> None:
        self._load = load
        self._cache_directory = cache_directory
        self._take_up = take_up
        self._metrics = metrics
        self._tasks = tasks
        self._is_asked = False
        self._task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        """Those who ask while it runs have it run once more."""
        self._is_asked = True
        if self._task is None or self._task.done():
            self._task = self._tasks.start(self._run(), "the reading of settings")

    async def _run(self) -> None:
        while self._is_asked:
            self._is_asked = False
            try:
                read = await asyncio.to_thread(read_anew, self._load, self._cache_directory)
            except ConfigurationError as error:
                self._metrics.reloaded(is_successful=False)
                log.error(  # noqa: TRY400 - the line says all
                    "settings were read anew and stay as they were: %s",
                    str(error).removeprefix("chunkside: "),
                )
                continue
            self._take_up(read)
            self._metrics.reloaded(is_successful=True)
