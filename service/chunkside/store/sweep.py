"""What a sweep does to the disk: one sweeper among processes, and a look at every file's age.

Everything here blocks. Bodies are only looked at; what is removed are directories that are empty.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from chunkside.core.entry import BLOCK_BYTES
from chunkside.gateway.ports import FileSeen
from chunkside.store.directory import OpenFile, blocks_of, create_ours
from chunkside.store.recovery import BODY_NAME, LOCATION_NAME, SHARD_NAME

BATCH_FILES: Final = 256
# A shard that was made this long ago and is empty has lost its files.
_EMPTY_AFTER_SECONDS: Final = 3600.0


class SweepLock:
    """At most one process sweeps a directory; the lock ends with its holder."""

    def __init__(self, root: str) -> None:
        self._path = os.path.join(root, ".sweep.lock")
        self._file: OpenFile | None = None

    def take(self) -> bool:
        """False where another process sweeps. Raises OSError."""
        file = create_ours(self._path, exclusive=False)
        try:
            fcntl.flock(file.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._file = file
        return True

    def release(self) -> None:
        self._file = None


def survey(
    root: str, on_fault: Callable[[str, OSError], None], on_end: Callable[[int], None]
) -> Iterator[list[FileSeen]]:
    """All files of bodies and ranges, in batches of BATCH_FILES. `on_end` is told the bytes that
    directories take.
    """
    batch: list[FileSeen] = []
    directory_bytes = _bytes_of(root)
    for location in _directories(root, LOCATION_NAME.fullmatch, on_fault):
        directory_bytes += _bytes_of(location)
        for shard in _directories(location, SHARD_NAME.fullmatch, on_fault):
            directory_bytes += _bytes_of(shard)
            is_empty = True
            for file in _files(shard, on_fault):
                is_empty = False
                batch.append(file)
                if len(batch) == BATCH_FILES:
                    yield batch
                    batch = []
            if is_empty:
                _remove_if_left_empty(shard)
        _remove_if_left_empty(location)
    if batch:
        yield batch
    on_end(directory_bytes)


def _bytes_of(directory: str) -> int:
    try:
        return os.lstat(directory).st_blocks * BLOCK_BYTES
    except OSError:
        # It is gone, or `_directories` tells what is the matter with it.
        return 0


def _directories(
    path: str, is_ours: Callable[[str], object], on_fault: Callable[[str, OSError], None]
) -> list[str]:
    found = []
    with _reported(on_fault), os.scandir(path) as entries:
        found = [
            entry.path
            for entry in entries
            if is_ours(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    return sorted(found)


def _files(shard: str, on_fault: Callable[[str, OSError], None]) -> Iterator[FileSeen]:
    with _reported(on_fault), os.scandir(shard) as entries:
        for entry in entries:
            if BODY_NAME.fullmatch(entry.name) is None:
                continue
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                charge = blocks_of(status) * BLOCK_BYTES
                yield FileSeen(entry.path, charge, status.st_mtime)


def _remove_if_left_empty(directory: str) -> None:
    """Whoever wants to put a file there makes the directory again."""
    # ENOTEMPTY where it holds something: a temp file, or a body that came just now.
    with contextlib.suppress(OSError):
        if time.time() - os.lstat(directory).st_mtime > _EMPTY_AFTER_SECONDS:
            os.rmdir(directory)


@contextlib.contextmanager
def _reported(on_fault: Callable[[str, OSError], None]) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        return
    except OSError as fault:
        on_fault("sweep", fault)
