"""A store that lets read and not list, at random: credentials lose their rights at any moment, keys
are written, and whoever asks for what is there is never told that it isn't.
"""

import asyncio
import random

import pytest

from chunkside.core.freshness import Policy
from tests.arrays.samples import zarr2, zarr3
from tests.support.house import House
from tests.support.listless import ListlessOrigin
from tests.support.turns import turns

BOTH = frozenset({403, 404})
DOCUMENTS = {b"/b/x/zarr.json": zarr3((9, 9), (1, 1)), b"/b/y/.zarray": zarr2((9, 9), (1, 1))}
KEYS = tuple(
    [b"/b/x/c/0/%d" % number for number in range(4)]
    + [b"/b/y/0.%d" % number for number in range(4)]
)
WHO = tuple((b"Authorization", b"Bearer %b" % name) for name in (b"alice", b"bob"))
FORMS = (("GET", ()), ("GET", ((b"Range", b"bytes=0-9"),)), ("HEAD", ()))
CLIENTS, STEPS, PHASES = 5, 25, 3


class Fickle(ListlessOrigin):
    """`denied`: those who may read nothing just now."""

    def __init__(self, clock, record, dice, denied):
        super().__init__(clock, record)
        self.dice = dice
        self.denied = denied

    async def _send_once(self, request):
        await turns(self.dice.randrange(8))
        response = await super()._send_once(request)
        await turns(self.dice.randrange(8))
        return response

    def _behaved(self, request, body):
        is_denied = request.fields.get(b"authorization") in self.denied
        if is_denied and request.method in ("GET", "HEAD"):
            return self.refusal
        return super()._behaved(request, body)


class History:
    def __init__(self, dice, scope, credentials):
        self.dice = dice
        policy = Policy(absent_statuses=BOTH, negative_scope=scope)
        denied: set[bytes] = set()
        self.denied = denied
        self.house = House(
            policy=policy,
            credentials=credentials,
            upstream=lambda clock, record: Fickle(clock, record, dice, denied),
        )
        self.origin = self.house.origin
        for path, body in DOCUMENTS.items():
            self.origin.put(path, body)
        self.there = set(dice.sample(KEYS, 2))
        for key in self.there:
            self.origin.put(key, b"body of a chunk")
        self.told = []

    async def client(self):
        for _ in range(STEPS):
            steps = (self.read, self.read_document, self.write, self.lose, self.wait)
            [step] = self.dice.choices(steps, (30, 3, 1, 2, 1))
            await step()
            self.house.now.advance(0.01)

    async def read(self):
        key, who = self.dice.choice(KEYS), self.dice.choice(WHO)
        method, fields = self.dice.choice(FORMS)
        was_there = key in self.there
        got = await self.house.send(method, key, who, *fields)
        assert got.status in (200, 206, 403, 404), got
        assert not (was_there and got.status == 404), (key, who, got.cache_status)
        self.told.append((got.status, got.result))

    async def read_document(self):
        await self.house.get(self.dice.choice(list(DOCUMENTS)), self.dice.choice(WHO))

    async def write(self):
        key = self.dice.choice(KEYS)
        assert (await self.house.put(key, b"body of a chunk")).status < 300
        self.there.add(key)

    async def lose(self):
        if self.dice.random() < 0.2:
            self.denied.add(self.dice.choice(WHO)[1])

    async def wait(self):
        self.house.now.advance(self.dice.choice((3, 30, 400)))

    async def unfold(self):
        for _ in range(PHASES):
            await asyncio.gather(*(self.client() for _ in range(CLIENTS)))
            await self.house.settled()
            self.house.edges.index.check_invariants()
            # What is granted anew in the midst of a question is beyond knowing.
            self.denied.clear()
        assert self.origin.open_answers == 0


@pytest.mark.parametrize("credentials", ["partition", "share"])
@pytest.mark.parametrize("scope", ["get", "all"])
@pytest.mark.parametrize("seed", range(10))
async def test_whoever_asks_for_what_is_there_is_never_told_that_it_is_not(
    seed, scope, credentials
):
    history = History(random.Random(seed), scope, credentials)
    await history.unfold()
    assert {(403, "miss"), (404, "miss"), (404, "negative_hit")} <= set(history.told)
