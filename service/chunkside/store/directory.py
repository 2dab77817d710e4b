"""The cache directory: where a body lies, and opening, making and unlinking files safely.

Everything here blocks. Nothing here knows what is in a file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
from functools import lru_cache
from hashlib import sha256
from typing import Final

from chunkside.core.entry import BLOCK_BYTES, Part
from chunkside.core.key import CacheKey
from chunkside.store.arrow_file import CorruptError
from chunkside.store.floor import Floor

FORMAT_DIRECTORY: Final = "v1"
SUFFIX: Final = ".arrow"
_SAFE: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_FLOCK: Final = struct.Struct("hhqqi4x")


class OpenFile:
    """A descriptor that is closed when nobody holds this any more."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        # A descriptor is gone even where close() reports a fault.
        with contextlib.suppress(OSError):
            os.close(self.fd)


class UnfitFileError(CorruptError):
    """What lies at the path is no regular file of ours."""


class BodyDirectory:
    def __init__(self, root: str, min_free_bytes: int = 0) -> None:
        self.root = os.path.abspath(root)
        self.floor = Floor(self.root, min_free_bytes)
        self.bodies = os.path.join(self.root, FORMAT_DIRECTORY)
        self._location_directory = lru_cache(maxsize=256)(self._location_directory_of)

    def path_of(self, key: CacheKey, part: Part | None, variant: bytes = b"") -> str:
        """Where the key's body lies, or one range of it; of one of its variants."""
        name = sha256(key.serialised()).hexdigest()
        location = self._location_directory(key.namespace.location)
        of_variant = f".v{variant.hex()[:8]}" if variant else ""
        of_part = "" if part is None else f".r{part.first}-{part.last}"
        return f"{location}/{name[:2]}/{name}{of_variant}{of_part}{SUFFIX}"

    def _location_directory_of(self, location: str) -> str:
        return f"{self.bodies}/{sha256(location.encode()).hexdigest()[:16]}"

    def prepare(self) -> None:
        """Makes what must be there before anything else."""
        _make_directory(self.bodies)
        self.floor.measure()

    def create(self, path: str) -> OpenFile:
        """A new file, readable and writable, that nobody but us can open. Raises OSError."""
        try:
            return create_ours(path)
        except FileNotFoundError:
            shard = os.path.dirname(path)
            for directory in (self.bodies, os.path.dirname(shard), shard):
                _make_directory(directory)
            return create_ours(path)


def create_ours(path: str, *, exclusive: bool = True) -> OpenFile:
    """A file that nobody but us can open, whatever the umask; a new one if `exclusive`."""
    flags = os.O_RDWR | os.O_CREAT | _SAFE | (os.O_EXCL if exclusive else 0)
    file = OpenFile(os.open(path, flags, 0o600))
    if stat.S_IMODE(os.fstat(file.fd).st_mode) != 0o600:
        os.fchmod(file.fd, 0o600)
    return file


def temp_path(path: str, nonce: int) -> str:
    directory, name = os.path.split(path)
    return f"{directory}/.{name}.{os.getpid()}.{nonce:016x}.tmp"


def open_ours(path: str, access: int = os.O_RDONLY) -> tuple[OpenFile, os.stat_result]:
    """An existing regular file that is ours. Raises UnfitFileError, or OSError: ENOENT if none."""
    try:
        # A pipe in its place would block the opening.
        file = OpenFile(os.open(path, access | os.O_NONBLOCK | _SAFE))
    except OSError as fault:
        if fault.errno in (errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM):
            raise UnfitFileError(path) from fault
        raise
    status = os.fstat(file.fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise UnfitFileError(path)
    return file, status


def unlink_if(path: str, inode: int) -> bool:
    """Unlinks if the path still names that very file; False where it doesn't. Raises OSError."""
    try:
        if os.lstat(path).st_ino != inode:
            return False
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def blocks_of(status: os.stat_result) -> int:
    """Blocks that a file takes; some file systems count them only once they are written."""
    return max(status.st_blocks, -(-status.st_size // BLOCK_BYTES))


def _make_directory(path: str) -> None:
    """An owner-only directory, whatever the umask; its parent exists. Fine if it is there."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    if stat.S_IMODE(os.stat(path).st_mode) != 0o700:
        os.chmod(path, 0o700)


class Presence:
    """A shared lock on the directory, by which processes that hold it know of each other.

    An open-file-description lock: unlike flock it can be asked about, and turned from exclusive to
    shared, without letting go of it. It ends with the process.
    """

    def __init__(self, root: str) -> None:
        self._path = os.path.join(root, ".lock")
        self._file: OpenFile | None = None
        self.was_alone_at: float | None = None
        """The file system's time when nobody else held the directory; None if that never was."""

    def take(self) -> None:
        """Blocks only for the instant that another process needs to start. Raises OSError."""
        if not hasattr(fcntl, "F_OFD_SETLK"):
            return
        file = create_ours(self._path, exclusive=False)
        fd = file.fd
        if _ask(fd, fcntl.F_OFD_SETLK, fcntl.F_WRLCK) is not None:
            os.utime(fd)
            self.was_alone_at = os.fstat(fd).st_mtime
        # From exclusive to shared in one step.
        _ask(fd, fcntl.F_OFD_SETLKW, fcntl.F_RDLCK)
        self._file = file

    def release(self) -> None:
        self._file = None

    @property
    def is_alone(self) -> bool:
        """Whether no other process holds the directory; False where that can't be told."""
        if self._file is None:
            return False
        try:
            answer = _ask(self._file.fd, fcntl.F_OFD_GETLK, fcntl.F_WRLCK)
        except OSError:
            return False
        return answer is not None and _FLOCK.unpack(answer)[0] == fcntl.F_UNLCK


def _ask(fd: int, command: int, kind: int) -> bytes | None:
    """Sets or asks about a lock on the whole file; None where another's is in the way."""
    try:
        return fcntl.fcntl(fd, command, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
    except (BlockingIOError, PermissionError):
        return None
