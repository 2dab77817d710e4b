"""What lies beneath a metadata document that changed is of another array, until asked again."""

import pytest

from chunkside.core.key import Object
from chunkside.gateway.doubts import Doubts
from chunkside.store.stamps import FileStampTable, MemoryStampTable
from tests.gateway.conftest import close, disk_house

HERE, THERE = "http://here:80", "http://there:80"
ARRAY = b"/a.zarr/zarr.json"
CHUNK, HOLE, BESIDE = b"/a.zarr/c/0", b"/a.zarr/c/1", b"/b.zarr/c/0"


@pytest.fixture
def doubts():
    return Doubts(MemoryStampTable(lambda: 0.0))


@pytest.mark.parametrize(
    ("document", "path", "is_beneath"),
    [
        pytest.param(b"/a/zarr.json", b"/a/c/0/0", True, id="a-chunk"),
        pytest.param(b"/a/zarr.json", b"/a/zarr.json", False, id="not-itself"),
        pytest.param(b"/a/.zattrs", b"/a/.zarray", True, id="another-document-beside"),
        pytest.param(b"/a/zarr.json", b"/a/b/zarr.json", True, id="an-array-in-the-group"),
        pytest.param(b"/a/zarr.json", b"/ab/c/0", False, id="a-sibling-with-a-longer-name"),
        pytest.param(b"/a/zarr.json", b"/b/c/0", False, id="a-sibling"),
        pytest.param(b"/a/b/zarr.json", b"/a/c/0", False, id="above"),
        pytest.param(b"/zarr.json", b"/a/b/c/0", True, id="the-root"),
        pytest.param(b"/a//zarr.json", b"/a//c", True, id="doubled-slashes"),
        pytest.param(b"/a//zarr.json", b"/a/c", False, id="doubled-slashes-are-a-name"),
    ],
)
def test_a_change_counts_beneath_its_directory_alone(doubts, document, path, is_beneath):
    doubts.note(Object(HERE, document), 7.0)
    assert doubts.has_doubted(Object(HERE, path), 6.9) is is_beneath
    assert doubts.has_doubted(Object(HERE, path), 7.0) is is_beneath
    assert not doubts.has_doubted(Object(HERE, path), 7.1)
    assert not doubts.has_doubted(Object(THERE, path), 6.9)


def test_nothing_is_doubted_as_long_as_nothing_is_noted(doubts):
    assert not doubts.has_doubted(Object(HERE, b"/a/c/0"), 1e-9)


def test_the_latest_change_on_the_way_up_counts(doubts):
    doubts.note(Object(HERE, b"/a/b/zarr.json"), 5.0)
    doubts.note(Object(HERE, b"/a/zarr.json"), 9.0)
    doubts.note(Object(HERE, b"/a/zarr.json"), 8.0)
    assert doubts.has_doubted(Object(HERE, b"/a/b/c/0"), 8.5)
    assert not doubts.has_doubted(Object(HERE, b"/a/b/c/0"), 9.5)


@pytest.mark.parametrize(
    ("root", "path", "is_alone", "is_with_beneath"),
    [
        pytest.param(b"/a/b", b"/a/b", True, True, id="itself"),
        pytest.param(b"/a/b", b"/a/b/c", False, True, id="beneath"),
        pytest.param(b"/a/b", b"/a/bc", False, False, id="a-longer-name"),
        pytest.param(b"/a/b", b"/a", False, False, id="above"),
        pytest.param(b"/a/", b"/a/", True, True, id="a-listing"),
        # A listing and the directory that it lists have one name.
        pytest.param(b"/a/", b"/a/b", True, True, id="beneath-a-listing"),
        pytest.param(b"/a/", b"/a", False, False, id="without-the-slash"),
        pytest.param(b"/", b"/a/b/c", True, True, id="everything"),
    ],
)
def test_a_doubt_counts_for_what_it_names(root, path, is_alone, is_with_beneath):
    for with_beneath, is_doubted in ((False, is_alone), (True, is_with_beneath)):
        doubts = Doubts(MemoryStampTable(lambda: 0.0))
        doubts.doubt(Object(HERE, root), 7.0, with_beneath=with_beneath)
        assert doubts.has_doubted(Object(HERE, path), 7.0) is is_doubted
        assert not doubts.has_doubted(Object(THERE, path), 7.0)


def test_a_document_may_be_doubted_though_its_own_change_does_not_count_for_it(doubts):
    document = Object(HERE, ARRAY)
    doubts.note(document, 5.0)
    doubts.doubt(document, 4.0, with_beneath=False)
    assert doubts.has_doubted(document, 3.9)
    assert not doubts.has_doubted(document, 4.5)


def test_many_changes_cost_nothing_but_a_validation_of_a_document(doubts):
    for number in range(2000):
        doubts.note(Object(HERE, b"/%d/zarr.json" % number), 1.0 + number)
    assert doubts.has_doubted(Object(HERE, b"/7/c/0"), 7.5)
    assert doubts.has_doubted(Object(HERE, b"/7/zarr.json"), 7.5)
    assert not doubts.has_doubted(Object(HERE, b"/1999/zarr.json"), 1999.5)


# Other processes, and those to come.


async def two_houses(tmp_path):
    """Two processes on one directory, with what both hold of an array."""
    one, disk = await disk_house(tmp_path)
    table = FileStampTable(str(tmp_path), one.now.boot_seconds)
    two, other_disk = await disk_house(tmp_path, clock=one.now, table=table)
    for house in (one, two):
        house.origin.objects = one.origin.objects
    for path in (ARRAY, CHUNK, BESIDE):
        one.origin.put(path, b"old", etag=b'"old"')
    for house in (one, two):
        for path in (ARRAY, CHUNK, HOLE, BESIDE):
            await house.get(path)
        await house.settled_fills()
    return (one, disk), (two, other_disk)


async def test_a_rewritten_array_is_known_to_every_process_on_the_directory(tmp_path):
    (one, disk), (two, other_disk) = await two_houses(tmp_path)
    one.now.advance(6.0)
    for path in (ARRAY, CHUNK, HOLE):
        one.origin.put(path, b"new", etag=b'"new"')
    assert (await one.get(ARRAY)).body == b"new"
    one.now.advance(0.001)
    for path in (CHUNK, HOLE):
        assert (await two.get(path)).body == b"new"
    assert (await two.get(BESIDE)).result == "hit"
    await close(one, disk)
    await close(two, other_disk)


async def test_a_soft_purge_reaches_every_process_on_the_directory(tmp_path):
    (one, disk), (two, other_disk) = await two_houses(tmp_path)
    one.origin.put(CHUNK, b"new", etag=b'"new"')
    one.origin.put(HOLE, b"new", etag=b'"new"')
    one.now.advance(0.001)
    await one.purging.soften_prefix("http://origin:80", b"/a.zarr")
    one.now.advance(0.001)
    assert [(await two.get(path)).body for path in (CHUNK, HOLE)] == [b"new", b"new"]
    await close(one, disk)
    await close(two, other_disk)


async def test_a_hard_purge_by_prefix_drops_what_only_another_process_remembers(tmp_path):
    one, disk = await disk_house(tmp_path)
    table = FileStampTable(str(tmp_path), one.now.boot_seconds)
    two, other_disk = await disk_house(tmp_path, clock=one.now, table=table)
    await two.get(HOLE)
    two.origin.put(HOLE, b"new")
    assert (await two.get(HOLE)).status == 404
    one.now.advance(0.001)
    await one.purging.prefix("http://origin:80", b"/a.zarr")
    one.now.advance(0.001)
    assert (await two.get(HOLE)).body == b"new"
    await close(one, disk)
    await close(two, other_disk)


async def test_a_rewritten_array_is_known_after_a_restart(tmp_path):
    first, disk = await disk_house(tmp_path)
    for path in (ARRAY, CHUNK, BESIDE):
        first.origin.put(path, b"old", etag=b'"old"')
        await first.get(path)
    await first.settled_fills()
    first.now.advance(6.0)
    first.origin.put(ARRAY, b"new", etag=b'"new"')
    await first.get(ARRAY)
    await close(first, disk)
    # The wall clock is set back meanwhile: it must not make what is old look newer.
    first.now.wall -= 3.0
    table = FileStampTable(str(tmp_path), first.now.boot_seconds)
    house, disk = await disk_house(tmp_path, clock=first.now, table=table, is_scanning=True)
    for path in (CHUNK, BESIDE):
        house.origin.put(path, b"old", etag=b'"old"')
    first.now.advance(1.0)
    assert (await house.get(CHUNK)).result == "revalidated"
    assert (await house.get(BESIDE)).result == "hit"
    await close(house, disk)


# What is passed on.


@pytest.mark.parametrize(
    ("fields", "is_known"),
    [
        (((b"Cache-Control", b"no-store"),), True),
        (((b"Cache-Control", b"no-store"), (b"Range", b"bytes=0-1")), True),
        (((b"Cache-Control", b"no-store"),), False),
    ],
)
async def test_a_document_that_is_passed_on_is_weighed_too(house, fields, is_known):
    for path in (ARRAY, CHUNK):
        house.origin.put(path, b"old", etag=b'"old"')
        house.now.advance(1.0)
        if is_known or path == CHUNK:
            await house.get(path)
    await house.settled_fills()
    house.now.advance(1.0)
    await house.get(ARRAY, *fields)
    house.now.advance(0.001)
    assert (await house.get(CHUNK)).result == ("hit" if is_known else "revalidated")
    house.origin.put(ARRAY, b"new", etag=b'"new"')
    house.now.advance(1.0)
    assert (await house.get(ARRAY, *fields)).status in (200, 206)
    house.now.advance(0.001)
    assert (await house.get(CHUNK)).result == "revalidated"


async def test_a_range_of_another_process_does_not_come_back_after_its_object_was_absent(tmp_path):
    one, disk = await disk_house(tmp_path)
    table = FileStampTable(str(tmp_path), one.now.boot_seconds)
    two, other_disk = await disk_house(tmp_path, clock=one.now, table=table)
    two.origin.objects = one.origin.objects
    one.origin.put(CHUNK, bytes(1000))
    some = (b"Range", b"bytes=0-99")
    assert (await two.get(CHUNK, some)).status == 206
    await two.settled()
    one.now.advance(1.0)
    del one.origin.objects[CHUNK]
    statuses = [(await one.get(CHUNK)).status]
    for _ in range(2):
        statuses.append((await one.get(CHUNK, some)).status)
        await one.settled()
    await close(one, disk)
    await close(two, other_disk)
    assert statuses == [404, 404, 404]
