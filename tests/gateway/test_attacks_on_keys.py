"""What one answer says of a key, or of others beside it."""

import asyncio

import pytest

from chunkside.core.entry import Absent, Partial, Present
from chunkside.core.freshness import Policy
from tests.support.fake_upstream import Answer

KEY = b"/a.zarr/c/0"
BODY = bytes(range(256)) * (12 << 10)
NEW = bytes(reversed(range(256))) * (12 << 10)
MIB = 1 << 20


async def get(house, first, last, *fields):
    return await house.get(KEY, (b"Range", b"bytes=%d-%d" % (first, last)), *fields)


def parts(house):
    entry = house.entry(KEY)
    return [(each.first, each.last) for each in entry.bodies] if isinstance(entry, Partial) else []


@pytest.fixture
def filled(house):
    house.origin.put(KEY, BODY)
    return house


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


async def test_a_range_that_is_too_large_leaves_those_held(filled):
    filled.edges.policy = Policy(max_body_bytes=MIB)
    await get(filled, 0, 99)
    await filled.settled()
    await get(filled, 0, 2 * MIB)
    await filled.settled()
    assert parts(filled) == [(0, 99)]


async def test_the_404_of_a_range_leaves_its_marker(house):
    await house.get(KEY)
    assert isinstance(house.entry(KEY), Absent)
    assert (await get(house, 0, 9)).status == 404
    await house.settled()
    assert isinstance(house.entry(KEY), Absent)


async def test_a_416_beyond_the_end_leaves_what_is_held(filled):
    await get(filled, 0, 99)
    await filled.settled()
    filled.now.advance(301.0)
    told = (b"Content-Range", b"bytes */%d" % len(BODY))
    filled.origin.script(KEY, Answer(416, (told,)), times=1)
    assert (await filled.get(KEY, (b"Range", b"bytes=%d-" % len(BODY)))).status == 416
    await filled.settled()
    assert parts(filled) == [(0, 99)]


async def test_a_route_without_markers_leaves_those_of_another(house):
    other = house.beside("/b", policy=Policy(cache_missing=False))
    await house.get(KEY)
    assert (await other.get(b"/b" + KEY)).status == 404
    await house.settled()
    assert isinstance(house.entry(KEY), Absent)


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
