"""The chunk grid of one array: how many chunks there are, and by which keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

# A length below 2**63 has at most 19 digits.
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,18}")

Coordinates = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChunkKeys:
    """How coordinates are spelled in keys. `prefix`: what stands before them, such as `c`, and all
    that an array of no dimensions has; there `0` takes its place where it is empty. `is_reversed`:
    the last coordinate comes first (N5).
    """

    separator: str
    prefix: str = ""
    is_reversed: bool = False

    def key(self, coordinates: Coordinates) -> str:
        """Relative to the array, such as `c/0/12`."""
        ordered = reversed(coordinates) if self.is_reversed else coordinates
        spelled = self.separator.join(map(str, ordered))
        if not self.prefix:
            return spelled or "0"
        return f"{self.prefix}{self.separator}{spelled}" if coordinates else self.prefix

    def coordinates(self, key: str, rank: int) -> Coordinates | None:
        """The inverse. None where no chunk of an array of `rank` dimensions has such a key."""
        if not rank:
            return () if key == self.key(()) else None
        head = self.prefix + self.separator if self.prefix else ""
        if not key.startswith(head):
            return None
        # One more than can be right, so that a very long key isn't cut to pieces.
        parts = key[len(head) :].split(self.separator, rank)
        if len(parts) != rank or not all(map(_NUMBER.fullmatch, parts)):
            return None
        numbers = tuple(map(int, parts))
        return numbers[::-1] if self.is_reversed else numbers


@dataclass(frozen=True, slots=True)
class Region:
    """The chunks from the first to the last, both inclusive, along each dimension. What it counts
    may be any number: walk it, never make a list of it.
    """

    ranges: tuple[range, ...]

    @property
    def count(self) -> int:
        return math.prod(_length(each) for each in self.ranges)

    def __iter__(self) -> Iterator[Coordinates]:
        """In C order: the last dimension runs fastest."""
        # Else one that is empty would be looked for as often as the others are long.
        return _walk(self.ranges) if all(self.ranges) else iter(())

    def ordinal(self, coordinates: Coordinates) -> int:
        """The place of a chunk of the region in its walk, from 0."""
        place = 0
        for at, each in zip(coordinates, self.ranges, strict=True):
            place = place * _length(each) + each.index(at)
        return place

    def __contains__(self, coordinates: Coordinates) -> bool:
        return len(coordinates) == len(self.ranges) and all(
            at in each for at, each in zip(coordinates, self.ranges, strict=True)
        )


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """A regular grid. `shape` and `chunk_shape` in elements, in C order. With the sharding codec
    the chunks are the shards: those are what has keys.
    """

    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    keys: ChunkKeys

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Chunks along each dimension; none where the array is empty."""
        pairs = zip(self.shape, self.chunk_shape, strict=True)
        return tuple(-(-length // chunk) if length else 0 for length, chunk in pairs)

    @property
    def count(self) -> int:
        """Of all chunks: 1 for an array of no dimensions."""
        return math.prod(self.grid_shape)

    @property
    def elements_per_chunk(self) -> int:
        return math.prod(self.chunk_shape)

    def key(self, coordinates: Coordinates) -> str:
        """Relative to the array. Raises ValueError for coordinates outside of the grid."""
        if coordinates not in self.region():
            raise ValueError(f"{coordinates!r} is no chunk of a grid of {self.grid_shape!r}")
        return self.keys.key(coordinates)

    def coordinates(self, key: str) -> Coordinates | None:
        """The inverse of `key`: None for what is no key of this grid, spelled as the array does."""
        found = self.keys.coordinates(key, self.rank)
        return found if found is not None and found in self.region() else None

    def region(self, elements: Sequence[slice] = ()) -> Region:
        """The chunks that hold any of these elements; dimensions that are left out count whole.

        Bounds are as in Python: negative ones count from the end, those outside are cut. Raises
        ValueError for more slices than dimensions, and for steps.
        """
        if len(elements) > self.rank:
            raise ValueError(f"{len(elements)} slices of an array of {self.rank} dimensions")
        if any(each.step not in (None, 1) for each in elements):
            raise ValueError("a slice with a step")
        whole = [slice(None)] * (self.rank - len(elements))
        selected = zip([*elements, *whole], self.shape, self.chunk_shape, strict=True)
        return Region(tuple(_chunks_of(*each) for each in selected))

    def walk_keys(self, region: Region | None = None) -> Iterator[str]:
        """Keys of all chunks, or those of a region, in C order of their coordinates."""
        return map(self.keys.key, self.region() if region is None else region)


def _chunks_of(elements: slice, length: int, chunk: int) -> range:
    first, stop, _ = elements.indices(length)
    return range(first // chunk, (stop - 1) // chunk + 1) if first < stop else range(0)


def _walk(ranges: Sequence[range]) -> Iterator[Coordinates]:
    # itertools.product would hold all of every range.
    if not ranges:
        yield ()
        return
    *outer, last = ranges
    for head in _walk(outer):
        for at in last:
            yield (*head, at)


def _length(numbers: range) -> int:
    # len() refuses what is over sys.maxsize.
    return max(0, numbers.stop - numbers.start)
