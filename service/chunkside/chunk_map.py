"""Which chunks of an array are held, and which are known to be absent, for `/map`.

The metadata document is read as a client's GET reads it: from store where it is fresh, else by a
fill of its key. Chunks are looked up in the index alone. That asks no origin and no disk, and is no
use of what is held; only what has fallen is dropped, as by any look.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from chunkside.arrays.document import (
    ARRAY_DOCUMENTS,
    MAX_DOCUMENT_BYTES,
    Array,
    NotAnArray,
    parse_array,
)
from chunkside.arrays.plane import Plane, plane_of
from chunkside.core.decision import Refuse
from chunkside.core.entry import Absent, Entry, Now, Partial
from chunkside.core.freshness import absence_under, age, remaining
from chunkside.core.key import CacheKey, classify
from chunkside.core.request import Request
from chunkside.core.variants import choose, is_selected_by
from chunkside.gateway.errors import BodyTorn
from chunkside.gateway.reply import Reply
from chunkside.routing import OpenRoute
from chunkside.server.map_page.chunk_map import Cell, ChunkMap, State
from chunkside.server.map_page.request import MapRequest

_BATCH: Final = 512
_ABSENT: Final = frozenset({404, 410})


async def map_of(opened: OpenRoute, asked: MapRequest) -> ChunkMap | Refuse:
    found = await _array(opened, asked)
    if isinstance(found, Refuse):
        return found
    document, array, request = found
    try:
        plane = plane_of(array.grid, asked.selection)
    except ValueError as error:
        return Refuse(400, "bad-slice", "Not a slice of this array", str(error))
    rows = await _Looker(opened, request).rows(plane)
    return ChunkMap(asked.target, document, array, plane, rows, opened.edges.is_scanning)


# The array.


async def _array(opened: OpenRoute, asked: MapRequest) -> tuple[str, Array, Request] | Refuse:
    statuses = []
    for name in ARRAY_DOCUMENTS:
        target = asked.target + b"/" + name.encode()
        request = opened.route.request("GET", target, asked.fields, has_body=False)
        if isinstance(request, Refuse):
            return request
        status, body = await _read(opened, request)
        statuses.append(status)
        if status >= 500:
            break
        if status != 200:
            continue
        try:
            return name, parse_array(name, body), request
        except NotAnArray as error:
            return _no_array(f"{name}: {error}")
    if all(status in _ABSENT for status in statuses):
        return _no_array(f"None of {', '.join(ARRAY_DOCUMENTS)} is there.")
    told = ", ".join(f"{n}: {s}" for n, s in zip(ARRAY_DOCUMENTS, statuses, strict=False))
    return Refuse(
        502,
        "no-document",
        "The array's metadata document can't be read",
        f"A GET through the sidecar was answered {told}. Where a credential is needed, send it.",
    )


def _no_array(detail: str) -> Refuse:
    return Refuse(404, "no-array", "No array is there", detail)


async def _read(opened: OpenRoute, request: Request) -> tuple[int, bytes]:
    """Status and body of what a client would be answered; 502 where that can't be read whole."""
    reply = await opened.gateway.answer(request)
    try:
        return reply.status, await _body(reply)
    except BodyTorn:
        return 502, b""
    finally:
        reply.release()


async def _body(reply: Reply) -> bytes:
    if isinstance(reply.body, bytes):
        return reply.body
    body = bytearray()
    async for piece in reply.body:
        body += piece
        if len(body) > MAX_DOCUMENT_BYTES:
            break
    return bytes(body)


# Its chunks.


class _Looker:
    """Looks up the chunks of one array as its reader's GETs would. `document`: the request of such
    a reader for its metadata document.
    """

    def __init__(self, opened: OpenRoute, document: Request) -> None:
        self._edges = opened.edges
        self._names = opened.route.metadata_names
        self._asked = document.fields
        self._space = document.key.namespace
        self._own_space = document.own_space
        self._directory = document.key.target.rpartition(b"/")[0] + b"/"
        self._looked = 0

    async def rows(self, plane: Plane) -> list[list[Cell]]:
        """A cell for each bin; the loop is let go of every few hundred chunks."""
        height, width = plane.shape
        return [[await self._cell(plane, at, to) for to in range(width)] for at in range(height)]

    async def _cell(self, plane: Plane, row: int, column: int) -> Cell:
        cell: Cell = Counter()
        for targets in plane.batches(row, column, self._directory):
            self._count(targets, cell)
            self._looked += len(targets)
            if self._looked > _BATCH:
                self._looked = 0
                await asyncio.sleep(0)
        return cell

    def _count(self, targets: list[bytes], cell: Cell) -> None:
        index, own_space = self._edges.index, self._own_space
        # Most chunks of a large array are unknown: this is all they cost.
        ours = index.targets_in(self._space)
        own = () if own_space is None else index.targets_in(own_space)
        known = [target for target in targets if target in ours or target in own]
        for target in known:
            cell[self._state(target)] += 1
        cell["unknown"] += len(targets) - len(known)

    def _state(self, target: bytes) -> State:
        entry = self._edges.look_up(CacheKey(self._space, target))
        if entry is None and self._own_space is not None:
            entry = self._edges.look_up(CacheKey(self._own_space, target))
        return self._state_of(entry, target, self._edges.now())

    def _state_of(self, entry: Entry | None, target: bytes, now: Now) -> State:
        selected, policy = choose(entry, self._asked), self._edges.policy
        if selected is None:
            return "unknown"
        if isinstance(selected, Absent):
            absent = absence_under(selected, classify(target, self._names), policy)
            if absent is None:
                return "unknown"
            return "absent" if absent.lifetime > age(absent.requested_at, now) else "expired"
        stored = selected.stored
        if stored.variant and not is_selected_by(stored, self._asked):
            return "unknown"
        if selected.must_validate or remaining(stored, now, policy) <= 0:
            return "expired"
        return "part" if isinstance(selected, Partial) else "held"
