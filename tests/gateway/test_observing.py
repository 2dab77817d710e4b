"""mode=observe: the origin answers everything, and the cache is held against its answers."""

import pytest

from chunkside.core.freshness import Policy
from chunkside.gateway.at_once import AtOnce
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import House, Reading

KEY, HOLE = b"/a/c/0", b"/a/c/1"
ALICE = (b"Authorization", b"Bearer alice")


@pytest.fixture(params=["memory", "disk"])
async def house(request, tmp_path):
    if request.param == "memory":
        house = House(only_observes=True, audit_share=1.0)
        yield house
        await house.settled()
    else:
        house, disk = await disk_house(tmp_path, only_observes=True)
        yield house
        await close(house, disk)


async def observed(house, target, *fields, method="GET"):
    got = await house.send(method, target, *fields)
    await house.settled()
    return got


def is_relayed(got, status):
    return (got.result, got.status, got.cache_status) == (
        "bypass",
        status,
        f"chunkside; fwd=bypass; fwd-status={status}; detail=observe",
    )


async def test_a_miss_is_answered_by_the_origin_and_stored_by_a_request_of_its_own(house):
    house.origin.put(KEY, b"body")
    got = await observed(house, KEY)
    assert is_relayed(got, 200)
    assert got.body == b"body"
    assert house.origin.count("GET", KEY) == 2
    assert house.entry(KEY) is not None
    assert house.record.audits == []


async def test_what_would_be_a_hit_is_answered_by_the_origin_and_compared(house):
    house.origin.put(KEY, b"body" * 50_000)
    await observed(house, KEY)
    await observed(house, HOLE)
    house.origin.exchanges.clear()
    got = await observed(house, KEY)
    assert is_relayed(got, 200)
    assert got.body == b"body" * 50_000
    assert is_relayed(await observed(house, HOLE), 404)
    # One request each: nothing is asked twice.
    assert house.origin.count() == 2
    assert house.record.audits == [("body", "agree"), ("marker", "agree")]


async def test_what_changed_is_changed_and_nobody_was_told_otherwise(house):
    house.origin.put(KEY, b"old")
    await observed(house, KEY)
    await observed(house, HOLE)
    house.origin.put(KEY, b"new")
    house.origin.put(HOLE, b"there")
    assert (await observed(house, KEY)).body == b"new"
    assert (await observed(house, HOLE)).body == b"there"
    assert house.record.audits == [("body", "changed"), ("marker", "changed")]
    assert house.entry(KEY) is None
    assert house.entry(HOLE) is None


async def test_a_wrong_body_is_wrong(house, caplog):
    house.origin.put(KEY, b"one", etag=b'"v"')
    await observed(house, KEY)
    house.origin.put(KEY, b"two", etag=b'"v"')
    assert (await observed(house, KEY)).body == b"two"
    assert house.record.audits == [("body", "wrong")]
    assert house.entry(KEY) is None
    assert len(caplog.records) == 1


async def test_the_request_reaches_the_origin_as_it_came(house):
    house.origin.put(KEY, b"body", etag=b'"v"')
    await observed(house, KEY)
    house.origin.exchanges.clear()
    fields = (ALICE, (b"If-None-Match", b'"v"'), (b"Accept-Encoding", b"zstd"))
    assert is_relayed(await observed(house, KEY, *fields), 304)
    asked = house.origin.exchanges[0]
    assert asked.fields.lines == fields


async def test_a_condition_that_is_met_is_no_verdict(house):
    house.origin.put(KEY, b"body", etag=b'"v"')
    await observed(house, KEY)
    house.origin.exchanges.clear()
    assert is_relayed(await observed(house, KEY, (b"If-None-Match", b'"v"')), 304)
    assert house.origin.count() == 1
    assert (house.record.audits, house.record.left_out) == ([], [])


@pytest.mark.parametrize("value", [b"bytes=10-19", b"bytes=-5"])
async def test_ranges_are_compared_with_what_is_held_of_them(house, value):
    house.origin.put(KEY, bytes(range(100)), etag=b'"v"')
    part = (b"Range", value)
    assert is_relayed(await observed(house, KEY, part), 206)
    house.origin.exchanges.clear()
    assert is_relayed(await observed(house, KEY, part), 206)
    assert house.origin.count() == 1
    assert house.record.audits == [("range", "agree")]
    house.origin.put(KEY, bytes(100), etag=b'"v"')
    assert is_relayed(await observed(house, KEY, part), 206)
    assert house.record.audits[1:] == [("range", "wrong")]


async def test_a_range_of_a_body_is_compared_with_that_part(house):
    house.origin.put(KEY, bytes(range(100)), etag=b'"v"')
    await observed(house, KEY)
    await observed(house, KEY, (b"Range", b"bytes=10-19"))
    assert house.record.audits == [("body", "agree")]
    house.origin.put(KEY, bytes(101), etag=b'"v"')
    await observed(house, KEY, (b"Range", b"bytes=10-19"))
    assert house.record.audits[1:] == [("body", "wrong")]


async def test_what_may_not_be_stored_is_not_asked_for_twice(house):
    secret = Answer(200, ((b"Cache-Control", b"no-store"),), b"x")
    house.origin.script(KEY, secret)
    house.origin.script(HOLE, Answer(403))
    await observed(house, KEY)
    await observed(house, HOLE)
    assert house.origin.count() == 2


async def test_a_write_meanwhile_leaves_nothing_to_judge(house):
    house.origin.put(KEY, b"old", etag=b'"v"')
    await observed(house, KEY)
    gate = house.origin.hold(KEY, at=1)
    house.origin.put(KEY, b"other", etag=b'"v"')
    reading = Reading(await house.ask("GET", KEY))
    await house.put(KEY, b"new")
    gate.open()
    assert await reading.rest() == b"other"
    await house.settled()
    assert house.record.audits == []


async def test_who_leaves_in_the_middle_leaves_nothing_to_judge(house):
    house.origin.put(KEY, b"body" * 100_000)
    await observed(house, KEY)
    reading = Reading(await house.ask("GET", KEY))
    await reading.until(10)
    reading.leave()
    await house.settled()
    assert (house.record.audits, house.entry(KEY) is None) == ([], False)
    assert house.edges.index.leased_keys() == []


@pytest.mark.parametrize("fault", ["refused", "silent", Answer(503)], ids=str)
async def test_an_error_is_the_origin_s_own_and_no_verdict(house, fault):
    house.origin.put(KEY, b"body")
    await observed(house, KEY)
    await observed(house, HOLE)
    house.origin.script(KEY, fault)
    house.origin.script(HOLE, fault)
    entries = house.entry(KEY), house.entry(HOLE)
    for target in (KEY, HOLE):
        got = await observed(house, target)
        assert got.status >= 500
    assert house.record.audits == []
    assert (house.entry(KEY), house.entry(HOLE)) == entries
    assert house.edges.index.leased_keys() == []


async def test_writes_are_fenced_as_ever(house):
    house.origin.put(KEY, b"old")
    await observed(house, KEY)
    got = await house.put(KEY, b"new")
    assert got.cache_status == "chunkside; fwd=method; fwd-status=204"
    assert house.entry(KEY) is None


async def test_nothing_is_refused_for_want_of_being_stored(house):
    got = await observed(house, HOLE, (b"Cache-Control", b"only-if-cached"))
    assert is_relayed(got, 404)


async def test_a_head_makes_a_marker_where_those_answer_heads():
    house = House(only_observes=True, policy=Policy(negative_scope="all"))
    assert is_relayed(await observed(house, HOLE, method="HEAD"), 404)
    assert house.entry(HOLE) is not None
    assert is_relayed(await observed(house, HOLE, method="HEAD"), 404)


async def test_listings_pass():
    house = House(only_observes=True, policy=Policy(negative_scope="all"))
    probe = b"/bucket?list-type=2&prefix=a%2Fc%2F1%2F&delimiter=%2F&max-keys=1"
    await observed(house, b"/bucket/a/c/1")
    assert (await observed(house, probe)).result == "bypass"
    assert (await observed(house, probe)).result == "bypass"


async def test_readers_go_before_what_is_stored(house):
    house.edges.most_orphans = 0
    house.origin.put(KEY, b"body")
    assert (await observed(house, KEY)).body == b"body"
    assert house.origin.count() == 1


async def test_the_fast_lane_is_not_taken(house):
    at_once = AtOnce(house.edges)
    assert at_once.sit(house.request("GET", KEY)) is None


@pytest.mark.parametrize(
    ("fields", "status"),
    [((b"Range", b"bytes=0-1"), 206), ((b"If-None-Match", b'"v"'), 304)],
    ids=["206", "304"],
)
async def test_whatever_shows_that_it_is_there_speaks_against_a_marker(fields, status):
    house = House(only_observes=True, policy=Policy(negative_scope="all"))
    await observed(house, HOLE)
    house.origin.put(HOLE, b"there", etag=b'"v"')
    assert is_relayed(await observed(house, HOLE, fields), status)
    assert house.record.audits == [("marker", "changed")]
    assert house.entry(HOLE) is None


async def test_nonsense_is_no_verdict(house):
    await observed(house, HOLE)
    house.origin.script(HOLE, Answer(204))
    assert (await observed(house, HOLE)).status == 502
    assert house.record.audits == []
    assert house.edges.index.leased_keys() == []


async def test_what_is_stale_is_validated_by_a_request_of_its_own(house):
    house.origin.put(KEY, b"body", etag=b'"v"')
    await observed(house, KEY)
    house.now.advance(301)
    assert is_relayed(await observed(house, KEY), 200)
    assert house.origin.requests("GET", KEY)[-1].status == 304
    assert is_relayed(await observed(house, KEY), 200)
    assert house.record.audits == [("body", "agree")]


async def test_what_may_be_served_stale_is_validated_meanwhile(house):
    lifetime = ((b"Cache-Control", b"max-age=10, stale-while-revalidate=60"),)
    house.origin.put(KEY, b"body", etag=b'"v"', fields=lifetime)
    await observed(house, KEY)
    house.now.advance(20)
    assert is_relayed(await observed(house, KEY), 200)
    assert house.origin.requests("GET", KEY)[-1].status == 304


async def test_a_file_of_no_use_is_a_miss(tmp_path):
    house, disk = await disk_house(tmp_path, only_observes=True)
    house.origin.put(KEY, b"body", etag=b'"v"')
    await observed(house, KEY)
    [path] = tmp_path.rglob("*.arrow")
    path.unlink()
    got = await observed(house, KEY)
    assert is_relayed(got, 200)
    assert got.body == b"body"
    assert house.record.audits == []
    await close(house, disk)
