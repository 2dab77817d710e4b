"""A real disk that is full, read-only, out of inodes or taken away: every read is right, and once
the fault is gone the cache works again without a restart.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import StartSidecar
from tests.support.deadline import wait_for
from tests.support.http_client import exchange
from tests.support.origin import Origin
from tests.support.sidecar import Sidecar
from tests.support.volume import SmallDisk, small_disk

pytestmark = [pytest.mark.root, pytest.mark.server("mkfs.ext4"), pytest.mark.timeout(180)]

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, 48) as made:
        yield made


def start(start_sidecar: StartSidecar, disk: SmallDisk, *flags: str) -> Sidecar:
    return start_sidecar("--cache-dir", str(disk.path / "cache"), *flags)


def read_right(origin: Origin, sidecar: Sidecar, targets: list[str]) -> None:
    for target in targets:
        answer = exchange(sidecar.url, target)
        assert answer.status == 200
        assert answer.is_complete
        assert answer.body == origin.objects[target].body


def put(origin: Origin, count: int, size: int, name: str = "a") -> list[str]:
    targets = [f"/{name}/c/{number}" for number in range(count)]
    for target in targets:
        origin.put(target, os.urandom(size))
    return targets


def stores_again(origin: Origin, sidecar: Sidecar, target: str) -> bool:
    """Whether a body that was asked for is held."""
    exchange(sidecar.url, target)
    sidecar.wait_idle()
    before = origin.count("GET", target)
    exchange(sidecar.url, target)
    return origin.count("GET", target) == before


def test_a_budget_larger_than_the_disk_never_fails_a_read(
    own_origin: Origin, start_sidecar: StartSidecar, disk: SmallDisk
) -> None:
    sidecar = start(start_sidecar, disk, "--cache-size", "1GiB", "--min-free", "4MiB")
    targets = put(own_origin, 100, MIB)
    read_right(own_origin, sidecar, targets)
    sidecar.wait_idle()
    # The floor is kept, give or take what was on its way.
    assert disk.free_bytes >= 3 * MIB
    # What is new is kept at the cost of what is old.
    wait_for(lambda: stores_again(own_origin, sidecar, targets[-1]), "the sweep to make room")
    assert sidecar.metric('chunkside_removals_total{kind="body",reason="free_space"}') > 0


def test_file_blocks_never_exceed_the_budget(
    own_origin: Origin, start_sidecar: StartSidecar, disk: SmallDisk
) -> None:
    budget = 8 * MIB
    sidecar = start(start_sidecar, disk, "--cache-size", str(budget), "--max-body-size", "1MiB")
    # Not bodies: the stamp table, locks and secret.
    beside = disk.used_bytes()
    sizes = [1_000, 40_000, 300_000, 900_000]
    targets = [put(own_origin, 40, size, f"s{size}") for size in sizes]
    for several in zip(*targets, strict=True):
        read_right(own_origin, sidecar, list(several))
        assert disk.used_bytes() - beside <= budget
    sidecar.wait_idle()
    assert sidecar.metric("chunkside_stored_bytes") <= budget


def test_a_full_disk_never_fails_a_read_and_is_used_again_once_there_is_room(
    own_origin: Origin, start_sidecar: StartSidecar, disk: SmallDisk
) -> None:
    sidecar = start(start_sidecar, disk)
    targets = put(own_origin, 10, 300_000)
    read_right(own_origin, sidecar, targets[:5])
    sidecar.wait_idle()
    filler = disk.fill()
    read_right(own_origin, sidecar, targets)
    read_right(own_origin, sidecar, put(own_origin, 5, 2 * MIB, "b"))
    assert sidecar.metric('chunkside_store_errors_total{error="ENOSPC"}') > 0
    filler.unlink()
    wait_for(lambda: stores_again(own_origin, sidecar, targets[-1]), "the disk to be used again")
    assert sidecar.stderr().count("the cache directory fails") == 1
    assert sidecar.stderr().count("works again") == 1


def test_a_disk_without_inodes_never_fails_a_read(
    own_origin: Origin, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    with small_disk(tmp_path, 48, inodes=400) as disk:
        sidecar = start(start_sidecar, disk)
        targets = put(own_origin, 500, 100)
        read_right(own_origin, sidecar, targets)
        read_right(own_origin, sidecar, targets)
        exchange(sidecar.url, "/gone")
        assert sidecar.metric("chunkside_index_entries") > 100
        sidecar.kill()


def test_a_device_that_is_lost_fails_no_read_hides_no_write_and_is_used_again(
    own_origin: Origin, start_sidecar: StartSidecar, disk: SmallDisk
) -> None:
    sidecar = start(start_sidecar, disk)
    held, other = put(own_origin, 2, 300_000)
    read_right(own_origin, sidecar, [held])
    sidecar.wait_idle()
    disk.lose()
    read_right(own_origin, sidecar, [held, other])
    # A write can't be stamped: what was held of it must not come back all the same.
    assert exchange(sidecar.url, held, "PUT", (), b"written").status < 300
    assert exchange(sidecar.url, held).body == b"written"
    read_right(own_origin, sidecar, [other])
    assert sidecar.metric('chunkside_store_errors_total{error="EIO"}') > 0
    disk.replace()
    wait_for(lambda: stores_again(own_origin, sidecar, other), "the disk to be used again", 60)
    assert exchange(sidecar.url, held).body == b"written"


@pytest.mark.parametrize("how", ["the bodies", "all of it"])
def test_a_directory_that_is_removed_is_made_again(
    own_origin: Origin, start_sidecar: StartSidecar, disk: SmallDisk, how: str
) -> None:
    sidecar = start(start_sidecar, disk)
    targets = put(own_origin, 3, 300_000)
    read_right(own_origin, sidecar, targets)
    sidecar.wait_idle()
    cache = disk.path / "cache"
    shutil.rmtree(cache / "v1" if how == "the bodies" else cache)
    read_right(own_origin, sidecar, targets)
    wait_for(lambda: stores_again(own_origin, sidecar, targets[0]), "bodies to be kept again")
    assert exchange(sidecar.url, targets[1], "PUT", (), b"written").status < 300
    assert exchange(sidecar.url, targets[1]).body == b"written"


def test_permissions_that_are_taken_away_fail_no_read(
    own_origin: Origin, start_sidecar: StartSidecar, disk: SmallDisk
) -> None:
    """Even root can't make files in a directory that is immutable."""
    sidecar = start(start_sidecar, disk)
    targets = put(own_origin, 3, 300_000)
    read_right(own_origin, sidecar, targets[:1])
    sidecar.wait_idle()
    bodies = str(disk.path / "cache" / "v1")
    subprocess.run(["chattr", "-R", "+i", bodies], check=True)
    read_right(own_origin, sidecar, targets)
    assert exchange(sidecar.url, targets[0], "PUT", (), b"written").status < 300
    assert exchange(sidecar.url, targets[0]).body == b"written"
    subprocess.run(["chattr", "-R", "-i", bodies], check=True)
    wait_for(lambda: stores_again(own_origin, sidecar, targets[1]), "the disk to be used again")
