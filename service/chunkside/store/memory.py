"""Bodies in memory, for where no disk is fit: the port BodyStore. The index bounds their bytes."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from typing import Final

import xxhash

from chunkside.core.entry import BLOCK_BYTES, BodyRef, Part, StampPair, Stored
from chunkside.core.key import CacheKey
from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.gateway.ports import Buffer, Found, StampTable

_OVERHEAD_BYTES: Final = 1024
_BATCH: Final = 64

_Name = tuple[CacheKey, Part | None, bytes]


class MemoryReader:
    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def length(self) -> int:
        return len(self._content)

    async def read(self, start: int, limit: int) -> Buffer:
        return memoryview(self._content)[start : start + limit]

    async def checksum(self, start: int, size: int) -> int:
        return xxhash.xxh3_64_intdigest(self._content[start : start + size])

    def read_now(self, start: int, size: int) -> Buffer | None:
        return memoryview(self._content)[start : start + size]

    def copy_now(self, start: int, size: int) -> Buffer | None:
        return self.read_now(start, size)


class MemoryWriter:
    def __init__(
        self,
        store: MemoryBodyStore,
        stored: Stored,
        stamps: StampPair,
        length: int | None,
        part: Part | None,
    ) -> None:
        self._store = store
        self._stored = stored
        self._part = part
        self._stamps = stamps
        self._length = length
        self._content = bytearray()
        self._is_ended = False
        self._is_abandoned = False

    async def append(self, chunk: bytes) -> None:
        if self._is_ended:
            raise StoreFault("append", "closed")
        if self._length is not None and len(self._content) + len(chunk) > self._length:
            raise StoreFault("append", "length")
        self._content += chunk

    async def read(self, start: int, limit: int) -> Buffer:
        if self._is_abandoned:
            raise BodyTorn("the fill was given up")
        return bytes(memoryview(self._content)[start : start + limit])

    async def commit(self, length: int) -> BodyRef:
        if self._is_ended:
            raise StoreFault("commit", "closed")
        if length != len(self._content) or self._length not in (None, length):
            raise StoreFault("commit", "length")
        self._is_ended = True
        stored = self._stored if self._part else replace(self._stored, length=length)
        return self._store.put(stored, self._part, self._stamps, bytes(self._content))

    async def abandon(self) -> None:
        if not self._is_ended:
            self._is_ended = self._is_abandoned = True
            self._content.clear()


class MemoryBodyStore:
    def __init__(self, table: StampTable) -> None:
        self._table = table
        self._held: dict[_Name, tuple[Found, bytes]] = {}
        self._nonces = itertools.count(1)

    async def begin(
        self, stored: Stored, stamps: StampPair, length: int | None, part: Part | None = None
    ) -> MemoryWriter:
        return MemoryWriter(self, stored, stamps, length, part)

    def put(self, stored: Stored, part: Part | None, stamps: StampPair, content: bytes) -> BodyRef:
        nonce = next(self._nonces)
        blocks = -(-(len(content) + _OVERHEAD_BYTES) // BLOCK_BYTES)
        body = BodyRef(stored.key, nonce, nonce, len(content), blocks, part, stored.variant)
        self._held[_name(body)] = (Found(stored, body, self._table.id, stamps), content)
        return body

    def reader(self, body: BodyRef) -> MemoryReader | None:
        held = self._held.get(_name(body))
        if held is None or held[0].body.nonce != body.nonce:
            return None
        return MemoryReader(held[1])

    async def open(self, body: BodyRef) -> MemoryReader:
        reader = self.reader(body)
        if reader is None:
            raise StoreFault("open", "ENOENT")
        return reader

    async def checksum(self, body: BodyRef, start: int, size: int) -> int:
        reader = await self.open(body)
        return await reader.checksum(start, size)

    async def find(self, key: CacheKey, part: Part | None = None) -> Found | None:
        held = self._held.get((key, part, b""))
        return None if held is None else held[0]

    async def scan(self) -> AsyncIterator[list[Found]]:
        found = [held for held, _ in self._held.values()]
        for first in range(0, len(found), _BATCH):
            yield found[first : first + _BATCH]

    async def remove(self, bodies: Iterable[BodyRef]) -> None:
        for body in bodies:
            if self.reader(body) is not None:
                del self._held[_name(body)]

    async def close(self) -> None:
        self._held.clear()

    def has_room(self, _size: int) -> bool:
        return True

    def set_aside(self, _size: int, *, is_index_whole: bool) -> bool:  # noqa: ARG002
        return True

    def give_back(self, _size: int) -> None:
        return

    @property
    def is_shared(self) -> bool:
        return False


def _name(body: BodyRef) -> _Name:
    return body.key, body.part, body.variant
