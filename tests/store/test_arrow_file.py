"""The file format: any Arrow reads it, nothing of a body is touched, no damage passes."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import xxhash
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chunkside.core.entry import Now, Part, StampPair, Stored
from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey, Namespace
from chunkside.store import arrow_file
from chunkside.store.arrow_file import CorruptError
from chunkside.store.moulds import Mark
from tests.store.samples import STAMPS, a_stored, some_bytes

NOW = Now(boot=5000.0, wall=1_700_000_000.0)
TABLE_ID = b"0123456789abcdef"
LENGTHS = [0, 1, 7, 8, 63, 64, 65, 300 * 1024]

u64 = st.integers(0, 2**64 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
blob = st.binary(max_size=60)
finite = st.floats(allow_nan=False, allow_infinity=False)
stored_bodies = st.builds(
    Stored,
    key=st.builds(CacheKey, st.builds(Namespace, text, text, blob), blob),
    key_class=st.sampled_from(["metadata", "listing", "chunk"]),
    status=st.integers(0, 65535),
    fields=st.lists(st.tuples(blob, blob), max_size=20).map(Fields),
    length=st.just(0),
    origin_lifetime=st.none() | finite,
    initial_age=finite,
    requested_at=st.builds(Now, st.floats(0, 1e9), st.floats(0, 4e9)),
    origin_field=st.none() | blob,
)


def mark(nonce: int = 1) -> Mark:
    return Mark(STAMPS, TABLE_ID, nonce)


def a_file(stored: Stored, content: bytes, nonce: int = 77) -> bytes:
    stored = replace(stored, length=len(content))
    layout = arrow_file.layout(stored, None, mark(nonce), len(content))
    file = layout.prefix + content + layout.suffix(xxhash.xxh3_64_intdigest(content))
    assert len(file) == layout.size
    return file


def parse(file: bytes) -> arrow_file.Parsed:
    tail = file[max(0, len(file) - arrow_file.TAIL_BYTES) :]
    return arrow_file.parse(file[: arrow_file.HEAD_BYTES], tail, len(file))


def anonymous_kib() -> int:
    status = Path("/proc/self/status").read_text("ascii")
    return next(int(x.split()[1]) for x in status.splitlines() if x.startswith("RssAnon"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    stored=stored_bodies,
    stamps=st.builds(StampPair, u64, u64),
    table_id=st.binary(min_size=16, max_size=16),
    nonce=u64,
    content=st.binary(max_size=300),
    ends=st.none() | st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
)
def test_all_that_is_laid_out_is_parsed_again(stored, stamps, table_id, nonce, content, ends):
    part = None
    if ends is not None and content:
        part = Part(ends[0], ends[0] + len(content) - 1)
    complete = len(content) if part is None else part.last + 1 + ends[1]
    stored = replace(stored, length=complete)
    told = Mark(stamps, table_id, nonce)
    layout = arrow_file.layout(stored, part, told, len(content))
    checksum = xxhash.xxh3_64_intdigest(content)
    file = layout.prefix + content + layout.suffix(checksum)
    assert parse(file) == arrow_file.Parsed(
        stored, part, len(content), table_id, stamps, nonce, layout.body_offset, checksum
    )
    prefix, suffix = file[: layout.body_offset], file[layout.body_offset + len(content) :]
    assert arrow_file.check_ends(prefix, suffix, len(content), nonce) == checksum


@pytest.mark.parametrize("length", LENGTHS)
def test_any_arrow_reader_opens_the_file(tmp_path, length):
    content = some_bytes(length)
    path = tmp_path / "a.arrow"
    path.write_bytes(a_file(a_stored(), content))
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
        table = stream.read_all()
    table.validate(full=True)
    row = table.to_pylist()[0]
    assert row["body"] == content
    assert row["target"] == b"/a/c/0/0"
    assert row["fields"] == [
        {"name": b"ETag", "value": b'"abc"'},
        {"name": b"X-Odd", "value": b"\xff\x00"},
        {"name": b"X-Odd", "value": b""},
    ]
    assert table.column_names[-1] == "checksum"
    assert row["checksum"] == xxhash.xxh3_64_intdigest(content)
    assert (row["body_length"], row["complete_length"], row["first_byte"]) == (length, length, None)


def test_the_file_uses_no_extension_types_and_no_dictionaries():
    with pa.ipc.open_stream(a_file(a_stored(), b"x")) as stream:
        schema = stream.schema
    assert not any(isinstance(field.type, pa.BaseExtensionType) for field in schema)
    assert not any(pa.types.is_dictionary(field.type) for field in schema)


@pytest.mark.parametrize("length", [*LENGTHS, 5 << 30])
def test_the_body_begins_at_the_same_place_at_any_length(length):
    layouts = [
        arrow_file.layout(replace(a_stored(), length=n), None, mark(), n) for n in (0, length)
    ]
    assert layouts[0].body_offset == layouts[1].body_offset


def test_laying_out_and_parsing_a_body_of_5_gib_takes_no_memory():
    arrow_file.layout(a_stored(), None, mark(), 10)
    before = anonymous_kib()
    length = 5 << 30
    layout = arrow_file.layout(replace(a_stored(), length=length), None, mark(), length)
    suffix = layout.suffix(123)
    parsed = arrow_file.parse(layout.prefix, suffix[-arrow_file.TAIL_BYTES :], layout.size)
    assert (parsed.stored.length, parsed.checksum) == (length, 123)
    assert anonymous_kib() - before < 8 * 1024


def test_fields_that_are_too_long_are_refused():
    stored = replace(a_stored(), fields=Fields([(b"X", bytes(arrow_file.HEAD_BYTES))]))
    with pytest.raises(ValueError, match="too long"):
        arrow_file.layout(stored, None, mark(), 10)


@pytest.mark.parametrize(
    ("complete", "part"), [(11, None), (9, None), (12, Part(3, 12)), (5, Part(0, 9))]
)
def test_lengths_that_disagree_are_no_file_of_ours(complete, part):
    layout = arrow_file.layout(replace(a_stored(), length=complete), part, mark(), 10)
    file = layout.prefix + bytes(10) + layout.suffix(xxhash.xxh3_64_intdigest(bytes(10)))
    with pytest.raises(arrow_file.CorruptError):
        parse(file)


FILE = a_file(a_stored(), b"0123456789" * 20)
BODY_OFFSET = FILE.index(b"0123456789" * 20)


@settings(max_examples=400, deadline=None)
@given(at=st.integers(0, len(FILE) - 1), bit=st.integers(0, 7))
def test_no_flipped_bit_outside_the_body_passes(at, bit):
    if BODY_OFFSET <= at < BODY_OFFSET + 200:
        return
    file = bytearray(FILE)
    file[at] ^= 1 << bit
    # The checksum of the body is what the body will be held against.
    is_checksum = len(FILE) - 16 <= at < len(FILE) - 8
    if is_checksum:
        assert parse(bytes(file)).checksum != parse(FILE).checksum
        return
    with pytest.raises(CorruptError):
        parse(bytes(file))
    if at < BODY_OFFSET or at >= len(FILE) - 24:
        with pytest.raises(CorruptError):
            arrow_file.check_ends(
                bytes(file[:BODY_OFFSET]), bytes(file[BODY_OFFSET + 200 :]), 200, 77
            )


@settings(max_examples=200, deadline=None)
@given(end=st.integers(0, len(FILE) - 1))
@example(end=0)
@example(end=len(FILE) - 1)
def test_no_truncated_file_passes(end):
    with pytest.raises(CorruptError):
        parse(FILE[:end])


@settings(max_examples=200, deadline=None)
@given(junk=st.binary(max_size=600))
def test_no_foreign_file_passes(junk):
    for file in (junk, junk + b"x" + FILE, FILE + junk + b"x", bytes(len(FILE))):
        with pytest.raises(CorruptError):
            parse(file)


def test_another_arrow_file_does_not_pass():
    sink = pa.BufferOutputStream()
    table = pa.table({"body": pa.array([b"x"], pa.large_binary())})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    with pytest.raises(CorruptError):
        parse(sink.getvalue().to_pybytes())


def test_another_nonce_or_length_is_another_file():
    prefix, suffix = FILE[:BODY_OFFSET], FILE[BODY_OFFSET + 200 :]
    assert arrow_file.check_ends(prefix, suffix, 200, 77)
    for length, nonce in [(200, 78), (208, 77), (201, 77)]:
        with pytest.raises(CorruptError):
            arrow_file.check_ends(prefix, suffix, length, nonce)
