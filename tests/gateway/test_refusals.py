"""A store that answers 403 for missing keys: only a later answer of the array's own document makes
an absence of one.
"""

import asyncio

import pytest

from chunkside.core.entry import Absent, Present
from chunkside.core.freshness import Policy, Said
from chunkside.gateway import refusals
from chunkside.gateway.errors import BodyTorn
from chunkside.store.memory import MemoryReader
from tests.arrays.samples import n5, zarr2, zarr3
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.listless import (
    GROUP,
    INFO,
    OF_LISTING,
    OF_READING,
    PLAIN,
    ListlessOrigin,
    refusal,
)

DOCUMENT, KEY, OTHER = b"/b/x/zarr.json", b"/b/x/c/0/0", b"/b/x/c/0/1"
NO_SUCH_KEY = b"<Error><Code>NoSuchKey</Code></Error>"
SAID = Said(((b"Content-Type", b"application/xml"),), NO_SUCH_KEY)
BOTH = frozenset({403, 404, 410})
GET = Policy(absent_statuses=BOTH)
ALL = Policy(absent_statuses=BOTH, negative_scope="all")
STORE = Policy(absent_statuses=BOTH, negative_scope="all", is_object_store=True, of_absence=SAID)
RANGE = (b"Range", b"bytes=-16")


def v2(*shape, separator="."):
    return zarr2(shape, [1] * len(shape), dimension_separator=separator)


def v3(*shape):
    return zarr3(shape, [1] * len(shape))


def a_house(policy=GET, **more):
    house = House(policy=policy, upstream=ListlessOrigin, **more)
    house.origin.put(DOCUMENT, v3(2, 2))
    return house


async def a_house_that_read_it(policy=GET, **more):
    """The document was read, and is stale by now."""
    house = a_house(policy, **more)
    await house.get(DOCUMENT)
    await house.settled()
    house.origin.exchanges.clear()
    house.now.advance(60)
    return house


@pytest.fixture(params=[GET, ALL, STORE], ids=["get", "all", "store"])
async def house(request):
    house = await a_house_that_read_it(request.param)
    yield house
    await house.settled()
    assert house.origin.open_answers == 0


@pytest.fixture
async def store():
    house = await a_house_that_read_it(STORE)
    yield house
    await house.settled()
    assert house.origin.open_answers == 0


def asked(house):
    return [(each.method, each.target) for each in house.origin.exchanges]


def checks(house, document=DOCUMENT):
    return house.origin.count(path=document)


async def test_a_refusal_is_an_absence_once_the_document_was_read_after_it(house):
    first = await house.get(KEY)
    assert asked(house) == [("GET", KEY), ("GET", DOCUMENT)]
    body = house.edges.policy.of_absence.body
    assert (first.status, first.result, first.body) == (404, "miss", body)
    assert first.cache_status == "chunkside; fwd=uri-miss; fwd-status=403; stored"
    again = await house.get(KEY)
    assert (again.status, again.result, again.body) == (404, "negative_hit", body)
    assert again.cache_status == "chunkside; hit; ttl=300; detail=negative"
    assert first.field(b"content-type") == again.field(b"content-type")
    assert house.origin.count() == 2
    marker = house.entry(KEY)
    assert isinstance(marker, Absent) and marker.status == 403


async def test_the_document_is_validated_by_each_check(house):
    assert (await house.get(KEY)).status == 404
    assert (await house.get(OTHER)).status == 404
    assert [each.status for each in house.origin.requests(path=DOCUMENT)] == [304, 304]
    assert (await house.get(DOCUMENT)).result == "hit"


async def test_a_document_that_nobody_knew_is_stored_and_older_absences_are_not():
    house = a_house()
    told = await house.get(KEY)
    assert (told.status, told.cache_status[-14:]) == (404, "fwd-status=403")
    await house.settled()
    assert isinstance(house.entry(DOCUMENT), Present)
    house.now.advance(1)
    assert (await house.get(KEY)).status == 404
    assert (await house.get(KEY)).result == "negative_hit"
    assert [each.status for each in house.origin.requests(path=DOCUMENT)] == [200, 304]
    await house.settled()


async def test_a_fresh_document_from_store_is_no_check(house):
    await house.get(DOCUMENT)
    await house.settled()
    assert (await house.get(DOCUMENT)).result == "hit"
    house.origin.denies_all = True
    assert (await house.get(KEY)).status == 403
    assert house.entry(KEY) is None
    assert checks(house) == 2


async def test_a_marker_of_a_refusal_lives_as_long_as_any(house):
    await house.get(KEY)
    house.now.advance(298)
    assert (await house.get(KEY)).result == "negative_hit"
    house.now.advance(3)
    house.origin.put(KEY, b"appeared")
    assert (await house.get(KEY)).body == b"appeared"


async def test_evidence_against_it_drops_it(house):
    await house.get(KEY)
    house.origin.put(KEY, b"appeared")
    await house.send("HEAD", KEY, (b"Cache-Control", b"no-store"))
    assert (await house.get(KEY)).body == b"appeared"


# What the check is for.


@pytest.fixture
def expired(house):
    """A house whose document was read, and whose credential has run out since."""

    async def expire():
        assert (await house.get(DOCUMENT)).status == 200
        await house.settled()
        house.origin.denies_all = True
        return house

    return expire


async def passes_on(house, key=KEY):
    told = await house.get(key)
    assert (told.status, told.body) == (403, house.origin.refusal.body)
    assert told.cache_status == "chunkside; fwd=uri-miss; fwd-status=403"
    assert house.entry(key) is None


async def test_where_all_is_refused_nothing_is_absent(house):
    house.origin.put(KEY, b"there")
    house.origin.denies_all = True
    await passes_on(house)
    house.origin.denies_all = False
    assert (await house.get(KEY)).body == b"there"


async def test_a_credential_that_ran_out_since_the_document_was_read_makes_no_absence(expired):
    house = await expired()
    house.origin.put(KEY, b"there")
    await passes_on(house)
    house.origin.denies_all = False
    assert (await house.get(KEY)).body == b"there"


async def test_it_may_run_out_between_the_refusal_and_the_check(house):
    gate = house.origin.hold(KEY, at=3)
    reader = house.start("GET", KEY)
    await gate.reached()
    house.origin.denies_all = True
    gate.open()
    assert (await reader).status == 403
    assert house.entry(KEY) is None


FAILURES = pytest.mark.parametrize(
    "what",
    [
        *(Answer(status) for status in (401, 429, 500, 502, 503, 504, 302, 204)),
        Answer(404, body=b"no such object"),
        Answer(200, ((b"Age", b"3"),), v3(2, 2)),
        Answer(200, body=v3(2, 2), announced=1_000),
        Answer(200, body=v3(2, 2), framing="chunked", ends_after=9),
        Answer(200, body=b"<html>sign in</html>"),
        Answer(200, body=v3(2, 2) + b" " * (300 << 10)),
        Answer(200, body=GROUP),
        Answer(200, body=v3(2, 2, 2)),
        *("refused", "dies", "silent", "garbage", "spared"),
    ],
    ids=str,
)


@FAILURES
async def test_a_check_that_fails_proves_nothing(house, what):
    house.origin.script(DOCUMENT, what)
    await passes_on(house)
    house.origin.behave()
    house.now.advance(61)
    assert (await house.get(KEY)).status == 404


@FAILURES
async def test_nor_does_one_of_a_document_that_nobody_knew(what):
    house = a_house()
    house.origin.script(DOCUMENT, what)
    await passes_on(house)
    await house.settled()
    assert house.origin.open_answers == 0


async def test_a_stale_document_that_stands_in_for_the_origin_proves_nothing(expired):
    house = await expired()
    house.origin.denies_all = False
    house.now.advance(60)
    house.origin.script(DOCUMENT, "refused")
    assert (await house.get(DOCUMENT)).result == "stale"
    await passes_on(house)


async def test_a_304_proves_it_as_well(expired):
    house = await expired()
    house.origin.denies_all = False
    assert (await house.get(KEY)).status == 404
    assert [each.status for each in house.origin.requests(path=DOCUMENT)] == [304, 304]


async def test_a_validated_document_may_be_cold(house, monkeypatch):
    monkeypatch.setattr(MemoryReader, "read_now", lambda *_: None)
    assert (await house.get(KEY)).status == 404
    assert [each.status for each in house.origin.requests(path=DOCUMENT)] == [304]


async def test_a_validated_document_that_can_t_be_read_is_asked_for_again(house, monkeypatch):
    async def fails(*_):
        raise BodyTorn

    monkeypatch.setattr(MemoryReader, "read_now", lambda *_: None)
    monkeypatch.setattr(MemoryReader, "read", fails)
    assert (await house.get(KEY)).status == 404
    house.origin.script(DOCUMENT, Answer(304))
    assert (await house.get(OTHER)).status == 403


async def test_a_check_is_sent_after_the_refusal_has_come_whole(house):
    gate = house.origin.hold(KEY, at=3)
    reader = house.start("GET", KEY)
    await gate.reached()
    assert checks(house) == 0
    gate.open()
    assert (await reader).status == 404
    assert checks(house) == 1


# One check for many.


async def held_check(house, *keys):
    """Those who wait for a check that is under way, and its gate."""
    gate = house.origin.hold(DOCUMENT)
    readers = [house.start("GET", key) for key in keys]
    await gate.reached()
    return gate, readers


async def test_refusals_that_come_during_a_check_need_the_next_one(house):
    gate, readers = await held_check(house, KEY)
    late = [house.start("GET", b"/b/x/c/1/%d" % number) for number in range(5)]
    await house.until(lambda: house.origin.count(path=b"/b/x/c/1/4") == 1)
    assert checks(house) == 1
    second = house.origin.hold(DOCUMENT)
    gate.open()
    assert (await readers[0]).status == 404
    await second.reached()
    house.origin.denies_all = True
    second.open()
    assert {(await each).status for each in late} == {404}
    assert checks(house) == 2


async def test_a_check_that_was_under_way_doesnt_count_for_what_came_during_it(house):
    gate, readers = await held_check(house, KEY)
    # What is held was answered before the credential ran out.
    house.origin.denies_all = True
    house.origin.put(OTHER, b"there")
    late = house.start("GET", OTHER)
    await house.until(lambda: house.origin.count(path=OTHER) == 1)
    gate.open()
    assert (await readers[0]).status == 404
    assert (await late).status == 403
    assert house.entry(OTHER) is None


async def test_one_failed_check_answers_for_all_that_came_before_it(expired):
    house = await expired()
    gate, readers = await held_check(house, KEY)
    readers += [house.start("GET", b"/b/x/c/1/%d" % number) for number in range(9)]
    await house.until(lambda: house.origin.count(path=b"/b/x/c/1/8") == 1)
    gate.open()
    assert {(await each).status for each in readers} == {403}
    assert checks(house) <= 4


async def test_where_no_document_is_found_few_are_asked_for_again(house):
    del house.origin.objects[DOCUMENT]
    await passes_on(house)
    asked_before = house.origin.count()
    for number in range(9):
        await passes_on(house, b"/b/x/c/1/%d" % number)
    assert house.origin.count() == asked_before + 9
    house.now.advance(6)
    await passes_on(house)
    assert house.origin.count() > asked_before + 10


LEVEL, HOLE_OF_LEVEL, NO_LEVEL = b"/b/img/0/.zarray", b"/b/img/0/0/0", b"/b/img/7/0/0"


@pytest.fixture
async def levels():
    """One of an image was opened; another isn't there."""
    house = a_house()
    house.origin.put(LEVEL, v2(2, 2, separator="/"))
    assert (await house.get(LEVEL)).status == 200
    yield house
    await house.settled()


async def test_an_array_that_was_opened_is_read_just_after_one_that_is_not_there(levels):
    await passes_on(levels, NO_LEVEL)
    assert (await levels.get(HOLE_OF_LEVEL)).status == 404


async def test_an_array_that_was_opened_is_read_beside_one_that_is_not_there(levels):
    gate = levels.origin.hold(b"/b/img/7/0/.zarray")
    vain = levels.start("GET", NO_LEVEL)
    await gate.reached()
    reader = levels.start("GET", HOLE_OF_LEVEL)
    await levels.until(lambda: levels.origin.count(path=HOLE_OF_LEVEL) == 1)
    gate.open()
    assert [(await each).status for each in (vain, reader)] == [403, 404]


async def test_a_document_that_tells_of_no_such_array_is_not_asked_for_each_time(levels):
    levels.origin.put(LEVEL, v2(2, separator="/"))
    for number in range(9):
        await passes_on(levels, b"/b/img/0/0/%d" % number)
    assert levels.origin.count(path=LEVEL) == 2
    levels.now.advance(6)
    await passes_on(levels, HOLE_OF_LEVEL)
    assert levels.origin.count(path=LEVEL) == 3


# Rights that come back.


async def test_for_a_minute_after_a_refused_check_no_refusal_is_believed(expired):
    house = await expired()
    await passes_on(house)
    house.origin.denies_all = False
    for _ in range(9):
        # The document can be read again; the store's machines may not all know that yet.
        house.now.advance(6)
        await passes_on(house)
    assert house.origin.requests(path=DOCUMENT)[-1].status == 304
    house.now.advance(6)
    assert (await house.get(KEY)).status == 404


async def test_each_refused_check_begins_the_minute_anew(expired):
    house = await expired()
    for _ in range(20):
        house.now.advance(6)
        await passes_on(house)
    house.origin.denies_all = False
    house.now.advance(50)
    await passes_on(house)
    house.now.advance(20)
    assert (await house.get(KEY)).status == 404


async def test_the_minute_holds_for_a_document_that_is_found_meanwhile():
    house = a_house()
    house.origin.denies_all = True
    await passes_on(house)
    house.origin.denies_all = False
    house.now.advance(6)
    gate = house.origin.hold(DOCUMENT)
    readers = [house.start("GET", KEY)]
    await gate.reached()
    readers.append(house.start("GET", OTHER))
    await house.until(lambda: house.origin.count(path=OTHER) == 1)
    gate.open()
    assert {(await each).status for each in readers} == {403}
    house.now.advance(61)
    assert (await house.get(KEY)).status == 404
    await house.settled()


async def test_an_origin_that_fails_a_check_is_no_reason_for_distrust(house):
    house.origin.script(DOCUMENT, "refused", times=4)
    await passes_on(house)
    assert (await house.get(KEY)).status == 404


async def test_whoever_leaves_during_a_check_leaves_it_to_the_others(house):
    gate, readers = await held_check(house, KEY)
    readers[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await readers[0]
    other = house.start("GET", OTHER)
    await house.until(lambda: house.origin.count(path=OTHER) == 1)
    gate.open()
    assert (await other).status == 404


# Which document.


@pytest.mark.parametrize(
    ("document", "body", "key"),
    [
        (b"/b/x/zarr.json", v3(2, 2), b"/b/x/c/1/1"),
        (b"/b/g/a/zarr.json", v3(2), b"/b/g/a/c/1"),
        (b"/b/v/.zarray", v2(2, 2), b"/b/v/1.1"),
        (b"/b/v/.zarray", v2(2, 2, separator="/"), b"/b/v/1/1"),
        (b"/b/img.zarr/0/.zarray", v2(2, 2, 2, separator="/"), b"/b/img.zarr/0/1/1/1"),
        (b"/b/g/c/.zarray", v2(2), b"/b/g/c/1"),
        (b"/b/d/s0/attributes.json", n5((2, 2), (1, 1)), b"/b/d/s0/1/1"),
        (b"/b/vol/info", INFO, b"/b/vol/8_8_8/0-64_0-64_0-64"),
        (b"/zarr.json", v3(2), b"/c/1"),
    ],
    ids=str,
)
async def test_the_array_s_own_document_is_found(document, body, key):
    house = a_house()
    house.origin.put(document, body)
    assert (await house.get(key)).status == 404
    before = house.origin.count()
    assert (await house.get(key[:-1] + b"0")).status == 404
    assert house.origin.count() <= before + 2
    await house.settled()


async def test_an_array_without_dimensions_has_one_chunk():
    house = a_house()
    house.origin.put(b"/b/s/zarr.json", v3())
    assert (await house.get(b"/b/s/c")).status == 404
    await house.settled()


@pytest.mark.parametrize(
    ("document", "body", "key"),
    [
        (b"/b/g/zarr.json", GROUP, b"/b/g/a/c/0/0"),
        (b"/b/g/zarr.json", GROUP, b"/b/g/c/0/0"),
        (b"/b/g/.zgroup", b'{"zarr_format": 2}', b"/b/g/a/0.0"),
        (b"/b/g/.zmetadata", b"{}", b"/b/g/0.0"),
        (b"/b/g/zarr.json", v3(2, 2), b"/b/g/a/c/0/0"),
        (b"/b/g/.zarray", v2(2, 2), b"/b/g/0/0"),
        (b"/b/g/.zarray", v2(2, 2), b"/b/g/0.0.0"),
        (b"/b/d/attributes.json", b"{}", b"/b/d/0/0"),
        (b"/b/vol/info", INFO, b"/b/vol/4_4_4/0-64_0-64_0-64"),
        (b"/b/vol/info", b'{"scales": 1}', b"/b/vol/8_8_8/0-64_0-64_0-64"),
        (b"/b/x/zarr.json", v3(2, 2), b"/b/x/part.0.parquet"),
        (b"/b/x/zarr.json", v3(2, 2), b"/b/x/c/0/tile.tif"),
        (b"/b/x/zarr.json", v3(2, 2), b"/b/x/./c/0/0"),
    ],
    ids=str,
)
async def test_another_s_document_proves_nothing(document, body, key):
    house = a_house()
    house.origin.put(document, body)
    assert (await house.get(key)).status == 403
    assert house.entry(key) is None
    await house.settled()


async def test_an_array_that_may_not_be_read_is_not_vouched_for_by_its_group():
    house = a_house()
    house.origin.put(b"/b/g/zarr.json", GROUP)
    house.origin.put(b"/b/g/a/zarr.json", v3(2, 2))
    house.origin.put(b"/b/g/a/c/0/0", b"there")
    for target in (b"/b/g/a/zarr.json", b"/b/g/a/c/0/0"):
        house.origin.script(target, refusal())
    assert (await house.get(b"/b/g/zarr.json")).status == 200
    assert (await house.get(b"/b/g/a/c/0/0")).status == 403
    await house.settled()


async def test_what_is_remembered_of_documents_is_bounded(monkeypatch):
    for bound in ("_MOST_DOCUMENTS", "_MOST_PLACES"):
        monkeypatch.setattr(refusals, bound, 2)
    house = a_house()
    for name in (b"p", b"q", b"r"):
        house.origin.put(b"/b/%b/zarr.json" % name, v3(2, 2))
        assert (await house.get(b"/b/%b/c/0/0" % name)).status == 404
    gate, readers = await held_check(house, KEY)
    gates = [house.origin.hold(b"/b/%b/zarr.json" % name) for name in (b"p", b"q")]
    readers += [house.start("GET", b"/b/%b/c/1/1" % name) for name in (b"p", b"q")]
    for each in gates:
        await each.reached()
    for each in (gate, *gates):
        each.open()
    assert {(await each).status for each in readers} == {404}
    assert len(house.gateway._refusals._known) == 2
    assert len(house.gateway._refusals._places) == 2
    await house.settled()


async def test_two_arrays_of_one_group_are_told_apart():
    house = a_house()
    house.origin.put(b"/b/img/0/.zarray", v2(2, 2, separator="/"))
    house.origin.put(b"/b/img/1/.zarray", v2(2, 2, separator="/"))
    assert (await house.get(b"/b/img/0/0/0")).status == 404
    house.origin.script(b"/b/img/1/.zarray", refusal())
    assert (await house.get(b"/b/img/1/0/0")).status == 403
    assert (await house.get(b"/b/img/0/1/1")).status == 404
    await house.settled()


async def test_a_document_that_went_makes_way_for_the_one_that_came():
    house = a_house()
    house.origin.put(b"/b/v/.zarray", v2(2))
    assert (await house.get(b"/b/v/0")).status == 404
    del house.origin.objects[b"/b/v/.zarray"]
    house.origin.put(b"/b/v/attributes.json", n5([2], [1]))
    assert (await house.get(b"/b/v/1")).status == 404
    await house.settled()
    before = house.origin.count()
    assert (await house.get(b"/b/v/2")).status == 404
    assert house.origin.count() == before + 2
    await house.settled()


async def test_nothing_above_what_the_route_admits_is_asked_for():
    house = a_house()
    house.edges.root = b"/b/x/c"
    assert (await house.get(KEY)).status == 403
    assert checks(house) == 0
    await house.settled()


async def test_a_bucket_has_no_document(store):
    store.origin.put(b"/zarr.json", v3(2))
    assert (await store.get(b"/c/1")).status == 403
    assert store.origin.count(path=b"/zarr.json") == 0


async def test_a_query_that_selects_goes_with_it():
    house = a_house()
    assert (await house.get(KEY + b"?token=1&x-id=GetObject")).status == 404
    assert asked(house)[1] == ("GET", DOCUMENT + b"?token=1&x-id=GetObject")
    await house.settled()
    assert isinstance(house.entry(DOCUMENT + b"?token=1"), Present)


# Whose credential.

ALICE, BOB = (b"Authorization", b"Bearer alice"), (b"Authorization", b"Bearer bob")


@pytest.mark.parametrize("credentials", ["partition", "share"])
async def test_the_check_is_made_with_the_credential_that_was_refused(credentials):
    house = a_house(credentials=credentials)
    house.origin.put(KEY, b"alice's")

    def for_alice(request):
        return None if request.fields.get(b"authorization") == ALICE[1] else refusal()

    for target in (DOCUMENT, KEY):
        house.origin.script(target, for_alice)
    assert (await house.get(DOCUMENT, ALICE)).status == 200
    assert (await house.get(OTHER, ALICE)).status == 404
    assert (await house.get(OTHER, BOB)).status == 403
    assert (await house.get(KEY, BOB)).status == 403
    assert (await house.get(KEY, ALICE)).body == b"alice's"
    told = {each.fields.get(b"authorization") for each in house.origin.requests(path=DOCUMENT)}
    assert told == {ALICE[1], BOB[1]}
    await house.settled()


async def test_one_s_check_answers_nobody_else_who_waits():
    house = await a_house_that_read_it(credentials="share")
    denied = house.start("GET", b"/b/x/c/1/0", BOB)
    gate = house.origin.hold(DOCUMENT, times=2)
    await gate.reached()

    def for_alice(request):
        return None if request.fields.get(b"authorization") == ALICE[1] else refusal()

    house.origin.script(DOCUMENT, for_alice)
    readers = [house.start("GET", KEY, ALICE)]
    await house.until(lambda: house.origin.count(path=KEY) == 1)
    readers.append(house.start("GET", OTHER, BOB))
    await house.until(lambda: house.origin.count(path=OTHER) == 1)
    gate.open()
    assert (await readers[0]).status == 404
    assert (await readers[1]).status == 403
    assert (await denied).status == 404
    await house.settled()


# What is no refusal for a missing key.


@pytest.mark.parametrize(
    "answer",
    [
        refusal(OF_READING),
        refusal("Request has expired"),
        refusal(code="InvalidAccessKeyId"),
        Answer(403, body=b"Forbidden"),
        Answer(403, body=refusal().body, framing="close"),
        Answer(403, ((b"Content-Encoding", b"gzip"),), refusal().body),
        Answer(401, body=refusal().body),
    ],
    ids=str,
)
async def test_what_says_something_else_is_passed_on_and_asks_nothing(house, answer):
    house.origin.script(KEY, answer)
    told = await house.get(KEY)
    assert (told.status, told.body) == (answer.status, answer.body)
    assert house.entry(KEY) is None
    assert checks(house) == 0


@pytest.mark.parametrize("message", [PLAIN, "Access Denied.", OF_LISTING, ""])
async def test_what_is_said_for_a_missing_key(house, message):
    house.origin.script(KEY, refusal(message))
    assert (await house.get(KEY)).status == 404


@pytest.mark.parametrize("target", [b"/b/x/.zattrs", b"/b/x/c/0/zarr.json", b"/b/x/", b"/b/x/c/"])
async def test_metadata_and_listings_are_never_absent_by_a_refusal(house, target):
    assert (await house.get(target)).status == 403
    assert house.entry(target) is None
    assert checks(house) == 0


async def test_what_leaves_the_cache_out_of_it_gets_the_origin_s_word(house):
    assert (await house.get(KEY, (b"Cache-Control", b"no-store"))).status == 403
    assert checks(house) == 0


RELAYED = [
    pytest.param([RANGE, (b"If-Range", b'"gone"')], id="a-condition-that-nobody-can-judge"),
    pytest.param([(b"Range", b"bytes=0-1,4-5")], id="several-ranges"),
]


@pytest.mark.parametrize("fields", RELAYED)
async def test_what_is_relayed_is_told_of_a_hidden_absence(house, fields):
    told = await house.get(KEY, *fields)
    assert (told.status, told.body) == (404, house.edges.policy.of_absence.body)
    assert (await house.get(KEY)).result == "negative_hit"
    assert checks(house) == 1


@pytest.mark.parametrize("fields", RELAYED)
async def test_what_is_relayed_and_refused_like_all_else_is_passed_on(house, fields):
    house.origin.denies_all = True
    told = await house.get(KEY, *fields)
    assert told.status == 403 and b"AccessDenied" in told.body
    assert house.entry(KEY) is None


async def test_what_is_relayed_keeps_no_connection_while_its_refusal_is_looked_into(house):
    gate = house.origin.hold(DOCUMENT)
    reader = house.start("GET", KEY, RANGE, (b"If-Range", b'"gone"'))
    await gate.reached()
    assert house.origin.open_answers == 0
    gate.open()
    assert (await reader).status == 404


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_relayed_refusal_that_is_no_store_s_is_not_looked_into(house, framing):
    long = bytes(range(256)) * 300
    house.origin.script(KEY, Answer(403, body=long, framing=framing))
    told = await house.get(KEY, RANGE, (b"If-Range", b'"gone"'))
    assert (told.status, told.body) == (403, long)
    assert checks(house) == 0


async def test_a_relayed_refusal_is_looked_into_though_it_comes_in_chunks(house):
    # As AWS sends its errors.
    xml = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    house.origin.script(KEY, Answer(403, body=xml, framing="chunked"))
    assert (await house.get(KEY, RANGE, (b"If-Range", b'"gone"'))).status == 404


async def test_half_a_relayed_refusal_is_no_answer(house):
    house.origin.script(KEY, Answer(403, body=b"<Error><Code>", announced=80))
    told = await house.get(KEY, RANGE, (b"If-Range", b'"gone"'))
    assert told.status == 503
    assert house.entry(KEY) is None


@pytest.mark.parametrize("is_readable", [True, False])
async def test_an_audit_takes_no_refusal_for_an_absence_s_without_a_check(is_readable):
    house = await a_house_that_read_it(ALL, audit_share=1.0)
    assert (await house.get(KEY)).status == 404
    house.origin.denies_all = not is_readable
    assert (await house.get(KEY)).result == "negative_hit"
    await house.settled()
    assert house.record.audits == ([("marker", "agree")] if is_readable else [])


async def test_where_it_is_not_wanted_a_refusal_is_one():
    house = a_house(Policy())
    assert (await house.get(KEY)).status == 403
    assert checks(house) == 0
    await house.settled()


@pytest.mark.parametrize(
    "policy", [Policy(absent_statuses=BOTH, cache_missing=False), Policy(absent_statuses=BOTH)]
)
async def test_what_may_not_be_remembered_is_told_all_the_same(policy):
    house = a_house(policy)
    no_store = ((b"Cache-Control", b"no-store"),)
    house.origin.script(KEY, Answer(403, no_store, refusal().body))
    for _ in range(2):
        assert (await house.get(KEY)).status == 404
    assert house.entry(KEY) is None
    assert checks(house) == 2
    await house.settled()


async def test_another_route_to_the_origin_goes_by_its_own_setting(house):
    await house.get(KEY)
    plain = house.beside("/p", policy=Policy())
    assert (await plain.get(b"/p" + KEY)).status == 403


async def test_a_page_of_another_origin_is_told_what_may_not_be_remembered_for_it(house):
    page = (b"Origin", b"http://page")
    assert (await house.get(KEY, page)).status == 404
    assert house.entry(KEY) is None
    any_origin = ((b"Access-Control-Allow-Origin", b"*"),)
    house.origin.script(KEY, Answer(403, any_origin, refusal().body))
    assert (await house.get(KEY, page)).field(b"access-control-allow-origin") == b"*"
    assert (await house.get(KEY, (b"Origin", b"http://other"))).result == "negative_hit"


# HEAD and ranges.


async def test_a_head_is_held_until_a_get_has_told(house):
    told = await house.send("HEAD", KEY)
    assert (told.status, told.body) == (404, b"")
    assert asked(house) == [("HEAD", KEY), ("GET", KEY), ("GET", DOCUMENT)]
    assert isinstance(house.entry(KEY), Absent)
    assert (await house.get(KEY)).result == "negative_hit"


async def test_a_head_s_marker_answers_the_next_one(store):
    await store.send("HEAD", KEY)
    again = await store.send("HEAD", KEY)
    assert (again.status, again.result) == (404, "negative_hit")
    assert again.reply.length == len(NO_SUCH_KEY)
    assert store.origin.count() == 3


async def test_a_head_without_proof_is_passed_on(house):
    house.origin.denies_all = True
    told = await house.send("HEAD", KEY)
    assert told.status == 403
    assert house.entry(KEY) is None


@pytest.mark.parametrize("what", [Answer(500), "refused", Answer(200, body=bytes(1 << 20))])
async def test_a_head_s_refusal_stands_whatever_else_its_get_is_answered(house, what):
    house.origin.script(KEY, refusal(), method="HEAD")
    house.origin.script(KEY, what, method="GET")
    assert (await house.send("HEAD", KEY)).status == 403
    assert not isinstance(house.entry(KEY), Absent)


async def test_a_head_whose_client_leaves_meanwhile_is_let_go_of(house):
    gate = house.origin.hold(KEY)
    reader = house.start("HEAD", KEY)
    await gate.reached()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    gate.open()


async def test_a_range_is_told_of_the_absence_and_makes_no_marker_by_itself():
    house = a_house(GET)
    told = await house.get(KEY, RANGE)
    assert (told.status, told.body) == (404, b"")
    assert house.entry(KEY) is None
    assert asked(house) == [("GET", KEY), ("GET", DOCUMENT)]
    await house.settled()


@pytest.mark.parametrize("policy", [ALL, STORE])
async def test_in_scope_all_a_range_is_followed_by_the_get_that_makes_the_marker(policy):
    house = await a_house_that_read_it(policy)
    assert (await house.get(KEY, RANGE)).status == 404
    await house.settled()
    again = await house.get(KEY, RANGE)
    assert (again.status, again.result) == (404, "negative_hit")
    assert asked(house) == [("GET", KEY), ("GET", DOCUMENT)] * 2


async def test_a_range_without_proof_is_followed_by_nothing(store):
    store.origin.denies_all = True
    assert (await store.get(KEY, RANGE)).status == 403
    await store.settled()
    assert store.origin.count(path=KEY) == 1


async def test_a_range_s_absence_drops_the_body_and_an_older_marker_agrees(house):
    house.origin.put(KEY, b"there")
    await house.get(KEY)
    await house.settled()
    del house.origin.objects[KEY]
    house.now.advance(400)
    assert (await house.get(KEY, RANGE)).status == 404
    await house.settled()
    assert not isinstance(house.entry(KEY), Present)


# Fences.


async def test_a_write_during_the_check_keeps_the_absence_from_being_remembered(house):
    gate, readers = await held_check(house, KEY)
    await house.put(KEY, b"new")
    gate.open()
    assert (await readers[0]).status == 404
    assert house.entry(KEY) is None
    assert (await house.get(KEY)).body == b"new"


async def test_a_purge_during_the_check_does_so_too(house):
    gate, readers = await held_check(house, KEY)
    await house.purging.object(house.key(KEY).object)
    gate.open()
    assert (await readers[0]).status == 404
    assert house.entry(KEY) is None


async def test_a_reader_who_comes_after_a_write_shares_no_older_refusal(house):
    gate, readers = await held_check(house, KEY)
    await house.put(KEY, b"new")
    assert (await house.get(KEY)).body == b"new"
    gate.open()
    # It is there, and nobody knows since when.
    assert (await readers[0]).status == 403


async def test_proof_of_existence_during_the_check_outlives_it(house):
    gate, readers = await held_check(house, KEY)
    house.origin.put(KEY, b"appeared")
    assert (await house.send("HEAD", KEY)).status == 200
    gate.open()
    await readers[0]
    assert house.entry(KEY) is None
    assert (await house.get(KEY)).body == b"appeared"


async def test_an_array_that_the_check_finds_rewritten_has_no_older_absences(house):
    await house.get(OTHER)
    await house.settled()
    house.origin.put(DOCUMENT, v3(3, 3))
    house.origin.put(OTHER, b"of the new array")
    assert (await house.get(KEY)).status == 404
    assert (await house.get(OTHER)).body == b"of the new array"


# Audits, and where the cache only observes.


async def test_an_audit_takes_another_refusal_for_the_same_absence():
    house = await a_house_that_read_it(ALL, audit_share=1.0)
    await house.get(KEY)
    assert (await house.get(KEY)).result == "negative_hit"
    await house.settled()
    assert house.record.audits == [("marker", "agree")]
    house.origin.refusal = refusal(OF_READING)
    assert (await house.get(KEY)).result == "negative_hit"
    await house.settled()
    assert house.record.audits[1:] == [("marker", "changed")]
    assert house.entry(KEY) is None


async def test_where_the_cache_only_observes_readers_get_the_origin_s_word():
    house = await a_house_that_read_it(ALL, only_observes=True)
    for method, key in (("GET", KEY), ("HEAD", OTHER), ("GET", b"/b/x/.zattrs")):
        assert (await house.send(method, key)).status == 403
        await house.settled()
    assert isinstance(house.entry(KEY), Absent)
    assert isinstance(house.entry(OTHER), Absent)
    assert house.origin.count(path=b"/b/x/.zattrs") == 1
    assert (await house.get(KEY)).status == 403
    await house.settled()
    assert house.record.audits == [("marker", "agree")]
