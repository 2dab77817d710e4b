"""The data port over real sockets: framing, bytes, refusals, and connections that end."""

import asyncio
import json
import socket
import struct

import pytest

from chunkside.core.freshness import Policy
from tests.store.samples import LOOPS
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.turns import turns
from tests.support.wire import INSTANCE, Ended, data_port, get, put

BODY = bytes(range(256)) * 4
LARGE = bytes(range(256)) * (8 * 4096)
KEY = b"/a/c/0"


@pytest.fixture(params=LOOPS)
def on_a_loop(request):
    """Runs a scenario before a data port of its own."""

    def run(scenario, policy=None):
        async def whole():
            house = House(policy=policy)
            house.origin.put(KEY, BODY, etag=b'"one"')
            async with data_port(house) as port, await port.connect() as wire:
                await scenario(house, port, wire)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(whole())

    return run


# Framing.


def test_a_get_says_what_it_cost_and_how_long_it_is(on_a_loop):
    async def scenario(house, port, wire):
        first = await wire.ask(get())
        await house.settled()
        second = await wire.ask(get())
        assert (first.status, first.body, second.body) == (200, BODY, BODY)
        assert first.value(b"content-length") == b"%d" % len(BODY)
        assert first.value(b"cache-status") == b"chunkside; fwd=uri-miss; fwd-status=200; stored"
        assert second.value(b"cache-status") == b"chunkside; hit; ttl=300"
        assert (first.value(b"age"), second.value(b"age")) == (None, b"0")
        assert second.value(b"via") == b"1.1 " + INSTANCE.encode()
        await port.until_ended(2)
        size = len(BODY)
        assert port.ended == [Ended("GET", "miss", 200, size), Ended("GET", "hit", 200, size)]

    on_a_loop(scenario)


@pytest.mark.parametrize("is_stored", [False, True], ids=["relayed", "from store"])
def test_a_head_has_a_length_and_no_body(on_a_loop, is_stored):
    async def scenario(house, port, wire):
        if is_stored:
            await wire.ask(get())
            await house.settled()
        for _ in range(2):
            answer = await wire.ask(get(method=b"HEAD"), "HEAD")
            assert (answer.status, answer.value(b"content-length")) == (200, b"%d" % len(BODY))
        # Nothing of a body lies between the answers.
        assert (await wire.ask(get())).body == BODY

    on_a_loop(scenario)


def test_a_304_and_a_204_have_neither_body_nor_length(on_a_loop):
    async def scenario(house, port, wire):
        await wire.ask(get())
        await house.settled()
        unmodified = await wire.ask(get(KEY, b'If-None-Match: "one"'))
        written = await wire.ask(put(KEY, b"new"))
        for answer, status in ((unmodified, 304), (written, 204)):
            assert answer.status == status
            assert answer.value(b"content-length") is None
            assert answer.value(b"transfer-encoding") is None
        assert (await wire.ask(get())).body == b"new"

    on_a_loop(scenario)


def test_a_404_has_its_body_once_and_then_a_length_of_zero(on_a_loop):
    async def scenario(house, port, wire):
        assert (await wire.ask(get(b"/no"))).body == b"no such object\n"
        again = await wire.ask(get(b"/no"))
        assert (again.status, again.value(b"content-length")) == (404, b"0")
        assert b"detail=negative" in again.value(b"cache-status")

    on_a_loop(scenario)


def test_a_reply_of_unknown_length_goes_chunked(on_a_loop):
    async def scenario(house, port, wire):
        house.origin.script(KEY, Answer(200, body=LARGE[:300_000], framing="close"))
        for _ in range(2):
            answer = await wire.ask(get())
            assert answer.value(b"transfer-encoding") == b"chunked"
            assert (answer.body, answer.is_complete) == (LARGE[:300_000], True)

    on_a_loop(scenario)


@pytest.mark.parametrize("keeps", [False, True], ids=["plain", "keep-alive"])
def test_http_1_0_gets_a_length_and_its_connection_only_if_it_asks(on_a_loop, keeps):
    more = b"Connection: keep-alive\r\n" if keeps else b""
    request = b"GET /a/c/0 HTTP/1.0\r\nHost: localhost\r\n%b\r\n" % more

    async def scenario(house, port, wire):
        answer = await wire.ask(request)
        assert answer.body == BODY
        assert answer.value(b"connection") == (b"keep-alive" if keeps else b"close")
        if keeps:
            assert (await wire.ask(request)).body == BODY
        else:
            assert await wire.is_closed()

    on_a_loop(scenario)


def test_http_1_0_gets_no_chunks(on_a_loop):
    async def scenario(house, port, wire):
        house.origin.script(KEY, Answer(200, body=LARGE[:300_000], framing="close"))
        answer = await wire.ask(
            b"GET /a/c/0 HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
        )
        assert answer.value(b"transfer-encoding") is None
        assert (answer.value(b"connection"), answer.body) == (b"close", LARGE[:300_000])

    on_a_loop(scenario)


def test_connection_close_is_obeyed(on_a_loop):
    async def scenario(house, port, wire):
        answer = await wire.ask(get(KEY, b"Connection: close"))
        assert (answer.body, answer.value(b"connection")) == (BODY, b"close")
        assert await wire.is_closed()

    on_a_loop(scenario)


def test_a_large_body_comes_whole_while_it_grows_and_from_store(on_a_loop):
    async def scenario(house, port, wire):
        house.origin.put(KEY, LARGE)
        assert (await wire.ask(get())).body == LARGE
        await house.settled()
        assert (await wire.ask(get())).body == LARGE
        part = await wire.ask(get(KEY, b"Range: bytes=1000000-2999999"))
        assert (part.status, part.body) == (206, LARGE[1_000_000:3_000_000])
        assert part.value(b"content-range") == b"bytes 1000000-2999999/%d" % len(LARGE)

    on_a_loop(scenario)


# Uploads.


def test_expect_100_continue_is_answered_before_the_body_is_sent(on_a_loop):
    async def scenario(house, port, wire):
        for n in range(2):
            head = get(b"/b", b"Content-Length: 4", b"Expect: 100-continue", method=b"PUT")
            await wire.send(head)
            assert await wire.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            answer = await wire.ask(b"body")
            assert answer.status == (204 if n else 201)
        assert {each.body for each in house.origin.requests("PUT")} == {b"body"}
        assert all(b"expect" not in each.fields for each in house.origin.exchanges)

    on_a_loop(scenario)


@pytest.mark.parametrize("value", [b"200-maybe", b"100-continue, 200-maybe", b"x"])
def test_an_expectation_that_can_not_be_met_is_told_so(on_a_loop, value):
    async def scenario(house, port, wire):
        answer = await wire.ask(put(KEY, b"new", b"Expect: " + value))
        refused(answer, 417)
        assert house.origin.count() == 0
        assert (await wire.ask(get())).body == BODY

    on_a_loop(scenario)


def test_an_expectation_in_http_1_0_is_ignored(on_a_loop):
    async def scenario(house, port, wire):
        request = put(b"/b", b"x", b"Expect: 100-continue").replace(b"HTTP/1.1", b"HTTP/1.0")
        assert (await wire.ask(request)).status == 201

    on_a_loop(scenario)


def test_an_upload_that_turns_out_malformed_is_a_bad_request_and_no_write(on_a_loop):
    async def scenario(house, port, wire):
        await wire.send(get(KEY, b"Transfer-Encoding: chunked", method=b"PUT") + b"1\r\nx\r\n")
        await house.until(lambda: house.record.invalidations == ["PUT"])
        await house.until(lambda: house.record.sent_bytes == 1)
        refused(await wire.ask(b"zz\r\n"), 400)
        assert await wire.is_closed()
        assert house.origin.objects[KEY].body == BODY
        closed = house.stamps.read(house.key(KEY).object).closed_until()
        assert closed >= house.now.boot + 60

    on_a_loop(scenario)


def test_a_refused_write_is_refused_without_waiting_for_its_body(on_a_loop):
    async def scenario(house, port, wire):
        lines = (b"Content-Length: 4", b"Expect: 100-continue")
        answer = await wire.ask(get(KEY, *lines, method=b"PUT"))
        assert answer.status == 405

    on_a_loop(scenario, policy=Policy(allow_writes=False))


def test_a_chunked_upload_arrives(on_a_loop):
    async def scenario(house, port, wire):
        head = get(b"/b", b"Transfer-Encoding: chunked", method=b"PUT")
        answer = await wire.ask(head + b"4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n")
        assert answer.status == 201
        assert house.origin.objects[b"/b"].body == b"Wikipedia"
        assert (await wire.ask(get())).body == BODY

    on_a_loop(scenario)


def test_a_large_upload_arrives_and_the_connection_goes_on(on_a_loop):
    async def scenario(house, port, wire):
        sending = asyncio.create_task(wire.send(put(b"/b", LARGE)))
        assert (await wire.answer()).status == 201
        await sending
        assert house.origin.objects[b"/b"].body == LARGE
        assert (await wire.ask(get(b"/b"))).body == LARGE

    on_a_loop(scenario)


def test_an_upload_that_breaks_off_is_no_write_that_is_over(on_a_loop):
    async def scenario(house, port, wire):
        await wire.send(get(KEY, b"Content-Length: 10", method=b"PUT") + b"half")
        await house.until(lambda: house.record.invalidations == ["PUT"])
        wire.writer.transport.abort()
        await port.until_ended(1)
        assert house.origin.objects[KEY].body == BODY
        closed = house.stamps.read(house.key(KEY).object).closed_until()
        assert closed >= house.now.boot + 60

    on_a_loop(scenario)


# Bodies that break off, clients that leave.


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("is_storable", [False, True], ids=["relayed", "stored"])
def test_a_torn_body_cuts_the_connection_and_is_never_ended_cleanly(
    on_a_loop, framing, is_storable
):
    fields = () if is_storable else ((b"Cache-Control", b"no-store"),)

    async def scenario(house, port, wire):
        torn = Answer(200, fields, LARGE, framing=framing, ends_after=3_000_000)
        house.origin.script(KEY, torn)
        answer = await wire.ask(get())
        assert answer.status in (0, 200) and not answer.is_complete
        if answer.status == 200:
            assert LARGE.startswith(answer.body)
            assert await wire.is_closed()
        await port.until_ended(1)
        assert port.ended[0].result == "error"
        assert house.origin.open_answers == 0

    on_a_loop(scenario)


def test_a_torn_body_of_http_1_0_does_not_look_like_its_end(on_a_loop):
    async def scenario(house, port, wire):
        torn = Answer(200, (), LARGE, framing="chunked", ends_after=3_000_000)
        house.origin.script(KEY, torn)
        answer = await wire.ask(b"GET /a/c/0 HTTP/1.0\r\nHost: localhost\r\n\r\n")
        assert answer.status in (0, 200) and not answer.is_complete

    on_a_loop(scenario)


@pytest.mark.parametrize("is_storable", [False, True], ids=["relayed", "stored"])
def test_a_client_that_leaves_in_the_middle_of_a_body_releases_everything(on_a_loop, is_storable):
    fields = () if is_storable else ((b"Cache-Control", b"no-store"),)

    async def scenario(house, port, wire):
        house.origin.script(KEY, Answer(200, fields, LARGE))
        gate = house.origin.hold(KEY, 1_000_000)
        await wire.send(get())
        await wire.head()
        await gate.reached()
        wire.writer.transport.abort()
        gate.open()
        await port.until_ended(1)
        await house.settled()
        assert house.origin.open_answers == 0
        assert house.gateway.fills.in_flight == 0
        assert (house.entry(KEY) is not None) == is_storable

    on_a_loop(scenario)


def test_a_client_that_leaves_before_the_head_leaves_the_fill_to_go_on(on_a_loop):
    async def scenario(house, port, wire):
        gate = house.origin.hold(KEY)
        await wire.send(get())
        await gate.reached()
        wire.writer.transport.abort()
        await turns(200)
        gate.open()
        await house.settled()
        assert house.entry(KEY) is not None
        await port.until_ended(1)

    on_a_loop(scenario)


def test_a_slow_reader_of_a_relayed_body_holds_the_origin_not_memory(on_a_loop):
    async def scenario(house, port, wire):
        body = LARGE * 8
        house.origin.script(KEY, Answer(200, ((b"Cache-Control", b"no-store"),), body))
        async with await port.connect(limit=1 << 16) as slow:
            await slow.send(get())
            await slow.head()
            # Turns enough for the whole body, were it not for what the sockets hold.
            await turns(6000)
            [exchange] = house.origin.exchanges
            assert exchange.sent < 24_000_000
            got = await slow.reader.readexactly(len(body))
            assert got == body

    on_a_loop(scenario)


# Bytes.


def test_response_fields_pass_repeated_in_order_and_byte_for_byte(on_a_loop):
    fields = (
        (b"X-Two", b"1"),
        (b"x-oDD", b"\xe9\xff\x80 \xc3\xa9"),
        (b"X-Two", b"2"),
        (b"X-Empty", b""),
        (b"Cache-Status", b"Other; hit"),
    )

    async def scenario(house, port, wire):
        house.origin.put(KEY, BODY, fields=fields)
        for expected in (b"fwd=uri-miss", b"hit"):
            answer = await wire.ask(get())
            assert answer.values(b"x-two") == [b"1", b"2"]
            assert b"\r\nx-oDD: \xe9\xff\x80 \xc3\xa9\r\n" in answer.head
            assert b"\r\nX-Empty: \r\n" in answer.head
            other, own = answer.values(b"cache-status")
            assert other == b"Other; hit" and expected in own
            await house.settled()

    on_a_loop(scenario)


@pytest.mark.parametrize(
    "target",
    [b"/a?", b"/a%2fb", b"//a//b", b"/a[0]", b"/a%27'", b"/%C3%A9", b"/a/../b", b"/%"],
)
def test_a_target_reaches_the_origin_byte_for_byte(on_a_loop, target):
    async def scenario(house, port, wire):
        assert (await wire.ask(get(target))).status == 404
        assert [each.target for each in house.origin.exchanges] == [target]

    on_a_loop(scenario)


def test_a_target_in_absolute_form_is_its_path(on_a_loop):
    async def scenario(house, port, wire):
        assert (await wire.ask(get(b"http://localhost/a/c/0"))).body == BODY
        assert [each.target for each in house.origin.exchanges] == [KEY]

    on_a_loop(scenario)


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        # In absolute-form the target says which host is meant (RFC 9112 §3.2.2).
        (b"http://localhost:8100/a/c/0", b"evil.example", 200),
        (b"HTTPS://127.0.0.1/a/c/0", b"localhost", 200),
        (b"http://evil.example/a/c/0", b"localhost", 421),
        (b"http://evil.example", b"localhost", 421),
        (b"http://a@localhost/a/c/0", b"localhost", 400),
        (b"http://localhost/a/c/0", b"local host", 400),
    ],
)
def test_a_target_in_absolute_form_is_judged_by_its_own_host(on_a_loop, target, host, status):
    async def scenario(house, port, wire):
        request = get(target).replace(b"Host: localhost", b"Host: " + host)
        assert (await wire.ask(request)).status == status
        assert house.origin.count() == (status == 200)

    on_a_loop(scenario)


def test_a_write_in_absolute_form_comes_from_the_page_of_that_host_alone(on_a_loop):
    async def scenario(house, port, wire):
        own = put(b"http://localhost:8100/b", b"x", b"Origin: http://localhost:8100")
        assert (await wire.ask(own)).status == 201
        lines = (b"Origin: http://localhost",)
        refused(await wire.ask(put(b"http://localhost:8100/b", b"x", *lines)), 403)

    on_a_loop(scenario)


@pytest.mark.parametrize(
    ("target", "lines"),
    [(b"*", ()), (KEY, (b"Max-Forwards: 0",)), (KEY, (b"Max-Forwards: 00",))],
)
def test_what_can_be_done_here_is_answered_here(on_a_loop, target, lines):
    async def scenario(house, port, wire):
        answer = await wire.ask(get(target, *lines, method=b"OPTIONS"))
        assert (answer.status, answer.value(b"content-length")) == (204, None)
        assert b"GET" in answer.value(b"allow")
        assert house.origin.count() == 0

    on_a_loop(scenario)


@pytest.mark.parametrize(
    ("method", "hops", "left"),
    [
        (b"OPTIONS", b"5", b"4"),
        (b"OPTIONS", b"x", b"x"),
        (b"GET", b"5", b"5"),
        (b"GET", b"0", b"0"),
    ],
)
def test_options_counts_the_proxies_that_it_may_pass(on_a_loop, method, hops, left):
    async def scenario(house, port, wire):
        await wire.ask(get(KEY, b"Max-Forwards: " + hops, method=method))
        [exchange] = house.origin.exchanges
        assert exchange.fields.get(b"max-forwards") == left

    on_a_loop(scenario)


@pytest.mark.parametrize(
    "target", [b"*", b"/../x", b"/a/%2e%2e/../x", b"/\xff", b"ftp://localhost/a"]
)
def test_a_target_that_can_not_be_used_is_told_so(on_a_loop, target):
    async def scenario(house, port, wire):
        answer = await wire.ask(get(target))
        assert (answer.status, house.origin.count()) == (400, 0)
        assert answer.value(b"content-type") == b"application/problem+json"

    on_a_loop(scenario)


def test_request_fields_pass_and_hop_by_hop_ones_do_not(on_a_loop):
    async def scenario(house, port, wire):
        lines = (b"X-One: 1", b"X-One: 2", b"Connection: X-Hop", b"X-Hop: 1", b"Cookie: a=b")
        await wire.ask(get(KEY, *lines, b"X-Utf8: \xc3\xa9"))
        [exchange] = house.origin.exchanges
        assert exchange.fields.lines == (
            (b"X-One", b"1"),
            (b"X-One", b"2"),
            (b"X-Utf8", b"\xc3\xa9"),
            (b"Accept-Encoding", b"identity"),
        )

    on_a_loop(scenario)


def test_a_request_field_that_can_not_be_passed_on_is_told_so(on_a_loop):
    async def scenario(house, port, wire):
        assert (await wire.ask(get(KEY, b"X-Latin: \xe9"))).status == 400

    on_a_loop(scenario)


# Refusals.


def refused(answer, status):
    assert answer.status == status
    assert answer.value(b"content-type") == b"application/problem+json"
    assert answer.value(b"cache-status").startswith(b"chunkside; detail=")
    problem = json.loads(answer.body)
    assert problem["status"] == status
    return problem


def test_a_request_that_came_through_here_before_is_a_loop(on_a_loop):
    async def scenario(house, port, wire):
        via = b"Via: 1.1 elsewhere, 1.1 " + INSTANCE.encode()
        refused(await wire.ask(get(KEY, via)), 508)
        assert (await wire.ask(get(KEY, b"Via: 1.1 chunkside-ffffffff"))).status == 200
        assert house.origin.count() == 1

    on_a_loop(scenario)


@pytest.mark.parametrize("host", [b"evil.example", b"localhost.evil.example", b"127.0.0.1.nip.io"])
def test_a_host_that_others_can_point_here_is_misdirected(on_a_loop, host):
    async def scenario(house, port, wire):
        request = get().replace(b"Host: localhost", b"Host: " + host)
        refused(await wire.ask(request), 421)
        assert house.origin.count() == 0

    on_a_loop(scenario)


@pytest.mark.parametrize("host", [b"127.0.0.1:8100", b"[::1]:8100", b"a.localhost", b"sidecar"])
def test_a_host_of_this_machine_is_answered(on_a_loop, host):
    async def scenario(house, port, wire):
        request = get().replace(b"Host: localhost", b"Host: " + host)
        assert (await wire.ask(request)).status == 200

    on_a_loop(scenario)


@pytest.mark.parametrize("line", [b"Origin: http://evil.example", b"Sec-Fetch-Site: cross-site"])
def test_a_write_from_a_page_elsewhere_is_refused(on_a_loop, line):
    async def scenario(house, port, wire):
        refused(await wire.ask(put(KEY, b"x", line)), 403)
        assert house.origin.count() == 0

    on_a_loop(scenario)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get(method=b"TRACE"), 405),
        (get(method=b"PURGE"), 405),
        (get(b"localhost:80", method=b"CONNECT"), 405),
    ],
    ids=["TRACE", "PURGE", "CONNECT"],
)
def test_some_methods_are_refused(on_a_loop, request_, status):
    async def scenario(house, port, wire):
        answer = await wire.ask(request_)
        refused(answer, status)
        assert answer.value(b"allow") is not None
        assert house.origin.count() == 0

    on_a_loop(scenario)


@pytest.mark.parametrize(("fault", "status"), [("refused", 503), ("silent", 504), ("garbage", 502)])
def test_an_origin_that_fails_is_told_as_what_it_is(on_a_loop, fault, status):
    async def scenario(house, port, wire):
        house.origin.script(KEY, fault)
        answer = await wire.ask(get())
        refused(answer, status)
        assert (answer.value(b"retry-after") is not None) == (status == 503)
        house.origin.behave()
        assert (await wire.ask(get())).body == BODY

    on_a_loop(scenario)


def test_a_fault_of_ours_is_a_500_and_tells_nothing(on_a_loop, caplog):
    async def scenario(house, port, wire):
        def broken(request):
            raise ZeroDivisionError("a secret")

        house.origin.script(KEY, broken, method="HEAD")
        answer = await wire.ask(get(method=b"HEAD"), "HEAD")
        assert answer.status == 500
        assert b"secret" not in answer.head

    on_a_loop(scenario)


def test_every_request_is_counted_once(on_a_loop):
    async def scenario(house, port, wire):
        await wire.ask(get())
        await house.settled()
        await wire.ask(get())
        await wire.ask(get(b"/no"))
        await wire.ask(get(b"/no"))
        await wire.ask(put(KEY, b"x"))
        await wire.ask(get(method=b"TRACE"))
        await wire.ask(b"\x00\x00")
        await port.until_ended(7)
        results = [each.result for each in port.ended]
        assert results == ["miss", "hit", "miss", "negative_hit", "bypass", "error", "error"]

    on_a_loop(scenario)


def test_a_client_that_goes_before_it_is_answered_is_counted(on_a_loop):
    async def scenario(house, port, wire):
        gate = house.origin.hold(KEY)
        await wire.send(get())
        await gate.reached()
        sock = wire.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.writer.transport.abort()
        await port.until_ended(1)
        assert port.ended == [Ended("GET", "error", None, 0)]
        gate.open()

    on_a_loop(scenario)
