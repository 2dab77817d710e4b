"""Which hits are audited: a countdown that all ways of answering share."""

from __future__ import annotations

import random
from collections.abc import Callable

from chunkside.core.audit import hits_until_next


class Sampler:
    """`share`: of hits, above 0 and at most 1. `chance` draws from [0, 1)."""

    __slots__ = ("_chance", "_left", "_share")

    def __init__(self, share: float, chance: Callable[[], float] = random.random) -> None:
        self._share = share
        self._chance = chance
        self._left = hits_until_next(share, chance())

    def passes(self) -> bool:
        """Counts a hit that is about to be answered without an audit; False where it is due for
        one, and is to be left to whoever asks `is_due`.
        """
        if self._left <= 1:
            return False
        self._left -= 1
        return True

    def is_due(self) -> bool:
        """Counts a hit; whether it is to be audited."""
        if self.passes():
            return False
        self._left = hits_until_next(self._share, self._chance())
        return True
