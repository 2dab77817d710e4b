"""HTTP dates (RFC 9110 §5.6.7), in their three forms and no other."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_MONTHS: Final = (
    *(b"jan", b"feb", b"mar", b"apr", b"may", b"jun"),
    *(b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"),
)
_MONTH: Final = b"(?P<month>" + b"|".join(_MONTHS) + b")"
_DAY_NAME: Final = rb"(?:mon|tue|wed|thu|fri|sat|sun)"
_LONG_DAY_NAME: Final = rb"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
_DAY: Final = rb"(?P<day>[0-9]{2})"
_TIME: Final = rb"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_YEAR: Final = rb"(?P<year>[0-9]{4})"
# Of case nothing depends, and some servers get it wrong.
_FORMS: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        _DAY_NAME + b", " + _DAY + b" " + _MONTH + b" " + _YEAR + b" " + _TIME + b" GMT",
        _LONG_DAY_NAME + b", " + _DAY + b"-" + _MONTH + rb"-(?P<year>[0-9]{2}) " + _TIME + b" GMT",
        _DAY_NAME + b" " + _MONTH + rb" (?P<day>[ 0-9][0-9]) " + _TIME + b" " + _YEAR,
    )
)
# A year of two digits is at most 50 years ahead; no clock is asked, and few caches live so long.
_CENTURY_TURNS_AT: Final = 76


def http_date(value: bytes | None) -> float | None:
    """Seconds since the epoch; None if there is no date or it is malformed."""
    if value is None:
        return None
    for form in _FORMS:
        if match := form.fullmatch(value.strip(b" \t")):
            return _seconds(match)
    return None


def _seconds(match: re.Match[bytes]) -> float | None:
    year, day, hour, minute, second = (
        int(match[name]) for name in ("year", "day", "hour", "minute", "second")
    )
    if len(match["year"]) == 2:
        year += 1900 if year >= _CENTURY_TURNS_AT else 2000
    month = _MONTHS.index(match["month"].lower()) + 1
    # A leap second is the last of its minute, which datetime doesn't know.
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() if second <= 60 else None
