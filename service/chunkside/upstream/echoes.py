"""Answers that repeat what they were asked with: a signature of ours in a target, which redirects
and pages of errors may have in them, is nobody else's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from chunkside.core.fields import Fields
from chunkside.core.ranges import encoding_of
from chunkside.upstream.absences import error_of
from chunkside.upstream.wire import HttpResponse

_HIDDEN: Final = b"***"
_TEXT: Final = b"text/plain"


async def without_echoes(response: HttpResponse, query: bytes, method: str) -> HttpResponse:
    """An answer that shows nothing of `query`, which was put behind its target. Of what doesn't
    tell of an error or of another place the body is the object's own. Raises OriginUnreachable.
    """
    proofs = _spellings_of_proof(query)
    fields = response.head.fields
    shown = Fields(line for line in _without(fields, query) if not _holds(line[1], proofs))
    if shown != fields:
        response.head = replace(response.head, fields=shown)
    if response.head.status < 300 or method == "HEAD" or encoding_of(fields):
        return response
    body = told = await error_of(response)
    for proof in proofs:
        body = body.replace(proof, _HIDDEN)
    if body != told:
        response.replace_body(body, fields.get(b"content-type") or _TEXT)
    return response


def _without(fields: Fields, query: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (name, value.replace(b"?" + query, b"").replace(b"&" + query, b""))
        for name, value in fields
    ]


def _holds(value: bytes, proofs: list[bytes]) -> bool:
    return any(proof in value for proof in proofs)


def _spellings_of_proof(query: bytes) -> list[bytes]:
    """Of the signature in a query, the longest first."""
    told = dict(part.partition(b"=")[::2] for part in query.split(b"&"))[b"sig"]
    plain = unquote_to_bytes(told)
    once = quote_from_bytes(plain, safe="").encode()
    twice = quote_from_bytes(told, safe="").encode()
    return sorted({told, plain, once, twice} - {b""}, key=len, reverse=True)
