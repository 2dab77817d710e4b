"""A turn at the file system: one file open at most, one call at a time, each with an end."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from chunkside.upstream.reading import Answer, Changed, Rest
from chunkside.upstream.workers import Done, Raised, Workers

T = TypeVar("T")


class Hanging:
    """Calls that are waited for no longer and haven't returned, by the path they read.

    `on_return` is told of one that came back with something.
    """

    def __init__(self, on_return: Callable[[], None]) -> None:
        self._paths: Counter[bytes] = Counter()
        self._on_return = on_return

    def __contains__(self, path: bytes) -> bool:
        return path in self._paths

    def __len__(self) -> int:
        return self._paths.total()

    def begins(self, path: bytes) -> None:
        self._paths[path] += 1

    def ends(self, path: bytes, *, is_well: bool) -> None:
        self._paths[path] -= 1
        if not self._paths[path]:
            del self._paths[path]
        if is_well:
            self._on_return()


class Place:
    """`free` is called once the place is another's: after `end`, when no call is under way and the
    file is closed. A descriptor that a thread still reads from may not be another file's.
    """

    def __init__(
        self, workers: Workers, hanging: Hanging, path: bytes, free: Callable[[], None]
    ) -> None:
        self._workers = workers
        self._hanging = hanging
        self._path = path
        self._free = free
        self._rest: Rest | None = None
        self._is_busy = False
        self._hangs = False
        self._is_over = False

    async def open(self, job: Callable[[], Answer], seconds: float) -> Answer:
        """Raises TimeoutError, and what `job` does."""
        return await self._do(job, seconds, self._keep)

    async def read(self, rest: Rest, seconds: float) -> bytes:
        """The next piece of what was opened. Raises as `open` does; Changed after `end`."""
        if self._is_over:
            raise Changed
        return await self._do(rest.read, seconds, lambda _: None)

    def end(self) -> None:
        """Once; what is told later doesn't count."""
        if self._is_over:
            return
        self._is_over = True
        if not self._is_busy:
            self._close()

    async def _do(self, job: Callable[[], T], seconds: float, keep: Callable[[T], None]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(outcome: Done[T] | Raised) -> None:
            self._is_busy = False
            if isinstance(outcome, Done):
                keep(outcome.value)
            if self._hangs:
                self._hanging.ends(self._path, is_well=isinstance(outcome, Done))
            if not future.done():
                _set(future, outcome)
            if self._is_over:
                self._close()

        self._is_busy = True
        self._workers.start(job, settle)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            # Or the file system's own, whose call has returned.
            if self._is_busy:
                self._hangs = True
                self._hanging.begins(self._path)
            raise

    def _keep(self, answer: Answer) -> None:
        self._rest = answer.rest

    def _close(self) -> None:
        if self._rest is None:
            self._free()
            return
        # Whatever closing says: of a file that was only read nothing can be lost.
        self._workers.start(partial(os.close, self._rest.descriptor), lambda _: self._free())


def _set(future: asyncio.Future[T], outcome: Done[T] | Raised) -> None:
    match outcome:
        case Done(value):
            future.set_result(value)
        case Raised(error):
            future.set_exception(error)
