"""What lies in the cache directory: one file judged by its header, and the walk over all of them.

Everything here blocks. Nothing here changes a file, but leaked temp files are unlinked.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from chunkside.core.entry import BodyRef
from chunkside.gateway.ports import Found
from chunkside.store import arrow_file
from chunkside.store.arrow_file import CorruptError
from chunkside.store.directory import BodyDirectory, OpenFile, blocks_of, open_ours

BATCH_FILES: Final = 64
LEAKED_AFTER_SECONDS: Final = 3600.0
LOCATION_NAME: Final = re.compile(r"[0-9a-f]{16}")
SHARD_NAME: Final = re.compile(r"[0-9a-f]{2}")
_BODY: Final = r"[0-9a-f]{64}(?:\.v[0-9a-f]{8})?(?:\.r\d+-\d+)?\.arrow"
BODY_NAME: Final = re.compile(_BODY)
_TEMP: Final = re.compile(rf"\.{_BODY}\.\d+\.([0-9a-f]{{16}})\.tmp")

OnFault = Callable[[str, OSError], None]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file whose header is sound. `body_offset` and `checksum` are of the body in it."""

    found: Found
    file: OpenFile
    body_offset: int
    checksum: int


def load(directory: BodyDirectory, path: str) -> Loaded:
    """Judges a file by its header; the body's checksum isn't looked at.

    Raises CorruptError where it is unusable or another key's, OSError where it can't be read.
    """
    file, status = open_ours(path)
    size = status.st_size
    head = os.pread(file.fd, min(size, arrow_file.HEAD_BYTES), 0)
    tail = os.pread(file.fd, arrow_file.TAIL_BYTES, max(0, size - arrow_file.TAIL_BYTES))
    parsed = arrow_file.parse(head, tail, size)
    key = parsed.stored.key
    if directory.path_of(key, parsed.part, parsed.stored.variant) != path:
        raise CorruptError("another key's file")
    body = BodyRef(
        key=key,
        inode=status.st_ino,
        nonce=parsed.nonce,
        length=parsed.length,
        blocks=blocks_of(status),
        part=parsed.part,
        variant=parsed.stored.variant,
    )
    found = Found(parsed.stored, body, parsed.table_id, parsed.stamps)
    return Loaded(found, file, parsed.body_offset, parsed.checksum)


def load_all(
    directory: BodyDirectory, paths: list[str], on_fault: OnFault
) -> tuple[list[Found], list[str]]:
    """The usable files, and the paths of those that aren't."""
    found: list[Found] = []
    unusable: list[str] = []
    for path in paths:
        try:
            found.append(load(directory, path).found)
        except CorruptError:
            unusable.append(path)
        except FileNotFoundError:
            continue
        except OSError as fault:
            on_fault("scan", fault)
    return found, unusable


class Walk:
    """All paths of bodies beneath `root`, in batches. Hears of temp files, and of nothing else.

    `on_temp(path, nonce)` is told of each; `on_fault` of directories that can't be read.
    """

    def __init__(self, root: str, on_fault: OnFault, on_temp: Callable[[str, int], None]) -> None:
        self._root = root
        self._on_fault = on_fault
        self._on_temp = on_temp

    def batches(self) -> Iterator[list[str]]:
        batch: list[str] = []
        for location in self._entries(self._root, LOCATION_NAME):
            for shard in self._entries(location, SHARD_NAME):
                batch += self._bodies(shard)
                while len(batch) >= BATCH_FILES:
                    yield batch[:BATCH_FILES]
                    del batch[:BATCH_FILES]
        if batch:
            yield batch

    def _bodies(self, shard: str) -> list[str]:
        names = self._names(shard)
        for name in names:
            if temp := _TEMP.fullmatch(name):
                self._on_temp(os.path.join(shard, name), int(temp[1], 16))
        return [os.path.join(shard, name) for name in names if BODY_NAME.fullmatch(name)]

    def _entries(self, directory: str, pattern: re.Pattern[str]) -> list[str]:
        names = self._names(directory)
        return [os.path.join(directory, name) for name in names if pattern.fullmatch(name)]

    def _names(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []
        except OSError as fault:
            self._on_fault("scan", fault)
            return []


class LeakedTemps:
    """Unlinks temp files that nobody will rename any more.

    One is leaked if it is not `epoch`'s own and was last written before `was_alone_at`, when nobody
    else held the directory, or an hour ago.
    """

    def __init__(self, epoch: int, was_alone_at: float | None, on_fault: OnFault) -> None:
        self._epoch = epoch
        self._dead_before = max(was_alone_at or 0.0, time.time() - LEAKED_AFTER_SECONDS)
        self._on_fault = on_fault

    def drop(self, path: str, nonce: int) -> None:
        if nonce >> 32 == self._epoch:
            return
        try:
            if os.lstat(path).st_mtime < self._dead_before:
                os.unlink(path)
        except FileNotFoundError:
            return
        except OSError as fault:
            self._on_fault("scan", fault)
