"""Where entries lie and in what order they were used: one row of numbers each, linked by number.

Markers are on two lists, so that a flood of keys that are asked for once can't wash out those that
are asked for again: a new marker is cold, its first use makes it hot, and cold ones go first. Only
while hot ones are more than four fifths of all does the oldest of them go, so that what was hot an
hour ago can't lock out what is new. (Fairness by prefix was considered: it would need a count for
each prefix, which is what a flood of prefixes fills.)

An absence costs its row, one int, one place in a dict and its key. An object for each would cost
twice the memory, and an OrderedDict of them three times. All of a row lies together, since at a
million markers nearly every number that a look-up reads has to come from memory.
"""

from __future__ import annotations

import struct
from array import array
from typing import Final

from chunkside.core.entry import Absent, BodyRef, Now, Partial, Present, Variants

COLD: Final = 0
BODIES: Final = 1
HOT: Final = 2
TOPS: Final = 3
_HEADS: Final = 4

_IS_GONE: Final = 1
_ANY_ORIGIN: Final = 2
_IS_HOT: Final = 4
_IS_REFUSED: Final = 8
_FLAG_BITS: Final = 8
_FLAG_OF_STATUS: Final = {404: 0, 410: _IS_GONE, 403: _IS_REFUSED}
_STATUS_OF_FLAG: Final = {flag: status for status, flag in _FLAG_OF_STATUS.items()}

# A row in words of 32 bits: the links, the tag, and what is known of an absence: wall-clock second,
# boot-clock second, lifetime, token.
_PREV: Final = 1
_TAG: Final = 2
_FACTS: Final = 3
_ABSENCE: Final = struct.Struct("=IdfQ")
_ROW: Final = _FACTS + _ABSENCE.size // 4
_NOTHING: Final = (0,) * _ROW

What = Present | Partial | Variants | BodyRef | bytes


class Slots:
    """Numbered places, each on one of four lists, least recently used first.

    A place holds a Present; the top of an entry with several files, or such a file, which goes by
    itself; or an absence, packed into the arrays beside its target.
    """

    __slots__ = ("_count", "_free", "_rows", "what")

    def __init__(self) -> None:
        # The first places are the heads of the circular lists.
        self.what: list[What | None] = [None] * _HEADS
        self._rows = array("I")
        for head in range(_HEADS):
            self._rows.extend((head, head, *_NOTHING[_TAG:]))
        self._count = [0] * _HEADS
        self._free: list[int] = []

    def add(self, what: What, space: int) -> int:
        """Puts `what` at the used end of its list; gives its number."""
        if self._free:
            slot = self._free.pop()
            self.what[slot] = what
        else:
            slot = len(self.what)
            self.what.append(what)
            self._rows.extend(_NOTHING)
        self._rows[slot * _ROW + _TAG] = space << _FLAG_BITS
        self._append(slot, self._list_of(slot))
        return slot

    def free(self, slot: int) -> None:
        self._unlink(slot)
        self.what[slot] = None
        self._free.append(slot)

    def touch(self, slot: int) -> None:
        """Puts a place at the used end of its list; a marker becomes hot."""
        rows, row = self._rows, slot * _ROW
        after, before = rows[row], rows[row + _PREV]
        if isinstance(self.what[slot], bytes):
            tag = rows[row + _TAG]
            head = HOT
            if not tag & _IS_HOT:
                rows[row + _TAG] = tag | _IS_HOT
                self._count[COLD] -= 1
                self._count[HOT] += 1
        else:
            head = self._list_of(slot)
        # Out of its place and into the last one: here, since every hit does it.
        rows[before * _ROW], rows[after * _ROW + _PREV] = after, before
        last = rows[head * _ROW + _PREV]
        rows[row], rows[row + _PREV] = head, last
        rows[last * _ROW] = rows[head * _ROW + _PREV] = slot

    def _list_of(self, slot: int) -> int:
        what = self.what[slot]
        if isinstance(what, bytes):
            return HOT if self._rows[slot * _ROW + _TAG] & _IS_HOT else COLD
        return TOPS if isinstance(what, Partial | Variants) else BODIES

    def marker_to_evict(self) -> int | None:
        """The place of the marker that goes first."""
        hot, cold = self._count[HOT], self._count[COLD]
        return self.oldest(HOT if hot > 4 * cold else COLD)

    def markers(self) -> list[int]:
        """All places of markers: cold ones, then hot ones, least recently used first."""
        return self.in_order(COLD) + self.in_order(HOT)

    def oldest(self, which: int) -> int | None:
        """The least recently used place of a list."""
        slot = self._rows[which * _ROW]
        return slot if slot != which else None

    def in_order(self, which: int) -> list[int]:
        """All places of a list, least recently used first."""
        order = []
        slot = self._rows[which * _ROW]
        while slot != which:
            order.append(slot)
            slot = self._rows[slot * _ROW]
        return order

    def space(self, slot: int) -> int:
        return self._rows[slot * _ROW + _TAG] >> _FLAG_BITS

    def pack(self, slot: int, absent: Absent) -> None:
        flags = _FLAG_OF_STATUS[absent.status] | (_ANY_ORIGIN if absent.allows_any_origin else 0)
        row = slot * _ROW
        kept = self.space(slot) << _FLAG_BITS | self._rows[row + _TAG] & _IS_HOT
        self._rows[row + _TAG] = kept | flags
        sent = absent.requested_at
        # Whole seconds, rounded up: a marker's age by the wall clock may read up to a second less.
        wall = min(max(int(sent.wall) + 1, 0), 2**32 - 1)
        facts = (wall, sent.boot, absent.lifetime, absent.token)
        _ABSENCE.pack_into(self._rows, 4 * (row + _FACTS), *facts)

    def unpack(self, slot: int) -> Absent:
        row = slot * _ROW
        wall, boot, lifetime, token = _ABSENCE.unpack_from(self._rows, 4 * (row + _FACTS))
        flags = self._rows[row + _TAG]
        status = _STATUS_OF_FLAG[flags & (_IS_GONE | _IS_REFUSED)]
        any_origin = bool(flags & _ANY_ORIGIN)
        return Absent(status, Now(boot, float(wall)), lifetime, token, any_origin)

    def _append(self, slot: int, head: int) -> None:
        rows = self._rows
        last = rows[head * _ROW + _PREV]
        rows[slot * _ROW], rows[slot * _ROW + _PREV] = head, last
        rows[last * _ROW] = rows[head * _ROW + _PREV] = slot
        self._count[head] += 1

    def _unlink(self, slot: int) -> None:
        rows = self._rows
        after, before = rows[slot * _ROW], rows[slot * _ROW + _PREV]
        rows[before * _ROW], rows[after * _ROW + _PREV] = after, before
        self._count[self._list_of(slot)] -= 1
