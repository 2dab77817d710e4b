"""Which arrays were found rewritten at the origin, and when.

A metadata document that changed, appeared or went says that what lies beneath its directory may be
of another array: bodies known from before are validated again, markers from before are forgotten.
What was asked for since is of the new array. Times are boot-clock seconds.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from chunkside.core.key import Object

_MOST_DIRECTORIES: Final = 4096


class Changes:
    """Bounded: past the limit the oldest change counts for its whole location."""

    def __init__(self, most: int = _MOST_DIRECTORIES) -> None:
        self._most = most
        # When, and by which document, of each directory.
        self._last: OrderedDict[tuple[str, bytes], tuple[float, bytes]] = OrderedDict()

    def note(self, document: Object, boot: float) -> None:
        """The metadata document `document` was found changed at `boot`."""
        directory = document.path[: document.path.rfind(b"/") + 1] or b"/"
        self._set(document.location, directory, (boot, document.path))
        if len(self._last) > self._most:
            (location, _), (time, _) = self._last.popitem(last=False)
            self._set(location, b"/", (time, b""))

    def _set(self, location: str, directory: bytes, change: tuple[float, bytes]) -> None:
        name = (location, directory)
        self._last[name] = max(change, self._last.get(name, change))
        self._last.move_to_end(name)

    def last_above(self, target: Object) -> float:
        """When something above `target`, but not itself, last changed; -inf for never."""
        last = -math.inf
        if not self._last:
            return last
        end = target.path.rfind(b"/") + 1
        while end > 0:
            change = self._last.get((target.location, target.path[:end]))
            if change is not None and change[1] != target.path:
                last = max(last, change[0])
            end = target.path.rfind(b"/", 0, end - 1) + 1
        return last
