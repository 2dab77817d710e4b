"""How often an origin was asked for one request of a client's, whichever task asked.

Tasks inherit the context of whoever starts them: a fill counts for the request that began it, and
not for those that join it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Tries:
    count: int = 0


_CURRENT: Final[ContextVar[Tries | None]] = ContextVar("tries", default=None)


@contextmanager
def counted() -> Iterator[Tries]:
    """Counts what is asked for the sake of what runs within, until long after."""
    tries = Tries()
    token = _CURRENT.set(tries)
    try:
        yield tries
    finally:
        _CURRENT.reset(token)


def tried() -> None:
    """An origin was asked once."""
    tries = _CURRENT.get()
    if tries is not None:
        tries.count += 1
