"""Stored bodies to test with, and what stands around a store."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import uvloop

from chunkside.core.entry import Now, StampPair, Stored
from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey, Namespace
from chunkside.gateway.ports import BodyReader, BodyStore
from chunkside.store.body_store import DiskBodyStore
from chunkside.store.stamps import MemoryStampTable

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.SelectorEventLoop,
}
STAMPS = StampPair(object=7, location=(3 << 32) | 9)
LARGE = 3 * 1024 * 1024 + 5
SMALL = 70_001


@dataclass
class ManualClock:
    boot: float = 1000.0
    wall: float = 1_700_000_000.0

    def now(self) -> Now:
        return Now(self.boot, self.wall)


@dataclass
class Faults:
    """What a store reported."""

    seen: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, operation: str, cause: str) -> None:
        self.seen.append((operation, cause))


def a_key(target: bytes = b"/a/c/0/0", *, partition: bytes = b"", host: str = "h:80") -> CacheKey:
    return CacheKey(Namespace(f"http://{host}", "", partition), target)


def a_stored(key: CacheKey | None = None, *, length: int = 0) -> Stored:
    return Stored(
        key=key or a_key(),
        key_class="chunk",
        status=200,
        fields=Fields([(b"ETag", b'"abc"'), (b"X-Odd", b"\xff\x00"), (b"X-Odd", b"")]),
        length=length,
        origin_lifetime=None,
        initial_age=1.5,
        requested_at=Now(boot=900.0, wall=1_699_999_900.0),
        origin_field=None,
    )


def some_bytes(length: int) -> bytes:
    return os.urandom(length)


def a_disk_store(
    root: str,
    faults: Faults | None = None,
    *,
    map_bodies: bool = True,
    reader_limit: int = 64,
    most_mapped_bytes: int = 1 << 30,
) -> DiskBodyStore:
    """Not yet started."""
    clock = ManualClock()
    table = MemoryStampTable(lambda: clock.boot)
    return DiskBodyStore(
        root,
        table,
        faults or Faults(),
        map_bodies=map_bodies,
        reader_limit=reader_limit,
        most_mapped_bytes=most_mapped_bytes,
    )


async def keep(
    store: BodyStore,
    content: bytes,
    key: CacheKey | None = None,
    *,
    known: bool = True,
    variant: bytes = b"",
):
    """Commits a body, in pieces; gives its reference."""
    stored = replace(a_stored(key, length=len(content)), variant=variant)
    writer = await store.begin(stored, STAMPS, len(content) if known else None)
    for at in range(0, len(content), 100_000):
        await writer.append(content[at : at + 100_000])
    return await writer.commit(len(content))


async def read_all(reader: BodyReader) -> bytes:
    content = bytearray()
    while len(content) < reader.length:
        content += await reader.read(len(content), reader.length)
    return bytes(content)
