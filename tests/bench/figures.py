"""How figures of several rounds are told."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and most."""

    values: Sequence[float]
    digits: int = 0

    def __str__(self) -> str:
        middle, least, most = (
            f"{value:,.{self.digits}f}"
            for value in (statistics.median(self.values), min(self.values), max(self.values))
        )
        return f"{middle} ({least}-{most})"


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
