"""The trees of formats before today's: nothing reads them any more, so they go.

Everything here blocks, in steps that are small. A higher version's tree is left alone: it is that
of a newer Chunkside, which may come back. So is what belongs to another user, or is another mount.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from chunkside.store.directory import FORMAT_DIRECTORY
from chunkside.store.filesystem import is_marked

STEP_FILES: Final = 64
_VERSION: Final = re.compile(r"v([0-9]{1,9})")
# A tree of ours has three levels; whatever is far deeper is none.
_MOST_LEVELS: Final = 8
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

OnFault = Callable[[str, OSError], None]


def remove_old_trees(root: str, on_fault: OnFault) -> Iterator[int]:
    """Unlinks step by step; each tells how many files that were. What can't go is told, and stays.

    Nothing is touched unless the root bears our ownership file.
    """
    try:
        if not is_marked(Path(root), os.geteuid()):
            return
        directory = os.open(root, _DIRECTORY)
    except OSError as fault:
        on_fault("sweep", fault)
        return
    try:
        device = os.fstat(directory).st_dev
        for name in sorted(os.listdir(directory)):
            if _is_old(name):
                yield from _Tree(device, on_fault).remove(directory, name, _MOST_LEVELS)
    finally:
        os.close(directory)


def _is_old(name: str) -> bool:
    found = _VERSION.fullmatch(name)
    today = _VERSION.fullmatch(FORMAT_DIRECTORY)
    assert today is not None
    return found is not None and int(found[1]) < int(today[1])


class _Tree:
    """Goes by descriptors, never by paths, so that no link put in its way leads it elsewhere."""

    def __init__(self, device: int, on_fault: OnFault) -> None:
        self._device = device
        self._on_fault = on_fault

    def remove(self, parent: int, name: str, levels: int) -> Iterator[int]:
        try:
            directory = os.open(name, _DIRECTORY, dir_fd=parent)
        except OSError as fault:
            self._on_fault("sweep", fault)
            return
        try:
            status = os.fstat(directory)
            if not levels or status.st_uid != os.geteuid() or status.st_dev != self._device:
                return
            yield from self._empty(directory, levels)
        finally:
            os.close(directory)
        # Not empty where something in it stays.
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=parent)

    def _empty(self, directory: int, levels: int) -> Iterator[int]:
        count = 0
        for name in os.listdir(directory):
            try:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    yield from self.remove(directory, name, levels - 1)
                elif status.st_uid == os.geteuid():
                    os.unlink(name, dir_fd=directory)
                    count += 1
            except FileNotFoundError:
                continue
            except OSError as fault:
                self._on_fault("sweep", fault)
            if count >= STEP_FILES:
                yield count
                count = 0
        yield count
