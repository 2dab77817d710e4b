"""Google's JSON interface to its object store: what a target of it is about, in path style.

Some clients read objects by this interface, others by their path: `/bucket/key`. What they read are
the same bytes, so that a read is asked for, and known, by its path alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from chunkside.core.buckets import bucket_of
from chunkside.core.key import has_dot_segment, object_path

_BEGINS: Final = re.compile(
    rb"/+(?:(?:download|upload|resumable/+upload|batch)/+)?storage/+v[0-9][0-9a-z_]*(?:/|$)"
)
_BUCKET: Final = rb"/storage/v1/b/([A-Za-z0-9._-]+)"
# A key is one segment: what is a slash in it is encoded.
_OBJECT: Final = re.compile(rb"(?:/download)?" + _BUCKET + rb"/o/((?:[^/%]|%[0-9A-Fa-f]{2})+)")
_OBJECTS: Final = re.compile(_BUCKET + rb"/o")
_OF_A_BUCKET: Final = re.compile(_BUCKET + rb"(?:/storageLayout)?|/upload" + _BUCKET + rb"/o")
_SLASH: Final = re.compile(rb"%2[Ff]")
_GENERATION: Final = re.compile(rb"generation=[0-9]+")
_CONTENT: Final = b"alt=media"


@dataclass(frozen=True, slots=True)
class Named:
    """What a target is about. `place`: what its name would be in path style: `/bucket/key`; a
    listing of keys; `/bucket`; `/` where it may be about anything.
    """

    place: bytes
    is_object: bool = False

    @property
    def is_ambiguous(self) -> bool:
        """Whether its key is a path that leads elsewhere for those who resolve dot segments."""
        return self.is_object and has_dot_segment(unquote_to_bytes(self.place))


def named_by(target: bytes) -> Named | None:
    """None of what isn't of this interface. However it is spelled: servers decode what they get."""
    if not _BEGINS.match(object_path(target)):
        return None
    path, _, query = target.partition(b"?")
    if found := _OBJECT.fullmatch(path):
        return Named(b"/%b/%b" % (found[1], _SLASH.sub(b"/", found[2])), is_object=True)
    if found := _OBJECTS.fullmatch(path):
        return Named(b"/%b?list-type=2&%b" % (found[1], query))
    if found := _OF_A_BUCKET.fullmatch(path):
        return Named(b"/" + (found[1] or found[2]))
    return Named(b"/")


def told_of(target: bytes) -> bytes:
    """The target by which this interface tells of what a target in path style has."""
    bucket, rest = bucket_of(target)
    key, mark, query = rest.removeprefix(b"/").partition(b"?")
    return b"/storage/v1/b/%b/o/%b" % (bucket, key.replace(b"/", b"%2F")) + mark + query


def content_read(target: bytes, named: Named, ignored_query: frozenset[bytes]) -> bytes | None:
    """The target in path style that has just what a GET of `target` reads; None where that asks for
    something else than an object's bytes, or for them on a condition.
    """
    parts = target.partition(b"?")[2].split(b"&")
    asked = [part for part in parts if part.partition(b"=")[0] not in ignored_query]
    # A bucket can be called so that a path of it is this interface's.
    if not named.is_object or asked.count(_CONTENT) != 1 or named_by(named.place) is not None:
        return None
    asked.remove(_CONTENT)
    if not asked:
        return named.place
    is_version = len(asked) == 1 and _GENERATION.fullmatch(asked[0])
    return named.place + b"?" + asked[0] if is_version else None
