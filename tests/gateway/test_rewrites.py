"""An array that is rewritten at the origin: no reader combines its new shape with old chunks."""

import pytest

from chunkside.core.entry import Absent, Present
from tests.support.fake_upstream import LAST_MODIFIED, Answer

DOCUMENT, CHUNK, HOLE = b"/a/zarr.json", b"/a/c/0/0", b"/a/c/0/1"
METADATA_TTL = 6


@pytest.fixture
async def array(house):
    """A document, a chunk and a hole, all known, and the document just stale."""
    house.origin.put(DOCUMENT, b'{"shape":1}', etag=b'"one"')
    house.origin.put(CHUNK, b"old", etag=b'"chunk"')
    for target in (DOCUMENT, CHUNK, HOLE):
        await house.get(target)
        house.now.advance(0.001)
    await house.settled()
    house.now.advance(METADATA_TTL)
    return house


async def read_document(house):
    got = await house.get(DOCUMENT)
    await house.settled()
    house.now.advance(0.001)
    return got


async def test_a_document_that_changed_has_bodies_beneath_it_validated_and_markers_forgotten(array):
    array.origin.put(DOCUMENT, b'{"shape":2}', etag=b'"two"')
    array.origin.put(HOLE, b"filled", etag=b'"hole"')
    assert (await read_document(array)).body == b'{"shape":2}'
    chunk = await array.get(CHUNK)
    assert (chunk.result, chunk.body) == ("revalidated", b"old")
    assert (await array.get(HOLE)).body == b"filled"
    assert (await array.get(CHUNK)).result == "hit"


async def test_a_chunk_that_changed_with_its_document_is_brought_anew(array):
    array.origin.put(DOCUMENT, b'{"shape":2}', etag=b'"two"')
    array.origin.put(CHUNK, b"new", etag=b'"chunk2"')
    await read_document(array)
    assert (await array.get(CHUNK)).body == b"new"


async def test_a_document_that_did_not_change_leaves_everything_as_it_is(array):
    assert (await read_document(array)).result == "revalidated"
    before = array.origin.count()
    assert (await array.get(CHUNK)).result == "hit"
    assert (await array.get(HOLE)).result == "negative_hit"
    assert array.origin.count() == before


async def test_a_document_that_went_is_a_change(array):
    del array.origin.objects[DOCUMENT]
    assert (await read_document(array)).status == 404
    assert (await array.get(CHUNK)).result == "revalidated"


async def test_a_document_that_appeared_is_a_change(house):
    assert (await house.get(DOCUMENT)).status == 404
    assert (await house.get(HOLE)).status == 404
    house.now.advance(METADATA_TTL)
    house.origin.put(DOCUMENT, b"{}")
    house.origin.put(HOLE, b"filled")
    await read_document(house)
    assert (await house.get(HOLE)).body == b"filled"


async def test_an_array_beside_is_not_touched(array):
    array.origin.put(b"/ab/c/0", b"beside", etag=b'"x"')
    await array.get(b"/ab/c/0")
    await array.settled()
    array.origin.put(DOCUMENT, b'{"shape":2}', etag=b'"two"')
    await read_document(array)
    assert (await array.get(b"/ab/c/0")).result == "hit"


@pytest.mark.parametrize(
    ("now", "is_changed"),
    [(b'{"shape":1}', False), (b'{"shape":2}', True), (b'{"shape":10}', True), (b"", True)],
    ids=["same bytes", "other bytes", "another length", "empty"],
)
async def test_without_validators_the_bytes_tell(house, now, is_changed):
    house.origin.put(DOCUMENT, b'{"shape":1}', etag=None, last_modified=None)
    house.origin.put(CHUNK, b"old", etag=b'"chunk"')
    for target in (DOCUMENT, CHUNK, HOLE):
        await house.get(target)
        house.now.advance(0.001)
    await house.settled()
    house.now.advance(METADATA_TTL)
    house.origin.put(DOCUMENT, now, etag=None, last_modified=None)
    assert (await read_document(house)).body == now
    assert (await house.get(CHUNK)).result == ("revalidated" if is_changed else "hit")
    assert (await house.get(HOLE)).result == ("miss" if is_changed else "negative_hit")


async def test_a_chunk_asked_for_before_the_change_is_not_shared_after_it(array):
    array.origin.put(b"/a/c/9", b"old")
    gate = array.origin.hold(b"/a/c/9")
    early = array.start("GET", b"/a/c/9")
    await gate.reached()
    array.origin.put(DOCUMENT, b'{"shape":2}', etag=b'"two"')
    array.origin.put(b"/a/c/9", b"new")
    await array.get(DOCUMENT)
    array.now.advance(0.001)
    assert (await array.get(b"/a/c/9")).body == b"new"
    gate.open()
    assert (await early).body == b"old"
    await array.settled()
    assert (await array.get(b"/a/c/9")).body == b"new"


async def test_a_document_written_through_the_sidecar_is_a_change(array):
    await array.put(DOCUMENT, b'{"shape":3}')
    array.now.advance(0.001)
    assert (await array.get(CHUNK)).result == "revalidated"
    assert not isinstance(array.entry(HOLE), Present)


async def test_a_body_of_an_array_that_changed_does_not_stand_in_for_a_failing_origin(array):
    array.origin.put(DOCUMENT, b'{"shape":2}', etag=b'"two"')
    await read_document(array)
    array.origin.script(CHUNK, Answer(503))
    assert (await array.get(CHUNK)).status == 503


async def test_the_document_itself_is_fresh_after_its_change(array):
    array.origin.put(DOCUMENT, b'{"shape":2}', etag=b'"two"')
    await read_document(array)
    before = array.origin.count()
    assert (await array.get(DOCUMENT)).result == "hit"
    assert array.origin.count() == before
    assert not isinstance(array.entry(DOCUMENT), Absent)


async def test_a_document_that_nobody_knew_may_have_changed_unseen(array):
    await array.purging.object(array.key(DOCUMENT).object)
    array.origin.put(DOCUMENT, b'{"shape":2}', etag=b'"two"')
    await read_document(array)
    assert (await array.get(CHUNK)).result == "revalidated"


async def test_a_document_that_can_not_be_kept_leaves_nothing_beneath_it_fresh(array):
    await array.purging.object(array.key(DOCUMENT).object)
    fields = ((b"Cache-Control", b"no-store"),)
    array.origin.put(DOCUMENT, b'{"shape":2}', etag=b'"two"', fields=fields)
    await read_document(array)
    assert (await array.get(CHUNK)).result == "revalidated"


async def test_other_bytes_of_the_same_second_are_a_change(house):
    house.origin.put(DOCUMENT, b'{"shape":1}', etag=None)
    house.origin.put(CHUNK, b"old", etag=b'"chunk"')
    for target in (DOCUMENT, CHUNK):
        await house.get(target)
        house.now.advance(0.001)
    await house.settled()
    house.now.advance(METADATA_TTL)
    house.origin.put(DOCUMENT, b'{"shape":2}', etag=None)
    house.origin.script(
        DOCUMENT, Answer(200, ((b"Last-Modified", LAST_MODIFIED),), b'{"shape":2}'), times=1
    )
    await read_document(house)
    assert (await house.get(CHUNK)).result == "revalidated"


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_an_absence_that_is_not_remembered_is_no_change_each_time(house, status):
    """Readers probe for documents of other formats at each open."""
    house.origin.put(CHUNK, b"old", etag=b'"chunk"')
    await house.get(CHUNK)
    await house.settled()
    house.now.advance(0.001)
    house.origin.script(b"/a/.zarray", Answer(status, ((b"Cache-Control", b"no-store"),)))
    for _ in range(2):
        assert (await house.get(b"/a/.zarray")).status == status
        house.now.advance(0.001)
        assert (await house.get(CHUNK)).result == "hit"


async def test_a_document_that_went_is_a_change_even_if_its_absence_is_not_remembered(array):
    array.origin.script(DOCUMENT, Answer(404, ((b"Cache-Control", b"no-store"),)))
    assert (await read_document(array)).status == 404
    assert (await array.get(CHUNK)).result == "revalidated"


async def test_a_document_from_before_its_collection_was_deleted_is_asked_for_again(house):
    """Its own change is no reason to forget who else doubted it."""
    house.origin.put(DOCUMENT, b"{}")
    gate = house.origin.hold(DOCUMENT)
    early = house.start("GET", DOCUMENT)
    await gate.reached()
    house.now.advance(1.0)
    house.origin.script(b"/a", Answer(204), method="DELETE")
    assert (await house.send("DELETE", b"/a")).status == 204
    del house.origin.objects[DOCUMENT]
    house.now.advance(1.0)
    gate.open()
    await early
    await house.settled()
    assert (await house.get(DOCUMENT)).status == 404
