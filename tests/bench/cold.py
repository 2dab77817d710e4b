"""Remembered 404s while bodies are read from a cold disk, beside warm ones and at rest.

`python -m tests.bench.cold [--mib 512] [--rounds 5]`, as root, on the disk of /var/tmp. A round
starts a sidecar on the same directory, lets it scan, and asks for one absent key back to back on
one connection: at rest; after the page cache was dropped, while four readers in a process of their
own read every body once; and while they read them again, from memory. The sidecar has one core, all
others the other; whoever asks for the absent key goes before the readers there, or its times would
be those of its own waiting for the core. Times are told, and judge nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.bench.figures import Spread, percentile
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar

KIB, MIB = 1 << 10, 1 << 20
SIDECAR_CORE, LOAD_CORE = 0, 1
READERS = 4
REST_SECONDS = 3.0
SMALL, LARGE = 64 * KIB, 8 * MIB
FLAGS = (
    *("--min-free", "0", "--allow-memory-filesystem", "--cache-size", "8GiB"),
    *("--ttl", "1h", "--negative-ttl", "1h", "--max-body-size", "16MiB"),
)
ABSENT = "/absent/c/0"


def targets(mib: int) -> dict[str, int]:
    """A quarter of the bytes in small bodies, which are answered whole, the rest in large ones."""
    small = {f"/small/{number}": SMALL for number in range(mib * MIB // 4 // SMALL)}
    large = {f"/large/{number}": LARGE for number in range(mib * MIB * 3 // 4 // LARGE)}
    return small | large


def read_all(url: str, wanted: dict[str, int], seconds: float, begun: Event) -> None:
    """Reads each once, and then all again until so many seconds have passed."""
    begun.set()
    end = time.monotonic() + seconds

    def read(share: list[str]) -> None:
        with Connection(url) as connection:
            while True:
                for target in share:
                    connection.send("GET", target)
                    answer = connection.response()
                    assert len(answer.body) == wanted[target], target
                    assert "hit" in (answer.value("Cache-Status") or ""), answer.head
                if time.monotonic() >= end:
                    return

    names = sorted(wanted, key=hash)
    threads = [
        threading.Thread(target=read, args=(names[number::READERS],)) for number in range(READERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass
class Row:
    """Milliseconds of one 404, of each round; and what the sidecar read from the disk meanwhile."""

    name: str
    middle: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    slowest: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    disk_mib: list[float] = field(default_factory=list)

    def add(self, seconds: list[float], disk_mib: float) -> None:
        self.middle.append(statistics.median(seconds) * 1e3)
        self.late.append(percentile(seconds, 0.99) * 1e3)
        self.slowest.append(max(seconds) * 1e3)
        self.rates.append(len(seconds) / sum(seconds))
        self.disk_mib.append(disk_mib)

    def told(self) -> str:
        cells = [
            self.name,
            *(str(Spread(each, 2)) for each in (self.middle, self.late, self.slowest)),
            *(str(Spread(each)) for each in (self.rates, self.disk_mib)),
        ]
        return "| " + " | ".join(cells) + " |"


@contextmanager
def ahead_of_readers() -> Iterator[None]:
    """Runs this thread as soon as it can run; as root alone."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def ask_while(sidecar: Sidecar, is_over: Callable[[], bool]) -> list[float]:
    """How long each remembered 404 took, asked for back to back."""
    seconds = []
    with ahead_of_readers(), Connection(sidecar.url) as connection:
        while not is_over():
            asked_at = time.perf_counter()
            connection.send("GET", ABSENT)
            answer = connection.response()
            seconds.append(time.perf_counter() - asked_at)
            assert "detail=negative" in (answer.value("Cache-Status") or ""), answer.head
    return seconds


def disk_mib(sidecar: Sidecar) -> float:
    """What the process has had read from the disk so far."""
    told = Path(f"/proc/{sidecar.pid}/io").read_text()
    found = re.search(r"^read_bytes: (\d+)$", told, re.MULTILINE)
    assert found is not None
    return int(found[1]) / MIB


def drop_page_cache(cache: Path) -> str:
    """Of all files where that is allowed, else of the bodies. What is mapped would stay."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        for path in cache.rglob("*.arrow"):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        return "posix_fadvise"
    return "drop_caches"


def under_reading(sidecar: Sidecar, wanted: dict[str, int], seconds: float, row: Row) -> None:
    before = disk_mib(sidecar)
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    reading = context.Process(target=read_all, args=(sidecar.url, wanted, seconds, begun))
    reading.start()
    assert begun.wait(DEADLINE_SECONDS), "no reader begins"
    took = ask_while(sidecar, lambda: not reading.is_alive())
    reading.join()
    assert reading.exitcode == 0, "a reader failed"
    row.add(took, disk_mib(sidecar) - before)


def one_round(origin: Origin, cache: Path, wanted: dict[str, int], rows: list[Row]) -> str:
    at_rest, cold, warm = rows
    with Sidecar(origin.url, cache, FLAGS) as sidecar:
        os.sched_setaffinity(sidecar.pid, {SIDECAR_CORE})
        for task in Path(f"/proc/{sidecar.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {SIDECAR_CORE})
        wait_for(lambda: bodies(sidecar) == len(wanted), "the scan", 120)
        exchange(sidecar.url, ABSENT)
        end = time.monotonic() + REST_SECONDS
        before = disk_mib(sidecar)
        at_rest.add(ask_while(sidecar, lambda: time.monotonic() >= end), disk_mib(sidecar) - before)
        how = drop_page_cache(cache)
        under_reading(sidecar, wanted, 0.0, cold)
        under_reading(sidecar, wanted, REST_SECONDS, warm)
        sidecar.stop()
    return how


def bodies(sidecar: Sidecar) -> int:
    found: int = json.loads(exchange(sidecar.admin_url, "/stats").body)["bodies"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.cold", description=__doc__)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    wanted = targets(chosen.mib)
    os.sched_setaffinity(0, {LOAD_CORE})
    rows = [Row("at rest"), Row("cold bodies are read"), Row("warm bodies are read")]
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp", prefix="chunkside-cold-") as place,
        Origin({target: os.urandom(size) for target, size in wanted.items()}) as origin,
    ):
        cache = Path(place) / "cache"
        with Sidecar(origin.url, cache, FLAGS) as sidecar:
            for target in wanted:
                exchange(sidecar.url, target)
            sidecar.wait_idle()
            sidecar.stop()
        ways = {one_round(origin, cache, wanted, rows) for _ in range(chosen.rounds)}
    print(f"{chosen.mib} MiB, {chosen.rounds} rounds, by {', '.join(sorted(ways))}\n")
    print("| | 404 ms: median | 99 % | slowest | 404s a second | MiB from the disk |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(row.told())
    return 0


if __name__ == "__main__":
    sys.exit(main())
