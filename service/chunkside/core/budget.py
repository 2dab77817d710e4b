"""What entries cost, what they may cost together, and what is told of one that dies.

Two budgets: bytes on disk, which markers share at what they cost in memory, and memory, which
bodies share at what their entries cost. Both keep a reserve for markers that bodies don't use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from chunkside.core.entry import BodyRef, Held
from chunkside.core.key import CacheKey, is_plain

Kind = Literal["body", "range", "marker"]
Reason = Literal[
    "budget",
    "index_memory",
    "marker_cap",
    "free_space",
    "retention",
    "expired",
    "invalidated",
    "purged",
    "replaced",
    "corrupt",
]

# Resident bytes, measured (docs/decisions.md) and rounded up: of a marker beside its key's own, at
# a million keys of 45 bytes; of a body's entry, each field line that it keeps, and each file that
# has a place of its own: of a range, or of a variant.
MARKER_FIXED_BYTES: Final = 176
BODY_FIXED_BYTES: Final = 1200
HANGING_FILE_BYTES: Final = 700
_FIELD_LINE_BYTES: Final = 300
# What a key costs on top if it is not its object's plain path.
_SPELLING_BYTES: Final = 400


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes, but for `max_markers`. Bodies never use `marker_reserve_bytes` of the one budget, nor
    the last quarter of the other.
    """

    budget_bytes: int
    marker_reserve_bytes: int = 0
    max_markers: int = 1_000_000
    memory_bytes: int = 1 << 62

    @property
    def reservable_bytes(self) -> int:
        """The most that files on their way may have set aside for them."""
        return min(self.budget_bytes // 4, self.room_for_bodies)

    @property
    def room_for_bodies(self) -> int:
        return self.budget_bytes - self.marker_reserve_bytes

    @property
    def memory_reserve_bytes(self) -> int:
        return self.memory_bytes // 4

    @property
    def memory_for_bodies(self) -> int:
        return self.memory_bytes - self.memory_reserve_bytes


@dataclass(frozen=True, slots=True)
class Removal:
    """An entry that died, or one range of it. `body` is the file to unlink, None for a marker."""

    kind: Kind
    reason: Reason
    body: BodyRef | None = None


def cost_of_marker(key: CacheKey) -> int:
    """What a marker costs, in memory and of the byte budget."""
    return MARKER_FIXED_BYTES + len(key.target) + _spelling_bytes(key)


@dataclass(slots=True)
class Tally:
    """What is held of one kind. `charge`: bytes of the one budget, `memory`: of the other."""

    count: int = 0
    charge: int = 0
    memory: int = 0

    def add(self, charge: int, memory: int, count: int = 1) -> None:
        self.count += count
        self.charge += charge
        self.memory += memory


def kind_of(body: BodyRef) -> Kind:
    return "body" if body.part is None else "range"


def removal_of(body: BodyRef, reason: Reason) -> Removal:
    return Removal(kind_of(body), reason, body)


def hangs(body: BodyRef) -> bool:
    """Whether a file has a place of its own under its key's, and can go by itself."""
    return body.part is not None or body.variant != b""


def cost_of_entry(held: Held) -> int:
    """What a body's entry costs in memory, or what one costs that files hang under."""
    key, lines = held.stored.key, held.stored.fields.lines
    texts = sum(len(name) + len(value) + _FIELD_LINE_BYTES for name, value in lines)
    return BODY_FIXED_BYTES + 2 * len(key.target) + _spelling_bytes(key) + texts


def _spelling_bytes(key: CacheKey) -> int:
    return 0 if is_plain(key.target) else _SPELLING_BYTES + len(key.target)
