"""The host and port of a URL or an address that is listened at, before anything is resolved."""

from __future__ import annotations

import ipaddress
import re

from chunkside.settings.errors import NotAllowedError

_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?", re.ASCII)
_LOOKS_NUMERIC = re.compile(r"[0-9.]+", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)


def split_authority(authority: str, *, default_port: int | None, allowed: str) -> tuple[str, int]:
    """Host without brackets, and port. Raises NotAllowedError, which says what is `allowed`."""
    if authority.startswith("["):
        host, bracket, tail = authority[1:].partition("]")
        if not bracket or not _is_ipv6(host):
            raise NotAllowedError("not an IPv6 address in the brackets", allowed)
    else:
        host, colon, port = authority.partition(":")
        tail = colon + port
        if ":" in port:
            raise NotAllowedError("an IPv6 address lacks its brackets", allowed, "write [::1]:PORT")
    if not tail and default_port is None:
        raise NotAllowedError("has no port", allowed)
    if not authority.startswith("["):
        _refuse_host(host, allowed)
    if not tail and default_port is not None:
        return host, default_port
    port = tail.removeprefix(":")
    if not tail.startswith(":") or _PORT.fullmatch(port) is None or int(port) > 65535:
        raise NotAllowedError("has no port from 0 to 65535", allowed)
    return host, int(port)


def _refuse_host(host: str, allowed: str) -> None:
    if not host:
        raise NotAllowedError("has no host", allowed)
    if not host.isascii():
        raise NotAllowedError("host is not ASCII", allowed, "write it in its xn-- form")
    if _HOST_NAME.fullmatch(host) is None or (looks_numeric(host) and not _is_ipv4(host)):
        raise NotAllowedError("not a host name or address", allowed)


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def looks_numeric(host: str) -> bool:
    return _LOOKS_NUMERIC.fullmatch(host) is not None
