"""A remembered absence is earned: only a whole 404 to a full GET of that very key makes one."""

import pytest

from chunkside.core.budget import Limits
from chunkside.core.entry import Absent, Present
from chunkside.core.freshness import Policy
from tests.support.fake_upstream import Answer
from tests.support.house import House

GONE = Answer(404, ((b"Content-Type", b"text/plain"),), b"no such object\n")


async def test_an_absent_key_is_asked_for_once(house):
    first = await house.get(b"/a/c/0")
    second = await house.get(b"/a/c/0")
    assert (first.status, first.result, first.body) == (404, "miss", b"no such object\n")
    assert (second.status, second.result, second.body) == (404, "negative_hit", b"")
    assert second.cache_status == "chunkside; hit; ttl=300; detail=negative"
    assert house.origin.count() == 1
    assert house.record.fills == ["absent"]


async def test_a_410_is_remembered_as_what_it_was(house):
    house.origin.script(b"/a/c/0", Answer(410))
    await house.get(b"/a/c/0")
    assert (await house.get(b"/a/c/0")).status == 410
    assert house.origin.count() == 1


async def test_a_marker_lives_for_negative_ttl_from_when_its_request_was_sent(house):
    await house.get(b"/a/c/0")
    house.now.advance(298)
    assert (await house.get(b"/a/c/0")).result == "negative_hit"
    house.now.advance(3)
    house.origin.put(b"/a/c/0", b"appeared")
    assert (await house.get(b"/a/c/0")).body == b"appeared"
    await house.settled()
    assert isinstance(house.entry(b"/a/c/0"), Present)


async def test_use_does_not_renew_a_marker(house):
    await house.get(b"/a/c/0")
    for _ in range(4):
        house.now.advance(100)
        await house.get(b"/a/c/0")
    assert house.origin.count() == 2


async def test_an_absence_of_metadata_lives_for_metadata_ttl(house):
    await house.get(b"/a/zarr.json")
    house.now.advance(7)
    await house.get(b"/a/zarr.json")
    assert house.origin.count() == 2


@pytest.mark.parametrize(
    ("method", "fields"),
    [("HEAD", ()), ("GET", ((b"Range", b"bytes=0-9"),)), ("GET", ((b"Range", b"bytes=-9"),))],
    ids=["HEAD", "a range", "a suffix"],
)
async def test_a_404_to_anything_but_a_full_get_makes_no_marker(house, method, fields):
    assert (await house.send(method, b"/a/c/0", *fields)).status == 404
    assert house.entry(b"/a/c/0") is None


NOT_ABSENT = {
    "403": Answer(403, body=b"<Code>AccessDenied</Code>"),
    "401": Answer(401),
    "429": Answer(429),
    "500": Answer(500, body=b"oops"),
    "503": Answer(503),
    "another absence": Answer(404, body=b"<Error><Code>NoSuchBucket</Code></Error>"),
    "no-store": Answer(404, ((b"Cache-Control", b"no-store"),)),
    "unframed": Answer(404, body=b"gone", framing="close"),
    "oversized": Answer(404, body=b"x" * 70_000),
    "oversized, chunked": Answer(404, body=b"x" * 70_000, framing="chunked"),
    "redirect": Answer(302, ((b"Location", b"/b"),)),
}


@pytest.mark.parametrize("answer", NOT_ABSENT.values(), ids=NOT_ABSENT)
async def test_what_is_no_proof_of_absence_reaches_the_client_as_it_is_and_makes_no_marker(
    house, answer
):
    house.origin.script(b"/a/c/0", answer)
    got = await house.get(b"/a/c/0")
    assert (got.status, got.body) == (answer.status, answer.body)
    assert house.entry(b"/a/c/0") is None
    house.origin.behave()
    house.origin.put(b"/a/c/0", b"here")
    assert (await house.get(b"/a/c/0")).body == b"here"
    assert house.origin.open_answers == 0


@pytest.mark.parametrize(
    ("what", "status"),
    [
        (Answer(404, body=b"no such", announced=100), 503),
        (Answer(404, body=b"no such", framing="chunked", ends_after=3), 503),
        ("silent", 504),
        ("refused", 503),
        ("dies", 503),
        ("garbage", 502),
    ],
    ids=["torn 404", "torn chunked 404", "silence", "refused", "dies", "garbage"],
)
async def test_half_an_answer_or_none_is_an_error_and_never_an_absence(house, what, status):
    house.origin.script(b"/a/c/0", what)
    got = await house.get(b"/a/c/0")
    assert (got.status, got.result) == (status, "error")
    assert (got.field(b"retry-after") is not None) == (status == 503)
    assert house.entry(b"/a/c/0") is None
    house.origin.behave()
    assert (await house.get(b"/a/c/0")).result == "miss"


@pytest.mark.parametrize("status", [204, 205, 206, 304])
async def test_an_answer_that_a_plain_get_cannot_have_is_nonsense(house, status):
    house.origin.script(b"/a/c/0", Answer(status))
    assert (await house.get(b"/a/c/0")).status == 502
    assert house.entry(b"/a/c/0") is None
    assert house.origin.open_answers == 0


async def test_absences_are_not_remembered_where_that_is_switched_off():
    house = House(policy=Policy(cache_missing=False))
    await house.get(b"/a/c/0")
    await house.get(b"/a/c/0")
    assert house.origin.count() == 2


@pytest.mark.parametrize(
    ("method", "fields", "status"),
    [
        ("HEAD", (), 200),
        ("GET", ((b"Range", b"bytes=0-1"),), 206),
    ],
    ids=["HEAD 200", "206"],
)
async def test_evidence_that_a_key_exists_drops_its_marker(house, method, fields, status):
    await house.get(b"/a/c/0")
    assert isinstance(house.entry(b"/a/c/0"), Absent)
    house.origin.put(b"/a/c/0", b"appeared")
    assert (await house.send(method, b"/a/c/0", *fields)).status == status
    assert not isinstance(house.entry(b"/a/c/0"), Absent)
    assert (await house.get(b"/a/c/0")).body == b"appeared"


async def test_a_relayed_412_drops_a_marker(house):
    await house.get(b"/a/c/0")
    house.origin.script(b"/a/c/0", Answer(412), method="HEAD")
    await house.send("HEAD", b"/a/c/0", (b"If-Match", b'"x"'))
    assert house.entry(b"/a/c/0") is None


async def test_a_200_that_may_not_be_stored_drops_a_marker_too(house):
    await house.get(b"/a/c/0")
    house.origin.script(b"/a/c/0", Answer(200, ((b"Cache-Control", b"no-store"),), b"data"))
    # A page of another origin can't use the marker, so the origin is asked.
    assert (await house.get(b"/a/c/0", (b"Origin", b"http://page"))).body == b"data"
    assert (await house.get(b"/a/c/0")).body == b"data"


async def test_a_head_of_an_absent_key_tells_what_a_get_would_get(house):
    await house.get(b"/a/c/0")
    assert "detail=negative" in (await house.send("HEAD", b"/a/c/0")).cache_status


async def test_an_absence_that_arrives_after_proof_of_existence_is_not_remembered(house):
    gate = house.origin.hold(b"/a/c/0")
    late = house.start("GET", b"/a/c/0")
    await gate.reached()
    house.origin.put(b"/a/c/0", b"appeared")
    assert (await house.send("HEAD", b"/a/c/0")).status == 200
    gate.open()
    assert (await late).status == 404
    assert house.entry(b"/a/c/0") is None
    assert (await house.get(b"/a/c/0")).body == b"appeared"


async def test_a_negative_hit_is_a_use():
    house = House(limits=Limits(budget_bytes=1 << 20, max_markers=2))
    for target in (b"/0", b"/1", b"/0", b"/2"):
        await house.get(target)
    assert isinstance(house.entry(b"/0"), Absent)
    assert house.entry(b"/1") is None
