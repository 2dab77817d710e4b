"""Every setting, its default and its meaning: what `--help`, README and `check` are made of."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from chunkside.settings.addresses import TcpAddress
from chunkside.settings.kinds import (
    AutoShare,
    AutoSize,
    Cookies,
    Count,
    Directory,
    Duration,
    HeaderNames,
    Listens,
    LogLevel,
    Loop,
    NegativeScope,
    Several,
    Switch,
    Texts,
    Timeout,
    Upstream,
    Wait,
)


class Settings(BaseSettings):
    """What one sidecar was told. Durations are seconds, sizes bytes.

    Constructing it reads nothing but its arguments; `load_settings` brings flags, environment and
    file together. A value of `auto` is resolved by `chunkside.settings.derived` once the volume
    is known.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="CHUNKSIDE_", validate_default=False
    )

    upstream: Upstream = Field(
        default=None,
        description="Origin: an `http://` or `https://` URL with an optional path prefix. Required",
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
    loop: Loop = Field(default="uvloop", description="Event loop")
    cache_dir: Directory = Field(
        default=None,
        description="Cache directory. Left out: XDG cache, else `$TMPDIR`, else `/var/tmp`, the "
        "first that is fit",
    )
    cache_size: AutoShare = Field(
        default="auto",
        description="Bytes for bodies, ranges and markers. `auto`: 10 % of the volume, at least "
        "1 GiB, at most 50 GiB, never more than half of what is free. With `0`, or without a fit "
        "disk, `memory_size` holds instead",
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
    max_body_size: AutoSize = Field(
        default="auto",
        description="Larger bodies are relayed, not stored. `auto`: an eighth of `cache_size`, "
        "at most 2 GiB",
    )
    min_free: AutoShare = Field(
        default="auto",
        description="Free space left on the volume. `auto`: 10 GiB, but at most 10 % of the "
        "volume; `0` switches it off",
    )
    cache_missing: Switch = Field(default=True, description="Remember absences at all")
    ttl: Duration = Field(
        default=300.0, description="Lifetime of bodies where the origin gives none; then validated"
    )
    negative_scope: NegativeScope = Field(
        default="auto",
        description="What a marker answers. `get`: full GETs; `all`: HEAD and ranges too, whose "
        "404s are followed by a full GET that makes the marker; `auto`: `all` where writes are "
        "refused, else `get`",
    )
    negative_ttl: Duration = Field(
        default=300.0, description="Ceiling of a marker's life; not renewed by use"
    )
    metadata_ttl: Duration = Field(
        default=5.0, description="Ceiling of both lifetimes for metadata documents"
    )
    metadata_names: Texts = Field(
        default=(), description="Further glob patterns of names that are metadata, not chunks"
    )
    credential_headers: HeaderNames = Field(
        default=(
            "Authorization",
            "Cookie",
            "X-Api-Key",
            "X-Auth-Token",
            "Private-Token",
            "X-Amz-Security-Token",
        ),
        description="Request headers that tell clients apart: what was learned with one value "
        "answers only that value",
    )
    ignored_query: Texts = Field(
        default=("x-id", "tensorstore"),
        description="Query parameters that are forwarded but are not part of the key",
    )
    allow_writes: Switch = Field(
        default=True, description="Forward unsafe methods; else they are refused with 405"
    )
    cookies: Cookies = Field(
        default="drop",
        description="`Cookie` and `Set-Cookie`: `drop` or `forward` (cookies don't keep to ports)",
    )
    upstream_connect_timeout: Timeout = Field(
        default=3.0, description="Longest wait for a connection to the origin"
    )
    upstream_first_byte_timeout: Timeout = Field(
        default=8.0, description="Longest wait for the first byte of one try"
    )
    upstream_idle_timeout: Timeout = Field(
        default=15.0, description="Longest silence within a body from the origin"
    )
    upstream_retries: Count = Field(
        default=3,
        description="Further tries after the first, where the connection failed; safe methods only",
    )
    upstream_deadline: Timeout = Field(
        default=25.0, description="Longest wait for the first byte, queueing and all tries included"
    )
    upstream_write_timeout: Timeout = Field(
        default=300.0,
        description="Longest wait for the answer to an unsafe method or a request with a body, "
        "once the body has been sent",
    )
    upstream_connections: Several = Field(default=128, description="Most connections to the origin")
    header_timeout: Timeout = Field(
        default=30.0, description="Longest wait for the whole head of a client's request"
    )
    idle_timeout: Timeout = Field(
        default=120.0, description="How long a client's connection is kept without a request"
    )
    shutdown_timeout: Wait = Field(
        default=10.0, description="How long running requests may take to end after SIGTERM"
    )
    log_level: LogLevel = Field(default="info", description="`debug`, `info`, `warning` or `error`")

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
