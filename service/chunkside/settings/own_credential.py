"""Whether the sidecar has a credential of its own towards a route's upstream, and what follows."""

from __future__ import annotations

from chunkside.core.key import ClientCredentials
from chunkside.core.neighbours import is_loopback
from chunkside.settings.addresses import (
    BucketAddress,
    DirectoryAddress,
    TcpAddress,
    UpstreamAddress,
)
from chunkside.settings.errors import ConfigurationError
from chunkside.settings.model import Settings
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.routes import ConfiguredRoute
from chunkside.settings.sources import require_routes
from chunkside.upstream.clouds import CLOUDS
from chunkside.upstream.credential import CredentialKind
from chunkside.upstream.tls import TlsFiles


def auth_kind(settings: RouteSettings) -> CredentialKind | None:
    """None where nothing from a file is added to requests."""
    match settings.upstream_auth:
        case "auto" | "none" | "aws" | "gcp" | "azure":
            return None
        case kind:
            return kind


def may_sign(route: ConfiguredRoute) -> bool:
    """Whether requests are signed if a cloud's own chain of credentials finds any."""
    upstream = route.upstream
    if not isinstance(upstream, BucketAddress):
        return False
    return route.settings.upstream_auth in ("auto", CLOUDS[upstream.scheme].auth)


def client_credentials_of(route: ConfiguredRoute) -> ClientCredentials:
    """With a credential of the sidecar's own that is the one which counts. What clients sign for
    this machine is of no use to a store.
    """
    setting = route.settings.client_credentials
    if setting != "auto":
        return setting
    is_bucket = isinstance(route.upstream, BucketAddress)
    return "strip" if is_bucket or auth_kind(route.settings) is not None else "partition"


def shows_certificate(route: ConfiguredRoute) -> bool:
    upstream = route.upstream
    address = upstream.endpoint if isinstance(upstream, BucketAddress) else upstream
    is_tls = isinstance(address, UpstreamAddress) and address.scheme == "https"
    return is_tls and route.settings.upstream_cert_file is not None


def tls_files(route: ConfiguredRoute) -> TlsFiles:
    own = route.settings
    if not shows_certificate(route):
        return TlsFiles(own.upstream_ca_file)
    return TlsFiles(own.upstream_ca_file, own.upstream_cert_file, own.upstream_key_file)


def identity_of(route: ConfiguredRoute) -> str:
    """The sidecar's own credential by what settings name, never by its secret; "" for none. What a
    cloud's own chain finds is known by more than settings.
    """
    own, kind = route.settings, auth_kind(route.settings)
    if isinstance(route.upstream, DirectoryAddress):
        return ""
    named = [f"{kind} {own.upstream_auth_file}"] if kind is not None else []
    if shows_certificate(route):
        named.append(f"certificate {own.upstream_cert_file}")
    # A path may hold bytes that are no text.
    return " ".join(named).encode(errors="backslashreplace").decode()


def allows_writes(route: ConfiguredRoute) -> bool:
    """Whoever reaches the sidecar would write with its credential: only where that is wanted."""
    setting = route.settings.allow_writes
    if setting != "auto":
        return setting
    return not identity_of(route) and not isinstance(route.upstream, BucketAddress)


def refuse_open_ports(settings: Settings) -> None:
    """Refuses to let whoever can reach this machine use the sidecar's own credential. Raises
    ConfigurationError.
    """
    routes = require_routes(settings)
    holder = next((route for route in routes if identity_of(route) or may_sign(route)), None)
    if holder is None or settings.allowed_clients:
        return
    for address in settings.listen:
        if isinstance(address, TcpAddress) and not is_this_machine(address.host):
            raise ConfigurationError(
                "listen",
                str(address),
                "localhost, a loopback address or unix:/PATH, unless allowed_clients is set",
                "set allowed_clients to the networks that may read with that credential"
                + (", or upstream_auth=none for public buckets" if may_sign(holder) else ""),
                reason=f"others could use the sidecar's own credential for {holder.upstream}",
            )


def is_this_machine(host: str) -> bool:
    return host == "localhost" or is_loopback(host)
