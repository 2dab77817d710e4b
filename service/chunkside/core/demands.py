"""What a client asks of the freshness of an answer from store (RFC 9111 §5.2.1), and whether it
wants one at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chunkside.core.directives import cache_control, delta_seconds
from chunkside.core.fields import Fields
from chunkside.core.request import Request

_CUSTOMER_KEYS: Final = (
    b"x-amz-server-side-encryption-customer-key",
    b"x-goog-encryption-key",
    b"x-ms-encryption-key",
)
# Conditions by Google's own fields.
_OF_GOOGLE: Final = (b"x-goog-if-generation-match", b"x-goog-if-metageneration-match")
# By Azure's own fields: parts, conditions, and answers that are put otherwise.
_OF_AZURE: Final = (
    *(b"x-ms-range", b"x-ms-if-tags", b"x-ms-lease-id", b"x-ms-structured-body"),
    *(b"x-ms-range-get-content-md5", b"x-ms-range-get-content-crc64"),
)


@dataclass(frozen=True, slots=True)
class Demands:
    """Seconds. `max_stale`: for how long stale an answer may be, where its origin doesn't forbid
    it.
    """

    wants_validation: bool = False
    max_age: float = math.inf
    min_fresh: float = 0.0
    max_stale: float = 0.0

    def are_met(self, age: float, ttl: float, *, may_be_stale: bool) -> bool:
        """Whether an answer of this age, and of `ttl` seconds of freshness left, is good enough."""
        if self.wants_validation or age > self.max_age:
            return False
        if ttl > 0:
            return ttl >= self.min_fresh
        return may_be_stale and not self.min_fresh and -ttl < self.max_stale


NONE: Final = Demands()


def demands_of(fields: Fields) -> Demands:
    """What a request asks for; `Pragma` counts where there is no `Cache-Control`."""
    if b"cache-control" not in fields:
        return Demands(wants_validation=b"no-cache" in fields.combined(b"pragma").lower())
    directives = cache_control(fields)
    stale = directives.get(b"max-stale")
    return Demands(
        wants_validation=b"no-cache" in directives,
        max_age=_seconds(directives, b"max-age", math.inf),
        min_fresh=_seconds(directives, b"min-fresh", 0.0),
        max_stale=math.inf if stale == b"" else _seconds(directives, b"max-stale", 0.0),
    )


def _seconds(directives: Mapping[bytes, bytes], name: bytes, default: float) -> float:
    argument = directives.get(name)
    return default if argument is None else delta_seconds(argument)


def passes_by(request: Request) -> bool:
    """Whether a request leaves the cache out of it, whatever it asks for."""
    fields = request.fields
    return (
        request.has_body
        or request.is_signed
        or request.host is not None
        or request.control == "bypass"
        or any(name in fields for name in _OF_AZURE)
        or any(name in fields for name in _CUSTOMER_KEYS)
        or any(name in fields for name in _OF_GOOGLE)
        or b"no-store" in cache_control(fields)
    )
