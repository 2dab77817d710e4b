"""Preconditions and ranges on a stored representation (RFC 9110 §13, §14)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from chunkside.core.dates import http_date
from chunkside.core.decision import (
    NotModified,
    PreconditionFailed,
    Selection,
    Unsatisfiable,
    Whole,
)
from chunkside.core.entry import Absent, Part, Selected, Stored
from chunkside.core.fields import Fields

# No offset has a hundred digits, and int() refuses some thousand of them.
_SINGLE = re.compile(
    rb"bytes=[ \t]*(?:([0-9]{1,99})-([0-9]{0,99})|-([0-9]{1,99}))[ \t]*", re.IGNORECASE
)
_CONTENT_RANGE = re.compile(rb"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})", re.IGNORECASE)
_ENTITY_TAG = re.compile(rb'(W/)?"([^"]*)"')
_NEXT_OF_LIST = re.compile(rb'[ \t,]*(W/)?"([^"]*)"[ \t]*(?=,|\Z)')
_STRONG_AFTER_SECONDS = 60.0

RangeForm = Literal["none", "single", "several"]
Generation = tuple[bytes, int, bytes, int]
"""Strong validator, length, encoding and status: bytes of two representations that have the same
are the same.
"""


def range_form(fields: Fields) -> RangeForm:
    """What kind of range is asked for; malformed ones are none (RFC 9110 §14.2)."""
    if b"range" not in fields:
        return "none"
    value = fields.combined(b"range")
    if value.lower().startswith(b"bytes=") and b"," in value:
        return "several"
    return "single" if _bounds(value) is not None else "none"


def single_range(fields: Fields) -> bytes | None:
    """The field's value where it asks for a single range."""
    return fields.combined(b"range") if range_form(fields) == "single" else None


def exact_part(range_value: bytes) -> Part | None:
    """The part that a range names by both of its ends; None where it leaves one to the length."""
    first, last = _bounds(range_value) or (None, None)
    return None if first is None or last is None else Part(first, last)


def part_asked(range_value: bytes, length: int) -> Part | None:
    """The part of `length` bytes that a single range asks for; None where it has none."""
    bounds = _bounds(range_value)
    part = None if bounds is None else _part(bounds, length)
    return part if isinstance(part, Part) else None


def part_answered(range_value: bytes, fields: Fields) -> tuple[Part, int] | None:
    """Which part a 206 has, and of how many bytes in all; None where that isn't what was asked."""
    told = _CONTENT_RANGE.fullmatch(fields.combined(b"content-range").strip())
    bounds = _bounds(range_value)
    if told is None or bounds is None:
        return None
    part, length = Part(int(told[1]), int(told[2])), int(told[3])
    return (part, length) if _part(bounds, length) == part else None


def _bounds(value: bytes) -> tuple[int | None, int | None] | None:
    match = _SINGLE.fullmatch(value)
    if match is None:
        return None
    if match[3] is not None:
        return None, int(match[3])
    first = int(match[1])
    last = int(match[2]) if match[2] else None
    return None if last is not None and last < first else (first, last)


def select(fields: Fields, stored: Stored, *, is_get: bool = True) -> Selection:
    """Which part of `stored` a GET or HEAD with these fields gets, in the order of RFC 9110
    §13.2.2.
    """
    if stored.status != 200:
        # Neither conditions nor ranges apply to anything else (RFC 9110 §13.2.1, §14.2).
        return Whole()
    if _fails(fields, stored):
        return PreconditionFailed()
    if _is_unmodified(fields, stored):
        return NotModified()
    bounds = _bounds(fields.combined(b"range"))
    if not is_get or bounds is None or not range_applies(fields, stored):
        return Whole()
    return _part(bounds, stored.length)


def part_of_whole(fields: Fields, length: int) -> Selection:
    """What a GET with these fields gets of `length` bytes, its preconditions left aside."""
    bounds = _bounds(fields.combined(b"range"))
    return Whole() if bounds is None else _part(bounds, length)


def _part(bounds: tuple[int | None, int | None], length: int) -> Selection:
    first, last = bounds
    if first is None:
        suffix = min(last or 0, length)
        return Part(length - suffix, length - 1) if suffix else Unsatisfiable()
    if first >= length:
        return Unsatisfiable()
    return Part(first, length - 1 if last is None else min(last, length - 1))


def _fails(fields: Fields, stored: Stored) -> bool:
    if b"if-match" in fields:
        return not _matches(fields.combined(b"if-match"), stored.etag, strongly=True)
    limit = http_date(fields.get(b"if-unmodified-since"))
    modified = None if limit is None else http_date(stored.last_modified)
    return limit is not None and modified is not None and modified > limit


def _is_unmodified(fields: Fields, stored: Stored) -> bool:
    if b"if-none-match" in fields:
        return _matches(fields.combined(b"if-none-match"), stored.etag, strongly=False)
    limit = http_date(fields.get(b"if-modified-since"))
    if limit is None:
        return False
    # Of what doesn't say when it was modified that is when it was made (RFC 9111 §4.3.2).
    told = stored.last_modified or stored.fields.get(b"date")
    modified = http_date(told)
    return modified is not None and modified <= limit


def _matches(listed: bytes, etag: bytes | None, *, strongly: bool) -> bool:
    if listed.strip() == b"*":
        return True
    held = _ENTITY_TAG.fullmatch(etag) if etag is not None else None
    if held is None or (strongly and held[1]):
        return False
    return any(tag == held[2] and not (strongly and is_weak) for is_weak, tag in _tags(listed))


def _tags(listed: bytes) -> Iterator[tuple[bool, bytes]]:
    """Whether it is weak, and its opaque part, of each tag of a list up to the first malformed
    one.
    """
    position = 0
    while tag := _NEXT_OF_LIST.match(listed, position):
        yield tag[1] is not None, tag[2]
        position = tag.end()


def range_applies(fields: Fields, stored: Stored) -> bool:
    """Whether `If-Range` lets a range of `stored` be sent, or there is none."""
    if b"if-range" not in fields:
        return True
    condition = fields.get(b"if-range")
    validators = (_strong_tag(stored.fields), _strong_date(stored.fields))
    return condition is not None and condition in validators


def strong_validator(fields: Fields) -> bytes | None:
    """An ETag without `W/`, or where there is no ETag a Last-Modified at least 60 s before `Date`;
    None if there is neither.
    """
    return _strong_tag(fields) if b"etag" in fields else _strong_date(fields)


def generation_of(stored: Stored) -> Generation | None:
    """None where nothing can tell its bytes from another's."""
    validator = strong_validator(stored.fields)
    if validator is None:
        return None
    return validator, stored.length, encoding_of(stored.fields), stored.status


def encoding_of(fields: Fields) -> bytes:
    """The content codings, in lower case; b"" where there are none."""
    coding = fields.combined(b"content-encoding").strip(b" \t").lower()
    return b"" if coding == b"identity" else coding


def is_changed(held: Selected | None, now: Stored | None) -> bool | None:
    """Whether a document is another than what was held of it; `now` is None where it is absent.

    None where only its bytes can tell. What nobody knew can't have changed.
    """
    if held is None:
        return False
    if isinstance(held, Absent) or now is None:
        return not isinstance(held, Absent) or now is not None
    before = held.stored
    if before.etag is not None and now.etag is not None:
        return before.etag.removeprefix(b"W/") != now.etag.removeprefix(b"W/")
    # Equal dates prove nothing: two versions of one second have the same.
    dates = before.last_modified, now.last_modified
    return True if None not in dates and dates[0] != dates[1] else None


def _strong_tag(fields: Fields) -> bytes | None:
    etag = fields.get(b"etag")
    tag = _ENTITY_TAG.fullmatch(etag) if etag is not None else None
    return etag if tag is not None and tag[2] and not tag[1] else None


def _strong_date(fields: Fields) -> bytes | None:
    modified, date = http_date(fields.get(b"last-modified")), http_date(fields.get(b"date"))
    if modified is None or date is None or date - modified < _STRONG_AFTER_SECONDS:
        return None
    return fields.get(b"last-modified")
