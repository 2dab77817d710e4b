"""What dropping everything costs, and how long it holds the loop at a time.

`python -m tests.bench.purges --keys 1000000`. Markers alone, in one process, without sockets. Times
are the process's own, so that others on the machine don't show.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from chunkside.core.budget import Limits
from chunkside.core.key import Object
from tests.bench.markers import target
from tests.support.house import LOCATION, House
from tests.support.turns import turns

ROOT = Object(LOCATION, b"/")


async def prefix(house: House) -> None:
    await house.purging.prefix(LOCATION, b"/")


async def everything(house: House) -> None:
    await house.purging.location(LOCATION)


async def soft(house: House) -> None:
    await house.purging.soften_prefix(LOCATION, b"/")


async def write(house: House) -> None:
    """A broad one, and until all that it fell on is dropped."""
    name = house.edges.begin_write(ROOT, 60.0, whole_location=True)
    house.edges.end_write(ROOT, name, 0.0, whole_location=True)
    while house.edges.index.markers.count:
        await turns()


WORKS: dict[str, Callable[[House], Awaitable[None]]] = {
    "purge by prefix": prefix,
    "purge of all": everything,
    "soft purge": soft,
    "broad write": write,
}


async def measure(keys: int, work: Callable[[House], Awaitable[None]]) -> tuple[float, list[float]]:
    """Seconds of CPU, in all and for each turn of the loop."""
    house = House(limits=Limits(budget_bytes=1 << 40, max_markers=1 << 30))
    house.remember(target(number) for number in range(keys))
    gc.collect()
    pauses: list[float] = []
    has_ended = False

    async def watch() -> None:
        last = time.process_time()
        while not has_ended:
            await turns()
            now = time.process_time()
            pauses.append(now - last)
            last = now

    watching = asyncio.get_running_loop().create_task(watch())
    started = time.process_time()
    await work(house)
    took = time.process_time() - started
    has_ended = True
    await watching
    assert house.edges.index.markers.count == 0
    return took, pauses


def main() -> int:
    parser = argparse.ArgumentParser(description="what dropping everything costs")
    parser.add_argument("--keys", type=int, default=1_000_000)
    keys = parser.parse_args().keys
    print(f"| of {keys:,} markers | µs each | ms a turn: median | 99 % | most |")
    print("|---|---|---|---|---|")
    for name, work in WORKS.items():
        took, pauses = asyncio.run(measure(keys, work))
        spread = statistics.quantiles(pauses, n=100)
        figures = (statistics.median(pauses), spread[-1], max(pauses))
        shown = " | ".join(f"{1000 * each:.1f}" for each in figures)
        print(f"| {name} | {took / keys * 1e6:.1f} | {shown} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
