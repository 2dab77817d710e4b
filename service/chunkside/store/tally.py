"""What the processes of a cache directory put there together, so that they keep one budget.

A small file has what all files took when they were last counted, by whoever swept, and for each
process what it has written and set aside since. Written bytes only ever grow, and a process changes
its own numbers alone. So the sum is never less than what lies there, nobody waits for another, and
what was removed is known with the next count.

Everything here is a read or a write of some bytes of a file that is in memory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from typing import Final

from chunkside.store.directory import OpenFile, create_ours
from chunkside.store.mapping import allocate

# Bytes by the last count, less what all had written when it began.
_BASE: Final = struct.Struct("q8x")
# Of one process: written, and set aside.
_PLACE: Final = struct.Struct("QQ")
_PLACES: Final = 255
_FILE_BYTES: Final = _BASE.size + _PLACES * _PLACE.size
_LOCK: Final = struct.Struct("hhqqi4x")


class Tally:
    """`on_fault(operation, cause)` hears once where the file can't be used; from then on, and where
    the system has no locks that tell processes apart, nothing is refused.
    """

    def __init__(self, root: str, budget_bytes: int, on_fault: Callable[[str, str], None]) -> None:
        self._path = os.path.join(root, ".tally")
        self._budget_bytes = budget_bytes
        self._on_fault = on_fault
        self._file: OpenFile | None = None
        self._place = 0
        self._written = 0
        self._set_aside = 0
        self._written_at_count = 0
        self._written_before = 0

    def take(self) -> None:
        """Takes a place, which ends with the process. Raises OSError."""
        if not hasattr(fcntl, "F_OFD_SETLK"):
            return
        file = create_ours(self._path, exclusive=False)
        with _exclusively(file.fd):
            if os.fstat(file.fd).st_size != _FILE_BYTES:
                # All of it, so that a full disk refuses no number later. What lies there already
                # is known with the first sweep, which comes at once.
                allocate(file.fd, _FILE_BYTES)
        for place in range(_PLACES):
            if _lock(file.fd, _offset(place), fcntl.F_WRLCK):
                self._place = place
                self._written, _ = _PLACE.unpack(os.pread(file.fd, _PLACE.size, _offset(place)))
                self._file = file
                self._put()
                self._written_before = self._written_by_others(self._read()[1])
                return

    def release(self) -> None:
        self._file = None

    def set_aside(self, size: int, *, is_index_whole: bool) -> bool:
        """Sets bytes aside for a file on its way. False if all processes together had more on their
        way than a quarter of the budget then, or might take more than all of it.

        A process whose index knows every file there is keeps the budget by that: one that has read
        the directory whole, and since whose start nobody else has written there.
        """
        self._set_aside += size
        # First it is told, then looked at: of two at once both may be refused, but not both let in.
        self._put()
        base, places = self._read()
        set_aside = sum(each for _, each in places)
        is_alone = set_aside == self._set_aside and not self._have_others_written(places)
        if is_index_whole and is_alone:
            return True
        total = base + sum(written for written, _ in places) + set_aside
        if total <= self._budget_bytes and set_aside <= self._budget_bytes // 4:
            return True
        self.give_back(size)
        return False

    def give_back(self, size: int) -> None:
        self._set_aside -= size
        self._put()

    def wrote(self, size: int) -> None:
        """A file is in place; what was set aside for it is given back after this."""
        self._written += size
        self._put()

    @property
    def set_aside_bytes(self) -> int:
        """By all processes."""
        return sum(set_aside for _, set_aside in self._read()[1])

    @property
    def have_others_written(self) -> bool:
        """Since this process began. They may be gone by now, and their files are not."""
        return self._have_others_written(self._read()[1])

    def _have_others_written(self, places: list[tuple[int, int]]) -> bool:
        return self._written_by_others(places) != self._written_before

    def _written_by_others(self, places: list[tuple[int, int]]) -> int:
        return sum(written for written, _ in places) - self._written

    # Whoever holds the sweep's lock counts.

    def begin_count(self) -> None:
        """All files are about to be looked at."""
        _, places = self._read()
        self._written_at_count = sum(written for written, _ in places)
        for place, (written, set_aside) in enumerate(places):
            if set_aside and place != self._place:
                self._clear_if_dead(place, written)

    def end_count(self, total_bytes: int) -> None:
        """They took so much."""
        self._write(_BASE.pack(total_bytes - self._written_at_count), 0)

    def _clear_if_dead(self, place: int, written: int) -> None:
        """What a process that is gone had set aside is nobody's any more."""
        if self._file is not None and _lock(self._file.fd, _offset(place), fcntl.F_WRLCK):
            self._write(_PLACE.pack(written, 0), _offset(place))
            _lock(self._file.fd, _offset(place), fcntl.F_UNLCK)

    def _put(self) -> None:
        self._write(_PLACE.pack(self._written, self._set_aside), _offset(self._place))

    def _write(self, numbers: bytes, offset: int) -> None:
        if self._file is None:
            return
        try:
            os.pwrite(self._file.fd, numbers, offset)
        except OSError as fault:
            self._give_up(fault)

    def _read(self) -> tuple[int, list[tuple[int, int]]]:
        """The base, and the numbers of all places; as of one alone where there is no file."""
        alone = 0, [(self._written, self._set_aside)]
        if self._file is None:
            return alone
        try:
            content = os.pread(self._file.fd, _FILE_BYTES, 0)
            if len(content) != _FILE_BYTES:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        except OSError as fault:
            self._give_up(fault)
            return alone
        (base,) = _BASE.unpack_from(content)
        return base, list(_PLACE.iter_unpack(content[_BASE.size :]))

    def _give_up(self, fault: OSError) -> None:
        self._file = None
        self._on_fault("tally", errno.errorcode.get(fault.errno or 0, "EIO"))


def _offset(place: int) -> int:
    return _BASE.size + place * _PLACE.size


@contextlib.contextmanager
def _exclusively(fd: int) -> Iterator[None]:
    """Nobody else makes the file meanwhile."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    try:
        yield
    finally:
        _lock(fd, 0, fcntl.F_UNLCK)


def _lock(fd: int, offset: int, kind: int) -> bool:
    """Changes the lock on one byte; False where another process's is in the way."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _LOCK.pack(kind, os.SEEK_SET, offset, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True
