"""Room on the disk: set aside for files on their way, and done without where there is none."""

import asyncio
import os

import pytest

from chunkside.core.budget import Limits
from tests.support.fake_upstream import Answer
from tests.support.house import FailingStore, House

KEY = b"/a/c/0"
BODY = os.urandom(10_000)


def failing(house):
    store = FailingStore(house.store)
    house.edges.store = house.store = store
    return store


async def test_where_the_volume_lacks_space_bodies_reach_their_readers_unstored():
    house = House()
    store = failing(house)
    store.has_space = False
    house.origin.put(KEY, BODY)
    assert (await house.get(KEY)).body == BODY
    await house.settled_fills()
    assert house.entry(KEY) is None
    assert house.edges.shared.is_pressed.is_set()
    store.has_space = True
    await house.get(KEY)
    await house.settled_fills()
    assert (await house.get(KEY)).result == "hit"


async def test_after_a_fault_the_disk_is_left_alone_for_a_while_and_then_tried_again():
    house = House()
    store = failing(house)
    store.fails_to_begin = True
    house.origin.put(KEY, BODY)
    for seconds, tries in ((0.0, 1), (0.9, 1), (0.2, 2), (1.5, 2), (0.6, 3)):
        house.now.advance(seconds)
        assert (await house.get(KEY)).body == BODY
        await house.settled_fills()
        assert len(house.record.faults) == tries
    store.fails_to_begin = False
    house.now.advance(4.1)
    await house.get(KEY)
    await house.settled_fills()
    assert (await house.get(KEY)).result == "hit"
    # Once it has worked, the next fault rests as short as the first one did.
    store.fails_to_begin = True
    for number, seconds in ((1, 0.0), (2, 1.1)):
        house.now.advance(seconds)
        house.origin.put(b"/b/%d" % number, BODY)
        await house.get(b"/b/%d" % number)
        await house.settled_fills()
        assert len(house.record.faults) == 3 + number


async def test_files_on_their_way_have_room_set_aside_at_most_a_quarter_of_the_budget():
    house = House(limits=Limits(budget_bytes=4 << 20))
    gates = []
    for number in range(4):
        target = b"/b/%d" % number
        house.origin.put(target, bytes(300_000))
        gates.append(house.origin.hold(target, 200_000))
    readers = [house.start("GET", b"/b/%d" % number) for number in range(4)]
    for gate in gates:
        await gate.reached()
    assert 900_000 < house.edges.index.reserved_bytes <= 1 << 20
    for gate in gates:
        gate.open()
    assert {(await reader).body for reader in readers} == {bytes(300_000)}
    await house.settled()
    assert house.edges.index.reserved_bytes == 0
    assert house.edges.index.bodies.count == 3


@pytest.mark.parametrize("length", [100, 2 << 20])
async def test_a_body_of_unknown_length_sets_aside_as_it_grows(length):
    house = House(limits=Limits(budget_bytes=16 << 20))
    house.origin.script(KEY, Answer(200, (), bytes(length), framing="chunked"))
    assert (await house.get(KEY)).body == bytes(length)
    await house.settled()
    assert house.edges.index.reserved_bytes == 0
    assert house.edges.index.bodies.count == 1


async def test_a_body_of_unknown_length_that_finds_no_more_room_reaches_its_reader():
    house = House(limits=Limits(budget_bytes=4 << 20))
    house.origin.script(KEY, Answer(200, (), bytes(3 << 20), framing="chunked"))
    assert (await house.get(KEY)).body == bytes(3 << 20)
    await house.settled()
    assert house.edges.index.reserved_bytes == 0
    assert house.edges.index.bodies.count == 0


@pytest.mark.parametrize("fate", ["torn", "abandoned", "refused"])
async def test_what_was_set_aside_is_given_back_whatever_comes_of_it(fate):
    house = House()
    house.origin.put(KEY, bytes(1 << 20))
    gate = house.origin.hold(KEY, 500_000)
    reader = house.start("GET", KEY)
    await gate.reached()
    assert house.edges.index.reserved_bytes > 1 << 20
    if fate == "refused":
        await house.put(KEY, b"x")
    if fate == "torn":
        house.origin.script(KEY, "refused")
    if fate == "abandoned":
        reader.cancel()
    gate.open()
    await asyncio.gather(reader, return_exceptions=True)
    await house.settled()
    assert house.edges.index.reserved_bytes == 0


async def test_what_is_not_unlinked_yet_leaves_no_room_for_something_else():
    house = House(limits=Limits(budget_bytes=1 << 20))
    store = failing(house)
    for number in range(5):
        house.origin.put(b"/b/%d" % number, bytes(200_000))
        await house.get(b"/b/%d" % number)
        await house.settled_fills()
    # A slow disk: all have gone, and still lie there.
    store.unlink_gate = asyncio.Event()
    await house.purging.location(house.route.location)
    assert house.edges.index.bodies.count == 0
    assert (await house.get(b"/b/0")).body == bytes(200_000)
    await house.settled_fills()
    assert house.entry(b"/b/0") is None
    assert house.edges.index.reserved_bytes == 0
    # It waits for a moment, and what goes within that is room.
    store.unlink_gate, gate = None, store.unlink_gate
    reader = house.start("GET", b"/b/0")
    await house.until(lambda: house.edges.index.reserved_bytes > 0)
    gate.set()
    assert (await reader).body == bytes(200_000)
    await house.settled()
    assert (await house.get(b"/b/0")).result == "hit"
    assert house.edges.shared.leaving.bytes == 0


async def test_a_long_head_has_room_set_aside_too():
    house = House(limits=Limits(budget_bytes=1 << 20))
    house.origin.put(KEY, bytes(1000), fields=((b"x-long", b"v" * 30_000),))
    gate = house.origin.hold(KEY, 500)
    reader = house.start("GET", KEY)
    await gate.reached()
    assert house.edges.index.reserved_bytes > 31_000
    gate.open()
    await reader
    await house.settled()
