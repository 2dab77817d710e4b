"""What a stored body answers, and what becomes of it when it is stale."""

import pytest

from chunkside.core.entry import Absent, Present
from chunkside.core.freshness import Policy
from tests.support.fake_upstream import LAST_MODIFIED, Answer
from tests.support.house import House

KEY = b"/a/c/0"
SMALL = b"0123456789"
LARGE = bytes(range(256)) * 2000


@pytest.fixture(params=[SMALL, LARGE], ids=["small", "large"])
async def body(request, house):
    house.origin.put(KEY, request.param, etag=b'"one"', fields=((b"X-Meta", b"\xe9 \xff"),))
    await house.get(KEY)
    await house.settled()
    return request.param


async def test_a_hit_bears_the_origins_fields_byte_for_byte_and_its_age(house, body):
    house.now.advance(12)
    got = await house.get(KEY)
    assert (got.status, got.result, got.body) == (200, "hit", body)
    assert got.field(b"x-meta") == b"\xe9 \xff"
    assert (got.field(b"etag"), got.field(b"last-modified")) == (b'"one"', LAST_MODIFIED)
    assert got.reply.age == 12
    assert got.cache_status == "chunkside; hit; ttl=288"


RANGES = {
    "first": (b"bytes=0-3", 0, 4),
    "middle": (b"bytes=3-5", 3, 6),
    "open": (b"bytes=4-", 4, None),
    "suffix": (b"bytes=-4", -4, None),
    "longer than it is": (b"bytes=2-999999999", 2, None),
    "suffix longer than it is": (b"bytes=-999999999", 0, None),
}


@pytest.mark.parametrize(("asked", "first", "end"), RANGES.values(), ids=RANGES)
async def test_a_range_of_a_stored_body_is_exact(house, body, asked, first, end):
    got = await house.get(KEY, (b"Range", asked))
    assert (got.status, got.result, got.body) == (206, "hit", body[first:end])
    start = len(body) - len(body[first:])
    told = b"bytes %d-%d/%d" % (start, start + len(got.body) - 1, len(body))
    assert got.field(b"content-range") == told
    assert house.origin.count() == 1


async def test_a_range_past_the_end_cannot_be_satisfied(house, body):
    got = await house.get(KEY, (b"Range", b"bytes=%d-" % len(body)))
    assert (got.status, got.body) == (416, b"")
    assert got.field(b"content-range") == b"bytes */%d" % len(body)


async def test_several_ranges_are_the_origins_business(house, body):
    assert (await house.get(KEY, (b"Range", b"bytes=0-1,3-4"))).result == "bypass"


@pytest.mark.parametrize(
    ("field", "status"),
    [
        ((b"If-None-Match", b'"one"'), 304),
        ((b"If-None-Match", b'W/"one", "x"'), 304),
        ((b"If-None-Match", b'"two"'), 200),
        ((b"If-Modified-Since", LAST_MODIFIED), 304),
        ((b"If-Modified-Since", b"Wed, 01 Jul 2020 12:00:00 GMT"), 200),
        ((b"If-Match", b'"two"'), 412),
        ((b"If-Match", b'"one"'), 200),
        ((b"If-Unmodified-Since", b"Wed, 01 Jul 2020 12:00:00 GMT"), 412),
    ],
)
async def test_conditions_are_judged_against_the_stored_body(house, body, field, status):
    got = await house.get(KEY, field)
    assert (got.status, got.result) == (status, "hit")
    assert got.body == (body if status == 200 else b"")
    assert house.origin.count() == 1


@pytest.mark.parametrize(
    ("condition", "status"), [(b'"one"', 206), (b'"two"', 200), (b'W/"one"', 200)]
)
async def test_if_range_takes_a_strong_match_only(house, body, condition, status):
    got = await house.get(KEY, (b"Range", b"bytes=0-3"), (b"If-Range", condition))
    assert (got.status, got.body) == (status, body[:4] if status == 206 else body)


async def test_a_head_of_a_stored_body_is_answered_from_it(house, body):
    got = await house.send("HEAD", KEY)
    assert (got.status, got.result, got.body, got.reply.length) == (200, "hit", b"", len(body))
    assert (await house.send("HEAD", KEY, (b"If-None-Match", b'"one"'))).status == 304
    assert house.origin.count() == 1


async def test_a_head_of_what_is_not_held_is_relayed_and_stores_nothing(house):
    house.origin.put(KEY, SMALL)
    got = await house.send("HEAD", KEY)
    assert (got.status, got.reply.length) == (200, len(SMALL))
    assert house.entry(KEY) is None


# Stale.


async def test_a_304_freshens_a_stale_body_and_moves_no_bytes(house, body):
    house.now.advance(301)
    house.origin.put(KEY, body, etag=b'"one"', fields=((b"X-Meta", b"new"), (b"X-More", b"1")))
    before = house.record.received_bytes
    got = await house.get(KEY)
    assert (got.status, got.result, got.body) == (200, "revalidated", body)
    assert (got.field(b"x-meta"), got.field(b"x-more")) == (b"new", b"1")
    assert house.record.received_bytes == before
    _, asked = house.origin.exchanges
    assert asked.fields.get(b"if-none-match") == b'"one"'
    assert asked.fields.get(b"if-modified-since") == LAST_MODIFIED
    house.now.advance(299)
    again = await house.get(KEY)
    assert (again.result, again.field(b"x-meta")) == ("hit", b"new")
    assert house.origin.count() == 2


async def test_a_client_whose_version_still_holds_gets_a_304_of_a_freshened_body(house, body):
    house.now.advance(301)
    got = await house.get(KEY, (b"If-None-Match", b'"one"'))
    assert (got.status, got.result) == (304, "revalidated")


async def test_after_a_304_that_names_another_version_the_body_is_brought_anew(house, body):
    house.now.advance(301)
    house.origin.put(KEY, b"two", etag=b'"two"')
    house.origin.script(KEY, Answer(304, ((b"ETag", b'"two"'),)), times=1)
    got = await house.get(KEY)
    assert (got.status, got.result, got.body) == (200, "miss", b"two")
    asked = house.origin.requests("GET")[-1]
    assert b"if-none-match" not in asked.fields and b"if-modified-since" not in asked.fields


async def test_an_origin_that_answers_304_to_everything_is_told_as_nonsense(house, body):
    house.now.advance(301)
    house.origin.script(KEY, Answer(304, ((b"ETag", b'"two"'),)))
    assert (await house.get(KEY)).status == 502
    assert house.entry(KEY) is None


async def test_a_200_replaces_a_stale_body(house, body):
    house.now.advance(301)
    house.origin.put(KEY, b"two", etag=b'"two"')
    got = await house.get(KEY)
    assert (got.body, got.result) == (b"two", "miss")
    await house.settled()
    assert (await house.get(KEY)).body == b"two"
    assert house.record.removals["body", "replaced"] == 1


@pytest.mark.parametrize("status", [404, 410])
async def test_an_absence_found_on_validation_drops_the_body_and_makes_a_marker(
    house, body, status
):
    house.now.advance(301)
    house.origin.script(KEY, Answer(status))
    assert (await house.get(KEY)).status == status
    assert isinstance(house.entry(KEY), Absent)
    assert (await house.get(KEY)).result == "negative_hit"


async def test_a_404_relayed_for_a_stale_body_drops_it(house, body):
    house.now.advance(301)
    house.origin.objects.clear()
    assert (await house.send("HEAD", KEY)).status == 404
    assert house.entry(KEY) is None


FAILURES = {
    "500": Answer(500),
    "503": Answer(503),
    "429": Answer(429),
    "refused": "refused",
    "silence": "silent",
    "dies": "dies",
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_a_stale_body_stands_in_for_an_origin_that_fails(house, body, failure):
    house.now.advance(301)
    house.origin.script(KEY, failure)
    got = await house.get(KEY)
    assert (got.status, got.result, got.body) == (200, "stale", body)
    assert "ttl=-1" in got.cache_status
    house.now.advance(86_400)
    assert (await house.get(KEY)).status >= 429


async def test_who_may_not_see_it_any_more_does_not(house, body):
    for status in (401, 403):
        house.now.advance(301)
        house.origin.script(KEY, Answer(status), times=1)
        assert (await house.get(KEY)).status == status
        assert house.entry(KEY) is None
        await house.get(KEY)
        await house.settled()


async def test_a_body_without_a_validator_does_not_stand_in(house):
    house.origin.put(KEY, SMALL, etag=None, last_modified=None)
    await house.get(KEY)
    await house.settled()
    house.now.advance(301)
    house.origin.script(KEY, Answer(503))
    assert (await house.get(KEY)).status == 503


async def test_a_body_that_must_be_validated_does_not_stand_in(house):
    house.origin.put(KEY, SMALL, fields=((b"Cache-Control", b"max-age=10, must-revalidate"),))
    await house.get(KEY)
    await house.settled()
    house.now.advance(11)
    house.origin.script(KEY, Answer(503))
    assert (await house.get(KEY)).status == 503


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_an_absence_never_stands_in(house, failure):
    await house.get(KEY)
    house.now.advance(301)
    house.origin.script(KEY, failure)
    assert (await house.get(KEY)).status >= 429


async def test_a_freshening_is_fenced_by_a_write(house, body):
    house.now.advance(301)
    gate = house.origin.hold(KEY)
    reader = house.start("GET", KEY)
    await gate.reached()
    await house.put(KEY, b"new")
    gate.open()
    # He asked before the write.
    assert (await reader).status in (200, 503)
    assert (await house.get(KEY)).body == b"new"


async def test_lifetimes_are_the_origins_where_it_gives_them(house):
    house.origin.put(KEY, SMALL, fields=((b"Cache-Control", b"max-age=1000"),))
    await house.get(KEY)
    await house.settled()
    house.now.advance(999)
    assert (await house.get(KEY)).result == "hit"
    house.now.advance(2)
    assert (await house.get(KEY)).result == "revalidated"


async def test_metadata_lives_for_metadata_ttl(house):
    house.origin.put(b"/a/zarr.json", SMALL)
    await house.get(b"/a/zarr.json")
    await house.settled()
    house.now.advance(4)
    assert (await house.get(b"/a/zarr.json")).result == "hit"
    house.now.advance(2)
    assert (await house.get(b"/a/zarr.json")).result == "revalidated"


async def test_a_clock_that_steps_back_makes_nothing_younger(house, body):
    house.now.wall -= 3600
    assert (await house.get(KEY)).result == "revalidated"


UNSTORABLE = {
    "no-store": ((b"Cache-Control", b"no-store"),),
    "private": ((b"Cache-Control", b"private"),),
    "Vary: *": ((b"Vary", b"*"),),
    "html": ((b"Content-Type", b"text/html; charset=utf-8"),),
}


@pytest.mark.parametrize("fields", UNSTORABLE.values(), ids=UNSTORABLE)
async def test_an_answer_that_may_not_be_stored_passes_untouched(house, fields):
    house.origin.put(KEY, LARGE, fields=fields)
    got = await house.get(KEY)
    assert (got.status, got.body, got.result) == (200, LARGE, "miss")
    for name, value in fields:
        assert got.field(name.lower()) == value
    await house.settled()
    assert house.entry(KEY) is None


async def test_a_body_past_the_limit_passes_and_is_not_stored():
    house = House(policy=Policy(max_body_bytes=9))
    house.origin.put(KEY, SMALL)
    assert (await house.get(KEY)).body == SMALL
    assert house.entry(KEY) is None


async def test_writes_are_refused_where_they_are_not_allowed():
    house = House(policy=Policy(allow_writes=False))
    got = await house.put(KEY, b"x")
    assert (got.status, got.field(b"allow")) == (405, b"GET, HEAD, OPTIONS")
    assert house.origin.count() == 0


@pytest.mark.parametrize("method", ["OPTIONS", "PROPFIND", "REPORT", "SEARCH"])
async def test_other_safe_methods_are_relayed_and_drop_nothing(house, body, method):
    assert (await house.send(method, KEY)).status == 200
    assert isinstance(house.entry(KEY), Present)
