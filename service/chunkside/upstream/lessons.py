"""What a store's refusal teaches: some say how they would rather be asked, and are asked so once
more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

from chunkside.core.dates import http_date
from chunkside.core.request import SAFE_METHODS
from chunkside.gateway.ports import Clock, Observer, OriginRequest
from chunkside.upstream.wire import HttpResponse

Lesson = Literal["region", "clock", "credentials"]
Spoken = TypeVar("Spoken")

# Stores allow 15 minutes; less than this may be the time that an answer took.
_SKEW_SECONDS: Final = 60.0


async def until_taught(
    request: OriginRequest,
    observer: Observer,
    speak: Callable[[], Awaitable[Spoken]],
    ask: Callable[[Spoken], Awaitable[HttpResponse]],
    lesson: Callable[[HttpResponse, Spoken], Awaitable[Lesson | None]],
) -> HttpResponse:
    """The last answer to a request that is asked once more for each thing that an answer teaches.

    `speak` says how it is put by now; `lesson` learns, and says what to put otherwise if that
    helps. What may not be sent twice is a lesson to those that come after it.
    """
    may_repeat = request.method in SAFE_METHODS and request.content is None
    learnt: set[Lesson] = set()
    while True:
        spoken = await speak()
        response = await ask(spoken)
        try:
            told = await lesson(response, spoken)
            if told is None or told in learnt or not may_repeat:
                return response
            await response.skip()
        except BaseException:
            response.close()
            raise
        learnt.add(told)
        observer.upstream_retried()


class StoreClock:
    """This machine's clock, put right by a store's own. `ahead`: by so many seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead = 0.0

    def wall(self, ahead: float) -> float:
        """Seconds of the store's wall clock, if it is so far ahead."""
        return self._clock.now().wall + ahead

    def teaches(self, response: HttpResponse, ahead: float) -> bool:
        """Whether what was dated by a clock so far ahead should be dated otherwise: others may have
        learnt that by now.
        """
        date = http_date(response.head.fields.get(b"date"))
        if date is None:
            return False
        told = date - self._clock.now().wall
        if abs(told - self.ahead) >= _SKEW_SECONDS:
            self.ahead = told
        return abs(told - ahead) >= _SKEW_SECONDS
