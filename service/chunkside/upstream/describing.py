"""What a file says of itself in HTTP's words.

Decides, and does nothing. Validators above all: a file that was changed a moment ago may be changed
again within the same tick of its clock, and would look as before. So it has none until it has been
left alone for a while, and what is kept of it is brought anew once it is stale.
"""

from __future__ import annotations

import os
from email.utils import formatdate
from typing import Final

from chunkside.core.fields import Fields

# Longer than any file system's tick, and than most clocks are apart.
SETTLED_AFTER_SECONDS: Final = 60.0

_JSON: Final = b"application/json"
_BYTES: Final = b"application/octet-stream"
_TYPES_BY_NAME: Final = dict.fromkeys(
    (b".zarray", b".zgroup", b".zattrs", b".zmetadata", b"info"), _JSON
)
_TYPES: Final = {
    b"json": _JSON,
    b"geojson": b"application/geo+json",
    b"yaml": b"application/yaml",
    b"yml": b"application/yaml",
    b"html": b"text/html",
    b"css": b"text/css",
    b"js": b"text/javascript",
    b"mjs": b"text/javascript",
    b"wasm": b"application/wasm",
    b"txt": b"text/plain",
    b"csv": b"text/csv",
    b"svg": b"image/svg+xml",
    b"png": b"image/png",
    b"jpg": b"image/jpeg",
    b"jpeg": b"image/jpeg",
    b"webp": b"image/webp",
    b"tif": b"image/tiff",
    b"tiff": b"image/tiff",
    b"nc": b"application/netcdf",
    b"parquet": b"application/vnd.apache.parquet",
    b"arrow": b"application/vnd.apache.arrow.file",
    b"feather": b"application/vnd.apache.arrow.file",
    b"arrows": b"application/vnd.apache.arrow.stream",
}


def fields_of(found: os.stat_result, name: bytes, wall: float) -> Fields:
    """`wall`: the time before `found` was looked up."""
    lines = [*dated(wall), (b"Content-Type", content_type(name))]
    if is_settled(found, wall):
        modified = formatdate(max(0, found.st_mtime_ns // 10**9), usegmt=True)
        lines += [(b"Last-Modified", modified.encode()), (b"ETag", entity_tag(found))]
    return Fields(lines)


def dated(wall: float) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"Date", formatdate(wall, usegmt=True).encode()),)


def is_settled(found: os.stat_result, wall: float) -> bool:
    """Whether a change from now on is sure to show. Of what was changed in the future none is."""
    changed = max(found.st_mtime_ns, found.st_ctime_ns) / 10**9
    return wall - changed >= SETTLED_AFTER_SECONDS


def entity_tag(found: os.stat_result) -> bytes:
    """Of all that tells two states of a file apart, less the device: a volume that is mounted anew
    has another number.
    """
    parts = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return b'"%b"' % "-".join(f"{part & 2**64 - 1:x}" for part in parts).encode()


def content_type(name: bytes) -> bytes:
    known = _TYPES_BY_NAME.get(name)
    return known or _TYPES.get(name.rpartition(b".")[2].lower(), _BYTES)


def is_unchanged(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether an open file has the bytes that it had. Taking its name away, as one that takes its
    place does, or giving it another beside, changes none.
    """
    is_written = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
    is_linked_otherwise = before.st_nlink != after.st_nlink
    return not is_written and (before.st_ctime_ns == after.st_ctime_ns or is_linked_otherwise)
