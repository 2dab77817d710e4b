"""What clients, origins and writes may say of caching, carried out (RFC 9111)."""

import asyncio

import pytest

from chunkside.core.entry import Absent, Present
from chunkside.core.freshness import Policy
from tests.support.fake_upstream import Answer
from tests.support.house import House

KEY, OTHER = b"/b/k", b"/b/m"
REFRESH = (b"Chunkside-Control", b"refresh")
BYPASS = (b"Chunkside-Control", b"bypass")
LARGE = b"x" * 1_000_000


async def known(house, *targets):
    for target in targets:
        await house.get(target)
    await house.settled()


# Chunkside-Control.


@pytest.mark.parametrize("held", ["body", "marker"])
async def test_refresh_asks_anew_and_remembers_what_came(house, held):
    if held == "body":
        house.origin.put(KEY, b"old")
    await known(house, KEY)
    house.origin.put(KEY, b"new")
    got = await house.get(KEY, REFRESH)
    assert (got.body, got.result) == (b"new", "miss")
    await house.settled()
    assert (await house.get(KEY)).result == "hit"
    # It is ours, and no business of the origin's.
    assert all(b"chunkside-control" not in each.fields for each in house.origin.exchanges)


async def test_refresh_joins_no_request_that_was_sent_before(house):
    house.origin.put(KEY, b"old")
    gate = house.origin.hold(KEY)
    first = house.start("GET", KEY)
    await gate.reached()
    house.origin.put(KEY, b"new")
    assert (await house.get(KEY, REFRESH)).body == b"new"
    gate.open()
    assert (await first).body == b"old"
    await house.settled()
    # The older answer doesn't take the newer one's place.
    assert (await house.get(KEY)).body == b"new"


async def test_bypass_neither_looks_nor_stores(house):
    house.origin.put(KEY, b"old")
    got = await house.get(KEY, BYPASS)
    assert (got.body, got.result) == (b"old", "bypass")
    await house.settled()
    assert house.entry(KEY) is None
    await known(house, KEY)
    assert (await house.get(KEY, BYPASS)).result == "bypass"
    assert house.origin.count() == 3


async def test_only_if_cached_asks_nobody(house):
    asked = (b"Cache-Control", b"only-if-cached")
    house.origin.put(KEY, b"body")
    assert (await house.get(KEY, asked)).status == 504
    assert house.origin.count() == 0
    await known(house, KEY)
    assert (await house.get(KEY, asked)).result == "hit"


# Stale while it is validated.


@pytest.fixture
def patient(house):
    fields = ((b"Cache-Control", b"max-age=60, stale-while-revalidate=600"),)
    house.origin.put(KEY, b"old", fields=fields)
    return house


async def test_what_is_stale_is_served_at_once_and_validated_once(patient):
    house = patient
    await known(house, KEY)
    house.now.advance(100)
    gate = house.origin.hold(KEY)
    for _ in range(3):
        got = await house.get(KEY)
        assert (got.body, got.result) == (b"old", "stale")
    await gate.reached()
    assert house.origin.count() == 2
    assert house.origin.exchanges[-1].fields.get(b"if-none-match") is not None
    gate.open()
    await house.settled()
    assert (await house.get(KEY)).result == "hit"


async def test_what_changed_meanwhile_is_there_for_the_next_reader(patient):
    house = patient
    await known(house, KEY)
    house.now.advance(100)
    house.origin.put(KEY, b"new")
    assert (await house.get(KEY)).body == b"old"
    await house.settled()
    assert (await house.get(KEY)).body == b"new"


async def test_an_absence_is_never_served_while_it_is_asked_about(house):
    fields = ((b"Cache-Control", b"max-age=60, stale-while-revalidate=600"),)
    house.origin.script(KEY, Answer(404, fields), times=1)
    await known(house, KEY)
    assert isinstance(house.entry(KEY), Absent)
    house.now.advance(100)
    house.origin.put(KEY, b"new")
    assert (await house.get(KEY)).body == b"new"


async def test_who_may_not_be_kept_waiting_is_told_of_no_failure(patient):
    house = patient
    await known(house, KEY)
    house.now.advance(100)
    house.origin.script(KEY, "refused")
    for _ in range(2):
        assert (await house.get(KEY)).result == "stale"
        await house.settled()
    assert isinstance(house.entry(KEY), Present)


# What writes change.


async def delete_many(house, body, target=b"/b?delete"):
    house.origin.script(target, Answer(200, (), b"<DeleteResult/>"), method="POST")
    return await house.send("POST", target, content=body)


async def test_a_deletion_of_many_drops_what_it_names_and_nothing_else(house):
    for target in (KEY, b"/b/a b", b"/b/kept"):
        house.origin.put(target, b"body")
    await known(house, KEY, b"/b/a%20b", b"/b/kept", OTHER)
    body = b"<Delete><Object><Key>k</Key></Object><Object><Key>a b</Key></Object></Delete>"
    assert (await delete_many(house, body)).status == 200
    assert house.origin.exchanges[-1].body == body
    assert house.entry(KEY) is house.entry(b"/b/a%20b") is None
    assert isinstance(house.entry(b"/b/kept"), Present)
    assert isinstance(house.entry(OTHER), Absent)


@pytest.mark.parametrize("body", [b"<Delete><Object/></Delete>", b"k" * (2 << 20) + b"k"])
async def test_one_that_can_not_be_read_drops_all(house, body):
    house.origin.put(KEY, b"body")
    await known(house, KEY, OTHER)
    assert (await delete_many(house, body)).status == 200
    assert house.origin.exchanges[-1].body == body
    assert house.entry(KEY) is house.entry(OTHER) is None


async def test_while_a_deletion_of_many_runs_nothing_that_it_names_is_stored(house):
    house.origin.put(KEY, b"old")
    gate = house.origin.hold(b"/b?delete", method="POST")
    house.origin.script(b"/b?delete", Answer(200), method="POST")
    body = b"<Delete><Object><Key>k</Key></Object></Delete>"
    writer = asyncio.create_task(house.send("POST", b"/b?delete", content=body))
    await gate.reached()
    assert (await house.get(KEY)).body == b"old"
    await house.settled_fills()
    assert house.entry(KEY) is None
    gate.open()
    await writer
    await known(house, KEY)
    assert isinstance(house.entry(KEY), Present)


@pytest.mark.parametrize(
    ("method", "target", "fields"),
    [
        ("MOVE", KEY, ((b"Destination", b"http://origin/b/m"),)),
        ("COPY", KEY, ((b"Destination", b"/b/m"),)),
        ("PUT", KEY, ((b"x-ms-rename-source", b"/b/m"),)),
    ],
)
async def test_a_move_drops_both_ends_and_what_lies_beneath(house, method, target, fields):
    await known(house, KEY, OTHER, b"/b/m/c/0", b"/kept")
    house.origin.script(target, Answer(201), method=method)
    house.now.advance(1)
    await house.send(method, target, *fields)
    assert house.entry(KEY) is house.entry(OTHER) is None
    house.origin.put(b"/b/m/c/0", b"moved")
    assert (await house.get(b"/b/m/c/0")).body == b"moved"
    assert (await house.get(b"/kept")).result == "negative_hit"


@pytest.mark.parametrize("name", [b"Location", b"Content-Location"])
async def test_what_an_answer_to_a_write_names_falls_too(house, name):
    await known(house, OTHER, b"/kept")
    house.origin.script(KEY, Answer(201, ((name, b"/b/m"),)), method="PUT")
    await house.put(KEY, b"x")
    assert house.entry(OTHER) is None
    assert isinstance(house.entry(b"/kept"), Absent)


async def test_a_success_that_tells_of_an_error_leaves_the_write_s_fate_unknown(house):
    """S3 completes uploads and copies behind a head of 200."""
    error = b"<?xml version='1.0'?><Error><Code>InternalError</Code></Error>"
    target = KEY + b"?uploadId=u"
    house.origin.script(target, Answer(200, (), error), method="POST")
    house.origin.put(KEY, b"old")
    await house.send("POST", target, content=b"<CompleteMultipartUpload/>")
    await known(house, KEY)
    assert house.entry(KEY) is None
    house.now.advance(61)
    await known(house, KEY)
    assert isinstance(house.entry(KEY), Present)


async def test_a_multipart_upload_is_of_its_key_alone(house):
    await known(house, KEY, OTHER)
    for target in (KEY + b"?uploads", KEY + b"?uploadId=u"):
        house.origin.script(target, Answer(200, (), b"<Result/>"), method="POST")
        await house.send("POST", target, content=b"<x/>")
    assert house.entry(KEY) is None
    assert isinstance(house.entry(OTHER), Absent)


# Profiles.


async def test_by_the_rfc_alone_nothing_lives_without_the_origin_s_word():
    house = House(policy=Policy(ttl=0.0, is_strict=True))
    house.origin.put(KEY, b"body", last_modified=None)
    for _ in range(2):
        assert (await house.get(KEY)).result in ("miss", "revalidated")
        assert (await house.get(OTHER)).result == "miss"
        await house.settled()


async def test_by_the_rfc_alone_an_error_with_a_lifetime_is_answered_from_store():
    house = House(policy=Policy(ttl=0.0, is_strict=True))
    answer = Answer(503, ((b"Cache-Control", b"max-age=60"), (b"Retry-After", b"9")), b"words")
    house.origin.script(KEY, answer)
    await known(house, KEY)
    got = await house.get(KEY, (b"Range", b"bytes=0-1"))
    assert (got.status, got.body, got.result) == (503, b"words", "hit")
    assert got.field(b"retry-after") == b"9"
    assert house.origin.count() == 1
    house.now.advance(61)
    house.origin.behave()
    house.origin.put(KEY, b"body")
    assert (await house.get(KEY)).body == b"body"


async def test_what_is_private_is_kept_for_its_credential_alone(house):
    alice, bob = ((b"Authorization", b"Bearer " + name) for name in (b"alice", b"bob"))
    house.origin.put(KEY, b"body", fields=((b"Cache-Control", b"private, max-age=60"),))
    for _ in range(2):
        await house.get(KEY, alice)
        await house.get(KEY)
        await house.settled()
    assert (await house.get(KEY, alice)).result == "hit"
    assert (await house.get(KEY, bob)).result == "miss"
    assert (await house.get(KEY)).result == "miss"


async def test_a_cookie_that_is_dropped_keeps_nothing_from_being_stored(house):
    house.origin.put(KEY, b"body", fields=((b"Set-Cookie", b"AWSALB=x"),))
    await known(house, KEY)
    got = await house.get(KEY)
    assert (got.result, got.field(b"set-cookie")) == ("hit", None)


async def test_a_cookie_that_passes_keeps_its_answer_from_being_stored():
    house = House(policy=Policy(forwards_cookies=True))
    house.origin.put(KEY, b"body", fields=((b"Set-Cookie", b"a=b"),))
    await known(house, KEY)
    got = await house.get(KEY)
    assert (got.result, got.field(b"set-cookie")) == ("miss", b"a=b")


# Fields that are meant for this cache (RFC 9213).

OURS = Policy(obeys_origin=False, targeted=(b"x-us",))


async def test_what_is_meant_for_this_cache_is_obeyed_where_cache_control_is_ignored():
    house = House(policy=OURS)
    told = (b"X-Us", b"max-age=10"), (b"Cache-Control", b"private, max-age=1")
    house.origin.put(KEY, b"body", fields=told)
    await known(house, KEY)
    house.now.advance(9)
    got = await house.get(KEY)
    assert (got.result, got.field(b"x-us")) == ("hit", b"max-age=10")
    house.now.advance(2)
    assert (await house.get(KEY)).result == "revalidated"


async def test_a_304_may_say_it_anew():
    house = House(policy=OURS)
    house.origin.put(KEY, b"body", fields=((b"X-Us", b"max-age=10"),))
    await known(house, KEY)
    house.now.advance(11)
    house.origin.put(KEY, b"body", fields=((b"X-Us", b"no-store"),))
    assert (await house.get(KEY)).result == "revalidated"
    # What may not be stored any more is asked for each time.
    assert (await house.get(KEY)).result == "revalidated"


async def test_a_field_that_can_not_be_parsed_says_nothing():
    house = House(policy=Policy(targeted=(b"x-us",)))
    told = (b"X-Us", b"max-age=10,"), (b"Cache-Control", b"no-store")
    house.origin.put(KEY, b"body", fields=told)
    await known(house, KEY)
    assert house.entry(KEY) is None


async def test_it_may_keep_an_absence_from_being_remembered():
    house = House(policy=OURS)
    for told, result in ((b"max-age=0", "miss"), (b"max-age=10", "negative_hit")):
        house.origin.script(KEY, Answer(404, ((b"X-Us", told),)))
        await house.get(KEY, REFRESH)
        assert (await house.get(KEY)).result == result
