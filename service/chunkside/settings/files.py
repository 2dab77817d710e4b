"""Files that settings name and that must be there at the start."""

from __future__ import annotations

from chunkside.settings.errors import ConfigurationError
from chunkside.settings.model import Settings
from chunkside.settings.sources import require_routes
from chunkside.upstream.tls import UnfitAuthorities, context_of


def refuse_unfit_files(settings: Settings) -> None:
    """Raises ConfigurationError."""
    for route in require_routes(settings):
        ca_file = route.settings.upstream_ca_file
        if ca_file is None:
            continue
        try:
            context_of(ca_file)
        except UnfitAuthorities as error:
            # A route that has none of its own has the one beside it.
            is_its_own = bool(settings.routes) and ca_file != settings.upstream_ca_file
            where = f"routes[{route.prefix}]." if is_its_own else ""
            raise ConfigurationError(
                f"{where}upstream_ca_file",
                ca_file,
                "a file of certificates in PEM that can be read",
                reason=str(error),
            ) from error
