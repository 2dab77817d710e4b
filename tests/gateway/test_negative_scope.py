"""Scope `all`: a 404 to HEAD or to a range is followed by the full GET that alone can prove it."""

import pytest

from chunkside.core.entry import Absent
from chunkside.core.freshness import Policy
from tests.support.fake_upstream import Answer
from tests.support.house import House

KEY = b"/a/c/0"
PARTIAL = [("HEAD", ()), ("GET", ((b"Range", b"bytes=0-9"),)), ("GET", ((b"Range", b"bytes=-9"),))]
EACH = pytest.mark.parametrize(("method", "fields"), PARTIAL, ids=["HEAD", "a range", "a suffix"])


@pytest.fixture
async def house():
    house = House(policy=Policy(negative_scope="all"))
    yield house
    await house.settled()


@EACH
async def test_the_second_of_their_kind_costs_no_request(house, method, fields):
    assert (await house.send(method, KEY, *fields)).status == 404
    await house.settled()
    assert [each.method for each in house.origin.requests()] == [method, "GET"]
    again = await house.send(method, KEY, *fields)
    assert (again.status, again.result) == (404, "negative_hit")
    assert house.origin.count() == 2


@EACH
async def test_no_marker_is_made_of_their_404_alone(house, method, fields):
    house.origin.script(KEY, Answer(403), method="GET", times=2)
    house.origin.script(KEY, Answer(404), method=method, times=1)
    await house.send(method, KEY, *fields)
    await house.settled()
    assert house.entry(KEY) is None


async def test_a_body_that_nobody_asked_for_is_not_read(house):
    house.origin.put(KEY, bytes(1 << 20))
    house.origin.script(KEY, Answer(404), method="HEAD", times=1)
    assert (await house.send("HEAD", KEY)).status == 404
    await house.settled()
    assert house.record.fills == ["not_stored_unasked"]
    assert house.origin.requests("GET")[0].sent == 0
    assert house.origin.open_answers == 0
    assert house.entry(KEY) is None


async def test_a_body_that_somebody_wants_meanwhile_is_brought(house):
    house.origin.put(KEY, b"here after all")
    house.origin.script(KEY, Answer(404), method="HEAD", times=1)
    gate = house.origin.hold(KEY)
    await house.send("HEAD", KEY)
    await gate.reached()
    reader = house.start("GET", KEY)
    await house.until_waiting(1)
    gate.open()
    assert (await reader).body == b"here after all"
    assert house.origin.count("GET") == 1


async def test_many_heads_of_one_key_are_followed_by_one_get(house):
    gate = house.origin.hold(KEY)
    for _ in range(3):
        await house.send("HEAD", KEY)
    await gate.reached()
    gate.open()
    await house.settled()
    assert house.origin.count("GET") == 1
    assert isinstance(house.entry(KEY), Absent)


async def test_a_write_drops_what_answers_heads_too(house):
    await house.send("HEAD", KEY)
    await house.settled()
    await house.put(KEY, b"new")
    assert (await house.send("HEAD", KEY)).status == 200
