"""The arrays of a group, as its consolidated metadata tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from chunkside.arrays.document import (
    Array,
    NotAnArray,
    NotZarr,
    read_members,
    zarr2_array,
    zarr3_array,
)

MAX_ARRAYS: Final = 10_000

_Members = Mapping[str, object]


def arrays_beneath(name: str, body: bytes) -> dict[str, Array | NotAnArray] | None:
    """Each array of a group by its path from there, or why it is none that can be worked with.

    `name`: `zarr.json` or `.zmetadata`. None where the document consolidates nothing. Raises
    NotAnArray for what can't be read.
    """
    told = _consolidated(name, read_members(body))
    if told is None:
        return None
    found: dict[str, Array | NotAnArray] = {}
    for path, member in told.items():
        if not isinstance(member, dict) or not _is_of_an_array(name, path, member):
            continue
        if len(found) == MAX_ARRAYS:
            raise NotZarr(f"It tells of more than {MAX_ARRAYS} arrays.")
        at = path if name == "zarr.json" else path.removesuffix(".zarray").removesuffix("/")
        found[_checked(at)] = _array(name, member)
    return found


def _consolidated(name: str, document: _Members) -> dict[str, object] | None:
    held = document.get("consolidated_metadata") if name == "zarr.json" else document
    metadata = held.get("metadata") if isinstance(held, Mapping) else None
    return metadata if isinstance(metadata, dict) else None


def _is_of_an_array(name: str, path: str, member: _Members) -> bool:
    if name == "zarr.json":
        return member.get("node_type") == "array"
    return path == ".zarray" or path.endswith("/.zarray")


def _array(name: str, member: _Members) -> Array | NotAnArray:
    try:
        return zarr3_array(member) if name == "zarr.json" else zarr2_array(member)
    except NotAnArray as error:
        return error


def _checked(path: str) -> str:
    """Raises NotZarr for a path that leads elsewhere than beneath the group."""
    if path and any(part in ("", ".", "..") for part in path.split("/")):
        raise NotZarr("It tells of an array whose path is none beneath it.")
    return path
