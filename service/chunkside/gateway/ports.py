"""The ports: what the gateway needs of the world. Each has one contract suite for all that fit
it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from chunkside.core.entry import BodyRef, Held, Now, Part, Partial, Present, StampPair, Stored
from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey, KeyClass, Object
from chunkside.core.response import ResponseHead

Buffer = bytes | memoryview


class Clock(Protocol):
    def now(self) -> Now: ...


class BodyReader(Protocol):
    """Random access to one body's bytes."""

    @property
    def length(self) -> int: ...

    async def read(self, start: int, limit: int) -> Buffer:
        """At least one and at most `limit` bytes from offset `start`; `start` lies before the end.

        The buffer is valid for as long as it is referenced. Raises BodyTorn.
        """
        ...

    def read_now(self, start: int, size: int) -> Buffer | None:
        """Exactly these bytes where that needs no waiting (1 MiB at most, and in memory), else
        None.

        More than 256 KiB may be a mapping, which nobody but a transport may touch.
        """
        ...

    def copy_now(self, start: int, size: int) -> Buffer | None:
        """The same, never a mapping."""
        ...

    async def checksum(self, start: int, size: int) -> int:
        """xxh3_64 of these bytes, read off the loop. Raises BodyTorn."""
        ...


class BodyWriter(Protocol):
    """One body on its way to the store. Used by one task; `read` may be called by many."""

    async def append(self, chunk: bytes) -> None:
        """Adds bytes at the end; they can be read back once this returns. Raises StoreFault."""
        ...

    async def read(self, start: int, limit: int) -> Buffer:
        """Bytes that were appended before; may be fewer than `limit`. Raises BodyTorn."""
        ...

    async def commit(self, length: int) -> BodyRef:
        """Makes the whole body the key's file, under its final name. Raises StoreFault.

        `length` must be the number of bytes appended. The caller then checks its lease once more
        and hands the reference to the index, or to `BodyStore.remove`. If it is cancelled, the file
        may lie there all the same, known to nobody until the next look at its path.
        """
        ...

    async def abandon(self) -> None:
        """Leaves nothing behind. Never raises; harmless after `commit` or a fault."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A body or a range found on disk that the index doesn't know.

    `table_id` and `stamps` are those it was stored under. Under another table's id the boot-clock
    time in `stored` means nothing.
    """

    stored: Stored
    body: BodyRef
    table_id: bytes
    stamps: StampPair


def as_held(stored: Stored, body: BodyRef, token: int, *, must_validate: bool = False) -> Held:
    """What a file by itself makes of its key's entry."""
    if body.part is None:
        return Present(stored, body, token, must_validate)
    return Partial(stored, (body,), token, must_validate)


class BodyStore(Protocol):
    async def begin(
        self, stored: Stored, stamps: StampPair, length: int | None, part: Part | None = None
    ) -> BodyWriter:
        """A writer for a body of `length` bytes, or of unknown length. Raises StoreFault.

        With `part`, for that range of the representation, whose length is `stored.length`; else
        that is not looked at: the file says what `commit` is given. `stamps` are those of the
        lease.
        """
        ...

    def reader(self, body: BodyRef) -> BodyReader | None:
        """An open reader where there is one already; never touches the disk."""
        ...

    async def open(self, body: BodyRef) -> BodyReader:
        """Opens and verifies the file. Raises StoreFault where it is gone, another or damaged."""
        ...

    async def checksum(self, body: BodyRef, start: int, size: int) -> int:
        """xxh3_64 of `size` bytes from offset `start` of a file, read off the loop; no use of it.
        Raises StoreFault.
        """
        ...

    async def find(self, key: CacheKey, part: Part | None = None) -> Found | None:
        """Looks at the path of the key's body, or of one range; None where nothing usable lies
        there.
        """
        ...

    def scan(self) -> AsyncIterator[list[Found]]:
        """Everything on disk, in batches, read off the loop; unusable files are removed."""
        ...

    async def remove(self, bodies: Iterable[BodyRef]) -> None:
        """Unlinks each whose path still holds that very file. Failures are counted, not raised."""
        ...

    def has_room(self, size: int) -> bool:
        """Whether the volume keeps its floor of free space with `size` bytes more, as far as is
        known; never touches the disk.
        """
        ...

    def set_aside(self, size: int, *, is_index_whole: bool) -> bool:
        """Tells other processes on the same directory of `size` bytes that are on their way to it;
        False where there may be no room for all that lies there. Never waits.

        `is_index_whole`: the directory has been read, so that the index keeps the budget alone as
        long as no other process writes there.
        """
        ...

    def give_back(self, size: int) -> None:
        """Once they are committed, or won't come."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether another process holds the same directory, or may: an index miss then looks at
        the path.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file of a body or a range. `charge`: bytes of disk blocks. `used_at`: wall-clock seconds,
    to the hour.
    """

    path: str
    charge: int
    used_at: float


class SweepableStore(Protocol):
    """A body store on a disk that others may use as well. Awaited methods raise StoreFault."""

    committed_bytes: int
    removed_bytes: int

    @property
    def holds_unknown_files(self) -> bool:
        """Whether others write to the directory, may do so, or have done so."""
        ...

    def missing_bytes(self, size: int) -> int:
        """How much must go for `size` bytes to have room on the volume, by the last measure."""
        ...

    @property
    def lacks_inodes(self) -> bool: ...

    @property
    def lingering_bytes(self) -> int:
        """Of files that are unlinked and still open: free once their readers have gone."""
        ...

    def let_go_of_unlinked(self) -> None:
        """Closes some of the files that others have unlinked, and that nobody reads just now."""
        ...

    async def measure(self) -> None:
        """Measures what is free."""
        ...

    async def begin_sweep(self) -> bool:
        """Keeps other processes from sweeping until `end_sweep`, and measures what is free; False
        where another one sweeps.
        """
        ...

    def end_sweep(self) -> None: ...

    @property
    def set_aside_bytes(self) -> int:
        """On their way to the directory, of all processes."""
        ...

    def begin_count(self) -> None:
        """All files are about to be looked at, to tell other processes what they take."""
        ...

    def end_count(self, total_bytes: int) -> None: ...

    def survey(self) -> AsyncIterator[list[FileSeen]]:
        """All files, in batches, read off the loop."""
        ...

    async def identify(self, paths: list[str]) -> list[tuple[str, BodyRef]]:
        """Which bodies lie at these paths; unusable files are removed."""
        ...


Watched: TypeAlias = "tuple[memoryview[int], int, int, int, int, int]"
"""The words of a table; which of them are an object's and its location's; what those and the newest
doubt were. Thousands are kept, so it is one tuple.
"""


class StampTable(Protocol):
    """The table of coherence tokens (DESIGN: stamps). All methods are quick enough for the loop."""

    @property
    def id(self) -> bytes: ...

    def read(self, target: Object) -> StampPair: ...

    def token(self, location: str, path: bytes) -> int:
        """The token of what `read` gives."""
        ...

    def watch(self, location: str, path: bytes) -> Watched:
        """The stamps of an object and the newest doubt as they are now, for `is_unchanged`."""
        ...

    def is_unchanged(self, watched: Watched) -> bool:
        """Whether they are what they were. Quicker than `token`."""
        ...

    def close(
        self,
        target: Object,
        seconds: float,
        *,
        whole_location: bool = False,
        ends: int | None = None,
    ) -> int:
        """A new stamp that lets nobody store anything of `target` for `seconds`.

        What it gives names this write: whoever ends the write gives it back as `ends`, here where
        the write's fate is unknown, else to `renew`. While another write of `target` runs it stays
        closed for that one, too. Raises StoreFault if the table had to leave its directory: then
        all of its stamps are new, and the same call made again can't fail.
        """
        ...

    def renew(self, target: Object, *, ends: int | None, whole_location: bool = False) -> None:
        """A new stamp, open at once unless another write runs. `ends` is None for a purge.

        Raises StoreFault as `close` does.
        """
        ...

    def doubt(self, name: Object, boot: float) -> None:
        """Notes that what was asked until `boot` of what bears `name` may no longer be so. Raises
        StoreFault as `close` does.

        A directory is named by its path with a slash at its end. Collisions doubt too much, never
        too little.
        """
        ...

    def doubted_at(self, name: Object) -> float:
        """The latest time that was given to `doubt` for a name; 0 for none."""
        ...

    def newest_doubt(self) -> float:
        """The latest that was given for any name."""
        ...


@dataclass(frozen=True, slots=True)
class Content:
    """A request's body. `length` in bytes, None if it is to be sent chunked.

    `chunks` raises RequestAborted where the client went away before the end. `is_held_back`: the
    client sends it once it is told to continue, which asking for the first chunk does.
    """

    chunks: AsyncIterator[bytes]
    length: int | None
    is_held_back: bool = False


@dataclass(frozen=True, slots=True)
class OriginRequest:
    """`is_signed`: by the client: no credential is added to it. `host`: the Host to send in the
    place of the origin's own name.
    """

    method: str
    target: bytes
    fields: Fields
    key_class: KeyClass
    content: Content | None = None
    is_signed: bool = False
    host: bytes | None = None


class OriginResponse(Protocol):
    """An answer whose head has arrived. Must be closed, or read to its end."""

    @property
    def head(self) -> ResponseHead: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises BodyTorn where it ends before its framing says."""
        ...

    def close(self) -> None:
        """Lets the connection go; one whose body wasn't read to its end is closed."""
        ...


class Upstream(Protocol):
    async def send(self, request: OriginRequest) -> OriginResponse:
        """Raises OriginError. Safe methods without a body may be sent again, others never.

        OriginNotAsked tells that nothing was sent at all.
        """
        ...


class Observer(Protocol):
    """Counts what can't be told from a request's result. Must not raise."""

    def removed(self, kind: str, reason: str, count: int = 1) -> None: ...

    def invalidated(self, cause: str) -> None: ...

    def fill_ended(self, outcome: str) -> None: ...

    def upstream_answered(
        self, key_class: str, method: str, status: int | None, seconds: float
    ) -> None:
        """One request to the origin; `status` is None where no head came."""
        ...

    def upstream_retried(self) -> None:
        """A request to the origin is about to be sent again."""
        ...

    def upstream_spared(self, reason: str) -> None:
        """A request was answered without asking the origin, which fails or has too many waiting."""
        ...

    def breaker_is(self, state: str) -> None: ...

    def upstream_received(self, size: int) -> None: ...

    def upstream_sent(self, size: int) -> None: ...

    def store_failed(self, operation: str, cause: str) -> None: ...

    def audited(self, kind: str, verdict: str) -> None:
        """An audit of what is held came to a verdict: agree, changed or wrong."""
        ...

    def audit_left_out(self, reason: str) -> None:
        """An audit came to no verdict, or was not made."""
        ...
