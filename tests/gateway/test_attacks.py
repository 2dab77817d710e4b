"""Exchanges that broke a promise once."""

import pytest

from chunkside.core.entry import Present
from tests.support.fake_upstream import Answer
from tests.support.house import Reading

KEY = b"/a/c/0"
OLD_DATE, NEW_DATE = b"Wed, 01 Jul 2026 12:00:00 GMT", b"Mon, 30 Nov 2026 12:00:00 GMT"
DATE = (b"Date", b"Mon, 30 Nov 2026 12:00:01 GMT")
BODY = b"1" * 300_000
HALF = 150_000


@pytest.mark.parametrize(
    ("fields", "is_whole"),
    [
        pytest.param(((b"Last-Modified", OLD_DATE),), True, id="the same date"),
        pytest.param(((b"Last-Modified", NEW_DATE),), False, id="another date"),
        pytest.param((), False, id="no date"),
    ],
)
async def test_an_origin_that_ignores_if_range_can_not_mix_versions(house, fields, is_whole):
    old = (DATE, (b"Last-Modified", OLD_DATE))
    rest = b"2" * (len(BODY) - HALF)
    told = (b"Content-Range", b"bytes %d-%d/%d" % (HALF, len(BODY) - 1, len(BODY)))
    house.origin.script(KEY, Answer(206, (DATE, told, *fields), rest), times=4)
    house.origin.script(KEY, Answer(200, old, BODY, ends_after=HALF), times=1)
    reading = Reading(await house.ask("GET", KEY))
    got = await reading.rest()
    await house.settled()
    assert reading.is_torn is not is_whole
    assert len(got) == (len(BODY) if is_whole else HALF)
    assert isinstance(house.entry(KEY), Present) is is_whole


async def test_a_write_runs_until_its_answer_has_ended(house):
    house.origin.put(KEY, b"old")
    house.origin.script(KEY, Answer(200, body=b"done at last"), method="POST")
    writing = Reading(await house.ask("POST", KEY, content=b"complete"))
    assert (await house.get(KEY)).body == b"old"
    await house.settled_fills()
    assert house.entry(KEY) is None
    house.origin.put(KEY, b"new")
    assert await writing.rest() == b"done at last"
    assert (await house.get(KEY)).body == b"new"
    await house.settled()
    assert isinstance(house.entry(KEY), Present)


async def test_a_write_whose_answer_breaks_off_is_of_unknown_fate(house):
    house.origin.put(KEY, b"old")
    house.origin.script(KEY, Answer(200, body=b"done at last", ends_after=4), method="PUT")
    writing = Reading(await house.ask("PUT", KEY, content=b"new"))
    await writing.rest()
    assert writing.is_torn
    await house.get(KEY)
    await house.settled()
    assert house.entry(KEY) is None
    house.now.advance(62)
    await house.get(KEY)
    await house.settled()
    assert isinstance(house.entry(KEY), Present)


async def test_a_write_that_is_only_accepted_is_of_unknown_fate(house):
    house.origin.script(KEY, Answer(202), method="PUT")
    house.origin.put(KEY, b"old")
    await house.put(KEY, b"new")
    await house.get(KEY)
    await house.settled()
    assert house.entry(KEY) is None


async def test_what_is_asked_after_the_proof_of_existence_does_not_join_an_older_get(house):
    gate = house.origin.hold(KEY)
    early = house.start("GET", KEY)
    await gate.reached()
    house.origin.put(KEY, b"appeared")
    assert (await house.send("HEAD", KEY)).status == 200
    assert (await house.get(KEY)).body == b"appeared"
    gate.open()
    assert (await early).status == 404


@pytest.mark.parametrize("name", [b"x-ms-rename-source", b"x-amz-rename-source"])
async def test_a_rename_falls_on_its_source_too(house, name):
    house.origin.put(b"/src", b"old")
    await house.get(b"/src")
    await house.settled()
    await house.send("PUT", b"/dst", (name, b"/src"))
    assert house.entry(b"/src") is None


async def test_a_collection_deleted_without_a_slash_leaves_nothing_beneath_it_fresh(house):
    house.origin.put(b"/w/a/c/0", b"old")
    for target in (b"/w/a/c/0", b"/w/a/c/1"):
        await house.get(target)
    await house.settled()
    house.now.advance(0.001)
    await house.send("DELETE", b"/w/a")
    del house.origin.objects[b"/w/a/c/0"]
    house.origin.put(b"/w/a/c/1", b"new")
    assert (await house.get(b"/w/a/c/0")).status == 404
    assert (await house.get(b"/w/a/c/1")).body == b"new"


@pytest.mark.parametrize("status", [101, 199, 600, 999])
async def test_a_status_that_no_get_can_have_is_nonsense(house, status):
    house.origin.script(KEY, Answer(status))
    assert (await house.get(KEY)).status == 502
