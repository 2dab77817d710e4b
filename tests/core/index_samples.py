"""Bodies and markers in an index, and the stamps they are stored under."""

from dataclasses import replace

from chunkside.core.budget import Limits, Removal
from chunkside.core.entry import BodyRef, Held, Present, StampPair
from chunkside.core.index import Index
from chunkside.core.key import CacheKey, Namespace
from tests.core.samples import NOW, absent, present, stored

HERE = "http://origin:80"
SPACE = Namespace(HERE)
MINE = Namespace(HERE, "", b"mine")
STAMPS = StampPair(object=1, location=2)
LATER = StampPair(object=3, location=2)
CLOSED = StampPair(object=(int(NOW.boot) + 1) << 32, location=2)
PLENTY = Limits(budget_bytes=10**9)
# A body of 8 blocks of 512 bytes. A marker of a plain two-byte key: 176 + 2.
BODY = 4096
MARKER = 178
NAMELESS = absent(lifetime=300.0)


def key(target: bytes, space: Namespace = SPACE) -> CacheKey:
    return CacheKey(space, target)


def body(target: bytes, *lines: str, nonce: int = 1, blocks: int = 8, length: int = 10) -> Present:
    held = present(stored(*lines, key=key(target), length=length))
    ref = BodyRef(key(target), 1, nonce, length, blocks)
    return replace(held, body=ref, token=STAMPS.token)


def put(index: Index, what: Held) -> list[Removal] | None:
    lease = index.lease(what.stored.key, STAMPS, NOW)
    removed = index.store(lease, STAMPS, what, NOW)
    index.end(lease)
    index.check_invariants()
    return removed


def mark(index: Index, target: bytes, space: Namespace = SPACE) -> list[Removal] | None:
    lease = index.lease(key(target, space), STAMPS, NOW)
    removed = index.remember(lease, STAMPS, NAMELESS, NOW)
    index.end(lease)
    index.check_invariants()
    return removed


def held_targets(index: Index) -> set[bytes]:
    held = index.keys()
    return {key.target for key in held}


def evicted(what: Present) -> Removal:
    return Removal("body", "budget", what.body)
