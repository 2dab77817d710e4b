"""Requests, answers and entries to test the core with. Each takes what a test is about by name."""

from chunkside.core.entry import Absent, BodyRef, Now, Part, Partial, Present, Stored
from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey, KeyClass, Namespace
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead

SPACE = Namespace("http://origin:80")
KEY = CacheKey(SPACE, b"/a/c/0/0")
NOW = Now(boot=5_000.0, wall=1_700_000_000.0)
# Mon, 01 Jan 2024 00:00:00 GMT and what lies around it.
NEW_YEAR = b"Mon, 01 Jan 2024 00:00:00 GMT"
A_MINUTE_BEFORE = b"Sun, 31 Dec 2023 23:59:00 GMT"
A_SECOND_BEFORE = b"Sun, 31 Dec 2023 23:59:59 GMT"
A_SECOND_AFTER = b"Mon, 01 Jan 2024 00:00:01 GMT"


def fields(*lines: str) -> Fields:
    """Fields written as in a message: "Name: value"."""
    split = (line.partition(":") for line in lines)
    return Fields((name.encode(), value.strip().encode()) for name, _, value in split)


def earlier(seconds: float) -> Now:
    return Now(NOW.boot - seconds, NOW.wall - seconds)


def request(
    *lines: str,
    method: str = "GET",
    target: bytes = KEY.target,
    key_class: KeyClass = "chunk",
    has_body: bool = False,
    is_signed: bool = False,
    host: bytes | None = None,
) -> Request:
    return Request(
        method,
        target,
        fields(*lines),
        CacheKey(SPACE, target),
        key_class,
        has_body,
        is_signed,
        host=host,
    )


def head(status: int, *lines: str, length: int | None = 10, is_framed: bool = True) -> ResponseHead:
    return ResponseHead(status, fields(*lines), length, is_framed)


def stored(
    *lines: str,
    key: CacheKey = KEY,
    key_class: KeyClass = "chunk",
    length: int = 1000,
    origin_lifetime: float | None = None,
    initial_age: float = 0.0,
    requested_at: Now = NOW,
    origin_field: bytes | None = None,
    variant: bytes = b"",
) -> Stored:
    return Stored(
        key,
        key_class,
        200,
        fields(*lines),
        length,
        origin_lifetime,
        initial_age,
        requested_at,
        origin_field,
        variant,
    )


def present(what: Stored, *, must_validate: bool = False, inode: int = 1) -> Present:
    body = BodyRef(what.key, inode, 1, what.length, blocks=8)
    return Present(what, body, token=7, must_validate=must_validate)


def partial(what: Stored, *parts: tuple[int, int], must_validate: bool = False) -> Partial:
    """Each part in a file of 8 blocks whose nonce is its first byte."""
    bodies = tuple(
        BodyRef(what.key, 1, first, last - first + 1, blocks=8, part=Part(first, last))
        for first, last in parts
    )
    return Partial(what, bodies, token=7, must_validate=must_validate)


def absent(
    *,
    status: int = 404,
    requested_at: Now = NOW,
    lifetime: float = 300.0,
    allows_any_origin: bool = False,
) -> Absent:
    return Absent(status, requested_at, lifetime, 7, allows_any_origin)
