"""Bytes per element of the data types that arrays are made of."""

from __future__ import annotations

import re
from typing import Final

_V2: Final = re.compile(r"[<>|=]?([?bBiufcmMSVUO])([0-9]{0,9})(?:\[[0-9]{0,9}[A-Za-z]{1,8}\])?")
_NAMED: Final = re.compile(r"(?:u?int|float|complex|bfloat|r)([0-9]{1,9})")
_LENGTHS: Final = frozenset({"fixed_length_utf32", "null_terminated_bytes", "raw_bytes"})
_TIMES: Final = frozenset({"numpy.datetime64", "numpy.timedelta64"})
_UCS4_BYTES: Final = 4
_MAX_FIELDS: Final = 1000


def v2_item_bytes(dtype: object) -> int | None:
    """Of a `dtype` of Zarr v2: None where elements have no one size (objects), or none is known."""
    if isinstance(dtype, list):
        return _fields_bytes(dtype)
    found = _V2.fullmatch(dtype) if isinstance(dtype, str) else None
    if found is None or found[1] == "O":
        return None
    size = int(found[2] or 1)
    return size * _UCS4_BYTES if found[1] == "U" else size


def _fields_bytes(fields: list[object]) -> int | None:
    total = 0
    if len(fields) > _MAX_FIELDS:
        return None
    for field in fields:
        if not isinstance(field, list) or len(field) != 2:
            return None
        # A field of fields is rare enough to have no known size.
        size = v2_item_bytes(field[1]) if isinstance(field[1], str) else None
        if size is None:
            return None
        total += size
    return total


def v3_item_bytes(data_type: object) -> int | None:
    """Of a `data_type` of Zarr v3, or a `dataType` of N5: None where elements have no one size."""
    match data_type:
        case "bool":
            return 1
        case str():
            found = _NAMED.fullmatch(data_type)
            bits = int(found[1]) if found is not None else 0
            return bits // 8 if bits and bits % 8 == 0 else None
        case {"name": str(name), "configuration": {"length_bytes": int(length)}}:
            return length if name in _LENGTHS and 0 < length < 2**31 else None
        case {"name": str(name)}:
            return 8 if name in _TIMES else v3_item_bytes(name)
        case _:
            return None
