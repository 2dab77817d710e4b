"""Real readers of a sparse array over a slow origin: straight, through Chunkside, through others.

`python -m tests.bench.readers` makes an array of `--side` squared chunks, of which one in ten was
ever written, behind an origin that takes `--delay` seconds for each answer. zarr-python and
TensorStore read all of it: straight; through a new sidecar, and again; through nginx and Varnish
that have been read through before. Every reading is a process of its own that tells how long the
reading alone took, and all must find the same. Medians of `--rounds`, and the spread, in seconds.
Needs `make clients`, and the servers of `make bench`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from tests.bench.servers import start_chunkside, start_nginx_cache, start_varnish
from tests.clients.digests import digest
from tests.clients.readers import BUCKET, READERS

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / ".venv-clients/bin/python"
NAMES = ("zarr over fsspec", "TensorStore")
# A reader, its server and the origin run where there is room, as anywhere.
CORES = "0,1"
CHUNK_SIDE = 32
WRITTEN_IN = 10


def sparse_objects(side: int) -> dict[str, bytes]:
    """By name beneath the origin's root, as zarr-python writes them."""
    import numpy as np  # noqa: PLC0415 - the clients' interpreter reads this file, too
    import zarr  # noqa: PLC0415
    from zarr.storage import MemoryStore  # noqa: PLC0415

    noise = np.random.default_rng(seed=9111)
    held: dict[str, zarr.core.buffer.Buffer] = {}
    array = zarr.create_array(
        MemoryStore(held),
        shape=(side * CHUNK_SIDE, side * CHUNK_SIDE),
        chunks=(CHUNK_SIDE, CHUNK_SIDE),
        dtype="float32",
        fill_value=0.0,
    )
    for number in noise.choice(side**2, side**2 // WRITTEN_IN, replace=False):
        row, column = (CHUNK_SIDE * int(part) for part in divmod(number, side))
        array[row : row + CHUNK_SIDE, column : column + CHUNK_SIDE] = noise.normal(
            size=(CHUNK_SIDE, CHUNK_SIDE)
        )
    return {f"{BUCKET}/sparse.zarr/{key}": buffer.to_bytes() for key, buffer in held.items()}


def read(name: str, url: str) -> None:
    """In the interpreter that has the readers: prints the seconds, and what was found."""
    reader = READERS[name].read
    started = time.perf_counter()
    found = reader(url)
    print(json.dumps([time.perf_counter() - started, digest(found)]))


class Readings:
    def __init__(self, name: str) -> None:
        self._name = name
        self._found: set[str] = set()
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    def read(self, way: str, url: str) -> None:
        ran = subprocess.run(
            [CLIENTS, "-m", "tests.bench.readers", "--read", self._name, url],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, found = json.loads(ran.stdout.splitlines()[-1])
        self._found.add(json.dumps(found))
        if len(self._found) > 1:
            raise SystemExit(f"{self._name} found something else {way}")
        self.seconds[way].append(seconds)

    def line(self) -> str:
        straight = statistics.median(self.seconds["straight"])
        cells = []
        for way, each in self.seconds.items():
            middle = statistics.median(each)
            spread = f"{min(each):.2f}-{max(each):.2f}"
            cells.append(f"{way} {middle:.2f} ({spread}; {middle / straight:.3f} of straight)")
        return f"{self._name}: " + ", ".join(cells)


def measure(origin: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place, ExitStack() as running:
        home = Path(place)
        home.chmod(0o755)
        others = [start_nginx_cache(home, origin, running, CORES)]
        if shutil.which("varnishd"):
            others.append(start_varnish(home, origin, running, CORES))
        for name in NAMES:
            readings = Readings(name)
            for other in others:
                Readings(name).read("once", other.url)
            for number in range(rounds):
                readings.read("straight", origin)
                own = home / f"{NAMES.index(name)}-{number}"
                own.mkdir()
                with ExitStack() as one:
                    sidecar = start_chunkside(own, origin, one, CORES)
                    readings.read("first pass", sidecar.url)
                    readings.read("second pass", sidecar.url)
                for other in others:
                    readings.read(f"{other.name}, second pass", other.url)
            print(readings.line(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--side", type=int, default=100, help="chunks along each side")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before each answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", nargs=2, metavar=("NAME", "URL"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.read:
        read(*chosen.read)
        return
    from chunkside.demo.origin import Origin, serving  # noqa: PLC0415 - only where it is installed

    print(f"{chosen.side**2:,} chunks, {chosen.delay * 1e3:.0f} ms for each answer", flush=True)
    with serving(Origin(sparse_objects(chosen.side), chosen.delay)) as origin:
        measure(origin, chosen.rounds)


if __name__ == "__main__":
    main()
