"""The index as plain dicts: what should be held, what should die, and which leases should fall."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chunkside.core.budget import Limits, Reason, Removal
from chunkside.core.entry import Absent, Entry, Now, Present, StampPair
from chunkside.core.index import Lease
from chunkside.core.key import CacheKey, Namespace

HERE, THERE = "http://here:80", "http://there:80"
# What each target is a spelling of.
PATHS = {
    b"/a": b"/a",
    b"/%61": b"/a",
    b"/a?v=1": b"/a",
    b"/a%3Fv=1": b"/a?v=1",
    b"/a/b": b"/a/b",
}
# Few, so that much happens to each.
KEYS = [
    *(CacheKey(Namespace(HERE), target) for target in PATHS),
    CacheKey(Namespace(HERE, "", b"p"), b"/a"),
    CacheKey(Namespace(HERE, "", b"p"), b"/%61"),
    CacheKey(Namespace(THERE), b"/a"),
]


def path_of(key: CacheKey) -> tuple[str, bytes]:
    return key.namespace.location, PATHS[key.target]


def cost_of_marker(key: CacheKey) -> int:
    length = len(key.target)
    is_plain = key.target in {b"/a", b"/a/b"}
    return 176 + length if is_plain else 576 + 2 * length


def cost_of_body(what: Present) -> int:
    return what.body.blocks * 512


def memory_of_body(what: Present) -> int:
    lines = what.stored.fields.lines
    target = what.stored.key.target
    cost = 1200 + 2 * len(target) + sum(300 + len(name) + len(value) for name, value in lines)
    return cost if target in {b"/a", b"/a/b"} else cost + 400 + len(target)


@dataclass
class Running:
    """A fill under way, as the model sees it."""

    lease: Lease
    stamps: StampPair
    is_good: bool
    is_refuted: bool = False


class IndexModel:
    """Oldest first in each dict."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.cold: OrderedDict[CacheKey, Absent] = OrderedDict()
        self.hot: OrderedDict[CacheKey, Absent] = OrderedDict()
        self.bodies: OrderedDict[CacheKey, Present] = OrderedDict()
        self.running: list[Running] = []

    @property
    def markers(self) -> dict[CacheKey, Absent]:
        return {**self.cold, **self.hot}

    def touch(self, key: CacheKey) -> None:
        for entries in (self.cold, self.hot):
            if key in entries:
                self.hot[key] = entries.pop(key)
                return
        if key in self.bodies:
            self.bodies.move_to_end(key)

    def evict_marker(self) -> None:
        (self.hot if len(self.hot) > 4 * len(self.cold) else self.cold).popitem(last=False)

    def memory_of_bodies(self) -> int:
        return sum(map(memory_of_body, self.bodies.values()))

    def memory(self) -> int:
        return self.memory_of_bodies() + self.bytes_of_markers()

    def bytes_of_markers(self) -> int:
        return sum(map(cost_of_marker, self.markers))

    def bytes_of_bodies(self) -> int:
        return sum(map(cost_of_body, self.bodies.values()))

    def total(self) -> int:
        return self.bytes_of_markers() + self.bytes_of_bodies()

    def held(self, key: CacheKey) -> Entry | None:
        return self.bodies.get(key) or self.markers.get(key)

    def forget(self, key: CacheKey, reason: Reason) -> list[Removal]:
        for markers in (self.cold, self.hot):
            if markers.pop(key, None) is not None:
                return [Removal("marker", reason)]
        if key in self.bodies:
            return [Removal("body", reason, self.bodies.pop(key).body)]
        return []

    def revoke(self, keys: Iterable[CacheKey], but: Running | None = None) -> None:
        fallen = set(keys)
        for running in self.running:
            if running.lease.key in fallen and running is not but:
                running.is_good = False

    def refute(self, key: CacheKey) -> list[Removal]:
        for running in self.running:
            running.is_refuted = running.is_refuted or running.lease.key == key
        return self.forget(key, "replaced") if key in self.markers else []

    def fall(self, keys: list[CacheKey], reason: Reason) -> list[Removal]:
        self.revoke(keys)
        return [removal for key in keys for removal in self.forget(key, reason)]

    def put(self, what: Present, by: Running | None) -> list[Removal]:
        key, limits = what.stored.key, self.limits
        old = self.bodies.get(key)
        if old is None or not self.is_one_generation(old, what):
            self.revoke([key], but=by)
        removed = self.forget(key, "replaced")
        room = limits.budget_bytes - limits.marker_reserve_bytes
        if cost_of_body(what) > room:
            return [*removed, Removal("body", "budget", what.body)]
        memory, reserve = limits.memory_bytes, limits.memory_bytes // 4
        if memory_of_body(what) > memory - reserve:
            return [*removed, Removal("body", "index_memory", what.body)]
        self.bodies[key] = what
        return removed + self.make_room()

    def make_room(self) -> list[Removal]:
        limits, removed = self.limits, list[Removal]()
        room = limits.budget_bytes - limits.marker_reserve_bytes
        memory, reserve = limits.memory_bytes, limits.memory_bytes // 4
        while (
            self.total() > limits.budget_bytes
            and self.bytes_of_markers() > limits.marker_reserve_bytes
        ):
            self.evict_marker()
            removed.append(Removal("marker", "budget"))
        while self.memory() > memory and self.bytes_of_markers() > reserve:
            self.evict_marker()
            removed.append(Removal("marker", "index_memory"))
        while self.bytes_of_bodies() > room or self.total() > limits.budget_bytes:
            oldest = self.bodies.popitem(last=False)[1]
            removed.append(Removal("body", "budget", oldest.body))
        while self.memory_of_bodies() > memory - reserve or self.memory() > memory:
            oldest = self.bodies.popitem(last=False)[1]
            removed.append(Removal("body", "index_memory", oldest.body))
        return removed

    @staticmethod
    def is_one_generation(one: Present, other: Present) -> bool:
        tag = one.stored.fields.get(b"etag")
        is_strong = tag is not None and tag.startswith(b'"')
        return (
            is_strong
            and tag == other.stored.fields.get(b"etag")
            and one.stored.length == other.stored.length
        )

    def mark(self, key: CacheKey, absent: Absent, by: Running) -> list[Removal]:
        limits, cost = self.limits, cost_of_marker(key)
        self.revoke([key], but=by)
        removed = self.forget(key, "replaced")
        room = limits.budget_bytes - self.bytes_of_bodies()
        if limits.max_markers == 0 or cost > min(
            room, limits.memory_bytes - self.memory_of_bodies()
        ):
            return removed
        while len(self.markers) >= limits.max_markers:
            self.evict_marker()
            removed.append(Removal("marker", "marker_cap"))
        while self.total() + cost > limits.budget_bytes:
            self.evict_marker()
            removed.append(Removal("marker", "budget"))
        while self.memory() + cost > limits.memory_bytes:
            self.evict_marker()
            removed.append(Removal("marker", "index_memory"))
        # Wall time is kept in whole seconds, rounded up.
        sent = absent.requested_at
        self.cold[key] = replace(absent, requested_at=Now(sent.boot, sent.wall + 1))
        return removed
