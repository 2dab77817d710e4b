"""Who may still ask a route's upstream: requests until their reply is done with, and fills."""

from __future__ import annotations

import asyncio


class Visits:
    def __init__(self) -> None:
        self._count = 0
        self._last_left = asyncio.Event()
        self._last_left.set()

    def enter(self) -> None:
        self._count += 1
        self._last_left.clear()

    def leave(self) -> None:
        self._count -= 1
        if not self._count:
            self._last_left.set()

    async def until_none(self) -> None:
        """Returns at a moment when nobody is there; a fill that goes on was there before whoever
        started it left.
        """
        while self._count:
            await self._last_left.wait()
