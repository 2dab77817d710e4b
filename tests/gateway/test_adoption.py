"""After a restart: what lies on disk is taken in where the stamps vouch for it, else it is not."""

from pathlib import Path

import pytest

from chunkside.core.key import Object
from chunkside.store.stamps import FileStampTable
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import LOCATION, HandClock

KEY = b"/a/c/0"
BODIES = pytest.mark.parametrize("body", [b"small", b"large" * 100_000], ids=["small", "large"])
LOOKS = pytest.mark.parametrize("look", ["scan", "path"])


def files(root):
    return sorted(Path(root).rglob("*.arrow"))


class Restarts:
    """Houses on one directory, one after the other; they share an origin's objects and a clock."""

    def __init__(self, root):
        self.root = root
        self.clock = HandClock()
        self._open = []

    async def start(self, *, boot=b"b" * 16, look="path"):
        table = FileStampTable(str(self.root), self.clock.boot_seconds, boot)
        house, disk = await disk_house(self.root, clock=self.clock, table=table, is_scanning=True)
        if self._open:
            house.origin.objects = self._open[-1][0].origin.objects
        self._open.append((house, disk))
        if look == "scan":
            await house.gateway.adoption.scan()
        return house

    async def stop(self):
        house, disk = self._open[-1]
        await close(house, disk)
        house.stamps.release()


@pytest.fixture
async def restarts(tmp_path):
    restarts = Restarts(tmp_path)
    yield restarts
    await restarts.stop()


@BODIES
@LOOKS
async def test_under_the_same_table_and_stamps_a_body_is_as_it_was(restarts, body, look):
    house = await restarts.start()
    house.origin.put(KEY, body)
    await house.get(KEY)
    await restarts.stop()
    restarts.clock.advance(100)
    house = await restarts.start(look=look)
    got = await house.get(KEY)
    assert (got.body, got.result, got.reply.age) == (body, "hit", 100)
    assert house.origin.count() == 0


@LOOKS
async def test_a_body_that_was_written_over_meanwhile_is_dead_and_unlinked(restarts, look):
    house = await restarts.start()
    house.origin.put(KEY, b"old")
    await house.get(KEY)
    await restarts.stop()
    assert len(files(restarts.root)) == 1
    other = FileStampTable(str(restarts.root), restarts.clock.boot_seconds, b"b" * 16)
    other.renew(Object(LOCATION, KEY), ends=None)
    house = await restarts.start(look=look)
    house.origin.script(KEY, Answer(404))
    assert (await house.get(KEY)).status == 404
    await house.settled()
    assert files(restarts.root) == []


async def test_a_write_whose_unlink_failed_is_not_undone_by_a_restart(restarts):
    house = await restarts.start()
    house.origin.put(KEY, b"old")
    await house.get(KEY)
    await house.settled()
    [file] = files(restarts.root)
    kept = file.read_bytes()
    await house.put(KEY, b"new")
    await restarts.stop()
    file.touch(0o600)
    file.write_bytes(kept)
    house = await restarts.start(look="scan")
    assert (await house.get(KEY)).body == b"new"


@LOOKS
async def test_under_another_table_a_body_is_validated_before_its_first_use(restarts, look):
    house = await restarts.start()
    house.origin.put(KEY, b"body")
    await house.get(KEY)
    await restarts.stop()
    house = await restarts.start(boot=b"c" * 16, look=look)
    got = await house.get(KEY)
    assert (got.body, got.result) == (b"body", "revalidated")
    [asked] = house.origin.exchanges
    assert asked.status == 304
    assert (await house.get(KEY)).result == "hit"


@LOOKS
async def test_under_another_table_a_body_that_changed_is_fetched_anew(restarts, look):
    house = await restarts.start()
    house.origin.put(KEY, b"old")
    await house.get(KEY)
    await restarts.stop()
    house = await restarts.start(boot=b"c" * 16, look=look)
    house.origin.put(KEY, b"new")
    assert (await house.get(KEY)).body == b"new"


async def test_under_another_table_a_body_does_not_stand_in_for_an_origin_that_fails(restarts):
    house = await restarts.start()
    house.origin.put(KEY, b"body")
    await house.get(KEY)
    await restarts.stop()
    house = await restarts.start(boot=b"c" * 16)
    house.origin.script(KEY, "refused")
    assert (await house.get(KEY)).status == 503
    house.origin.behave()
    assert (await house.get(KEY)).result == "revalidated"


@LOOKS
async def test_under_another_table_a_body_without_a_validator_is_unlinked(restarts, look):
    house = await restarts.start()
    house.origin.put(KEY, b"body", etag=None, last_modified=None)
    await house.get(KEY)
    await restarts.stop()
    house = await restarts.start(boot=b"c" * 16, look=look)
    house.origin.script(KEY, Answer(404))
    assert (await house.get(KEY)).status == 404
    await house.settled()
    assert files(restarts.root) == []


async def test_absences_are_forgotten_by_a_restart(restarts):
    house = await restarts.start()
    await house.get(KEY)
    await restarts.stop()
    house = await restarts.start(look="scan")
    assert (await house.get(KEY)).result == "miss"


async def test_a_found_body_does_not_displace_what_is_known(restarts):
    house = await restarts.start()
    house.origin.put(KEY, b"old")
    await house.get(KEY)
    await house.settled()
    found = await house.store.find(house.key(KEY))
    house.now.advance(301)
    house.origin.put(KEY, b"new")
    await house.get(KEY)
    await house.settled()
    assert house.gateway.adoption.adopt(found) is None
    assert (await house.get(KEY)).body == b"new"


async def test_the_path_of_a_miss_is_not_looked_at_once_all_is_known(restarts):
    house = await restarts.start(look="scan")
    assert not house.edges.is_scanning


async def test_a_fill_that_ends_while_the_path_is_looked_at_is_used(restarts):
    house = await restarts.start()
    house.origin.put(KEY, b"body")
    got = [await reader for reader in [house.start("GET", KEY) for _ in range(50)]]
    assert {each.body for each in got} == {b"body"}
    assert house.origin.count() == 1


async def test_a_purge_by_prefix_while_the_scan_runs_reaches_what_only_the_disk_knows(restarts):
    house = await restarts.start()
    house.origin.put(KEY, b"old")
    await house.get(KEY)
    await restarts.stop()
    house = await restarts.start()
    assert (await house.purging.prefix(LOCATION, b"/a")).objects == 1
    house.origin.put(KEY, b"new")
    assert (await house.get(KEY)).body == b"new"
