"""Whether a refusal hides that its key is absent: a store answers 403 for missing keys to those who
may read and not list, and for all keys to those who may not read.

What tells is the document of the array that the key is a chunk of. If the same credential reads it
by a request that was sent after the refusal had come, it was a reader's refusal. One such question
answers for all refusals that came before it was sent; those that come while it is under way wait
for the next one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import count, islice
from typing import Final

from chunkside.arrays.chunk_keys import is_chunk_of, own_documents
from chunkside.core.buckets import has_key
from chunkside.core.decision import Fill, Forward
from chunkside.core.entry import Absent, Held, Selected
from chunkside.core.freshness import initial_age
from chunkside.core.key import CacheKey, has_dot_segment
from chunkside.core.policy import as_full_get, has_what_is_asked_for
from chunkside.core.request import Request
from chunkside.core.variants import choose, is_selected_by
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import BodyTorn, OriginError
from chunkside.gateway.growing import SMALL_BODY_BYTES
from chunkside.gateway.reply import Reply
from chunkside.gateway.waiting import Waiting

_MOST_DOCUMENTS: Final = 4096
_MOST_PLACES: Final = 1024
# Rights that come back don't come back everywhere at once: what was refused a moment before tells
# nothing of what its array's document is answered a moment later.
_DISTRUST_SECONDS: Final = 60.0
_ASK_AGAIN_SECONDS: Final = 5.0
_NOT_READ: Final = frozenset({401, 403, 404, 410})


class _Told(Enum):
    """What an answer to the question for a document is: that of the chunk's own array; none that
    tells of it; or none at all.
    """

    OWN = auto()
    NOT_OWN = auto()
    NOTHING = auto()


@dataclass(slots=True)
class _Standing:
    """Of a document, by its last check. `number`: when that was sent, among all checks and
    refusals. `is_good`: it proves what was refused before. `refused_at`: boot-clock second of the
    last check that didn't find the document; `asked_at`: of the last one.
    """

    number: int = 0
    is_good: bool = False
    refused_at: float = float("-inf")
    asked_at: float = float("-inf")


@dataclass(slots=True)
class _Place:
    """The highest directory in which the document may lie. `unknown`: the standing of documents
    that nobody has found yet. `users`: how many have a turn here, or wait for one.
    """

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    unknown: _Standing = field(default_factory=_Standing)
    users: int = 0


class Refusals:
    """Of one route. `waiting`: asks for a document as a reader would, so that what it brings is
    stored, and compared with what was held of it.
    """

    def __init__(self, edges: Edges, waiting: Waiting) -> None:
        self._edges = edges
        self._waiting = waiting
        self._numbers = count(1)
        self._places: OrderedDict[CacheKey, _Place] = OrderedDict()
        # Documents that told of a refused chunk's array.
        self._known: OrderedDict[CacheKey, _Standing] = OrderedDict()

    async def hid_absence(self, request: Request) -> bool:
        """Whether a refusal of `request`, which has just arrived, was that of a missing key."""
        arrived = next(self._numbers)
        documents = self._documents(request)
        if not documents:
            return False
        async with self._turn(documents) as place:
            known = next((each for each in documents if each.absence_key in self._known), None)
            standing = place.unknown if known is None else self._known[known.absence_key]
            if standing.number > arrived:
                return standing.is_good
            return await self._check(request, standing, known, documents)

    def _documents(self, request: Request) -> list[Request]:
        """What asks for each that may be the array's own, with the credential of `request`."""
        edges, (path, _, _) = self._edges, request.target.partition(b"?")
        if has_dot_segment(path):
            return []
        question = replace(as_full_get(request), key_class="metadata", control=None)
        space = request.key.namespace
        tail, key_tail = request.target[len(path) :], request.key.target[len(path) :]
        documents = [
            replace(question, target=each + tail, key=CacheKey(space, each + key_tail))
            for each in own_documents(path)
            if each.startswith(edges.root + b"/")
            and (not edges.policy.is_object_store or has_key(each))
        ]
        # What readers asked for before is likely to be it.
        return sorted(documents, key=self._is_unknown)

    def _is_unknown(self, document: Request) -> bool:
        entry = self._edges.known_of(document)
        return entry is None or isinstance(entry, Absent)

    @asynccontextmanager
    async def _turn(self, documents: Sequence[Request]) -> AsyncIterator[_Place]:
        """One check at a time: whoever waited finds what the one before him found."""
        highest = min(documents, key=lambda each: len(each.target.rpartition(b"/")[0]))
        directory = highest.target.rpartition(b"/")[0]
        name = CacheKey(highest.absence_key.namespace, directory)
        place = self._places.setdefault(name, _Place())
        self._places.move_to_end(name)
        place.users += 1
        try:
            async with place.turn:
                yield place
        finally:
            place.users -= 1
            self._limit()

    def _limit(self) -> None:
        while len(self._known) > _MOST_DOCUMENTS:
            self._known.popitem(last=False)
        surplus = len(self._places) - _MOST_PLACES
        if surplus > 0:
            free = (name for name, place in self._places.items() if not place.users)
            for name in list(islice(free, surplus)):
                del self._places[name]

    async def _check(
        self,
        request: Request,
        standing: _Standing,
        known: Request | None,
        documents: Sequence[Request],
    ) -> bool:
        """Asks for the document that is known, then for the others, one after the other."""
        now = self._edges.now().boot
        is_trusted = now - standing.refused_at >= _DISTRUST_SECONDS
        if not is_trusted and now - standing.asked_at < _ASK_AGAIN_SECONDS:
            return False
        number = next(self._numbers)
        others = [each for each in documents if each is not known]
        told, found = await self._search(request, others if known is None else [known, *others])
        standing.asked_at = self._edges.now().boot
        if found is None:
            standing.number, standing.is_good = number, False
            if told is _Told.NOT_OWN:
                standing.refused_at = standing.asked_at
            return False
        if known is not None and found is not known:
            self._known.pop(known.absence_key, None)
        self._known[found.absence_key] = replace(standing, number=number, is_good=is_trusted)
        self._known.move_to_end(found.absence_key)
        return is_trusted

    async def _search(
        self, request: Request, documents: Sequence[Request]
    ) -> tuple[_Told, Request | None]:
        """The first document that is the chunk's own array's, and what was told last."""
        told = _Told.NOT_OWN
        for document in documents:
            told = await self._ask(request, document)
            if told is not _Told.NOT_OWN:
                return told, document if told is _Told.OWN else None
        return told, None

    async def _ask(self, request: Request, document: Request) -> _Told:
        held = choose(self._edges.known_of(document), document.fields)
        decision = Fill(Forward.REQUEST, _to_be_validated(document, held), is_anew=True)
        try:
            reply = await self._waiting.answer(document, decision)
        except OriginError:
            return _Told.NOTHING
        try:
            if reply.status in _NOT_READ:
                return _Told.NOT_OWN
            # What stands in for the origin, or comes from another cache, is older than the refusal.
            is_new = reply.result in ("miss", "revalidated") and not initial_age(reply.fields)
            if reply.status != 200 or not is_new:
                return _Told.NOTHING
            body = await _body(reply)
        except BodyTorn:
            return _Told.NOTHING
        finally:
            reply.release()
        path, at = request.target.partition(b"?")[0], document.target.partition(b"?")[0]
        is_own = body is not None and is_chunk_of(path, at, body)
        return _Told.OWN if is_own else _Told.NOT_OWN


def _to_be_validated(document: Request, held: Selected | None) -> Held | None:
    """What is held of a document, if the origin can say that it still stands."""
    if not isinstance(held, Held) or not held.stored.has_validator:
        return None
    is_his = is_selected_by(held.stored, document.fields)
    return held if is_his and has_what_is_asked_for(document, held) else None


async def _body(reply: Reply) -> bytes | None:
    """None of what is too long for an array's document. Raises BodyTorn."""
    if isinstance(reply.body, bytes):
        return reply.body
    if reply.length is None or reply.length > SMALL_BODY_BYTES:
        return None
    return b"".join([bytes(piece) async for piece in reply.body])
