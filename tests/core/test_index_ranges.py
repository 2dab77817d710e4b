"""Ranges: they hang under their key, are used and evicted one by one, and fall together."""

from dataclasses import replace

import pytest

from chunkside.core.budget import Limits, Removal, Tally
from chunkside.core.entry import BodyRef, Part, Partial, Present
from chunkside.core.index import Index
from tests.core.index_samples import LATER, MARKER, PLENTY, STAMPS, body, evicted, key, mark, put
from tests.core.samples import NOW, earlier, present, stored

ONE, TWO = 'ETag: "1"', 'ETag: "2"'
# What a key costs that ranges hang under, here: 1200, twice the key, one field line of 307 bytes.
HEAD = 1200 + 4 + 307
RANGE = 700


def part(
    first: int,
    last: int,
    *lines: str,
    target: bytes = b"/a",
    nonce: int = 0,
    length: int = 1000,
    asked: float = 0.0,
    blocks: int = 8,
) -> Partial:
    head = stored(*(lines or (ONE,)), key=key(target), length=length, requested_at=earlier(asked))
    ref = BodyRef(
        key(target), 1, nonce or first + 1, last - first + 1, blocks, Part(first, last)
    )  # fmt: skip
    return Partial(head, (ref,), STAMPS.token)


def file(partial: Partial) -> BodyRef:
    [ref] = partial.bodies
    return ref


def replaced(partial: Partial) -> Removal:
    return Removal("range", "replaced", file(partial))


def held(index: Index, target: bytes = b"/a") -> Partial:
    entry = index.look_up(key(target))
    assert isinstance(entry, Partial)
    return entry


def parts(index: Index, target: bytes = b"/a") -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in held(index, target).bodies]


# Joining.


def test_ranges_of_one_representation_join_in_the_order_of_their_bytes():
    index = Index(PLENTY)
    for first in (500, 0, 200):
        assert put(index, part(first, first + 99)) == []
    assert parts(index) == [(0, 99), (200, 299), (500, 599)]
    assert index.ranges == Tally(3, 3 * 4096, HEAD + 3 * RANGE)
    assert (index.key_count, index.bodies.count) == (1, 0)


def test_a_range_answers_any_range_inside_it_and_no_other():
    index = Index(PLENTY)
    for first, last in ((100, 199), (150, 249), (400, 499)):
        put(index, part(first, last))
    found = held(index)
    inside = [(100, 199), (150, 160), (190, 249), (400, 400), (499, 499)]
    assert all(found.body_for(Part(*ends)) is not None for ends in inside)
    outside = [
        (0, 5),
        (99, 120),
        (100, 200),
        (180, 250),
        (250, 260),
        (300, 450),
        (490, 500),
        (600, 601),
    ]
    assert all(found.body_for(Part(*ends)) is None for ends in outside)


def test_a_range_takes_the_place_of_those_that_lie_within_it():
    index = Index(PLENTY)
    small = [part(first, first + 9) for first in (100, 120, 190, 300)]
    for each in small:
        put(index, each)
    assert put(index, part(100, 199, nonce=9)) == [replaced(each) for each in small[:3]]
    assert parts(index) == [(100, 199), (300, 309)]
    inner = part(150, 159)
    assert put(index, inner) == [replaced(inner)]
    assert parts(index) == [(100, 199), (300, 309)]


@pytest.mark.parametrize(
    ("lines", "length"),
    [((TWO,), 1000), ((ONE,), 1001), (('ETag: W/"1"',), 1000), (("X-Nothing: 1",), 1000)],
)
def test_two_generations_are_never_mixed(lines, length):
    index = Index(PLENTY)
    old = [part(0, 9), part(10, 19)]
    for each in old:
        put(index, each)
    new = part(20, 29, *lines, length=length)
    assert put(index, new) == [replaced(each) for each in old]
    assert parts(index) == [(20, 29)]
    # Of what has no strong validator not even two ranges that look alike join.
    if lines[0] not in (ONE, TWO):
        assert put(index, part(30, 39, *lines, length=length)) == [replaced(new)]


def test_a_newer_range_brings_the_head_of_all_up_to_date():
    index = Index(PLENTY)
    put(index, part(0, 9, asked=100.0))
    index.make_stale(key(b"/a"), "invalidated")
    assert held(index).must_validate
    put(index, part(10, 19, asked=200.0))
    assert (held(index).stored.requested_at, held(index).must_validate) == (earlier(100.0), True)
    put(index, part(20, 29, asked=50.0))
    assert (held(index).stored.requested_at, held(index).must_validate) == (earlier(50.0), False)


def test_what_fell_unseen_takes_in_no_range():
    """Another process's write stamped the object, and nobody has looked since."""
    index = Index(PLENTY)
    put(index, part(0, 9))
    lease = index.lease(key(b"/a"), LATER, NOW)
    new = replace(part(10, 19), token=LATER.token)
    assert index.store(lease, LATER, new, NOW) == [replaced(part(0, 9))]
    assert held(index) == new


# A whole body, a marker, a write.


def test_a_whole_body_of_the_same_generation_takes_in_ranges_and_gives_no_place_to_them():
    index = Index(PLENTY)
    ranges = [part(0, 9), part(10, 19)]
    for each in ranges:
        put(index, each)
    whole = body(b"/a", ONE, length=1000)
    assert put(index, whole) == [replaced(each) for each in ranges]
    assert whole.body_for(Part(5, 15)) is whole.body
    late = part(20, 29)
    assert put(index, late) == [replaced(late)]
    assert index.look_up(key(b"/a")) == replace(whole, stored=late.stored)


def test_a_range_of_another_generation_drops_the_whole_body():
    index = Index(PLENTY)
    old = body(b"/a", ONE, length=1000)
    put(index, old)
    assert put(index, part(0, 9, TWO)) == [Removal("body", "replaced", old.body)]
    assert parts(index) == [(0, 9)]


def test_an_absence_drops_all_ranges_and_a_range_drops_the_marker():
    index = Index(PLENTY)
    for first in (0, 10):
        put(index, part(first, first + 9))
    assert mark(index, b"/a") == [replaced(part(0, 9)), replaced(part(10, 19))]
    assert index.ranges == Tally()
    assert put(index, part(0, 9)) == [Removal("marker", "replaced")]


def test_a_drop_takes_all_ranges():
    index = Index(PLENTY)
    for first in (0, 10):
        put(index, part(first, first + 9))
    removed = index.drop_object(key(b"/a").object, "purged")
    assert [(each.kind, each.reason) for each in removed] == [("range", "purged")] * 2
    assert index.key_count == 0


def test_one_bad_range_goes_alone_and_the_last_takes_the_key():
    index = Index(PLENTY)
    for first in (0, 10):
        put(index, part(first, first + 9))
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.drop_file(file(part(0, 9)), "corrupt") == [
        Removal("range", "corrupt", file(part(0, 9)))
    ]
    assert index.drop_file(file(part(0, 9)), "corrupt") == []
    assert parts(index) == [(10, 19)]
    index.drop_file(file(part(10, 19)), "corrupt")
    assert index.look_up(key(b"/a")) is None
    assert lease.allows(STAMPS, NOW)


# The budget.


def test_ranges_and_bodies_are_evicted_in_one_order_of_use():
    index = Index(Limits(4 * 4096))
    put(index, part(0, 9))
    put(index, body(b"/b"))
    put(index, part(10, 19))
    other = part(0, 9, target=b"/c", nonce=99)
    put(index, other)
    index.touch_body(file(part(0, 9)))
    index.touch_body(body(b"/b").body)
    assert put(index, part(20, 29)) == [Removal("range", "budget", file(part(10, 19)))]
    assert put(index, part(30, 39)) == [
        Removal("range", "budget", file(part(0, 9, target=b"/c", nonce=99)))
    ]
    assert parts(index) == [(0, 9), (20, 29), (30, 39)]
    assert index.look_up(key(b"/c")) is None


def test_a_range_that_fits_nowhere_is_given_back_and_leaves_its_siblings():
    index = Index(Limits(2 * 4096, marker_reserve_bytes=10))
    put(index, part(0, 9))
    large = part(10, 19, blocks=17)
    assert put(index, large) == [Removal("range", "budget", file(large))]
    assert parts(index) == [(0, 9)]
    tight = Index(Limits(10**9, memory_bytes=2400))
    assert put(tight, part(0, 9)) == [Removal("range", "index_memory", file(part(0, 9)))]


def test_ranges_count_in_memory_with_the_key_that_they_hang_under():
    index = Index(Limits(10**9, memory_bytes=4000))
    put(index, part(0, 9))
    put(index, part(10, 19))
    # 1511 and twice 700, of three quarters of 4000.
    assert index.memory_in_use == HEAD + 2 * RANGE
    assert put(index, part(20, 29)) == [Removal("range", "index_memory", file(part(0, 9)))]


def test_touching_what_is_gone_does_nothing():
    index = Index(PLENTY)
    index.touch_body(file(part(0, 9)))
    index.touch_body(body(b"/a").body)
    assert index.key_count == 0


# Freshening.


def test_a_validation_freshens_all_ranges_of_what_it_asked_about():
    index = Index(PLENTY)
    put(index, part(0, 9))
    asked_about = held(index)
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    put(index, part(10, 19))
    index.make_stale(key(b"/a"), "purged")
    fresh = replace(asked_about.stored, initial_age=1.0)
    assert index.freshen(lease, STAMPS, asked_about, fresh, NOW) == []
    assert (held(index).stored, held(index).must_validate) == (fresh, False)
    assert parts(index) == [(0, 9), (10, 19)]


def test_a_validation_freshens_no_other_ranges():
    index = Index(PLENTY)
    old = part(0, 9, 'ETag: W/"1"')
    put(index, old)
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.freshen(lease, STAMPS, old, old.stored, NOW) == []
    index.adopt(part(0, 9))
    index.end(lease)
    put(index, part(10, 19, 'ETag: W/"1"'))
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.freshen(lease, STAMPS, old, old.stored, NOW) is None
    unseen = index.lease(key(b"/a"), LATER, NOW)
    mine = held(index)
    assert index.freshen(unseen, LATER, mine, mine.stored, NOW) is None


# Adoption.


def test_ranges_found_on_disk_join_in_any_order_and_the_newest_head_counts():
    index = Index(PLENTY)
    for first, asked in ((10, 30.0), (0, 20.0), (20, 40.0)):
        assert index.adopt(part(first, first + 9, asked=asked)) == []
    assert parts(index) == [(0, 9), (10, 19), (20, 29)]
    assert held(index).stored.requested_at == earlier(20.0)
    assert index.adopt(part(0, 9, asked=20.0)) is None
    index.check_invariants()


@pytest.mark.parametrize("is_newer", [True, False])
def test_of_two_generations_on_disk_the_one_that_was_asked_for_later_stays(is_newer):
    index = Index(PLENTY)
    index.adopt(part(0, 9, ONE, asked=50.0))
    other = part(10, 19, TWO, asked=10.0 if is_newer else 90.0)
    dead, alive = (part(0, 9), other) if is_newer else (other, part(0, 9, asked=50.0))
    assert index.adopt(other) == [replaced(dead)]
    assert held(index) == alive
    whole = replace(
        present(stored('ETag: "3"', key=key(b"/a"), requested_at=earlier(5.0)), inode=2),
        token=STAMPS.token,
    )
    assert index.adopt(whole) == [replaced(alive)]
    assert isinstance(index.look_up(key(b"/a")), Present)


def test_a_marker_is_newer_than_any_range_on_disk():
    index = Index(PLENTY)
    mark(index, b"/a")
    assert index.adopt(part(0, 9)) == [replaced(part(0, 9))]


def test_a_range_is_left_alone_while_its_key_is_asked_for():
    index = Index(PLENTY)
    lease = index.lease(key(b"/a"), STAMPS, NOW)
    assert index.adopt(part(0, 9)) is None
    index.end(lease)
    assert index.adopt(part(0, 9)) == []


# Files on their way.


def test_what_is_set_aside_makes_room_and_counts_until_it_is_given_back():
    index = Index(Limits(8 * 4096))
    for target in (b"/a", b"/b", b"/c", b"/d", b"/e", b"/f", b"/g", b"/h"):
        put(index, body(target))
    assert index.reserve(4096) == [evicted(body(b"/a"))]
    assert put(index, body(b"/i")) == [evicted(body(b"/b"))]
    assert index.reserve(4097) is None
    assert index.reserve(4096) == [evicted(body(b"/c"))]
    index.release(8192)
    assert put(index, body(b"/j")) == []
    index.check_invariants()


def test_markers_make_room_for_a_file_on_its_way_and_take_none_of_it():
    index = Index(Limits(4096, marker_reserve_bytes=MARKER))
    for number in range(9):
        mark(index, b"/%d" % number)
    assert index.reserve(1024) == []
    for number in range(9, 30):
        mark(index, b"/%d" % (number % 10))
    assert index.total_bytes <= 4096 - 1024
    assert Index(Limits(700, marker_reserve_bytes=700)).reserve(1) is None


def test_a_file_is_dropped_where_it_is_what_is_held():
    index = Index(PLENTY)
    old = body(b"/a", nonce=1)
    put(index, old)
    put(index, body(b"/a", nonce=2))
    assert index.drop_file(old.body, "retention") == []
    assert index.drop_file(body(b"/a", nonce=2).body, "retention") == [
        Removal("body", "retention", body(b"/a", nonce=2).body)
    ]
    assert index.drop_file(old.body, "retention") == []
