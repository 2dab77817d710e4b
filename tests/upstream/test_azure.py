"""Azure's blob storage as it speaks: what requests bear, what answers teach, and what is no
absence.
"""

from email.utils import formatdate

import pytest

from chunkside.core.fields import Fields
from chunkside.gateway.errors import OriginNonsense, OriginUnreachable
from chunkside.gateway.ports import Content
from chunkside.upstream.azure import VERSION, Azure, AzureEndpoint
from chunkside.upstream.azure_secrets import AccountKey, Sas
from chunkside.upstream.breaker import FAILURES_TO_OPEN
from chunkside.upstream.chain import Found, Library
from chunkside.upstream.entra import Token
from chunkside.upstream.shared_key import shared_key
from tests.support.house import HandClock
from tests.support.shop import answer, ask, field, in_turn, shop_before, xml

KEY = AccountKey("acc", b"k" * 64)
TOKEN = Token("t0ken")
SAS = Sas(b"sv=2023-11-03&sig=s3cr3t%2Bx%3D")


def chain(*secrets):
    """Finds one after the other, the last of them from then on."""
    left = list(secrets)

    def look_up(_held):
        return Found(left.pop(0) if len(left) > 1 else left[0], "azure x", None, lambda _: False)

    return Library("azure", "Azure's", look_up).chain(is_required=True)


def told(code, status=404, *lines):
    return answer(status, xml(code), b"x-ms-error-code: " + code, *lines)


def azure(credentials):
    def make(url):
        endpoint = AzureEndpoint(url, b"/acc")
        return lambda clock, record: Azure(endpoint, credentials, clock, record)

    return make


@pytest.fixture
def visit():
    """Runs a scenario with an origin that answers in turn."""

    async def visit(scenario, *answers, credentials=None):
        async with shop_before(in_turn(*answers), azure(credentials)) as (shop, origin):
            return await scenario(shop, origin)

    return visit


def get(*fields, method="GET", target=b"/acc/data/a/c/0", **more):
    return ask(method, target, *fields, **more)


async def test_nothing_but_a_version_is_added_where_nobody_signs(visit):
    async def scenario(shop, origin):
        assert (await shop.read(get()))[0] == 200
        assert field(origin.heard[0], b"authorization") is None
        assert field(origin.heard[0], b"x-ms-date") is None
        assert field(origin.heard[0], b"x-ms-version") == VERSION
        assert origin.heard[0].target == b"/acc/data/a/c/0"

    await visit(scenario, answer(200, b"x"))


async def test_a_token_is_borne_with_a_version_that_knows_it(visit):
    async def scenario(shop, origin):
        theirs = [(b"Authorization", b"Bearer theirs"), (b"Date", b"x"), (b"x-ms-date", b"y")]
        await shop.read(get(*theirs, (b"x-ms-version", b"2015-02-21")))
        await shop.read(get((b"x-ms-version", b"2026-02-06")))
        for heard in origin.heard:
            assert field(heard, b"authorization") == b"Bearer t0ken"
            assert field(heard, b"date") is None
            assert field(heard, b"x-ms-date") == formatdate(shop.clock.wall, usegmt=True).encode()
        versions = [field(heard, b"x-ms-version") for heard in origin.heard]
        assert versions == [VERSION, b"2026-02-06"]

    await visit(scenario, answer(200, b"x"), credentials=chain(TOKEN))


async def test_a_key_signs_all_that_is_sent_as_it_is_sent(visit):
    async def scenario(shop, origin):
        asked = get(
            (b"Range", b"bytes=0-9"),
            (b"If-None-Match", b'"0x8"'),
            (b"x-ms-client-request-id", b"1"),
            (b"Date", b"x"),
            target=b"/acc/data/a%20b?snapshot=x%3A1",
        )
        await shop.read(asked)
        [heard] = origin.heard
        assert heard.target == asked.target
        lines = (line.partition(b": ") for line in heard.head.split(b"\r\n")[1:] if line)
        sent = Fields((name, value) for name, _, value in lines)
        assert b"x-ms-client-request-id" not in sent and b"date" not in sent
        assert sent.get(b"authorization") == shared_key(sent, "GET", asked.target, KEY, None)

    await visit(scenario, answer(206, b"x"), credentials=chain(KEY))


async def test_a_write_is_signed_with_the_length_of_its_body(visit):
    async def body():
        yield b"abc"

    async def scenario(shop, origin):
        asked = get((b"Content-Type", b"a/b"), (b"x-ms-client-request-id", b"1"), method="PUT")
        asked = type(asked)("PUT", asked.target, asked.fields, "chunk", Content(body(), 3))
        assert (await shop.read(asked))[0] == 201
        lines = (line.partition(b": ") for line in origin.heard[0].head.split(b"\r\n")[1:] if line)
        sent = Fields((name, value) for name, _, value in lines)
        assert sent.get(b"x-ms-client-request-id") == b"1"
        assert sent.get(b"authorization") == shared_key(sent, "PUT", asked.target, KEY, 3)

    await visit(scenario, answer(201), credentials=chain(KEY))


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        (b"/acc/data/a", b"/acc/data/a?sv=2023-11-03&sig=s3cr3t%2Bx%3D"),
        (b"/acc/data/a?snapshot=x", b"/acc/data/a?snapshot=x&sv=2023-11-03&sig=s3cr3t%2Bx%3D"),
    ],
)
async def test_a_sas_follows_what_is_asked_for(visit, target, sent):
    async def scenario(shop, origin):
        await shop.read(get((b"Authorization", b"Bearer theirs"), target=target))
        assert origin.heard[0].target == sent
        assert field(origin.heard[0], b"authorization") is None

    await visit(scenario, answer(200), credentials=chain(SAS))


@pytest.mark.parametrize("secret", [TOKEN, KEY, SAS], ids=["token", "key", "SAS"])
async def test_what_a_client_signed_goes_as_it_is(visit, secret):
    async def scenario(shop, origin):
        asked = get((b"x-ms-range", b"bytes=-3"), target=b"/acc/data/a?sig=1", is_signed=True)
        await shop.read(asked)
        assert origin.heard[0].target == b"/acc/data/a?sig=1"
        assert field(origin.heard[0], b"authorization") is None
        assert field(origin.heard[0], b"x-ms-version") is None

    await visit(scenario, answer(200), credentials=chain(secret))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("told", "passed_on"),
    [
        (b"https://o.example/acc/data/a/c/0?%b", b"https://o.example/acc/data/a/c/0"),
        (b"/acc/data/a/c/0?x=1&%b", b"/acc/data/a/c/0?x=1"),
        (b"/login?back=%%2Facc%%2Fdata%%3Fsig%%3Ds3cr3t%%252Bx%%253D&%b", None),
        (b"/login#s3cr3t+x=,%b", None),
    ],
)
async def test_where_an_answer_repeats_a_sas_it_is_not_passed_on(visit, method, told, passed_on):
    location = told % SAS.query

    async def scenario(shop, origin):
        response = await shop.upstream.send(get(method=method))
        body = b"".join([chunk async for chunk in response.chunks()])
        response.close()
        assert response.head.status == 301
        assert response.head.fields.get(b"location") == passed_on
        assert b"s3cr3t" not in body
        assert b"s3cr3t" not in b"".join(value for _, value in response.head.fields)

    page = b'<a href="' + location.replace(b"&", b"&amp;") + b'">here</a>'
    moved = answer(301, page, b"Location: " + location, b"x-said: " + location)
    await visit(scenario, moved, credentials=chain(SAS))


async def test_a_missing_container_keeps_nobody_from_the_others(visit):
    async def scenario(shop, origin):
        for number in range(3 * FAILURES_TO_OPEN):
            with pytest.raises(OriginNonsense):
                await shop.read(get(target=b"/acc/typo/a/c/%d" % number))
            shop.clock.advance(1.0)
        assert (await shop.read(get()))[0] == 200

    missing = told(b"ContainerNotFound")
    await visit(scenario, *[missing] * 3 * FAILURES_TO_OPEN, answer(200, b"x"))


# What answers teach.


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("secret", [TOKEN, KEY], ids=["token", "key"])
async def test_a_clock_that_is_20_minutes_off_is_put_right_by_the_stores(visit, method, secret):
    date = b"Date: " + formatdate(HandClock().wall + 1200, usegmt=True).encode()

    async def scenario(shop, origin):
        assert (await shop.read(get(method=method)))[0] == 200
        assert (await shop.read(get(method=method)))[0] == 200
        stamps = [field(each, b"x-ms-date") for each in origin.heard]
        assert len(stamps) == 3 and stamps[0] != stamps[1] == stamps[2]
        assert shop.record.retries == 1

    refused = told(b"AuthenticationFailed", 403, date)
    await visit(scenario, refused, answer(200), credentials=chain(secret))


@pytest.mark.parametrize(
    "refused",
    [
        told(b"InvalidAuthenticationInfo", 401),
        told(b"AuthenticationFailed", 403),
        answer(403, xml(b"AuthenticationFailed")),
        answer(401),
    ],
    ids=["401", "403", "a body alone", "nothing said"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_secret_that_was_exchanged_is_asked_with_once_more(visit, refused, method):
    async def scenario(shop, origin):
        assert (await shop.read(get(method=method)))[0] == 200
        lines = [field(each, b"authorization") for each in origin.heard]
        assert lines == [b"Bearer t0ken", b"Bearer newer"]

    newer = chain(TOKEN, Token("newer"))
    await visit(scenario, refused, answer(200, b"x"), credentials=newer)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, b"AuthorizationPermissionMismatch"),
        (403, b"AuthenticationFailed"),
        (409, b"PublicAccessNotPermitted"),
    ],
)
@pytest.mark.parametrize("secret", [TOKEN, KEY, SAS, None], ids=["token", "key", "SAS", "none"])
async def test_a_refusal_of_what_there_is_passes_as_it_is(visit, status, code, secret):
    async def scenario(shop, origin):
        assert await shop.read(get()) == (status, xml(code))
        assert len(origin.heard) == 1

    credentials = None if secret is None else chain(secret)
    await visit(scenario, told(code, status), credentials=credentials)


async def test_a_write_that_was_refused_is_not_sent_again(visit):
    async def scenario(shop, origin):
        assert (await shop.read(get(method="DELETE")))[0] == 403
        assert len(origin.heard) == 1

    refused = told(b"AuthenticationFailed", 403)
    await visit(scenario, refused, answer(202), credentials=chain(TOKEN, Token("newer")))


# Absences.


async def test_the_blobs_own_absence_passes_with_what_it_says(visit):
    async def scenario(shop, origin):
        assert await shop.read(get()) == (404, xml(b"BlobNotFound"))
        assert (await shop.read(get(method="HEAD")))[0] == 404
        assert (await shop.read(get(method="DELETE")))[0] == 404

    await visit(scenario, told(b"BlobNotFound"))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (told(b"ContainerNotFound"), "no container data"),
        (told(b"ResourceNotFound"), "container data is private, or isn't there: look at"),
        (told(b"AccountBeingCreated"), "AccountBeingCreated"),
        (answer(404, xml(b"BlobNotFound"), b"x-ms-error-code: ContainerNotFound"), "no container"),
        (told(b"ContainerBeingDeleted", 410), "ContainerBeingDeleted"),
    ],
)
async def test_no_other_404_becomes_an_absence(visit, method, refused, words):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match=words):
            await shop.read(get(method=method))

    await visit(scenario, refused)


@pytest.mark.parametrize(
    "refused",
    [answer(404), answer(404, xml(b"NoSuchThing"), b"x-ms-error-code: BlobNotFound")],
    ids=["nothing said", "the body says something else"],
)
async def test_a_get_has_to_say_so_in_its_body_too(visit, refused):
    async def scenario(shop, origin):
        with pytest.raises(OriginNonsense, match="no absence"):
            await shop.read(get())

    await visit(scenario, refused)


async def test_of_a_container_there_is_no_absence(visit):
    async def scenario(shop, origin):
        for target in (b"/acc/data", b"/acc/data?restype=container&comp=list"):
            with pytest.raises(OriginNonsense, match="no container data"):
                await shop.read(get(target=target))

    await visit(scenario, told(b"BlobNotFound"))


# A range of the last bytes, which Azure doesn't know.


def head_of(length):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length


@pytest.mark.parametrize(
    ("asked", "length", "sent"),
    [
        (b"bytes=-3", 10, b"bytes=7-9"),
        (b"bytes=-30", 10, b"bytes=0-9"),
        (b"bytes=-3", 0, None),
        (b"bytes=-0", None, b"bytes=-0"),
        (b"bytes=7-", None, b"bytes=7-"),
        (b"bytes=0-1,-3", None, b"bytes=0-1,-3"),
    ],
)
async def test_a_range_of_the_last_bytes_is_asked_by_its_place(visit, asked, length, sent):
    async def scenario(shop, origin):
        await shop.read(get((b"Range", asked), (b"If-Match", b'"0x8"')))
        *first, last = origin.heard
        assert [each.method for each in first] == ["HEAD"] * (length is not None)
        assert all(field(each, b"if-match") is None for each in first)
        assert all(field(each, b"authorization") == b"Bearer t0ken" for each in origin.heard)
        assert field(last, b"range") == sent

    place = (sent or b"").replace(b"bytes=", b"Content-Range: bytes ")
    told = answer(206 if length else 200, b"x", *([place + b"/%d" % length] if length else []))
    answers = [told] if length is None else [head_of(length), told]
    await visit(scenario, *answers, credentials=chain(TOKEN))


async def test_other_bytes_than_the_last_are_not_passed_on_as_such(visit):
    async def scenario(shop, origin):
        with pytest.raises(OriginUnreachable, match="exchanged"):
            await shop.read(get((b"Range", b"bytes=-3")))

    grown = answer(206, b"xyz", b"Content-Range: bytes 7-9/12")
    await visit(scenario, head_of(10), grown)


async def test_what_has_become_shorter_still_has_last_bytes(visit):
    async def scenario(shop, origin):
        with pytest.raises(OriginUnreachable, match="exchanged"):
            await shop.read(get((b"Range", b"bytes=-3")))

    shrunk = answer(416, b"", b"Content-Range: bytes */5")
    await visit(scenario, head_of(10), shrunk)


async def test_where_the_length_isnt_told_the_whole_is_not_asked_for_in_its_place(visit):
    async def scenario(shop, origin):
        with pytest.raises(OriginUnreachable, match="503"):
            await shop.read(get((b"Range", b"bytes=-3")))
        assert [each.method for each in origin.heard] == ["HEAD"]

    await visit(scenario, answer(503))


async def test_a_range_of_what_is_refused_says_why(visit):
    async def scenario(shop, origin):
        asked = get((b"Range", b"bytes=-3"))
        assert await shop.read(asked) == (403, xml(b"AuthorizationFailure"))
        assert field(origin.heard[-1], b"range") is None

    await visit(scenario, told(b"AuthorizationFailure", 403))


async def test_a_range_of_what_is_absent_is_an_absence(visit):
    async def scenario(shop, origin):
        asked = get((b"Range", b"bytes=-3"))
        assert await shop.read(asked) == (404, xml(b"BlobNotFound"))
        assert [each.method for each in origin.heard] == ["HEAD", "GET"]

    await visit(scenario, told(b"BlobNotFound"))
