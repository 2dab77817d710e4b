"""The map of an array's chunks: what the index knows of each, as its reader would find it."""

import asyncio
import json
from dataclasses import replace

import pytest

from chunkside.chunk_map import MOST_DOCUMENT_BYTES, map_of
from chunkside.core.decision import Refuse
from chunkside.core.freshness import Policy
from chunkside.core.slots import BODIES
from chunkside.server.map_page.chunk_map import STATES, state_of
from chunkside.server.map_page.request import parse_map
from tests.arrays.samples import n5, zarr2, zarr3
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import FailingStore, House
from tests.test_console import ALICE, console_of
from tests.test_why import opened

GRID = 20
PRESENT = frozenset((7 * n % 400 // GRID, 7 * n % 400 % GRID) for n in range(58))


@pytest.fixture
async def house():
    house = House()
    house.route = replace(house.route, prefix=b"/data")
    yield house
    await house.settled()


def put(house, document, body, present=(), at=b"/data/a"):
    house.origin.put(at + b"/" + document, body, etag=b'"d"')
    for key in present:
        house.origin.put(at + b"/" + key.encode(), b"bytes", etag=b'"c"')


async def mapped(house, path="/a", *fields):
    found = await map_of(opened(house), parse_map(f"/map{path}", fields))
    assert not isinstance(found, Refuse), found
    return found


def drawn(shown):
    """A letter for each cell of an unbinned map."""
    letters = dict(zip(STATES, "hpaeu", strict=True))
    return [
        "".join(" " if (state := state_of(cell)) is None else letters[state] for cell in row)
        for row in shown.rows
    ]


def totals(shown):
    return {state: count for state, count in shown.totals.items() if count}


async def read(house, *keys, at=b"/a", fields=()):
    for key in keys:
        await house.get(at + b"/" + key.encode(), *fields)
        # Else a chunk would be as old as the first sight of its document, which throws doubt on it.
        house.now.advance(0.01)
    await house.settled()


# What must stand.


@pytest.mark.parametrize(
    ("document", "body", "spell"),
    [
        (b"zarr.json", zarr3((200, 200), (10, 10)), "c/{}/{}"),
        (
            b"zarr.json",
            zarr3(
                *((200, 200), (10, 10)),
                chunk_key_encoding={"name": "default", "configuration": {"separator": "."}},
            ),
            "c.{}.{}",
        ),
        (b".zarray", zarr2((200, 200), (10, 10)), "{}.{}"),
        (b".zarray", zarr2((200, 200), (10, 10), dimension_separator="/"), "{}/{}"),
        (b"attributes.json", n5((200, 200), (10, 10)), "{1}/{0}"),
    ],
    ids=["v3", "v3 with dots", "v2", "v2 with slashes", "n5"],
)
async def test_of_400_chunks_with_58_present_half_read_exactly_that_is_shown(
    house, document, body, spell
):
    put(house, document, body, [spell.format(*at) for at in PRESENT])
    await read(house, *(spell.format(i, j) for i in range(10) for j in range(GRID)))
    shown = await mapped(house)
    wanted = [
        "".join("u" if i >= 10 else "h" if (i, j) in PRESENT else "a" for j in range(GRID))
        for i in range(GRID)
    ]
    assert drawn(shown) == wanted
    held = sum(i < 10 for i, _ in PRESENT)
    assert totals(shown) == {"held": held, "absent": 200 - held, "unknown": 200}


async def test_of_a_sharded_array_shards_are_shown_and_those_read_by_range_are_held_in_part(house):
    codecs = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 5]}}]
    put(house, b"zarr.json", zarr3((40, 40), (20, 20), codecs=codecs), ["c/0/0", "c/0/1"])
    await read(house, "c/0/0", "c/1/0")
    await read(house, "c/0/1", fields=[(b"Range", b"bytes=-2")])
    shown = await mapped(house)
    assert drawn(shown) == ["hp", "au"]
    assert shown.chunk_name == "shard"


async def test_one_dimension_is_shown_row_by_row(house):
    put(house, b".zarray", zarr2((130,), (1,)), ["64"])
    await read(house, "0", "64", "129")
    assert drawn(await mapped(house)) == [
        "a" + "u" * 63,
        "h" + "u" * 63,
        "ua" + " " * 62,
    ]


async def test_an_array_of_no_dimensions_has_one_chunk(house):
    put(house, b"zarr.json", zarr3((), ()), ["c"])
    assert drawn(await mapped(house)) == ["u"]
    await read(house, "c")
    assert drawn(await mapped(house)) == ["h"]


async def test_of_four_dimensions_the_slice_that_is_asked_for_is_shown(house):
    put(house, b"zarr.json", zarr3((2, 3, 4, 5), (1, 1, 2, 5)), ["c/1/2/0/0", "c/0/0/1/0"])
    await read(house, "c/1/2/0/0", "c/1/2/1/0", "c/0/0/1/0", "c/1/0/0/0")
    assert drawn(await mapped(house)) == ["u", "h"]
    assert drawn(await mapped(house, "/a?slice=1,2,:,:")) == ["h", "a"]
    assert drawn(await mapped(house, "/a?slice=1,:,0,:")) == ["a", "u", "h"]
    assert drawn(await mapped(house, "/a?slice=1,2,3,0")) == ["a"]


async def test_a_million_chunks_are_binned_and_counted_all(house):
    put(house, b".zarray", zarr2((1000, 1000), (1, 1)))
    house.remember(b"/a/%d.%d" % (i, j) for i in range(8) for j in range(16))
    shown = await mapped(house)
    assert totals(shown) == {"absent": 128, "unknown": 999_872}
    assert shown.rows[0][0] == {"absent": 128, "unknown": 128}


# What it may not do.


async def test_a_map_lets_others_have_their_turns(house):
    put(house, b".zarray", zarr2((300, 300), (1, 1)))
    await mapped(house)
    turns_taken = 0

    async def others():
        nonlocal turns_taken
        while True:
            turns_taken += 1
            await asyncio.sleep(0)  # polls: it is turns that are counted

    task = asyncio.create_task(others())
    await mapped(house)
    task.cancel()
    # Of 90,000 chunks some hundreds at a time.
    assert turns_taken > 90_000 / 600


async def test_right_after_a_read_a_map_asks_the_origin_for_nothing_and_nor_does_it_later(house):
    put(house, b"zarr.json", zarr3(), ["c/0/0"])
    await read(house, "zarr.json", "c/0/0")
    before = len(house.origin.requests())
    for _ in range(2):
        shown = await mapped(house)
        assert shown.document.is_held
        assert totals(shown) == {"held": 1, "unknown": 7}
        house.now.advance(6)
    assert len(house.origin.requests()) == before


async def test_a_document_that_is_not_held_is_asked_for_and_nothing_is_made_of_it(house):
    """As where a reader has consolidated metadata: it never reads the array's own document."""
    put(house, b".zarray", zarr2(), ["0.0"])
    await read(house, "0.0", "0.1")
    for _ in range(2):
        shown = await mapped(house)
        assert not shown.document.is_held
        assert totals(shown) == {"held": 1, "absent": 1, "unknown": 6}
    asked = [request.target for request in house.origin.requests()[2:]]
    assert asked == [b"/data/a/zarr.json", b"/data/a/.zarray"] * 2
    assert house.entry(b"/a/.zarray") is None
    assert house.entry(b"/a/zarr.json") is None
    await house.settled()
    assert (await house.get(b"/a/0.1")).result == "negative_hit"


async def test_a_document_whose_file_is_broken_is_asked_for(house):
    put(house, b"zarr.json", zarr3())
    await read(house, "zarr.json")
    house.edges.store = FailingStore(house.edges.store, fails_to_open=True)
    assert not (await mapped(house)).document.is_held


async def test_a_map_is_no_use_of_what_it_shows(house):
    put(house, b"zarr.json", zarr3(), ["c/0/0", "c/0/1"])
    await read(house, "zarr.json", "c/0/0", "c/0/1")
    order = list(house.edges.index._held._slots.in_order(BODIES))
    await read(house, "zarr.json")
    order = list(house.edges.index._held._slots.in_order(BODIES))
    await mapped(house)
    assert list(house.edges.index._held._slots.in_order(BODIES)) == order


async def test_a_map_looks_at_no_disk(tmp_path):
    house, disk = await disk_house(tmp_path)
    put(house, b"zarr.json", zarr3(), ["c/0/0"], at=b"/a")
    await read(house, "zarr.json", "c/0/0")
    await close(house, disk)
    house, disk = await disk_house(tmp_path)
    put(house, b"zarr.json", zarr3(), ["c/0/0"], at=b"/a")
    # Its file is there, and nobody has taken it in yet.
    shown = await mapped(house)
    assert totals(shown) == {"unknown": 8}
    await house.gateway.adoption.scan()
    assert totals(await mapped(house)) == {"held": 1, "unknown": 7}
    await close(house, disk)


# What it means.


async def test_what_is_no_longer_fresh_is_shown_so(house):
    put(house, b"zarr.json", zarr3(), ["c/0/0"])
    await read(house, "c/0/0", "c/0/1")
    house.now.advance(301)
    assert totals(await mapped(house)) == {"expired": 2, "unknown": 6}


async def test_chunks_of_an_array_that_was_rewritten_are_not_shown_as_held(house):
    put(house, b"zarr.json", zarr3(), ["c/0/0"])
    await read(house, "zarr.json", "c/0/0", "c/0/1")
    house.now.advance(6)
    house.origin.put(b"/data/a/zarr.json", zarr3((10, 10)), etag=b'"new"')
    await read(house, "zarr.json")
    shown = await mapped(house)
    assert totals(shown) == {"expired": 1, "unknown": 3}


async def test_what_a_write_fell_on_is_unknown(house):
    put(house, b"zarr.json", zarr3(), ["c/0/0"])
    await read(house, "zarr.json", "c/0/0")
    await house.put(b"/a/c/0/0", b"other")
    assert totals(await mapped(house)) == {"unknown": 8}


async def test_what_one_credential_learned_is_shown_to_it_alone(house):
    put(house, b"zarr.json", zarr3(), ["c/0/0"])
    await read(house, "zarr.json", "c/0/0", "c/0/1", fields=[ALICE])
    assert totals(await mapped(house)) == {"unknown": 8}
    shown = await mapped(house, "/a", ALICE)
    assert totals(shown) == {"held": 1, "absent": 1, "unknown": 6}


async def test_shared_bodies_are_shown_to_all_and_absences_to_who_saw_them():
    house = House(credentials="share")
    put(house, b"zarr.json", zarr3(), ["c/0/0"], at=b"/a")
    await read(house, "c/0/0", "c/0/1", fields=[ALICE])
    assert totals(await mapped(house)) == {"held": 1, "unknown": 7}
    assert totals(await mapped(house, "/a", ALICE)) == {"held": 1, "absent": 1, "unknown": 6}
    await house.settled()


async def test_a_route_that_remembers_no_absence_shows_none():
    house = House()
    put(house, b"zarr.json", zarr3(), at=b"/a")
    await read(house, "c/0/0")
    strict = house.beside("/", policy=Policy(cache_missing=False))
    strict.origin = house.origin
    assert totals(await mapped(strict)) == {"unknown": 8}
    await house.settled()


async def test_the_document_may_be_named_and_a_slash_may_end_the_path(house):
    put(house, b".zarray", zarr2())
    for path in ("/a/", "/a/.zarray", "/a"):
        assert (await mapped(house, path)).document.name == ".zarray"


# What is no map.


async def refused(house, path="/a"):
    found = await map_of(opened(house), parse_map(f"/map{path}", ()))
    assert isinstance(found, Refuse)
    return found


async def test_where_no_document_is_there_no_array_is(house):
    refuse = await refused(house)
    assert (refuse.status, refuse.slug) == (404, "no-array")
    assert "zarr.json, .zarray, attributes.json" in refuse.detail


async def test_a_group_is_no_array(house):
    put(house, b"zarr.json", json.dumps({"zarr_format": 3, "node_type": "group"}).encode())
    assert "group" in (await refused(house)).detail


async def test_a_failing_origin_is_asked_once_and_never_taken_for_an_absence(house):
    house.origin.script(b"/data/a/zarr.json", Answer(503))
    refuse = await refused(house)
    assert (refuse.status, refuse.slug) == (502, "no-document")
    assert "zarr.json: 503" in refuse.detail
    assert {request.target for request in house.origin.requests()} == {b"/data/a/zarr.json"}


async def test_a_store_that_refuses_to_say_what_is_missing_does_not_hide_the_other_document(house):
    house.origin.script(b"/data/a/zarr.json", Answer(403))
    put(house, b".zarray", zarr2())
    assert (await mapped(house)).document.name == ".zarray"


async def test_a_slice_of_other_dimensions_is_said_to_be_none(house):
    put(house, b"zarr.json", zarr3())
    refuse = await refused(house, "/a?slice=0,0,0")
    assert (refuse.status, refuse.slug) == (400, "bad-slice")


async def test_the_console_finds_the_route_of_a_map(house):
    put(house, b"zarr.json", zarr3())
    found = await console_of(house).map(parse_map("/map/a", ()))
    assert not isinstance(found, Refuse)
    assert found.shown_target == "/a"


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "asked for"])
async def test_a_document_that_is_too_long_is_not_parsed(house, is_held):
    put(house, b"zarr.json", zarr3((1, 1), (1, 1)) + b" " * MOST_DOCUMENT_BYTES)
    if is_held:
        await read(house, "zarr.json")
    found = await map_of(opened(house), parse_map("/map/a", ()))
    assert isinstance(found, Refuse)
    assert (found.status, "is longer than" in found.detail) == (404, True)
