"""Opens what lies beneath a directory, and nothing else, whatever links and mounts lie there.

Two ways. Linux from 5.6 on resolves a path beneath a directory by itself (openat2), links that stay
there included. Elsewhere it is walked name by name, and no link is followed. Neither leaves the
mount that the directory is on: one that is gone would leave an empty directory, and every file
beneath it absent.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Sequence
from typing import Final, Protocol

_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
# The same number on every architecture of Linux but Alpha.
_SYS_OPENAT2: Final = 437
# A rename anywhere above, while the kernel resolves: it says so, and may be asked again.
_TRIES: Final = 64
_MOVED: Final = (errno.EAGAIN, errno.EINTR)

# Non-blocking: whatever lies there, opening it never waits for somebody else.
READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
DIRECTORY: Final = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)


class LinkToNothing(Exception):
    """A name is there, and is a symbolic link that leads to no file."""


class Way(Protocol):
    def __call__(
        self, root: int, names: Sequence[bytes], flags: int, *, follows_links: bool = False
    ) -> int:
        """A descriptor of what `names` lead to from the directory `root`, or of that where there
        are none.

        Raises OSError: ELOOP for a symbolic link that isn't followed, EXDEV for what lies outside,
        ENOENT and ENOTDIR as they come.
        """
        ...


def open_file(way: Way, root: int, names: Sequence[bytes]) -> int:
    """A descriptor to read from; of what, is for the caller to see.

    Raises OSError, FileNotFoundError or NotADirectoryError only where a name isn't there; and
    LinkToNothing.
    """
    try:
        return way(root, names, READ)
    except OSError as error:
        # No link was on the way: what isn't there, isn't there.
        if error.errno != errno.ELOOP:
            raise
    try:
        return way(root, names, READ, follows_links=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        if _is_link_to_nothing(way, root, names):
            raise LinkToNothing from error
        raise


def _is_link_to_nothing(way: Way, root: int, names: Sequence[bytes]) -> bool:
    """Whether the first name that can't be reached is there, as a link."""
    for depth in reversed(range(len(names))):
        try:
            directory = way(root, names[:depth], DIRECTORY, follows_links=True)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            found = os.stat(names[depth], dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        finally:
            os.close(directory)
        return stat.S_ISLNK(found.st_mode)
    return False


def by_walking(
    root: int, names: Sequence[bytes], flags: int, *, follows_links: bool = False
) -> int:
    """Name by name; a Way that follows no link."""
    if follows_links:
        raise _fault(errno.ELOOP)
    if not names:
        return os.open(b".", flags | os.O_CLOEXEC, dir_fd=root)
    *directories, last = names
    here, device = os.dup(root), os.fstat(root).st_dev
    try:
        for name in directories:
            deeper = _step(here, name, DIRECTORY)
            os.close(here)
            here = deeper
            if os.fstat(here).st_dev != device:
                raise _fault(errno.EXDEV)
        return _step(here, last, flags)
    finally:
        os.close(here)


def _step(directory: int, name: bytes, flags: int) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except NotADirectoryError:
        # Linux says so of a link, too, where a directory is wanted.
        found = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISLNK(found):
            raise _fault(errno.ELOOP) from None
        if stat.S_ISDIR(found):
            # It has become one meanwhile: what it was is not known.
            raise _fault(errno.EAGAIN) from None
        raise


def _fault(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.POINTER(_OpenHow),
    ctypes.c_size_t,
)


def by_openat2(
    root: int, names: Sequence[bytes], flags: int, *, follows_links: bool = False
) -> int:
    """In one step of the kernel's; a Way."""
    resolve = _BENEATH | _NO_XDEV | _NO_MAGICLINKS | (0 if follows_links else _NO_SYMLINKS)
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    path, number = b"/".join(names) or b".", 0
    for _ in range(_TRIES):
        opened: int = _syscall(_SYS_OPENAT2, root, path, ctypes.byref(how), ctypes.sizeof(how))
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number not in _MOVED:
            break
    raise _fault(number)


def best_way() -> Way:
    """openat2 where the kernel has it, and whoever confines this process lets it through."""
    if sys.platform != "linux":
        return by_walking
    # Unlike the current directory that one is never on a dead mount.
    top = os.open(b"/", DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(by_openat2(top, (), DIRECTORY))
    except OSError:
        return by_walking
    finally:
        os.close(top)
    return by_openat2
