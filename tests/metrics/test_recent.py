"""The last minutes, and what went wrong in them."""

import asyncio
from typing import Any

import pytest

from chunkside.metrics import Metrics
from chunkside.metrics import recent as module
from chunkside.metrics.reading import Reading
from chunkside.metrics.recent import STEPS, Recent


class Wall:
    def __init__(self):
        self.seconds = 1_800_000_000.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def wall():
    return Wall()


@pytest.fixture
def metrics():
    return Metrics("1", ["/", "/b"])


@pytest.fixture
def recent(metrics, wall):
    return Recent(metrics.counted, wall)


def ask(metrics, result, times=1, route="/", status=200):
    for _ in range(times):
        metrics.request_ended(route, "chunk", "GET", result, status, 10, 0.001)


def test_each_step_has_what_happened_in_it_and_the_last_is_under_way(metrics, recent, wall):
    recent.step()
    ask(metrics, "hit", 3)
    wall.seconds += 5
    recent.step()
    ask(metrics, "miss")
    points = recent.now_and_before()
    assert [dict(point.results) for point in points] == [{}, {"hit": 3}, {"miss": 1}]
    assert [point.at - points[0].at for point in points] == [0, 5, 5]


def test_no_more_steps_are_kept_than_a_quarter_of_an_hour_has(metrics, recent):
    for _ in range(STEPS + 20):
        ask(metrics, "hit")
        recent.step()
    assert len(recent.points) == STEPS == 900 / module.STEP_SECONDS


def test_a_route_that_goes_takes_nothing_from_a_step(metrics, recent):
    ask(metrics, "hit", 5, route="/b")
    recent.step()
    ask(metrics, "hit", 2)
    metrics.drop_route("/b")
    recent.step()
    # What /b had is gone from the sums; nothing is counted below nought.
    assert all(count >= 0 for point in recent.points for count in point.results.values())


def test_targets_count_by_how_they_were_answered(recent):
    recent.saw(b"/a/c/0", "hit", 200, 31)
    recent.saw(b"/a/c/1", "negative_hit", 404)
    recent.saw(b"/b/c/1", "miss", 410)
    recent.saw(b"/b/c/2", "miss", 200)
    assert [(each.item, each.count) for each in recent.hits.top(9)] == [("/a", 31)]
    assert [(each.item, each.count) for each in recent.absences.top(9)] == [("/a", 1), ("/b", 1)]
    assert not recent.errors


@pytest.mark.parametrize(
    ("result", "status"),
    [("error", 503), ("error", None), ("error", 400), ("miss", 500), ("bypass", 403)],
)
def test_what_a_reader_can_not_go_on_after_is_an_error(recent, result, status):
    recent.saw(b"/a/c/0?sig=secret", result, status)
    [(names, event)] = recent.errors.items()
    assert (names, event.count) == ((status, "/a"), 1)


def test_an_error_that_repeats_is_one_and_knows_when_it_was_last(recent, wall):
    for _ in range(3):
        recent.saw(b"/a/c/0", "error", 503)
        wall.seconds += 10
    [event] = recent.errors.values()
    assert (event.count, event.last - event.first) == (3, 20)


def test_errors_are_bounded_and_the_newest_stay(recent):
    for number in range(100):
        recent.saw(b"/a%d/c/0" % number, "error", 503)
    assert len(recent.errors) == 32
    assert (503, "/a99") in recent.errors


def test_evictions_of_one_minute_are_one_event_and_later_ones_another(metrics, recent, wall):
    for seconds in (0, 5, 5, 120):
        wall.seconds += seconds
        metrics.removed("body", "budget", 2)
        metrics.removed("body", "expired")
        recent.step()
    told = [(kind, reason, event.count) for kind, reason, event in recent.evictions]
    assert told == [("body", "budget", 6), ("body", "budget", 2)]


def test_faults_of_the_disk_are_told(metrics, recent):
    metrics.store_failed("commit", "ENOSPC")
    recent.step()
    assert [(op, error) for op, error, _ in recent.store_errors] == [("commit", "ENOSPC")]


async def test_steps_are_made_by_one_task_until_it_is_cancelled(metrics, wall, monkeypatch):
    steps = asyncio.Event()
    recent: Any = Recent(metrics.counted, wall)
    ask(metrics, "hit", 7)
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    task = asyncio.create_task(recent.run())
    recent.points = Steps(steps)
    async with asyncio.timeout(10):
        await steps.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # What was there before is no part of the first step.
    assert recent.points.first.results == {}


class Steps(list):
    def __init__(self, event):
        super().__init__()
        self._event = event

    def append(self, point):
        super().append(point)
        self._event.set()

    @property
    def first(self):
        return self[0]


def test_a_reading_of_a_family_that_is_not_there_is_nothing(metrics):
    reading = Reading(metrics.counted())
    assert reading.total("chunkside_no_such_total") == 0
    assert not reading.has("chunkside_no_such_total")
    assert reading.by("chunkside_no_such_total", "route") == {}


def test_a_reading_sums_over_labels(metrics):
    ask(metrics, "hit", 2)
    ask(metrics, "hit", 3, route="/b")
    reading = Reading(metrics.counted())
    assert reading.by("chunkside_requests_total", "result")["hit",] == 5
    assert reading.total("chunkside_requests_total", route="/b", result="hit") == 3
