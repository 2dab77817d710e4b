"""One house for each test: bodies on disk and in memory, where the rule has to hold for both."""

from collections.abc import AsyncIterator

import pytest

from chunkside.store.body_store import Bounds, DiskBodyStore
from chunkside.store.stamps import FileStampTable
from tests.support.house import FailingStore, HandClock, House


@pytest.fixture(params=["memory", "disk"])
async def house(request, tmp_path) -> AsyncIterator[House]:
    if request.param == "memory":
        house = House()
        yield house
        await house.settled()
    else:
        house, disk = await disk_house(tmp_path)
        yield house
        await close(house, disk)


@pytest.fixture
async def frail() -> AsyncIterator[House]:
    """A house whose store fails as it is told: `house.store` is a FailingStore."""
    house = House()
    failing = FailingStore(house.store)
    house.edges.store = failing
    house.store = failing
    yield house
    await house.settled()


async def disk_house(root, *, clock=None, table=None, is_scanning=False, **more):
    clock = clock or HandClock()
    table = table or FileStampTable(str(root), clock.boot_seconds)
    budget = more["limits"].budget_bytes if "limits" in more else 1 << 30
    stores = []

    def make_store(stamps, _now):
        disk = DiskBodyStore(
            str(root),
            stamps,
            lambda *_: None,
            map_bodies=True,
            reader_limit=64,
            bounds=Bounds(budget_bytes=budget),
        )
        stores.append(disk)
        return disk

    house = House(store=make_store, table=table, clock=clock, is_scanning=is_scanning, **more)
    await stores[0].start()
    return house, stores[0]


async def close(house, disk) -> None:
    await house.settled()
    await disk.close()
