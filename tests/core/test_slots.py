import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.entry import Absent, Now
from chunkside.core.slots import BODIES, MARKERS, Slots
from tests.core.samples import NOW, present, stored

BODY = present(stored())


def test_an_empty_list_has_no_oldest():
    slots = Slots()
    assert slots.oldest(MARKERS) is None
    assert slots.oldest(BODIES) is None
    assert slots.in_order(MARKERS) == []


def test_markers_and_bodies_are_in_order_of_use_each_for_itself():
    slots = Slots()
    a, b = slots.add(b"/a", 0), slots.add(b"/b", 0)
    body = slots.add(BODY, 0)
    c = slots.add(b"/c", 0)
    assert slots.in_order(MARKERS) == [a, b, c]
    slots.touch(a)
    assert slots.in_order(MARKERS) == [b, c, a]
    assert slots.in_order(BODIES) == [body]
    assert (slots.oldest(MARKERS), slots.oldest(BODIES)) == (b, body)


def test_a_place_that_was_freed_is_used_again():
    slots = Slots()
    a, b = slots.add(b"/a", 3), slots.add(b"/b", 3)
    slots.free(a)
    assert slots.what[a] is None
    assert slots.in_order(MARKERS) == [b]
    again = slots.add(BODY, 5)
    assert again == a
    assert slots.space(again) == 5
    assert slots.what[again] is BODY
    assert (slots.in_order(MARKERS), slots.in_order(BODIES)) == ([b], [a])


def test_a_place_used_again_remembers_nothing_of_the_one_before():
    slots = Slots()
    first = slots.add(b"/a", 1)
    slots.pack(first, Absent(410, NOW, 9.0, 8, allows_any_origin=True))
    slots.free(first)
    again = slots.add(b"/b", 2)
    slots.pack(again, Absent(404, NOW, 7.0, 6, allows_any_origin=False))
    assert (slots.space(again), slots.unpack(again).status) == (2, 404)
    assert not slots.unpack(again).allows_any_origin


@pytest.mark.parametrize("status", [404, 410])
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
def test_order_agrees_with_a_plain_list(steps):
    slots = Slots()
    model: list[int] = []
    for step, choice in steps:
        if step == "add":
            model.append(slots.add(b"/%d" % choice, 0))
        elif model:
            slot = model.pop(choice % len(model))
            if step == "free":
                slots.free(slot)
            else:
                slots.touch(slot)
                model.append(slot)
        assert slots.in_order(MARKERS) == model
        assert slots.oldest(MARKERS) == (model[0] if model else None)
        assert slots.in_order(BODIES) == []
