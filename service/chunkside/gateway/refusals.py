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
from itertools import count
from typing import Final

from chunkside.arrays.chunk_keys import forms_of, own_documents, own_form
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
_MOST_HELD: Final = 64
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
    refusals. `is_good`: it proves what was refused before. `rests_until`: boot-clock second before
    which it isn't asked for again.
    """

    number: int = 0
    is_good: bool = False
    rests_until: float = float("-inf")


@dataclass(slots=True)
class _Place:
    """The highest directory in which the document may lie, for keys of one form. `unknown`: the
    standing of documents that nobody holds. `held`: that of those which somebody read, and which
    told of no such array when it was looked for. `users`: how many have a turn here, or wait for
    one.
    """

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    unknown: _Standing = field(default_factory=_Standing)
    held: OrderedDict[CacheKey, _Standing] = field(default_factory=OrderedDict)
    users: int = 0


# Keys of one form are chunks of one array, or none is: what a check finds holds for all of them.
_Name = tuple[CacheKey, bytes]


class Refusals:
    """Of one route. `waiting`: asks for a document as a reader would, so that what it brings is
    stored, and compared with what was held of it.
    """

    def __init__(self, edges: Edges, waiting: Waiting) -> None:
        self._edges = edges
        self._waiting = waiting
        self._numbers = count(1)
        # Those with users, and those that had some not long ago.
        self._in_use: dict[_Name, _Place] = {}
        self._places: OrderedDict[_Name, _Place] = OrderedDict()
        # Documents that told of a refused chunk's array.
        self._known: OrderedDict[_Name, _Standing] = OrderedDict()

    async def hid_absence(self, request: Request, within_seconds: float) -> bool:
        """Whether a refusal of `request`, which has just arrived, was that of a missing key. What
        takes longer to tell is not proved.
        """
        arrived = next(self._numbers)
        documents = self._documents(request)
        if not documents:
            return False
        try:
            async with asyncio.timeout(within_seconds), self._turn(request, documents) as place:
                known = self._known_among(documents, request)
                if known is not None:
                    standing = self._known[known[1]]
                    if standing.number > arrived:
                        return standing.is_good
                    if self._edges.now().boot < standing.rests_until:
                        return False
                    documents.sort(key=lambda each: each is not known[0])
                else:
                    documents = [each for each in documents if self._is_open(each, place, arrived)]
                return await self._check(request, place, known, documents)
        except TimeoutError:
            return False

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

    def _known_among(
        self, documents: Sequence[Request], request: Request
    ) -> tuple[Request, _Name] | None:
        """The document that told of an array with such keys, if one did."""
        for document in documents:
            for form in forms_of(_path(request), _path(document)):
                name = document.absence_key, form
                if name in self._known:
                    return document, name
        return None

    @asynccontextmanager
    async def _turn(self, request: Request, documents: Sequence[Request]) -> AsyncIterator[_Place]:
        """One check at a time: whoever waited finds what the one before him found."""
        highest = min(map(_path, documents), key=lambda each: len(each.rpartition(b"/")[0]))
        directory = CacheKey(documents[0].absence_key.namespace, highest.rpartition(b"/")[0])
        name = directory, forms_of(_path(request), highest)[0]
        place = self._in_use.get(name) or self._places.pop(name, None) or _Place()
        self._in_use[name] = place
        place.users += 1
        try:
            async with place.turn:
                yield place
        finally:
            place.users -= 1
            if not place.users:
                self._places[name] = self._in_use.pop(name)
                self._limit()

    def _limit(self) -> None:
        while len(self._known) > _MOST_DOCUMENTS:
            self._known.popitem(last=False)
        while len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)

    def _is_open(self, document: Request, place: _Place, arrived: int) -> bool:
        """Whether a document that told of no such array is to be asked for, since a refusal came.

        Those that nobody holds rest together: there may be some for each directory of chunks.
        """
        standing = place.held.get(document.absence_key)
        if standing is None and self._is_unknown(document):
            standing = place.unknown
        now = self._edges.now().boot
        return standing is None or (standing.number <= arrived and now >= standing.rests_until)

    async def _check(
        self,
        request: Request,
        place: _Place,
        known: tuple[Request, _Name] | None,
        documents: Sequence[Request],
    ) -> bool:
        """Asks for the documents, one after the other."""
        if not documents:
            return False
        now, number = self._edges.now().boot, next(self._numbers)
        told, found = await self._search(request, documents)
        if found is None:
            rests_until = now + _ASK_AGAIN_SECONDS if told is _Told.NOT_OWN else float("-inf")
            in_vain = _Standing(number, is_good=False, rests_until=rests_until)
            if known is None:
                self._note_in_vain(documents, place, in_vain)
            else:
                self._known[known[1]] = in_vain
            return False
        is_good = now - self._edges.shared.denials.last_of(found[0]) >= _DISTRUST_SECONDS
        rests_until = float("-inf") if is_good else now + _ASK_AGAIN_SECONDS
        if known is not None and found != known[1]:
            self._known.pop(known[1], None)
        self._known[found] = _Standing(number, is_good, rests_until)
        self._known.move_to_end(found)
        return is_good

    def _note_in_vain(
        self, documents: Sequence[Request], place: _Place, in_vain: _Standing
    ) -> None:
        for each in documents:
            if self._is_unknown(each):
                place.unknown = in_vain
            else:
                place.held[each.absence_key] = in_vain
                place.held.move_to_end(each.absence_key)
        while len(place.held) > _MOST_HELD:
            place.held.popitem(last=False)

    async def _search(
        self, request: Request, documents: Sequence[Request]
    ) -> tuple[_Told, _Name | None]:
        """The first document that is the chunk's own array's, and what was told last."""
        told = _Told.NOT_OWN
        for document in documents:
            told, form = await self._ask(request, document)
            if told is not _Told.NOT_OWN:
                return told, None if form is None else (document.absence_key, form)
        return told, None

    async def _ask(self, request: Request, document: Request) -> tuple[_Told, bytes | None]:
        """With the form of its array's keys, if it is that of the chunk's own array."""
        held = choose(self._edges.known_of(document), document.fields)
        decision = Fill(Forward.REQUEST, _to_be_validated(document, held), is_anew=True)
        try:
            reply = await self._waiting.answer(document, decision)
        except OriginError:
            return _Told.NOTHING, None
        try:
            if reply.status in _NOT_READ:
                return _Told.NOT_OWN, None
            # What stands in for the origin, or comes from another cache, is older than the refusal.
            is_new = reply.result in ("miss", "revalidated") and not initial_age(reply.fields)
            if reply.status != 200 or not is_new:
                return _Told.NOTHING, None
            body = await _body(reply)
        except BodyTorn:
            return _Told.NOTHING, None
        finally:
            reply.release()
        form = None if body is None else own_form(_path(request), _path(document), body)
        return _Told.NOT_OWN if form is None else _Told.OWN, form


def _path(request: Request) -> bytes:
    return request.target.partition(b"?")[0]


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
