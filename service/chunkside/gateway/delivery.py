"""One client's share of a body that may still be arriving, at that client's own speed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from chunkside.core.cache_status import CacheStatus, Result
from chunkside.core.entry import Stored
from chunkside.core.heads import SelectedHead, head_of
from chunkside.core.ranges import range_form, select
from chunkside.core.request import Request
from chunkside.gateway.errors import BodyTorn, OriginUnreachable
from chunkside.gateway.fill import full_get
from chunkside.gateway.growing import SMALL_BODY_BYTES, LeftBehind
from chunkside.gateway.origin import rest_until
from chunkside.gateway.outcomes import Filled
from chunkside.gateway.ports import Buffer, Upstream
from chunkside.gateway.reply import SLICE_BYTES, Reply

# A body of unknown length is held back this long, so that most readers get a Content-Length.
_UNKNOWN_LENGTH_BYTES: Final = 8 << 20
_UNKNOWN_LENGTH_SECONDS: Final = 1.0
_RANGE: Final = frozenset({b"range"})
_BROKE_OFF: Final = "The origin broke off in the middle of its answer."


class Delivery:
    """Follows the body from the moment it is made, so that nothing it needs is let go of."""

    def __init__(
        self, upstream: Upstream, request: Request, filled: Filled, start: int = 0
    ) -> None:
        # Where in the representation the body's bytes begin.
        self._first = 0 if filled.part is None else filled.part.first
        self._upstream = upstream
        self._request = request
        self._filled = filled
        self._body = filled.body
        self._follower = filled.body.follow(start)

    async def reply(self, result: Result, status: CacheStatus) -> Reply:
        try:
            fields = self._request.fields
            await self._wait_for_length(is_needed=range_form(fields) == "single")
            length = self._body.length
            if length is None:
                # Which part that would be nobody can tell.
                fields = fields.without(_RANGE)
            stored = self._stored(length or 0)
            head = head_of(stored, select(fields, stored))
            body: bytes | AsyncIterator[Buffer] = b""
            if length is None and head.status == 200:
                body = self._stream(0, None)
            elif length is not None and length <= SMALL_BODY_BYTES:
                body = await self._whole(head)
            elif head.length:
                body = self._stream(head.first, head.end)
        except BaseException:
            self._follower.close()
            raise
        is_open = length is None and head.status == 200
        return Reply(
            head.status,
            head.fields,
            body,
            None if is_open else head.length,
            result,
            status,
            release=self._follower.close,
        )

    def _stored(self, length: int) -> Stored:
        """The representation's head, of a body of `length` bytes."""
        stored = self._filled.stored
        return stored if self._filled.part is not None else replace(stored, length=length)

    async def _wait_for_length(self, *, is_needed: bool) -> None:
        """`is_needed`: a range has no place in a body of unknown length."""
        if self._body.length is not None:
            return
        if is_needed:
            await self._body.until_length_is_known(sys.maxsize)
            if self._body.is_torn:
                raise OriginUnreachable(_BROKE_OFF)
            return
        try:
            async with asyncio.timeout(_UNKNOWN_LENGTH_SECONDS):
                await self._body.until_length_is_known(_UNKNOWN_LENGTH_BYTES)
        except TimeoutError:
            # It goes on chunked.
            return

    async def _whole(self, head: SelectedHead) -> bytes:
        """A small body is answered in one piece, so that one that breaks off is told as an
        error.
        """
        try:
            whole = await self._body.whole()
        except BodyTorn as torn:
            raise OriginUnreachable(_BROKE_OFF) from torn
        return whole[head.first - self._first : head.end - self._first]

    async def _stream(self, position: int, end: int | None) -> AsyncIterator[Buffer]:
        """Bytes from `position` to `end`, exclusive; to wherever the body ends where that is
        None.
        """
        follower = self._follower
        try:
            while end is None or position < end:
                if end is None and not await follower.wait_at(position):
                    return
                most = SLICE_BYTES if end is None else min(SLICE_BYTES, end - position)
                piece = await follower.read(position - self._first, most)
                position += len(piece)
                yield piece
            return
        except LeftBehind:
            follower.close()
        async for piece in self._alone(position, end):
            yield piece

    async def _alone(self, position: int, end: int | None) -> AsyncIterator[Buffer]:
        """The rest by a request of this client's own, of the same version or not at all."""
        length = self._body.length
        if length is None or end is None:
            raise BodyTorn
        stored, asked = self._stored(length), full_get(self._request)
        async for piece in rest_until(self._upstream, asked, stored, position, end):
            yield piece
