"""How long an answer may be used without asking (RFC 9111 §4.2), under the settings' ceilings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from chunkside.core.dates import http_date
from chunkside.core.directives import delta_seconds, told_by
from chunkside.core.entry import Absent, Held, Now, Stored
from chunkside.core.fields import Fields
from chunkside.core.key import ClientCredentials, KeyClass

_FORBIDS_STALE: Final = frozenset(
    {b"must-revalidate", b"proxy-revalidate", b"s-maxage", b"no-cache"}
)
HEURISTICALLY_CACHEABLE: Final = frozenset({200, 203, 300, 301, 308, 404, 405, 410, 414, 501})
_LONGEST_HEURISTIC_SECONDS: Final = 86_400.0


class Said(NamedTuple):
    """A body, and the fields that go with it. Every hit looks its head up by it, so it is of what
    is hashed quickest.
    """

    fields: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


SAYS_NOTHING: Final = Said()


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that decisions depend on. Lifetimes in seconds, `math.inf` for ever.

    `negative_scope`: whether a marker answers full GETs alone, or HEAD and ranges too.
    `absent_statuses`: those that tell of an absence. `is_strict`: by RFC 9111 alone, without
    lifetimes of our own. `obeys_origin`, `obeys_clients`: whether `Cache-Control` counts, of
    bodies and of requests. `targeted`: fields that are meant for this cache, in lower case; they
    always count. `is_object_store`: nobody but the origin says when its objects were put there, and
    it says which absence it is that it tells of. `of_absence`: what a remembered one says, for
    readers that look for it.
    """

    ttl: float = 300.0
    negative_ttl: float = 300.0
    metadata_ttl: float = 5.0
    cache_missing: bool = True
    allow_writes: bool = True
    max_body_bytes: int = 2**31
    stale_if_error: float = 86_400.0
    negative_scope: Literal["get", "all"] = "get"
    absent_statuses: frozenset[int] = frozenset({404, 410})
    is_strict: bool = False
    obeys_origin: bool = True
    obeys_clients: bool = False
    forwards_cookies: bool = False
    client_credentials: ClientCredentials = "partition"
    targeted: tuple[bytes, ...] = (b"chunkside-cache-control",)
    is_object_store: bool = False
    of_absence: Said = SAYS_NOTHING


def origin_lifetime(
    fields: Fields, asked_at: float | None = None, targeted: tuple[bytes, ...] = ()
) -> float | None:
    """Seconds of freshness that the origin gave; None where it gave none.

    A lifetime that can't be read is none at all: the answer is stale from the start. `asked_at`:
    wall-clock second to count `Expires` from where there is no usable `Date`. `targeted`: as in
    Policy.
    """
    directives, is_targeted = told_by(fields, targeted)
    if b"no-cache" in directives:
        return 0.0
    for name in (b"s-maxage", b"max-age"):
        if name in directives:
            return delta_seconds(directives[name])
    if b"expires" in fields and not is_targeted:
        expires, date = http_date(fields.get(b"expires")), http_date(fields.get(b"date"))
        made_at = asked_at if date is None else date
        return 0.0 if expires is None or made_at is None else max(0.0, expires - made_at)
    return None


def initial_age(fields: Fields) -> float:
    """Seconds that the answer had already spent in other caches; the first of several counts (RFC
    9111 §5.1).
    """
    return delta_seconds(fields.combined(b"age").partition(b",")[0].strip(b" \t"))


def age(requested_at: Now, now: Now, initial: float = 0.0) -> float:
    """Seconds since the request was sent, by the clock that says more.

    A request that was sent in the future was sent under a wrong clock: infinitely old.
    """
    by_wall = now.wall - requested_at.wall
    if by_wall < -1.0:
        return math.inf
    return initial + max(now.boot - requested_at.boot, by_wall, 0.0)


def remaining(stored: Stored, now: Now, policy: Policy) -> float:
    """Seconds of freshness left; negative by how long the answer has been stale.

    The origin's own lifetime also counts what other caches spent of it; ours count from when the
    request was sent.
    """
    elapsed = age(stored.requested_at, now)
    if elapsed == math.inf:
        return -math.inf
    if stored.origin_lifetime is not None and obeys(stored.fields, policy):
        left = stored.origin_lifetime - stored.initial_age - elapsed
    elif policy.is_strict:
        left = heuristic_lifetime(stored, policy) - stored.initial_age - elapsed
    else:
        left = policy.ttl - elapsed
    return min(left, policy.metadata_ttl - elapsed) if stored.key_class == "metadata" else left


def obeys(fields: Fields, policy: Policy) -> bool:
    """Whether what an answer of a body says of its lifetime and use counts."""
    return policy.obeys_origin or told_by(fields, policy.targeted).is_targeted


def heuristic_lifetime(stored: Stored, policy: Policy) -> float:
    """Seconds that an answer without a lifetime may be used for (RFC 9111 §4.2.2): a tenth of what
    had passed since it was modified, a day at most.
    """
    fields = stored.fields
    is_public = b"public" in told_by(fields, policy.targeted).directives
    may_be = stored.status in HEURISTICALLY_CACHEABLE or is_public
    modified = http_date(stored.last_modified)
    if modified is None or not may_be:
        return 0.0
    date = http_date(fields.get(b"date"))
    passed = (stored.requested_at.wall if date is None else date) - modified
    return min(max(passed, 0.0) / 10, _LONGEST_HEURISTIC_SECONDS)


def may_serve_stale(held: Held, now: Now, policy: Policy) -> bool:
    """Whether what is stale may stand in for an origin that fails (RFC 9111 §4.2.4)."""
    stored = held.stored
    if not allows_stale(held, policy) or not stored.has_validator:
        return False
    staleness = -remaining(stored, now, policy)
    bound = _told(stored, b"stale-if-error", policy)
    # One of unknown age may be older than any bound, even than none.
    bound = policy.stale_if_error if bound is None else bound
    return staleness <= bound and staleness < math.inf


def may_serve_while_revalidating(held: Held, ttl: float, policy: Policy) -> bool:
    """Whether what is stale may be served while its origin is asked (RFC 5861 §3)."""
    bound = _told(held.stored, b"stale-while-revalidate", policy)
    return bound is not None and -ttl <= bound and allows_stale(held, policy)


def allows_stale(held: Held, policy: Policy) -> bool:
    if held.must_validate:
        return False
    directives, is_targeted = told_by(held.stored.fields, policy.targeted)
    is_obeyed = policy.obeys_origin or is_targeted
    return not is_obeyed or _FORBIDS_STALE.isdisjoint(directives)


def _told(stored: Stored, directive: bytes, policy: Policy) -> float | None:
    """The seconds that a directive of the origin's gives; None where it gives none."""
    directives, is_targeted = told_by(stored.fields, policy.targeted)
    argument = directives.get(directive)
    is_obeyed = policy.obeys_origin or is_targeted
    return None if argument is None or not is_obeyed else delta_seconds(argument)


def absence_lifetime(fields: Fields, key_class: KeyClass, policy: Policy) -> float:
    """Seconds for which a 404 may be remembered; 0 for not at all.

    Stores stamp `private, max-age=0` on every 404, so only a positive shorter lifetime is taken for
    the origin's will; in a field that is meant for this cache, any. What other caches have used up
    of it is gone.
    """
    if not policy.cache_missing:
        return 0.0
    ceiling = _ceiling_of_absence(key_class, policy)
    given = origin_lifetime(fields, targeted=policy.targeted)
    is_targeted = told_by(fields, policy.targeted).is_targeted
    if given is None or (given <= 0 and not is_targeted):
        return 0.0 if policy.is_strict else ceiling
    return min(ceiling, max(0.0, given - initial_age(fields)))


def absence_under(absent: Absent, key_class: KeyClass, policy: Policy) -> Absent | None:
    """A marker as far as it holds under `policy`, where it may have been made under another's; None
    where such an absence isn't remembered at all.
    """
    if not policy.cache_missing or absent.status not in policy.absent_statuses:
        return None
    ceiling = _ceiling_of_absence(key_class, policy)
    return absent if absent.lifetime <= ceiling else absent._replace(lifetime=ceiling)


def _ceiling_of_absence(key_class: KeyClass, policy: Policy) -> float:
    if key_class == "metadata":
        return min(policy.negative_ttl, policy.metadata_ttl)
    return policy.negative_ttl
