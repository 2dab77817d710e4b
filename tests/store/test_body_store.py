"""What holds of bodies on disk: modes, damage, restarts, other processes, full disks."""

import asyncio
import os
import stat
import subprocess
from pathlib import Path

import pytest

from chunkside.gateway.errors import BodyTorn, StoreFault
from chunkside.store.body_store import DiskBodyStore
from tests.store.damage import DAMAGE, flip
from tests.store.samples import (
    LARGE,
    LOOPS,
    SMALL,
    STAMPS,
    Faults,
    a_disk_store,
    a_key,
    a_stored,
    keep,
    read_all,
    some_bytes,
)
from tests.support.deadline import wait_for
from tests.support.descriptors import open_beneath
from tests.support.turns import turns


@pytest.fixture(params=LOOPS)
def runner(request):
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner


@pytest.fixture
def faults():
    return Faults()


@pytest.fixture
def open_store(runner, tmp_path, faults):
    """Opens stores on one directory; those still open at the end are closed."""
    stores: list[DiskBodyStore] = []

    def open_another(root: Path = tmp_path, **options) -> DiskBodyStore:
        store = a_disk_store(str(root), faults, **options)
        runner.run(store.start())
        stores.append(store)
        return store

    yield open_another
    for store in stores:
        runner.run(store.close())


@pytest.fixture(params=[True, False], ids=["mapped", "read"])
def store(request, open_store):
    return open_store(map_bodies=request.param)


def body_files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.arrow"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o077, 0o777], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_every_directory_and_file_is_owner_only_whatever_the_umask(
    umask, open_store, runner, tmp_path, length
):
    async def scenario(store):
        writer = await store.begin(a_stored(), STAMPS, length)
        await writer.append(some_bytes(length))
        assert all(mode(path) == 0o600 for path in tmp_path.rglob("*.tmp"))
        await writer.commit(length)

    runner.run(scenario(open_store()))
    assert len(body_files(tmp_path)) == 1
    for path in tmp_path.rglob("*"):
        assert mode(path) == (0o700 if path.is_dir() else 0o600), path


def test_the_path_tells_location_and_key_apart(store, runner, tmp_path):
    keys = [
        a_key(),
        a_key(b"/a/c/0/1"),
        a_key(host="h:81"),
        a_key(partition=b"p" * 32),
    ]

    async def scenario():
        for key in keys:
            await keep(store, b"x", key)

    runner.run(scenario())
    parts = [path.relative_to(tmp_path).parts for path in body_files(tmp_path)]
    assert len(parts) == 4
    for version, location, shard, name in parts:
        assert version == "v1"
        assert len(location) == 16
        assert name.startswith(shard)
        assert len(name) == 64 + len(".arrow")
    assert len({location for _, location, _, _ in parts}) == 2


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_body_is_found_and_read_after_a_restart(open_store, runner, length):
    content = some_bytes(length)

    async def before(store):
        await keep(store, content)
        await store.close()

    async def after(store):
        found = await store.find(a_key())
        assert found is not None
        assert await read_all(await store.open(found.body)) == content

    runner.run(before(open_store()))
    runner.run(after(open_store()))


@pytest.mark.parametrize("length", [SMALL, LARGE])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_bad_file_is_a_miss_that_is_unlinked_and_counted(
    open_store, runner, tmp_path, faults, damage, length
):
    if damage == "a foreign owner" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    content = some_bytes(length)

    async def before(store):
        body = await keep(store, content)
        await store.close()
        return body

    async def after(store, body):
        with pytest.raises(StoreFault) as fault:
            await store.open(body)
        assert fault.value.cause in ("corrupt", "ESTALE")
        assert await store.find(a_key()) is None
        assert body_files(tmp_path) == []
        again = await keep(store, content)
        assert await read_all(await store.open(again)) == content

    body = runner.run(before(open_store()))
    (path,) = body_files(tmp_path)
    DAMAGE[damage](path)
    runner.run(after(open_store(), body))


@pytest.mark.parametrize("damage", sorted(DAMAGE.keys() - {"a flipped bit in the body"}))
def test_a_scan_unlinks_what_it_can_tell_is_bad(open_store, runner, tmp_path, faults, damage):
    if damage == "a foreign owner" and os.geteuid() != 0:
        pytest.skip("only root can give files away")

    async def before(store):
        await keep(store, some_bytes(SMALL))
        await keep(store, some_bytes(SMALL), a_key(b"/good"))
        bad = store._directory.path_of(a_key(), None)
        await store.close()
        return Path(bad)

    async def after(store):
        return [found.stored.key async for batch in store.scan() for found in batch]

    path = runner.run(before(open_store()))
    if damage == "a flipped bit in the suffix":
        # Its last bytes; a flipped checksum of the body is found when the body is read.
        flip(path, -1)
    else:
        DAMAGE[damage](path)
    assert runner.run(after(open_store())) == [a_key(b"/good")]
    assert not os.path.lexists(path)
    assert ("find", "corrupt") in faults.seen


@pytest.mark.parametrize(
    "other", [a_key(b"/a/c/0/1"), a_key(partition=b"p" * 32)], ids=["key", "partition"]
)
def test_swapped_files_are_never_taken_for_each_other(open_store, runner, other):
    async def scenario(store):
        bodies = [await keep(store, some_bytes(SMALL), key) for key in (a_key(), other)]
        paths = [store._directory.path_of(key, None) for key in (a_key(), other)]
        os.rename(paths[0], paths[0] + ".x")
        os.rename(paths[1], paths[0])
        os.rename(paths[0] + ".x", paths[1])
        await store.close()
        return bodies

    async def after(store, bodies):
        for body in bodies:
            with pytest.raises(StoreFault):
                await store.open(body)
        assert await store.find(a_key()) is None
        assert await store.find(other) is None

    bodies = runner.run(scenario(open_store()))
    runner.run(after(open_store(), bodies))


@pytest.mark.parametrize("length", [SMALL, LARGE])
@pytest.mark.parametrize("cut", ["in the midst", "by one byte"])
def test_a_file_truncated_under_a_reader_is_torn_and_heals(
    store, runner, tmp_path, faults, length, cut
):
    async def scenario():
        content = some_bytes(length)
        reader = await store.open(await keep(store, content))
        first = bytes(await reader.read(0, 1000))
        assert first == content[: len(first)]
        (path,) = body_files(tmp_path)
        # Within the last page of what is left nothing but the file's size shows the cut.
        end = path.stat().st_size - 40 if cut == "by one byte" else length // 2 + 17
        os.truncate(path, end)
        whole = reader.read_now(0, reader.length)
        assert whole is None or bytes(whole) == content
        with pytest.raises(BodyTorn):
            await read_all(reader)
        assert ("read", "torn") in faults.seen
        assert store.reader(reader.body) is None
        assert await store.find(a_key()) is None
        again = await keep(store, content)
        assert await read_all(await store.open(again)) == content

    runner.run(scenario())


def test_a_reader_of_a_replaced_file_reads_on_in_its_own(store, runner):
    async def scenario():
        content = some_bytes(LARGE)
        reader = await store.open(await keep(store, content))
        await keep(store, some_bytes(LARGE))
        assert await read_all(reader) == content

    runner.run(scenario())


def test_cold_pages_are_read_by_a_thread(store, runner, tmp_path):
    async def scenario(length):
        content = some_bytes(length)
        body = await keep(store, content)
        for path in body_files(tmp_path):
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        reader = await store.open(body)
        whole = reader.read_now(0, reader.length)
        assert whole is None or bytes(whole) == content
        assert await read_all(reader) == content

    runner.run(scenario(SMALL))
    runner.run(scenario(LARGE))


def test_renames_and_unlinks_of_one_path_run_in_the_order_they_were_asked_for(store, runner):
    async def scenario():
        old = await keep(store, b"old")
        content = some_bytes(SMALL)
        for _ in range(50):
            writer = await store.begin(a_stored(), STAMPS, SMALL)
            await writer.append(content)
            _, new = await asyncio.gather(store.remove([old]), writer.commit(SMALL))
            assert await read_all(await store.open(new)) == content
            found = await store.find(a_key())
            assert found is not None
            assert found.body == new
            old = new

    runner.run(scenario())


@pytest.mark.parametrize("length", [SMALL, LARGE])
def test_a_cancelled_fill_leaves_no_temp_file(store, runner, tmp_path, length):
    async def fill(writer, cancelled_at):
        try:
            for at in range(0, length, 1000):
                if at == cancelled_at:
                    cancel_me()
                await writer.append(bytes(min(1000, length - at)))
            cancel_me()
            await writer.commit(length)
        finally:
            await writer.abandon()

    async def scenario(cancelled_at):
        writer = await store.begin(a_stored(), STAMPS, length)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(fill(writer, cancelled_at))
        # Behind whatever the cancelled one left to be done.
        found = await store.find(a_key())
        assert found is None or found.stored.length == length
        assert list(tmp_path.rglob("*.tmp")) == []

    for cancelled_at in (0, length // 2000 * 1000, length):
        runner.run(scenario(cancelled_at))


def cancel_me() -> None:
    """The next wait of this task ends it."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def until_mapped(store, most):
    """A thread may hold what it has just read for a moment longer."""
    async with asyncio.timeout(20):
        while store.mapped_bytes > most:
            await turns()


def test_readers_kept_open_are_bounded_and_evicted_ones_stay_valid(open_store, runner, tmp_path):
    async def scenario(store):
        contents = {a_key(b"/%d" % i): some_bytes(LARGE // 4) for i in range(12)}
        bodies = {key: await keep(store, content, key) for key, content in contents.items()}
        readers = {key: await store.open(body) for key, body in bodies.items()}
        assert store.open_readers == 5
        for key, reader in readers.items():
            assert await read_all(reader) == contents[key]
        assert store.mapped_bytes > 12 * LARGE // 4

    store = open_store(reader_limit=5)
    before = open_beneath(tmp_path)
    runner.run(scenario(store))
    # Five bodies and what stands around each.
    runner.run(until_mapped(store, 5 * (LARGE // 4 + 16_384)))
    # A mapped reader holds two, and mmap's own descriptor is one of them.
    wait_for(lambda: open_beneath(tmp_path) <= before + 10, "threads to let go of what they read")


def test_what_readers_kept_open_map_is_bounded_in_bytes(open_store, runner):
    size = LARGE // 4

    async def scenario(store):
        contents = {a_key(b"/%d" % i): some_bytes(size) for i in range(12)}
        bodies = [await keep(store, content, key) for key, content in contents.items()]
        for body, content in zip(bodies, contents.values(), strict=True):
            assert await read_all(await store.open(body)) == content
            await until_mapped(store, 3 * LARGE // 4 + 3 * 8192)
        assert store.open_readers == 3
        assert store.reader(bodies[-1]) is not None
        assert store.reader(bodies[0]) is None
        larger_than_all = some_bytes(LARGE)
        body = await keep(store, larger_than_all, a_key(b"/large"))
        assert await read_all(await store.open(body)) == larger_than_all
        assert store.open_readers == 1
        await store.remove([body])
        assert store.open_readers == 0
        await until_mapped(store, 0)

    runner.run(scenario(open_store(most_mapped_bytes=3 * LARGE // 4 + 3 * 8192)))


def test_a_file_unlinked_by_hand_is_not_read_on(store, runner, tmp_path):
    async def scenario():
        body = await keep(store, some_bytes(LARGE))
        assert store.reader(body) is not None
        body_files(tmp_path)[0].unlink()
        assert store.reader(body) is None
        with pytest.raises(StoreFault) as fault:
            await store.open(body)
        assert fault.value.cause == "ENOENT"

    runner.run(scenario())


def test_another_process_on_the_directory_is_seen_until_it_goes(open_store, runner):
    first = open_store()
    assert not first.is_shared
    second = open_store()
    assert first.is_shared
    assert second.is_shared
    runner.run(second.close())
    assert not first.is_shared


def test_a_body_committed_by_another_process_is_found_and_opened(open_store, runner):
    async def scenario(first, second):
        content = some_bytes(LARGE)
        old = await keep(first, some_bytes(LARGE))
        await keep(second, content)
        first._readers.drop(old)
        with pytest.raises(StoreFault) as fault:
            await first.open(old)
        assert fault.value.cause == "ESTALE"
        found = await first.find(a_key())
        assert found is not None
        assert await read_all(await first.open(found.body)) == content

    runner.run(scenario(open_store(), open_store()))


def test_the_first_scan_removes_temp_files_that_dead_processes_left(open_store, runner, tmp_path):
    async def leave(store):
        writer = await store.begin(a_stored(), STAMPS, LARGE)
        await store.close()
        return writer

    async def scan(store):
        own = await store.begin(a_stored(), STAMPS, LARGE)
        assert [batch async for batch in store.scan()] == []
        await own.append(some_bytes(LARGE))
        await own.commit(LARGE)

    runner.run(leave(open_store()))
    (leaked,) = tmp_path.rglob("*.tmp")
    os.utime(leaked, (leaked.stat().st_mtime - 1,) * 2)
    runner.run(scan(open_store()))
    assert list(tmp_path.rglob("*.tmp")) == []


def test_a_scan_beside_another_process_leaves_its_temp_files_alone(open_store, runner, tmp_path):
    async def scenario(first, second):
        writer = await first.begin(a_stored(), STAMPS, LARGE)
        assert [batch async for batch in second.scan()] == []
        await writer.append(some_bytes(LARGE))
        await writer.commit(LARGE)
        (temp,) = [first._directory.path_of(a_key(), None)]
        stale = Path(temp).with_name("." + Path(temp).name + ".1.00000000ffffffff.tmp")
        stale.write_bytes(b"")
        os.utime(stale, (1.0, 1.0))
        assert len([batch async for batch in second.scan()]) == 1
        assert not stale.exists()

    first = open_store()
    runner.run(scenario(first, open_store()))


def test_files_of_others_in_the_directory_are_left_alone(store, runner, tmp_path):
    async def scenario():
        body = await keep(store, b"x")
        note = Path(store._directory.path_of(body.key, None)).with_name("note.txt")
        note.write_text("mine")
        assert len([batch async for batch in store.scan()]) == 1
        assert note.read_text() == "mine"

    runner.run(scenario())


def test_what_was_written_and_removed_is_counted(store, runner):
    async def scenario():
        body = await keep(store, some_bytes(LARGE))
        assert store.committed_bytes == body.charge >= LARGE
        await store.remove([body])
        assert store.removed_bytes == body.charge

    runner.run(scenario())


def put_a_file_in_the_shards_place(shard: Path) -> None:
    shard.rename(shard.with_name("aside"))
    shard.write_text("")


def test_a_failed_unlink_is_counted_and_not_raised(store, runner, tmp_path, faults):
    async def scenario():
        body = await keep(store, some_bytes(SMALL))
        put_a_file_in_the_shards_place(Path(store._directory.path_of(body.key, None)).parent)
        await store.remove([body])
        assert faults.seen == [("remove", "ENOTDIR")]

    runner.run(scenario())


@pytest.fixture
def tiny_disk(tmp_path):
    mount = tmp_path / "tiny"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount], check=True)
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


@pytest.mark.root
def test_a_full_disk_is_learned_before_the_first_byte(open_store, runner, tiny_disk):
    async def scenario(store):
        with pytest.raises(StoreFault) as fault:
            await store.begin(a_stored(), STAMPS, LARGE)
        assert (fault.value.operation, fault.value.cause) == ("begin", "ENOSPC")
        await store.find(a_key())
        assert list(tiny_disk.rglob("*.tmp")) == []

    runner.run(scenario(open_store(tiny_disk)))


@pytest.mark.root
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_disk_that_fills_up_spares_what_is_there_and_heals(open_store, runner, tiny_disk, known):
    async def scenario(store):
        content = some_bytes(SMALL)
        kept = await keep(store, content)
        ballast = tiny_disk / "ballast"
        with ballast.open("wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, 880_000)
        writer = await store.begin(a_stored(a_key(b"/b")), STAMPS, 200_000 if known else None)
        await writer.append(some_bytes(200_000))
        with pytest.raises(StoreFault) as fault:
            await writer.commit(200_000)
        assert fault.value.cause == "ENOSPC"
        await writer.abandon()
        assert list(tiny_disk.rglob("*.tmp")) == []
        assert await read_all(await store.open(kept)) == content
        ballast.unlink()
        again = await keep(store, content, a_key(b"/b"))
        assert await read_all(await store.open(again)) == content

    runner.run(scenario(open_store(tiny_disk)))


@pytest.mark.root
def test_small_bodies_are_read_at_once_where_the_file_system_has_no_such_reads(
    open_store, runner, tiny_disk
):
    async def scenario(store):
        content = some_bytes(SMALL)
        reader = await store.open(await keep(store, content))
        if reader.read_now(0, reader.length) is None:
            assert await read_all(reader) == content
        assert bytes(reader.read_now(0, reader.length) or b"") == content
        os.truncate(store._directory.path_of(a_key(), None), 5000)
        assert reader.read_now(0, reader.length) is None
        with pytest.raises(BodyTorn):
            await read_all(reader)

    runner.run(scenario(open_store(tiny_disk)))
