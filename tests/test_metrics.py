from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from chunkside.gateway.ports import Observer
from chunkside.metrics import (
    DURATION_BUCKETS,
    EVICTION_REASONS,
    KINDS,
    REMOVAL_REASONS,
    RESULTS,
    CredentialReading,
    GaugeReading,
    Metrics,
    Saved,
    Summary,
)

READING = GaugeReading(
    index_entries={"body": 1, "marker": 2},
    index_memory_bytes={"body": 300, "marker": 400},
    index_memory_limit_bytes=5000,
    stored_bytes={"body": 6144, "marker": 440},
    stored_limit_bytes=1 << 40,
    disk_free_bytes=8,
    mapped_bytes=9,
    lingering_bytes=12,
    directory_bytes=13,
    degraded={"directory": True, "stamps": False},
    fills_in_flight=10,
    fill_waiters=11,
    partitions=14,
    credentials={"/": CredentialReading(loaded_at=1700000000.5, expires_at=1800000000.0)},
)

# Name, type as the parsers give it, labels: DESIGN §3.4, as far as there is anything to count.
FAMILIES = {
    "chunkside_sweep_duration_seconds": ("histogram", set()),
    "chunkside_requests": ("counter", {"route", "class", "method", "result"}),
    "chunkside_responses": ("counter", {"route", "code"}),
    "chunkside_request_duration_seconds": ("histogram", {"route", "result"}),
    "chunkside_response_bytes": ("counter", {"route", "result"}),
    "chunkside_upstream_requests": ("counter", {"route", "class", "method", "code"}),
    "chunkside_upstream_request_duration_seconds": ("histogram", {"route"}),
    "chunkside_upstream_retries": ("counter", {"route"}),
    "chunkside_upstream_spared": ("counter", {"route", "reason"}),
    "chunkside_audits": ("counter", {"kind", "verdict"}),
    "chunkside_audits_left_out": ("counter", {"reason"}),
    "chunkside_upstream_breaker": ("gauge", {"route", "state"}),
    "chunkside_upstream_received_bytes": ("counter", {"route"}),
    "chunkside_upstream_sent_bytes": ("counter", {"route"}),
    "chunkside_evictions": ("counter", {"kind", "reason"}),
    "chunkside_removals": ("counter", {"kind", "reason"}),
    "chunkside_invalidations": ("counter", {"route", "cause"}),
    "chunkside_index_entries": ("gauge", {"kind"}),
    "chunkside_index_memory_bytes": ("gauge", {"kind"}),
    "chunkside_index_memory_limit_bytes": ("gauge", set()),
    "chunkside_stored_bytes": ("gauge", {"kind"}),
    "chunkside_stored_limit_bytes": ("gauge", set()),
    "chunkside_disk_free_bytes": ("gauge", set()),
    "chunkside_mapped_bytes": ("gauge", set()),
    "chunkside_lingering_bytes": ("gauge", set()),
    "chunkside_directory_bytes": ("gauge", set()),
    "chunkside_degraded": ("gauge", {"cause"}),
    "chunkside_fills_in_flight": ("gauge", set()),
    "chunkside_fill_waiters": ("gauge", set()),
    "chunkside_partitions": ("gauge", set()),
    "chunkside_upstream_credential_loaded_timestamp_seconds": ("gauge", {"route"}),
    "chunkside_upstream_credential_expires_timestamp_seconds": ("gauge", {"route"}),
    "chunkside_fills": ("counter", {"outcome"}),
    "chunkside_store_errors": ("counter", {"op", "error"}),
    "chunkside_config_last_reload_successful": ("gauge", set()),
    "chunkside_config_last_reload_success_timestamp_seconds": ("gauge", set()),
    "chunkside_build_info": ("gauge", {"version"}),
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


def ended(
    metrics,
    result="hit",
    *,
    route="/",
    key_class="chunk",
    method="GET",
    status: int | None = 200,
    body_bytes=0,
    seconds=0.001,
):
    metrics.request_ended(route, key_class, method, result, status, body_bytes, seconds)


def families(metrics):
    body, _ = metrics.exposition("")
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


def samples(metrics):
    """Values by sample name and labels, labels sorted by name."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): (
            sample.value
        )
        for family in families(metrics).values()
        for sample in family.samples
    }


def count_everything(metrics):
    metrics.watch(lambda: READING)
    ended(metrics)
    metrics.removed("body", "budget")
    metrics.of("/").invalidated("write")
    metrics.fill_ended("stored")
    metrics.of("/").upstream_answered("chunk", "GET", 200, 0.01)
    metrics.of("/").upstream_received(1)
    metrics.of("/").upstream_sent(1)
    metrics.store_failed("write", "ENOSPC")
    metrics.sweep_ended(0.5)


def test_names_types_and_labels_are_those_of_the_contract(metrics):
    count_everything(metrics)
    shown = {
        name: (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for name, family in families(metrics).items()
        if name.startswith("chunkside_")
    }
    assert shown == FAMILIES


def test_every_family_has_a_help_text_of_its_own(metrics):
    count_everything(metrics)
    texts = [f.documentation for n, f in families(metrics).items() if n.startswith("chunkside_")]
    assert all(texts)
    assert len(set(texts)) == len(texts)


def test_process_platform_and_garbage_collector_are_shown(metrics):
    names = families(metrics).keys()
    assert {"python_info", "python_gc_collections"} <= names
    if Path("/proc/self/stat").exists():
        assert {"process_resident_memory_bytes", "process_open_fds"} <= names


def test_metrics_is_what_the_gateway_calls_an_observer(metrics):
    observer: Observer = metrics.of("/")
    observer.removed("body", "purged", 3)
    observer.store_failed("write", "EIO")
    observer.fill_ended("torn")
    shown = samples(metrics)
    assert shown["chunkside_removals_total", "kind=body", "reason=purged"] == 3
    assert shown["chunkside_store_errors_total", "error=EIO", "op=write"] == 1
    assert shown["chunkside_fills_total", "outcome=torn"] == 1


def test_routes_count_apart_and_removals_together():
    metrics = Metrics("1.2.3", ("/a", "/b"))
    for route in ("/a", "/b", "/b"):
        ended(metrics, "miss", route=route)
        observer = metrics.of(route)
        observer.invalidated("PUT")
        observer.upstream_answered("chunk", "GET", 200, 0.5)
        observer.upstream_received(10)
        observer.upstream_sent(1)
        observer.removed("marker", "purged")
    shown = samples(metrics)
    for route, count in (("/a", 1), ("/b", 2)):
        label = f"route={route}"
        requests = ("class=chunk", "method=GET", "result=miss", label)
        assert shown["chunkside_requests_total", *requests] == count
        upstream = ("class=chunk", "code=200", "method=GET", label)
        assert shown["chunkside_upstream_requests_total", *upstream] == count
        assert shown["chunkside_upstream_request_duration_seconds_count", label] == count
        assert shown["chunkside_upstream_received_bytes_total", label] == 10 * count
        assert shown["chunkside_upstream_sent_bytes_total", label] == count
        assert shown["chunkside_invalidations_total", "cause=PUT", label] == count
    assert shown["chunkside_removals_total", "kind=marker", "reason=purged"] == 3
    assert metrics.summary().misses == 3


@pytest.mark.parametrize(("routes", "is_shown"), [(("/a",), True), (("/a", "/"), False)])
def test_what_no_route_takes_stands_at_zero_where_that_can_be(routes, is_shown):
    none = ("class=chunk", "method=GET", "result=error", "route=none")
    assert (("chunkside_requests_total", *none) in samples(Metrics("1", routes))) is is_shown


def test_two_sidecars_in_one_process_count_apart(metrics):
    ended(metrics)
    assert Metrics("1.2.3").summary().hits == 0


def test_what_can_be_foreseen_stands_at_zero_from_the_start(metrics):
    shown = samples(metrics)
    for result in RESULTS:
        requests = ("class=chunk", "method=GET", f"result={result}", "route=/")
        assert shown["chunkside_requests_total", *requests] == 0
        labels = (f"result={result}", "route=/")
        assert shown["chunkside_response_bytes_total", *labels] == 0
        assert shown["chunkside_request_duration_seconds_count", *labels] == 0
    for kind in KINDS:
        for reason in REMOVAL_REASONS:
            labels = (f"kind={kind}", f"reason={reason}")
            assert shown["chunkside_removals_total", *labels] == 0
            assert (("chunkside_evictions_total", *labels) in shown) is (reason in EVICTION_REASONS)
    assert shown["chunkside_responses_total", "code=200", "route=/"] == 0
    assert shown["chunkside_upstream_request_duration_seconds_count", "route=/"] == 0


def test_one_request_is_one_in_each_family_of_requests(metrics):
    ended(metrics, "hit", status=206, body_bytes=100, seconds=0.25)
    ended(metrics, "hit", status=304, body_bytes=0, seconds=0.5)
    ended(metrics, "error", method="PUT", status=None, key_class="metadata")
    shown = samples(metrics)
    hits = ("class=chunk", "method=GET", "result=hit", "route=/")
    assert shown["chunkside_requests_total", *hits] == 2
    failed = ("class=metadata", "method=PUT", "result=error", "route=/")
    assert shown["chunkside_requests_total", *failed] == 1
    assert shown["chunkside_responses_total", "code=206", "route=/"] == 1
    assert shown["chunkside_responses_total", "code=304", "route=/"] == 1
    assert shown["chunkside_responses_total", "code=none", "route=/"] == 1
    assert shown["chunkside_response_bytes_total", "result=hit", "route=/"] == 100
    assert shown["chunkside_request_duration_seconds_count", "result=hit", "route=/"] == 2
    assert shown["chunkside_request_duration_seconds_sum", "result=hit", "route=/"] == 0.75


def test_a_bucket_holds_what_took_at_most_its_bound(metrics):
    for seconds in (0.00004, 0.00005, 0.000051, 60.0, 61.0):
        ended(metrics, "miss", seconds=seconds)
    family = families(metrics)["chunkside_request_duration_seconds"]
    buckets = [
        (float(sample.labels["le"]), sample.value)
        for sample in family.samples
        if sample.name.endswith("_bucket") and sample.labels["result"] == "miss"
    ]
    assert [bound for bound, _ in buckets] == [*DURATION_BUCKETS, float("inf")]
    assert (DURATION_BUCKETS[0], DURATION_BUCKETS[-1]) == (50e-6, 60.0)
    assert [count for _, count in buckets] == [2, *[3] * 17, 4, 5]


def test_labels_stay_bounded_whatever_is_sent(metrics):
    ended(metrics, "bypass", method="other", status=999)
    metrics.of("/").upstream_answered("chunk", "BREW", 799, 0.1)
    metrics.of("/").invalidated("BREW")
    before = len(samples(metrics))
    for number in range(1000):
        ended(metrics, "bypass", method=f"BREW{number}", status=1000 + number)
        metrics.of("/").upstream_answered("chunk", f"BREW{number}", 1000 + number, 0.1)
        metrics.of("/").invalidated(f"BREW{number}")
    shown = samples(metrics)
    assert len(shown) == before
    assert shown["chunkside_responses_total", "code=other", "route=/"] == 1001
    odd = ("class=chunk", "code=other", "method=other", "route=/")
    assert shown["chunkside_upstream_requests_total", *odd] == 1001


def test_requests_to_the_origin_are_counted_with_and_without_an_answer(metrics):
    metrics.of("/").upstream_answered("chunk", "GET", 200, 0.5)
    metrics.of("/").upstream_answered("chunk", "GET", None, 3.0)
    metrics.of("/").upstream_received(1000)
    metrics.of("/").upstream_received(24)
    metrics.of("/").upstream_sent(7)
    shown = samples(metrics)
    for code in ("200", "none"):
        labels = ("class=chunk", f"code={code}", "method=GET", "route=/")
        assert shown["chunkside_upstream_requests_total", *labels] == 1
    assert shown["chunkside_upstream_request_duration_seconds_sum", "route=/"] == 3.5
    assert shown["chunkside_upstream_received_bytes_total", "route=/"] == 1024
    assert shown["chunkside_upstream_sent_bytes_total", "route=/"] == 7


@pytest.mark.parametrize("reason", REMOVAL_REASONS)
def test_a_removal_that_makes_room_is_an_eviction_too(metrics, reason):
    metrics.removed("marker", reason, 4)
    shown = samples(metrics)
    labels = ("kind=marker", f"reason={reason}")
    assert shown["chunkside_removals_total", *labels] == 4
    evicted = 4 if reason in EVICTION_REASONS else 0
    assert shown.get(("chunkside_evictions_total", *labels), 0) == evicted
    assert metrics.summary().evictions == evicted


def test_faults_fills_and_invalidations_are_counted_by_their_words(metrics):
    metrics.store_failed("write", "ENOSPC")
    metrics.store_failed("write", "ENOSPC")
    metrics.fill_ended("stored")
    metrics.of("/").invalidated("PUT")
    shown = samples(metrics)
    assert shown["chunkside_store_errors_total", "error=ENOSPC", "op=write"] == 2
    assert shown["chunkside_fills_total", "outcome=stored"] == 1
    assert shown["chunkside_invalidations_total", "cause=PUT", "route=/"] == 1


@pytest.mark.parametrize(
    ("cause", "label"),
    [("PUT", "PUT"), ("metadata", "metadata"), ("purge", "purge"), ("COPY", "other")],
)
def test_what_invalidates_is_a_word_of_few(metrics, cause, label):
    metrics.of("/").invalidated(cause)
    assert samples(metrics)["chunkside_invalidations_total", f"cause={label}", "route=/"] == 1


def test_what_was_saved_is_told_of_routes_that_went_as_well():
    metrics = Metrics("1", ("/a", "/b"))
    for route in ("/a", "/b"):
        ended(metrics, "hit", route=route, body_bytes=100)
        ended(metrics, "stale", route=route, body_bytes=10)
        ended(metrics, "negative_hit", route=route, status=404, body_bytes=3)
        ended(metrics, "collapsed", route=route, body_bytes=1)
        ended(metrics, "miss", route=route, body_bytes=1000)
        metrics.of(route).upstream_answered("chunk", "GET", 200, 0.1)
    before = metrics.saved()
    assert before == Saved(
        requests=10,
        without_origin=4,
        negative_hits=2,
        collapsed=2,
        upstream_requests=2,
        bytes_sent=2228,
        bytes_from_store=220,
    )
    metrics.drop_route("/a")
    assert metrics.saved() == before


def test_gauges_are_read_at_each_scrape(metrics):
    assert "chunkside_index_entries" not in families(metrics)
    readings = iter([READING, READING])
    metrics.watch(lambda: next(readings))
    assert samples(metrics)["chunkside_index_entries", "kind=marker"] == 2
    assert samples(metrics)["chunkside_stored_limit_bytes",] == 1 << 40
    assert next(readings, None) is None


def test_a_disk_that_says_nothing_shows_no_free_space(metrics):
    values = {name: getattr(READING, name) for name in GaugeReading.__slots__}
    unknown = {"disk_free_bytes": None, "directory_bytes": None}
    metrics.watch(lambda: GaugeReading(**{**values, **unknown}))
    assert families(metrics).keys().isdisjoint(f"chunkside_{name}" for name in unknown)
    assert "chunkside_mapped_bytes" in families(metrics)


def test_a_credential_shows_its_end_where_it_has_one_and_its_routes_alone(metrics):
    values = {name: getattr(READING, name) for name in GaugeReading.__slots__}
    both = {"/a": CredentialReading(5.0, None), "/b": CredentialReading(6.0, 7.0)}
    loaded, expires = (
        f"chunkside_upstream_credential_{name}_timestamp_seconds" for name in ("loaded", "expires")
    )
    metrics.watch(lambda: GaugeReading(**{**values, "credentials": both}))
    shown = samples(metrics)
    assert (shown[loaded, "route=/a"], shown[loaded, "route=/b"]) == (5, 6)
    assert [key for key in shown if key[0] == expires] == [(expires, "route=/b")]
    metrics.watch(lambda: GaugeReading(**{**values, "credentials": {}}))
    assert families(metrics).keys().isdisjoint((loaded, expires))


def test_a_scraper_that_asks_for_openmetrics_gets_it(metrics):
    count_everything(metrics)
    accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
    body, content_type = metrics.exposition(accept)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    names = {family.name for family in openmetrics_families(body.decode())}
    assert "chunkside_requests" in names
    assert metrics.exposition("")[1].startswith("text/plain; version=0.0.4")


def test_a_summary_of_nothing_divides_by_nothing(metrics):
    assert metrics.summary() == Summary(
        hits=0, misses=0, negative_hits=0, evictions=0, total_requests=0, hit_rate=0.0
    )


def test_a_negative_hit_is_neither_hit_nor_miss(metrics):
    for result in ("hit", "stale", "revalidated", "miss", "collapsed"):
        ended(metrics, result)
    for result in ("negative_hit", "negative_hit", "bypass", "error"):
        ended(metrics, result, status=404)
    assert metrics.summary() == Summary(
        hits=3, misses=2, negative_hits=2, evictions=0, total_requests=5, hit_rate=0.6
    )


# Routes that come and go.


def test_a_route_that_comes_shows_zeroes_and_one_that_stays_keeps_its_counts():
    metrics = Metrics("1", ("/a",))
    ended(metrics, route="/a")
    metrics.add_routes(("/a", "/b"))
    shown = samples(metrics)
    for route, count in (("/a", 1), ("/b", 0)):
        labels = ("class=chunk", "method=GET", "result=hit", f"route={route}")
        assert shown["chunkside_requests_total", *labels] == count
    metrics.of("/b").upstream_received(5)
    assert samples(metrics)["chunkside_upstream_received_bytes_total", "route=/b"] == 5


def test_a_route_that_went_is_shown_no_longer_and_counts_in_the_totals():
    metrics = Metrics("1", ("/a", "/b"))
    observer = metrics.of("/a")
    ended(metrics, route="/a")
    ended(metrics, "negative_hit", route="/a")
    ended(metrics, route="/b")
    observer.upstream_answered("chunk", "GET", 200, 0.1)
    observer.upstream_retried()
    observer.upstream_spared("queue")
    observer.invalidated("PUT")
    before = metrics.summary()
    metrics.drop_route("/a")
    assert metrics.summary() == before
    assert not [key for key in samples(metrics) if "route=/a" in key]
    assert [key for key in samples(metrics) if "route=/b" in key]
    metrics.add_routes(("/a", "/b"))
    assert metrics.summary() == before
    assert samples(metrics)["chunkside_upstream_retries_total", "route=/a"] == 0


def test_a_reload_that_failed_leaves_the_time_of_the_last_good_one():
    metrics = Metrics("1")
    at = "chunkside_config_last_reload_success_timestamp_seconds"
    good = "chunkside_config_last_reload_successful"
    started = samples(metrics)[at,]
    metrics.reloaded(is_successful=False)
    assert (samples(metrics)[good,], samples(metrics)[at,]) == (0, started)
    metrics.reloaded(is_successful=True)
    assert samples(metrics)[good,] == 1
    assert samples(metrics)[at,] > started
