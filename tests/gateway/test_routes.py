"""Several routes of one process: an origin is one for all, and its settings are each one's own."""

import pytest

from chunkside.core.entry import Absent, Present
from chunkside.core.freshness import Policy
from tests.support.fake_upstream import Answer
from tests.support.house import House

KEY, HOLE, DOCUMENT = b"/a/c/0", b"/a/c/1", b"/a/zarr.json"
OBJECT = b"/data" + KEY
ALICE = (b"Authorization", b"Bearer alice")
ELSEWHERE = "http://elsewhere:80"


@pytest.fixture
def other(house) -> House:
    """`house` is the route of all paths to all of an origin; this one leads to /data of it."""
    return house.beside("/era5", prefix=b"/data")


def there(target):
    return b"/era5" + target


async def test_a_write_through_a_route_that_remembers_nothing_drops_another_s_marker(house):
    other = house.beside("/era5", prefix=b"/data", policy=Policy(cache_missing=False, ttl=0.0))
    await house.get(OBJECT)
    assert isinstance(house.entry(OBJECT), Absent)
    await other.put(there(KEY), b"new")
    assert house.entry(OBJECT) is None
    assert house.edges.index.markers.charge == 0
    assert (await house.get(OBJECT)).body == b"new"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
@pytest.mark.parametrize("held", ["body", "absence"])
async def test_a_write_through_one_is_seen_through_the_other(house, other, method, held):
    if held == "body":
        house.origin.put(OBJECT, b"old")
    await house.get(OBJECT)
    await house.settled()
    got = await other.get(there(KEY))
    assert got.result == ("hit" if held == "body" else "negative_hit")
    house.origin.script(OBJECT, Answer(204), method=method)
    house.origin.put(OBJECT, b"new")
    await other.send(method, there(KEY), content=b"new")
    for house_got in (await house.get(OBJECT), await other.get(there(KEY))):
        assert house_got.body == b"new"


async def test_what_is_under_way_on_one_is_not_stored_past_a_write_through_the_other(house, other):
    house.origin.put(OBJECT, b"old")
    gate = house.origin.hold(OBJECT)
    early = house.start("GET", OBJECT)
    await gate.reached()
    await other.put(there(KEY), b"new")
    gate.open()
    assert (await early).body == b"old"
    await house.settled()
    assert (await house.get(OBJECT)).body == b"new"


async def test_a_broad_write_reaches_all_of_its_origin_and_nothing_of_another(house, other):
    far = house.beside("/far", location=ELSEWHERE)
    for one, target in ((house, b"/b/c/0"), (other, there(KEY)), (far, b"/far/x")):
        await one.get(target)
    await other.send("POST", b"/era5/batch", content=b"x")
    assert house.entry(b"/b/c/0") is None
    assert other.entry(there(KEY)) is None
    assert isinstance(far.entry(b"/far/x"), Absent)


async def test_an_array_rewritten_on_one_route_is_validated_on_the_other(house, other):
    house.origin.put(b"/data" + DOCUMENT, b"shape 1", etag=b'"one"')
    house.origin.put(OBJECT, b"chunk", etag=b'"chunk"')
    for target in (b"/data" + DOCUMENT, OBJECT):
        await house.get(target)
    await house.settled()
    house.now.advance(6)
    house.origin.put(b"/data" + DOCUMENT, b"shape 2", etag=b'"two"')
    assert (await other.get(there(DOCUMENT))).body == b"shape 2"
    house.now.advance(0.001)
    assert (await house.get(OBJECT)).result == "revalidated"


async def test_the_same_paths_of_two_origins_are_not_the_same(house):
    far = house.beside("/far", location=ELSEWHERE)
    house.origin.put(KEY, b"near")
    far.origin.put(KEY, b"far")
    for _ in range(2):
        await house.settled()
        assert (await house.get(KEY)).body == b"near"
        assert (await far.get(b"/far" + KEY)).body == b"far"
    await far.put(b"/far" + KEY, b"written")
    await house.settled()
    assert (await house.get(KEY)).result == "hit"


async def test_a_credential_parts_clients_on_every_route(house, other):
    house.origin.put(OBJECT, b"body")
    await house.get(OBJECT, ALICE)
    await house.settled()
    assert (await other.get(there(KEY))).result == "miss"
    assert (await other.get(there(KEY), ALICE)).result == "hit"


# Each has its own settings.


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        pytest.param(Policy(negative_ttl=10.0), 9.0, id="while-its-own-ceiling-lasts"),
        pytest.param(Policy(), 299.0, id="an-equal-ceiling"),
        pytest.param(Policy(negative_ttl=3600.0), 299.0, id="as-long-as-it-was-made-for"),
    ],
)
async def test_a_marker_of_another_route_lives_no_longer_than_its_own_would(house, policy, seconds):
    other = house.beside("/era5", prefix=b"/data", policy=policy)
    await house.get(b"/data" + HOLE)
    house.now.advance(seconds)
    assert (await other.get(there(HOLE))).result == "negative_hit"
    house.now.advance(1.5)
    assert (await other.get(there(HOLE))).result == "miss"


@pytest.mark.parametrize(
    "policy", [Policy(cache_missing=False), Policy(absent_statuses=frozenset({410}))]
)
async def test_a_route_that_remembers_no_such_absence_takes_none_from_another(house, policy):
    other = house.beside("/era5", prefix=b"/data", policy=policy)
    await house.get(b"/data" + HOLE)
    assert (await other.get(there(HOLE))).result == "miss"
    assert other.origin.count("GET") == 2


async def test_bodies_go_by_the_ttl_of_the_route_that_is_asked(house):
    other = house.beside("/era5", prefix=b"/data", policy=Policy(ttl=10.0))
    house.origin.put(OBJECT, b"body")
    await house.get(OBJECT)
    await house.settled()
    house.now.advance(11)
    assert (await house.get(OBJECT)).result == "hit"
    assert (await other.get(there(KEY))).result == "revalidated"


async def test_a_marker_answers_head_only_where_the_route_says_so(house):
    reader = house.beside("/ro", prefix=b"/data", policy=Policy(negative_scope="all"))
    await reader.send("HEAD", b"/ro" + HOLE)
    await house.settled()
    assert (await reader.send("HEAD", b"/ro" + HOLE)).result == "negative_hit"
    assert (await house.send("HEAD", b"/data" + HOLE)).result == "miss"


async def test_writes_are_refused_route_by_route(house):
    reader = house.beside("/ro", policy=Policy(allow_writes=False))
    assert (await reader.put(b"/ro" + KEY, b"x")).status == 405
    assert (await house.put(KEY, b"x")).status == 201


# What all share.


async def test_the_scan_and_what_waits_for_its_commit_are_one_for_all(house, other):
    house.edges.is_scanning = True
    assert other.edges.is_scanning
    await other.gateway.adoption.scan()
    assert not house.edges.is_scanning
    other.edges.uncommitted_bytes += 5
    assert house.edges.uncommitted_bytes == 5
    assert other.edges.tasks is house.edges.tasks


async def test_a_purge_of_one_location_leaves_the_other_alone(house):
    far = house.beside("/far", location=ELSEWHERE)
    house.origin.put(KEY, b"near")
    far.origin.put(KEY, b"far")
    await house.get(KEY)
    await far.get(b"/far" + KEY)
    await house.settled()
    await far.purging.location(ELSEWHERE)
    assert isinstance(house.entry(KEY), Present)
    assert far.entry(b"/far" + KEY) is None


async def test_a_range_brought_by_one_answers_on_the_other_and_falls_with_a_write(house, other):
    some = (b"Range", b"bytes=2-4")
    house.origin.put(OBJECT, b"0123456789", etag=b'"one"')
    assert (await house.get(OBJECT, some)).body == b"234"
    await house.settled()
    got = await other.get(there(KEY), some)
    assert (got.body, got.result) == (b"234", "hit")
    await other.put(there(KEY), b"abcdefghij")
    assert (await house.get(OBJECT, some)).body == b"cde"
