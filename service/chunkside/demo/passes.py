"""One pass: readers at once, each of which opens the array with zarr-python and reads all of it."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

import aiohttp
import numpy as np
import zarr

from chunkside.demo.array import SparseArray
from chunkside.demo.origin import Counts, Origin


@dataclass(frozen=True, slots=True)
class Cost:
    """What one pass took, and whether every reader got the data as written."""

    name: str
    seconds: float
    reader_requests: int
    origin: Counts
    is_equal: bool


class _Readers:
    """What fsspec makes its HTTP sessions with: it counts their requests, and can close them.

    All sessions live on the one loop that zarr-python keeps.
    """

    def __init__(self) -> None:
        self.requests = 0
        self._sessions: list[tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession]] = []

    async def new_session(self, **_arguments: object) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(self._count)
        session = aiohttp.ClientSession(trace_configs=[trace])
        self._sessions.append((asyncio.get_running_loop(), session))
        return session

    def close(self) -> None:
        for loop, session in self._sessions:
            asyncio.run_coroutine_threadsafe(session.close(), loop).result()

    async def _count(
        self,
        _session: aiohttp.ClientSession,
        _context: SimpleNamespace,
        _started: aiohttp.TraceRequestStartParams,
    ) -> None:
        self.requests += 1


def read(name: str, url: str, origin: Origin, sparse: SparseArray, readers: int) -> Cost:
    """Reads the array at `url` in as many threads as there are readers; raises what they raise."""
    before = origin.counts()
    with _closing_readers() as clients, ThreadPoolExecutor(readers) as threads:
        started = time.perf_counter()
        reading = [threads.submit(_is_read_equal, url, clients, sparse) for _ in range(readers)]
        is_equal = all(each.result() for each in reading)
        seconds = time.perf_counter() - started
    return Cost(name, seconds, clients.requests, origin.counts() - before, is_equal)


def _is_read_equal(url: str, clients: _Readers, sparse: SparseArray) -> bool:
    array = zarr.open_array(
        url,
        mode="r",
        storage_options={"get_client": clients.new_session, "skip_instance_cache": True},
    )
    return np.array_equal(np.asarray(array[:]), sparse.values)


@contextmanager
def _closing_readers() -> Iterator[_Readers]:
    readers = _Readers()
    try:
        yield readers
    finally:
        readers.close()
