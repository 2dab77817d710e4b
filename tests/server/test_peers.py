"""Which clients are answered at all, by the address that they come from."""

import asyncio
import contextlib
import json
import socket
from ipaddress import ip_network

import pytest

from chunkside.server.peers import Peers
from tests.store.samples import LOOPS
from tests.support.house import House
from tests.support.wire import Ended, data_port, get, put

HERE = Peers([ip_network("127.0.0.1/32"), ip_network("10.0.0.0/8")])


@pytest.fixture(params=LOOPS)
def on_a_loop(request):
    """Runs a scenario before a data port that is for 127.0.0.1 alone."""

    def run(scenario, peers=HERE):
        async def whole():
            house = House()
            house.origin.put(b"/a/c/0", b"body")
            async with data_port(house, peers=peers) as port:
                await scenario(house, port)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(whole())

    return run


def test_who_comes_from_a_listed_network_is_answered_from_the_lane_too(on_a_loop):
    async def scenario(house, port):
        async with await port.connect() as wire:
            for _ in range(5):
                assert (await wire.ask(get())).body == b"body"
        assert port.fast_lane.answered

    on_a_loop(scenario)


@pytest.mark.parametrize("asked", [get(), put(b"/a", b"x"), b"no HTTP at all", b"GET"])
def test_anybody_else_is_refused_whatever_he_says_and_the_connection_ends(on_a_loop, asked):
    async def scenario(house, port):
        async with await port.connect() as known:
            for _ in range(3):
                await known.ask(get())
        before, heard = port.fast_lane.answered, len(house.origin.exchanges)
        async with await port.connect(source="127.0.0.2") as wire:
            await wire.send(asked + get())
            answer = await wire.answer()
            assert answer.status == 403
            assert answer.value(b"connection") == b"close"
            assert answer.value(b"content-type") == b"application/problem+json"
            assert json.loads(answer.body)["type"].endswith("foreign-client")
            assert await wire.is_closed()
        assert port.ended[-1] == Ended("other", "error", 403, len(answer.body))
        assert (port.fast_lane.answered, len(house.origin.exchanges)) == (before, heard)

    on_a_loop(scenario)


def test_who_says_nothing_and_leaves_is_no_request(on_a_loop):
    async def scenario(house, port):
        async with await port.connect(source="127.0.0.2"):
            pass
        async with await port.connect() as wire:
            assert (await wire.ask(get())).status == 200
        assert [each.status for each in port.ended] == [200]

    on_a_loop(scenario)


def test_without_networks_all_are_answered(on_a_loop):
    async def scenario(house, port):
        async with await port.connect(source="127.0.0.2") as wire:
            assert (await wire.ask(get())).status == 200

    on_a_loop(scenario, peers=None)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_unix_socket_is_for_whoever_can_open_it(tmp_path, loop):
    admitted = []

    class Sees(asyncio.Protocol):
        def connection_made(self, transport):
            admitted.append(HERE.admits(transport))
            transport.close()

    async def main():
        running = asyncio.get_running_loop()
        server = await running.create_unix_server(Sees, str(tmp_path / "s"))
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
        assert await reader.read() == b""
        writer.close()
        server.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
    assert admitted == [True]


class Gone(asyncio.Transport):
    """Of a TCP peer that has gone already."""

    def get_extra_info(self, name, default=None):
        with contextlib.closing(socket.socket()) as sock:
            return sock if name == "socket" else default


def test_one_that_has_gone_already_is_nobody():
    assert not HERE.admits(Gone())
