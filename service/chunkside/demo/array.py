"""The array that the demo reads: sparse, deterministic, written by zarr-python itself."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import zarr
from zarr.core.buffer import Buffer
from zarr.storage import MemoryStore

CHUNKS_PER_SIDE = 20
CHUNK_SIDE = 64
PRESENT_CHUNKS = 58


@dataclass(frozen=True, slots=True)
class SparseArray:
    """`objects` as a store holds them, beneath the array's name; chunk keys are relative to it."""

    values: npt.NDArray[np.float32]
    objects: dict[str, bytes]
    present_chunks: frozenset[str]
    absent_chunks: frozenset[str]
    name: str


def sparse_array(name: str) -> SparseArray:
    """A 20 x 20 grid of which 58 chunks were ever written; the same at every call."""
    random = np.random.default_rng(seed=9110)
    side = CHUNKS_PER_SIDE * CHUNK_SIDE
    values = np.zeros((side, side), np.float32)
    chosen = random.choice(CHUNKS_PER_SIDE**2, PRESENT_CHUNKS, replace=False)
    for row, column in (divmod(int(number), CHUNKS_PER_SIDE) for number in chosen):
        block = random.normal(loc=1.0, size=(CHUNK_SIDE, CHUNK_SIDE)).astype(np.float32)
        values[_span(row), _span(column)] = block
    objects = _written(values, name)
    grid = {
        f"c/{row}/{column}" for row in range(CHUNKS_PER_SIDE) for column in range(CHUNKS_PER_SIDE)
    }
    present = {chunk for chunk in grid if f"{name}/{chunk}" in objects}
    return SparseArray(values, objects, frozenset(present), frozenset(grid - present), name)


def _span(index: int) -> slice:
    return slice(index * CHUNK_SIDE, (index + 1) * CHUNK_SIDE)


def _written(values: npt.NDArray[np.float32], name: str) -> dict[str, bytes]:
    held: dict[str, Buffer] = {}
    zarr.create_array(
        MemoryStore(held),
        name=name,
        shape=values.shape,
        chunks=(CHUNK_SIDE, CHUNK_SIDE),
        dtype="float32",
        fill_value=0.0,
        # Chunks that hold nothing but the fill value are then never written.
        config={"write_empty_chunks": False},
    )[:] = values
    return {key: buffer.to_bytes() for key, buffer in held.items()}
