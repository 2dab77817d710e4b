"""The protocol in front: whole heads, however they come; everything else is aiohttp's."""

import asyncio
import contextlib
import json

import pytest

from chunkside.server.crowd import Crowd
from chunkside.server.front import Timers
from tests.store.samples import LOOPS
from tests.support.fake_upstream import Answer
from tests.support.house import House
from tests.support.turns import turns
from tests.support.wire import data_port, get, put

BODY = b"0123456789"


@pytest.fixture(params=LOOPS)
def on_a_loop(request):
    """Runs a scenario before a data port of its own."""

    def run(scenario, **more):
        async def whole():
            house = House()
            house.origin.put(b"/a/c/0", BODY)
            async with data_port(house, **more) as port:
                await scenario(house, port)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(whole())

    return run


@contextlib.asynccontextmanager
async def connected(port):
    wire = await port.connect()
    async with wire:
        yield wire


def test_a_connection_is_kept_for_the_next_request(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            for _ in range(5):
                assert (await wire.ask(get())).body == BODY
                await turns(20)

    on_a_loop(scenario)


def test_a_head_may_be_split_anywhere(on_a_loop):
    request = get(b"/a/c/0", b"X-Odd: 1")

    async def scenario(house, port):
        async with connected(port) as wire:
            for cut in range(1, len(request)):
                await wire.send(request[:cut])
                await turns(3)
                assert (await wire.ask(request[cut:])).body == BODY

    on_a_loop(scenario)


def test_a_head_may_come_byte_by_byte(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            for byte in get():
                await wire.send(bytes([byte]))
                await turns()
            assert (await wire.answer()).body == BODY

    on_a_loop(scenario)


def test_a_request_with_a_body_may_be_split_anywhere(on_a_loop):
    request = put(b"/b", b"four")

    async def scenario(house, port):
        for cut in range(1, len(request)):
            async with connected(port) as wire:
                await wire.send(request[:cut])
                await turns(3)
                assert (await wire.ask(request[cut:])).status in (201, 204)
        assert {each.body for each in house.origin.requests("PUT")} == {b"four"}

    on_a_loop(scenario)


def test_pipelined_requests_are_answered_in_order(on_a_loop):
    async def scenario(house, port):
        for n in range(20):
            house.origin.put(b"/%d" % n, b"%d" % n)
        gate = house.origin.hold(b"/3")
        async with connected(port) as wire:
            await wire.send(b"".join(get(b"/%d" % n) for n in range(20)))
            await gate.reached()
            gate.open()
            assert [(await wire.answer()).body for _ in range(20)] == [b"%d" % n for n in range(20)]
            assert (await wire.ask(get())).body == BODY

    on_a_loop(scenario)


@pytest.mark.parametrize("split", [False, True], ids=["at once", "one after the other"])
def test_a_get_a_put_with_a_body_and_a_get_on_one_connection(on_a_loop, split):
    messages = [get(), put(b"/a/c/0", b"new"), get()]

    async def scenario(house, port):
        async with connected(port) as wire:
            if split:
                answers = [await wire.ask(message) for message in messages]
            else:
                await wire.send(b"".join(messages))
                answers = [await wire.answer() for _ in messages]
            assert [each.status for each in answers] == [200, 204, 200]
            assert (answers[0].body, answers[2].body) == (BODY, b"new")

    on_a_loop(scenario)


def test_a_body_that_looks_like_a_request_is_a_body(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            smuggled = get(b"/secret")
            assert (await wire.ask(put(b"/b", smuggled))).status == 201
            assert (await wire.ask(get())).body == BODY
        assert [each.target for each in house.origin.exchanges] == [b"/b", b"/a/c/0"]

    on_a_loop(scenario)


GARBAGE = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00",
    "zeros": b"\x00\x00\x00\x00",
    "a request line of one word": b"GET\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "another version": b"GET / HTTP/3.7\r\nHost: x\r\n\r\n",
    "a field without a colon": b"GET / HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "two lengths": get(b"/", b"Content-Length: 1", b"Content-Length: 2"),
    "length and chunked": get(b"/", b"Content-Length: 1", b"Transfer-Encoding: chunked"),
    "a negative length": get(b"/", b"Content-Length: -1"),
    "a bare CR": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": get(b"/", b"Host: localhost"),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_request_is_told_so_at_once(on_a_loop, garbage):
    async def scenario(house, port):
        async with connected(port) as wire:
            answer = await wire.ask(garbage)
            assert answer.status in (400, 505)
            assert answer.value(b"content-type") == b"application/problem+json"
            assert answer.value(b"cache-status").startswith(b"chunkside; detail=")
            assert answer.value(b"via").startswith(b"1.1 chunkside-")
            problem = json.loads(answer.body)
            assert problem["status"] == answer.status
            assert problem["detail"] and "400, message" not in problem["detail"]
        assert house.origin.count() == 0

    on_a_loop(scenario)


def test_garbage_after_a_good_request_is_told_so_too(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            assert (await wire.ask(get())).status == 200
            assert (await wire.ask(b"\x00\x01\x02\x03")).status == 400
            assert await wire.is_closed()

    on_a_loop(scenario)


def test_a_head_of_no_end_is_refused(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            with contextlib.suppress(ConnectionError):
                await wire.send(get(b"/", b"X-Long: " + b"x" * 200_000)[:-4])
            assert (await wire.answer()).status == 431

    on_a_loop(scenario)


def test_a_head_that_takes_too_long_is_answered_408(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            await wire.send(b"GET / HTTP/1.1\r\nHost: loc")
            answer = await wire.answer()
            assert answer.status == 408
            assert answer.value(b"content-type") == b"application/problem+json"
            assert answer.value(b"cache-status") == b"chunkside; detail=head-timeout"
            assert answer.value(b"via") is not None
            assert await wire.is_closed()
            assert [ended.status for ended in port.ended] == [408]

    on_a_loop(scenario, timers=Timers(head=0.05, idle=60))


def test_a_connection_without_a_request_is_closed_in_time(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            assert await wire.is_closed()
        async with connected(port) as wire:
            assert (await wire.ask(get())).body == BODY
            assert await wire.is_closed()

    on_a_loop(scenario, timers=Timers(head=60, idle=0.05))


def test_a_head_that_trickles_in_after_a_write_buys_no_time(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            assert (await wire.ask(put(b"/b", b"x"))).status == 201
            closed = asyncio.create_task(wire.is_closed())
            await wire.send(b"GET /")
            while not closed.done():
                with contextlib.suppress(ConnectionError):
                    await wire.send(b"x")
                await turns(20)
            assert await closed

    on_a_loop(scenario, timers=Timers(head=0.05, idle=0.05))


def test_a_connection_that_waits_for_its_answer_is_not_idle(on_a_loop):
    async def scenario(house, port):
        gate = house.origin.hold(b"/a/c/0")
        async with connected(port) as wire:
            await wire.send(get())
            await gate.reached()
            async with connected(port) as other:
                assert await other.is_closed()
            gate.open()
            assert (await wire.answer()).body == BODY

    on_a_loop(scenario, timers=Timers(head=0.05, idle=0.05))


def test_a_client_that_ends_in_the_middle_of_a_head_leaves_nothing(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            await wire.send(b"GET / HTT")
            wire.writer.write_eof()
            assert await wire.is_closed()

    on_a_loop(scenario)


@pytest.mark.parametrize(
    "message",
    [get(), get() * 5, get() + put(b"/b", b"x"), put(b"/b", b"x") + get(), get() + get()[:9]],
    ids=["one", "five", "a body last", "a body first", "half a head last"],
)
def test_a_client_that_has_said_all_gets_all_its_answers(on_a_loop, message):
    async def scenario(house, port):
        async with connected(port) as wire:
            await wire.send(message)
            wire.writer.write_eof()
            for _ in range(message.count(b" HTTP/1.1")):
                assert (await wire.answer()).status in (200, 201)
            assert await wire.is_closed()

    on_a_loop(scenario)


def test_a_client_that_has_said_all_waits_for_an_answer_that_takes_long(on_a_loop):
    async def scenario(house, port):
        house.origin.script(b"/big", Answer(200, body=b"x" * 3_000_000))
        gate = house.origin.hold(b"/big")
        async with connected(port) as wire:
            await wire.send(get(b"/big"))
            wire.writer.write_eof()
            await gate.reached()
            async with connected(port) as other:
                assert await other.is_closed()
            gate.open()
            answer = await wire.answer()
            assert (len(answer.body), answer.is_complete) == (3_000_000, True)
            assert await wire.is_closed()

    on_a_loop(scenario, timers=Timers(head=0.05, idle=0.05))


def test_a_client_that_ends_in_the_middle_of_a_body_leaves_nothing(on_a_loop):
    async def scenario(house, port):
        async with connected(port) as wire:
            await wire.send(put(b"/b", b"four")[:-1])
            wire.writer.write_eof()
            assert await wire.is_closed()
        await port.until_ended(1)
        assert b"/b" not in house.origin.objects

    on_a_loop(scenario)


def test_a_connection_kept_for_nothing_makes_room_for_one_that_asks(on_a_loop):
    crowd = Crowd(3)

    async def scenario(house, port):
        gate = house.origin.hold(b"/held")
        async with connected(port) as busy, connected(port) as idle, connected(port) as other:
            await busy.send(get(b"/held"))
            await gate.reached()
            assert (await idle.ask(get())).body == BODY
            assert (await other.ask(get())).body == BODY
            async with connected(port) as new:
                assert (await new.ask(get())).body == BODY
                assert await idle.is_closed()
                assert (await other.ask(get())).body == BODY
                assert len(crowd) == 3
                gate.open()
                assert (await busy.answer()).status == 404

    on_a_loop(scenario, crowd=crowd)


def test_one_connection_too_many_is_told_so_and_none_that_is_busy_is_closed(on_a_loop):
    crowd = Crowd(2)

    async def scenario(house, port):
        gate = house.origin.hold(b"/held")
        async with connected(port) as busy, connected(port) as half:
            await busy.send(get(b"/held"))
            await gate.reached()
            await half.send(get()[:9])
            await turns(20)
            async with connected(port) as new:
                answer = await new.answer()
                assert (answer.status, answer.value(b"retry-after")) == (503, b"1")
                assert answer.value(b"cache-status") == b"chunkside; detail=crowded"
                assert await new.is_closed()
            assert (await half.ask(get()[9:])).body == BODY
            gate.open()
            assert (await busy.answer()).status == 404
            async with connected(port) as new:
                assert (await new.ask(get())).body == BODY

    on_a_loop(scenario, crowd=crowd)


def test_who_leaves_makes_room(on_a_loop):
    crowd = Crowd(5)

    async def scenario(house, port):
        for _ in range(20):
            async with connected(port) as wire:
                assert (await wire.ask(get())).body == BODY
        await house.until(lambda: len(crowd) == 0)

    on_a_loop(scenario, crowd=crowd)


UPGRADE = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAM")


@pytest.mark.parametrize("kind", [b"h2c", b"websocket", b"TLS/1.3"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_no_upgrade_is_taken_up_and_what_is_pipelined_behind_is_answered(on_a_loop, position, kind):
    messages = [get(), get(), get()]
    messages[position] = get(b"/a/c/0", b"Connection: Upgrade", b"Upgrade: " + kind)

    async def scenario(house, port):
        async with connected(port) as wire:
            await wire.send(b"".join(messages))
            assert [(await wire.answer()).status for _ in messages] == [200, 200, 200]
            assert (await wire.ask(get(b"/a/c/0", *UPGRADE))).body == BODY
            assert (await wire.ask(get())).body == BODY

    on_a_loop(scenario)


class Watching:
    """A lane that answers what it is told to, and writes down what it saw."""

    def __init__(self, *takes):
        self.takes = takes
        self.seen = []

    def recall(self, data, transport):
        return False

    def answer(self, head, transport):
        self.seen.append(head)
        if head in self.takes:
            transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlane")
            return True
        return False


def test_a_lane_sees_whole_heads_of_clean_connections_and_the_rest_passes_byte_for_byte(on_a_loop):
    lane = Watching(get(b"/lane"))

    async def scenario(house, port):
        async with connected(port) as wire:
            await wire.send(get(b"/lane")[:9])
            assert (await wire.ask(get(b"/lane")[9:])).body == b"lane"
            assert (await wire.ask(get())).body == BODY
            assert (await wire.ask(get(b"/lane"))).body == b"lane"
            assert house.origin.count() == 1
            assert lane.seen[0] == get(b"/lane")

    on_a_loop(scenario, lane=lane)


def test_a_lane_is_not_asked_while_aiohttp_holds_anything(on_a_loop):
    lane = Watching(get(b"/lane"))

    async def scenario(house, port):
        gate = house.origin.hold(b"/a/c/0")
        async with connected(port) as wire:
            await wire.send(get())
            await gate.reached()
            await wire.send(get(b"/lane"))
            await turns(20)
            gate.open()
            assert (await wire.answer()).body == BODY
            assert (await wire.answer()).status == 404
            assert get(b"/lane") not in lane.seen

    on_a_loop(scenario, lane=lane)


@pytest.mark.parametrize(
    "message",
    [put(b"/b", b"x"), get() + get(), get(b"/a/c/0", b"Transfer-Encoding: chunked") + b"0\r\n\r\n"],
    ids=["a body", "pipelined", "chunked"],
)
def test_a_lane_is_not_asked_about_what_is_not_one_head(on_a_loop, message):
    lane = Watching()

    async def scenario(house, port):
        async with connected(port) as wire:
            assert (await wire.ask(message)).status in (200, 201)
            assert lane.seen == []

    on_a_loop(scenario, lane=lane)


def test_an_answer_under_way_outlives_a_reader_that_stops_asking(on_a_loop):
    async def scenario(house, port):
        house.origin.script(b"/big", Answer(200, body=b"x" * 3_000_000))
        async with connected(port) as wire:
            answer = await wire.ask(get(b"/big"))
            assert (len(answer.body), answer.is_complete) == (3_000_000, True)

    on_a_loop(scenario, timers=Timers(head=0.05, idle=0.05))
