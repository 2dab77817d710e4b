"""The floor: a bare protocol that writes constant bytes, and knows nothing."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import uvloop

HEAD = (
    b"HTTP/1.1 %d x\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nAge: 0\r\n"
    b"Cache-Status: floor; hit; ttl=300\r\nVia: 1.1 floor\r\nContent-Length: %d\r\n\r\n"
)
SIZES = {b"/4k": 4 << 10, b"/64k": 64 << 10, b"/1m": 1 << 20, b"/16m": 16 << 20}
ANSWERS = {target: (HEAD % (200, size)) + bytes(size) for target, size in SIZES.items()}
ABSENT = HEAD % (404, 0)


class Bare(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(ANSWERS.get(data[4 : data.find(b" ", 4)], ABSENT))


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
