"""The way to an HTTP origin: how often it is asked the same, and when it is left alone."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from chunkside.core.cors import without_grants
from chunkside.core.request import SAFE_METHODS
from chunkside.gateway.errors import (
    OriginError,
    OriginNonsense,
    OriginNotAsked,
    OriginUnreachable,
    OtherAbsence,
    RequestAborted,
)
from chunkside.gateway.ports import Clock, Observer, OriginRequest
from chunkside.upstream.breaker import FIRST_REST_SECONDS, Admitted, Breaker, Refused
from chunkside.upstream.hops import Hops, Means
from chunkside.upstream.retries import (
    RETRIED_STATUSES,
    RetryBudget,
    pause_before_retry,
    told_pause,
)
from chunkside.upstream.wire import HttpResponse, Times, Wire

log = logging.getLogger(__name__)

Outcome = HttpResponse | OriginError
Pause = Callable[[float], Awaitable[None]]
# Of 501 and what lies beyond 504 no second request makes anything else, nor is it a failure.
_FAILURES: Final = RETRIED_STATUSES
# As a share of the deadline: with less than this another try would be asked in vain.
_TIME_FOR_A_TRY: Final = 0.1


class HttpUpstream:
    """`location`: scheme, host and port. `via` is what requests say of this process. `pause` waits
    for some seconds.
    """

    def __init__(
        self,
        location: str,
        times: Times,
        observer: Observer,
        *,
        via: bytes,
        clock: Clock,
        means: Means | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._location = location
        self._times = times
        self._observer = observer
        self._clock = clock
        self._rest = pause
        means = means or Means()
        self._wire = Wire(location, times, observer, via, means.tls)
        self._hops = Hops(self._wire, location, observer, means)
        self._has_credential = means.has_own_credential
        # A probe is one try.
        self._breaker = Breaker(probe_seconds=times.deadline)
        self._told_state = self._breaker.state
        observer.breaker_is(self._told_state)
        self._budget = RetryBudget(times.connections, clock.now().boot)

    async def close(self) -> None:
        await self._wire.close()

    async def send(self, request: OriginRequest) -> HttpResponse:
        now = self._now()
        admitted = self._admitted(now)
        self._budget.requested()
        is_told = False
        try:
            outcome = await self._outcome(request, admitted, now)
            is_told = self._tell(request, outcome, admitted)
        finally:
            if admitted.is_probe and not is_told:
                self._breaker.withdrew(self._now())
            self._tell_state()
        if isinstance(outcome, OriginError):
            raise outcome
        if self._has_credential:
            # What the origin lets pages read for their own users is not theirs to read by ours.
            outcome.head = replace(outcome.head, fields=without_grants(outcome.head.fields))
        return outcome

    def _tell_state(self) -> None:
        if self._breaker.state != self._told_state:
            self._told_state = self._breaker.state
            self._observer.breaker_is(self._told_state)

    def _admitted(self, now: float) -> Admitted:
        """Raises OriginNotAsked while the origin is left alone."""
        admission = self._breaker.admit(now)
        self._tell_state()
        if isinstance(admission, Refused):
            raise self._resting(admission.seconds)
        return admission

    def _resting(self, seconds: float) -> OriginNotAsked:
        self._observer.upstream_spared("breaker")
        return OriginNotAsked(
            f"{self._location} has failed for some time, and is asked again in a moment.",
            math.ceil(seconds),
        )

    async def _outcome(self, request: OriginRequest, admitted: Admitted, now: float) -> Outcome:
        """What came of the last try. The only one, unless it asks, without a body, in a method
        that changes nothing. `now`: when it was sent.
        """
        times = self._times
        if request.method not in SAFE_METHODS or request.content is not None:
            return await self._try(request, times.write, times.deadline)
        until, left = now + times.deadline, times.deadline
        retries, is_anew = 0, False
        while True:
            outcome = await self._try(request, times.first_byte, left, is_anew=is_anew)
            pause = None if admitted.is_probe else self._pause_after(outcome, retries, until)
            if pause is None:
                return outcome
            # Of connections that were kept several may have died at once.
            is_anew = isinstance(outcome, OriginError)
            if isinstance(outcome, HttpResponse):
                outcome.close()
            await self._rest(pause)
            if self._breaker.state != "closed":
                # Others found meanwhile that it is of no use.
                return self._resting(FIRST_REST_SECONDS)
            self._observer.upstream_retried()
            retries += 1
            left = until - self._now()

    async def _try(
        self, request: OriginRequest, seconds: float, left: float, *, is_anew: bool = False
    ) -> Outcome:
        try:
            return await self._hops.send(request, seconds, left, is_anew=is_anew)
        except OriginNotAsked as error:
            self._observer.upstream_spared(error.reason)
            raise
        except OriginError as error:
            return error

    def _pause_after(self, outcome: Outcome, retries: int, until: float) -> float | None:
        """Seconds until the next try; None where there should be none."""
        told = None
        if isinstance(outcome, HttpResponse):
            if outcome.head.status not in RETRIED_STATUSES:
                return None
            told = told_pause(outcome.head.fields, self._clock.now().wall)
        elif isinstance(outcome, OriginNonsense):
            return None
        if retries >= self._times.retries or self._breaker.state != "closed":
            return None
        now = self._now()
        pause = pause_before_retry(retries, told, random.random())  # noqa: S311
        has_time = now + pause <= until - _TIME_FOR_A_TRY * self._times.deadline
        if not has_time or not self._budget.allows_retry(now):
            return None
        return pause

    def _tell(self, request: OriginRequest, outcome: Outcome, admitted: Admitted) -> bool:
        """Has the breaker learn from it; False where it says nothing of the origin."""
        breaker = self._breaker
        if isinstance(outcome, OriginNotAsked) or _is_of_the_client(outcome):
            return False
        is_answer = isinstance(outcome, HttpResponse) and outcome.head.status not in _FAILURES
        if is_answer or isinstance(outcome, OtherAbsence):
            if breaker.succeeded():
                log.warning("the origin %s answers again", self._location)
            return True
        target = None if isinstance(outcome, OriginUnreachable) else request.target
        if breaker.failed(self._now(), target, is_probe=admitted.is_probe):
            log.warning("the origin fails, and is left alone for a while: %s", self._told(outcome))
        return True

    def _told(self, outcome: Outcome) -> str:
        if isinstance(outcome, HttpResponse):
            return f"{self._location} answers {outcome.head.status}"
        return str(outcome)

    def _now(self) -> float:
        return self._clock.now().boot


def _is_of_the_client(outcome: Outcome) -> bool:
    """Whether a request failed because its own body broke off."""
    return (
        isinstance(outcome, OriginError)
        and outcome.__cause__ is not None
        and isinstance(outcome.__cause__.__cause__, RequestAborted)
    )
