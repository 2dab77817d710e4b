"""Whether the sidecar has a credential of its own towards a route's upstream, and what follows."""

from __future__ import annotations

from chunkside.core.key import ClientCredentials
from chunkside.core.neighbours import is_loopback
from chunkside.settings.addresses import DirectoryAddress, TcpAddress, UpstreamAddress
from chunkside.settings.errors import ConfigurationError
from chunkside.settings.model import Settings
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.routes import ConfiguredRoute
from chunkside.settings.sources import require_routes
from chunkside.upstream.credential import CredentialKind
from chunkside.upstream.tls import TlsFiles


def auth_kind(settings: RouteSettings) -> CredentialKind | None:
    """None where nothing is added to requests."""
    match settings.upstream_auth:
        case "auto" | "none":
            return None
        case kind:
            return kind


def client_credentials_of(settings: RouteSettings) -> ClientCredentials:
    """With a credential of the sidecar's own that is the one which counts."""
    setting = settings.client_credentials
    if setting != "auto":
        return setting
    return "partition" if auth_kind(settings) is None else "strip"


def shows_certificate(route: ConfiguredRoute) -> bool:
    upstream = route.upstream
    is_tls = isinstance(upstream, UpstreamAddress) and upstream.scheme == "https"
    return is_tls and route.settings.upstream_cert_file is not None


def tls_files(route: ConfiguredRoute) -> TlsFiles:
    own = route.settings
    if not shows_certificate(route):
        return TlsFiles(own.upstream_ca_file)
    return TlsFiles(own.upstream_ca_file, own.upstream_cert_file, own.upstream_key_file)


def identity_of(route: ConfiguredRoute) -> str:
    """The sidecar's own credential by what configuration names, never by its secret; "" for
    none.
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
    return not identity_of(route) if setting == "auto" else setting


def refuse_open_ports(settings: Settings) -> None:
    """Refuses to let whoever can reach this machine use the sidecar's own credential. Raises
    ConfigurationError.
    """
    holder = next((route for route in require_routes(settings) if identity_of(route)), None)
    if holder is None or settings.allowed_clients:
        return
    for address in settings.listen:
        if isinstance(address, TcpAddress) and not is_this_machine(address.host):
            raise ConfigurationError(
                "listen",
                str(address),
                "localhost, a loopback address or unix:/PATH, unless allowed_clients is set",
                "set allowed_clients to the networks that may read with that credential",
                reason=f"others could use the sidecar's own credential for {holder.upstream}",
            )


def is_this_machine(host: str) -> bool:
    return host == "localhost" or is_loopback(host)
