"""A flood of absent keys through a running sidecar, while few hot ones are asked for over and over.

What must hold all the time: memory stays under its bounds, and no hot key is forgotten. At the end
all of it is purged by prefix while requests go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.absent_origin import AbsentOrigin, Client, absent_origin
from tests.support.sidecar import Sidecar, value_of


class BrokenBoundError(Exception):
    """Says in a sentence what doesn't hold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes in bytes. `allowance`: what the process may take beside its index. `depth`: requests on
    their way on each connection. `looks`: how often the bounds are looked at during the flood.
    """

    keys: int
    hot: int
    index_memory: int
    max_markers: int
    allowance: int
    connections: int
    depth: int = 4
    looks: int = 100

    @property
    def flags(self) -> list[str]:
        return [
            *("--index-memory", str(self.index_memory), "--max-markers", str(self.max_markers)),
            *("--negative-ttl", "1d", "--cache-size", "4GiB"),
            *("--min-free", "0", "--allow-memory-filesystem"),
        ]

    @property
    def rss_bound(self) -> int:
        return self.index_memory + self.allowance


@dataclass(frozen=True, slots=True)
class Reading:
    """What a look found, when so many keys of the flood had been answered. Sizes in bytes.
    `series`: how many samples a scrape had.
    """

    answered: int
    rss: int
    index_memory: int
    markers: int
    series: int


@dataclass(slots=True)
class Phase:
    """`pause`: the longest, in seconds, that whoever asks for hot keys waited for one."""

    seconds: float = 0.0
    pause: float = 0.0
    keys: int = 0
    hot: int = 0


@dataclass(slots=True)
class Report:
    """`purged`: as the admin port told it."""

    readings: list[Reading] = field(default_factory=list)
    flood: Phase = field(default_factory=Phase)
    purge: Phase = field(default_factory=Phase)
    purged: dict[str, int] = field(default_factory=dict)


async def soak(plan: Plan, cache_dir: Path, told: Callable[[Reading], None]) -> Report:
    """Starts an origin and a sidecar, and ends both; `told` hears of each look during the flood.
    Raises BrokenBoundError.
    """
    async with absent_origin() as origin:
        with Sidecar(origin.url, cache_dir, plan.flags) as sidecar:
            soaking = _Soak(plan, sidecar, origin, told)
            try:
                await soaking.flood()
                await soaking.purge()
            except BaseExceptionGroup as group:
                broken = group.subgroup(BrokenBoundError)
                if broken is None:
                    raise
                raise _first_of(broken) from None
            return soaking.report


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class _Soak:
    def __init__(
        self, plan: Plan, sidecar: Sidecar, origin: AbsentOrigin, told: Callable[[Reading], None]
    ) -> None:
        self.report = Report()
        self._plan = plan
        self._sidecar = sidecar
        self._asked = origin.asked
        self._told = told
        self._hot = [b"/hot/some/array.zarr/c/0/%020d" % number for number in range(plan.hot)]
        self._begun = 0
        self._answered = 0

    async def flood(self) -> None:
        plan, flood = self._plan, self.report.flood
        await self._ask_for_all_hot()
        await self._ask_for_all_hot()
        async with self._phase(flood), asyncio.TaskGroup() as group:
            for _ in range(plan.connections):
                group.create_task(
                    self._ask_for_new(lambda: self._begun >= plan.keys, self._look_on)
                )
        await self._ask_for_all_hot()
        hits = value_of(await self._metrics(), 'chunkside_requests_total{result="negative_hit"}')
        asked_again = flood.hot + 2 * plan.hot
        if hits != asked_again:
            raise BrokenBoundError(
                f"Of {asked_again:,} requests for hot keys that were known {hits:,.0f} were hits."
            )

    async def purge(self) -> None:
        """Of all by prefix, while new keys and hot ones are asked for."""
        report = self.report
        stop = asyncio.Event()
        async with self._phase(report.purge), asyncio.TaskGroup() as group:
            for _ in range(self._plan.connections):
                group.create_task(self._ask_for_new(stop.is_set, _nothing))
            async with await Client.connect(self._sidecar.admin_url) as admin:
                status, told = await admin.post(b"/purge", b'{"prefix": "/"}')
            stop.set()
        if status != 200:
            raise BrokenBoundError(f"The purge was answered {status}: {told.decode()}")
        report.purged = json.loads(told)
        since, held = report.purge.keys + self._plan.hot, (await self._look()).markers
        if held > since:
            raise BrokenBoundError(
                f"{held:,} markers are held after a purge of all: more than the {since:,} keys "
                "that were asked for since it began."
            )
        await self._ask_for_all_hot()
        before = self._asked[b"hot"]
        await self._ask_for_all_hot()
        if self._asked[b"hot"] != before:
            raise BrokenBoundError("What was asked for since the purge is not remembered.")

    # Asking.

    @contextlib.asynccontextmanager
    async def _phase(self, phase: Phase) -> AsyncIterator[None]:
        """Measures it, while one asks for hot keys, one after the other."""
        begun, started, stop = self._begun, time.perf_counter(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ask_for_hot(stop, phase))
            yield
            phase.seconds = time.perf_counter() - started
            phase.keys = self._begun - begun
            stop.set()

    async def _ask_for_hot(self, stop: asyncio.Event, phase: Phase) -> None:
        async with await Client.connect(self._sidecar.url) as client:
            while not stop.is_set():
                asked_at = time.perf_counter()
                await self._ask(client, [self._hot[phase.hot % len(self._hot)]])
                phase.pause = max(phase.pause, time.perf_counter() - asked_at)
                phase.hot += 1

    async def _ask_for_all_hot(self) -> None:
        async with await Client.connect(self._sidecar.url) as client:
            for target in self._hot:
                await self._ask(client, [target])

    async def _ask_for_new(
        self, is_over: Callable[[], bool], after: Callable[[], Awaitable[None]]
    ) -> None:
        async with await Client.connect(self._sidecar.url) as client:
            while not is_over():
                numbers = range(self._begun, self._begun + self._plan.depth)
                self._begun = numbers.stop
                await self._ask(client, [b"/flood/some/array.zarr/c/%021d" % n for n in numbers])
                self._answered += len(numbers)
                await after()

    async def _ask(self, client: Client, targets: list[bytes]) -> None:
        for target, status in zip(targets, await client.statuses(*targets), strict=True):
            if status != 404:
                raise BrokenBoundError(f"{target.decode()} is absent, and was answered {status}.")

    # Looking.

    async def _look_on(self) -> None:
        """Looks as often as the plan says."""
        plan, looks = self._plan, len(self.report.readings)
        if self._answered * plan.looks >= (looks + 1) * plan.keys:
            # Taken before anybody else is asked whether it is time.
            self.report.readings.append(Reading(self._answered, 0, 0, 0, 0))
            self.report.readings[looks] = reading = await self._look()
            self._told(reading)
            if self._asked[b"hot"] != plan.hot:
                raise BrokenBoundError(
                    f"{plan.hot:,} hot keys were asked of the origin {self._asked[b'hot']:,} times."
                )

    async def _look(self) -> Reading:
        page, plan = await self._metrics(), self._plan
        reading = Reading(
            answered=self._answered,
            rss=self._sidecar.rss_anon_bytes(),
            index_memory=int(value_of(page, "chunkside_index_memory_bytes")),
            markers=int(value_of(page, 'chunkside_index_entries{kind="marker"}')),
            series=sum(not line.startswith("#") for line in page.splitlines()),
        )
        for name, found, bound in (
            ("bytes of RssAnon", reading.rss, plan.rss_bound),
            ("bytes of index memory", reading.index_memory, plan.index_memory),
            ("markers", reading.markers, plan.max_markers),
        ):
            if found > bound:
                raise BrokenBoundError(
                    f"{found:,} {name} after {self._answered:,} keys; the bound is {bound:,}."
                )
        return reading

    async def _metrics(self) -> str:
        async with await Client.connect(self._sidecar.admin_url) as admin:
            _, page = await admin.get(b"/metrics")
        return page.decode()


async def _nothing() -> None:
    pass
