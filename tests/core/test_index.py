from dataclasses import replace

import pytest

from chunkside.core.budget import Limits, Removal, Tally
from chunkside.core.entry import Absent, Now
from chunkside.core.index import Index
from chunkside.core.key import Namespace, Object
from tests.core.index_samples import (
    BODY,
    HERE,
    MARKER,
    MINE,
    NAMELESS,
    PLENTY,
    STAMPS,
    body,
    evicted,
    held_targets,
    key,
    mark,
    put,
)
from tests.core.samples import NOW

# Looking.


def test_what_was_stored_is_found_and_nothing_else():
    index = Index(PLENTY)
    a = body(b"/a")
    assert put(index, a) == []
    assert mark(index, b"/b") == []
    assert index.look_up(key(b"/a")) is a
    seen = NAMELESS._replace(requested_at=Now(NOW.boot, NOW.wall + 1.0))
    assert index.look_up(key(b"/b")) == seen
    assert index.look_up(key(b"/c")) is None
    assert index.look_up(key(b"/a", Namespace(HERE, "", b"p"))) is None
    assert index.look_up(key(b"/a", Namespace("http://other:80"))) is None
    assert set(index.keys()) == {key(b"/a"), key(b"/b")}


def test_what_has_an_entry_in_a_namespace_is_told_at_once():
    index = Index(PLENTY)
    put(index, body(b"/a"))
    mark(index, b"/b")
    assert set(index.targets_in(key(b"/a").namespace)) == {b"/a", b"/b"}
    assert set(index.targets_in(Namespace("http://other:80"))) == set()


def test_a_present_replaces_an_absence_and_the_other_way():
    index = Index(PLENTY)
    a = body(b"/a")
    mark(index, b"/a")
    assert put(index, a) == [Removal("marker", "replaced")]
    assert (index.markers.count, index.bodies.count) == (0, 1)
    assert mark(index, b"/a") == [Removal("body", "replaced", a.body)]
    assert (index.markers.count, index.bodies.count) == (1, 0)
    assert isinstance(index.look_up(key(b"/a")), Absent)


def test_a_new_body_frees_the_old_one_and_never_adds_up():
    index = Index(PLENTY)
    one, two = body(b"/a", nonce=1), body(b"/a", nonce=2, blocks=16)
    put(index, one)
    assert put(index, two) == [Removal("body", "replaced", one.body)]
    assert index.bodies.charge == 16 * 512


# What things cost.


@pytest.mark.parametrize(
    ("target", "bytes_"),
    [
        pytest.param(b"/" + b"a" * 44, 221, id="45-bytes"),
        pytest.param(b"/a", 178, id="short"),
        pytest.param(b"/a?b", 584, id="query"),
        pytest.param(b"/%61", 584, id="spelling"),
    ],
)
def test_a_marker_is_charged_what_it_costs(target, bytes_):
    index = Index(PLENTY)
    mark(index, target)
    assert (index.markers.charge, index.total_bytes) == (bytes_, bytes_)
    assert index.markers == Tally(1, bytes_, bytes_)
    index.drop(key(target), "purged")
    assert index.total_bytes == 0


def test_a_body_is_charged_its_blocks_and_its_place():
    index = Index(PLENTY)
    put(index, body(b"/a"))
    assert (index.bodies.charge, index.total_bytes) == (BODY, BODY)
    assert index.tallies == {"body": Tally(1, BODY, 1204), "range": Tally(), "marker": Tally()}


# The budget.


def test_markers_go_before_any_body():
    index = Index(Limits(2 * BODY + 10))
    a, b, c = body(b"/a"), body(b"/b"), body(b"/c")
    put(index, a)
    for target in (b"/1", b"/2", b"/3"):
        mark(index, target)
    assert put(index, b) == [Removal("marker", "budget")] * 3
    assert put(index, c) == [evicted(a)]
    assert held_targets(index) == {b"/b", b"/c"}


def test_no_more_markers_go_than_must():
    index = Index(Limits(BODY + 2 * MARKER))
    for target in (b"/1", b"/2", b"/3"):
        mark(index, target)
    assert put(index, body(b"/a")) == [Removal("marker", "budget")]
    assert held_targets(index) == {b"/2", b"/3", b"/a"}


def test_a_touched_entry_outlives_those_used_before_it():
    index = Index(Limits(2 * BODY))
    a, b, c = body(b"/a"), body(b"/b"), body(b"/c")
    put(index, a)
    put(index, b)
    index.touch(key(b"/a"))
    assert put(index, c) == [evicted(b)]
    index.touch(key(b"/gone"))


def test_a_negative_hit_keeps_a_marker_longer_in_the_index():
    index = Index(Limits(2 * MARKER))
    mark(index, b"/1")
    mark(index, b"/2")
    index.touch(key(b"/1"))
    assert mark(index, b"/3") == [Removal("marker", "budget")]
    assert held_targets(index) == {b"/1", b"/3"}


def test_a_negative_hit_does_not_renew_a_markers_life():
    index = Index(PLENTY)
    mark(index, b"/1")
    before = index.look_up(key(b"/1"))
    index.touch(key(b"/1"))
    assert index.look_up(key(b"/1")) == before


def test_recording_a_marker_never_evicts_a_body():
    index = Index(Limits(BODY + MARKER - 1))
    a = body(b"/a")
    put(index, a)
    assert mark(index, b"/1") == []
    assert held_targets(index) == {b"/a"}


def test_a_marker_that_can_not_fit_evicts_no_other():
    index = Index(Limits(BODY + MARKER))
    mark(index, b"/1")
    put(index, body(b"/a"))
    assert mark(index, b"/long" * 9) == []
    assert held_targets(index) == {b"/1", b"/a"}


def test_an_absence_drops_the_body_even_where_it_can_not_be_remembered():
    index = Index(Limits(2 * BODY + 10, max_markers=0))
    a = body(b"/a")
    put(index, a)
    put(index, body(b"/b"))
    assert mark(index, b"/a") == [Removal("body", "replaced", a.body)]
    assert held_targets(index) == {b"/b"}


def test_markers_are_capped_by_count_the_oldest_going_first():
    index = Index(replace(PLENTY, max_markers=2))
    mark(index, b"/1")
    mark(index, b"/2")
    assert mark(index, b"/3") == [Removal("marker", "marker_cap")]
    assert held_targets(index) == {b"/2", b"/3"}


def test_bodies_leave_the_reserve_of_markers_alone():
    index = Index(Limits(2 * BODY + 100, marker_reserve_bytes=200))
    a = body(b"/a")
    put(index, a)
    mark(index, b"/1")
    assert put(index, body(b"/b")) == [evicted(a)]
    assert held_targets(index) == {b"/b", b"/1"}


def test_bodies_never_fill_the_reserve_even_where_no_marker_is():
    index = Index(Limits(2 * BODY + 100, marker_reserve_bytes=101))
    a = body(b"/a")
    put(index, a)
    assert put(index, body(b"/b")) == [evicted(a)]


def test_markers_beyond_their_reserve_go_before_bodies():
    index = Index(Limits(2 * BODY + MARKER, marker_reserve_bytes=MARKER))
    put(index, body(b"/a"))
    mark(index, b"/1")
    mark(index, b"/2")
    assert put(index, body(b"/b")) == [Removal("marker", "budget")]
    assert held_targets(index) == {b"/a", b"/b", b"/2"}


def test_a_body_larger_than_the_budget_costs_no_other_its_place():
    index = Index(Limits(2 * BODY))
    old, other = body(b"/a"), body(b"/b")
    put(index, old)
    put(index, other)
    large = body(b"/a", nonce=2, blocks=1000)
    assert put(index, large) == [Removal("body", "replaced", old.body), evicted(large)]
    assert held_targets(index) == {b"/b"}


def test_a_budget_of_nothing_holds_nothing():
    index = Index(Limits(0, marker_reserve_bytes=10))
    a = body(b"/a")
    assert put(index, a) == [evicted(a)]
    assert mark(index, b"/1") == []
    assert index.total_bytes == 0


# Dropping.


def test_a_drop_says_what_died_and_why():
    index = Index(PLENTY)
    a = body(b"/a")
    put(index, a)
    mark(index, b"/b")
    assert index.drop(key(b"/a"), "corrupt") == [Removal("body", "corrupt", a.body)]
    assert index.drop(key(b"/b"), "expired") == [Removal("marker", "expired")]
    assert index.drop(key(b"/b"), "expired") == []
    index.check_invariants()


def test_dropping_a_file_spares_what_came_instead_and_fills_go_on():
    index = Index(PLENTY)
    one, two = body(b"/a"), body(b"/a", nonce=2)
    put(index, two)
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.drop_file(one.body, "corrupt") == []
    assert index.drop_file(two.body, "corrupt") == [Removal("body", "corrupt", two.body)]
    assert lease.allows(STAMPS, NOW)
    assert index.drop_file(two.body, "corrupt") == []


def test_an_object_falls_in_all_spellings_queries_and_partitions():
    index = Index(PLENTY)
    spellings = [b"/a", b"/%61", b"/a?b=1", b"/%61?"]
    for target in (*spellings, b"/b", b"/a/c", b"/a%20", b"/b?a"):
        mark(index, target)
    for target in spellings:
        mark(index, target, MINE)
    mark(index, b"/a", Namespace("http://other:80"))
    running = [index.lease(key(target, MINE), STAMPS, NOW) for target in (b"/%61?x", b"/b")]
    assert len(index.drop_object(Object(HERE, b"/a"), "invalidated")) == 8
    index.check_invariants()
    assert held_targets(index) == {b"/b", b"/a/c", b"/a%20", b"/b?a", b"/a"}
    assert index.look_up(key(b"/a", Namespace("http://other:80"))) is not None
    assert [lease.allows(STAMPS, NOW) for lease in running] == [False, True]


@pytest.mark.parametrize(
    ("path", "falls"),
    [
        pytest.param(b"/a?b", b"/a%3Fb", id="question-mark"),
        pytest.param(b"/a%41", b"/a%2541", id="percent-sign"),
    ],
)
def test_an_object_whose_path_reads_like_a_target_is_not_that_target(path, falls):
    index = Index(PLENTY)
    for target in (falls, path):
        mark(index, target)
    other = index.lease(key(path), STAMPS, NOW)
    assert index.drop_object(Object(HERE, path), "invalidated") == [
        Removal("marker", "invalidated")
    ]
    assert held_targets(index) == {path}
    assert other.allows(STAMPS, NOW)


def test_a_location_falls_whole_and_alone():
    index = Index(PLENTY)
    a = body(b"/a")
    put(index, a)
    mark(index, b"/b?c", MINE)
    mark(index, b"/a", Namespace("http://other:80"))
    lease = index.lease(key(b"/not-held"), STAMPS, NOW)
    assert index.counts_of(HERE) == {"body": 1, "range": 0, "marker": 1}
    removed = index.drop_location(HERE, "purged")
    assert sum(index.counts_of(HERE).values()) == 0
    assert sum(index.counts_of("http://nowhere:80").values()) == 0
    assert set(removed) == {Removal("body", "purged", a.body), Removal("marker", "purged")}
    assert list(index.keys()) == [key(b"/a", Namespace("http://other:80"))]
    assert not lease.allows(STAMPS, NOW)
    index.check_invariants()


def test_namespaces_that_hold_nothing_leave_nothing_behind():
    index = Index(PLENTY)
    spaces = [Namespace(HERE, "", b"%d" % number) for number in range(5)]
    for _ in range(3):
        for space in spaces:
            mark(index, b"/a", space)
        assert len(index.drop_location(HERE, "purged")) == 5
    for space in spaces[:2]:
        mark(index, b"/b?c", space)
    assert set(index.keys()) == {key(b"/b?c", space) for space in spaces[:2]}
    assert index.partition_count == 2
    index.check_invariants()


# Memory.


def test_a_body_s_entry_costs_its_key_and_its_fields():
    index = Index(PLENTY)
    put(index, body(b"/a", 'ETag: "1"', "X-Meta: abc"))
    # 1200, twice the key, and for each line 300 and its bytes.
    assert index.memory_in_use == index.bodies.memory == 1200 + 4 + 300 + 7 + 300 + 9
    index.drop(key(b"/a"), "purged")
    assert index.memory_in_use == 0


def test_memory_is_kept_by_markers_first_down_to_a_quarter_then_by_bodies():
    index = Index(Limits(10**9, memory_bytes=4 * 1204))
    for number in range(9):
        mark(index, b"/%d" % number)
    assert put(index, body(b"/a")) == []
    assert put(index, body(b"/b")) == []
    # Three bodies leave a quarter, 1204 bytes, which six markers of 178 bytes fit.
    assert put(index, body(b"/c")) == [Removal("marker", "index_memory")] * 3
    assert put(index, body(b"/d")) == [Removal("body", "index_memory", body(b"/a").body)]
    assert (index.markers.count, index.bodies.count) == (6, 3)


def test_a_marker_takes_no_memory_from_bodies():
    index = Index(Limits(10**9, memory_bytes=4 * 1204))
    for target in (b"/a", b"/b", b"/c"):
        put(index, body(target))
    for number in range(6):
        assert mark(index, b"/%d" % number) == []
    assert mark(index, b"/6") == [Removal("marker", "index_memory")]
    assert index.bodies.count == 3


def test_an_entry_that_is_larger_than_the_memory_is_never_held():
    index = Index(Limits(10**9, memory_bytes=1600))
    a = body(b"/a")
    assert put(index, a) == [Removal("body", "index_memory", a.body)]
    assert mark(index, b"/" + b"x" * 1500) == []
    assert index.total_bytes == 0


def test_a_head_that_grows_as_it_is_freshened_is_made_room_for():
    index = Index(Limits(10**9, memory_bytes=4 * 1204))
    for target in (b"/a", b"/b", b"/c"):
        put(index, body(target))
    lease = index.lease(key(b"/c"), STAMPS, NOW)
    longer = body(b"/c", "X-Meta: abc")
    old = body(b"/c")
    assert index.freshen(lease, STAMPS, old, longer.stored, NOW) == [
        Removal("body", "index_memory", body(b"/a").body)
    ]
    assert index.look_up(key(b"/c")) == longer


# A flood.


def test_markers_that_are_asked_for_again_outlive_a_flood_of_others():
    index = Index(Limits(10**9, max_markers=100))
    useful = [b"/useful/%d" % number for number in range(50)]
    for target in useful:
        mark(index, target)
        index.touch(key(target))
    for number in range(2000):
        mark(index, b"/random/%d" % number)
    assert index.markers.count == 100
    assert set(useful) <= held_targets(index)


def test_what_was_hot_once_does_not_lock_out_what_is_new():
    index = Index(Limits(10**9, max_markers=100))
    for number in range(100):
        mark(index, b"/old/%d" % number)
        index.touch(key(b"/old/%d" % number))
    for number in range(20):
        mark(index, b"/new/%d" % number)
    assert {b"/new/%d" % number for number in range(20)} <= held_targets(index)
