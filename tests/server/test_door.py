"""The door of a port lets in all who wait, at once, and never for good keeps anybody out."""

import asyncio
import errno
import socket
import struct

import pytest

from chunkside.server import door
from chunkside.server.door import Door
from tests.store.samples import LOOPS
from tests.support.deadline import DEADLINE_SECONDS
from tests.support.turns import turns


class Guest(asyncio.Protocol):
    """Answers what it hears with the same."""

    def __init__(self, met):
        self._met = met

    def connection_made(self, transport):
        self._transport = transport
        self._met.append(transport)

    def data_received(self, data):
        self._transport.write(data)


@pytest.fixture(params=sorted(LOOPS))
def loop(request):
    loop = LOOPS[request.param]()
    yield loop
    loop.close()


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        yield listener


def run(loop, what):
    return loop.run_until_complete(asyncio.wait_for(what, DEADLINE_SECONDS))


def test_hundreds_who_come_at_once_are_let_in_within_a_few_turns(loop, listener):
    async def enter():
        met: list[asyncio.Transport] = []
        opened = Door(listener, lambda: Guest(met))
        clients = [socket.create_connection(listener.getsockname()) for _ in range(256)]
        await turns(20)
        assert len(met) == 256
        assert all(
            each.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            for each in met
        )
        await opened.close()
        for transport in met:
            transport.close()
        for client in clients:
            client.close()

    run(loop, enter())


def test_whoever_has_gone_again_keeps_nobody_out(loop, listener):
    async def enter():
        met: list[asyncio.Transport] = []
        opened = Door(listener, lambda: Guest(met))
        for _ in range(3):
            gone = socket.create_connection(listener.getsockname())
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            gone.close()
        assert await echo(listener.getsockname()) == b"hello"
        await opened.close()

    run(loop, enter())


def test_a_unix_socket_has_a_door_too(loop, tmp_path):
    async def enter():
        met: list[asyncio.Transport] = []
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s"))
            listener.listen()
            opened = Door(listener, lambda: Guest(met))
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            await opened.close()

    run(loop, enter())


def test_those_who_came_before_it_was_closed_are_let_in(loop, listener):
    async def enter():
        met: list[asyncio.Transport] = []
        opened = Door(listener, lambda: Guest(met))
        address = listener.getsockname()
        client = socket.create_connection(address)
        while not opened._entering:
            await turns(1)
        await opened.close()
        assert len(met) == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        met[0].close()
        client.close()

    run(loop, enter())


class RunsOut(socket.socket):
    """A listening socket that has no descriptor left a few times."""

    def __init__(self, listener, errors):
        super().__init__(fileno=listener.detach())
        self._errors = errors

    def accept(self):
        if self._errors:
            raise OSError(self._errors.pop(), "no")
        return super().accept()


@pytest.mark.parametrize(
    ("errors", "warnings"),
    [
        ([errno.EMFILE], 1),
        ([errno.ENFILE, errno.ENOMEM, errno.ENOBUFS], 3),
        ([errno.ECONNABORTED, errno.EPERM], 0),
    ],
)
def test_where_descriptors_ran_out_it_opens_again(
    loop, listener, monkeypatch, caplog, errors, warnings
):
    monkeypatch.setattr(door, "_REST_SECONDS", 0.01)

    async def enter():
        met: list[asyncio.Transport] = []
        sock = RunsOut(listener, list(errors))
        address = sock.getsockname()
        opened = Door(sock, lambda: Guest(met))
        assert await echo(address) == b"hello"
        await opened.close()

    run(loop, enter())
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warnings


def test_it_may_be_closed_while_it_rests(loop, listener, monkeypatch):
    monkeypatch.setattr(door, "_REST_SECONDS", 3600)

    async def enter():
        sock = RunsOut(listener, [errno.EMFILE])
        address = sock.getsockname()
        opened = Door(sock, asyncio.Protocol)
        with socket.create_connection(address):
            while opened._rest is None:
                await turns(1)
            await opened.close()
        assert opened._rest.cancelled()

    run(loop, enter())


async def echo(address):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"hello")
    heard = await reader.readexactly(5)
    writer.close()
    return heard
