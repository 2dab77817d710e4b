"""What lies above an object: the names under which something may be said of it and of others."""

from __future__ import annotations

from collections.abc import Iterator

from chunkside.core.key import Object


def directory_of(target: Object) -> Object:
    """The directory that an object lies in, named by its path with a slash at its end."""
    return Object(target.location, target.path[: target.path.rfind(b"/") + 1] or b"/")


def directory_at(target: Object) -> Object:
    """The directory that bears an object's name, which all beneath it lies in."""
    return Object(target.location, target.path.rstrip(b"/") + b"/")


def names_above(target: Object) -> Iterator[Object]:
    """The object itself, and every directory above it up to the root."""
    yield target
    path = target.path
    end = len(path) - 1 if path.endswith(b"/") else len(path)
    while (end := path.rfind(b"/", 0, end)) >= 0:
        yield Object(target.location, path[: end + 1])
