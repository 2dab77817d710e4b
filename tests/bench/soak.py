"""Millions of absent keys through a running sidecar: do its bounds hold, and are hot keys kept?

`make soak`, or `python -m tests.bench.soak --keys 2000000`. Tells how it goes on stderr, and what
came of it on stdout; ends with 1 and a sentence where a bound is broken. Times are told, and judge
nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

import uvloop

from tests.support.soak import BrokenBoundError, Plan, Reading, Report, soak

MIB = 1 << 20
_BAR = 30


class Progress:
    """A bar where `stream` is a terminal, else a line for each tenth."""

    def __init__(self, stream: TextIO, keys: int) -> None:
        self._stream = stream
        self._keys = keys
        self._started = time.monotonic()
        self._tenths = 0

    def show(self, reading: Reading) -> None:
        share = min(reading.answered / self._keys, 1.0)
        seconds = time.monotonic() - self._started
        text = (
            f"{share:4.0%}  {reading.answered:,} keys  {reading.answered / seconds:,.0f} a second  "
            f"{reading.markers:,} markers  RssAnon {reading.rss / MIB:.0f} MiB"
        )
        if self._stream.isatty():
            bar = "#" * int(share * _BAR)
            end = "\n" if share == 1.0 else ""
            print(f"\r[{bar:<{_BAR}}] {text}", end=end, file=self._stream, flush=True)
        elif int(share * 10) > self._tenths:
            self._tenths = int(share * 10)
            print(text, file=self._stream, flush=True)


def told(plan: Plan, report: Report) -> str:
    flood, purge, readings = report.flood, report.purge, report.readings
    most_rss = max(reading.rss for reading in readings)
    most_index = max(reading.index_memory for reading in readings)
    most_markers = max(reading.markers for reading in readings)
    purged = report.purged
    return f"""\
flood: {flood.keys:,} keys in {flood.seconds:.0f} s ({flood.keys / flood.seconds:,.0f} a second),
  {plan.hot:,} hot keys asked for {flood.hot:,} times meanwhile, each once of the origin;
  the longest that one of them waited: {1000 * flood.pause:.0f} ms
RssAnon: at most {most_rss / MIB:.1f} MiB, bound {plan.rss_bound / MIB:.0f} MiB (index_memory and \
{plan.allowance / MIB:.0f} MiB)
index: at most {most_index / MIB:.1f} MiB of {plan.index_memory / MIB:.0f} MiB, \
{most_markers:,} markers of {plan.max_markers:,}
purge of all by prefix: {purged["objects"]:,} objects, {purged["markers"]:,} markers \
in {purge.seconds:.1f} s,
  {purge.keys:,} new keys and {purge.hot:,} times hot ones asked for meanwhile;
  the longest that one of the hot ones waited: {1000 * purge.pause:.0f} ms"""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.soak",
        description="absent keys through a running sidecar: do its bounds hold?",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--keys", type=int, default=2_000_000, help="distinct keys of the flood")
    parser.add_argument("--hot", type=int, default=1_000, help="keys asked for again and again")
    parser.add_argument("--connections", type=int, default=32, help="of the flood")
    parser.add_argument("--depth", type=int, default=4, help="requests on their way on each")
    parser.add_argument("--index-memory", type=int, default=256, help="MiB")
    parser.add_argument("--max-markers", type=int, default=1_000_000, help="setting of that name")
    parser.add_argument(
        "--allowance", type=int, default=128, help="MiB of RssAnon beside index_memory"
    )
    parser.add_argument("--minutes", type=float, default=120.0, help="to give up after")
    return parser.parse_args()


async def run(plan: Plan, minutes: float) -> Report:
    progress = Progress(sys.stderr, plan.keys)
    with tempfile.TemporaryDirectory(prefix="chunkside-soak-") as home:
        async with asyncio.timeout(60 * minutes):
            return await soak(plan, Path(home) / "cache", progress.show)


def main() -> int:
    chosen = options()
    plan = Plan(
        keys=chosen.keys,
        hot=chosen.hot,
        index_memory=chosen.index_memory * MIB,
        max_markers=chosen.max_markers,
        allowance=chosen.allowance * MIB,
        connections=chosen.connections,
        depth=chosen.depth,
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.Loop) as runner:
            report = runner.run(run(plan, chosen.minutes))
    except BrokenBoundError as broken:
        print(f"\nsoak: {broken}", file=sys.stderr)
        return 1
    except TimeoutError:
        print(f"\nsoak: not done within {chosen.minutes:g} minutes", file=sys.stderr)
        return 1
    print(told(plan, report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
