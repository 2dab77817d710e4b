"""A sparse Zarr v3 array for tests, and zarr-python reading it over two HTTP clients."""

# ruff: noqa: PLC0415 - tests that need none of these readers import this file too

import asyncio
import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import aiohttp

NAME = "sparse.zarr"
SHARDED = "sharded.zarr"
SHARD_SIDE = 64
CHUNKS_PER_SIDE = 10
CHUNK_SIDE = 16

Client = Literal["fsspec", "obstore"]


@dataclass(frozen=True)
class SparseArray:
    """`objects` and both sets of chunks by path at the origin, such as /sparse.zarr/c/0/0."""

    values: Any
    objects: dict[str, bytes]
    present: frozenset[str]
    absent: frozenset[str]

    @property
    def chunks(self) -> frozenset[str]:
        return self.present | self.absent


@functools.cache
def sparse_array() -> SparseArray:
    """10 x 10 chunks, of which every seventh is present; values that are not the fill value."""
    import numpy as np
    import zarr

    side = CHUNKS_PER_SIDE * CHUNK_SIDE
    values = np.zeros((side, side), np.float32)
    for number in range(0, CHUNKS_PER_SIDE**2, 7):
        block = np.arange(CHUNK_SIDE**2, dtype=np.float32).reshape(CHUNK_SIDE, CHUNK_SIDE)
        values[chunk_slices(*divmod(number, CHUNKS_PER_SIDE))] = block + number + 1
    held: dict[str, Any] = {}
    array = zarr.create_array(
        zarr.storage.MemoryStore(held),
        shape=values.shape,
        chunks=(CHUNK_SIDE, CHUNK_SIDE),
        dtype="float32",
        fill_value=0.0,
    )
    array[:] = values
    objects = {f"/{NAME}/{key}": buffer.to_bytes() for key, buffer in held.items()}
    grid = {
        f"/{NAME}/c/{row}/{column}"
        for row in range(CHUNKS_PER_SIDE)
        for column in range(CHUNKS_PER_SIDE)
    }
    return SparseArray(
        values, objects, frozenset(grid & objects.keys()), frozenset(grid - objects.keys())
    )


@functools.cache
def sharded_array() -> tuple[Any, dict[str, bytes]]:
    """Values, and objects by path at the origin: 2 x 2 shards of 4 x 4 chunks, the last absent."""
    import numpy as np
    import zarr

    side = 2 * SHARD_SIDE
    values = np.arange(side * side, dtype=np.float32).reshape(side, side)
    values[SHARD_SIDE:, SHARD_SIDE:] = 0
    held: dict[str, Any] = {}
    array = zarr.create_array(
        zarr.storage.MemoryStore(held),
        shape=values.shape,
        chunks=(CHUNK_SIDE, CHUNK_SIDE),
        shards=(SHARD_SIDE, SHARD_SIDE),
        dtype="float32",
        fill_value=0.0,
        compressors=None,
    )
    array[:] = values
    return values, {f"/{SHARDED}/{key}": buffer.to_bytes() for key, buffer in held.items()}


def chunk_slices(row: int, column: int) -> tuple[slice, slice]:
    """Where the chunk of that row and column lies in the array."""
    return (
        slice(row * CHUNK_SIDE, (row + 1) * CHUNK_SIDE),
        slice(column * CHUNK_SIDE, (column + 1) * CHUNK_SIDE),
    )


@contextmanager
def opened(
    url: str, client: Client, mode: Literal["r", "r+"] = "r", name: str = NAME
) -> Iterator[Any]:
    """The array of that name beneath `url`, opened over connections of its own."""
    import zarr

    base = f"{url}/{name}"
    if client == "obstore":
        yield zarr.open_array(
            _obstore_store(base, is_read_only=mode == "r"), mode=mode, zarr_format=3
        )
        return
    sessions: list[tuple[Any, Any]] = []
    options = {"get_client": _session_maker(sessions), "skip_instance_cache": True}
    try:
        yield zarr.open_array(base, mode=mode, zarr_format=3, storage_options=options)
    finally:
        for loop, session in sessions:
            asyncio.run_coroutine_threadsafe(session.close(), loop).result()


def read_all(url: str, client: Client) -> Any:
    with opened(url, client) as array:
        return array[:]


def read_all_at_once(url: str, client: Client, readers: int) -> list[Any]:
    """As many readers as told, each with an array of its own, in threads."""
    with ThreadPoolExecutor(readers) as threads:
        return list(threads.map(lambda _: read_all(url, client), range(readers)))


def _obstore_store(base: str, *, is_read_only: bool) -> Any:
    import obstore.store
    import zarr

    http = obstore.store.HTTPStore(
        base, client_options={"allow_http": True}, retry_config={"max_retries": 0}
    )
    return zarr.storage.ObjectStore(http, read_only=is_read_only)


def _session_maker(sessions: list[tuple[Any, Any]]) -> Any:
    """fsspec leaves its sessions open; what is made here can be closed, on zarr's own loop."""

    async def make(**_arguments: object) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession()
        sessions.append((asyncio.get_running_loop(), session))
        return session

    return make
