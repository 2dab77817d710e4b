"""The index as plain dicts: what should be held, what should die, and which leases should fall."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chunkside.core.budget import Kind, Limits, Reason, Removal
from chunkside.core.entry import (
    Absent,
    BodyRef,
    Entry,
    Held,
    Now,
    Partial,
    Present,
    StampPair,
    Stored,
)
from chunkside.core.key import CacheKey, Namespace
from chunkside.core.lease import Lease

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


def memory_of_entry(what: Held) -> int:
    lines = what.stored.fields.lines
    target = what.stored.key.target
    cost = 1200 + 2 * len(target) + sum(300 + len(name) + len(value) for name, value in lines)
    return cost if target in {b"/a", b"/a/b"} else cost + 400 + len(target)


RANGE_COST = 700


def only_body(what: Held) -> BodyRef:
    return what.body if isinstance(what, Present) else what.bodies[0]


@dataclass
class Running:
    """A fill under way, as the model sees it. `only`: a generation, or nothing yet."""

    lease: Lease
    stamps: StampPair
    is_good: bool
    is_refuted: bool = False
    only: tuple[bytes, int] | None = None


class IndexModel:
    """Oldest first in each dict. `heads`: of keys that ranges are held of; the ranges are among the
    `files`.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.cold: OrderedDict[CacheKey, Absent] = OrderedDict()
        self.hot: OrderedDict[CacheKey, Absent] = OrderedDict()
        self.bodies: dict[CacheKey, Present] = {}
        self.heads: dict[CacheKey, Partial] = {}
        self.files: OrderedDict[BodyRef, None] = OrderedDict()
        self.running: list[Running] = []
        self.reserved: list[int] = []

    @property
    def markers(self) -> dict[CacheKey, Absent]:
        return {**self.cold, **self.hot}

    @property
    def keys(self) -> list[CacheKey]:
        return [*self.markers, *self.bodies, *self.heads]

    def touch(self, key: CacheKey) -> None:
        for entries in (self.cold, self.hot):
            if key in entries:
                self.hot[key] = entries.pop(key)
                return
        if key in self.bodies:
            self.files.move_to_end(self.bodies[key].body)

    def touch_file(self, file: BodyRef) -> None:
        if file.part is None:
            self.touch(file.key)
        elif file in self.files:
            self.files.move_to_end(file)

    def evict_marker(self) -> None:
        (self.hot if len(self.hot) > 4 * len(self.cold) else self.cold).popitem(last=False)

    def evict_file(self, reason: Reason) -> Removal:
        file = next(iter(self.files))
        [removal] = self.forget_file(file, reason)
        return removal

    def memory_of_files(self) -> int:
        heads = sum(map(memory_of_entry, self.bodies.values()))
        heads += sum(map(memory_of_entry, self.heads.values()))
        return heads + RANGE_COST * sum(file.part is not None for file in self.files)

    def memory(self) -> int:
        return self.memory_of_files() + self.bytes_of_markers()

    def bytes_of_markers(self) -> int:
        return sum(map(cost_of_marker, self.markers))

    def bytes_of_files(self) -> int:
        return sum(file.blocks * 512 for file in self.files)

    def total(self) -> int:
        """Of the byte budget, with what is set aside."""
        return self.bytes_of_markers() + self.bytes_of_files() + sum(self.reserved)

    def reserve(self, size: int) -> list[Removal] | None:
        limits = self.limits
        room = limits.budget_bytes - limits.marker_reserve_bytes
        if sum(self.reserved) + size > min(limits.budget_bytes // 4, room):
            return None
        self.reserved.append(size)
        return self.make_room()

    def ranges_of(self, key: CacheKey) -> list[BodyRef]:
        held = [file for file in self.files if file.key == key and file.part is not None]
        return sorted(held, key=lambda file: file.first)

    def held(self, key: CacheKey) -> Entry | None:
        if key in self.heads:
            return replace(self.heads[key], bodies=tuple(self.ranges_of(key)))
        return self.bodies.get(key) or self.markers.get(key)

    def forget_file(self, file: BodyRef, reason: Reason) -> list[Removal]:
        """One range, or a body."""
        if file not in self.files:
            return []
        del self.files[file]
        if file.part is None:
            del self.bodies[file.key]
            return [Removal("body", reason, file)]
        if not self.ranges_of(file.key):
            del self.heads[file.key]
        return [Removal("range", reason, file)]

    def forget(self, key: CacheKey, reason: Reason) -> list[Removal]:
        for markers in (self.cold, self.hot):
            if markers.pop(key, None) is not None:
                return [Removal("marker", reason)]
        files = [file for file in self.files if file.key == key]
        return [removal for file in files for removal in self.forget_file(file, reason)]

    def revoke(self, keys: Iterable[CacheKey], but: Running | None = None) -> None:
        fallen = set(keys)
        for running in self.running:
            if running.lease.key in fallen and running is not but:
                running.is_good = False

    def limit(self, what: Held, but: Running | None) -> None:
        """Those who asked before may store nothing now but more of the same bytes."""
        generation = generation_of(what)
        for running in self.running:
            if running.lease.key != what.stored.key or running is but:
                continue
            if generation is None or running.only not in (None, generation):
                running.is_good = False
            running.only = generation

    def refute(self, key: CacheKey) -> list[Removal]:
        for running in self.running:
            running.is_refuted = running.is_refuted or running.lease.key == key
        return self.forget(key, "replaced") if key in self.markers else []

    def fall(self, keys: list[CacheKey], reason: Reason) -> list[Removal]:
        self.revoke(keys)
        return [removal for key in keys for removal in self.forget(key, reason)]

    def put(self, what: Held, by: Running | None) -> list[Removal]:
        key, file = what.stored.key, only_body(what)
        old = self.held(key)
        is_same = not (old is None or isinstance(old, Absent)) and is_one_generation(old, what)
        if not is_same:
            self.limit(what, by)
        elif file.part is not None:
            assert isinstance(old, Present | Partial)
            return self.join(old, what, file)
        removed = self.forget(key, "replaced")
        refusal = self.why_too_large(what)
        if refusal is not None:
            return [*removed, Removal(kind_of(file), refusal, file)]
        if isinstance(what, Present):
            self.bodies[key] = what
        else:
            self.heads[key] = what
        self.files[file] = None
        return removed + self.make_room()

    def join(self, old: Held, what: Held, file: BodyRef) -> list[Removal]:
        key = what.stored.key
        if what.stored.requested_at.boot >= old.stored.requested_at.boot:
            newer = replace(old, stored=what.stored, must_validate=what.must_validate)
            if isinstance(newer, Present):
                self.bodies[key] = newer
            else:
                self.heads[key] = newer
        refusal = self.why_too_large(what)
        is_held = isinstance(old, Present) or any(
            held.first <= file.first and file.last <= held.last and held.part != file.part
            for held in old.bodies
        )
        if refusal is not None or is_held:
            return [Removal("range", refusal or "replaced", file), *self.make_room()]
        within = [
            held
            for held in self.ranges_of(key)
            if file.first <= held.first and held.last <= file.last
        ]
        self.files[file] = None
        removed = [removal for held in within for removal in self.forget_file(held, "replaced")]
        return removed + self.make_room()

    def adopt(self, what: Held) -> list[Removal] | None:
        key, file = what.stored.key, only_body(what)
        if any(running.lease.key == key for running in self.running):
            return None
        old = self.held(key)
        if old is None:
            return self.put(what, None)
        if isinstance(what, Present) and not isinstance(old, Partial):
            return None
        is_same = not isinstance(old, Absent) and is_one_generation(old, what)
        if is_same and any(held.part == file.part for held in self.ranges_of(key)):
            return None
        if isinstance(old, Absent):
            return [Removal("range", "replaced", file)]
        is_older = old.stored.requested_at.wall >= what.stored.requested_at.wall
        if is_older and not is_one_generation(old, what):
            return [Removal(kind_of(file), "replaced", file)]
        return self.put(what, None)

    def why_too_large(self, what: Held) -> Reason | None:
        limits, file = self.limits, only_body(what)
        if file.blocks * 512 > limits.budget_bytes - limits.marker_reserve_bytes:
            return "budget"
        memory = memory_of_entry(what) + (0 if file.part is None else RANGE_COST)
        return "index_memory" if memory > limits.memory_bytes - limits.memory_bytes // 4 else None

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
        while (
            self.bytes_of_files() + sum(self.reserved) > room or self.total() > limits.budget_bytes
        ):
            removed.append(self.evict_file("budget"))
        while self.memory_of_files() > memory - reserve or self.memory() > memory:
            removed.append(self.evict_file("index_memory"))
        return removed

    def freshen(self, key: CacheKey, head: Stored) -> list[Removal]:
        if key in self.bodies:
            self.bodies[key] = replace(self.bodies[key], stored=head, must_validate=False)
        else:
            self.heads[key] = replace(self.heads[key], stored=head, must_validate=False)
        return self.make_room()

    def make_stale(self, key: CacheKey) -> list[Removal]:
        if key in self.bodies:
            self.bodies[key] = replace(self.bodies[key], must_validate=True)
            return []
        if key in self.heads:
            self.heads[key] = replace(self.heads[key], must_validate=True)
            return []
        return self.forget(key, "invalidated")

    def mark(self, key: CacheKey, absent: Absent, by: Running) -> list[Removal]:
        limits, cost = self.limits, cost_of_marker(key)
        self.revoke([key], but=by)
        removed = self.forget(key, "replaced")
        room = limits.budget_bytes - self.bytes_of_files() - sum(self.reserved)
        if limits.max_markers == 0 or cost > min(
            room, limits.memory_bytes - self.memory_of_files()
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


def kind_of(file: BodyRef) -> Kind:
    return "body" if file.part is None else "range"


def generation_of(what: Held) -> tuple[bytes, int] | None:
    tag = what.stored.fields.get(b"etag")
    return (tag, what.stored.length) if tag is not None and tag.startswith(b'"') else None


def is_one_generation(one: Held, other: Held) -> bool:
    generation = generation_of(one)
    is_same = generation is not None and generation == generation_of(other)
    return is_same and one.token == other.token
