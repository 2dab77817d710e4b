"""Object stores as their targets have it: `/bucket/key`, what of it a route admits, and what a
store's error says of a key.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

_ERROR_CODE: Final = re.compile(rb"<Code>([^<]*)</Code>")
_CODES_OF_ABSENCE: Final = frozenset({b"NoSuchKey", b"BlobNotFound"})
_BAD_ENCODING: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_UNCLEAR: Final = re.compile(rb"//|/\.\.?(?:/|$)|%00|%5C")
# Of all queries only these name the bytes of an object: S3's, and Google's.
_VERSIONS: Final = frozenset({b"versionId", b"generation"})


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


def bucket_of(target: bytes) -> tuple[bytes, bytes]:
    """A target's bucket, "" for none, and what follows it: "" or what begins with a slash or a
    question mark.
    """
    path, mark, query = target.removeprefix(b"/").partition(b"?")
    bucket, slash, key = path.partition(b"/")
    return bucket, slash + key + mark + query


def spelled_plainly(target: bytes) -> bytes:
    """The target of the same key with nothing encoded that needs not be, where a store takes a key
    for what it is decoded. As it is where what stands between may take it for another path.
    """
    path, mark, query = target.partition(b"?")
    bucket, key = bucket_of(path)
    if _BAD_ENCODING.search(key):
        return target
    plain = quote_from_bytes(unquote_to_bytes(key), safe="/!$&'()*+,;=:@").encode()
    if _UNCLEAR.search(plain):
        return target
    return b"/" + bucket + plain + mark + query


def has_key(target: bytes) -> bool:
    return len(bucket_of(target)[1].partition(b"?")[0]) > 1


def is_of_an_object(target: bytes, ignored_query: frozenset[bytes]) -> bool:
    """Whether a target asks for an object's bytes: not for a bucket, a listing or what else a store
    tells of an object.
    """
    path, _, query = target.partition(b"?")
    names = {part.partition(b"=")[0] for part in query.split(b"&")} if query else set()
    return has_key(target) and not path.endswith(b"/") and names <= ignored_query | _VERSIONS


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
