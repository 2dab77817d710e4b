"""Ways to make an absence of what is there and refused, or a refusal of what is absent."""

import pytest

from chunkside.gateway import refusals
from tests.gateway.test_refusals import (
    ALICE,
    DOCUMENT,
    KEY,
    OTHER,
    a_house,
    a_house_that_read_it,
    held_check,
    v2,
    v3,
)
from tests.support.fake_upstream import Answer
from tests.support.listless import refusal


async def test_who_waits_for_a_check_is_answered_by_it_only_if_his_key_is_of_its_array():
    house = a_house()
    house.origin.put(b"/b/n/.zarray", v2(2, 2, separator="/"))
    inner = b"/b/n/0/0/0"
    house.origin.put(b"/b/n/0/.zarray", v2(2, 2, separator="/"))
    house.origin.put(inner, b"there")
    for target in (b"/b/n/0/.zarray", inner):
        house.origin.script(target, refusal())
    gate = house.origin.hold(b"/b/n/.zarray")
    readers = [house.start("GET", b"/b/n/0/0")]
    await gate.reached()
    for key in (b"/b/n/0/1", inner):
        readers.append(house.start("GET", key))
        await house.until(lambda key=key: house.origin.count(path=key) == 1)
    gate.open()
    assert [(await each).status for each in readers] == [404, 404, 403]
    await house.settled()


async def test_a_key_that_is_no_chunk_s_says_nothing_against_the_array_around_it():
    house = await a_house_that_read_it()
    assert (await house.get(KEY)).status == 404
    assert (await house.send("HEAD", b"/b/x/c/0")).status == 403
    assert (await house.get(OTHER)).status == 404
    await house.settled()


async def test_nor_where_it_is_asked_for_first():
    house = await a_house_that_read_it()
    assert (await house.send("HEAD", b"/b/x/c/0")).status == 403
    assert (await house.get(OTHER)).status == 404
    await house.settled()


async def test_the_minute_of_distrust_outlives_the_tables_bounds(monkeypatch):
    for bound in ("_MOST_DOCUMENTS", "_MOST_PLACES"):
        monkeypatch.setattr(refusals, bound, 2)
    house = a_house()
    arrays = [b"/b/%b" % name for name in (b"p", b"q", b"r", b"s")]
    for array in arrays:
        house.origin.put(array + b"/zarr.json", v3(2, 2))
        assert (await house.get(array + b"/c/0/0")).status == 404
    house.origin.denies_all = True
    for array in arrays:
        assert (await house.get(array + b"/c/0/0")).status == 403
    house.origin.denies_all = False
    house.now.advance(6)
    for array in arrays:
        assert (await house.get(array + b"/c/0/0")).status == 403, array
    house.now.advance(61)
    for array in arrays:
        assert (await house.get(array + b"/c/0/0")).status == 404
    await house.settled()


async def test_a_document_that_is_refused_is_distrusted_whatever_became_of_the_next_question():
    house = await a_house_that_read_it()
    assert (await house.get(KEY)).status == 404
    house.origin.denies_all = True
    house.origin.script(b"/b/x/c/0/.zarray", "refused")
    assert (await house.get(OTHER)).status == 403
    house.origin.denies_all = False
    house.now.advance(6)
    assert (await house.get(OTHER)).status == 403
    await house.settled()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_who_was_seen_to_be_there_since_the_refusal_is_not_told_to_be_absent(method):
    house = await a_house_that_read_it()
    house.origin.put(KEY, b"there")
    house.origin.script(KEY, refusal(), times=1)
    gate, [reader] = await held_check(house, KEY)
    seen = await house.send(method, KEY, (b"Cache-Control", b"no-store"))
    assert seen.status == 200
    gate.open()
    assert (await reader).status == 403
    assert (await house.get(KEY)).body == b"there"
    await house.settled()


async def test_a_slow_validation_proves_as_well():
    house = await a_house_that_read_it()
    gate, [reader] = await held_check(house, KEY)
    house.now.advance(10)
    gate.open()
    assert (await reader).status == 404
    await house.settled()


async def test_a_304_from_another_cache_proves_nothing():
    house = await a_house_that_read_it()
    house.origin.script(DOCUMENT, Answer(304, ((b"Age", b"3"),)))
    assert (await house.get(KEY)).status == 403
    await house.settled()


@pytest.mark.parametrize("at", [None, 5], ids=["head", "body"])
async def test_a_check_takes_no_longer_than_a_read_may(at):
    house = await a_house_that_read_it()
    house.edges.read_seconds = 0.2
    gate = house.origin.hold(DOCUMENT, at=at, times=9)
    if at is not None:
        house.origin.put(DOCUMENT, v3(3, 3))
    readers = [
        house.start("GET", KEY),
        house.start("HEAD", OTHER),
        house.start("GET", OTHER, ALICE),
    ]
    await gate.reached()
    assert {(await each).status for each in readers} == {403}
    gate.open()
    await house.settled()
    house.edges.read_seconds = 25.0
    assert (await house.get(KEY)).status == 404
    assert house.origin.open_answers == 0


async def test_what_was_refused_before_the_time_was_up_is_distrusted_all_the_same():
    house = await a_house_that_read_it()
    assert (await house.get(KEY)).status == 404
    house.origin.denies_all = True
    gate = house.origin.hold(b"/b/x/c/0/.zarray")
    house.edges.read_seconds = 1.0
    assert (await house.get(OTHER)).status == 403
    gate.open()
    house.edges.read_seconds = 25.0
    house.origin.denies_all = False
    house.now.advance(6)
    assert (await house.get(OTHER)).status == 403
    await house.settled()
