"""Which pages may read answers: the sidecar's own CORS fields, in the place of the origin's.

Knows the CORS protocol (Fetch §3.3). Must not know what an answer is, nor where it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chunkside.core.fields import Fields

_PREFIX: Final = b"access-control-"
_ANY: Final = b"*"
_MAX_AGE_SECONDS: Final = b"86400"


@dataclass(frozen=True, slots=True)
class Pages:
    """`origins`: of the pages that may read, as browsers write them; `*` is all."""

    origins: frozenset[bytes]

    def instead(self, fields: Fields, asked: Fields) -> Fields:
        """An answer's fields with our CORS fields for who asked, and none of the origin's."""
        kept = without_grants(fields)
        allowed = self._allowed(asked)
        if allowed is not None:
            # Without it pages see neither Content-Range nor ETag.
            kept = kept.plus(allowed, (b"Access-Control-Expose-Headers", b"*"))
        return kept if _ANY in self.origins else kept.plus((b"Vary", b"Origin"))

    def preflight(self, asked: Fields) -> Fields:
        """What a page that asks beforehand is told: it may read, with whatever fields it likes."""
        granted = self.instead(Fields(), asked)
        if self._allowed(asked) is None:
            return granted
        told = [
            (b"Access-Control-Allow-Methods", b"GET, HEAD"),
            (b"Access-Control-Max-Age", _MAX_AGE_SECONDS),
        ]
        headers = asked.combined(b"access-control-request-headers")
        if headers:
            told.append((b"Access-Control-Allow-Headers", headers))
        if b"access-control-request-private-network" in asked:
            told.append((b"Access-Control-Allow-Private-Network", b"true"))
        return granted.plus(*told)

    def _allowed(self, asked: Fields) -> tuple[bytes, bytes] | None:
        origin = asked.get(b"origin")
        if origin is None:
            return None
        if _ANY in self.origins:
            return b"Access-Control-Allow-Origin", _ANY
        return (b"Access-Control-Allow-Origin", origin) if origin in self.origins else None


def without_grants(fields: Fields) -> Fields:
    """An answer's fields less what the origin lets pages do with it."""
    return Fields(line for line in fields if not line[0].lower().startswith(_PREFIX))


def is_preflight(method: str, fields: Fields) -> bool:
    return (
        method == "OPTIONS" and b"origin" in fields and b"access-control-request-method" in fields
    )
