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
from chunkside.gateway.ports import OriginRequest
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
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            await self._is_wanted.wait()
        return None

    def end(self) -> None:
        """Lets all go on who wait, and looks no more."""
        for event in (self._has_looked, self._is_over, self._is_wanted):
            event.set()

    async def until_looked(self) -> None:
        """Until it has looked once, or for a while."""
        await _for_a_while(self._has_looked)

    async def wait(self) -> None:
        """Until it is over, or for a while."""
        self._is_wanted.set()
        await _for_a_while(self._is_over)


async def _for_a_while(event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
            await event.wait()


class NotYet:
    """In the place of the way to such an origin."""

    async def send(self, request: OriginRequest) -> NoReturn:  # noqa: ARG002 - as the port has it
        raise OriginNotAsked(
            "The chain of credentials has not said yet whose there are, so that nothing can be "
            "asked. The log says more if it failed.",
            reason="credentials",
        )

    async def close(self) -> None:
        """There is nothing to close."""
