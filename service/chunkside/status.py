"""What the status page tells, put together from the counters and the last minutes.

Every figure is from the metrics that Prometheus reads, so that page and dashboards agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from chunkside.metrics.prefixes import Counted
from chunkside.metrics.reading import Reading
from chunkside.metrics.recent import STEP_SECONDS, STEPS, Event, Point, Recent

GROUPS: Final[Mapping[str, frozenset[str]]] = {
    "store": frozenset({"hit", "revalidated", "stale"}),
    "absence": frozenset({"negative_hit"}),
    "origin": frozenset({"miss", "collapsed", "bypass"}),
    "error": frozenset({"error"}),
}
"""What results have in common for who looks from afar: where the answer's bytes came from."""
_WITHOUT_ORIGIN: Final = frozenset({"hit", "negative_hit", "collapsed"})
_TIMED: Final = frozenset({"hit", "negative_hit"})
_MOST_PREFIXES: Final = 10
_MOST_EVENTS: Final = 12


def status_of(
    reading: Reading,
    recent: Recent,
    info: Mapping[str, object],
    obstacle: str | None,
    *,
    is_scanning: bool,
) -> dict[str, object]:
    """`info`: as `/info` has it. `obstacle`: why the sidecar isn't ready, if it isn't."""
    upstreams = {
        str(route["prefix"]): str(route["upstream"]) for route in _objects(info.get("routes"))
    }
    return {
        "at": _when(recent.wall()),
        "is_ready": obstacle is None,
        "obstacle": obstacle,
        "is_scanning": is_scanning,
        "version": info.get("version"),
        "uptime_seconds": info.get("uptime_seconds"),
        "saved": _saved(reading),
        "window": _window(recent.now_and_before()),
        "held": _held(reading),
        "routes": [_route(reading, *pair) for pair in upstreams.items()],
        "prefixes": {
            "hits": _prefixes(recent.hits.top(_MOST_PREFIXES)),
            "absences": _prefixes(recent.absences.top(_MOST_PREFIXES)),
        },
        "evictions": _events("kind", "reason", recent.evictions),
        "errors": _events(
            "status", "prefix", ((*names, event) for names, event in recent.errors.items())
        ),
        "store_errors": _events("operation", "error", recent.store_errors),
        "audits": _audits(reading),
        "configuration": dict(info),
    }


def _objects(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _saved(reading: Reading) -> dict[str, object]:
    results = _results(reading)
    sizes = reading.by("chunkside_response_bytes_total", "result")
    requests, without = sum(results.values()), sum(results[each] for each in _WITHOUT_ORIGIN)
    return {
        "requests": requests,
        "requests_without_origin": without,
        "share": without / requests if requests else None,
        "absences": results["negative_hit"],
        "origin_requests": int(reading.total("chunkside_upstream_requests_total")),
        "bytes_from_store": int(sum(sizes[each,] for each in GROUPS["store"])),
        "bytes_from_origin": int(reading.total("chunkside_upstream_received_bytes_total")),
        "seconds": _seconds_saved(reading),
    }


def _results(reading: Reading) -> Counter[str]:
    sums = reading.by("chunkside_requests_total", "result")
    return Counter({result: int(n) for (result,), n in sums.items()})


def _seconds_saved(reading: Reading) -> float | None:
    """What readers would have waited for the origin: of each route the hits and negative hits,
    times the mean time to an answer's head there, less the time that they took. None while no
    origin was asked.
    """
    asked = reading.by("chunkside_upstream_request_duration_seconds_count", "route")
    waited = reading.by("chunkside_upstream_request_duration_seconds_sum", "route")
    took = reading.by("chunkside_request_duration_seconds_sum", "route", "result")
    counts = reading.by("chunkside_request_duration_seconds_count", "route", "result")
    saved = None
    for (route,), count in asked.items():
        if not count:
            continue
        mean = waited[route,] / count
        hits = sum(counts[route, result] for result in _TIMED)
        own = sum(took[route, result] for result in _TIMED)
        saved = (saved or 0.0) + max(0.0, hits * mean - own)
    return saved


def _window(points: list[Point]) -> dict[str, object]:
    """`points`: one for each step, the oldest first; the last is not over yet."""
    totals: Counter[str] = Counter()
    told = []
    for point in points:
        by_group = {
            name: sum(point.results[result] for result in results)
            for name, results in GROUPS.items()
        }
        totals.update(by_group)
        told.append({"at": _when(point.at), **by_group})
    return {
        "step_seconds": STEP_SECONDS,
        "steps": STEPS,
        "totals": {name: totals[name] for name in GROUPS},
        "points": told,
    }


def _held(reading: Reading) -> dict[str, object]:
    entries = reading.by("chunkside_index_entries", "kind")
    stored = reading.by("chunkside_stored_bytes", "kind")
    is_free_known = reading.has("chunkside_disk_free_bytes")
    return {
        "bodies": int(entries["body",]),
        "ranges": int(entries["range",]),
        "markers": int(entries["marker",]),
        "bytes": {kind: int(stored[kind,]) for kind in ("body", "range", "marker")},
        "limit_bytes": int(reading.total("chunkside_stored_limit_bytes")),
        "memory_bytes": int(reading.total("chunkside_index_memory_bytes")),
        "memory_limit_bytes": int(reading.total("chunkside_index_memory_limit_bytes")),
        "disk_free_bytes": int(reading.total("chunkside_disk_free_bytes"))
        if is_free_known
        else None,
        "fills_in_flight": int(reading.total("chunkside_fills_in_flight")),
    }


def _route(reading: Reading, route: str, upstream: str) -> dict[str, object]:
    results = reading.by("chunkside_requests_total", "route", "result")
    codes = reading.by("chunkside_upstream_requests_total", "route", "code")
    name = "chunkside_upstream_request_duration_seconds"
    count = reading.total(f"{name}_count", route=route)
    waited = reading.total(f"{name}_sum", route=route)
    breaker = reading.by("chunkside_upstream_breaker", "route", "state")
    return {
        "route": route,
        "upstream": upstream,
        "requests": int(sum(n for (of, _), n in results.items() if of == route)),
        "errors": int(results[route, "error"]),
        "origin_requests": int(sum(n for (of, _), n in codes.items() if of == route)),
        "origin_faults": int(
            sum(n for (of, code), n in codes.items() if of == route and _is_fault(code))
        ),
        "origin_seconds": waited / count if count else None,
        "breaker": next((s for (of, s), is_it in breaker.items() if of == route and is_it), None),
    }


def _is_fault(code: str) -> bool:
    return code in ("none", "429") or code.startswith("5")


def _prefixes(counted: Iterable[Counted]) -> list[dict[str, object]]:
    return [{"prefix": each.item, "count": each.count, "excess": each.excess} for each in counted]


def _audits(reading: Reading) -> list[dict[str, object]]:
    return [
        {"kind": kind, "verdict": verdict, "count": int(count)}
        for (kind, verdict), count in sorted(
            reading.by("chunkside_audits_total", "kind", "verdict").items()
        )
    ]


def _events(
    first: str, second: str, events: Iterable[tuple[object, object, Event]]
) -> list[dict[str, object]]:
    """The newest first."""
    newest = sorted(events, key=lambda each: each[2].last, reverse=True)[:_MOST_EVENTS]
    return [
        {
            first: one,
            second: other,
            "count": event.count,
            "first": _when(event.first),
            "last": _when(event.last),
        }
        for one, other, event in newest
    ]


def _when(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
