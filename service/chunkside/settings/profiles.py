"""Sets of defaults by name: what a profile says holds under whatever is set beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

_DAY: Final = 86_400.0

PROFILES: Final[dict[str, dict[str, object]]] = {
    "default": {},
    # No lifetimes but the origin's: `negative_ttl` is only a ceiling.
    "strict": {
        "ttl": 0.0,
        "negative_ttl": math.inf,
        "upstream_cache_control": "obey",
        "client_cache_control": "obey",
    },
    "archive": {
        "ttl": 30 * _DAY,
        "negative_ttl": _DAY,
        "metadata_ttl": 3_600.0,
        "retention": 90 * _DAY,
    },
}


def with_profile(given: object, known: Mapping[str, object]) -> object:
    """Raw settings with what their profile says beneath; `known`: the names that can be set.

    A profile that doesn't exist is left for whoever judges its value.
    """
    if not isinstance(given, Mapping) or "profile" not in given:
        return given
    name = given["profile"]
    said = PROFILES.get(name.strip().lower(), {}) if isinstance(name, str) else {}
    return {key: value for key, value in said.items() if key in known} | dict(given)
