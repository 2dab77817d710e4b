"""The values that labels may have, so that no client or origin can make up series."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

RESULTS: Final = (
    "error",
    "bypass",
    "collapsed",
    "stale",
    "revalidated",
    "negative_hit",
    "hit",
    "miss",
)
METHODS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"})
KINDS: Final = ("body", "range", "marker")
EVICTION_REASONS: Final = ("budget", "index_memory", "marker_cap", "free_space")
REMOVAL_REASONS: Final = (
    *EVICTION_REASONS,
    "expired",
    "retention",
    "invalidated",
    "purged",
    "replaced",
    "corrupt",
)
BREAKER_STATES: Final = ("closed", "open", "half_open")
SPARED_REASONS: Final = ("breaker", "queue")
_CAUSES: Final = frozenset({"audit", "metadata", "purge"})
_CODES: Final = {status.value: str(status.value) for status in HTTPStatus}


def method_label(method: str) -> str:
    return method if method in METHODS else "other"


def code_label(status: int | None) -> str:
    """`none` where there was no head."""
    return "none" if status is None else _CODES.get(status, "other")


def cause_label(cause: str) -> str:
    """Of an invalidation: a method of clients', or what else brought it about."""
    return cause if cause in _CAUSES else method_label(cause)
