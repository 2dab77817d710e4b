"""How many connections the admin port takes, and who makes room for whom."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from chunkside.server.admin import admin_app
from chunkside.server.admin_door import bounded
from chunkside.server.door import Door
from tests.server.test_admin import FakeConsole, FakeExposition
from tests.store.samples import LOOPS

MOST = 4
QUESTION = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW_QUESTION = b"GET /why/a HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class SlowConsole(FakeConsole):
    asked: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def why(self, request):
        self.asked.release()
        await self.gate.wait()
        return {"verdict": "so"}


@contextlib.asynccontextmanager
async def admin_port(console):
    runner = web.AppRunner(admin_app(console, FakeExposition()), shutdown_timeout=0.1)
    await runner.setup()
    assert runner.server is not None
    sock = socket.create_server(("127.0.0.1", 0))
    door = Door(sock, bounded(runner.server, MOST))
    async with contextlib.AsyncExitStack() as opened:
        opened.push_async_callback(runner.cleanup)
        opened.push_async_callback(door.close)

        async def connect(said=b""):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            opened.callback(writer.close)
            writer.write(said)
            return reader

        yield connect


@pytest.fixture(params=LOOPS)
def on_a_loop(request):
    def run(scenario):
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(scenario())

    return run


@pytest.mark.parametrize("said", [b"", QUESTION[:20]], ids=["nothing", "half a head"])
def test_connections_that_are_kept_for_nothing_make_room_for_who_asks(on_a_loop, said):
    async def scenario():
        async with admin_port(FakeConsole()) as connect:
            kept = [await connect(said) for _ in range(3 * MOST)]
            # Others came after them.
            async with asyncio.timeout(10):
                for each in kept[: 2 * MOST]:
                    assert await each.read() == b""
            answer = await (await connect(QUESTION)).readline()
            assert answer == b"HTTP/1.1 200 OK\r\n"

    on_a_loop(scenario)


def test_who_is_being_answered_makes_no_room(on_a_loop):
    async def scenario():
        console = SlowConsole()
        async with admin_port(console) as connect:
            asked = []
            for _ in range(MOST):
                asked.append(await connect(SLOW_QUESTION))
                await console.asked.acquire()
            with contextlib.suppress(ConnectionResetError):
                assert await (await connect(QUESTION)).read() == b""
            console.gate.set()
            for each in asked:
                assert await each.readline() == b"HTTP/1.1 200 OK\r\n"

    on_a_loop(scenario)
