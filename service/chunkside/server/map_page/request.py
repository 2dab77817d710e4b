"""What `/map/…` is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from chunkside.arrays.document import ARRAY_DOCUMENTS
from chunkside.arrays.plane import Selection, parse_selection
from chunkside.core.fields import Fields
from chunkside.server.raw_target import target_behind

PATH: Final = "/map"
HELP: Final = (
    "Put /map before the path of an array on the data port, and for other dimensions than the last "
    "two ?slice=0,:,: behind it: an element for a dimension that isn't shown, a slice for one that "
    "is. Send the credential that its reader sends: what was learned with it is seen with it alone."
)
# What an asker says of how the map itself is to come, and what browsers say of themselves: no
# reader of the array would send it.
_OF_THE_MAP: Final = frozenset(
    {
        *(b"accept", b"accept-encoding", b"accept-language", b"cache-control", b"pragma"),
        *(b"range", b"if-range", b"if-match", b"if-none-match", b"if-modified-since"),
        *(b"if-unmodified-since", b"origin", b"referer", b"upgrade-insecure-requests", b"dnt"),
        *(b"priority", b"user-agent", b"chunkside-control"),
    }
)


@dataclass(frozen=True, slots=True)
class MapRequest:
    """`target`: of the array, without a slash at its end. `selection`: None for the last two
    dimensions. `fields`: as a reader would send them.
    """

    target: bytes
    selection: Selection | None
    fields: Fields


def parse_map(raw_path: str, raw_headers: Iterable[tuple[bytes, bytes]]) -> MapRequest:
    """Raises ValueError with a sentence on what is wrong."""
    path, _, query = target_behind(PATH, raw_path).partition(b"?")
    directory, _, name = path.rpartition(b"/")
    if name.decode(errors="replace") in ARRAY_DOCUMENTS:
        path = directory
    fields = Fields(raw_headers).without(_OF_THE_MAP)
    fields = Fields(line for line in fields if not line[0].lower().startswith(b"sec-"))
    return MapRequest(path.rstrip(b"/"), _selection(query), fields)


def _selection(query: bytes) -> Selection | None:
    selection: Selection | None = None
    pairs = parse_qsl(query.decode(errors="replace"), keep_blank_values=True)
    for name, value in pairs:
        if name != "slice":
            raise ValueError(f"{json.dumps(name)} means nothing here.")
        if selection is not None:
            raise ValueError('"slice" is there twice.')
        selection = parse_selection(value)
    return selection
