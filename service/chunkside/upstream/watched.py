"""What is read from files that somebody else exchanges: certificates and secrets that rotate."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Generic, TypeVar

log = logging.getLogger(__name__)

# Files are looked at again after so long, where what they hold may be needed.
LOOK_AGAIN_SECONDS: Final = 5.0
# A file system that hangs holds a request up for no longer.
LONGEST_LOOK_SECONDS: Final = 1.0

_Mark = tuple[int, int, int, int]
Held = TypeVar("Held")


class UnfitFile(Exception):
    """A file doesn't hold what it should; the text says why, and nothing of what it holds."""


class Watched(Generic[Held]):
    """What `read` makes of `files`, also after they were exchanged. Raises UnfitFile.

    `files`: by the settings that name them. Once they became useless that is said, once, and what
    was read before goes on counting. All but the first reading is done in a thread, by one at a
    time. `read_at`: when what counts was read, by the wall clock.
    """

    def __init__(self, files: Mapping[str, Path], read: Callable[[], Held]) -> None:
        self.read_at = time.time()
        self._name = ", ".join(f"{setting} {file}" for setting, file in files.items())
        self._files = tuple(files.values())
        self._read = read
        self._is_useless = False
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None
        self._marks, self._held = self._marks_and_held()

    @property
    def held(self) -> Held:
        """What counts now; looks at nothing."""
        return self._held

    async def current(self) -> Held:
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= LOOK_AGAIN_SECONDS:
            self._looked_at = now
            await self.look()
        return self._held

    async def look(self) -> Held:
        """What they hold now, as far as that can be told soon."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        done, _ = await asyncio.wait({self._looking}, timeout=LONGEST_LOOK_SECONDS)
        for looking in done:
            looking.result()
        return self._held

    async def _look(self) -> None:
        try:
            if await asyncio.to_thread(self._marks_now) == self._marks:
                return
            # Another exchange while these are read differs from the marks, and so is seen.
            marks, held = await asyncio.to_thread(self._marks_and_held)
        except UnfitFile as error:
            if not self._is_useless:
                log.warning("%s can't be used any more: %s", self._name, error)
            self._is_useless = True
            return
        self._marks, self._held, self._is_useless = marks, held, False
        self.read_at = time.time()
        log.info("%s was read again", self._name)

    def _marks_and_held(self) -> tuple[tuple[_Mark, ...], Held]:
        return self._marks_now(), self._read()

    def _marks_now(self) -> tuple[_Mark, ...]:
        return tuple(map(_mark_of, self._files))


def _mark_of(file: Path) -> _Mark:
    """Differs once another file is there, or other bytes."""
    try:
        found = os.stat(file)
    except OSError as error:
        raise UnfitFile(error.strerror or str(error)) from error
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
