"""What the sidecar was told: flags over environment over file, checked before anything starts.

`errors` says what is wrong in one line; `quantities`, `addresses` and `kinds` read single values;
`route_settings` are those settings that a route may have its own of, `routes` reads routes, and
`model` is all settings; `sources` brings them together and alone reads the environment; `derived`
is what `auto` comes to; `reloading` says what a running sidecar takes up; `cache_directory`,
`forecast`, `cautions` and `table` say where the cache goes, what would happen, what of that is
seldom meant, and what there is to set; `own_credential` says what follows from a credential of the
sidecar's own, `signers` who signs; `files` looks at files that must be there, `directories` at
those that are upstreams.
"""

from chunkside.settings.addresses import (
    BucketAddress,
    DirectoryAddress,
    ListenAddress,
    TcpAddress,
    UnixAddress,
    UpstreamAddress,
    is_azure,
    root_of,
)
from chunkside.settings.cache_directory import MEMORY_IS_MEANT, locate_cache, open_cache
from chunkside.settings.cautions import cautions
from chunkside.settings.derived import (
    memory_limit,
    resolve_cache_size,
    resolve_marker_reserve,
    resolve_max_body,
    resolve_memory_size,
    resolve_min_free,
    resolve_negative_scope,
)
from chunkside.settings.directories import refuse_cache_beneath
from chunkside.settings.errors import ConfigurationError
from chunkside.settings.files import refuse_unfit_files
from chunkside.settings.forecast import forecast
from chunkside.settings.model import Settings
from chunkside.settings.own_credential import (
    allows_writes,
    auth_kind,
    client_credentials_of,
    identity_of,
    may_sign,
    refuse_open_ports,
    tls_files,
)
from chunkside.settings.quantities import Percent
from chunkside.settings.reloading import differing, other_answers, same_way, taken_up
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.routes import ConfiguredRoute, obeys_origin, path_of
from chunkside.settings.sources import load_settings, require_routes
from chunkside.settings.table import settings_reference, settings_table

__all__ = [
    "MEMORY_IS_MEANT",
    "BucketAddress",
    "ConfigurationError",
    "ConfiguredRoute",
    "DirectoryAddress",
    "ListenAddress",
    "Percent",
    "RouteSettings",
    "Settings",
    "TcpAddress",
    "UnixAddress",
    "UpstreamAddress",
    "allows_writes",
    "auth_kind",
    "cautions",
    "client_credentials_of",
    "differing",
    "forecast",
    "identity_of",
    "is_azure",
    "load_settings",
    "locate_cache",
    "may_sign",
    "memory_limit",
    "obeys_origin",
    "open_cache",
    "other_answers",
    "path_of",
    "refuse_cache_beneath",
    "refuse_open_ports",
    "refuse_unfit_files",
    "require_routes",
    "resolve_cache_size",
    "resolve_marker_reserve",
    "resolve_max_body",
    "resolve_memory_size",
    "resolve_min_free",
    "resolve_negative_scope",
    "root_of",
    "same_way",
    "settings_reference",
    "settings_table",
    "taken_up",
    "tls_files",
]
