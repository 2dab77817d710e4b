"""What audits came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from chunkside.core.audit import Why
from chunkside.metrics.families import counter

VERDICTS: Final = ("agree", "changed", "wrong")
_KINDS: Final = ("body", "range", "marker")


class AuditCounts:
    def __init__(self) -> None:
        # With zeroes: rate() doesn't see a step from nothing to one.
        self._verdicts = Counter({(kind, each): 0 for kind in _KINDS for each in VERDICTS})
        self._left_out = Counter({(why.value,): 0 for why in Why})

    def audited(self, kind: str, verdict: str) -> None:
        self._verdicts[kind, verdict] += 1

    def left_out(self, reason: str) -> None:
        self._left_out[(str(reason),)] += 1

    def families(self) -> Iterator[Metric]:
        yield counter("audits", ("kind", "verdict"), self._verdicts.items())
        yield counter("audits_left_out", ("reason",), self._left_out.items())
