"""An attacker's look at ranges: no answer is hollow, and what a reader saw never turns back."""

import asyncio

import pytest

from chunkside.core.entry import Partial
from chunkside.store.body_store import DiskBodyStore
from tests.support.fake_upstream import Answer
from tests.support.house import Reading
from tests.support.turns import turns

KEY = b"/a.zarr/c/0"
BODY = bytes(range(256)) * (12 << 10)
NEW = bytes(reversed(range(256))) * (12 << 10)
MIB = 1 << 20
INDEX = (b"Range", b"bytes=-16")


def ranged(first, last):
    return (b"Range", b"bytes=%d-%d" % (first, last))


async def get(house, first, last, *fields):
    return await house.get(KEY, ranged(first, last), *fields)


def parts(house):
    entry = house.entry(KEY)
    return [(each.first, each.last) for each in entry.bodies] if isinstance(entry, Partial) else []


@pytest.fixture
def filled(house):
    house.origin.put(KEY, BODY)
    return house


# Answers without their bytes.


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [((ranged(500, 599),), 206, BODY[500:600]), ((), 200, BODY)],
    ids=["range", "whole"],
)
async def test_who_joins_anothers_validation_gets_the_bytes_that_it_did_not_need(
    filled, asked, status, body
):
    etag = filled.origin.objects[KEY].etag
    await get(filled, 0, 9)
    await filled.settled()
    filled.now.advance(301.0)
    gate = filled.origin.hold(KEY)
    knows = filled.start("GET", KEY, *asked, (b"If-None-Match", etag))
    await gate.reached()
    plain = filled.start("GET", KEY, *asked)
    await filled.until_waiting(2)
    gate.open()
    assert (await knows).status == 304
    got = await plain
    assert (got.status, got.body) == (status, body)


# A reader that saw newer bytes.


async def test_a_range_is_not_taken_from_an_older_body_that_still_arrives(filled):
    """A shard's index is of the new version; its chunk must not come out of the old one."""
    gate = filled.origin.hold(KEY, MIB)
    early = filled.start("GET", KEY)
    await gate.reached()
    filled.origin.put(KEY, NEW)
    assert (await filled.get(KEY, INDEX)).body == NEW[-16:]
    await filled.until(lambda: bool(parts(filled)))
    chunk = await get(filled, 0, 9)
    gate.open()
    await early
    assert chunk.body == NEW[:10]


async def test_nobody_joins_an_older_body_before_the_newer_range_is_committed(frail):
    frail.origin.put(KEY, BODY)
    gate = frail.origin.hold(KEY, MIB)
    early = frail.start("GET", KEY)
    await gate.reached()
    frail.origin.put(KEY, NEW)
    frail.store.commit_gate = asyncio.Event()
    assert (await frail.get(KEY, INDEX)).body == NEW[-16:]
    late = [frail.start("GET", KEY), frail.start("GET", KEY, ranged(0, 9))]
    await frail.until(late[1].done)
    frail.store.commit_gate.set()
    gate.open()
    await early
    assert [(await each).body for each in late] == [NEW, NEW[:10]]


async def test_an_older_body_is_not_stored_after_a_newer_range_that_could_not_be(frail):
    frail.origin.put(KEY, BODY)
    gate = frail.origin.hold(KEY, MIB)
    early = frail.start("GET", KEY)
    await gate.reached()
    frail.origin.put(KEY, NEW)
    frail.store.fails_to_begin = True
    assert (await frail.get(KEY, INDEX)).body == NEW[-16:]
    frail.store.fails_to_begin = False
    gate.open()
    await early
    await frail.settled()
    assert (await frail.get(KEY)).body == NEW


async def test_an_older_body_that_was_stored_first_falls_when_a_newer_range_is_seen(filled):
    slow = filled.origin.hold(KEY)
    early = filled.start("GET", KEY)
    await slow.reached()
    filled.origin.put(KEY, NEW)
    filled.now.advance(1.0)
    index_gate = filled.origin.hold(KEY)
    index = filled.start("GET", KEY, INDEX)
    await index_gate.reached()
    slow.open()
    assert (await early).body == BODY
    await filled.until(lambda: filled.entry(KEY) is not None)
    index_gate.open()
    assert (await index).body == NEW[-16:]
    await filled.settled()
    assert (await get(filled, 0, 9)).body == NEW[:10]


async def test_what_is_held_is_not_freshened_after_other_bytes_that_could_not_be_stored(frail):
    frail.origin.put(KEY, BODY)
    await get(frail, 0, 99)
    await frail.settled()
    frail.now.advance(301.0)
    gate = frail.origin.hold(KEY)
    early = frail.start("GET", KEY, ranged(0, 99))
    await gate.reached()
    frail.origin.put(KEY, NEW)
    frail.store.fails_to_begin = True
    assert (await get(frail, 500, 599)).body == NEW[500:600]
    frail.store.fails_to_begin = False
    gate.open()
    await early
    await frail.settled()
    assert (await get(frail, 0, 9)).body == NEW[:10]


async def test_what_is_stale_does_not_stand_in_for_newer_bytes_that_broke_off(filled):
    await filled.get(KEY)
    await filled.settled()
    filled.now.advance(301.0)
    newer = Answer(200, ((b"ETag", b'W/"n"'),), NEW, ends_after=2 * MIB)
    filled.origin.script(KEY, newer, times=1)
    assert (await filled.get(KEY)).is_torn
    await filled.settled()
    filled.origin.script(KEY, "refused")
    assert (await filled.get(KEY)).status == 503


async def test_what_is_held_falls_when_newer_bytes_are_relayed(filled):
    old = filled.origin.objects[KEY].etag
    await get(filled, 0, 99)
    await filled.settled()
    filled.origin.put(KEY, NEW)
    got = await get(filled, 500, 599, (b"If-Range", old))
    assert (got.status, got.body) == (200, NEW)
    assert (await get(filled, 0, 9)).body == NEW[:10]


async def test_what_is_held_stays_when_the_same_bytes_are_relayed(filled):
    filled.origin.put(KEY, BODY, etag=b'W/"weak"')
    got = None
    for fields in ((), ((b"Cache-Control", b"no-store"),), ()):
        got = await get(filled, 0, 99, *fields)
        await filled.settled()
    assert got is not None
    assert got.result == "hit"


# Files.


@pytest.mark.parametrize(
    ("spelt", "origins"),
    [
        (b"bytes=-100", (b"http://a", b"http://a")),
        (b"bytes=3145628-", (b"http://a", b"http://a")),
        (b"bytes=3145628-3145727", (b"http://a", b"http://b")),
    ],
)
async def test_one_range_that_is_brought_twice_at_once_has_a_file(filled, spelt, origins):
    asked = (b"bytes=3145628-3145727", spelt)
    gate = filled.origin.hold(KEY, times=2)
    both = [
        filled.start("GET", KEY, (b"Range", value), (b"Origin", origin))
        for value, origin in zip(asked, origins, strict=True)
    ]
    await filled.until_waiting(2)
    gate.open()
    for each in both:
        assert (await each).body == BODY[-100:]
    await filled.settled()
    filled.edges.index.check_invariants()
    if isinstance(filled.store, DiskBodyStore):
        filled.store._readers.clear()
    [body] = filled.entry(KEY).bodies
    assert (await filled.store.open(body)).length == 100


# Slow readers.


@pytest.mark.parametrize("asked", [(), (ranged(5, 2 * MIB + 500_000),)], ids=["whole", "range"])
@pytest.mark.parametrize("how", ["write", "purge"])
async def test_a_slow_reader_has_all_of_a_body_that_may_not_be_stored_any_more(filled, asked, how):
    gate = filled.origin.hold(KEY, MIB)
    slow = asyncio.create_task(filled.ask("GET", KEY, *asked))
    await gate.reached()
    reading = Reading(await slow)
    await reading.until(1000)
    if how == "write":
        await filled.put(KEY, NEW)
    else:
        await filled.purging.object(filled.key(KEY).object)
        filled.origin.put(KEY, NEW)
    gate.open()
    await filled.until(lambda: filled.origin.open_answers == 0)
    await turns(100)
    body = await reading.rest()
    assert (body, reading.is_torn) == (BODY[5 if asked else 0 :][: reading.reply.length], False)
    await filled.settled()
    assert filled.entry(KEY) is None
