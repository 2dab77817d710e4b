"""`/map/…` of the admin port: what is known of an array's chunks, in four forms."""

from __future__ import annotations

from dataclasses import dataclass

from chunkside.server.map_page.as_html import PAGE_POLICY, as_html
from chunkside.server.map_page.as_svg import POLICY, as_svg
from chunkside.server.map_page.as_text import as_json, as_text
from chunkside.server.map_page.chunk_map import ChunkMap
from chunkside.server.map_page.request import HELP, PATH, MapRequest, parse_map
from chunkside.server.status_page import prefers_html

__all__ = ["HELP", "PATH", "ChunkMap", "MapRequest", "Shown", "parse_map", "show"]


@dataclass(frozen=True, slots=True)
class Shown:
    """`policy`: what a browser may load for it; None for what it doesn't draw."""

    media_type: str
    content: str
    policy: str | None = None


def show(shown: ChunkMap, accept: str) -> Shown:
    """As a client asks for it: curl, which takes anything, gets text."""
    if prefers_html(accept):
        return Shown("text/html", as_html(shown), PAGE_POLICY)
    named = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    if "image/svg+xml" in named:
        return Shown("image/svg+xml", as_svg(shown), POLICY)
    if "application/json" in named:
        return Shown("application/json", as_json(shown))
    return Shown("text/plain", as_text(shown))
