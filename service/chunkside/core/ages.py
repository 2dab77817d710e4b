"""Which files a sweep takes: those that nobody has used for too long, then the oldest.

Files are many and are looked at twice: once to see how their bytes lie over time, once to take
those that are older than what that told. So only a count for each minute is kept.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

_BUCKET_SECONDS: Final = 60.0


Verdict = Literal["keep", "expired", "oldest"]


@dataclass(slots=True)
class Plan:
    """Files last used before `expired_before` go, whatever room there is; so do those used before
    `oldest_before`, and of those used up to `within` as many as make up `left_bytes`. Wall-clock
    seconds.
    """

    expired_before: float
    oldest_before: float = -math.inf
    within: float = -math.inf
    left_bytes: int = 0

    def takes_any(self, ages: Ages) -> bool:
        """Whether it is of any use to look at the files again."""
        return self.within > -math.inf or ages.oldest < self.expired_before

    def judge(self, used_at: float, size: int) -> Verdict:
        """What to do with a file; what is to be taken is counted."""
        if used_at < self.expired_before:
            return "expired"
        if used_at < self.oldest_before:
            return "oldest"
        if used_at < self.within and self.left_bytes > 0:
            self.left_bytes -= size
            return "oldest"
        return "keep"


class Ages:
    """Bytes by when they were last used; what claims to be of the future counts as of now."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._bytes: Counter[int] = Counter()
        self.total_bytes = 0
        self.files = 0
        self.oldest = math.inf

    def add(self, used_at: float, size: int) -> None:
        self._bytes[int(self.as_used(used_at) // _BUCKET_SECONDS)] += size
        self.total_bytes += size
        self.files += 1
        self.oldest = min(self.oldest, used_at)

    def as_used(self, used_at: float) -> float:
        return min(used_at, self._now)

    def plan(self, retention_seconds: float, excess_bytes: int) -> Plan:
        """`excess_bytes`: how much must go. What expires counts towards it."""
        plan = Plan(self._now - retention_seconds)
        found = 0
        for bucket in sorted(self._bytes):
            if found >= excess_bytes:
                break
            plan.oldest_before = bucket * _BUCKET_SECONDS
            plan.within = plan.oldest_before + _BUCKET_SECONDS
            plan.left_bytes = excess_bytes - found
            found += self._bytes[bucket]
        return plan
