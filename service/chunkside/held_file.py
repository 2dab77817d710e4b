"""Which file on disk the index holds for a target, for the admin port to hand out."""

from __future__ import annotations

from typing import Final, assert_never

from chunkside.core.decision import Refuse
from chunkside.core.entry import Absent, BodyRef, Partial, Present, Selected
from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey
from chunkside.core.route import Route
from chunkside.core.variants import choose, is_selected_by, varied_names
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import StoreFault
from chunkside.routing import OpenRoute
from chunkside.server.stored_file import HELP, FileRequest, HeldFile
from chunkside.store.readers import DiskReader

_MOST_SHOWN: Final = 20


async def held_file(opened: OpenRoute, request: FileRequest) -> HeldFile | Refuse:
    """The very file, opened and verified; else what is held in its place, in words."""
    edges, key = opened.edges, _key(opened.route, opened.edges, request)
    if isinstance(key, Refuse):
        return key
    entry = choose(edges.look_up(key), request.fields)
    if entry is None or (isinstance(entry, Partial) and _file(entry, request) is None):
        # What lies on disk may not have been taken in yet.
        await opened.gateway.adoption.look(key, request.part)
        entry = choose(edges.look_up(key), request.fields)
    body = None if entry is None else _file(entry, request)
    if body is None:
        return _not_held(_what_is_held(entry, request) + _held_by_others(edges, key))
    try:
        reader = edges.store.reader(body) or await edges.store.open(body)
    except StoreFault as fault:
        return _not_held(f"Its file can't be used ({fault}): a GET brings the body anew.")
    if not isinstance(reader, DiskReader):
        return _not_held("Bodies are in memory, in no files: the sidecar has no cache directory.")
    return HeldFile(reader.file, reader.file_size, body.part)


def _key(route: Route, edges: Edges, request: FileRequest) -> CacheKey | Refuse:
    asked = route.request("GET", request.target, Fields(()), has_body=False)
    if isinstance(asked, Refuse):
        return asked
    if not request.partition:
        return asked.key
    for key in (asked.key, *_other_keys(edges, asked.key)):
        if key.namespace.partition.startswith(request.partition):
            return key
    return _not_held(
        "Nothing is held of it under that partition." + _held_by_others(edges, asked.key)
    )


def _other_keys(edges: Edges, key: CacheKey) -> list[CacheKey]:
    """The same target's, in other partitions, as far as something is held there."""
    found = [
        other
        for other in edges.index.keys_of(key.object)
        if other != key
        and other.target == key.target
        and other.namespace.identity == key.namespace.identity
        and edges.look_up(other) is not None
    ]
    return sorted(found, key=lambda other: other.namespace.partition)


def _file(entry: Selected, request: FileRequest) -> BodyRef | None:
    if not isinstance(entry, Absent) and not is_selected_by(entry.stored, request.fields):
        return None
    match entry:
        case Present(_, body):
            return body
        case Partial():
            return None if request.part is None else entry.body_for(request.part)
        case Absent():
            return None
        case _:
            assert_never(entry)


def _what_is_held(entry: Selected | None, request: FileRequest) -> str:
    if isinstance(entry, Present | Partial) and not is_selected_by(entry.stored, request.fields):
        names = _listed(
            sorted(name.decode("latin-1") for name in varied_names(entry.stored.fields))
        )
        return f"Variants are held, none for what this request has of these fields: {names}."
    match entry:
        case None:
            return "Nothing is held of it."
        case Absent(status):
            return f"What is held is a marker: the origin's {status}. There is no file of it."
        case Partial(_, bodies):
            wanted = "not the whole body" if request.part is None else "not that one"
            ranges = _listed([f"{body.first}-{body.last}" for body in bodies])
            return f"Ranges are held, {wanted}: {ranges}. Name one with `Chunkside-Range`."
        case Present():
            raise AssertionError("a whole body has a file")
        case _:
            assert_never(entry)


def _held_by_others(edges: Edges, key: CacheKey) -> str:
    names = [other.namespace.partition[:8].decode() or "none" for other in _other_keys(edges, key)]
    return f" Under other partitions something is: {_listed(names)}." if names else ""


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _not_held(what: str) -> Refuse:
    return Refuse(404, "not-held", "There is no such file", f"{what} {HELP}")
