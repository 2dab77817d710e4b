"""Which settings a running sidecar takes up when they are read again, and which it doesn't."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from chunkside.settings.addresses import BucketAddress
from chunkside.settings.model import Settings
from chunkside.settings.own_credential import may_sign
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.routes import ConfiguredRoute, agreed, lead_to_the_same, value_of

NEED_A_RESTART: Final = (
    *("listen", "admin_listen", "loop", "cache_dir", "cache_size", "marker_reserve"),
    *("index_memory", "max_markers", "memory_size", "allow_memory_filesystem", "min_free"),
)
"""What is built once: sockets, the loop, the directory and the budgets."""

DECIDED_HERE: Final = frozenset(
    {
        *("profile", "max_body_size", "cache_missing", "ttl", "negative_scope", "negative_ttl"),
        *("metadata_ttl", "stale_if_error", "upstream_cache_control", "client_cache_control"),
        *("metadata_names", "absent_statuses", "credential_headers", "ignored_query"),
        *("allow_writes", "cookies", "cors_origins", "client_credentials"),
        *("targeted_cache_control", "mode", "audit_share", "preserve_host"),
    }
)
"""Settings of a route that its way to the origin knows nothing of."""


def taken_up(running: Settings, told: Settings) -> tuple[Settings, tuple[str, ...]]:
    """The settings that hold from now on, and the names of those that wait for a restart."""
    waiting = tuple(
        name for name in NEED_A_RESTART if getattr(told, name) != getattr(running, name)
    )
    return told.model_copy(update={name: getattr(running, name) for name in waiting}), waiting


def differing(one: ConfiguredRoute, other: ConfiguredRoute) -> frozenset[str]:
    """Names of the settings in which two routes differ."""
    return frozenset(
        name for name in RouteSettings.model_fields if value_of(one, name) != value_of(other, name)
    )


def same_way(one: ConfiguredRoute, other: ConfiguredRoute) -> bool:
    """Whether two routes ask their origin alike: one's connections are of use to the other."""
    is_same_origin = one.upstream.location == other.upstream.location
    # Of one place, each account has a secret of its own.
    is_same_account = _account_of(one) == _account_of(other)
    differs = differing(one, other)
    if may_sign(one) and "allow_writes" in differs:
        # What the cloud is asked for a token that may do.
        return False
    return is_same_origin and is_same_account and differs <= DECIDED_HERE


def _account_of(route: ConfiguredRoute) -> str:
    return route.upstream.account if isinstance(route.upstream, BucketAddress) else ""


def other_answers(
    before: Iterable[ConfiguredRoute], after: Iterable[ConfiguredRoute]
) -> dict[str, frozenset[str]]:
    """The origin locations of which not all that was stored may answer any more, and the names of
    the settings that say so.
    """
    after = tuple(after)
    found: dict[str, frozenset[str]] = {}
    for old in before:
        for new in after:
            if not lead_to_the_same(old.upstream, new.upstream):
                continue
            must_agree = frozenset((*agreed(old.settings), *agreed(new.settings)))
            names = differing(old, new) & must_agree
            if names:
                location = old.upstream.location
                found[location] = found.get(location, frozenset()) | names
    return found
