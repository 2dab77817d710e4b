"""SIGTERM and SIGINT: the first has the sidecar stop, each further one ends what it waits for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any


class Stopping:
    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._hurried = asyncio.Event()

    def ask(self) -> None:
        if self._asked.is_set():
            self._hurried.set()
        self._asked.set()

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    async def asked(self) -> None:
        await self._asked.wait()

    async def pause(self, seconds: float) -> None:
        """Passes so much time, or what is left of it when a further signal comes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurried.wait()
        self._hurried.clear()

    async def allow(self, work: Coroutine[Any, Any, None], seconds: float) -> bool:
        """Whether it ended within that time and before a further signal; else it is cancelled."""
        running = asyncio.create_task(work)
        hurried = asyncio.create_task(self._hurried.wait())
        try:
            await asyncio.wait(
                (running, hurried), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if running.done():
                running.result()
                return True
            self._hurried.clear()
            return False
        finally:
            running.cancel()
            hurried.cancel()
            await asyncio.gather(running, hurried, return_exceptions=True)
