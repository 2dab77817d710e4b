"""What zarr-python writes: documents that are read, and the very keys."""

import importlib
from itertools import product
from typing import Any

import pytest

from chunkside.arrays.document import ARRAY_DOCUMENTS, parse_array

pytestmark = pytest.mark.client("zarr")


@pytest.fixture
def zarr() -> Any:
    return importlib.import_module("zarr")


def encoding(name, separator):
    return {"name": name, "configuration": {"separator": separator}}


WAYS = [
    *[{"zarr_format": 3, "chunk_key_encoding": encoding("default", each)} for each in "/."],
    *[{"zarr_format": 3, "chunk_key_encoding": encoding("v2", each)} for each in "/."],
    *[{"zarr_format": 2, "chunk_key_encoding": encoding("v2", each)} for each in "/."],
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: repr(list(way.values())))
@pytest.mark.parametrize(
    ("shape", "chunks"), [((), ()), ((7,), (2,)), ((5, 12), (2, 1)), ((3, 1, 4), (1, 1, 3))]
)
def test_the_keys_are_those_that_zarr_python_writes(zarr, tmp_path, way, shape, chunks):
    array = zarr.create_array(tmp_path, shape=shape, chunks=chunks, dtype="int16", **way)
    array[...] = 1
    read = of_directory(tmp_path)
    assert (read.grid.shape, read.grid.chunk_shape, read.item_bytes) == (shape, chunks, 2)
    assert sorted(read.grid.walk_keys()) == chunk_files(tmp_path)


def test_the_keys_of_shards_are_those_that_zarr_python_writes(zarr, tmp_path):
    array = zarr.create_array(
        tmp_path, shape=(20, 20), shards=(10, 5), chunks=(5, 5), dtype="float32"
    )
    array[...] = 1
    read = of_directory(tmp_path)
    assert read.inner_chunk_shape == (5, 5)
    assert sorted(read.grid.walk_keys()) == chunk_files(tmp_path)


def test_a_written_region_is_made_of_the_keys_that_a_slice_names(zarr, tmp_path):
    array = zarr.create_array(tmp_path, shape=(20, 30), chunks=(3, 4), dtype="int8")
    array[4:10, -7:] = 1
    grid = of_directory(tmp_path).grid
    region = grid.region([slice(4, 10), slice(-7, None)])
    assert sorted(grid.walk_keys(region)) == chunk_files(tmp_path)


@pytest.mark.parametrize(
    ("dtype", "zarr_format"),
    list(product(["bool", "uint8", "float64", "complex64", "datetime64[s]"], [2, 3])),
)
def test_an_element_has_the_bytes_that_numpy_says(zarr, tmp_path, dtype, zarr_format):
    array = zarr.create_array(
        tmp_path, shape=(2,), chunks=(2,), dtype=dtype, zarr_format=zarr_format
    )
    assert of_directory(tmp_path).item_bytes == array.dtype.itemsize


def of_directory(path):
    (document,) = [path / name for name in ARRAY_DOCUMENTS if (path / name).exists()]
    return parse_array(document.name, document.read_bytes())


def chunk_files(path):
    names = {"zarr.json", ".zarray", ".zattrs"}
    files = (each for each in path.rglob("*") if each.is_file() and each.name not in names)
    return sorted(each.relative_to(path).as_posix() for each in files)
