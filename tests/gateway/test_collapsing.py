"""One fill per key, whatever comes of it; a fill belongs to nobody."""

import asyncio

import pytest

from chunkside.core.entry import Absent, Present
from tests.support.fake_upstream import Answer
from tests.support.house import read

MANY = 200
BODY = bytes(range(256)) * 5000


@pytest.mark.parametrize("body", [b"small", BODY], ids=["small", "large"])
async def test_many_readers_of_one_key_cost_one_request(house, body):
    house.origin.put(b"/a/c/0", body)
    gate = house.origin.hold(b"/a/c/0")
    readers = [house.start("GET", b"/a/c/0") for _ in range(MANY)]
    await gate.reached()
    await house.until_waiting(MANY)
    gate.open()
    got = await asyncio.gather(*readers)
    assert {each.body for each in got} == {body}
    assert sorted(each.result for each in got) == ["collapsed"] * (MANY - 1) + ["miss"]
    assert house.origin.count() == 1
    assert (await house.get(b"/a/c/0")).result in ("hit", "collapsed")
    await house.settled()
    assert (await house.get(b"/a/c/0")).result == "hit"
    assert house.origin.count() == 1


@pytest.mark.parametrize("status", [404, 403, 503, 302])
async def test_all_who_wait_get_an_absence_or_an_error_once(house, status):
    house.origin.script(b"/a/c/0", Answer(status, body=b"words"))
    gate = house.origin.hold(b"/a/c/0")
    readers = [house.start("GET", b"/a/c/0") for _ in range(MANY)]
    await gate.reached()
    await house.until_waiting(MANY)
    gate.open()
    got = await asyncio.gather(*readers)
    assert {(each.status, each.body) for each in got} == {(status, b"words")}
    assert house.origin.count() == 1
    await house.get(b"/a/c/0")
    assert house.origin.count() == (1 if status == 404 else 2)


@pytest.mark.parametrize("fault", ["refused", "silent", "garbage"])
async def test_all_who_wait_share_an_origin_that_fails(house, fault):
    house.origin.put(b"/a/c/0", b"x")
    house.origin.script(b"/a/c/0", fault)
    readers = [house.start("GET", b"/a/c/0") for _ in range(MANY)]
    got = await asyncio.gather(*readers)
    assert len({each.status for each in got}) == 1
    assert len(house.record.fills) == 1


async def test_requests_with_the_same_key_in_other_words_share_a_fill(house):
    house.origin.put(b"/a/c/0", b"0123456789")
    gate = house.origin.hold(b"/a/c/0")
    plain = house.start("GET", b"/a/c/0")
    await gate.reached()
    conditional = house.start("GET", b"/a/c/0", (b"If-None-Match", b"*"))
    encoded = house.start("GET", b"/a/c/0", (b"Accept-Encoding", b"gzip"))
    await house.until_waiting(3)
    gate.open()
    assert (await plain).body == (await encoded).body == b"0123456789"
    assert (await conditional).status == 304
    [sent] = house.origin.exchanges
    assert sent.fields.get(b"accept-encoding") == b"identity"


async def test_pages_of_different_origins_do_not_share_a_fill(house):
    house.origin.put(b"/a/c/0", b"x")
    gate = house.origin.hold(b"/a/c/0", times=2)
    one = house.start("GET", b"/a/c/0", (b"Origin", b"http://one"))
    other = house.start("GET", b"/a/c/0", (b"Origin", b"http://other"))
    await gate.reached()
    await gate.reached()
    gate.open()
    assert (await one).body == (await other).body == b"x"
    assert house.origin.count() == 2


@pytest.mark.parametrize("at", [None, 100_000], ids=["before the head", "within the body"])
async def test_a_fill_outlives_the_caller_that_started_it(house, at):
    house.origin.put(b"/a/c/0", BODY)
    gate = house.origin.hold(b"/a/c/0", at)
    caller = house.start("GET", b"/a/c/0")
    await gate.reached()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    gate.open()
    await house.settled()
    assert isinstance(house.entry(b"/a/c/0"), Present)
    assert (await house.get(b"/a/c/0")).body == BODY
    assert house.origin.count() == 1


async def test_an_absence_outlives_the_caller_that_asked(house):
    gate = house.origin.hold(b"/a/c/0")
    caller = house.start("GET", b"/a/c/0")
    await gate.reached()
    caller.cancel()
    gate.open()
    await house.settled()
    assert isinstance(house.entry(b"/a/c/0"), Absent)


PRIVATE = Answer(200, ((b"Cache-Control", b"private"),), b"mine")


async def test_of_an_answer_that_may_not_be_shared_the_first_has_it_and_others_ask_alone(house):
    house.origin.script(b"/a/c/0", PRIVATE)
    gate = house.origin.hold(b"/a/c/0")
    readers = [house.start("GET", b"/a/c/0") for _ in range(5)]
    await gate.reached()
    await house.until_waiting(5)
    gate.open()
    got = await asyncio.gather(*readers)
    assert {each.body for each in got} == {b"mine"}
    assert house.origin.count() == 5
    assert house.entry(b"/a/c/0") is None
    assert house.origin.open_answers == 0


async def test_a_key_whose_answers_may_not_be_shared_is_not_collapsed_for_a_minute(house):
    house.origin.script(b"/a/c/0", PRIVATE)
    await house.get(b"/a/c/0")
    house.now.advance(59)
    gate = house.origin.hold(b"/a/c/0", times=2)
    readers = [house.start("GET", b"/a/c/0") for _ in range(2)]
    await gate.reached()
    await gate.reached()
    gate.open()
    await asyncio.gather(*readers)
    house.now.advance(2)
    gate = house.origin.hold(b"/a/c/0")
    readers = [house.start("GET", b"/a/c/0") for _ in range(2)]
    await gate.reached()
    await house.until_waiting(2)
    gate.open()
    await asyncio.gather(*readers)


async def test_an_answer_that_nobody_waits_for_any_more_is_let_go(house):
    house.origin.script(b"/a/c/0", PRIVATE)
    gate = house.origin.hold(b"/a/c/0")
    caller = house.start("GET", b"/a/c/0")
    await gate.reached()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    gate.open()
    await house.settled()
    assert house.origin.open_answers == 0


async def test_an_answer_whose_only_taker_left_at_that_moment_is_let_go(house):
    house.origin.script(b"/a/c/0", PRIVATE)
    gate = house.origin.hold(b"/a/c/0")
    caller = house.start("GET", b"/a/c/0")
    await gate.reached()
    gate.open()
    # The answer is there, and the caller has not been told yet.
    await house.until(lambda: house.origin.open_answers == 1)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await house.settled()
    assert house.origin.open_answers == 0


async def test_an_answer_passed_on_is_closed_when_its_reader_leaves(house):
    house.origin.script(b"/a/c/0", Answer(200, ((b"Cache-Control", b"no-store"),), BODY))
    reply = await house.ask("GET", b"/a/c/0")
    assert house.origin.open_answers == 1
    reply.release()
    assert house.origin.open_answers == 0


async def test_a_fresh_answer_is_not_joined_once_it_is_stale(house):
    house.origin.put(b"/a/c/0", BODY, fields=((b"Cache-Control", b"max-age=10"),))
    gate = house.origin.hold(b"/a/c/0", 500_000)
    first = house.start("GET", b"/a/c/0")
    await gate.reached()
    house.now.advance(11)
    house.origin.put(b"/a/c/0", b"newer")
    assert (await house.get(b"/a/c/0")).body == b"newer"
    gate.open()
    assert (await first).body == BODY
    await house.settled()
    assert (await house.get(b"/a/c/0")).body == b"newer"


async def test_who_waited_for_an_answer_has_it_even_where_it_is_stale_at_once(house):
    house.origin.put(b"/a/c/0", b"brief", fields=((b"Cache-Control", b"max-age=0"),))
    gate = house.origin.hold(b"/a/c/0")
    readers = [house.start("GET", b"/a/c/0") for _ in range(3)]
    await gate.reached()
    await house.until_waiting(3)
    gate.open()
    assert {each.body for each in await asyncio.gather(*readers)} == {b"brief"}
    assert house.origin.count() == 1
    await house.settled()
    assert (await house.get(b"/a/c/0")).result == "revalidated"


async def test_a_fill_can_be_joined_until_its_commit_has_ended(frail):
    frail.store.commit_gate = asyncio.Event()
    frail.origin.put(b"/a/c/0", b"small")
    assert (await frail.get(b"/a/c/0")).body == b"small"
    await frail.until(lambda: frail.store.commits_waiting == 1)
    assert (await frail.get(b"/a/c/0")).result == "collapsed"
    frail.store.commit_gate.set()
    await frail.settled()
    assert (await frail.get(b"/a/c/0")).result == "hit"
    assert frail.origin.count() == 1


async def test_a_reply_is_released_whatever_became_of_it(house):
    house.origin.put(b"/a/c/0", BODY)
    assert (await read(await house.ask("GET", b"/a/c/0"))).body == BODY
    await house.settled()
    assert house.gateway.fills.in_flight == 0
    assert house.gateway.fills.waiters == 0
