"""A memory cgroup of this machine, v1 or v2, with a limit: what a container has."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_MOUNT: Final = Path("/sys/fs/cgroup")
_ENTER: Final = """
import os, sys
with open(sys.argv[1], "w") as group:
    group.write(str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Charged:
    """Bytes, as the kernel counts them. `anonymous` is what can't be dropped; `most`: of all, pages
    of files included, which stay as long as nobody needs the room.
    """

    anonymous: int
    files: int
    most: int
    killed: int


class CannotLimit(Exception):
    """Nothing here lets us make one."""


class MemoryGroup:
    """Made on entry, gone on exit, when nobody is in it any more. Raises CannotLimit."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._is_v2 = (_MOUNT / "cgroup.controllers").exists()
        above = _MOUNT if self._is_v2 else _MOUNT / "memory"
        self._folder = above / f"chunkside-test-{os.getpid()}"

    def __enter__(self) -> Self:
        limit = "memory.max" if self._is_v2 else "memory.limit_in_bytes"
        try:
            if self._is_v2:
                (_MOUNT / "cgroup.subtree_control").write_text("+memory")
            self._folder.mkdir()
        except OSError as error:
            raise CannotLimit(str(error)) from error
        try:
            (self._folder / limit).write_text(str(self._limit_bytes))
        except OSError as error:
            self._folder.rmdir()
            raise CannotLimit(str(error)) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.rmdir()

    def command(self, *command: str) -> tuple[str, ...]:
        """Runs it within the group."""
        return (sys.executable, "-c", _ENTER, str(self._folder / "cgroup.procs"), *command)

    def charged(self) -> Charged:
        stat = self._fields("memory.stat")
        if self._is_v2:
            most, killed = "memory.peak", self._fields("memory.events")["oom_kill"]
            return Charged(stat["anon"], stat["file"], self._number(most), killed)
        killed = self._fields("memory.oom_control").get("oom_kill", 0)
        most = "memory.max_usage_in_bytes"
        return Charged(stat["total_rss"], stat["total_cache"], self._number(most), killed)

    def _number(self, name: str) -> int:
        return int((self._folder / name).read_text())

    def _fields(self, name: str) -> Mapping[str, int]:
        lines = (self._folder / name).read_text().splitlines()
        return {key: int(value) for key, value in (line.split() for line in lines)}
