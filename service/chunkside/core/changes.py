"""Which arrays were found rewritten at the origin, and when; and what an administrator doubts.

A metadata document that changed, appeared or went says that what lies beneath its directory may be
of another array: bodies known from before are validated again, markers from before are forgotten.
What was asked for since is of the new array. A soft purge says the same of what it names. Times are
boot-clock seconds.
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
        # When, and by which document, of each directory (location and path) and single object.
        self._last: OrderedDict[tuple[str, bytes] | Object, tuple[float, bytes]] = OrderedDict()

    def note(self, document: Object, boot: float) -> None:
        """The metadata document `document` was found changed at `boot`."""
        directory = document.path[: document.path.rfind(b"/") + 1] or b"/"
        self._set((document.location, directory), (boot, document.path))

    def doubt(self, target: Object, boot: float, *, with_beneath: bool) -> None:
        """What was asked of `target`, and of all beneath it, until `boot` may no longer be so."""
        self._set(target, (boot, b""))
        if with_beneath:
            self._set((target.location, target.path.rstrip(b"/") + b"/"), (boot, b""))

    def _set(self, name: tuple[str, bytes] | Object, change: tuple[float, bytes]) -> None:
        self._put(name, change)
        if len(self._last) > self._most:
            oldest, (time, _) = self._last.popitem(last=False)
            location = oldest.location if isinstance(oldest, Object) else oldest[0]
            self._put((location, b"/"), (time, b""))

    def _put(self, name: tuple[str, bytes] | Object, change: tuple[float, bytes]) -> None:
        self._last[name] = max(change, self._last.get(name, change))
        self._last.move_to_end(name)

    def last_above(self, target: Object) -> float:
        """When something above `target`, but not itself, last changed, or it was doubted; -inf for
        never.
        """
        last = -math.inf
        if not self._last:
            return last
        doubted = self._last.get(target)
        if doubted is not None:
            last = doubted[0]
        end = target.path.rfind(b"/") + 1
        while end > 0:
            change = self._last.get((target.location, target.path[:end]))
            if change is not None and change[1] != target.path:
                last = max(last, change[0])
            end = target.path.rfind(b"/", 0, end - 1) + 1
        return last
