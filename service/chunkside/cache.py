"""Where a sidecar keeps what it holds: a directory with its table of stamps, or memory."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass

from chunkside.clock import boot_seconds
from chunkside.core.budget import Limits
from chunkside.gateway.errors import StoreFault
from chunkside.settings import (
    MEMORY_IS_MEANT,
    ConfigurationError,
    Settings,
    memory_limit,
    open_cache,
    resolve_cache_size,
    resolve_marker_reserve,
    resolve_memory_size,
    resolve_min_free,
)
from chunkside.store.filesystem import Chosen, measure
from chunkside.store.stamps import FileStampTable, MemoryStampTable, load_secret

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cache:
    """Where bodies go: `chosen` is None for memory. Sizes in bytes; `min_free` of the volume.

    `is_degraded`: memory stands in for a directory that was meant to be used.
    """

    chosen: Chosen | None
    budget: int
    min_free: int
    table: MemoryStampTable
    secret: bytes
    is_degraded: bool = False


def cache_of(settings: Settings) -> Cache:
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
    return Cache(
        None,
        budget,
        0,
        MemoryStampTable(boot_seconds),
        secrets.token_bytes(32),
        is_degraded=settings.cache_size not in MEMORY_IS_MEANT,
    )


def limits_of(settings: Settings, budget: int) -> Limits:
    return Limits(
        budget_bytes=budget,
        marker_reserve_bytes=resolve_marker_reserve(settings.marker_reserve, budget),
        max_markers=settings.max_markers,
        memory_bytes=resolve_memory_size(settings.index_memory, memory_limit()),
    )
