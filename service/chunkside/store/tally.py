"""What the processes of a cache directory put there together, so that they keep one budget.

A small file has what all files took when they were last counted, by whoever swept, and for each
process what it has written and set aside since. Written bytes only ever grow, and a process changes
its own numbers alone. So the sum is never less than what lies there, nobody waits for another, and
what was removed is known with the next count.

Everything here is a read or a write of some bytes of a file that is in memory. Such a call may wait
all the same, for the disk's journal or for its turn to run Python. So a process tells of somewhat
more than it needs, and once that has been let in it need not ask again until it is used up.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from chunkside.store.directory import OpenFile, create_ours
from chunkside.store.mapping import allocate

# Bytes by the last count, less what all had written when it began.
_BASE: Final = struct.Struct("q8x")
# Of one process: written, and set aside.
_PLACE: Final = struct.Struct("QQ")
_PLACES: Final = 255
_FILE_BYTES: Final = _BASE.size + _PLACES * _PLACE.size
_LOCK: Final = struct.Struct("hhqqi4x")
# What is told beyond what is needed: so much, and not more than this share of the budget.
_SLACK_BYTES: Final = 1 << 20
_SLACK_SHARE: Final = 1024


class _Others(NamedTuple):
    """The base, and what all other places' numbers come to."""

    base: int
    written: int
    set_aside: int


class Tally:
    """`on_fault(operation, cause)` hears once where the file can't be used; from then on, and where
    the system has no locks that tell processes apart, nothing is refused.
    """

    def __init__(self, root: str, budget_bytes: int, on_fault: Callable[[str, str], None]) -> None:
        self._path = os.path.join(root, ".tally")
        self._budget_bytes = budget_bytes
        self._slack = min(_SLACK_BYTES, budget_bytes // _SLACK_SHARE)
        self._on_fault = on_fault
        self._file: OpenFile | None = None
        self._place = 0
        self._written = 0
        self._set_aside = 0
        # What the others have been told of both together, of the first alone; and how much of it
        # was let in.
        self._told = 0
        self._told_written = 0
        self._let_in = 0
        self._others_seen = b"", _Others(0, 0, 0)
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
                self._put(0)
                self._written_before = self._others().written
                return

    def release(self) -> None:
        self._put(0)
        self._file = None

    def set_aside(self, size: int, *, is_index_whole: bool) -> bool:
        """Sets bytes aside for a file on its way. False if all processes together had more on their
        way than a quarter of the budget then, or might take more than all of it.

        A process whose index knows every file there is keeps the budget by that: one that has read
        the directory whole, and since whose start nobody else has written there.
        """
        self._set_aside += size
        if self._written + self._set_aside <= self._let_in:
            return True
        for slack in (self._slack, 0):
            # First it is told, then looked at: of two at once both may be refused, but not both let
            # in.
            self._put(slack)
            if self._has_room(slack, is_index_whole=is_index_whole):
                self._let_in = self._told
                return True
        self.give_back(size)
        return False

    def _has_room(self, slack: int, *, is_index_whole: bool) -> bool:
        others = self._others()
        is_alone = not others.set_aside and others.written == self._written_before
        if is_index_whole and is_alone:
            return True
        set_aside = others.set_aside + self._set_aside + slack
        total = others.base + others.written + self._written + set_aside
        return total <= self._budget_bytes and set_aside <= self._budget_bytes // 4

    def give_back(self, size: int) -> None:
        self._set_aside -= size
        beyond = self._told - self._written - self._set_aside
        is_much_untold = self._written - self._told_written > 2 * self._slack
        if is_much_untold or not 0 <= beyond <= 2 * self._slack:
            self._put(self._slack)

    def wrote(self, size: int) -> None:
        """A file is in place; what was set aside for it is given back after this, and tells it."""
        self._written += size

    @property
    def set_aside_bytes(self) -> int:
        """By all processes."""
        return self._others().set_aside + self._set_aside

    @property
    def have_others_written(self) -> bool:
        """Since this process began. They may be gone by now, and their files are not."""
        return self._others().written != self._written_before

    # Whoever holds the sweep's lock counts.

    def begin_count(self) -> None:
        """All files are about to be looked at."""
        self._put(self._slack)
        for place, (written, set_aside) in enumerate(self._places()):
            if set_aside and place != self._place:
                self._settle_if_dead(place, written + set_aside)
        self._written_at_count = self._others().written + self._written

    def end_count(self, total_bytes: int) -> None:
        """They took so much."""
        self._write(_BASE.pack(total_bytes - self._written_at_count), 0)

    def _settle_if_dead(self, place: int, written: int) -> None:
        """A process that is gone may have written what it had set aside, or not."""
        if self._file is not None and _lock(self._file.fd, _offset(place), fcntl.F_WRLCK):
            self._write(_PLACE.pack(written, 0), _offset(place))
            _lock(self._file.fd, _offset(place), fcntl.F_UNLCK)

    def _put(self, slack: int) -> None:
        self._told = self._written + self._set_aside + slack
        self._told_written = self._written
        self._let_in = min(self._let_in, self._told)
        self._write(_PLACE.pack(self._written, self._set_aside + slack), _offset(self._place))

    def _write(self, numbers: bytes, offset: int) -> None:
        if self._file is None:
            return
        try:
            os.pwrite(self._file.fd, numbers, offset)
        except OSError as fault:
            self._give_up(fault)

    def _others(self) -> _Others:
        """Nothing where there is no file."""
        content, own = self._read(), _offset(self._place)
        if content is None:
            return _Others(0, 0, 0)
        told = content[:own] + content[own + _PLACE.size :]
        # Mostly nobody else has said anything since.
        if told != self._others_seen[0]:
            (base,) = _BASE.unpack_from(told)
            written, set_aside = zip(*_PLACE.iter_unpack(told[_BASE.size :]), strict=True)
            self._others_seen = told, _Others(base, sum(written), sum(set_aside))
        return self._others_seen[1]

    def _places(self) -> list[tuple[int, int]]:
        content = self._read()
        return [] if content is None else list(_PLACE.iter_unpack(content[_BASE.size :]))

    def _read(self) -> bytes | None:
        """The whole file, where there is one."""
        if self._file is None:
            return None
        try:
            content = os.pread(self._file.fd, _FILE_BYTES, 0)
            if len(content) != _FILE_BYTES:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        except OSError as fault:
            self._give_up(fault)
            return None
        return content

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
