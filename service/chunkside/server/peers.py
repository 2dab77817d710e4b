"""Which clients may ask at all, by the addresses that their connections come from."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from chunkside.core.neighbours import Network, is_within


class Peers:
    """Those in `networks`; all where there are none. Who can open a Unix socket may use it."""

    def __init__(self, networks: Iterable[Network] = ()) -> None:
        self._networks = tuple(networks)

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        if not self._networks:
            return True
        sock, peer = transport.get_extra_info("socket"), transport.get_extra_info("peername")
        if sock is not None and sock.family == socket.AF_UNIX:
            return True
        # A peer that has gone already has no name.
        return bool(peer) and is_within(str(peer[0]), self._networks)
