"""Which answers may be remembered (RFC 9111 §3), and if not, why."""

from __future__ import annotations

import re

from chunkside.core.decision import NotStored
from chunkside.core.fields import Fields
from chunkside.core.freshness import Policy, cache_control
from chunkside.core.key import KeyClass
from chunkside.core.ranges import encoding_of
from chunkside.core.response import ResponseHead
from chunkside.core.variants import varied_names

_ERROR_CODE = re.compile(rb"<Code>([^<]*)</Code>")
_CODES_OF_ABSENCE = frozenset({b"NoSuchKey", b"BlobNotFound"})


def why_not_body(head: ResponseHead, key_class: KeyClass, policy: Policy) -> NotStored | None:
    """The reason not to store a 200 to a full GET; None if it may be stored."""
    fields = head.fields
    directives = cache_control(fields)
    if b"no-store" in directives:
        return NotStored.NO_STORE
    if b"private" in directives:
        return NotStored.PRIVATE
    if b"set-cookie" in fields or b"set-cookie2" in fields:
        return NotStored.SET_COOKIE
    if b"*" in varied_names(fields):
        return NotStored.VARY
    if not head.is_framed:
        return NotStored.CLOSE_DELIMITED
    if head.length is not None and head.length > policy.max_body_bytes:
        return NotStored.TOO_LARGE
    # A login page or a single-page app answers for every missing key: never array data.
    if key_class == "chunk" and fields.combined(b"content-type").lower().startswith(b"text/html"):
        return NotStored.HTML
    return None


def why_not_absence(head: ResponseHead, body: bytes, policy: Policy) -> NotStored | None:
    """The reason why a whole answer doesn't prove that its key is absent; None if it does."""
    if head.status not in policy.absent_statuses:
        return NotStored.STATUS
    if b"no-store" in cache_control(head.fields):
        return NotStored.NO_STORE
    # A marker answers every request.
    if varied_names(head.fields):
        return NotStored.VARY
    # What is encoded may name another absence, unread.
    if encoding_of(head.fields):
        return NotStored.ENCODED
    if not head.is_framed:
        return NotStored.CLOSE_DELIMITED
    return NotStored.OTHER_CODE if _speaks_of_another_absence(body) else None


def _speaks_of_another_absence(body: bytes) -> bool:
    """Whether an object store's XML names something else than the key as missing."""
    code = _ERROR_CODE.search(body)
    return code is not None and code[1].strip() not in _CODES_OF_ABSENCE


def allows_any_origin(fields: Fields) -> bool:
    return fields.get(b"access-control-allow-origin") == b"*"
