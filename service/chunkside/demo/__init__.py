"""The demo: a far origin with a sparse array, a sidecar in front, and what each read costs.

`array.py` makes the array, `origin.py` serves and counts, `sidecar.py` starts the sidecar as a
process of its own, `passes.py` reads with zarr-python, `report.py` says what that cost.
"""

import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from chunkside.child import Sidecar, SidecarError
from chunkside.demo.origin import Origin, serving
from chunkside.demo.sidecar import sidecar

if TYPE_CHECKING:
    from chunkside.demo.array import SparseArray

ARRAY_NAME = "demo.zarr"


def run(
    *,
    once: bool,
    delay_seconds: float,
    readers: int,
    port: int,
    admin_port: int,
    cache_dir: Path | None = None,
) -> int:
    """Runs the demo and returns the exit code; `port` and `admin_port` 0 pick free ones.

    Without `cache_dir` the bodies lie in a temporary directory that goes with the demo.
    """
    if find_spec("zarr") is None or find_spec("fsspec") is None:
        print(
            "chunkside demo reads with zarr-python, which isn't installed: pip install "
            "'chunkside[demo]', or make demo in a clone",
            file=sys.stderr,
        )
        return 2
    try:
        with _ended_by_sigterm_too(), _directory(cache_dir) as directory:
            return _show(
                once=once,
                delay_seconds=delay_seconds,
                readers=readers,
                ports=(port, admin_port),
                cache_dir=directory,
            )
    except SidecarError as error:
        hint = "`--port 0 --admin-port 0` picks free ports"
        print(f"chunkside demo: {error}; {hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print()
        return 0


def _show(
    *, once: bool, delay_seconds: float, readers: int, ports: tuple[int, int], cache_dir: Path
) -> int:
    # Only here, since without the extra there is no zarr to import.
    from chunkside.demo import array, passes, report  # noqa: PLC0415

    sparse = array.sparse_array(ARRAY_NAME)
    origin = Origin(sparse.objects, delay_seconds)
    with (
        serving(origin) as origin_url,
        sidecar(origin_url, cache_dir, port=ports[0], admin_port=ports[1]) as running,
    ):
        print(report.heading(sparse, readers, delay_seconds), flush=True)
        costs = [
            passes.read(name, f"{url}/{ARRAY_NAME}", origin, sparse, readers)
            for name, url in (
                ("straight at the origin", origin_url),
                ("sidecar, first pass", running.url),
                ("sidecar, second pass", running.url),
            )
        ]
        print(report.table(costs), flush=True)
        differences = report.differences(sparse, costs)
        for difference in differences:
            print(f"chunkside demo: {difference}", file=sys.stderr)
        if not differences:
            print("Every reader got the data as written; no chunk was asked for twice.")
        if once:
            return 1 if differences else 0
        print(_invitation(sparse, running, origin_url), flush=True)
        raise running.own_end()


def _invitation(sparse: "SparseArray", running: Sidecar, origin_url: str) -> str:
    base = f"{running.url}/{ARRAY_NAME}"
    present = shlex.quote(f"{base}/{min(sparse.present_chunks)}")
    absent = shlex.quote(f"{base}/{min(sparse.absent_chunks)}")
    return f"""
origin  {origin_url}/{ARRAY_NAME}
sidecar {base}
metrics {running.admin_url}/metrics
status  {running.admin_url}/
map     {running.admin_url}/map/{ARRAY_NAME}

A chunk that is held, one that is known to be absent, and what it all came to:
  curl -sI {present}
  curl -s -D- {absent}
  curl -s {running.admin_url}/metrics

Ctrl-C ends it."""


@contextmanager
def _directory(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    # /tmp may be memory, which the sidecar refuses as a cache directory; /var/tmp outlives a boot.
    var_tmp = Path("/var/tmp")  # noqa: S108
    try:
        made = tempfile.TemporaryDirectory(prefix="chunkside-demo-", dir=var_tmp)
    except OSError:
        made = tempfile.TemporaryDirectory(prefix="chunkside-demo-")
    with made as name:
        yield Path(name)


@contextmanager
def _ended_by_sigterm_too() -> Iterator[None]:
    """Makes SIGTERM end the demo as Ctrl-C does, so that the sidecar never outlives it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
