"""What the console gives the admin port's pages to show, filled in as far as a page needs it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from chunkside.arrays.document import parse_array
from chunkside.arrays.plane import parse_selection, plane_of
from chunkside.metrics import Metrics
from chunkside.metrics.reading import Reading
from chunkside.metrics.recent import Recent
from chunkside.server.map_page.chunk_map import Cell, ChunkMap, Document
from chunkside.status import status_of
from tests.arrays.samples import zarr3

EVIL = "<script>alert(1)</script>\"'&"


def a_status(**other: object) -> dict[str, Any]:
    """Of a sidecar that had some of everything."""
    metrics = Metrics("1")
    recent = Recent(metrics.counted, lambda: 1_800_000_000.0)
    for result, times in {"hit": 30, "negative_hit": 50, "miss": 15, "error": 5}.items():
        for _ in range(times):
            metrics.request_ended("/", "chunk", "GET", result, 200, 1000, 0.001)
    metrics.upstream_answered("/", "chunk", "GET", 503, 0.1)
    metrics.removed("body", "budget", 3)
    metrics.store_failed("commit", "ENOSPC")
    recent.step()
    recent.saw(b"/a.zarr/c/0/0", "hit", 200, 31)
    recent.saw(b"/a.zarr/c/0/1", "negative_hit", 404)
    recent.saw(b"/b.zarr/c/0/1", "error", 503)
    info = {
        "version": "1.2.3",
        "uptime_seconds": 61.0,
        "ttl": 300.0,
        "cache_missing": True,
        "routes": [{"prefix": "/", "upstream": "http://origin", "absent_statuses": [404, 410]}],
    }
    reading = Reading(metrics.collect())
    return status_of(reading, recent, info, None, is_scanning=False) | other


def a_map(
    shape: tuple[int, ...] = (20, 20),
    selection: str | None = None,
    target: bytes = b"/a.zarr",
    cells: dict[tuple[int, int], Cell] | None = None,
    **document: object,
) -> ChunkMap:
    """`cells`: those that aren't unknown."""
    array = parse_array("zarr.json", zarr3(shape, (1,) * len(shape), **document))
    plane = plane_of(array.grid, None if selection is None else parse_selection(selection))
    height, width = plane.shape
    rows = [[_unknown(plane, row, column) for column in range(width)] for row in range(height)]
    for (row, column), cell in (cells or {}).items():
        rows[row][column] = cell
    return ChunkMap(target, Document("zarr.json", is_held=True), array, plane, rows, False)


def _unknown(plane: Any, row: int, column: int) -> Cell:
    cell: Cell = Counter()
    cell["unknown"] = sum(len(batch) for batch in plane.batches(row, column, b""))
    return cell
