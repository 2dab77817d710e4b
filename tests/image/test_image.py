"""The image as it is run in a pod: without rights, with little memory, on a small volume."""

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from scripts.image import revision, version
from tests.image.conftest import MIB
from tests.support.arrays import read_all, sparse_array
from tests.support.containers import BASE, Container, Store, container
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin
from tests.support.sidecar import value_of

pytestmark = [pytest.mark.image, pytest.mark.timeout(600)]

MOST_OVER_BASE = 110_000_000
UID = 65532
MEMORY = 256 * MIB
VOLUME = 64 * MIB
DRAIN_SECONDS = 2.0


def free_port() -> int:
    """Free a moment ago; 0 would hide the port from the health check."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


@dataclass(frozen=True, slots=True)
class Running:
    container: Container
    url: str
    admin_url: str

    def metric(self, sample: str) -> float:
        return value_of(exchange(self.admin_url, "/metrics").body.decode(), sample)


@pytest.fixture(scope="module")
def origin() -> Iterator[Origin]:
    with Origin() as origin:
        for path, body in sparse_array().objects.items():
            origin.put(path, body)
        yield origin


@pytest.fixture(scope="module")
def start(store: Store, image: str, origin: Origin) -> Iterator[object]:
    with ExitStack() as stack:

        def start() -> Running:
            port, admin_port = free_port(), free_port()
            told = {
                "CHUNKSIDE_UPSTREAM": origin.url,
                "CHUNKSIDE_LISTEN": f"127.0.0.1:{port}",
                "CHUNKSIDE_ADMIN_LISTEN": f"127.0.0.1:{admin_port}",
                "CHUNKSIDE_ALLOW_MEMORY_FILESYSTEM": "true",
                "CHUNKSIDE_DRAIN_TIME": f"{DRAIN_SECONDS}s",
            }
            volume = f"type=tmpfs,destination=/var/cache/chunkside,tmpfs-size={VOLUME}"
            running = container(
                store,
                image,
                *(part for item in told.items() for part in ("--env", "=".join(item))),
                *("--memory", str(MEMORY), "--memory-swap", str(MEMORY), "--mount", volume),
            )
            return Running(
                stack.enter_context(running),
                f"http://127.0.0.1:{port}",
                f"http://127.0.0.1:{admin_port}",
            )

        yield start


@pytest.fixture(scope="module")
def sidecar(start) -> Running:
    return start()


def test_it_takes_little_beside_its_base(store: Store, image: str, capsys) -> None:
    base, whole = store.size_of(BASE), store.size_of(image)
    with capsys.disabled():
        print(
            f"\nimage: {whole / 1e6:.0f} MB, of which over its base {(whole - base) / 1e6:.0f} MB"
        )
    assert whole - base <= MOST_OVER_BASE


def test_it_says_what_it_is_and_how_it_is_run(store: Store, image: str) -> None:
    (told,) = json.loads(store.run("podman", "image", "inspect", image))
    config = told["Config"]
    assert config["User"] == f"{UID}:{UID}"
    # None of them needs a shell.
    assert config["Entrypoint"] == ["chunkside"]
    assert config["Cmd"] == ["serve"]
    assert told["Healthcheck"]["Test"] == ["CMD", "chunkside", "health"]
    assert config["StopSignal"] == "SIGTERM"
    labels = config["Labels"]
    assert labels["org.opencontainers.image.version"] == version()
    assert labels["org.opencontainers.image.revision"] == revision()
    assert labels["org.opencontainers.image.base.name"] == BASE
    said = store.run("podman", "run", "--rm", "--no-healthcheck", image, "--version")
    assert said == f"chunkside {version()}"


def test_it_runs_without_rights_on_a_root_that_nobody_can_write(sidecar: Running) -> None:
    status = Path(f"/proc/{sidecar.container.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == [str(UID)] * 4
    assert {fields[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    assert fields["NoNewPrivs"] == "1"
    touched = sidecar.container.execute("python", "-c", "open('/tmp/x', 'w')")
    assert "Read-only file system" in touched.stderr


def test_its_bounds_follow_from_the_memory_limit(sidecar: Running) -> None:
    assert sidecar.metric("chunkside_index_memory_limit_bytes") == MEMORY // 4


def test_its_health_check_says_that_it_is_ready(sidecar: Running) -> None:
    told = sidecar.container.execute("chunkside", "health")
    assert (told.returncode, told.stdout) == (0, "ready\n")


def test_a_sparse_array_is_read_through_it(sidecar: Running, origin: Origin) -> None:
    array = sparse_array()
    origin.forget_requests()
    for _ in range(2):
        np.testing.assert_array_equal(read_all(sidecar.url, "obstore"), array.values)
    asked = origin.gets_by_path()
    assert {asked[path] for path in array.chunks} == {1}


def test_more_than_its_volume_holds_is_read_whole(sidecar: Running, origin: Origin) -> None:
    size = 4 * MIB
    bodies = {f"/large/c/{number}": os.urandom(size) for number in range(2 * VOLUME // size)}
    for path, body in bodies.items():
        origin.put(path, body)
    for path, body in bodies.items():
        assert exchange(sidecar.url, path).body == body
    assert 0 < sidecar.metric("chunkside_stored_bytes") <= VOLUME
    assert sidecar.metric("chunkside_store_errors_total") == 0


def test_its_memory_stays_far_below_the_limit(sidecar: Running) -> None:
    with Connection(sidecar.url) as connection:
        for number in range(5_000):
            connection.send("GET", f"/absent/{number:0190}")
            assert connection.response().status == 404
    status = Path(f"/proc/{sidecar.container.pid}/status").read_text()
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    assert int(found[1]) * 1024 < MEMORY // 2


def test_sigterm_ends_it_with_0_after_a_drain_in_which_it_served(start, origin: Origin) -> None:
    running = start()
    origin.put("/drained/c/0", b"body")
    asked_at = time.monotonic()
    running.container.terminate()
    wait_for(lambda: exchange(running.admin_url, "/readyz").status == 503, "readiness to go")
    assert exchange(running.url, "/drained/c/0").body == b"body"
    assert running.container.wait() == 0
    assert time.monotonic() - asked_at >= DRAIN_SECONDS


def test_what_it_was_not_told_is_one_line_and_exit_code_2(store: Store, image: str) -> None:
    told = store.start("podman", "run", "--rm", "--no-healthcheck", "--read-only", image)
    assert told.returncode == 2
    assert "upstream" in told.stderr


# What the store's own tests need is not in the image. pyarrow must not find the other numpy.
_RUN_PYTEST = """
import sys
sys.path += ["/dev-site", "/clone"]
sys.modules["numpy"] = None
import pytest
plugins = ("xdist.plugin", "pytest_timeout", "pytest_asyncio.plugin", "no:cacheprovider")
sys.exit(pytest.main([*(f"-p{name}" for name in plugins), "-n0", "-q", *sys.argv[1:]]))
"""


def test_what_was_left_out_of_pyarrow_the_store_does_not_miss(store: Store, image: str) -> None:
    site = Path(pytest.__file__).resolve().parent.parent
    clone = Path(__file__).resolve().parents[2]
    told = store.start(
        *("podman", "run", "--rm", "--no-healthcheck", "--network=none", "--cap-drop=ALL"),
        *("--read-only", "--tmpfs", "/tmp", "--volume", f"{clone}:/clone:ro"),
        *("--volume", f"{site}:/dev-site:ro", "--workdir", "/clone"),
        *("--env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "--entrypoint", "python", image),
        *("-c", _RUN_PYTEST, "tests/contracts/test_body_store.py", "-k", "disk and uvloop"),
    )
    assert told.returncode == 0, told.stdout + told.stderr
    passed = re.search(r"(\d+) passed", told.stdout)
    assert passed is not None
    assert int(passed[1]) > 50
