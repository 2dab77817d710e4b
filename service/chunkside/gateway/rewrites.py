"""Arrays that are rewritten at the origin: a metadata document is compared with what was held of it
before anyone is answered with it, so that no reader combines a new shape with old chunks.
"""

from __future__ import annotations

from chunkside.core.ancestry import directory_of
from chunkside.core.entry import Now, Partial, Present, Selected, Stored
from chunkside.core.key import is_array_document
from chunkside.core.ranges import generation_of, is_changed
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import stored_of
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.gateway.growing import SMALL_BODY_BYTES
from chunkside.gateway.origin import read_ahead
from chunkside.gateway.ports import OriginResponse


async def weigh_document(
    edges: Edges,
    request: Request,
    held: Selected | None,
    stored: Stored,
    response: OriginResponse,
) -> OriginResponse:
    """Notes a change if `stored`, the head of a 200, is of another document than `held`.

    Gives the answer to go on with: where only bytes can tell, its body has been read. Raises
    OriginError.
    """
    held = _of_its_variant(held, stored)
    verdict = is_changed(held, stored) if request.key_class == "metadata" else False
    if held is None and is_array_document(request.target):
        # It may have been known, and been dropped unseen: by a purge, or another process's write.
        verdict = not edges.doubts.saw_last(request.key.object, generation_of(stored))
    if verdict is None and isinstance(held, Present):
        read, response = await read_ahead(response, SMALL_BODY_BYTES)
        verdict = read is None or read != await _held_bytes(edges, held)
    # Of parts nothing can tell that the whole is the same.
    if verdict is not False:
        _note_change(edges, request, held)
    if request.key_class == "metadata":
        edges.doubts.see(request.key.object, generation_of(stored))
    return response


def weigh_head(
    edges: Edges, request: Request, held: Selected | None, head: ResponseHead, sent_at: Now
) -> None:
    """Notes a change unless a document that is passed on is surely what was held."""
    weigh_part(edges, request, held, stored_of(request, head, sent_at, edges.policy))


def weigh_part(edges: Edges, request: Request, held: Selected | None, stored: Stored) -> None:
    """Notes a change unless `stored`, the head of a part, is surely of what was held."""
    held = _of_its_variant(held, stored)
    is_known = request.key_class == "metadata" and held is not None
    is_new = (
        held is None
        and is_array_document(request.target)
        and not edges.doubts.saw_last(request.key.object, generation_of(stored))
    )
    if is_new or (is_known and is_changed(held, stored) is not False):
        _note_change(edges, request, held)
    if request.key_class == "metadata":
        edges.doubts.see(request.key.object, generation_of(stored))


def weigh_absence(edges: Edges, request: Request, held: Selected | None) -> None:
    """Notes a change if a document that was held is gone."""
    if request.key_class == "metadata":
        edges.doubts.see(request.key.object, None)
        if is_changed(held, None):
            _note_change(edges, request, held)


def weigh_unkept(edges: Edges, request: Request, held: Selected | None) -> None:
    """Notes a change if a document is there and can't be kept in place of what was held.

    Of an array's own, nobody can ever say that it didn't change.
    """
    is_known = request.key_class == "metadata" and held is not None
    if is_known or is_array_document(request.target):
        _note_change(edges, request, held)


def _note_change(edges: Edges, request: Request, held: Selected | None) -> None:
    document = request.key.object
    edges.note_change(document)
    if held is not None:
        cause = "a change of its array's metadata at the origin"
        edges.shared.fallen.note_beneath(directory_of(document), cause, edges.now())


def _of_its_variant(held: Selected | None, stored: Stored) -> Selected | None:
    """Another variant says nothing of this one."""
    is_another = isinstance(held, Present | Partial) and held.stored.variant != stored.variant
    return None if is_another else held


async def _held_bytes(edges: Edges, held: Present) -> bytes | None:
    """The bytes held of a small document; None where they can't be read."""
    if held.body.length > SMALL_BODY_BYTES:
        return None
    content = bytearray()
    try:
        reader = edges.store.reader(held.body) or await edges.store.open(held.body)
        while len(content) < reader.length:
            content += await reader.read(len(content), reader.length - len(content))
    except StoreFault as fault:
        edges.observer.store_failed(fault.operation, fault.cause)
        return None
    except BodyTorn:
        return None
    return bytes(content)
