"""`Expect: 100-continue` between a raw client and a raw origin that has its own mind about it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import ANY_DISK
from tests.support.sidecar import Sidecar
from tests.support.wire import Wire, get

Mind = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

BODY = b"0123456789"
HEAD = get(b"/k", b"Content-Length: 10", b"Expect: 100-continue", method=b"PUT")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"


@asynccontextmanager
async def between(mind: Mind, tmp_path: Path) -> AsyncIterator[tuple[Wire, list[bytes]]]:
    """A connection to a sidecar whose origin reads a head and then does as it likes; and the heads
    that it read.
    """
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        await mind(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with Sidecar(url, tmp_path / "cache", ANY_DISK) as sidecar:
        port = urlsplit(sidecar.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with Wire(reader, writer) as wire:
            yield wire, heads
    server.close()


async def test_a_client_is_told_to_continue_once_the_origin_says_so(tmp_path: Path) -> None:
    has_asked = asyncio.Event()
    may_go_on = asyncio.Event()

    async def accepts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_asked.set()
        await may_go_on.wait()
        writer.write(CONTINUE)
        assert await reader.readexactly(10) == BODY
        writer.write(CREATED)

    async with between(accepts, tmp_path) as (wire, heads):
        await wire.send(HEAD)
        await has_asked.wait()
        may_go_on.set()
        assert await wire.head() == CONTINUE
        assert (await wire.ask(BODY)).status == 201
    [head] = heads
    assert b"\r\nExpect: 100-continue\r\n" in head


async def test_an_origin_that_says_nothing_of_the_kind_gets_the_body(tmp_path: Path) -> None:
    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(10) == BODY
        writer.write(CREATED)

    async with between(waits, tmp_path) as (wire, _):
        await wire.send(HEAD)
        assert await wire.head() == CONTINUE
        assert (await wire.ask(BODY)).status == 201


@pytest.mark.parametrize("status", [401, 403, 412, 413])
async def test_a_client_whose_write_is_refused_need_not_send_it(
    tmp_path: Path, status: int
) -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 2\r\n\r\nno" % status)

    async with between(refuses, tmp_path) as (wire, heads):
        answer = await wire.ask(HEAD)
        assert (answer.status, answer.body) == (status, b"no")
        # Whether the body comes nevertheless can't be known.
        assert answer.value(b"connection") == b"close"
    assert len(heads) == 1


async def test_who_does_not_wait_gets_one_final_answer(tmp_path: Path) -> None:
    async def accepts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(10) == BODY
        writer.write(CREATED)

    request = get(b"/k", b"Content-Length: 10", method=b"PUT") + BODY
    async with between(accepts, tmp_path) as (wire, heads):
        assert (await wire.ask(request)).status == 201
    assert b"expect" not in heads[0].lower()
