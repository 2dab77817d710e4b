"""Which documents were refused not long ago, and to whom: rights that come back don't come back
everywhere at once, so that for a while what such a document is answered proves nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from chunkside.core.key import CacheKey

_MOST_DOCUMENTS: Final = 4096


@dataclass(slots=True)
class Denials:
    """Times are boot-clock seconds. A key says whose credential was refused."""

    _at: OrderedDict[CacheKey, float] = field(default_factory=OrderedDict)
    # The last one that there was no room for: it may be of any.
    _forgotten_at: float = float("-inf")

    def note(self, document: CacheKey, boot: float) -> None:
        self._at[document] = boot
        self._at.move_to_end(document)
        if len(self._at) > _MOST_DOCUMENTS:
            _, self._forgotten_at = self._at.popitem(last=False)

    def last_of(self, document: CacheKey) -> float:
        """When it was refused last, or may have been."""
        return self._at.get(document, self._forgotten_at)
