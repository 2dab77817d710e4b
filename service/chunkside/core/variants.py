"""Which of several representations of one resource a request selects (RFC 9111 §4.1)."""

from __future__ import annotations

import hashlib
from typing import Final

from chunkside.core.entry import Entry, Selected, Stored, Variants
from chunkside.core.fields import Fields, list_members

STRIPPED_FROM_FILLS: Final = frozenset(
    {
        b"range",
        b"if-range",
        b"if-match",
        b"if-none-match",
        b"if-modified-since",
        b"if-unmodified-since",
        b"accept-encoding",
    }
)
# What a fill fixes, what is compared by itself, or what no GET brings (S3 names the last two on
# every answer to a page).
_SELECTS_NOTHING: Final = STRIPPED_FROM_FILLS | {
    b"origin",
    b"access-control-request-headers",
    b"access-control-request-method",
}


def varied_names(answered: Fields) -> frozenset[bytes]:
    """Request fields, in lower case, that select among an answer and others; `*` among them where
    that can't be told.
    """
    return frozenset(list_members(answered.combined(b"vary"))) - _SELECTS_NOTHING


def variant_of(answered: Fields, asked: Fields) -> bytes:
    """Names one of a resource's variants: a SHA-256 of what selects it; b"" where nothing does.

    `answered`: an answer's fields, `asked`: those of a request.
    """
    names = varied_names(answered)
    if not names:
        return b""
    told = hashlib.sha256()
    for name in sorted(names):
        # A field that isn't there is another thing than an empty one.
        value = _normalised(name, asked.combined(name)) if name in asked else None
        text = b"-" if value is None else b"%d:%b" % (len(value), value)
        told.update(b"%b=%b;" % (name, text))
    return told.digest()


def _normalised(name: bytes, value: bytes) -> bytes:
    """Equal for values that mean the same (RFC 9111 §4.1), as far as that is known of a field."""
    if name != b"accept-language":
        return value.strip(b" \t")
    ranges = (b"".join(each.split()).lower() for each in value.split(b","))
    return b",".join(sorted(ranges))


def is_selected_by(stored: Stored, asked: Fields) -> bool:
    return variant_of(stored.fields, asked) == stored.variant


def choose(entry: Entry | None, asked: Fields) -> Selected | None:
    """What an entry has for a request. Of variants that it selects none of, the newest stands for
    all, so that it can be told from a key that nobody knows.
    """
    if not isinstance(entry, Variants):
        return entry
    for held in reversed(entry.of):
        if is_selected_by(held.stored, asked):
            return held
    return entry.of[-1]
