"""The table of coherence tokens that all processes of one cache directory share.

A stamp says until when nothing of its objects may be stored (32 bits of boot-clock seconds) and is
otherwise random: a token and not a counter, since two processes that count at once would lose one.
Two that write one slot in the same instant leave the later stamp; each stamps again when its write
ends. A collision of two objects in one slot costs a miss, never staleness.

Behind the stamps stand doubts, the newest of all first: until when, by the boot clock, what was
asked of a name may no longer be so.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import mmap
import os
import secrets
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chunkside.core.entry import StampPair, joined
from chunkside.core.key import Object
from chunkside.gateway.errors import StoreFault
from chunkside.gateway.ports import Watched
from chunkside.store.arrow_file import CorruptError
from chunkside.store.directory import OpenFile, create_ours, open_ours
from chunkside.store.filesystem import UnfitCacheDirectoryError, prepare_cache_directory
from chunkside.store.mapping import allocate, populated_words

_HEADER_BYTES: Final = 4096
_LOCATION_SLOTS: Final = 4096
_OBJECT_SLOTS: Final = 1 << 20
_DOUBT_SLOTS: Final = 1 << 16
_NEWEST_DOUBT: Final = _LOCATION_SLOTS + _OBJECT_SLOTS
_SLOTS_BYTES: Final = 8 * (_NEWEST_DOUBT + 1 + _DOUBT_SLOTS)
_FILE_BYTES: Final = _HEADER_BYTES + _SLOTS_BYTES
# Magic, version, table id, boot id. The slots follow in this machine's own byte order.
_HEADER: Final = struct.Struct("<16sI12x16s16s")
_MAGIC: Final = b"chunkside stamps"
_VERSION: Final = 2
# Of two times that aren't negative the later one is the larger word.
_WORD: Final = struct.Struct("Q")
_SECONDS: Final = struct.Struct("d")
_SECRET_BYTES: Final = 32
_MANY_SLOTS: Final = 1024
# Writes that always overlap put a slot's closing off further and further, but not beyond this: a
# process that is killed in the midst of one leaves it closed for so long.
_MOST_AHEAD_SECONDS: Final = 3600


@dataclass(slots=True)
class _Writes:
    """What this process knows of one slot beside its stamp.

    `last` is the stamp it wrote itself; `running` its own writes, by name, with the second until
    which each keeps the slot closed; `others_until` the same for other processes. `told_until`:
    until when the stamp it wrote closes the slot for its own writes.
    """

    last: int | None = None
    running: dict[int, int] = field(default_factory=dict)
    others_until: int = 0
    told_until: int = 0


class MemoryStampTable:
    """The table in memory of this process alone. `boot_clock`: seconds, never stepping back."""

    def __init__(self, boot_clock: Callable[[], float]) -> None:
        self._boot_clock = boot_clock
        self._writes: dict[int, _Writes] = {}
        # From how many slots on those are looked for whose writes have ended.
        self._many_writes = _MANY_SLOTS
        self._slots: dict[str, tuple[int, int]] = {}
        # The word that was read last, and what it says.
        self._newest_doubt = (0, 0.0)
        self._words: memoryview[int] = memoryview(b"")
        self._id = b""
        self._start_anew()

    @property
    def id(self) -> bytes:
        return self._id

    def read(self, target: Object) -> StampPair:
        location_slot, seed = self._location(target.location)
        object_slot = _LOCATION_SLOTS + zlib.crc32(target.path, seed) % _OBJECT_SLOTS
        return StampPair(self._words[object_slot], self._words[location_slot])

    def token(self, location: str, path: bytes) -> int:
        location_slot, seed = self._location(location)
        object_slot = _LOCATION_SLOTS + zlib.crc32(path, seed) % _OBJECT_SLOTS
        words = self._words
        return joined(words[object_slot], words[location_slot])

    def watch(self, location: str, path: bytes) -> Watched:
        location_slot, seed = self._location(location)
        object_slot = _LOCATION_SLOTS + zlib.crc32(path, seed) % _OBJECT_SLOTS
        words = self._words
        stamps = words[object_slot], words[location_slot]
        return words, object_slot, location_slot, *stamps, words[_NEWEST_DOUBT]

    def is_unchanged(self, watched: Watched) -> bool:
        words, object_slot, location_slot, of_object, of_location, doubt = watched
        return (
            words is self._words
            and words[object_slot] == of_object
            and words[location_slot] == of_location
            and words[_NEWEST_DOUBT] == doubt
        )

    def close(
        self,
        target: Object,
        seconds: float,
        *,
        whole_location: bool = False,
        ends: int | None = None,
    ) -> int:
        until = math.ceil(self._boot_clock() + seconds)
        return self._stamp(self._slot(target, whole_location=whole_location), until, ends)

    def renew(self, target: Object, *, ends: int | None, whole_location: bool = False) -> None:
        self._stamp(self._slot(target, whole_location=whole_location), None, ends)

    def doubt(self, name: Object, boot: float) -> None:
        (until,) = _WORD.unpack(_SECONDS.pack(boot))
        for slot in (self._doubt_slot(name), _NEWEST_DOUBT):
            # Again where another process has put an older one in its place just now.
            while self._words[slot] < until:
                self._put(slot, until)

    def doubted_at(self, name: Object) -> float:
        return _seconds(self._words[self._doubt_slot(name)])

    def newest_doubt(self) -> float:
        word = self._words[_NEWEST_DOUBT]
        if word != self._newest_doubt[0]:
            self._newest_doubt = word, _seconds(word)
        return self._newest_doubt[1]

    def _doubt_slot(self, name: Object) -> int:
        _, seed = self._location(name.location)
        return _NEWEST_DOUBT + 1 + zlib.crc32(name.path, seed) % _DOUBT_SLOTS

    def _location(self, location: str) -> tuple[int, int]:
        """A location's slot, and what its objects' slots are told from."""
        known = self._slots.get(location)
        if known is None:
            seed = zlib.crc32(location.encode())
            known = self._slots[location] = (seed % _LOCATION_SLOTS, seed)
        return known

    def _slot(self, target: Object, *, whole_location: bool) -> int:
        location_slot, seed = self._location(target.location)
        if whole_location:
            return location_slot
        return _LOCATION_SLOTS + zlib.crc32(target.path, seed) % _OBJECT_SLOTS

    def _stamp(self, slot: int, until: int | None, ends: int | None) -> int:
        """Writes a stamp that shortens nobody's closing; `until` is None to open the slot."""
        now = math.floor(self._boot_clock())
        if len(self._writes) > self._many_writes:
            self._forget_ended(now)
            self._many_writes = max(_MANY_SLOTS, 2 * len(self._writes))
        writes = self._writes.setdefault(slot, _Writes())
        if self._words[slot] != writes.last:
            # Whoever wrote this since left room for this process's writes. If it says no more than
            # that, no other's write runs.
            until_then = self._words[slot] >> 32
            writes.others_until = 0 if until_then == writes.told_until else until_then
        if ends is not None:
            writes.running.pop(ends, None)
        others_until = writes.others_until
        own_until = max(until or 0, *writes.running.values(), 0)
        if now < own_until <= others_until < now + _MOST_AHEAD_SECONDS:
            # One second more than what others need says that this process writes as well.
            own_until = others_until + 1
        stamp = max(now, own_until, others_until) << 32 | secrets.randbits(32)
        self._put(slot, stamp)
        writes.last, writes.told_until = stamp, own_until
        if until is not None:
            writes.running[stamp] = until
        return stamp

    def _forget_ended(self, now: int) -> None:
        for slot, writes in list(self._writes.items()):
            writes.running = {name: end for name, end in writes.running.items() if end > now}
            if not writes.running and writes.others_until <= now:
                del self._writes[slot]

    def _put(self, slot: int, stamp: int) -> None:
        self._words[slot] = stamp

    def _start_anew(self) -> None:
        """A table of memory under a new id, to which every stamp read before is another one's."""
        memory = mmap.mmap(-1, _SLOTS_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[: 8 * _LOCATION_SLOTS] = _unlike_any_location()
        self._words = memoryview(memory).cast("Q")
        for slot, writes in self._writes.items():
            if writes.last is not None:
                self._words[slot] = writes.last
        self._id = os.urandom(16)


class FileStampTable(MemoryStampTable):
    """The table in `directory`, made if there is none of this boot. Raises StoreFault.

    Where a stamp can't be written any more the table leaves the directory: it goes on in memory,
    under another id, with other stamps, and says so once by StoreFault.
    """

    def __init__(
        self, directory: str, boot_clock: Callable[[], float], boot_id: bytes | None = None
    ) -> None:
        super().__init__(boot_clock)
        self._directory = directory
        self._path = os.path.join(directory, "stamps")
        self._boot_id = _this_boot() if boot_id is None else boot_id
        self._file: OpenFile | None = None
        self._inode = 0
        with _translated("stamp"), _exclusively(directory):
            self._enter(*(_open(self._path, self._boot_id) or _make(self._path, self._boot_id)))

    @property
    def left_directory(self) -> bool:
        return self._file is None

    def is_displaced(self) -> bool:
        """Whether the directory holds another table by now, or none."""
        try:
            status = os.lstat(self._path)
        except OSError:
            return True
        return (status.st_ino, status.st_size) != (self._inode, _FILE_BYTES)

    def release(self) -> None:
        """Lets go of the file; the table can only be read from then on."""
        self._file = None

    def repair(self) -> bool:
        """Back into the directory after it was left, or after its table was exchanged; False where
        that can't be yet.

        A process that comes back makes a table of its own: what was stored under the one before was
        not stamped meanwhile, and is validated by whoever finds it. A directory that is gone is
        made again.
        """
        try:
            if not os.path.lexists(self._directory):
                prepare_cache_directory(Path(self._directory), uid=os.geteuid())
            with _exclusively(self._directory):
                there = None if self.left_directory else _open(self._path, self._boot_id)
                self._enter(*(there or _make(self._path, self._boot_id)))
            # Writes that run keep their objects closed.
            for slot, writes in self._writes.items():
                if writes.last is not None:
                    self._put(slot, writes.last)
        except (OSError, StoreFault, UnfitCacheDirectoryError):
            return False
        return True

    def _enter(self, file: OpenFile, table_id: bytes) -> None:
        self._words = populated_words(file.fd, _FILE_BYTES)[_HEADER_BYTES // 8 :]
        self._inode = os.fstat(file.fd).st_ino
        self._id = table_id
        self._file = file

    def _put(self, slot: int, stamp: int) -> None:
        if self._file is None:
            super()._put(slot, stamp)
            return
        try:
            # Never through a writable mapping: a disk that can't take it would answer with SIGBUS.
            written = os.pwrite(self._file.fd, array("Q", (stamp,)), _HEADER_BYTES + 8 * slot)
            if written != 8:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as fault:
            self._file = None
            self._start_anew()
            # Others on the directory, and those to come, must not trust a table that lacks a stamp.
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            raise _fault("stamp", fault) from fault


def load_secret(directory: str) -> bytes:
    """The directory's secret of 32 bytes, made at first. Raises StoreFault."""
    path = os.path.join(directory, "secret")
    with _translated("secret"), _exclusively(directory):
        secret = _read_secret(path)
        if secret is None:
            secret = os.urandom(_SECRET_BYTES)
            _replace(path, secret)
        return secret


def _read_secret(path: str) -> bytes | None:
    """None where there is none, or one that others could have read or that a crash left torn."""
    try:
        file, status = open_ours(path)
    except (FileNotFoundError, CorruptError):
        return None
    if status.st_mode & 0o077 or status.st_size != _SECRET_BYTES:
        return None
    secret = os.pread(file.fd, _SECRET_BYTES, 0)
    return secret if any(secret) and len(secret) == _SECRET_BYTES else None


def _open(path: str, boot_id: bytes) -> tuple[OpenFile, bytes] | None:
    try:
        file, status = open_ours(path, os.O_RDWR)
    except (FileNotFoundError, CorruptError):
        return None
    header = os.pread(file.fd, _HEADER.size, 0)
    if status.st_size != _FILE_BYTES or len(header) != _HEADER.size:
        return None
    magic, version, table_id, table_boot_id = _HEADER.unpack(header)
    if (magic, version, table_boot_id) != (_MAGIC, _VERSION, boot_id):
        return None
    return file, table_id


def _make(path: str, boot_id: bytes) -> tuple[OpenFile, bytes]:
    """A table that nobody has seen, with all of its blocks, so that a stamp always has room."""
    table_id = os.urandom(16)
    header = _HEADER.pack(_MAGIC, _VERSION, table_id, boot_id)
    slots = bytes(_HEADER_BYTES - len(header)) + _unlike_any_location()
    return _replace(path, header + slots, _FILE_BYTES), table_id


def _replace(path: str, content: bytes, size: int = 0) -> OpenFile:
    """Puts a new file of ours at `path`, in one step."""
    temp = f"{path}.tmp"
    # One that a crash left: the lock says that nobody else is writing it.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temp)
    file = create_ours(temp)
    try:
        if size:
            allocate(file.fd, size)
        if os.pwrite(file.fd, content, 0) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.rename(temp, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    return file


def _seconds(word: int) -> float:
    seconds: float = _SECONDS.unpack(_WORD.pack(word))[0]
    return seconds


def _unlike_any_location() -> bytes:
    """First stamps of all locations: open, and other than those of any table before."""
    return array("Q", (secrets.randbits(32) for _ in range(_LOCATION_SLOTS))).tobytes()


def _this_boot() -> bytes:
    """The kernel's id of this boot; where it tells none, one that no table has."""
    try:
        return bytes.fromhex(
            Path("/proc/sys/kernel/random/boot_id").read_text("ascii").replace("-", "")
        )
    except (OSError, ValueError):
        return os.urandom(16)


@contextlib.contextmanager
def _exclusively(directory: str) -> Iterator[None]:
    """Nobody else makes a table or a secret meanwhile."""
    file = create_ours(os.path.join(directory, ".stamps.lock"), exclusive=False)
    fcntl.flock(file.fd, fcntl.LOCK_EX)
    yield
    # The lock ends with the descriptor.
    del file


@contextlib.contextmanager
def _translated(operation: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise _fault(operation, fault) from fault


def _fault(operation: str, fault: OSError) -> StoreFault:
    return StoreFault(operation, errno.errorcode.get(fault.errno or 0, "EIO"))
