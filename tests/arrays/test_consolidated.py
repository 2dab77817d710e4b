"""Groups: which arrays their consolidated metadata tells of."""

import importlib
import json

import pytest

from chunkside.arrays.consolidated import MAX_ARRAYS, arrays_beneath
from chunkside.arrays.document import Array, NotAnArray, NotZarr, UnsupportedArray
from tests.arrays.samples import zarr2, zarr3

GROUP = {"zarr_format": 3, "node_type": "group"}


def group3(metadata):
    document = GROUP | {"consolidated_metadata": {"kind": "inline", "metadata": metadata}}
    return json.dumps(document).encode()


def group2(metadata):
    return json.dumps({"zarr_consolidated_format": 1, "metadata": metadata}).encode()


def found_in(name, body) -> dict[str, Array | NotAnArray]:
    found = arrays_beneath(name, body)
    assert found is not None
    return found


def grid_shapes(found: dict[str, Array | NotAnArray]) -> dict[str, tuple[int, ...]]:
    return {at: each.grid.grid_shape for at, each in found.items() if isinstance(each, Array)}


def test_a_group_of_v3_tells_of_its_arrays():
    array = json.loads(zarr3(shape=(7, 7)))
    found = found_in("zarr.json", group3({"a": array, "b": GROUP, "b/c d": array}))
    assert grid_shapes(found) == {"a": (2, 2), "b/c d": (2, 2)}


def test_a_group_of_v2_tells_of_its_arrays():
    array = json.loads(zarr2(shape=(7, 7)))
    members = {".zgroup": {}, "a/.zarray": array, "a/.zattrs": {}, "b/c/.zarray": array}
    found = found_in(".zmetadata", group2(members))
    assert grid_shapes(found) == {"a": (2, 2), "b/c": (2, 2)}


def test_an_array_that_can_t_be_walked_is_told_beside_the_others():
    odd = json.loads(zarr3(chunk_grid={"name": "rectilinear"}))
    found = found_in("zarr.json", group3({"a": odd, "b": json.loads(zarr3())}))
    assert isinstance(found["a"], UnsupportedArray)
    assert isinstance(found["b"], Array)


@pytest.mark.parametrize(
    "document", [json.dumps(GROUP).encode(), json.dumps({"consolidated_metadata": 5}).encode()]
)
def test_a_group_that_consolidates_nothing_tells_of_none(document):
    assert arrays_beneath("zarr.json", document) is None


@pytest.mark.parametrize("path", ["../a", "a/../b", "/a", "a//b", "a/.", ".."])
def test_no_array_lies_outside_of_its_group(path):
    with pytest.raises(NotZarr, match="beneath"):
        arrays_beneath("zarr.json", group3({path: json.loads(zarr3())}))


def test_a_group_of_too_many_arrays_is_refused():
    array = json.loads(zarr3(shape=(), chunks=()))
    with pytest.raises(NotZarr, match="more than"):
        arrays_beneath("zarr.json", group3({f"a{n}": array for n in range(MAX_ARRAYS + 1)}))


@pytest.mark.client("zarr")
@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_what_zarr_python_consolidates_is_read(tmp_path):
    zarr = importlib.import_module("zarr")
    for zarr_format, name in ((2, ".zmetadata"), (3, "zarr.json")):
        path = tmp_path / name.strip(".")
        group = zarr.create_group(path, zarr_format=zarr_format)
        group.create_array("a", shape=(4, 6), chunks=(2, 2), dtype="int16")
        group.create_group("g").create_array("b", shape=(4,), chunks=(1,), dtype="bool")
        zarr.consolidate_metadata(path)
        found = found_in(name, (path / name).read_bytes())
        assert grid_shapes(found) == {"a": (2, 3), "g/b": (4,)}
