"""Every setting, its default and its meaning: what `--help`, README and `check` are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainValidator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from chunkside.settings.addresses import TcpAddress
from chunkside.settings.kinds import (
    AutoShare,
    AutoSize,
    Count,
    Directory,
    Duration,
    HostNames,
    Listens,
    LogFormat,
    LogLevel,
    Loop,
    Networks,
    Shape,
    Share,
    Switch,
    Timeout,
    Upstream,
    Wait,
)
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.routes import ConfiguredRoute, read_routes


def _read_routes(value: object) -> tuple[ConfiguredRoute, ...]:
    return read_routes(value, Settings.model_fields)


Routes = Annotated[
    tuple[ConfiguredRoute, ...],
    PlainValidator(_read_routes),
    Shape("JSON", lambda routes: ", ".join(route.prefix for route in routes)),
]


class _SidecarSettings(BaseSettings):
    """What holds for a sidecar as a whole."""

    upstream: Upstream = Field(
        default=None,
        description="Origin: an `http://` or `https://` URL with an optional path prefix, `s3://` "
        "or `gs://` with an optional bucket and prefix, `az://ACCOUNT` with an optional container "
        "and prefix, or `file://` and the absolute path of a directory. Required unless `routes`",
    )
    routes: Routes = Field(
        default=(),
        description="Several upstreams by path prefix, in place of `upstream`: a list of objects, "
        "each with `prefix`, `upstream` and whatever a route may have of its own "
        "(docs/routes.md). As a flag or environment variable the same in JSON",
    )
    listen: Listens = Field(
        default=(TcpAddress("localhost", 8100),),
        description="Data port; several; `localhost` is both loopback families; `unix:/path`; "
        "port 0 picks a free one",
    )
    admin_listen: Listens = Field(
        default=(TcpAddress("localhost", 8101),),
        description="Metrics, health and admin; never on the data port",
    )
    allowed_hosts: HostNames = Field(
        default=(),
        description="Further names that clients may reach both ports by. Without it: IP addresses, "
        "`localhost`, names without a dot, and those that public DNS never answers",
    )
    allowed_clients: Networks = Field(
        default=(),
        description="Networks from which the data port may be used, such as `10.0.0.0/8`; clients "
        "elsewhere are refused with 403, on this machine too unless `127.0.0.0/8` and `::1` are "
        "among them. Left out: all. Unix sockets are for whoever can open them",
    )
    loop: Loop = Field(default="uvloop", description="Event loop")
    cache_dir: Directory = Field(
        default=None,
        description="Cache directory. Left out: XDG cache, else `$TMPDIR`, else `/var/tmp`, the "
        "first that is fit",
    )
    cache_size: AutoShare = Field(
        default="auto",
        description="Bytes for bodies, ranges and markers (remembered absences). `auto`: 10 % of "
        "the volume, at least 1 GiB, at most 50 GiB, never more than half of what is free. With "
        "`0`, or without a fit disk, `memory_size` holds instead",
    )
    marker_reserve: AutoSize = Field(
        default="auto",
        description="What markers may use even where bodies have filled the rest. `auto`: 5 % of "
        "the byte budget, at most 64 MiB",
    )
    index_memory: AutoSize = Field(
        default="auto",
        description="Resident bytes of entries of all kinds; markers go first, down to a quarter. "
        "`auto`: a quarter of the cgroup's limit, else 256 MiB",
    )
    max_markers: Count = Field(default=1_000_000, description="Most markers that are kept")
    memory_size: AutoSize = Field(
        default="auto",
        description="Bytes for bodies in memory, used only where the disk can't be. `auto`: a "
        "quarter of the cgroup's limit, else 256 MiB",
    )
    allow_memory_filesystem: Switch = Field(
        default=False, description="Accept a tmpfs as cache directory"
    )
    retention: Duration = Field(
        default=604_800.0, description="Idle time after which a body leaves the disk"
    )
    min_free: AutoShare = Field(
        default="auto",
        description="Free space left on the volume. `auto`: 10 GiB, but at most 10 % of the "
        "volume; `0` switches it off",
    )
    header_timeout: Timeout = Field(
        default=30.0, description="Longest wait for the whole head of a client's request"
    )
    idle_timeout: Timeout = Field(
        default=120.0, description="How long a client's connection is kept without a request"
    )
    drain_time: Wait = Field(
        default=0.0,
        description="How long requests are still taken after SIGTERM, while `/readyz` says no. A "
        "second SIGTERM ends it",
    )
    shutdown_timeout: Wait = Field(
        default=10.0,
        description="How long running requests may take to end once no more are taken. Another "
        "SIGTERM cuts them off",
    )
    log_level: LogLevel = Field(default="info", description="`debug`, `info`, `warning` or `error`")
    log_format: LogFormat = Field(
        default="console",
        description="Log lines, on stderr: `console` is `key=value`, on a terminal and elsewhere; "
        "`json` is one object a line, and nothing else is written, to stdout neither",
    )
    log_requests: Share = Field(
        default=0.0,
        description="Share of requests that get a log line each, from `0` (none) to `1` (all), "
        "whatever `log_level` is. Values of query parameters are left out unless they are known "
        "to hold no secret",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments alone: the library's own reading of the environment takes lists for JSON,
        lets unknown names pass, and would reach into every test."""
        return (init_settings,)


class Settings(RouteSettings, _SidecarSettings):
    """What one sidecar was told. Durations are seconds, sizes bytes.

    Constructing it reads nothing but its arguments; `load_settings` brings flags, environment and
    file together. A value of `auto` is resolved by `chunkside.settings.derived` once the volume
    is known. What of it a route may have its own is the default of all routes.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="CHUNKSIDE_", validate_default=False
    )
