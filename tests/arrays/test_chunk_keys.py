"""Whose chunk a key is: which documents may tell, and which of them does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.arrays.chunk_keys import forms_of, own_documents, own_form
from chunkside.arrays.document import parse_array
from tests.arrays.samples import n5, zarr2, zarr3


def written(document):
    return json.dumps(document).encode()


def _is_chunk_of(path, document, body):
    form = own_form(path, document, body)
    assert form is None or form in forms_of(path, document)
    return form is not None


@pytest.mark.parametrize(
    ("path", "documents"),
    [
        (b"/b/x/0.0", [b"/b/x/.zarray", b"/b/x/zarr.json"]),
        (b"/b/x/c.0.0", [b"/b/x/zarr.json"]),
        (b"/b/x/c", [b"/b/x/zarr.json"]),
        (b"/b/x/0", [b"/b/x/.zarray", b"/b/x/zarr.json", b"/b/x/attributes.json"]),
        (
            b"/b/x/c/0",
            [b"/b/x/zarr.json", b"/b/x/c/.zarray", b"/b/x/c/zarr.json", b"/b/x/c/attributes.json"],
        ),
        (b"/b/v/8_8_8/0-64_0-64_64-96", [b"/b/v/info"]),
        (b"/b/v/8_8_8/0a.shard", [b"/b/v/info"]),
        (b"/0", [b"/.zarray", b"/zarr.json", b"/attributes.json"]),
        (b"/b/x/tile.tif", []),
        (b"/b/x/part-0.parquet", []),
        (b"/b/x/", []),
        (b"/b/x/00000000000000000000", []),
        (b"", []),
    ],
    ids=str,
)
def test_which_documents_may_tell(path, documents):
    assert list(own_documents(path)) == documents


def test_directories_that_are_numbers_may_be_coordinates_or_arrays():
    found = list(own_documents(b"/b/img/0/1/2"))
    assert found[:3] == [b"/b/img/0/1/.zarray", b"/b/img/0/.zarray", b"/b/img/.zarray"]
    assert len(found) == 9


def test_a_key_of_very_many_numbers_is_asked_about_within_bounds():
    assert len(list(own_documents(b"/b" + b"/0" * 500))) == 36


ARRAYS = [
    pytest.param("zarr.json", zarr3((4, 4), (2, 2)), [b"c/0/0", b"c/1/1", b"c/9/9"], id="v3"),
    pytest.param(".zarray", zarr2((4, 4), (2, 2)), [b"0.0", b"1.1"], id="v2"),
    pytest.param("attributes.json", n5((4, 4), (2, 2)), [b"0/0", b"1/1"], id="n5"),
]
NO_KEYS = [b"c/0", b"c/0/0/0", b"0.0.0", b"0", b"a/c/0/0", b"a/0.0", b"a/0/0", b"c/00/0", b"\xff"]


@pytest.mark.parametrize(("name", "document", "keys"), ARRAYS)
def test_the_array_says_how_its_chunks_are_spelled(name, document, keys):
    body, at = document, b"/b/x/" + name.encode()
    assert [key for key in keys if not _is_chunk_of(b"/b/x/" + key, at, body)] == []
    assert [key for key in NO_KEYS if _is_chunk_of(b"/b/x/" + key, at, body)] == []
    assert not _is_chunk_of(b"/b/y/" + keys[0], at, body)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (b"zarr.json", written({"zarr_format": 3, "node_type": "group"})),
        (b"zarr.json", b"<html>"),
        (b"zarr.json", b"[]"),
        (b".zarray", b"{}"),
        (b"attributes.json", b"{}"),
        (b"\xff", b"{}"),
    ],
)
def test_a_group_s_document_tells_of_no_chunk(name, body):
    for key in (b"c/0/0", b"0.0", b"0/0"):
        assert not _is_chunk_of(b"/b/x/" + key, b"/b/x/" + name, body)


@pytest.mark.parametrize(
    ("info", "is_one"),
    [
        ({"scales": [{"key": "4_4_4"}, {"key": "8_8_8"}]}, True),
        ({"scales": [{"key": "4_4_4"}, {"key": 8}, {}, "8_8_8"]}, False),
        ({"scales": "8_8_8"}, False),
        ({}, False),
    ],
)
def test_a_precomputed_volume_names_its_scales(info, is_one):
    path = b"/b/v/8_8_8/0-64_0-64_0-64"
    assert _is_chunk_of(path, b"/b/v/info", written(info)) is is_one


@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.sampled_from(["/", "."]), st.data())
def test_every_chunk_s_own_document_is_among_those_that_may_tell(shape, separator, data):
    chunks = [1] * len(shape)
    encoding = {"name": "default", "configuration": {"separator": separator}}
    three = zarr3(shape, chunks, chunk_key_encoding=encoding)
    two = zarr2(shape, chunks, dimension_separator=separator)
    place = tuple(data.draw(st.integers(0, length - 1)) for length in shape)
    for name, document in (("zarr.json", three), (".zarray", two)):
        array = parse_array(name, document)
        path = b"/b/0/" + array.grid.key(place).encode()
        at = b"/b/0/" + name.encode()
        assert at in list(own_documents(path))
        assert _is_chunk_of(path, at, document)


SPELLINGS = st.sampled_from([b"0", b"1", b"12", b"00", b"01", b"c", b"/", b"."])
SCALES = written({"scales": [{"key": "1"}, {"key": "c/0"}]})
DOCUMENTS = [
    *((b"zarr.json", zarr3((4,) * rank, (1,) * rank)) for rank in range(4)),
    *((b".zarray", zarr2((4,) * rank, (1,) * rank)) for rank in range(4)),
    (b".zarray", zarr2((4, 4), (1, 1), dimension_separator="/")),
    (b"attributes.json", n5((4, 4), (1, 1))),
    (b"info", SCALES),
]


@given(
    st.sampled_from(DOCUMENTS), st.lists(st.lists(SPELLINGS, max_size=7).map(b"".join), max_size=99)
)
def test_keys_of_the_form_that_one_chunk_has_are_chunks_of_its_array_too(told, keys):
    name, body = told
    at, paths = b"/b/x/" + name, [b"/b/x/" + key for key in [b"0", b"c", b"0.0", b"c/0", *keys]]
    forms = {own_form(path, at, body) for path in paths} - {None}
    assert len(forms) <= (1 if name != b"info" else 2)
    for path in paths:
        assert _is_chunk_of(path, at, body) is any(form in forms for form in forms_of(path, at))
