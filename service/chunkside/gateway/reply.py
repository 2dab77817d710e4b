"""What a client gets: a head, and bytes that may still be on their way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from chunkside.core.cache_status import CacheStatus, Result
from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields
from chunkside.core.problem import PROBLEM_MEDIA_TYPE, problem
from chunkside.gateway.errors import OriginError, OriginNotAsked
from chunkside.gateway.ports import Buffer

SLICE_BYTES: Final = 1 << 20
_TITLES: Final = {
    500: ("internal", "Chunkside has a fault"),
    502: ("origin-nonsense", "The origin's answer can't be used"),
    503: ("origin-unreachable", "The origin can't be reached"),
    504: ("origin-too-slow", "The origin took too long"),
}
_NOT_ASKED: Final = ("origin-not-asked", "The origin isn't asked just now")


@dataclass(slots=True)
class Reply:
    """`fields` are end-to-end, without Content-Length; `length` is what that will say, None for a
    body of unknown length, which goes chunked. `body` gives `length` bytes or raises BodyTorn; for
    HEAD and where the status forbids one it is empty all the same. `age` in seconds, None for what
    didn't come from store. `says`: what an error of the sidecar's own tells its reader. `release`
    must be called once the reply is done with, sent or not.
    """

    status: int
    fields: Fields
    body: bytes | AsyncIterator[Buffer]
    length: int | None
    result: Result
    cache_status: CacheStatus
    age: float | None = None
    says: str | None = None
    release: Callable[[], None] = field(default=lambda: None)


def problem_reply(
    status: int, slug: str, title: str, detail: str, *more: tuple[bytes, bytes]
) -> Reply:
    """An error of the sidecar's own."""
    body = problem(status, title, detail, slug=slug)
    fields = Fields(((b"Content-Type", PROBLEM_MEDIA_TYPE.encode()), *more))
    return Reply(status, fields, body, len(body), "error", CacheStatus(detail=slug), says=detail)


CAPABILITIES: Final = Fields(((b"Allow", b"GET, HEAD, OPTIONS, PUT, POST, PATCH, DELETE"),))
"""What can be done here, as far as that isn't the origin's to say."""


def own_answer(detail: str, fields: Fields) -> Reply:
    """To a question that is the sidecar's own to answer."""
    return Reply(204, fields, b"", None, "bypass", CacheStatus(detail=detail))


def error_reply(error: OriginError) -> Reply:
    slug, title = _NOT_ASKED if isinstance(error, OriginNotAsked) else _TITLES[error.status]
    told = b"%d" % error.retry_after_seconds
    more = ((b"Retry-After", told),) if error.status == 503 else ()
    return problem_reply(error.status, slug, title, str(error), *more)


def refusal(refuse: Refuse) -> Reply:
    more = ((b"Allow", refuse.allow.encode()),) if refuse.allow is not None else ()
    return problem_reply(refuse.status, refuse.slug, refuse.title, refuse.detail, *more)
