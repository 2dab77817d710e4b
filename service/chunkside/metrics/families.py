"""The families that Prometheus reads: their texts, and how counts become samples."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

DURATION_BUCKETS: Final = (
    *(0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

BUCKET_NAMES: Final = (*map(repr, DURATION_BUCKETS), "+Inf")

HELP: Final = {
    "requests": "Requests that clients sent, by what became of them. Hit ratio: the rate of results"
    " hit and negative_hit by that of all.",
    "responses": "Answers to clients; code none where no head was sent.",
    "request_duration_seconds": "From a request's head to the last byte of its answer.",
    "response_bytes": "Body bytes sent to clients, by the request's result.",
    "upstream_requests": "Requests to the origin, tries included; code none where no head came."
    " Requests less these are what the origin was spared.",
    "upstream_request_duration_seconds": "From a request to the origin to its answer's head.",
    "upstream_retries": "Requests to the origin that were sent again; they are among all requests"
    " to it.",
    "upstream_spared": "Requests that the origin was not asked for: it has failed for some time"
    " (breaker), too many waited for a connection (queue), or there was nothing to sign with"
    " (credentials).",
    "upstream_breaker": "1 at the state that the origin is in: closed, it is asked; open, it has"
    " failed for some time and is left alone; half_open, one request finds out whether it is back.",
    "upstream_credential_loaded_timestamp_seconds": "When the sidecar's own credential that is used"
    " was read: at the start, and whenever its file was exchanged for a good one.",
    "upstream_credential_expires_timestamp_seconds": "When the sidecar's own credential ends, where"
    " it says so: exp of a JSON Web Token.",
    "upstream_received_bytes": "Body bytes that came from the origin.",
    "upstream_sent_bytes": "Body bytes that went to the origin.",
    "evictions": "Entries dropped to make room; where this rises steadily, the cache is too small.",
    "removals": "Entries that left the index, by what ended them; evictions are among them.",
    "invalidations": "Writes by their method, purges (purge), documents of arrays that were found"
    " new or changed (metadata), and audits that found something else (audit): each made what was"
    " held invalid.",
    "index_entries": "Entries held: bodies and ranges on disk, and markers, which are remembered"
    " absences.",
    "index_memory_bytes": "Memory that entries are charged.",
    "index_memory_limit_bytes": "What entries may take of memory; markers make room first.",
    "stored_bytes": "What entries are charged of the byte budget: disk blocks, not lengths.",
    "stored_limit_bytes": "The byte budget, shared by bodies, ranges and markers.",
    "disk_free_bytes": "What the volume of the cache directory has left.",
    "mapped_bytes": "Body files mapped into memory; page cache, which the kernel can take back.",
    "lingering_bytes": "Body files that are unlinked and still open: free once their readers have"
    " gone. The byte budget doesn't know them.",
    "directory_bytes": "What directories of the cache take beside body files, by the last sweep of"
    " this process. The byte budget doesn't know them.",
    "degraded": "1 where memory stands in for a cache directory that was meant to be used: for"
    " bodies, since none is fit (directory), or for the stamps of writes and purges, since they"
    " can't be written (stamps).",
    "partitions": "Partitions that hold something: one for each credential of clients' that brought"
    " it, and one for all without, of each origin. Where it grows with every request, credentials"
    " change too often to share anything.",
    "fills_in_flight": "Fills that run now.",
    "fill_waiters": "Requests that fills serve now.",
    "fills": "Answers brought from the origin to be stored, by how that ended.",
    "sweep_duration_seconds": "Sweeps of the cache directory, which remove what was idle for too"
    " long and what must make room.",
    "audits": "Answers from store that the origin was asked for again, in the background or by mode"
    " observe: agree, it says the same; changed, it says another thing by now; wrong, what was held"
    " was never so, and the log says more.",
    "audits_left_out": "Audits that came to no verdict: busy, too many waited; error, the origin"
    " gave no answer to go by; too_large, more than max_body_size; overtaken, a write, a purge or a"
    " newer answer came meanwhile; unreadable, the file held can't be read.",
    "store_errors": "Faults of the cache's disk. Readers get their answers from the origin then.",
    "config_last_reload_successful": "1 where the settings were good when they were read last.",
    "config_last_reload_success_timestamp_seconds": "When the settings were read last that hold.",
    "build": "Which Chunkside this is.",
}


@dataclass(frozen=True, slots=True)
class CredentialReading:
    """Wall-clock seconds; `expires_at` is None where it isn't known."""

    loaded_at: float
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class GaugeReading:
    """The state at this moment. Mappings go by kind of entry.

    `disk_free_bytes` is None where bodies are kept in memory, or where the disk doesn't say;
    `directory_bytes` until this process has looked at them. `degraded` goes by cause, and
    `credentials`, the sidecar's own, by route.
    """

    index_entries: Mapping[str, int]
    index_memory_bytes: Mapping[str, int]
    index_memory_limit_bytes: int
    stored_bytes: Mapping[str, int]
    stored_limit_bytes: int
    disk_free_bytes: int | None
    mapped_bytes: int
    lingering_bytes: int
    directory_bytes: int | None
    degraded: Mapping[str, bool]
    fills_in_flight: int
    fill_waiters: int
    partitions: int
    credentials: Mapping[str, CredentialReading]


@dataclass(slots=True)
class Durations:
    """Observations in buckets, each counted in one bucket; reading adds them up."""

    counts: list[int] = field(default_factory=lambda: [0] * len(BUCKET_NAMES))
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(DURATION_BUCKETS, seconds)] += 1
        self.seconds += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        total = 0
        buckets: list[tuple[str, float]] = []
        for name, count in zip(BUCKET_NAMES, self.counts, strict=True):
            total += count
            buckets.append((name, total))
        return buckets


@dataclass(slots=True)
class Answers:
    """Of one route and result."""

    durations: Durations = field(default_factory=Durations)
    body_bytes: int = 0


@dataclass(slots=True)
class Series:
    """Requests that are alike in all of their labels, and what they have in common with others."""

    answers: Answers
    count: int = 0

    def ended(self, body_bytes: int, seconds: float) -> None:
        self.count += 1
        self.answers.body_bytes += body_bytes
        self.answers.durations.observe(seconds)


def gauge_families(reading: GaugeReading) -> Iterator[Metric]:
    yield _gauge_by("kind", "index_entries", reading.index_entries)
    yield _gauge_by("kind", "index_memory_bytes", reading.index_memory_bytes)
    yield _gauge("index_memory_limit_bytes", reading.index_memory_limit_bytes)
    yield _gauge_by("kind", "stored_bytes", reading.stored_bytes)
    yield _gauge("stored_limit_bytes", reading.stored_limit_bytes)
    if reading.disk_free_bytes is not None:
        yield _gauge("disk_free_bytes", reading.disk_free_bytes)
    yield _gauge("mapped_bytes", reading.mapped_bytes)
    yield _gauge("lingering_bytes", reading.lingering_bytes)
    if reading.directory_bytes is not None:
        yield _gauge("directory_bytes", reading.directory_bytes)
    yield _gauge_by("cause", "degraded", reading.degraded)
    yield _gauge("fills_in_flight", reading.fills_in_flight)
    yield _gauge("fill_waiters", reading.fill_waiters)
    yield _gauge("partitions", reading.partitions)
    yield from _credential_families(reading.credentials)


@dataclass(frozen=True, slots=True)
class Reload:
    """`succeeded_at`: when the last one that did, by the wall clock."""

    is_successful: bool
    succeeded_at: float


def reload_families(last: Reload) -> Iterator[Metric]:
    yield _gauge("config_last_reload_successful", float(last.is_successful))
    yield _gauge("config_last_reload_success_timestamp_seconds", last.succeeded_at)


def counter(
    name: str, labels: tuple[str, ...], counts: Iterable[tuple[tuple[str, ...], int]]
) -> Metric:
    family = CounterMetricFamily(f"chunkside_{name}", HELP[name], labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def histogram(
    name: str, labels: tuple[str, ...], labelled: Iterable[tuple[tuple[str, ...], Durations]]
) -> Metric:
    family = HistogramMetricFamily(f"chunkside_{name}", HELP[name], labels=labels)
    for values, durations in labelled:
        family.add_metric(values, durations.cumulative(), durations.seconds)
    return family


def states(name: str, label: str, every: tuple[str, ...], by_route: Mapping[str, str]) -> Metric:
    """For each route all states that there are: 1 for the one it is in, 0 for the others."""
    family = GaugeMetricFamily(f"chunkside_{name}", HELP[name], labels=["route", label])
    for route, state in by_route.items():
        for each in every:
            family.add_metric([route, each], float(each == state))
    return family


def _credential_families(by_route: Mapping[str, CredentialReading]) -> Iterator[Metric]:
    loaded = {route: each.loaded_at for route, each in by_route.items()}
    expires = {
        route: each.expires_at for route, each in by_route.items() if each.expires_at is not None
    }
    for name, times in (("loaded", loaded), ("expires", expires)):
        if times:
            yield _gauge_by("route", f"upstream_credential_{name}_timestamp_seconds", times)


def _gauge(name: str, value: float) -> Metric:
    return GaugeMetricFamily(f"chunkside_{name}", HELP[name], value=value)


def _gauge_by(label: str, name: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"chunkside_{name}", HELP[name], labels=[label])
    for labelled, value in values.items():
        family.add_metric([labelled], value)
    return family
