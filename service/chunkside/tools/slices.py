"""A block of an array as people write it: `0:100,:,5`."""

from __future__ import annotations

import re
from typing import Final

SLICES: Final = "a slice for each dimension, such as 0:100,:,5 (elements, as in Python, no steps)"
_PART: Final = re.compile(r"\s*(-?[0-9]{1,19})?\s*(:?)\s*(-?[0-9]{1,19})?\s*", re.ASCII)


def parse_slices(text: str) -> tuple[slice, ...]:
    """A number alone is one element. Raises ValueError with what is wrong."""
    return tuple(_parse_part(part) for part in text.split(","))


def _parse_part(text: str) -> slice:
    found = _PART.fullmatch(text)
    if found is None or not (found[1] or found[2]):
        raise ValueError(f"{text.strip()!r} is no slice")
    first = None if found[1] is None else int(found[1])
    if found[2]:
        return slice(first, None if found[3] is None else int(found[3]))
    assert first is not None
    if found[3]:
        raise ValueError(f"{text.strip()!r} is no slice")
    return slice(first, None if first == -1 else first + 1)
