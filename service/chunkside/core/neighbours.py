"""Who may ask: judges a request's Host, where a browser says it comes from, and its peer's address.

A web page can make a browser send requests to loopback. It can't choose the fields judged here.
Knows RFC 9110 §7.2, RFC 6454 and Fetch Metadata. Must not know listeners, nor what each allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields

Network = IPv4Network | IPv6Network

_HOST: Final = re.compile(
    rb"(?:\[(?P<ip6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?))(?::[0-9]*)?"
)
# Names that public DNS never answers, so that nobody outside can point them at this machine.
_INSIDE_SUFFIXES: Final = (b".localhost", b".svc", b".cluster.local", b".internal")
_ELSEWHERE: Final = frozenset({b"cross-site", b"same-site"})
# No name of DNS is longer, a port and a dot included. What is longer is not kept in memory.
_LONGEST_HOST: Final = 260


def judge_host(host: bytes | None, allowed: frozenset[bytes] = frozenset()) -> Refuse | None:
    """Refuses names that could be rebound to this machine; None means that the Host is fine.

    `host` is the field's value with or without a port, None where it is absent or repeated.
    `allowed`: further names, in lower case, that are somebody's own to point here.
    """
    is_usual = host is None or len(host) <= _LONGEST_HOST
    return _judge_usual(host, allowed) if is_usual else _judge_host(host, allowed)


def _judge_host(host: bytes | None, allowed: frozenset[bytes]) -> Refuse | None:
    match = None if host is None else _HOST.fullmatch(host)
    if match is None:
        detail = "Send one Host field that holds a host and, if need be, a port (RFC 9112 §3.2)."
        return Refuse(400, "bad-host", "No usable Host", detail)
    ip6, name = match["ip6"], match["name"]
    if _is_ip6(ip6) if ip6 is not None else _is_ip4(name) or _is_inside(name.lower()):
        return None
    if ip6 is None and name.lower().removesuffix(b".") in allowed:
        return None
    detail = (
        f"{(ip6 or name).decode()} may be a name that others can point at this machine (DNS "
        "rebinding). Use localhost, an IP address, or a name without a dot, or set allowed_hosts."
    )
    return Refuse(421, "misdirected", "Not a host that is answered for", detail)


_judge_usual = lru_cache(maxsize=256)(_judge_host)


def _is_inside(name: bytes) -> bool:
    if b"." not in name:
        return True
    # A dot at the end roots a name. It makes none local: `ai.` is a top-level domain.
    unrooted = name.removesuffix(b".")
    return unrooted == b"localhost" or unrooted.endswith(_INSIDE_SUFFIXES)


def _is_ip4(text: bytes) -> bool:
    try:
        IPv4Address(text.decode())
    except ValueError:
        return False
    return True


def _is_ip6(text: bytes) -> bool:
    try:
        IPv6Address(text.decode())
    except ValueError:
        return False
    return True


def judge_source(fields: Fields) -> Refuse | None:
    """Refuses what a page of another origin has a browser send; None for all else.

    `fields` are those of the request as it came, Host included. Whoever sends neither `Origin` nor
    `Sec-Fetch-Site` is no browser, or follows what its user typed.
    """
    if b"origin" in fields and not _is_own_origin(fields):
        source = "the page's Origin is not this address"
    elif fields.combined(b"sec-fetch-site").lower() in _ELSEWHERE:
        source = "the browser says that the request comes from another site"
    else:
        return None
    detail = f"Refused, since {source}. Ask from a terminal, or open the address in a tab itself."
    return Refuse(403, "foreign-origin", "Asked for by another web page", detail)


def _is_own_origin(fields: Fields) -> bool:
    """Whether Origin and Host agree; `null`, a repeated Origin and a repeated Host never do.

    Schemes aren't compared: a proxy may have ended TLS in front. Browsers leave the same default
    port out of both fields.
    """
    _, separator, authority = fields.combined(b"origin").partition(b"://")
    return bool(separator) and authority.lower() == fields.combined(b"host").lower()


def is_top_level_navigation(method: str, fields: Fields) -> bool:
    """Whether a browser opens this address in a tab: the page that led here sees nothing of it."""
    return (
        method == "GET"
        and b"origin" not in fields
        and fields.get(b"sec-fetch-mode") == b"navigate"
        and fields.get(b"sec-fetch-dest") == b"document"
    )


def is_within(address: str, networks: Iterable[Network]) -> bool:
    """Whether a peer at this address is in one of the networks. What is no IP address is not."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return any((mapped or ip) in network for network in networks)


def is_loopback(address: str) -> bool:
    """Whether a peer at this address is on this machine. What is no IP address is not."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return (mapped or ip).is_loopback


def is_over_loopback(peer: str, own: str) -> bool:
    """Whether both ends of a connection are on loopback. A service mesh hands on what came from
    elsewhere from 127.0.0.6 to the pod's own address.
    """
    return is_loopback(peer) and is_loopback(own)
