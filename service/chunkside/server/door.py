"""Takes in the connections that wait at a listening socket, many in one turn of the loop.

uvloop's own servers take one a turn: where hundreds come at once to a busy loop, the last would
wait for as many turns, which is seconds.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64
# Where descriptors or memory ran out, more of them are asked for only after a while.
_REST_SECONDS: Final = 1.0
_RAN_OUT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Door:
    """Open from the start. `sock` must listen; it is closed with the door."""

    def __init__(self, sock: socket.socket, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        sock.settimeout(0)
        self._sock = sock
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._entering: set[asyncio.Task[None]] = set()
        self._rest: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock, self._let_in)

    async def close(self) -> None:
        """Lets nobody in any more. Whoever is in stays."""
        if self._rest is not None:
            self._rest.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()
        if self._entering:
            await asyncio.wait(self._entering)

    def _let_in(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _RAN_OUT:
                    # Of that one connection, which its client has given up.
                    continue
                log.warning("no connection can be taken in just now: %s", error.strerror)
                self._loop.remove_reader(self._sock)
                self._rest = self._loop.call_later(_REST_SECONDS, self._open_again)
                return
            entering = self._loop.create_task(self._enter(connection))
            self._entering.add(entering)
            entering.add_done_callback(self._entering.discard)

    def _open_again(self) -> None:
        self._rest = None
        self._loop.add_reader(self._sock, self._let_in)

    async def _enter(self, connection: socket.socket) -> None:
        if connection.family != socket.AF_UNIX:
            # Of sockets that it didn't make itself the stock loop doesn't know that they are TCP.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self._loop.connect_accepted_socket(self._make_protocol, connection)
