"""The admin port takes only so many connections, for any pod of a cluster may open them, and a
process that runs out of descriptors answers nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from chunkside.aiohttp_internals.serving import is_idle

MOST_CONNECTIONS: Final = 256


class _TurnedAway(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def bounded(server: web.Server, most: int = MOST_CONNECTIONS) -> Callable[[], asyncio.Protocol]:
    """Makes the server's protocols. Where there are too many connections the oldest that nobody is
    answered on makes room: whoever comes to ask, asks at once.
    """

    def make() -> asyncio.Protocol:
        known = server.connections
        if len(known) >= most:
            quiet = next(filter(is_idle, known), None)
            if quiet is None:
                return _TurnedAway()
            quiet.force_close()
        return server()

    return make
