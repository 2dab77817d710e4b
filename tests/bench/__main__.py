"""Chunkside beside nginx and Varnish in one run: requests a second and server CPU, as ratios.

`make bench` (or `python -m tests.bench --rounds 5 --seconds 3`). Each server has one core, the load
generator the other; rounds are interleaved, figures are medians with their spread. Every peer has
its best fair configuration, which stands in servers.py: one worker, keep-alive, a warm cache, 404s
cached too; nginx with sendfile and open files kept, Varnish in memory. `--write` puts the table
into docs/benchmarks.md. Needs nginx and wrk (`make servers`), and Varnish where that can be had.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.servers import (
    SPARSE_KEYS,
    Server,
    start_chunkside,
    start_floor,
    start_nginx_cache,
    start_origin,
    start_varnish,
    versions,
)

SERVER_CORE, LOAD_CORE = 0, 1
PAGE = Path(__file__).resolve().parents[2] / "docs/benchmarks.md"
_ONLY_TIMEOUTS = "Socket errors: connect 0, read 0, write 0"
_BEGIN, _END = "<!-- figures: written by make bench -->", "<!-- /figures -->"

# Keys of an array of which one in ten is there, each asked for in its turn.
_SPARSE = f"""
local n = 0
request = function()
  n = (n + 7919) % {SPARSE_KEYS}
  return wrk.format("GET", "/sparse/c/" .. n)
end
"""

# Keys that nobody has asked for before, a fresh lot of them in each run.
_NEW = """
local n, lot = 0, os.time() .. os.clock()
request = function()
  n = n + 1
  return wrk.format("GET", "/new/%s/" .. lot .. "/" .. n)
end
"""


@dataclass(frozen=True)
class Row:
    name: str
    target: str
    connections: int
    header: str | None = None
    script: str | None = None
    has_floor: bool = True


ROWS = (
    Row("remembered 404", "/absent", 16),
    Row("4 KiB", "/4k", 16),
    Row("64 KiB", "/64k", 16),
    Row("1 MiB", "/1m", 4),
    Row("16 MiB", "/16m", 2),
    Row("64 KiB of 16 MiB", "/16m", 16, "Range: bytes=1048576-1114111", has_floor=False),
    Row("sparse scan, 1 connection", "/", 1, script=_SPARSE, has_floor=False),
    Row("sparse scan, 16 connections", "/", 16, script=_SPARSE, has_floor=False),
    Row("sparse scan, 256 connections", "/", 256, script=_SPARSE, has_floor=False),
    Row("miss, 404", "/", 16, script=_NEW % "none", has_floor=False),
    Row("miss, 4 KiB", "/", 16, script=_NEW % "4k", has_floor=False),
    Row("miss, 1 MiB", "/", 4, script=_NEW % "1m", has_floor=False),
)


@dataclass(frozen=True)
class Figure:
    """`rate`: answers per second; `cpu`: microseconds of server CPU for each; `p50` and `p99`:
    milliseconds.
    """

    rate: float
    cpu: float
    p50: float
    p99: float


class Broken(Exception):
    """A server broke connections off, or answered nothing."""


def measure(server: Server, row: Row, seconds: int, home: Path) -> Figure:
    command = [
        *("taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{row.connections}", f"-d{seconds}s"),
        "--latency",
    ]
    if row.header is not None:
        command += ["-H", row.header]
    if row.script is not None:
        script = home / "load.lua"
        script.write_text(row.script, encoding="utf-8")
        command += ["-s", str(script)]
    before = server.cpu_seconds()
    ran = subprocess.run(
        [*command, server.url + row.target], capture_output=True, text=True, check=True
    )
    spent, load = server.cpu_seconds() - before, ran.stdout
    found = re.search(r"(\d+) requests in", load)
    rate = re.search(r"Requests/sec:\s*([\d.]+)", load)
    # Timeouts show in the 99 %.
    has_failed = re.search(r"Socket errors: connect \d+, read \d+, write \d+", load)
    is_wrong = has_failed is not None and has_failed[0] != _ONLY_TIMEOUTS
    if found is None or rate is None or is_wrong:
        raise Broken(f"{server.name}, {row.name}: {load}")
    count = int(found[1])
    return Figure(float(rate[1]), spent / count * 1e6, _latency(load, 50), _latency(load, 99))


def _latency(load: str, percent: int) -> float:
    found = re.search(rf"^\s*{percent}%\s+([\d.]+)(us|ms|s)\s*$", load, re.MULTILINE)
    assert found is not None, load
    return float(found[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[found[2]]


def median_and_spread(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


def show(row: Row, figures: dict[str, list[Figure]]) -> str:
    """A line of the table: Chunkside beside whichever peer is better at each figure."""
    peers = [name for name in figures if name not in ("chunkside", "floor")]

    def middle(name: str, what: str) -> float:
        return statistics.median(getattr(figure, what) for figure in figures[name])

    def spread(name: str, what: str) -> str:
        return median_and_spread([getattr(figure, what) for figure in figures[name]])

    fastest = max(peers, key=lambda name: middle(name, "rate"))
    leanest = min(peers, key=lambda name: middle(name, "cpu"))
    steadiest = min(peers, key=lambda name: middle(name, "p99"))
    cells = [
        row.name,
        spread("chunkside", "rate"),
        f"{fastest} {spread(fastest, 'rate')}",
        f"{middle('chunkside', 'rate') / middle(fastest, 'rate'):.2f}",
        spread("chunkside", "cpu"),
        f"{leanest} {spread(leanest, 'cpu')}",
        f"{middle('chunkside', 'cpu') / middle(leanest, 'cpu'):.2f}",
        f"{middle('floor', 'cpu'):.1f}" if "floor" in figures else "",
        f"{middle('chunkside', 'p50'):.2f} / {middle('chunkside', 'p99'):.2f}",
        f"{steadiest} {middle(steadiest, 'p50'):.2f} / {middle(steadiest, 'p99'):.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


HEADINGS = (
    *("row", "Chunkside /s", "better peer /s", "ratio", "Chunkside CPU µs", "leaner peer CPU µs"),
    *("ratio", "floor CPU µs", "Chunkside p50 / p99 ms", "steadier peer p50 / p99 ms"),
)


def table(rounds: int, seconds: int, parent: Path) -> list[str]:
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory(dir=parent) as place, ExitStack() as running:
        home = Path(place)
        # nginx's worker gives up root: it must reach its files.
        home.chmod(0o755)
        origin = start_origin(home, running)
        servers = [
            start_chunkside(home, origin, running, SERVER_CORE),
            start_nginx_cache(home, origin, running, SERVER_CORE),
        ]
        if shutil.which("varnishd"):
            servers.append(start_varnish(home, origin, running, SERVER_CORE))
        floor = start_floor(running, SERVER_CORE)
        for row in ROWS:
            beside = [*servers, floor] if row.has_floor else servers
            lines.append(show(row, _rounds_of(row, beside, rounds, seconds, home)))
            print(lines[-1], flush=True)
    return lines


def _rounds_of(
    row: Row, beside: list[Server], rounds: int, seconds: int, home: Path
) -> dict[str, list[Figure]]:
    """By server; a peer that breaks connections off has no part in a row."""
    figures: dict[str, list[Figure]] = {server.name: [] for server in beside}
    # Long enough for every key to have been brought.
    warm = replace(row, connections=max(16, row.connections))
    warming = 12 if row.script == _SPARSE else 2
    for number in range(rounds + 1):
        for server in [each for each in beside if each.name in figures]:
            try:
                if number == 0:
                    measure(server, warm, warming, home)
                else:
                    figures[server.name].append(measure(server, row, seconds, home))
            except Broken as broken:
                if server.name == "chunkside":
                    raise SystemExit(str(broken)) from broken
                print(f"left out of its row: {broken}", file=sys.stderr)
                del figures[server.name]
    return figures


def write(lines: list[str], rounds: int, seconds: int) -> None:
    """Puts the table into its page, with what it was measured on."""
    today = time.strftime("%Y-%m-%d")
    told = (
        f"{today}, {os.cpu_count()} cores ({platform.machine()}), Linux {platform.release()}, "
        f"{versions()}; medians of {rounds} interleaved rounds of {seconds} s (least to most)."
    )
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    inside = "\n".join(["", told, "", *lines, ""])
    PAGE.write_text(f"{before}{_BEGIN}{inside}{_END}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md")
    parser.add_argument(
        "--place",
        type=Path,
        default=Path("/var/tmp"),
        help="where the caches lie; ext4 makes files slowly where many were deleted lately",
    )
    chosen = parser.parse_args()
    for program in ("nginx", "wrk", "taskset"):
        if shutil.which(program) is None:
            print(f"bench: {program} is missing; make servers installs it", file=sys.stderr)
            return 2
    if not shutil.which("varnishd"):
        print("bench: without Varnish, which is not installed", file=sys.stderr)
    lines = table(chosen.rounds, chosen.seconds, chosen.place)
    if chosen.write:
        write(lines, chosen.rounds, chosen.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
