"""Soft purges: what is doubted is asked for again, and nothing is stamped."""

import pytest

from chunkside.core.entry import Present
from chunkside.core.key import Object
from chunkside.gateway.purging import Softened
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import LOCATION

KEY, HOLE, BESIDE = b"/a/c/0", b"/a/c/1", b"/ab/c/0"
ALICE = (b"Authorization", b"Bearer alice")


@pytest.fixture
async def held(house):
    """A body and a marker beneath /a, and a body beside it."""
    house.origin.put(KEY, b"old", etag=b'"one"')
    house.origin.put(BESIDE, b"beside", etag=b'"beside"')
    for target in (KEY, HOLE, BESIDE):
        await house.get(target)
    await house.settled()
    return house


async def soften(house, what):
    if what == "object":
        return await house.purging.soften_object(Object(LOCATION, KEY))
    return await house.purging.soften_prefix(LOCATION, b"/" if what == "all" else what)


@pytest.mark.parametrize(
    ("what", "softened"),
    [
        ("object", Softened(1, 0, 0)),
        (KEY, Softened(1, 0, 0)),
        (b"/a", Softened(1, 0, 1)),
        (b"/a/", Softened(1, 0, 1)),
        ("all", Softened(2, 0, 1)),
        (b"/b", Softened(0, 0, 0)),
    ],
)
async def test_a_soft_purge_keeps_bodies_to_be_validated_and_drops_markers(held, what, softened):
    stamps = {each: held.stamps.read(Object(LOCATION, each)) for each in (KEY, HOLE, BESIDE)}
    assert await soften(held, what) == softened
    held.now.advance(0.001)
    is_doubted = what != b"/b"
    got = await held.get(KEY)
    assert (got.body, got.result) == (b"old", "revalidated" if is_doubted else "hit")
    assert (await held.get(KEY)).result == "hit"
    assert (held.entry(HOLE) is None) == (softened.markers == 1)
    assert (await held.get(BESIDE)).result == ("revalidated" if what == "all" else "hit")
    assert stamps == {each: held.stamps.read(Object(LOCATION, each)) for each in stamps}


async def test_a_softened_body_that_changed_is_brought_anew(held):
    await soften(held, "object")
    held.now.advance(0.001)
    held.origin.put(KEY, b"new", etag=b'"two"')
    assert (await held.get(KEY)).body == b"new"


async def test_a_softened_body_does_not_stand_in_for_a_failing_origin(held):
    await soften(held, "object")
    held.now.advance(0.001)
    held.origin.script(KEY, Answer(503))
    assert (await held.get(KEY)).status == 503


async def test_a_soft_purge_reaches_every_spelling_and_partition(house):
    house.origin.put(KEY, b"x")
    for target, fields in ((KEY, ()), (KEY, (ALICE,)), (b"/%61/c/0?v=1", ())):
        await house.get(target, *fields)
    await house.settled()
    softened = await soften(house, "object")
    assert softened.bodies + softened.markers == 3
    entry = house.entry(KEY, (ALICE,))
    assert isinstance(entry, Present) and entry.must_validate


@pytest.mark.parametrize("what", ["object", b"/a", "all"])
async def test_an_answer_under_way_is_of_before_the_soft_purge(house, what):
    house.origin.put(KEY, b"old")
    gate = house.origin.hold(KEY)
    early = house.start("GET", KEY)
    await gate.reached()
    await soften(house, what)
    house.now.advance(0.001)
    house.origin.put(KEY, b"new")
    assert (await house.get(KEY)).body == b"new"
    gate.open()
    assert (await early).body == b"old"
    await house.settled()
    assert (await house.get(KEY)).body == b"new"


@pytest.mark.parametrize("what", ["object", b"/a"])
async def test_an_absence_under_way_is_not_remembered_past_a_soft_purge(house, what):
    gate = house.origin.hold(KEY)
    early = house.start("GET", KEY)
    await gate.reached()
    await soften(house, what)
    house.now.advance(0.001)
    house.origin.put(KEY, b"filled")
    gate.open()
    assert (await early).status == 404
    await house.settled()
    assert (await house.get(KEY)).body == b"filled"


@pytest.mark.parametrize("what", ["object", b"/a"])
async def test_a_soft_purge_holds_for_what_the_disk_has_and_was_not_read_yet(tmp_path, what):
    first, disk = await disk_house(tmp_path)
    first.origin.put(KEY, b"old", etag=b'"one"')
    await first.get(KEY)
    await close(first, disk)
    house, disk = await disk_house(
        tmp_path, clock=first.now, table=first.stamps, is_scanning=True
    )  # fmt: skip
    house.now.advance(1.0)
    house.origin.put(KEY, b"new", etag=b'"two"')
    assert await soften(house, what) == Softened(0, 0, 0)
    house.now.advance(0.001)
    assert (await house.get(KEY)).body == b"new"
    await close(house, disk)


async def test_what_was_asked_since_a_soft_purge_is_used_as_ever(held):
    await soften(held, b"/a")
    held.now.advance(0.001)
    for target in (KEY, HOLE):
        await held.get(target)
    await held.settled()
    assert (await held.get(KEY)).result == "hit"
    assert (await held.get(HOLE)).result == "negative_hit"
