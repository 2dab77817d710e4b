"""Planes of chunk grids: which chunks a map looks at, and where it shows them."""

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkside.arrays.grid import ChunkGrid, ChunkKeys
from chunkside.arrays.plane import (
    MOST_CELLS,
    MOST_CHUNKS,
    parse_selection,
    plane_of,
    spelled,
)

KEYS = [
    *(ChunkKeys("/", "c"), ChunkKeys(".", "c"), ChunkKeys(".")),
    *(ChunkKeys("/"), ChunkKeys("/", is_reversed=True)),
]


def grid(*shape, keys=KEYS[0], chunk=1):
    return ChunkGrid(shape, (chunk,) * len(shape), keys)


def keys_of(plane, row, column):
    return [key.decode() for batch in plane.batches(row, column, b"") for key in batch]


def all_keys(plane):
    height, width = plane.shape
    return [key for at in product(range(height), range(width)) for key in keys_of(plane, *at)]


@pytest.mark.parametrize("keys", KEYS, ids=str)
@pytest.mark.parametrize(
    ("shape", "selection"),
    [
        ((), None),
        ((7,), None),
        ((150,), None),
        ((5,), "3"),
        ((3, 4), None),
        ((3, 4), "1,:"),
        ((3, 4), ":,2"),
        ((3, 4, 5, 6), "1,:,2,:"),
        ((3, 4, 5, 6), "1,2:4,:3,5"),
        ((3, 4, 5, 6), ":,0,0"),
        ((200, 3), None),
        ((0, 3), None),
        ((0, 3, 4), None),
    ],
    ids=str,
)
def test_every_chunk_of_a_plane_is_in_one_cell_by_the_key_that_its_array_gives_it(
    shape, selection, keys
):
    plane = plane_of(
        grid(*shape, keys=keys), None if selection is None else parse_selection(selection)
    )
    wanted = [keys.key(at) for at in product(*plane.ranges)]
    assert sorted(all_keys(plane)) == sorted(wanted)
    assert plane.count == len(wanted)


def test_rows_and_columns_are_where_their_dimensions_say():
    plane = plane_of(grid(4, 6, 9), parse_selection("2,1:4,:"))
    assert plane.shape == (3, 9)
    assert keys_of(plane, 0, 0) == ["c/2/1/0"]
    assert keys_of(plane, 2, 8) == ["c/2/3/8"]
    assert (plane.first_chunk(2, 0), plane.first_chunk(0, 8)) == (3, 8)


def test_one_dimension_goes_on_in_the_next_row():
    plane = plane_of(grid(130), None)
    assert plane.shape == (3, 64)
    assert [keys_of(plane, *at) for at in ((1, 0), (2, 1), (2, 2))] == [["c/64"], ["c/129"], []]
    assert plane.first_chunk(2, 0) == 128


def test_a_slice_is_of_elements_as_in_numpy():
    plane = plane_of(grid(100, 100, chunk=10), parse_selection("15:35,-1"))
    assert [list(each) for each in plane.ranges] == [[1, 2, 3], [9]]


def test_left_out_dimensions_count_whole_and_by_default_the_last_two_are_shown():
    assert plane_of(grid(3, 4, 5, 6), None).axes == (2, 3)
    assert plane_of(grid(3, 4, 5, 6), parse_selection("1,2")).axes == (2, 3)
    assert plane_of(grid(3), None).axes == (0,)
    assert plane_of(grid(), None).axes == ()


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        (":,:,:", "Two dimensions can be shown at once, not 3"),
        ("0,0,0,0", "There are 4 numbers and slices, for 3 dimensions."),
        ("9,:,:", "9 is no element of a dimension of 3."),
        ("-4,:,:", "-4 is no element"),
    ],
)
def test_what_can_not_be_shown_is_said(selection, said):
    with pytest.raises(ValueError, match=said):
        plane_of(grid(3, 3, 3), parse_selection(selection))


@pytest.mark.parametrize("text", ["", "a", "1:2:3", "1,", "0x1", "1 2", "9" * 20])
def test_what_is_no_selection_is_said(text):
    with pytest.raises(ValueError, match="is neither a number nor a slice"):
        parse_selection(text)


@given(
    st.lists(
        st.one_of(
            st.integers(-9, 9),
            st.builds(slice, *[st.one_of(st.none(), st.integers(-9, 9))] * 2),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_selection_is_read_as_it_is_spelled(selection):
    assert parse_selection(spelled(selection)) == tuple(selection)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=4))
def test_cells_and_chunks_looked_at_are_bounded_whatever_a_document_says(shape):
    plane = plane_of(grid(*shape), None)
    height, width = plane.shape
    assert height <= MOST_CELLS
    assert width <= MOST_CELLS
    (down, across), (step_down, step_across) = plane.per_cell, plane.steps
    looked_at = height * width * math.ceil(down / step_down) * math.ceil(across / step_across)
    assert looked_at <= 4 * MOST_CHUNKS
    if height and width:
        assert next(plane.batches(0, 0, b""))[0].decode() == "/".join(["c", *["0"] * len(shape)])
        assert next(plane.batches(height - 1, 0, b""))


def test_of_a_million_chunks_each_is_looked_at():
    plane = plane_of(grid(1000, 1000), None)
    assert (plane.shape, plane.per_cell, plane.steps) == ((63, 63), (16, 16), (1, 1))
    assert len(set(keys_of(plane, 0, 0))) == 256
    # The last bins are short.
    assert len(keys_of(plane, 62, 62)) == 64
    assert plane.is_binned


def test_of_more_a_sample_is_spread_over_each_bin():
    plane = plane_of(grid(4096, 4096), None)
    assert (plane.per_cell, plane.steps) == ((64, 64), (4, 4))
    sample = [key.split("/")[1:] for key in keys_of(plane, 1, 2)]
    assert {int(row) for row, _ in sample} == set(range(64, 128, 4))
    assert {int(column) for _, column in sample} == set(range(128, 192, 4))


def test_a_batch_is_never_long():
    plane = plane_of(grid(1, 1_000_000), None)
    assert max(len(batch) for batch in plane.batches(0, 0, b"")) <= 512
