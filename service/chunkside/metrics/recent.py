"""The last minutes: samples of the counters in a ring, and what was asked for, failed or went.

Everything here is bounded, and lives as long as the process.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from prometheus_client.core import Metric

from chunkside.metrics.prefixes import SpaceSaving, prefix_of
from chunkside.metrics.reading import Reading

STEP_SECONDS: Final = 5.0
STEPS: Final = 180
"""A quarter of an hour."""
_MOST_EVENTS: Final = 32
# Evictions of one kind within so long are one event.
_EVENT_SECONDS: Final = 60.0
_HITS: Final = frozenset({"hit", "stale", "revalidated"})
_ABSENT: Final = frozenset({404, 410})
# Of an answer below 500, what a reader can't go on after.
_FAULTS: Final = frozenset({401, 403, 429})


class Point(NamedTuple):
    """What happened in the step that ended at `at`, wall-clock seconds; requests by result."""

    at: float
    results: Counter[str]


@dataclass(slots=True)
class Event:
    """`first` and `last`: wall-clock seconds."""

    first: float
    last: float
    count: int


@dataclass(slots=True)
class Recent:
    """`counted` reads the counters; it is called at each step."""

    counted: Callable[[], Iterator[Metric]] = lambda: iter(())
    wall: Callable[[], float] = time.time
    hits: SpaceSaving = field(default_factory=SpaceSaving)
    absences: SpaceSaving = field(default_factory=SpaceSaving)
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=STEPS))
    # By status and prefix; the newest last.
    errors: OrderedDict[tuple[int | None, str], Event] = field(default_factory=OrderedDict)
    # Kind, reason and event, the newest last.
    evictions: deque[tuple[str, str, Event]] = field(
        default_factory=lambda: deque(maxlen=_MOST_EVENTS)
    )
    store_errors: deque[tuple[str, str, Event]] = field(
        default_factory=lambda: deque(maxlen=_MOST_EVENTS)
    )
    _before: Reading = field(default_factory=lambda: Reading(()))

    def saw(self, target: bytes, result: str, status: int | None, times: int = 1) -> None:
        """A request was answered, and `times` - 1 others like it that aren't told one by one."""
        prefix = prefix_of(target)
        if result == "error" or _is_fault(status):
            self._failed(status, prefix)
        elif status in _ABSENT:
            self.absences.add(prefix, times)
        elif result in _HITS:
            self.hits.add(prefix, times)

    def _failed(self, status: int | None, prefix: str) -> None:
        now = self.wall()
        event = self.errors.setdefault((status, prefix), Event(now, now, 0))
        event.last = now
        event.count += 1
        self.errors.move_to_end((status, prefix))
        if len(self.errors) > _MOST_EVENTS:
            self.errors.popitem(last=False)

    async def run(self) -> None:
        """Until it is cancelled."""
        self._before = Reading(self.counted())
        while True:
            await asyncio.sleep(STEP_SECONDS)
            self.step()

    def step(self) -> None:
        """Notes what happened since the last one."""
        now, reading = self.wall(), Reading(self.counted())
        name = "chunkside_requests_total"
        risen = _risen(reading, self._before, name, "result")
        self.points.append(Point(now, Counter({result: n for (result,), n in risen.items()})))
        for (kind, reason), count in _risen(
            reading, self._before, "chunkside_evictions_total", "kind", "reason"
        ).items():
            _note(self.evictions, kind, reason, count, now)
        for (operation, error), count in _risen(
            reading, self._before, "chunkside_store_errors_total", "op", "error"
        ).items():
            _note(self.store_errors, operation, error, count, now)
        self._before = reading

    def now_and_before(self) -> list[Point]:
        """All points, and the one that is being made: its `at` is now."""
        risen = _risen(Reading(self.counted()), self._before, "chunkside_requests_total", "result")
        current = Counter({result: n for (result,), n in risen.items()})
        return [*self.points, Point(self.wall(), current)]


def _is_fault(status: int | None) -> bool:
    return status is not None and (status >= 500 or status in _FAULTS)


def _risen(now: Reading, before: Reading, sample: str, *labels: str) -> dict[tuple[str, ...], int]:
    """By how much each sum is higher. What fell has gone with its route, and counts for nothing."""
    old = before.by(sample, *labels)
    return {key: int(n - old[key]) for key, n in now.by(sample, *labels).items() if n > old[key]}


def _note(
    events: deque[tuple[str, str, Event]], first: str, second: str, count: int, now: float
) -> None:
    for one, other, event in reversed(events):
        if (one, other) == (first, second) and now - event.first < _EVENT_SECONDS:
            event.last = now
            event.count += count
            return
    events.append((first, second, Event(now, now, count)))
