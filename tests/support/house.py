"""The gateway in one process with the test, and all that stands around it in the test's hands.

Time is two numbers, the origin is a FakeUpstream, and what is counted is written down. The index,
the policy, the stamp table and the body store are the real ones.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from chunkside.core.budget import Limits
from chunkside.core.decision import Refuse
from chunkside.core.entry import Absent, BodyRef, Entry, Now, Part, StampPair, Stored
from chunkside.core.fields import Fields
from chunkside.core.freshness import Policy
from chunkside.core.index import Index
from chunkside.core.key import CacheKey, ClientCredentials
from chunkside.core.request import Request
from chunkside.core.route import Route
from chunkside.gateway.edges import Edges, Shared
from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.gateway.gateway import Gateway
from chunkside.gateway.ports import (
    BodyReader,
    BodyStore,
    BodyWriter,
    Buffer,
    Content,
    Found,
    StampTable,
    Upstream,
)
from chunkside.gateway.purging import Purging
from chunkside.gateway.reply import Reply
from chunkside.store.memory import MemoryBodyStore
from chunkside.store.stamps import MemoryStampTable
from tests.support.fake_upstream import DEADLINE_SECONDS, FakeUpstream
from tests.support.turns import turns

LOCATION: Final = "http://origin:80"
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key"})


@dataclass
class HandClock:
    """Both clocks of a machine, moved by hand."""

    boot: float = 1_000.0
    wall: float = 1_800_000_000.0

    def now(self) -> Now:
        return Now(self.boot, self.wall)

    def boot_seconds(self) -> float:
        return self.boot

    def advance(self, seconds: float) -> None:
        self.boot += seconds
        self.wall += seconds


class Record:
    """An Observer that writes everything down."""

    def __init__(self) -> None:
        self.removals: Counter[tuple[str, str]] = Counter()
        self.invalidations: list[str] = []
        self.fills: list[str] = []
        self.answered: list[tuple[str, int | None]] = []
        self.received_bytes = 0
        self.sent_bytes = 0
        self.faults: list[tuple[str, str]] = []
        self.retries = 0
        self.spared: list[str] = []
        self.breaker: list[str] = []
        self.audits: list[tuple[str, str]] = []
        self.left_out: list[str] = []

    def removed(self, kind: str, reason: str, count: int = 1) -> None:
        self.removals[kind, reason] += count

    def invalidated(self, cause: str) -> None:
        self.invalidations.append(cause)

    def fill_ended(self, outcome: str) -> None:
        self.fills.append(outcome)

    def upstream_answered(
        self, key_class: str, method: str, status: int | None, seconds: float
    ) -> None:
        self.answered.append((method, status))

    def upstream_retried(self) -> None:
        self.retries += 1

    def upstream_spared(self, reason: str) -> None:
        self.spared.append(reason)

    def breaker_is(self, state: str) -> None:
        if not self.breaker or self.breaker[-1] != state:
            self.breaker.append(state)

    def upstream_received(self, size: int) -> None:
        self.received_bytes += size

    def upstream_sent(self, size: int) -> None:
        self.sent_bytes += size

    def store_failed(self, operation: str, cause: str) -> None:
        self.faults.append((operation, cause))

    def audited(self, kind: str, verdict: str) -> None:
        self.audits.append((kind, verdict))

    def audit_left_out(self, reason: str) -> None:
        self.left_out.append(reason)


@dataclass(slots=True)
class Got:
    """A reply read to its end, or to where it broke off."""

    reply: Reply
    body: bytes = b""
    is_torn: bool = False

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def result(self) -> str:
        return self.reply.result

    @property
    def cache_status(self) -> str:
        return self.reply.cache_status.render().decode()

    def field(self, name: bytes) -> bytes | None:
        return self.reply.fields.get(name)


class Reading:
    """A client that reads a reply at its own speed. Leave it, or read it to its end."""

    def __init__(self, reply: Reply) -> None:
        assert not isinstance(reply.body, bytes), "a reply that is there already"
        self.reply = reply
        self.body = bytearray()
        self.is_torn = False
        self._pieces: AsyncIterator[Buffer] = reply.body

    async def until(self, position: int) -> bytes:
        """Reads until at least so many bytes are there; gives all of them."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(self.body) < position:
                self.body += await anext(self._pieces)
        return bytes(self.body)

    async def rest(self) -> bytes:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                async for piece in self._pieces:
                    self.body += piece
        except BodyTorn:
            self.is_torn = True
        self.leave()
        return bytes(self.body)

    def leave(self) -> None:
        self.reply.release()


class House:
    def __init__(
        self,
        *,
        store: Callable[[StampTable, HandClock], BodyStore] | None = None,
        table: StampTable | None = None,
        clock: HandClock | None = None,
        policy: Policy | None = None,
        limits: Limits | None = None,
        upstream: Callable[[HandClock, Record], FakeUpstream] = FakeUpstream,
        is_scanning: bool = False,
        credentials: ClientCredentials = "partition",
        audit_share: float = 0.0,
        only_observes: bool = False,
    ) -> None:
        self.now = clock or HandClock()
        self.record = Record()
        self.stamps = table if table is not None else MemoryStampTable(self.now.boot_seconds)
        self.origin = upstream(self.now, self.record)
        make_store = store or (lambda stamps, _: MemoryBodyStore(stamps))
        self.store = make_store(self.stamps, self.now)
        self.edges = Edges(
            index=Index(limits or Limits(budget_bytes=1 << 30)),
            policy=replace(policy or Policy(), client_credentials=credentials),
            store=self.store,
            stamps=self.stamps,
            upstream=_as_port(self.origin),
            clock=self.now,
            observer=self.record,
            audit_share=audit_share,
            only_observes=only_observes,
            shared=Shared(is_scanning=is_scanning),
        )
        self.gateway = Gateway(self.edges)
        self.purging = Purging(self.edges)
        self.route = Route(
            name="/",
            location=LOCATION,
            prefix=b"",
            secret=b"s" * 32,
            credential_names=_CREDENTIALS,
            ignored_query=frozenset({b"x-id"}),
            client_credentials=credentials,
        )

    def beside(
        self,
        name: str,
        *,
        prefix: bytes = b"",
        location: str = LOCATION,
        policy: Policy | None = None,
    ) -> House:
        """Another route of the same process. At another location it has an origin of its own."""
        other = copy.copy(self)
        if location != self.route.location:
            other.origin = FakeUpstream(self.now, self.record)
        other.edges = replace(
            self.edges, policy=policy or Policy(), upstream=_as_port(other.origin)
        )
        other.gateway = Gateway(other.edges)
        other.purging = Purging(other.edges)
        at = name.removesuffix("/").encode()
        other.route = replace(self.route, name=name, at=at, location=location, prefix=prefix)
        return other

    # Asking.

    def request(
        self, method: str, target: bytes, fields: Iterable[tuple[bytes, bytes]] = ()
    ) -> Request:
        request = self.route.request(method, target, Fields(fields), has_body=False)
        assert not isinstance(request, Refuse), request
        return request

    def key(self, target: bytes, fields: Iterable[tuple[bytes, bytes]] = ()) -> CacheKey:
        return self.request("GET", target, fields).key

    def entry(self, target: bytes, fields: Iterable[tuple[bytes, bytes]] = ()) -> Entry | None:
        return self.edges.index.look_up(self.key(target, fields))

    async def ask(
        self,
        method: str,
        target: bytes,
        *fields: tuple[bytes, bytes],
        content: bytes | Content | None = None,
    ) -> Reply:
        """A reply whose body nobody has read yet."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            sent = _content(content) if isinstance(content, bytes) else content
            return await self.gateway.answer(self.request(method, target, fields), sent)

    async def send(
        self, method: str, target: bytes, *fields: tuple[bytes, bytes], content: bytes | None = None
    ) -> Got:
        return await read(await self.ask(method, target, *fields, content=content))

    async def get(self, target: bytes, *fields: tuple[bytes, bytes]) -> Got:
        return await self.send("GET", target, *fields)

    def remember(self, targets: Iterable[bytes]) -> None:
        """Puts markers into the index as they are, without asking anybody."""
        # One request for all: a hundred thousand are some tests' beginning.
        space = self.request("GET", b"/").absence_key.namespace
        for target in targets:
            lease = self.edges.lease(CacheKey(space, self.route.prefix + target))
            absent = Absent(404, self.now.now(), 300.0, lease.stamps.token, allows_any_origin=False)
            assert self.edges.remember_absence(lease, absent, lease.key)
            self.edges.index.end(lease)

    async def put(self, target: bytes, body: bytes) -> Got:
        return await self.send("PUT", target, content=body)

    def start(self, method: str, target: bytes, *fields: tuple[bytes, bytes]) -> asyncio.Task[Got]:
        """A client of its own. Await what it gives."""
        return asyncio.get_running_loop().create_task(self.send(method, target, *fields))

    # Waiting, for something that happens, never for time.

    async def settled(self) -> None:
        """Until no fill and no unlinking runs."""
        await self.edges.tasks.finish(DEADLINE_SECONDS)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Gives the others their turns until it is so."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not is_so():
                await turns()

    async def settled_fills(self) -> None:
        await self.until(lambda: self.gateway.fills.in_flight == 0)

    async def until_ended(self, fills: int) -> None:
        await self.until(lambda: len(self.record.fills) >= fills)

    async def until_waiting(self, count: int) -> None:
        await self.until(lambda: self.gateway.fills.waiters == count)


async def read(reply: Reply) -> Got:
    """Reads a reply to its end as a client does, and lets go of it."""
    got = Got(reply)
    parts = []
    try:
        if isinstance(reply.body, bytes):
            parts.append(reply.body)
        else:
            async with asyncio.timeout(DEADLINE_SECONDS):
                parts += [bytes(piece) async for piece in reply.body]
    except BodyTorn:
        got.is_torn = True
    finally:
        reply.release()
    got.body = b"".join(parts)
    if not got.is_torn and reply.length is not None and got.body:
        assert len(got.body) == reply.length, "Content-Length and body disagree"
    return got


def _content(body: bytes) -> Content:
    async def chunks() -> AsyncIterator[bytes]:
        yield body

    return Content(chunks(), len(body))


def _as_port(upstream: FakeUpstream) -> Upstream:
    return upstream


# Stores that fail as told.


@dataclass
class FailingStore:
    """A body store before another; each kind of call fails while its switch is on."""

    inner: BodyStore
    fails_to_begin: bool = False
    fails_to_open: bool = False
    fails_to_remove: bool = False
    fails_to_commit: bool = False
    has_space: bool = True
    unlink_gate: asyncio.Event | None = None
    """Where there is one, whatever is to be unlinked waits for it."""
    append_limit: int | None = None
    """Bytes of a body after which the disk is full."""
    commit_gate: asyncio.Event | None = None
    """Where there is one, a commit waits for it once the file is in place."""
    commits_waiting: int = 0
    removed: list[BodyRef] = field(default_factory=list)

    async def begin(
        self, stored: Stored, stamps: StampPair, length: int | None, part: Part | None = None
    ) -> BodyWriter:
        if self.fails_to_begin:
            raise StoreFault("begin", "ENOSPC")
        return FailingWriter(self, await self.inner.begin(stored, stamps, length, part))

    def reader(self, body: BodyRef) -> BodyReader | None:
        return None if self.fails_to_open else self.inner.reader(body)

    async def open(self, body: BodyRef) -> BodyReader:
        if self.fails_to_open:
            raise StoreFault("open", "EIO")
        return await self.inner.open(body)

    async def checksum(self, body: BodyRef, start: int, size: int) -> int:
        if self.fails_to_open:
            raise StoreFault("checksum", "EIO")
        return await self.inner.checksum(body, start, size)

    async def find(self, key: CacheKey, part: Part | None = None) -> Found | None:
        return await self.inner.find(key, part)

    def scan(self) -> AsyncIterator[list[Found]]:
        return self.inner.scan()

    async def remove(self, bodies: Iterable[BodyRef]) -> None:
        listed = list(bodies)
        self.removed += listed
        if listed and self.unlink_gate is not None:
            await self.unlink_gate.wait()
        if not self.fails_to_remove:
            await self.inner.remove(listed)

    def has_room(self, size: int) -> bool:
        return self.has_space and self.inner.has_room(size)

    def set_aside(self, size: int, *, is_index_whole: bool) -> bool:
        return self.inner.set_aside(size, is_index_whole=is_index_whole)

    def give_back(self, size: int) -> None:
        self.inner.give_back(size)

    @property
    def is_shared(self) -> bool:
        return self.inner.is_shared


@dataclass
class FailingWriter:
    store: FailingStore
    inner: BodyWriter
    appended: int = 0

    async def append(self, chunk: bytes) -> None:
        self.appended += len(chunk)
        limit = self.store.append_limit
        if limit is not None and self.appended > limit:
            raise StoreFault("append", "ENOSPC")
        await self.inner.append(chunk)

    async def read(self, start: int, limit: int) -> Buffer:
        return await self.inner.read(start, limit)

    async def commit(self, length: int) -> BodyRef:
        if self.store.fails_to_commit:
            raise StoreFault("commit", "EIO")
        body = await self.inner.commit(length)
        if self.store.commit_gate is not None:
            self.store.commits_waiting += 1
            await self.store.commit_gate.wait()
        return body

    async def abandon(self) -> None:
        await self.inner.abandon()
