"""Scope `all`: a 404 to HEAD or to a range is followed by the full GET that alone can prove it."""

import pytest

from chunkside.core.entry import Absent
from chunkside.core.freshness import Policy, Said
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


NO_SUCH_KEY = b"<Error><Code>NoSuchKey</Code></Error>"


class TestOfAnObjectStore:
    """Where a HEAD's 404 may be that of the bucket."""

    @pytest.fixture
    async def store(self):
        policy = Policy(
            negative_scope="all", is_object_store=True, of_absence=Said((), NO_SUCH_KEY)
        )
        house = House(policy=policy)
        yield house
        await house.settled()

    async def test_a_heads_404_is_held_until_a_get_has_told_that_it_is_the_keys(self, store):
        store.origin.script(KEY, Answer(404, body=NO_SUCH_KEY), method="GET", times=1)
        assert (await store.send("HEAD", KEY)).status == 404
        assert [each.method for each in store.origin.requests()] == ["HEAD", "GET"]
        assert isinstance(store.entry(KEY), Absent)
        again = await store.send("HEAD", KEY)
        assert (again.status, again.result) == (404, "negative_hit")
        whole = await store.send("GET", KEY)
        assert (whole.status, whole.body) == (404, NO_SUCH_KEY)
        assert store.origin.count() == 2

    async def test_a_missing_bucket_is_no_missing_key_to_a_head_either(self, store):
        store.origin.script(KEY, "garbage", method="GET", times=1)
        assert (await store.send("HEAD", KEY)).status == 502
        assert store.entry(KEY) is None

    async def test_an_origin_that_fails_the_get_fails_the_head(self, store):
        store.origin.script(KEY, Answer(403), method="GET", times=1)
        assert (await store.send("HEAD", KEY)).status == 503
        assert store.entry(KEY) is None

    @pytest.mark.parametrize("times", [1, 2])
    async def test_what_is_there_after_all_is_asked_for_once_more(self, store, times):
        store.origin.put(KEY, bytes(1 << 20))
        store.origin.script(KEY, Answer(404), method="HEAD", times=times)
        assert (await store.send("HEAD", KEY)).status == (200 if times == 1 else 502)
        assert store.origin.requests("GET")[0].sent == 0
        assert store.origin.open_answers == 0

    async def test_what_must_not_touch_the_cache_is_told_all_the_same(self, store):
        store.origin.script(KEY, Answer(404, body=NO_SUCH_KEY), method="GET", times=1)
        assert (await store.send("HEAD", KEY, (b"Cache-Control", b"no-store"))).status == 404
        assert [each.method for each in store.origin.requests()] == ["HEAD", "GET"]
        assert store.entry(KEY) is None

    async def test_a_404_without_the_stores_word_for_it_makes_no_marker(self, store):
        assert (await store.send("GET", KEY)).status == 404
        assert store.entry(KEY) is None
