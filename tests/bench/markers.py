"""What a marker costs: resident bytes, and the time of a whole negative hit, by how many there are.

`python -m tests.bench.markers`. Each count is measured in a process of its own; a hit is timed
without sockets, in rounds that take turns between the counts: on the long way, from a parsed
request to a reply, and on the fast lane, from a head's bytes to an answer's, with keys drawn from
all and from a thousand of them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

from chunkside.core.budget import Limits, cost_of_marker
from chunkside.core.entry import Absent
from tests.bench.figures import Spread
from tests.support.house import House
from tests.support.wire import Port, data_port

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
    async with data_port(house) as port:
        for _ in sys.stdin:
            drawn = [target(draw.randrange(count)) for _ in range(HITS)]
            few = [target(draw.randrange(1000) * (count // 1000)) for _ in range(HITS)]
            took = [await long_way(house, drawn), quick_way(port, drawn), quick_way(port, few)]
            print(json.dumps(took), flush=True)


async def long_way(house: House, targets: list[bytes]) -> float:
    """Microseconds of CPU for each."""
    asked = [house.request("GET", each) for each in targets]
    started = time.process_time()
    for request in asked:
        assert (await house.gateway.answer(request)).result == "negative_hit"
    return (time.process_time() - started) / len(asked) * 1e6


def quick_way(port: Port, targets: list[bytes]) -> float:
    lane, nobody = port.fast_lane, cast(asyncio.Transport, Nobody())
    heads = [b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % each for each in targets]
    for head in heads[:2]:
        # From its third coming on a block is known.
        lane.answer(head, nobody)
    started = time.process_time()
    for head in heads:
        assert lane.recall(head, nobody) or lane.answer(head, nobody)
    return (time.process_time() - started) / len(heads) * 1e6


class Nobody:
    """Takes what a transport takes."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None: ...


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
    times: dict[int, list[list[float]]] = {count: [] for count in COUNTS}
    for count, worker in workers.items():
        assert worker.stdout is not None
        sizes[count] = json.loads(worker.stdout.readline())
    for _ in range(ROUNDS):
        for count, worker in workers.items():
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
            times[count].append(json.loads(worker.stdout.readline()))
    print("| markers | resident bytes each | charged | µs of CPU a hit | lane | lane, of 1,000 |")
    print("|---|---|---|---|---|---|")
    for count, worker in workers.items():
        worker.communicate()
        shown = " | ".join(str(Spread(each, 1)) for each in zip(*times[count], strict=True))
        size = sizes[count]
        print(f"| {count:,} | {size['bytes']:.0f} | {size['charge']} | {shown} |")
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(measure(int(sys.argv[1])))
    else:
        sys.exit(main())
