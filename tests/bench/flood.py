"""A flood of keys that don't exist, over a set that was read before: how much of that is kept?

`make bench-flood` (`python -m tests.bench.flood --keys 1000000`). Each server in turn is asked for
a warm set (present and absent keys, twice each), then for so many distinct absent keys, then, once
its origin is gone, for the warm set again: what it still answers as it did, it answers from memory
or disk. The peers are configured as in `make bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.bench.servers import (
    Server,
    start_chunkside,
    start_nginx_cache,
    start_origin,
    start_varnish,
)
from tests.support.absent_origin import Client

SERVER_CORE = 0
WARM_OF_EACH_KIND = 500
CONNECTIONS = 16
START = (start_chunkside, start_nginx_cache, start_varnish)
Start = Callable[[Path, str, ExitStack, int | str], Server]

WARM = {b"/new/4k/warm/%d" % number: 200 for number in range(WARM_OF_EACH_KIND)} | {
    b"/new/none/warm/%d" % number: 404 for number in range(WARM_OF_EACH_KIND)
}


async def ask(url: str, targets: Iterator[bytes], expected: Callable[[bytes], int]) -> int:
    """Asks for all of them over some connections; gives how many were answered as expected."""

    async def one() -> int:
        right = 0
        async with await Client.connect(url) as client:
            for target in targets:
                status, _ = await client.get(target)
                right += status == expected(target)
        return right

    return sum(await asyncio.gather(*(one() for _ in range(CONNECTIONS))))


async def flood(server: Server, keys: int) -> None:
    for _ in range(2):
        assert await ask(server.url, iter(WARM), WARM.__getitem__) == len(WARM)
    numbers = itertools.count()
    started, done = time.monotonic(), 0
    while done < keys:
        lot = [b"/new/none/flood/%d" % next(numbers) for _ in range(min(50_000, keys - done))]
        assert await ask(server.url, iter(lot), lambda _: 404) == len(lot)
        done += len(lot)
        rate = done / (time.monotonic() - started)
        print(f"\r{server.name}: {done:,} of {keys:,}, {rate:,.0f}/s ", end="", flush=True)
    print()


def measure(start: Start, keys: int) -> str:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place, ExitStack() as running:
        home = Path(place)
        home.chmod(0o755)
        with ExitStack() as behind:
            origin = start_origin(home, behind)
            server = start(home, origin, running, SERVER_CORE)
            asyncio.run(flood(server, keys))
        kept = asyncio.run(ask(server.url, iter(WARM), WARM.__getitem__))
        return f"| {server.name} | {kept / len(WARM):.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    keys: int = parser.parse_args().keys
    lines = [f"| server | kept of {len(WARM):,} after {keys:,} absent keys |", "|---|---|"]
    chosen = START if shutil.which("varnishd") else START[:2]
    lines += [measure(start, keys) for start in chosen]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
