"""Opening the ports before anything slow is imported: who asks meanwhile waits for an answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from chunkside.server.listeners import CannotListen, Listener, listen_tcp, listen_unix
from chunkside.settings import ConfigurationError, ListenAddress, Settings, TcpAddress


@dataclass(frozen=True, slots=True)
class Ports:
    data: list[Listener]
    admin: list[Listener]


def open_ports(settings: Settings, sockets: contextlib.ExitStack) -> Ports:
    """They are closed with `sockets`. Raises ConfigurationError."""
    return Ports(
        _listen(settings.listen, "listen", sockets),
        _listen(settings.admin_listen, "admin_listen", sockets),
    )


def _listen(
    addresses: Iterable[ListenAddress], setting: str, sockets: contextlib.ExitStack
) -> list[Listener]:
    listeners = []
    for address in addresses:
        try:
            listener = (
                listen_tcp(address.host, address.port)
                if isinstance(address, TcpAddress)
                else listen_unix(address.path)
            )
        except CannotListen as error:
            raise ConfigurationError(
                setting,
                address,
                "an address of this machine that is free; port 0 picks one",
                f"choose another with --{setting.replace('_', '-')}",
                reason=str(error),
            ) from error
        sockets.callback(listener.close)
        listeners.append(listener)
    return listeners
