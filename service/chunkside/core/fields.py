"""Header fields as they came: ordered, repeated, byte-exact; looked up without regard to case.

Knows RFC 9110 §5 and §7.6.1. Must not know what any field means to a cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView
from functools import lru_cache

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    }
)


class Fields:
    """An immutable list of field lines."""

    __slots__ = ("_by_name", "lines")

    def __init__(self, lines: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.lines: tuple[tuple[bytes, bytes], ...] = tuple(lines)
        self._by_name: dict[bytes, list[bytes]] = {}
        by_name = self._by_name
        for name, value in self.lines:
            by_name.setdefault(name.lower(), []).append(value)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.lines)

    @property
    def names(self) -> KeysView[bytes]:
        """Names of all lines, in lower case."""
        return self._by_name.keys()

    def __contains__(self, name: bytes) -> bool:
        return name in self._by_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and self.lines == other.lines

    def __hash__(self) -> int:
        return hash(self.lines)

    def __repr__(self) -> str:
        return f"Fields({list(self.lines)!r})"

    def get(self, name: bytes) -> bytes | None:
        """The value of the one line called `name` (lower case); None if it is absent or repeated.

        A field that may not be repeated but is says nothing that can be relied on.
        """
        values = self._by_name.get(name)
        return values[0] if values is not None and len(values) == 1 else None

    def combined(self, name: bytes) -> bytes:
        """All values of `name` (lower case) as one list value (RFC 9110 §5.3); b"" if there are
        none.
        """
        return b", ".join(self._by_name.get(name, ()))

    def count(self, name: bytes) -> int:
        return len(self._by_name.get(name, ()))

    def without(self, names: frozenset[bytes]) -> Fields:
        if names.isdisjoint(self._by_name):
            return self
        return Fields([line for line in self.lines if line[0].lower() not in names])

    def plus(self, *lines: tuple[bytes, bytes]) -> Fields:
        return Fields((*self.lines, *lines))

    def end_to_end(
        self, but: frozenset[bytes] = frozenset(), kept: frozenset[bytes] = frozenset()
    ) -> Fields:
        """What may pass a proxy: no hop-by-hop field, none that `Connection` names, none of
        `but`; what is `kept` passes all the same.
        """
        named = self._by_name.get(b"connection")
        left_out = _hop_by_hop_and(but)
        if named is not None:
            left_out |= frozenset(list_members(b",".join(named)))
        return self.without(left_out - kept if kept else left_out)


@lru_cache(maxsize=16)
def _hop_by_hop_and(names: frozenset[bytes]) -> frozenset[bytes]:
    return HOP_BY_HOP | names


def list_members(value: bytes) -> list[bytes]:
    """Members of a comma-separated list of tokens, lower case, empty ones left out."""
    if not value:
        return []
    return [member for part in value.split(b",") if (member := part.strip(b" \t").lower())]
