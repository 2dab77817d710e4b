"""Whether anything lies beneath a key, at random: whoever asks after a write was answered never
hears what was before it, from whatever process on the table.

Each write that the origin takes in makes another state; some are taken in after their client was
told nothing. An answer must be of one of the states since the last write that had been answered
when it was asked for.
"""

import asyncio
import random

import pytest

from chunkside.core.entry import Absent
from chunkside.core.freshness import Policy
from chunkside.gateway.errors import OriginTooSlow
from chunkside.store.stamps import MemoryStampTable
from tests.gateway.test_probing import ALL, BENEATH, KEY, PROBE, S3
from tests.support.house import HandClock, House, Record
from tests.support.turns import turns

WRITTEN = (KEY + b"/x", BENEATH, KEY + b"/%78")
CLIENTS, STEPS, ROUNDS = 4, 30, 5


class Timeline(S3):
    def __init__(self, clock, record, dice):
        super().__init__(clock, record)
        self.dice = dice
        self.states = [False]
        self.late = set()

    async def pause(self):
        await turns(self.dice.randrange(8))

    async def _send_once(self, request):
        await self.pause()
        if request.method == "PUT" and self.dice.random() < 0.1:
            self.late.add(asyncio.create_task(self._take_in_late(request)))
            raise OriginTooSlow("no answer")
        response = await super()._send_once(request)
        await self.pause()
        return response

    async def _take_in_late(self, request):
        await self.pause()
        self._behaved(request, b"late")

    def _behaved(self, request, body):
        answer = super()._behaved(request, body)
        if request.method in ("PUT", "DELETE"):
            self.states.append(any(path.startswith(KEY + b"/") for path in self.objects))
        return answer


class History:
    """Two processes that remember, and one that only writes."""

    def __init__(self, dice):
        self.dice = dice
        self.clock = HandClock()
        table = MemoryStampTable(self.clock.boot_seconds)
        self.origin = Timeline(self.clock, Record(), dice)
        self.houses = tuple(
            House(policy=policy, table=table, clock=self.clock, upstream=lambda *_: self.origin)
            for policy in (ALL, ALL, Policy())
        )
        self.answered = 0
        self.from_store = 0

    async def client(self):
        for _ in range(STEPS):
            [step] = self.dice.choices((self.probe, self.head, self.write, self.wait), (8, 4, 1, 1))
            await step(self.dice.choice(self.houses))
            self.clock.advance(0.01)

    async def probe(self, house):
        floor = self.answered
        got = await house.get(PROBE)
        self.from_store += got.result == "negative_hit"
        said = b"<KeyCount>0<" not in got.body
        assert said in self.origin.states[floor:], (floor, self.origin.states, said)

    async def head(self, house):
        await house.send("HEAD", KEY)

    async def write(self, house):
        is_put, before = self.dice.random() < 0.4, len(self.origin.states)
        target = self.dice.choice(WRITTEN)
        if is_put:
            got = await house.put(target, b"x")
        else:
            got = await house.send("DELETE", target)
        if got.status < 500:
            self.answered = max(self.answered, before)

    async def wait(self, house):
        # A write that comes more than a minute after it was given up is beyond knowing.
        if all(each.done() for each in self.origin.late):
            self.clock.advance(self.dice.choice((1, 70, 700)))

    async def unfold(self):
        await asyncio.gather(*(self.client() for _ in range(CLIENTS)))
        for house in self.houses:
            await house.settled()
            index = house.edges.index
            index.check_invariants()
            beneath = [key for key in tuple(index.keys()) if key.target == KEY + b"/"]
            assert all(isinstance(index.look_up(key), Absent) for key in beneath)


@pytest.mark.parametrize("seed", range(8))
async def test_whoever_asks_after_a_write_was_answered_never_hears_what_was_before(seed):
    from_store = 0
    for round_ in range(ROUNDS):
        history = History(random.Random(seed * ROUNDS + round_))
        await history.unfold()
        from_store += history.from_store
    assert from_store > 0
