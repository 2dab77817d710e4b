"""Whether what is known may no longer be so: since an array was rewritten, or an administrator
doubts it.

A metadata document that changed, appeared or went says that what lies beneath its directory may be
of another array: bodies known from before are validated again, markers from before are forgotten.
What was asked for since is of the new array. A soft purge says the same of what it names. The stamp
table keeps it, so that every process on the directory knows, and so do those to come.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, TypeVar

from chunkside.core.ancestry import directory_at, directory_of, names_above
from chunkside.core.key import Object, is_array_document
from chunkside.core.ranges import Generation
from chunkside.gateway.ports import StampTable

_MOST_DOCUMENTS: Final = 1024
# Who opens an array asks for all names at once that its documents may have.
_ONE_OPENING_SECONDS: Final = 2.0

T = TypeVar("T")


@dataclass(slots=True)
class Doubts:
    """Times are boot-clock seconds. Raises StoreFault as the stamp table does."""

    stamps: StampTable
    # When each document's own change was noted: that says nothing against the document itself. And
    # until when its directory had been doubted before, which the note took the place of.
    _causes: OrderedDict[Object, tuple[float, float]] = field(default_factory=OrderedDict)

    # The same of the directories of documents that were seen for the first time.
    _sights: OrderedDict[Object, tuple[float, float]] = field(default_factory=OrderedDict)

    # What each document was when it was seen last, under whatever key.
    _seen: OrderedDict[Object, Generation | None] = field(default_factory=OrderedDict)

    def see(self, document: Object, generation: Generation | None) -> None:
        """A metadata document was seen; None where nothing tells its bytes from others, or it is
        gone.
        """
        _keep(self._seen, document, generation)

    def saw_last(self, document: Object, generation: Generation | None) -> bool:
        """Whether a document is surely what it was when it was seen last."""
        return generation is not None and self._seen.get(document) == generation

    def has_seen(self, document: Object) -> bool:
        """Also that it wasn't there."""
        return document in self._seen

    def note(self, document: Object, boot: float) -> None:
        """The metadata document `document` was found changed at `boot`."""
        directory = directory_of(document)
        before = self.stamps.doubted_at(directory)
        self.stamps.doubt(directory, boot)
        _keep(self._causes, document, (boot, before))

    def note_first_sight(self, document: Object, boot: float) -> None:
        """Nobody knows since when `document` is what it was seen to be at `boot`. That says nothing
        against the documents beside it which were asked for in the same opening: they are as old
        as it is.
        """
        directory = directory_of(document)
        sight, before_it = self._sights.get(directory, (None, 0.0))
        doubted_at = self.stamps.doubted_at(directory)
        self.note(document, boot)
        _keep(self._sights, directory, (boot, before_it if doubted_at == sight else doubted_at))

    def doubt(self, target: Object, boot: float, *, with_beneath: bool) -> None:
        """What was asked of `target`, and of all beneath it, until `boot` may no longer be so."""
        self.stamps.doubt(target, boot)
        if with_beneath:
            self.stamps.doubt(directory_at(target), boot)

    def has_doubted(self, target: Object, asked_at: float) -> bool:
        """Whether anything was said against what was asked of `target` at `asked_at`."""
        if asked_at > self.stamps.newest_doubt():
            return False
        own, before = self._causes.get(target, (None, 0.0))
        return any(
            asked_at <= (at := self.stamps.doubted_at(name))
            and (at != own or asked_at <= before)
            and not self._is_of_one_opening(target, asked_at, name, at)
            for name in names_above(target)
        )

    def _is_of_one_opening(self, target: Object, asked_at: float, name: Object, at: float) -> bool:
        """Whether what doubts `target` is the first sight of a document that it was asked with."""
        sight, before = self._sights.get(name, (None, 0.0))
        return (
            at == sight
            and asked_at > max(before, at - _ONE_OPENING_SECONDS)
            and name == directory_of(target)
            and is_array_document(target.path)
        )


def _keep(table: OrderedDict[Object, T], name: Object, value: T) -> None:
    """Of so many, those that came last."""
    table[name] = value
    table.move_to_end(name)
    if len(table) > _MOST_DOCUMENTS:
        table.popitem(last=False)
