"""Readers of a body that is arriving: late ones, slow ones, leavers; with a disk or without."""

import asyncio

import pytest

from chunkside.core.entry import Present
from chunkside.core.freshness import Policy
from chunkside.gateway import delivery, fills, keeping
from chunkside.gateway.growing import WINDOW_BYTES
from tests.support.fake_upstream import LAST_MODIFIED, Answer
from tests.support.house import House, Reading
from tests.support.turns import turns

MIB = 1 << 20
BODY = bytes(range(256)) * (8 * 4096)
KEY = b"/a/c/0"


def piece(first, last):
    return (b"Range", b"bytes=%d-%d" % (first, last))


async def started(house, at, body=BODY, **more):
    """A reader of a body of which `at` bytes have come, and the gate that holds the rest."""
    house.origin.put(KEY, body, **more)
    gate = house.origin.hold(KEY, at)
    reading = Reading(await house.ask("GET", KEY))
    await gate.reached()
    return reading, gate


# With a place to read back from nobody waits for anybody.


async def test_a_late_reader_gets_what_has_come_at_once_and_the_rest_as_it_comes(house):
    first, gate = await started(house, 5 * MIB)
    reply = await house.ask("GET", KEY)
    assert (reply.result, reply.length) == ("collapsed", len(BODY))
    late = Reading(reply)
    assert await late.until(5 * MIB) == BODY[: 5 * MIB]
    gate.open()
    assert await late.rest() == await first.rest() == BODY
    assert house.origin.count() == 1


async def test_a_slow_reader_holds_up_neither_the_fill_nor_others(house):
    slow, gate = await started(house, MIB)
    gate.open()
    await slow.until(1)
    assert (await house.get(KEY)).body == BODY
    await house.settled()
    assert isinstance(house.entry(KEY), Present)
    assert await slow.rest() == BODY
    assert house.origin.count() == 1


async def test_a_reader_who_leaves_takes_nothing_with_him(house):
    leaver, gate = await started(house, MIB)
    other = Reading(await house.ask("GET", KEY))
    leaver.leave()
    gate.open()
    assert await other.rest() == BODY
    await house.settled()
    assert (await house.get(KEY)).result == "hit"


async def test_a_body_that_nobody_reads_any_more_is_stored_all_the_same(house):
    leaver, gate = await started(house, MIB)
    leaver.leave()
    gate.open()
    await house.settled()
    assert house.record.fills == ["stored"]
    assert (await house.get(KEY)).body == BODY
    assert house.origin.count() == 1


@pytest.mark.parametrize("size", [0, 1, 256 << 10, (256 << 10) + 1, 3 * MIB + 5])
async def test_bodies_of_any_size_arrive_whole_and_stay_whole(house, size):
    house.origin.put(KEY, BODY[:size])
    first = await house.get(KEY)
    await house.settled()
    second = await house.get(KEY)
    assert first.body == second.body == BODY[:size]
    assert first.reply.length == second.reply.length == size
    assert (first.result, second.result) == ("miss", "hit")


# Ranges of a body under way.


async def test_a_range_near_a_growing_body_follows_it(house):
    first, gate = await started(house, 2 * MIB)
    here = house.start("GET", KEY, piece(100, 199))
    ahead = house.start("GET", KEY, piece(2 * MIB + 5, 3 * MIB - 1))
    assert (await here).body == BODY[100:200]
    gate.open()
    got = await ahead
    assert (got.status, got.body) == (206, BODY[2 * MIB + 5 : 3 * MIB])
    assert got.field(b"content-range") == b"bytes %d-%d/%d" % (2 * MIB + 5, 3 * MIB - 1, len(BODY))
    await first.rest()
    assert house.origin.count() == 1


@pytest.mark.parametrize(
    "range_", [piece(4 * MIB, 4 * MIB + 9), (b"Range", b"bytes=-10")], ids=["far", "a suffix"]
)
async def test_a_range_far_ahead_of_a_growing_body_is_asked_for(house, range_):
    first, gate = await started(house, 2 * MIB)
    got = await house.get(KEY, range_)
    assert (got.status, len(got.body), got.result) == (206, 10, "miss")
    assert house.origin.count() == 2
    gate.open()
    await first.rest()


async def test_a_range_that_a_growing_body_cannot_satisfy_is_asked_for(house):
    first, gate = await started(house, 2 * MIB, BODY[: 2 * MIB + 9])
    assert (await house.get(KEY, piece(3 * MIB, 4 * MIB))).status == 416
    gate.open()
    await first.rest()


async def test_a_failed_if_range_gets_the_whole_of_a_growing_body(house):
    first, gate = await started(house, 2 * MIB)
    whole = house.start("GET", KEY, piece(MIB, MIB + 9), (b"If-Range", b'"other"'))
    gate.open()
    got = await whole
    assert (got.status, got.body) == (200, BODY)
    await first.rest()


# The disk fails mid-fill.


async def disk_fails(frail, *, far=False, **more):
    """A reader who keeps up, one who doesn't, and the gate before the disk fails."""
    frail.store.append_limit = 3 * MIB
    near, gate = await started(frail, 3 * MIB - 1000, **more)
    laggard = Reading(await frail.ask("GET", KEY)) if far else None
    await near.until(3 * MIB - 1000)
    if laggard is not None:
        await laggard.until(1)
    return near, laggard, gate


async def test_when_the_disk_fails_near_readers_go_on_from_memory(frail):
    near, _, gate = await disk_fails(frail)
    other = Reading(await frail.ask("GET", KEY))
    await other.until(2 * MIB + 500_000)
    gate.open()
    assert set(await asyncio.gather(near.rest(), other.rest())) == {BODY}
    await frail.settled()
    assert frail.record.faults == [("append", "ENOSPC")]
    assert frail.record.fills == ["not_stored_disk"]
    assert frail.entry(KEY) is None
    assert frail.origin.count() == 1


async def test_when_the_disk_fails_a_far_reader_resumes_by_a_request_of_his_own(frail):
    near, far, gate = await disk_fails(frail, far=True)
    gate.open()
    assert await near.rest() == BODY
    at = len(far.body)
    assert at < 2 * MIB
    assert await far.rest() == BODY
    _, resumed = frail.origin.requests("GET")
    assert resumed.fields.get(b"range") == b"bytes=%d-" % at
    assert resumed.fields.get(b"if-range") == frail.origin.objects[KEY].etag
    assert frail.origin.open_answers == 0


async def test_a_far_reader_of_a_version_that_is_gone_is_cut(frail):
    near, far, gate = await disk_fails(frail, far=True)
    gate.open()
    await near.rest()
    frail.origin.put(KEY, BODY[::-1])
    got = await far.rest()
    assert far.is_torn
    assert BODY.startswith(got)


async def test_a_far_reader_of_a_body_without_a_validator_is_cut(frail):
    near, far, gate = await disk_fails(frail, far=True, etag=None, last_modified=None)
    gate.open()
    await near.rest()
    await far.rest()
    assert far.is_torn
    assert frail.origin.count() == 1


async def test_nobody_joins_a_body_whose_disk_has_failed(frail):
    near, _, gate = await disk_fails(frail)
    second_gate = frail.origin.hold(KEY)
    gate.open()
    await near.until(4 * MIB)
    joiner = frail.start("GET", KEY)
    await second_gate.reached()
    second_gate.open()
    assert (await joiner).result == "miss"
    assert await near.rest() == BODY
    whole = [each for each in frail.origin.exchanges if b"range" not in each.fields]
    assert len(whole) == 2


async def test_from_memory_alone_the_fill_goes_at_the_pace_of_the_slowest_near_reader(frail):
    frail.store.fails_to_begin = True
    frail.origin.put(KEY, BODY)
    slow = Reading(await frail.ask("GET", KEY))
    await slow.until(1)
    await turns(200)
    [exchange] = frail.origin.exchanges
    assert exchange.sent <= WINDOW_BYTES + 2 * frail.origin.chunk_bytes
    assert await slow.rest() == BODY


async def test_from_memory_alone_a_fill_ends_when_nobody_follows(frail):
    frail.store.fails_to_begin = True
    leaver, gate = await started(frail, 2 * 65_536)
    leaver.leave()
    gate.open()
    await frail.settled()
    assert frail.record.fills == ["abandoned"]
    assert frail.origin.open_answers == 0
    assert frail.origin.exchanges[0].sent < len(BODY)


async def test_a_caller_cancelled_at_the_moment_of_the_head_does_not_hold_up_a_fill(frail):
    frail.store.fails_to_begin = True
    frail.origin.put(KEY, BODY)
    gate = frail.origin.hold(KEY)
    stays, goes = frail.start("GET", KEY), frail.start("GET", KEY)
    await gate.reached()
    await frail.until_waiting(2)
    [fill] = frail.gateway.fills._running.values()
    gate.open()
    await frail.until(fill.outcome.done)
    goes.cancel()
    assert (await stays).body == BODY


async def test_a_disk_that_takes_no_body_fails_no_read(frail):
    frail.store.fails_to_begin = True
    frail.origin.put(KEY, BODY)
    got = await frail.get(KEY)
    assert (got.status, got.body) == (200, BODY)
    assert "stored" not in got.cache_status


@pytest.mark.parametrize("size", [1000, 3 * MIB])
async def test_a_commit_that_fails_fails_no_read(frail, size):
    frail.store.fails_to_commit = True
    frail.origin.put(KEY, BODY[:size])
    assert (await frail.get(KEY)).body == BODY[:size]
    await frail.settled()
    assert frail.entry(KEY) is None


async def test_a_body_that_cannot_be_opened_is_a_miss_that_heals_itself(frail):
    frail.origin.put(KEY, BODY)
    await frail.get(KEY)
    await frail.settled()
    frail.store.fails_to_open = True
    assert (await frail.get(KEY)).body == BODY
    await frail.settled()
    frail.store.fails_to_open = False
    assert (await frail.get(KEY)).result == "hit"
    assert frail.origin.count() == 2
    assert frail.record.removals["body", "corrupt"] == 1


# Bodies of unknown length.


async def test_a_body_of_unknown_length_is_held_until_it_is_whole(house):
    house.origin.script(KEY, Answer(200, ((b"ETag", b'"x"'),), BODY[:MIB], framing="chunked"))
    reply = await house.ask("GET", KEY)
    assert reply.length == MIB
    assert await Reading(reply).rest() == BODY[:MIB]
    await house.settled()
    assert (await house.get(KEY)).result == "hit"


async def test_a_body_of_unknown_length_past_8_mib_goes_on_without_one(house):
    body = BODY + BODY[: 2 * MIB]
    house.origin.script(KEY, Answer(200, (), body, framing="chunked"))
    gate = house.origin.hold(KEY, 9 * MIB)
    reply = await house.ask("GET", KEY)
    assert reply.length is None
    reading = Reading(reply)
    await reading.until(9 * MIB)
    gate.open()
    assert await reading.rest() == body
    await house.settled()
    assert (await house.get(KEY)).reply.length == len(body)


async def test_a_body_of_unknown_length_that_takes_its_time_goes_on_without_one(house, monkeypatch):
    monkeypatch.setattr(delivery, "_UNKNOWN_LENGTH_SECONDS", 0.01)
    house.origin.script(KEY, Answer(200, (), BODY[:MIB], framing="chunked"))
    gate = house.origin.hold(KEY, 1000)
    reply = await house.ask("GET", KEY)
    assert reply.length is None
    gate.open()
    assert await Reading(reply).rest() == BODY[:MIB]


async def test_a_torn_body_of_unknown_length_is_never_ended_cleanly(house):
    house.origin.script(
        KEY, Answer(200, ((b"ETag", b'"x"'),), BODY[:MIB], framing="chunked", ends_after=70_000)
    )
    got = await house.get(KEY)
    assert got.is_torn or got.status == 503
    await house.settled()
    assert house.entry(KEY) is None
    # Without a length there is no telling what is missing.
    assert house.origin.count() == 1


async def test_a_close_delimited_body_passes_and_is_not_stored(house):
    house.origin.script(KEY, Answer(200, (), BODY[:MIB], framing="close"))
    got = await house.get(KEY)
    assert (got.body, got.reply.length) == (BODY[:MIB], None)
    assert house.entry(KEY) is None


async def test_a_body_of_unknown_length_that_outgrows_the_limit_passes_and_is_not_stored():
    house = House(policy=Policy(max_body_bytes=2 * MIB))
    house.origin.script(KEY, Answer(200, (), BODY, framing="chunked"))
    slow = Reading(await house.ask("GET", KEY))
    await slow.until(1)
    other = Reading(await house.ask("GET", KEY))
    assert set(await asyncio.gather(slow.rest(), other.rest())) == {BODY}
    await house.settled()
    assert house.record.fills == ["not_stored_too_large"] * 2
    assert house.entry(KEY) is None
    # For a minute nobody writes so much in vain.
    assert (await house.get(KEY)).body == BODY
    assert len(house.record.fills) == 2


# The origin dies mid-body.


def dying(body, at, **more):
    return Answer(200, _validators(**more), body, ends_after=at)


def _validators(etag=b'"one"', last_modified=LAST_MODIFIED):
    named = ((b"ETag", etag), (b"Last-Modified", last_modified))
    date = (b"Date", b"Fri, 15 Jan 2027 08:00:00 GMT")
    return (date, *((name, value) for name, value in named if value is not None))


@pytest.mark.parametrize(("size", "at"), [(100_000, 1), (4 * MIB, 3 * MIB + 1), (4 * MIB, 0)])
async def test_a_body_that_breaks_off_is_resumed_once_and_stored_whole(house, size, at):
    house.origin.put(KEY, BODY[:size], etag=b'"one"')
    house.origin.script(KEY, dying(BODY[:size], at), times=1)
    got = await house.get(KEY)
    assert (got.body, got.is_torn) == (BODY[:size], False)
    await house.settled()
    _, resumed = house.origin.exchanges
    assert resumed.fields.get(b"range") == b"bytes=%d-" % at
    assert resumed.fields.get(b"if-range") == b'"one"'
    assert house.record.fills == ["stored"]
    assert (await house.get(KEY)).body == BODY[:size]
    assert house.origin.count() == 2
    assert house.origin.open_answers == 0


async def test_a_last_modified_long_past_is_validator_enough_to_resume(house):
    house.origin.put(KEY, BODY, etag=None)
    house.origin.script(KEY, dying(BODY, MIB, etag=None), times=1)
    assert (await house.get(KEY)).body == BODY
    assert house.origin.exchanges[1].fields.get(b"if-range") == LAST_MODIFIED


@pytest.mark.parametrize(
    "validators",
    [
        {"etag": None, "last_modified": None},
        {"etag": b'W/"one"'},
        {"etag": None, "last_modified": b"Fri, 15 Jan 2027 07:59:30 GMT"},
    ],
    ids=["none", "weak", "too young"],
)
async def test_a_body_without_a_strong_validator_that_breaks_off_is_cut(house, validators):
    house.origin.put(KEY, BODY)
    house.origin.script(KEY, dying(BODY, 2 * MIB, **validators), times=1)
    got = await house.get(KEY)
    assert got.is_torn
    assert len(got.body) <= 2 * MIB
    await house.settled()
    assert (house.entry(KEY), house.record.fills) == (None, ["torn"])
    assert house.origin.count() == 1


@pytest.mark.parametrize("size", [100_000, 4 * MIB], ids=["small", "large"])
async def test_a_body_that_changed_when_it_is_resumed_is_never_mixed(house, size):
    house.origin.put(KEY, BODY[:size][::-1], etag=b'"two"')
    house.origin.script(KEY, dying(BODY[:size], 50_000), times=1)
    got = await house.get(KEY)
    assert got.is_torn or got.status == 503
    assert got.status == 503 or BODY.startswith(got.body)
    await house.settled()
    assert house.entry(KEY) is None


PARTS = {
    "another etag": ((b"ETag", b'"two"'), (b"Content-Range", b"bytes 50000-99999/100000")),
    "another start": ((b"ETag", b'"one"'), (b"Content-Range", b"bytes 0-49999/100000")),
    "another length": ((b"ETag", b'"one"'), (b"Content-Range", b"bytes 50000-99998/99999")),
    "no Content-Range": ((b"ETag", b'"one"'),),
    "no etag": ((b"Content-Range", b"bytes 50000-99999/100000"),),
}


@pytest.mark.parametrize("fields", PARTS.values(), ids=PARTS)
async def test_a_part_that_does_not_fit_is_not_put_behind_what_there_is(house, fields):
    body = BODY[:100_000]
    house.origin.script(KEY, Answer(206, fields, body[50_000:]))
    house.origin.script(KEY, dying(body, 50_000), times=1)
    got = await house.get(KEY)
    assert got.status == 503 or got.is_torn
    await house.settled()
    assert house.entry(KEY) is None


@pytest.mark.parametrize("sent", [10_000, 60_000], ids=["too few", "too many"])
async def test_a_part_whose_bytes_are_not_as_many_as_it_says_never_hangs_nor_lies(house, sent):
    size = 600_000
    body = BODY[:size]
    told = (b"Content-Range", b"bytes 550000-599999/600000")
    house.origin.script(
        KEY, Answer(206, ((b"ETag", b'"one"'), told), (body + body)[550_000 : 550_000 + sent])
    )
    house.origin.script(KEY, dying(body, 550_000), times=1)
    got = await house.get(KEY)
    await house.settled()
    if sent > 50_000:
        assert (got.body, got.is_torn) == (body, False)
    else:
        assert got.is_torn
        assert house.entry(KEY) is None


async def test_an_origin_that_breaks_off_again_and_again_is_given_up(house):
    house.origin.put(KEY, BODY, etag=b'"one"')

    def broken(request):
        first = int((request.fields.get(b"range") or b"bytes=0-")[6:-1])
        told = (b"Content-Range", b"bytes %d-%d/%d" % (first, len(BODY) - 1, len(BODY)))
        status = 206 if first else 200
        return Answer(status, (*_validators(), told), BODY[first:], ends_after=300_000)

    house.origin.script(KEY, broken)
    got = await house.get(KEY)
    assert got.is_torn
    # Four times for all, then perhaps for the reader alone.
    assert 4 <= house.origin.count() <= 8
    await house.settled()
    assert house.entry(KEY) is None


async def test_small_chunks_and_large_make_the_same_body(house):
    house.origin.chunk_bytes = 777
    house.origin.put(KEY, BODY[: 3 * MIB])
    assert (await house.get(KEY)).body == BODY[: 3 * MIB]
    await house.settled()
    assert (await house.get(KEY)).body == BODY[: 3 * MIB]


@pytest.mark.parametrize(("size", "most"), [(100_000, 250_000), (3 * MIB, 600_000)])
async def test_bodies_waiting_for_their_commit_are_bounded(frail, monkeypatch, size, most):
    monkeypatch.setattr(keeping, "UNCOMMITTED_BYTES", most)
    frail.store.commit_gate = asyncio.Event()
    for n in range(4):
        frail.origin.put(b"/a/c/%d" % n, BODY[:size])
        assert (await frail.get(b"/a/c/%d" % n)).body == BODY[:size]
    await frail.until(lambda: frail.record.fills.count("refused") == 2)
    frail.store.commit_gate.set()
    await frail.settled()
    assert sorted(frail.record.fills) == ["refused", "refused", "stored", "stored"]
    assert frail.edges.uncommitted_bytes == 0


async def test_a_large_body_that_waits_for_its_commit_and_is_read_by_nobody_leaves_memory(frail):
    frail.store.commit_gate = asyncio.Event()
    frail.origin.put(KEY, BODY[: 3 * MIB])
    assert (await frail.get(KEY)).body == BODY[: 3 * MIB]
    await frail.until(lambda: frail.store.commits_waiting == 1)
    (fill,) = frail.gateway.fills._running.values()
    assert not fill.growing().body._window
    late = await frail.get(KEY)
    assert (late.body, late.result) == (BODY[: 3 * MIB], "collapsed")
    frail.store.commit_gate.set()
    await frail.settled()
    assert frail.record.fills == ["stored"]
    assert frail.origin.count() == 1


@pytest.mark.parametrize("range_", [b"bytes=-1", b"bytes=10-", b"bytes=10-10"])
async def test_a_range_of_a_body_that_is_being_committed_is_taken_from_it(frail, range_):
    """It was answered before its commit: whoever read it may ask for its end at once."""
    frail.store.commit_gate = asyncio.Event()
    frail.origin.put(KEY, b"0123456789A")
    assert (await frail.get(KEY)).status == 200
    await frail.until(lambda: frail.store.commits_waiting == 1)
    got = await frail.get(KEY, (b"Range", range_))
    frail.store.commit_gate.set()
    assert (got.status, got.body, got.result) == (206, b"A", "collapsed")
    assert frail.origin.count() == 1


NO_CACHE = (b"Cache-Control", b"no-cache")


async def test_who_comes_before_the_commit_of_what_must_be_validated_validates_it(frail):
    frail.store.commit_gate = asyncio.Event()
    frail.origin.put(KEY, b"body", fields=(NO_CACHE,))
    assert (await frail.get(KEY)).body == b"body"
    await frail.until(lambda: frail.store.commits_waiting == 1)
    next_ = frail.start("GET", KEY)
    await turns()
    frail.store.commit_gate.set()
    got = await next_
    assert (got.status, got.body, got.result) == (200, b"body", "revalidated")
    assert frail.origin.count() == 2


async def test_a_commit_that_takes_long_is_not_waited_for(frail, monkeypatch):
    monkeypatch.setattr(fills, "COMMIT_SECONDS", 0.01)
    frail.store.commit_gate = asyncio.Event()
    frail.origin.put(KEY, b"body", fields=(NO_CACHE,))
    assert (await frail.get(KEY)).body == b"body"
    await frail.until(lambda: frail.store.commits_waiting == 1)
    assert (await frail.get(KEY)).result == "miss"
    frail.store.commit_gate.set()


async def test_a_commit_that_a_write_has_refused_is_not_waited_for(frail, monkeypatch):
    monkeypatch.setattr(fills, "COMMIT_SECONDS", 3600.0)
    frail.store.commit_gate = asyncio.Event()
    frail.origin.put(KEY, b"body", fields=(NO_CACHE,))
    assert (await frail.get(KEY)).body == b"body"
    await frail.until(lambda: frail.store.commits_waiting == 1)
    await frail.put(KEY, b"newer")
    async with asyncio.timeout(20):
        assert (await frail.get(KEY)).body == b"newer"
    frail.store.commit_gate.set()


async def test_a_suffix_near_the_end_of_what_has_arrived_follows_it(house):
    first, gate = await started(house, len(BODY) - MIB // 2)
    part = house.start("GET", KEY, (b"Range", b"bytes=-10"))
    await turns()
    gate.open()
    got = await part
    assert (got.status, got.body, got.result) == (206, BODY[-10:], "collapsed")
    assert await first.rest() == BODY
    assert house.origin.count() == 1
