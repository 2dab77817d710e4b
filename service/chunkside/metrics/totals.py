"""What all counts together say of a run: for `/stats`, and for the line at the end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals since the start, with the meaning that zarr's `CacheStore.cache_stats()` gives them.

    `hits`: reads whose bytes came from the store (results hit, stale, revalidated); `misses`: reads
    whose bytes came from the origin, also by way of another request's fill (miss, collapsed). A
    negative hit is neither, and nor is what the cache had no say in (bypass) or could not answer
    (error). `total_requests` is hits and misses together, and `hit_rate` hits in that, 0.0 of none.
    """

    hits: int
    misses: int
    negative_hits: int
    evictions: int
    total_requests: int
    hit_rate: float


@dataclass(frozen=True, slots=True)
class Saved:
    """Totals since the start. `without_origin`: requests that were answered from what is held;
    `bytes_from_store`: bodies that came from there, freshened and stale ones too.
    """

    requests: int
    without_origin: int
    negative_hits: int
    collapsed: int
    upstream_requests: int
    bytes_sent: int
    bytes_from_store: int
