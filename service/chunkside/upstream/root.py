"""The directory that a file upstream is: whether what lies at its path is still that very one."""

from __future__ import annotations

import errno
import os
import threading

from chunkside.upstream.beneath import DIRECTORY

Identity = tuple[int, int]


class RootGone(Exception):
    """There is no telling what is absent; the text says why, and names no path."""


class Root:
    """Remembers which directory was there first. From any thread; each call may hang as long as
    the file system does.

    A volume that isn't mounted leaves an empty directory at its path, or another one: beneath
    either every file would seem to be absent. So an empty directory that nothing is mounted on is
    taken for none, and once one was taken no other counts. That one is held open: else the numbers
    that tell it from others could become another's, those of a network volume above all.
    """

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._held: int | None = None
        self._identity: Identity | None = None
        self._lock = threading.Lock()

    def open(self) -> int:
        """A descriptor to resolve names from. Raises RootGone."""
        try:
            opened = os.open(self._path, DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _gone(error) from error
        try:
            self._compare(opened)
        except BaseException as error:
            os.close(opened)
            if isinstance(error, OSError):
                raise _gone(error) from error
            raise
        return opened

    def close(self) -> None:
        """Lets go of it; nothing may be asked any more."""
        with self._lock:
            if self._held is not None:
                os.close(self._held)
                self._held = None

    def check(self) -> None:
        """Raises RootGone where another directory lies there now, or none."""
        try:
            found = _identity(os.stat(self._path))
        except OSError as error:
            raise _gone(error) from error
        if found != self._identity:
            raise _another()

    def _compare(self, opened: int) -> None:
        found = _identity(os.fstat(opened))
        if self._identity is None and _is_empty(opened):
            raise RootGone("The upstream's directory is empty. Is its volume mounted?")
        with self._lock:
            if self._identity is None:
                self._held, self._identity = os.dup(opened), found
        if found != self._identity:
            raise _another()


def _gone(error: OSError) -> RootGone:
    why = error.strerror or type(error).__name__
    return RootGone(f"The upstream's directory can't be opened: {why}. Is its volume mounted?")


def _another() -> RootGone:
    return RootGone(
        "Another directory lies at the upstream's path than before. Is its volume mounted? If this "
        "one is meant, start the sidecar again."
    )


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _is_empty(opened: int) -> bool:
    """Whether nothing is in a directory that nothing is mounted on."""
    if os.stat(b"..", dir_fd=opened).st_dev != os.fstat(opened).st_dev:
        return False
    try:
        listed = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=opened)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            # Whoever may not list it can't tell.
            return False
        raise
    try:
        with os.scandir(listed) as entries:
            return next(entries, None) is None
    finally:
        os.close(listed)
