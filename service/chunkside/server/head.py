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
_COMPUTED: Final = frozenset({b"age", b"content-length"})
_NO_LENGTH: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Connection:
    """What the answer's framing depends on."""

    is_http_10: bool
    keeps_alive: bool


def render_head(reply: Reply, via: bytes, connection: Connection) -> bytes:
    """Status line and fields, byte-exact, with the empty line. No field is folded or re-encoded."""
    reason = _REASONS.get(reply.status, b"")
    lines = [b"HTTP/1.1 %d %b" % (reply.status, reason)]
    fields = reply.fields.without(_COMPUTED) if reply.age is not None else _kept(reply.fields)
    lines += [b"%b: %b" % line for line in fields]
    if b"date" not in fields:
        lines.append(b"Date: " + _http_date(int(time.time())))
    if reply.age is not None:
        lines.append(b"Age: %d" % min(reply.age, 2**31))
    lines.append(b"Cache-Status: " + reply.cache_status.render())
    lines.append(b"Via: " + via)
    lines += _framing(reply, connection)
    return b"\r\n".join(lines) + b"\r\n\r\n"


@lru_cache(maxsize=2)
def _http_date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


def _kept(fields: Fields) -> Fields:
    return fields.without(frozenset({b"content-length"}))


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
