"""What a marker costs: resident bytes, and the time of a whole negative hit, by how many there are.

`python -m tests.bench.markers`. Each count is measured in a process of its own; a hit is timed from
a parsed request to a reply, without sockets, in rounds that take turns between the counts.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from chunkside.core.budget import Limits, cost_of_marker
from chunkside.core.entry import Absent
from tests.support.house import House

COUNTS = (1_000, 100_000, 700_000, 1_000_000, 1_390_000)
ROUNDS = 5
HITS = 20_000


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this kernel does not tell RssAnon")


def target(number: int) -> bytes:
    """45 bytes."""
    return b"/bucket/some/array.zarr/c/0/%017d" % number


async def measure(count: int) -> None:
    """Fills an index, then times a round for each line that comes on stdin."""
    house = House(limits=Limits(budget_bytes=1 << 40, max_markers=1 << 30))
    index = house.edges.index
    gc.collect()
    before = resident_bytes()
    for number in range(count):
        lease = house.edges.lease(house.key(target(number)))
        absent = Absent(404, house.now.now(), 300.0, lease.stamps.token, allows_any_origin=False)
        house.edges.remember_absence(lease, absent, lease.key)
        index.end(lease)
    gc.collect()
    cost = (resident_bytes() - before) / count
    charge = cost_of_marker(house.key(target(0)))
    print(json.dumps({"bytes": cost, "charge": charge}), flush=True)
    draw = random.Random(count)
    for _ in sys.stdin:
        asked = [house.request("GET", target(draw.randrange(count))) for _ in range(HITS)]
        started = time.process_time()
        for request in asked:
            assert (await house.gateway.answer(request)).result == "negative_hit"
        print((time.process_time() - started) / HITS * 1e6, flush=True)


def main() -> int:
    workers = {
        count: subprocess.Popen(
            [sys.executable, "-m", "tests.bench.markers", str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for count in COUNTS
    }
    sizes = {}
    times: dict[int, list[float]] = {count: [] for count in COUNTS}
    for count, worker in workers.items():
        assert worker.stdout is not None
        sizes[count] = json.loads(worker.stdout.readline())
    for _ in range(ROUNDS):
        for count, worker in workers.items():
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
            times[count].append(float(worker.stdout.readline()))
    print("| markers | resident bytes each | charged | µs of CPU a hit (least-most) |")
    print("|---|---|---|---|")
    for count, worker in workers.items():
        worker.communicate()
        took = times[count]
        shown = f"{statistics.median(took):.1f} ({min(took):.1f}-{max(took):.1f})"
        size = sizes[count]
        print(f"| {count:,} | {size['bytes']:.0f} | {size['charge']} | {shown} |")
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(measure(int(sys.argv[1])))
    else:
        sys.exit(main())
