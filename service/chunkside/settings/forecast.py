"""What `serve` would do with these settings, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chunkside.core.key import ClientCredentials
from chunkside.settings.addresses import ListenAddress, TcpAddress
from chunkside.settings.cache_directory import locate_cache
from chunkside.settings.cautions import cautions
from chunkside.settings.derived import (
    memory_limit,
    resolve_cache_size,
    resolve_marker_reserve,
    resolve_max_body,
    resolve_memory_size,
    resolve_min_free,
)
from chunkside.settings.errors import ConfigurationError
from chunkside.settings.files import refuse_unfit_files
from chunkside.settings.model import Settings
from chunkside.settings.quantities import format_duration
from chunkside.settings.quantities import format_size_rounded as shown_size
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.sources import require_routes
from chunkside.store.filesystem import Chosen, Filesystem, MemoryOnly, Volume, measure

_CREDENTIALS: Final[dict[ClientCredentials, str]] = {
    "partition": "forwarded; each gets only what was learned with it",
    "strip": "removed, signatures in headers too; all share what is stored",
    "share": "forwarded; bodies answer all, whoever brought them, absences only who saw them",
}


@dataclass(frozen=True, slots=True)
class Forecast:
    lines: tuple[str, ...]
    problems: tuple[ConfigurationError, ...]
    """What would stop the start."""


def forecast(
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    *,
    cgroup_root: Path = Path("/"),
) -> Forecast:
    lines: list[str] = []
    problems: list[ConfigurationError] = []
    try:
        lines += _reach(settings)
    except ConfigurationError as problem:
        problems.append(problem)
    else:
        problems += _unfit_files(settings)
    try:
        choice = locate_cache(settings, environment)
        lines += _storage(settings, choice, cgroup_root)
    except ConfigurationError as problem:
        problems.append(problem)
    lines += [f"{label}{_lifetimes(own)}" for label, own in _each(settings)]
    return Forecast(tuple(lines), tuple(problems))


def _unfit_files(settings: Settings) -> list[ConfigurationError]:
    try:
        refuse_unfit_files(settings)
    except ConfigurationError as problem:
        return [problem]
    return []


def reader_url(address: ListenAddress, path: str = "") -> str:
    """What to point a reader at; `path` without slashes at its ends."""
    below = f"/{path}/" if path else "/"
    match address:
        case TcpAddress(port=0):
            return f"http://{address.host}:PORT{below} (the free port that is printed at the start)"
        case TcpAddress():
            return f"{address.url}{below}"
        case _:
            return f"http://localhost{below} (over the socket {address.path})"


def _reach(settings: Settings) -> list[str]:
    routes = require_routes(settings)
    admin = " or ".join(reader_url(address) for address in settings.admin_listen)
    lines = [] if settings.routes else [f"upstream: {routes[0].upstream}"]
    for route, (label, _) in zip(routes, _each(settings), strict=True):
        path = route.prefix.removeprefix("/")
        urls = " or ".join(reader_url(address, path) for address in settings.listen)
        lines.append(f"{label}readers use: {urls} in place of {route.upstream}/")
    if all(route.prefix != "/" for route in routes):
        lines.append("any other path: refused with 421")
    lines.append(f"metrics and admin: {admin}")
    for label, own in _each(settings):
        lines.append(f"{label}writes: {'forwarded' if own.allow_writes else 'refused with 405'}")
        lines.append(f"{label}clients' credentials: {_CREDENTIALS[own.client_credentials]}")
    return [*lines, *(f"warning: {caution}" for caution in cautions(settings))]


def _each(settings: Settings) -> list[tuple[str, RouteSettings]]:
    """Each route's settings, and how a line about them begins."""
    if not settings.routes:
        return [("", settings)]
    return [(f"route {route.prefix}: ", route.settings) for route in require_routes(settings)]


def _storage(settings: Settings, choice: Chosen | MemoryOnly, cgroup_root: Path) -> list[str]:
    warnings = [f"warning: {warning}" for warning in choice.warnings]
    if isinstance(choice, MemoryOnly):
        budget = resolve_memory_size(settings.memory_size, memory_limit(cgroup_root))
        where = f"cache directory: none, since {choice.because}; memory is used"
        return [*warnings, where, *_budget(settings, budget)]
    volume = measure(choice.directory)
    budget = resolve_cache_size(settings.cache_size, volume.total_bytes, volume.free_bytes)
    return [*warnings, *_disk(settings, choice, volume), *_budget(settings, budget)]


def _disk(settings: Settings, choice: Chosen, volume: Volume) -> list[str]:
    floor = resolve_min_free(settings.min_free, volume.total_bytes)
    total, free = (shown_size(n) for n in (volume.total_bytes, volume.free_bytes))
    lines = [
        f"cache directory: {choice.directory}, since {choice.because}",
        f"file system: {_kind(choice.filesystem)}, {total}, {free} free",
        f"free-space floor: {shown_size(floor) if floor else 'off'}",
    ]
    if resolve_cache_size(settings.cache_size, volume.total_bytes, volume.free_bytes) > (
        volume.total_bytes - floor
    ):
        lines.append(
            "warning: cache_size is more than the volume holds beside the floor: the disk would be "
            "full before the budget is; lower cache_size"
        )
    if floor > volume.free_bytes:
        lines.append(
            "warning: less is free than the floor keeps, so that nothing would be stored; "
            "make room or lower min_free"
        )
    return lines


def _budget(settings: Settings, budget: int) -> list[str]:
    reserve = resolve_marker_reserve(settings.marker_reserve, budget)
    lines = [f"byte budget: {shown_size(budget)}, {shown_size(reserve)} of it for markers"]
    for label, own in _each(settings):
        largest = resolve_max_body(own.max_body_size, budget)
        lines.append(f"{label}larger than {shown_size(largest)}: relayed, not stored")
    return lines


def _lifetimes(settings: RouteSettings) -> str:
    absences = (
        f"absences {format_duration(settings.negative_ttl)} at most"
        if settings.cache_missing
        else "absences are not remembered"
    )
    bodies = f"bodies {format_duration(settings.ttl)} where the origin says nothing"
    metadata = f"metadata {format_duration(settings.metadata_ttl)} at most"
    obeys = settings.upstream_cache_control == "obey"
    plain = "Cache-Control" if obeys else "no-store in Cache-Control"
    told = ", else ".join([*settings.targeted_cache_control, plain])
    return f"lifetimes: {bodies}, {absences}, {metadata}; the origin says so in {told}"


def _kind(filesystem: Filesystem) -> str:
    where = f"{filesystem.fstype} mounted at {filesystem.mount_point}"
    if filesystem.kind == "overlay":
        return f"{where} (a container's own layer: gone with the container)"
    if filesystem.kind == "memory":
        return f"{where} (memory, allowed by allow_memory_filesystem)"
    return where
