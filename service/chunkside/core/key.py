"""What a look-up goes by, what a write invalidates, and which class a target belongs to.

Bytes throughout: a target is compared as it is sent to the origin, never parsed and put together
again. Keying too finely costs a miss; keying too coarsely would be wrong data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

KeyClass = Literal["metadata", "listing", "chunk"]
ClientCredentials = Literal["partition", "strip", "share"]
"""What clients' credentials are to the cache: they part all that is stored; they are
removed; they part absences alone, and bodies are everybody's.
"""
ALL_CREDENTIALS: Final = b"*"
"""In a partition's place: of bodies that all credentials share."""

METADATA_NAMES = (
    "zarr.json",
    ".zarray",
    ".zgroup",
    ".zattrs",
    ".zmetadata",
    "attributes.json",
    "info",
    "manifest.ocdbt",
    "repo",
    "*.json",
    "*.yaml",
)
_PLAIN_METADATA = frozenset(name.encode() for name in METADATA_NAMES if "*" not in name)
_LISTING_PARAMETERS = frozenset([b"list-type", b"delimiter", b"encoding-type"])
_DOT_SEGMENT = re.compile(rb"/\.\.?(?:/|$)")


@dataclass(frozen=True, slots=True)
class Namespace:
    """Everything of a cache key but the target. Entries of two namespaces never meet.

    `location` is the origin's scheme, host and port; `identity` names the sidecar's own credential
    by its configuration ("" for none); `partition` is a keyed hash of the client's credentials
    (b"" for a client that brought none), or ALL_CREDENTIALS.
    """

    location: str
    identity: str = ""
    partition: bytes = b""

    @property
    def is_shared(self) -> bool:
        """Whether bodies lie here that were learnt with different credentials."""
        return self.partition == ALL_CREDENTIALS


@dataclass(frozen=True, slots=True)
class Object:
    """The unit of invalidation: all spellings, queries, partitions and ranges of one resource.

    `path` is percent-decoded, as sent to the origin, without a query.
    """

    location: str
    path: bytes


@dataclass(frozen=True, slots=True)
class CacheKey:
    namespace: Namespace
    target: bytes

    @property
    def object(self) -> Object:
        return Object(self.namespace.location, object_path(self.target))

    def serialised(self) -> bytes:
        """One byte string for each key, no two alike: no part can hold a NUL."""
        space = self.namespace
        return b"\0".join(
            (space.location.encode(), space.identity.encode(), space.partition, self.target)
        )


def object_path(target: bytes) -> bytes:
    """The path that a write to `target` falls on: decoded, and without dot segments, which most
    origins resolve.
    """
    path = _decoded_path(target)
    return without_dots(path) if b"/." in path and _DOT_SEGMENT.search(path) else path


def has_dot_segment(path: bytes) -> bool:
    return _DOT_SEGMENT.search(path) is not None


def is_plain(target: bytes) -> bool:
    """Whether a target is its object's own path, and no other spelling of it."""
    return b"%" not in target and b"?" not in target and _DOT_SEGMENT.search(target) is None


def _decoded_path(target: bytes) -> bytes:
    path = target.partition(b"?")[0]
    return unquote_to_bytes(path) if b"%" in path else path


def without_dots(path: bytes) -> bytes:
    """RFC 3986 §5.2.4, for a path that begins with a slash."""
    kept: list[bytes] = []
    *segments, last = path.split(b"/")
    for segment in segments:
        if segment == b"..":
            del kept[max(1, len(kept) - 1) :]
        elif segment != b".":
            kept.append(segment)
    if last == b"..":
        del kept[max(1, len(kept) - 1) :]
    kept.append(b"" if last in (b".", b"..") else last)
    return b"/".join(kept)


def key_target(target: bytes, ignored_query: frozenset[bytes]) -> bytes:
    """The raw target less the query parameters that don't select a representation."""
    path, mark, query = target.partition(b"?")
    if not query or not ignored_query:
        return target
    parts = query.split(b"&")
    kept = [part for part in parts if part.partition(b"=")[0] not in ignored_query]
    if len(kept) == len(parts):
        return target
    return path + mark + b"&".join(kept) if kept else path


def origin_target(target: bytes) -> bytes:
    """The origin-form of a request target that came as origin-form or absolute-form (RFC 9112
    §3.2).

    Raises ValueError for any other form.
    """
    if target.startswith(b"/"):
        return target
    split = _split_url(target)
    if split is None:
        raise ValueError("the target is neither a path nor an http URL")
    path = split[1]
    return path if path.startswith(b"/") else b"/" + path


def target_authority(target: bytes) -> bytes | None:
    """What stands in the place of Host in a target in absolute-form; None in one of any other
    form.
    """
    split = None if target.startswith(b"/") else _split_url(target)
    return None if split is None else split[0]


def _split_url(target: bytes) -> tuple[bytes, bytes] | None:
    """Authority of an http URL, and what follows it."""
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return None
    cut = min((i for i in (rest.find(b"/"), rest.find(b"?")) if i >= 0), default=len(rest))
    return rest[:cut], rest[cut:]


def leaves_its_root(target: bytes) -> bool:
    """Whether dot segments, in any spelling, climb above the target's first segment.

    Some origins take a segment's parameters off before they resolve it: `..;v=1` is one, too.
    """
    path = _decoded_path(target).replace(b"\\", b"/")
    if b".." not in path:
        return False
    depth = 0
    for segment in path.split(b"/"):
        name = segment.partition(b";")[0]
        if name == b"..":
            depth -= 1
            if depth < 0:
                return True
        elif name not in (b"", b"."):
            depth += 1
    return False


def is_array_document(target: bytes) -> bool:
    """Whether a target is named as what tells the shape of an array or of a group of them."""
    name = object_path(target).rpartition(b"/")[2]
    return name in _PLAIN_METADATA and name != b"repo"


def classify(target: bytes, extra_metadata_names: tuple[str, ...] = ()) -> KeyClass:
    """Of a target of a store only where that is no listing by the store's own rules."""
    if _asks_for_a_listing(target):
        return "listing"
    return class_of_path(object_path(target), extra_metadata_names)


def class_of_path(path: bytes, extra_metadata_names: tuple[str, ...] = ()) -> KeyClass:
    """The class of an object."""
    name = path[path.rfind(b"/") + 1 :]
    if not name:
        return "listing"
    if name in _PLAIN_METADATA or name.endswith((b".json", b".yaml")) or b"/refs/" in path:
        return "metadata"
    if extra_metadata_names:
        text = name.decode(errors="replace")
        if any(fnmatchcase(text, pattern) for pattern in extra_metadata_names):
            return "metadata"
    return "chunk"


def _asks_for_a_listing(target: bytes) -> bool:
    """Whether a query is one by which object stores are asked what they hold: S3's and GCS's
    parameters, or Azure's. Their clients use them through plain HTTP upstreams too.
    """
    query = target.partition(b"?")[2]
    if not query:
        return False
    parameters = query.split(b"&")
    names = {parameter.partition(b"=")[0] for parameter in parameters}
    return not names.isdisjoint(_LISTING_PARAMETERS) or b"comp=list" in parameters
