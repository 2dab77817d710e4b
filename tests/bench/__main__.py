"""Chunkside beside nginx in one run: requests a second and server CPU, as ratios.

`make bench` (or `python -m tests.bench --rounds 5 --seconds 3`). Each server has one core, the load
generator the other; rounds are interleaved, figures are medians with their spread. nginx has its
best fair configuration: one worker, sendfile, keep-alive, a warm cache on the same disk, 404s
cached too. Needs nginx and wrk (`make servers`).
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bench.servers import Server, start_chunkside, start_nginx_cache, start_origin

SERVER_CORE, LOAD_CORE = 0, 1


@dataclass(frozen=True)
class Row:
    name: str
    target: str
    connections: int


ROWS = (
    Row("remembered 404", "/absent", 16),
    Row("4 KiB", "/4k", 16),
    Row("64 KiB", "/64k", 16),
    Row("1 MiB", "/1m", 4),
)


@dataclass(frozen=True)
class Figure:
    """`rate`: answers per second; `cpu`: microseconds of server CPU for each."""

    rate: float
    cpu: float


def measure(server: Server, row: Row, seconds: int) -> Figure:
    before = server.cpu_seconds()
    load = subprocess.run(
        ["taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{row.connections}", f"-d{seconds}s",
         server.url + row.target],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    spent = server.cpu_seconds() - before
    found = re.search(r"(\d+) requests in", load)
    rate = re.search(r"Requests/sec:\s*([\d.]+)", load)
    if found is None or rate is None or "Socket errors" in load:
        raise SystemExit(f"{server.name}, {row.name}: {load}")
    return Figure(float(rate[1]), spent / int(found[1]) * 1e6)


def median_and_spread(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


def show(row: Row, figures: dict[str, list[Figure]]) -> str:
    ours, peer = figures["chunkside"], figures["nginx"]

    def ratio(name: str) -> float:
        mine, other = (
            statistics.median(getattr(figure, name) for figure in which) for which in (ours, peer)
        )
        return mine / other

    cells = [
        row.name,
        median_and_spread([figure.rate for figure in ours]),
        median_and_spread([figure.rate for figure in peer]),
        f"{ratio('rate'):.2f}",
        median_and_spread([figure.cpu for figure in ours]),
        median_and_spread([figure.cpu for figure in peer]),
        f"{ratio('cpu'):.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    chosen = parser.parse_args()
    for program in ("nginx", "wrk", "taskset"):
        if shutil.which(program) is None:
            print(f"bench: {program} is missing; make servers installs it", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place, ExitStack() as running:
        home = Path(place)
        # nginx's worker gives up root: it must reach its files.
        home.chmod(0o755)
        origin = start_origin(home, running)
        servers = (
            start_chunkside(home, origin, running, SERVER_CORE),
            start_nginx_cache(home, origin, running, SERVER_CORE),
        )
        print("| row | Chunkside /s | nginx /s | ratio | Chunkside CPU µs | nginx CPU µs | ratio |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for row in ROWS:
            figures: dict[str, list[Figure]] = {server.name: [] for server in servers}
            for server in servers:
                measure(server, row, 1)
            for _ in range(chosen.rounds):
                for server in servers:
                    figures[server.name].append(measure(server, row, chosen.seconds))
            print(show(row, figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
