"""Two fills of one key, what evicts or invalidates each, and a look at the path between any two
steps, in every order that there is.
"""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from chunkside.core.entry import BodyRef
from chunkside.gateway.errors import StoreFault
from chunkside.store.body_store import DiskBodyStore
from chunkside.store.writers import DiskWriter
from tests.store.samples import (
    LOOPS,
    STAMPS,
    a_disk_store,
    a_key,
    a_stored,
    read_all,
    some_bytes,
)

# Larger than what is held in memory: it has a temp file from the first step on.
LENGTH = 300_000
STEPS = ("begin", "append", "commit", "remove")


def orders() -> Iterator[tuple[str, ...]]:
    """All ways to merge the steps of A and of B."""
    length = 2 * len(STEPS)
    for places in itertools.combinations(range(length), len(STEPS)):
        yield tuple("A" if place in places else "B" for place in range(length))


class Play:
    def __init__(self, store: DiskBodyStore) -> None:
        self._store = store
        self._left = {name: iter(STEPS) for name in "AB"}
        self._contents = {name: some_bytes(LENGTH) for name in "AB"}
        self._writers: dict[str, DiskWriter] = {}
        self._bodies: dict[str, BodyRef] = {}
        self._lies_there: str | None = None

    async def step(self, name: str) -> None:
        match next(self._left[name]):
            case "begin":
                self._writers[name] = await self._store.begin(a_stored(), STAMPS, LENGTH)
            case "append":
                await self._writers[name].append(self._contents[name])
            case "commit":
                self._bodies[name] = await self._writers[name].commit(LENGTH)
                self._lies_there = name
            case _:
                await self._store.remove([self._bodies[name]])
                if self._lies_there == name:
                    self._lies_there = None

    async def look(self) -> None:
        found = await self._store.find(a_key())
        if self._lies_there is None:
            assert found is None
        else:
            assert found is not None
            assert found.body == self._bodies[self._lies_there]
        for name, body in self._bodies.items():
            if name == self._lies_there:
                reader = await self._store.open(body)
                assert await read_all(reader) == self._contents[name]
            else:
                with pytest.raises(StoreFault):
                    await self._store.open(body)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_path_always_holds_the_last_commit_that_was_not_removed(loop, tmp_path):
    async def scenario() -> None:
        store = a_disk_store(str(tmp_path))
        await store.start()
        for order in orders():
            play = Play(store)
            for name in order:
                await play.step(name)
                await play.look()
            assert [path for path in tmp_path.rglob("*") if path.suffix in (".arrow", ".tmp")] == []
        await store.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("is_commit_first", [True, False])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_removal_and_a_commit_that_are_asked_for_at_once_run_in_that_order(
    loop, tmp_path, is_commit_first
):
    async def scenario() -> None:
        store = a_disk_store(str(tmp_path))
        await store.start()
        old_writer = await store.begin(a_stored(), STAMPS, LENGTH)
        await old_writer.append(some_bytes(LENGTH))
        old = await old_writer.commit(LENGTH)
        for _ in range(30):
            writer = await store.begin(a_stored(), STAMPS, LENGTH)
            await writer.append(some_bytes(LENGTH))
            jobs = [writer.commit(LENGTH), store.remove([old])]
            results = await asyncio.gather(*(jobs if is_commit_first else jobs[::-1]))
            old = next(body for body in results if body is not None)
            found = await store.find(a_key())
            assert found is not None
            assert found.body == old
        await store.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())
