"""Reading every file of a cache directory: heads, names, both checksums.

Everything here blocks. It takes no lock and changes no file, so it may run beside sidecars: a file
is judged by one descriptor, and one that is gone by then counts for nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event, Lock
from typing import Final

from chunkside.core.entry import BodyRef
from chunkside.store import recovery
from chunkside.store.arrow_file import CorruptError, suffix_size
from chunkside.store.directory import BodyDirectory, UnfitFileError, unlink_if
from chunkside.store.readers import check_body

THREADS: Final = 4
TICK_SECONDS: Final = 0.2
_MOST_WAITING: Final = 4 * recovery.BATCH_FILES
_LONGEST_REASON: Final = 160
_NOREUSE: Final = getattr(os, "POSIX_FADV_NOREUSE", None)


@dataclass(frozen=True, slots=True)
class Extent:
    """What there is to read when it is looked at; sizes in bytes."""

    files: int
    size: int
    temp_files: int


@dataclass(frozen=True, slots=True)
class BadFile:
    """`reason` follows the path in a sentence. `is_unread`: the disk failed, which tells nothing of
    what is in the file.
    """

    path: str
    reason: str
    is_unread: bool = False
    is_removed: bool = False


class Verification:
    """One reading of all that lies under `root`.

    `remove_bad`: unlinks what proves bad, but not what couldn't be read. Where a sidecar puts a new
    file in the place of a bad one in that very instant, the new one may go: that is one miss.
    """

    def __init__(self, root: str, *, remove_bad: bool = False, threads: int = THREADS) -> None:
        self._directory = BodyDirectory(root)
        self._remove_bad = remove_bad
        self._threads = threads
        self._counting = Lock()
        self._stopping = Event()
        self._unread: list[BadFile] = []
        self.files = 0
        self.read_bytes = 0

    def measure(self) -> Extent:
        """Looks at names and sizes alone."""
        files = size = 0
        temp_paths: list[str] = []
        walk = recovery.Walk(
            self._directory.bodies, lambda *_: None, lambda path, _: temp_paths.append(path)
        )
        for paths in walk.batches():
            for path in paths:
                try:
                    size += os.lstat(path).st_size
                except OSError:
                    continue
                files += 1
        return Extent(files, size, len(temp_paths))

    def run(self) -> Iterator[list[BadFile]]:
        """What proved bad, as it does; at least every TICK_SECONDS something, if only nothing."""
        walk = recovery.Walk(self._directory.bodies, self._cannot_list, lambda *_: None)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="verify") as pool:
            try:
                running: set[Future[BadFile | None]] = set()
                for paths in walk.batches():
                    running |= {pool.submit(self._verify, path) for path in paths}
                    while len(running) > _MOST_WAITING:
                        running, bad = self._gather(running)
                        yield bad
                while running:
                    running, bad = self._gather(running)
                    yield bad
                yield self._take_unread()
            finally:
                # Whoever stops listening, or is interrupted, doesn't wait for the rest.
                self._stopping.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _gather(
        self, running: set[Future[BadFile | None]]
    ) -> tuple[set[Future[BadFile | None]], list[BadFile]]:
        done, running = wait(running, TICK_SECONDS, FIRST_COMPLETED)
        bad = [found for each in done if (found := each.result()) is not None]
        return running, bad + self._take_unread()

    def _cannot_list(self, _operation: str, fault: OSError) -> None:
        self._unread.append(BadFile(str(fault.filename), _reason(fault), is_unread=True))

    def _take_unread(self) -> list[BadFile]:
        taken, self._unread = self._unread, []
        return taken

    # From here on: in the threads.

    def _verify(self, path: str) -> BadFile | None:
        """Why the file at the path is bad; None where it is good, or gone."""
        try:
            inode = os.lstat(path).st_ino
            try:
                loaded = recovery.load(self._directory, path)
                if _NOREUSE is not None:
                    # What sidecars serve from memory should not have to make room for this.
                    os.posix_fadvise(loaded.file.fd, 0, 0, _NOREUSE)
                offset, length = loaded.body_offset, loaded.found.body.length
                self._count_bytes(offset + suffix_size(length))
                check_body(loaded.file, offset, length, loaded.checksum, self._count_bytes)
            except CorruptError as fault:
                is_removed = self._remove_bad and unlink_if(path, inode)
                return BadFile(path, _reason(fault), is_removed=is_removed)
            finally:
                self._count_file()
        except FileNotFoundError:
            return None
        except OSError as fault:
            return BadFile(path, _reason(fault), is_unread=True)
        return None

    def _count_file(self) -> None:
        with self._counting:
            self.files += 1

    def _count_bytes(self, size: int) -> None:
        if self._stopping.is_set():
            raise InterruptedError("nobody listens any more")
        with self._counting:
            self.read_bytes += size


def fault_of(directory: BodyDirectory, path: str, body: BodyRef) -> str | None:
    """What is wrong with a body's file, all of it read; None where nothing is."""
    try:
        loaded = recovery.load(directory, path)
        if loaded.found.body.name != body.name:
            return "another file lies there"
        check_body(loaded.file, loaded.body_offset, body.length, loaded.checksum)
    except (CorruptError, OSError) as fault:
        return _reason(fault)
    return None


def _reason(fault: CorruptError | OSError) -> str:
    """One line."""
    if isinstance(fault, UnfitFileError):
        return "no regular file of this user"
    text = fault.strerror if isinstance(fault, OSError) else str(fault)
    line = (text or type(fault).__name__).partition("\n")[0]
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 1] + "…"
