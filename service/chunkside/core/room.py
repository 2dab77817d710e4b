"""The budgets kept: what has to go for what comes, and what is too large to come at all."""

from __future__ import annotations

from chunkside.core.budget import (
    HANGING_FILE_BYTES,
    Limits,
    Reason,
    Removal,
    cost_of_entry,
    cost_of_marker,
    hangs,
)
from chunkside.core.entry import Held
from chunkside.core.holdings import Holdings, only_body
from chunkside.core.key import CacheKey


class Room:
    """`reserved_bytes`: set aside for files on their way to the disk."""

    def __init__(self, held: Holdings, limits: Limits) -> None:
        self.limits = limits
        self.reserved_bytes = 0
        self._held = held

    @property
    def total_bytes(self) -> int:
        """What all entries are charged of the byte budget."""
        return self._held.markers.charge + self._held.file_bytes

    @property
    def memory_in_use(self) -> int:
        return self._held.markers.memory + self._held.file_memory

    @property
    def _taken_bytes(self) -> int:
        return self.total_bytes + self.reserved_bytes

    def reserve(self, size: int) -> list[Removal] | None:
        """Sets bytes aside for a file on its way, to be given back by `release`; gives what made
        room for it, None where too much is set aside already.
        """
        if self.reserved_bytes + size > self.limits.reservable_bytes:
            return None
        self.reserved_bytes += size
        return self.make()

    def release(self, size: int) -> None:
        self.reserved_bytes -= size

    def refusal(self, new: Held) -> Reason | None:
        """Which budget a body or range is too large for."""
        body = only_body(new)
        if body.charge > self.limits.room_for_bodies:
            return "budget"
        memory = cost_of_entry(new) + (HANGING_FILE_BYTES if hangs(body) else 0)
        return "index_memory" if memory > self.limits.memory_for_bodies else None

    def make_for_marker(self, key: CacheKey) -> list[Removal] | None:
        """Evicts markers until there is room for one more; None where files leave none."""
        held, limits, cost = self._held, self.limits, cost_of_marker(key)
        room = min(
            limits.budget_bytes - held.file_bytes - self.reserved_bytes,
            limits.memory_bytes - held.file_memory,
        )
        if limits.max_markers < 1 or cost > room:
            return None
        removed: list[Removal] = []
        while held.markers.count >= limits.max_markers:
            removed += self._evict_marker("marker_cap")
        while self._taken_bytes + cost > limits.budget_bytes:
            removed += self._evict_marker("budget")
        while self.memory_in_use + cost > limits.memory_bytes:
            removed += self._evict_marker("index_memory")
        return removed

    def make(self) -> list[Removal]:
        """Evicts until the budgets hold: markers down to their reserve, then bodies and ranges."""
        held, limits, removed = self._held, self.limits, list[Removal]()
        while (
            self._taken_bytes > limits.budget_bytes
            and held.markers.charge > limits.marker_reserve_bytes
        ):
            removed += self._evict_marker("budget")
        while (
            self.memory_in_use > limits.memory_bytes
            and held.markers.memory > limits.memory_reserve_bytes
        ):
            removed += self._evict_marker("index_memory")
        while (
            held.file_bytes + self.reserved_bytes > limits.room_for_bodies
            or self._taken_bytes > limits.budget_bytes
        ):
            removed += self._evict_body("budget")
        while (
            held.file_memory > limits.memory_for_bodies or self.memory_in_use > limits.memory_bytes
        ):
            removed += self._evict_body("index_memory")
        return removed

    def _evict_marker(self, reason: Reason) -> list[Removal]:
        return self._held.take(self._held.marker_to_evict(), reason)

    def _evict_body(self, reason: Reason) -> list[Removal]:
        return self._held.take_file(self._held.body_to_evict(), reason)

    def check_invariants(self) -> None:
        """Raises AssertionError where a budget is exceeded. For tests."""
        limits = self.limits
        assert self.memory_in_use <= limits.memory_bytes, "over the memory"
        assert self._taken_bytes <= max(limits.budget_bytes, 0), "over the budget"
        assert self._held.markers.count <= limits.max_markers
