"""A body while it arrives, and those who read along at their own speed.

The last bytes are kept in memory, the ones before are read back from where they are being written.
While there is such a place nobody waits for anybody. Once it is lost (a full disk), the fill goes
on
from memory at the pace of the slowest reader that is near enough; those too far behind are told so.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from chunkside.gateway.errors import BodyTorn
from chunkside.gateway.ports import BodyWriter, Buffer

WINDOW_BYTES: Final = 1 << 20
# Up to this a body is answered whole, and held in memory until it is committed.
SMALL_BODY_BYTES: Final = 256 << 10


class LeftBehind(Exception):
    """The bytes a reader needs next are no longer held anywhere here."""


class GrowingBody:
    """`length`: bytes in all, None until it is known. `end`: bytes that have arrived.

    `expected`: how many will `follow` or `decline` who haven't yet. `is_kept`: all that has arrived
    is written or will be, so that more may join. `on_alone` is called where nobody follows any
    more.
    """

    def __init__(
        self,
        length: int | None,
        writer: BodyWriter | None,
        expected: int = 0,
        on_alone: Callable[[], None] = lambda: None,
    ) -> None:
        self.length = length
        self.end = 0
        self.expected = expected
        self.is_kept = writer is not None
        self._writer = writer
        self._on_alone = on_alone
        self._written_end = 0
        self._window: deque[tuple[int, bytes]] = deque()
        self._window_start = 0
        self._followers: set[Follower] = set()
        self.is_torn = False
        self._changed = asyncio.Event()

    # The filling side.

    def publish(self, chunk: bytes) -> None:
        """Gives a chunk to those who read along; it is kept until `written` says it can be read
        back.
        """
        self._window.append((self.end, chunk))
        self.end += len(chunk)
        self._wake()

    def written(self) -> None:
        """All that was published can be read back from the writer: keep no more than the window."""
        while self._window and self.end - self._window[0][0] > WINDOW_BYTES:
            self._window.popleft()
        self._window_start = self._window[0][0] if self._window else self.end

    def lose_writer(self) -> None:
        """From now on there is only the window."""
        self.is_kept = False
        self._writer = None
        self.written()
        self._wake()

    def stop_keeping(self) -> None:
        """What was written can be read back, but nothing more will be: the rest is in the
        window.
        """
        self.is_kept = False
        self._written_end = self._window[-1][0] if self._window else self.end
        self._wake()

    async def wait_for_followers(self) -> bool:
        """Where the newest bytes are in memory alone: waits until all who can still follow have
        room for more.

        False if nobody follows any more, so that there is no reason to go on.
        """
        while not self.is_kept:
            positions = self._positions()
            if not positions and not self.expected:
                return False
            if positions and not self.expected:
                slowest = max(min(positions), self._written_end)
                if self.end - slowest < WINDOW_BYTES:
                    self._drop_before(slowest)
                    return True
            await self.change()
        return True

    async def until_nobody_reads_back(self) -> None:
        """Waits until all who follow have what the window doesn't hold."""
        while any(position < self._window_start for position in self._positions()):
            await self.change()

    def _positions(self) -> list[int]:
        """Where those are who can still follow."""
        first = self._window_start if self._writer is None else 0
        return [each.position for each in self._followers if each.position >= first]

    def _drop_before(self, position: int) -> None:
        if self.length is not None and self.length <= WINDOW_BYTES:
            # `whole` needs all of it.
            return
        while self._window and self._window[0][0] + len(self._window[0][1]) <= position:
            self._window.popleft()
        self._window_start = self._window[0][0] if self._window else self.end

    def finish(self) -> None:
        self.length = self.end
        self._wake()
        self._rest_on_the_writer()

    def _rest_on_the_writer(self) -> None:
        """Keeps nothing in memory of a large body that waits for its commit while nobody reads it:
        many may wait where the disk is slow. Whoever joins it reads it back.
        """
        is_read = bool(self._followers) or self.expected > 0
        if self.is_kept and self.is_whole and not is_read and self.end > SMALL_BODY_BYTES:
            self._window.clear()
            self._window_start = self.end

    def tear(self) -> None:
        """No more bytes will come."""
        self.is_torn = True
        self._wake()

    # The reading side.

    def decline(self) -> None:
        """One of those expected will not follow."""
        self.expected -= 1
        self._rest_on_the_writer()
        self._one_less()

    @property
    def is_alone(self) -> bool:
        """Nobody follows what is still to come, or will."""
        is_over = self.is_whole or self.is_torn
        return not self._followers and not self.expected and not is_over

    def _one_less(self) -> None:
        self._wake()
        if self.is_alone:
            self._on_alone()

    @property
    def is_whole(self) -> bool:
        return self.length == self.end

    async def whole(self) -> bytes:
        """All of a body that is no longer than the window, once it is there. Raises BodyTorn."""
        while not self.is_whole:
            if self.is_torn:
                raise BodyTorn
            await self.change()
        return b"".join(chunk for _, chunk in self._window)

    def follow(self, start: int = 0) -> Follower:
        follower = Follower(self, start)
        self._followers.add(follower)
        return follower

    async def until_length_is_known(self, most_bytes: int) -> None:
        """Waits until the length is known, or `most_bytes` have come, or nothing more will unless
        somebody reads.
        """
        while self.length is None and self.end < most_bytes and not self.is_torn:
            if not self.is_kept and self.end - self._written_end >= WINDOW_BYTES:
                return
            await self.change()

    async def read(self, start: int, limit: int) -> Buffer:
        while start >= self.end:
            if self.is_torn:
                raise BodyTorn
            await self.change()
        if start >= self._window_start:
            return self._from_window(start, limit)
        if self._writer is None:
            raise LeftBehind
        try:
            return await self._writer.read(start, min(limit, self._window_start - start))
        except BodyTorn as torn:
            raise LeftBehind from torn

    def _from_window(self, start: int, limit: int) -> Buffer:
        for chunk_start, chunk in reversed(self._window):
            if chunk_start <= start:
                offset = start - chunk_start
                return memoryview(chunk)[offset : offset + limit]
        raise AssertionError("the window has a gap")

    def let_go(self, follower: Follower) -> None:
        self._followers.discard(follower)
        self._rest_on_the_writer()
        self._one_less()

    def moved(self) -> None:
        if not self.is_kept:
            self._wake()

    # A new Event each time: whoever waits for a change sees the next one, and only that.

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(self) -> None:
        await self._changed.wait()


class Follower:
    """One reader of a growing body, from any offset; reads forward only. `close` it."""

    def __init__(self, body: GrowingBody, start: int) -> None:
        self._body = body
        self.position = start

    @property
    def length(self) -> int:
        assert self._body.length is not None
        return self._body.length

    async def read(self, start: int, limit: int) -> Buffer:
        """Raises BodyTorn, or LeftBehind where only another request can bring what is missing."""
        self.position = start
        self._body.moved()
        return await self._body.read(start, limit)

    async def wait_at(self, start: int) -> bool:
        """Waits for a byte at `start`; False if the body ends there. Raises BodyTorn."""
        body = self._body
        while start >= body.end:
            if body.length is not None and start >= body.length:
                return False
            if body.is_torn:
                raise BodyTorn
            await body.change()
        return True

    def close(self) -> None:
        self._body.let_go(self)
