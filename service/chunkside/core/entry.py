"""What the index holds for a key: Present or Absent, never both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey, KeyClass

BLOCK_BYTES: Final = 512
_EMPTY_TAGS: Final = (b"", b'""', b'W/""')


@dataclass(frozen=True, slots=True)
class Now:
    """One reading of both clocks, seconds. `boot` never steps back and counts suspends."""

    boot: float
    wall: float


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
        turned = (self.location << 32 | self.location >> 32) & 0xFFFF_FFFF_FFFF_FFFF
        return self.object ^ turned

    def closed_until(self) -> int:
        """Boot-time second until which nothing of the object may be stored."""
        return max(self.object >> 32, self.location >> 32)


@dataclass(frozen=True, slots=True)
class BodyRef:
    """Names one stored body: where it lies and which file it must be.

    `blocks` counts disk blocks of 512 bytes. `inode` and `nonce` are both compared on opening,
    since a path is reused by later fills and an inode by the file system.
    """

    key: CacheKey
    inode: int
    nonce: int
    length: int
    blocks: int

    @property
    def charge(self) -> int:
        return self.blocks * BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Stored:
    """What is remembered of a 200 beside its bytes, and survives a restart.

    `fields`: end-to-end, as the origin sent them. `origin_lifetime`: seconds, None where the origin
    gave none; ceilings and defaults are applied at each look-up. `initial_age`: seconds, from
    `Age`.
    `requested_at`: when the request was sent. `origin_field`: the request's own `Origin`, if any.
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
    """A body on disk. `must_validate`: adopted from a table that can't vouch for it."""

    stored: Stored
    body: BodyRef
    token: int
    must_validate: bool = False


@dataclass(frozen=True, slots=True)
class Absent:
    """A remembered absence (a marker). The index keeps it packed; this is the unpacked view.

    `lifetime`: seconds, already under its ceiling. `allows_any_origin`: the 404 bore
    `Access-Control-Allow-Origin: *`.
    """

    status: int
    requested_at: Now
    lifetime: float
    token: int
    allows_any_origin: bool


Entry = Present | Absent
