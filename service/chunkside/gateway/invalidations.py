"""What made things invalid not long ago, for people to be told: when, and by what."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from chunkside.core.ancestry import directory_at, names_above
from chunkside.core.entry import Now
from chunkside.core.key import Object

_MOST: Final = 4096
# A name may be as long as a request's target.
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Invalidation:
    """`cause`: a noun in words, such as `a PUT`."""

    at: Now
    cause: str


@dataclass(slots=True)
class Invalidations:
    """The newest of each name, by this process; those noted longest ago are forgotten first."""

    # By an object's name, or by that of a directory for all that lies beneath it.
    _newest: OrderedDict[tuple[Object, bool], Invalidation] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def note(self, target: Object, cause: str, at: Now, *, with_beneath: bool = False) -> None:
        self._note((target, False), Invalidation(at, cause))
        if with_beneath:
            self._note((directory_at(target), True), Invalidation(at, cause))

    def note_beneath(self, directory: Object, cause: str, at: Now) -> None:
        """Of all that lies in a directory, which is named with a slash at its end."""
        self._note((directory, True), Invalidation(at, cause))

    def last_of(self, target: Object) -> Invalidation | None:
        """The newest that reached an object."""
        names = [(target, False), *((name, True) for name in names_above(target))]
        found = [known for name in names if (known := self._newest.get(name)) is not None]
        return max(found, key=lambda known: known.at.boot, default=None)

    def _note(self, name: tuple[Object, bool], what: Invalidation) -> None:
        if name not in self._newest:
            self._bytes += len(name[0].path)
        self._newest[name] = what
        self._newest.move_to_end(name)
        while len(self._newest) > _MOST or self._bytes > _MOST_BYTES:
            (forgotten, _), _ = self._newest.popitem(last=False)
            self._bytes -= len(forgotten.path)
