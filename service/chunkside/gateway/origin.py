"""Bringing whole bodies from the origin, in several pieces where it must be."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from chunkside.core.entry import Stored
from chunkside.core.ranges import encoding_of, strong_validator
from chunkside.core.response import ResponseHead
from chunkside.gateway.errors import BodyTorn, OriginError, OriginUnreachable
from chunkside.gateway.ports import OriginRequest, OriginResponse, Upstream

RESUMPTIONS: Final = 3
_CONTENT_RANGE = re.compile(rb"bytes ([0-9]+)-([0-9]+)/([0-9]+)")


@dataclass(frozen=True, slots=True)
class Span:
    """Which bytes an answer has: from `first` on, `length` of them or as many as come, of `total`
    in all. `total` means nothing while `length` is unknown.
    """

    first: int
    length: int | None
    total: int


async def whole_body(
    upstream: Upstream, request: OriginRequest, response: OriginResponse, span: Span
) -> AsyncGenerator[bytes, None]:
    """The body of `response`, the answer to the full GET `request` or to a range of it.

    Where it ends early and has a strong validator and a known length, the rest is asked for.
    Raises BodyTorn where that can't be, or where it isn't as long as it should be.
    """
    received = 0
    try:
        async for chunk in response.chunks():
            received += len(chunk)
            if span.length is not None and received > span.length:
                raise _Overlong
            yield chunk
        if span.length not in (None, received):
            raise BodyTorn
        return
    except _Overlong:
        raise BodyTorn from None
    except BodyTorn:
        validator = strong_validator(response.head.fields)
        if validator is None or span.length is None:
            raise
    finally:
        response.close()
    coding = encoding_of(response.head.fields)
    rest = Rest(request, validator, coding, span.total, span.first + span.length)
    async for chunk in rest_of_body(upstream, rest, span.first + received):
        yield chunk


class _Overlong(Exception):
    """More bytes than were announced: none of them can be trusted."""


@dataclass(frozen=True, slots=True)
class Begun:
    """An answer of which `read` was read already; `more` gives what follows."""

    response: OriginResponse
    read: bytes
    more: AsyncIterator[bytes]

    @property
    def head(self) -> ResponseHead:
        return self.response.head

    async def chunks(self) -> AsyncIterator[bytes]:
        if self.read:
            yield self.read
        async for chunk in self.more:
            yield chunk

    def close(self) -> None:
        self.response.close()


async def read_ahead(response: OriginResponse, longest: int) -> tuple[bytes | None, OriginResponse]:
    """The body where it is no longer than that; and the answer with what was read put back.

    Raises OriginUnreachable where it breaks off before.
    """
    read = bytearray()
    chunks = response.chunks()
    try:
        async for chunk in chunks:
            read += chunk
            if len(read) > longest:
                return None, Begun(response, bytes(read), chunks)
    except BodyTorn as torn:
        raise OriginUnreachable("The origin broke off in the middle of its answer.") from torn
    return bytes(read), Begun(response, bytes(read), _nothing())


async def _nothing() -> AsyncIterator[bytes]:
    pieces: tuple[bytes, ...] = ()
    for piece in pieces:
        yield piece


@dataclass(frozen=True, slots=True)
class Rest:
    """What to ask for the remaining bytes of one version, up to `end`, exclusive, of `total`.
    `coding`: its content codings.
    """

    request: OriginRequest
    validator: bytes
    coding: bytes
    total: int
    end: int

    def range_from(self, position: int) -> bytes:
        last = b"" if self.end == self.total else b"%d" % (self.end - 1)
        return b"bytes=%d-%s" % (position, last)


async def rest_of_body(
    upstream: Upstream, rest: Rest, position: int
) -> AsyncGenerator[bytes, None]:
    """Bytes from `position` to the end that `rest` names, of its version.

    Raises BodyTorn where the origin no longer has that version or can't give its parts.
    """
    for _ in range(RESUMPTIONS):
        asked_from = position
        fields = rest.request.fields.plus(
            (b"Range", rest.range_from(position)), (b"If-Range", rest.validator)
        )
        try:
            response = await upstream.send(replace(rest.request, fields=fields))
        except OriginError as error:
            raise BodyTorn from error
        try:
            if not _continues(response, rest, position):
                raise BodyTorn
            async for chunk in response.chunks():
                # Content-Range was checked, but the bytes that follow may be other than it says.
                piece = chunk[: rest.end - position]
                position += len(piece)
                yield piece
            if position == rest.end:
                return
            raise BodyTorn
        except BodyTorn:
            if position == asked_from:
                raise
        finally:
            response.close()
    raise BodyTorn


async def rest_until(
    upstream: Upstream, asked: OriginRequest, stored: Stored, position: int, end: int
) -> AsyncIterator[bytes]:
    """Bytes from `position` to `end`, exclusive, of the very version that `stored` is the head of.

    `asked`: the full GET to ask for the rest as. Raises BodyTorn where that version can't be had.
    """
    validator = strong_validator(stored.fields)
    if validator is None:
        raise BodyTorn
    rest = Rest(asked, validator, encoding_of(stored.fields), stored.length, end)
    async with aclosing(rest_of_body(upstream, rest, position)) as chunks:
        async for chunk in chunks:
            yield chunk


def _continues(response: OriginResponse, rest: Rest, position: int) -> bool:
    head = response.head
    told = _CONTENT_RANGE.fullmatch(head.fields.get(b"content-range") or b"")
    if head.status != 206 or told is None:
        return False
    if (int(told[1]), int(told[2]), int(told[3])) != (position, rest.end - 1, rest.total):
        return False
    if encoding_of(head.fields) != rest.coding:
        return False
    # Some origins ignore If-Range: only what the 206 itself names is of that version.
    name = b"etag" if rest.validator.startswith(b'"') else b"last-modified"
    return head.fields.get(name) == rest.validator
