"""Memory mappings and reads that don't wait: what Python's own mmap and os can't say.

No page of a mapping may be touched before it is known to be there: a read beyond the end of a file
that was truncated meanwhile kills the process, and a cold page stops the event loop.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Final

PAGE_BYTES: Final = mmap.PAGESIZE
_MADV_POPULATE_READ: Final = 22
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_POPULATE: Final = getattr(mmap, "MAP_POPULATE", 0)

# With errno, and without the GIL: mmap.madvise would hold it while the disk is read.
_libc = ctypes.CDLL(None, use_errno=True)
_madvise = _libc.madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_mincore = _libc.mincore
_mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_fallocate = getattr(_libc, "fallocate64", None) or getattr(_libc, "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class Mapping:
    """A read-only shared mapping of a whole file. Views of it keep it alive.

    It holds a descriptor of its own (mmap's). `on_end` is called with its size when it is gone.
    """

    __slots__ = ("_address", "_map", "size", "view")

    def __init__(self, fd: int, size: int, on_end: Callable[[int], object] | None = None) -> None:
        """Raises OSError or ValueError where the file isn't that long any more."""
        self.size = size
        self._map = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        self.view = memoryview(self._map)
        self._address = _address(self._map)
        if on_end is not None:
            weakref.finalize(self._map, on_end, size).atexit = False

    def is_resident(self, start: int, size: int) -> bool:
        """Whether all of it is in memory, and none of it beyond the file's end. Never waits."""
        address, span = self._pages(start, size)
        count = span // PAGE_BYTES
        if count > len(_residency):
            return False
        if _mincore(address, span, _residency_address) != 0:
            return False
        # Only the lowest bit is defined.
        return _residency.raw.count(b"\1", 0, count) == count and self._is_whole()

    def populate(self, start: int, size: int) -> None:
        """Reads pages in, waiting for the disk. Raises OSError: EFAULT where the file is shorter.

        EINVAL: the kernel is older than 5.14 and can't.
        """
        address, span = self._pages(start, size)
        if _madvise(address, span, _MADV_POPULATE_READ) != 0:
            raise _os_error()
        if not self._is_whole():
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))

    def _is_whole(self) -> bool:
        # What a truncated file's last page holds beyond the end is zeros, not a fault.
        return self._map.size() == self.size

    def _pages(self, start: int, size: int) -> tuple[int, int]:
        """Address and length of the pages that hold the bytes."""
        first = start // PAGE_BYTES * PAGE_BYTES
        last = -(-(start + size) // PAGE_BYTES) * PAGE_BYTES
        return self._address + first, last - first


def populated_words(fd: int, size: int) -> memoryview:
    """A shared read-only view of a file's 64-bit words, in memory from the start."""
    flags = mmap.MAP_SHARED | _POPULATE
    return memoryview(mmap.mmap(fd, size, flags=flags, prot=mmap.PROT_READ)).cast("Q")


def read_without_waiting(fd: int, size: int, offset: int) -> memoryview | None:
    """All of it, if it is in the page cache; None where that would wait or the file is shorter.

    Raises OSError with EOPNOTSUPP where the file system can't tell.
    """
    if not _NOWAIT:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    target = bytearray(size)
    try:
        count = os.preadv(fd, (target,), offset, _NOWAIT)
    except BlockingIOError:
        return None
    return memoryview(target) if count == size else None


def allocate(fd: int, size: int) -> None:
    """Makes the file that long, with all of its blocks, where the file system can.

    Raises OSError, ENOSPC above all. Python's posix_fallocate would write every block where the
    file system can't.
    """
    if _fallocate is None:
        os.ftruncate(fd, size)
        return
    while _fallocate(fd, 0, 0, size) != 0:
        fault = _os_error()
        if fault.errno == errno.EINTR:
            continue
        if fault.errno in (errno.EOPNOTSUPP, errno.ENOSYS):
            os.ftruncate(fd, size)
            return
        raise fault


def _os_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


class _PyBuffer(ctypes.Structure):
    """Py_buffer, part of Python's stable ABI since 3.11."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _address(mapped: mmap.mmap) -> int:
    """Where a mapping lies; ctypes tells it of writable ones only."""
    buffer = _PyBuffer()
    api = ctypes.pythonapi
    api.PyObject_GetBuffer(ctypes.py_object(mapped), ctypes.byref(buffer), 0)
    try:
        return int(buffer.buf)
    finally:
        api.PyBuffer_Release(ctypes.byref(buffer))


# One for all: only the loop's thread asks, and each answer is used up before the next question.
_residency = ctypes.create_string_buffer(2 * (1024 * 1024 // PAGE_BYTES))
_residency_address = ctypes.addressof(_residency)
