"""The one file format: an Arrow IPC stream of one record batch of one row, readable by any Arrow.

Knows Arrow, and is the only module that does. Must not know files: it is given bytes and gives
bytes. Nothing here touches a page of a body, so it works at any length and is safe on a file that
somebody truncates meanwhile. pyarrow is imported at first use (see `warm_up`), since that is slow.

    prefix   schema and all columns before the body
    body     as it came from the origin
    suffix   padding, checksum of the prefix, checksum of the body, end of stream
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_args

import xxhash

from chunkside.core.entry import Now, Part, StampPair, Stored
from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey, KeyClass, Namespace
from chunkside.store.moulds import Mark, Moulds, Row

HEAD_BYTES: Final = 64 * 1024
"""The longest prefix that is written; so much of a file's start is enough to parse it."""
TAIL_BYTES: Final = 32
"""So much of a file's end is enough to parse it."""

_FORMAT: Final = {b"chunkside": b"1"}
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"
_SUFFIX: Final = struct.Struct("<QQ8s")
# The prefix ends with the nonce and the two offsets of the body's one value.
_PREFIX_END: Final = struct.Struct("<Qqq")
_OFFSETS: Final = struct.Struct("<qq")
_KEY_CLASSES: Final = frozenset(get_args(KeyClass))
# Up to this length Arrow is let to copy the body's zeros: it is quicker without a sink in Python.
_COPIED_BYTES: Final = 256 * 1024
_SIGNS_OF_CORRUPTION: Final = (
    *(OSError, ValueError, TypeError, ArithmeticError, MemoryError, EOFError),
    StopIteration,
)
_NORESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0x4000)


class CorruptError(Exception):
    """Not a file that this program wrote, or no longer the bytes that it wrote."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything of one file goes. `prefix` ends where the body begins."""

    prefix: bytes
    length: int

    @property
    def body_offset(self) -> int:
        return len(self.prefix)

    @property
    def size(self) -> int:
        return len(self.prefix) + self.length + suffix_size(self.length)

    def suffix(self, checksum: int) -> bytes:
        """What follows the body. `checksum`: xxh3_64 of the body."""
        sums = _SUFFIX.pack(xxhash.xxh3_64_intdigest(self.prefix), checksum, _END_OF_STREAM)
        return bytes(-self.length % 8) + sums


@dataclass(frozen=True, slots=True)
class Parsed:
    """`length`: of the bytes in the file, which are `part` of the representation, or all of it."""

    stored: Stored
    part: Part | None
    length: int
    table_id: bytes
    stamps: StampPair
    nonce: int
    body_offset: int
    checksum: int


def warm_up() -> None:
    """Imports pyarrow: some hundred milliseconds, to be spent off the loop."""
    _schema()


def suffix_size(length: int) -> int:
    """Bytes after a body of `length` bytes."""
    return -length % 8 + _SUFFIX.size


def layout(stored: Stored, part: Part | None, mark: Mark, length: int) -> Layout:
    """The file for a body of `length` bytes, which need not exist yet: all that `stored` is the
    head of, or `part` of it.

    The prefix has the same size at any length. Raises ValueError where it is over HEAD_BYTES.
    """
    prefix = _moulds().prefix(Row(stored, part, mark, length))
    if len(prefix) > HEAD_BYTES:
        raise ValueError("the fields are too long to be stored")
    return Layout(prefix, length)


@cache
def _moulds() -> Moulds:
    return Moulds(_arrow_prefix)


def _arrow_prefix(row: Row) -> bytes:
    arrow, length = _arrow(), row.length
    nothing = mmap.mmap(
        -1, max(length, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ
    )
    body = arrow.py_buffer(nothing).slice(0, length)
    columns = [
        # One conversion of the whole row costs half of what one for each value does.
        *arrow.array([_values(row)], _row_type()).flatten(),
        arrow.Array.from_buffers(
            arrow.large_binary(), 1, [None, arrow.py_buffer(_OFFSETS.pack(0, length)), body]
        ),
        _no_sum(),
        _no_sum(),
    ]
    return _prefix(arrow.RecordBatch.from_arrays(columns, schema=_schema()), body, length)


def _prefix(batch: Any, body: Any, length: int) -> bytes:
    arrow = _arrow()
    if length <= _COPIED_BYTES:
        end = suffix_size(length) - len(_END_OF_STREAM) + length
        return b"".join((_schema_message(), memoryview(batch.serialize())[:-end]))
    sink = _SmallWrites(body.address, length)
    with arrow.ipc.new_stream(arrow.PythonFile(sink, mode="w"), _schema()) as stream:
        stream.write_batch(batch)
    return b"".join(sink.parts)[: -suffix_size(length)]


def parse(head: bytes, tail: bytes, size: int) -> Parsed:
    """All of a file of `size` bytes but its body. Raises CorruptError.

    `head` is its first HEAD_BYTES, `tail` its last TAIL_BYTES (or all there is). A boot-clock time
    in it means something under the boot of its stamp table alone.
    """
    arrow = _arrow()
    try:
        return _parse(head, tail, size)
    except (arrow.ArrowException, *_SIGNS_OF_CORRUPTION) as fault:
        raise CorruptError(str(fault)) from fault


def check_ends(prefix: bytes, suffix: bytes, length: int, nonce: int) -> int:
    """The checksum that the body must have, in a file that was parsed or written before.

    Quick, since it needs no Arrow. Raises CorruptError where the file isn't that one.
    """
    if len(prefix) < _PREFIX_END.size or len(suffix) != suffix_size(length):
        raise CorruptError("too short")
    prefix_checksum, checksum, end = _SUFFIX.unpack_from(suffix, len(suffix) - _SUFFIX.size)
    if end != _END_OF_STREAM or xxhash.xxh3_64_intdigest(prefix) != prefix_checksum:
        raise CorruptError("the head doesn't match its checksum")
    if _PREFIX_END.unpack_from(prefix, len(prefix) - _PREFIX_END.size) != (nonce, 0, length):
        raise CorruptError("another file")
    return int(checksum)


@cache
def _arrow() -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa


@cache
def _columns_before_body() -> list[Any]:
    arrow = _arrow()

    def column(name: str, kind: Any, *, nullable: bool = False) -> Any:
        return arrow.field(name, kind, nullable=nullable)

    line = arrow.struct([column("name", arrow.binary()), column("value", arrow.binary())])
    return [
        column("location", arrow.string()),
        column("identity", arrow.string()),
        column("partition", arrow.binary()),
        column("target", arrow.binary()),
        column("key_class", arrow.string()),
        column("status", arrow.uint16()),
        column("fields", arrow.list_(column("item", line))),
        column("requested_at", arrow.float64()),
        column("requested_at_boot", arrow.float64()),
        column("origin_lifetime", arrow.float64(), nullable=True),
        column("initial_age", arrow.float64()),
        column("origin_field", arrow.binary(), nullable=True),
        column("variant", arrow.binary()),
        column("complete_length", arrow.uint64()),
        column("first_byte", arrow.uint64(), nullable=True),
        column("body_length", arrow.uint64()),
        column("table_id", arrow.binary(16)),
        column("stamp_object", arrow.uint64()),
        column("stamp_location", arrow.uint64()),
        column("nonce", arrow.uint64()),
    ]


@cache
def _row_type() -> Any:
    return _arrow().struct(_columns_before_body())


@cache
def _schema() -> Any:
    arrow = _arrow()
    columns = [
        *_columns_before_body(),
        arrow.field("body", arrow.large_binary(), nullable=False),
        arrow.field("prefix_checksum", arrow.uint64(), nullable=False),
        arrow.field("checksum", arrow.uint64(), nullable=False),
    ]
    return arrow.schema(columns, metadata=_FORMAT)


@cache
def _no_sum() -> Any:
    """Stands in for a checksum that isn't known yet."""
    return _arrow().array([0], _arrow().uint64())


@cache
def _schema_message() -> bytes:
    return bytes(_schema().serialize())


def _values(row: Row) -> dict[str, object]:
    """Of all columns before the body."""
    stored, part, mark = row.stored, row.part, row.mark
    space = stored.key.namespace
    return {
        "location": space.location,
        "identity": space.identity,
        "partition": space.partition,
        "target": stored.key.target,
        "key_class": stored.key_class,
        "status": stored.status,
        "fields": [{"name": name, "value": value} for name, value in stored.fields],
        "requested_at": stored.requested_at.wall,
        "requested_at_boot": stored.requested_at.boot,
        "origin_lifetime": stored.origin_lifetime,
        "initial_age": stored.initial_age,
        "origin_field": stored.origin_field,
        "variant": stored.variant,
        "complete_length": stored.length,
        "first_byte": None if part is None else part.first,
        "body_length": row.length,
        "table_id": mark.table_id,
        "stamp_object": mark.stamps.object,
        "stamp_location": mark.stamps.location,
        "nonce": mark.nonce,
    }


class _SmallWrites:
    """A sink for Arrow that keeps all that is written but the body, whose bytes don't exist."""

    closed = False

    def __init__(self, body_address: int, length: int) -> None:
        self.parts: list[bytes] = []
        self._body = (body_address, length)

    def write(self, part: Any) -> int:
        size = len(part)
        is_buffer = not isinstance(part, bytes)
        if not (is_buffer and size and (part.address, size) == self._body):
            self.parts.append(part.to_pybytes() if is_buffer else part)
        return size

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def _parse(head: bytes, tail: bytes, size: int) -> Parsed:
    arrow = _arrow()
    image = arrow.py_buffer(_image(head, tail, size))
    options = arrow.ipc.IpcReadOptions(use_threads=False)
    with arrow.ipc.open_stream(image, options=options) as stream:
        if not stream.schema.equals(_schema(), check_metadata=True):
            raise CorruptError("another schema")
        batch = stream.read_next_batch()
    if batch.num_rows != 1:
        raise CorruptError("not one row")
    # Before any value is read: wrong offsets would lead Arrow out of the buffers.
    batch.validate(full=True)
    row = batch.drop_columns(["body"]).to_pylist()[0]
    body_offset = _body_offset(batch.column("body"), image, row["body_length"], size)
    prefix = head[:body_offset]
    if xxhash.xxh3_64_intdigest(prefix) != row["prefix_checksum"] or len(prefix) < body_offset:
        raise CorruptError("the head doesn't match its checksum")
    if tail[-len(_END_OF_STREAM) :] != _END_OF_STREAM:
        raise CorruptError("no end")
    return _parsed(row, body_offset)


def _image(head: bytes, tail: bytes, size: int) -> bytes | mmap.mmap:
    """Memory that looks like the file but for its body, where there are no pages at all."""
    if len(head) == size:
        return head
    if size < len(head) + len(tail):
        tail = tail[len(head) - size :]
    image = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    image[: len(head)] = head
    image[size - len(tail) :] = tail
    return image


def _body_offset(body: Any, image: Any, length: int, size: int) -> int:
    """Where the body's one value lies, by its address. Raises CorruptError."""
    _, offsets, value = body.buffers()
    begin, end = _OFFSETS.unpack_from(offsets, body.offset * 8)
    expected = size - length - suffix_size(length)
    if (begin, end) != (0, length) or expected <= 0:
        raise CorruptError("another length")
    if length and value.address - image.address != expected:
        raise CorruptError("not laid out as ours")
    return expected


def _parsed(row: dict[str, Any], body_offset: int) -> Parsed:
    if row["key_class"] not in _KEY_CLASSES:
        raise CorruptError("another key class")
    space = Namespace(row["location"], row["identity"], row["partition"])
    stored = Stored(
        key=CacheKey(space, row["target"]),
        key_class=row["key_class"],
        status=row["status"],
        fields=Fields((line["name"], line["value"]) for line in row["fields"]),
        length=row["complete_length"],
        origin_lifetime=row["origin_lifetime"],
        initial_age=row["initial_age"],
        requested_at=Now(row["requested_at_boot"], row["requested_at"]),
        origin_field=row["origin_field"],
        variant=row["variant"],
    )
    return Parsed(
        stored=stored,
        part=_part(row),
        length=row["body_length"],
        table_id=row["table_id"],
        stamps=StampPair(row["stamp_object"], row["stamp_location"]),
        nonce=row["nonce"],
        body_offset=body_offset,
        checksum=row["checksum"],
    )


def _part(row: dict[str, Any]) -> Part | None:
    """Raises CorruptError where the lengths don't agree."""
    first, length, complete = row["first_byte"], row["body_length"], row["complete_length"]
    if first is None:
        if length != complete:
            raise CorruptError("another length")
        return None
    if not 0 < length <= complete - first:
        raise CorruptError("another range")
    return Part(first, first + length - 1)
