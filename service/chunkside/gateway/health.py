"""Whether the disk is asked to take what comes: after a fault it is left alone for a while."""

from __future__ import annotations

from typing import Final

from chunkside.gateway.errors import StoreFault

_FIRST_REST_SECONDS: Final = 1.0
_LONGEST_REST_SECONDS: Final = 60.0
# What goes wrong with one body alone.
_NOT_THE_DISK: Final = frozenset({"closed", "length", "corrupt"})


class Health:
    """Rests twice as long after each fault in a row. Times are boot-clock seconds."""

    def __init__(self) -> None:
        self._rest_seconds = 0.0
        self._until = 0.0

    def failed(self, fault: StoreFault, boot: float) -> None:
        # Fills that run beside each other meet one and the same fault.
        if fault.cause in _NOT_THE_DISK or boot < self._until:
            return
        rest = max(_FIRST_REST_SECONDS, 2 * self._rest_seconds)
        self._rest_seconds = min(rest, _LONGEST_REST_SECONDS)
        self._until = boot + self._rest_seconds

    def worked(self) -> None:
        self._rest_seconds = 0.0

    def is_resting(self, boot: float) -> bool:
        return boot < self._until
