"""One line at the start that says what serves where, and one at the end that says what it saved."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from chunkside.core.budget import Limits
from chunkside.metrics import Saved
from chunkside.server.listeners import Listener
from chunkside.settings import ConfiguredRoute, path_of, root_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """`directory`: of the cache; None where bodies are in memory."""

    version: str
    routes: Sequence[ConfiguredRoute]
    data: Sequence[Listener]
    admin: Sequence[Listener]
    directory: Path | None
    limits: Limits
    started: float

    def say_started(self, *, is_for_people: bool) -> None:
        """To the log, and to people's terminals where to point a reader. To machines the log alone
        says which ports there are, so that there it does whatever its level is.
        """
        if not is_for_people:
            log.setLevel(logging.INFO)
        urls = [url_of(route, self.data) for route in self.routes]
        led = [
            f"{url} -> {root_of(route.upstream)}"
            for url, route in zip(urls, self.routes, strict=True)
        ]
        log.info(
            "serving",
            extra={
                "version": self.version,
                "url": urls[0],
                "routes": led,
                "data": [listener.name for listener in self.data],
                "admin": [listener.name for listener in self.admin],
                "cache_dir": "memory" if self.directory is None else str(self.directory),
                "cache_bytes": self.limits.budget_bytes,
                "index_memory_bytes": self.limits.memory_bytes,
                "max_markers": self.limits.max_markers,
            },
        )
        if not is_for_people:
            return
        for name in (listener.name for listener in self.data):
            print(f"data port: {name}", flush=True)  # noqa: T201
        for route in led:
            print(f"route: {route}", flush=True)  # noqa: T201
        for name in (listener.name for listener in self.admin):
            print(f"admin port: {name}", flush=True)  # noqa: T201

    def say_ended(self, saved: Saved) -> None:
        uptime = round(time.monotonic() - self.started, 1)
        log.info("stopped", extra={"uptime_seconds": uptime, **asdict(saved)})


def url_of(route: ConfiguredRoute, data: Sequence[Listener]) -> str:
    """Where a reader reaches a route; its path alone where that takes a socket."""
    path = path_of(route)
    urls = [listener.name for listener in data if not listener.name.startswith("unix:")]
    return urls[0].removesuffix("/") + path if urls else path
