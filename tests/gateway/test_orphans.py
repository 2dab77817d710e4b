"""Fills whose readers have all gone go on, but hold no more than half of the connections."""

import asyncio

import pytest

from chunkside.core.entry import Present
from tests.support.house import Reading

LARGE = bytes(range(256)) * 8192
MOST = 2


@pytest.fixture
def crowd(house):
    house.edges.most_orphans = MOST
    return house


def targets(count):
    return [b"/b/c/%d" % number for number in range(count)]


async def leave(house, tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_those_beyond_are_given_up_and_the_others_stored(crowd):
    house, gates = crowd, []
    for target in targets(5):
        house.origin.put(target, b"body")
        gates.append(house.origin.hold(target))
    clients = [house.start("GET", target) for target in targets(5)]
    for gate in gates:
        await gate.reached()
    await leave(house, clients)
    await house.until(lambda: house.gateway.fills.in_flight == MOST)
    await house.until_ended(3)
    assert house.record.fills == ["given_up"] * 3
    for gate in gates:
        gate.open()
    await house.settled()
    assert [isinstance(house.entry(target), Present) for target in targets(5)] == [
        *[True] * MOST,
        *[False] * 3,
    ]
    assert house.origin.open_answers == 0


async def test_who_comes_for_what_was_given_up_has_it_brought_anew(crowd):
    house = crowd
    house.edges.most_orphans = 0
    house.origin.put(b"/b/k", LARGE)
    gate = house.origin.hold(b"/b/k", 1_000_000)
    reading = Reading(await house.ask("GET", b"/b/k"))
    await gate.reached()
    reading.leave()
    # Its fill is about to end, and has not had its turn yet.
    got = await house.get(b"/b/k")
    assert (got.is_torn, got.body) == (False, LARGE)
    await house.settled()
    assert isinstance(house.entry(b"/b/k"), Present)


async def test_one_that_is_waited_for_is_no_orphan(crowd):
    house = crowd
    house.edges.most_orphans = 0
    house.origin.put(b"/b/k", b"body")
    gate = house.origin.hold(b"/b/k")
    leaves, stays = house.start("GET", b"/b/k"), house.start("GET", b"/b/k")
    await gate.reached()
    await house.until_waiting(2)
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    gate.open()
    assert (await stays).body == b"body"
    assert house.origin.count() == 1


async def test_bodies_that_nobody_follows_any_more_count_as_well(crowd):
    house, gates = crowd, []
    for target in targets(3):
        house.origin.put(target, LARGE)
        gates.append(house.origin.hold(target, 1_000_000))
    readings = [Reading(await house.ask("GET", target)) for target in targets(3)]
    for gate in gates:
        await gate.reached()
    for reading in readings:
        reading.leave()
    await house.until(lambda: house.gateway.fills.in_flight == MOST)
    for gate in gates:
        gate.open()
    await house.settled()
    held = [isinstance(house.entry(target), Present) for target in targets(3)]
    assert held == [True, True, False]
    assert house.origin.open_answers == 0


async def test_what_was_read_to_its_end_is_no_orphan(crowd):
    house = crowd
    house.edges.most_orphans = 0
    house.origin.put(b"/b/k", LARGE)
    assert (await house.get(b"/b/k")).body == LARGE
    await house.settled()
    assert isinstance(house.entry(b"/b/k"), Present)
