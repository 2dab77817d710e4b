"""Many files of bodies, made quickly: laid out once, then only what differs is put in its place."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import xxhash

from chunkside.core.key import CacheKey, Namespace
from chunkside.store import arrow_file
from chunkside.store.directory import BodyDirectory
from chunkside.store.moulds import Mark
from tests.store.samples import STAMPS, a_stored

BODY = b"x" * 500
# What a prefix ends with: nonce, where the body begins, its length.
_PREFIX_END = struct.Struct("<QQQ")


def fill_directory(root: Path, count: int, location: str = "http://h:80") -> Iterator[Path]:
    """So many files as a sidecar leaves them in its cache directory `root`; gives their paths.

    Their bodies are of an unknown stamp table, and have a validator.
    """
    directory = BodyDirectory(str(root))
    space = Namespace(location, "", b"")
    model = a_stored(CacheKey(space, _target(0)), length=len(BODY))
    mark = Mark(STAMPS, b"t" * 16, 1)
    layout = arrow_file.layout(model, None, mark, len(BODY))
    checksum = xxhash.xxh3_64_intdigest(BODY)
    start = layout.prefix.index(_target(0))
    made = set()
    for number in range(count):
        target = _target(number)
        prefix = bytearray(layout.prefix)
        prefix[start : start + len(target)] = target
        end = len(prefix) - _PREFIX_END.size
        _, body_at, length = _PREFIX_END.unpack_from(prefix, end)
        _PREFIX_END.pack_into(prefix, end, number + 1, body_at, length)
        path = directory.path_of(CacheKey(space, target), None)
        shard = os.path.dirname(path)
        if shard not in made:
            os.makedirs(shard, mode=0o700, exist_ok=True)
            made.add(shard)
        content = bytes(prefix) + BODY + replace(layout, prefix=bytes(prefix)).suffix(checksum)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, content)
        os.close(descriptor)
        yield Path(path)


def _target(number: int) -> bytes:
    return b"/many/c/%08d" % number
