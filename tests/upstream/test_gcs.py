"""Google's store as it is spoken to: tokens, who pays, and what is no absence."""

import asyncio
import json

import pytest

from chunkside.gateway.errors import OriginNonsense, OriginUnreachable
from chunkside.upstream import gcs
from chunkside.upstream.absences import NO_SUCH_KEY
from chunkside.upstream.chain import Found, Library
from chunkside.upstream.gcs import Buckets, Gcs, GcsEndpoint
from chunkside.upstream.google import Token
from tests.support import shop as shops
from tests.support.shop import answer, ask, by_target, field, shop_before
from tests.support.turns import turns

BUCKET = b"/storage/v1/b/data"
OBJECT = BUCKET + b"/o/a%2Fc%2F0"


def chain(*bearers, project=None):
    """Finds one after the other, and nothing after the last."""
    left = [Found(Token(each, project), "gcp me", None, lambda _: False) for each in bearers]
    cloud = Library("gcp", "Google's", lambda _: left.pop(0) if left else None)
    found = cloud.chain(is_required=True)
    assert found is not None
    return found


def xml(code):
    return answer(404, shops.xml(code))


PLAIN = answer(404, b"Not Found", b"Content-Type: text/plain")


def google(credentials=None, *, pays=False):
    return lambda url: lambda _, record: Gcs(GcsEndpoint(url, pays), credentials, record)


@pytest.fixture
def visit(monkeypatch):
    """Runs a scenario with an origin that answers in turn, by target; `is_googles`: as if it were
    the store itself.
    """

    async def visit(scenario, answers, credentials=None, *, pays=False, is_googles=False):
        monkeypatch.setattr(gcs.GcsEndpoint, "is_googles", is_googles)
        make = google(credentials, pays=pays)
        async with shop_before(by_target(answers), make) as (shop, origin):
            return await scenario(shop, origin)

    return visit


@pytest.mark.parametrize(
    ("location", "is_googles"),
    [
        ("https://storage.googleapis.com:443", True),
        ("https://storage.us-east1.rep.googleapis.com:443", True),
        ("https://googleapis.com.example.org:443", False),
        ("http://127.0.0.1:4443", False),
    ],
)
def test_which_store_is_google_s_own(location, is_googles):
    assert GcsEndpoint(location).is_googles is is_googles


async def test_nothing_is_added_where_nobody_has_a_token(visit):
    async def scenario(shop, origin):
        assert await shop.read(ask()) == (200, b"x")
        assert field(origin.heard[0], b"authorization") is None

    await visit(scenario, {b"/data/a/c/0": [answer(200, b"x")]}, pays=True)


async def test_the_token_takes_the_place_of_a_clients(visit):
    async def scenario(shop, origin):
        await shop.read(ask("GET", b"/data/a", (b"Authorization", b"Bearer theirs")))
        assert field(origin.heard[0], b"authorization") == b"Bearer ours"
        assert field(origin.heard[0], b"x-goog-user-project") is None

    await visit(scenario, {b"/data/a": [answer(200)]}, chain("ours", project="p"))


@pytest.mark.parametrize("project", ["ours", None])
async def test_the_payer_is_told_where_that_is_wanted(visit, project):
    async def scenario(shop, origin):
        await shop.read(ask("GET", b"/data/a", (b"X-Goog-User-Project", b"theirs")))
        told = field(origin.heard[0], b"x-goog-user-project")
        assert told == (None if project is None else project.encode())

    await visit(scenario, {b"/data/a": [answer(200)]}, chain("t", project=project), pays=True)


async def test_a_presigned_target_goes_as_it_is(visit):
    target = b"/data/a?X-Goog-Signature=1"

    async def scenario(shop, origin):
        await shop.read(ask("GET", target, is_signed=True))
        assert field(origin.heard[0], b"authorization") is None

    await visit(scenario, {target: [answer(200)]}, chain("ours"), pays=True)


async def test_a_refused_token_is_exchanged_once(visit):
    async def scenario(shop, origin):
        assert await shop.read(ask()) == (200, b"x")
        lines = [field(each, b"authorization") for each in origin.heard]
        assert lines == [b"Bearer one", b"Bearer two"]
        assert shop.record.retries == 1

    await visit(scenario, {b"/data/a/c/0": [answer(401), answer(200, b"x")]}, chain("one", "two"))


@pytest.mark.parametrize(
    ("method", "status", "bearers"),
    [("GET", 401, ["one"]), ("GET", 403, ["one", "two"]), ("PUT", 401, ["one", "two"])],
    ids=["nothing else is found", "another refusal", "a write"],
)
async def test_any_other_refusal_passes_as_it_is(visit, method, status, bearers):
    async def scenario(shop, origin):
        assert (await shop.read(ask(method)))[0] == status
        assert len(origin.heard) == 1

    await visit(scenario, {b"/data/a/c/0": [answer(status), answer(200)]}, chain(*bearers))


# What a 404 says.


@pytest.mark.parametrize("is_googles", [True, False])
async def test_the_keys_own_absence_passes_with_what_it_says(visit, is_googles):
    async def scenario(shop, origin):
        assert await shop.read(ask()) == (404, NO_SUCH_KEY)
        assert (await shop.read(ask("HEAD")))[0] == 404
        assert len(origin.heard) == 2

    await visit(scenario, {b"/data/a/c/0": [xml(b"NoSuchKey")]}, is_googles=is_googles)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (xml(b"NoSuchBucket"), "no bucket data"),
        (PLAIN, "no absence"),
        (answer(404), "no absence"),
        (answer(410, b"<html>gone</html>"), "no absence"),
    ],
)
async def test_at_googles_own_no_other_404_becomes_an_absence(visit, told, words):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match=words):
            await shop.read(ask())
        assert len(origin.heard) == 1

    await visit(scenario, {b"/data/a/c/0": [told]}, is_googles=True)


@pytest.mark.parametrize("told", [PLAIN, answer(404), answer(404, b'{"error": {"code": 404}}')])
async def test_at_an_emulator_a_bare_404_counts_once_the_bucket_answers(visit, told):
    async def scenario(shop, origin):
        response = await shop.upstream.send(ask())
        assert response.head.fields.get(b"content-type") == b"application/xml"
        assert response.head.length == len(NO_SUCH_KEY) and response.head.is_framed
        assert b"".join([chunk async for chunk in response.chunks()]) == NO_SUCH_KEY
        assert [each.target for each in origin.heard] == [b"/data/a/c/0", BUCKET, OBJECT]
        for heard in origin.heard[1:]:
            assert field(heard, b"authorization") == b"Bearer t"

    answers = {b"/data/a/c/0": [told], BUCKET: [answer(200, b"{}")], OBJECT: [PLAIN]}
    await visit(scenario, answers, chain("t"), pays=True)


@pytest.mark.parametrize("status", [404, 403, 500, 204])
async def test_and_else_it_is_a_fault(visit, status):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match=f"and {status} when it was asked for the bucket"):
            await shop.read(ask())

    await visit(scenario, {b"/data/a/c/0": [PLAIN], BUCKET: [answer(status)]})


@pytest.mark.parametrize("status", [200, 403, 500])
async def test_and_where_it_has_the_object_by_json_it_has_no_paths(visit, status):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match=f"and {status} when .* -public-host"):
            await shop.read(ask())

    answers = {b"/data/a/c/0": [PLAIN], BUCKET: [answer(200)], OBJECT: [answer(status)]}
    await visit(scenario, answers)


@pytest.mark.parametrize(
    "told",
    [
        answer(404, b"<html>gone</html>"),
        answer(404, b"\n <!DOCTYPE html>"),
        answer(404, b"gone", b"Content-Encoding: br"),
        answer(404, bytes(70_000)),
        xml(b"NoSuchVersion"),
    ],
    ids=["a page", "a doctype", "encoded", "long", "another code"],
)
async def test_the_bucket_isnt_asked_where_something_is_said(visit, told):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match="no absence"):
            await shop.read(ask())
        assert len(origin.heard) == 1

    await visit(scenario, {b"/data/a/c/0": [told], BUCKET: [answer(200)]})


async def test_half_an_answer_for_the_bucket_proves_nothing(visit):
    async def scenario(shop, origin):
        with pytest.raises(OriginUnreachable):
            await shop.read(ask())

    torn = b"HTTP/1.1 404 No\r\nContent-Length: 99\r\nConnection: close\r\n\r\nNot"

    async def speak(heard, writer):
        writer.write(torn)
        writer.close()

    async with shop_before(speak, google()) as (shop, origin):
        await scenario(shop, origin)


@pytest.mark.parametrize(("method", "target"), [("HEAD", b"/data"), ("GET", b"/data?list-type=2")])
@pytest.mark.parametrize("is_googles", [True, False])
async def test_of_a_bucket_there_is_no_absence(visit, method, target, is_googles):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match="no bucket data"):
            await shop.read(ask(method, target))

    await visit(scenario, {target: [xml(b"NoSuchBucket")]}, is_googles=is_googles)


SAID = "No such object: data/a/c/0"


@pytest.mark.parametrize(
    "body", [SAID.encode(), json.dumps({"error": {"code": 404, "message": SAID}}).encode()]
)
@pytest.mark.parametrize("is_googles", [True, False])
async def test_what_the_json_interface_says_of_an_object_passes(visit, body, is_googles):
    async def scenario(shop, origin):
        assert await shop.read(ask("GET", OBJECT)) == (404, body)
        assert len(origin.heard) == 1

    await visit(scenario, {OBJECT: [answer(404, body)]}, is_googles=is_googles)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", OBJECT, b'{"error": {"message": "The specified bucket does not exist."}}'),
        ("GET", OBJECT, b"No such object: another/a/c/0"),
        ("GET", BUCKET + b"/o?prefix=a", SAID.encode()),
        ("GET", BUCKET, b"Not Found"),
        ("HEAD", OBJECT, b""),
    ],
)
async def test_and_nothing_else_that_it_says(visit, method, target, body):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match="doesn't say that an object is missing"):
            await shop.read(ask(method, target))

    await visit(scenario, {target: [answer(404, body)]}, is_googles=True)


@pytest.mark.parametrize(("status", "passes"), [(200, True), (404, False)])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_an_emulators_json_is_believed_once_its_bucket_answers(visit, status, passes, method):
    async def scenario(shop, origin):
        if passes:
            assert (await shop.read(ask(method, OBJECT)))[0] == 404
        else:
            with pytest.raises(OriginNonsense):
                await shop.read(ask(method, OBJECT))

    await visit(scenario, {OBJECT: [PLAIN], BUCKET: [answer(status)]})


async def test_a_writes_404_is_its_own(visit):
    async def scenario(shop, origin):
        assert (await shop.read(ask("DELETE")))[0] == 404
        assert field(origin.heard[0], b"authorization") == b"Bearer t"

    await visit(scenario, {b"/data/a/c/0": [xml(b"NoSuchBucket")]}, chain("t"))


# One question of a bucket for all who came before it.


class Looks:
    """Each look ends when it is told to."""

    def __init__(self):
        self.begun = []

    async def __call__(self):
        turn = asyncio.get_running_loop().create_future()
        self.begun.append(turn)
        return await turn


async def test_a_look_serves_those_who_came_before_it_and_no_others():
    buckets, look = Buckets(), Looks()
    first = [asyncio.create_task(buckets.status(b"data", look)) for _ in range(3)]
    await turns(5)
    assert len(look.begun) == 1
    late = [asyncio.create_task(buckets.status(b"data", look)) for _ in range(3)]
    other = asyncio.create_task(buckets.status(b"other", look))
    await turns(5)
    assert len(look.begun) == 2
    look.begun[0].set_result(200)
    assert await asyncio.gather(*first) == [200] * 3
    await turns(5)
    assert len(look.begun) == 3
    look.begun[1].set_result(500)
    look.begun[2].set_result(404)
    assert await asyncio.gather(*late) == [404] * 3
    assert await other == 500
    assert not buckets._next and not buckets._running


async def test_whoever_goes_leaves_the_look_to_the_others():
    buckets, look = Buckets(), Looks()
    gone, there = (asyncio.create_task(buckets.status(b"data", look)) for _ in range(2))
    await turns(5)
    gone.cancel()
    await turns(5)
    look.begun[0].set_result(200)
    assert await there == 200
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_a_look_that_fails_does_so_for_all_who_wait_and_for_nobody_else():
    buckets, look = Buckets(), Looks()
    both = [asyncio.create_task(buckets.status(b"data", look)) for _ in range(2)]
    await turns(5)
    late = asyncio.create_task(buckets.status(b"data", look))
    await turns(5)
    look.begun[0].set_exception(OriginUnreachable("gone"))
    found = await asyncio.gather(*both, return_exceptions=True)
    assert all(isinstance(each, OriginUnreachable) for each in found)
    await turns(5)
    look.begun[1].set_result(200)
    assert await late == 200
