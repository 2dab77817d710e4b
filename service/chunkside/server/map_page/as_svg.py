"""A chunk map as a picture: one unit is one cell.

States differ in shape, not in colour alone: held is full, part of it half, an absence a small
square, what is unknown hollow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from chunkside.server.map_page.chunk_map import MEANING, STATES, Cell, ChunkMap, State, state_of
from chunkside.server.status_page.markup import asset_of, count, source_hash, text

STYLE: Final = asset_of(__package__ or "", "map.css")
POLICY: Final = (
    f"default-src 'none'; style-src {source_hash(STYLE)}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_MARK_EVERY: Final = 10
_LEAST_PIXELS: Final = 13
_MOST_PIXELS: Final = 28
_WIDTH_PIXELS: Final = 840
_LETTER_PIXELS: Final = 11
_MARGIN: Final = 1.0
_SHAPES: Final[dict[State, str]] = {
    "held": '<rect class="m-held" x=".04" y=".04" width=".92" height=".92"/>',
    "part": (
        '<rect class="m-frame" x=".08" y=".08" width=".84" height=".84"/>'
        '<path class="m-part" d="M.08 .92V.08L.92 .92z"/>'
    ),
    "absent": '<rect class="m-absent" x=".26" y=".26" width=".48" height=".48"/>',
    "expired": '<path class="m-expired" d="M.5 .06L.94 .5L.5 .94L.06 .5z"/>',
    "unknown": '<rect class="m-unknown" x=".08" y=".08" width=".84" height=".84"/>',
}


def as_svg(shown: ChunkMap) -> str:
    """A whole document, which may also stand within HTML."""
    height, width = shown.plane.shape
    pixels = max(_LEAST_PIXELS, min(_MOST_PIXELS, _WIDTH_PIXELS / max(width, 1)))
    letter = _LETTER_PIXELS / pixels
    longest = max((len(str(shown.plane.first_chunk(row, 0))) for row in range(height)), default=0)
    left = _MARGIN + 0.62 * letter * longest
    box = (left + width + 0.2, _MARGIN + height + 0.2)
    symbols = "".join(f'<g id="s-{state}">{shape}</g>' for state, shape in _SHAPES.items())
    drawn = "".join(_cells(shown, left))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="map" role="img" '
        f'width="{box[0] * pixels:.0f}" height="{box[1] * pixels:.0f}" '
        f'font-size="{letter:.3f}" viewBox="0 0 {box[0]:.2f} {box[1]:.2f}" '
        f'aria-label="{text(in_words(shown))}">'
        f"<style>{STYLE}</style><defs>{symbols}</defs>{''.join(_labels(shown, left))}{drawn}</svg>"
    )


def in_words(shown: ChunkMap) -> str:
    totals = shown.totals
    told = ", ".join(f"{totals[state]:,} {MEANING[state]}" for state in STATES if totals[state])
    return f"Of {totals.total():,} {shown.chunk_name}s of {shown.shown_target}: {told or 'none'}."


def swatch(state: State) -> str:
    return (
        '<svg class="map swatch" viewBox="0 0 1 1" width="13" height="13" aria-hidden="true">'
        f"{_SHAPES[state]}</svg>"
    )


def _labels(shown: ChunkMap, left: float) -> Iterator[str]:
    plane, (height, width) = shown.plane, shown.plane.shape
    is_flat = len(plane.axes) == 2
    for row in range(0, height, _MARK_EVERY if is_flat else 1):
        at = plane.first_chunk(row, 0)
        yield f'<text class="n" x="{left - 0.25:.2f}" y="{_MARGIN + row + 0.72:.2f}">{at}</text>'
    for column in range(0, width if is_flat else 0, _MARK_EVERY):
        at = plane.ranges[plane.axes[1]].start + column * plane.per_cell[1]
        yield f'<text x="{left + column:.2f}" y=".6">{at}</text>'


def _cells(shown: ChunkMap, left: float) -> Iterator[str]:
    for row, cells in enumerate(shown.rows):
        for column, cell in enumerate(cells):
            if not cell.total():
                continue
            place = f'transform="translate({left + column:.2f} {_MARGIN + row:.2f})"'
            yield f"<g {place}><title>{_title(shown, row, column, cell)}</title>{_drawn(cell)}</g>"


def _drawn(cell: Cell) -> str:
    state = state_of(cell)
    if state is not None:
        return f'<use href="#s-{state}"/>'
    return "".join(_shares(cell))


def _shares(cell: Cell) -> Iterator[str]:
    """Of a bin whose chunks differ: as much of its width for each state as there is of it."""
    whole, left = cell.total(), 0.04
    for state in STATES:
        width = 0.92 * cell[state] / whole
        if width:
            box = f'x="{left:.3f}" y=".04" width="{width:.3f}" height=".92"'
            yield f'<rect class="m-{state}" {box}/>'
        left += width


def _title(shown: ChunkMap, row: int, column: int, cell: Cell) -> str:
    key = next(shown.plane.batches(row, column, b""))[0].decode()
    state = state_of(cell)
    if state is not None and not shown.plane.is_binned:
        return text(f"{key}: {MEANING[state]}")
    told = ", ".join(f"{count(cell[each])} {MEANING[each]}" for each in STATES if cell[each])
    return text(f"from {key} on: {told}")
