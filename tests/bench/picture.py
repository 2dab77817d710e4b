"""Draws the dashboard's overview from what a Prometheus scraped of two sidecars under a load.

`make dashboard-picture` installs Grafana's components (some 630 MB of npm packages) and runs this.
The load: sparse arrays of 20 x 20 chunks, 58 of them present, each read three times through either
sidecar; between them whatever else can happen. Panels are drawn by Grafana's own components, in
Chromium: not by a Grafana.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from scripts import dashboard
from tests.plugins.requirements import BROWSERS, find_program
from tests.support.every_result import everything_happens, flags
from tests.support.http_client import Connection
from tests.support.origin import Origin
from tests.support.prometheus import prometheus
from tests.support.sidecar import Sidecar

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/picture"
PICTURE = ROOT / "docs/pictures/dashboard.png"
SIDE = 20
PRESENT = 58
CHUNK_BYTES = 16 * 1024
ROOM = ("--cache-size", "16MiB", "--max-markers", "100000")
ROWS = ("Overview", "Upstream")
BOARD: dict[str, Any] = dashboard.dashboard()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Says nothing."""


def read_arrays(origin: Origin, sidecar: Sidecar, name: str, stop: threading.Event) -> None:
    """Array after array until told to stop, a few hundred requests a second."""
    chance = random.Random(name)
    for number in itertools.count():
        base = f"/kept/{name}/{number}.zarr"
        chunks = [f"{base}/c/{row}/{column}" for row in range(SIDE) for column in range(SIDE)]
        for chunk in chance.sample(chunks, PRESENT):
            origin.put(chunk, chance.randbytes(CHUNK_BYTES))
        origin.put(f"{base}/zarr.json", b"{}")
        for _ in range(3):
            with Connection(sidecar.url) as connection:
                for target in [f"{base}/zarr.json", *chunks]:
                    connection.send("GET", target)
                    connection.response()
                    if stop.wait(0.003):
                        return
        everything_happens(origin, sidecar, f"{name}-{number}")


def build(page: Path) -> None:
    command = ["npx", "vite", "build", "--emptyOutDir", "--outDir", str(page), "--logLevel", "warn"]
    subprocess.run(command, cwd=PAGE, check=True)
    shutil.copy(dashboard.FILE, page / "dashboard.json")


def height() -> int:
    """Of the rows that are drawn, in pixels as docs/picture/panels.jsx has them."""
    units = 0
    for row, following in itertools.pairwise([*rows(), None]):
        assert row is not None
        if row["title"] in ROWS:
            end = max(
                each["gridPos"]["y"] + each["gridPos"]["h"]
                for each in BOARD["panels"]
                if following is None or each["gridPos"]["y"] < following["gridPos"]["y"]
            )
            units += end - row["gridPos"]["y"]
    return units * 30 + 8


def rows() -> list[dict[str, Any]]:
    return [each for each in BOARD["panels"] if each["type"] == "row"]


def draw(page: Path, prometheus_url: str, since: float, picture: Path, home: Path) -> None:
    asked = urlencode(
        {
            "prometheus": prometheus_url,
            "from": int(since),
            "to": int(time.time()),
            "rate": "10s",
            "rows": ",".join(ROWS),
        }
    )
    browser = next(program for name in BROWSERS if (program := find_program(name)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(page)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    picture.parent.mkdir(exist_ok=True)
    try:
        subprocess.run(
            [
                *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"),
                *(f"--user-data-dir={home / 'profile'}", f"--window-size=1448,{height()}"),
                *("--virtual-time-budget=20000", f"--screenshot={picture}"),
                f"http://127.0.0.1:{server.server_address[1]}/?{asked}",
            ],
            check=True,
            timeout=120,
            stderr=subprocess.DEVNULL,
        )
    finally:
        server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    options = parser.parse_args()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        build(home / "page")
        origin = stack.enter_context(Origin())
        sidecars = {
            name: stack.enter_context(Sidecar(None, home / name, (*flags(origin), *ROOM)))
            for name in ("reader-0", "reader-1")
        }
        targets = {
            sidecar.admin_url.removeprefix("http://"): {"namespace": "readers", "pod": name}
            for name, sidecar in sidecars.items()
        }
        watching = stack.enter_context(prometheus(home, targets))
        stop, since = threading.Event(), time.time()
        readers = [
            threading.Thread(target=read_arrays, args=(origin, sidecar, name, stop))
            for name, sidecar in sidecars.items()
        ]
        for reader in readers:
            reader.start()
        stop.wait(options.seconds)
        stop.set()
        for reader in readers:
            reader.join()
        watching.wait_scraped_again()
        draw(home / "page", watching.url, since, options.picture, home)
        print(options.picture)


if __name__ == "__main__":
    main()
