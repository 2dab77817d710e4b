"""Several upstreams by path prefix: objects, each read by the rules of plain settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from pydantic import ValidationError

from chunkside.core.routes import plainest
from chunkside.core.subtree import is_beneath
from chunkside.settings.addresses import (
    UPSTREAMS,
    BucketAddress,
    OriginAddress,
    parse_upstream,
)
from chunkside.settings.errors import (
    ConfigurationError,
    NotAllowedError,
    RouteNotAllowedError,
    did_you_mean,
)
from chunkside.settings.route_settings import RouteSettings

ROUTES = (
    'a list of objects such as {"prefix": "/era5", "upstream": "https://host/era5", "ttl": "1h"}, '
    "or one object whose names are the prefixes; in JSON where it is a text"
)
PREFIXES = "/, or a path such as /era5, percent-encoded as readers send it"
NAMES: Final = ("prefix", "upstream", *RouteSettings.model_fields)
MOST_ROUTES: Final = 256
"""Each has connections, and series in /metrics."""
LONGEST_PREFIX: Final = 128
# What decides which answers are one and the same: routes to the same objects share those.
AGREED: Final = (
    "client_credentials",
    "credential_headers",
    "cookies",
    "follow_redirects",
    "ignored_query",
    "metadata_names",
    "upstream_cache_control",
    "targeted_cache_control",
)

_SEGMENTS = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%(?!2[Ff]|5[Cc]|00)[0-9A-Fa-f]{2})+)+")


@dataclass(frozen=True, slots=True)
class ConfiguredRoute:
    """`prefix`: "/", or a path without a slash at its end. `settings`: what the route says itself,
    or, of a resolved route, all that holds for it.
    """

    prefix: str
    upstream: OriginAddress
    settings: RouteSettings


def read_routes(value: object, names_beside: Iterable[str]) -> tuple[ConfiguredRoute, ...]:
    """`names_beside`: what can be set beside `routes`."""
    items = _read_json(value) if isinstance(value, str) else value
    if isinstance(items, Mapping):
        items = [_with_prefix(prefix, route) for prefix, route in items.items()]
    if not isinstance(items, (list, tuple)):
        raise _refusal("routes", "neither a list nor an object", ROUTES)
    if len(items) > MOST_ROUTES:
        raise _refusal("routes", "too many", f"at most {MOST_ROUTES} routes")
    routes: dict[bytes, ConfiguredRoute] = {}
    for number, item in enumerate(items):
        route = _read_route(item, f"routes[{number}]", frozenset(names_beside))
        # Decoded, since two spellings of one path would be one to many origins and readers.
        path = plainest(route.prefix.encode())
        if path in routes:
            raise _refusal(
                f"routes[{number}].prefix",
                f"the route {routes[path].prefix} has this path already",
                "one route for each path",
                value=route.prefix,
            )
        routes[path] = route
    return tuple(routes.values())


def _with_prefix(prefix: object, route: object) -> object:
    """One route of an object by prefixes: what it has, or its upstream alone."""
    if isinstance(route, str):
        return {"prefix": prefix, "upstream": route}
    if not isinstance(route, Mapping) or "prefix" in route:
        raise _refusal(f"routes[{prefix}]", "neither an upstream nor an object", ROUTES)
    return {"prefix": prefix, **route}


def _read_json(text: str) -> object:
    if not text.strip():
        return ()
    try:
        return json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        if isinstance(error, NotAllowedError):
            raise
        raise _refusal("routes", "not JSON", ROUTES) from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _refusal("routes", "a name is there twice in one object", ROUTES)
    return members


def _read_route(item: object, where: str, names_beside: frozenset[str]) -> ConfiguredRoute:
    if isinstance(item, ConfiguredRoute):
        return item
    if not isinstance(item, Mapping) or not all(isinstance(name, str) for name in item):
        raise _refusal(where, "not an object of names and values", ROUTES)
    for name in ("prefix", "upstream"):
        if name not in item:
            raise _refusal(
                f"{where}.{name}", "not set", PREFIXES if name == "prefix" else UPSTREAMS
            )
    prefix = _read_prefix(item["prefix"], f"{where}.prefix")
    where = f"routes[{prefix}]"
    for name in item:
        if name not in NAMES:
            raise _unknown(name, where, names_beside)
    try:
        upstream = parse_upstream(item["upstream"])
    except NotAllowedError as error:
        raise RouteNotAllowedError(f"{where}.upstream", item["upstream"], error) from error
    own = {name: value for name, value in item.items() if name not in ("prefix", "upstream")}
    try:
        return ConfiguredRoute(prefix, upstream, RouteSettings.model_validate(own))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        refusal = first.get("ctx", {}).get("error")
        if not isinstance(refusal, NotAllowedError):
            refusal = NotAllowedError("not allowed", first["msg"])
        raise RouteNotAllowedError(f"{where}.{name}", own[name], refusal) from error


def _read_prefix(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise _refusal(where, "does not begin with /", PREFIXES, value=value)
    prefix = value.rstrip("/")
    if not prefix:
        return "/"
    if len(prefix) > LONGEST_PREFIX:
        raise _refusal(where, f"longer than {LONGEST_PREFIX} characters", PREFIXES, value=value)
    if _SEGMENTS.fullmatch(prefix) is None or _has_dot_segment(prefix):
        raise _refusal(
            where,
            "not a path that can be sent as it is",
            PREFIXES,
            "no query, no empty or dot segment, no encoded slash",
            value=value,
        )
    return prefix


def _has_dot_segment(prefix: str) -> bool:
    return any(not plainest(segment.encode()) for segment in prefix.split("/")[1:])


def _unknown(name: str, where: str, names_beside: frozenset[str]) -> RouteNotAllowedError:
    remedy = did_you_mean(name, NAMES)
    reason = "no such setting of a route"
    if name in names_beside:
        reason, remedy = "holds for the whole sidecar", f"set {name} beside routes"
    return _refusal(f"{where}.{name}", reason, ", ".join(NAMES), remedy)


def _refusal(
    setting: str, reason: str, allowed: str, remedy: str | None = None, *, value: object = None
) -> RouteNotAllowedError:
    return RouteNotAllowedError(setting, value, NotAllowedError(reason, allowed, remedy))


def refuse_disagreement(routes: Iterable[ConfiguredRoute], source: str | None) -> None:
    """Refuses resolved routes that lead to some of the same objects and differ in what makes two
    answers one: what one learnt with a credential, say, would answer the other without it.
    """
    for one, other in combinations(routes, 2):
        if not lead_to_the_same(one.upstream, other.upstream):
            continue
        for name in agreed(one.settings):
            held, differing = value_of(one, name), value_of(other, name)
            if held != differing and (name != "profile" or "strict" in (held, differing)):
                raise ConfigurationError(
                    f"routes[{other.prefix}].{name}",
                    differing if isinstance(differing, str) else ", ".join(map(str, differing)),
                    f"the same for both, such as {name} beside routes",
                    reason=f"differs from that of {one.prefix}, which leads to the same objects",
                    source=source,
                )


def agreed(settings: RouteSettings) -> tuple[str, ...]:
    # Where bodies are shared, `strict` alone asks the origin whether it lets them be.
    return (*AGREED, "profile") if settings.client_credentials == "share" else AGREED


def path_of(route: ConfiguredRoute) -> str:
    """The path on the data port that stands for the upstream, with a slash at its end. Of a bucket
    it goes on with the bucket, as its store's own paths do.
    """
    upstream = route.upstream
    below = upstream.scope if isinstance(upstream, BucketAddress) else ""
    return route.prefix.removesuffix("/") + below + "/"


def obeys_origin(upstream: OriginAddress | None, settings: RouteSettings) -> bool:
    """Whether `Cache-Control` of bodies counts. Google's store stamps `private, max-age=0` on all
    that isn't public.
    """
    setting = settings.upstream_cache_control
    if setting != "auto":
        return setting == "obey"
    return not (isinstance(upstream, BucketAddress) and upstream.scheme == "gs")


def value_of(route: ConfiguredRoute, name: str) -> Any:
    """What holds of a route's setting: two that mean the same may be told in different words."""
    if name == "upstream_cache_control":
        return "obey" if obeys_origin(route.upstream, route.settings) else "ignore"
    return getattr(route.settings, name)


def lead_to_the_same(one: OriginAddress, other: OriginAddress) -> bool:
    """Whether some objects are of both."""
    paths = one.scope.encode(), other.scope.encode()
    return one.location == other.location and (
        is_beneath(paths[0], paths[1]) or is_beneath(paths[1], paths[0])
    )
