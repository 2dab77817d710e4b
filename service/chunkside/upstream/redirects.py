"""Where a redirect leads, and whether the sidecar goes there itself: to listed hosts alone.

Decides, and does nothing. Knows RFC 9110 §10.2.2 and §15.4, RFC 3986 §4.2 and §5.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from chunkside.core.credentials import for_another_origin
from chunkside.core.fields import Fields
from chunkside.core.key import without_dots
from chunkside.core.response import ResponseHead

FOLLOWED_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
MOST_HOPS: Final = 5

_PORTS: Final = {b"http": 80, b"https": 443}
_SCHEME: Final = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
# No user information, nothing that one parser takes for a part of the host and another doesn't.
_AUTHORITY: Final = re.compile(
    rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)(?::([0-9]{1,5}))?"
)
_UNFIT: Final = re.compile(rb"[\x00-\x20\x7f\\]")
_END_OF_AUTHORITY: Final = re.compile(rb"[/?]|$")


@dataclass(frozen=True, slots=True)
class ListedHost:
    """`name`: in lower case, an IPv6 address in brackets. `port`: None for the scheme's own.
    `is_suffix`: hosts beneath it are meant, and not itself.
    """

    name: str
    port: int | None = None
    is_suffix: bool = False

    def covers(self, host: str, port: int, usual_port: int) -> bool:
        name = host.removesuffix(".")
        is_it = name.endswith(f".{self.name}") if self.is_suffix else name == self.name
        return is_it and port == (self.port or usual_port)

    def __str__(self) -> str:
        name = f"*.{self.name}" if self.is_suffix else self.name
        return name if self.port is None else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Place:
    """What can be asked for. `location`: scheme, host and port, the port always written."""

    location: str
    target: bytes


@dataclass(frozen=True, slots=True)
class Redirects:
    """Which ones are followed: to `hosts`. `credential_names`: of fields, in lower case, that tell
    clients apart.
    """

    hosts: tuple[ListedHost, ...]
    credential_names: frozenset[bytes]

    def next(self, at: Place, head: ResponseHead) -> Place | None:
        """Where to ask next, having been told `head` at a place; None where that is nowhere."""
        told = head.fields.get(b"location") if head.status in FOLLOWED_STATUSES else None
        return None if told is None else self._allowed(at, told)

    def fields_elsewhere(self, fields: Fields) -> Fields:
        """What of a request's fields another origin may see."""
        return for_another_origin(fields, self.credential_names)

    def _allowed(self, at: Place, told: bytes) -> Place | None:
        absolute = absolute_reference(at, told)
        if absolute is None:
            return None
        scheme, authority, target = absolute
        found = _AUTHORITY.fullmatch(authority)
        if found is None or (at.location.startswith("https:") and scheme != b"https"):
            return None
        host, usual = found[1].decode().lower(), _PORTS[scheme]
        port = usual if found[2] is None else int(found[2])
        if not any(listed.covers(host, port, usual) for listed in self.hosts):
            return None
        return Place(f"{scheme.decode()}://{host}:{port}", target)


def absolute_reference(at: Place, told: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Scheme, authority and target of what `Location` says at a place; None where that is no http
    URL that can be asked for byte for byte.
    """
    reference = told.partition(b"#")[0]
    if _UNFIT.search(reference) or not _is_text(reference):
        return None
    scheme, _, authority = at.location.encode().partition(b"://")
    named = _SCHEME.match(reference)
    if named is not None:
        scheme, reference = named[1].lower(), reference[named.end() :]
        if scheme not in _PORTS or not reference.startswith(b"//"):
            return None
    if reference.startswith(b"//"):
        end = _END_OF_AUTHORITY.search(reference, 2)
        assert end is not None
        authority, reference = reference[2 : end.start()], reference[end.start() :]
        return scheme, authority, reference if reference[:1] == b"/" else b"/" + reference
    return scheme, authority, _resolved(at.target, reference)


def _resolved(base: bytes, reference: bytes) -> bytes:
    """The target of a reference that names no host (RFC 3986 §5.2.2)."""
    if not reference:
        return base
    path = base.partition(b"?")[0]
    if reference.startswith(b"?"):
        return path + reference
    given, mark, query = reference.partition(b"?")
    whole = given if given.startswith(b"/") else path[: path.rfind(b"/") + 1] + given
    return without_dots(whole) + mark + query


def _is_text(reference: bytes) -> bool:
    try:
        reference.decode()
    except UnicodeDecodeError:
        return False
    return True
