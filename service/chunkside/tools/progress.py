"""How far a long command has come: a bar on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TextIO

_REDRAW_SECONDS: Final = 0.1
_PLAIN_SECONDS: Final = 5.0
_BAR_CELLS: Final = 16
_ERASE_LINE: Final = "\r\x1b[K"


class Progress:
    """`total`: what `done` comes to at the end. `clock`: seconds, never stepping back."""

    def __init__(
        self, stream: TextIO, total: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._total = total
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._started = clock()
        self._next = self._started + (0.0 if self._is_terminal else _PLAIN_SECONDS)
        self._is_drawn = False

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self._clock() - self._started

    def show(self, done: int, text: str) -> None:
        """Says how far it is, unless that was said just now. `text`: the same in words."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + (_REDRAW_SECONDS if self._is_terminal else _PLAIN_SECONDS)
        part = min(1.0, done / self._total) if self._total else 1.0
        line = f"{part:4.0%}  {text}{self._left(part)}"
        if self._is_terminal:
            filled = round(part * _BAR_CELLS)
            line = f"[{'#' * filled}{'.' * (_BAR_CELLS - filled)}] {line}"
            self._stream.write(_ERASE_LINE + line[: self._columns() - 1])
            self._is_drawn = True
        else:
            self._stream.write(line.strip() + "\n")
        self._stream.flush()

    def make_way(self) -> None:
        """Takes the bar away, so that a line can be printed. It comes back by itself."""
        if self._is_drawn:
            self._stream.write(_ERASE_LINE)
            self._stream.flush()
            self._is_drawn = False
            self._next = self._clock()

    def _left(self, part: float) -> str:
        if not 0.01 <= part < 1:
            return ""
        left = round(self.seconds * (1 - part) / part)
        return f", {left // 60}:{left % 60:02} left"

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80
