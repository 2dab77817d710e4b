"""What `/why` says of a target: whether a 404 is true, and what would be answered now."""

import asyncio
from dataclasses import replace

import pytest

from chunkside.core.decision import Refuse
from chunkside.core.entry import Now
from chunkside.core.fields import Fields
from chunkside.core.freshness import Policy
from chunkside.core.key import Object
from chunkside.gateway.findings import subject_of
from chunkside.gateway.invalidations import Invalidations
from chunkside.routing import OpenRoute
from chunkside.server.why_page import WhyRequest
from chunkside.settings import ConfiguredRoute, Settings
from chunkside.why import explain
from tests.gateway.conftest import close, disk_house
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.turns import turns
from tests.test_console import ALICE, HOLE, KEY, ORIGIN

FULL_GETS_ALONE = "a remembered absence answers full GETs alone here (negative_scope)"
EVIDENCE = ((b"Server", b"S3"), (b"X-Amz-Request-Id", b"QX7"))


def opened(house) -> OpenRoute:
    configured = ConfiguredRoute("/", ORIGIN, Settings(upstream=ORIGIN))
    return OpenRoute(configured, house.route, house.edges, house.gateway, house.settled)


async def why(house, target, *fields):
    return await explain(opened(house), WhyRequest(target, Fields(fields)))


@pytest.fixture
async def house():
    house = House()
    house.route = replace(house.route, prefix=b"/data")
    house.origin.put(b"/data" + KEY, b"body", etag=b'"one"', fields=EVIDENCE)
    yield house
    await house.settled()


async def learn(house, *targets, fields=()):
    for target in targets:
        await house.get(target, *fields)
    await house.settled()


async def test_a_remembered_absence_is_vouched_for_and_has_its_time(house):
    await learn(house, HOLE)
    house.now.advance(12)
    told = await why(house, HOLE)
    assert told["verdict"].startswith(
        "It is remembered as absent: the origin answered a whole 404 to a full GET of it that was "
        "sent at "
    )
    assert "12 s ago" in told["verdict"]
    assert told["verdict"].endswith("For 4 min 48 s more that is the answer.")
    assert told["would_be_answered"] == {
        "GET": "404 from memory, for 4 min 48 s more",
        "HEAD": f"the origin is asked each time: {FULL_GETS_ALONE}",
        "GET, Range: bytes=0-0": "the origin is asked, and its answer remembered: "
        + FULL_GETS_ALONE,
    }
    [held] = told["held"]
    assert (held["kind"], held["status"], held["age"], held["ttl"]) == ("marker", 404, 12.0, 288.0)
    assert told["asked_of_the_origin"] == house.route.location + "/data/a/c/1"


@pytest.mark.parametrize(("passed", "must"), [(12, False), (301, True)])
async def test_what_is_no_longer_fresh_must_be_validated(house, passed, must):
    await learn(house, KEY)
    house.now.advance(passed)
    [held] = (await why(house, KEY))["held"]
    assert held["must_be_validated"] is must


async def test_an_expired_absence_is_no_longer_an_answer(house):
    await learn(house, HOLE)
    house.now.advance(301)
    told = await why(house, HOLE)
    assert told["verdict"].startswith("It was absent when the origin was asked at ")
    assert "that has expired" in told["verdict"]


async def test_what_was_never_seen_is_the_origin_s(house):
    told = await why(house, HOLE)
    assert told["verdict"] == (
        "Nothing is remembered of it: a GET asks the origin, and a 404 is the origin's."
    )
    assert told["held"] == []
    # It asks nobody.
    assert house.origin.count() == 0


async def test_a_body_has_its_validators_and_the_origin_s_evidence(house):
    await learn(house, KEY)
    house.now.advance(5)
    told = await why(house, KEY)
    assert told["verdict"].endswith(", and fresh for 4 min 55 s more.")
    assert told["would_be_answered"]["HEAD"] == "200 from store, for 4 min 55 s more"
    [held] = told["held"]
    assert (held["kind"], held["length"], held["etag"]) == ("body", 4, '"one"')
    assert held["evidence"].pop("date").endswith(" GMT")
    assert held["evidence"] == {"x-amz-request-id": "QX7", "server": "S3"}
    assert held["files"] == [{"bytes": "0-3", "path": None, "verdict": "in memory"}]


async def test_a_stale_body_is_validated_first(house):
    await learn(house, KEY)
    house.now.advance(301)
    told = await why(house, KEY)
    assert told["verdict"].endswith("a GET has the origin say if it still stands.")
    assert told["would_be_answered"]["GET"].startswith("the origin is asked whether what is held")


async def test_ranges_are_told_one_by_one(house):
    await learn(house, KEY, fields=[(b"Range", b"bytes=1-2")])
    told = await why(house, KEY)
    assert told["verdict"].startswith("Ranges of it are stored")
    assert [each["bytes"] for each in told["held"][0]["files"]] == ["1-2"]


async def test_what_a_write_fell_on_is_forgotten_and_that_is_said(house):
    await learn(house, HOLE)
    house.edges.stamps.renew(house.key(HOLE).object, ends=None)
    told = await why(house, HOLE)
    assert told["verdict"].endswith(" A write or a purge has made it forgotten just now.")
    assert "forgotten just now" not in (await why(house, HOLE))["verdict"]


async def test_while_a_write_runs_nothing_is_remembered(house):
    house.edges.stamps.close(house.key(HOLE).object, 30.0)
    told = await why(house, HOLE)
    assert told["verdict"].startswith("A write of it is under way, or it isn't known what became")
    assert told["nothing_is_stored_for_seconds"] == 30


async def test_what_was_learned_with_a_credential_answers_that_one(house):
    await learn(house, HOLE, fields=[ALICE])
    told = await why(house, HOLE)
    assert told["verdict"].startswith("Nothing is remembered of it")
    name = house.key(HOLE, [ALICE]).namespace.partition[:8].decode()
    assert told["held_in_other_partitions"] == name
    assert b"alice" not in str(told).encode()
    told = await why(house, HOLE, ALICE)
    assert told["verdict"].startswith("It is remembered as absent")
    assert told["partition"] == name
    await learn(house, HOLE)
    told = await why(house, HOLE, ALICE)
    assert told["held_in_other_partitions"] == "none, that of readers without a credential"


@pytest.mark.parametrize("target", [b"/a/c/9?x=1&y=%2F", b"/a/100%25?&&", b"/a//b?"])
async def test_any_target_is_told_as_it_was_sent(house, target):
    await learn(house, target)
    told = await why(house, target)
    assert told["target"] == target.decode()
    assert told["verdict"].startswith("It is remembered as absent")


async def test_a_document_has_its_class_and_a_listing_is_never_stored(house):
    house.origin.put(b"/data/a/zarr.json", b"{}")
    await learn(house, b"/a/zarr.json", b"/a/")
    told = await why(house, b"/a/zarr.json")
    assert (told["class"], told["held"][0]["ttl"]) == ("metadata", 5.0)
    told = await why(house, b"/a/")
    assert (told["class"], told["held"]) == ("listing", [])
    assert "it is a listing" in told["would_be_answered"]["GET"]


async def test_a_target_that_can_not_be_asked_for_is_refused(house):
    refused = await why(house, b"/a/../../../x")
    assert isinstance(refused, Refuse)
    assert refused.status == 400


async def test_a_marker_counts_for_no_more_than_the_route_allows_now(house):
    await learn(house, HOLE)
    house.edges.policy = Policy(negative_ttl=10)
    house.now.advance(11)
    assert "that has expired" in (await why(house, HOLE))["verdict"]
    house.edges.policy = Policy(cache_missing=False)
    assert (await why(house, HOLE))["verdict"].startswith("Nothing is remembered")


async def test_an_endless_lifetime_is_told_as_a_word(house):
    house.edges.policy = Policy(ttl=float("inf"), negative_ttl=float("inf"))
    await learn(house, KEY, HOLE)
    assert (await why(house, KEY))["held"][0]["ttl"] == "infinity"
    assert "for ever more" in (await why(house, HOLE))["verdict"].lower()


async def test_a_look_is_no_use(house):
    await learn(house, HOLE, b"/a/c/2")
    before = house.edges.index._held._slots.markers()
    await why(house, HOLE)
    assert house.edges.index._held._slots.markers() == before


async def test_a_fill_that_runs_is_told(house):
    gate = house.origin.hold(b"/data" + KEY)
    asking = asyncio.create_task(house.get(KEY))
    while house.gateway.fills.in_flight == 0:
        await turns()
    assert (await why(house, KEY))["a_fill_is_under_way"]
    gate.open()
    await asking
    assert not (await why(house, KEY))["a_fill_is_under_way"]


@pytest.mark.parametrize(
    ("harm", "verdict"),
    [
        (lambda path: None, "whole, checksums and all"),
        (lambda path: path.unlink(), "No such file or directory"),
        (lambda path: path.write_bytes(path.read_bytes()[:-40]), None),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b"body" * 50, b"bodY" * 50)),
            "the body doesn't match its checksum",
        ),
    ],
    ids=["none", "gone", "cut", "flipped"],
)
async def test_the_file_of_a_body_is_read_whole(tmp_path, harm, verdict):
    house, disk = await disk_house(tmp_path)
    house.origin.put(KEY, b"body" * 50, etag=b'"one"')
    await learn(house, KEY)
    [path] = tmp_path.rglob("*.arrow")
    harm(path)
    [file] = (await why(house, KEY))["held"][0]["files"]
    assert file["path"] == str(path)
    assert file["verdict"] == verdict or (verdict is None and "whole" not in file["verdict"])
    await close(house, disk)


async def test_what_a_restart_left_on_disk_is_found(tmp_path):
    house, disk = await disk_house(tmp_path)
    house.origin.put(KEY, b"body", etag=b'"one"')
    await learn(house, KEY)
    await close(house, disk)
    house, disk = await disk_house(tmp_path, is_scanning=True)
    assert (await why(house, KEY))["verdict"].startswith("It is stored")
    await close(house, disk)


async def test_what_has_an_origin_s_own_lifetime_tells_it(house):
    house.origin.script(
        b"/data/a/c/5", Answer(200, ((b"Cache-Control", b"max-age=60"),), b"x"), method="GET"
    )
    await learn(house, b"/a/c/5")
    told = await why(house, b"/a/c/5")
    assert (told["held"][0]["origin_lifetime"], told["held"][0]["ttl"]) == (60.0, 60.0)


# What was invalidated a moment ago.


async def said_of(house, target):
    told = await why(house, target)
    assert told["verdict"].startswith("Nothing is remembered of it")
    return told


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
async def test_a_write_a_moment_ago_is_named_with_its_time(house, method):
    await learn(house, HOLE)
    await house.send(method, HOLE)
    house.now.advance(3)
    told = await said_of(house, HOLE)
    assert "It was last invalidated 3 s ago, at " in told["verdict"]
    assert told["verdict"].endswith(f", by a {method} through this sidecar.")
    assert told["last_invalidated"] == {
        "at": "2027-01-15T08:00:00Z",
        "age": 3.0,
        "by": f"a {method} through this sidecar",
    }
    # Of others nobody says so.
    assert (await why(house, b"/a/c/7"))["last_invalidated"] is None


async def test_a_write_by_another_spelling_is_named_too(house):
    await learn(house, HOLE)
    await house.put(b"/a/%63/1?version=2", b"new")
    assert "a PUT through this sidecar" in (await said_of(house, HOLE))["verdict"]


@pytest.mark.parametrize(
    ("purge", "cause"),
    [
        (lambda purging, target: purging.object(target), "a purge"),
        (lambda purging, target: purging.prefix(target.location, b"/data/a"), "a purge"),
        (lambda purging, target: purging.location(target.location), "a purge"),
        (lambda purging, target: purging.soften_object(target), "a soft purge"),
        (lambda purging, target: purging.soften_prefix(target.location, b"/"), "a soft purge"),
    ],
    ids=["target", "prefix", "all", "soft", "soft prefix"],
)
async def test_a_purge_a_moment_ago_is_named(house, purge, cause):
    await learn(house, HOLE)
    await purge(house.purging, house.key(HOLE).object)
    assert (await said_of(house, HOLE))["verdict"].endswith(f", by {cause}.")


async def test_the_newest_is_named(house):
    await learn(house, HOLE)
    await house.purging.location(house.route.location)
    house.now.advance(5)
    await house.put(HOLE, b"new")
    await house.send("DELETE", HOLE)
    assert "5 s ago" not in (await said_of(house, HOLE))["verdict"]
    assert (await why(house, HOLE))["last_invalidated"]["by"].startswith("a DELETE")
    house.now.advance(5)
    await house.purging.object(house.key(HOLE).object)
    assert (await why(house, HOLE))["last_invalidated"]["by"] == "a purge"


async def test_a_document_that_changed_is_named(house):
    document = b"/data/a/zarr.json"
    house.origin.put(document, b"{}")
    await learn(house, b"/a/zarr.json", HOLE)
    assert (await why(house, HOLE))["last_invalidated"] is None
    house.origin.put(document, b"{ }")
    house.now.advance(6)
    await learn(house, b"/a/zarr.json")
    told = await said_of(house, HOLE)
    assert told["verdict"].endswith("by a change of its array's metadata at the origin.")
    await learn(house, HOLE)
    await house.put(b"/a/zarr.json", b"{}")
    assert (await said_of(house, HOLE))["verdict"].endswith("by a PUT through this sidecar.")


async def test_an_audit_is_named(house):
    await learn(house, HOLE)
    house.origin.put(b"/data" + HOLE, b"new")
    subject = subject_of(house.request("GET", HOLE), house.entry(HOLE))
    await house.gateway.audits.ask(subject)
    assert (await said_of(house, HOLE))["verdict"].endswith("by an audit.")


async def test_what_was_learnt_since_is_told_beside_what_made_it_forgotten(house):
    await learn(house, HOLE)
    await house.send("DELETE", HOLE)
    house.now.advance(2)
    await learn(house, HOLE)
    told = await why(house, HOLE)
    assert told["verdict"].startswith("It is remembered as absent")
    assert told["last_invalidated"]["age"] == 2.0


async def test_only_so_many_invalidations_are_kept():
    kept = Invalidations()
    names = [Object("http://o:80", b"/%d" % number) for number in range(5_000)]
    for name in names:
        kept.note(name, "a purge", Now(1.0, 1.0))
    assert kept.last_of(names[0]) is None
    assert kept.last_of(names[-1]) is not None


async def test_long_names_of_what_was_invalidated_fill_no_memory():
    kept = Invalidations()
    names = [Object("http://o:80", b"/%04d" % number + b"x" * 16_000) for number in range(200)]
    for _ in range(2):
        for name in names:
            kept.note(name, "a PUT", Now(1.0, 1.0))
    known = [name for name in names if kept.last_of(name) is not None]
    assert known == names[-(len(known)) :]
    assert 60 <= len(known) <= 70
