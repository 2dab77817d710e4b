"""Sweeps: what nobody uses goes, and what is oldest where there must be room."""

import asyncio
import fcntl
import math
import os
import time

import pytest

from chunkside.core.budget import Limits
from chunkside.gateway.sweeper import Sweeper
from chunkside.store.recovery import BATCH_FILES as SCAN_BATCH_FILES
from chunkside.store.stamps import FileStampTable
from chunkside.store.sweep import BATCH_FILES
from tests.gateway.conftest import close, disk_house
from tests.support.house import HandClock
from tests.support.many_files import fill_directory

DAY = 86_400.0
SIZE = 100_000


async def filled(tmp_path, count=4, **more):
    """A house with bodies /b/0, /b/1, …, of which each was used an hour after the one before."""
    house, disk = await disk_house(tmp_path, clock=HandClock(wall=time.time()), **more)
    for number in range(count):
        house.origin.put(b"/b/%d" % number, os.urandom(SIZE))
        await house.get(b"/b/%d" % number)
        await house.settled_fills()
    for number in range(count):
        age(disk, house, b"/b/%d" % number, 3600.0 * (count - number))
    return house, disk


def file_of(disk, house, target):
    body = house.entry(target).body
    return disk._directory.path_of(body.key, body.part)


def age(disk, house, target, seconds):
    at = house.now.wall - seconds
    os.utime(file_of(disk, house, target), (at, at))


def sweeper(house, disk, retention=math.inf):
    return Sweeper(house.edges, disk, retention, lambda _: None)


def short_of(disk, size):
    """From now on the volume says that it has so many bytes less than it should."""
    floor = disk._directory.floor
    floor._min_free_bytes, floor._spare_bytes = 1, -float(size)
    floor.measure = lambda: None


def held(house, count=4):
    return [number for number in range(count) if house.entry(b"/b/%d" % number) is not None]


def files(tmp_path):
    return sum(1 for _ in tmp_path.rglob("*.arrow"))


async def test_what_was_idle_for_longer_than_the_retention_leaves_disk_and_index(tmp_path):
    house, disk = await filled(tmp_path)
    age(disk, house, b"/b/2", 8 * DAY)
    swept = await sweeper(house, disk, 7 * DAY).sweep()
    assert (swept.files, held(house), files(tmp_path)) == (4, [0, 1, 3], 3)
    assert swept.freed_bytes >= SIZE
    assert house.record.removals["body", "retention"] == 1
    house.edges.index.check_invariants()
    await close(house, disk)


async def test_where_the_budget_is_exceeded_by_whomever_the_oldest_go(tmp_path):
    # The more one may have, the more it tells of beyond what it needs.
    house, disk = await filled(tmp_path, limits=Limits(40 * SIZE))
    other, other_disk = await disk_house(
        tmp_path,
        clock=house.now,
        table=FileStampTable(str(tmp_path), house.now.boot_seconds),
        limits=Limits(4 * SIZE),
    )
    # Another process, whose budget holds for all of them together.
    swept = await sweeper(other, other_disk).sweep()
    assert swept.total_bytes - swept.freed_bytes <= 3 * SIZE
    assert files(tmp_path) == 2
    assert other.record.removals["body", "budget"] == 2
    # Whoever held them brings them anew.
    disk._readers.clear()
    assert (await house.get(b"/b/0")).result == "miss"
    await close(house, disk)
    await close(other, other_disk)


async def test_a_volume_that_runs_short_gets_the_oldest_back(tmp_path):
    house, disk = await filled(tmp_path)
    short_of(disk, 1.5 * SIZE)
    swept = await sweeper(house, disk).sweep()
    assert (held(house), files(tmp_path)) == ([2, 3], 2)
    assert swept.freed_bytes >= 1.5 * SIZE
    assert house.record.removals["body", "free_space"] == 2
    await close(house, disk)


async def test_bytes_that_a_reader_still_holds_are_not_freed_twice(tmp_path):
    house, disk = await filled(tmp_path)
    reader = disk.reader(house.entry(b"/b/0").body)
    await house.purging.object(house.key(b"/b/0").object)
    await house.settled()
    assert disk.lingering_bytes >= SIZE
    short_of(disk, SIZE)
    await sweeper(house, disk).sweep()
    assert held(house) == [1, 2, 3]
    assert (await reader.read(0, 10)) is not None
    del reader
    # Once the store's threads have let go of it, too.
    await house.until(lambda: disk.lingering_bytes == 0)
    await close(house, disk)


async def test_a_file_that_was_replaced_lingers_as_long_as_it_is_read_and_counts_once(tmp_path):
    house, disk = await filled(tmp_path, 1)
    body = house.entry(b"/b/0").body
    reader = disk.reader(body)
    house.now.advance(3600.0)
    house.origin.put(b"/b/0", os.urandom(SIZE))
    assert (await house.get(b"/b/0")).result == "miss"
    await house.settled()
    assert house.entry(b"/b/0").body != body
    await house.until(lambda: disk.lingering_bytes > 0)
    await disk.remove([body])
    assert disk.lingering_bytes == body.charge
    assert (await reader.read(0, 10)) is not None
    del reader
    await house.until(lambda: disk.lingering_bytes == 0)
    await close(house, disk)


async def test_what_another_process_unlinked_is_let_go_of_and_lingers_while_it_is_read(tmp_path):
    house, disk = await filled(tmp_path, 3)
    reader = disk.reader(house.entry(b"/b/0").body)
    assert disk.open_readers == 3
    for number in (0, 1):
        os.unlink(file_of(disk, house, b"/b/%d" % number))
    disk.let_go_of_unlinked()
    assert disk.open_readers == 1
    assert disk.lingering_bytes == reader.body.charge
    del reader
    await house.until(lambda: disk.lingering_bytes == 0)
    await close(house, disk)


async def test_what_directories_take_is_told_once_a_sweep_has_looked(tmp_path):
    house, disk = await filled(tmp_path, 2)
    assert disk.directory_bytes is None
    await sweeper(house, disk).sweep()
    directories = [tmp_path / "v1", *(tmp_path / "v1").glob("*"), *(tmp_path / "v1").glob("*/*")]
    assert disk.directory_bytes == sum(each.lstat().st_blocks * 512 for each in directories)
    await close(house, disk)


async def test_a_body_that_is_used_again_outlives_those_that_are_not(tmp_path):
    house, disk = await filled(tmp_path)
    disk._readers.clear()
    path = file_of(disk, house, b"/b/0")
    assert (await house.get(b"/b/0")).result == "hit"
    await house.until(lambda: os.stat(path).st_mtime > house.now.wall - 60.0)
    # At most once in an hour.
    age(disk, house, b"/b/0", 1800.0)
    noted = os.stat(path).st_mtime
    assert (await house.get(b"/b/0")).result == "hit"
    await disk._lanes.in_order("test", path, lambda: None)
    assert os.stat(path).st_mtime == noted
    short_of(disk, 2 * SIZE)
    await sweeper(house, disk).sweep()
    assert held(house)[0] == 0
    await close(house, disk)


async def test_ranges_are_swept_one_by_one(tmp_path):
    house, disk = await disk_house(tmp_path, clock=HandClock(wall=time.time()))
    house.origin.put(b"/r", os.urandom(SIZE))
    for first in (0, 1000):
        await house.get(b"/r", (b"Range", b"bytes=%d-%d" % (first, first + 9)))
        await house.settled_fills()
    [path] = tmp_path.rglob("*.r0-9.arrow")
    os.utime(path, (1.0, 1.0))
    await sweeper(house, disk, 7 * DAY).sweep()
    assert [each.first for each in house.entry(b"/r").bodies] == [1000]
    assert house.record.removals["range", "retention"] == 1
    await close(house, disk)


async def test_one_process_sweeps_at_a_time(tmp_path):
    house, disk = await filled(tmp_path)
    with (tmp_path / ".sweep.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await sweeper(house, disk, 0.0).sweep() is None
    assert files(tmp_path) == 4
    assert (await sweeper(house, disk, 0.0).sweep()).files == 4
    assert files(tmp_path) == 0
    await close(house, disk)


async def test_what_is_not_a_body_of_ours_is_left_alone(tmp_path):
    house, disk = await filled(tmp_path, 1)
    shard = os.path.dirname(file_of(disk, house, b"/b/0"))
    names = ["note.txt", "x.arrow", f".{'a' * 64}.arrow.1.{'0' * 16}.tmp"]
    for name in names:
        path = os.path.join(shard, name)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        os.utime(path, (1.0, 1.0))
    await sweeper(house, disk, 7 * DAY).sweep()
    assert set(names) <= set(os.listdir(shard))
    await close(house, disk)


async def test_an_empty_directory_goes_once_it_is_old(tmp_path):
    house, disk = await filled(tmp_path, 2)
    shards = [os.path.dirname(file_of(disk, house, b"/b/%d" % number)) for number in range(2)]
    for number in range(2):
        await house.purging.object(house.key(b"/b/%d" % number).object)
    await house.settled()
    os.utime(shards[0], (1.0, 1.0))
    await sweeper(house, disk).sweep()
    assert {shard.name for shard in tmp_path.glob("v1/*/*")} == {os.path.basename(shards[1])}
    house.origin.put(b"/b/0", b"again")
    await house.get(b"/b/0")
    await house.settled_fills()
    assert (await house.get(b"/b/0")).result == "hit"
    await close(house, disk)


async def test_a_disk_that_can_not_be_read_ends_no_sweeper(tmp_path):
    house, disk = await filled(tmp_path, 1)
    made = sweeper(house, disk)
    (tmp_path / ".sweep.lock").mkdir()
    assert await made.sweep() is None
    assert house.record.faults == [("sweep", "EISDIR")]
    (tmp_path / ".sweep.lock").rmdir()
    assert (await made.sweep()).files == 1
    await close(house, disk)


@pytest.mark.parametrize(
    ("seconds", "written", "is_pressed", "is_due"),
    [
        (1.0, 0, False, False),
        (599.0, (64 << 20) - 1, False, False),
        (600.0, 0, False, True),
        (1.0, 64 << 20, False, True),
        (1.0, 0, True, True),
    ],
)
async def test_a_sweep_is_due_by_time_by_bytes_written_and_by_pressure(
    tmp_path, seconds, written, is_pressed, is_due
):
    house, disk = await disk_house(tmp_path, limits=Limits(1 << 30))
    made = sweeper(house, disk)
    await made.sweep()
    house.now.advance(seconds)
    disk.committed_bytes += written
    if is_pressed:
        house.edges.shared.is_pressed.set()
    assert made.is_due() is is_due
    await close(house, disk)


async def test_a_sweeper_runs_at_once_and_again_under_pressure(tmp_path):
    house, disk = await filled(tmp_path)
    sweeps: list[float] = []
    made = Sweeper(house.edges, disk, math.inf, sweeps.append)
    running = asyncio.create_task(made.run())
    await house.until(lambda: len(sweeps) == 1)
    house.now.advance(10.0)
    house.edges.shared.is_pressed.set()
    await house.until(lambda: len(sweeps) == 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await close(house, disk)


async def test_processes_on_one_directory_keep_its_budget_between_two_sweeps(tmp_path):
    clock = HandClock(wall=time.time())
    houses = [
        await disk_house(
            tmp_path,
            clock=clock,
            table=FileStampTable(str(tmp_path), clock.boot_seconds),
            limits=Limits(10 * SIZE),
        )
        for _ in range(2)
    ]
    stored = 0
    for number in range(30):
        house, disk = houses[number % 2]
        house.origin.put(b"/b/%d" % number, os.urandom(SIZE // 2))
        assert (await house.get(b"/b/%d" % number)).status == 200
        await house.settled()
        stored += house.entry(b"/b/%d" % number) is not None
        taken = sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*.arrow"))
        assert taken <= 10 * SIZE
    # Together they filled it, and neither believed that it was full by itself.
    assert 15 <= stored < 30
    assert {len(house.record.removals) for house, _ in houses} == {0}
    house, disk = houses[0]
    assert house.edges.shared.is_pressed.is_set()
    await sweeper(house, disk).sweep()
    house.origin.put(b"/new", os.urandom(SIZE // 2))
    await house.get(b"/new")
    await house.settled()
    assert house.entry(b"/new") is not None
    for each in houses:
        await close(*each)


async def test_sweep_and_scan_look_at_files_in_batches_between_which_others_have_turns(tmp_path):
    house, disk = await disk_house(tmp_path, clock=HandClock(wall=time.time()))
    assert sum(1 for _ in fill_directory(tmp_path, 3000)) == 3000
    for looks, most in ((disk.survey(), BATCH_FILES), (disk.scan(), SCAN_BATCH_FILES)):
        batches = [len(batch) async for batch in looks]
        assert sum(batches) == 3000
        assert max(batches) <= most
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0)  # polls: how often it has a turn is what is asked
            turns += 1

    counting = asyncio.create_task(count_turns())
    house.now.advance(8 * DAY)
    swept = await sweeper(house, disk, 7 * DAY).sweep()
    counting.cancel()
    assert (swept.files, files(tmp_path)) == (3000, 0)
    # At least one for each batch that was looked at, and for each that was taken.
    assert turns >= 2 * 3000 // BATCH_FILES
    await close(house, disk)


async def test_the_budget_holds_while_a_full_directory_is_still_being_read(tmp_path):
    limits = Limits(5 * SIZE)
    before, disk_before = await filled(tmp_path, 4, limits=limits)
    await close(before, disk_before)

    def taken():
        return sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*.arrow"))

    house, disk = await disk_house(
        tmp_path,
        clock=before.now,
        table=FileStampTable(str(tmp_path), before.now.boot_seconds),
        limits=limits,
        is_scanning=True,
    )
    await sweeper(house, disk).sweep()
    house.origin.put(b"/new", os.urandom(SIZE))
    assert (await house.get(b"/new")).status == 200
    await house.settled()
    assert (house.entry(b"/new"), files(tmp_path)) == (None, 4)
    # There is nothing that a sweep could do.
    assert not house.edges.shared.is_pressed.is_set()
    await house.gateway.adoption.scan()
    await house.get(b"/new")
    await house.settled()
    assert house.entry(b"/new") is not None
    assert taken() <= 5 * SIZE
    await close(house, disk)
