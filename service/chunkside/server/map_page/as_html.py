"""A chunk map for browsers: the picture, what it says in figures, and ways to the slices beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from chunkside.arrays.plane import spelled
from chunkside.server.map_page.as_svg import STYLE, as_svg, swatch
from chunkside.server.map_page.chunk_map import MEANING, STATES, ChunkMap, headline, remarks
from chunkside.server.map_page.request import PATH
from chunkside.server.status_page.markup import asset_of, count, share, source_hash, table, text
from chunkside.server.status_page.page import STYLE as BASE_STYLE

_STYLE: Final = BASE_STYLE + asset_of(__package__ or "", "page.css")
PAGE_POLICY: Final = (
    f"default-src 'none'; style-src {source_hash(_STYLE)} {source_hash(STYLE)}; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


_EXPLAINED: Final = (
    '<p class="soft">As the index knows it now, for a reader who sends the same fields. To look '
    "asks for no chunk, and keeps none from being evicted. <code>?slice=</code> takes an element "
    "for each dimension that isn't shown, and a slice such as <code>0:100</code> for one or two "
    "that are.</p>"
)


def as_html(shown: ChunkMap) -> str:
    title = text(shown.shown_target)
    told = "".join(f"<p>{text(each)}</p>" for each in [headline(shown), *remarks(shown)])
    steps = "".join(_steps(shown))
    ways = f'<nav aria-label="Other slices"><ul class="steps">{steps}</ul></nav>' if steps else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">'
        f'<title>{title}: chunk map</title><link rel="icon" href="data:,">'
        f'<style>{_STYLE}</style></head><body><header><div class="page"><h1>Chunk map</h1>'
        f'<div class="where mono">{title}</div><a href="/">Status</a></div></header>'
        f'<main class="page"><div class="told">{told}</div>{ways}{as_svg(shown)}'
        f"{_legend(shown)}{_EXPLAINED}</main></body></html>"
    )


def _legend(shown: ChunkMap) -> str:
    totals, whole = shown.totals, shown.totals.total()
    rows = [
        (f"{swatch(state)}{MEANING[state]}", count(totals[state]), share(totals[state], whole))
        for state in STATES
    ]
    columns = (("State", ""), (f"{shown.chunk_name.capitalize()}s", "n"), ("Share", "n"))
    caption = f"Slice <code>{text(spelled(shown.plane.chosen) or '(none)')}</code>"
    return f'<div class="states">{table(caption, columns, rows, "")}</div>'


def _steps(shown: ChunkMap) -> Iterator[str]:
    """To the chunks before and after, along each dimension that isn't shown."""
    plane, grid = shown.plane, shown.array.grid
    for axis, chosen in enumerate(plane.chosen):
        if isinstance(chosen, slice) or not plane.ranges[axis]:
            continue
        at, last = plane.ranges[axis].start, grid.grid_shape[axis] - 1
        links = [
            _link(shown, axis, other * grid.chunk_shape[axis], name)
            for other, name in ((at - 1, "before"), (at + 1, "after"))
            if 0 <= other <= last
        ]
        yield f"<li>dimension {axis}: chunk {at} of 0 to {last} {' '.join(links)}</li>"


def _link(shown: ChunkMap, axis: int, element: int, name: str) -> str:
    chosen = list(shown.plane.chosen)
    chosen[axis] = element
    path = quote(shown.target, safe="/%:@!$&'()*+,;=~")
    href = f"{PATH}{path}/?slice={spelled(chosen)}"
    return f'<a href="{text(href)}" aria-label="dimension {axis}, chunk {name}">{name}</a>'
