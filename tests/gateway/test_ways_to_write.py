"""Each way in which a client can change an object: what is known of it falls, before and after."""

import pytest

from chunkside.core.entry import Absent, Present
from chunkside.core.freshness import Policy
from tests.support.fake_upstream import Answer
from tests.support.house import House

HELD, MISSING, BENEATH, ELSEWHERE = b"/b/k", b"/b/m", b"/b/a/0", b"/other/x"
NAMES_K = b"<Delete><Object><Key>k</Key></Object></Delete>"
MOVE = (b"Destination", b"/b/m")
COPY = (b"X-Amz-Copy-Source", b"/b/k")

WAYS = {
    "an upload in parts is begun": ("POST", b"/b/k?uploads", (), b"", {HELD}),
    "a part": ("PUT", b"/b/k?partNumber=1&uploadId=u", (), b"x", {HELD}),
    "its end": ("POST", b"/b/k?uploadId=u", (), b"<Complete/>", {HELD}),
    "many are deleted": ("POST", b"/b?delete", (), NAMES_K, {HELD}),
    "many that nobody can read": (
        *("POST", b"/b?delete", (), b"<Delete>?", {HELD, MISSING, BENEATH, ELSEWHERE}),
    ),
    "a copy by S3": ("PUT", MISSING, (COPY,), b"", {MISSING}),
    "a copy by WebDAV": ("COPY", HELD, (MOVE,), None, {HELD, MISSING}),
    "a move": ("MOVE", HELD, (MOVE,), None, {HELD, MISSING}),
    "a directory is deleted": ("DELETE", b"/b/a/", (), None, {HELD, MISSING, BENEATH, ELSEWHERE}),
    "a collection, perhaps": ("DELETE", b"/b/a", (), None, {BENEATH}),
}


@pytest.mark.parametrize(("method", "target", "fields", "body", "fallen"), WAYS.values(), ids=WAYS)
async def test_what_is_known_of_what_it_changes_falls_and_of_nothing_else(
    house, method, target, fields, body, fallen
):
    for held in (HELD, BENEATH, ELSEWHERE):
        house.origin.put(held, b"old")
    targets = (HELD, MISSING, BENEATH, ELSEWHERE)
    for each in targets:
        await house.get(each)
    await house.settled()
    house.now.advance(1)
    house.origin.script(target, Answer(200, body=b"done"), method=method)
    assert (await house.send(method, target, *fields, content=body)).status == 200
    house.now.advance(1)
    before = house.origin.count()
    asked = set()
    for each in targets:
        await house.get(each)
        await house.settled()
        if house.origin.count() > before:
            asked.add(each)
        before = house.origin.count()
    assert asked == fallen


@pytest.mark.parametrize("jump", [-(10**9), 10**9], ids=["from the past", "from the future"])
@pytest.mark.parametrize("has_body", [True, False], ids=["a body", "an absence"])
async def test_what_was_learned_under_a_wrong_clock_lives_no_longer(house, jump, has_body):
    if has_body:
        house.origin.put(HELD, b"x", etag=None, last_modified=None)
    house.now.wall += jump
    await house.get(HELD)
    await house.settled()
    assert isinstance(house.entry(HELD), Present if has_body else Absent)
    house.now.wall -= jump
    house.now.advance(301)
    before = house.origin.count()
    assert (await house.get(HELD)).status == (200 if has_body else 404)
    assert house.origin.count() == before + 1


@pytest.mark.parametrize("scope", ["get", "all"])
async def test_lifetimes_of_0_cost_no_more_requests_than_no_cache(scope):
    policy = Policy(ttl=0.0, negative_ttl=0.0, metadata_ttl=0.0, negative_scope=scope)
    house, asked = House(policy=policy), 0
    house.origin.put(HELD, b"0123456789")
    house.origin.put(b"/b/zarr.json", b"{}")
    for _ in range(3):
        for target in (HELD, MISSING, b"/b/zarr.json", b"/b/.zattrs"):
            for method, fields in (("GET", ()), ("HEAD", ()), ("GET", ((b"Range", b"bytes=0-1"),))):
                await house.send(method, target, *fields)
                await house.settled()
                asked += 1
                assert house.origin.count() <= asked
    assert house.edges.index.markers.count == 0
