"""S3 as its stores speak it: places, what their answers teach, and what is no absence."""

import asyncio
from dataclasses import replace
from email.utils import formatdate

import pytest

from chunkside.gateway.errors import OriginNonsense, OriginUnreachable
from chunkside.upstream import aws
from chunkside.upstream.aws import Keys
from chunkside.upstream.chain import Chain, Found
from chunkside.upstream.s3 import S3, S3Endpoint, host_of
from tests.support.house import HandClock
from tests.support.shop import answer, ask, field, in_turn, shop_before, xml
from tests.support.turns import turns

AWS = S3Endpoint("https://s3.amazonaws.com:443", is_aws=True, region="us-east-1")
STORE = S3Endpoint("http://store:8333", is_aws=False, region="us-east-1")


class Static:
    """Credentials that are there for good."""

    method = "env"

    def __init__(self, name="AKID"):
        self.name = name

    def get_frozen_credentials(self):
        return Keys(self.name, "s3cr3t", None)


def chain(name="AKID"):
    keys = Keys(name, "s3cr3t", None)
    return Chain(aws.AWS, Found(keys, f"aws env {name}", Static(name), lambda _: False))


def s3(credentials=None, **endpoint):
    def make(url):
        told = S3Endpoint(url, is_aws=False, region="us-east-1", **endpoint)
        return lambda clock, record: S3(told, credentials, clock, record)

    return make


@pytest.fixture
def visit():
    """Runs a scenario with an origin that answers in turn."""

    async def visit(scenario, *answers, credentials=None, unused=None, **endpoint):
        make = s3(credentials, **endpoint)
        async with shop_before(in_turn(*answers), make, unused) as (shop, origin):
            return await scenario(shop, origin)

    return visit


@pytest.mark.parametrize(
    ("endpoint", "target", "region", "location", "sent"),
    [
        (AWS, b"/data/a?b", "eu-west-1", "https://data.s3.eu-west-1.amazonaws.com:443", b"/a?b"),
        (AWS, b"/data", "eu-west-1", "https://data.s3.eu-west-1.amazonaws.com:443", b"/"),
        (AWS, b"/data?c=d", "eu-west-1", "https://data.s3.eu-west-1.amazonaws.com:443", b"/?c=d"),
        (AWS, b"/data//a", "eu-west-1", "https://data.s3.eu-west-1.amazonaws.com:443", b"//a"),
        (AWS, b"/my.data/a", "eu-west-1", "https://s3.eu-west-1.amazonaws.com:443", b"/my.data/a"),
        (AWS, b"/Data/a", "eu-west-1", "https://s3.eu-west-1.amazonaws.com:443", b"/Data/a"),
        (AWS, b"/", "cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn:443", b"/"),
        (STORE, b"/data/a", "x", "http://store:8333", b"/data/a"),
    ],
)
def test_a_bucket_is_asked_for_where_its_name_can_stand(endpoint, target, region, location, sent):
    assert endpoint.place(target, region) == (location, sent)


def test_a_store_may_be_asked_in_either_style():
    virtual = S3Endpoint("http://store:8333", is_aws=False, region="x", addressing="virtual")
    assert virtual.place(b"/data/a", "x") == ("http://data.store:8333", b"/a")
    path = S3Endpoint("https://x:443", is_aws=True, region="x", addressing="path")
    assert path.place(b"/data/a", "eu-west-1")[1] == b"/data/a"


@pytest.mark.parametrize(
    ("location", "host"),
    [("https://a.b:443", "a.b"), ("http://a:80", "a"), ("http://[::1]:9000", "[::1]:9000")],
)
def test_what_is_signed_for_is_what_host_says(location, host):
    assert host_of(location) == host


async def test_nothing_is_added_where_nobody_signs(visit):
    async def scenario(shop, origin):
        assert (await shop.read(ask()))[0] == 200
        assert field(origin.heard[0], b"authorization") is None
        assert origin.heard[0].target == b"/data/a/c/0"

    await visit(scenario, answer(200, b"x"))


async def test_the_payer_is_told_where_that_is_wanted(visit):
    async def scenario(shop, origin):
        await shop.read(ask("GET", b"/data/a", (b"X-Amz-Request-Payer", b"nobody")))
        assert field(origin.heard[0], b"x-amz-request-payer") == b"requester"

    await visit(scenario, answer(200), requester_pays=True)


async def test_a_presigned_target_goes_as_it_is(visit):
    async def scenario(shop, origin):
        await shop.read(ask("GET", b"/data/a?X-Amz-Signature=1", is_signed=True))
        assert field(origin.heard[0], b"authorization") is None
        assert origin.heard[0].target == b"/data/a?X-Amz-Signature=1"

    await visit(scenario, answer(200), credentials=chain(), requester_pays=True)


@pytest.mark.parametrize(
    "told",
    [
        answer(301, b"", b"x-amz-bucket-region: eu-west-1"),
        answer(400, xml(b"AuthorizationHeaderMalformed", b"<Region>eu-west-1</Region>")),
        answer(307, b"", b"x-amz-bucket-region: eu-west-1", b"Location: http://nowhere/"),
    ],
    ids=["301", "400", "307"],
)
async def test_a_buckets_region_is_learnt_from_the_stores_answer_and_kept(visit, told):
    async def scenario(shop, origin):
        assert await shop.read(ask()) == (200, b"x")
        assert await shop.read(ask("GET", b"/data/b")) == (200, b"x")
        assert b"/us-east-1/s3/" in field(origin.heard[0], b"authorization")
        assert b"/eu-west-1/s3/" in field(origin.heard[1], b"authorization")
        assert b"/eu-west-1/s3/" in field(origin.heard[2], b"authorization")
        assert shop.record.retries == 1

    await visit(scenario, told, answer(200, b"x"), credentials=chain())


@pytest.mark.parametrize("region", [b"evil.example.org/", b"us-east-1", b"", b"x" * 64])
async def test_what_is_no_other_region_teaches_nothing(visit, region):
    async def scenario(shop, origin):
        assert (await shop.read(ask()))[0] == 301
        assert len(origin.heard) == 1

    await visit(scenario, answer(301, b"", b"x-amz-bucket-region: " + region))


async def test_an_answer_that_keeps_teaching_is_asked_only_once_more(visit):
    async def scenario(shop, origin):
        assert (await shop.read(ask()))[0] == 301
        assert len(origin.heard) == 2

    await visit(
        scenario,
        answer(301, b"", b"x-amz-bucket-region: eu-west-1"),
        answer(301, b"", b"x-amz-bucket-region: eu-west-2"),
    )


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_clock_that_is_20_minutes_off_is_put_right_by_the_stores(visit, method):
    clock = HandClock()
    date = b"Date: " + formatdate(clock.wall + 1200, usegmt=True).encode()

    async def scenario(shop, origin):
        assert (await shop.read(ask(method)))[0] == 200
        assert (await shop.read(ask(method)))[0] == 200
        stamps = [field(each, b"x-amz-date") for each in origin.heard]
        assert len(stamps) == 3 and stamps[0] < stamps[1] == stamps[2]

    refused = answer(403, xml(b"RequestTimeTooSkewed"), date)
    await visit(scenario, refused, answer(200), credentials=chain())


async def test_each_of_those_who_asked_by_a_clock_that_is_off_asks_once_more():
    clock, arrived = HandClock(), asyncio.Barrier(3)
    date = b"Date: " + formatdate(clock.wall + 1200, usegmt=True).encode()

    async def speak(heard, writer):
        if heard.connection <= 3 and heard.number == 1:
            await arrived.wait()
            writer.write(answer(403, xml(b"RequestTimeTooSkewed"), date))
        else:
            writer.write(answer(200))

    async with shop_before(speak, s3(chain())) as (shop, _):
        told = await asyncio.gather(*(shop.read(ask()) for _ in range(3)))
        assert [status for status, _ in told] == [200] * 3


@pytest.mark.parametrize("code", [b"AccessDenied", b"SignatureDoesNotMatch", b"AllAccessDisabled"])
async def test_a_refusal_of_what_there_is_passes_as_it_is(visit, code):
    async def scenario(shop, origin):
        assert await shop.read(ask()) == (403, xml(code))
        assert len(origin.heard) == 1

    # The chain finds nothing else.
    one = chain()
    one.secret_after = nothing_newer
    await visit(scenario, answer(403, xml(code)), credentials=one)


async def nothing_newer(*_):
    return None


class Noted:
    """Counts refusals in the place of credentials that lie unused."""

    def __init__(self):
        self.refusals = 0

    def refused(self):
        self.refusals += 1


@pytest.mark.parametrize(
    ("status", "is_signed", "told"),
    [(403, False, 1), (401, False, 1), (404, False, 0), (403, True, 0)],
)
async def test_a_refusal_tells_of_credentials_that_lie_unused_but_not_of_a_clients_own(
    visit, status, is_signed, told
):
    noted = Noted()

    async def scenario(shop, origin):
        assert (await shop.read(ask("HEAD", is_signed=is_signed)))[0] == status
        assert noted.refusals == told

    await visit(scenario, answer(status), unused=noted)


async def test_credentials_that_were_exchanged_are_asked_with_once_more(visit):
    one = chain()

    async def newer(refused, why):
        assert (refused.access_key, why) == ("AKID", b"ExpiredToken")
        one._found = replace(one._found, secret=Keys("AKNEW", "s3cr3t", None))
        return one._found.secret

    one.secret_after = newer

    async def scenario(shop, origin):
        assert await shop.read(ask()) == (200, b"x")
        lines = [field(each, b"authorization") for each in origin.heard]
        assert b"AKID/" in lines[0] and b"AKNEW/" in lines[1]

    await visit(scenario, answer(400, xml(b"ExpiredToken")), answer(200, b"x"), credentials=one)


async def test_the_keys_own_absence_passes_with_what_it_says(visit):
    async def scenario(shop, origin):
        assert await shop.read(ask()) == (404, xml(b"NoSuchKey"))
        assert (await shop.read(ask("HEAD")))[0] == 404

    await visit(scenario, answer(404, xml(b"NoSuchKey")))


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (answer(404, xml(b"NoSuchBucket")), "no bucket data"),
        (answer(404, b"<html>gone</html>"), "no absence"),
        (answer(404), "no absence"),
        (answer(404, xml(b"NoSuchKey"), b"Content-Encoding: br"), "no absence"),
        (answer(410, xml(b"NoSuchVersion")), "NoSuchVersion"),
        (answer(404, xml(b"NoSuchKey") + bytes(70_000)), "no absence"),
    ],
)
async def test_no_other_404_becomes_an_absence(visit, told, words):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match=words):
            await shop.read(ask())

    await visit(scenario, told)


@pytest.mark.parametrize(("method", "target"), [("HEAD", b"/data"), ("GET", b"/data?list-type=2")])
async def test_of_a_bucket_there_is_no_absence(visit, method, target):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match="no bucket data"):
            await shop.read(ask(method, target))

    await visit(scenario, answer(404, xml(b"NoSuchBucket")))


async def test_half_an_error_proves_nothing(visit):
    async def scenario(shop, origin):
        with pytest.raises(OriginUnreachable):
            await shop.read(ask())

    async def torn(heard, writer):
        writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 99\r\n\r\n<Error><Code>NoSuchKey</Code>")
        writer.close()

    async with shop_before(torn, s3()) as (shop, origin):
        await scenario(shop, origin)


@pytest.mark.parametrize("status", [403, 404], ids=["while it learns", "while it judges"])
async def test_whoever_leaves_while_an_error_is_read_leaves_no_answer_open(status):
    is_said = asyncio.Event()

    async def half(heard, writer):
        writer.write(answer(status, xml(b"AccessDenied"))[:-5])
        await writer.drain()
        is_said.set()

    async with shop_before(half, s3(chain())) as (shop, _):
        in_use = shop.upstream._wire._client._connector._acquired
        reading = asyncio.create_task(shop.read(ask()))
        await is_said.wait()
        await turns(50)
        assert not reading.done() and len(in_use) == 1
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not in_use


async def test_a_write_is_signed_and_its_404_is_its_own(visit):
    async def scenario(shop, origin):
        assert (await shop.read(ask("DELETE")))[0] == 404
        assert field(origin.heard[0], b"authorization") is not None

    await visit(scenario, answer(404, xml(b"NoSuchBucket")), credentials=chain())
