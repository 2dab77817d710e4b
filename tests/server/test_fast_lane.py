"""The fast lane says what the gateway would, byte for byte, and is taken wherever it should be."""

import asyncio
import math
import os
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkside.core.cors import Pages
from chunkside.core.entry import oldest_request
from chunkside.core.freshness import Policy
from chunkside.core.slots import BODIES
from chunkside.gateway.at_once import AtOnce
from chunkside.server import answers, fast_lane
from chunkside.store.stamps import MemoryStampTable
from tests.gateway.conftest import close, disk_house
from tests.store.samples import LOOPS
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.turns import turns
from tests.support.wire import data_port, get, put

KEY, LARGE, HUGE = b"/a/c/0", b"/a/c/1", b"/a/c/2"
HOLE, DOCUMENT = b"/a/c/9", b"/a/zarr.json"
SMALL_BODY, LARGE_BODY = b"0123456789" * 400, bytes(range(256)) * 4096
CHANGING = re.compile(rb"^(?:Date|Age): .*\r\n", re.MULTILINE)


class Street:
    """One house with two data ports: with the fast lane, and without. `ask` asks both."""

    def __init__(self, house, port, wire, plain):
        self.house = house
        self.lane = port.fast_lane
        self.port = port
        self._wire = wire
        self._plain = plain

    async def ask(self, request, method="GET"):
        """Compares both answers; gives one, and whether the lane took it upon itself."""
        before = self.lane.answered
        quick = await self._wire.ask(request, method)
        is_taken = self.lane.answered - before
        slow = await self._plain.ask(request, method)
        assert CHANGING.sub(b"", quick.head) == CHANGING.sub(b"", slow.head)
        assert [len(quick.values(name)) for name in (b"date", b"age")] == [
            len(slow.values(name)) for name in (b"date", b"age")
        ]
        assert (quick.body, quick.is_complete) == (slow.body, slow.is_complete)
        return quick, bool(is_taken)

    async def bring(self, request):
        """Asks for what has to be brought, and gives whether the lane took it upon itself."""
        before = self.lane.answered
        await self._wire.ask(request)
        await self.house.settled()
        return self.lane.answered > before

    async def know(self, *lines):
        """Has the block of these lines seen often enough to be known."""
        for _ in range(2):
            await self.bring(get(HOLE, *lines))


@pytest.fixture
async def streets(tmp_path):
    """Makes streets, of a house in memory or on disk."""
    async with AsyncExitStack() as stack:

        async def make(
            kind="memory",
            policy=None,
            route=lambda route: route,
            credentials="partition",
            audit_share=0.0,
        ):
            more = {"credentials": credentials, "audit_share": audit_share}
            if kind == "disk":
                house, disk = await disk_house(tmp_path, policy=policy, **more)
                stack.push_async_callback(close, house, disk)
            else:
                house = House(policy=policy, **more)
            house.route = route(house.route)
            house.origin.put(KEY, SMALL_BODY, etag=b'"one"')
            house.origin.put(LARGE, LARGE_BODY, etag=b'"two"')
            house.origin.put(DOCUMENT, b"{}", etag=b'"doc"')
            port = await stack.enter_async_context(data_port(house))
            plain = await stack.enter_async_context(data_port(house, has_fast_lane=False))
            wires = [
                await stack.enter_async_context(await each.connect()) for each in (port, plain)
            ]
            street = Street(house, port, *wires)
            # A document that nobody knew doubts what was asked for before it.
            house.origin.put(HUGE, LARGE_BODY * 2, etag=b'"three"')
            for target in (DOCUMENT, KEY, LARGE, HUGE, HOLE):
                await house.get(target)
                await house.settled()
                if target == DOCUMENT:
                    house.now.advance(1)
            await street.know()
            return street

        yield make


@pytest.fixture(params=["memory", "disk"])
async def street(streets, request):
    return await streets(request.param)


# What it takes.


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get(HOLE), 404),
        (get(KEY), 200),
        (get(DOCUMENT), 200),
        (get(KEY, b"Range: bytes=10-19"), 206),
        (get(KEY, b"range: bytes=-5"), 206),
        (get(KEY, b"Range: bytes=3990-"), 206),
        (get(KEY, b"Range: bytes=3990-99999"), 206),
        (get(LARGE), 200),
        (get(LARGE, b"Range: bytes=1000-66535"), 206),
        (get(HUGE, b"Range: bytes=1000000-1999999"), 206),
    ],
)
async def test_a_plain_hit_is_answered_at_once(street, request_, status):
    answer, is_taken = await street.ask(request_)
    assert (answer.status, is_taken) == (status, True)


async def test_a_range_of_its_own_file_is_answered_at_once(street):
    target = b"/a/shard"
    street.house.origin.put(target, LARGE_BODY, etag=b'"three"')
    await street.house.get(target, (b"Range", b"bytes=100-199"))
    await street.house.settled()
    answer, is_taken = await street.ask(get(target, b"Range: bytes=110-119"))
    assert (answer.body, is_taken) == (LARGE_BODY[110:120], True)
    # What lies beyond it isn't.
    assert not await street.bring(get(target, b"Range: bytes=190-209"))


async def test_a_second_look_makes_a_block_known(street):
    lines = b"User-Agent: another", b"Accept: */*"
    assert [(await street.ask(get(KEY, *lines)))[1] for _ in range(4)] == [
        *(False, False),
        *(True, True),
    ]


async def test_many_answers_on_one_connection_are_in_order_and_counted_once(street):
    await street.port.until_ended(len(street.port.ended))
    before = len(street.port.ended)
    for target in (KEY, HOLE, KEY, LARGE, HOLE):
        await street.ask(get(target))
    await street.port.until_ended(before + 5)
    told = [(each.result, each.status, each.body_bytes) for each in street.port.ended[before:]]
    small, large = ("hit", 200, len(SMALL_BODY)), ("hit", 200, len(LARGE_BODY))
    absent = "negative_hit", 404, 0
    assert told == [small, absent, small, large, absent]


async def test_a_hit_is_a_use(street):
    index = street.house.edges.index
    await street.ask(get(HOLE))
    assert index._held._slots.markers()[-1] == index.place_of(
        street.house.key(HOLE).namespace, HOLE
    )


# What it leaves.


@pytest.mark.parametrize(
    "request_",
    [
        get(HUGE),
        get(b"/a/c/0?"),
        get(b"/a/c/0?x=1"),
        get(b"/a/c/%30"),
        get(b"/a/./c/0"),
        get(b"/a/c/../c/0"),
        get(b"/a/c/"),
        get(b"/"),
        get(KEY, b"Range: bytes=0-1,3-4"),
        get(KEY, b"Range: bytes=9-1"),
        get(KEY, b"Range: bytes=99999-"),
        get(KEY, b"Range: bytes=0-1", b"Range: bytes=2-3"),
        get(KEY, b"Range: items=0-1"),
        get(KEY, b"If-None-Match: *"),
        get(KEY, b'If-Match: "other"'),
        get(KEY, b'If-Range: "one"', b"Range: bytes=0-1"),
        get(KEY, b"Cache-Control: no-store"),
        get(KEY, b"Chunkside-Control: bypass"),
        get(KEY, b"Origin: https://page.example"),
        get(KEY, b"Connection: close, x"),
        get(KEY, b"Via: 1.1 other"),
        get(KEY, b"X-Ms-Range: bytes=0-1"),
        get(HOLE, b"Range: bytes=0-1"),
        get(HOLE, b"Origin: https://page.example"),
    ],
)
async def test_what_needs_more_than_a_look_goes_the_long_way(streets, request_):
    street = await streets()
    for _ in range(3):
        async with await street.port.connect() as wire:
            before = street.lane.answered
            answer = await wire.ask(request_)
            assert answer.status in (200, 206, 304, 404, 412, 416)
            # `Via` of others and fields that mean nothing here are as plain as any.
            if b"Via" not in request_:
                assert street.lane.answered == before


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a/c/0 HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET http://localhost/a/c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"get /a/c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET  /a/c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /a/c/0 HTTP/1.1\nHost: localhost\n\n",
        b"GET /a/c/0 HTTP/1.1\r\nHost: localhost\r\nA b\r\n\r\n",
        b"GET /a/c/0 HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
        b"GET /a/c/0 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /a/c/0 HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /a/c/0 HTTP/1.1\r\n\r\n",
        b"GET /a/c/0 HTTP/1.1\r\nHost: localhost\r\nExpect: x\r\n\r\n",
        b"GET /a/c/0 HTTP/1.1\r\nHost: localhost\r\nX: \xff\r\n\r\n",
        b"GET /a/c/0 HTTP/1.1\r\nHost: localhost\r\nX: \x00\r\n\r\n",
        b"HEAD /a/c/0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
async def test_a_head_that_is_not_plain_is_never_known(streets, head):
    street = await streets()
    for _ in range(3):
        async with await street.port.connect() as wire:
            await wire.send(head)
            await wire.head()
    assert street.lane.answered == 0


async def test_a_client_who_signs_or_counts_takes_no_other_s_place(streets):
    street = await streets()
    known = len(street.lane._known)
    for number in range(600):
        await street.ask(get(HOLE, b"X-Request-Id: %d" % number))
    assert len(street.lane._known) == known
    assert len(street.lane._met_once) <= 256
    assert (await street.ask(get(KEY)))[1]


async def test_as_many_blocks_are_known_as_there_may_be(streets):
    street = await streets()
    for number in range(300):
        await street.know(b"X-Client: %d" % number)
    assert len(street.lane._known) == 256
    assert (await street.ask(get(KEY, b"X-Client: 299")))[1]


async def test_pipelined_requests_are_answered_in_order(street):
    async with await street.port.connect() as wire:
        await wire.send(get(KEY) + get(HOLE) + get(KEY))
        assert [(await wire.answer()).status for _ in range(3)] == [200, 404, 200]


async def test_a_reader_that_stops_is_never_given_more_than_it_takes(streets):
    street = await streets()
    async with await street.port.connect(limit=1 << 10) as wire:
        before = street.lane.answered
        for _ in range(50):
            await wire.send(get(LARGE))
            await turns()
        # What the kernel takes, and at most two more.
        assert street.lane.answered - before < 25
        for _ in range(50):
            assert (await wire.answer()).body == LARGE_BODY


# What it must notice.


@pytest.mark.parametrize("fall", ["write", "purge", "other process", "expiry", "doubt", "drop"])
@pytest.mark.parametrize("target", [KEY, HOLE])
async def test_what_has_fallen_is_not_answered_at_once(street, fall, target):
    house = street.house
    # As often as it takes for the whole answer to be known.
    for _ in range(4):
        assert (await street.ask(get(target)))[1]
    assert get(target) in street.lane._answers.held
    key = house.key(target)
    match fall:
        case "write":
            await house.put(target, b"new")
        case "purge":
            await house.purging.object(key.object)
        case "other process":
            house.stamps.renew(key.object, ends=None)
        case "expiry":
            house.now.advance(300)
        case "doubt":
            house.edges.note_change(house.key(DOCUMENT).object)
        case _:
            house.edges.discard(house.edges.index.drop(key, "purged"))
    before = street.lane.answered
    async with await street.port.connect() as wire:
        await wire.ask(get(target))
    assert street.lane.answered == before


@pytest.mark.parametrize("target", [KEY, HOLE])
async def test_what_was_said_is_said_again_for_no_longer_than_it_is_fresh(street, target):
    house = street.house
    house.now.boot += 0.5
    await house.get(target, (b"Chunkside-Control", b"refresh"))
    await house.settled()
    asked_at = oldest_request(house.entry(target)).boot
    # Both within one second of both clocks.
    house.now.boot = asked_at + 299.6
    for _ in range(4):
        assert (await street.ask(get(target)))[1]
    house.now.boot = asked_at + 300.1
    assert not await street.bring(get(target))


async def test_age_and_date_go_with_the_time(street):
    for seconds in range(5):
        for _ in range(3):
            answer, is_taken = await street.ask(get(KEY))
            assert (answer.value(b"age"), is_taken) == (b"%d" % seconds, True)
        street.house.now.advance(1)


@pytest.mark.parametrize("kind", ["memory", "disk"])
async def test_what_never_gets_stale_is_taken_too(streets, kind):
    endless = Policy(ttl=math.inf, negative_ttl=math.inf, metadata_ttl=math.inf)
    street = await streets(kind, policy=endless)
    for target in (KEY, HOLE, DOCUMENT):
        for _ in range(3):
            answer, is_taken = await street.ask(get(target))
            assert is_taken
            assert b"ttl" not in answer.value(b"cache-status")


async def test_what_another_process_writes_while_an_answer_is_kept_is_seen(streets, monkeypatch):
    street = await streets("disk")
    stamps, watch = street.house.edges.stamps, MemoryStampTable.watch
    name = street.house.key(KEY).object

    def watch_too_late(table, location, path):
        stamps.renew(name, ends=None)
        return watch(table, location, path)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStampTable, "watch", watch_too_late)
        for _ in range(3):
            assert get(KEY) not in street.lane._answers.held
            await street.bring(get(KEY))
        assert get(KEY) not in street.lane._answers.held


async def test_a_file_that_is_unlinked_by_hand_is_served_for_no_longer_than_a_second(
    streets, tmp_path
):
    street = await streets("disk")
    for _ in range(4):
        assert (await street.ask(get(KEY)))[1]
    for path in tmp_path.rglob("*.arrow"):
        path.unlink()
    street.house.now.advance(1.0)
    assert not await street.bring(get(KEY))


async def ask_for(street, numbers, times=3):
    """Asks for absences again and again; gives the heads."""
    street.house.remember(b"/r/%d" % number for number in numbers)
    heads = [get(b"/r/%d" % number) for number in numbers]
    for head in heads:
        for _ in range(times):
            assert (await street.ask(head))[1]
    return heads


@pytest.mark.parametrize(("bound", "of_room"), [("_MOST_ANSWERS", 10), ("_MOST_BYTES", 17_000)])
async def test_answers_are_kept_within_bounds(streets, monkeypatch, bound, of_room):
    monkeypatch.setattr(answers, bound, of_room)
    street = await streets()
    lane, kept = street.lane, street.lane._answers.held
    heads = await ask_for(street, range(40))
    # Those that are asked for stay.
    room = len(kept)
    assert 8 <= room <= 10
    assert list(kept) == heads[:room]
    # Of those that nobody asks for the oldest go first.
    street.house.now.advance(9)
    await street.ask(heads[0])
    street.house.now.advance(2.1)
    newer = await ask_for(street, range(40, 42))
    assert list(kept) == [*heads[3:room], heads[0], *newer]
    assert lane._answers.bytes == sum(answer.cost for answer in kept.values())
    for head, answer in kept.items():
        assert answer.cost >= len(head) + len(answer.content) + 1024
    assert len(lane._answers._came_once) <= answers._MOST_ANSWERS


async def test_large_answers_are_kept_and_leave_room_for_small_ones(streets, monkeypatch):
    monkeypatch.setattr(answers, "_MOST_LARGE_BYTES", 2_500_000)
    street = await streets("disk")
    lane, several = street.lane, [get(LARGE, b"Range: bytes=%d-" % first) for first in range(3)]
    for request in several:
        for _ in range(4):
            assert (await street.ask(request))[1]
    assert [request in lane._answers.held for request in several] == [True, True, False]
    assert lane._answers.large_bytes == sum(lane._answers.held[each].cost for each in several[:2])
    monkeypatch.setattr(AtOnce, "find", None)
    for _ in range(2):
        street.house.now.advance(1)
        assert (await street.ask(several[0]))[1]
    monkeypatch.undo()
    street.house.now.advance(301)
    assert not await street.bring(several[0])
    assert several[0] not in lane._answers.held
    assert lane._answers.large_bytes == lane._answers.held[several[1]].cost


async def test_large_answers_that_nobody_asks_for_any_more_make_room(streets, monkeypatch):
    monkeypatch.setattr(answers, "_MOST_LARGE_BYTES", 2_500_000)
    street = await streets("disk")
    lane, several = street.lane, [get(LARGE, b"Range: bytes=%d-" % first) for first in range(3)]
    for request in several[:2]:
        for _ in range(2):
            await street.ask(request)
    street.house.now.advance(12)
    for _ in range(2):
        await street.ask(several[2])
    assert [request in lane._answers.held for request in several] == [False, True, True]
    assert lane._answers.large_bytes == sum(each.cost for each in lane._answers.held.values())


async def test_no_page_of_a_file_that_was_truncated_just_now_is_touched(
    streets, monkeypatch, tmp_path
):
    street = await streets("disk")
    assert (await street.ask(get(LARGE)))[1]
    write = fast_lane.FastLane._write

    def then_truncate(*arguments):
        content = write(*arguments)
        for file in tmp_path.rglob("*.arrow"):
            os.truncate(file, 4096)
        return content

    monkeypatch.setattr(fast_lane.FastLane, "_write", then_truncate)
    answer, is_taken = await street.ask(get(LARGE))
    assert (answer.body, is_taken) == (LARGE_BODY, True)
    assert get(LARGE) not in street.lane._answers.held


async def test_an_answer_that_has_fallen_takes_no_room(street):
    for _ in range(3):
        await street.ask(get(KEY))
    assert get(KEY) in street.lane._answers.held
    street.house.now.advance(301)
    assert not await street.bring(get(KEY))
    assert get(KEY) not in street.lane._answers.held
    assert street.lane._answers.bytes == sum(a.cost for a in street.lane._answers.held.values())


async def test_what_is_kept_is_told_anew_each_second(street, monkeypatch):
    """Without a look at anything but what was found."""
    for _ in range(3):
        await street.ask(get(KEY))
        await street.ask(get(HOLE))
    monkeypatch.setattr(AtOnce, "find", None)
    for seconds in range(1, 5):
        street.house.now.advance(1)
        for request in (get(KEY), get(HOLE)):
            for _ in range(2):
                answer, is_taken = await street.ask(request)
                assert (answer.value(b"age"), is_taken) == (b"%d" % seconds, True)


async def test_what_is_told_anew_is_a_use(streets):
    street = await streets("disk")
    index = street.house.edges.index
    for target in (HOLE, KEY):
        for _ in range(3):
            await street.ask(get(target))
    await street.house.get(b"/a/c/8")
    street.house.now.advance(1)
    assert await street.bring(get(HOLE))
    place = index.place_of(street.house.key(HOLE).namespace, HOLE)
    assert index._held._slots.markers()[-1] == place
    await street.ask(get(LARGE))
    street.house.now.advance(1)
    assert await street.bring(get(KEY))
    place = index.place_of(street.house.key(KEY).namespace, KEY)
    assert index._held._slots.in_order(BODIES)[-1] == place


async def test_a_marker_that_is_renewed_for_less_is_told_for_less(street):
    house = street.house
    for _ in range(3):
        await street.ask(get(HOLE))
    house.now.advance(1)
    house.origin.script(HOLE, Answer(404, fields=((b"Cache-Control", b"max-age=5"),)))
    await house.get(HOLE, (b"Chunkside-Control", b"refresh"))
    await house.settled()
    house.now.advance(4)
    assert (await street.ask(get(HOLE)))[1]
    house.now.advance(2)
    assert not await street.bring(get(HOLE))


async def test_what_is_asked_once_is_not_kept(streets):
    street = await streets()
    street.house.remember(b"/r/%d" % number for number in range(100))
    before = set(street.lane._answers.held)
    for number in range(100):
        await street.ask(get(b"/r/%d" % number))
    assert set(street.lane._answers.held) == before


async def test_a_clock_that_steps_back_is_noticed(street):
    street.house.now.wall -= 3600
    assert not await street.bring(get(KEY))


async def test_a_freshened_head_is_the_one_that_is_told(street):
    house = street.house
    house.now.advance(301)
    house.origin.put(KEY, SMALL_BODY, etag=b'"one"', fields=((b"X-New", b"1"),))
    assert (await house.get(KEY)).result == "revalidated"
    answer, is_taken = await street.ask(get(KEY))
    assert (answer.value(b"x-new"), is_taken) == (b"1", True)


# Policies and routes.


async def test_in_scope_all_a_marker_answers_ranges_at_once(streets):
    street = await streets(policy=Policy(negative_scope="all", allow_writes=False))
    answer, is_taken = await street.ask(get(HOLE, b"Range: bytes=0-1"))
    assert (answer.status, is_taken) == (404, True)


async def test_where_clients_are_obeyed_their_wishes_are_weighed_each_time(streets):
    street = await streets(policy=Policy(obeys_clients=True))
    line = b"Cache-Control: max-age=100"
    await street.know(line)
    assert not (await street.ask(get(KEY, line)))[1]
    assert (await street.ask(get(KEY)))[1]


async def test_where_no_absence_is_remembered_none_is_answered(streets):
    street = await streets()
    policy = street.house.edges.policy
    street.house.edges.policy = replace(policy, cache_missing=False)
    async with data_port(street.house) as port, await port.connect() as wire:
        for _ in range(3):
            await wire.ask(get(HOLE))
        assert port.fast_lane.answered == 0


async def test_credentials_have_seats_of_their_own(streets):
    street = await streets()
    alice = b"Authorization: Bearer alice"
    await street.know(alice)
    await street.bring(get(KEY, alice))
    assert (await street.ask(get(KEY, alice)))[1]
    bob = b"Authorization: Bearer bob"
    await street.know(bob)
    before = street.house.origin.count()
    assert not await street.bring(get(KEY, bob))
    assert street.house.origin.count() == before + 1


async def test_bodies_that_all_share_are_answered_at_once_and_absences_to_who_saw_them(streets):
    street = await streets(credentials="share")
    alice, bob = b"Authorization: Bearer alice", b"Authorization: Bearer bob"
    for who in (alice, bob):
        await street.know(who)
        assert (await street.ask(get(KEY, who)))[1]
    hole = b"/a/c/8"
    await street.bring(get(hole, alice))
    for _ in range(4):
        answer, is_taken = await street.ask(get(hole, alice))
        assert (answer.status, is_taken) == (404, True)
    street.house.origin.put(hole, SMALL_BODY)
    # What bob brings is no absence to anybody any more, however often it was said.
    assert not await street.bring(get(hole, bob))
    for who in (alice, bob):
        answer, is_taken = await street.ask(get(hole, who))
        assert (answer.body, is_taken) == (SMALL_BODY, True)


async def test_where_credentials_are_removed_signed_headers_are_answered_at_once(streets):
    street = await streets(credentials="strip")
    signed = b"Authorization: AWS4-HMAC-SHA256 Credential=AK/x"
    await street.know(signed)
    assert (await street.ask(get(KEY, signed)))[1]
    assert not (await street.ask(get(KEY + b"?X-Amz-Signature=ab", signed)))[1]


async def test_where_pages_are_told_each_its_own_the_lane_keeps_out(streets):
    pages = Pages(frozenset({b"https://page.example"}))
    street = await streets(route=lambda route: replace(route, pages=pages))
    assert not (await street.ask(get(KEY)))[1]


async def test_a_route_s_prefix_and_upstream_s_are_its_own(streets):
    street = await streets()
    beside = street.house.beside("/era5", prefix=b"/a")
    async with (
        data_port(street.house, beside=[beside]) as port,
        data_port(street.house, beside=[beside], has_fast_lane=False) as plain,
        await port.connect() as wire,
        await plain.connect() as other,
    ):
        for target in (b"/era5/c/0", b"/era5/c/9", KEY, b"/era5", b"/era5b", b"//era5/c/0"):
            await wire.ask(get(target))
            for _ in range(3):
                await street.house.settled()
                quick, slow = await wire.ask(get(target)), await other.ask(get(target))
                assert (quick.status, quick.body) == (slow.status, slow.body)
        before = port.fast_lane.answered
        assert (await wire.ask(get(b"/era5/c/0"))).body == SMALL_BODY
        assert port.fast_lane.answered == before + 1
        await port.until_ended(25)
        assert port.routes[-1] == "/era5"


async def test_of_a_bucket_what_it_admits_is_answered_at_once_and_nothing_else(streets):
    street = await streets(route=lambda route: replace(route, admits=b"/a"))
    _, is_taken = await street.ask(get(KEY))
    assert is_taken
    street = await streets()
    other = b"/ab/c/0"
    street.house.origin.put(other, SMALL_BODY, etag=b'"four"')
    await street.bring(get(other))
    assert await street.bring(get(other))
    # The same is held where another route of its origin admits less.
    narrow = replace(street.house.route, admits=b"/a")
    street.lane.take([(narrow, AtOnce(street.house.edges))])
    await street.know()
    assert await street.bring(get(KEY))
    assert not await street.bring(get(other))


NAMES_AT_GOOGLES = (
    (KEY, True),
    (b"/a/c%2F0", True),
    (b"/a/%63/0", True),
    (b"/storage/v1/b/a/o/c%2F0?alt=media", True),
    (b"/storage/v1/b/a/o/c%2F0?alt=media&tensorstore=5f", True),
    (b"/download/storage/v1/b/a/o/c%2F0?alt=media", True),
    (b"/download/storage/v1/b/a/o/c%2F9?alt=media", True),
    (b"/storage/v1/b/a/o/c%2F..%2Fc%2F0?alt=media", False),
    (b"/storage/v1/b/a/o/c%2F.%2F0?alt=media", False),
    (b"/storage/v1/b/ab/o/c%2F0?alt=media", False),
    (b"/storage/v1/b/a/o/c%2F0?alt=media&ifGenerationMatch=1", False),
    (b"/storage/v1/b/a/o/c%2F0", False),
    (b"/a/c%2F0%2F", False),
    (b"/a/c%2F%2F0", False),
    (b"/a/x%2F..%2Fc%2F0", False),
    (b"/a%2Fc/0", False),
    (b"/a/c%2F0?x", False),
    (b"/a/c/0?", False),
    (b"/a/c/0%", False),
)


@pytest.mark.parametrize("at", [b"", b"/google"])
async def test_an_object_of_google_s_store_is_answered_at_once_by_each_of_its_names(streets, at):
    ignored = frozenset({b"tensorstore"})
    street = await streets(
        route=lambda route: replace(route, admits=b"/a", is_googles=True, ignored_query=ignored)
    )
    if at:
        own = replace(street.house.route, at=at, name=at.decode())
        wide = replace(street.house.route, admits=None, is_googles=False)
        street.lane.take([(each, AtOnce(street.house.edges)) for each in (own, wide)])
        await street.know()
    for target, is_taken in NAMES_AT_GOOGLES:
        if not at:
            await street.bring(get(target))
            found = await street.ask(get(target))
            assert found[1] == is_taken, target
        else:
            assert await street.bring(get(at + target)) == is_taken, target


async def test_variants_answer_those_who_select_them(streets):
    street = await streets()
    bodies = {b"de": b"hallo", b"en": b"hello"}
    street.house.origin.put_variants(b"/a/c/3", b"accept-language", bodies)
    for language, body in bodies.items():
        line = b"Accept-Language: " + language
        await street.know(line)
        await street.bring(get(b"/a/c/3", line))
        answer, is_taken = await street.ask(get(b"/a/c/3", line))
        assert (answer.body, is_taken) == (body, True)
    assert not await street.bring(get(b"/a/c/3"))


# By chance.

SIMPLE_TARGETS = KEY, HOLE, b"/a/c/7"
SIMPLE_LINES = (
    *(b"Accept: */*", b"X: y", b"Authorization: Bearer a", b"Accept-Encoding: gzip"),
    *(b"Connection: keep-alive", b"Authorization: Bearer b"),
)
TARGETS = st.sampled_from(
    [*SIMPLE_TARGETS, LARGE, b"/a/c/0?", b"/a/%63/0", b"/a/./c/0", b"/a/", b"/"]
)
LINES = st.lists(
    st.sampled_from(
        [
            *(b"Range: bytes=0-9", b"Range: bytes=-3", b"range:bytes=1-2", b"Range: bytes=5-"),
            *(b"Range: bytes=4000-", b"If-None-Match: *", b"Pragma: no-cache"),
            *(b"Cache-Control: no-cache", b"Cache-Control: only-if-cached", *SIMPLE_LINES),
            b"Authorization: AWS4-HMAC-SHA256 Credential=AK/x",
        ]
    ),
    max_size=3,
)
REQUESTS = st.lists(st.tuples(TARGETS, LINES), min_size=1, max_size=25)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("scope", ["get", "all"])
@given(requests=REQUESTS, credentials=st.sampled_from(["partition", "strip", "share"]))
@settings(max_examples=30, deadline=None)
def test_whatever_is_asked_both_lanes_say_the_same(loop, scope, requests, credentials):
    async def scenario():
        house = House(policy=Policy(negative_scope=scope), credentials=credentials)
        house.origin.put(KEY, SMALL_BODY, etag=b'"one"')
        house.origin.put(LARGE, LARGE_BODY, etag=b'"two"')
        async with (
            data_port(house) as port,
            data_port(house, has_fast_lane=False) as plain,
            await port.connect() as wire,
            await plain.connect() as other,
        ):
            street = Street(house, port, wire, other)
            for target, lines in requests:
                # Twice beforehand: what is asked for is known then, and so is the block.
                for _ in range(2):
                    await wire.ask(get(target, *lines))
                    await house.settled()
                await other.ask(get(target, *lines))
                await house.settled()
                _, is_taken = await street.ask(get(target, *lines))
                await house.settled()
                is_simple = target in SIMPLE_TARGETS and set(lines) <= set(SIMPLE_LINES)
                assert is_taken or not is_simple

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


async def test_what_is_written_between_two_reads_is_never_hidden(street):
    for number in range(20):
        body = b"%d" % number
        async with await street.port.connect() as wire:
            assert (await wire.ask(put(KEY, body))).status == 204
        assert not await street.bring(get(KEY))
        answer, is_taken = await street.ask(get(KEY))
        assert (answer.body, is_taken) == (body, True)


async def test_an_answer_that_was_not_the_origin_s_whole_is_not_kept(streets):
    street = await streets()
    street.house.origin.script(b"/a/c/4", Answer(404, (), b"half", announced=9, ends_after=4))
    for _ in range(3):
        answer, is_taken = await street.ask(get(b"/a/c/4"))
        assert (answer.status, is_taken) == (503, False)


# What is asked for.


@dataclass
class Saw:
    """A TargetObserver that writes everything down."""

    seen: list[tuple[bytes, str, int | None, int]] = field(default_factory=list)

    def saw(self, target, result, status, times=1):
        self.seen.append((target, result, status, times))


async def test_targets_are_told_one_by_one_beside_the_lane_and_by_samples_in_it():
    house, saw = House(), Saw()
    house.origin.put(KEY, SMALL_BODY)
    async with data_port(house, targets=saw) as port:
        wire = await port.connect()
        for target in (KEY, HOLE, KEY, HOLE):
            await wire.ask(get(target + b"?x=1"))
        assert [seen[1:] for seen in saw.seen] == [
            *(("miss", 200, 1), ("miss", 404, 1)),
            *(("hit", 200, 1), ("negative_hit", 404, 1)),
        ]
        assert saw.seen[0][0] == KEY + b"?x=1"
        saw.seen.clear()
        lane = port.fast_lane
        while lane.answered < 3 * fast_lane._TOLD_EVERY:
            await wire.ask(get((KEY, HOLE)[lane.answered % 2]))
            await house.settled()
        in_lane = [seen for seen in saw.seen if seen[3] > 1]
        assert in_lane == [
            (KEY, "hit", 200, 31),
            (HOLE, "negative_hit", 404, 31),
            (KEY, "hit", 200, 31),
        ]


# Clients that are traced.


def traced(number, *lines):
    parent = b"traceparent: 00-%032x-%016x-01" % (number + 1, number + 1)
    return b"User-Agent: traced", parent, b"X-Request-Id: r%d" % number, *lines


async def test_ids_that_are_new_each_time_keep_no_client_out(street):
    for number in range(2):
        await street.bring(get(HOLE, *traced(number)))
    for number in range(2, 6):
        for target, status in ((KEY, 200), (HOLE, 404)):
            answer, is_taken = await street.ask(get(target, *traced(number)))
            assert (answer.status, is_taken) == (status, True)
        lines = traced(number, b"tracestate: a=%d" % number, b"Range: bytes=1-3")
        assert (await street.ask(get(KEY, *lines)))[1]


async def test_what_varies_by_an_id_is_not_answered_without_looking_at_it(street):
    target = b"/a/c/varies"
    vary = (b"Vary", b"X-Request-Id"), (b"Cache-Control", b"max-age=600")
    street.house.origin.put(target, b"by id", etag=b'"six"', fields=vary)
    for number in range(3):
        await street.bring(get(target, *traced(number)))
    await street.bring(get(target, b"User-Agent: traced"))
    for number in range(3):
        answer, is_taken = await street.ask(get(target, *traced(number)))
        assert (answer.status, is_taken) == (200, False)
    before = street.house.origin.count(path=target)
    assert not await street.bring(get(target, *traced(99)))
    assert street.house.origin.count(path=target) == before + 1


async def test_an_id_that_is_a_credential_is_looked_at(streets):
    names = frozenset({b"authorization", b"x-request-id"})
    street = await streets(route=lambda route: replace(route, credential_names=names))
    for number in range(4):
        assert not await street.bring(get(KEY, *traced(number)))
    # Each has brought it for itself.
    assert street.house.origin.count(path=KEY) == 5


@pytest.mark.parametrize(
    "line",
    [
        b"traceparent:  two spaces",
        b"traceparent: caf\xc3\xa9",
        b"traceparent: folded\r\n line",
        b"traceparent: " + b"a" * 600,
        b"X-Traceparent: a",
    ],
)
async def test_an_id_that_is_out_of_the_ordinary_is_for_the_full_parser(street, line):
    await street.bring(get(HOLE, b"User-Agent: traced"))
    await street.bring(get(HOLE, b"User-Agent: traced"))
    assert not await street.bring(get(HOLE, b"User-Agent: traced", line))


# Audits.


async def test_of_what_the_lane_answers_so_many_hits_are_audited_as_the_share_says(streets):
    """One in four, whichever way they take: of those of both, some are left to the gateway."""
    street = await streets("disk", audit_share=0.25)
    house = street.house
    await house.settled()
    house.record.audits.clear()
    house.origin.exchanges.clear()
    taken = 0
    for _ in range(200):
        _, is_taken = await street.ask(get(KEY))
        taken += is_taken
        await house.settled()
    audits = len(house.record.audits)
    assert house.record.audits == [("body", "agree")] * audits
    assert house.origin.count("GET") == audits
    # 400 hits; five standard deviations.
    assert 56 <= audits <= 144
    # The lane took the others.
    assert 200 - audits <= taken < 200


async def test_where_all_are_audited_the_lane_takes_none(streets):
    street = await streets("memory", audit_share=1.0)
    await street.house.settled()
    for request_ in (get(KEY), get(HOLE)):
        for _ in range(3):
            assert not (await street.ask(request_))[1]
            await street.house.settled()
