"""The index against plain dicts, under any order of events.

A run takes seconds. More of it, with examples and steps of each:
`python -m tests.core.test_index_states 20000 200`
"""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chunkside.core.budget import Limits, Reason, Removal
from chunkside.core.entry import (
    Absent,
    BodyRef,
    Held,
    Now,
    Part,
    Partial,
    Present,
    StampPair,
)
from chunkside.core.index import Index
from chunkside.core.key import CacheKey, Object
from tests.core.index_model import (
    ASKED_KEYS,
    HERE,
    KEYS,
    OWN_PARTITIONS,
    THERE,
    IndexModel,
    Running,
    is_one_generation,
    is_shared,
    only_body,
    own_key,
    path_of,
)
from tests.core.samples import stored

LIMITS = [
    Limits(10**9),
    Limits(30_000, marker_reserve_bytes=1_000),
    Limits(12_600, marker_reserve_bytes=400, max_markers=3),
    Limits(9_000, max_markers=1),
    Limits(700, marker_reserve_bytes=700),
    Limits(10**9, memory_bytes=6_000),
    Limits(14_000, marker_reserve_bytes=400, memory_bytes=4_000),
]
ROOMY = Limits(10**9)
# Some lie within others, some overlap.
PARTS = [Part(*ends) for ends in [(0, 9), (0, 3), (2, 3), (3, 6), (5, 9), (9, 9)]]
# Two generations that can be told apart, and two ways of not being sure.
TAGS = ['ETag: "1"', 'ETag: "2"', 'ETag: W/"1"', "X-Nothing: 1"]
# What doesn't vary comes most often.
VARIANTS = [b"", b"", b"", b"", b"de", b"en", b"fr"]
Made = tuple[str, int, int, Part | None, bytes]


class IndexStates(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = Index(ROOMY)
        self.model = IndexModel(ROOMY)
        self.boot, self.wall = 1_000, 10**9
        self.stamps: dict[tuple[str, bytes] | str, int] = {}
        self.last_stamp = 0
        # Files: how many were made, which are the index's, which it gave back.
        self.nonce = 0
        self.taken: set[BodyRef] = set()
        self.freed: set[BodyRef] = set()

    @initialize(limits=st.sampled_from(LIMITS))
    def begin(self, limits: Limits) -> None:
        self.index = Index(limits)
        self.model = IndexModel(limits)

    # The world.

    @property
    def now(self) -> Now:
        return Now(float(self.boot), float(self.wall))

    def current(self, key: CacheKey) -> StampPair:
        return StampPair(
            self.stamps.get(path_of(key), 0), self.stamps.get(key.namespace.location, 0)
        )

    def allows(self, running: Running) -> bool:
        closed_until = max(stamp >> 32 for stamp in self.parts(running.stamps))
        is_current = self.current(running.lease.key) == running.stamps
        return running.is_good and is_current and closed_until <= self.boot

    @staticmethod
    def parts(stamps: StampPair) -> tuple[int, int]:
        return stamps.object, stamps.location

    def agree(self, told: Iterable[Removal], expected: Iterable[Removal]) -> None:
        """Compares what died, and sees that no file is freed twice or was never taken."""
        told = list(told)
        assert Counter(told) == Counter(expected)
        for removal in told:
            assert (removal.body is None) == (removal.kind == "marker")
            if removal.body is not None:
                assert removal.body in self.taken - self.freed
                self.freed.add(removal.body)

    def new_body(
        self,
        key: CacheKey,
        tag: str,
        length: int,
        blocks: int,
        part: Part | None = None,
        variant: bytes = b"",
        asked_at: Now | None = None,
    ) -> Held:
        self.nonce += 1
        asked_at = asked_at or self.now
        head = stored(tag, key=key, length=length, requested_at=asked_at, variant=variant)
        size, inode = length if part is None else part.length, self.nonce % 3
        ref = BodyRef(key, inode, self.nonce, size, blocks, part, variant)
        token = self.current(key).token
        return Present(head, ref, token) if part is None else Partial(head, (ref,), token)

    def renew(self, name: tuple[str, bytes] | str, closed_for: int) -> None:
        self.last_stamp += 1
        closed_until = self.boot + closed_for if closed_for else 0
        self.stamps[name] = closed_until << 32 | self.last_stamp

    # What happens.

    keys = st.sampled_from(KEYS)
    asked_keys = st.sampled_from(ASKED_KEYS)
    picks = st.integers(0, 2**16)
    bodies_made = st.tuples(
        st.sampled_from(TAGS),
        st.sampled_from([10, 11]),
        st.sampled_from([0, 8, 16, 40]),
        st.none() | st.sampled_from(PARTS),
        st.sampled_from(VARIANTS),
    )

    @rule(key=asked_keys)
    def ask(self, key: CacheKey) -> None:
        """A fill begins."""
        current = self.current(key)
        lease = self.index.lease(key, current, self.now)
        is_open = max(stamp >> 32 for stamp in self.parts(current)) <= self.boot
        self.model.running.append(Running(lease, current, self.now, is_good=is_open))

    def pick(self, choice: int) -> Running:
        return self.model.running[choice % len(self.model.running)]

    @precondition(lambda self: self.model.running)
    @rule(choice=picks)
    def give_up(self, choice: int) -> None:
        running = self.pick(choice)
        self.index.end(running.lease)
        assert not running.lease.allows(running.stamps, self.now)
        self.model.running.remove(running)

    @precondition(lambda self: self.model.running)
    @rule(choice=picks, made=bodies_made)
    def store(self, choice: int, made: Made) -> None:
        running = self.pick(choice)
        key = running.lease.key
        what = self.new_body(key, *made, asked_at=running.asked_at)
        told = self.index.store(running.lease, self.current(key), what, self.now)
        assert (told is not None) == (self.allows(running) and running.may_have(what.stored))
        if told is not None:
            self.taken.add(only_body(what))
            evidence = self.model.forget_all(self.model.contradicted(key))
            self.agree(told, evidence + self.model.put(what, running))

    @precondition(lambda self: self.model.running)
    @rule(
        choice=picks,
        lifetime=st.sampled_from([1, 5, 300]),
        status=st.sampled_from([403, 404, 410]),
        who=st.sampled_from(OWN_PARTITIONS),
    )
    def remember(self, choice: int, lifetime: int, status: int, who: bytes) -> None:
        running = self.pick(choice)
        key, at = running.lease.key, own_key(running.lease.key, who)
        absent = Absent(status, self.now, float(lifetime), self.current(key).token, status == 410)
        others = [file for file in self.model.files if file.key not in (key, at)]
        told = self.index.remember(running.lease, self.current(key), absent, self.now, at)
        is_news = not running.is_refuted and not running.only
        assert (told is not None) == (self.allows(running) and is_news)
        if told is not None:
            self.agree(told, self.model.mark(at, absent, running))
            assert others == [file for file in self.model.files if file.key not in (key, at)]

    @rule(key=asked_keys, made=bodies_made | st.none(), who=st.sampled_from(OWN_PARTITIONS))
    def fill(self, key: CacheKey, made: Made | None, who: bytes) -> None:
        """A fill that nothing comes between: of a body, or of an absence."""
        self.ask(key)
        last = len(self.model.running) - 1
        if made is None:
            self.remember(last, 300, 404, who=who)
        else:
            self.store(last, made)
        self.give_up(last)

    @precondition(lambda self: self.model.running)
    @rule(choice=picks, is_the_same=st.booleans())
    def freshen(self, choice: int, is_the_same: bool) -> None:
        running = self.pick(choice)
        key = running.lease.key
        old = self.new_body(key, TAGS[0], 10, 8, variant=VARIANTS[choice % len(VARIANTS)])
        held = self.model.variant(key, old.stored.variant)
        if held is not None and is_the_same:
            old = held
        head = replace(old.stored, requested_at=self.now)
        told = self.index.freshen(running.lease, self.current(key), old, head, self.now)
        is_held = (
            held is not None
            and (held == old or is_one_generation(held, old))
            and held.token == self.current(key).token
            and running.may_have(held.stored)
        )
        assert (told is not None) == (is_held and self.allows(running))
        if told is not None:
            self.agree(told, self.model.freshen(head))

    @precondition(lambda self: self.model.running)
    @rule(choice=picks, made=bodies_made, is_relayed=st.booleans())
    def see(self, choice: int, made: Made, is_relayed: bool) -> None:
        """Bytes begin to arrive, and may never be stored."""
        running = self.pick(choice)
        tag, length, _, _, variant = made
        head = stored(
            tag,
            key=running.lease.key,
            length=length,
            requested_at=running.asked_at,
            variant=variant,
        )
        how = {"is_allowed": self.allows(running), "is_relayed": is_relayed}
        self.agree(self.index.see(running.lease, head, **how), self.model.see(head, running, **how))

    @rule(key=keys)
    def deny(self, key: CacheKey) -> None:
        """Some answer shows that the key is absent, and makes no marker."""
        self.agree(self.index.deny(key), self.model.deny(key))

    @rule(key=asked_keys, made=bodies_made, sooner=st.sampled_from([0, 5, 300]))
    def adopt(self, key: CacheKey, made: Made, sooner: int) -> None:
        asked_at = Now(self.now.boot - sooner, self.now.wall - sooner)
        what = self.new_body(key, *made, asked_at=asked_at)
        told, expected = self.index.adopt(what), self.model.adopt(what)
        assert (told is None) == (expected is None)
        if told is not None and expected is not None:
            self.taken.add(only_body(what))
            self.agree(told, expected)

    @precondition(lambda self: self.taken)
    @rule(choice=picks, is_used=st.booleans())
    def meet_a_file(self, choice: int, is_used: bool) -> None:
        """Somebody who knows a file, held or not, uses it or finds it bad."""
        file = sorted(self.taken, key=lambda each: each.nonce)[choice % len(self.taken)]
        if is_used:
            self.index.touch_body(file)
            self.model.touch_file(file)
        else:
            told = self.index.drop_file(file, "corrupt")
            self.agree(told, self.model.forget_file(file, "corrupt"))

    @rule(size=st.sampled_from([0, 512, 4096, 10**8]))
    def reserve(self, size: int) -> None:
        """A file is on its way."""
        told, expected = self.index.reserve(size), self.model.reserve(size)
        assert (told is None) == (expected is None)
        if told is not None and expected is not None:
            self.agree(told, expected)

    @precondition(lambda self: self.model.reserved)
    @rule(choice=picks)
    def release(self, choice: int) -> None:
        self.index.release(self.model.reserved.pop(choice % len(self.model.reserved)))

    @rule(key=keys)
    def touch(self, key: CacheKey) -> None:
        self.index.touch(key)
        self.model.touch(key)

    @rule(key=keys, reason=st.sampled_from(["invalidated", "purged", "corrupt"]))
    def drop(self, key: CacheKey, reason: Reason) -> None:
        self.agree(self.index.drop(key, reason), self.model.fall([key], reason))

    @rule(key=keys)
    def refute(self, key: CacheKey) -> None:
        """Some answer shows that the key exists."""
        self.agree(self.index.refute(key), self.model.refute(key))

    @rule(key=keys)
    def make_stale(self, key: CacheKey) -> None:
        """The array that the key belongs to was rewritten."""
        self.agree(self.index.make_stale(key, "invalidated"), self.model.make_stale(key))

    @rule()
    def expire(self) -> None:
        """Drops every marker that is past its life."""
        for key, absent in list(self.model.markers.items()):
            if self.boot - absent.requested_at.boot >= absent.lifetime:
                told = self.index.drop(key, "expired")
                self.agree(told, self.model.fall([key], "expired"))

    @rule(key=keys, closed_for=st.sampled_from([0, 0, 7]), is_purge=st.booleans())
    def write(self, key: CacheKey, closed_for: int, is_purge: bool) -> None:
        """One end of a write, or a purge: stamps the object and drops it in all spellings."""
        name = path_of(key)
        reason: Reason = "purged" if is_purge else "invalidated"
        self.renew(name, closed_for)
        told = self.index.drop_object(Object(*name), reason)
        self.agree(
            told, self.model.fall([other for other in KEYS if path_of(other) == name], reason)
        )

    @rule(location=st.sampled_from([HERE, THERE]), closed_for=st.sampled_from([0, 7]))
    def write_broadly(self, location: str, closed_for: int) -> None:
        self.renew(location, closed_for)
        told = self.index.drop_location(location, "invalidated")
        fallen = [key for key in KEYS if key.namespace.location == location]
        self.agree(told, self.model.fall(fallen, "invalidated"))

    @rule(key=keys, closed_for=st.sampled_from([0, 7]), is_broad=st.booleans())
    def write_elsewhere(self, key: CacheKey, closed_for: int, is_broad: bool) -> None:
        """Another process writes: only its stamp is seen here."""
        self.renew(key.namespace.location if is_broad else path_of(key), closed_for)

    @rule(seconds=st.sampled_from([1, 7, 300]))
    def wait(self, seconds: int) -> None:
        self.boot += seconds
        self.wall += seconds

    @rule(seconds=st.sampled_from([-(10**6), -30, -1, 1, 3600]))
    def set_the_clock(self, seconds: int) -> None:
        """Wall time steps; boot time never does."""
        self.wall += seconds

    # What holds after each.

    @invariant()
    def the_books_agree(self) -> None:
        self.index.check_invariants()
        assert self.index.markers.charge == self.model.bytes_of_markers()
        files = self.index.bodies.charge + self.index.ranges.charge
        assert files == self.model.bytes_of_files()
        assert self.index.memory_in_use == self.model.memory()
        assert (self.index.markers.count, self.index.bodies.count, self.index.key_count) == (
            len(self.model.markers),
            sum(file.part is None for file in self.model.files),
            len(self.model.keys),
        )

    @invariant()
    def each_key_holds_what_the_model_holds(self) -> None:
        for key in KEYS:
            assert self.index.look_up(key) == self.model.held(key)
        assert Counter(self.index.keys()) == Counter(self.model.keys)

    @invariant()
    def what_all_share_is_absent_to_none_of_them(self) -> None:
        held = self.model.kept
        shared = {key for key in held if is_shared(key)}
        assert not {own_key(key, who) for key in shared for who in OWN_PARTITIONS} & set(
            self.model.markers
        )

    @invariant()
    def no_file_is_lost(self) -> None:
        assert self.taken - self.freed == set(self.model.files)

    @invariant()
    def leases_stand_and_fall_with_the_model(self) -> None:
        for running in self.model.running:
            key = running.lease.key
            assert running.lease.allows(self.current(key), self.now) == self.allows(running)
        asked_for = {running.lease.key for running in self.model.running}
        assert set(self.index.leased_keys()) == asked_for


# Many steps: on a busy machine it takes more than a minute.
TestIndexStates = pytest.mark.timeout(240)(IndexStates.TestCase)
TestIndexStates.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)


if __name__ == "__main__":
    examples, steps = (int(number) for number in sys.argv[1:3])
    run_state_machine_as_test(
        IndexStates,
        settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None),
    )
