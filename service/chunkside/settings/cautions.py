"""What is allowed and yet seldom meant: told at the start and by `check`."""

from __future__ import annotations

import math

from chunkside.settings.addresses import (
    BucketAddress,
    DirectoryAddress,
    OriginAddress,
    TcpAddress,
    UpstreamAddress,
    is_azure,
)
from chunkside.settings.model import Settings
from chunkside.settings.own_credential import (
    auth_kind,
    client_credentials_of,
    is_this_machine,
    may_sign,
    shows_certificate,
)
from chunkside.settings.routes import ConfiguredRoute
from chunkside.settings.sources import require_routes

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


def cautions(settings: Settings) -> list[str]:
    """Whole sentences, each naming the setting. Raises ConfigurationError where there is no
    upstream.
    """
    told: list[str] = []
    for route in require_routes(settings):
        label = f"route {route.prefix}: " if settings.routes else ""
        own = route.settings
        # Where lifetimes are the origin's alone it is a ceiling, and no lifetime.
        is_lifetime = own.cache_missing and own.profile != "strict"
        if is_lifetime and math.isinf(own.negative_ttl):
            told.append(
                f"{label}negative_ttl is infinity: what appears at the origin beside this sidecar "
                "stays absent until it is purged"
            )
        if own.mode == "observe":
            told.append(
                f"{label}mode is observe: the origin answers every request, and nothing is saved"
            )
        if math.isinf(own.metadata_ttl):
            told.append(
                f"{label}metadata_ttl is infinity: an array that is rewritten at the origin is "
                "never noticed"
            )
        if isinstance(route.upstream, DirectoryAddress) and not route.upstream.path:
            told.append(
                f"{label}upstream is the root of the file system: clients may read every file that "
                "this process may"
            )
        if auth_kind(own) is not None and _goes_in_the_clear(route.upstream):
            told.append(
                f"{label}upstream is http:// and not on this machine: whoever is on the way there "
                "reads the secret of upstream_auth_file"
            )
        if _bears_token(route) and _goes_in_the_clear(route.upstream):
            sent = "tokens and SAS" if is_azure(route.upstream) else "tokens"
            told.append(
                f"{label}upstream_endpoint is http:// and not on this machine: whoever is on the "
                f"way there reads the {sent} that are sent to it; upstream_auth=none sends none"
            )
        if own.upstream_cert_file is not None and not shows_certificate(route):
            told.append(f"{label}upstream is no https://: upstream_cert_file is shown to nobody")
        is_removed = "cookie" in {name.lower() for name in own.credential_headers}
        if own.cookies == "forward" and client_credentials_of(route) == "strip" and is_removed:
            told.append(
                f"{label}cookies is forward, and yet client_credentials=strip removes Cookie, "
                "which credential_headers names"
            )
        told += [
            f"{label}upstream is this sidecar's own {setting} {address}: requests would run in a "
            "circle"
            for setting in ("listen", "admin_listen")
            for address in getattr(settings, setting)
            if isinstance(address, TcpAddress)
            and route.upstream.location in _locations(address.host, address.port)
        ]
    return told


def _bears_token(route: ConfiguredRoute) -> bool:
    """Whether what a cloud's chain finds is sent itself, and doesn't just sign."""
    upstream = route.upstream
    is_sent = isinstance(upstream, BucketAddress) and upstream.scheme in ("gs", "az")
    return may_sign(route) and is_sent


def _goes_in_the_clear(upstream: OriginAddress) -> bool:
    address = upstream.endpoint if isinstance(upstream, BucketAddress) else upstream
    if not isinstance(address, UpstreamAddress):
        return False
    return address.scheme == "http" and not is_this_machine(address.host)


def _locations(host: str, port: int) -> set[str]:
    """How an upstream could be called that listens there."""
    hosts = _LOOPBACK if host in _LOOPBACK else {host}
    return {f"http://{each}:{port}" for each in hosts}
