"""What an administrator reads of what is held: page by page, and never more at once than a page."""

import asyncio

from chunkside.core.entry import Absent, Present
from chunkside.core.key import Object
from chunkside.gateway.inventory import Inventory
from tests.support.house import LOCATION, House
from tests.support.turns import turns

KEY, HOLE = b"/a/c/0", b"/a/c/1"
ALICE = (b"Authorization", b"Bearer alice")
ALL = Object(LOCATION, b"/")


async def pages(house, root=ALL, limit=100):
    inventory, found = Inventory(house.edges), []
    place: int | None = 0
    while place is not None:
        page = await inventory.page(root, place, limit)
        assert len(page.held) <= limit
        found.append(page.held)
        place = page.next_place
    return found


def targets(pages):
    return [held.key.target for page in pages for held in page]


async def test_a_page_shows_bodies_and_markers_beneath_a_path_and_nothing_beside(house):
    house.origin.put(KEY, b"body")
    for target in (KEY, HOLE, b"/ab/c/0"):
        await house.get(target)
    await house.get(KEY, ALICE)
    await house.settled()
    (page,) = await pages(house, Object(LOCATION, b"/a"))
    shown = {(held.key, type(held.entry)) for held in page}
    assert shown == {
        (house.key(KEY), Present),
        (house.key(HOLE), Absent),
        (house.key(KEY, (ALICE,)), Present),
    }
    assert await pages(house, Object("http://elsewhere:80", b"/a")) == [[]]


async def test_pages_together_show_each_key_once():
    house = House()
    expected = [b"/%d" % number for number in range(25)]
    house.remember(expected)
    found = await pages(house, limit=10)
    assert [len(page) for page in found] == [10, 10, 5]
    assert sorted(targets(found)) == sorted(expected)
    # The last page is known to be the last, even where it is full.
    assert [len(page) for page in await pages(house, limit=5)] == [5] * 5


async def test_keys_that_stay_are_shown_once_while_others_come_and_go():
    house = House()
    steady = [b"/steady/%d" % number for number in range(40)]
    house.remember(steady[:20] + [b"/falls/%d" % number for number in range(20)] + steady[20:])
    inventory, found, number = Inventory(house.edges), [], 0
    place: int | None = 0
    while place is not None:
        page = await inventory.page(ALL, place, 3)
        found += targets([page.held])
        place = page.next_place
        house.edges.index.drop(house.key(b"/falls/%d" % number), "expired")
        house.remember([b"/comes/%d" % number])
        house.edges.index.touch(house.key(steady[number % 40]))
        number += 1
    assert [target for target in found if target in steady] == steady


async def test_a_page_looks_at_so_many_places_and_leads_on_where_it_found_nothing():
    house = House()
    house.remember([b"/a/%d" % number for number in range(12_000)] + [b"/b/0"])
    found = await pages(house, Object(LOCATION, b"/b"))
    assert [len(page) for page in found] == [0, 1]


async def test_a_page_gives_others_their_turns():
    house = House()
    house.remember([b"/a/%d" % number for number in range(5_000)])
    count = 0

    async def watch():
        nonlocal count
        while True:
            count += 1
            await turns()

    watching = asyncio.get_running_loop().create_task(watch())
    await Inventory(house.edges).page(Object(LOCATION, b"/b"), 0, 100)
    watching.cancel()
    assert count >= 9


async def test_what_a_get_would_find_fallen_is_not_shown(house):
    house.origin.put(KEY, b"body")
    await house.get(KEY)
    await house.get(HOLE)
    await house.settled()
    # As another process does.
    house.stamps.renew(Object(LOCATION, KEY), whole_location=False, ends=None)
    assert targets(await pages(house)) == [HOLE]


async def test_a_look_is_no_use(house):
    house.remember([b"/0", b"/1"])
    order = house.edges.index._held._slots.markers()
    await pages(house)
    assert house.edges.index._held._slots.markers() == order


async def test_a_place_past_the_end_leads_nowhere(house):
    house.remember([b"/0"])
    page = await Inventory(house.edges).page(ALL, 10**6, 10)
    assert (page.held, page.next_place) == ([], None)
