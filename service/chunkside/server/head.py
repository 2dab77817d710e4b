"""Renders the head of every answer of the data port."""

from __future__ import annotations

import time
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from chunkside.core.fields import Fields
from chunkside.gateway.reply import Reply

_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
_LENGTH: Final = frozenset({b"content-length"})
_COMPUTED: Final = _LENGTH | {b"age"}
_NO_LENGTH: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Connection:
    """What the answer's framing depends on."""

    is_http_10: bool
    keeps_alive: bool


@dataclass(frozen=True, slots=True)
class Begun:
    """Status line and fields, as far as they don't change by the second."""

    lines: bytes
    has_date: bool


def render_head(reply: Reply, via: bytes, connection: Connection) -> bytes:
    """Status line and fields, byte-exact, with the empty line. No field is folded or re-encoded."""
    second, told = int(time.time()), reply.cache_status.render()
    ended = _end(via, _framing(reply, connection))
    if reply.age is not None:
        begun = begin_head(reply.status, reply.fields)
        return head_from_store(begun, second, reply.age, told, ended)
    fields = reply.fields.without(_LENGTH)
    date = b"" if b"date" in fields else dated(second)
    return b"%b%bCache-Status: %b\r\n%b" % (_begin(reply.status, fields), date, told, ended)


def head_from_store(begun: Begun, second: int, age: float, told: bytes, ended: bytes) -> bytes:
    """The head of an answer that came from store. `second`: of now, by the wall clock; `told`: what
    Cache-Status says.
    """
    date = b"" if begun.has_date else dated(second)
    return b"%b%bAge: %d\r\nCache-Status: %b\r\n%b" % (
        begun.lines,
        date,
        min(age, 2**31),
        told,
        ended,
    )


def begin_head(status: int, fields: Fields) -> Begun:
    """What of the head of a stored answer is always the same."""
    kept = fields.without(_COMPUTED)
    return Begun(_begin(status, kept), b"date" in kept)


def end_head(via: bytes, length: int) -> bytes:
    """The end of a head in HTTP/1.1, on a connection that stays."""
    return b"Via: %b\r\nContent-Length: %d\r\n\r\n" % (via, length)


def _end(via: bytes, framing: list[bytes]) -> bytes:
    return b"\r\n".join((b"Via: " + via, *framing)) + b"\r\n\r\n"


def _begin(status: int, fields: Fields) -> bytes:
    lines = [b"HTTP/1.1 %d %b" % (status, _REASONS.get(status, b""))]
    lines += [b"%b: %b" % line for line in fields]
    return b"\r\n".join(lines) + b"\r\n"


@lru_cache(maxsize=2)
def dated(second: int) -> bytes:
    """The line that tells the time of an answer."""
    return b"Date: %b\r\n" % formatdate(second, usegmt=True).encode()


def _framing(reply: Reply, connection: Connection) -> list[bytes]:
    lines = []
    if reply.status not in _NO_LENGTH:
        if reply.length is not None:
            lines.append(b"Content-Length: %d" % reply.length)
        elif not connection.is_http_10 and not isinstance(reply.body, bytes):
            lines.append(b"Transfer-Encoding: chunked")
    if not connection.keeps_alive:
        lines.append(b"Connection: close")
    elif connection.is_http_10:
        lines.append(b"Connection: keep-alive")
    return lines
