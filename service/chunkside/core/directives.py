"""What `Cache-Control` says, and the fields that take its place for caches they name (RFC 9111
§5.2, RFC 9213).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from chunkside.core.fields import Fields
from chunkside.core.structured import dictionary

_TRUE: Final = b"?1"
_FALSE: Final = b"?0"
_NONE: Final[Mapping[bytes, bytes]] = MappingProxyType({})
_LONGEST_USUAL: Final = 256


class Told(NamedTuple):
    """What an answer says to this cache. `is_targeted`: in a field that is meant for it, beside
    which `Cache-Control` and `Expires` say nothing.
    """

    directives: Mapping[bytes, bytes]
    is_targeted: bool


def told_by(fields: Fields, targeted: tuple[bytes, ...]) -> Told:
    """`targeted`: the fields that are meant for this cache, in lower case. The first that has a
    valid value counts.
    """
    for name in targeted:
        if name in fields and (members := dictionary(fields.combined(name))):
            return Told(_as_directives(members), is_targeted=True)
    return Told(cache_control(fields), is_targeted=False)


def _as_directives(members: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    """As `cache_control` gives them. A value of another type than its directive's stays as it is
    written, so that nobody takes it for what it isn't (RFC 9213 §2.1).
    """
    return {
        name: b"" if value == _TRUE else value for name, value in members.items() if value != _FALSE
    }


def cache_control(fields: Fields) -> Mapping[bytes, bytes]:
    """Directives by lower-case name; b"" for one without an argument, quotes taken off.

    The first of a repeated directive counts.
    """
    if b"cache-control" not in fields:
        return _NONE
    value = fields.combined(b"cache-control")
    return _usual(value) if len(value) <= _LONGEST_USUAL else _parsed(value)


def _parsed(value: bytes) -> Mapping[bytes, bytes]:
    directives: dict[bytes, bytes] = {}
    for member in _split_outside_quotes(value):
        name, _, argument = member.partition(b"=")
        name = name.strip(b" \t").lower()
        if name:
            directives.setdefault(name, argument.strip(b" \t").strip(b'"'))
    return MappingProxyType(directives)


# An origin says the same with all of its answers, and each is asked about several times.
_usual = lru_cache(maxsize=256)(_parsed)


def _split_outside_quotes(value: bytes) -> list[bytes]:
    parts = value.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    # A quote that is never closed hides nothing: what follows it may be `no-store`.
    if len(parts) % 2 == 0:
        return value.split(b",")
    # Odd pieces lie inside quotes: hide their commas while splitting.
    hidden = [part.replace(b",", b"\0") if i % 2 else part for i, part in enumerate(parts)]
    return [member.replace(b"\0", b",") for member in b'"'.join(hidden).split(b",")]


def delta_seconds(argument: bytes) -> float:
    if not argument.isdigit():
        return 0.0
    digits = argument.lstrip(b"0")
    # int() refuses what has thousands of digits.
    return float(min(int(digits or b"0"), 2**31)) if len(digits) <= 10 else 2.0**31
