"""Who signs requests: of one and the same either the client or the sidecar."""

from __future__ import annotations

from collections.abc import Iterable

from chunkside.settings.addresses import UpstreamAddress
from chunkside.settings.errors import ConfigurationError, NotAllowedError
from chunkside.settings.routes import ConfiguredRoute


def refuse_two_signers(routes: Iterable[ConfiguredRoute]) -> None:
    """Refuses resolved routes that would leave nothing of a client's signature to verify. Raises
    ConfigurationError.
    """
    for route in routes:
        why = _why_not(route) if route.settings.preserve_host else None
        if why is not None:
            where = f"routes[{route.prefix}]." if route.prefix != "/" else ""
            name = f"{where}preserve_host"
            raise ConfigurationError(name, "true", why.allowed, why.remedy, reason=why.reason)


def _why_not(route: ConfiguredRoute) -> NotAllowedError | None:
    own, upstream = route.settings, route.upstream
    if not isinstance(upstream, UpstreamAddress):
        return NotAllowedError(
            f"the sidecar itself asks {upstream}, and a signature can't be both its and a client's",
            "true with http:// and https://",
            "give the store's own URL as upstream, or leave preserve_host out",
        )
    if own.upstream_auth not in ("auto", "none"):
        return NotAllowedError(
            f"upstream_auth is {own.upstream_auth}: a credential can't be both the sidecar's and a "
            "client's",
            "true with upstream_auth=none",
            "leave one of them out",
        )
    if own.client_credentials == "strip":
        return NotAllowedError(
            "client_credentials is strip, which removes what clients sign",
            "true with client_credentials=partition or share",
            "leave one of them out",
        )
    if route.prefix.rstrip("/") != upstream.prefix:
        return NotAllowedError(
            f"readers' path is {route.prefix} and the upstream's {upstream.prefix or '/'}, and a "
            "signature holds for one path",
            "true where both are the same",
            "let the route's prefix be the upstream's path",
        )
    return None
