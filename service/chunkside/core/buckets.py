"""Object stores as their targets have it: `/bucket/key`, what of it a route admits, and what a
store's error says of a key.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

_ERROR_CODE: Final = re.compile(rb"<Code>([^<]*)</Code>")
CODES_OF_ABSENCE: Final = frozenset({b"NoSuchKey", b"BlobNotFound"})
_MESSAGE: Final = re.compile(rb"<Message>([^<]*)</Message>")
# GCS says there which permission it missed, which is never S3's.
_DETAILS: Final = b"<Details>"
_ACTION: Final = re.compile(rb"\b[a-z0-9-]+:(?:[A-Z][A-Za-z]+|\*)")
_NOT_AUTHORIZED: Final = b"not authorized to perform: s3:ListBucket "
_BAD_ENCODING: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_UNCLEAR: Final = re.compile(rb"//|/\.\.?(?:/|$)|%00|%5C")
# Of all queries only these name the bytes of an object: S3's, Google's, and Azure's.
_VERSIONS: Final = frozenset({b"versionId", b"generation", b"versionid", b"snapshot"})

# By which Azure is asked for what a container holds.
_LISTS_A_CONTAINER: Final = {(b"restype", b"container"), (b"comp", b"list")}
# All that stores are told of a listing, in lower case. By other names they are asked for what is a
# bucket's own: its policy, whom it lets in.
_OF_A_LISTING: Final = frozenset(
    {
        *(b"list-type", b"prefix", b"delimiter", b"max-keys", b"encoding-type", b"start-after"),
        *(b"continuation-token", b"fetch-owner", b"marker", b"versions", b"x-id", b"tensorstore"),
        *(b"restype", b"comp", b"maxresults", b"include", b"timeout", b"showonly", b"startfrom"),
        *(b"endbefore", b"pagetoken", b"projection", b"fields", b"startoffset", b"endoffset"),
        *(b"includetrailingdelimiter", b"includefoldersasprefixes", b"matchglob", b"softdeleted"),
        *(b"filter", b"userproject", b"quotauser", b"prettyprint", b"alt", b"key"),
    }
)


def error_code(body: bytes) -> bytes | None:
    """What a store's XML gives as the reason of an error; None where it gives none."""
    found = _ERROR_CODE.search(body)
    return None if found is None else found[1].strip()


def names_missing_key(body: bytes) -> bool:
    """Whether a store's answer says that the key is missing, rather than what it lies in."""
    return error_code(body) in CODES_OF_ABSENCE


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
    bucket, rest = bucket_of(target)
    return bucket != b"" and len(rest.partition(b"?")[0]) > 1


def is_of_an_object(target: bytes, ignored_query: frozenset[bytes]) -> bool:
    """Whether a target asks for an object's bytes: not for a bucket, a listing or what else a store
    tells of an object.
    """
    path, _, query = target.partition(b"?")
    names = {part.partition(b"=")[0] for part in query.split(b"&")} if query else set()
    return has_key(target) and not path.endswith(b"/") and names <= ignored_query | _VERSIONS


def is_admitted(scope: bytes, target: bytes, *, may_list: bool) -> bool:
    """Whether a target, or the listing that it may ask for, is of what begins with `scope`: "" for
    all, `/bucket`, or `/bucket/prefix`.
    """
    rest = target.removeprefix(scope)
    if len(rest) + len(scope) == len(target) and rest[:1] in (b"", b"/", b"?"):
        return True
    bucket, prefix = bucket_of(scope)
    is_of_bucket = may_list and bucket_of(target)[0] == bucket
    return is_of_bucket and _lists_beneath(unquote_to_bytes(prefix), target)


def _lists_beneath(prefix: bytes, target: bytes) -> bool:
    """Whether a target without a key asks for keys that begin with `prefix` alone."""
    rest = bucket_of(target)[1]
    path, _, query = rest.partition(b"?")
    # To some stores the names of parameters are alike in any case.
    parts = [(unquote_to_bytes(name).lower(), value) for name, value in _parameters(query)]
    names = {name for name, _ in parts}
    if len(names) < len(parts) or not names <= _OF_A_LISTING:
        return False
    told = [unquote_to_bytes(value) for name, value in parts if name == b"prefix"]
    is_listing = b"list-type" in names or set(parts) >= _LISTS_A_CONTAINER
    is_of_bucket = path in (b"", b"/") and is_listing
    return is_of_bucket and len(told) == 1 and told[0].startswith(prefix[1:] + b"/")


def _parameters(query: bytes) -> list[tuple[bytes, bytes]]:
    """Raw names and values."""
    return [part.partition(b"=")[::2] for part in query.split(b"&") if part]
