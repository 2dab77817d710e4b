"""Which file is handed out for a target, and what is said where there is none."""

import asyncio
import os
from dataclasses import replace

import pytest

from chunkside.core.decision import Refuse
from chunkside.core.entry import Part
from chunkside.core.fields import Fields
from chunkside.server.stored_file import FileRequest, HeldFile
from chunkside.store.body_store import DiskBodyStore
from tests.support.house import House
from tests.test_console import ALICE, console_of

BODY = os.urandom(50_000)
KEY, HOLE = b"/a/c/0", b"/a/c/1"


@pytest.fixture
async def house(tmp_path):
    house = House(
        store=lambda table, _: DiskBodyStore(
            str(tmp_path), table, lambda operation, cause: None, map_bodies=False, reader_limit=8
        )
    )
    assert isinstance(house.store, DiskBodyStore)
    await house.store.start()
    house.route = replace(house.route, prefix=b"/data")
    house.origin.put(b"/data" + KEY, BODY, etag=b'"one"')
    yield house
    await house.settled()
    await house.store.close()


async def ask(house: House, target: bytes, **options) -> HeldFile | Refuse:
    await house.settled()
    return await console_of(house).file(FileRequest(target, **options))


async def refused(house: House, target: bytes, **options) -> str:
    answer = await ask(house, target, **options)
    assert isinstance(answer, Refuse)
    assert answer.status == 404
    return answer.detail


def content(held: HeldFile | Refuse) -> bytes:
    assert isinstance(held, HeldFile)
    content = os.pread(held.file.fd, held.size + 1, 0)
    assert len(content) == held.size
    return content


async def test_a_stored_body_s_file_is_the_one_on_disk(house, tmp_path):
    await house.get(KEY)
    held = await ask(house, KEY)
    (path,) = tmp_path.rglob("*.arrow")
    assert content(held) == path.read_bytes()
    assert BODY in content(held)


async def test_the_query_is_part_of_the_target(house):
    await house.get(KEY)
    await house.get(KEY + b"?v=2")
    assert KEY + b"?v=2" in content(await ask(house, KEY + b"?v=2"))
    assert KEY + b"?v=2" in content(await ask(house, KEY + b"?v=2&x-id=GetObject"))
    assert KEY + b"?" not in content(await ask(house, KEY))
    assert "Nothing is held of it." in await refused(house, KEY + b"?v=3")


async def test_what_was_never_read_is_not_held(house):
    assert "Nothing is held of it." in await refused(house, KEY)


async def test_a_marker_is_told_of(house):
    await house.get(HOLE)
    assert "a marker: the origin's 404" in await refused(house, HOLE)


async def test_ranges_are_told_of_and_handed_out_by_name(house):
    for value in (b"bytes=100-199", b"bytes=300-399"):
        await house.get(KEY, (b"Range", value))
    told = await refused(house, KEY)
    assert "not the whole body: 100-199, 300-399" in told
    assert "not that one" in await refused(house, KEY, part=Part(150, 250))
    held = await ask(house, KEY, part=Part(110, 120))
    assert isinstance(held, HeldFile)
    assert held.part == Part(100, 199)
    assert BODY[100:200] in content(held)


async def test_a_whole_body_holds_every_range(house):
    await house.get(KEY)
    held = await ask(house, KEY, part=Part(1, 2))
    assert isinstance(held, HeldFile)
    assert held.part is None


async def test_partitions_are_asked_for_by_the_name_that_entries_show(house):
    await house.get(KEY, ALICE)
    partition = house.key(KEY, [ALICE]).namespace.partition[:8]
    told = await refused(house, KEY)
    assert f"Under other partitions something is: {partition.decode()}." in told
    assert BODY in content(await ask(house, KEY, partition=partition))
    assert "under that partition" in await refused(house, KEY, partition=b"00000000")


async def test_fields_select_among_variants_as_they_do_on_the_data_port(house):
    bodies = {b"de": b"hallo" * 2000, b"en": b"hello" * 2000}
    house.origin.put_variants(b"/data" + KEY, b"accept-language", bodies)
    for language in bodies:
        await house.get(KEY, (b"Accept-Language", language))
    for language, body in bodies.items():
        fields = Fields([(b"Accept-Language", language)])
        assert body in content(await ask(house, KEY, fields=fields))
    told = await refused(house, KEY)
    assert (
        "Variants are held, none for what this request has of these fields: accept-language."
        in told
    )


async def test_what_a_write_fell_on_is_not_held(house):
    await house.get(KEY)
    await house.settled()
    await house.put(KEY, b"new")
    assert "Nothing is held of it." in await refused(house, KEY)


@pytest.mark.parametrize("length", [100, 50_000])
async def test_a_file_that_was_exchanged_is_not_handed_out(house, tmp_path, length):
    await house.get(KEY)
    await house.settled()
    (path,) = tmp_path.rglob("*.arrow")
    foreign = path.with_name("foreign")
    foreign.write_bytes(bytes(length))
    foreign.replace(path)
    assert "can't be used" in await refused(house, KEY)


async def test_a_link_in_the_file_s_place_is_not_followed(house, tmp_path):
    await house.get(KEY)
    await house.settled()
    (path,) = tmp_path.rglob("*.arrow")
    secret = tmp_path / "elsewhere"
    path.rename(secret)
    house.store._readers.clear()
    path.symlink_to(secret)
    assert "can't be used" in await refused(house, KEY)


async def test_an_open_file_outlives_its_unlinking(house, tmp_path):
    await house.get(KEY)
    held = await ask(house, KEY)
    await house.put(KEY, b"new")
    await house.settled()
    assert list(tmp_path.rglob("*.arrow")) == []
    assert BODY in content(held)


async def test_bodies_in_memory_have_no_files():
    house = House()
    house.origin.put(KEY, BODY)
    await house.get(KEY)
    assert "in memory" in await refused(house, KEY)


async def test_during_the_first_scan_the_path_is_looked_at(house, tmp_path):
    await house.get(KEY)
    await house.settled()
    after = House(
        store=lambda *_: house.store, table=house.stamps, clock=house.now, is_scanning=True
    )
    after.route = house.route
    assert BODY in content(await ask(after, KEY))


async def test_a_target_that_can_t_be_one_is_refused(house):
    answer = await ask(house, b"/a/../../b")
    assert isinstance(answer, Refuse)
    assert answer.status == 400


async def test_a_file_is_the_same_for_many_at_once(house):
    await house.get(KEY)
    await house.settled()
    console = console_of(house)
    held = await asyncio.gather(*(console.file(FileRequest(KEY)) for _ in range(10)))
    assert len({content(each) for each in held}) == 1
