"""A configured upstream, and how a client's request becomes one to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chunkside.core.credentials import is_signed, partition
from chunkside.core.decision import Refuse
from chunkside.core.fields import Fields
from chunkside.core.key import (
    CacheKey,
    Namespace,
    classify,
    key_target,
    leaves_its_root,
    origin_target,
)
from chunkside.core.request import Request

# Framing and expectations belong to one connection; Host is the origin's own.
_NOT_FORWARDED: Final = frozenset({b"host", b"content-length", b"expect"})
_COOKIES: Final = frozenset({b"cookie", b"cookie2"})


@dataclass(frozen=True, slots=True)
class Route:
    """`location`: the origin's scheme, host and port. `prefix`: the upstream's path, no slash at
    its
    end. `secret` keys the partition hash. Names of fields and query parameters in lower case.
    """

    name: str
    location: str
    prefix: bytes
    secret: bytes
    credential_names: frozenset[bytes]
    ignored_query: frozenset[bytes] = frozenset()
    metadata_names: tuple[str, ...] = ()
    forwards_cookies: bool = False

    def request(
        self, method: str, raw_target: bytes, fields: Fields, *, has_body: bool
    ) -> Request | Refuse:
        """The request to the origin that a client's request asks for."""
        try:
            target = self.prefix + origin_target(raw_target)
            target.decode()
        except ValueError:
            return _bad_target("The target must be a path that begins with /, in UTF-8 at most.")
        if b"#" in raw_target:
            return _bad_target("A target has no fragment: send # as %23.")
        if leaves_its_root(target[len(self.prefix) :]):
            return _bad_target("Dot segments in the target climb above the upstream's prefix.")
        not_forwarded = _NOT_FORWARDED if self.forwards_cookies else _NOT_FORWARDED | _COOKIES
        fields = fields.end_to_end(not_forwarded)
        space = Namespace(self.location, "", partition(fields, self.credential_names, self.secret))
        return Request(
            method=method,
            target=target,
            fields=fields,
            key=CacheKey(space, key_target(target, self.ignored_query)),
            key_class=classify(target, self.metadata_names),
            has_body=has_body,
            is_signed=is_signed(target, fields),
        )

    def origin_path(self, data_port_target: bytes) -> bytes:
        """The target as sent to the origin, of one as sent to the data port."""
        return self.prefix + origin_target(data_port_target)

    def data_port_target(self, origin_target: bytes) -> bytes | None:
        """The other way; None for what the data port has no target for."""
        target = origin_target.removeprefix(self.prefix)
        is_below = len(target) + len(self.prefix) == len(origin_target)
        return target if is_below and target.startswith(b"/") else None


def _bad_target(detail: str) -> Refuse:
    return Refuse(400, "bad-target", "The request target can't be used", detail)
