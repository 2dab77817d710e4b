"""Whether a key is a chunk's, and of which array, by the key and by what documents say of their
chunks' keys.

A key of coordinates says how many directories may be the array's: those that are numbers, and the
one above them. What lies higher is not looked at: it would be of another array, or of a group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from chunkside.arrays.document import NotAnArray, parse_array, read_members

_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
# Zarr v2 `0.0.0`; v3 `c.0.0`, and `c` for an array without dimensions.
_FLAT: Final = re.compile(rb"[0-9]{1,19}(?:\.[0-9]{1,19})+")
_FLAT_V3: Final = re.compile(rb"c(?:\.[0-9]{1,19})*")
# Neuroglancer's precomputed volumes: a directory for each scale, one document above all of them.
_PRECOMPUTED: Final = re.compile(rb"[0-9]+-[0-9]+_[0-9]+-[0-9]+_[0-9]+-[0-9]+|[0-9a-f]+\.shard")
_MOST_LEVELS: Final = 12
# As arrays spell coordinates: without zeros before them.
_COORDINATE: Final = re.compile(rb"(?<![0-9])(?:0|[1-9][0-9]{0,18})(?![0-9])")


def own_documents(path: bytes) -> Iterator[bytes]:
    """Paths at which the document of a chunk's array may lie, likeliest first; none for what is no
    chunk's key.
    """
    directory, _, last = path.rpartition(b"/")
    if _FLAT_V3.fullmatch(last):
        yield directory + b"/zarr.json"
    elif _FLAT.fullmatch(last):
        yield from (directory + name for name in (b"/.zarray", b"/zarr.json"))
    elif _PRECOMPUTED.fullmatch(last):
        yield directory.rpartition(b"/")[0] + b"/info"
    elif _NUMBER.fullmatch(last):
        yield from _above_numbers(directory)


def _above_numbers(directory: bytes) -> Iterator[bytes]:
    levels = [directory]
    while len(levels) < _MOST_LEVELS and _NUMBER.fullmatch(levels[-1].rpartition(b"/")[2]):
        levels.append(levels[-1].rpartition(b"/")[0])
    above, _, name = levels[-1].rpartition(b"/")
    if name == b"c":
        yield above + b"/zarr.json"
    for each in (b"/.zarray", b"/zarr.json", b"/attributes.json"):
        yield from (level + each for level in levels)


def forms_of(path: bytes, document: bytes) -> tuple[bytes, ...]:
    """What the chunks' keys of an array at `document` have in common if `path` is one of them: `#`
    in the place of each coordinate, and what an array of no dimensions has.
    """
    key = _relative(path, document)
    if _name(document) == b"info":
        return (key.rpartition(b"/")[0],)
    return _COORDINATE.sub(b"#", key), key


def own_form(path: bytes, document: bytes, body: bytes) -> bytes | None:
    """Which of these forms it is that `path` has as a chunk of the array that `body`, which lies at
    `document`, tells of, as that spells them; None if it is none of its chunks.

    Beyond the shape it told of there may be chunks by now: those count.
    """
    key, name = _relative(path, document), _name(document)
    form, *_ = forms_of(path, document)
    try:
        if name == b"info":
            return form if form in _scales(read_members(body)) else None
        array = parse_array(name.decode(errors="replace"), body)
    except NotAnArray:
        return None
    spelled, rank = key.decode(errors="replace"), array.grid.rank
    if array.grid.keys.coordinates(spelled, rank) is None:
        return None
    return form if rank else key


def _relative(path: bytes, document: bytes) -> bytes:
    return path.removeprefix(document.rpartition(b"/")[0] + b"/")


def _name(document: bytes) -> bytes:
    return document.rpartition(b"/")[2]


def _scales(info: Mapping[str, object]) -> set[bytes]:
    scales = info.get("scales")
    told = scales if isinstance(scales, list) else []
    keys = (each.get("key") for each in told if isinstance(each, dict))
    return {key.encode(errors="replace") for key in keys if isinstance(key, str)}
