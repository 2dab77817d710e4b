"""Which chunks of an array are held, and which are known to be absent, for `/map`.

It looks, and changes nothing: chunks are looked up in the index alone, which asks no origin and no
disk and is no use of them; only what has fallen is dropped, as by any look. The metadata document
is read as it is held, however old. One that isn't held is asked of the origin, and not remembered:
a first sight of it would throw doubt on the very chunks that are to be shown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final

from chunkside.arrays.document import ARRAY_DOCUMENTS, Array, NotAnArray, parse_array
from chunkside.arrays.plane import Plane, plane_of
from chunkside.core.decision import Refuse
from chunkside.core.entry import Absent, Entry, Now, Partial, Present
from chunkside.core.freshness import absence_under, age, remaining
from chunkside.core.key import CacheKey, classify
from chunkside.core.request import Request
from chunkside.core.variants import choose, is_selected_by
from chunkside.gateway.errors import BodyTorn, OriginError, StoreFault
from chunkside.gateway.origin import read_ahead
from chunkside.gateway.ports import OriginRequest
from chunkside.routing import OpenRoute
from chunkside.server.map_page.chunk_map import Cell, ChunkMap, Document, State
from chunkside.server.map_page.request import MapRequest

_BATCH: Final = 512
# It is parsed in the process that answers readers, at once: of what a hostile origin may write each
# byte comes to some twenty in memory.
MOST_DOCUMENT_BYTES: Final = 2 << 20
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


async def _array(opened: OpenRoute, asked: MapRequest) -> tuple[Document, Array, Request] | Refuse:
    requests = {}
    for name in ARRAY_DOCUMENTS:
        target = asked.target + b"/" + name.encode()
        request = opened.route.request("GET", target, asked.fields, has_body=False)
        if isinstance(request, Refuse):
            return request
        requests[name] = request
    statuses = {}
    for is_held, look in ((True, _held_document), (False, _asked_document)):
        for name, request in requests.items():
            status, body = await look(opened, request)
            statuses[name] = status
            if status >= 500:
                return _no_document(statuses)
            if status != 200:
                continue
            if body is None:
                return _no_array(f"{name} is longer than {MOST_DOCUMENT_BYTES} bytes.")
            try:
                return Document(name, is_held), parse_array(name, body), request
            except NotAnArray as error:
                return _no_array(f"{name}: {error}")
    if all(status in _ABSENT for status in statuses.values()):
        detail = f"None of {', '.join(ARRAY_DOCUMENTS)} is there. Name an array, such as /a.zarr."
        return _no_array(detail)
    return _no_document(statuses)


def _no_array(detail: str) -> Refuse:
    return Refuse(404, "no-array", "No array is there", detail)


def _no_document(statuses: Mapping[str, int]) -> Refuse:
    told = ", ".join(f"{name}: {status}" for name, status in statuses.items())
    return Refuse(
        502,
        "no-document",
        "The array's metadata document can't be read",
        f"The origin was asked for it: {told}. Where a credential is needed, send it.",
    )


async def _held_document(opened: OpenRoute, request: Request) -> tuple[int, bytes | None]:
    """200 and the bytes that are held, None for too many; 404 where none are that can be used."""
    edges = opened.edges
    if edges.known_of(request) is None:
        await opened.gateway.adoption.look(request.key, None)
    held = choose(edges.known_of(request), request.fields)
    if not isinstance(held, Present) or b"content-encoding" in held.stored.fields:
        return 404, b""
    if held.body.length > MOST_DOCUMENT_BYTES:
        return 200, None
    content = bytearray()
    try:
        reader = edges.store.reader(held.body) or await edges.store.open(held.body)
        while len(content) < reader.length:
            content += await reader.read(len(content), reader.length - len(content))
    except (StoreFault, BodyTorn):
        # Whoever reads it next finds that out, and has it mended.
        return 404, b""
    return 200, bytes(content)


async def _asked_document(opened: OpenRoute, request: Request) -> tuple[int, bytes | None]:
    """Status and body of the origin's answer, None for one that is too long; of a faulty answer the
    status that a client is told.
    """
    edges = opened.edges
    fields = request.fields.plus((b"Accept-Encoding", b"identity"))
    asked = OriginRequest(
        "GET", request.target, fields, request.key_class, is_signed=request.is_signed
    )
    edges.visits.enter()
    try:
        response = await edges.upstream.send(asked)
        try:
            body, response = await read_ahead(response, MOST_DOCUMENT_BYTES)
        finally:
            response.close()
    except OriginError as error:
        return error.status, b""
    finally:
        edges.visits.leave()
    return response.head.status, body


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
