"""What the disk store costs: opening a stored body, and filling one beside a plain write.

`python -m tests.bench.store [--rounds 15] [--files 2000]`, on the disk of /var/tmp. Ways take turns
within each round; figures are medians with their least and most.

Opening: from a reference that the index holds to a reader whose bytes can be had, no reader open
before. `seed's way`: `pyarrow.memory_map`, `open_stream`, first batch. Filling: what a fill does
from the first byte to the renamed file, in pieces of 256 KiB, beside `open`, `write` of the same
pieces and `rename`, both in the same threads, neither with fsync.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyarrow as pa
import uvloop

from chunkside.core.entry import BodyRef
from chunkside.store.body_store import DiskBodyStore
from chunkside.store.readers import SMALL_BYTES
from tests.store.samples import STAMPS, a_disk_store, a_key, a_stored

KIB, MIB = 1 << 10, 1 << 20
OPENED = (64 * KIB, MIB)
FILLED = (64 * KIB, MIB, 64 * MIB)
PIECE = 256 * KIB
OPENINGS = 200
# So many bytes are written in one turn of a small size.
TURN_BYTES = 16 * MIB


def shown(values: list[float], digits: int = 0) -> str:
    return (
        f"{statistics.median(values):,.{digits}f} "
        f"({min(values):,.{digits}f}-{max(values):,.{digits}f})"
    )


async def keep(store: DiskBodyStore, target: bytes, content: bytes) -> BodyRef:
    writer = await store.begin(a_stored(a_key(target)), STAMPS, len(content))
    for at in range(0, len(content), PIECE):
        await writer.append(content[at : at + PIECE])
    return await writer.commit(len(content))


# Opening.


class Openings:
    """Ways to open the same bodies, each by a process that didn't write them."""

    def __init__(self, store: DiskBodyStore, bodies: list[BodyRef]) -> None:
        self._store = store
        self._bodies = bodies
        self._paths = [store._directory.path_of(body.key, None) for body in bodies]
        self.ways: dict[str, Callable[[], Awaitable[None]]] = {
            "first use after a restart: checksum of the body": self._first_use,
            "later": self._later,
            "later, less the way to the thread and back": self._in_this_thread,
            "the seed's way": self._as_the_seed,
        }

    async def _first_use(self) -> None:
        self._store._verified.clear()
        await self._later()

    async def _later(self) -> None:
        for body in self._bodies:
            await self._store.open(body)

    async def _in_this_thread(self) -> None:
        for body, path in zip(self._bodies, self._paths, strict=True):
            self._store._open(path, body, must_verify=body.length <= SMALL_BYTES)

    async def _as_the_seed(self) -> None:
        for path in self._paths:
            os.stat(path)
            with pa.memory_map(path) as source, pa.ipc.open_stream(source) as stream:
                stream.read_next_batch()


async def time_openings(root: str, size: int, rounds: int) -> None:
    content = os.urandom(size)
    writing = a_disk_store(root, reader_limit=1)
    await writing.start()
    bodies = [
        await keep(writing, b"/%d/%d" % (size, number), content) for number in range(OPENINGS)
    ]
    await writing.close()
    store = a_disk_store(root, reader_limit=1)
    await store.start()
    openings = Openings(store, bodies)
    times: dict[str, list[float]] = {name: [] for name in openings.ways}
    for turn in range(rounds + 1):
        for name, way in openings.ways.items():
            started = time.perf_counter()
            await way()
            if turn:
                times[name].append((time.perf_counter() - started) / OPENINGS * 1e6)
    await store.close()
    for name, values in times.items():
        print(f"| {size // KIB:,} KiB | {name} | {shown(values)} |", flush=True)


# Filling.


async def write_plainly(store: DiskBodyStore, directory: Path, name: str, content: bytes) -> None:
    """The same bytes, pieces and threads, and nothing else."""
    path = str(directory / name)
    file = await store._lanes.in_order("append", path, open, f"{path}.tmp", "wb", 0)
    with file:
        for at in range(0, len(content), PIECE):
            await store._lanes.beside("append", file.write, content[at : at + PIECE])
    await store._lanes.in_order("commit", path, os.rename, f"{path}.tmp", path)


async def time_fills(root: Path, size: int, rounds: int) -> None:
    content = os.urandom(size)
    plain = root / "plain"
    plain.mkdir(exist_ok=True)
    store = a_disk_store(str(root), reader_limit=1)
    await store.start()
    count = max(1, TURN_BYTES // size)
    rates: dict[str, list[float]] = {"store": [], "plain": []}
    ratios: list[float] = []
    for turn in range(rounds + 1):
        started = time.perf_counter()
        bodies = [await keep(store, b"/%d" % number, content) for number in range(count)]
        stored = time.perf_counter()
        for number in range(count):
            await write_plainly(store, plain, f"{number}", content)
        written = time.perf_counter()
        await store.remove(bodies)
        for path in plain.iterdir():
            path.unlink()
        # The first turn makes directories and imports.
        if turn:
            spent = stored - started, written - stored
            for name, seconds in zip(rates, spent, strict=True):
                rates[name].append(count * size / MIB / seconds)
            ratios.append(spent[0] / spent[1])
    await store.close()
    cells = (shown(rates["store"]), shown(rates["plain"]), shown(ratios, 2))
    print(f"| {size // KIB:,} KiB | " + " | ".join(cells) + " |", flush=True)


# Scanning.


class Lateness:
    """How late a timer of 1 ms comes at worst, while something else runs."""

    def __init__(self) -> None:
        self.worst_seconds = 0.0
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)  # polls: how late this comes is what is measured
            self.worst_seconds = max(self.worst_seconds, time.perf_counter() - due)

    async def end(self) -> str:
        self._looking.cancel()
        await asyncio.wait([self._looking])
        return f"{self.worst_seconds * 1e3:.1f} ms"


async def time_scan(root: str, files: int) -> None:
    store = a_disk_store(root)
    await store.start()
    for number in range(files):
        await keep(store, b"/scan/%d" % number, b"x" * 1000)
    await store.close()
    after = a_disk_store(root)
    await after.start()
    lateness, started = Lateness(), time.perf_counter()
    found = 0
    async for batch in after.scan():
        found += len(batch)
    took = time.perf_counter() - started
    late = await lateness.end()
    control = Lateness()
    await asyncio.sleep(took)  # polls: the same without a scan
    late_without = await control.end()
    await after.close()
    assert found == files
    print(
        f"{files:,} files scanned in {took:.1f} s ({took / files * 1e6:.0f} µs each); a timer of "
        f"1 ms came late by {late} at most, without a scan by {late_without}"
    )


async def measure(chosen: argparse.Namespace, root: Path) -> None:
    print("| body | opening | µs (least-most) |\n|---|---|---|")
    for size in OPENED:
        await time_openings(str(root / "opened"), size, chosen.rounds)
    print("\n| body | store MiB/s | plain write MiB/s | time, store to plain |\n|---|---|---|---|")
    for size in FILLED:
        (root / "filled").mkdir(exist_ok=True)
        await time_fills(root / "filled", size, chosen.rounds)
    print()
    await time_scan(str(root / "scanned"), chosen.files)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.store", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--files", type=int, default=20_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="chunkside-store-") as place:
        root = Path(place)
        for name in ("opened", "filled", "scanned"):
            (root / name).mkdir(mode=0o700)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure(chosen, root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
