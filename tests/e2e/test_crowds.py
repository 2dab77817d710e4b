"""Many at once: the origin has no more connections than were set, and who leaves leaves nothing."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from chunkside.aiohttp_internals.serving import MOST_HALF_CLOSED
from tests.e2e.conftest import ANY_DISK
from tests.support.deadline import wait_for
from tests.support.http_client import exchange
from tests.support.raw_origin import RawOrigin
from tests.support.sidecar import Sidecar

CONNECTIONS = 16
Leave = Callable[[asyncio.StreamWriter], None]


def _head(heard):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(heard.target)


async def says_its_target(heard, writer):
    writer.write(_head(heard) + heard.target)
    await writer.drain()


@contextlib.asynccontextmanager
async def sidecar_before(origin, cache_dir, *flags):
    sidecar = Sidecar(origin.url, cache_dir, (*ANY_DISK, *flags))
    await asyncio.to_thread(sidecar.__enter__)
    try:
        yield sidecar
    finally:
        await asyncio.to_thread(sidecar.__exit__, None, None, None)


async def connected(url, target):
    split = urlsplit(url)
    reader, writer = await asyncio.open_connection(split.hostname, split.port)
    writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % target)
    return reader, writer


def reset(writer):
    """Leaves for good, and says so."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def close(writer):
    """Leaves as one does who only closes his side, and may still want his answer."""
    writer.transport.abort()


async def got(url, target):
    reader, writer = await connected(url, target)
    head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split(b" ")[1]), body


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
async def test_two_thousand_cold_keys_at_once_take_no_more_connections_than_are_set(
    cache_dir: Path, loop: str
) -> None:
    targets = [b"/a/c/%d" % number for number in range(2000)]
    async with RawOrigin(says_its_target) as origin:
        flags = ("--loop", loop, "--upstream-connections", str(CONNECTIONS))
        async with sidecar_before(origin, cache_dir, *flags, "--upstream-deadline", "50s") as one:
            answers = await asyncio.gather(*(got(one.url, target) for target in targets))
    assert answers == [(200, target) for target in targets]
    assert len(origin.heard) == len(targets)
    assert origin.most_open <= CONNECTIONS


async def test_two_hundred_readers_of_a_cold_key_make_one_request(cache_dir: Path) -> None:
    async with (
        RawOrigin(says_its_target) as origin,
        sidecar_before(origin, cache_dir) as sidecar,
    ):
        answers = await asyncio.gather(*(got(sidecar.url, b"/a/c/0") for _ in range(200)))
    assert answers == [(200, b"/a/c/0")] * 200
    assert len(origin.heard) == 1


@pytest.mark.parametrize(
    ("leave", "half_closed"), [(reset, 0), (close, MOST_HALF_CLOSED)], ids=["reset", "close"]
)
async def test_a_thousand_clients_that_abort_exhaust_nothing(
    cache_dir: Path, leave: Leave, half_closed: int
) -> None:
    connections = 4 * MOST_HALF_CLOSED
    goes_on = asyncio.Event()

    async def speak(heard, writer):
        if heard.target.startswith(b"/held"):
            await goes_on.wait()
        await says_its_target(heard, writer)

    async with RawOrigin(speak) as origin:
        flags = ("--upstream-connections", str(connections), "--upstream-first-byte-timeout", "50s")
        async with sidecar_before(
            origin, cache_dir, *flags, "--upstream-deadline", "50s"
        ) as sidecar:

            def fills() -> float:
                return sidecar.metric("chunkside_fills_in_flight")

            targets = [b"/held/%d" % number for number in range(1000)]
            clients = [await connected(sidecar.url, target) for target in targets]
            await asyncio.to_thread(wait_for, lambda: fills() == len(clients), "a fill for each")
            for _, writer in clients:
                leave(writer)
            # Those go on that hold at most half of the connections.
            await asyncio.to_thread(
                wait_for, lambda: fills() == connections // 2 + half_closed, "the end of the others"
            )
            targets = [b"/free/%d" % number for number in range(50)]
            answers = await asyncio.gather(*(got(sidecar.url, target) for target in targets))
            assert answers == [(200, target) for target in targets]
            goes_on.set()
            await asyncio.to_thread(sidecar.wait_idle)
            assert await got(sidecar.url, b"/held/0") == (200, b"/held/0")
            assert await got(sidecar.url, b"/held/999") == (200, b"/held/999")
            # Many are relays that a fill's end gave up before they were sent.
            assert len(origin.heard) <= 2 * connections + len(targets) + 2
            assert sidecar.metric('chunkside_upstream_breaker{state="closed"}') == 1


async def test_clients_that_leave_with_their_answers_leave_no_connection(cache_dir: Path) -> None:
    async with (
        RawOrigin(says_its_target) as origin,
        sidecar_before(origin, cache_dir) as sidecar,
    ):

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{sidecar.pid}/fd"))

        await asyncio.to_thread(exchange, sidecar.url, "/a/c/0")
        before = descriptors()
        for _ in range(100):
            # Its end comes on the heels of the answer's.
            await asyncio.to_thread(exchange, sidecar.url, "/a/c/0")
        await asyncio.to_thread(
            wait_for, lambda: descriptors() <= before + 1, "the end of a hundred"
        )
