"""Which outcomes are worth another try, when, and how many tries an origin may be burdened with.

Decides, and does nothing: times are seconds on any clock that only goes forward, given as `now`.
"""

from __future__ import annotations

from typing import Final

from chunkside.core.dates import http_date
from chunkside.core.fields import Fields

# What another try may mend (RFC 9110 §15.6, RFC 6585 §4).
RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})

_FIRST_PAUSE_SECONDS: Final = 0.05
_GROWTH: Final = 4.0
_LONGEST_PAUSE_SECONDS: Final = 5.0

RETRIES_PER_REQUEST: Final = 0.2
RETRIES_PER_SECOND: Final = 1.0
# Of an origin with few connections, too.
FEWEST_RETRIES: Final = 10


def pause_before_retry(retries: int, told: float | None, chance: float) -> float:
    """Seconds to wait after `retries` of them; `chance` is from 0 to 1, any number each time.

    `told`: what the origin asked for, of which nothing is taken off. The first comes soon, since a
    connection that was kept for too long is mended by another one; many readers lose theirs at the
    same moment, so that no two should come back at the same.
    """
    pause = min(_FIRST_PAUSE_SECONDS * _GROWTH**retries, _LONGEST_PAUSE_SECONDS)
    jittered = pause * (0.5 + chance)
    return jittered if told is None else told + jittered / 2


def told_pause(fields: Fields, wall: float) -> float | None:
    """`Retry-After` in seconds, in either of its forms; None where it says nothing."""
    value = fields.get(b"retry-after")
    if value is None:
        return None
    if value.isdigit():
        return float(value)
    date = http_date(value)
    return None if date is None else max(0.0, date - wall)


class RetryBudget:
    """Retries that an origin may still be sent: a share of what it is asked, and a few beside.

    It holds `most` at most, and begins with them. That should be the number of connections: an
    origin that closes what is quiet may do so to all of them at once.
    """

    def __init__(self, most: int, now: float) -> None:
        self._most = float(max(most, FEWEST_RETRIES))
        self._left = self._most
        self._counted_at = now

    def requested(self) -> None:
        """A request that is no retry was sent."""
        self._left = min(self._left + RETRIES_PER_REQUEST, self._most)

    def allows_retry(self, now: float) -> bool:
        """Takes one, if there is one left."""
        earned = RETRIES_PER_SECOND * (now - self._counted_at)
        self._left = min(self._left + earned, self._most)
        self._counted_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
