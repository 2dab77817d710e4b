"""What a write changes, as far as that can be told (RFC 9111 §4.4).

By that RFC it is the target, and what the answer names. Here a write that may have changed other
things, which a reader would then be told wrongly of, is taken to have changed its whole origin.
"""

from __future__ import annotations

import html
import re
from typing import Final
from urllib.parse import parse_qsl, quote_from_bytes, unquote_to_bytes, urljoin, urlsplit

from chunkside.core.decision import Write
from chunkside.core.fields import Fields
from chunkside.core.key import Object, has_dot_segment, object_path, origin_target
from chunkside.core.request import Request

LONGEST_KEY_LIST: Final = 2 << 20
"""So many bytes of a request that names its objects are read before it is forwarded."""

_OF_THE_TARGET: Final = frozenset(
    {"PUT", "DELETE", "PATCH", "MKCOL", "PROPPATCH", "LOCK", "UNLOCK", "ACL", "MKCALENDAR"}
)
# What an object store is asked to do with one key: parts of an upload, a query of its content.
_OF_ONE_KEY: Final = frozenset({"uploads", "uploadId", "select", "restore"})
_QUERIES_ONE_BLOB: Final = ("comp", "query")
_RENAMED_FROM: Final = b"x-ms-rename-source"
_KEY: Final = re.compile(rb"<Key>([^<]*)</Key>")
_NAMED: Final = re.compile(rb"<Object\b")
# Comments, CDATA, entities of its own, instructions: what names a key may stand in them, or not.
_NOT_PLAIN: Final = re.compile(rb"<!|<\?(?!xml\s)")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def reach_of(request: Request, *, is_strict: bool) -> Write:
    """What an unsafe request changes."""
    path, _, query = request.target.partition(b"?")
    if request.changes_more or _is_ambiguous(path):
        return Write(is_broad=True, is_deep=request.method == "DELETE")
    if request.method in ("MOVE", "COPY"):
        return _with(request, request.fields.get(b"destination"))
    if _RENAMED_FROM in request.fields:
        return _with(request, request.fields.get(_RENAMED_FROM))
    if request.method == "POST":
        asked = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        names = {name for name, _ in asked}
        if "delete" in names:
            return Write(is_broad=False, names_keys=True)
        is_of_one = not _OF_ONE_KEY.isdisjoint(names) or _QUERIES_ONE_BLOB in asked
        is_narrow = is_strict or is_of_one
    else:
        # A rename by this field names its source in a way that depends on the store.
        is_known = request.method in _OF_THE_TARGET and b"x-amz-rename-source" not in request.fields
        is_narrow = is_strict or (is_known and not path.endswith(b"/"))
    # A DELETE may have been a collection's.
    return Write(is_broad=not is_narrow, is_deep=request.method == "DELETE")


def _with(request: Request, other: bytes | None) -> Write:
    """The target and one object more, which may both be collections."""
    try:
        target = origin_target(other or b"")
    except ValueError:
        return Write(is_broad=True)
    if _is_ambiguous(target.partition(b"?")[0]):
        return Write(is_broad=True)
    location = request.key.namespace.location
    return Write(is_broad=False, others=(Object(location, object_path(target)),), is_deep=True)


def _is_ambiguous(path: bytes) -> bool:
    """Whether a path lies elsewhere for those who resolve dot segments than for those who don't."""
    return has_dot_segment(unquote_to_bytes(path))


def keys_named(request: Request, content: bytes) -> tuple[Object, ...] | None:
    """The objects that the body of a deletion of many names; None where it can't be read."""
    names = _KEY.findall(content)
    if not names or len(names) != len(_NAMED.findall(content)) or _NOT_PLAIN.search(content):
        return None
    location, bucket = request.key.namespace.location, request.target.partition(b"?")[0]
    base = object_path(bucket).rstrip(b"/") + b"/"
    try:
        keys = [html.unescape(name.decode()).encode() for name in names]
    except UnicodeError:
        return None
    if any(has_dot_segment(b"/" + key) for key in keys):
        return None
    return tuple(Object(location, object_path(_quoted(base + key))) for key in keys)


def _quoted(path: bytes) -> bytes:
    return quote_from_bytes(path).encode()


def objects_told(request: Request, answered: Fields) -> tuple[Object, ...]:
    """Objects of the same origin that the answer to a write names, beside its target."""
    location = request.key.namespace.location
    told = []
    for name in (b"location", b"content-location"):
        value = answered.get(name)
        if value is None:
            continue
        try:
            url = urlsplit(
                urljoin(location + request.target.decode("latin-1"), value.decode("latin-1"))
            )
            port = url.port or _DEFAULT_PORTS.get(url.scheme)
        except ValueError:
            continue
        host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
        if f"{url.scheme}://{host}:{port}" == location:
            told.append(Object(location, object_path(url.path.encode("latin-1"))))
    return tuple(told)


def admits_failure(body: bytes) -> bool:
    """Whether an answer of success begins to tell of an error: some stores send 200 first, and do
    the work behind it.
    """
    return b"<Error>" in body
