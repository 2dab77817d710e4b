"""Settings read anew while the sidecar runs: on SIGHUP, as a whole or not at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from chunkside.gateway.tasks import Tasks
from chunkside.metrics import Metrics
from chunkside.settings import (
    ConfigurationError,
    ConfiguredRoute,
    Settings,
    refuse_unfit_files,
    require_routes,
)
from chunkside.upstream.hops import Means
from chunkside.upstream.watched import UnfitFile
from chunkside.upstream.workers import in_thread
from chunkside.ways import means_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Read:
    """Settings that hold together, and what of them lies in files. `means` by prefix."""

    settings: Settings
    routes: tuple[ConfiguredRoute, ...]
    means: Mapping[str, Means]


def read_anew(load: Callable[[], Settings], refuse: Callable[[Settings], None]) -> Read:
    """Blocks. Raises ConfigurationError."""
    settings = load()
    routes = require_routes(settings)
    refuse_unfit_files(settings)
    refuse(settings)
    try:
        return Read(settings, routes, {each.prefix: means_of(each) for each in routes})
    except UnfitFile as error:
        # It was fit a moment ago.
        raise ConfigurationError(
            "settings that name files", None, "files that stay as they are", reason=str(error)
        ) from error


class Reloader:
    """`load` brings all settings, and may block; `take_up` has them hold, in one step. `refuse`:
    raises ConfigurationError where they don't go with what is there already.
    """

    def __init__(
        self,
        load: Callable[[], Settings],
        refuse: Callable[[Settings], None],
        take_up: Callable[[Read], None],
        metrics: Metrics,
        tasks: Tasks,
    ) -> None:
        self._load = load
        self._refuse = refuse
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
                read = await in_thread("settings", partial(read_anew, self._load, self._refuse))
            except ConfigurationError as error:
                self._metrics.reloaded(is_successful=False)
                log.error(  # noqa: TRY400 - the line says all
                    "settings were read anew and stay as they were: %s",
                    str(error).removeprefix("chunkside: "),
                )
                continue
            self._take_up(read)
            self._metrics.reloaded(is_successful=True)
