"""A body on its way to disk: in memory while it is small, else in a temp file laid out as Arrow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import xxhash

from chunkside.core.entry import BodyRef, Part, StampPair, Stored
from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.gateway.ports import Buffer
from chunkside.store import arrow_file
from chunkside.store.arrow_file import CorruptError
from chunkside.store.directory import BodyDirectory, OpenFile, blocks_of, temp_path
from chunkside.store.lanes import Lanes
from chunkside.store.mapping import allocate
from chunkside.store.moulds import Mark
from chunkside.store.readers import SMALL_BYTES

READ_BACK_BYTES: Final = 128 * 1024
"""Of a body that grows, at a time: each of many slow readers holds one such piece in memory."""
_COPIED_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Draft:
    """What the file will say of its body. `length` is None where it isn't known yet."""

    path: str
    stored: Stored
    part: Part | None
    stamps: StampPair
    table_id: bytes
    nonce: int
    length: int | None

    @property
    def temp(self) -> str:
        return temp_path(self.path, self.nonce)

    def layout(self, length: int) -> arrow_file.Layout:
        stored = self.stored if self.part is not None else replace(self.stored, length=length)
        mark = Mark(self.stamps, self.table_id, self.nonce)
        try:
            return arrow_file.layout(stored, self.part, mark, length)
        except ValueError as fault:
            raise CorruptError(str(fault)) from fault


class _Tail:
    """What has come and isn't written yet. Nothing of it is copied but what comes in little pieces,
    of which there may be very many.
    """

    def __init__(self) -> None:
        self.size = 0
        self.pieces: list[bytes | bytearray] = []

    def add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        last = self.pieces[-1] if self.pieces else None
        if len(chunk) > _COPIED_BYTES:
            self.pieces.append(chunk)
        elif isinstance(last, bytearray):
            last += chunk
        else:
            self.pieces.append(bytearray(chunk))

    def read(self, at: int, limit: int) -> bytes:
        """Of one piece, as many bytes as there are."""
        for piece in self.pieces:
            if at < len(piece):
                return bytes(memoryview(piece)[at : at + limit])
            at -= len(piece)
        return b""


class DiskWriter:
    """Memory holds what came since the last flush, at most SMALL_BYTES and one chunk."""

    def __init__(
        self,
        draft: Draft,
        directory: BodyDirectory,
        lanes: Lanes,
        on_commit: Callable[[BodyRef, OpenFile, int], None],
    ) -> None:
        self._draft = draft
        self._directory = directory
        self._lanes = lanes
        self._on_commit = on_commit
        self._file: OpenFile | None = None
        self._layout: arrow_file.Layout | None = None
        self._tail = _Tail()
        self._flushed = 0
        self._hasher = xxhash.xxh3_64()
        self._is_ended = False
        self._is_committed = False
        self._is_abandoned = False

    async def prepare(self) -> None:
        """Takes all the space of a large body at once. Raises StoreFault."""
        length = self._draft.length
        if length is None or length <= SMALL_BYTES:
            return
        try:
            await self._lanes.in_order("begin", self._draft.path, self._open, length)
        except BaseException:
            self._drop_temp()
            raise

    async def append(self, chunk: bytes) -> None:
        length = self._draft.length
        if self._is_ended:
            raise StoreFault("append", "closed")
        if length is not None and self._appended + len(chunk) > length:
            raise StoreFault("append", "length")
        self._tail.add(chunk)
        if self._tail.size > SMALL_BYTES:
            await self._flush()

    async def read(self, start: int, limit: int) -> Buffer:
        if self._is_abandoned:
            raise BodyTorn("the fill was given up")
        if start >= self._flushed or self._file is None or self._layout is None:
            return self._tail.read(start - self._flushed, limit)
        size = min(limit, READ_BACK_BYTES, self._flushed - start)
        try:
            content = await self._lanes.beside(
                "read", _pread, self._file, size, self._layout.body_offset + start
            )
        except StoreFault as fault:
            raise BodyTorn("the growing file can't be read") from fault
        if not content:
            raise BodyTorn("the growing file was truncated")
        return content

    async def commit(self, length: int) -> BodyRef:
        known = self._draft.length
        if self._is_ended:
            raise StoreFault("commit", "closed")
        if length != self._appended or known not in (None, length):
            raise StoreFault("commit", "length")
        self._is_ended = True
        try:
            body, file, offset = await self._lanes.in_order(
                "commit", self._draft.path, self._finish, length
            )
        except BaseException:
            self._drop_temp()
            raise
        self._is_committed = True
        self._on_commit(body, file, offset)
        return body

    async def abandon(self) -> None:
        if self._is_committed:
            return
        self._is_ended = self._is_abandoned = True
        with contextlib.suppress(StoreFault):
            await self._lanes.in_order("abandon", self._draft.path, self._discard)

    @property
    def _appended(self) -> int:
        return self._flushed + self._tail.size

    async def _flush(self) -> None:
        if self._file is None:
            await self._lanes.in_order("append", self._draft.path, self._open, None)
        await self._lanes.beside("append", self._write_tail)
        self._flushed += self._tail.size
        self._tail = _Tail()

    def _drop_temp(self) -> None:
        self._is_ended = True
        with contextlib.suppress(RuntimeError):
            self._lanes.submit(self._draft.path, self._discard)

    # From here on: in the store's threads.

    def _open(self, length: int | None) -> None:
        layout = self._draft.layout(length or 0)
        file = self._directory.create(self._draft.temp)
        if length is not None:
            allocate(file.fd, layout.size)
        self._layout = layout
        self._file = file

    def _write_tail(self) -> None:
        assert self._file is not None
        assert self._layout is not None
        _pwrite_all(self._file, self._hashed_tail(), self._layout.body_offset + self._flushed)

    def _hashed_tail(self) -> Sequence[bytes | bytearray]:
        for piece in self._tail.pieces:
            self._hasher.update(piece)
        return self._tail.pieces

    def _finish(self, length: int) -> tuple[BodyRef, OpenFile, int]:
        begun = self._layout
        layout = begun if begun and begun.length == length else self._draft.layout(length)
        tail = self._hashed_tail()
        end = [*tail, layout.suffix(self._hasher.intdigest())]
        if self._file is None:
            self._file = self._directory.create(self._draft.temp)
            _pwrite_all(self._file, [layout.prefix, *end], 0)
        elif begun is None or layout.body_offset != begun.body_offset:
            raise CorruptError("the prefix has another size at this length")
        else:
            _pwrite_all(self._file, end, layout.body_offset + self._flushed)
            _pwrite_all(self._file, [layout.prefix], 0)
        status = os.fstat(self._file.fd)
        if status.st_size != layout.size:
            raise CorruptError("somebody else wrote to the temp file")
        self._directory.floor.measure()
        os.rename(self._draft.temp, self._draft.path)
        body = BodyRef(
            key=self._draft.stored.key,
            inode=status.st_ino,
            nonce=self._draft.nonce,
            length=length,
            blocks=blocks_of(status),
            part=self._draft.part,
            variant=self._draft.stored.variant,
        )
        return body, self._file, layout.body_offset

    def _discard(self) -> None:
        """Unlinks the temp file, if there is one; what fails here the next scan finds."""
        try:
            os.unlink(self._draft.temp)
        except OSError:
            return


def _pread(file: OpenFile, size: int, offset: int) -> bytes:
    return os.pread(file.fd, size, offset)


def _pwrite_all(file: OpenFile, parts: Sequence[bytes | bytearray], offset: int) -> None:
    """Writes all parts one after the other, however often the kernel takes only some."""
    views = [memoryview(part) for part in parts if part]
    while views:
        written = os.pwritev(file.fd, views, offset)
        offset += written
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views and written:
            views[0] = views[0][written:]
