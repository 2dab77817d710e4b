"""Directories that are upstreams: looked at before the start, all at once and no longer than a
moment, since a dead mount holds on to whoever asks it.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from chunkside.settings.addresses import DirectoryAddress, OriginAddress
from chunkside.settings.errors import ConfigurationError
from chunkside.upstream.root import Root, RootGone

LOOK_SECONDS: Final = 3.0

T = TypeVar("T")


def why_not_there(upstreams: Iterable[OriginAddress]) -> dict[DirectoryAddress, str]:
    """A sentence for each directory that can't be read from."""
    late = f"It doesn't answer within {LOOK_SECONDS:g} s."
    told = _look_at(upstreams, _trouble_of, otherwise=late)
    return {address: trouble for address, trouble in told.items() if trouble}


def refuse_cache_beneath(upstreams: Iterable[OriginAddress], cache_directory: Path) -> None:
    """Whoever may read an upstream's files would read what others' credentials fetched, and the
    cache's own secret. Raises ConfigurationError.
    """
    is_above = partial(_is_above, cache_directory)
    for address, is_found in _look_at(upstreams, is_above, otherwise=False).items():
        if is_found:
            raise ConfigurationError(
                "cache_dir",
                str(cache_directory),
                "a directory that no upstream leads to",
                "name another one with --cache-dir",
                reason=f"it lies beneath {address}, whose files clients may read",
            )


def _trouble_of(address: DirectoryAddress) -> str:
    root = Root(address.directory)
    try:
        os.close(root.open())
    except RootGone as gone:
        return str(gone)
    finally:
        root.close()
    return ""


def _is_above(cache_directory: Path, address: DirectoryAddress) -> bool:
    try:
        root = os.stat(address.directory)
    except OSError:
        return False
    place = Path(os.path.realpath(cache_directory))
    # `check` may name a directory that is yet to be made.
    there = (each for each in (place, *place.parents) if each.exists())
    return any(os.path.samestat(root, os.stat(each)) for each in there)


def _look_at(
    upstreams: Iterable[OriginAddress], look: Callable[[DirectoryAddress], T], *, otherwise: T
) -> dict[DirectoryAddress, T]:
    """What `look` gives for each directory in time. It must not raise."""
    addresses = {each for each in upstreams if isinstance(each, DirectoryAddress)}
    seen: queue.SimpleQueue[tuple[DirectoryAddress, T]] = queue.SimpleQueue()
    for address in addresses:
        job = partial(_look_into, seen, look, address)
        threading.Thread(target=job, daemon=True).start()
    end = time.monotonic() + LOOK_SECONDS
    found = dict.fromkeys(addresses, otherwise)
    with suppress(queue.Empty):
        for _ in addresses:
            address, value = seen.get(timeout=max(0.0, end - time.monotonic()))
            found[address] = value
    return found


def _look_into(
    seen: queue.SimpleQueue[tuple[DirectoryAddress, T]],
    look: Callable[[DirectoryAddress], T],
    address: DirectoryAddress,
) -> None:
    seen.put((address, look(address)))
