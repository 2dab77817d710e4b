"""What lies at a path and beneath it, and a walk over what the index holds of that."""

from __future__ import annotations

from collections.abc import Iterator

from chunkside.core.index import Index
from chunkside.core.key import CacheKey, Object, object_path


def is_beneath(path: bytes, root: bytes) -> bool:
    """Whether `path` is `root` or lies beneath it: in `/a/b` is `/a/b/c`, not `/a/bc`."""
    return path == root or path.startswith(root.rstrip(b"/") + b"/")


def walk(index: Index, root: Object, places: range) -> Iterator[tuple[int, CacheKey]]:
    """What is held at and beneath `root` at the index's `places`, each with its place.

    In no order that means anything. The index may change between two walks and during one: what
    lives from the first place to the last is met exactly once. What is stored meanwhile is met or
    missed, and may be met where its key has been met before, as an older entry.
    """
    for place in range(places.start, min(places.stop, index.place_count)):
        key = index.key_at(place)
        if key is None or key.namespace.location != root.location:
            continue
        if is_beneath(object_path(key.target), root.path):
            yield place, key
