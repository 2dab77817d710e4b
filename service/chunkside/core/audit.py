"""What the origin's answer to a full GET says of what is held: that it is so, that it is so no
longer, or that it never was.

An error says nothing. `Wrong` needs proof: what can also come about by a change is `Changed`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from chunkside.core.buckets import speaks_of_another_absence
from chunkside.core.dates import http_date
from chunkside.core.entry import Absent, Held, Now, Present, Selected
from chunkside.core.fields import Fields
from chunkside.core.freshness import Policy, initial_age
from chunkside.core.ranges import encoding_of, strong_validator
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import is_refusal_of_absence
from chunkside.core.variants import variant_of

# By these an object store is known that is reached by a plain URL.
_OF_OBJECT_STORES: Final = frozenset(
    {b"x-amz-request-id", b"x-goog-generation", b"x-ms-blob-type"}
)  # fmt: skip
# Where versions are kept an older one comes back with the date that it had.
_VERSIONS: Final = (b"x-amz-version-id", b"x-ms-version-id")
# S3 dates an upload in parts by when it was begun, and it is there only once it is completed.
_IN_PARTS: Final = re.compile(rb'"[0-9a-fA-F]{32}-[0-9]+"')
# The clocks of one store's machines differ, and dates are whole seconds.
_CLOCK_SECONDS: Final = 2.0
_ABSENT: Final = frozenset({404, 410})
# That it wasn't answered this time, or what no full GET can be answered.
_NO_ANSWERS: Final = frozenset({204, 205, 206, 304, 408, 425, 429})


class Why(StrEnum):
    """Why an audit came to no verdict."""

    BUSY = "busy"
    ERROR = "error"
    TOO_LARGE = "too_large"
    OVERTAKEN = "overtaken"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Agrees:
    because: str


@dataclass(frozen=True, slots=True)
class Changed:
    because: str


@dataclass(frozen=True, slots=True)
class Wrong:
    because: str


@dataclass(frozen=True, slots=True)
class Undecided:
    why: Why
    because: str


Judgement = Agrees | Changed | Wrong | Undecided
"""Each with a reason in words, which follow `:` in a sentence."""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer of the origin's. `received_at`: when its head had come. `is_same`: whether its
    bytes are those that are held; None where they weren't compared. `body`: the beginning of one
    that isn't compared.
    """

    head: ResponseHead
    received_at: Now
    is_same: bool | None = None
    body: bytes = b""


def judge(request: Request, held: Selected, told: Told, policy: Policy) -> Judgement:
    """`request`: what was held for it. The answer is to the same, as a full GET."""
    head = told.head
    if not isinstance(held, Absent) and head.status == held.stored.status:
        return _judge_bytes(request, held, told, policy)
    if head.status in _NO_ANSWERS or not 200 <= head.status < 500:
        return Undecided(Why.ERROR, f"the origin answered {head.status}")
    if head.status in _ABSENT:
        return _judge_absence(held, told)
    is_same = isinstance(held, Absent) and held.status == head.status
    if is_same and is_refusal_of_absence(head, told.body, request, policy):
        return Agrees(f"the origin answers {head.status}, as it did")
    if isinstance(held, Absent) and head.status == 200:
        return _judge_existence(request, held, told, policy)
    return Changed(f"the origin answers {head.status}")


def _judge_absence(held: Selected, told: Told) -> Judgement:
    head = told.head
    is_readable = head.is_framed and not encoding_of(head.fields)
    if not is_readable or speaks_of_another_absence(told.body):
        return Undecided(Why.ERROR, f"the origin's {head.status} is not that of a missing key")
    if isinstance(held, Absent):
        return Agrees(f"the origin answers {head.status}")
    return Changed(f"the origin answers {head.status}: it is gone")


def _judge_existence(request: Request, absent: Absent, told: Told, policy: Policy) -> Judgement:
    fields = told.head.fields
    # A page that stands in for every missing key is older than any marker.
    is_page = fields.combined(b"content-type").lower().startswith(b"text/html")
    if is_page and request.key_class == "chunk":
        return Changed("the origin answers 200 with a page")
    # By the origin's own clock. It answered later than that, if at all otherwise.
    date = http_date(fields.get(b"date"))
    seconds = told.received_at.boot - absent.requested_at.boot
    if _was_there(fields, None if date is None else date - seconds, policy):
        return Wrong("the origin has it, from before it was asked and said that it is absent")
    return Changed("the origin answers 200: it is there now")


def _judge_bytes(request: Request, held: Held, told: Told, policy: Policy) -> Judgement:
    head, stored = told.head, held.stored
    if variant_of(head.fields, request.fields) != stored.variant:
        return Changed("the origin answers another variant")
    if encoding_of(head.fields) != encoding_of(stored.fields):
        return Changed("the origin answers in another encoding")
    if told.is_same is None:
        return Undecided(Why.UNREADABLE, "what is held can't be read")
    if told.is_same:
        return Agrees("the origin has the same bytes")
    if not head.is_framed:
        return Undecided(Why.ERROR, "the origin's answer doesn't tell where it ends")
    validator = strong_validator(head.fields)
    if validator is not None and validator == strong_validator(stored.fields):
        return Wrong("the origin has other bytes under the same validator")
    if _was_there(head.fields, http_date(stored.fields.get(b"date")), policy):
        return Wrong("the origin has other bytes, from before those that are held were brought")
    return Changed("the origin has other bytes")


def _was_there(fields: Fields, before: float | None, policy: Policy) -> bool:
    """Whether an object is surely the one that was there at a time by the origin's clock.

    On a plain server the date is the file's own, which copies and moves may have kept.
    """
    if not policy.is_object_store and _OF_OBJECT_STORES.isdisjoint(fields.names):
        return False
    if any(fields.get(name) not in (None, b"null") for name in _VERSIONS):
        return False
    if _IN_PARTS.fullmatch(fields.get(b"etag") or b""):
        return False
    put_at, told_at = http_date(fields.get(b"last-modified")), http_date(fields.get(b"date"))
    if put_at is None or told_at is None or before is None:
        return False
    # What another cache kept may be older than what is held, and tell of the time before it.
    is_of_now = initial_age(fields) == 0 and told_at >= before
    return is_of_now and put_at < before - _CLOCK_SECONDS


def kind_of(held: Selected) -> str:
    """What an audit of it counts as."""
    if isinstance(held, Absent):
        return "marker"
    return "body" if isinstance(held, Present) else "range"


def hits_until_next(share: float, chance: float) -> int:
    """How many hits on, the next audited one comes: 1 for the very next.

    On average `share` of them are, and which ones falls in with no pattern of requests. `share`
    above 0, at most 1; `chance` is drawn from [0, 1).
    """
    if share >= 1:
        return 1
    return 1 + int(math.log1p(-chance) / math.log1p(-share))
