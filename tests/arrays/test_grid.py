"""Grids: keys and coordinates, counts, regions."""

import sys
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.arrays.grid import ChunkGrid, ChunkKeys, Region

DEFAULT = ChunkKeys("/", "c")
DEFAULT_WITH_DOTS = ChunkKeys(".", "c")
V2 = ChunkKeys(".")
V2_NESTED = ChunkKeys("/")
N5 = ChunkKeys("/", is_reversed=True)

key_encodings = st.sampled_from([DEFAULT, DEFAULT_WITH_DOTS, V2, V2_NESTED])
lengths = st.integers(0, 2**63 - 1)


@st.composite
def chunks_of_grids(draw):
    """A grid that isn't empty, and the coordinates of one of its chunks."""
    rank = draw(st.integers(0, 6))
    shape = tuple(draw(st.integers(1, 2**63 - 1)) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, 2**63 - 1)) for _ in range(rank))
    keys = draw(st.just(N5) | key_encodings) if rank else draw(key_encodings)
    grid = ChunkGrid(shape, chunks, keys)
    return grid, tuple(draw(st.integers(0, length - 1)) for length in grid.grid_shape)


@pytest.mark.parametrize(
    ("keys", "coordinates", "key"),
    [
        pytest.param(DEFAULT, (0, 12), "c/0/12", id="default"),
        pytest.param(DEFAULT, (), "c", id="default, no dimensions"),
        pytest.param(DEFAULT_WITH_DOTS, (0, 12), "c.0.12", id="default with dots"),
        pytest.param(DEFAULT_WITH_DOTS, (), "c", id="default with dots, no dimensions"),
        pytest.param(V2, (0, 12), "0.12", id="v2"),
        pytest.param(V2, (7,), "7", id="v2, one dimension"),
        pytest.param(V2, (), "0", id="v2, no dimensions"),
        pytest.param(V2_NESTED, (0, 12), "0/12", id="v2 nested"),
        pytest.param(N5, (1, 2, 3), "3/2/1", id="n5: the fastest first"),
    ],
)
def test_coordinates_and_keys_are_each_other_s_inverse(keys, coordinates, key):
    assert keys.key(coordinates) == key
    assert keys.coordinates(key, len(coordinates)) == coordinates


@given(chunks_of_grids())
def test_a_key_leads_back_to_its_coordinates(chunk):
    grid, coordinates = chunk
    assert grid.coordinates(grid.key(coordinates)) == coordinates


@given(st.text("c./0129x", max_size=12), st.integers(0, 4), st.just(N5) | key_encodings)
def test_whatever_is_taken_for_a_key_is_spelled_so_by_the_array(text, rank, keys):
    grid = ChunkGrid((10**6,) * rank, (1,) * rank, keys)
    found = grid.coordinates(text)
    assert found is None or grid.key(found) == text


@pytest.mark.parametrize(
    "key",
    [
        *("", "c", "c/", "c/0", "c/0/0/0", "c/0/", "/c/0/0", "C/0/0", "c.0.0", "0/0", "c/0/00"),
        *("c/0/-1", "c/0/+1", "c/0/1_0", "c/0/ 1", "c/0/٣", "c/0/1\n", "c/2/0", "c/0/4"),
        *("zarr.json", "c/0/zarr.json", "c/0/" + "9" * 5000, "c" + "/0" * 100_000),
    ],
)
def test_what_is_no_key_of_the_grid_has_no_coordinates(key):
    assert ChunkGrid((10, 20), (5, 5), DEFAULT).coordinates(key) is None


@pytest.mark.parametrize("coordinates", [(), (0,), (0, 0, 0), (2, 0), (0, 4), (-1, 0)])
def test_what_is_no_chunk_of_the_grid_has_no_key(coordinates):
    with pytest.raises(ValueError, match="no chunk"):
        ChunkGrid((10, 20), (5, 5), DEFAULT).key(coordinates)


@pytest.mark.parametrize(
    ("shape", "chunks", "grid_shape", "count"),
    [
        pytest.param((10, 20), (5, 5), (2, 4), 8, id="exact"),
        pytest.param((11, 1), (5, 5), (3, 1), 3, id="the last ones hang over"),
        pytest.param((), (), (), 1, id="no dimensions: one chunk"),
        pytest.param((10, 0), (5, 5), (2, 0), 0, id="empty"),
        pytest.param((0,), (0,), (0,), 0, id="empty, of chunks of none"),
        pytest.param((2**63 - 1,) * 3, (1,) * 3, (2**63 - 1,) * 3, (2**63 - 1) ** 3, id="vast"),
    ],
)
def test_chunks_are_counted(shape, chunks, grid_shape, count):
    grid = ChunkGrid(shape, chunks, DEFAULT)
    assert (grid.grid_shape, grid.count, grid.region().count) == (grid_shape, count, count)


def test_chunks_are_walked_in_c_order():
    grid = ChunkGrid((3, 2, 4), (1, 1, 2), V2)
    keys = list(grid.walk_keys())
    assert keys[:5] == ["0.0.0", "0.0.1", "0.1.0", "0.1.1", "1.0.0"]
    assert len(keys) == len(set(keys)) == grid.count
    assert list(grid.region()) == sorted(grid.region())


def test_an_array_of_no_dimensions_is_one_chunk():
    assert list(ChunkGrid((), (), DEFAULT).walk_keys()) == ["c"]
    assert list(ChunkGrid((), (), V2).walk_keys()) == ["0"]


def test_a_vast_grid_is_walked_and_never_held():
    grid = ChunkGrid((2**63 - 1,) * 64, (1,) * 64, DEFAULT)
    first, second = islice(grid.walk_keys(), 2)
    assert grid.count > sys.maxsize
    assert (grid.coordinates(first), grid.coordinates(second)) == ((0,) * 64, (0,) * 63 + (1,))


@pytest.mark.parametrize("shape", [(2**62, 0), (0, 2**62), (2**62, 0, 2**62)])
def test_an_empty_array_is_walked_in_no_time(shape):
    assert list(ChunkGrid(shape, (1,) * len(shape), DEFAULT).walk_keys()) == []


@pytest.mark.parametrize(
    ("elements", "ranges"),
    [
        pytest.param([], (range(2), range(4)), id="all"),
        pytest.param([slice(0, 5)], (range(1), range(4)), id="what is left out is whole"),
        pytest.param([slice(4, 6), slice(5, 6)], (range(2), range(1, 2)), id="across a border"),
        pytest.param([slice(None), slice(-1, None)], (range(2), range(3, 4)), id="from the end"),
        pytest.param([slice(0, 10**9)], (range(2), range(4)), id="cut to the array"),
        pytest.param([slice(5, 5)], (range(0), range(4)), id="of nothing"),
        pytest.param([slice(7, 3)], (range(0), range(4)), id="turned around"),
    ],
)
def test_a_slice_is_made_of_the_chunks_that_hold_its_elements(elements, ranges):
    assert ChunkGrid((10, 20), (5, 5), DEFAULT).region(elements) == Region(ranges)


@given(st.integers(0, 50), st.integers(1, 60), st.integers(-60, 60), st.integers(-60, 60))
def test_a_slice_leaves_no_chunk_out_and_takes_none_too_many(length, chunk, first, stop):
    grid = ChunkGrid((length,), (chunk,), DEFAULT)
    holding = {at // chunk for at in range(length)[first:stop]}
    assert {at for (at,) in grid.region([slice(first, stop)])} == holding


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=4))
def test_an_ordinal_is_the_place_in_the_walk(bounds):
    region = Region(tuple(range(first, first + length) for first, length in bounds))
    assert [region.ordinal(each) for each in region] == list(range(region.count))


@pytest.mark.parametrize(
    ("elements", "sentence"),
    [([slice(None)] * 3, "3 slices"), ([slice(0, 9, 2)], "step"), ([slice(9, 0, -1)], "step")],
)
def test_what_is_no_block_of_elements_is_refused(elements, sentence):
    with pytest.raises(ValueError, match=sentence):
        ChunkGrid((10, 20), (5, 5), DEFAULT).region(elements)


@given(st.lists(st.tuples(lengths, st.integers(1, 2**63 - 1)), max_size=5))
def test_there_are_as_many_chunks_as_elements_need(dimensions):
    grid = ChunkGrid(tuple(s for s, _ in dimensions), tuple(c for _, c in dimensions), DEFAULT)
    for length, chunk, number in zip(grid.shape, grid.chunk_shape, grid.grid_shape, strict=True):
        assert (number - 1) * chunk < length <= number * chunk or number == length == 0
