"""The index as plain dicts: what should be held, what should die, and which leases should fall."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from chunkside.core.budget import Kind, Limits, Reason, Removal
from chunkside.core.entry import (
    Absent,
    BodyRef,
    Entry,
    Held,
    Now,
    Present,
    StampPair,
    Stored,
    Variants,
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
# Of those who share bodies; nothing else is learnt under these.
OWN_PARTITIONS = (b"q", b"r")
# Few, so that much happens to each.
ASKED_KEYS = [
    *(CacheKey(Namespace(HERE), target) for target in PATHS),
    CacheKey(Namespace(HERE, "", b"p"), b"/a"),
    CacheKey(Namespace(HERE, "", b"p"), b"/%61"),
    CacheKey(Namespace(THERE), b"/a"),
    CacheKey(Namespace(HERE, "", b"*"), b"/a"),
    CacheKey(Namespace(HERE, "", b"*"), b"/%61"),
]
KEYS = ASKED_KEYS + [
    CacheKey(Namespace(HERE, "", own), target)
    for own in OWN_PARTITIONS
    for target in (b"/a", b"/%61")
]


def path_of(key: CacheKey) -> tuple[str, bytes]:
    return key.namespace.location, PATHS[key.target]


def is_shared(key: CacheKey) -> bool:
    return key.namespace.partition == b"*"


def own_key(key: CacheKey, partition: bytes) -> CacheKey:
    """Where one of those who share the bodies of a key remembers its absence."""
    return CacheKey(Namespace(HERE, "", partition), key.target) if is_shared(key) else key


def cost_of_marker(key: CacheKey) -> int:
    length = len(key.target)
    is_plain = key.target in {b"/a", b"/a/b"}
    return 176 + length if is_plain else 576 + 2 * length


def memory_of_entry(what: Held) -> int:
    lines = what.stored.fields.lines
    target = what.stored.key.target
    cost = 1200 + 2 * len(target) + sum(300 + len(name) + len(value) for name, value in lines)
    return cost if target in {b"/a", b"/a/b"} else cost + 400 + len(target)


HANGING_COST = 700
MOST_VARIANTS = 8
Generation = tuple[bytes, int]


def only_body(what: Held) -> BodyRef:
    return what.body if isinstance(what, Present) else what.bodies[0]


def hangs(file: BodyRef) -> bool:
    return file.part is not None or file.variant != b""


@dataclass
class Running:
    """A fill under way, as the model sees it. `only`: generations, by variant."""

    lease: Lease
    stamps: StampPair
    asked_at: Now
    is_good: bool
    is_refuted: bool = False
    is_denied: bool = False
    only: dict[bytes, Generation | None] = field(default_factory=dict)

    def may_have(self, what: Stored) -> bool:
        """Whether bytes under that head contradict nothing that was seen since it was asked."""
        if self.is_denied:
            return False
        if what.variant in self.only:
            return self.only[what.variant] == generation_of(what)
        return all(what.variant != b"" != other for other in self.only)


class IndexModel:
    """Oldest first in each dict. `kept`: by variant; the ranges are among the `files`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.cold: OrderedDict[CacheKey, Absent] = OrderedDict()
        self.hot: OrderedDict[CacheKey, Absent] = OrderedDict()
        self.kept: dict[CacheKey, OrderedDict[bytes, Held]] = {}
        self.files: OrderedDict[BodyRef, None] = OrderedDict()
        self.running: list[Running] = []
        self.reserved: list[int] = []

    @property
    def markers(self) -> dict[CacheKey, Absent]:
        return {**self.cold, **self.hot}

    @property
    def keys(self) -> list[CacheKey]:
        return [*self.markers, *self.kept]

    def kept_of(self, key: CacheKey) -> OrderedDict[bytes, Held]:
        return self.kept.get(key, OrderedDict())

    def touch(self, key: CacheKey) -> None:
        for entries in (self.cold, self.hot):
            if key in entries:
                self.hot[key] = entries.pop(key)
                return
        plain = self.kept_of(key).get(b"")
        if isinstance(plain, Present):
            self.files.move_to_end(plain.body)

    def touch_file(self, file: BodyRef) -> None:
        if not hangs(file):
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
        heads = (held for kept in self.kept.values() for held in kept.values())
        return sum(map(memory_of_entry, heads)) + HANGING_COST * sum(map(hangs, self.files))

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

    def files_of(self, key: CacheKey, variant: bytes) -> list[BodyRef]:
        held = [file for file in self.files if file.key == key and file.variant == variant]
        return sorted(held, key=lambda file: file.first)

    def held(self, key: CacheKey) -> Entry | None:
        kept = self.kept.get(key)
        if kept is None:
            return self.markers.get(key)
        held = tuple(self.with_files(each) for each in kept.values())
        return held[0] if b"" in kept else Variants(held)

    def variant(self, key: CacheKey, variant: bytes) -> Held | None:
        held = self.kept_of(key).get(variant)
        return None if held is None else self.with_files(held)

    def with_files(self, held: Held) -> Held:
        if isinstance(held, Present):
            return held
        files = self.files_of(held.stored.key, held.stored.variant)
        return replace(held, bodies=tuple(files))

    def forget_file(self, file: BodyRef, reason: Reason) -> list[Removal]:
        """One range, or a body."""
        if file not in self.files:
            return []
        del self.files[file]
        if not self.files_of(file.key, file.variant):
            del self.kept[file.key][file.variant]
        if not self.kept[file.key]:
            del self.kept[file.key]
        return [Removal(kind_of(file), reason, file)]

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

    def limit(self, what: Stored, but: Running | None) -> None:
        """Those who asked before may store nothing now but more of the same bytes."""
        generation = generation_of(what)
        for running in self.running:
            if running.lease.key != what.key or running is but:
                continue
            if generation is None or not running.may_have(what):
                running.is_good = False
            running.only[what.variant] = generation

    def see(
        self, what: Stored, by: Running, *, is_allowed: bool, is_relayed: bool
    ) -> list[Removal]:
        key = what.key
        others = [held for held in self.rivals(what) if is_surely_other(held.stored, what)]
        if not is_allowed or not by.may_have(what):
            is_newer = all(
                held.stored.requested_at.boot < what.requested_at.boot for held in others
            )
            return self.fall([key], "replaced") if others and is_newer else []
        if what.variant in self.kept_of(key) and not others:
            return []
        if generation_of(what) is not None or not is_relayed:
            self.limit(what, by)
        return [
            removal
            for held in others
            for file in self.files_of(key, held.stored.variant)
            for removal in self.forget_file(file, "replaced")
        ]

    def rivals(self, what: Stored) -> list[Held]:
        """What goes if that is put: variants go for their own, all else for anything."""
        kept = self.kept_of(what.key)
        do_vary = what.variant != b"" and b"" not in kept
        return [held for each, held in kept.items() if each == what.variant or not do_vary]

    def deny(self, key: CacheKey, but: Running | None = None) -> list[Removal]:
        for running in self.running:
            if running.lease.key == key and running is not but:
                running.is_denied = True
        return self.forget(key, "replaced")

    def contradicted(self, key: CacheKey) -> list[CacheKey]:
        """Markers that bytes of a key are evidence against."""
        if not is_shared(key):
            return [key] if key in self.markers else []
        return [other for other in self.markers if path_of(other) == path_of(key)]

    def refute(self, key: CacheKey) -> list[Removal]:
        for running in self.running:
            running.is_refuted = running.is_refuted or running.lease.key == key
        return self.forget_all(self.contradicted(key))

    def forget_all(self, keys: list[CacheKey]) -> list[Removal]:
        return [removal for key in keys for removal in self.forget(key, "replaced")]

    def fall(self, keys: list[CacheKey], reason: Reason) -> list[Removal]:
        self.revoke(keys)
        return [removal for key in keys for removal in self.forget(key, reason)]

    def put(self, what: Held, by: Running | None) -> list[Removal]:
        key, file = what.stored.key, only_body(what)
        old = self.variant(key, file.variant)
        if old is None or not is_one_generation(old, what):
            self.limit(what.stored, by)
        elif file.part is not None:
            return self.join(old, what, file)
        removed = self.make_way(what.stored)
        refusal = self.why_too_large(what)
        if refusal is not None:
            return [*removed, Removal(kind_of(file), refusal, file)]
        self.kept.setdefault(key, OrderedDict())[file.variant] = what
        self.files[file] = None
        return removed + self.make_room()

    def make_way(self, new: Stored) -> list[Removal]:
        key, going = new.key, [held.stored.variant for held in self.rivals(new)]
        if key in self.markers:
            return self.forget(key, "replaced")
        kept = self.kept_of(key)
        if not going and len(kept) == MOST_VARIANTS:
            going = [next(iter(kept))]
        files = [file for variant in going for file in self.files_of(key, variant)]
        return [removal for file in files for removal in self.forget_file(file, "replaced")]

    def join(self, old: Held, what: Held, file: BodyRef) -> list[Removal]:
        key = what.stored.key
        if what.stored.requested_at.boot >= old.stored.requested_at.boot:
            newer = replace(old, stored=what.stored, must_validate=what.must_validate)
            self.kept[key][file.variant] = newer
        refusal = self.why_too_large(what)
        is_held = isinstance(old, Present) or any(
            held.first <= file.first and file.last <= held.last and held.part != file.part
            for held in old.bodies
        )
        if refusal is not None or is_held:
            return [Removal("range", refusal or "replaced", file), *self.make_room()]
        within = [
            held
            for held in self.files_of(key, file.variant)
            if file.first <= held.first and held.last <= file.last
        ]
        self.files[file] = None
        removed = [removal for held in within for removal in self.forget_file(held, "replaced")]
        return removed + self.make_room()

    def adopt(self, what: Held) -> list[Removal] | None:
        key, file = what.stored.key, only_body(what)
        if any(running.lease.key == key for running in self.running):
            return None
        same = [other for other in self.contradicted(key) if other.target == key.target]
        if same:
            return None if file.part is None else [Removal("range", "replaced", file)]
        old, rivals = self.variant(key, file.variant), self.rivals(what.stored)
        if isinstance(what, Present) and isinstance(old, Present):
            return None
        is_same = old is not None and is_one_generation(old, what)
        files = self.files_of(key, file.variant)
        if is_same and file.part is not None and any(held.part == file.part for held in files):
            return None
        asked_at = what.stored.requested_at.wall
        if not is_same and any(held.stored.requested_at.wall >= asked_at for held in rivals):
            return [Removal(kind_of(file), "replaced", file)]
        return self.put(what, None)

    def why_too_large(self, what: Held) -> Reason | None:
        limits, file = self.limits, only_body(what)
        if file.blocks * 512 > limits.budget_bytes - limits.marker_reserve_bytes:
            return "budget"
        memory = memory_of_entry(what) + (HANGING_COST if hangs(file) else 0)
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

    def freshen(self, head: Stored) -> list[Removal]:
        kept = self.kept[head.key]
        kept[head.variant] = replace(kept[head.variant], stored=head, must_validate=False)
        return self.make_room()

    def make_stale(self, key: CacheKey) -> list[Removal]:
        if key not in self.kept:
            return self.forget(key, "invalidated")
        for variant, held in self.kept[key].items():
            self.kept[key][variant] = replace(held, must_validate=True)
        return []

    def mark(self, key: CacheKey, absent: Absent, by: Running) -> list[Removal]:
        """At the key itself, or at that of one of those who share it."""
        limits, cost = self.limits, cost_of_marker(key)
        removed = []
        if key == by.lease.key:
            self.revoke([key], but=by)
        else:
            removed = self.deny(by.lease.key, but=by)
        removed += self.forget(key, "replaced")
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
        self.cold[key] = absent._replace(requested_at=Now(sent.boot, sent.wall + 1))
        return removed


def kind_of(file: BodyRef) -> Kind:
    return "body" if file.part is None else "range"


def generation_of(what: Stored) -> Generation | None:
    tag = what.fields.get(b"etag")
    return (tag, what.length) if tag is not None and tag.startswith(b'"') else None


def is_surely_other(held: Stored, new: Stored) -> bool:
    """Whether two heads can't be of the same bytes."""
    if held.variant != new.variant:
        return True
    if generation_of(new) is not None:
        return generation_of(held) != generation_of(new)
    tags = [what.fields.get(b"etag") for what in (held, new)]
    opaque = [None if tag is None else tag.removeprefix(b"W/") for tag in tags]
    return None not in opaque and opaque[0] != opaque[1]


def is_one_generation(one: Held, other: Held) -> bool:
    generation = generation_of(one.stored)
    is_same = generation is not None and generation == generation_of(other.stored)
    return is_same and one.token == other.token
