"""An Arrow that is not ours to write with opens what lies in the cache directory."""

import asyncio
from pathlib import Path

import nanoarrow
import pytest

from chunkside.core.entry import Part
from tests.store.samples import (
    LARGE,
    SMALL,
    STAMPS,
    a_disk_store,
    a_key,
    a_stored,
    keep,
    some_bytes,
)


def only_row(path: Path) -> dict[str, object]:
    with nanoarrow.ArrayStream.from_path(path) as stream:
        (batch,) = list(stream)
    (row,) = batch.to_pylist()
    return dict(row)


def test_a_range_is_read_by_nanoarrow(tmp_path):
    content, part = some_bytes(SMALL), Part(1000, 1000 + SMALL - 1)

    async def scenario() -> None:
        store = a_disk_store(str(tmp_path))
        await store.start()
        writer = await store.begin(a_stored(length=10**12), STAMPS, SMALL, part)
        await writer.append(content)
        await writer.commit(SMALL)
        await store.close()

    asyncio.run(scenario())
    (path,) = tmp_path.rglob("*.arrow")
    row = only_row(path)
    assert row["body"] == content
    assert (row["first_byte"], row["complete_length"]) == (1000, 10**12)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("length", [0, 1, SMALL, LARGE])
def test_a_whole_body_is_read_by_nanoarrow(tmp_path, length, known):
    content = some_bytes(length)

    async def scenario() -> None:
        store = a_disk_store(str(tmp_path))
        await store.start()
        await keep(store, content, known=known)
        await store.close()

    asyncio.run(scenario())
    (path,) = tmp_path.rglob("*.arrow")
    row = only_row(path)
    assert row["body"] == content
    assert row["target"] == a_key().target
    assert row["fields"] == [
        {"name": b"ETag", "value": b'"abc"'},
        {"name": b"X-Odd", "value": b"\xff\x00"},
        {"name": b"X-Odd", "value": b""},
    ]
    assert (row["status"], row["body_length"], row["first_byte"]) == (200, length, None)
    assert (row["stamp_object"], row["stamp_location"]) == (STAMPS.object, STAMPS.location)
