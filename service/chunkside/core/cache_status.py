"""The Cache-Status member that every answer bears (RFC 9211)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from chunkside.core.decision import Forward

Result = Literal[
    "error",
    "bypass",
    "collapsed",
    "stale",
    "revalidated",
    "negative_hit",
    "hit",
    "miss",
]

# Integers of structured fields have 15 digits at most (RFC 9651 §3.3.1).
INTEGER_LIMIT: Final = 10**15


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """`ttl` in seconds; `fwd_status` is the origin's status; `detail` a token."""

    is_hit: bool = False
    forward: Forward | None = None
    fwd_status: int | None = None
    is_stored: bool = False
    is_collapsed: bool = False
    ttl: float | None = None
    detail: str | None = None

    def render(self) -> bytes:
        parts = ["chunkside"]
        if self.is_hit:
            parts.append("hit")
        if self.forward is not None:
            parts.append(f"fwd={self.forward}")
        if self.fwd_status is not None:
            parts.append(f"fwd-status={self.fwd_status}")
        if self.ttl is not None and abs(self.ttl) < INTEGER_LIMIT:
            parts.append(f"ttl={int(self.ttl)}")
        if self.is_stored:
            parts.append("stored")
        if self.is_collapsed:
            parts.append("collapsed")
        if self.detail is not None:
            parts.append(f"detail={self.detail}")
        return "; ".join(parts).encode()
