"""The protocol in front of aiohttp's: it frames heads and owns the timers of a quiet connection.

A connection is clean while aiohttp holds nothing of it, not half a head either. Only then does the
front collect a head; once it is whole, a lane may answer it by itself, and all else is handed on
byte for byte. Whatever carries a body or comes pipelined makes the connection aiohttp's for good.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

from chunkside.aiohttp_internals.serving import Handler, is_idle
from chunkside.server.crowd import Crowd

_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
# Past this aiohttp judges an unfinished head, and refuses it.
_MOST_HEAD_BYTES: Final = 64 << 10
_MAY_HAVE_BODY: Final = re.compile(rb"\n(?:content-length|transfer-encoding)[ \t]*:", re.IGNORECASE)
_ASKS_TO_UPGRADE: Final = re.compile(rb"\nupgrade[ \t]*:", re.IGNORECASE)


class Lane(Protocol):
    def recall(self, data: bytes, transport: asyncio.Transport) -> bool:
        """Answers bytes that were a whole request of no body before, or leaves everything as it is:
        False.
        """
        ...

    def answer(self, head: bytes, transport: asyncio.Transport) -> bool:
        """Answers a whole request of no body at once, or leaves everything as it is: False."""
        ...


class Refusals(Protocol):
    """Whole answers to those who have no request that could be answered."""

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Whether whoever is at the other end may ask at all."""
        ...

    def late_head(self) -> bytes:
        """To a head that did not come in time."""
        ...

    def crowded(self) -> bytes:
        """To a connection that is one too many."""
        ...

    def foreign(self) -> bytes:
        """To a connection from where nobody may ask."""
        ...


@dataclass(frozen=True, slots=True)
class Timers:
    """Seconds: for a head once its first byte is there, and for a connection without a request."""

    head: float = 30.0
    idle: float = 120.0


class Front(asyncio.Protocol):
    __slots__ = (
        "_crowd",
        "_handler",
        "_head",
        "_is_clean",
        "_is_foreign",
        "_is_idle",
        "_lane",
        "_loop",
        "_quiet_since",
        "_refusals",
        "_timer",
        "_timers",
        "_transport",
    )

    def __init__(
        self,
        make_handler: Callable[[], Handler],
        refusals: Refusals,
        timers: Timers,
        crowd: Crowd,
        lane: Lane | None = None,
    ) -> None:
        self._handler = make_handler()
        self._refusals = refusals
        self._crowd = crowd
        self._timers = timers
        self._lane = lane
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._is_clean = True
        self._is_foreign = False
        self._is_idle = False
        self._quiet_since = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._crowd.admit(self):
            self._transport.write(self._refusals.crowded())
            self._transport.close()
            self._transport = None
            return
        self._is_foreign = not self._refusals.admits(transport)
        self._handler.connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        if self._is_foreign:
            self._turn_away()
            return
        if not self._is_clean:
            self._handler.data_received(data)
            # Bytes that make no request yet buy no time.
            if not is_idle(self._handler):
                self._quiet_since = self._loop.time()
            return
        if not self._head:
            self._quiet_since = self._loop.time()
            if self._is_recalled(data):
                return
        head = self._head + data if self._head else data
        end = _END_OF_HEAD.search(head)
        if end is not None:
            is_one_head = end.end() == len(head) and not _MAY_HAVE_BODY.search(head)
            is_plain = is_one_head and not _ASKS_TO_UPGRADE.search(head)
            if not (is_plain and self._is_taken(head)):
                self._hand_on(head, is_clean=is_plain)
        elif len(head) > _MOST_HEAD_BYTES or not head[:1].isalpha():
            self._hand_on(head, is_clean=False)
        else:
            self._head = head

    def _turn_away(self) -> None:
        """Answers whatever it was, now that it has come: before, the answer might be lost."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._refusals.foreign())
            self._transport.close()

    def _is_recalled(self, data: bytes) -> bool:
        lane, transport = self._lane, self._transport
        if lane is None or transport is None:
            return False
        # Once it is idle it stays so until something is handed on.
        if not self._is_idle and not is_idle(self._handler):
            return False
        self._is_idle = True
        return lane.recall(data, transport)

    def _is_taken(self, head: bytes) -> bool:
        lane, transport = self._lane, self._transport
        if lane is None or transport is None or not is_idle(self._handler):
            return False
        self._head = b""
        return lane.answer(head, transport)

    def _hand_on(self, data: bytes, *, is_clean: bool) -> None:
        self._head = b""
        self._is_clean = is_clean
        self._is_idle = False
        # Head by head: aiohttp's parser drops what it was given behind a request to upgrade.
        while (end := _END_OF_HEAD.search(data)) and not _MAY_HAVE_BODY.search(data, 0, end.end()):
            self._handler.data_received(data[: end.end()])
            data = data[end.end() :]
        if data:
            self._handler.data_received(data)

    # Timers.

    def _arm(self) -> None:
        self._timer = self._loop.call_later(min(self._timers.head, self._timers.idle), self._check)

    def _check(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        now = self._loop.time()
        if self._head:
            if now - self._quiet_since >= self._timers.head:
                transport.write(self._refusals.late_head())
                transport.close()
                return
        elif not is_idle(self._handler):
            self._quiet_since = now
        elif now - self._quiet_since >= self._timers.idle:
            transport.close()
            return
        self._arm()

    # As one of a crowd.

    @property
    def is_quiet(self) -> bool:
        return not self._head and is_idle(self._handler)

    def ask_to_leave(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # Handed on as they are.

    def eof_received(self) -> bool:
        """True keeps the way back open for answers that are still owed."""
        if self._head:
            self._hand_on(self._head, is_clean=False)
        return self._handler.hear_the_end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            # It was never let in.
            return
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._crowd.leave(self)
        self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()
