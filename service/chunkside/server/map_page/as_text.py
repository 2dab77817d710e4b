"""A chunk map for terminals and scripts."""

from __future__ import annotations

import json
from typing import Final

from chunkside.arrays.plane import Plane, spelled
from chunkside.server.map_page.chunk_map import (
    ANSWERED,
    MEANING,
    STATES,
    Cell,
    ChunkMap,
    State,
    headline,
    remarks,
    state_of,
)

_SIGNS: Final[dict[State, str]] = {
    "held": "#",
    "part": "+",
    "absent": "-",
    "expired": "~",
    "unknown": ".",
}
_MARK_EVERY: Final = 10


def as_text(shown: ChunkMap) -> str:
    """One sign for each cell, rows and columns numbered, what the signs mean beneath."""
    told = [shown.shown_target, headline(shown), _where(shown), *remarks(shown), ""]
    told += _drawn(shown)
    totals, whole = shown.totals, shown.totals.total()
    told.append("")
    for state, sign in _SIGNS.items():
        percent = 100 * totals[state] / whole if whole else 0.0
        told.append(f"{sign}  {totals[state]:>9,}  {percent:5.1f} %  {MEANING[state]}")
    if shown.plane.is_binned:
        told.append("0-9 where a cell's chunks differ: tenths of them answered without the origin")
    return "\n".join(told) + "\n"


def _where(shown: ChunkMap) -> str:
    plane = shown.plane
    where = f"slice {spelled(plane.chosen) or '(none)'}"
    match plane.axes:
        case (rows, columns):
            return f"{where} (rows along dimension {rows}, columns along dimension {columns})"
        case (only,):
            return f"{where} (along dimension {only}, row by row)"
        case _:
            return where


def _drawn(shown: ChunkMap) -> list[str]:
    plane = shown.plane
    labels = [str(plane.first_chunk(row, 0)) for row in range(len(shown.rows))]
    margin = max(map(len, labels), default=0)
    lines = [" " * (margin + 2) + _ruler(plane)] if len(plane.axes) == 2 else []
    for label, row in zip(labels, shown.rows, strict=True):
        signs = "".join(_sign(cell) for cell in row)
        lines.append(f"{label:>{margin}}  {signs}".rstrip())
    return lines


def _ruler(plane: Plane) -> str:
    """The chunk's number above every tenth column."""
    _, width = plane.shape
    ruler = ""
    for column in range(0, width, _MARK_EVERY):
        label = str(plane.first_chunk(0, column) if column else plane.ranges[plane.axes[1]].start)
        ruler = ruler.ljust(column) + label
    return ruler.rstrip()


def _sign(cell: Cell) -> str:
    whole = cell.total()
    if not whole:
        return " "
    state = state_of(cell)
    if state is not None:
        return _SIGNS[state]
    return str(min(9, 10 * sum(cell[each] for each in ANSWERED) // whole))


def as_json(shown: ChunkMap) -> str:
    """`cells`: rows of them, each with counts in the order of `states`."""
    plane, array = shown.plane, shown.array
    members = {
        "array": shown.shown_target,
        "document": shown.document.name,
        "document_is_held": shown.document.is_held,
        "format": array.format,
        "shape": array.grid.shape,
        "chunk_shape": array.grid.chunk_shape,
        "inner_chunk_shape": array.inner_chunk_shape,
        "grid": array.grid.grid_shape,
        "slice": spelled(plane.chosen),
        "dimensions": plane.axes,
        "first_chunks": [each.start for each in plane.ranges],
        "chunks_per_cell": plane.per_cell,
        "one_looked_at_of": plane.steps,
        "is_scanning": shown.is_scanning,
        "totals": {state: shown.totals[state] for state in STATES},
        "states": STATES,
        "cells": [[[cell[state] for state in STATES] for cell in row] for row in shown.rows],
    }
    return json.dumps(members) + "\n"
