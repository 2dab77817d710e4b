"""Who hears of every request that was answered."""

from __future__ import annotations

from typing import Protocol

from chunkside.core.cache_status import Result


class Series(Protocol):
    """Requests that are alike in all that they are counted by."""

    def ended(self, body_bytes: int, seconds: float) -> None:
        """Called once for each, as `RequestObserver.request_ended` is."""
        ...


class TargetObserver(Protocol):
    def saw(self, target: bytes, result: Result, status: int | None, times: int = 1) -> None:
        """A request for a target as sent to the data port was answered, and `times` - 1 others of
        which nobody tells.
        """
        ...


class Unwatched:
    """For whom it doesn't matter what is asked for."""

    def saw(self, target: bytes, result: Result, status: int | None, times: int = 1) -> None:
        pass


class RequestObserver(Protocol):
    def series(
        self, route: str, key_class: str, method: str, result: Result, status: int | None
    ) -> Series: ...

    def request_ended(
        self,
        route: str,
        key_class: str,
        method: str,
        result: Result,
        status: int | None,
        body_bytes: int,
        seconds: float,
    ) -> None:
        """Called once for each request, when its answer has been sent or can't be."""
        ...
