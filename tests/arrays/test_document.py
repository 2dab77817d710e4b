"""Documents: what is an array, what isn't and why, and that none can do harm."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.arrays.document import (
    MAX_DOCUMENT_BYTES,
    GroupDocument,
    NotAnArray,
    NotZarr,
    UnsupportedArray,
    parse_array,
)
from chunkside.arrays.grid import ChunkGrid, ChunkKeys
from tests.arrays.samples import n5, zarr2, zarr3

SHARDED = [
    {"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 5], "codecs": []}},
]


def encoding(name, **configuration):
    return {"name": name, "configuration": configuration}


@pytest.mark.parametrize(
    ("name", "document", "keys"),
    [
        pytest.param("zarr.json", zarr3(), ChunkKeys("/", "c"), id="v3"),
        pytest.param(
            "zarr.json",
            zarr3(chunk_key_encoding=encoding("default", separator=".")),
            ChunkKeys(".", "c"),
            id="v3, dots",
        ),
        pytest.param(
            "zarr.json",
            zarr3(chunk_key_encoding={"name": "default"}),
            ChunkKeys("/", "c"),
            id="v3, as default has it",
        ),
        pytest.param(
            "zarr.json", zarr3(chunk_key_encoding="v2"), ChunkKeys("."), id="v3, keys of v2"
        ),
        pytest.param(
            "zarr.json",
            zarr3(chunk_key_encoding=encoding("v2", separator="/")),
            ChunkKeys("/"),
            id="v3, keys of v2, nested",
        ),
        pytest.param(".zarray", zarr2(), ChunkKeys("."), id="v2"),
        pytest.param(".zarray", zarr2(dimension_separator="/"), ChunkKeys("/"), id="v2, nested"),
        pytest.param(
            ".zarray", zarr2(dimension_separator=None), ChunkKeys("."), id="v2, none given"
        ),
        pytest.param("attributes.json", n5(), ChunkKeys("/", is_reversed=True), id="n5"),
    ],
)
def test_an_array_is_read(name, document, keys):
    array = parse_array(name, document)
    assert array.grid == ChunkGrid((10, 20), (5, 5), keys)
    assert (array.item_bytes, array.chunk_bytes) == (2, 50)


def test_n5_is_turned_around():
    grid = parse_array("attributes.json", n5([30, 20, 10], [3, 2, 1])).grid
    assert (grid.shape, grid.chunk_shape) == ((10, 20, 30), (1, 2, 3))
    assert grid.key((9, 0, 1)) == "1/0/9"


def test_the_chunks_of_a_sharded_array_are_its_shards():
    array = parse_array("zarr.json", zarr3(codecs=SHARDED))
    assert (array.grid.grid_shape, array.inner_chunk_shape) == ((2, 4), (1, 5))


@pytest.mark.parametrize(
    ("name", "document", "error", "sentence"),
    [
        pytest.param("zarr.json", zarr3(node_type="group"), GroupDocument, "group", id="v3 group"),
        pytest.param(".zgroup", b'{"zarr_format": 2}', GroupDocument, "group", id="v2 group"),
        pytest.param(".zmetadata", b"{}", GroupDocument, "group", id="v2 consolidated"),
        pytest.param("attributes.json", b'{"n5": "2.0"}', GroupDocument, "group", id="n5 group"),
        pytest.param(
            "zarr.json",
            zarr3(chunk_grid=encoding("rectilinear", chunk_shapes=[[5, 5], [4, 16]])),
            UnsupportedArray,
            '"rectilinear"',
            id="an irregular grid",
        ),
        pytest.param(
            "zarr.json",
            zarr3(chunk_key_encoding="morton"),
            UnsupportedArray,
            '"morton"',
            id="other keys",
        ),
        pytest.param(
            "zarr.json",
            zarr3(storage_transformers=[{"name": "elsewhere"}]),
            UnsupportedArray,
            "storage transformers",
            id="a storage transformer",
        ),
        pytest.param("index.html", b"<html>", NotZarr, "index.html", id="no such document"),
        pytest.param(".zarray", b"<html>", NotZarr, "not JSON", id="a page"),
        pytest.param(".zarray", b"\xff\xfe", NotZarr, "not JSON", id="not UTF-8"),
        pytest.param(".zarray", b"", NotZarr, "not JSON", id="nothing"),
        pytest.param(".zarray", b"[]", NotZarr, "not an object", id="a list"),
        pytest.param(".zarray", zarr3(), NotZarr, "zarr_format", id="v3 in v2's place"),
        pytest.param("zarr.json", zarr2(), NotZarr, "zarr_format", id="v2 in v3's place"),
        pytest.param("zarr.json", zarr3(zarr_format=3.0), NotZarr, "zarr_format", id="a float"),
        pytest.param("zarr.json", zarr3(node_type="x"), NotZarr, "node_type", id="another node"),
        pytest.param("zarr.json", zarr3(shape=[1]), NotZarr, "dimensions", id="ranks differ"),
        pytest.param(".zarray", zarr2(chunks=[5, 0]), NotZarr, "length is 0", id="chunks of none"),
        pytest.param(".zarray", zarr2(shape=[5, -1]), NotZarr, "`shape`", id="negative"),
        pytest.param(".zarray", zarr2(shape=[5, 2.0]), NotZarr, "2.0", id="a length that floats"),
        pytest.param(".zarray", zarr2(shape=[5, True]), NotZarr, "True", id="a length of true"),
        pytest.param(".zarray", zarr2(shape=[5, 2**63]), NotZarr, "`shape`", id="too long"),
        pytest.param(".zarray", zarr2(shape=[5, "9"]), NotZarr, '"9"', id="a length of text"),
        pytest.param(".zarray", zarr2(shape=[5, {}]), NotZarr, "an object", id="a length of {}"),
        pytest.param(".zarray", zarr2([1] * 65, [1] * 65), NotZarr, "64", id="too many dimensions"),
        pytest.param(".zarray", zarr2()[:-1] + b', "shape": null}', NotZarr, "list", id="no shape"),
        pytest.param(
            ".zarray", zarr2(dimension_separator="-"), NotZarr, "separator", id="a separator"
        ),
        pytest.param("zarr.json", zarr3(codecs={}), NotZarr, "`codecs`", id="codecs in an object"),
        pytest.param("zarr.json", zarr3(codecs=[5]), NotZarr, "`codecs`", id="a codec of no name"),
        pytest.param("zarr.json", zarr3(chunk_grid=5), NotZarr, "chunk_grid", id="no grid"),
        pytest.param(
            "zarr.json",
            zarr3(codecs=[encoding("sharding_indexed", chunk_shape=[1])]),
            NotZarr,
            "shards",
            id="shards of another rank",
        ),
        pytest.param("attributes.json", n5([], []), NotZarr, "empty", id="n5 of no dimensions"),
    ],
)
def test_what_is_no_array_is_told_in_a_sentence(name, document, error, sentence):
    with pytest.raises(error) as refusal:
        parse_array(name, document)
    text = str(refusal.value)
    assert sentence in text and text.endswith(".") and len(text) < 300


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(b"[" * 200_000, id="deep"),
        pytest.param(b'{"shape":' * 100_000 + b"1" + b"}" * 100_000, id="deep, and closed"),
        pytest.param(b'{"zarr_format": ' + b"2" * 100_000 + b"}", id="a number of many digits"),
        pytest.param(b" " * (MAX_DOCUMENT_BYTES + 1), id="long"),
        pytest.param(b'{"zarr_format": 2, "shape": [1e400]}', id="an infinite length"),
        pytest.param(zarr2([1] * 1_000_000, [1]), id="a million dimensions"),
    ],
)
def test_a_hostile_document_is_refused(document):
    with pytest.raises(NotZarr):
        parse_array(".zarray", document)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "configuration", "chunk_shape"]), inner)
    ),
    max_leaves=8,
)


@given(
    st.sampled_from([("zarr.json", zarr3()), (".zarray", zarr2()), ("attributes.json", n5())]),
    st.data(),
)
def test_any_member_may_be_anything(sample, data):
    name, body = sample
    document = json.loads(body)
    member = data.draw(st.sampled_from(sorted(document)))
    document[member] = data.draw(json_values)
    assert outcome(name, json.dumps(document).encode())


@given(st.sampled_from(["zarr.json", ".zarray", "attributes.json"]), st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(name, body):
    assert outcome(name, body)


def outcome(name, body):
    """That an array is read, or none; whatever else is raised is the test's end."""
    try:
        return parse_array(name, body).grid.count >= 0
    except NotAnArray as error:
        return str(error).endswith(".")


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        *[("<f4", 4), ("|b1", 1), (">i8", 8), ("|S10", 10), ("<U10", 40), ("|V16", 16)],
        *[("<M8[ns]", 8), ("<c16", 16), ("|u1", 1), ("|O", None), ("float", None), (5, None)],
        *[([["a", "<i4"], ["b", "<f8"]], 12), ([["a", "<i4", [2]]], None), ([["a", "|O"]], None)],
        *[([["a", [["b", "<i4"]]]], None), ([["a", "<i4"]] * 2000, None), ("<f" + "9" * 50, None)],
    ],
)
def test_the_bytes_of_an_element_of_v2(dtype, size):
    assert parse_array(".zarray", zarr2(dtype=dtype)).item_bytes == size


@pytest.mark.parametrize(
    ("data_type", "size"),
    [
        *[("bool", 1), ("int8", 1), ("uint64", 8), ("float16", 2), ("complex128", 16), ("r24", 3)],
        *[("string", None), ("int4", None), ("int0", None), (None, None), ("bfloat16", 2)],
        (encoding("numpy.datetime64", unit="s", scale_factor=1), 8),
        (encoding("fixed_length_utf32", length_bytes=40), 40),
        (encoding("struct", length_bytes=40), None),
        ({"name": "int32"}, 4),
    ],
)
def test_the_bytes_of_an_element_of_v3(data_type, size):
    assert parse_array("zarr.json", zarr3(data_type=data_type)).item_bytes == size
