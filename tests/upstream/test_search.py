"""Finding out with whose credentials an origin is asked, while others are served."""

import asyncio
import threading

import pytest

from chunkside.core.fields import Fields
from chunkside.gateway.errors import OriginNotAsked
from chunkside.gateway.ports import OriginRequest
from chunkside.upstream import search as searching
from chunkside.upstream.hops import Means
from chunkside.upstream.search import NotYet, Search
from tests.support.house import Record
from tests.support.turns import turns


class Chain:
    """What is said of it, one after the other, as soon as `gate` is open."""

    def __init__(self, *told):
        self.told = list(told)
        self.looks = 0
        self.gate = threading.Event()

    def look(self):
        self.gate.wait(20)
        self.looks += 1
        return self.told.pop(0)


async def test_whoever_waits_goes_on_once_it_is_over():
    told = Means()
    chain = Chain(told)
    search = Search(chain.look)

    async def find():
        found = await search.means()
        search.end()
        return found

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        finding = group.create_task(find())
        waiting = [group.create_task(search.wait()) for _ in range(3)]
        await turns()
        assert not any(each.done() for each in waiting)
        chain.gate.set()
    assert finding.result() is told


async def test_what_tells_nothing_is_asked_again_once_somebody_waits(monkeypatch):
    monkeypatch.setattr(searching, "_LOOK_AGAIN_SECONDS", 0.0)
    told = Means()
    chain = Chain(None, told)
    chain.gate.set()
    search = Search(chain.look)
    finding = asyncio.create_task(search.means())
    async with asyncio.timeout(20):
        await search.until_looked()
        await turns()
        assert (chain.looks, finding.done()) == (1, False)
        waiting = asyncio.create_task(search.wait())
        assert await finding is told
    waiting.cancel()


@pytest.mark.parametrize("is_early", [True, False], ids=["while it looks", "between two looks"])
async def test_one_that_is_over_looks_no_more(monkeypatch, is_early):
    # As where settings are read anew: else each time would leave one behind.
    monkeypatch.setattr(searching, "_LOOK_AGAIN_SECONDS", 0.0)
    chain = Chain(None)
    search = Search(chain.look)
    finding = asyncio.create_task(search.means())
    async with asyncio.timeout(20):
        if is_early:
            await turns()
            search.end()
        chain.gate.set()
        await search.until_looked()
        search.end()
        assert await finding is None
    assert chain.looks == 1


async def test_nobody_waits_without_end(monkeypatch):
    monkeypatch.setattr(searching, "_LONGEST_WAIT_SECONDS", 0.01)
    search = Search(Chain().look)
    async with asyncio.timeout(20):
        await search.wait()
        await search.until_looked()


async def test_what_has_failed_for_long_is_waited_for_no_more(monkeypatch):
    monkeypatch.setattr(searching, "_LOOK_AGAIN_SECONDS", 0.0)
    told = Means()
    chain = Chain(None, None, told)
    chain.gate.set()
    search = Search(chain.look)
    finding = asyncio.create_task(search.means())
    await search.until_looked()
    await turns()
    assert search._failed_at is not None
    search._failed_at -= searching._LONGEST_WAIT_SECONDS
    chain.gate.clear()
    waiting = asyncio.create_task(search.wait())
    await turns()
    assert not waiting.done()
    # Until the look that it has caused fails, too.
    chain.gate.set()
    async with asyncio.timeout(5):
        await waiting
    assert (chain.looks, finding.done()) == (2, False)
    # And yet it is looked for again, and whoever waits goes on once that finds something.
    waiting = asyncio.create_task(search.wait())
    async with asyncio.timeout(20):
        assert await finding is told
        search.end()
        await waiting


async def test_meanwhile_nothing_is_asked():
    record = Record()
    way, question = NotYet(record), OriginRequest("GET", b"/a", Fields(), "chunk")
    with pytest.raises(OriginNotAsked, match="It isn't known yet whose credentials there are"):
        await way.send(question)
    way.trouble = "AWS's chain of credentials finds none"
    with pytest.raises(OriginNotAsked, match=r"finds none, so that .* set upstream_auth to none"):
        await way.send(question)
    assert record.spared == ["credentials", "credentials"]
