"""Files that the index has let go of and that lie on the disk a moment longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from chunkside.core.entry import BodyRef
from chunkside.gateway.ports import BodyStore

# A body that has to wait longer for room is not stored: reads don't wait for a slow disk.
_PATIENCE_SECONDS: Final = 1.0


class Leaving:
    """`bytes`: what such files take."""

    def __init__(self) -> None:
        self.bytes = 0
        self._less = asyncio.Event()

    def unlink(self, store: BodyStore, bodies: list[BodyRef]) -> Coroutine[Any, Any, None]:
        """What this gives must be awaited; the files count from now on."""
        size = sum(body.charge for body in bodies)
        self.bytes += size
        return self._unlink(store, bodies, size)

    async def _unlink(self, store: BodyStore, bodies: list[BodyRef], size: int) -> None:
        try:
            await store.remove(bodies)
        finally:
            self.bytes -= size
            self._less.set()

    async def until(self, is_enough: Callable[[], bool]) -> bool:
        """Whether enough of them goes within a moment."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while not is_enough():
                    self._less.clear()
                    await self._less.wait()
        except TimeoutError:
            return False
        return True
