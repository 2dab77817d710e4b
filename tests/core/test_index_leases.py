from dataclasses import replace

import pytest

from chunkside.core.budget import Limits, Removal
from chunkside.core.entry import Absent, Now, StampPair
from chunkside.core.index import Index
from tests.core.index_samples import (
    BODY,
    CLOSED,
    LATER,
    NAMELESS,
    PLENTY,
    STAMPS,
    body,
    evicted,
    key,
    mark,
    put,
)
from tests.core.samples import NOW

# Leases.


@pytest.mark.parametrize(
    ("taken", "current", "now", "allows"),
    [
        pytest.param(STAMPS, STAMPS, NOW, True, id="nothing-happened"),
        pytest.param(STAMPS, LATER, NOW, False, id="written"),
        pytest.param(STAMPS, StampPair(1, 9), NOW, False, id="location-purged"),
        pytest.param(CLOSED, CLOSED, NOW, False, id="taken-during-a-write"),
        pytest.param(
            CLOSED, CLOSED, Now(NOW.boot + 99, NOW.wall), False, id="taken-during-one-that-ended"
        ),
        pytest.param(STAMPS, CLOSED, NOW, False, id="being-written"),
    ],
)
def test_a_lease_allows_only_what_no_write_came_between(taken, current, now, allows):
    index = Index(PLENTY)
    lease = index.lease(key(b"/a"), taken, NOW)
    assert lease.allows(current, now) is allows
    assert (index.store(lease, current, body(b"/a"), now) is not None) is allows
    assert (index.remember(lease, current, NAMELESS, now) is not None) is allows


def test_an_ended_lease_allows_nothing():
    index = Index(PLENTY)
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.leased_keys() == [key(b"/a")]
    index.end(lease)
    index.end(lease)
    assert index.leased_keys() == []
    assert index.store(lease, STAMPS, body(b"/a"), NOW) is None


def two_leases():
    index = Index(PLENTY)
    return index, index.lease(key(b"/a"), STAMPS, NOW), index.lease(key(b"/a"), STAMPS, NOW)


def test_a_drop_revokes_even_where_nothing_is_held():
    index, one, two = two_leases()
    assert index.drop(key(b"/a"), "purged") == []
    assert not one.allows(STAMPS, NOW)
    assert not two.allows(STAMPS, NOW)


def test_an_absence_that_is_gone_again_still_revokes():
    index, one, two = two_leases()
    assert index.remember(one, STAMPS, NAMELESS, NOW) == []
    index.end(two)
    two = index.lease(key(b"/a"), STAMPS, NOW)
    index.drop(key(b"/a"), "expired")
    assert not one.allows(STAMPS, NOW)
    assert not two.allows(STAMPS, NOW)


def test_an_absence_revokes_all_leases_but_its_own():
    index, one, two = two_leases()
    index.remember(one, STAMPS, NAMELESS, NOW)
    assert one.allows(STAMPS, NOW)
    assert not two.allows(STAMPS, NOW)


def test_another_generation_revokes_all_leases_but_its_own():
    index, one, two = two_leases()
    index.store(one, STAMPS, body(b"/a", 'ETag: "1"'), NOW)
    assert one.allows(STAMPS, NOW)
    assert index.store(two, STAMPS, body(b"/a", 'ETag: "2"', nonce=2), NOW) is None


@pytest.mark.parametrize(
    ("lines", "again", "length", "is_same"),
    [
        pytest.param(['ETag: "1"'], ['ETag: "1"'], 10, True, id="same-tag"),
        pytest.param(['ETag: "1"'], ['ETag: "2"'], 10, False, id="other-tag"),
        pytest.param(['ETag: "1"'], ['ETag: "1"'], 11, False, id="other-length"),
        pytest.param(['ETag: W/"1"'], ['ETag: W/"1"'], 10, False, id="weak"),
        pytest.param([], [], 10, False, id="no-validator"),
    ],
)
def test_bytes_of_one_generation_leave_its_other_fills_their_lease(lines, again, length, is_same):
    index = Index(PLENTY)
    put(index, body(b"/a", *lines))
    one, two = (index.lease(key(b"/a"), STAMPS, NOW) for _ in range(2))
    index.store(one, STAMPS, body(b"/a", *again, nonce=2, length=length), NOW)
    told = index.store(two, STAMPS, body(b"/a", *lines, nonce=3), NOW)
    assert (told is not None) is is_same


def test_eviction_revokes_nothing():
    index = Index(Limits(BODY))
    put(index, body(b"/a"))
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    put(index, body(b"/b"))
    assert lease.allows(STAMPS, NOW)


# Adoption and freshening.


def test_a_body_found_on_disk_is_taken_in():
    index = Index(Limits(BODY))
    a, b = body(b"/a"), body(b"/b")
    assert index.adopt(a) == []
    assert index.adopt(b) == [evicted(a)]
    assert index.look_up(key(b"/b")) is b


def test_a_body_found_on_disk_never_displaces_what_is_known_or_on_its_way():
    index = Index(PLENTY)
    mark(index, b"/a")
    assert index.adopt(body(b"/a")) is None
    lease = index.lease(key(b"/b"), STAMPS, NOW)
    assert index.adopt(body(b"/b")) is None
    index.end(lease)
    assert index.adopt(body(b"/b")) == []


def test_freshening_changes_the_head_and_nothing_else():
    index = Index(PLENTY)
    a = body(b"/a")
    put(index, a)
    fresh = replace(a, stored=replace(a.stored, initial_age=1.0))
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.freshen(lease, STAMPS, a, fresh.stored, NOW) == []
    assert index.look_up(key(b"/a")) == fresh
    assert (index.bodies.count, index.bodies.charge) == (1, BODY)
    assert lease.allows(STAMPS, NOW)


def test_nothing_is_freshened_but_the_very_body_under_its_lease():
    index = Index(PLENTY)
    a = body(b"/a")
    unknown = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.freshen(unknown, STAMPS, a, a.stored, NOW) is None
    put(index, a)
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.freshen(lease, STAMPS, body(b"/a", nonce=2), a.stored, NOW) is None
    assert index.freshen(lease, LATER, a, a.stored, NOW) is None
    mark(index, b"/a")
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.freshen(lease, STAMPS, a, a.stored, NOW) is None
    assert isinstance(index.look_up(key(b"/a")), Absent)


def test_whoever_asked_before_other_bytes_came_may_store_more_of_those_and_nothing_else():
    index = Index(PLENTY)
    put(index, body(b"/a", 'ETag: "1"'))
    one, two, three = (index.lease(key(b"/a"), STAMPS, NOW) for _ in range(3))
    new = body(b"/a", 'ETag: "2"', nonce=2)
    assert index.store(one, STAMPS, new, NOW) is not None
    assert index.store(two, STAMPS, body(b"/a", 'ETag: "1"', nonce=3), NOW) is None
    assert index.remember(two, STAMPS, NAMELESS, NOW) is None
    assert index.freshen(two, STAMPS, new, new.stored, NOW) == []
    assert index.store(two, STAMPS, replace(new, body=replace(new.body, nonce=4)), NOW) is not None
    # A third generation, and who asked before the second may store neither.
    four = index.lease(key(b"/a"), STAMPS, NOW)
    index.store(four, STAMPS, body(b"/a", 'ETag: "3"', nonce=5), NOW)
    assert index.store(three, STAMPS, new, NOW) is None
    assert index.store(three, STAMPS, body(b"/a", 'ETag: "3"', nonce=6), NOW) is None


# Rewritten arrays.


def test_a_body_of_a_rewritten_array_is_validated_and_a_marker_falls():
    index = Index(PLENTY)
    a = body(b"/a")
    put(index, a)
    mark(index, b"/b")
    running = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.make_stale(key(b"/a"), "invalidated") == []
    assert index.look_up(key(b"/a")) == replace(a, must_validate=True)
    assert index.make_stale(key(b"/b"), "invalidated") == [Removal("marker", "invalidated")]
    assert index.make_stale(key(b"/c"), "invalidated") == []
    assert running.allows(STAMPS, NOW)
    index.check_invariants()


# Refutation.


def test_what_was_seen_to_exist_loses_its_marker_and_no_older_absence_makes_one():
    index, one, _two = two_leases()
    index.remember(one, STAMPS, NAMELESS, NOW)
    index.end(one)
    late = index.lease(key(b"/a"), STAMPS, NOW)
    assert [removal.kind for removal in index.refute(key(b"/a"))] == ["marker"]
    assert index.remember(late, STAMPS, NAMELESS, NOW) is None
    assert index.look_up(key(b"/a")) is None


def test_refuting_an_absence_leaves_bodies_held_or_on_their_way():
    index, one, _two = two_leases()
    index.store(one, STAMPS, body(b"/a", 'ETag: "1"'), NOW)
    assert index.refute(key(b"/a")) == []
    assert index.store(one, STAMPS, body(b"/a", 'ETag: "1"', nonce=2), NOW) is not None


def test_an_absence_asked_for_after_the_refutation_is_remembered():
    index = Index(PLENTY)
    assert index.refute(key(b"/a")) == []
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.remember(lease, STAMPS, NAMELESS, NOW) == []
