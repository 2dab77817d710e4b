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
from typing import Final

from chunkside.core.ancestry import directory_at, directory_of, names_above
from chunkside.core.key import Object
from chunkside.core.ranges import Generation
from chunkside.gateway.ports import StampTable

_MOST_DOCUMENTS: Final = 1024


@dataclass(slots=True)
class Doubts:
    """Times are boot-clock seconds. Raises StoreFault as the stamp table does."""

    stamps: StampTable
    # When each document's own change was noted: that says nothing against the document itself. And
    # until when its directory had been doubted before, which the note took the place of.
    _causes: OrderedDict[Object, tuple[float, float]] = field(default_factory=OrderedDict)

    # What each document was when it was seen last, under whatever key.
    _seen: OrderedDict[Object, Generation | None] = field(default_factory=OrderedDict)

    def see(self, document: Object, generation: Generation | None) -> None:
        """A metadata document was seen; None where nothing tells its bytes from others, or it is
        gone.
        """
        self._seen[document] = generation
        self._seen.move_to_end(document)
        if len(self._seen) > _MOST_DOCUMENTS:
            self._seen.popitem(last=False)

    def saw_last(self, document: Object, generation: Generation | None) -> bool:
        """Whether a document is surely what it was when it was seen last."""
        return generation is not None and self._seen.get(document) == generation

    def note(self, document: Object, boot: float) -> None:
        """The metadata document `document` was found changed at `boot`."""
        directory = directory_of(document)
        before = self.stamps.doubted_at(directory)
        self.stamps.doubt(directory, boot)
        self._causes[document] = boot, before
        self._causes.move_to_end(document)
        if len(self._causes) > _MOST_DOCUMENTS:
            self._causes.popitem(last=False)

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
            asked_at <= (at := self.stamps.doubted_at(name)) and (at != own or asked_at <= before)
            for name in names_above(target)
        )
