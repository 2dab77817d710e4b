"""`chunkside check --verify`, beside a sidecar that runs."""

import json
import os
from pathlib import Path

from tests.e2e.conftest import ANY_DISK, StartSidecar
from tests.support.deadline import wait_for
from tests.support.http_client import Connection, exchange
from tests.support.origin import Origin
from tests.support.sidecar import run_command

TARGETS = ("/a/c/0", "/a/c/1", "/a/c/2")


def verify(cache_dir: Path, *flags: str):
    return run_command("check", "--verify", "--cache-dir", str(cache_dir), *ANY_DISK, *flags)


def test_a_bad_file_is_found_beside_a_running_sidecar_and_removed_on_request(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    sidecar = start_sidecar()
    for number, target in enumerate(TARGETS):
        own_origin.put(target, os.urandom(200_000 * (number + 1)))
        exchange(sidecar.url, target)
    exchange(sidecar.url, "/a/shard", headers=[("Range", "bytes=0-9")])
    sidecar.wait_idle()
    good = verify(cache_dir)
    assert good.returncode == 0, good.stderr
    assert ": 3 files, " in good.stdout
    assert "all good" in good.stdout

    (bad_file,) = (path for path in cache_dir.rglob("*.arrow") if path.stat().st_size > 500_000)
    with bad_file.open("r+b") as file:
        file.seek(300_000)
        byte = file.read(1)
        file.seek(300_000)
        file.write(bytes([byte[0] ^ 1]))
    told = verify(cache_dir, "--json")
    assert told.returncode == 1
    report = json.loads(told.stdout)
    assert report["files"] == 3
    assert [each["path"] for each in report["bad"]] == [str(bad_file)]
    assert report["bad"][0]["reason"] == "the body doesn't match its checksum"
    assert bad_file.exists()

    removed = verify(cache_dir, "--remove-bad")
    assert removed.returncode == 1
    assert f"{bad_file}: the body doesn't match its checksum (removed)" in removed.stdout
    assert not bad_file.exists()
    assert verify(cache_dir).returncode == 0
    for target in TARGETS:
        assert exchange(sidecar.url, target).body == own_origin.objects[target].body
    assert sidecar.stop() == 0


def test_it_may_read_while_a_body_is_on_its_way(
    own_origin: Origin, start_sidecar: StartSidecar, cache_dir: Path
) -> None:
    sidecar = start_sidecar()
    own_origin.put("/a/c/0", os.urandom(2_000_000))
    gate = own_origin.hold("/a/c/0", 1_000_000)
    with Connection(sidecar.url) as connection:
        connection.send("GET", "/a/c/0")
        gate.wait_held()
        wait_for(lambda: list(cache_dir.rglob("*.tmp")), "the temp file")
        beside = verify(cache_dir, "--remove-bad")
        assert beside.returncode == 0
        assert "1 temp file:" in beside.stdout
        gate.release()
        assert connection.response().body == own_origin.objects["/a/c/0"].body
    sidecar.wait_idle()
    assert "1 file, 1.9 MiB" in verify(cache_dir).stdout
