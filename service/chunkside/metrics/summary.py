"""Totals for people, and for those who know zarr's."""

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
