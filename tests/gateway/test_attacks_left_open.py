"""What an attacker found and nobody has mended yet: each test says what should be."""

import asyncio

import pytest

from chunkside.core.entry import Absent, Partial, Present
from chunkside.core.freshness import Policy
from chunkside.store.stamps import FileStampTable
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer

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


@is_open(
    "an absence drops what the index knows of, and leaves other files of its object vouched for"
)
async def test_a_range_of_another_process_does_not_come_back_after_its_object_was_absent(tmp_path):
    (one, disk), (two, other_disk) = await two_houses(tmp_path)
    one.origin.put(KEY, BODY)
    assert (await get(two, 0, 99)).status == 206
    await two.settled()
    one.now.advance(1.0)
    del one.origin.objects[KEY]
    statuses = [(await one.get(KEY)).status]
    for _ in range(2):
        statuses.append((await get(one, 0, 99)).status)
        await one.settled()
    await close(one, disk)
    await close(two, other_disk)
    assert statuses == [404, 404, 404]


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


@is_open("a relayed 404 revokes no fill: Passing._weigh only drops an entry")
async def test_a_body_that_arrives_is_not_joined_after_an_absence_was_relayed(filled):
    gate = filled.origin.hold(KEY, MIB)
    early = filled.start("GET", KEY)
    await gate.reached()
    etag = filled.origin.objects[KEY].etag
    del filled.origin.objects[KEY]
    asked = ((b"Range", b"bytes=-16"), (b"If-Range", etag))
    assert (await filled.get(KEY, *asked)).status == 404
    late = filled.start("GET", KEY)
    # Where it joins, it has its head at once.
    await asyncio.wait({late}, timeout=0)
    gate.open()
    await early
    assert (await late).status == 404


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


# What falls without need.


@is_open("PassOn lets all fall that is held, even of the same representation")
async def test_a_range_that_is_too_large_leaves_those_held(filled):
    filled.edges.policy = Policy(max_body_bytes=MIB)
    await get(filled, 0, 99)
    await filled.settled()
    await get(filled, 0, 2 * MIB)
    await filled.settled()
    assert parts(filled) == [(0, 99)]


@is_open("the 404 of a range drops the marker that says the same")
async def test_the_404_of_a_range_leaves_its_marker(house):
    await house.get(KEY)
    assert isinstance(house.entry(KEY), Absent)
    assert (await get(house, 0, 9)).status == 404
    await house.settled()
    assert isinstance(house.entry(KEY), Absent)


@is_open("a 416 counts as a change even where it tells the length that is held")
async def test_a_416_beyond_the_end_leaves_what_is_held(filled):
    await get(filled, 0, 99)
    await filled.settled()
    filled.now.advance(301.0)
    told = (b"Content-Range", b"bytes */%d" % len(BODY))
    filled.origin.script(KEY, Answer(416, (told,)), times=1)
    assert (await filled.get(KEY, (b"Range", b"bytes=%d-" % len(BODY)))).status == 416
    await filled.settled()
    assert parts(filled) == [(0, 99)]


@is_open("a route that remembers no absences drops those that another remembers")
async def test_a_route_without_markers_leaves_those_of_another(house):
    other = house.beside("/b", policy=Policy(cache_missing=False))
    await house.get(KEY)
    assert (await other.get(b"/b" + KEY)).status == 404
    await house.settled()
    assert isinstance(house.entry(KEY), Absent)


@is_open("whoever first asks for a document with a credential or query of his own doubts all of it")
@pytest.mark.parametrize("how", [b"credential", b"query"])
async def test_another_key_of_a_known_document_is_no_change(house, how):
    document, chunk = b"/a/zarr.json", b"/a/c/0"
    house.origin.put(document, b"{}", etag=b'"d"')
    house.origin.put(chunk, b"chunk", etag=b'"c"')
    for target in (document, chunk):
        await house.get(target)
        house.now.advance(0.001)
    await house.settled()
    if how == b"query":
        await house.get(document + b"?t=1")
    else:
        await house.get(document, (b"Authorization", b"other"))
    await house.settled()
    house.now.advance(0.001)
    assert isinstance(house.entry(chunk), Present)
    assert (await house.get(chunk)).result == "hit"
