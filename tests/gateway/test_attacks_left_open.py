"""What an attacker found and nobody has mended yet: each test says what should be."""

import pytest

from chunkside.core.entry import Partial
from chunkside.store.stamps import FileStampTable
from tests.gateway.conftest import close, disk_house

KEY = b"/a.zarr/c/0"
BODY = bytes(range(256)) * (12 << 10)
NEW = bytes(reversed(range(256))) * (12 << 10)
MIB = 1 << 20


def is_open(reason):
    return pytest.mark.xfail(strict=True, reason=reason)


async def get(house, first, last, *fields):
    return await house.get(KEY, (b"Range", b"bytes=%d-%d" % (first, last)), *fields)


def parts(house):
    entry = house.entry(KEY)
    return [(each.first, each.last) for each in entry.bodies] if isinstance(entry, Partial) else []


@pytest.fixture
def filled(house):
    house.origin.put(KEY, BODY)
    return house


async def two_houses(root):
    """Two processes on one directory and before one origin."""
    one, disk = await disk_house(root)
    table = FileStampTable(str(root), one.now.boot_seconds)
    two, other_disk = await disk_house(root, clock=one.now, table=table)
    two.origin.objects = one.origin.objects
    return (one, disk), (two, other_disk)


# Older bytes after newer ones, by way of the disk.


@is_open("a 404 while the directory is read drops nothing of what has not been read yet")
async def test_a_range_that_is_found_by_the_scan_is_older_than_an_absence(tmp_path):
    first, disk = await disk_house(tmp_path)
    first.origin.put(KEY, BODY)
    await get(first, 0, 99)
    await close(first, disk)
    house, disk = await disk_house(tmp_path, clock=first.now, table=first.stamps, is_scanning=True)
    house.now.advance(1.0)
    assert (await get(house, 500, 599)).status == 404
    await house.gateway.adoption.scan()
    got = await get(house, 0, 99)
    await close(house, disk)
    assert got.status == 404


@is_open("once it is evicted nobody remembers that a newer generation was seen")
async def test_a_range_of_another_process_is_older_than_what_was_evicted(tmp_path):
    (one, disk), (two, other_disk) = await two_houses(tmp_path)
    one.origin.put(KEY, BODY)
    await get(two, 0, 99)
    await two.settled()
    one.now.advance(1.0)
    one.origin.put(KEY, NEW)
    assert (await get(one, 100, 199)).body == NEW[100:200]
    await one.settled()
    [body] = one.entry(KEY).bodies
    one.edges.discard(one.edges.index.drop_range(body, "budget"))
    await one.settled()
    got = await get(one, 0, 99)
    await close(one, disk)
    await close(two, other_disk)
    assert got.body == NEW[:100]


@is_open("the scan leaves alone what a fill runs for, and nobody comes back for it")
async def test_a_range_that_the_scan_met_during_a_fill_is_on_the_books_or_gone(tmp_path):
    first, disk = await disk_house(tmp_path)
    first.origin.put(KEY, BODY)
    await get(first, 0, 99)
    await close(first, disk)
    house, disk = await disk_house(tmp_path, clock=first.now, table=first.stamps, is_scanning=True)
    house.origin.put(KEY, BODY)
    gate = house.origin.hold(KEY)
    running = house.start("GET", KEY, (b"Range", b"bytes=500-999"))
    await gate.reached()
    await house.gateway.adoption.scan()
    gate.open()
    await running
    await house.settled()
    files, held = len(list(tmp_path.rglob("*.arrow"))), house.edges.index.ranges.count
    await close(house, disk)
    assert files == held


# By way of a relay.


@is_open("a HEAD that shows another version says nothing to fills")
async def test_a_body_that_arrives_is_not_joined_after_a_head_showed_another(filled):
    gate = filled.origin.hold(KEY, MIB)
    early = filled.start("GET", KEY)
    await gate.reached()
    newer = filled.origin.put(KEY, NEW)
    assert (await filled.send("HEAD", KEY)).field(b"etag") == newer.etag
    got = await get(filled, 0, 9)
    gate.open()
    await early
    assert got.body == NEW[:10]
