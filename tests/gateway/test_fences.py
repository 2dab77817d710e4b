"""Reads are fenced by writes (Z36-Z38): what was asked before a write never stands after it."""

import asyncio

import pytest

from chunkside.core.entry import Absent, Present
from chunkside.core.key import Object
from chunkside.gateway.passing import UNKNOWN_FATE_SECONDS
from tests.support.fake_upstream import Answer
from tests.support.house import LOCATION

OLD = b"old" * 100_000
NEW = b"new bytes"
KEY = b"/a/c/0"
HELD = pytest.mark.parametrize("at", [None, 70_000], ids=["before its head", "within its body"])


@HELD
async def test_bytes_of_an_older_get_do_not_stand_after_a_write(house, at):
    house.origin.put(KEY, OLD)
    gate = house.origin.hold(KEY, at)
    reader = house.start("GET", KEY)
    await gate.reached()
    assert (await house.put(KEY, NEW)).status == 204
    assert (await house.get(KEY)).body == NEW
    gate.open()
    # Whoever asked before the write has what there was.
    assert (await reader).body == OLD
    await house.settled()
    assert (await house.get(KEY)).body == NEW
    assert house.origin.count("GET") == 2


@pytest.mark.parametrize("at", [None, 4], ids=["before its head", "within its body"])
async def test_an_absence_from_before_a_write_is_not_remembered_after_it(house, at):
    gate = house.origin.hold(KEY, at)
    reader = house.start("GET", KEY)
    await gate.reached()
    assert (await house.put(KEY, NEW)).status == 201
    assert (await house.get(KEY)).body == NEW
    gate.open()
    assert (await reader).status == 404
    await house.settled()
    assert (await house.get(KEY)).body == NEW
    assert isinstance(house.entry(KEY), Present)


@HELD
async def test_an_older_get_that_ends_while_the_write_runs_is_not_stored(house, at):
    house.origin.put(KEY, OLD)
    get_gate = house.origin.hold(KEY, at)
    reader = house.start("GET", KEY)
    await get_gate.reached()
    put_gate = house.origin.hold(KEY, method="PUT")
    writer = asyncio.create_task(house.put(KEY, NEW))
    await put_gate.reached()
    get_gate.open()
    assert (await reader).body == OLD
    await house.until_ended(1)
    assert house.entry(KEY) is None
    put_gate.open()
    assert (await writer).status == 204
    assert (await house.get(KEY)).body == NEW


async def test_an_absence_that_arrives_while_the_write_runs_is_not_remembered(house):
    gate = house.origin.hold(KEY, method="PUT")
    writer = asyncio.create_task(house.put(KEY, NEW))
    await gate.reached()
    house.origin.objects.clear()
    assert (await house.get(KEY)).status == 404
    assert house.entry(KEY) is None
    house.origin.put(KEY, NEW)
    gate.open()
    await writer
    assert (await house.get(KEY)).body == NEW


async def test_a_write_over_a_marker_drops_it(house):
    assert (await house.get(KEY)).status == 404
    assert isinstance(house.entry(KEY), Absent)
    await house.put(KEY, NEW)
    assert (await house.get(KEY)).body == NEW


async def test_a_write_over_a_body_drops_it(house):
    house.origin.put(KEY, OLD)
    await house.get(KEY)
    await house.settled()
    await house.put(KEY, NEW)
    assert house.entry(KEY) is None
    assert (await house.get(KEY)).body == NEW
    assert house.record.removals["body", "invalidated"] == 1


async def test_a_delete_drops_the_body_and_the_next_get_sees_none(house):
    house.origin.put(KEY, OLD)
    await house.get(KEY)
    await house.settled()
    assert (await house.send("DELETE", KEY)).status == 204
    assert (await house.get(KEY)).status == 404


@HELD
async def test_a_get_from_before_a_delete_does_not_bring_the_body_back(house, at):
    house.origin.put(KEY, OLD)
    gate = house.origin.hold(KEY, at)
    reader = house.start("GET", KEY)
    await gate.reached()
    await house.send("DELETE", KEY)
    gate.open()
    assert (await reader).body == OLD
    await house.settled()
    assert (await house.get(KEY)).status == 404


@pytest.mark.parametrize(
    "what",
    [Answer(500), Answer(503), "silent", "dies", "refused"],
    ids=["500", "503", "silence", "dies", "refused"],
)
async def test_after_a_write_of_unknown_fate_nothing_is_stored_for_a_minute(house, what):
    house.origin.put(KEY, OLD)
    await house.get(KEY)
    await house.settled()
    house.origin.script(KEY, what, method="PUT", times=1)
    assert (await house.put(KEY, NEW)).status >= 500
    assert house.origin.count("PUT") == (0 if what == "refused" else 1)
    house.now.advance(UNKNOWN_FATE_SECONDS - 1)
    for _ in range(2):
        assert (await house.get(KEY)).body == OLD
        await house.settled()
    assert house.entry(KEY) is None
    house.now.advance(2)
    await house.get(KEY)
    await house.settled()
    assert (await house.get(KEY)).result == "hit"


async def test_an_absence_is_not_remembered_after_a_write_of_unknown_fate(house):
    house.origin.script(KEY, "dies", method="PUT")
    await house.put(KEY, NEW)
    assert (await house.get(KEY)).status == 404
    assert house.entry(KEY) is None


async def test_a_refused_write_opens_its_object_at_once(house):
    house.origin.put(KEY, OLD)
    house.origin.script(KEY, Answer(412), method="PUT")
    assert (await house.put(KEY, NEW)).status == 412
    await house.get(KEY)
    await house.settled()
    assert (await house.get(KEY)).result == "hit"


async def test_while_the_second_of_two_writes_runs_nothing_is_stored(house):
    gates = [house.origin.hold(KEY, method="PUT")]
    first = asyncio.create_task(house.put(KEY, b"one"))
    await gates[0].reached()
    gates.append(house.origin.hold(KEY, method="PUT"))
    second = asyncio.create_task(house.put(KEY, b"two"))
    await gates[1].reached()
    gates[0].open()
    await first
    await house.get(KEY)
    await house.settled_fills()
    assert house.entry(KEY) is None
    gates[1].open()
    await second
    assert (await house.get(KEY)).body == b"two"
    await house.settled()
    assert isinstance(house.entry(KEY), Present)


@pytest.mark.parametrize(
    "spelling",
    [b"/%61/c/0", b"/a/%63/0", b"/a/c/0?versionId=1", b"/a/c/0?partNumber=2&uploadId=x"],
)
async def test_a_write_falls_on_every_spelling_and_query_of_its_object(house, spelling):
    house.origin.put(KEY, OLD)
    for target in (KEY, spelling):
        await house.get(target)
    await house.settled()
    assert house.entry(KEY) is not None and house.entry(spelling) is not None
    await house.put(spelling, NEW)
    assert house.entry(KEY) is None and house.entry(spelling) is None
    assert (await house.get(KEY)).body == NEW


async def test_a_write_in_another_spelling_fences_a_get_under_way(house):
    house.origin.put(KEY, OLD)
    gate = house.origin.hold(KEY)
    reader = house.start("GET", KEY)
    await gate.reached()
    await house.put(b"/%61/c/0?x=1", NEW)
    gate.open()
    await reader
    await house.settled()
    assert (await house.get(KEY)).body == NEW


async def test_a_write_falls_on_every_partition(house):
    alice, bob = (b"Authorization", b"Bearer alice"), (b"Authorization", b"Bearer bob")
    house.origin.put(KEY, OLD)
    await house.get(KEY, alice)
    await house.get(KEY)
    await house.settled()
    await house.send("PUT", KEY, bob, content=NEW)
    assert (await house.get(KEY, alice)).body == NEW
    assert (await house.get(KEY)).body == NEW


async def test_a_post_may_change_anything_of_its_origin(house):
    house.origin.put(KEY, OLD)
    await house.get(KEY)
    await house.get(b"/b/absent")
    await house.settled()
    assert (await house.send("POST", b"/a?delete", content=b"<Delete/>")).status == 200
    assert house.entry(KEY) is None and house.entry(b"/b/absent") is None


async def test_a_get_under_way_is_fenced_by_a_post_to_elsewhere(house):
    house.origin.put(KEY, OLD)
    gate = house.origin.hold(KEY)
    reader = house.start("GET", KEY)
    await gate.reached()
    await house.send("POST", b"/a?delete", content=b"<Delete/>")
    gate.open()
    await reader
    await house.settled()
    assert house.entry(KEY) is None


@HELD
async def test_a_purge_fences_the_fill_under_way(house, at):
    house.origin.put(KEY, OLD)
    gate = house.origin.hold(KEY, at)
    reader = house.start("GET", KEY)
    await gate.reached()
    purged = await house.purging.object(Object(LOCATION, KEY))
    assert purged.objects == 1
    gate.open()
    assert (await reader).body == OLD
    await house.settled()
    assert house.entry(KEY) is None
    await house.get(KEY)
    await house.settled()
    assert house.entry(KEY) is not None


@pytest.mark.parametrize("held", ["before", "under way"])
async def test_a_purge_by_prefix_reaches_what_is_held_and_what_is_under_way(house, held):
    house.origin.put(KEY, OLD)
    house.origin.put(b"/ab/c/0", OLD)
    gate = house.origin.hold(KEY)
    if held == "before":
        gate.open()
    reader = house.start("GET", KEY)
    await house.get(b"/ab/c/0")
    await gate.reached()
    if held == "before":
        await reader
        await house.settled()
    await house.purging.prefix(LOCATION, b"/a")
    gate.open()
    await reader
    await house.settled()
    assert house.entry(KEY) is None
    assert house.entry(b"/ab/c/0") is not None


async def test_a_purge_of_all_reaches_everything(house):
    house.origin.put(KEY, OLD)
    await house.get(KEY)
    await house.get(b"/absent")
    await house.settled()
    purged = await house.purging.location(LOCATION)
    assert (purged.bodies, purged.markers) == (1, 1)
    assert house.entry(KEY) is None and house.entry(b"/absent") is None


async def test_an_unlink_that_fails_changes_nothing(frail):
    frail.origin.put(KEY, OLD)
    await frail.get(KEY)
    await frail.settled()
    frail.store.fails_to_remove = True
    await frail.put(KEY, NEW)
    await frail.settled()
    assert len(frail.store.removed) == 1
    # The old file lies there still, and a miss looks at its path.
    frail.edges.is_scanning = True
    got = await frail.get(KEY)
    assert (got.body, got.result) == (NEW, "miss")


async def test_a_write_between_a_files_rename_and_its_entry_keeps_it_out(frail):
    frail.store.commit_gate = asyncio.Event()
    frail.origin.put(KEY, OLD)
    assert (await frail.get(KEY)).body == OLD
    await frail.until(lambda: frail.store.commits_waiting == 1)
    await frail.put(KEY, NEW)
    frail.store.commit_gate.set()
    await frail.settled()
    assert frail.entry(KEY) is None
    assert len(frail.store.removed) == 1
    assert (await frail.get(KEY)).body == NEW


async def test_a_write_is_over_for_the_client_only_after_the_second_invalidation(house):
    house.origin.put(KEY, OLD)
    gate = house.origin.hold(KEY, method="PUT")
    writer = asyncio.create_task(house.put(KEY, NEW))
    await gate.reached()
    gate.open()
    await writer
    assert house.stamps.read(Object(LOCATION, KEY)).closed_until() <= house.now.boot


async def test_a_write_whose_client_left_still_invalidates(house):
    house.origin.put(KEY, OLD)
    gate = house.origin.hold(KEY, method="PUT")
    writer = asyncio.create_task(house.put(KEY, NEW))
    await gate.reached()
    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)
    assert house.stamps.read(Object(LOCATION, KEY)).closed_until() > house.now.boot
    await house.get(KEY)
    await house.settled()
    assert house.entry(KEY) is None


async def test_an_older_get_does_not_displace_what_a_newer_one_stored(house):
    house.origin.put(KEY, OLD)
    gate = house.origin.hold(KEY)
    reader = house.start("GET", KEY)
    await gate.reached()
    await house.purging.object(Object(LOCATION, KEY))
    house.origin.put(KEY, NEW)
    assert (await house.get(KEY)).body == NEW
    gate.open()
    await reader
    await house.settled()
    got = await house.get(KEY)
    assert (got.body, got.result) == (NEW, "hit")


async def test_a_stale_body_is_not_served_past_a_write_that_came_while_the_origin_failed(house):
    house.origin.put(KEY, OLD)
    await house.get(KEY)
    await house.settled()
    house.now.advance(301)
    house.origin.script(KEY, Answer(503), method="GET")
    gate = house.origin.hold(KEY)
    reader = house.start("GET", KEY)
    await gate.reached()
    await house.put(KEY, NEW)
    gate.open()
    assert (await reader).status == 503


async def test_another_process_s_write_is_seen_in_the_stamps(house):
    house.origin.put(KEY, OLD)
    await house.get(KEY)
    await house.get(b"/absent")
    await house.settled()
    for path in (KEY, b"/absent"):
        house.stamps.renew(Object(LOCATION, path), ends=None)
        house.origin.put(path, NEW)
        assert (await house.get(path)).body == NEW
