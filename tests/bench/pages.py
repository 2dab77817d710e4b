"""Pictures of the status page and the chunk map, of a sidecar that is really being read from.

python -m tests.bench.pages [SECONDS]      writes docs/pictures; 150 seconds if not told
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import threading
import time
from pathlib import Path

from chunkside.demo.array import sparse_array
from chunkside.demo.origin import Origin, serving
from tests.support.http_client import Connection, exchange
from tests.support.pages import VIEWS, browser, visit
from tests.support.sidecar import Sidecar

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SIDE = 20
DELAY_SECONDS = 0.03
# How often each is read beside the others, and how much of it.
ARRAYS = {"temperature.zarr": (6, 1.0), "salinity.zarr": (3, 0.7), "nuclei.zarr/0": (2, 0.5)}
MAPPED = "survey.zarr"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=150.0)
    seconds: float = parser.parse_args().seconds
    objects: dict[str, bytes] = {}
    for name in (*ARRAYS, MAPPED):
        objects |= sparse_array(name).objects
    with (
        serving(Origin(objects, DELAY_SECONDS)) as origin_url,
        tempfile.TemporaryDirectory(dir="/var/tmp") as directory,
        Sidecar(origin_url, Path(directory) / "cache") as sidecar,
    ):
        read_half(sidecar)
        until = time.monotonic() + seconds
        readers = [threading.Thread(target=read, args=(sidecar, n, until)) for n in range(3)]
        for reader in readers:
            reader.start()
        try:
            draw(sidecar, until)
        finally:
            for reader in readers:
                reader.join()


def read_half(sidecar: Sidecar) -> None:
    exchange(sidecar.url, f"/{MAPPED}/zarr.json")
    for row in range(SIDE // 2):
        for column in range(SIDE):
            exchange(sidecar.url, f"/{MAPPED}/c/{row}/{column}")
    sidecar.wait_idle()


def read(sidecar: Sidecar, seed: int, until: float) -> None:
    """A reader who comes and goes."""
    chance = random.Random(seed)
    names = [name for name, (weight, _) in ARRAYS.items() for _ in range(weight)]
    with Connection(sidecar.url) as connection:
        while (left := until - time.monotonic()) > 0:
            name = chance.choice(names)
            rows = max(1, int(SIDE * ARRAYS[name][1]))
            target = f"/{name}/c/{chance.randrange(rows)}/{chance.randrange(SIDE)}"
            connection.send("GET", target)
            connection.response()
            tide = 1.2 + math.sin(left / 9) + 0.5 * math.sin(left / 2.3)
            time.sleep(chance.random() * 0.02 * max(tide, 0.5))  # polls: a reader's own pace


def draw(sidecar: Sidecar, until: float) -> None:
    time.sleep(max(0.0, until - time.monotonic() - 12))  # polls: the chart takes its time
    with browser() as opened:
        for view in VIEWS:
            for path, name in (("/", "status"), (f"/map/{MAPPED}", "map")):
                with visit(opened, f"{sidecar.admin_url}{path}", view) as page:
                    file = PICTURES / f"{name}-{view}.png"
                    page.page.screenshot(path=file, full_page=True)
                    print(file)


if __name__ == "__main__":
    main()
