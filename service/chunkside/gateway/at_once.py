"""What can be answered at once: a marker, or bytes of a file that is open and warm.

Looks, and changes nothing but recency: whatever has to fall, be asked for or be waited for is left
to the gateway. What it finds has been judged by `decide`, with a sample in the entry's place: a
sitting says which kinds of entries answer requests of one header block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from chunkside.core.decision import Serve, ServeAbsence
from chunkside.core.entry import (
    Absent,
    BodyRef,
    Entry,
    Held,
    Now,
    Part,
    Present,
    Stored,
    oldest_request,
    tokens_of,
)
from chunkside.core.fields import Fields
from chunkside.core.freshness import Said, absence_under, age, remaining
from chunkside.core.key import KeyClass, Namespace, Object
from chunkside.core.policy import decide
from chunkside.core.ranges import part_asked
from chunkside.core.request import Request
from chunkside.core.variants import choose, is_selected_by
from chunkside.gateway.edges import Edges
from chunkside.gateway.ports import Buffer, Watched
from chunkside.gateway.reply import SLICE_BYTES
from chunkside.gateway.sampling import Sampler

MOST_BYTES: Final = SLICE_BYTES
"""More is read piece by piece, at the client's pace."""
# Of these an answer depends on what is held, of those below on how old it is.
_DEPENDS: Final = frozenset(
    {
        *(b"origin", b"range", b"if-range", b"if-match", b"if-none-match"),
        *(b"if-modified-since", b"if-unmodified-since"),
    }
)
_DEMANDS: Final = frozenset({b"cache-control", b"pragma"})


@dataclass(frozen=True, slots=True)
class Sitting:
    """What header blocks that are alike come to on one route. `space`: where their keys lie, and
    `own_space` those of their absences, if apart.
    """

    space: Namespace
    own_space: Namespace | None
    asked: Fields
    absences: bool
    absences_of_parts: bool
    bodies: bool


class Bytes(NamedTuple):
    """Some bytes of what is held. `part`: which ones, None for all."""

    stored: Stored
    part: Part | None
    file: BodyRef
    content: Buffer
    ttl: float
    elapsed: float
    place: int


class Absence(NamedTuple):
    """A marker that answers, and what it says. Like Bytes made by every hit, so of what is made
    quickest.
    """

    absent: Absent
    ttl: float
    elapsed: float
    place: int
    said: Said


class Kept:
    """Where something was found, and what was there. Thousands are held, so it is one object."""

    __slots__ = ("place", "watched", "what")

    def __init__(self, place: int, what: object, watched: Watched) -> None:
        self.place = place
        self.what = what
        self.watched = watched


class AtOnce:
    """Of one route. `sampler`: says which hits are left to the gateway, to be audited; None where
    none are.
    """

    def __init__(self, edges: Edges, sampler: Sampler | None = None) -> None:
        self.sampler = sampler
        self._edges = edges
        self._at_places = edges.index.at_places
        self._absent_statuses = edges.policy.absent_statuses
        self._of_absence = edges.policy.of_absence
        self._ceilings: dict[KeyClass, float] = {
            key_class: self._ceiling(key_class) for key_class in ("chunk", "metadata")
        }

    def sit(self, request: Request) -> Sitting | None:
        """What a request without a range, and those like it, come to; None where that depends on
        more than the entry's kind and freshness.
        """
        edges, names = self._edges, request.fields.names
        if not _DEPENDS.isdisjoint(names) or edges.only_observes:
            return None
        if edges.policy.obeys_clients and not _DEMANDS.isdisjoint(names):
            return None
        now = edges.now()
        absent = Absent(404, now, math.inf, 0, allows_any_origin=False)
        whole = Present(_stored(request, now), BodyRef(request.key, 0, 0, 1, 8), 0)
        policy = replace(edges.policy, absent_statuses=frozenset({404}), ttl=math.inf)
        ranged = replace(request, fields=request.fields.plus((b"Range", b"bytes=0-0")))
        return Sitting(
            space=request.key.namespace,
            own_space=request.own_space,
            asked=request.fields,
            absences=isinstance(decide(request, absent, now, policy), ServeAbsence),
            absences_of_parts=isinstance(decide(ranged, absent, now, policy), ServeAbsence),
            bodies=isinstance(decide(request, whole, now, policy), Serve),
        )

    def find(
        self, sitting: Sitting, target: bytes, key_class: KeyClass, range_value: bytes, now: Now
    ) -> Absence | Bytes | None:
        """The answer to a GET of a target that is its object's own path, and to a range of it where
        `range_value` isn't empty; None where the gateway has to see to it.
        """
        index = self._edges.index
        place = index.place_of(sitting.space, target)
        if place is None and sitting.own_space is not None:
            place = index.place_of(sitting.own_space, target)
        if place is None:
            return None
        entry = index.entry_at(place)
        found: Absence | Bytes | None = None
        if isinstance(entry, Absent):
            if sitting.absences_of_parts if range_value else sitting.absences:
                found = self._absence(entry, key_class, now, place)
        elif sitting.bodies:
            held = choose(entry, sitting.asked)
            assert not isinstance(held, Absent)
            found = None if held is None else self._bytes(sitting, held, range_value, now, place)
        if found is None or not self._holds(sitting.space.location, target, entry):
            return None
        if self.sampler is not None and not self.sampler.passes():
            return None
        if isinstance(found, Bytes):
            index.touch_body(found.file)
        else:
            index.touch_at(place)
        return found

    def _holds(self, location: str, path: bytes, entry: Entry) -> bool:
        """Whether an entry holds under the current stamps and nothing was said against it."""
        stamps, doubts = self._edges.stamps, self._edges.doubts
        token = stamps.token(location, path)
        if isinstance(entry, Absent):
            is_current, asked_at = entry.token == token, entry.requested_at.boot
        else:
            is_current, asked_at = tokens_of(entry) == {token}, oldest_request(entry).boot
        if not is_current:
            return False
        return asked_at > stamps.newest_doubt() or not doubts.has_doubted(
            Object(location, path), asked_at
        )

    def keep(self, found: Absence | Bytes, location: str, path: bytes) -> Kept | None:
        """What tells whether it would be found again; None where it would not be by now, since
        another process may write at any time.
        """
        index, place = self._edges.index, found.place
        watched = self._edges.stamps.watch(location, path)
        # What is watched is what it is judged by.
        if not self._holds(location, path, index.entry_at(place)):
            return None
        return Kept(place, index.at_places[place], watched)

    def copied(self, found: Absence | Bytes) -> Absence | Bytes | None:
        """What was found, with its bytes in memory; None where that would wait by now.

        What is found may be a mapping, and whoever touches one of a file that was truncated since
        is killed.
        """
        if isinstance(found, Absence):
            return found
        reader = self._edges.store.reader(found.file)
        first = 0 if found.part is None else found.part.first
        size = len(found.content)
        content = None if reader is None else reader.copy_now(first - found.file.first, size)
        return None if content is None else found._replace(content=content)

    def holds(self, kept: Kept) -> bool:
        """Whether what was found would be found again, if it is still fresh and its file there."""
        stamps = self._edges.stamps
        return self._at_places[kept.place] is kept.what and stamps.is_unchanged(kept.watched)

    def again(
        self, found: Absence | Bytes, key_class: KeyClass, now: Now
    ) -> Absence | Bytes | None:
        """What was found and holds, as it is by now; None where it is fresh no longer."""
        index = self._edges.index
        if isinstance(found, Absence):
            # A marker may have been renewed in its place.
            entry = index.entry_at(found.place)
            assert isinstance(entry, Absent)
            index.touch_at(found.place)
            return self._absence(entry, key_class, now, found.place)
        ttl = remaining(found.stored, now, self._edges.policy)
        # Whether the file stays open is for the store to say: descriptors are few.
        if ttl <= 0 or self._edges.store.reader(found.file) is None:
            return None
        index.touch_body(found.file)
        elapsed = age(found.stored.requested_at, now, found.stored.initial_age)
        return found._replace(ttl=ttl, elapsed=elapsed)

    def _absence(self, absent: Absent, key_class: KeyClass, now: Now, place: int) -> Absence | None:
        elapsed, ceiling = age(absent.requested_at, now), self._ceilings[key_class]
        ttl = (min(ceiling, absent.lifetime)) - elapsed
        if ttl <= 0 or absent.status not in self._absent_statuses:
            return None
        return Absence(absent, ttl, elapsed, place, self._of_absence)

    def _bytes(
        self, sitting: Sitting, held: Held, range_value: bytes, now: Now, place: int
    ) -> Bytes | None:
        stored = held.stored
        if held.must_validate or stored.status != 200 or not is_selected_by(stored, sitting.asked):
            return None
        ttl = remaining(stored, now, self._edges.policy)
        part = part_asked(range_value, stored.length) if range_value else None
        length = part.length if part is not None else stored.length
        if ttl <= 0 or (range_value and part is None) or length > MOST_BYTES:
            return None
        file = held.body_for(part or Part(0, length - 1))
        reader = None if file is None else self._edges.store.reader(file)
        if file is None or reader is None:
            return None
        first = 0 if part is None else part.first
        content = reader.read_now(first - file.first, length)
        if content is None:
            return None
        elapsed = age(stored.requested_at, now, stored.initial_age)
        return Bytes(stored, part, file, content, ttl, elapsed, place)

    def _ceiling(self, key_class: KeyClass) -> float:
        """The longest that a marker of a class lives here; 0 for not at all."""
        policy = replace(self._edges.policy, absent_statuses=frozenset({404}))
        endless = Absent(404, Now(0.0, 0.0), math.inf, 0, allows_any_origin=False)
        known = absence_under(endless, key_class, policy)
        return 0.0 if known is None else known.lifetime


def _stored(request: Request, now: Now) -> Stored:
    """The head of a body of one byte that anybody may have."""
    return Stored(request.key, "chunk", 200, Fields(), 1, None, 0.0, now, None)
