"""What is counted, and how Prometheus reads it.

Counters are plain integers, changed on the event loop only. The families are put together when
they are read; that costs in proportion to label values, never to entries held.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from chunkside.core.routes import NO_ROUTE

RESULTS: Final = (
    "error",
    "bypass",
    "collapsed",
    "stale",
    "revalidated",
    "negative_hit",
    "hit",
    "miss",
)
METHODS: Final = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"})
KINDS: Final = ("body", "range", "marker")
EVICTION_REASONS: Final = ("budget", "index_memory", "marker_cap", "free_space")
REMOVAL_REASONS: Final = (
    *EVICTION_REASONS,
    "expired",
    "retention",
    "invalidated",
    "purged",
    "replaced",
    "corrupt",
)
DURATION_BUCKETS: Final = (
    *(0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

_SERVED_FROM_STORE: Final = ("hit", "stale", "revalidated")
_BROUGHT_FROM_ORIGIN: Final = ("miss", "collapsed")
_BUCKET_NAMES: Final = (*map(repr, DURATION_BUCKETS), "+Inf")
_CODES: Final = {status.value: str(status.value) for status in HTTPStatus}

_HELP: Final = {
    "requests": "Requests that clients sent. Hit ratio: the rate of results hit and negative_hit by"
    " that of all.",
    "responses": "Answers to clients; code none where no head was sent.",
    "request_duration_seconds": "From a request's head to the last byte of its answer.",
    "response_bytes": "Body bytes sent to clients, by the request's result.",
    "upstream_requests": "Requests to the origin, tries included; code none where no head came."
    " Requests less these are what the origin was spared.",
    "upstream_request_duration_seconds": "From a request to the origin to its answer's head.",
    "upstream_received_bytes": "Body bytes that came from the origin.",
    "upstream_sent_bytes": "Body bytes that went to the origin.",
    "evictions": "Entries dropped to make room; where this rises steadily, the cache is too small.",
    "removals": "Entries that left the index, by what ended them; evictions are among them.",
    "invalidations": "Writes and purges that made what was held invalid.",
    "index_entries": "Entries held: bodies and ranges on disk, and markers, which are remembered"
    " absences.",
    "index_memory_bytes": "Memory that entries are charged.",
    "index_memory_limit_bytes": "What entries may take of memory; markers make room first.",
    "stored_bytes": "What entries are charged of the byte budget: disk blocks, not lengths.",
    "stored_limit_bytes": "The byte budget, shared by bodies, ranges and markers.",
    "disk_free_bytes": "What the volume of the cache directory has left.",
    "mapped_bytes": "Body files mapped into memory; page cache, which the kernel can take back.",
    "fills_in_flight": "Fills that run now.",
    "fill_waiters": "Requests that fills serve now.",
    "fills": "Answers brought from the origin to be stored, by how that ended.",
    "store_errors": "Faults of the cache's disk. Readers get their answers from the origin then.",
    "build": "Which Chunkside this is.",
}


@dataclass(frozen=True, slots=True)
class GaugeReading:
    """The state at this moment. Mappings go by kind of entry.

    `disk_free_bytes` is None where bodies are kept in memory, or where the disk doesn't say.
    """

    index_entries: Mapping[str, int]
    index_memory_bytes: Mapping[str, int]
    index_memory_limit_bytes: int
    stored_bytes: Mapping[str, int]
    stored_limit_bytes: int
    disk_free_bytes: int | None
    mapped_bytes: int
    fills_in_flight: int
    fill_waiters: int


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


@dataclass(slots=True)
class _Durations:
    """Observations in buckets, each counted in one bucket; reading adds them up."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BUCKET_NAMES))
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(DURATION_BUCKETS, seconds)] += 1
        self.seconds += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        total = 0
        buckets: list[tuple[str, float]] = []
        for name, count in zip(_BUCKET_NAMES, self.counts, strict=True):
            total += count
            buckets.append((name, total))
        return buckets


class Metrics(Collector):
    """Counts what happens; `of` gives the gateway's Observer of one route.

    `routes` are the path prefixes that counts go under.
    """

    def __init__(self, version: str, routes: Iterable[str] = ("/",)) -> None:
        self._version = version
        self._routes = tuple(routes)
        self._gauges: Callable[[], GaugeReading] | None = None
        # By route, class, method, result and code; the families are sums over these.
        self._requests: Counter[tuple[str, str, str, str, str]] = Counter()
        self._request_durations = defaultdict[tuple[str, str], _Durations](_Durations)
        self._response_bytes: Counter[tuple[str, str]] = Counter()
        self._upstream_requests: Counter[tuple[str, str, str, str]] = Counter()
        self._upstream_durations = {route: _Durations() for route in self._routes}
        self._upstream_received = dict.fromkeys(self._routes, 0)
        self._upstream_sent = dict.fromkeys(self._routes, 0)
        self._removals: Counter[tuple[str, str]] = Counter()
        self._invalidations: Counter[tuple[str, str]] = Counter()
        self._fills: Counter[str] = Counter()
        self._store_errors: Counter[tuple[str, str]] = Counter()
        self._show_from_the_start()
        self._registry = _registry(self)

    def _show_from_the_start(self) -> None:
        """Zeroes for what can be foreseen: rate() doesn't see a step from nothing to one."""
        for route in self._routes:
            for result in RESULTS:
                code = {"negative_hit": "404", "error": "503"}.get(result, "200")
                self._requests[route, "chunk", "GET", result, code] = 0
                self._request_durations[route, result] = _Durations()
                self._response_bytes[route, result] = 0
            self._upstream_requests[route, "chunk", "GET", "200"] = 0
        if "/" not in self._routes:
            self._requests[NO_ROUTE, "chunk", "GET", "error", "421"] = 0
            self._request_durations[NO_ROUTE, "error"] = _Durations()
            self._response_bytes[NO_ROUTE, "error"] = 0
        for kind in KINDS:
            for reason in REMOVAL_REASONS:
                self._removals[kind, reason] = 0

    def of(self, route: str) -> RouteMetrics:
        """The Observer of one of the routes."""
        return RouteMetrics(self, route)

    def watch(self, gauges: Callable[[], GaugeReading]) -> None:
        """Has gauges read from `gauges` at each scrape, on the loop; before, none are shown."""
        self._gauges = gauges

    def request_ended(
        self,
        route: str,
        key_class: str,
        method: str,
        result: str,
        status: int | None,
        body_bytes: int,
        seconds: float,
    ) -> None:
        """Counts one request of a client.

        `result` is one of RESULTS; `status` is None where no head was sent; `body_bytes` are those
        that were sent; `seconds` run from the request's head to the answer's end.
        """
        self._requests[route, key_class, _method(method), result, _code(status)] += 1
        self._request_durations[route, result].observe(seconds)
        self._response_bytes[route, result] += body_bytes

    def removed(self, kind: str, reason: str, count: int = 1) -> None:
        """Counts entries that left the index; those that made room are evictions as well."""
        self._removals[kind, reason] += count

    def invalidated(self, route: str, cause: str) -> None:
        self._invalidations[route, cause] += 1

    def fill_ended(self, outcome: str) -> None:
        self._fills[outcome] += 1

    def upstream_answered(
        self, route: str, key_class: str, method: str, status: int | None, seconds: float
    ) -> None:
        self._upstream_requests[route, key_class, _method(method), _code(status)] += 1
        self._upstream_durations[route].observe(seconds)

    def upstream_received(self, route: str, size: int) -> None:
        self._upstream_received[route] += size

    def upstream_sent(self, route: str, size: int) -> None:
        self._upstream_sent[route] += size

    def store_failed(self, operation: str, cause: str) -> None:
        self._store_errors[operation, cause] += 1

    def summary(self) -> Summary:
        by_result: Counter[str] = Counter()
        for (_, _, _, result, _), count in self._requests.items():
            by_result[result] += count
        hits = sum(by_result[result] for result in _SERVED_FROM_STORE)
        misses = sum(by_result[result] for result in _BROUGHT_FROM_ORIGIN)
        return Summary(
            hits=hits,
            misses=misses,
            negative_hits=by_result["negative_hit"],
            evictions=sum(self._evictions().values()),
            total_requests=hits + misses,
            hit_rate=hits / (hits + misses) if hits + misses else 0.0,
        )

    def exposition(self, accept_header: str) -> tuple[bytes, str]:
        """All metrics in the format that a scraper's `Accept` prefers, and its content type."""
        encode, content_type = choose_encoder(accept_header)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        yield from self._request_families()
        yield from self._upstream_families()
        yield from self._store_families()
        if self._gauges is not None:
            yield from _gauge_families(self._gauges())
        build = InfoMetricFamily("chunkside_build", _HELP["build"])
        build.add_metric([], {"version": self._version})
        yield build

    def _evictions(self) -> dict[tuple[str, str], int]:
        return {key: n for key, n in self._removals.items() if key[1] in EVICTION_REASONS}

    def _request_families(self) -> Iterator[Metric]:
        by_result: Counter[tuple[str, str, str, str]] = Counter()
        by_code: Counter[tuple[str, str]] = Counter()
        for (route, key_class, method, result, code), count in self._requests.items():
            by_result[route, key_class, method, result] += count
            by_code[route, code] += count
        yield _counter("requests", ("route", "class", "method", "result"), by_result.items())
        yield _counter("responses", ("route", "code"), by_code.items())
        durations = self._request_durations.items()
        yield _histogram("request_duration_seconds", ("route", "result"), durations)
        yield _counter("response_bytes", ("route", "result"), self._response_bytes.items())

    def _upstream_families(self) -> Iterator[Metric]:
        requests = self._upstream_requests.items()
        yield _counter("upstream_requests", ("route", "class", "method", "code"), requests)
        durations = [((route,), times) for route, times in self._upstream_durations.items()]
        yield _histogram("upstream_request_duration_seconds", ("route",), durations)
        for name, sizes in (
            ("upstream_received_bytes", self._upstream_received),
            ("upstream_sent_bytes", self._upstream_sent),
        ):
            yield _counter(name, ("route",), [((route,), size) for route, size in sizes.items()])

    def _store_families(self) -> Iterator[Metric]:
        yield _counter("evictions", ("kind", "reason"), self._evictions().items())
        yield _counter("removals", ("kind", "reason"), self._removals.items())
        yield _counter("invalidations", ("route", "cause"), self._invalidations.items())
        fills = [((outcome,), count) for outcome, count in self._fills.items()]
        yield _counter("fills", ("outcome",), fills)
        yield _counter("store_errors", ("op", "error"), self._store_errors.items())


@dataclass(frozen=True, slots=True)
class RouteMetrics:
    """Counts what happens on one route."""

    metrics: Metrics
    route: str

    def removed(self, kind: str, reason: str, count: int = 1) -> None:
        self.metrics.removed(kind, reason, count)

    def invalidated(self, cause: str) -> None:
        self.metrics.invalidated(self.route, cause)

    def fill_ended(self, outcome: str) -> None:
        self.metrics.fill_ended(outcome)

    def upstream_answered(
        self, key_class: str, method: str, status: int | None, seconds: float
    ) -> None:
        self.metrics.upstream_answered(self.route, key_class, method, status, seconds)

    def upstream_received(self, size: int) -> None:
        self.metrics.upstream_received(self.route, size)

    def upstream_sent(self, size: int) -> None:
        self.metrics.upstream_sent(self.route, size)

    def store_failed(self, operation: str, cause: str) -> None:
        self.metrics.store_failed(operation, cause)


def _method(method: str) -> str:
    return method if method in METHODS else "other"


def _code(status: int | None) -> str:
    """A label value: an origin that makes up statuses must not make up series."""
    return "none" if status is None else _CODES.get(status, "other")


def _registry(metrics: Metrics) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def _gauge_families(reading: GaugeReading) -> Iterator[Metric]:
    yield _gauge_by_kind("index_entries", reading.index_entries)
    yield _gauge_by_kind("index_memory_bytes", reading.index_memory_bytes)
    yield _gauge("index_memory_limit_bytes", reading.index_memory_limit_bytes)
    yield _gauge_by_kind("stored_bytes", reading.stored_bytes)
    yield _gauge("stored_limit_bytes", reading.stored_limit_bytes)
    if reading.disk_free_bytes is not None:
        yield _gauge("disk_free_bytes", reading.disk_free_bytes)
    yield _gauge("mapped_bytes", reading.mapped_bytes)
    yield _gauge("fills_in_flight", reading.fills_in_flight)
    yield _gauge("fill_waiters", reading.fill_waiters)


def _counter(
    name: str, labels: tuple[str, ...], counts: Iterable[tuple[tuple[str, ...], int]]
) -> Metric:
    family = CounterMetricFamily(f"chunkside_{name}", _HELP[name], labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def _histogram(
    name: str, labels: tuple[str, ...], labelled: Iterable[tuple[tuple[str, ...], _Durations]]
) -> Metric:
    family = HistogramMetricFamily(f"chunkside_{name}", _HELP[name], labels=labels)
    for values, durations in labelled:
        family.add_metric(values, durations.cumulative(), durations.seconds)
    return family


def _gauge(name: str, value: int) -> Metric:
    return GaugeMetricFamily(f"chunkside_{name}", _HELP[name], value=value)


def _gauge_by_kind(name: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"chunkside_{name}", _HELP[name], labels=["kind"])
    for kind, value in values.items():
        family.add_metric([kind], value)
    return family
