"""What every body store does, on disk or in memory, and the fake in front, on either event loop."""

import asyncio
from typing import Any

import pytest
import xxhash

from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.store.memory import MemoryBodyStore
from chunkside.store.stamps import MemoryStampTable
from tests.plugins.matrix import PROPERTY
from tests.store.samples import (
    LARGE,
    LOOPS,
    SMALL,
    STAMPS,
    a_disk_store,
    a_key,
    a_stored,
    keep,
    read_all,
    some_bytes,
)
from tests.support.house import FailingStore


@pytest.fixture(params=LOOPS)
def loop(request):
    return request.param


@pytest.fixture
def runner(loop):
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        yield runner


@pytest.fixture(params=["disk, mapped", "disk, read", "memory", "fake"])
def store(request, runner, loop, tmp_path, record_property):
    record_property(PROPERTY, ("body store", request.param, loop))
    store = open_store(request.param, runner, str(tmp_path))
    yield store
    runner.run(behind(store).close())


def open_store(kind, runner, root):
    if kind in ("memory", "fake"):
        in_memory = MemoryBodyStore(MemoryStampTable(lambda: 0.0))
        return in_memory if kind == "memory" else FailingStore(in_memory)
    store = a_disk_store(root, map_bodies=kind == "disk, mapped")
    runner.run(store.start())
    return store


def behind(store) -> Any:
    """The store that does the work."""
    return store.inner if isinstance(store, FailingStore) else store


@pytest.mark.parametrize("length", [1, SMALL, LARGE])
def test_the_checksum_of_any_bytes_is_that_of_what_is_read(store, runner, length):
    async def scenario():
        content = some_bytes(length)
        body = await keep(store, content)
        reader = await store.open(body)
        for start, size in [(0, length), (length - 1, 1), (length // 3, length // 2), (0, 0)]:
            told = xxhash.xxh3_64_intdigest(content[start : start + size])
            assert await store.checksum(body, start, size) == told
            assert await reader.checksum(start, size) == told
        await store.remove([body])
        with pytest.raises(StoreFault):
            await store.checksum(body, 0, length)
        # What is open can be read on.
        assert await reader.checksum(0, 1) == xxhash.xxh3_64_intdigest(content[:1])

    runner.run(scenario())


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("length", [0, 1, 7, 8, 63, 64, 65, SMALL, 262_144, 262_145, LARGE])
def test_a_committed_body_is_read_back_byte_for_byte(store, runner, length, known):
    async def scenario():
        content = some_bytes(length)
        body = await keep(store, content, known=known)
        assert body.length == length
        assert body.charge >= length
        reader = await store.open(body)
        assert reader.length == length
        assert await read_all(reader) == content
        for at_once in (reader.read_now, reader.copy_now):
            whole = at_once(0, reader.length)
            assert whole is None or bytes(whole) == content

    runner.run(scenario())


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_read_gives_at_least_one_byte_and_at_most_what_was_asked(store, runner, length):
    async def scenario():
        content = some_bytes(length)
        reader = await store.open(await keep(store, content))
        for start, limit in [(0, 1), (length - 1, 100), (length // 2, 5000), (1, length)]:
            part = bytes(await reader.read(start, limit))
            assert 0 < len(part) <= limit
            assert part == content[start : start + len(part)]

    runner.run(scenario())


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_what_was_appended_can_be_read_before_the_commit_and_after(store, runner, known):
    async def scenario():
        content = some_bytes(LARGE)
        writer = await store.begin(a_stored(), STAMPS, LARGE if known else None)
        for at in range(0, LARGE, 90_000):
            await writer.append(content[at : at + 90_000])
            end = min(at + 90_000, LARGE)
            for start in (0, end // 2, end - 1):
                part = bytes(await writer.read(start, 4000))
                assert part
                assert part == content[start : start + len(part)]
        await writer.commit(LARGE)
        assert bytes(await writer.read(LARGE - 9, 100)) == content[-9:]
        assert bytes(await writer.read(0, 100)) == content[:100]

    runner.run(scenario())


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(
            [1, 1, 4095, 4096, 4097, 1, 70_000, 2, 300_000, 1, 1], id="little-beside-large"
        ),
        pytest.param([5000] * 300, id="many"),
        pytest.param([1] * 3000, id="very-little"),
    ],
)
def test_pieces_of_any_size_are_read_back_and_stored_in_their_order(store, runner, known, sizes):
    content = some_bytes(sum(sizes))

    async def scenario():
        writer = await store.begin(
            a_stored(length=len(content)), STAMPS, len(content) if known else None
        )
        end = 0
        for size in sizes:
            await writer.append(content[end : end + size])
            end += size
            for start in (0, end // 2, max(0, end - 4098), end - 1):
                got = bytes(await writer.read(start, 5000))
                assert got and content[start:end].startswith(got)
        reader = await store.open(await writer.commit(len(content)))
        assert await read_all(reader) == content

    runner.run(scenario())


class Growth:
    """How far a body has grown, for those who wait for more."""

    def __init__(self):
        self.end = 0
        self.condition = asyncio.Condition()

    async def reach(self, end):
        async with self.condition:
            self.end = end
            self.condition.notify_all()

    async def beyond(self, position):
        async with self.condition:
            await self.condition.wait_for(lambda: self.end > position)
            return self.end


def test_readers_follow_a_writer_at_their_own_speed(store, runner):
    async def follow(writer, growth, step):
        got = bytearray()
        while len(got) < LARGE:
            end = await growth.beyond(len(got))
            while len(got) < end:
                got += await writer.read(len(got), min(step, end - len(got)))
        return bytes(got)

    async def scenario():
        content = some_bytes(LARGE)
        growth = Growth()
        writer = await store.begin(a_stored(), STAMPS, LARGE)
        readers = [
            asyncio.create_task(follow(writer, growth, step))
            for step in (1 << 16, 1 << 18, 1 << 30)
        ]
        for at in range(0, LARGE, 65_536):
            await writer.append(content[at : at + 65_536])
            await growth.reach(min(at + 65_536, LARGE))
        assert await asyncio.gather(*readers) == [content] * 3
        await writer.commit(LARGE)

    runner.run(scenario())


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_body_of_another_length_is_not_committed(store, runner, length, known):
    async def scenario():
        writer = await store.begin(a_stored(), STAMPS, length if known else None)
        await writer.append(some_bytes(length - 1))
        with pytest.raises(StoreFault) as fault:
            await writer.commit(length)
        assert fault.value.cause == "length"
        await writer.abandon()
        assert await store.find(a_key()) is None

    runner.run(scenario())


def test_more_bytes_than_were_promised_are_refused(store, runner):
    async def scenario():
        writer = await store.begin(a_stored(), STAMPS, 10)
        with pytest.raises(StoreFault):
            await writer.append(some_bytes(11))

    runner.run(scenario())


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_an_abandoned_body_leaves_nothing(store, runner, length, tmp_path):
    async def scenario():
        writer = await store.begin(a_stored(), STAMPS, length)
        await writer.append(some_bytes(length))
        await writer.abandon()
        await writer.abandon()
        with pytest.raises(BodyTorn):
            await writer.read(0, 1)
        with pytest.raises(StoreFault):
            await writer.commit(length)
        assert await store.find(a_key()) is None
        assert list(tmp_path.rglob("*.tmp")) == []

    runner.run(scenario())


def test_abandoning_after_the_commit_is_harmless(store, runner):
    async def scenario():
        content = some_bytes(SMALL)
        writer = await store.begin(a_stored(), STAMPS, SMALL)
        await writer.append(content)
        body = await writer.commit(SMALL)
        await writer.abandon()
        assert await read_all(await store.open(body)) == content

    runner.run(scenario())


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_later_commit_takes_the_place_of_an_earlier_one(store, runner, length):
    async def scenario():
        first = await keep(store, some_bytes(length))
        content = some_bytes(length)
        second = await keep(store, content)
        assert await read_all(await store.open(second)) == content
        await store.remove([first])
        assert await read_all(await store.open(second)) == content
        with pytest.raises(StoreFault):
            await store.open(first)
        found = await store.find(a_key())
        assert found is not None
        assert found.body == second

    runner.run(scenario())


def test_variants_of_one_key_lie_beside_each_other(store, runner):
    async def scenario():
        contents = {name: some_bytes(SMALL) for name in (b"", b"d" * 32, b"e" * 32)}
        bodies = {name: await keep(store, each, variant=name) for name, each in contents.items()}
        for name, body in bodies.items():
            assert body.variant == name
            assert await read_all(await store.open(body)) == contents[name]
        # By path only what doesn't vary can be looked for.
        found = await store.find(a_key())
        assert found is not None
        assert found.body == bodies[b""]
        scanned = {each.body for batch in [b async for b in store.scan()] for each in batch}
        assert scanned == set(bodies.values())
        await store.remove([bodies[b"d" * 32]])
        with pytest.raises(StoreFault):
            await store.open(bodies[b"d" * 32])
        assert await read_all(await store.open(bodies[b"e" * 32])) == contents[b"e" * 32]

    runner.run(scenario())


def test_of_two_interleaved_fills_the_later_commit_is_the_one_that_stays(store, runner):
    async def scenario():
        contents = [some_bytes(LARGE), some_bytes(LARGE)]
        writers = [await store.begin(a_stored(), STAMPS, LARGE) for _ in contents]
        for at in range(0, LARGE, 300_000):
            for writer, content in zip(writers, contents, strict=True):
                await writer.append(content[at : at + 300_000])
        bodies = [await writer.commit(LARGE) for writer in writers]
        assert await read_all(await store.open(bodies[1])) == contents[1]
        found = await store.find(a_key())
        assert found is not None
        assert found.body.nonce == bodies[1].nonce != bodies[0].nonce

    runner.run(scenario())


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_an_open_reader_outlives_the_removal(store, runner, length):
    async def scenario():
        content = some_bytes(length)
        body = await keep(store, content)
        reader = await store.open(body)
        await store.remove([body])
        assert await read_all(reader) == content
        assert store.reader(body) is None
        with pytest.raises(StoreFault):
            await store.open(body)
        assert await store.find(a_key()) is None

    runner.run(scenario())


def test_removing_what_is_gone_is_harmless(store, runner):
    async def scenario():
        body = await keep(store, some_bytes(SMALL))
        await store.remove([body, body])
        await store.remove([body])

    runner.run(scenario())


def test_an_open_reader_is_at_hand(store, runner):
    async def scenario():
        body = await keep(store, some_bytes(SMALL))
        await store.open(body)
        assert store.reader(body) is not None

    runner.run(scenario())


def test_a_found_body_says_all_that_was_stored(store, runner):
    async def scenario():
        body = await keep(store, some_bytes(SMALL), known=False)
        found = await store.find(a_key())
        assert found is not None
        assert found.body == body
        assert found.stamps == STAMPS
        assert found.stored == a_stored(length=SMALL)
        assert found.table_id == behind(store)._table.id
        assert await store.find(a_key(b"/another")) is None
        assert await store.find(a_key(partition=b"p" * 32)) is None
        assert await store.find(a_key(host="h:81")) is None

    runner.run(scenario())


def test_a_scan_gives_every_body_once_in_batches(store, runner):
    async def scenario():
        keys = [a_key(b"/c/%d" % i, host=f"h:{i % 3}") for i in range(150)]
        bodies = {key: await keep(store, b"x", key) for key in keys}
        batches = [batch async for batch in store.scan()]
        assert all(0 < len(batch) <= 64 for batch in batches)
        found = [found for batch in batches for found in batch]
        assert len(found) == len(bodies)
        assert {one.stored.key: one.body for one in found} == bodies

    runner.run(scenario())
