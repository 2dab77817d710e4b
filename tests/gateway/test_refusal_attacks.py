"""Ways to make an absence of what is there and refused, or a refusal of what is absent."""

from dataclasses import replace

import pytest

from chunkside.gateway import denials, refusals
from tests.gateway.test_refusals import (
    ALICE,
    BOB,
    DOCUMENT,
    GET,
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
    house.origin.put(b"/b/n/0/.zarray", v2(2, 2, separator="/"))
    inner = (b"/b/n/0/0/0", b"/b/n/0/0/1")
    for target in (b"/b/n/0/.zarray", *inner):
        house.origin.put(target, b"there")
        house.origin.script(target, refusal())
    gate, own = house.origin.hold(b"/b/n/.zarray"), house.origin.hold(b"/b/n/0/0/.zarray")
    readers = [house.start("GET", b"/b/n/0/0")]
    await gate.reached()
    for key in (*inner, b"/b/n/0/1"):
        readers.append(house.start("GET", key))
        await house.until(lambda key=key: house.origin.count(path=key) == 1)
    await own.reached()
    gate.open()
    assert [(await readers[each]).status for each in (0, 3)] == [404, 404]
    own.open()
    assert [(await each).status for each in readers[1:3]] == [403, 403]
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
    for module, bound in ((refusals, "_MOST_PLACES"), (refusals, "_MOST_DOCUMENTS")):
        monkeypatch.setattr(module, bound, 2)
    monkeypatch.setattr(denials, "_MOST_DOCUMENTS", 2)
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


@pytest.mark.parametrize("fields", [(), ((b"Chunkside-Control", b"bypass"),)])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_document_that_a_reader_was_refused_just_now_proves_nothing(method, fields):
    house = a_house()
    house.origin.denies_all = True
    assert (await house.send(method, DOCUMENT, *fields)).status == 403
    house.origin.denies_all = False
    house.now.advance(2)
    assert (await house.get(DOCUMENT)).status == 200
    house.now.advance(2)
    assert (await house.get(KEY)).status == 403
    assert (await house.get(KEY, BOB)).status == 404
    house.now.advance(61)
    assert (await house.get(KEY)).status == 404
    await house.settled()


async def test_nor_does_one_that_an_audit_was_refused():
    house = a_house(audit_share=1.0)
    await house.get(DOCUMENT)
    await house.settled()
    house.origin.denies_all = True
    assert (await house.get(DOCUMENT)).result == "hit"
    await house.settled()
    house.origin.denies_all = False
    house.now.advance(2)
    assert (await house.get(KEY)).status == 403
    await house.settled()


async def test_settings_that_change_meanwhile_don_t_end_the_distrust():
    house = await a_house_that_read_it()
    house.origin.denies_all = True
    assert (await house.get(KEY)).status == 403
    house.origin.denies_all = False
    house.now.advance(6)
    changed = house.beside("/", policy=replace(GET, negative_ttl=60.0))
    assert (await changed.get(KEY)).status == 403
    house.now.advance(61)
    assert (await changed.get(KEY)).status == 404
    await house.settled()


async def test_documents_that_are_looked_for_and_missing_say_nothing_against_the_one_there_is():
    house = a_house()
    house.origin.put(b"/b/v/.zarray", v2(2, 2))
    for name in (b"zarr.json", b".zattrs", b".zgroup"):
        assert (await house.get(b"/b/v/" + name)).status == 403
    assert (await house.get(b"/b/v/0.0")).status == 404
    await house.settled()


async def test_an_array_that_is_not_there_says_nothing_against_its_neighbours():
    house = a_house()
    house.origin.put(b"/b/img/0/.zarray", v2(2, 2, separator="/"))
    assert (await house.get(b"/b/img/7/0/0")).status == 403
    house.now.advance(6)
    assert (await house.get(b"/b/img/0/0/0")).status == 404
    assert (await house.get(b"/b/img/7/0/1")).status == 403
    assert (await house.get(b"/b/img/0/0/1")).status == 404
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
