"""SIGHUP, for the life of the process, and SIGTERM until there is a loop that hears it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn


def end_when_told() -> None:
    """Nothing runs yet that must end well. To the first process of a container a signal that nobody
    hears means nothing: it would be killed at the end of its grace period.
    """
    signal.signal(signal.SIGTERM, _end)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


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
