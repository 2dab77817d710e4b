import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.entry import Absent, Now
from chunkside.core.slots import BODIES, COLD, HOT, Slots
from tests.core.samples import NOW, present, stored

BODY = present(stored())


def test_an_empty_list_has_no_oldest():
    slots = Slots()
    assert slots.oldest(COLD) is None
    assert slots.oldest(BODIES) is None
    assert slots.in_order(COLD) == []


def test_markers_and_bodies_are_in_order_of_use_each_for_itself():
    slots = Slots()
    a, b = slots.add(b"/a", 0), slots.add(b"/b", 0)
    body = slots.add(BODY, 0)
    c = slots.add(b"/c", 0)
    assert slots.in_order(COLD) == [a, b, c]
    slots.touch(a)
    assert slots.markers() == [b, c, a]
    assert slots.in_order(BODIES) == [body]
    assert (slots.oldest(COLD), slots.oldest(HOT), slots.oldest(BODIES)) == (b, a, body)


def test_a_body_that_is_used_goes_to_the_used_end():
    slots = Slots()
    a, b = slots.add(BODY, 0), slots.add(BODY, 0)
    slots.touch(a)
    assert slots.in_order(BODIES) == [b, a]


def test_cold_markers_go_first_unless_hot_ones_are_more_than_four_fifths():
    slots = Slots()
    hot = [slots.add(b"/hot%d" % number, 0) for number in range(5)]
    for slot in hot:
        slots.touch(slot)
    assert slots.marker_to_evict() == hot[0]
    cold = slots.add(b"/cold", 0)
    assert slots.marker_to_evict() == hot[0]
    slots.free(hot[0])
    assert slots.marker_to_evict() == cold
    slots.free(cold)
    assert slots.marker_to_evict() == hot[1]


def test_there_is_no_marker_to_evict_where_there_is_none():
    assert Slots().marker_to_evict() is None


def test_a_marker_that_is_packed_stays_as_hot_as_it_was():
    slots = Slots()
    slot = slots.add(b"/a", 7)
    slots.touch(slot)
    slots.pack(slot, Absent(410, NOW, 9.0, 8, allows_any_origin=True))
    assert slots.in_order(HOT) == [slot]
    slots.free(slot)
    assert slots.markers() == []
    assert slots.in_order(COLD) == []


def test_a_place_that_was_freed_is_used_again():
    slots = Slots()
    a, b = slots.add(b"/a", 3), slots.add(b"/b", 3)
    slots.free(a)
    assert slots.what[a] is None
    assert slots.in_order(COLD) == [b]
    again = slots.add(BODY, 5)
    assert again == a
    assert slots.space(again) == 5
    assert slots.what[again] is BODY
    assert (slots.in_order(COLD), slots.in_order(BODIES)) == ([b], [a])


def test_a_place_used_again_remembers_nothing_of_the_one_before():
    slots = Slots()
    first = slots.add(b"/a", 1)
    slots.pack(first, Absent(410, NOW, 9.0, 8, allows_any_origin=True))
    slots.free(first)
    again = slots.add(b"/b", 2)
    slots.pack(again, Absent(404, NOW, 7.0, 6, allows_any_origin=False))
    assert (slots.space(again), slots.unpack(again).status) == (2, 404)
    assert not slots.unpack(again).allows_any_origin


@pytest.mark.parametrize("status", [403, 404, 410])
@pytest.mark.parametrize("allows_any_origin", [True, False])
@pytest.mark.parametrize("lifetime", [0.5, 300.0, 86_400.0, 2.0**31, math.inf])
@pytest.mark.parametrize("space", [0, 7, 2**24 - 1])
def test_an_absence_is_unpacked_as_it_was_packed(status, allows_any_origin, lifetime, space):
    slots = Slots()
    slot = slots.add(b"/a", space)
    slots.pack(slot, Absent(status, Now(12.25, 99.0), lifetime, 2**64 - 1, allows_any_origin))
    assert slots.space(slot) == space
    assert slots.unpack(slot) == Absent(
        status, Now(12.25, 100.0), lifetime, 2**64 - 1, allows_any_origin
    )


@pytest.mark.parametrize(
    ("wall", "kept"),
    [(99.0, 100.0), (99.5, 100.0), (-5.0, 0.0), (0.0, 1.0), (2.0**33, 4294967295.0)],
)
def test_the_wall_clock_is_kept_in_whole_seconds_rounded_up(wall, kept):
    slots = Slots()
    slot = slots.add(b"/a", 0)
    slots.pack(slot, Absent(404, Now(1.0, wall), 300.0, 0, allows_any_origin=False))
    assert slots.unpack(slot).requested_at == Now(1.0, kept)


@given(st.lists(st.tuples(st.sampled_from(["add", "free", "touch"]), st.integers(0, 9))))
def test_order_agrees_with_plain_lists(steps):
    slots = Slots()
    cold: list[int] = []
    hot: list[int] = []
    for step, choice in steps:
        if step == "add":
            cold.append(slots.add(b"/%d" % choice, 0))
        elif cold + hot:
            slot = (cold + hot)[choice % len(cold + hot)]
            (cold if slot in cold else hot).remove(slot)
            if step == "free":
                slots.free(slot)
            else:
                slots.touch(slot)
                hot.append(slot)
        assert (slots.in_order(COLD), slots.in_order(HOT)) == (cold, hot)
        first = hot if len(hot) > 4 * len(cold) else cold
        assert slots.marker_to_evict() == (first[0] if first else None)
        assert slots.in_order(BODIES) == []
