"""What of a request is refused before anybody looks at its target, and how its body is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import HttpVersion, HttpVersion10, web
from aiohttp.http_exceptions import HttpProcessingError

from chunkside.aiohttp_internals.serving import (
    LONGEST_FIELD,
    LONGEST_TARGET,
    send_continue,
    which_is_too_large,
)
from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields, list_members
from chunkside.core.key import target_authority
from chunkside.core.neighbours import judge_host, judge_source
from chunkside.core.request import SAFE_METHODS
from chunkside.gateway.errors import RequestAborted
from chunkside.gateway.ports import Content

OUT_OF_STEP: Final = frozenset({"bad-host", "bad-framing", "bad-coding"})
"""Refusals after which nothing on the connection can be trusted to be a request."""
_CONTINUE: Final = b"100-continue"


def judge_framing(version: HttpVersion, fields: Fields) -> Refuse | None:
    """Refuses what the parser lets pass, and what could not be passed on as it was meant."""
    if version.major != 1:
        return Refuse(505, "bad-version", "Not a version that is spoken here", "Send HTTP/1.1.")
    codings = list_members(fields.combined(b"transfer-encoding"))
    if codings and version <= HttpVersion10:
        return Refuse(
            400,
            "bad-framing",
            "HTTP/1.0 has no Transfer-Encoding",
            "Send a Content-Length (RFC 9112 §6.1).",
        )
    if codings not in ([], [b"chunked"]):
        return Refuse(
            501,
            "bad-coding",
            "Not a transfer coding that is undone here",
            "Send the body chunked, or with a Content-Length (RFC 9112 §6.1).",
        )
    if _expected(version, fields) not in (b"", _CONTINUE):
        return Refuse(
            417,
            "bad-expectation",
            "Not an expectation that can be met",
            "Send Expect: 100-continue, or none (RFC 9110 §10.1.1).",
        )
    if any(not _is_text(name, value) for name, value in fields):
        return Refuse(400, "bad-field", "A field can't be passed on", "Send field values in UTF-8.")
    return None


def judge_neighbour(
    method: str, target: bytes, fields: Fields, allowed_hosts: frozenset[bytes]
) -> Refuse | None:
    """Refuses hosts that others can point here, and writes that other pages have browsers send.

    In absolute-form the target says which host is meant, and Host counts for nothing as long as it
    is valid (RFC 9112 §3.2.2).
    """
    authority = target_authority(target)
    refusal = judge_host(fields.get(b"host"), allowed_hosts)
    if authority is not None and (refusal is None or refusal.status == 421):
        refusal = judge_host(authority, allowed_hosts)
        fields = fields.without(frozenset({b"host"})).plus((b"Host", authority))
    if refusal is None and method not in SAFE_METHODS:
        refusal = judge_source(fields)
    return refusal


def judge_error(error: BaseException | None) -> Refuse:
    """What the parser stumbled over."""
    match which_is_too_large(error):
        case "target":
            return Refuse(
                414,
                "long-target",
                "The request's target is too long",
                f"It may have {LONGEST_TARGET} bytes.",
            )
        case "fields":
            return Refuse(
                431,
                "large-fields",
                "The request's fields are too large",
                f"One may have {LONGEST_FIELD} bytes, and there may be 128.",
            )
        case _:
            told = error.message if isinstance(error, HttpProcessingError) else ""
            # Lines after the first show the bytes it stumbled over.
            detail = told.partition("\n")[0].rstrip(": ")
            return Refuse(
                400,
                "bad-request",
                "This is no valid HTTP request",
                detail or "The request can't be parsed (RFC 9112).",
            )


class Upload:
    """A request's body on its way. `is_held_back`: the client waits to be told to send it, and has
    not been. `is_torn`: it broke off, or was framed wrongly.
    """

    def __init__(self, http: web.BaseRequest, fields: Fields) -> None:
        self._http = http
        self._length = fields.get(b"content-length")
        self._asks_to_upgrade = b"upgrade" in fields
        self.is_held_back = _expected(http.version, fields) == _CONTINUE
        self.is_torn = False

    @property
    def leaves_in_step(self) -> bool:
        """Whether what follows on the connection is sure to be the next request, and all of it."""
        # The parser drops what it was given behind a request to upgrade.
        return not (self.is_torn or self.is_held_back or self._asks_to_upgrade)

    def content(self) -> Content:
        length = int(self._length) if self._length is not None else None
        return Content(self._chunks(), length, self.is_held_back)

    async def _chunks(self) -> AsyncIterator[bytes]:
        if self.is_held_back:
            self.is_held_back = False
            await send_continue(self._http.writer)
        try:
            async for chunk in self._http.content.iter_any():
                yield chunk
        except (OSError, web.RequestPayloadError) as error:
            self.is_torn = True
            raise RequestAborted from error


def _expected(version: HttpVersion, fields: Fields) -> bytes:
    """What the client expects; nothing in HTTP/1.0, where that is to be ignored."""
    return b"" if version <= HttpVersion10 else fields.combined(b"expect").strip().lower()


def _is_text(name: bytes, value: bytes) -> bool:
    try:
        name.decode("ascii")
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
