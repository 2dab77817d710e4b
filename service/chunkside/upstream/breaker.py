"""Whether an origin is asked at all: after it has failed for a while it is left alone.

Decides, and does nothing: times are seconds on any clock that only goes forward, given as `now`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

BreakerState = Literal["closed", "open", "half_open"]
BREAKER_STATES: Final[tuple[BreakerState, ...]] = ("closed", "open", "half_open")

# A burst of failures at one moment is what retries are for.
FAILURES_TO_OPEN: Final = 5
SECONDS_TO_OPEN: Final = 2.0
FIRST_REST_SECONDS: Final = 1.0
LONGEST_REST_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Admitted:
    """`is_probe`: on its outcome hangs whether others are admitted. Every probe must be told to
    `succeeded`, `failed` or `withdrew`.
    """

    is_probe: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """`seconds` until it is worth asking again."""

    seconds: float


Admission = Admitted | Refused


class Breaker:
    """Closed while the origin answers; open, and refusing all, once nothing but failures came for
    some time; half open while one request finds out whether the origin is back.

    `probe_seconds`: after this a probe that has told nothing holds up no other one.
    """

    def __init__(self, probe_seconds: float) -> None:
        self.state: BreakerState = "closed"
        self._probe_seconds = probe_seconds
        self._failures = 0
        self._failing_since = 0.0
        self._failed_first: bytes | None = None
        self._is_broad = False
        self._rest_seconds = FIRST_REST_SECONDS
        # While open: when the next probe may go. While half open: when the one under way is given
        # up.
        self._until = 0.0

    def admit(self, now: float) -> Admission:
        if self.state == "closed":
            return Admitted(is_probe=False)
        if now < self._until:
            is_resting = self.state == "open"
            return Refused(self._until - now if is_resting else FIRST_REST_SECONDS)
        self.state = "half_open"
        self._until = now + self._probe_seconds
        return Admitted(is_probe=True)

    def succeeded(self) -> bool:
        """An answer that is no failure came; True if the origin is back with it.

        Whoever brought it: it was the origin that answered.
        """
        was_closed, self.state = self.state == "closed", "closed"
        self._failures = 0
        self._rest_seconds = FIRST_REST_SECONDS
        return not was_closed

    def failed(self, now: float, target: bytes | None, *, is_probe: bool) -> bool:
        """True if that opens what was closed.

        `target`: what was asked for; None where the failure can't have to do with that. One that
        fails by itself, however often, is no failing origin.
        """
        if self.state != "closed":
            if is_probe:
                self._rest_seconds = min(2 * self._rest_seconds, LONGEST_REST_SECONDS)
                self._rest(now)
            return False
        if self._failures == 0:
            self._failing_since, self._failed_first, self._is_broad = now, target, False
        self._failures += 1
        self._is_broad = self._is_broad or target is None or target != self._failed_first
        is_sustained = now - self._failing_since >= SECONDS_TO_OPEN
        if self._failures < FAILURES_TO_OPEN or not is_sustained or not self._is_broad:
            return False
        self._rest(now)
        return True

    def withdrew(self, now: float) -> None:
        """A probe ended without telling anything of the origin: the next request is one."""
        if self.state == "half_open":
            self.state, self._until = "open", now

    def _rest(self, now: float) -> None:
        self.state, self._until = "open", now + self._rest_seconds
