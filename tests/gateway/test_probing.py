"""s3fs's listing of what lies beneath an absent key: its empty answer lives and dies with the key's
marker, and falls with any write beneath the key.
"""

import asyncio
from urllib.parse import parse_qs

import pytest

from chunkside.core.freshness import Policy
from chunkside.core.key import Object
from tests.support.fake_upstream import Answer, FakeUpstream
from tests.support.house import LOCATION, House

KEY = b"/data/a/c/0"
BENEATH = KEY + b"/x/y"
QUERY = b"list-type=2&prefix=a%2Fc%2F0%2F&delimiter=%2F&max-keys=1&encoding-type=url"
PROBE = b"/data?" + QUERY
ALL = Policy(negative_scope="all", ttl=1e6, negative_ttl=600)


class S3(FakeUpstream):
    """Knows listings of one directory."""

    def _behaved(self, request, body):
        if request.method != "GET" or request.target.partition(b"?")[0] != b"/data":
            return super()._behaved(request, body)
        asked = parse_qs(request.target.partition(b"?")[2].decode())
        [prefix] = asked["prefix"]
        found = any(path.startswith(b"/data/" + prefix.encode()) for path in self.objects)
        contents = f"<Contents><Key>{prefix}x</Key></Contents>" if found else ""
        return Answer(
            200,
            ((b"Content-Type", b"application/xml"),),
            (
                '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                f"<Name>data</Name><Prefix>{prefix}</Prefix><KeyCount>{int(found)}</KeyCount>"
                f"<MaxKeys>1</MaxKeys><IsTruncated>false</IsTruncated>{contents}"
                "</ListBucketResult>"
            ).encode(),
        )


@pytest.fixture
async def house():
    house = House(policy=ALL, upstream=S3)
    yield house
    await house.settled()


async def pass_of_s3fs(house) -> tuple[int, bool]:
    """What it is told of the key, and whether of something beneath it."""
    head = await house.send("HEAD", KEY)
    await house.settled()
    return head.status, await finds(house)


async def finds(house, target=PROBE) -> bool:
    got = await house.get(target)
    assert got.status == 200
    return b"<KeyCount>0<" not in got.body


async def test_a_second_pass_costs_no_request(house):
    assert await pass_of_s3fs(house) == (404, False)
    assert [each.method for each in house.origin.exchanges] == ["HEAD", "GET", "GET"]
    first = await house.get(PROBE)
    assert (first.status, first.result) == (200, "negative_hit")
    assert first.field(b"content-type") == b"application/xml"
    assert "; hit; ttl=600; detail=negative" in first.cache_status
    assert await pass_of_s3fs(house) == (404, False)
    assert house.origin.count() == 3
    house.edges.index.check_invariants()


async def test_in_scope_get_it_is_relayed(house):
    other = house.beside("/", policy=Policy(negative_scope="get"))
    assert await pass_of_s3fs(other) == (404, False)
    await other.get(KEY)
    for _ in range(2):
        assert not await finds(other)
    assert house.origin.count("GET", b"/data") == 3


async def test_without_the_keys_own_marker_it_is_asked_each_time(house):
    for _ in range(2):
        assert not await finds(house)
    assert house.origin.count("GET", b"/data") == 2
    await house.send("HEAD", KEY)
    await house.settled()
    # By now both are there, in whatever order they came.
    assert not await finds(house)
    assert house.origin.count("GET", b"/data") == 2
    house.edges.forget(Object(LOCATION, KEY))
    assert not await finds(house)
    assert house.origin.count("GET", b"/data") == 3


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", KEY + b"/x"),
        ("PUT", BENEATH),
        ("PUT", KEY + b"/%78"),
        ("PUT", b"/data/%61/c/0/x?partNumber=1&uploadId=u"),
        ("POST", KEY + b"/x?uploadId=u"),
        ("PUT", b"/data/b/../a/c/0/x"),
        ("PUT", b"/data/a/c/0/../x"),
        ("PUT", KEY + b"/"),
        ("DELETE", KEY + b"/x"),
        ("POST", b"/data"),
    ],
)
async def test_a_write_beneath_the_key_drops_it(house, method, target):
    await pass_of_s3fs(house)
    house.origin.put(BENEATH, b"new")
    await house.send(method, target, content=b"new")
    assert await pass_of_s3fs(house) == (404, True)


async def test_a_deletion_that_names_what_lies_beneath_drops_it(house):
    await pass_of_s3fs(house)
    body = b"<Delete><Object><Key>a/c/0/x</Key></Object></Delete>"
    await house.send("POST", b"/data?delete", content=body)
    asked = house.origin.count()
    assert not await finds(house)
    assert house.origin.count() == asked + 1


async def test_a_write_elsewhere_leaves_it(house):
    await pass_of_s3fs(house)
    asked = house.origin.count()
    for target in (b"/data/a/c/1", b"/data/a/c/00/x", b"/data/a/d/x", b"/data/b"):
        await house.put(target, b"new")
    assert not await finds(house)
    assert house.origin.count() == asked + 4


async def test_a_write_of_the_key_itself_drops_its_marker_and_with_it_this(house):
    await pass_of_s3fs(house)
    await house.put(KEY, b"new")
    asked = house.origin.count("GET", b"/data")
    assert not await finds(house)
    assert house.origin.count("GET", b"/data") == asked + 1


async def test_a_write_while_it_is_asked_for_keeps_it_from_being_remembered(house):
    await house.send("HEAD", KEY)
    await house.settled()
    gate = house.origin.hold(PROBE)
    reader = house.start("GET", PROBE)
    await gate.reached()
    assert (await house.put(BENEATH, b"new")).status == 201
    gate.open()
    # Whoever asked before the write is told what there was.
    assert b"<KeyCount>0<" in (await reader).body
    assert await finds(house)


async def test_while_a_write_runs_nothing_is_remembered(house):
    await house.send("HEAD", KEY)
    await house.settled()
    gate = house.origin.hold(BENEATH, method="PUT")
    house.origin.objects.clear()
    writer = asyncio.create_task(house.put(BENEATH, b"new"))
    await gate.reached()
    # It has been taken in, but nobody was told so.
    house.origin.objects.clear()
    assert not await finds(house)
    house.origin.put(BENEATH, b"new")
    gate.open()
    await writer
    assert await finds(house)


async def test_a_write_of_unknown_fate_keeps_it_from_being_remembered_for_a_while(house):
    await house.send("HEAD", KEY)
    await house.settled()
    house.origin.script(BENEATH, "silent", method="PUT", times=1)
    assert (await house.put(BENEATH, b"new")).status == 504
    for _ in range(2):
        assert not await finds(house)
    house.origin.put(BENEATH, b"new")
    assert await finds(house)


async def test_another_process_on_the_table_writes(house):
    clock, table = house.now, house.stamps
    other = House(policy=Policy(), table=table, clock=clock, upstream=lambda *_: house.origin)
    await pass_of_s3fs(house)
    assert (await other.put(BENEATH, b"new")).status == 201
    assert await finds(house)


@pytest.mark.parametrize("is_soft", [False, True])
@pytest.mark.parametrize("path", [KEY + b"/x", KEY + b"/", KEY, b"/data/a", b"/data/a/c/0/x/y"])
async def test_a_purge_of_what_lies_there_drops_it(house, is_soft, path):
    for by_prefix in (False, True):
        house.origin.objects.clear()
        await house.purging.location(LOCATION)
        await pass_of_s3fs(house)
        house.origin.put(BENEATH, b"beside")
        house.now.advance(0.1)
        purging = house.purging
        if by_prefix:
            purge = purging.soften_prefix if is_soft else purging.prefix
            await purge(LOCATION, path)
        elif path == b"/data/a":
            continue
        else:
            await (purging.soften_object if is_soft else purging.object)(Object(LOCATION, path))
        assert await finds(house)


async def test_it_falls_where_something_beneath_is_seen(house):
    await pass_of_s3fs(house)
    house.origin.put(BENEATH, b"beside")
    assert not await finds(house)
    assert (await house.get(BENEATH)).status == 200
    assert await finds(house)


async def test_it_falls_where_a_head_of_something_beneath_is_answered(house):
    await pass_of_s3fs(house)
    house.origin.put(BENEATH, b"beside")
    assert (await house.send("HEAD", BENEATH)).status == 200
    assert await finds(house)


async def test_it_falls_where_the_directory_itself_is_seen(house):
    await pass_of_s3fs(house)
    house.origin.put(KEY + b"/", b"")
    assert (await house.get(KEY + b"/")).status == 200
    assert await finds(house)


async def test_it_falls_with_an_array_that_appears(house):
    await pass_of_s3fs(house)
    house.now.advance(6)
    house.origin.put(KEY + b"/zarr.json", b"{}")
    await house.get(KEY + b"/zarr.json")
    assert await finds(house)


async def test_what_is_there_after_all_drops_it(house):
    await pass_of_s3fs(house)
    house.origin.put(BENEATH, b"beside")
    got = await house.get(PROBE, (b"Chunkside-Control", b"refresh"))
    assert b"<KeyCount>1<" in got.body
    assert await finds(house)
    assert house.entry(KEY + b"/") is None


async def test_it_lives_no_longer_than_an_absence(house):
    await pass_of_s3fs(house)
    house.now.advance(599)
    assert (await house.get(PROBE)).result == "negative_hit"
    house.now.advance(2)
    asked = house.origin.count("GET", b"/data")
    assert not await finds(house)
    assert house.origin.count("GET", b"/data") == asked + 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, body=b"no"),
        Answer(403, body=b"no"),
        Answer(500, body=b"no"),
        Answer(200, body=b"<html/>"),
        Answer(200, body=b"<ListBucketResult>" + bytes(70_000)),
        "silent",
        "refused",
        "garbage",
    ],
)
async def test_what_says_nothing_of_it_is_passed_on_and_not_remembered(house, answer):
    await house.send("HEAD", KEY)
    await house.settled()
    house.origin.script(PROBE, answer, times=4)
    got = await house.get(PROBE)
    if isinstance(answer, Answer):
        assert (got.status, got.body) == (answer.status, answer.body)
    else:
        assert got.status >= 502
    house.origin.behave()
    house.origin.put(BENEATH, b"beside")
    assert await finds(house)
    assert house.origin.open_answers == 0


@pytest.mark.parametrize("ends_after", [0, 50])
async def test_half_an_answer_is_none(house, ends_after):
    await house.send("HEAD", KEY)
    whole = (await house.get(PROBE)).body
    house.edges.forget(Object(LOCATION, BENEATH))
    house.origin.script(PROBE, Answer(200, body=whole, ends_after=ends_after), times=1)
    assert (await house.get(PROBE)).status == 503
    assert house.entry(KEY + b"/") is None
    assert house.origin.open_answers == 0


async def test_signed_and_other_peoples_questions_are_not_answered_from_it(house):
    await pass_of_s3fs(house)
    house.origin.put(BENEATH, b"beside")
    signed = (b"Authorization", b"AWS4-HMAC-SHA256 Credential=x")
    for field in (signed, (b"Authorization", b"Bearer alice"), (b"Origin", b"http://page")):
        assert b"<KeyCount>1<" in (await house.get(PROBE, field)).body
    assert not await finds(house)


async def test_a_listing_that_is_another_is_relayed(house):
    await pass_of_s3fs(house)
    house.origin.put(BENEATH, b"beside")
    assert await finds(house, PROBE + b"&start-after=a")
