"""SIGHUP, for the life of the process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType


class Hangups:
    """From before there is a loop until after it: none ends the process."""

    def __init__(self) -> None:
        self._on_hangup: Callable[[], object] | None = None
        self._came = False
        signal.signal(signal.SIGHUP, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        if self._on_hangup is not None:
            self._on_hangup()

    def hear(self, on_hangup: Callable[[], object]) -> None:
        """Calls it for each that comes, and for those that came before."""
        self._on_hangup = on_hangup
        if self._came:
            on_hangup()

    def ignore(self) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
