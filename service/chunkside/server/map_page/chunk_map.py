"""What a chunk map tells: an array, a plane of its chunk grid, and what is known of each cell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal, get_args

from chunkside.arrays.document import Array
from chunkside.arrays.plane import Plane
from chunkside.core.printable import printable

State = Literal["held", "part", "absent", "expired", "unknown"]
STATES: Final[tuple[State, ...]] = get_args(State)
MEANING: Final[dict[State, str]] = {
    "held": "held",
    "part": "held in part",
    "absent": "known to be absent",
    "expired": "no longer fresh",
    "unknown": "unknown",
}
ANSWERED: Final[frozenset[State]] = frozenset({"held", "absent"})
"""Of these a full GET is answered without the origin."""

Cell = Counter[State]


@dataclass(frozen=True, slots=True)
class Document:
    """What told an array's grid. `is_held`: it was read as it is stored, however old; else it was
    asked of the origin, and not remembered.
    """

    name: str
    is_held: bool


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """`target`: of the array on the data port. `rows`
    of cells, of the chunks in each those that were looked at, by state. `is_scanning`: the cache
    directory has not been read whole yet.
    """

    target: bytes
    document: Document
    array: Array
    plane: Plane
    rows: list[list[Cell]]
    is_scanning: bool

    @property
    def shown_target(self) -> str:
        return printable(self.target.decode(errors="backslashreplace")) or "/"

    @property
    def totals(self) -> Cell:
        totals: Cell = Counter()
        for row in self.rows:
            for cell in row:
                totals.update(cell)
        return totals

    @property
    def chunk_name(self) -> str:
        return "chunk" if self.array.inner_chunk_shape is None else "shard"


def state_of(cell: Cell) -> State | None:
    """What all chunks of a cell have in common; None where they differ, or where none is there."""
    states = [state for state in STATES if cell[state]]
    return states[0] if len(states) == 1 else None


def remarks(shown: ChunkMap) -> list[str]:
    """What must be known to read the map rightly, a sentence each."""
    plane, name, document = shown.plane, shown.chunk_name, shown.document
    told = []
    if not document.is_held:
        told.append(f"{document.name} isn't held: the origin was asked for it, for this map alone.")
    if shown.array.inner_chunk_shape is not None:
        inner = dimensions(shown.array.inner_chunk_shape)
        told.append(
            f"A {name} is one object, of chunks of {inner}: those that were read by range make it "
            "held in part."
        )
    if plane.is_binned:
        down, across = plane.per_cell
        of = f"{down} x {across} {name}s" if len(plane.axes) == 2 else f"{across} {name}s in a row"
        told.append(f"A cell stands for {of}.")
    if plane.steps != (1, 1):
        down, across = plane.steps
        told.append(f"There are too many: of {down} x {across} one was looked at.")
    if shown.is_scanning:
        told.append(
            "The cache directory is still being read: what lies there and isn't taken in yet is "
            "unknown."
        )
    return told


def dimensions(lengths: tuple[int, ...]) -> str:
    return " x ".join(map(str, lengths)) or "1"


def headline(shown: ChunkMap) -> str:
    array, grid = shown.array, shown.array.grid
    of = f"{shown.chunk_name}s of {dimensions(grid.chunk_shape)}"
    return (
        f"{array.format}, {printable(array.data_type)}, {dimensions(grid.shape)} in {of}: "
        f"a grid of {dimensions(grid.grid_shape)}"
    )
