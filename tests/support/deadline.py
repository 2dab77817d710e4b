"""The one place where a test may poll: a condition, what it is called, and a deadline."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_SECONDS = 20.0
_POLL_SECONDS = 0.01

Found = TypeVar("Found")


def wait_for(
    look: Callable[[], Found | None], what: str, deadline_seconds: float = DEADLINE_SECONDS
) -> Found:
    """The first answer of `look` that is neither None nor False; AssertionError at the deadline."""
    pause = threading.Event()
    end = time.monotonic() + deadline_seconds
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() >= end:
            raise AssertionError(f"not within {deadline_seconds} s: {what}")
        pause.wait(_POLL_SECONDS)


def wait_event(
    event: threading.Event, what: str, deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    if not event.wait(deadline_seconds):
        raise AssertionError(f"not within {deadline_seconds} s: {what}")
