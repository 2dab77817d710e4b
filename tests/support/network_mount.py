"""A mounted file system whose server is the test: it answers, falls silent, or dies.

What a reader of a network mount meets when the server does: calls that don't return, ENOTCONN, and
the bare directory beneath once it is unmounted. Spoken is FUSE's own protocol, on /dev/fuse.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import subprocess
import threading
import time
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

_libc = ctypes.CDLL(None, use_errno=True)


class _Code(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    RELEASE = 18
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    ACCESS = 34
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42


_UNANSWERED = frozenset({_Code.FORGET, _Code.INTERRUPT, _Code.BATCH_FORGET})
_IN_HEADER = struct.Struct("<IIQQIIIHH")
_CHANGED_AT = int(time.time()) - 86_400


class NetworkMount:
    """Mounted on entry, over a directory; holds `files` by path."""

    def __init__(self, directory: Path, files: Mapping[str, bytes]) -> None:
        self.directory = directory
        self._names = [b"", *_all_paths(files)]
        self._bodies = {path.encode(): body for path, body in files.items()}
        self._answers = threading.Event()
        self._answers.set()
        self._is_over = False
        self._is_mounted = False
        self._reads_left: int | None = None
        self._descriptor = -1
        # Closed to end the server.
        self._heard, self._leash = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        try:
            self._descriptor = os.open("/dev/fuse", os.O_RDWR)
        except OSError as error:
            pytest.skip(f"no FUSE here: {error.strerror}")
        options = f"fd={self._descriptor},rootmode=40000,user_id=0,group_id=0,allow_other"
        target = os.fsencode(self.directory)
        if _libc.mount(b"chunkside-test", target, b"fuse", 0, options.encode()):
            os.close(self._descriptor)
            pytest.skip(f"can't mount: {os.strerror(ctypes.get_errno())}")
        self._is_mounted = True
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.unmount()
        self.die()

    def fall_silent(self, *, after_reads: int = 0) -> None:
        """Calls hang from now on, or once bytes were read so often."""
        self._reads_left = after_reads or None
        if not after_reads:
            self._answers.clear()

    def speak_again(self) -> None:
        self._reads_left = None
        self._answers.set()

    def unmount(self) -> None:
        """Once; then the directory beneath is there again."""
        if self._is_mounted:
            self._is_mounted = False
            subprocess.run(["umount", "--lazy", str(self.directory)], check=True)

    def die(self) -> None:
        """Whoever waits for it gets an error, as does whoever comes."""
        if self._is_over:
            return
        self._is_over = True
        os.close(self._leash)
        self._answers.set()
        self._thread.join(20)

    # The server.

    def _serve(self) -> None:
        try:
            while self._descriptor in self._ready() and self._takes_one():
                pass
        finally:
            # The last one of the connection: all calls that hang end.
            os.close(self._descriptor)
            os.close(self._heard)

    def _ready(self) -> list[int]:
        ready, _, _ = select.select([self._descriptor, self._heard], [], [])
        # A call that was read can't be killed any more, unlike one of most network mounts.
        self._answers.wait()
        return [] if self._heard in ready else ready

    def _takes_one(self) -> bool:
        """False once it is unmounted."""
        try:
            request = os.read(self._descriptor, 1 << 18)
            _, opcode, unique, node, *_ = _IN_HEADER.unpack_from(request)
            if opcode in _UNANSWERED:
                return True
            code, body = self._answer(opcode, node, request[_IN_HEADER.size :])
            os.write(self._descriptor, struct.pack("<IiQ", 16 + len(body), -code, unique) + body)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return False
            # Whoever asked has gone meanwhile.
            if error.errno not in (errno.EINTR, errno.ENOENT):
                raise
        return True

    def _answer(self, opcode: int, node: int, told: bytes) -> tuple[int, bytes]:
        match opcode:
            case _Code.INIT:
                init = (7, 31, 1 << 17, 0, 12, 9, 1 << 17, 1, 32, 0, 0)
                return 0, struct.pack("<IIIIHHIIHHI28x", *init)
            case _Code.LOOKUP:
                return self._look_up(node, told.rstrip(b"\0"))
            case _Code.GETATTR:
                return 0, struct.pack("<QII", 0, 0, 0) + self._attributes(node)
            case _Code.OPEN | _Code.OPENDIR:
                return 0, struct.pack("<QII", 0, 0, 0)
            case _Code.READ:
                return 0, self._read(node, *struct.unpack_from("<QQI", told)[1:])
            case _Code.READDIR:
                return 0, self._listed(node, struct.unpack_from("<QQ", told)[1])
            case _Code.RELEASE | _Code.RELEASEDIR | _Code.FLUSH | _Code.ACCESS | _Code.DESTROY:
                return 0, b""
            case _:
                return errno.ENOSYS, b""

    def _read(self, node: int, offset: int, size: int) -> bytes:
        if self._reads_left is not None:
            self._reads_left -= 1
            if not self._reads_left:
                self._answers.clear()
        return self._bodies[self._names[node - 1]][offset : offset + size]

    def _look_up(self, node: int, name: bytes) -> tuple[int, bytes]:
        parent = self._names[node - 1]
        path = parent + b"/" + name if parent else name
        if path not in self._names:
            return errno.ENOENT, b""
        found = self._names.index(path) + 1
        return 0, struct.pack("<QQQQII", found, 0, 0, 0, 0, 0) + self._attributes(found)

    def _attributes(self, node: int) -> bytes:
        body = self._bodies.get(self._names[node - 1])
        mode = stat.S_IFDIR | 0o755 if body is None else stat.S_IFREG | 0o644
        size = 0 if body is None else len(body)
        times = (_CHANGED_AT,) * 3
        return struct.pack(
            "<QQQQQQIIIIIIIIII", node, size, 1, *times, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
        )

    def _listed(self, node: int, offset: int) -> bytes:
        parent = self._names[node - 1]
        names = [path.rpartition(b"/")[2] for path in self._names[1:] if _parent(path) == parent]
        listed = b""
        for number, name in enumerate(names[offset:], offset + 1):
            entry = struct.pack("<QQII", number, number, len(name), 0) + name
            listed += entry + bytes(-len(entry) % 8)
        return listed


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _all_paths(files: Mapping[str, bytes]) -> list[bytes]:
    """Of files and of the directories above them."""
    found = set()
    for name in files:
        path = name.encode()
        while path:
            found.add(path)
            path = _parent(path)
    return sorted(found)
