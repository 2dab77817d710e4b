"""One or two dimensions of a chunk grid, laid out in rows of cells; a cell stands for one chunk, or
for a bin of them.

What is looked at is bounded whatever a document says: of a plane with too many chunks every second
or tenth is, in each bin.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from chunkside.arrays.grid import ChunkGrid

MOST_CELLS: Final = 64
"""Along each side."""
MOST_CHUNKS: Final = 1 << 20
"""Roughly the most chunks of a plane that are looked at; less than four times as many in truth."""
_BATCH: Final = 512
_PART: Final = re.compile(r"(-?[0-9]{1,19})|(-?[0-9]{1,19})?:(-?[0-9]{1,19})?")

Selection = tuple[int | slice, ...]


def parse_selection(text: str) -> Selection:
    """`0,:,10:20`: a number for a dimension at one element, a slice for one that is shown. Raises
    ValueError with a sentence.
    """
    return tuple(_parse_part(part.strip()) for part in text.split(","))


def _parse_part(text: str) -> int | slice:
    found = _PART.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is neither a number nor a slice such as 0:100.")
    if found[1] is not None:
        return int(found[1])
    return slice(*(None if each is None else int(each) for each in (found[2], found[3])))


@dataclass(frozen=True, slots=True)
class Plane:
    """`chosen`: of each dimension the element it is at, or the slice that is shown. `ranges`: the
    chunks that these come to. `axes`: those that are shown, two at most; rows run along the first
    of two, and one alone goes on in the next row.
    """

    grid: ChunkGrid
    chosen: Selection
    ranges: tuple[range, ...]
    axes: tuple[int, ...]

    @property
    def count(self) -> int:
        """Chunks in the plane."""
        return math.prod(_length(each) for each in self.ranges)

    @property
    def per_cell(self) -> tuple[int, int]:
        """Chunks of a bin along rows' and columns' dimension; 1 and those of a run of one
        dimension.
        """
        if len(self.axes) == 2:
            rows, columns = (_length(self.ranges[axis]) for axis in self.axes)
            return max(1, -(-rows // MOST_CELLS)), max(1, -(-columns // MOST_CELLS))
        return 1, max(1, -(-self.count // MOST_CELLS**2))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of cells; of one dimension the last row may be short."""
        if not self.count:
            # Of an array that is empty along a dimension that isn't shown nothing is there, either.
            return 0, 0
        down, across = self.per_cell
        if len(self.axes) == 2:
            rows, columns = (_length(self.ranges[axis]) for axis in self.axes)
            return -(-rows // down), -(-columns // across)
        cells = -(-self.count // across)
        return -(-cells // MOST_CELLS), min(cells, MOST_CELLS)

    @property
    def is_binned(self) -> bool:
        return self.per_cell != (1, 1)

    @property
    def steps(self) -> tuple[int, int]:
        """Of how many chunks of a bin one is looked at, along either side."""
        excess = max(1, -(-self.count // MOST_CHUNKS))
        down, across = self.per_cell
        even = min(down, math.isqrt(excess - 1) + 1)
        across = min(across, -(-excess // even))
        # Where one side is too short to be thinned out the other one is for both.
        return min(down, -(-excess // across)), across

    def batches(self, row: int, column: int, before: bytes) -> Iterator[list[bytes]]:
        """Of one cell the keys of those chunks that are looked at, with `before` in front of each,
        some hundreds at a time; none where a short row has ended.
        """
        (down, across), (step_down, step_across) = self.per_cell, self.steps
        first = [each.start for each in self.ranges]
        if not self.axes:
            yield [before + self.grid.keys.key(tuple(first)).encode()] if self.count else []
            return
        if len(self.axes) == 1:
            axis, start = self.axes[0], (row * MOST_CELLS + column) * across
            yield from self._line(
                first, axis, _cut(self.ranges[axis], start, across, step_across), before
            )
            return
        one, other = self.axes
        along = _cut(self.ranges[other], column * across, across, step_across)
        for at in _cut(self.ranges[one], row * down, down, step_down):
            first[one] = at
            yield from self._line(first, other, along, before)

    def _line(
        self, first: Sequence[int], axis: int, numbers: range, before: bytes
    ) -> Iterator[list[bytes]]:
        """Keys of the chunks that differ from one in their number along one axis."""
        # A key is the same for all of a line but for that number: this is walked a million times.
        keys, spelled_out = self.grid.keys, [str(at).encode() for at in first]
        if keys.is_reversed:
            spelled_out.reverse()
            axis = len(first) - 1 - axis
        separator = keys.separator.encode()
        prefix = [keys.prefix.encode()] if keys.prefix else []
        head = before + separator.join([*prefix, *spelled_out[:axis], b""])
        tail = separator.join([b"", *spelled_out[axis + 1 :]])
        for at in range(0, len(numbers), _BATCH):
            yield [b"%b%d%b" % (head, number, tail) for number in numbers[at : at + _BATCH]]

    def first_chunk(self, row: int, column: int) -> int:
        """The chunk's number along the last axis shown that a row or a column begins with; for rows
        of two axes that along the first.
        """
        if not self.axes:
            return 0
        down, across = self.per_cell
        if len(self.axes) == 2:
            axis = self.axes[0] if not column else self.axes[1]
            return self.ranges[axis].start + (row * down if not column else column * across)
        return self.ranges[self.axes[0]].start + (row * MOST_CELLS + column) * across


def plane_of(grid: ChunkGrid, selection: Selection | None) -> Plane:
    """None selects the last two dimensions whole, of the others the first element. Dimensions that
    a selection leaves out at its end count whole. Raises ValueError with a sentence.
    """
    chosen = _default(grid.rank) if selection is None else selection
    if len(chosen) > grid.rank:
        raise ValueError(f"There are {len(chosen)} numbers and slices, for {_dimensions(grid)}.")
    chosen = (*chosen, *[slice(None)] * (grid.rank - len(chosen)))
    axes = tuple(axis for axis, each in enumerate(chosen) if isinstance(each, slice))
    if len(axes) > 2:
        raise ValueError(
            f"Two dimensions can be shown at once, not {len(axes)}: give numbers for the others of "
            f"{_dimensions(grid)}."
        )
    elements = [_as_slice(*each) for each in zip(chosen, grid.shape, strict=True)]
    return Plane(grid, chosen, grid.region(elements).ranges, axes)


def _default(rank: int) -> Selection:
    return (*[0] * (rank - 2), *[slice(None)] * min(rank, 2))


def _as_slice(chosen: int | slice, length: int) -> slice:
    if isinstance(chosen, slice):
        return chosen
    at = chosen + length if chosen < 0 else chosen
    # The first of an empty dimension is no error: nothing is there to be shown.
    if not 0 <= at < max(length, 1):
        raise ValueError(f"{chosen} is no element of a dimension of {length}.")
    return slice(at, at + 1)


def _dimensions(grid: ChunkGrid) -> str:
    return f"{grid.rank} dimension{'' if grid.rank == 1 else 's'}"


def spelled(chosen: Sequence[int | slice]) -> str:
    """As `parse_selection` reads it."""
    return ",".join(
        f"{'' if each.start is None else each.start}:{'' if each.stop is None else each.stop}"
        if isinstance(each, slice)
        else str(each)
        for each in chosen
    )


def _cut(whole: range, first: int, length: int, step: int) -> range:
    start = whole.start + first
    return range(start, min(start + length, whole.stop), step)


def _length(numbers: range) -> int:
    return max(0, numbers.stop - numbers.start)
