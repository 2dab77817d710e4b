"""Prefixes of files like one that Arrow made, without Arrow, for which each takes a quarter of a
millisecond.

Files of one shape (the same fields with values of the same lengths, a target of the same length,
and so on) differ only in some numbers and bytes, which lie at the same places. Where those are is
found once for each shape, in a prefix that Arrow makes of marks that nothing else looks like; and
what the mould then gives must be what Arrow gives, else the shape has none.
"""

from __future__ import annotations

import random
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from chunkside.core.entry import Now, Part, StampPair, Stored
from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey

_MOST_SHAPES: Final = 256
_LONGEST_PREFIX: Final = 8 << 10
# Shorter bytes may occur by chance.
_SHORTEST_MARK: Final = 8
_MARKED_LENGTH: Final = 1 << 33
_INTEGER: Final = struct.Struct("<Q")
_FLOAT: Final = struct.Struct("<d")
# How far from its beginning the end of a record batch may be, beside its body.
_FARTHEST: Final = 1 << 20

Shape = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells this file from every other, and what it was stored under."""

    stamps: StampPair
    table_id: bytes
    nonce: int


@dataclass(frozen=True, slots=True)
class Row:
    """What the prefix of one file says. `length`: of the bytes in it."""

    stored: Stored
    part: Part | None
    mark: Mark
    length: int

    @property
    def shape(self) -> Shape:
        """Whatever is the same, prefixes of the same shape have it at the same place."""
        stored, lines = self.stored, self.stored.fields.lines
        return (
            *(stored.key.namespace, len(stored.key.target), stored.key_class, stored.status),
            *(tuple(name for name, _ in lines), tuple(len(value) for _, value in lines)),
            *(stored.origin_lifetime is None, stored.origin_field, stored.variant),
            *(self.part is None, self.mark.table_id),
        )


class Moulds:
    """`make` has Arrow make a prefix. May be used by several threads."""

    def __init__(self, make: Callable[[Row], bytes]) -> None:
        self._make = make
        self._met_once: set[Shape] = set()
        self._known: dict[Shape, _Mould | None] = {}

    def prefix(self, row: Row) -> bytes:
        """Raises what `make` raises."""
        shape = row.shape
        mould = self._known.get(shape)
        if mould is not None:
            return mould.cast(row)
        prefix = self._make(row)
        if shape not in self._known:
            self._meet(shape, row, prefix)
        return prefix

    def _meet(self, shape: Shape, row: Row, prefix: bytes) -> None:
        if shape not in self._met_once:
            if len(self._met_once) >= _MOST_SHAPES:
                self._met_once.clear()
            self._met_once.add(shape)
            return
        if len(self._known) >= _MOST_SHAPES:
            self._known.clear()
        self._known[shape] = self._mould_of(row, prefix)

    def _mould_of(self, row: Row, prefix: bytes) -> _Mould | None:
        """None where Arrow's prefix of a row can't be had by one, or would take much memory."""
        if len(prefix) > _LONGEST_PREFIX:
            return None
        marked = _marked(row)
        try:
            mould = _Mould(marked, self._make(marked))
        except (LookupError, OSError, MemoryError):
            return None
        return mould if mould.cast(row) == prefix else None


def _marked(row: Row) -> Row:
    stored = row.stored
    marks = replace(
        stored,
        key=CacheKey(stored.key.namespace, secrets.token_bytes(len(stored.key.target))),
        fields=Fields((name, secrets.token_bytes(len(value))) for name, value in stored.fields),
        length=_number(),
        origin_lifetime=None if stored.origin_lifetime is None else _real(),
        initial_age=_real(),
        requested_at=Now(boot=_real(), wall=_real()),
    )
    return Row(
        marks,
        None if row.part is None else Part(_number(), 0),
        Mark(StampPair(_number(), _number()), row.mark.table_id, _number()),
        # Odd, so that what is padded is another number.
        _MARKED_LENGTH + 8 * secrets.randbits(20) + 1,
    )


def _number() -> int:
    return secrets.randbits(62) | 1 << 62


def _real() -> float:
    return 1e100 * (1 + random.SystemRandom().random())


def _bytes_of(row: Row) -> tuple[bytes, bytes]:
    """Arrow joins the values of a column."""
    return row.stored.key.target, b"".join(value for _, value in row.stored.fields)


def _integers_of(row: Row) -> tuple[int, ...]:
    mark, part = row.mark, row.part
    own = (mark.stamps.object, mark.stamps.location, mark.nonce, row.stored.length)
    return own if part is None else (*own, part.first)


def _reals_of(row: Row) -> tuple[float, ...]:
    stored = row.stored
    own = (stored.requested_at.wall, stored.requested_at.boot, stored.initial_age)
    return own if stored.origin_lifetime is None else (*own, stored.origin_lifetime)


class _Mould:
    """Raises LookupError where a mark isn't found just once."""

    __slots__ = ("_bytes", "_integers", "_lengths", "_padded", "_prefix", "_reals")

    def __init__(self, marked: Row, prefix: bytes) -> None:
        self._prefix = prefix
        self._bytes = [_place(prefix, each) if each else 0 for each in _bytes_of(marked)]
        self._integers = [_place(prefix, _INTEGER.pack(each)) for each in _integers_of(marked)]
        self._reals = [_place(prefix, _FLOAT.pack(each)) for each in _reals_of(marked)]
        self._lengths: list[int] = []
        # Of numbers that count up to the padded end of the body: where they are, and what beyond.
        self._padded: list[tuple[int, int]] = []
        padded = _padded(marked.length)
        for at in range(0, len(prefix) - 7, 8):
            (number,) = _INTEGER.unpack_from(prefix, at)
            if number == marked.length:
                self._lengths.append(at)
            elif 0 <= number - padded < _FARTHEST:
                self._padded.append((at, number - padded))

    def cast(self, row: Row) -> bytes:
        prefix = bytearray(self._prefix)
        for at, content in zip(self._bytes, _bytes_of(row), strict=True):
            prefix[at : at + len(content)] = content
        for at, integer in zip(self._integers, _integers_of(row), strict=True):
            _INTEGER.pack_into(prefix, at, integer)
        for at, real in zip(self._reals, _reals_of(row), strict=True):
            _FLOAT.pack_into(prefix, at, real)
        for at in self._lengths:
            _INTEGER.pack_into(prefix, at, row.length)
        padded = _padded(row.length)
        for at, beyond in self._padded:
            _INTEGER.pack_into(prefix, at, padded + beyond)
        return bytes(prefix)


def _padded(length: int) -> int:
    return length + -length % 8


def _place(prefix: bytes, mark: bytes) -> int:
    at = prefix.find(mark)
    if len(mark) < _SHORTEST_MARK or at < 0 or prefix.find(mark, at + 1) >= 0:
        raise LookupError(f"{len(mark)} bytes have no place of their own")
    return at
