"""Ranges of what isn't held whole: brought once, remembered exactly, and never mixed."""

import asyncio

import pytest

from chunkside.core.entry import Absent, Partial, Present
from chunkside.core.freshness import Policy
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.turns import turns

KEY = b"/a.zarr/c/0"
# Of 3 MiB, so that a range can be small or large.
BODY = bytes(range(256)) * (12 << 10)
NEW = bytes(reversed(range(256))) * (12 << 10)
MIB = 1 << 20


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


# Remembering.


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        (b"bytes=1000-1999", 1000, 2000),
        (b"bytes=-16", len(BODY) - 16, len(BODY)),
        (b"bytes=3145700-", 3_145_700, len(BODY)),
        (b"bytes=3145700-9999999", 3_145_700, len(BODY)),
        (b"bytes=100-1500000", 100, 1_500_001),
    ],
)
async def test_a_range_is_brought_once_and_no_byte_more(filled, asked, first, end):
    for result in ("miss", "hit"):
        got = await filled.get(KEY, (b"Range", asked))
        assert (got.status, got.result, got.body) == (206, result, BODY[first:end])
        assert got.field(b"content-range") == b"bytes %d-%d/%d" % (first, end - 1, len(BODY))
        await filled.settled_fills()
    [exchange] = filled.origin.requests()
    assert (exchange.fields.get(b"range"), exchange.sent) == (asked, end - first)
    assert exchange.fields.get(b"accept-encoding") == b"identity"
    assert (await get(filled, first + 1, first + 9)).body == BODY[first + 1 : first + 10]
    assert filled.origin.count() == 1


async def test_what_no_range_holds_is_asked_for(filled):
    await get(filled, 100, 199)
    await filled.settled_fills()
    got = await get(filled, 150, 249)
    assert (got.body, got.result) == (BODY[150:250], "miss")
    assert "fwd=partial" in got.cache_status
    assert "stored" in got.cache_status
    await filled.settled_fills()
    assert parts(filled) == [(100, 199), (150, 249)]
    assert (await filled.get(KEY)).body == BODY
    await filled.settled_fills()
    assert isinstance(filled.entry(KEY), Present)
    assert filled.record.removals["range", "replaced"] == 2


async def test_a_range_of_all_bytes_answers_for_the_whole(filled):
    assert (await filled.get(KEY, (b"Range", b"bytes=0-"))).status == 206
    await filled.settled_fills()
    got = await filled.get(KEY)
    assert (got.status, got.result, got.body) == (200, "hit", BODY)
    assert got.field(b"content-range") is None


async def test_head_and_conditions_are_answered_from_a_range(filled):
    thing = filled.origin.put(KEY, BODY)
    await get(filled, 0, 9)
    await filled.settled_fills()
    head = await filled.send("HEAD", KEY)
    assert (head.status, head.reply.length, head.result) == (200, len(BODY), "hit")
    assert (head.field(b"etag"), head.field(b"content-range")) == (thing.etag, None)
    assert (await get(filled, 0, 9, (b"If-None-Match", thing.etag))).status == 304
    assert (await get(filled, 0, 9, (b"If-Match", b'"x"'))).status == 412
    assert (await filled.get(KEY, (b"Range", b"bytes=%d-" % len(BODY)))).status == 416
    assert (await get(filled, 0, 9, (b"If-Range", thing.etag))).result == "hit"
    assert filled.origin.count() == 1


async def test_if_range_that_nothing_held_can_answer_is_passed_on(filled):
    got = await get(filled, 0, 9, (b"If-Range", b'"other"'))
    assert (got.status, got.body) == (200, BODY)
    assert filled.entry(KEY) is None


async def test_if_range_of_what_is_held_brings_more_of_it(filled):
    thing = filled.origin.put(KEY, BODY)
    await get(filled, 0, 9)
    await filled.settled_fills()
    for result in ("miss", "hit"):
        got = await get(filled, 100, 199, (b"If-Range", thing.etag))
        assert (got.status, got.result, got.body) == (206, result, BODY[100:200])
        await filled.settled_fills()
    assert parts(filled) == [(0, 9), (100, 199)]
    [_, exchange] = filled.origin.requests()
    assert exchange.fields.get(b"if-range") is None


async def test_if_range_of_a_stale_range_is_validated_and_not_passed_on(filled):
    thing = filled.origin.put(KEY, BODY)
    await get(filled, 0, 9)
    await filled.settled_fills()
    filled.now.advance(301.0)
    got = await get(filled, 0, 9, (b"If-Range", thing.etag))
    assert (got.status, got.result, got.body) == (206, "revalidated", BODY[:10])
    assert (await get(filled, 0, 9, (b"If-Range", thing.etag))).result == "hit"


@pytest.mark.parametrize(
    "new", [NEW, NEW[:50]], ids=["of the same length", "too short for the range"]
)
async def test_if_range_gets_the_whole_where_another_version_has_come(filled, new):
    thing = filled.origin.put(KEY, BODY)
    await get(filled, 0, 9)
    await filled.settled_fills()
    filled.origin.put(KEY, new)
    got = await get(filled, 100, 199, (b"If-Range", thing.etag))
    assert (got.status, got.body, got.field(b"content-range")) == (200, new, None)


async def test_if_range_gets_the_whole_where_another_version_may_not_be_kept(filled):
    thing = filled.origin.put(KEY, BODY)
    await get(filled, 0, 9)
    await filled.settled_fills()
    filled.origin.put(KEY, NEW, fields=((b"Cache-Control", b"no-store"),))
    got = await get(filled, 100, 199, (b"If-Range", thing.etag))
    assert (got.status, got.body, got.field(b"content-range")) == (200, NEW, None)


async def test_if_range_is_told_that_nothing_is_there(filled):
    thing = filled.origin.put(KEY, BODY)
    await get(filled, 0, 9)
    await filled.settled_fills()
    filled.origin.objects.clear()
    assert (await get(filled, 100, 199, (b"If-Range", thing.etag))).status == 404
    assert filled.origin.count() == 2


async def test_readers_of_one_range_share_one_request_and_others_have_their_own(filled):
    gate = filled.origin.hold(KEY, times=2)
    same = [filled.start("GET", KEY, ranged(0, 99)) for _ in range(8)]
    other = filled.start("GET", KEY, ranged(200, 299))
    await filled.until_waiting(9)
    gate.open()
    assert {(await each).body for each in same} == {BODY[:100]}
    assert (await other).body == BODY[200:300]
    await filled.settled_fills()
    assert filled.origin.count() == 2
    # Each saw nothing held when it was asked, and both are of one representation.
    assert parts(filled) == [(0, 99), (200, 299)]


async def test_an_origin_that_ignores_ranges_fills_the_whole(filled):
    filled.origin.script(KEY, Answer(200, ((b"ETag", b'"w"'),), BODY))
    got = await get(filled, 1000, 1009)
    assert (got.status, got.body) == (206, BODY[1000:1010])
    await filled.settled_fills()
    assert isinstance(filled.entry(KEY), Present)
    assert (await filled.get(KEY)).result == "hit"


@pytest.mark.parametrize(
    "told", [b"bytes 1-10/3145728", b"bytes 0-9/*", b"bytes 0-8/3145728", b"items 0-9/10"]
)
async def test_a_206_that_is_not_what_was_asked_for_is_relayed_and_not_stored(filled, told):
    fields = ((b"ETag", b'"x"'), (b"Content-Range", told))
    filled.origin.script(KEY, Answer(206, fields, b"0123456789"))
    got = await get(filled, 0, 9)
    assert (got.status, got.body) == (206, b"0123456789")
    await filled.settled()
    assert filled.entry(KEY) is None


async def test_a_206_that_does_not_say_which_part_it_is_is_nonsense(filled):
    filled.origin.script(KEY, Answer(206, ((b"ETag", b'"x"'),), b"0123456789"))
    assert (await get(filled, 0, 9)).status == 502
    await filled.settled()
    assert filled.entry(KEY) is None


async def test_several_ranges_come_in_parts_that_say_so_themselves(filled):
    parts_type = (b"Content-Type", b"multipart/byteranges; boundary=x")
    filled.origin.script(KEY, Answer(206, (parts_type,), b"--x--"))
    got = await filled.get(KEY, (b"Range", b"bytes=0-1,5-6"))
    assert (got.status, got.body) == (206, b"--x--")


NOT_STORED = {
    "no-store": (b"Cache-Control", b"no-store"),
    "varies on all": (b"Vary", b"*"),
    "a page": (b"Content-Type", b"text/html"),
}


@pytest.mark.parametrize("kind", NOT_STORED)
@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [(b"bytes=1000-1009", 1000, 1010), (b"bytes=3145700-", 3145700, None), (b"bytes=-5", -5, None)],
)
async def test_a_whole_that_is_not_stored_is_cut_to_the_range(filled, kind, asked, first, end):
    filled.origin.script(KEY, Answer(200, ((b"ETag", b'"w"'), NOT_STORED[kind]), BODY))
    for _ in range(2):
        got = await filled.get(KEY, (b"Range", asked))
        assert (got.status, got.body) == (206, BODY[first:end])
        from_, to, _ = slice(first, end).indices(len(BODY))
        assert got.field(b"content-range") == b"bytes %d-%d/%d" % (from_, to - 1, len(BODY))
        assert got.reply.length == to - from_
        name, value = NOT_STORED[kind]
        assert got.field(name.lower()) == value
    await filled.settled()
    assert filled.entry(KEY) is None
    assert filled.origin.open_answers == 0


@pytest.mark.parametrize(
    ("asked", "status", "first", "end"),
    [
        (b"bytes=5-14", 206, 5, 15),
        (b"bytes=9000000-", 206, 9_000_000, 9 * MIB + 1000),
        (b"bytes=-5", 206, 9 * MIB + 995, 9 * MIB + 1000),
        (b"bytes=9438184-", 416, 0, 0),
    ],
)
async def test_a_range_of_a_whole_of_unknown_length_waits_for_its_length(
    filled, asked, status, first, end
):
    whole = (BODY * 4)[: 9 * MIB + 1000]
    filled.origin.script(KEY, Answer(200, ((b"ETag", b'"w"'),), whole, framing="chunked"))
    gate = filled.origin.hold(KEY, 9 * MIB)
    asking = filled.start("GET", KEY, (b"Range", asked))
    await gate.reached()
    await turns(50)
    gate.open()
    got = await asking
    assert (got.status, got.body) == (status, whole[first:end])


async def test_a_range_of_a_whole_of_unknown_length_that_breaks_off_is_an_error(filled):
    torn = Answer(200, (), BODY, framing="chunked", ends_after=MIB)
    filled.origin.script(KEY, torn)
    assert (await filled.get(KEY, (b"Range", b"bytes=0-9"))).status == 503


async def test_a_whole_that_is_not_kept_and_tells_no_length_passes_whole():
    """Nobody knows which bytes it will have, and those that were read can't be read again."""
    small = House(policy=Policy(max_body_bytes=MIB))
    small.origin.script(KEY, Answer(200, (), BODY, framing="chunked"))
    got = await small.get(KEY, (b"Range", b"bytes=0-9"))
    assert (got.status, got.body) == (200, BODY)


async def test_a_range_beyond_a_whole_that_is_not_stored_is_416(filled):
    filled.origin.script(KEY, Answer(200, ((b"Cache-Control", b"no-store"),), BODY))
    got = await filled.get(KEY, (b"Range", b"bytes=3145728-"))
    assert (got.status, got.body) == (416, b"")
    assert got.field(b"content-range") == b"bytes */3145728"


UNCUT = {
    "a condition may have failed": [(b"Range", b"bytes=0-9"), (b"If-Range", b'"old"')],
    "several": [(b"Range", b"bytes=0-9,20-29")],
    "malformed": [(b"Range", b"bytes=9-0")],
    "azure's own": [(b"Range", b"bytes=0-9"), (b"x-ms-range", b"bytes=5-6")],
}


@pytest.mark.parametrize("kind", UNCUT)
async def test_a_whole_passes_whole_where_no_single_range_is_sure(filled, kind):
    filled.origin.script(KEY, Answer(200, ((b"Cache-Control", b"no-store"),), BODY))
    got = await filled.get(KEY, *UNCUT[kind])
    assert (got.status, got.body) == (200, BODY)


async def test_a_whole_too_large_to_keep_is_cut_to_the_range(filled):
    small = House(policy=Policy(max_body_bytes=1000))
    small.origin.script(KEY, Answer(200, ((b"ETag", b'"w"'),), BODY))
    got = await get(small, 1000, 1009)
    assert (got.status, got.body) == (206, BODY[1000:1010])


@pytest.mark.parametrize("sent", [b"123456789", b"0123456789x"])
async def test_a_chunked_206_of_another_length_than_it_says_is_torn(filled, sent):
    told = (b"Content-Range", b"bytes 0-9/3145728")
    filled.origin.script(KEY, Answer(206, (told,), sent, framing="chunked"))
    assert (await get(filled, 0, 9)).status == 503
    await filled.settled()
    assert filled.entry(KEY) is None


async def test_a_large_range_that_breaks_off_is_resumed_up_to_its_own_end(filled):
    first, last = 1000, 1000 + 2 * MIB
    thing = filled.origin.objects[KEY]
    told = b"bytes %d-%d/%d" % (first, last, len(BODY))
    filled.origin.script(
        KEY,
        Answer(
            206,
            ((b"ETag", thing.etag), (b"Content-Range", told)),
            BODY[first : last + 1],
            ends_after=MIB + 7,
        ),
        times=1,
    )
    got = await get(filled, first, last)
    assert (got.body, got.is_torn) == (BODY[first : last + 1], False)
    await filled.settled_fills()
    rest = filled.origin.requests()[1].fields
    assert rest.get(b"range") == b"bytes=%d-%d" % (first + MIB + 7, last)
    assert rest.get(b"if-range") == thing.etag
    assert (await get(filled, first + 5, last - 5)).result == "hit"


# Absence.


async def test_an_absence_drops_all_ranges(filled):
    for first in (0, 100):
        await get(filled, first, first + 9)
    await filled.settled_fills()
    del filled.origin.objects[KEY]
    assert (await filled.get(KEY)).status == 404
    assert isinstance(filled.entry(KEY), Absent)
    assert filled.record.removals["range", "replaced"] == 2
    got = await get(filled, 0, 9)
    assert got.status == 404


@pytest.mark.parametrize("is_whole", [True, False])
async def test_the_404_of_a_range_drops_what_is_held_and_makes_no_marker(filled, is_whole):
    await (filled.get(KEY) if is_whole else get(filled, 0, 9))
    await filled.settled_fills()
    del filled.origin.objects[KEY]
    filled.now.advance(301.0)
    assert (await get(filled, 100, 109)).status == 404
    await filled.settled()
    assert filled.entry(KEY) is None


async def test_in_scope_all_the_404_of_a_range_is_followed_by_a_full_get():
    house = House(policy=Policy(negative_scope="all"))
    assert (await get(house, 0, 9)).status == 404
    await house.settled()
    assert [each.fields.get(b"range") for each in house.origin.requests()] == [b"bytes=0-9", None]
    assert (await get(house, 5, 6)).result == "negative_hit"


async def test_a_newer_range_stands_before_an_older_absence(house):
    gate = house.origin.hold(KEY)
    early = house.start("GET", KEY)
    await gate.reached()
    house.origin.put(KEY, BODY)
    assert (await get(house, 0, 9)).body == BODY[:10]
    await house.until(lambda: parts(house) == [(0, 9)])
    gate.open()
    assert (await early).status == 404
    await house.settled()
    assert parts(house) == [(0, 9)]


# Generations.


async def test_ranges_of_two_generations_never_meet(filled):
    await get(filled, 0, 9)
    await filled.settled_fills()
    filled.origin.put(KEY, NEW)
    assert (await get(filled, 100, 109)).body == NEW[100:110]
    await filled.settled_fills()
    assert parts(filled) == [(100, 109)]
    assert (await get(filled, 0, 9)).body == NEW[:10]


async def test_a_range_that_was_asked_for_before_a_newer_one_was_seen_is_not_stored(filled):
    gate = filled.origin.hold(KEY)
    early = filled.start("GET", KEY, ranged(0, 9))
    await gate.reached()
    filled.origin.put(KEY, NEW)
    await get(filled, 100, 109)
    await filled.until(lambda: parts(filled) == [(100, 109)])
    # Whoever comes now has seen the new one, and isn't given the old one that is on its way.
    late = filled.start("GET", KEY, ranged(0, 9))
    await filled.until_waiting(2)
    gate.open()
    assert (await early).body == BODY[:10]
    assert (await late).body == NEW[:10]
    await filled.settled()
    assert parts(filled) == [(100, 109)]


async def test_whoever_comes_after_a_range_of_the_same_generation_still_shares(filled):
    gate = filled.origin.hold(KEY)
    early = filled.start("GET", KEY, ranged(0, 9))
    await gate.reached()
    await get(filled, 100, 109)
    await filled.until(lambda: parts(filled) == [(100, 109)])
    late = filled.start("GET", KEY, ranged(0, 9))
    await filled.until_waiting(2)
    gate.open()
    assert ((await early).body, (await late).body) == (BODY[:10], BODY[:10])
    assert filled.origin.count() == 2


async def test_a_whole_body_falls_when_a_range_shows_another_generation(filled):
    await filled.get(KEY)
    await filled.settled_fills()
    filled.now.advance(301.0)
    filled.origin.put(KEY, NEW)
    got = await get(filled, 0, 9)
    assert (got.body, got.result) == (NEW[:10], "miss")
    await filled.settled_fills()
    assert parts(filled) == [(0, 9)]


# Staleness.


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_range_of_what_is_stale_is_validated(filled, is_whole):
    thing = filled.origin.objects[KEY]
    await (filled.get(KEY) if is_whole else get(filled, 0, 99))
    await filled.settled_fills()
    filled.now.advance(301.0)
    got = await get(filled, 10, 19)
    assert (got.status, got.body, got.result) == (206, BODY[10:20], "revalidated")
    asked = filled.origin.requests()[1].fields
    assert (asked.get(b"range"), asked.get(b"if-none-match")) == (b"bytes=10-19", thing.etag)
    assert (await get(filled, 20, 29)).result == "hit"


@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_206_of_the_same_generation_freshens_what_is_held(filled, is_whole):
    """An origin that doesn't know conditions."""
    await (filled.get(KEY) if is_whole else get(filled, 0, 99))
    await filled.settled_fills()
    filled.now.advance(301.0)
    thing = filled.origin.objects[KEY]
    told = ((b"ETag", thing.etag), (b"Content-Range", b"bytes 10-19/%d" % len(BODY)))
    filled.origin.script(KEY, Answer(206, told, BODY[10:20]), times=1)
    assert (await get(filled, 10, 19)).body == BODY[10:20]
    await filled.settled_fills()
    assert filled.record.fills[-1] == "freshened"
    assert (await get(filled, 30, 39)).result == "hit"
    assert parts(filled) == ([] if is_whole else [(0, 99)])


async def test_a_stale_range_stands_in_for_an_origin_that_fails(filled):
    await get(filled, 0, 99)
    await filled.settled_fills()
    filled.now.advance(301.0)
    filled.origin.script(KEY, "refused")
    got = await get(filled, 10, 19)
    assert (got.body, got.result) == (BODY[10:20], "stale")
    assert (await get(filled, 100, 199)).status == 503


async def test_a_416_shows_that_what_is_held_has_changed(filled):
    await get(filled, 100, 199)
    await filled.settled_fills()
    filled.origin.put(KEY, b"short")
    assert (await get(filled, 300, 399)).status == 416
    assert filled.entry(KEY) is None


# Writes and purges.


@pytest.mark.parametrize("how", ["write", "purge"])
async def test_a_write_or_a_purge_drops_ranges_and_those_on_their_way(filled, how):
    await get(filled, 0, 9)
    await filled.settled_fills()
    gate = filled.origin.hold(KEY)
    early = filled.start("GET", KEY, ranged(100, 199))
    await gate.reached()
    if how == "write":
        await filled.put(KEY, NEW)
    else:
        filled.origin.put(KEY, NEW)
        assert (await filled.purging.object(filled.key(KEY).object)).ranges == 1
    assert filled.entry(KEY) is None
    gate.open()
    assert (await early).body == BODY[100:200]
    await filled.settled()
    assert filled.entry(KEY) is None
    assert (await get(filled, 0, 9)).body == NEW[:10]


async def test_a_document_that_is_read_by_range_is_weighed(filled):
    document = b"/a.zarr/zarr.json"
    filled.origin.put(document, b"old old old old")
    await filled.get(document, ranged(0, 5))
    await filled.get(KEY)
    await filled.settled_fills()
    filled.now.advance(6.0)
    filled.origin.put(document, b"new new new new")
    assert (await filled.get(document, ranged(0, 5))).body == b"new ne"
    filled.now.advance(0.001)
    assert (await filled.get(KEY)).result == "revalidated"


# Disk.


async def test_ranges_outlive_a_restart(tmp_path):
    first, disk = await disk_house(tmp_path)
    first.origin.put(KEY, BODY)
    for begin, last in ((0, 99), (200, 2 * MIB), (300, 399)):
        await get(first, begin, last)
        await first.settled_fills()
    await close(first, disk)
    house, disk = await disk_house(tmp_path, clock=first.now, table=first.stamps, is_scanning=True)
    # Before the scan: by its own path, where that can be told.
    assert (await get(house, 0, 99)).result == "hit"
    await house.gateway.adoption.scan()
    assert parts(house) == [(0, 99), (200, 2 * MIB)]
    assert (await get(house, 1 * MIB, 2 * MIB)).body == BODY[MIB : 2 * MIB + 1]
    assert (await house.send("HEAD", KEY)).reply.length == len(BODY)
    assert house.origin.count() == 0
    house.edges.index.check_invariants()
    await close(house, disk)


async def test_ranges_of_an_older_generation_do_not_come_back_after_a_restart(tmp_path):
    first, disk = await disk_house(tmp_path)
    first.origin.put(KEY, BODY)
    await get(first, 0, 99)
    await first.settled()
    [old] = tmp_path.rglob("*.r0-99.arrow")
    kept = old.read_bytes()
    first.now.advance(10.0)
    first.origin.put(KEY, NEW)
    await get(first, 200, 299)
    await close(first, disk)
    # As if the process had died between the new file and the unlinking of the old one.
    old.touch(0o600)
    old.write_bytes(kept)
    house, disk = await disk_house(tmp_path, clock=first.now, table=first.stamps, is_scanning=True)
    await house.gateway.adoption.scan()
    assert parts(house) == [(200, 299)]
    await house.settled()
    assert not old.exists()
    await close(house, disk)


async def test_a_damaged_range_is_brought_anew_and_its_siblings_stay(tmp_path):
    house, disk = await disk_house(tmp_path)
    house.origin.put(KEY, BODY)
    for begin in (0, 100):
        await get(house, begin, begin + 99)
        await house.settled_fills()
    [file] = tmp_path.rglob("*.r0-99.arrow")
    disk._readers.clear()
    damaged = bytearray(file.read_bytes())
    damaged[damaged.index(BODY[:100])] ^= 1
    file.write_bytes(damaged)
    assert (await get(house, 0, 99)).body == BODY[:100]
    await house.settled_fills()
    assert (await get(house, 100, 199)).result == "hit"
    assert house.record.removals["range", "corrupt"] == 1
    assert parts(house) == [(0, 99), (100, 199)]
    await close(house, disk)


async def test_a_range_that_the_disk_does_not_take_reaches_its_readers(frail):
    frail.origin.put(KEY, BODY)
    frail.store.append_limit = MIB
    got = await get(frail, 100, 2 * MIB)
    assert (got.body, got.is_torn) == (BODY[100 : 2 * MIB + 1], False)
    await frail.settled()
    assert frail.entry(KEY) is None


async def test_ranges_that_may_not_be_shared_are_asked_for_apart(filled):
    told = ((b"Content-Range", b"bytes 0-9/3145728"), (b"Cache-Control", b"no-store"))
    filled.origin.script(KEY, Answer(206, told, BODY[:10]))
    got = await asyncio.gather(*(get(filled, 0, 9) for _ in range(3)))
    assert [each.body for each in got] == [BODY[:10]] * 3
    assert filled.origin.count() == 3
    filled.origin.behave()
    # Another range of it isn't held to that.
    await get(filled, 100, 109)
    await filled.settled_fills()
    assert parts(filled) == [(100, 109)]
