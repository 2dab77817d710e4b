"""What the status page tells, from the counters that Prometheus reads."""

import json
from typing import Any

import pytest

from chunkside.metrics import GaugeReading, Metrics
from chunkside.metrics.reading import Reading
from chunkside.metrics.recent import Recent
from chunkside.status import status_of
from tests.test_console import console_of, held, house  # noqa: F401 - fixtures

INFO = {"version": "1", "uptime_seconds": 60.0, "routes": [{"prefix": "/", "upstream": "http://o"}]}


@pytest.fixture
def metrics():
    return Metrics("1")


def told(metrics, recent=None, info=INFO, obstacle=None):
    recent = recent or Recent(metrics.counted)
    status = status_of(Reading(metrics.collect()), recent, info, obstacle, is_scanning=False)
    assert json.loads(json.dumps(status, allow_nan=False)) == status
    return status


def ask(metrics, result, times, seconds=0.001, status=200, size=10):
    for _ in range(times):
        metrics.request_ended("/", "chunk", "GET", result, status, size, seconds)


def test_requests_that_needed_no_origin_are_hits_absences_and_shared_fills(metrics):
    for result, times in {
        "hit": 5,
        "negative_hit": 4,
        "collapsed": 3,
        "miss": 2,
        "revalidated": 1,
        "stale": 1,
        "bypass": 1,
        "error": 1,
    }.items():
        ask(metrics, result, times)
    metrics.upstream_answered("/", "chunk", "GET", 200, 0.5)
    saved = told(metrics)["saved"]
    assert (saved["requests_without_origin"], saved["requests"]) == (12, 18)
    assert saved["share"] == pytest.approx(12 / 18)
    assert (saved["absences"], saved["origin_requests"]) == (4, 1)


def test_bytes_from_store_are_those_of_stored_bodies(metrics):
    for result in ("hit", "stale", "revalidated", "miss", "negative_hit"):
        ask(metrics, result, 1, size=100)
    metrics.upstream_received("/", 70)
    saved = told(metrics)["saved"]
    assert (saved["bytes_from_store"], saved["bytes_from_origin"]) == (300, 70)


def test_waiting_saved_is_the_origins_mean_time_less_our_own(metrics):
    assert told(metrics)["saved"]["seconds"] is None
    metrics.upstream_answered("/", "chunk", "GET", 200, 0.1)
    metrics.upstream_answered("/", "chunk", "GET", 404, 0.3)
    ask(metrics, "hit", 6, seconds=0.01)
    ask(metrics, "negative_hit", 4, seconds=0.01)
    ask(metrics, "miss", 50, seconds=9)
    assert told(metrics)["saved"]["seconds"] == pytest.approx(10 * 0.2 - 10 * 0.01)


def test_waiting_saved_is_never_below_nothing(metrics):
    metrics.upstream_answered("/", "chunk", "GET", 200, 0.001)
    ask(metrics, "hit", 5, seconds=60)
    assert told(metrics)["saved"]["seconds"] == 0


def test_the_window_groups_results_by_where_bytes_came_from(metrics):
    recent = Recent(metrics.counted)
    for result in (
        *("hit", "stale", "revalidated", "negative_hit"),
        *("miss", "collapsed", "bypass", "error"),
    ):
        ask(metrics, result, 1)
    recent.step()
    window = told(metrics, recent)["window"]
    assert window["totals"] == {"store": 3, "absence": 1, "origin": 3, "error": 1}
    first, current = window["points"]
    assert {name: first[name] for name in window["totals"]} == window["totals"]
    assert not any(current[name] for name in window["totals"])


def test_a_route_tells_of_its_origin(metrics):
    for status in (200, 404, 503, 429, None):
        metrics.upstream_answered("/", "chunk", "GET", status, 0.2)
    metrics.breaker_is("/", "open")
    ask(metrics, "error", 2, status=503)
    [route] = told(metrics)["routes"]
    assert route == {
        "route": "/",
        "upstream": "http://o",
        "requests": 2,
        "errors": 2,
        "origin_requests": 5,
        "origin_faults": 3,
        "origin_seconds": pytest.approx(0.2),
        "breaker": "open",
    }


def test_what_is_held_is_what_the_gauges_say(metrics):
    metrics.watch(
        lambda: GaugeReading(
            index_entries={"body": 1, "range": 2, "marker": 3},
            index_memory_bytes={"body": 300, "marker": 400},
            index_memory_limit_bytes=5000,
            stored_bytes={"body": 6144, "range": 0, "marker": 440},
            stored_limit_bytes=1 << 30,
            disk_free_bytes=None,
            mapped_bytes=9,
            lingering_bytes=0,
            directory_bytes=None,
            fills_in_flight=4,
            fill_waiters=0,
            partitions=0,
            credentials={},
            degraded={},
        )
    )
    assert told(metrics)["held"] == {
        "bodies": 1,
        "ranges": 2,
        "markers": 3,
        "bytes": {"body": 6144, "range": 0, "marker": 440},
        "limit_bytes": 1 << 30,
        "memory_bytes": 700,
        "memory_limit_bytes": 5000,
        "disk_free_bytes": None,
        "fills_in_flight": 4,
    }


def test_events_come_newest_first(metrics):
    seconds = iter(range(1_800_000_000, 1_800_000_100))
    recent = Recent(metrics.counted, lambda: next(seconds))
    for prefix in (b"/a/c/0", b"/b/c/0", b"/a/c/1"):
        recent.saw(prefix, "error", 503)
    errors = told(metrics, recent)["errors"]
    assert [(event["prefix"], event["count"]) for event in errors] == [("/a", 2), ("/b", 1)]
    assert errors[0]["first"] < errors[1]["first"] < errors[0]["last"]


def test_a_sidecar_that_is_not_ready_says_why(metrics):
    status = told(metrics, obstacle="starting")
    assert (status["is_ready"], status["obstacle"]) == (False, "starting")


async def test_the_console_tells_it_of_what_it_shows_itself(held):  # noqa: F811
    console = console_of(held)
    console.obstacle = None
    status: Any = console.status()
    assert status["is_ready"]
    assert status["configuration"].keys() == console.info().keys()
    assert [route["route"] for route in status["routes"]] == ["/"]
