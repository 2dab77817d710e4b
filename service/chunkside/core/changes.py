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

_Name = tuple[str, bytes] | Object
_Change = tuple[float, bytes]


class Changes:
    """Bounded: past the limit the oldest changes count for the directory above theirs, so that many
    in one array make that array doubtful, and no other.
    """

    def __init__(self, most: int = _MOST_DIRECTORIES) -> None:
        self._most = most
        # When, and by which document, of each directory (location and path) and single object.
        self._last: OrderedDict[_Name, _Change] = OrderedDict()
        # Of each location's root, which nothing is above.
        self._roots: dict[str, _Change] = {}

    def note(self, document: Object, boot: float) -> None:
        """The metadata document `document` was found changed at `boot`."""
        self._set(_directory_above(document), (boot, document.path))

    def doubt(self, target: Object, boot: float, *, with_beneath: bool) -> None:
        """What was asked of `target`, and of all beneath it, until `boot` may no longer be so."""
        self._set(target, (boot, b""))
        if with_beneath:
            self._set((target.location, target.path.rstrip(b"/") + b"/"), (boot, b""))

    def _set(self, name: _Name, change: _Change) -> None:
        self._put(name, change)
        while len(self._last) > self._most:
            oldest, (time, _) = self._last.popitem(last=False)
            self._put(_directory_above(oldest), (time, b""))

    def _put(self, name: _Name, change: _Change) -> None:
        if not isinstance(name, Object) and name[1] == b"/":
            self._roots[name[0]] = max(change, self._roots.get(name[0], change))
            return
        self._last[name] = max(change, self._last.get(name, change))
        self._last.move_to_end(name)

    def last_above(self, target: Object) -> float:
        """When something above `target`, but not itself, last changed, or it was doubted; -inf for
        never.
        """
        changes = [self._roots.get(target.location)]
        if self._last:
            changes.append(self._last.get(target))
            end = target.path.rfind(b"/") + 1
            while end > 1:
                changes.append(self._last.get((target.location, target.path[:end])))
                end = target.path.rfind(b"/", 0, end - 1) + 1
        return max(
            (change[0] for change in changes if change is not None and change[1] != target.path),
            default=-math.inf,
        )


def _directory_above(name: _Name) -> tuple[str, bytes]:
    """The directory that an object lies in, or a directory does."""
    location, path = (name.location, name.path) if isinstance(name, Object) else name
    return location, path[: path.rfind(b"/", 0, -1 if path.endswith(b"/") else None) + 1] or b"/"
