"""Threads for blocking disk calls: lanes that keep each path's jobs in order, and a pool beside."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from chunkside.gateway.errors import StoreFault
from chunkside.store.arrow_file import CorruptError

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Lanes:
    """Jobs of one path run in the order they were asked for; others run beside each other."""

    def __init__(self, lane_count: int = 4, reader_count: int = 8) -> None:
        self._lanes = [
            ThreadPoolExecutor(1, thread_name_prefix=f"store-lane-{number}")
            for number in range(lane_count)
        ]
        self._pool = ThreadPoolExecutor(reader_count, thread_name_prefix="store-read")

    async def in_order(
        self, operation: str, path: str, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Runs `job` after all that was asked for `path` before. Raises StoreFault.

        The job runs even if the caller is cancelled, so that what follows it may count on it.
        """
        try:
            running = self.submit(path, job, *args, **kwargs)
        except RuntimeError as fault:
            raise StoreFault(operation, "closed") from fault
        try:
            return await asyncio.shield(asyncio.wrap_future(running))
        except (OSError, CorruptError) as fault:
            raise store_fault(operation, fault) from fault

    async def beside(
        self, operation: str, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Runs `job` in the pool. Raises StoreFault."""
        try:
            running = self._pool.submit(job, *args, **kwargs)
        except RuntimeError as fault:
            raise StoreFault(operation, "closed") from fault
        try:
            return await asyncio.wrap_future(running)
        except (OSError, CorruptError) as fault:
            raise store_fault(operation, fault) from fault

    def submit(
        self, path: str, job: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Lets `job` run in its turn. Whoever drops the future must know that it can't raise."""
        return self._lanes[hash(path) % len(self._lanes)].submit(job, *args, **kwargs)

    def close(self) -> None:
        """Waits for all that was asked for."""
        for executor in (self._pool, *self._lanes):
            executor.shutdown(wait=True)


def store_fault(operation: str, fault: OSError | CorruptError) -> StoreFault:
    if isinstance(fault, CorruptError):
        return StoreFault(operation, "corrupt")
    return StoreFault(operation, errno.errorcode.get(fault.errno or 0, "EIO"))
