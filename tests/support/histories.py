"""What may be read of an object that several write at once: which of its states an answer shows,
and whether a write that had been answered before the question makes that state too old.

Times are numbers of one counter, so that before and after need no clock.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

Body = bytes | None
"""None is an absence."""


@dataclass(slots=True)
class Write:
    """One state of an object. `ended`: None while its writer has no answer."""

    body: Body
    began: int
    ended: int | None = None


@dataclass(slots=True)
class Histories:
    _counter: itertools.count[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writes: dict[str, list[Write]] = field(default_factory=dict)

    def now(self) -> int:
        return next(self._counter)

    def is_known(self, target: str) -> bool:
        with self._lock:
            return target in self._writes

    def put_from_the_start(self, target: str, body: Body) -> None:
        """What the origin has before anybody asks."""
        with self._lock:
            at = self.now()
            self._writes.setdefault(target, []).append(Write(body, at, at))

    def begin(self, target: str, body: Body) -> Write:
        with self._lock:
            write = Write(body, self.now())
            self._writes.setdefault(target, [Write(None, -1, -1)]).append(write)
            return write

    def end(self, target: str, write: Write) -> None:
        """It was answered. States that nobody may be shown any more are forgotten by and by."""
        with self._lock:
            write.ended = self.now()

    def judge(
        self, target: str, asked: int, is_shown: Callable[[Body], bool], shown: str
    ) -> str | None:
        """What is wrong with an answer to what was asked at `asked` and has just come; None if it
        shows a state that may be shown.
        """
        with self._lock:
            now = self.now()
            writes = list(self._writes.get(target, [Write(None, -1, -1)]))
        matching = [write for write in writes if is_shown(write.body) and write.began < now]
        if any(not _is_too_old(write, writes, asked) for write in matching):
            return None
        states = ", ".join(_told(write) for write in writes[-5:])
        what = "something older than an answered write" if matching else "what never was"
        return f"{target}, asked at {asked} and answered at {now}: {what}: {shown}; {states}"


def _is_too_old(state: Write, writes: list[Write], asked: int) -> bool:
    """Whether another write came after it for sure, and was answered before the question."""
    return state.ended is not None and any(
        write.began > state.ended and write.ended is not None and write.ended < asked
        for write in writes
    )


def _told(write: Write) -> str:
    what = "absent" if write.body is None else f"{len(write.body)} bytes"
    return f"[{what}, {write.began} to {write.ended}]"
