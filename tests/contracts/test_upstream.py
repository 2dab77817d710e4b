"""What every Upstream does: the real ones before real servers and files, and the gateway tests'
fake. What a server alone can do is asked of those that have one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import tempfile
from pathlib import Path

import pytest

from chunkside.clock import SystemClock
from chunkside.core.fields import Fields
from chunkside.core.ranges import strong_validator
from chunkside.gateway.errors import (
    BodyTorn,
    OriginNonsense,
    OriginTooSlow,
    OriginUnreachable,
    RequestAborted,
)
from chunkside.gateway.ports import Content, OriginRequest
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.wire import Times
from tests.store.samples import LOOPS
from tests.support.fake_upstream import Answer, FakeUpstream
from tests.support.files import Directory, Stall, failing_way, stalling_way
from tests.support.house import HandClock, Record
from tests.support.origin import Origin, Script
from tests.support.raw_origin import OK, RawOrigin, closes, says
from tests.support.turns import turns

QUICK = Times(connect=2.0, first_byte=0.15, idle=0.5, deadline=2.0, write=0.15, retries=2)
PATIENT = Times(connect=5.0, first_byte=10.0, idle=10.0, deadline=20.0, write=10.0, retries=2)
VIA = b"1.1 chunkside-test"


def ask(method="GET", target=b"/a/c/0", *fields, content=None):
    return OriginRequest(method, target, Fields(fields), "chunk", content)


def content(*chunks, length=None):
    async def each():
        for chunk in chunks:
            yield chunk

    return Content(each(), length)


async def whole(response):
    return b"".join([chunk async for chunk in response.chunks()])


class FakeWorld:
    """The fake, told the same things."""

    is_real = False

    def __init__(self):
        self.record = Record()
        self.upstream = FakeUpstream(HandClock(), self.record)

    def answer(self, answer, target="/a/c/0"):
        self.upstream.script(target.encode(), answer)

    def objects(self, path, body):
        self.upstream.put(path.encode(), body)

    @contextlib.asynccontextmanager
    async def failing(self, fault):
        for target in (b"/a/c/0", b"/other"):
            self.upstream.script(target, fault)
        yield self.upstream, lambda: [(each.method, each.body) for each in self.upstream.exchanges]

    def targets(self):
        return [each.target for each in self.upstream.exchanges]

    async def close(self):
        pass


class HttpWorld:
    """The real one: before tests/support/origin.py, or before an origin that misbehaves raw."""

    is_real = True

    def __init__(self):
        self.record = Record()
        self.origin = Origin().__enter__()
        self._made = []
        self.upstream = self.make(self.origin.url)

    def make(self, url, times=PATIENT, *, clock=None, pause=asyncio.sleep):
        made = HttpUpstream(
            url, times, self.record, via=VIA, clock=clock or SystemClock(), pause=pause
        )
        self._made.append(made)
        return made

    def answer(self, answer, target="/a/c/0"):
        fields = tuple((n.decode("latin-1"), v.decode("latin-1")) for n, v in answer.fields)
        told = (("Content-Length", str(answer.announced)),) if answer.announced else ()
        script = Script(
            status=answer.status,
            body=answer.body,
            headers=fields + told,
            framing=answer.framing,
            end_after_bytes=len(answer.body) if answer.announced else answer.ends_after,
        )
        self.origin.script(target, script)

    def objects(self, path, body):
        self.origin.put(path, body)

    @contextlib.asynccontextmanager
    async def failing(self, fault):
        if fault == "refused":
            async with RawOrigin(OK) as gone:
                pass
            yield self.make(gone.url), list
            return
        speak = {"dies": closes, "silent": says(), "garbage": says(b"\x16\x03\x01 no HTTP\r\n\r\n")}
        async with RawOrigin(speak[fault]) as raw:
            yield (
                self.make(raw.url, QUICK if fault == "silent" else PATIENT),
                lambda: [(each.method, each.body) for each in raw.heard],
            )

    def targets(self):
        return [each.target for each in self.origin.exchanges]

    async def close(self):
        for made in self._made:
            await made.close()
        await asyncio.to_thread(self.origin.stop)


class FileWorld:
    """The other real one: before a directory, or one that fails."""

    def __init__(self):
        self._made = tempfile.TemporaryDirectory()
        self._directory = Directory(Path(self._made.name) / "data")
        self._stall = Stall()
        self.record = self._directory.record
        self.upstream = self._directory.make()

    def objects(self, path, body):
        self._directory.put(path, body)

    @contextlib.asynccontextmanager
    async def failing(self, fault):
        ways = {"dies": failing_way(errno.EIO), "silent": stalling_way(self._stall)}
        if fault == "refused":
            self._directory.path.rename(self._directory.path.with_name("gone"))
        times = QUICK if fault == "silent" else PATIENT
        yield self._directory.make(times, way=ways.get(fault)), None

    async def close(self):
        self._stall.goes_on.set()
        await self._directory.close()
        self._made.cleanup()


@pytest.fixture(params=LOOPS)
def runner(request):
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner


@pytest.fixture(params=[HttpWorld, FakeWorld], ids=["http", "fake"])
def world(request, runner):
    async def make():
        return request.param()

    world = runner.run(make())
    yield world
    runner.run(world.close())


@pytest.fixture(params=[HttpWorld, FakeWorld, FileWorld], ids=["http", "fake", "file"])
def holder(request, runner):
    """What holds objects, and need not say what it is told to."""

    async def make():
        return request.param()

    holder = runner.run(make())
    yield holder
    runner.run(holder.close())


WRITES = {
    "PUT empty": lambda: ("PUT", content(length=0), b""),
    "PUT without a body": lambda: ("PUT", None, b""),
    "PUT 3 bytes": lambda: ("PUT", content(b"abc", length=3), b"abc"),
    "PUT streamed": lambda: ("PUT", content(b"abc", b"def"), b"abcdef"),
    "POST": lambda: ("POST", content(b"abc", length=3), b"abc"),
    "PATCH": lambda: ("PATCH", content(b"abc", length=3), b"abc"),
    "DELETE": lambda: ("DELETE", None, b""),
    "GET with a body": lambda: ("GET", content(b"abc", length=3), b"abc"),
}


class TestAnswers:
    @pytest.mark.parametrize("status", [200, 206, 302, 401, 403, 404, 410, 416, 429, 500, 503, 599])
    def test_a_status_and_its_body_come_as_they_are(self, world, runner, status):
        async def scenario():
            world.answer(Answer(status, body=b"words"))
            response = await world.upstream.send(ask())
            assert response.head.status == status
            assert (response.head.length, response.head.is_framed) == (5, True)
            assert await whole(response) == b"words"
            response.close()

        runner.run(scenario())

    def test_fields_come_in_order_repeated_and_byte_for_byte(self, world, runner):
        fields = (
            (b"X-One", b"1"),
            (b"x-ODD", b"\xe9 \xc3\xa9"),
            (b"X-One", b"2"),
            (b"X-Empty", b""),
        )

        async def scenario():
            world.answer(Answer(200, fields, b"."))
            head = (await world.upstream.send(ask())).head
            got = tuple(line for line in head.fields if line[0].lower().startswith(b"x-"))
            assert got == fields

        runner.run(scenario())

    def test_hop_by_hop_fields_and_framing_are_dropped(self, world, runner):
        fields = (
            (b"Connection", b"keep-alive, X-Hop"),
            (b"Keep-Alive", b"timeout=5"),
            (b"X-Hop", b"1"),
            (b"Proxy-Authenticate", b"Basic"),
            (b"Trailer", b"X-T"),
            (b"X-End", b"1"),
        )

        async def scenario():
            world.answer(Answer(200, fields, b"."))
            head = (await world.upstream.send(ask())).head
            names = {name.lower() for name, _ in head.fields}
            assert names - {b"date"} == {b"x-end"}

        runner.run(scenario())

    @pytest.mark.parametrize("framing", ["length", "chunked", "close"])
    def test_a_head_tells_how_its_body_is_framed(self, world, runner, framing):
        async def scenario():
            world.answer(Answer(200, body=b"x" * 100_000, framing=framing))
            response = await world.upstream.send(ask())
            assert response.head.length == (100_000 if framing == "length" else None)
            assert response.head.is_framed == (framing != "close")
            assert await whole(response) == b"x" * 100_000

        runner.run(scenario())

    @pytest.mark.parametrize("status", [204, 304])
    def test_answers_that_have_no_body_are_framed(self, world, runner, status):
        async def scenario():
            world.answer(Answer(status))
            response = await world.upstream.send(ask())
            assert (response.head.status, response.head.is_framed) == (status, True)
            assert await whole(response) == b""

        runner.run(scenario())

    def test_redirects_are_not_followed_and_encodings_not_undone(self, world, runner):
        async def scenario():
            world.answer(Answer(302, ((b"Location", b"/elsewhere"),), b"go"))
            response = await world.upstream.send(ask())
            assert (response.head.status, await whole(response)) == (302, b"go")
            world.answer(Answer(200, ((b"Content-Encoding", b"gzip"),), b"no gzip at all"), "/gz")
            response = await world.upstream.send(ask("GET", b"/gz"))
            assert await whole(response) == b"no gzip at all"
            assert world.targets() == [b"/a/c/0", b"/gz"]

        runner.run(scenario())


class TestObjects:
    """What an origin that holds objects answers of itself."""

    def test_a_whole_one_comes_framed_with_its_validator(self, holder, runner):
        async def scenario():
            holder.objects("/a/c/0", b"12345")
            response = await holder.upstream.send(ask())
            assert (response.head.status, response.head.length) == (200, 5)
            assert response.head.is_framed
            assert strong_validator(response.head.fields) is not None
            assert await whole(response) == b"12345"
            assert holder.record.answered == [("GET", 200)]
            assert holder.record.received_bytes == 5

        runner.run(scenario())

    def test_a_head_request_tells_a_length_and_brings_no_body(self, holder, runner):
        async def scenario():
            holder.objects("/a/c/0", b"12345")
            response = await holder.upstream.send(ask("HEAD"))
            assert (response.head.status, response.head.length) == (200, 5)
            assert response.head.is_framed
            assert await whole(response) == b""
            assert holder.record.received_bytes == 0

        runner.run(scenario())

    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_one_that_is_not_there_is_a_whole_404(self, holder, runner, method):
        async def scenario():
            response = await holder.upstream.send(ask(method))
            assert (response.head.status, response.head.is_framed) == (404, True)
            length = len(await whole(response))
            assert length == (response.head.length if method == "GET" else 0)

        runner.run(scenario())

    @pytest.mark.parametrize(
        ("asked", "part", "told"),
        [
            (b"bytes=2-4", b"234", b"bytes 2-4/10"),
            (b"bytes=7-", b"789", b"bytes 7-9/10"),
            (b"bytes=8-100", b"89", b"bytes 8-9/10"),
            (b"bytes=-3", b"789", b"bytes 7-9/10"),
            (b"bytes=-30", b"0123456789", b"bytes 0-9/10"),
        ],
    )
    def test_a_range_is_that_part_and_says_so(self, holder, runner, asked, part, told):
        async def scenario():
            holder.objects("/a/c/0", b"0123456789")
            response = await holder.upstream.send(ask("GET", b"/a/c/0", (b"Range", asked)))
            assert (response.head.status, response.head.length) == (206, len(part))
            assert response.head.fields.get(b"content-range") == told
            assert await whole(response) == part
            assert holder.record.answered == [("GET", 206)]
            assert holder.record.received_bytes == len(part)

        runner.run(scenario())

    def test_a_range_that_begins_behind_the_end_is_none(self, holder, runner):
        async def scenario():
            holder.objects("/a/c/0", b"0123456789")
            response = await holder.upstream.send(ask("GET", b"/a/c/0", (b"Range", b"bytes=10-")))
            assert response.head.status == 416
            assert response.head.fields.get(b"content-range") == b"bytes */10"
            response.close()

        runner.run(scenario())

    def test_what_a_client_has_is_not_sent_again(self, holder, runner):
        async def scenario():
            holder.objects("/a/c/0", b"12345")
            first = await holder.upstream.send(ask())
            await whole(first)
            tag = first.head.fields.get(b"etag")
            second = await holder.upstream.send(ask("GET", b"/a/c/0", (b"If-None-Match", tag)))
            assert (second.head.status, second.head.is_framed) == (304, True)
            assert second.head.fields.get(b"etag") == tag
            assert await whole(second) == b""

        runner.run(scenario())

    @pytest.mark.parametrize("is_changed", [False, True], ids=["the same", "another"])
    def test_a_range_of_a_version_is_of_that_one_or_all_of_another(
        self, holder, runner, is_changed
    ):
        async def scenario():
            holder.objects("/a/c/0", b"0123456789")
            first = await holder.upstream.send(ask())
            await whole(first)
            condition = (b"If-Range", strong_validator(first.head.fields))
            if is_changed:
                holder.objects("/a/c/0", b"abcdefghijk")
            response = await holder.upstream.send(
                ask("GET", b"/a/c/0", (b"Range", b"bytes=2-4"), condition)
            )
            expected = (200, b"abcdefghijk") if is_changed else (206, b"234")
            assert (response.head.status, await whole(response)) == expected

        runner.run(scenario())

    def test_a_large_one_comes_in_pieces_and_in_order(self, holder, runner):
        body = bytes(range(256)) * 12_000

        async def scenario():
            holder.objects("/a/c/0", body)
            response = await holder.upstream.send(ask())
            pieces = [chunk async for chunk in response.chunks()]
            assert b"".join(pieces) == body
            assert len(pieces) > 1
            assert holder.record.received_bytes == len(body)

        runner.run(scenario())

    def test_an_answer_closed_early_can_be_closed_again(self, holder, runner):
        async def scenario():
            holder.objects("/a/c/0", b"x" * 3_000_000)
            holder.objects("/next", b"next")
            response = await holder.upstream.send(ask())
            async for _ in response.chunks():
                break
            response.close()
            response.close()
            unread = await holder.upstream.send(ask())
            unread.close()
            assert await whole(await holder.upstream.send(ask("GET", b"/next"))) == b"next"

        runner.run(scenario())

    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            ("refused", OriginUnreachable),
            ("dies", OriginUnreachable),
            ("silent", OriginTooSlow),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_no_answer_is_told_by_its_kind_and_is_no_absence(
        self, holder, runner, fault, error, method
    ):
        async def scenario():
            async with holder.failing(fault) as (upstream, _):
                with pytest.raises(error):
                    await upstream.send(ask(method))
            assert {status for _, status in holder.record.answered} == {None}

        runner.run(scenario())


class TestTornBodies:
    @pytest.mark.parametrize(
        "answer",
        [
            Answer(200, body=b"x" * 100_000, announced=200_000),
            Answer(200, body=b"x" * 100_000, ends_after=70_000),
            Answer(200, body=b"x" * 100_000, framing="chunked", ends_after=70_000),
            Answer(200, body=b"x" * 10, ends_after=0),
        ],
        ids=["longer announced", "ended early", "chunked, ended early", "nothing came"],
    )
    def test_a_body_that_ends_before_its_end_is_torn(self, world, runner, answer):
        async def scenario():
            world.answer(answer)
            response = await world.upstream.send(ask())
            got = bytearray()

            async def take_all():
                async for chunk in response.chunks():
                    got.extend(chunk)

            with pytest.raises(BodyTorn):
                await take_all()
            assert len(got) <= (answer.ends_after if answer.ends_after is not None else 100_000)
            response.close()

        runner.run(scenario())


class TestFailures:
    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            ("refused", OriginUnreachable),
            ("dies", OriginUnreachable),
            ("silent", OriginTooSlow),
            ("garbage", OriginNonsense),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "PUT"])
    def test_no_usable_answer_is_told_by_its_kind(self, world, runner, fault, error, method):
        async def scenario():
            async with world.failing(fault) as (upstream, _):
                sent = content(b"abc", length=3) if method == "PUT" else None
                with pytest.raises(error):
                    await upstream.send(ask(method, content=sent))
            assert {status for _, status in world.record.answered} == {None}

        runner.run(scenario())

    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PROPFIND"])
    def test_a_safe_request_is_sent_again_where_the_connection_died(self, world, runner, method):
        async def scenario():
            async with world.failing("dies") as (upstream, sent):
                with pytest.raises(OriginUnreachable):
                    await upstream.send(ask(method))
                assert len(sent()) > 1
                assert {each for each, _ in sent()} == {method}

        runner.run(scenario())

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_a_write_is_sent_once_whatever_becomes_of_its_connection(self, world, runner, write):
        async def scenario():
            method, body, received = write()
            async with world.failing("dies") as (upstream, sent):
                with pytest.raises(OriginUnreachable):
                    await upstream.send(ask(method, content=body))
                assert sent() == [(method, received)]

        runner.run(scenario())

    @pytest.mark.parametrize("length", [10, None], ids=["length told", "chunked"])
    def test_an_upload_that_breaks_off_never_arrives_as_a_whole(self, world, runner, length):
        async def breaks_off():
            yield b"abc"
            raise RequestAborted

        async def scenario():
            async with world.failing("dies") as (upstream, sent):
                with pytest.raises(OriginUnreachable):
                    await upstream.send(ask("PUT", content=Content(breaks_off(), length)))
                assert sent() == []

        runner.run(scenario())

    def test_what_a_write_sends_arrives_and_is_counted(self, world, runner):
        async def scenario():
            for body in (content(b"abc", b"defg"), content(b"abcdefg", length=7)):
                response = await world.upstream.send(ask("PUT", content=body))
                assert response.head.status in (201, 204)
                response.close()
            read = await world.upstream.send(ask())
            assert await whole(read) == b"abcdefg"
            assert world.record.sent_bytes == 14

        runner.run(scenario())


TARGETS = [
    b"/a/c/0",
    b"/a?",
    b"/a?x=1&x=2&&=",
    b"/a%2fb/c",
    b"/a%2Fb/c",
    b"//a//b/",
    b"/a[0]/b{1}|c^",
    b"/a%27b'c",
    b"/a%20b+c",
    b"/%C3%A9",
    b"/\xc3\xa9?q=\xc3\xa9",
    b"/a/../b/./c",
    b"/a;p=1,2:3@4!$&'()*+,=~-_.",
    b"/%",
    b"/%zz%",
    b"/a?b?c/d",
    b'/"<>\\`',
    b"/a?b=%23#".rstrip(b"#"),
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.decode())
def test_a_target_reaches_the_origin_byte_for_byte(world, runner, target):
    async def scenario():
        response = await world.upstream.send(ask("GET", target))
        response.close()
        assert world.targets() == [target]

    runner.run(scenario())


# Of the real one alone: connections.


@pytest.fixture
def http(runner):
    async def make():
        return HttpWorld()

    world = runner.run(make())
    yield world
    runner.run(world.close())


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_on_a_connection_used_before_is_sent_once_too(http, runner, write):
    async def speak(heard, writer):
        await (OK if heard.number == 1 else closes)(heard, writer)

    async def scenario():
        method, body, received = write()
        async with RawOrigin(speak) as raw:
            upstream = http.make(raw.url)
            assert await whole(await upstream.send(ask())) == b"ok"
            with pytest.raises(OriginUnreachable):
                await upstream.send(ask(method, content=body))
            first, second = raw.heard
            assert first.connection == second.connection
            assert (second.method, second.body) == (method, received)

    runner.run(scenario())


def test_a_get_on_a_connection_that_died_since_is_sent_again(http, runner):
    async def speak(heard, writer):
        await (closes if (heard.connection, heard.number) == (1, 2) else OK)(heard, writer)

    async def scenario():
        async with RawOrigin(speak) as raw:
            upstream = http.make(raw.url)
            for _ in range(2):
                assert await whole(await upstream.send(ask())) == b"ok"
            assert [(each.connection, each.number) for each in raw.heard] == [
                (1, 1),
                (1, 2),
                (2, 1),
            ]

    runner.run(scenario())


def test_a_connection_whose_answer_was_read_is_used_again(http, runner):
    async def scenario():
        async with RawOrigin(OK) as raw:
            upstream = http.make(raw.url)
            for _ in range(3):
                response = await upstream.send(ask())
                await whole(response)
                response.close()
            assert raw.connections == 1

    runner.run(scenario())


def test_a_connection_whose_answer_was_not_read_is_closed(http, runner):
    async def scenario():
        async with RawOrigin(says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")) as raw:
            upstream = http.make(raw.url)
            for _ in range(2):
                (await upstream.send(ask())).close()
            assert raw.connections == 2

    runner.run(scenario())


def test_a_body_that_stalls_is_torn(http, runner):
    async def scenario():
        async with RawOrigin(says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")) as raw:
            response = await http.make(raw.url, QUICK).send(ask())
            with pytest.raises(BodyTorn):
                await whole(response)
            response.close()

    runner.run(scenario())


def test_a_body_may_take_longer_than_any_head(http, runner):
    goes_on = asyncio.Event()

    async def speak(heard, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbo")
        # Later than all that is allowed for a head.
        asyncio.get_running_loop().call_later(0.5, goes_on.set)
        await goes_on.wait()
        writer.write(b"dy")

    times = Times(connect=0.2, first_byte=0.2, idle=20, deadline=0.2, write=0.2)

    async def scenario():
        async with RawOrigin(speak) as raw:
            response = await http.make(raw.url, times).send(ask())
            assert await whole(response) == b"body"

    runner.run(scenario())


@pytest.mark.parametrize("line", [b"Content-Length : 2", b"transfer-encoding\t: chunked", b"X(: 1"])
def test_a_field_that_may_frame_to_some_is_nonsense(http, runner, line):
    answer = says(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\nok", then_closes=True)

    async def scenario():
        async with RawOrigin(answer) as raw:
            with pytest.raises(OriginNonsense):
                await http.make(raw.url).send(ask())

    runner.run(scenario())


@pytest.mark.parametrize("value", [b"a\0b", b"a\rX-B: 1", b"a\r\n\tb"])
def test_no_field_of_an_answer_is_more_than_one_line(http, runner, value):
    """One that was folded is put together (RFC 9112 §5.2)."""
    answer = says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: " + value + b"\r\n\r\nok")

    async def scenario():
        async with RawOrigin(answer) as raw:
            if b"\n" in value:
                head = (await http.make(raw.url).send(ask())).head
                assert head.fields.get(b"x-a").split() == [b"a", b"b"]
                assert b"\n" not in head.fields.get(b"x-a")
                return
            with pytest.raises(OriginNonsense):
                await http.make(raw.url).send(ask())

    runner.run(scenario())


@pytest.mark.parametrize("tag", [b'"caf\xe9"', b'"\x1b[2J"', b'"\x9b"'])
def test_a_validator_goes_back_to_its_origin_as_it_came(http, runner, tag):
    answer = says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: " + tag + b"\r\n\r\nok")

    async def scenario():
        async with RawOrigin(answer) as raw:
            upstream = http.make(raw.url)
            told = (await upstream.send(ask())).head.fields.get(b"etag")
            assert told == tag
            await upstream.send(ask("GET", b"/", (b"If-None-Match", told)))
            assert b"\r\nIf-None-Match: " + tag + b"\r\n" in raw.heard[-1].head

    runner.run(scenario())


def test_the_deadline_bounds_all_tries_together(http, runner):
    times = Times(connect=1, first_byte=0.1, idle=5, deadline=0.5, write=5, retries=1000)

    async def scenario():
        async with RawOrigin(says()) as raw:
            with pytest.raises(OriginTooSlow):
                await http.make(raw.url, times).send(ask())
            assert 1 < len(raw.heard) < 6

    runner.run(scenario())


def test_the_request_on_the_wire_is_what_was_asked_and_nothing_of_its_own(http, runner):
    async def scenario():
        async with RawOrigin(OK) as raw:
            fields = ((b"X-B", b"1"), (b"x-a", "é".encode()), (b"X-B", b"2"))
            (await http.make(raw.url).send(ask("GET", b"/a", *fields))).close()
            [heard] = raw.heard
            lines = heard.head.split(b"\r\n")[1:-2]
            host = b"Host: 127.0.0.1:%d" % raw.port
            sent = [b"X-B: 1", b"x-a: \xc3\xa9", b"X-B: 2", b"Via: " + VIA]
            assert sorted(lines) == sorted([host, *sent])

    runner.run(scenario())


def test_a_write_without_a_length_goes_chunked_and_one_with_a_length_does_not(http, runner):
    async def scenario():
        async with RawOrigin(OK) as raw:
            upstream = http.make(raw.url)
            for body in (content(b"abc"), content(b"abc", length=3), content(length=0)):
                (await upstream.send(ask("PUT", content=body))).close()
            chunked, told, empty = (each.head.lower() for each in raw.heard)
            assert b"transfer-encoding: chunked" in chunked and b"content-length" not in chunked
            assert b"content-length: 3" in told and b"transfer-encoding" not in told
            assert b"content-length: 0" in empty and b"transfer-encoding" not in empty

    runner.run(scenario())


def test_no_cookie_is_kept_and_every_set_cookie_is_passed_on(http, runner):
    answer = says(
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 0\r\n\r\n"
    )

    async def scenario():
        async with RawOrigin(answer) as raw:
            # A jar keeps nothing for hosts that are addresses.
            upstream = http.make(f"http://localhost:{raw.port}")
            for _ in range(2):
                response = await upstream.send(ask())
                assert response.head.fields.count(b"set-cookie") == 2
                await whole(response)
            assert len(raw.heard) == 2
            assert all(b"Cookie" not in each.head for each in raw.heard)

    runner.run(scenario())


def test_nothing_of_the_environment_says_how_an_origin_is_asked(
    http, runner, tmp_path, monkeypatch
):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login u password p\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    async def scenario():
        async with RawOrigin(OK) as raw, RawOrigin(OK) as proxy:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(name, proxy.url)
            (await http.make(raw.url).send(ask())).close()
            [heard] = raw.heard
            assert b"authorization" not in heard.head.lower()
            assert proxy.heard == []

    runner.run(scenario())


def test_a_long_field_comes_whole(http, runner):
    value = b"x" * (40 << 10)
    answer = says(b"HTTP/1.1 200 OK\r\nX-Long: " + value + b"\r\nContent-Length: 0\r\n\r\n")

    async def scenario():
        async with RawOrigin(answer) as raw:
            response = await http.make(raw.url).send(ask())
            assert response.head.fields.get(b"x-long") == value
            response.close()

    runner.run(scenario())


@pytest.mark.parametrize("length", [3, None], ids=["length told", "chunked"])
def test_a_write_without_a_content_type_gains_none(http, runner, length):
    async def scenario():
        async with RawOrigin(OK) as raw:
            body = content(b"abc", length=length)
            (await http.make(raw.url).send(ask("PUT", content=body))).close()
            [heard] = raw.heard
            assert (heard.body, b"content-type" in heard.head.lower()) == (b"abc", False)

    runner.run(scenario())


def test_a_write_may_be_answered_as_late_as_its_own_time_allows(http, runner):
    times = Times(connect=5, first_byte=0.1, idle=0.1, deadline=0.2, write=20.0, retries=0)

    async def late(heard, writer):
        await asyncio.sleep(0.5)  # polls: the passing of time is what is tested
        await OK(heard, writer)

    async def scenario():
        async with RawOrigin(late) as raw:
            response = await http.make(raw.url, times).send(ask("PUT", content=content(b"abc")))
            assert response.head.status == 200
            response.close()

    runner.run(scenario())


def test_a_long_upload_that_makes_way_is_not_cut(http, runner):
    """The time for an answer to a write counts from when its body has been sent."""
    times = Times(connect=5.0, first_byte=1.0, idle=1.0, deadline=1.0, write=1.0, retries=0)

    async def slowly():
        for _ in range(4):
            yield b"x" * 10
            await asyncio.sleep(0.4)  # polls: the passing of time is what is tested

    async def scenario():
        async with RawOrigin(OK) as raw:
            upstream = http.make(raw.url, times)
            response = await upstream.send(ask("PUT", content=Content(slowly(), 40)))
            assert response.head.status == 200
            response.close()

    runner.run(scenario())


@pytest.mark.parametrize(
    "codings", [b"xchunked", b"chunked, gzip", b"gzip, chunked"], ids=lambda value: value.decode()
)
def test_a_body_whose_coding_is_not_chunked_alone_is_not_framed(http, runner, codings):
    answer = says(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + codings + b"\r\n\r\n0\r\n\r\n",
        then_closes=True,
    )

    async def scenario():
        async with RawOrigin(answer) as raw:
            try:
                response = await http.make(raw.url).send(ask())
            except OriginNonsense:
                return
            assert not response.head.is_framed
            assert response.head.length is None
            response.close()

    runner.run(scenario())


def test_bytes_that_nobody_asked_for_never_answer_the_next_request(http, runner):
    """They come after the answer, when its connection is back in the pool."""
    late = asyncio.Event()

    async def speak(heard, writer):
        if heard.target == b"/first":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await writer.drain()
            await late.wait()
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")
        await writer.drain()

    async def scenario():
        async with RawOrigin(speak) as raw:
            upstream = http.make(raw.url)
            first = await upstream.send(ask("GET", b"/first"))
            assert await whole(first) == b"ok"
            late.set()
            await turns(50)
            await asyncio.sleep(0.1)  # polls: bytes that nobody waits for are on their way
            second = await upstream.send(ask("GET", b"/second"))
            assert (second.head.status, await whole(second)) == (200, b"mine")

    runner.run(scenario())
