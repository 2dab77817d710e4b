"""The index as plain dicts: what should be held, what should die, and which leases should fall."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chunkside.core.entry import Absent, Entry, Now, Present, StampPair
from chunkside.core.index import Lease, Limits, Reason, Removal
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
    return what.body.blocks * 512 + 2200


@dataclass
class Running:
    """A fill under way, as the model sees it."""

    lease: Lease
    stamps: StampPair
    is_good: bool
    is_refuted: bool = False


class IndexModel:
    """Oldest first in both dicts."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.markers: OrderedDict[CacheKey, Absent] = OrderedDict()
        self.bodies: OrderedDict[CacheKey, Present] = OrderedDict()
        self.running: list[Running] = []

    def bytes_of_markers(self) -> int:
        return sum(map(cost_of_marker, self.markers))

    def bytes_of_bodies(self) -> int:
        return sum(map(cost_of_body, self.bodies.values()))

    def total(self) -> int:
        return self.bytes_of_markers() + self.bytes_of_bodies()

    def held(self, key: CacheKey) -> Entry | None:
        return self.bodies.get(key) or self.markers.get(key)

    def forget(self, key: CacheKey, reason: Reason) -> list[Removal]:
        if key in self.markers:
            del self.markers[key]
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
        self.bodies[key] = what
        while (
            self.total() > limits.budget_bytes
            and self.bytes_of_markers() > limits.marker_reserve_bytes
        ):
            self.markers.popitem(last=False)
            removed.append(Removal("marker", "budget"))
        while self.bytes_of_bodies() > room or self.total() > limits.budget_bytes:
            oldest = self.bodies.popitem(last=False)[1]
            removed.append(Removal("body", "budget", oldest.body))
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
        if limits.max_markers == 0 or self.bytes_of_bodies() + cost > limits.budget_bytes:
            return removed
        while len(self.markers) >= limits.max_markers:
            self.markers.popitem(last=False)
            removed.append(Removal("marker", "marker_cap"))
        while self.total() + cost > limits.budget_bytes:
            self.markers.popitem(last=False)
            removed.append(Removal("marker", "budget"))
        # Wall time is kept in whole seconds, rounded up.
        sent = absent.requested_at
        self.markers[key] = replace(absent, requested_at=Now(sent.boot, sent.wall + 1))
        return removed
