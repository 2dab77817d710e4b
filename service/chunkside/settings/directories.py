"""Directories that are upstreams: looked at before the start, and no longer than a moment, since a
dead mount holds on to whoever asks it.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from chunkside.settings.addresses import DirectoryAddress
from chunkside.settings.errors import ConfigurationError
from chunkside.settings.model import Settings
from chunkside.settings.sources import require_routes
from chunkside.upstream.root import Root, RootGone

LOOK_SECONDS: Final = 3.0

T = TypeVar("T")


def why_not_there(address: DirectoryAddress) -> str | None:
    """A sentence; None for a directory that can be read from."""

    def look() -> str | None:
        try:
            os.close(Root(address.directory).open())
        except RootGone as gone:
            return str(gone)
        return None

    late: str | None = f"It doesn't answer within {LOOK_SECONDS:g} s."
    return _within(LOOK_SECONDS, look, otherwise=late)


def refuse_cache_beneath(settings: Settings, cache_directory: Path) -> None:
    """Whoever may read an upstream's files would read what others' credentials fetched, and the
    cache's own secret. Raises ConfigurationError.
    """
    for route in require_routes(settings):
        upstream = route.upstream
        if not isinstance(upstream, DirectoryAddress):
            continue
        if _within(LOOK_SECONDS, partial(_is_above, upstream, cache_directory), otherwise=False):
            raise ConfigurationError(
                "cache_dir",
                str(cache_directory),
                "a directory that no upstream leads to",
                "name another one with --cache-dir",
                reason=f"it lies beneath {upstream}, whose files clients may read",
            )


def _is_above(address: DirectoryAddress, cache_directory: Path) -> bool:
    try:
        root = os.stat(address.directory)
    except OSError:
        return False
    place = Path(os.path.realpath(cache_directory))
    # `check` may name a directory that is yet to be made.
    there = (each for each in (place, *place.parents) if each.exists())
    return any(os.path.samestat(root, os.stat(each)) for each in there)


def _within(seconds: float, job: Callable[[], T], *, otherwise: T) -> T:
    """What a job gives, if it does in time. It must not raise."""
    given: queue.SimpleQueue[T] = queue.SimpleQueue()
    threading.Thread(target=lambda: given.put(job()), daemon=True).start()
    try:
        return given.get(timeout=seconds)
    except queue.Empty:
        return otherwise
