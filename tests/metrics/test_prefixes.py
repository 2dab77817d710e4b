"""The most frequent prefixes, in bounded room."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.metrics.prefixes import SpaceSaving, prefix_of


@pytest.mark.parametrize(
    ("target", "prefix"),
    [
        (b"/a.zarr/c/0/1", "/a.zarr"),
        (b"/a.zarr/0.1", "/a.zarr"),
        (b"/a.zarr/c.0.1", "/a.zarr"),
        (b"/img.zarr/3/c/0/1", "/img.zarr/3"),
        (b"/n5/s0/0/12/3", "/n5/s0"),
        (b"/c/0", "/"),
        (b"/a/zarr.json", "/a"),
        (b"/a/b.parquet", "/a"),
        (b"/a/", "/a"),
        (b"/", "/"),
        (b"*", "/"),
        (b"http://host/a/c/0", "/a"),
        (b"/caf%C3%A9/c/0", "/caf%C3%A9"),
        (b"/\xff/c/0", "/\\xff"),
        (b"/a/c", "/a"),
    ],
    ids=lambda value: value.decode("latin-1") if isinstance(value, bytes) else None,
)
def test_the_prefix_is_the_path_of_the_array(target, prefix):
    assert prefix_of(target) == prefix


def test_a_signature_in_a_query_is_never_part_of_a_prefix():
    assert prefix_of(b"/a/c/0?X-Amz-Signature=secret/1") == "/a"
    assert prefix_of(b"/a/c/0%3FX-Amz-Signature=secret&X-Amz-Credential=k/1/s3") == "/a"


def test_a_prefix_has_a_greatest_length():
    assert len(prefix_of(b"/" + b"x" * 10_000 + b"/c/0")) == 256


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 31)), max_size=300))
def test_counts_are_never_too_low_and_too_high_by_no_more_than_is_told(added):
    sketch, true = SpaceSaving(8), Counter[str]()
    for item, times in added:
        sketch.add(str(item), times)
        true[str(item)] += times
    counted = sketch.top(8)
    for each in counted:
        assert true[each.item] <= each.count <= true[each.item] + each.excess
    # Whatever is more than an eighth of all is surely there.
    heavy = {item for item, n in true.items() if n > true.total() / 8}
    assert heavy <= {each.item for each in counted}


def test_a_flood_of_prefixes_takes_no_more_room_and_leaves_the_most_frequent():
    sketch, chance = SpaceSaving(64), random.Random(7)
    for number in range(20_000):
        sketch.add("hot" if chance.random() < 0.2 else f"cold {number}")
    assert len(sketch.top(1000)) == 64
    assert sketch.top(1)[0].item == "hot"
