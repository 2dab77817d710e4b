"""Histories at random: whoever asks after a write was answered never sees what was before it.

Reads, ranges, writes, deletes, purges and writes of unknown fate interleave as the dice say. Each
write has a number, in the order in which the origin took them in. A read may bring any version from
the newest that had been acknowledged when it began; never an older one, and no absence older than
it.
"""

import asyncio
import random

import pytest

from chunkside.core.key import Object
from chunkside.gateway.errors import OriginTooSlow
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import FakeUpstream
from tests.support.house import LOCATION, FailingStore, House
from tests.support.turns import turns

TARGETS = (b"/a/0", b"/%61/0", b"/a/0?v=1")
PATH = b"/a/0"
CLIENTS = 6
STEPS = 40
SIZES = (10, 300_000)
NOBODY = ((),)
WHO = ((), ((b"Authorization", b"Bearer alice"),), ((b"Authorization", b"Bearer bob"),))


class Dice(FakeUpstream):
    """An origin that takes its time, and may take a write in after its client was given up."""

    def __init__(self, clock, record, dice):
        super().__init__(clock, record, chunk_bytes=50_000)
        self.dice = dice
        self.taken_in = 0
        self.versions = {b"": 0}
        self.late = set()

    async def pause(self):
        await turns(self.dice.randrange(12))

    def _behaved(self, request, body):
        if request.method in ("PUT", "DELETE"):
            self.taken_in += 1
            if request.method == "PUT":
                self.versions[body] = self.taken_in
            else:
                self.versions[b""] = self.taken_in
        return super()._behaved(request, body)

    async def _send_once(self, request):
        await self.pause()
        if request.method == "PUT" and self.dice.random() < 0.2:
            self.late.add(asyncio.create_task(self._take_in_late(request)))
            raise OriginTooSlow("no answer")
        response = await super()._send_once(request)
        await self.pause()
        return response

    async def _take_in_late(self, request):
        await self.pause()
        self._behaved(request, b"".join([chunk async for chunk in request.content.chunks]))


class History:
    def __init__(self, house, dice, who):
        self.house = house
        self.dice = dice
        self.who = who
        self.acknowledged = 0
        self.made = 0
        self.reads = 0

    async def client(self):
        steps = [self.get, self.get, self.get, self.range, self.put, self.delete, self.purge]
        for _ in range(STEPS):
            await self.dice.choice(steps)()
            await self.house.origin.pause()
            # A write that comes more than a minute after it was given up is beyond knowing.
            is_late = any(not each.done() for each in self.house.origin.late)
            if self.dice.random() < 0.1 and not is_late:
                self.house.now.advance(self.dice.choice((1, 30, 301)))

    async def get(self):
        floor = self.acknowledged
        got = await self.house.get(self.dice.choice(TARGETS), *self.dice.choice(self.who))
        if got.status == 200 and not got.is_torn:
            self.check(got.body, floor)
        elif got.status == 404:
            self.check(b"", floor)

    async def range(self):
        floor = self.acknowledged
        who = self.dice.choice(self.who)
        got = await self.house.get(self.dice.choice(TARGETS), *who, (b"Range", b"bytes=0-9"))
        if got.status == 206:
            [whole] = [each for each in self.house.origin.versions if each[:10] == got.body]
            self.check(whole, floor)

    def check(self, body, floor):
        self.reads += 1
        # An absence has as many versions as there were deletes; the newest is the mildest.
        assert self.house.origin.versions[body] >= floor, f"older than {floor}: {body[:20]!r}"

    async def put(self):
        self.made += 1
        size = self.dice.choice(SIZES)
        body = (b"%010d" % self.made).ljust(size, b".")
        got = await self.house.put(self.dice.choice(TARGETS), body)
        if got.status < 300:
            self.acknowledged = max(self.acknowledged, self.house.origin.versions[body])

    async def delete(self):
        got = await self.house.send("DELETE", TARGETS[0])
        if got.status < 300:
            self.acknowledged = max(self.acknowledged, 0)

    async def purge(self):
        await self.house.purging.object(Object(LOCATION, PATH))


async def unfold(house, dice, who=NOBODY):
    history = History(house, dice, who)
    async with asyncio.timeout(50):
        await asyncio.gather(*(history.client() for _ in range(CLIENTS)))
        await asyncio.gather(*house.origin.late)
        await house.settled()
    assert history.reads > STEPS
    # At rest: what is held is what the origin has.
    house.now.advance(61)
    for _ in range(2):
        for target in TARGETS:
            got = await house.get(target)
            thing = house.origin.objects.get(PATH)
            assert (got.status, got.body) == ((200, thing.body) if thing else (404, got.body))
        await house.settled()
    house.edges.index.check_invariants()
    assert house.gateway.fills.in_flight == house.gateway.fills.waiters == 0
    assert house.origin.open_answers == 0
    assert house.edges.uncommitted_bytes == 0


def make_origin(dice):
    return lambda clock, record: Dice(clock, record, dice)


@pytest.mark.parametrize("seed", range(12))
async def test_no_read_is_older_than_what_was_acknowledged(seed):
    dice = random.Random(seed)
    await unfold(House(upstream=make_origin(dice)), dice)


@pytest.mark.parametrize("credentials", ["partition", "strip", "share"])
@pytest.mark.parametrize("seed", range(300, 304))
async def test_nor_is_any_with_whatever_credential(seed, credentials):
    dice = random.Random(seed)
    await unfold(House(upstream=make_origin(dice), credentials=credentials), dice, WHO)


@pytest.mark.parametrize("seed", range(400, 402))
async def test_nor_where_what_all_share_is_on_disk(seed, tmp_path):
    dice = random.Random(seed)
    house, disk = await disk_house(
        tmp_path, upstream=make_origin(dice), is_scanning=True, credentials="share"
    )
    await unfold(house, dice, WHO)
    await close(house, disk)


@pytest.mark.parametrize("seed", range(100, 104))
async def test_nor_on_disk_with_the_path_looked_at_on_every_miss(seed, tmp_path):
    dice = random.Random(seed)
    house, disk = await disk_house(tmp_path, upstream=make_origin(dice), is_scanning=True)
    await unfold(house, dice)
    await close(house, disk)


@pytest.mark.parametrize("seed", range(200, 206))
async def test_nor_where_the_disk_fails_now_and_then(seed):
    dice = random.Random(seed)
    house = House(upstream=make_origin(dice))
    store = FailingStore(house.store)
    house.edges.store = house.store = store

    async def saboteur():
        while True:
            for switch in ("begin", "open", "remove", "commit"):
                setattr(store, f"fails_to_{switch}", dice.random() < 0.3)
            store.append_limit = dice.choice((None, 100_000))
            await turns(30)

    sabotage = asyncio.create_task(saboteur())
    house.edges.is_scanning = True
    try:
        await unfold(house, dice)
    finally:
        sabotage.cancel()
