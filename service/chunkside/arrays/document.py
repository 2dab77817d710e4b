"""What a metadata document says of an array (Zarr v2 and v3, N5), or why it is of none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from chunkside.arrays.data_types import v2_item_bytes, v3_item_bytes
from chunkside.arrays.grid import ChunkGrid, ChunkKeys

Format = Literal["zarr2", "zarr3", "n5"]

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024
MAX_RANK: Final = 64
ARRAY_DOCUMENTS: Final = ("zarr.json", ".zarray", "attributes.json")
_MAX_LENGTH: Final = 2**63 - 1
_LONGEST_SHOWN: Final = 60

_Members = Mapping[str, object]


class NotAnArray(ValueError):
    """A document that is of no array that can be worked with. The text is one sentence, without
    the document's address.
    """


class GroupDocument(NotAnArray):
    """A group's, not an array's."""


class UnsupportedArray(NotAnArray):
    """An array's, of a grid or keys that are not known here."""


class NotZarr(NotAnArray):
    """No metadata document at all, or a broken one."""


@dataclass(frozen=True, slots=True)
class Array:
    """`item_bytes`: None where elements have no one size. `inner_chunk_shape`: of the chunks within
    a shard, None where nothing is sharded.
    """

    format: Format
    grid: ChunkGrid
    data_type: str
    item_bytes: int | None
    inner_chunk_shape: tuple[int, ...] | None = None

    @property
    def chunk_bytes(self) -> int | None:
        """Of one chunk that is not compressed."""
        return None if self.item_bytes is None else self.item_bytes * self.grid.elements_per_chunk


def parse_array(name: str, body: bytes) -> Array:
    """Reads the document called `name`, the last segment of its key. Raises NotAnArray."""
    match name:
        case "zarr.json":
            return zarr3_array(read_members(body))
        case ".zarray":
            return zarr2_array(read_members(body))
        case ".zgroup" | ".zmetadata":
            raise GroupDocument("It is a group's, not an array's: name one of its arrays.")
        case "attributes.json":
            return n5_array(read_members(body))
        case _:
            names = ", ".join(ARRAY_DOCUMENTS)
            raise NotZarr(f"{_shown(name)} is no metadata document of an array: {names} are.")


def read_members(body: bytes) -> _Members:
    """The members of a document's JSON object. Raises NotZarr."""
    if len(body) > MAX_DOCUMENT_BYTES:
        raise NotZarr(f"It is longer than {MAX_DOCUMENT_BYTES} bytes.")
    try:
        document: object = json.loads(body)
    # A number of too many digits is a ValueError, as is what isn't JSON or not UTF-8.
    except (ValueError, RecursionError) as error:
        raise NotZarr("It is not JSON that can be read.") from error
    if not isinstance(document, dict):
        raise NotZarr("It is JSON, but not an object.")
    return document


def zarr3_array(document: _Members) -> Array:
    """Raises NotAnArray."""
    if not _is_number(document.get("zarr_format"), 3):
        raise NotZarr("Its `zarr_format` is not 3.")
    match document.get("node_type"):
        case "array":
            pass
        case "group":
            raise GroupDocument("It is a group's, not an array's: name one of its arrays.")
        case _:
            raise NotZarr("Its `node_type` is neither `array` nor `group`.")
    if document.get("storage_transformers"):
        raise UnsupportedArray("It has storage transformers, which may put chunks anywhere.")
    shape = _lengths(document.get("shape"), "shape", 0)
    name, grid = _named(document.get("chunk_grid"), "chunk_grid")
    if name != "regular":
        raise UnsupportedArray(f"Its chunk grid is {_shown(name)}; only `regular` ones are known.")
    data_type = document.get("data_type")
    return Array(
        "zarr3",
        _grid(shape, _lengths(grid.get("chunk_shape"), "chunk_shape", 0), _zarr3_keys(document)),
        _shown_type(data_type),
        v3_item_bytes(data_type),
        _inner_chunk_shape(document.get("codecs"), len(shape)),
    )


def zarr2_array(document: _Members) -> Array:
    """Raises NotAnArray."""
    if not _is_number(document.get("zarr_format"), 2):
        raise NotZarr("Its `zarr_format` is not 2.")
    shape = _lengths(document.get("shape"), "shape", 0)
    chunks = _lengths(document.get("chunks"), "chunks", 0)
    separator = document.get("dimension_separator", ".")
    keys = ChunkKeys(_separator("." if separator is None else separator))
    dtype = document.get("dtype")
    return Array("zarr2", _grid(shape, chunks, keys), _shown_type(dtype), v2_item_bytes(dtype))


def n5_array(document: _Members) -> Array:
    """Lengths are turned around: N5 writes the fastest dimension first. Raises NotAnArray."""
    if "dimensions" not in document or "blockSize" not in document:
        raise GroupDocument("It has no `dimensions` and `blockSize`: of N5, a group's at most.")
    shape = _lengths(document["dimensions"], "dimensions", 0)[::-1]
    blocks = _lengths(document["blockSize"], "blockSize", 1)[::-1]
    if not shape:
        raise NotZarr("Its `dimensions` are empty.")
    data_type = document.get("dataType")
    return Array(
        "n5",
        _grid(shape, blocks, ChunkKeys("/", is_reversed=True)),
        _shown_type(data_type),
        v3_item_bytes(data_type),
    )


def _grid(shape: tuple[int, ...], chunks: tuple[int, ...], keys: ChunkKeys) -> ChunkGrid:
    if len(shape) != len(chunks):
        raise NotZarr(f"It has {len(shape)} dimensions, and chunks of {len(chunks)}.")
    # Some writers give a dimension of no elements chunks of none.
    if any(length and not chunk for length, chunk in zip(shape, chunks, strict=True)):
        raise NotZarr("A chunk's length is 0.")
    return ChunkGrid(shape, chunks, keys)


def _zarr3_keys(document: _Members) -> ChunkKeys:
    name, configuration = _named(document.get("chunk_key_encoding"), "chunk_key_encoding")
    match name:
        case "default":
            return ChunkKeys(_separator(configuration.get("separator", "/")), "c")
        case "v2":
            return ChunkKeys(_separator(configuration.get("separator", ".")))
        case _:
            known = "only `default` and `v2` are known"
            raise UnsupportedArray(f"Its chunk key encoding is {_shown(name)}; {known}.")


def _inner_chunk_shape(codecs: object, rank: int) -> tuple[int, ...] | None:
    if not isinstance(codecs, list):
        raise NotZarr("Its `codecs` are not a list.")
    for codec in codecs[:MAX_RANK]:
        name, configuration = _named(codec, "codecs")
        if name == "sharding_indexed":
            inner = _lengths(configuration.get("chunk_shape"), "chunk_shape of sharding_indexed", 1)
            if len(inner) != rank:
                raise NotZarr(f"It has {rank} dimensions, and shards of chunks of {len(inner)}.")
            return inner
    return None


def _named(member: object, what: str) -> tuple[str, _Members]:
    """Name and configuration of an extension point: an object, or the name alone."""
    match member:
        case str():
            return member, {}
        case {"name": str(name), "configuration": dict(configuration)}:
            return name, configuration
        case {"name": str(name)}:
            return name, {}
        case _:
            raise NotZarr(f"Its `{what}` has no name.")


def _separator(member: object) -> str:
    if member == "/":
        return "/"
    if member == ".":
        return "."
    raise NotZarr("The separator of its keys is neither `/` nor `.`.")


def _lengths(member: object, what: str, least: int) -> tuple[int, ...]:
    if not isinstance(member, list):
        raise NotZarr(f"Its `{what}` is not a list.")
    if len(member) > MAX_RANK:
        raise NotZarr(f"Its `{what}` has more than {MAX_RANK} dimensions.")
    for each in member:
        if type(each) is not int or not least <= each <= _MAX_LENGTH:
            raise NotZarr(f"Its `{what}` holds what is no length: {_shown(each)}.")
    return tuple(member)


def _is_number(member: object, number: int) -> bool:
    return type(member) is int and member == number


def _shown_type(data_type: object) -> str:
    match data_type:
        case str(name) | {"name": str(name)}:
            return name[:_LONGEST_SHOWN]
        case _:
            return _shown(data_type)


def _shown(value: object) -> str:
    """What is long or deep is named, not written out."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return json.dumps(value[:_LONGEST_SHOWN])
        case _:
            return str(value)[:_LONGEST_SHOWN]
