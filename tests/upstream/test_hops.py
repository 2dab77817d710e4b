"""What a try is made of: the sidecar's own credential, and the redirects that are followed."""

import asyncio
import contextlib

import pytest

from chunkside.clock import SystemClock
from chunkside.core.fields import Fields
from chunkside.gateway.errors import BodyTorn, OriginNonsense, OriginTooSlow
from chunkside.gateway.origin import Span, whole_body
from chunkside.gateway.ports import Content, OriginRequest
from chunkside.settings.addresses import parse_redirect_host
from chunkside.upstream import watched
from chunkside.upstream.credential import Credential
from chunkside.upstream.hops import Means
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.redirects import MOST_HOPS, Redirects
from chunkside.upstream.wire import Times
from tests.store.samples import LOOPS
from tests.support.house import Record
from tests.support.raw_origin import OK, RawOrigin, says
from tests.support.turns import turns

TIMES = Times(connect=5.0, first_byte=10.0, idle=10.0, deadline=20.0, write=10.0, retries=0)
SECRET = b"s3cr3t"


def ask(method="GET", target=b"/a", *fields, content=None, is_signed=False):
    return OriginRequest(method, target, Fields(fields), "chunk", content, is_signed=is_signed)


def answers(status, *lines, body=b""):
    head = b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n" % (status, len(body))
    return says(head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body)


def redirects(to, status=302, body=b""):
    return answers(status, b"Location: " + to, body=body)


def field(heard, name):
    lines = [line.partition(b": ") for line in heard.head.split(b"\r\n")[1:]]
    values = [value for told, _, value in lines if told.lower() == name]
    assert len(values) <= 1
    return values[0] if values else None


async def status_of(upstream, asked):
    response = await upstream.send(asked)
    async for _ in response.chunks():
        pass
    response.close()
    return response.head.status


class Street:
    """Origins next to each other, and an upstream that is the first of them."""

    def __init__(self, stack):
        self._stack = stack
        self.record = Record()

    async def origin(self, speak):
        return await self._stack.enter_async_context(RawOrigin(speak))

    def upstream(self, home, *listed, credential=None, times=TIMES, names=(b"x-api-key",)):
        hosts = tuple(parse_redirect_host(each) for each in listed)
        means = Means(
            credential=credential,
            redirects=Redirects(hosts, frozenset(names)) if hosts else None,
        )
        made = HttpUpstream(
            home.url, times, self.record, via=b"1.1 t", clock=SystemClock(), means=means
        )
        self._stack.push_async_callback(made.close)
        return made


@pytest.fixture(params=LOOPS)
def run(request):
    def run(scenario):
        async def main():
            async with contextlib.AsyncExitStack() as stack, asyncio.timeout(30):
                await scenario(Street(stack))

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(main())

    return run


def host(origin):
    return f"127.0.0.1:{origin.port}"


class TestCredential:
    @pytest.fixture
    def file(self, tmp_path):
        (tmp_path / "secret").write_bytes(SECRET)
        return tmp_path / "secret"

    def test_it_is_sent_in_the_place_of_what_a_client_sent(self, run, file):
        async def scenario(street):
            home = await street.origin(OK)
            upstream = street.upstream(home, credential=Credential("bearer", file))
            brought = (b"aUTHORIZATION", b"Bearer theirs")
            assert await status_of(upstream, ask("GET", b"/a", brought)) == 200
            assert field(home.heard[0], b"authorization") == b"Bearer " + SECRET

        run(scenario)

    def test_writes_bear_it_too(self, run, file):
        async def body():
            yield b"abc"

        async def scenario(street):
            home = await street.origin(OK)
            upstream = street.upstream(home, credential=Credential("bearer", file))
            for sent in (None, Content(body(), 3)):
                assert await status_of(upstream, ask("PUT", content=sent)) == 200
            assert {field(each, b"authorization") for each in home.heard} == {b"Bearer " + SECRET}

        run(scenario)

    def test_what_a_client_signed_goes_without_it(self, run, file):
        async def scenario(street):
            home = await street.origin(OK)
            upstream = street.upstream(home, credential=Credential("bearer", file))
            await status_of(upstream, ask("GET", b"/a?X-Amz-Signature=1", is_signed=True))
            assert field(home.heard[0], b"authorization") is None

        run(scenario)

    @pytest.mark.parametrize("status", [401, 403])
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_refused_it_is_read_anew_and_sent_once_more_if_it_is_another(
        self, run, file, status, method
    ):
        async def speak(heard, writer):
            is_new = field(heard, b"authorization") == b"Bearer new"
            await (OK if is_new and method == "GET" else answers(200 if is_new else status))(
                heard, writer
            )

        async def scenario(street):
            home = await street.origin(speak)
            upstream = street.upstream(home, credential=Credential("bearer", file))
            assert await status_of(upstream, ask(method)) == status
            assert len(home.heard) == 1
            file.write_bytes(b"new")
            assert await status_of(upstream, ask(method)) == 200
            assert len(home.heard) == 3
            assert street.record.answered == [(method, status)] * 2 + [(method, 200)]
            assert street.record.retries == 1

        run(scenario)

    def test_refused_again_the_refusal_is_passed_on(self, run, file):
        async def scenario(street):
            home = await street.origin(answers(403, b"X-Said: no", body=b"words"))
            upstream = street.upstream(home, credential=Credential("bearer", file))
            assert await status_of(upstream, ask()) == 403
            file.write_bytes(b"other")
            response = await upstream.send(ask())
            got = b"".join([chunk async for chunk in response.chunks()])
            assert (response.head.status, got, len(home.heard)) == (403, b"words", 3)

        run(scenario)

    @pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
    def test_no_refused_write_is_sent_again_and_the_next_one_is_right(self, run, file, method):
        async def scenario(street):
            home = await street.origin(answers(401))
            upstream = street.upstream(home, credential=Credential("bearer", file))
            assert await status_of(upstream, ask(method)) == 401
            file.write_bytes(b"new")
            assert await status_of(upstream, ask(method)) == 401
            assert await status_of(upstream, ask(method)) == 401
            sent = [field(each, b"authorization") for each in home.heard]
            assert sent == [b"Bearer s3cr3t", b"Bearer s3cr3t", b"Bearer new"]

        run(scenario)

    def test_what_pages_may_read_is_not_for_the_origin_to_say(self, run, file):
        async def scenario(street):
            lines = b"Access-Control-Allow-Origin: *", b"access-control-expose-headers: ETag"
            home = await street.origin(answers(200, *lines, b"ETag: 1"))
            bare = street.upstream(home)
            assert b"access-control-allow-origin" in (await bare.send(ask())).head.fields
            upstream = street.upstream(home, credential=Credential("bearer", file))
            assert (await upstream.send(ask())).head.fields.names == {b"etag"}

        run(scenario)

    def test_an_exchange_under_load_is_seen_by_nobody(self, run, file, monkeypatch):
        monkeypatch.setattr(watched, "LOOK_AGAIN_SECONDS", 0.05)
        valid = [b"Bearer " + SECRET]

        async def speak(heard, writer):
            is_valid = field(heard, b"authorization") == valid[0]
            await (OK if is_valid else answers(401))(heard, writer)

        async def scenario(street):
            home = await street.origin(speak)
            upstream = street.upstream(home, credential=Credential("bearer", file))

            async def reads():
                return [await status_of(upstream, ask()) for _ in range(40)]

            readers = [asyncio.create_task(reads()) for _ in range(10)]
            for number in range(5):
                while len(home.heard) < 60 * (number + 1):
                    await turns()
                made = file.with_name(f"new{number}")
                made.write_bytes(b"t%d" % number)
                made.replace(file)
                valid[0] = b"Bearer t%d" % number
            assert {status for read in await asyncio.gather(*readers) for status in read} == {200}

        run(scenario)


class TestRedirects:
    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_one_to_a_listed_host_is_followed_and_both_are_counted(self, run, status, method):
        async def scenario(street):
            away = await street.origin(
                answers(200, b"ETag: 1", body=b"" if method == "HEAD" else b"x")
            )
            to = f"{away.url}/b?X=%2F#f".encode()
            home = await street.origin(redirects(to, status))
            upstream = street.upstream(home, host(away))
            assert await status_of(upstream, ask(method, b"/a", (b"Range", b"bytes=0-0"))) == 200
            [heard] = away.heard
            assert (heard.method, heard.target) == (method, b"/b?X=%2F")
            assert field(heard, b"range") == b"bytes=0-0"
            assert field(heard, b"host") == host(away).encode()
            assert field(heard, b"via") == b"1.1 t"
            assert street.record.answered == [(method, status), (method, 200)]

        run(scenario)

    @pytest.mark.parametrize("listed", [(), ("127.0.0.1:1",), ("localhost", "*.example.org")])
    def test_any_other_passes_through_as_it_came(self, run, listed):
        async def scenario(street):
            away = await street.origin(OK)
            home = await street.origin(redirects(away.url.encode() + b"/b", 307, b"go there"))
            response = await street.upstream(home, *listed).send(ask())
            got = b"".join([chunk async for chunk in response.chunks()])
            assert (response.head.status, got) == (307, b"go there")
            assert response.head.fields.get(b"location") == away.url.encode() + b"/b"
            assert away.heard == []

        run(scenario)

    @pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
    def test_of_reads_alone(self, run, method):
        async def scenario(street):
            away = await street.origin(OK)
            home = await street.origin(redirects(away.url.encode() + b"/b", 307))
            assert await status_of(street.upstream(home, host(away)), ask(method)) == 307
            assert away.heard == []

        run(scenario)

    def test_no_get_that_has_a_body(self, run):
        async def body():
            yield b"abc"

        async def scenario(street):
            away = await street.origin(OK)
            home = await street.origin(redirects(away.url.encode(), 307))
            upstream = street.upstream(home, host(away))
            assert await status_of(upstream, ask(content=Content(body(), 3))) == 307
            assert away.heard == []

        run(scenario)

    SECRETS = (
        (b"Authorization", b"Bearer theirs"),
        (b"X-Api-Key", b"theirs"),
        (b"Cookie", b"theirs"),
        (b"X-Amz-Security-Token", b"theirs"),
    )

    def test_no_credential_goes_to_another_origin_nor_comes_back_with_it(self, run, tmp_path):
        (tmp_path / "secret").write_bytes(b"X-Ours: " + SECRET)

        async def scenario(street):
            async def speak_home(heard, writer):
                to = b"/b" if heard.target == b"/a" else away.url.encode() + b"/c"
                await (OK if heard.target == b"/d" else redirects(to))(heard, writer)

            home = await street.origin(speak_home)
            away = await street.origin(redirects(home.url.encode() + b"/d"))
            credential = Credential("header", tmp_path / "secret")
            upstream = street.upstream(home, host(away), host(home), credential=credential)
            assert await status_of(upstream, ask("GET", b"/a", *self.SECRETS)) == 200
            assert [each.target for each in home.heard] == [b"/a", b"/b", b"/d"]
            for heard in home.heard[:2]:
                assert field(heard, b"x-ours") == SECRET
                assert field(heard, b"x-api-key") == b"theirs"
            for heard in (*away.heard, home.heard[2]):
                assert b"theirs" not in heard.head
                assert SECRET not in heard.head

        run(scenario)

    def test_what_the_origin_presigned_at_home_goes_without_a_credential(self, run, tmp_path):
        (tmp_path / "secret").write_bytes(SECRET)

        async def speak(heard, writer):
            await (redirects(b"/a?X-Amz-Signature=1") if heard.target == b"/a" else OK)(
                heard, writer
            )

        async def scenario(street):
            home = await street.origin(speak)
            credential = Credential("bearer", tmp_path / "secret")
            upstream = street.upstream(home, host(home), credential=credential)
            assert await status_of(upstream, ask("GET", b"/a", *self.SECRETS)) == 200
            assert b"theirs" not in home.heard[1].head
            assert SECRET not in home.heard[1].head

        run(scenario)

    @pytest.mark.parametrize("to", [b"", b"/a", b"?x=1"], ids=["same", "same path", "two"])
    def test_a_circle_is_told(self, run, to):
        async def scenario(street):
            home = await street.origin(redirects(to or b"#"))
            with pytest.raises(OriginNonsense, match="circle"):
                await street.upstream(home, host(home)).send(ask())
            assert len(home.heard) <= 2

        run(scenario)

    def test_five_are_followed_and_no_sixth(self, run):
        async def speak(heard, writer):
            number = int(heard.target[1:])
            await (OK if number == MOST_HOPS else redirects(b"/%d" % (number + 1)))(heard, writer)

        async def scenario(street):
            home = await street.origin(speak)
            upstream = street.upstream(home, host(home))
            assert await status_of(upstream, ask("GET", b"/0")) == 200
            with pytest.raises(OriginNonsense, match="more than 5 times"):
                await upstream.send(ask("GET", b"/-1"))
            assert len(home.heard) == 2 * (1 + MOST_HOPS)

        run(scenario)

    def test_one_that_leads_on_to_an_unlisted_host_is_an_error_that_shows_no_target(self, run):
        async def scenario(street):
            far = await street.origin(OK)
            away = await street.origin(redirects(far.url.encode() + b"/?X-Amz-Signature=s3cr3t"))
            home = await street.origin(redirects(away.url.encode() + b"/?sig=s3cr3t"))
            with pytest.raises(OriginNonsense, match="follow_redirects") as told:
                await street.upstream(home, host(away)).send(ask())
            assert host(away) in str(told.value)
            assert "s3cr3t" not in str(told.value)
            assert far.heard == []

        run(scenario)

    def test_the_deadline_spans_all_hops(self, run):
        async def late(heard, writer):
            await asyncio.sleep(0.25)  # polls: the passing of time is what is tested
            await redirects(b"/%d" % heard.number)(heard, writer)

        async def scenario(street):
            home = await street.origin(late)
            upstream = street.upstream(
                home, host(home), times=Times(first_byte=5, deadline=0.6, retries=0)
            )
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(OriginTooSlow):
                await upstream.send(ask())
            assert loop.time() - began < 1.2
            assert len(home.heard) == 3

        run(scenario)

    def test_a_failure_on_the_way_is_mended_by_another_try_from_the_start(self, run):
        async def scenario(street):
            async def speak(heard, writer):
                await (answers(503) if len(away.heard) == 1 else OK)(heard, writer)

            away = await street.origin(speak)
            home = await street.origin(redirects(away.url.encode() + b"/b"))
            upstream = street.upstream(home, host(away), times=Times(retries=1))
            assert await status_of(upstream, ask()) == 200
            assert (len(home.heard), len(away.heard)) == (2, 2)

        run(scenario)

    def test_a_404_of_the_target_is_the_answer(self, run):
        async def scenario(street):
            away = await street.origin(answers(404, body=b"none"))
            home = await street.origin(redirects(away.url.encode()))
            response = await street.upstream(home, host(away)).send(ask())
            assert (response.head.status, response.head.is_framed) == (404, True)

        run(scenario)

    @pytest.mark.parametrize("size", [0, 100, 60_000])
    def test_connections_are_used_again_and_one_is_enough(self, run, size):
        async def scenario(street):
            away = await street.origin(OK)
            home = await street.origin(redirects(away.url.encode(), body=b"x" * size))
            upstream = street.upstream(home, host(away), times=Times(connections=2))
            for _ in range(20):
                assert await status_of(upstream, ask()) == 200
            assert (home.connections, away.connections) == (1, 1)
            one = street.upstream(home, host(away), times=Times(connections=1, deadline=5))
            statuses = await asyncio.gather(*(status_of(one, ask()) for _ in range(20)))
            assert set(statuses) == {200}

        run(scenario)

    def test_all_hosts_together_keep_to_the_connections_that_there_may_be(self, run):
        async def scenario(street):
            aways = [await street.origin(OK) for _ in range(3)]

            async def speak(heard, writer):
                to = aways[len(heard.target) % 3].url.encode() + b"/b"
                await redirects(to)(heard, writer)

            home = await street.origin(speak)
            upstream = street.upstream(home, *map(host, aways), times=Times(connections=4))
            connector = upstream._wire._client._connector
            for number in range(60):
                await asyncio.gather(
                    *(status_of(upstream, ask("GET", b"/" + b"x" * (number + n))) for n in range(8))
                )
                kept = sum(map(len, connector._conns.values()))
                assert kept + len(connector._acquired) <= 4
            assert sum(each.open for each in (home, *aways)) <= 5

        run(scenario)

    def test_a_body_that_breaks_off_is_resumed_by_way_of_the_redirect(self, run):
        whole = bytes(range(256)) * 400

        tag = [b"1"]

        async def scenario(street):
            async def speak(heard, writer):
                if len(away.heard) == 1:
                    head = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: %d\r\n\r\n'
                    await says(head % len(whole) + whole[:70_000], then_closes=True)(heard, writer)
                    return
                first = int(field(heard, b"range").removeprefix(b"bytes=").removesuffix(b"-"))
                head = b'HTTP/1.1 206 OK\r\nETag: "%b"\r\nContent-Range: bytes %d-%d/%d\r\n'
                told = head % (tag[0], first, len(whole) - 1, len(whole))
                length = b"Content-Length: %d\r\n\r\n" % (len(whole) - first)
                await says(told + length + whole[first:])(heard, writer)

            away = await street.origin(speak)
            home = await street.origin(redirects(away.url.encode() + b"/b"))
            upstream = street.upstream(home, host(away))

            async def body():
                away.heard.clear()
                asked = ask()
                response = await upstream.send(asked)
                span = Span(0, len(whole), len(whole))
                chunks = whole_body(upstream, asked, response, span)
                return b"".join([chunk async for chunk in chunks])

            assert await body() == whole
            assert field(away.heard[1], b"if-range") == b'"1"'
            assert [each.target for each in home.heard] == [b"/a", b"/a"]
            tag[0] = b"2"
            with pytest.raises(BodyTorn):
                await body()

        run(scenario)
