"""The admin port's `/` for browsers. What is on it comes from the console, and is escaped here."""

from __future__ import annotations

from chunkside.server.status_page.page import PAGE_POLICY, render

__all__ = ["PAGE_POLICY", "prefers_html", "render"]


def prefers_html(accept: str) -> bool:
    """Whether a client names HTML: browsers do, and curl takes anything."""
    return any(part.partition(";")[0].strip().lower() == "text/html" for part in accept.split(","))
