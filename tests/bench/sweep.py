"""Sweeps and scans of many files by a running sidecar, while a client asks /livez every 20 ms.

`python -m tests.bench.sweep [--files 100000] [--rounds 3]`, on the disk of /var/tmp. A round has a
sidecar at rest; makes so many files, starts a sidecar on them and times its scan, beside which the
first sweep counts them; then makes all of them older than the retention, writes as much as a sweep
waits for, and times that sweep, which removes them all. Times are told, and judge nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.figures import Spread, percentile
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.many_files import fill_directory
from tests.support.meanwhile import meanwhile
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

MIB = 1 << 20
EVERY_SECONDS = 0.02
REST_SECONDS = 3.0
DEADLINE_SECONDS = 600.0
DAY = 86_400
FLAGS = (
    *("--min-free", "0", "--allow-memory-filesystem", "--cache-size", "1GiB"),
    *("--retention", "1d", "--index-memory", "1GiB", "--max-body-size", "16MiB"),
)


@contextmanager
def pulse(sidecar: Sidecar) -> Iterator[list[float]]:
    """Asks /livez again and again meanwhile; gives how long each answer took, in seconds."""
    seconds: list[float] = []
    with Connection(sidecar.admin_url) as connection:

        def ask() -> None:
            asked_at = time.perf_counter()
            connection.send("GET", "/livez")
            answer = connection.response()
            seconds.append(time.perf_counter() - asked_at)
            assert answer.status == 200, answer

        with meanwhile(ask, EVERY_SECONDS):
            yield seconds


@dataclass
class Phase:
    """One thing that was timed in each round. Pulses in milliseconds."""

    name: str
    seconds: list[float] = field(default_factory=list)
    middle: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    slowest: list[float] = field(default_factory=list)

    def add(self, seconds: float, pulses: list[float]) -> None:
        self.seconds.append(seconds)
        self.middle.append(statistics.median(pulses) * 1e3)
        self.late.append(percentile(pulses, 0.99) * 1e3)
        self.slowest.append(max(pulses) * 1e3)

    def told(self, files: int) -> str:
        rates = [files / seconds for seconds in self.seconds]
        has_files = self.name != "at rest"
        cells = [
            self.name,
            str(Spread(self.seconds, 1)) if has_files else "",
            str(Spread(rates)) if has_files else "",
            *(str(Spread(each, 1)) for each in (self.middle, self.late, self.slowest)),
        ]
        return "| " + " | ".join(cells) + " |"


def bodies(sidecar: Sidecar) -> int:
    found: int = json.loads(exchange(sidecar.admin_url, "/stats").body)["bodies"]
    return found


def timed(sidecar: Sidecar, begin: Callable[[], None], is_over: Callable[[], bool]) -> list[float]:
    """The pulses from `begin` until it is over."""
    looks = itertools.count(1)
    with pulse(sidecar) as seconds:
        begin()
        # Twice a second: to be asked is work for the sidecar.
        wait_for(
            lambda: next(looks) % 50 == 0 and is_over(),
            "the end of what is timed",
            DEADLINE_SECONDS,
        )
    return seconds


def rest(sidecar: Sidecar, phase: Phase) -> None:
    with pulse(sidecar) as seconds:
        threading.Event().wait(REST_SECONDS)
    phase.add(REST_SECONDS, seconds)


def one_round(origin: Origin, home: Path, files: int, phases: list[Phase]) -> None:
    at_rest, scan, sweep = phases
    cache = home / "cache"
    with Sidecar(origin.url, cache, FLAGS) as sidecar:
        rest(sidecar, at_rest)
        sidecar.stop()
    paths = list(fill_directory(cache, files, origin.url))
    with Sidecar(origin.url, cache, FLAGS) as sidecar:
        started = time.perf_counter()
        pulses = timed(sidecar, lambda: None, lambda: bodies(sidecar) >= files)
        scan.add(time.perf_counter() - started, pulses)
        wait_for(lambda: sweeps(sidecar) == 1, "the first sweep", DEADLINE_SECONDS)
        old = time.time() - 2 * DAY
        for path in paths:
            os.utime(path, (old, old))
        before = sidecar.metric("chunkside_sweep_duration_seconds_sum")

        def write_enough() -> None:
            for number in range(10):
                exchange(sidecar.url, f"/large/{number}")

        pulses = timed(sidecar, write_enough, lambda: sweeps(sidecar) >= 2)
        assert bodies(sidecar) <= 10, "the sweep left something"
        sweep.add(sidecar.metric("chunkside_sweep_duration_seconds_sum") - before, pulses)


def sweeps(sidecar: Sidecar) -> int:
    return int(sidecar.metric("chunkside_sweep_duration_seconds_count"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sweep", description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    phases = [Phase("at rest"), Phase("scan at the start"), Phase("sweep that removes all")]
    with Origin({f"/large/{number}": bytes(8 * MIB) for number in range(10)}) as origin:
        for _ in range(chosen.rounds):
            with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="chunkside-sweep-") as place:
                one_round(origin, Path(place), chosen.files, phases)
    print(f"{chosen.files:,} files, {chosen.rounds} rounds: median (least-most)\n")
    print("| | s | files a second | /livez ms: median | 99 % | slowest |")
    print("|---|---|---|---|---|---|")
    for phase in phases:
        print(phase.told(chosen.files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
