"""Writes that have a store copy one object to another: what is copied is read by whoever asks."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from chunkside.core.credentials import is_presigned
from chunkside.core.fields import Fields
from chunkside.core.key import leaves_its_root, origin_target, target_authority
from chunkside.core.verbatim import name_in, own_name

# Their values are `bucket/key`, those of Azure's URLs.
_BY_PATH: Final = (b"x-amz-copy-source", b"x-goog-copy-source", b"x-amz-rename-source")
_BY_URL: Final = (b"x-ms-copy-source", b"x-ms-rename-source")


def copies_from_beneath(fields: Fields, location: str, scope: bytes) -> bool:
    """Whether all that a write copies lies in what begins with `scope`, or is read by a signature
    of its own. `location`: of the store; `scope`: as sent to it.
    """
    root = unquote_to_bytes(scope)
    sources = [value for name, value in fields if name.lower() in _BY_PATH]
    places = [b"/" + unquote_to_bytes(source.partition(b"?")[0]).lstrip(b"/") for source in sources]
    urls = [value for name, value in fields if name.lower() in _BY_URL and not is_presigned(value)]
    places += [_place(url, location) for url in urls]
    return all(
        place.startswith(root + b"/") and not leaves_its_root(place[len(root) :])
        for place in places
    )


def composes(target: bytes) -> bool:
    """Whether a write puts an object together from others of its bucket, named in its body."""
    query = target.partition(b"?")[2]
    return any(
        unquote_to_bytes(each.partition(b"=")[0]) == b"compose" for each in query.split(b"&")
    )


def _place(url: bytes, location: str) -> bytes:
    """Where a URL leads at a location; b"" where it leads elsewhere, or nowhere."""
    authority = target_authority(url)
    if authority is not None and name_in(authority) != own_name(location):
        return b""
    try:
        return unquote_to_bytes(origin_target(url).partition(b"?")[0])
    except ValueError:
        return b""
