"""Sockets to listen on: both loopback families for `localhost`, one free port for both."""

from __future__ import annotations

import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BACKLOG: Final = 2048
_TRIES_FOR_A_COMMON_PORT: Final = 20


class CannotListen(Exception):
    """The address can't be had; the text says why."""


@dataclass(frozen=True, slots=True)
class Listener:
    """`name` is where a client reaches it: a URL, or `unix:` and a path."""

    name: str
    sockets: tuple[socket.socket, ...]

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


def listen_tcp(host: str, port: int) -> Listener:
    """Raises CannotListen. A host of all addresses is reached as `localhost`."""
    sockets = bind_tcp(host, port)
    shown = "localhost" if host in ("0.0.0.0", "::", "localhost") else host  # noqa: S104
    shown = f"[{shown}]" if ":" in shown else shown
    return Listener(f"http://{shown}:{sockets[0].getsockname()[1]}/", tuple(sockets))


def listen_unix(path: str) -> Listener:
    """Raises CannotListen."""
    return Listener(f"unix:{path}", (bind_unix(path),))


def bind_tcp(host: str, port: int) -> list[socket.socket]:
    """Listening sockets for `host`; `localhost` is 127.0.0.1 and ::1. Port 0 picks one for all.

    A family that this machine doesn't have is left out as long as there is another.
    """
    if host != "localhost":
        return [_bind(*_resolve(host, port))]
    for _ in range(_TRIES_FOR_A_COMMON_PORT):
        try:
            first = _bind(socket.AF_INET, ("127.0.0.1", port))
        except CannotListen as error:
            if _is_without_family(error):
                return [_bind(socket.AF_INET6, ("::1", port))]
            raise
        chosen = first.getsockname()[1]
        try:
            return [first, _bind(socket.AF_INET6, ("::1", chosen))]
        except CannotListen as error:
            if _is_without_family(error):
                return [first]
            first.close()
            if port != 0:
                raise
    raise CannotListen("no port is free in both loopback families")


def _is_without_family(error: CannotListen) -> bool:
    cause = error.__cause__
    no_such = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
    return isinstance(cause, OSError) and cause.errno in no_such


def bind_unix(path: str) -> socket.socket:
    """A socket file that only its owner may use. One that nobody listens on any more is
    replaced.
    """
    _remove_stale(Path(path))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise CannotListen(_words(error)) from error
    finally:
        os.umask(mask)
    listener.listen(BACKLOG)
    return listener


def _remove_stale(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
    except OSError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError:
            return


def _resolve(host: str, port: int) -> tuple[int, tuple[str | int | bytes, ...]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise CannotListen(_words(error)) from error
    family, _, _, _, address = found[0]
    return family, address


def _bind(family: int, address: tuple[str | int | bytes, ...]) -> socket.socket:
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise CannotListen(_words(error)) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(_words(error)) from error
    return listener


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
