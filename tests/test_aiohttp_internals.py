"""The canary: every private part of aiohttp that is used exists, and behaves as it is used.

Where a new minor version turns this red, read chunkside/aiohttp_internals against it.
"""

import asyncio
import inspect
import re
import socket
import struct
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import http_parser, web, web_protocol
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ClientResponse
from aiohttp.http_writer import StreamWriter
from yarl import URL

from chunkside.aiohttp_internals import UnfitAiohttp, asking, check_aiohttp, serving
from chunkside.aiohttp_internals.asking import Client, Question
from chunkside.aiohttp_internals.serving import (
    LONGEST_FIELD,
    LONGEST_TARGET,
    Handler,
    RawResponse,
    Server,
    is_idle,
    send_continue,
    which_is_too_large,
)
from tests.store.samples import LOOPS
from tests.support.raw_origin import OK, RawOrigin, closes
from tests.support.turns import turns


@pytest.fixture(params=LOOPS)
def runner(request):
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner


def test_the_installed_version_is_one_that_was_read_and_has_its_c_parser():
    check_aiohttp()
    assert http_parser.HttpRequestParser.__module__ == "aiohttp._http_parser"


@pytest.mark.parametrize("version", ["3.13.9", "3.14.2", "3.15.0", "4.0.0"])
def test_another_version_is_unfit(monkeypatch, version):
    monkeypatch.setattr(aiohttp, "__version__", version)
    with pytest.raises(UnfitAiohttp, match=r"3\.14\.3"):
        check_aiohttp()


@pytest.mark.parametrize("version", ["3.14.3", "3.14.99"])
def test_versions_that_were_read_are_fit(monkeypatch, version):
    monkeypatch.setattr(aiohttp, "__version__", version)
    check_aiohttp()


def test_without_its_c_parser_it_is_unfit(monkeypatch):
    monkeypatch.setattr(http_parser, "HttpRequestParser", http_parser.HttpRequestParserPy)
    with pytest.raises(UnfitAiohttp, match="C parser"):
        check_aiohttp()


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (web_protocol.RequestHandler, ["_waiter", "_messages", "_current_request", "_upgraded"]),
        (web_protocol.RequestHandler, ["handle_error", "_loop", "finish_response", "close"]),
        (
            web_protocol.RequestHandler,
            ["connection_lost", "force_close", "_task_handler", "_manager"],
        ),
        (web_protocol, ["_ErrInfo"]),
        (web.StreamResponse, ["_prepare_headers", "_write_headers", "_payload_writer"]),
        (web.Server, ["__call__"]),
        (StreamWriter, ["_write", "enable_chunking", "length", "output_size"]),
        (StreamWriter, ["_headers_buf", "_headers_written", "send_headers"]),
        (ClientRequest, ["send", "url", "_continue", "_body", "_skip_auto_headers"]),
        (ClientRequest, ["update_auto_headers", "write_bytes", "_get_content_length", "_writer"]),
        (ClientResponse, ["start", "close"]),
        (ResponseHandler, ["set_response_params", "should_close"]),
        (aiohttp.TCPConnector, ["connect", "_get", "_keepalive_timeout"]),
        (aiohttp.TCPConnector, ["_wait_for_available_connection", "_release_waiter"]),
        (aiohttp.TCPConnector, ["_create_connection", "_acquired", "_conns", "_limit"]),
    ],
    ids=lambda what: what.__name__ if isinstance(what, type) else "",
)
def test_the_private_parts_exist(owner, names):
    classes = owner.__mro__[:-1] if isinstance(owner, type) else (owner,)
    source = "".join(inspect.getsource(each) for each in classes if _has_source(each))
    for name in names:
        assert hasattr(owner, name) or f"self.{name}" in source, f"{owner.__name__}.{name}"


def _has_source(owner):
    return getattr(owner, "__module__", owner.__name__).startswith("aiohttp")


# The head.


NO = b"HTTP/1.1 400 No\r\n\r\n"


def raw(head, **more):
    settings = {"length": 2, "is_chunked": False, "whole": b"ok", "keep_alive": True, **more}
    return RawResponse(200, head, **settings)


async def answered(make, request=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", handlers=None):
    """All bytes of the answer to one request, to which a server answers with `make(request)`."""

    async def handle(http):
        return await make(http)

    loop = asyncio.get_running_loop()
    server = Server(handle, lambda http, status, error: raw(NO, keep_alive=False))

    def protocol():
        handler = server()
        if handlers is not None:
            handlers.append(handler)
        return handler

    listening = await loop.create_server(protocol, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(20):
        got = await reader.read(-1)
    writer.close()
    listening.close()
    await server.shutdown(1)
    return got


HEAD = b"HTTP/1.1 200 Fine\r\nX-Bytes: \xff\xe9\r\nx-ODD:v\r\nContent-Length: 2\r\n\r\n"


def test_a_raw_head_goes_out_byte_for_byte_with_a_whole_body(runner):
    async def scenario():
        async def make(http):
            return raw(HEAD, keep_alive=False)

        assert await answered(make) == HEAD + b"ok"

    runner.run(scenario())


def test_a_raw_head_goes_out_byte_for_byte_before_a_body_in_pieces(runner):
    async def scenario():
        async def make(http):
            response = raw(HEAD, whole=b"", keep_alive=False)
            await response.prepare(http)
            await response.write(memoryview(b"o"))
            await response.write(b"k")
            await response.write_eof()
            return response

        assert await answered(make) == HEAD + b"ok"

    runner.run(scenario())


def test_a_raw_head_goes_out_without_a_body(runner):
    async def scenario():
        async def make(http):
            return raw(HEAD, whole=b"", length=0, keep_alive=False)

        assert await answered(make, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n") == HEAD

    runner.run(scenario())


def test_chunks_are_framed_behind_a_raw_head(runner):
    head = b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def scenario():
        async def make(http):
            response = raw(head, length=None, is_chunked=True, whole=b"", keep_alive=False)
            await response.prepare(http)
            await response.write(b"ok")
            await response.write_eof()
            return response

        assert await answered(make) == head + b"2\r\nok\r\n0\r\n\r\n"

    runner.run(scenario())


def test_an_error_of_the_parser_gets_our_page(runner):
    async def scenario():
        async def make(http):
            raise AssertionError("never called")

        assert await answered(make, b"\x00\x01") == NO + b"ok"

    runner.run(scenario())


def test_100_continue_is_no_part_of_the_answer(runner):
    async def scenario():
        async def make(http):
            await send_continue(http.writer)
            assert http.writer.output_size == 0
            return raw(HEAD, keep_alive=False)

        assert await answered(make) == b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"ok"

    runner.run(scenario())


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        (b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * LONGEST_TARGET), "target"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"a" * 2 * LONGEST_FIELD), "fields"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n%b: a\r\n\r\n" % (b"X" * LONGEST_FIELD), "fields"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n%b\r\n" % (b"X: a\r\n" * 200), "fields"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX a\r\n\r\n", None),
    ],
    ids=["target", "value", "name", "count", "malformed"],
)
def test_what_of_a_head_is_too_large_is_told_from_the_parsers_error(runner, request_, what):
    async def scenario():
        told = []

        async def handle(http):
            raise AssertionError("it was parsed")

        def page(http, status, error):
            told.append(which_is_too_large(error))
            return raw(NO, keep_alive=False)

        loop = asyncio.get_running_loop()
        server = Server(handle, page)
        listening = await loop.create_server(server, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listening.sockets[0].getsockname()[1]
        )
        writer.write(request_)
        async with asyncio.timeout(20):
            await reader.read(-1)
        writer.close()
        listening.close()
        await server.shutdown(1)
        assert told == [what]

    runner.run(scenario())


def test_what_stands_behind_a_request_to_upgrade_is_dropped(runner):
    """Or else the front need not hand on head by head any more."""

    async def scenario():
        asked = []

        async def make(http):
            asked.append(http.raw_path)
            return raw(HEAD, keep_alive=False)

        upgrade = b"GET /1 HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
        await answered(make, upgrade + b"GET /2 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert asked == ["/1"]

    runner.run(scenario())


# Whether a handler is idle.


def test_a_handler_is_idle_before_and_after_a_request_and_not_while_it_runs(runner):
    async def scenario():
        seen: list[tuple[str, bool]] = []
        handlers: list[Handler] = []
        loop = asyncio.get_running_loop()

        async def handle(http):
            seen.append(("while", is_idle(handlers[0])))
            return raw(HEAD)

        server = Server(handle, lambda *_: raw(b""))

        def protocol():
            handlers.append(server())
            return handlers[-1]

        listening = await loop.create_server(protocol, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(20):
            while not handlers or not is_idle(handlers[0]):
                await turns()
            for _ in range(2):
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert await reader.readexactly(len(HEAD) + 2) == HEAD + b"ok"
                while not is_idle(handlers[0]):
                    await turns()
            # Kept open: aiohttp's own timer is out of the way.
            await turns(50)
            assert is_idle(handlers[0])
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
            await reader.readexactly(2 * (len(HEAD) + 2))
        assert seen == [("while", False)] * 4
        assert isinstance(handlers[0], Handler)
        writer.close()
        listening.close()
        await server.shutdown(1)
        assert not is_idle(handlers[0])

    runner.run(scenario())


def test_a_handler_is_idle_as_soon_as_its_connection_is_made(runner, monkeypatch):
    seen: list[bool] = []
    make = Handler.connection_made

    def connection_made(self, transport):
        make(self, transport)
        seen.append(is_idle(self))

    monkeypatch.setattr(Handler, "connection_made", connection_made)

    async def scenario():
        async def handle(http):
            return raw(HEAD)

        server = Server(handle, lambda *_: raw(b""))
        assert not is_idle(server())
        listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        async with asyncio.timeout(20):
            while not seen:
                await turns()
        writer.close()
        listening.close()
        await server.shutdown(1)

    runner.run(scenario())
    assert seen == [True]


@pytest.mark.parametrize(
    ("sent", "owes"),
    [
        (b"", False),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 3, True),
        (b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody", True),
        (b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo", False),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT", True),
    ],
    ids=["nothing", "one", "three", "a body", "half a body", "half a head behind one"],
)
def test_a_handler_whose_client_has_ended_owes_the_answers_to_whole_requests(runner, sent, owes):
    async def scenario():
        handlers: list[Handler] = []
        go_on = asyncio.Event()

        async def handle(http):
            await go_on.wait()
            return raw(HEAD)

        loop = asyncio.get_running_loop()
        server = Server(handle, lambda *_: raw(b""))

        def protocol():
            handlers.append(server())
            return handlers[-1]

        listening = await loop.create_server(protocol, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listening.sockets[0].getsockname()[1]
        )
        writer.write(sent)
        async with asyncio.timeout(20):
            while not handlers or (sent and is_idle(handlers[0])):
                await turns()
            while sent and handlers[0]._current_request is None:
                await turns()
            assert handlers[0].hear_the_end() is owes
            go_on.set()
            if owes:
                assert await reader.read(-1) == (HEAD + b"ok") * sent.count(b"\r\n\r\n")
        writer.close()
        listening.close()
        await server.shutdown(0.1)

    runner.run(scenario())


def test_two_requests_at_once_are_queued_and_the_handler_is_not_idle_between_them(runner):
    async def scenario():
        idle: list[bool] = []
        handlers: list[Handler] = []

        async def make(http):
            idle.append(is_idle(handlers[0]))
            return raw(HEAD, keep_alive=len(idle) < 2)

        request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2
        assert await answered(make, request, handlers) == (HEAD + b"ok") * 2
        assert idle == [False, False]

    runner.run(scenario())


@pytest.mark.parametrize(("method", "goes_on"), [("GET", False), ("HEAD", False), ("PUT", True)])
def test_a_read_ends_with_its_client_and_a_write_goes_on(runner, method, goes_on):
    async def scenario():
        begun, lets_go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        outcomes = []

        async def handle(http):
            begun.set()
            try:
                await lets_go.wait()
                outcomes.append("went on")
            except asyncio.CancelledError:
                outcomes.append("ended")
                raise
            finally:
                ended.set()
            return raw(HEAD, keep_alive=False)

        handlers = []
        server = Server(handle, lambda http, status, error: raw(NO, keep_alive=False))

        def protocol():
            handlers.append(server())
            return handlers[-1]

        listening = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(20):
            await begun.wait()
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            writer.transport.abort()
            while handlers[0].transport is not None:
                await turns()
            if goes_on:
                lets_go.set()
            await ended.wait()
        assert outcomes == ["went on" if goes_on else "ended"]
        listening.close()
        await server.shutdown(1)

    runner.run(scenario())


# Asking.


def test_the_client_sends_fields_byte_for_byte(runner):
    async def scenario():
        async with RawOrigin(OK) as origin, a_client() as ask:
            fields = [("X-A", '"caf\udce9"'), ("If-None-Match", '"\x1b\t\x7f"'), ("X-A", "\xe9")]
            await (await ask("GET", origin, fields=fields)).read()
            [heard] = origin.heard
            assert heard.head.endswith(
                b'\r\nX-A: "caf\xe9"\r\nIf-None-Match: "\x1b\t\x7f"\r\nX-A: \xc3\xa9\r\n\r\n'
            )

    runner.run(scenario())


@pytest.mark.parametrize("value", ["a\r\nX-B: 1", "a\nb", "a\rb", "a\0"])
def test_no_field_makes_another_line(runner, value):
    async def scenario():
        async with RawOrigin(OK) as origin, a_client() as ask:
            with pytest.raises(ValueError, match="not be one request"):
                await ask("GET", origin, fields=[("X-A", value)])
            with pytest.raises(ValueError, match="not be one request"):
                await ask("GET", origin, b"/a HTTP/1.1\r\nX-B: 1\r\n\r\nGET /")
            # Nothing was sent on the connections, and they are not in anybody's way.
            for _ in range(3):
                assert await (await ask("GET", origin)).read() == b"ok"
            assert [heard.target for heard in origin.heard] == [b"/"] * 3

    runner.run(scenario())


@pytest.mark.parametrize(
    "target",
    [
        b"/a?",
        b"/a%2fb",
        b"//a",
        b"/[0]",
        b"/%27'",
        b"/\xc3\xa9",
        b"/\xff",
        b"/a/../b",
        b"/%",
        b"/?#",
    ],
)
def test_the_client_sends_the_exact_target(runner, target):
    async def scenario():
        async with RawOrigin(OK) as origin, a_client() as ask:
            assert await (await ask("GET", origin, target)).read() == b"ok"
            [heard] = origin.heard
            assert heard.request_line == b"GET " + target + b" HTTP/1.1"
            assert heard.head == (
                b"GET "
                + target
                + b" HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-A: 1\r\n\r\n" % origin.port
            )

    runner.run(scenario())


@asynccontextmanager
async def a_client(connections=2):
    client = Client(connections, 1 << 16)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=5.0)

    async def ask(method, origin, target=b"/", fields=(("X-A", "1"),)):
        question = Question(method, URL(origin.url), target, fields)
        return await client.ask(question, timeout)

    try:
        yield ask
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("method", "seconds", "connections"),
    [("PUT", 0.0, 2), ("DELETE", 0.0, 2), ("PUT", 3600.0, 1), ("GET", 0.0, 1)],
)
def test_a_write_trusts_no_connection_that_was_quiet(
    runner, monkeypatch, method, seconds, connections
):
    """Servers close such ones, and nobody would know what came of it."""
    monkeypatch.setattr(asking, "WRITES_TRUST_SECONDS", seconds)

    async def scenario():
        async with RawOrigin(OK) as origin, a_client(connections=1) as ask:
            for asked in ("GET", method):
                await (await ask(asked, origin)).read()
            assert (origin.connections, len(origin.heard)) == (connections, 2)
            # Who comes later has the usual patience.
            await (await ask("GET", origin)).read()
            assert origin.connections == connections

    runner.run(scenario())


def test_connections_that_are_kept_count_too_and_the_quietest_makes_room(runner):
    async def scenario():
        async with (
            RawOrigin(OK) as one,
            RawOrigin(OK) as two,
            RawOrigin(OK) as three,
            a_client(connections=2) as ask,
        ):
            for origin in (one, two, one, three):
                await (await ask("GET", origin)).read()
            async with asyncio.timeout(10):
                while two.open:
                    await turns()
            assert [each.open for each in (one, two, three)] == [1, 0, 1]
            assert [each.connections for each in (one, two, three)] == [1, 1, 1]

    runner.run(scenario())


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_the_client_never_sends_again_by_itself(runner, method):
    async def speak(heard, writer):
        await (OK if heard.number == 1 else closes)(heard, writer)

    async def scenario():
        async with RawOrigin(speak) as origin, a_client() as ask:
            await (await ask("GET", origin)).read()
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await ask(method, origin)
            assert [(each.connection, each.number) for each in origin.heard] == [(1, 1), (1, 2)]

    runner.run(scenario())


def test_every_private_name_that_is_used_is_in_the_list_above():
    source = inspect.getsource(asking) + inspect.getsource(serving)
    this = Path(__file__).read_text()
    ours = {"_head", "_announced", "_is_chunked", "_whole", "_keep_alive", "_error_page", "_url"}
    ours |= {"_kwargs", "_is_half_closed", "_half_closed", "_newest", "_is_answered"}
    ours |= {"_close_quietest", "_connector", "_read_bytes", "_send"}
    for name in sorted(set(_private_names(source)) - ours):
        assert name in this, f"{name} is used and no canary knows it"


def _private_names(source):
    return re.findall(r"\.(_[a-z]\w+)", source)
