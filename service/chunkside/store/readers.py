"""Reading stored bodies: without waiting where they are warm, by a thread where they aren't."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import Final

import xxhash

from chunkside.core.entry import BodyRef
from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.gateway.ports import Buffer
from chunkside.store.arrow_file import CorruptError, suffix_size
from chunkside.store.directory import OpenFile
from chunkside.store.lanes import Lanes
from chunkside.store.mapping import Mapping, read_without_waiting

SMALL_BYTES: Final = 256 * 1024
"""A body up to this size is answered whole, and held in memory while it is filled."""
SLICE_BYTES: Final = 1024 * 1024
COPIED_BYTES: Final = 256 * 1024
"""Of a body that is read into memory, at a time: each of many slow readers holds such a piece, and
a transport may hold another copy.
"""
MOST_MAPPED_BYTES: Final = 8 << 30
"""Of all files that are kept open; 16 MiB of page tables at most."""
_LOOKED_AT: Final = 256
_SHORTER: Final = (errno.EFAULT, errno.EIO, 133)  # 133: EHWPOISON


class Reading:
    """What all readers of one store share."""

    def __init__(
        self, lanes: Lanes, on_torn: Callable[[DiskReader], None], *, map_bodies: bool
    ) -> None:
        self.lanes = lanes
        self.on_torn = on_torn
        self.map_bodies = map_bodies
        self.mapped_bytes = 0
        # A mapping may end in any thread, even in the midst of counting another.
        self._counting = RLock()
        self.can_read_without_waiting = True

    def map(self, fd: int, size: int) -> Mapping:
        mapping = Mapping(fd, size, self._unmapped)
        with self._counting:
            self.mapped_bytes += size
        return mapping

    def _unmapped(self, size: int) -> None:
        with self._counting:
            self.mapped_bytes -= size


class DiskReader:
    """One body in one open file. Stays valid when the file is unlinked. `used_at`: when the file
    says that it was used last, wall-clock seconds.
    """

    __slots__ = ("__weakref__", "_file", "_mapping", "_offset", "_shared", "body", "used_at")

    def __init__(
        self, body: BodyRef, file: OpenFile, offset: int, used_at: float, shared: Reading
    ) -> None:
        self.body = body
        self.used_at = used_at
        self._file = file
        self._offset = offset
        self._shared = shared
        self._mapping: Mapping | None = None

    @property
    def length(self) -> int:
        return self.body.length

    @property
    def file(self) -> OpenFile:
        """The whole Arrow file, open."""
        return self._file

    @property
    def file_size(self) -> int:
        """What the file must be long."""
        return self._offset + self.body.length + suffix_size(self.body.length)

    @property
    def is_unlinked(self) -> bool:
        """Whether no path names the file any more. The descriptor is open: no disk is asked."""
        return os.fstat(self._file.fd).st_nlink == 0

    def read_now(self, start: int, size: int) -> Buffer | None:
        if size == 0:
            return b""
        if size > SMALL_BYTES:
            return self._view_now(self._offset + start, size)
        return self.copy_now(start, size)

    def copy_now(self, start: int, size: int) -> Buffer | None:
        try:
            if self._shared.can_read_without_waiting:
                return read_without_waiting(self._file.fd, size, self._offset + start)
            return self._read_resident(self._offset + start, size)
        except OSError as fault:
            if fault.errno == errno.EOPNOTSUPP:
                self._shared.can_read_without_waiting = False
            return None

    def _view_now(self, at: int, size: int) -> memoryview | None:
        if size > SLICE_BYTES or not self._is_mapped():
            return None
        mapping = self._map()
        return mapping.view[at : at + size] if mapping.is_resident(at, size) else None

    def _read_resident(self, at: int, size: int) -> bytes | None:
        """For file systems without RWF_NOWAIT, once there is a mapping."""
        if self._mapping is None or not self._mapping.is_resident(at, size):
            return None
        # The kernel copies, so that a file truncated just now gives few bytes and not SIGBUS.
        content = os.pread(self._file.fd, size, at)
        return content if len(content) == size else None

    async def read(self, start: int, limit: int) -> Buffer:
        at = self._offset + start
        size = min(limit, SLICE_BYTES, self.body.length - start)
        try:
            if self._is_mapped():
                return await self._view(self._map(), at, size)
            size = min(size, COPIED_BYTES)
            content = await self._shared.lanes.beside("read", self._pread, at, size)
        except (BodyTorn, StoreFault, OSError, ValueError) as fault:
            self._shared.on_torn(self)
            raise BodyTorn("the stored file is shorter or can't be read") from fault
        return content

    def _is_mapped(self) -> bool:
        return self._shared.map_bodies and self.body.length > SMALL_BYTES

    def _map(self) -> Mapping:
        if self._mapping is None:
            self._mapping = self._shared.map(self._file.fd, self.file_size)
        return self._mapping

    async def _view(self, mapping: Mapping, at: int, size: int) -> Buffer:
        if not mapping.is_resident(at, size):
            await self._shared.lanes.beside("read", self._bring_in, mapping, at, size)
        return mapping.view[at : at + size]

    def _bring_in(self, mapping: Mapping, at: int, size: int) -> None:
        try:
            mapping.populate(at, size)
        except OSError as fault:
            if fault.errno in _SHORTER:
                raise
            # An old kernel, or one short of memory: this fills the page cache as well.
            _pread_all(self._file.fd, size, at)

    def _pread(self, at: int, size: int) -> bytes:
        content = _pread_all(self._file.fd, size, at)
        if self.body.length <= SMALL_BYTES and not self._shared.can_read_without_waiting:
            # From now on `read_now` can tell whether it would wait.
            mapping = self._map()
            mapping.populate(self._offset, self.body.length)
        return content

    def note_use(self) -> None:
        """Writes the time of use to the file, for sweeps to go by. In the store's threads."""
        with contextlib.suppress(OSError):
            os.utime(self._file.fd)

    async def checksum(self, start: int, size: int) -> int:
        try:
            return await self._shared.lanes.beside("read", self.checksum_now, start, size)
        except StoreFault as fault:
            self._shared.on_torn(self)
            raise BodyTorn("the stored file is shorter or can't be read") from fault

    def checksum_now(self, start: int, size: int) -> int:
        """The same, waiting for the disk. Raises CorruptError or OSError."""
        return _checksum(self._file, self._offset + start, size)

    def check_body(self, checksum: int) -> None:
        """Reads all of it, waiting for the disk. Raises CorruptError or OSError."""
        check_body(self._file, self._offset, self.body.length, checksum)


def check_body(
    file: OpenFile,
    offset: int,
    length: int,
    checksum: int,
    on_read: Callable[[int], object] = lambda _size: None,
) -> None:
    """Reads the body in a file, waiting for the disk. Raises CorruptError or OSError.

    `on_read` hears how many bytes each read gave, and may raise to end it.
    """
    if _checksum(file, offset, length, on_read) != checksum:
        raise CorruptError("the body doesn't match its checksum")


def _checksum(
    file: OpenFile, offset: int, length: int, on_read: Callable[[int], object] = lambda _size: None
) -> int:
    hasher = xxhash.xxh3_64()
    end = offset + length
    for at in range(offset, end, SLICE_BYTES):
        try:
            content = _pread_all(file.fd, min(SLICE_BYTES, end - at), at)
        except BodyTorn as fault:
            raise CorruptError("the file is shorter than it says") from fault
        hasher.update(content)
        on_read(len(content))
    return hasher.intdigest()


def _pread_all(fd: int, size: int, at: int) -> bytes:
    """Exactly `size` bytes. Raises BodyTorn, OSError."""
    content = os.pread(fd, size, at)
    while len(content) < size:
        more = os.pread(fd, size - len(content), at + len(content))
        if not more:
            raise BodyTorn("the file is shorter")
        content += more
    return content


def default_reader_limit() -> int:
    """A quarter of the descriptors that this process may have, and at most 4096."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(1, min(4096, soft // 4))


class ReaderCache:
    """Readers in recency order, at most `limit`: each costs a descriptor, two if it is mapped.

    `most_bytes`: of all files together, since a mapping takes page tables, 2 MiB for each GiB of
    it; but one reader stays, however large its file.
    """

    def __init__(self, limit: int, most_bytes: int = MOST_MAPPED_BYTES) -> None:
        self._limit = limit
        self._most_bytes = most_bytes
        self._readers: OrderedDict[tuple[int, int], DiskReader] = OrderedDict()
        self._bytes = 0
        self._unlooked: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, body: BodyRef) -> DiskReader | None:
        name = (body.inode, body.nonce)
        reader = self._readers.get(name)
        if reader is not None:
            self._readers.move_to_end(name)
        return reader

    def put(self, reader: DiskReader) -> None:
        self.drop(reader.body)
        self._readers[reader.body.inode, reader.body.nonce] = reader
        self._bytes += reader.file_size
        while len(self._readers) > self._limit or (
            self._bytes > self._most_bytes and len(self._readers) > 1
        ):
            _, oldest = self._readers.popitem(last=False)
            self._bytes -= oldest.file_size

    def drop(self, body: BodyRef) -> None:
        reader = self._readers.pop((body.inode, body.nonce), None)
        if reader is not None:
            self._bytes -= reader.file_size

    def drop_unlinked(self) -> list[BodyRef]:
        """Looks at the next few readers, and drops those whose files others have unlinked: their
        blocks are not free before. Gives what was dropped.
        """
        if not self._unlooked:
            self._unlooked = list(self._readers)
        dropped = []
        for name in self._unlooked[-_LOOKED_AT:]:
            reader = self._readers.get(name)
            if reader is not None and reader.is_unlinked:
                self.drop(reader.body)
                dropped.append(reader.body)
        del self._unlooked[-_LOOKED_AT:]
        return dropped

    def clear(self) -> None:
        self._readers.clear()
        self._bytes = 0
