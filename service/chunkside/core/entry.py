"""What the index holds for a key: a body, parts of one, or its absence; never two of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey, KeyClass

BLOCK_BYTES: Final = 512
_EMPTY_TAGS: Final = (b"", b'""', b'W/""')


class Now(NamedTuple):
    """One reading of both clocks, seconds. `boot` never steps back and counts suspends."""

    boot: float
    wall: float


def joined(of_object: int, of_location: int) -> int:
    """A token of two stamps: see StampPair."""
    turned = (of_location << 32 | of_location >> 32) & 0xFFFF_FFFF_FFFF_FFFF
    return of_object ^ turned


@dataclass(frozen=True, slots=True)
class StampPair:
    """Coherence tokens of an object and of its whole location, both as read from the stamp
    table.
    """

    object: int
    location: int

    @property
    def token(self) -> int:
        """Both in one 64-bit word: it differs where either of them does.

        The halves of the location's stamp are swapped, so that its random bits meet the object's
        clock bits and not its random ones.
        """
        return joined(self.object, self.location)

    def closed_until(self) -> int:
        """Boot-time second until which nothing of the object may be stored."""
        return max(self.object >> 32, self.location >> 32)


@dataclass(frozen=True, slots=True)
class Part:
    """A range of a representation. Offsets of bytes, both inclusive."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class BodyRef:
    """Names one file of bytes: where it lies and which file it must be.

    `length`: of the bytes in it. `blocks` counts disk blocks of 512 bytes. `inode` and `nonce` are
    both compared on opening, since a path is reused by later fills and an inode by the file system.
    `part`: which part of the representation it is, None for all of it. `variant`: as in Stored.
    """

    key: CacheKey
    inode: int
    nonce: int
    length: int
    blocks: int
    part: Part | None = None
    variant: bytes = b""

    @property
    def name(self) -> tuple[int, int]:
        """What tells this file from every other."""
        return self.inode, self.nonce

    @property
    def first(self) -> int:
        """Where in the representation its bytes begin."""
        return 0 if self.part is None else self.part.first

    @property
    def last(self) -> int:
        return self.first + self.length - 1

    @property
    def charge(self) -> int:
        return self.blocks * BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Stored:
    """What is remembered of a representation beside its bytes, and survives a restart.

    `fields`: end-to-end, as the origin sent them with a 200, or with a 206 less what speaks of the
    part alone. `length`: of the whole representation. `origin_lifetime`: seconds, None where the
    origin gave none; ceilings and defaults are applied at each look-up. `initial_age`: seconds,
    from `Age`. `requested_at`: when the request was sent. `origin_field`: the request's own
    `Origin`, if any. `variant`: names the values of the request's fields that `Vary` names; b""
    where it names none.
    """

    key: CacheKey
    key_class: KeyClass
    status: int
    fields: Fields
    length: int
    origin_lifetime: float | None
    initial_age: float
    requested_at: Now
    origin_field: bytes | None
    variant: bytes = b""

    @property
    def etag(self) -> bytes | None:
        """None also for an empty tag: it names every version and so none."""
        etag = self.fields.get(b"etag")
        return None if etag in _EMPTY_TAGS else etag

    @property
    def last_modified(self) -> bytes | None:
        return self.fields.get(b"last-modified")

    @property
    def has_validator(self) -> bool:
        return self.etag is not None or self.last_modified is not None


@dataclass(frozen=True, slots=True)
class Present:
    """A whole body on disk. `must_validate`: adopted from a table that can't vouch for it."""

    stored: Stored
    body: BodyRef
    token: int
    must_validate: bool = False

    @property
    def bodies(self) -> tuple[BodyRef, ...]:
        return (self.body,)

    def body_for(self, _part: Part) -> BodyRef | None:
        return self.body


@dataclass(frozen=True, slots=True)
class Partial:
    """Parts of one representation on disk, by their first bytes; none lies within another."""

    stored: Stored
    bodies: tuple[BodyRef, ...]
    token: int
    must_validate: bool = False

    def body_for(self, part: Part) -> BodyRef | None:
        """The file that holds all of `part`; None where there is none."""
        # Since none lies within another, their last bytes are in the order of their first ones.
        at = bisect_right(self.bodies, part.first, key=_first) - 1
        if at < 0:
            return None
        return self.bodies[at] if self.bodies[at].last >= part.last else None

    def with_body(self, body: BodyRef) -> tuple[Partial, tuple[BodyRef, ...]]:
        """With one more, which none holds, in place of those that lie within it; and those."""
        begin = end = bisect_left(self.bodies, body.first, key=_first)
        while end < len(self.bodies) and self.bodies[end].last <= body.last:
            end += 1
        grown = (*self.bodies[:begin], body, *self.bodies[end:])
        return replace(self, bodies=grown), self.bodies[begin:end]

    def without_body(self, body: BodyRef) -> Partial:
        at = bisect_left(self.bodies, body.first, key=_first)
        return replace(self, bodies=self.bodies[:at] + self.bodies[at + 1 :])


def _first(body: BodyRef) -> int:
    return body.first


class Absent(NamedTuple):
    """A remembered absence (a marker). The index keeps it packed; this is the unpacked view.

    `status`: as the origin said. `lifetime`: seconds, already under its ceiling.
    `allows_any_origin`: the 404 bore `Access-Control-Allow-Origin: *`.
    """

    status: int
    requested_at: Now
    lifetime: float
    token: int
    allows_any_origin: bool

    @property
    def told_status(self) -> int:
        """What readers are answered: to them a 403 is an error, even where it was proved to hide an
        absence.
        """
        return 404 if self.status == 403 else self.status


Held = Present | Partial


@dataclass(frozen=True, slots=True)
class Variants:
    """Representations of one resource that requests select by their fields, each by a variant that
    isn't b""; the newest last.
    """

    of: tuple[Held, ...]

    def get(self, variant: bytes) -> Held | None:
        return next((held for held in self.of if held.stored.variant == variant), None)

    def with_held(self, new: Held) -> Variants:
        """With one more, or with a newer state of one, which keeps its place."""
        variant = new.stored.variant
        if self.get(variant) is None:
            return Variants((*self.of, new))
        return Variants(tuple(new if held.stored.variant == variant else held for held in self.of))

    def without(self, variant: bytes) -> Variants:
        return Variants(tuple(held for held in self.of if held.stored.variant != variant))


Selected = Held | Absent
"""What an entry has for one request."""
Entry = Selected | Variants


def helds(entry: Entry | None) -> tuple[Held, ...]:
    """Every representation that an entry has bytes of."""
    match entry:
        case Variants(of):
            return of
        case Present() | Partial():
            return (entry,)
        case _:
            return ()


def of_variant(entry: Entry | None, variant: bytes) -> Held | None:
    """What an entry has of one variant; b"" for what doesn't vary."""
    return next((held for held in helds(entry) if held.stored.variant == variant), None)


def tokens_of(entry: Entry) -> set[int]:
    """The stamps that an entry was stored under."""
    return {entry.token} if isinstance(entry, Absent) else {held.token for held in helds(entry)}


def oldest_request(entry: Entry) -> Now:
    """When the oldest of what an entry tells was asked for."""
    if isinstance(entry, Absent):
        return entry.requested_at
    return min((held.stored.requested_at for held in helds(entry)), key=lambda now: now.boot)
