"""Object stores as their targets have it: `/bucket/key`, what of it a route admits, and what a
store's error says of a key.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

_ERROR_CODE: Final = re.compile(rb"<Code>([^<]*)</Code>")
_CODES_OF_ABSENCE: Final = frozenset({b"NoSuchKey", b"BlobNotFound"})
_MESSAGE: Final = re.compile(rb"<Message>([^<]*)</Message>")
# GCS says there which permission it missed, which is never S3's.
_DETAILS: Final = b"<Details>"
_ACTION: Final = re.compile(rb"\b[a-z0-9-]+:(?:[A-Z][A-Za-z]+|\*)")
_NOT_AUTHORIZED: Final = b"not authorized to perform: s3:ListBucket "
# Of all queries only this one names the bytes of an object.
_VERSION: Final = b"versionId"


def error_code(body: bytes) -> bytes | None:
    """What a store's XML gives as the reason of an error; None where it gives none."""
    found = _ERROR_CODE.search(body)
    return None if found is None else found[1].strip()


def names_missing_key(body: bytes) -> bool:
    """Whether a store's answer says that the key is missing, rather than what it lies in."""
    return error_code(body) in _CODES_OF_ABSENCE


def speaks_of_another_absence(body: bytes) -> bool:
    """Whether a store's XML names something else than the key as missing."""
    return error_code(body) is not None and not names_missing_key(body)


def may_hide_absence(body: bytes) -> bool:
    """Whether a store's refusal is worded as for a missing key, to those who may not list: denied,
    of no reason that is told, or for want of `s3:ListBucket` alone.

    The same code stands over expired links, clocks that are off, and bytes that nobody may decrypt.
    """
    if error_code(body) != b"AccessDenied" or _DETAILS in body:
        return False
    found = _MESSAGE.search(body)
    told = b"" if found is None else b" ".join(found[1].split())
    if told.removesuffix(b".").lower() in (b"", b"access denied"):
        return True
    return _NOT_AUTHORIZED in told and set(_ACTION.findall(told)) == {b"s3:ListBucket"}


def bucket_of(target: bytes) -> tuple[bytes, bytes]:
    """A target's bucket, "" for none, and what follows it: "" or what begins with a slash or a
    question mark.
    """
    path, mark, query = target.removeprefix(b"/").partition(b"?")
    bucket, slash, key = path.partition(b"/")
    return bucket, slash + key + mark + query


def has_key(target: bytes) -> bool:
    return len(bucket_of(target)[1].partition(b"?")[0]) > 1


def is_of_an_object(target: bytes, ignored_query: frozenset[bytes]) -> bool:
    """Whether a target asks for an object's bytes: not for a bucket, a listing or what else a store
    tells of an object.
    """
    path, _, query = target.partition(b"?")
    names = {part.partition(b"=")[0] for part in query.split(b"&")} if query else set()
    return has_key(target) and not path.endswith(b"/") and names <= ignored_query | {_VERSION}


def is_admitted(scope: bytes, target: bytes) -> bool:
    """Whether a target, or the listing that it asks for, is of what begins with `scope`: "" for
    all, `/bucket`, or `/bucket/prefix`.
    """
    rest = target.removeprefix(scope)
    if len(rest) + len(scope) == len(target) and rest[:1] in (b"", b"/", b"?"):
        return True
    bucket, prefix = bucket_of(scope)
    return bucket_of(target)[0] == bucket and _lists_beneath(unquote_to_bytes(prefix), target)


def _lists_beneath(prefix: bytes, target: bytes) -> bool:
    """Whether a target without a key asks for keys that begin with `prefix` alone."""
    rest = bucket_of(target)[1]
    path, _, query = rest.partition(b"?")
    parts = [part.partition(b"=") for part in query.split(b"&")]
    told = [unquote_to_bytes(value) for name, _, value in parts if name == b"prefix"]
    is_listing = any(name == b"list-type" for name, _, _ in parts)
    is_of_bucket = path in (b"", b"/") and is_listing
    return is_of_bucket and len(told) == 1 and told[0].startswith(prefix[1:] + b"/")
