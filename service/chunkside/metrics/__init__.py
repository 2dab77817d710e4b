"""What is counted, and how Prometheus reads it.

Counters are plain integers, changed on the event loop only. The families are put together when
they are read; that costs in proportion to label values, never to entries held.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from chunkside.core.routes import NO_ROUTE
from chunkside.gateway.tries import tried
from chunkside.metrics.audits import AuditCounts
from chunkside.metrics.families import (
    DURATION_BUCKETS,
    HELP,
    Answers,
    CredentialReading,
    Durations,
    GaugeReading,
    Reload,
    Series,
    counter,
    gauge_families,
    histogram,
    reload_families,
    states,
)
from chunkside.metrics.labels import (
    BREAKER_STATES,
    EVICTION_REASONS,
    KINDS,
    METHODS,
    REMOVAL_REASONS,
    RESULTS,
    SPARED_REASONS,
    cause_label,
    code_label,
    method_label,
)
from chunkside.metrics.totals import Saved, Summary

__all__ = [
    "BREAKER_STATES",
    "DURATION_BUCKETS",
    "EVICTION_REASONS",
    "KINDS",
    "METHODS",
    "REMOVAL_REASONS",
    "RESULTS",
    "SPARED_REASONS",
    "CredentialReading",
    "GaugeReading",
    "Metrics",
    "Reload",
    "RouteMetrics",
    "Saved",
    "Summary",
]

Labels = TypeVar("Labels", bound=tuple[str, ...])

_SERVED_FROM_STORE: Final = ("hit", "stale", "revalidated")
_BROUGHT_FROM_ORIGIN: Final = ("miss", "collapsed")


class Metrics(Collector):
    """Counts what happens; `of` gives the gateway's Observer of one route.

    `routes` are the path prefixes that counts go under; `add_routes` and `drop_route` change them.
    """

    def __init__(self, version: str, routes: Iterable[str] = ("/",)) -> None:
        self._version = version
        self._gauges: Callable[[], GaugeReading] | None = None
        # By route, class, method, result and code; the families are sums over these.
        self._requests: dict[tuple[str, str, str, str, str], Series] = {}
        # By route and result.
        self._answers = defaultdict[tuple[str, str], Answers](Answers)
        self._upstream_requests: Counter[tuple[str, str, str, str]] = Counter()
        self._upstream_durations: dict[str, Durations] = {}
        self._upstream_retries: dict[str, int] = {}
        self._upstream_spared: Counter[tuple[str, str]] = Counter()
        self._breakers: dict[str, str] = {}
        self._upstream_received: dict[str, int] = {}
        self._upstream_sent: dict[str, int] = {}
        self._removals: Counter[tuple[str, str]] = Counter()
        self._invalidations: Counter[tuple[str, str]] = Counter()
        self._fills: Counter[str] = Counter()
        self._store_errors: Counter[tuple[str, str]] = Counter()
        self.audits = AuditCounts()
        self._sweeps = Durations()
        self._reload = Reload(is_successful=True, succeeded_at=time.time())
        # Of routes that are gone: results, body bytes by result, requests to origins.
        self._gone: Counter[str] = Counter()
        self._gone_bytes: Counter[str] = Counter()
        self._gone_upstream = 0
        for kind in KINDS:
            for reason in REMOVAL_REASONS:
                self._removals[kind, reason] = 0
        self.add_routes(routes)
        self._registry = _registry(self)

    def add_routes(self, routes: Iterable[str]) -> None:
        """Shows those that there are from now on, beside those that `drop_route` hasn't dropped.

        With zeroes for what can be foreseen: rate() doesn't see a step from nothing to one.
        """
        routes = tuple(routes)
        for route in routes:
            if route in self._breakers:
                continue
            self._upstream_durations[route] = Durations()
            self._breakers[route] = "closed"
            for counts in (self._upstream_retries, self._upstream_received, self._upstream_sent):
                counts[route] = 0
            for result in RESULTS:
                code = {"negative_hit": "404", "error": "503"}.get(result, "200")
                self._series(route, "chunk", "GET", result, code)
            self._upstream_requests[route, "chunk", "GET", "200"] = 0
            for reason in SPARED_REASONS:
                self._upstream_spared[route, reason] = 0
        if "/" not in routes:
            self._series(NO_ROUTE, "chunk", "GET", "error", "421")

    def drop_route(self, route: str) -> None:
        """Shows a route no longer that is gone, and that nothing is under way on; `summary` counts
        on.
        """
        for (of, *_, result, _), series in self._requests.items():
            self._gone[result] += series.count if of == route else 0
        for (of, result), answers in self._answers.items():
            self._gone_bytes[result] += answers.body_bytes if of == route else 0
        for (of, *_), count in self._upstream_requests.items():
            self._gone_upstream += count if of == route else 0
        for of_route in (
            *(self._upstream_durations, self._upstream_retries, self._breakers),
            *(self._upstream_received, self._upstream_sent),
        ):
            del of_route[route]
        _drop(self._requests, route)
        _drop(self._answers, route)
        _drop(self._upstream_requests, route)
        _drop(self._upstream_spared, route)
        _drop(self._invalidations, route)

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
        self.series(route, key_class, method, result, status).ended(body_bytes, seconds)

    def series(
        self, route: str, key_class: str, method: str, result: str, status: int | None
    ) -> Series:
        """What counts requests that are alike in all of this, for whoever has many of them."""
        return self._series(route, key_class, method_label(method), result, code_label(status))

    def _series(self, *labels: str) -> Series:
        route, key_class, method, result, code = labels
        known = self._requests.get((route, key_class, method, result, code))
        if known is None:
            known = Series(self._answers[route, result])
            self._requests[route, key_class, method, result, code] = known
        return known

    def removed(self, kind: str, reason: str, count: int = 1) -> None:
        """Counts entries that left the index; those that made room are evictions as well."""
        self._removals[kind, reason] += count

    def invalidated(self, route: str, cause: str) -> None:
        self._invalidations[route, cause_label(cause)] += 1

    def fill_ended(self, outcome: str) -> None:
        self._fills[outcome] += 1

    def upstream_answered(
        self, route: str, key_class: str, method: str, status: int | None, seconds: float
    ) -> None:
        self._upstream_requests[route, key_class, method_label(method), code_label(status)] += 1
        self._upstream_durations[route].observe(seconds)

    def upstream_retried(self, route: str) -> None:
        self._upstream_retries[route] += 1

    def upstream_spared(self, route: str, reason: str) -> None:
        """Counts a request that ended without the origin; `reason` is one of SPARED_REASONS."""
        self._upstream_spared[route, reason] += 1

    def breaker_is(self, route: str, state: str) -> None:
        """Notes one of BREAKER_STATES."""
        self._breakers[route] = state

    def upstream_received(self, route: str, size: int) -> None:
        self._upstream_received[route] += size

    def upstream_sent(self, route: str, size: int) -> None:
        self._upstream_sent[route] += size

    def store_failed(self, operation: str, cause: str) -> None:
        self._store_errors[operation, cause] += 1

    def sweep_ended(self, seconds: float) -> None:
        self._sweeps.observe(seconds)

    @property
    def last_reload(self) -> Reload:
        """Of the settings; the start counts as one."""
        return self._reload

    def reloaded(self, *, is_successful: bool) -> None:
        at = time.time() if is_successful else self._reload.succeeded_at
        self._reload = Reload(is_successful, at)

    def saved(self) -> Saved:
        results, sizes = self._by_result(), self._gone_bytes.copy()
        for (_, result), answers in self._answers.items():
            sizes[result] += answers.body_bytes
        return Saved(
            requests=results.total(),
            without_origin=results["hit"] + results["negative_hit"],
            negative_hits=results["negative_hit"],
            collapsed=results["collapsed"],
            upstream_requests=self._upstream_requests.total() + self._gone_upstream,
            bytes_sent=sizes.total(),
            bytes_from_store=sum(sizes[result] for result in _SERVED_FROM_STORE),
        )

    def _by_result(self) -> Counter[str]:
        by_result = self._gone.copy()
        for (_, _, _, result, _), series in self._requests.items():
            by_result[result] += series.count
        return by_result

    def summary(self) -> Summary:
        by_result = self._by_result()
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
            yield from gauge_families(self._gauges())
        yield from reload_families(self._reload)
        build = InfoMetricFamily("chunkside_build", HELP["build"])
        build.add_metric([], {"version": self._version})
        yield build

    def _evictions(self) -> dict[tuple[str, str], int]:
        return {key: n for key, n in self._removals.items() if key[1] in EVICTION_REASONS}

    def _request_families(self) -> Iterator[Metric]:
        by_result: Counter[tuple[str, str, str, str]] = Counter()
        by_code: Counter[tuple[str, str]] = Counter()
        for (route, key_class, method, result, code), series in self._requests.items():
            by_result[route, key_class, method, result] += series.count
            by_code[route, code] += series.count
        yield counter("requests", ("route", "class", "method", "result"), by_result.items())
        yield counter("responses", ("route", "code"), by_code.items())
        durations = [(key, answers.durations) for key, answers in self._answers.items()]
        yield histogram("request_duration_seconds", ("route", "result"), durations)
        sizes = [(key, answers.body_bytes) for key, answers in self._answers.items()]
        yield counter("response_bytes", ("route", "result"), sizes)

    def _upstream_families(self) -> Iterator[Metric]:
        requests = self._upstream_requests.items()
        yield counter("upstream_requests", ("route", "class", "method", "code"), requests)
        durations = [((route,), times) for route, times in self._upstream_durations.items()]
        yield histogram("upstream_request_duration_seconds", ("route",), durations)
        retries = [((route,), count) for route, count in self._upstream_retries.items()]
        yield counter("upstream_retries", ("route",), retries)
        yield counter("upstream_spared", ("route", "reason"), self._upstream_spared.items())
        yield states("upstream_breaker", "state", BREAKER_STATES, self._breakers)
        for name, sizes in (
            ("upstream_received_bytes", self._upstream_received),
            ("upstream_sent_bytes", self._upstream_sent),
        ):
            yield counter(name, ("route",), [((route,), size) for route, size in sizes.items()])

    def _store_families(self) -> Iterator[Metric]:
        yield counter("evictions", ("kind", "reason"), self._evictions().items())
        yield counter("removals", ("kind", "reason"), self._removals.items())
        yield counter("invalidations", ("route", "cause"), self._invalidations.items())
        fills = [((outcome,), count) for outcome, count in self._fills.items()]
        yield counter("fills", ("outcome",), fills)
        yield counter("store_errors", ("op", "error"), self._store_errors.items())
        yield from self.audits.families()
        yield histogram("sweep_duration_seconds", (), [((), self._sweeps)])


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
        tried()
        self.metrics.upstream_answered(self.route, key_class, method, status, seconds)

    def upstream_retried(self) -> None:
        self.metrics.upstream_retried(self.route)

    def upstream_spared(self, reason: str) -> None:
        self.metrics.upstream_spared(self.route, reason)

    def breaker_is(self, state: str) -> None:
        self.metrics.breaker_is(self.route, state)

    def upstream_received(self, size: int) -> None:
        self.metrics.upstream_received(self.route, size)

    def upstream_sent(self, size: int) -> None:
        self.metrics.upstream_sent(self.route, size)

    def store_failed(self, operation: str, cause: str) -> None:
        self.metrics.store_failed(operation, cause)

    def audited(self, kind: str, verdict: str) -> None:
        self.metrics.audits.audited(kind, verdict)

    def audit_left_out(self, reason: str) -> None:
        self.metrics.audits.left_out(reason)


def _drop(counts: MutableMapping[Labels, Any], route: str) -> None:
    """Forgets what goes by labels of which the first is a route."""
    for labels in [labels for labels in counts if labels[0] == route]:
        del counts[labels]


def _registry(metrics: Metrics) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
