"""Sizes, durations, counts and lists: how settings spell them, and how they are shown.

Pure. Each `parse_*` takes what a flag, the environment or YAML gives, and raises `NotAllowedError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from chunkside.settings.errors import NotAllowedError, did_you_mean

BINARY_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
DECIMAL_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
SECONDS: dict[str, Fraction] = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}

SIZES = "a size such as 2GiB, 2Gi, 512MB or a number of bytes"
PERCENTAGES = "a share of the volume such as 10%"
DURATIONS = "a duration such as 300, 300s, 250ms, 5m, 1h, 7d or infinity"
TIMEOUTS = "a finite duration above zero such as 8, 8s, 250ms or 5m"
WAITS = "a finite duration such as 0, 10s, 250ms or 5m"
BOOLEANS = "true or false"
SHARES = "a share from 0 to 1 such as 0.01 or 1%"

_NUMBER = r"(\d{1,30}(?:\.\d{1,30})?)"
_QUANTITY = re.compile(_NUMBER + r"\s*([A-Za-z]*)", re.ASCII)
_PERCENT = re.compile(_NUMBER + r"\s*%", re.ASCII)
_COUNT = re.compile(r"\d{1,18}", re.ASCII)
_SHARE = re.compile(r"\d{1,30}(?:\.\d{1,30})?(?:e-\d{1,2})?", re.ASCII)
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_BYTES_PER_UNIT: dict[str, int] = {
    "": 1,
    "b": 1,
    **{unit.lower(): size for unit, size in BINARY_UNITS.items()},
    **{unit.lower().removesuffix("b"): size for unit, size in BINARY_UNITS.items()},
    **{unit.lower(): size for unit, size in DECIMAL_UNITS.items()},
}
_MOST_BYTES = 2**63 - 1
# What thirty digits can say; more would not fit where a marker's lifetime is kept.
_MOST_SECONDS = 10**30


@dataclass(frozen=True, slots=True)
class Percent:
    """A share of a volume, 0 to 100."""

    value: float

    def of(self, total_bytes: int) -> int:
        return int(total_bytes * Fraction(self.value) / 100)


def parse_size(value: object) -> int:
    """Bytes; a fraction of a byte is dropped."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_BYTES:
        return value
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    bytes_per_unit = _BYTES_PER_UNIT.get(match[2].lower()) if match else None
    if match is None or bytes_per_unit is None:
        raise NotAllowedError("not a size", SIZES)
    size = int(Fraction(match[1]) * bytes_per_unit)
    if size > _MOST_BYTES:
        raise NotAllowedError("more than any disk holds", SIZES)
    return size


def parse_size_or_share(value: object) -> int | Percent:
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        try:
            return parse_size(value)
        except NotAllowedError as error:
            raise NotAllowedError(error.reason, f"{SIZES}, or {PERCENTAGES}") from error
    share = float(match[1])
    if share > 100:
        raise NotAllowedError("more than the whole volume", f"{SIZES}, or {PERCENTAGES}")
    return Percent(share)


def parse_duration(value: object) -> float:
    """Seconds; `math.inf` for `infinity`."""
    if isinstance(value, str) and value.strip().lower() == "infinity":
        return math.inf
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _is_kept(value):
        return float(value)
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds_per_unit = SECONDS.get(match[2] or "s") if match else None
    if match is None or seconds_per_unit is None:
        raise NotAllowedError("not a duration", DURATIONS)
    return float(Fraction(match[1]) * seconds_per_unit)


def _is_kept(seconds: float) -> bool:
    return 0 <= seconds <= _MOST_SECONDS or seconds == math.inf


def parse_wait(value: object) -> float:
    """Seconds, finite."""
    try:
        seconds = parse_duration(value)
    except NotAllowedError as error:
        raise NotAllowedError(error.reason, WAITS) from error
    if math.isinf(seconds):
        raise NotAllowedError("would wait for ever", WAITS)
    return seconds


def parse_timeout(value: object) -> float:
    """Seconds, finite and above zero."""
    try:
        seconds = parse_wait(value)
    except NotAllowedError as error:
        raise NotAllowedError(error.reason, TIMEOUTS) from error
    if seconds == 0:
        raise NotAllowedError("would give up at once", TIMEOUTS)
    return seconds


def parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else str(value)
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise NotAllowedError("neither true nor false", BOOLEANS)


def count_parser(at_least: int) -> Callable[[object], int]:
    allowed = f"a whole number, {at_least} or more"

    def parse_count(value: object) -> int:
        text = str(value).strip() if isinstance(value, (str, int)) else ""
        if isinstance(value, bool) or _COUNT.fullmatch(text) is None:
            raise NotAllowedError("not a count", allowed)
        if int(text) < at_least:
            raise NotAllowedError("too few", allowed)
        return int(text)

    return parse_count


def choice_parser(*choices: str) -> Callable[[object], str]:
    allowed = " or ".join(choices)

    def parse_choice(value: object) -> str:
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in choices:
            raise NotAllowedError("not one of them", allowed, did_you_mean(word, choices))
        return word

    return parse_choice


def parse_list(value: object) -> tuple[str, ...]:
    """Items of a comma-separated text, or of a YAML or flag list of such; "" is the empty list."""
    items = value if isinstance(value, (list, tuple)) else [value]
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        raise NotAllowedError("not a list of texts", "texts, separated by commas")
    split = [part.strip() for text in texts for part in text.split(",")] or [""]
    if split == [""]:
        return ()
    if "" in split:
        raise NotAllowedError("holds an empty item", "texts, separated by commas")
    return tuple(split)


def parse_share(value: object) -> float:
    """A share of all, from 0 to 1."""
    text = str(value).strip() if isinstance(value, (int, float, str)) else ""
    percent, number = _PERCENT.fullmatch(text), _SHARE.fullmatch(text)
    if isinstance(value, bool) or (percent is None and number is None):
        raise NotAllowedError("not a share", SHARES)
    share = float(number[0]) if number is not None else 0.0
    if percent is not None:
        share = float(Fraction(percent[1]) / 100)
    if share > 1:
        raise NotAllowedError("more than all", SHARES)
    return share


def format_share(share: float) -> str:
    """`parse_share` reads it back."""
    return f"{share:.15f}".rstrip("0").rstrip(".")


def format_size(size_bytes: int) -> str:
    """The exact spelling in the largest unit that divides it; `parse_size` reads it back."""
    for unit, bytes_per_unit in reversed(BINARY_UNITS.items()):
        if size_bytes and size_bytes % bytes_per_unit == 0:
            return f"{size_bytes // bytes_per_unit}{unit}"
    return str(size_bytes)


def format_size_rounded(size_bytes: int) -> str:
    """For people: `1.4 GiB`."""
    for unit, bytes_per_unit in reversed(BINARY_UNITS.items()):
        if size_bytes >= bytes_per_unit:
            return f"{size_bytes / bytes_per_unit:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size_bytes} bytes"


def format_duration(seconds: float) -> str:
    """The exact spelling in whole units where there is one; `parse_duration` reads it back."""
    if math.isinf(seconds):
        return "infinity"
    if seconds == 0:
        return "0s"
    for unit, unit_seconds in (("d", 86400), ("h", 3600)):
        if seconds % unit_seconds == 0:
            return f"{int(seconds // unit_seconds)}{unit}"
    if seconds == int(seconds):
        return f"{int(seconds)}s"
    return f"{seconds:f}".rstrip("0") + "s"


def format_percent(percent: Percent) -> str:
    return f"{percent.value:f}".rstrip("0").rstrip(".") + "%"
