"""What a command is told to look at: a target, or a URL of the data port or of an upstream.

A target is kept as it is spelled, query and all: only what no request line can hold is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from chunkside.settings.addresses import (
    BUCKET_SCHEMES,
    DEFAULT_PORTS,
    ListenAddress,
    TcpAddress,
)

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_FIRST_PRINTABLE: Final = 0x21
_LAST_PRINTABLE: Final = 0x7E


@dataclass(frozen=True, slots=True)
class RouteNames:
    """A route's path on the data port, and its upstream, as /info tells them."""

    prefix: str
    upstream: str


class NoTarget(ValueError):
    """The text is a sentence that says what is wrong, and what a target looks like."""


@dataclass(frozen=True, slots=True)
class Located:
    """A target of the data port. `server`: which one, where a URL names another than was known."""

    target: str
    server: TcpAddress | None = None


def locate(
    text: str, own: Iterable[ListenAddress], routes: Callable[[], Sequence[RouteNames]]
) -> Located:
    """`own`: where the data port is; `routes` is asked only where a URL is not of it. Raises
    NoTarget.
    """
    target = spelled(text)
    if target.startswith("/"):
        return Located(target)
    url = _split(target)
    if url.scheme in DEFAULT_PORTS and any(_is_of(url, address) for address in own):
        return Located(path_of(target))
    known = routes()
    if url.scheme in BUCKET_SCHEMES:
        found = _in_bucket(target, known)
        if found is not None:
            return Located(found)
    upstreams = [each for each in known if _is_server(url, _split(each.upstream))]
    for each in sorted(upstreams, key=lambda each: -len(each.upstream)):
        rest = _beneath(path_of(target), path_of(each.upstream.rstrip("/") + "/").rstrip("/"))
        if rest is not None:
            return Located(each.prefix.rstrip("/") + (rest if rest[:1] == "/" else f"/{rest}"))
    # Whoever reaches the data port by another name, through a forwarded port for example, can't
    # mean a server elsewhere by a name that only his own network knows.
    if not upstreams and url.scheme == "http" and _is_near(url.hostname):
        return Located(path_of(target), address_of(target))
    names = ", ".join(f"{each.upstream}/" for each in known)
    there = f" (those are {names})" if names else ""
    raise NoTarget(f"{text} is neither of the data port nor of an upstream{there}")


def _in_bucket(url: str, known: Iterable[RouteNames]) -> str | None:
    """What a store's object is called on the data port, where that has the store's own paths."""
    for each in sorted(known, key=lambda each: -len(each.upstream)):
        scheme, _, scope = each.upstream.partition("://")
        told, _, path = url.partition("://")
        if told.lower() == scheme and (not scope or _beneath(path, scope) is not None):
            # Whose account it is stands before what the data port has.
            below = path.partition("/")[2] if scheme == "az" else path
            return f"{each.prefix.rstrip('/')}/{below}"
    return None


def spelled(text: str) -> str:
    """Raises NoTarget for what is neither a path nor a URL."""
    if "#" in text:
        raise NoTarget(f"{text} has a fragment: write # as %23")
    if not text.startswith("/") and "://" not in text:
        slash = f": did you mean /{text}?" if text else ""
        raise NoTarget(f"{text!r} neither begins with / nor is a URL{slash}")
    raw = text.encode("utf-8", "surrogateescape")
    return "".join(
        chr(byte) if _FIRST_PRINTABLE <= byte <= _LAST_PRINTABLE else f"%{byte:02X}" for byte in raw
    )


def path_of(url: str) -> str:
    """All that follows the authority, as it is spelled."""
    rest = url.partition("://")[2]
    cut = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    return rest[cut:] if rest[cut:].startswith("/") else f"/{rest[cut:]}"


def address_of(url: str) -> TcpAddress:
    """The server that a URL names, for what stands at its data port. Raises NoTarget."""
    split = _split(url)
    if split.scheme != "http" or not split.hostname:
        raise NoTarget(f"{url} is no http:// URL")
    return TcpAddress(split.hostname, _port(split) or DEFAULT_PORTS["http"])


def _is_of(url: SplitResult, address: ListenAddress) -> bool:
    """Whether a URL leads to a port of this machine."""
    if not isinstance(address, TcpAddress) or not url.hostname:
        return False
    hosts = {address.host.lower()} | (_LOOPBACK if address.host in _LOOPBACK else set())
    return url.hostname in hosts and _port(url) == address.port


def _split(url: str) -> SplitResult:
    try:
        split = urlsplit(url)
        _ = split.port
    except ValueError as error:
        raise NoTarget(f"{url} is no URL: {error}") from error
    return split


def _port(url: SplitResult) -> int | None:
    return DEFAULT_PORTS.get(url.scheme) if url.port is None else url.port


def _is_server(url: SplitResult, upstream: SplitResult) -> bool:
    return (url.scheme, url.hostname, _port(url)) == (
        upstream.scheme,
        upstream.hostname,
        _port(upstream),
    )


def _beneath(path: str, prefix: str) -> str | None:
    rest = path.removeprefix(prefix)
    is_there = len(rest) + len(prefix) == len(path) and rest[:1] in ("", "/", "?")
    return rest if is_there else None


def _is_near(host: str | None) -> bool:
    if not host:
        return False
    return host in _LOOPBACK or host.endswith(".localhost") or "." not in host
