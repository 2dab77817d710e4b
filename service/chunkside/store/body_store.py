"""Bodies on local disk, one Arrow file each: the port BodyStore.

Knows files, threads and mappings. Must not know what may be served: it tells what is there.
Whatever the disk does reaches the caller as StoreFault or BodyTorn.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, ParamSpec

from chunkside.core.entry import BodyRef, Part, StampPair, Stored
from chunkside.core.key import CacheKey
from chunkside.gateway.errors import StoreFault
from chunkside.gateway.ports import FileSeen, Found, StampTable
from chunkside.store import arrow_file, old_formats, recovery, sweep
from chunkside.store.arrow_file import CorruptError
from chunkside.store.directory import BodyDirectory, OpenFile, Presence, open_ours, unlink_if
from chunkside.store.lanes import Lanes, store_fault
from chunkside.store.lingering import Lingering
from chunkside.store.readers import (
    MOST_MAPPED_BYTES,
    SMALL_BYTES,
    DiskReader,
    ReaderCache,
    Reading,
    default_reader_limit,
)
from chunkside.store.tally import Tally
from chunkside.store.verification import fault_of
from chunkside.store.writers import DiskWriter, Draft

_P = ParamSpec("_P")
_VERIFIED_LIMIT: Final = 65_536
# A file's time of use is written at most this often.
_USE_NOTED_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """`min_free_bytes` stay free on the volume; `budget_bytes` are what all processes on the
    directory may take together.
    """

    min_free_bytes: int = 0
    budget_bytes: int = 1 << 62


_UNBOUNDED: Final = Bounds()


class DiskBodyStore:
    """`root` is ours, owner-only, on a local disk.

    `on_fault(operation, cause)` hears of faults that nobody waits for. `map_bodies`: large bodies
    are given as slices of a mapping, which whoever writes them must not touch from Python; else
    they are read into memory. `reader_limit`: readers kept open, by default as many as the
    descriptors allow.
    """

    def __init__(
        self,
        root: str,
        table: StampTable,
        on_fault: Callable[[str, str], None],
        *,
        map_bodies: bool,
        reader_limit: int | None = None,
        bounds: Bounds = _UNBOUNDED,
        most_mapped_bytes: int = MOST_MAPPED_BYTES,
    ) -> None:
        self._directory = BodyDirectory(root, bounds.min_free_bytes)
        self._table = table
        self._on_fault = on_fault
        self._lanes = Lanes()
        self._presence = Presence(self._directory.root)
        self._reading = Reading(self._lanes, self._torn, map_bodies=map_bodies)
        self._readers = ReaderCache(reader_limit or default_reader_limit(), most_mapped_bytes)
        # The upper half of a nonce tells this process's own files, which need no second look.
        self._epoch = secrets.randbits(32)
        self._serials = itertools.count()
        self._sweep_lock = sweep.SweepLock(self._directory.root)
        self._tally = Tally(self._directory.root, bounds.budget_bytes, on_fault)
        self._lingering = Lingering()
        self._verified: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.committed_bytes = 0
        self.removed_bytes = 0
        self.directory_bytes: int | None = None
        """What directories take, bodies apart; None until this process has looked."""

    async def start(self) -> None:
        """Makes ready off the loop, slow imports included. Raises StoreFault."""
        self._loop = asyncio.get_running_loop()
        await self._lanes.beside("start", arrow_file.warm_up)
        await self._lanes.beside("start", self._directory.prepare)
        # Before others see that the directory is shared, they can see what is put there.
        for take in (self._tally.take, self._presence.take):
            try:
                await self._lanes.beside("start", take)
            except StoreFault as fault:
                # Without a lock the directory counts as shared.
                self._on_fault(fault.operation, fault.cause)

    async def close(self) -> None:
        """Waits for what is being written; readers that are held elsewhere stay valid."""
        self._readers.clear()
        await asyncio.to_thread(self._lanes.close)
        self._presence.release()
        self._tally.release()

    def has_room(self, size: int) -> bool:
        return self._directory.floor.has_room(size)

    def set_aside(self, size: int, *, is_index_whole: bool) -> bool:
        return self._tally.set_aside(size, is_index_whole=is_index_whole)

    def give_back(self, size: int) -> None:
        self._tally.give_back(size)

    @property
    def is_shared(self) -> bool:
        return not self._presence.is_alone

    @property
    def holds_unknown_files(self) -> bool:
        return self.is_shared or self._tally.have_others_written

    @property
    def open_readers(self) -> int:
        return len(self._readers)

    @property
    def mapped_bytes(self) -> int:
        return self._reading.mapped_bytes

    async def begin(
        self, stored: Stored, stamps: StampPair, length: int | None, part: Part | None = None
    ) -> DiskWriter:
        draft = Draft(
            path=self._directory.path_of(stored.key, part, stored.variant),
            stored=stored,
            part=part,
            stamps=stamps,
            table_id=self._table.id,
            nonce=self._epoch << 32 | next(self._serials) & 0xFFFF_FFFF,
            length=length,
        )
        writer = DiskWriter(draft, self._directory, self._lanes, self._committed)
        await writer.prepare()
        return writer

    def reader(self, body: BodyRef) -> DiskReader | None:
        reader = self._readers.get(body)
        if reader is None:
            return None
        if reader.is_unlinked:
            # By another process or by hand, maybe since its bytes are bad.
            self._readers.drop(body)
            self._lingering.unlinked(body)
            return None
        self._note_use(reader)
        return reader

    async def open(self, body: BodyRef) -> DiskReader:
        if (reader := self.reader(body)) is not None:
            return reader
        path = self._path_of(body)
        must_verify = body.length <= SMALL_BYTES or not self._is_verified(body)
        try:
            reader = await self._lanes.beside(
                "open", self._open, path, body, must_verify=must_verify
            )
        except StoreFault as fault:
            if fault.cause in ("corrupt", "ESTALE"):
                await self._lanes.in_order("open", path, self._clear, path, body)
            raise
        self._remember_verified(body)
        self._keep_open(reader)
        self._note_use(reader)
        return reader

    async def verify(self, body: BodyRef) -> tuple[str, str | None]:
        """The path of its file, and what is wrong with that, all of it read; None where nothing is.
        Raises StoreFault.
        """
        path = self._path_of(body)
        return path, await self._lanes.beside("verify", fault_of, self._directory, path, body)

    async def checksum(self, body: BodyRef, start: int, size: int) -> int:
        path = self._path_of(body)
        return await self._lanes.beside("checksum", self._checksum, path, body, start, size)

    async def find(self, key: CacheKey, part: Part | None = None) -> Found | None:
        path = self._directory.path_of(key, part)
        return await self._lanes.in_order("find", path, self._find, path)

    async def scan(self) -> AsyncIterator[list[Found]]:
        alone_at = self._presence.was_alone_at
        leaked = recovery.LeakedTemps(self._epoch, alone_at, self._report)
        walk = recovery.Walk(self._directory.bodies, self._report, leaked.drop)
        batches = walk.batches()
        while (paths := await self._lanes.beside("scan", next, batches, None)) is not None:
            found, unusable = await self._lanes.beside(
                "scan", recovery.load_all, self._directory, paths, self._report
            )
            for path in unusable:
                await self._lanes.in_order("scan", path, self._find, path)
            if found:
                yield found

    # Sweeping.

    def missing_bytes(self, size: int) -> int:
        return self._directory.floor.missing_bytes(size)

    @property
    def lacks_inodes(self) -> bool:
        return self._directory.floor.lacks_inodes

    @property
    def lingering_bytes(self) -> int:
        return self._lingering.bytes

    def let_go_of_unlinked(self) -> None:
        for body in self._readers.drop_unlinked():
            self._lingering.unlinked(body)

    async def measure(self) -> None:
        await self._lanes.beside("sweep", self._directory.floor.measure)

    async def begin_sweep(self) -> bool:
        await self.measure()
        return await self._lanes.beside("sweep", self._sweep_lock.take)

    def end_sweep(self) -> None:
        self._sweep_lock.release()

    @property
    def set_aside_bytes(self) -> int:
        return self._tally.set_aside_bytes

    def begin_count(self) -> None:
        self._tally.begin_count()

    def end_count(self, total_bytes: int) -> None:
        self._tally.end_count(total_bytes)

    async def survey(self) -> AsyncIterator[list[FileSeen]]:
        files = sweep.survey(self._directory.bodies, self._report, self._measured_directories)
        while (batch := await self._lanes.beside("sweep", next, files, None)) is not None:
            yield batch

    async def identify(self, paths: list[str]) -> list[tuple[str, BodyRef]]:
        found, unusable = await self._lanes.beside(
            "sweep", recovery.load_all, self._directory, paths, self._report
        )
        for path in unusable:
            await self._lanes.in_order("sweep", path, self._find, path)
        return [(self._path_of(each.body), each.body) for each in found]

    async def drop_old_formats(self) -> int:
        """Unlinks the trees of formats before today's, for as long as no other process holds the
        directory: it may be one that reads them. Gives how many files that were.
        """
        steps = old_formats.remove_old_trees(self._directory.root, self._report)
        count = 0
        try:
            while self._presence.is_alone:
                step = await self._lanes.beside("sweep", next, steps, None)
                if step is None:
                    break
                count += step
        except StoreFault:
            # The store is being closed; the next start goes on.
            return count
        return count

    async def remove(self, bodies: Iterable[BodyRef]) -> None:
        jobs: list[Future[None]] = []
        for body in bodies:
            self._readers.drop(body)
            path = self._path_of(body)
            jobs.append(self._lanes.submit(path, self._unlink, "remove", path, body))
        for job in jobs:
            await asyncio.shield(asyncio.wrap_future(job))

    def _is_verified(self, body: BodyRef) -> bool:
        """Whether this process has seen the body whole: it wrote it, or compared its checksum."""
        return body.nonce >> 32 == self._epoch or (body.inode, body.nonce) in self._verified

    def _remember_verified(self, body: BodyRef) -> None:
        if body.nonce >> 32 == self._epoch:
            return
        self._verified[body.inode, body.nonce] = None
        if len(self._verified) > _VERIFIED_LIMIT:
            self._verified.popitem(last=False)

    def _committed(self, body: BodyRef, file: OpenFile, offset: int) -> None:
        self.committed_bytes += body.charge
        self._tally.wrote(body.charge)
        self._keep_open(DiskReader(body, file, offset, time.time(), self._reading))

    def _note_use(self, reader: DiskReader) -> None:
        now = time.time()
        if now - reader.used_at > _USE_NOTED_SECONDS:
            reader.used_at = now
            self._lanes.submit(self._path_of(reader.body), reader.note_use)

    def _keep_open(self, reader: DiskReader) -> None:
        self._readers.put(reader)
        self._lingering.opened(reader)

    def _path_of(self, body: BodyRef) -> str:
        return self._directory.path_of(body.key, body.part, body.variant)

    def _torn(self, reader: DiskReader) -> None:
        body = reader.body
        self._on_fault("read", "torn")
        self._readers.drop(body)
        self._verified.pop((body.inode, body.nonce), None)
        path = self._path_of(body)
        self._lanes.submit(path, self._clear, path, body)

    def _removed(self, body: BodyRef, *, is_freed: bool) -> None:
        self.removed_bytes += body.charge if is_freed else 0
        # Where it was not there any more, a newer file had taken its path, or others removed it.
        self._lingering.unlinked(body)

    def _measured_directories(self, size: int) -> None:
        self.directory_bytes = size

    # From here on: in the store's threads. Only `_open` raises.

    def _open(self, path: str, body: BodyRef, *, must_verify: bool) -> DiskReader:
        file, status = open_ours(path)
        if status.st_ino != body.inode:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        offset = status.st_size - body.length - arrow_file.suffix_size(body.length)
        if not 0 < offset <= arrow_file.HEAD_BYTES:
            raise CorruptError("another length")
        prefix = os.pread(file.fd, offset, 0)
        suffix = os.pread(file.fd, arrow_file.TAIL_BYTES, offset + body.length)
        checksum = arrow_file.check_ends(prefix, suffix, body.length, body.nonce)
        reader = DiskReader(body, file, offset, status.st_mtime, self._reading)
        if must_verify:
            reader.check_body(checksum)
        return reader

    def _checksum(self, path: str, body: BodyRef, start: int, size: int) -> int:
        return self._open(path, body, must_verify=False).checksum_now(start, size)

    def _find(self, path: str) -> Found | None:
        """What lies at the path, unless it is unusable: then it is unlinked and counted."""
        try:
            try:
                return recovery.load(self._directory, path).found
            except CorruptError as fault:
                self._report("find", fault)
                os.unlink(path)
        except FileNotFoundError:
            return None
        except OSError as fault:
            self._report("find", fault)
        return None

    def _clear(self, path: str, body: BodyRef) -> None:
        """Unlinks a body that proved bad. A newer file of the same key stays."""
        found = self._find(path)
        if found is not None and found.body.nonce == body.nonce:
            self._unlink("open", path, body)

    def _unlink(self, operation: str, path: str, body: BodyRef) -> None:
        try:
            self._tell(self._removed, body, is_freed=unlink_if(path, body.inode))
        except OSError as fault:
            self._report(operation, fault)

    def _report(self, operation: str, fault: OSError | CorruptError) -> None:
        self._tell(self._on_fault, operation, store_fault(operation, fault).cause)

    def _tell(self, listener: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Calls `listener` on the loop, before any answer of this job; not if the loop is gone."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(partial(listener, *args, **kwargs))
