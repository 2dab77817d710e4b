"""What `serve` would do with these settings, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chunkside.core.key import ClientCredentials
from chunkside.settings.addresses import BucketAddress, ListenAddress, TcpAddress, root_of
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
from chunkside.settings.directories import refuse_cache_beneath, why_not_there
from chunkside.settings.errors import ConfigurationError
from chunkside.settings.files import refuse_unfit_files
from chunkside.settings.model import Settings
from chunkside.settings.own_credential import (
    allows_writes,
    auth_kind,
    client_credentials_of,
    may_sign,
    refuse_open_ports,
    shows_certificate,
)
from chunkside.settings.quantities import format_duration
from chunkside.settings.quantities import format_size_rounded as shown_size
from chunkside.settings.reloading import NEED_A_RESTART
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.routes import ConfiguredRoute, obeys_origin, path_of
from chunkside.settings.sources import require_routes
from chunkside.store.filesystem import Chosen, Filesystem, MemoryOnly, Volume, measure
from chunkside.upstream.clouds import CLOUDS

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
        problems += _refusals(settings)
    try:
        choice = locate_cache(settings, environment)
        if isinstance(choice, Chosen) and not problems:
            routes = require_routes(settings)
            refuse_cache_beneath((each.upstream for each in routes), choice.directory)
        lines += _storage(settings, choice, cgroup_root)
    except ConfigurationError as problem:
        problems.append(problem)
    lines.append(f"SIGHUP: all is read anew but {', '.join(NEED_A_RESTART)}")
    lines += [
        f"{label}{_lifetimes(own, obeys=obeys)}"
        for obeys, (label, own) in zip(_obeying(settings), _each(settings), strict=True)
    ]
    return Forecast(tuple(lines), tuple(problems))


def _refusals(settings: Settings) -> list[ConfigurationError]:
    problems = []
    for refuse in (refuse_unfit_files, refuse_open_ports):
        try:
            refuse(settings)
        except ConfigurationError as problem:
            problems.append(problem)
    return problems


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
        path = path_of(route).strip("/")
        urls = " or ".join(reader_url(address, path) for address in settings.listen)
        lines.append(f"{label}readers use: {urls} in place of {root_of(route.upstream)}")
    if all(route.prefix != "/" for route in routes):
        lines.append("any other path: refused with 421")
    lines.append(f"metrics and admin: {admin}")
    for route, (label, _) in zip(routes, _each(settings), strict=True):
        lines.append(
            f"{label}writes: {'forwarded' if allows_writes(route) else 'refused with 405'}"
        )
        lines.append(f"{label}clients' credentials: {_CREDENTIALS[client_credentials_of(route)]}")
        lines += [f"{label}{told}" for told in _ways(route)]
    if settings.allowed_clients:
        networks = ", ".join(map(str, settings.allowed_clients))
        lines.append(f"clients: from {networks} and by sockets; others are refused with 403")
    lines += [
        f"warning: upstream {address} can't be read: {trouble} Requests are answered 503 until "
        "it can"
        for address, trouble in why_not_there(route.upstream for route in routes).items()
    ]
    return [*lines, *(f"warning: {caution}" for caution in cautions(settings))]


def _ways(route: ConfiguredRoute) -> list[str]:
    """How the origin is asked, where that isn't just as the client asks."""
    own, kind, lines = route.settings, auth_kind(route.settings), []
    if isinstance(route.upstream, BucketAddress):
        lines.append(_way_to_bucket(route, route.upstream))
    if kind is not None:
        file = own.upstream_auth_file or "no file"
        lines.append(
            f"own credential: {kind}, from {file}; what clients bring in "
            f"{', '.join(own.credential_headers)} goes no further"
        )
    if own.preserve_host:
        lines.append(
            "what clients sign: passed on with their own Host, each to the origin, none stored"
        )
    if shows_certificate(route):
        lines.append(f"own certificate: from {own.upstream_cert_file}")
    if own.follow_redirects:
        hosts = ", ".join(map(str, own.follow_redirects))
        lines.append(f"redirects of reads are followed to {hosts}; others pass through")
    return lines


def _way_to_bucket(route: ConfiguredRoute, bucket: BucketAddress) -> str:
    cloud, place = CLOUDS[bucket.scheme], route.prefix.rstrip("/")
    signs = "are not signed"
    if may_sign(route):
        signs = f"are signed with what {cloud.whose} chain of credentials finds"
        if not cloud.is_installed:
            # Azure's keys and SAS need no library.
            own = " but by a key or SAS of the environment" if bucket.scheme == "az" else ""
            signs = (
                f"are not signed{own}, since {cloud.library} isn't installed (pip install "
                f"'chunkside[{cloud.auth}]')"
            )
        if route.settings.upstream_auth_file is not None:
            signs = f"are signed with what {route.settings.upstream_auth_file} holds"
    return (
        f"the store is asked at {bucket.endpoint or bucket.location}, requests {signs}; its "
        f"clients use {place or 'the data port'} as endpoint, path style, without signing"
    )


def _each(settings: Settings) -> list[tuple[str, RouteSettings]]:
    """Each route's settings, and how a line about them begins."""
    if not settings.routes:
        return [("", settings)]
    return [(f"route {route.prefix}: ", route.settings) for route in require_routes(settings)]


def _obeying(settings: Settings) -> list[bool]:
    if not settings.routes:
        return [obeys_origin(settings.upstream, settings)]
    return [obeys_origin(each.upstream, each.settings) for each in require_routes(settings)]


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


def _lifetimes(settings: RouteSettings, *, obeys: bool) -> str:
    absences = _absences(settings)
    bodies = f"bodies {format_duration(settings.ttl)} where the origin says nothing"
    metadata = f"metadata {format_duration(settings.metadata_ttl)} at most"
    plain = "Cache-Control" if obeys else "no-store in Cache-Control"
    told = ", else ".join([*settings.targeted_cache_control, plain])
    return f"lifetimes: {bodies}, {absences}, {metadata}; the origin's own are those of {told}"


def _absences(settings: RouteSettings) -> str:
    if not settings.cache_missing:
        return "absences are not remembered"
    if math.isinf(settings.negative_ttl) and settings.profile == "strict":
        return "absences as long as the origin says"
    lives = f"absences {format_duration(settings.negative_ttl)} at most"
    if 403 not in settings.absent_statuses:
        return lives
    return f"{lives}, a chunk's 403 as one once its array's own document was read after it"


def _kind(filesystem: Filesystem) -> str:
    where = f"{filesystem.fstype} mounted at {filesystem.mount_point}"
    if filesystem.kind == "overlay":
        return f"{where} (a container's own layer: gone with the container)"
    if filesystem.kind == "memory":
        return f"{where} (memory, allowed by allow_memory_filesystem)"
    return where
