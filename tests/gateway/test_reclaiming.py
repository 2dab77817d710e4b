"""What drops much does so in batches. Until its turn comes what has fallen is held, and is dead."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from chunkside.core.key import Object
from chunkside.gateway.inventory import Inventory
from chunkside.gateway.purging import Purged, Softened
from chunkside.gateway.reclaiming import BATCH
from tests.gateway.conftest import close, disk_house
from tests.support.house import LOCATION, FailingStore, House
from tests.support.turns import turns

ROOT = Object(LOCATION, b"/")
ELSEWHERE = "http://elsewhere:80"
ALICE = (b"Authorization", b"Bearer alice")
# Of some twenty batches.
MANY = 5000
LAST = b"/a/4999"


@pytest.fixture
async def house():
    house = House()
    yield house
    await house.settled()


def absent(count, pattern=b"/a/%d"):
    return [pattern % number for number in range(count)]


def held_of(house, location):
    counts = house.edges.index.counts_of(location)
    return counts["body"], counts["marker"]


async def broad(house):
    """A write whose answer has come."""
    return await house.send("POST", b"/a/", content=b"x")


async def falls(house, work):
    """What `work` gives, and the most entries that fell between two turns of the loop."""
    index, held, has_ended = house.edges.index, [], False

    async def watch():
        while not has_ended:
            held.append(index.bodies.count + index.markers.count)
            await turns()

    watching = asyncio.get_running_loop().create_task(watch())
    await turns()
    result = await work
    await house.edges.tasks.finish(120)
    has_ended = True
    await watching
    return result, max(before - after for before, after in pairwise(held))


# Batches.


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("what", ["prefix", "all", "write"])
async def test_a_hundred_thousand_never_fall_at_once(house, what):
    count = 100_000
    house.remember(absent(count))
    match what:
        case "prefix":
            work = house.purging.prefix(LOCATION, b"/a")
        case "all":
            work = house.purging.location(LOCATION)
        case _:
            work = broad(house)
    told, most = await falls(house, work)
    assert most <= BATCH
    assert house.edges.index.markers.count == 0
    if what == "write":
        assert house.record.removals == {("marker", "invalidated"): count}
    else:
        assert told == Purged(count, 0, 0, count)
        assert house.record.removals == {("marker", "purged"): count}


@pytest.mark.parametrize("what", ["write", "purge", "prefix", "soft purge"])
async def test_nor_do_all_spellings_of_one_object(house, what):
    house.remember(absent(MANY, b"/a?v=%d"))
    target = Object(LOCATION, b"/a")
    match what:
        case "write":
            work = house.put(b"/a", b"new")
        case "purge":
            work = house.purging.object(target)
        case "prefix":
            work = house.purging.prefix(LOCATION, b"/a")
        case _:
            work = house.purging.soften_object(target)
    told, most = await falls(house, work)
    assert most <= BATCH
    assert house.edges.index.markers.count == 0
    if what != "write":
        assert told == (Softened(0, 0, MANY) if what == "soft purge" else Purged(1, 0, 0, MANY))


async def test_nor_what_a_soft_purge_by_prefix_doubts(house):
    house.remember([*absent(MANY), *absent(MANY, b"/b/%d")])
    assert await falls(house, house.purging.soften_prefix(LOCATION, b"/b")) == (
        Softened(0, 0, MANY),
        BATCH,
    )


async def test_writes_in_quick_succession_share_one_sweep(house):
    edges = house.edges
    house.remember(absent(MANY))

    async def writes():
        for pattern in (b"/b/%d", b"/c/%d", None):
            name = edges.begin_write(ROOT, 60.0, whole_location=True)
            edges.end_write(ROOT, name, 0.0, whole_location=True)
            await turns(3)
            if pattern is not None:
                house.remember(absent(MANY, pattern))

    _, most = await falls(house, writes())
    assert most <= BATCH
    assert house.record.removals == {("marker", "invalidated"): 3 * MANY}


# What a broad write fell on, before it is dropped.


async def test_a_write_is_answered_before_all_has_been_dropped(house):
    house.remember(absent(MANY))
    assert (await broad(house)).status == 200
    assert house.edges.index.markers.count > MANY // 2
    house.origin.put(LAST, b"filled")
    assert (await house.get(LAST)).body == b"filled"
    [held] = (await Inventory(house.edges).page(ROOT, 0, MANY)).held
    assert held.key.target == LAST


async def test_what_is_stored_after_a_broad_write_outlives_the_sweep(house):
    house.remember(absent(MANY))
    house.origin.put(b"/a/0", b"body")
    await broad(house)
    # Ahead of the sweep, where it has been, and where nothing was.
    house.remember([LAST, b"/b/0"])
    await house.get(b"/a/0")
    await house.settled()
    index = house.edges.index
    assert held_of(house, LOCATION) == (1, 2)
    index.check_invariants()
    for target, result in (
        (b"/a/0", "hit"),
        (LAST, "negative_hit"),
        (b"/b/0", "negative_hit"),
    ):
        assert (await house.get(target)).result == result


async def test_a_broad_write_leaves_another_origin_alone(house):
    house.remember(absent(MANY))
    here = house.route
    house.route = replace(here, location=ELSEWHERE)
    house.remember(absent(MANY))
    house.route = here
    await broad(house)
    await house.settled()
    assert held_of(house, LOCATION) == (0, 0)
    assert held_of(house, ELSEWHERE) == (0, MANY)


async def test_a_purge_of_all_counts_what_others_drop_meanwhile(house):
    house.origin.put(b"/b", b"body")
    await house.get(b"/b")
    await house.settled()
    house.remember(absent(MANY))
    purge = asyncio.get_running_loop().create_task(house.purging.location(LOCATION))
    await turns()
    for target in (b"/b", LAST, b"/a/4998"):
        assert (await house.get(target)).result == "miss"
    assert await purge == Purged(MANY + 1, 1, 0, MANY)
    await house.settled()
    assert held_of(house, LOCATION) == (1, 2)


async def test_a_soft_purge_does_not_count_what_has_fallen(house):
    house.remember(absent(MANY))
    await broad(house)
    assert await house.purging.soften_prefix(LOCATION, b"/") == Softened(0, 0, 0)


async def test_what_has_fallen_takes_no_newer_lease_with_it(house):
    house.remember([b"/a"])
    house.stamps.renew(ROOT, ends=None, whole_location=True)
    lease = house.edges.lease(house.key(b"/a"))
    assert house.edges.look_up(lease.key) is None
    assert house.edges.may_store(lease)
    house.edges.index.end(lease)


async def test_a_body_is_adopted_in_place_of_one_that_has_fallen(tmp_path):
    one, its_disk = await disk_house(tmp_path)
    other, other_disk = await disk_house(tmp_path, clock=one.now)
    one.origin.put(b"/a", b"old")
    other.origin.put(b"/a", b"new")
    await one.get(b"/a")
    await one.settled()
    await broad(other)
    await other.get(b"/a")
    await other.settled()
    await one.gateway.adoption.scan()
    assert one.edges.look_up(one.key(b"/a")) is not None
    got = await one.get(b"/a")
    assert (got.body, got.result) == (b"new", "hit")
    await close(one, its_disk)
    await close(other, other_disk)


# While a prefix is purged.


async def test_what_is_asked_for_since_a_purge_began_stays(house):
    house.now.advance(-300)
    house.remember(absent(MANY))
    house.now.advance(300)
    purge = asyncio.get_running_loop().create_task(house.purging.prefix(LOCATION, b"/a"))
    await house.until(lambda: house.entry(b"/a/0") is None)
    house.now.advance(0.001)
    # The one has expired, and is asked for anew before its turn comes; the other's is over.
    for target in (LAST, b"/a/0"):
        assert (await house.get(target)).result == "miss"
    assert house.entry(b"/a/4998") is not None
    assert await purge == Purged(MANY - 1, 0, 0, MANY - 1)
    for target in (LAST, b"/a/0"):
        assert (await house.get(target)).result == "negative_hit"


async def test_but_falls_where_another_process_may_know_something_older(tmp_path):
    one, its_disk = await disk_house(tmp_path)
    other, other_disk = await disk_house(tmp_path, clock=one.now)
    one.now.advance(-300)
    one.remember(absent(MANY))
    one.now.advance(200)
    await other.get(LAST)
    one.now.advance(100)
    purge = asyncio.get_running_loop().create_task(one.purging.prefix(LOCATION, b"/a"))
    await one.until(lambda: one.entry(b"/a/0") is None)
    one.now.advance(0.001)
    assert (await one.get(LAST)).result == "miss"
    # It is stamped, or asked again because the whole prefix is doubted.
    assert (await purge).objects >= MANY - 1
    assert (await other.get(LAST)).result == "miss"
    await close(one, its_disk)
    await close(other, other_disk)


async def test_what_is_under_way_when_a_purge_begins_is_never_stored(house):
    house.remember(absent(MANY))
    gate = house.origin.hold(b"/a/late")
    reader = house.start("GET", b"/a/late")
    await gate.reached()
    purge = asyncio.get_running_loop().create_task(house.purging.prefix(LOCATION, b"/a"))
    await turns()
    gate.open()
    assert (await reader).status == 404
    assert await purge == Purged(MANY + 1, 0, 0, MANY)
    assert house.entry(b"/a/late") is None


async def test_a_purge_counts_each_object_once_in_all_its_partitions_and_spellings(house):
    house.origin.put(b"/a/0", b"body")
    for target in (b"/a/0", b"/a/%30", b"/a/0?v=1", b"/a/1"):
        for fields in ((), (ALICE,)):
            await house.get(target, *fields)
    await house.settled()
    bodies = house.edges.index.bodies.count
    assert await house.purging.prefix(LOCATION, b"/a") == Purged(2, bodies, 0, 8 - bodies)
    assert held_of(house, LOCATION) == (0, 0)


async def test_a_purge_reaches_what_only_the_disk_knows_and_counts_it_once(tmp_path):
    one, its_disk = await disk_house(tmp_path)
    other, other_disk = await disk_house(tmp_path, clock=one.now)
    one.edges.store = FailingStore(one.store, fails_to_remove=True)
    for house, target in ((one, b"/a/0"), (other, b"/a/1"), (other, b"/ab")):
        house.origin.put(target, b"body")
        await house.get(target)
        await house.settled()
    # The one's file stays, and is met again on the disk.
    assert await one.purging.prefix(LOCATION, b"/a") == Purged(2, 1, 0, 0)
    assert (await other.get(b"/a/1")).result == "miss"
    assert (await other.get(b"/ab")).result == "hit"
    await close(one, its_disk)
    await close(other, other_disk)


async def test_a_body_falls_though_the_clock_was_set_back_since(tmp_path):
    early, disk = await disk_house(tmp_path)
    early.origin.put(b"/a", b"old")
    await early.get(b"/a")
    await close(early, disk)
    early.now.wall -= 3600
    house, disk = await disk_house(
        tmp_path, clock=early.now, table=early.stamps, is_scanning=True
    )  # fmt: skip
    await house.gateway.adoption.scan()
    assert await house.purging.prefix(LOCATION, b"/a") == Purged(1, 1, 0, 0)
    await close(house, disk)
