"""Which arrays are asked for most, in a bounded structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chunkside.core.key import origin_target
from chunkside.core.redaction import without_query

_LONGEST: Final = 256


@dataclass(frozen=True, slots=True)
class Counted:
    """`count` is too high by at most `excess`, and never too low."""

    item: str
    count: int
    excess: int


class SpaceSaving:
    """The most frequent of many (Metwally, Agrawal, El Abbadi 2005): of `size` that are counted
    the rarest makes room for a new one, which inherits its count.

    Whatever is more than a share of 1/size of all is surely among them.
    """

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._counts: dict[str, list[int]] = {}

    def add(self, item: str, times: int = 1) -> None:
        known = self._counts.get(item)
        if known is not None:
            known[0] += times
        elif len(self._counts) < self._size:
            self._counts[item] = [times, 0]
        else:
            rarest = min(self._counts, key=lambda each: self._counts[each][0])
            inherited, _ = self._counts.pop(rarest)
            self._counts[item] = [inherited + times, inherited]

    def top(self, most: int) -> list[Counted]:
        counted = [Counted(item, count, excess) for item, (count, excess) in self._counts.items()]
        return sorted(counted, key=lambda each: (-each.count, each.item))[:most]


def prefix_of(raw_target: bytes) -> str:
    """The array that a target as sent to the data port is likely part of: its path less the chunk's
    key, or less its last name. Never a query, encoded or not, which may hold a signature.
    """
    try:
        path = without_query(origin_target(raw_target))
    except ValueError:
        return "/"
    directory, _, name = path.rpartition(b"/")
    while name.isdigit():
        above, _, name = directory.rpartition(b"/")
        if name.isdigit() or name == b"c":
            directory = above
    shown = (directory or b"/").decode(errors="backslashreplace")
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
