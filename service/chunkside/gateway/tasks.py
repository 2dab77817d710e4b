"""Tasks that outlive the call that started them, each held until it ends and its exception read."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler(
                {"message": f"{task.get_name()} failed", "exception": error, "task": task}
            )

    async def finish(self, timeout: float) -> None:
        """Waits for all, those they start included; cancels what is left after `timeout`
        seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                while self._running:
                    await asyncio.wait(set(self._running))
        except TimeoutError:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
