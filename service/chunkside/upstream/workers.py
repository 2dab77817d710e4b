"""Threads for calls that may never return: a dead mount holds on to whoever asks it."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    value: T


@dataclass(frozen=True, slots=True)
class Raised:
    error: BaseException


async def in_thread(name: str, job: Callable[[], T]) -> T:
    """What `job` gives, in a thread of its own. Where nobody waits any more it ends unheard."""
    workers, outcome = Workers(name), asyncio.get_running_loop().create_future()

    def settle(told: Done[T] | Raised) -> None:
        if not outcome.done():
            outcome.set_result(told)

    workers.start(job, settle)
    workers.close()
    told: Done[T] | Raised = await outcome
    if isinstance(told, Raised):
        raise told.error
    return told.value


class Workers:
    """As many threads as there are jobs at once; whoever gives jobs bounds those.

    They don't keep the process from ending, as those of an executor would.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._running = 0
        self._threads = 0

    @property
    def threads(self) -> int:
        return self._threads

    def start(self, job: Callable[[], T], settle: Callable[[Done[T] | Raised], None]) -> None:
        """Runs `job` in a thread, then `settle` on this loop; not at all once that is closed."""
        loop = asyncio.get_running_loop()

        def settled(outcome: Done[T] | Raised) -> None:
            self._running -= 1
            settle(outcome)

        def run() -> None:
            outcome: Done[T] | Raised
            try:
                outcome = Done(job())
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                outcome = Raised(error)
            try:
                loop.call_soon_threadsafe(settled, outcome)
            except RuntimeError:
                if not loop.is_closed():
                    raise

        self._running += 1
        if self._running > self._threads:
            self._threads += 1
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            thread.start()
        self._jobs.put(run)

    def close(self) -> None:
        """Lets each thread go once it has nothing to do."""
        for _ in range(self._threads):
            self._jobs.put(None)
        # What is left to be closed afterwards gets a thread of its own.
        self._threads = 0

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
