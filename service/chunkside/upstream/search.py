"""An origin of which it isn't known yet with whose credentials it is asked.

A cloud's own chain of credentials may take its time (a metadata service, a process, single
sign-on): it is asked in a thread, and the sidecar serves meanwhile. Whoever asks for what is stored
by those credentials waits, for it can't be told from what others have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

from chunkside.gateway.errors import OriginNotAsked
from chunkside.gateway.ports import Observer, OriginRequest
from chunkside.upstream.hops import Means
from chunkside.upstream.workers import in_thread

_LONGEST_WAIT_SECONDS: Final = 20.0
_LOOK_AGAIN_SECONDS: Final = 5.0


class Search:
    """`look`, which may block, says what an origin is asked with; None while that can't be told."""

    def __init__(self, look: Callable[[], Means | None]) -> None:
        self._look = look
        self._is_wanted = asyncio.Event()
        self._has_looked = asyncio.Event()
        self._is_over = asyncio.Event()
        self._failed_at: float | None = None
        # Of the next look, where it finds nothing.
        self._failure = asyncio.Event()

    async def means(self) -> Means | None:
        """Looks at once, and then whenever somebody waits for it, until it can be told; None where
        it is over before.
        """
        while not self._is_over.is_set():
            self._is_wanted.clear()
            found = await in_thread("credentials", self._look)
            self._has_looked.set()
            if found is not None:
                return found
            if self._failed_at is None:
                self._failed_at = asyncio.get_running_loop().time()
            failure, self._failure = self._failure, asyncio.Event()
            failure.set()
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            await self._is_wanted.wait()
        return None

    def end(self) -> None:
        """Lets all go on who wait, and looks no more."""
        for event in (self._has_looked, self._is_over, self._is_wanted, self._failure):
            event.set()

    async def until_looked(self) -> None:
        """Until it has looked once, or for a while."""
        await _for_a_while(self._has_looked)

    async def wait(self) -> None:
        """Until it is over, or for a while; where it has failed for as long, until it fails once
        more: it may be set wrongly, and whoever asks is soon told so.
        """
        self._is_wanted.set()
        now, failed_at = asyncio.get_running_loop().time(), self._failed_at
        has_failed_long = failed_at is not None and now - failed_at >= _LONGEST_WAIT_SECONDS
        await _for_a_while(self._failure if has_failed_long else self._is_over)


async def _for_a_while(event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
            await event.wait()


class NotYet:
    """In the place of the way to such an origin. `trouble`: why a look told nothing, where one did;
    a sentence without its full stop.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self.trouble: str | None = None

    async def send(self, request: OriginRequest) -> NoReturn:  # noqa: ARG002 - as the port has it
        self._observer.upstream_spared("credentials")
        trouble, remedy = "It isn't known yet whose credentials there are", ""
        if self.trouble is not None:
            trouble, remedy = self.trouble, " Mend that, or set upstream_auth to none."
        raise OriginNotAsked(
            f"{trouble}, so that nothing can be asked.{remedy}", reason="credentials"
        )

    async def close(self) -> None:
        """There is nothing to close."""
