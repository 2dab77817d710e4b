"""What a file says of itself: validators that tell two states apart, or none."""

import os
from itertools import pairwise

import pytest

from chunkside.upstream.describing import (
    SETTLED_AFTER_SECONDS,
    content_type,
    entity_tag,
    fields_of,
    is_settled,
    is_unchanged,
)


def found(*, inode=7, size=5, mtime=1_000, ctime=1_000, nlink=1):
    """As os.stat gives it; times in nanoseconds."""
    times = {"st_mtime_ns": mtime, "st_ctime_ns": ctime}
    plain = (0o100644, inode, 1, nlink, 0, 0, size, 0, mtime // 10**9, ctime // 10**9)
    return os.stat_result(plain, times)


def test_each_change_of_a_file_changes_its_tag():
    states = [
        found(),
        found(inode=8),
        found(size=6),
        found(mtime=1_001),
        found(ctime=1_001),
        found(mtime=-1),
        found(inode=2**64 - 1),
    ]
    tags = [entity_tag(state) for state in states]
    assert len(set(tags)) == len(tags)
    assert all(tag.startswith(b'"') and tag.endswith(b'"') for tag in tags)


def test_the_digits_of_two_parts_are_never_one_another_s():
    assert entity_tag(found(inode=0x12, size=0x3)) != entity_tag(found(inode=0x1, size=0x23))


@pytest.mark.parametrize("changed", ["mtime", "ctime"])
def test_a_file_has_validators_once_it_was_left_alone_for_a_while(changed):
    state = found(**{changed: 10**12})
    seen = [
        (is_settled(state, 1_000 + age), b"etag" in fields_of(state, b"x", 1_000 + age))
        for age in (-100, 0, SETTLED_AFTER_SECONDS - 1, SETTLED_AFTER_SECONDS, 10_000)
    ]
    assert seen == [(False, False)] * 3 + [(True, True)] * 2
    assert b"last-modified" not in fields_of(state, b"x", 1_000)


def test_dates_before_the_epoch_are_written_as_it():
    fields = fields_of(found(mtime=-5 * 10**9), b"x", 10_000)
    assert fields.get(b"last-modified") == b"Thu, 01 Jan 1970 00:00:00 GMT"


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({}, True),
        ({"size": 6}, False),
        ({"mtime": 1_001}, False),
        ({"ctime": 1_001}, False),
        ({"ctime": 1_001, "nlink": 0}, True),
        ({"ctime": 1_001, "nlink": 2}, True),
        ({"mtime": 1_001, "nlink": 0}, False),
        ({"size": 0, "ctime": 1_001, "nlink": 0}, False),
    ],
)
def test_a_file_whose_name_alone_changed_has_the_bytes_it_had(after, expected):
    assert is_unchanged(found(), found(**after)) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"zarr.json", b"application/json"),
        (b".zarray", b"application/json"),
        (b"info", b"application/json"),
        (b"A.TIF", b"image/tiff"),
        (b"x.parquet", b"application/vnd.apache.parquet"),
        (b"0", b"application/octet-stream"),
        (b"json", b"application/json"),
        (b"\xff.\xff", b"application/octet-stream"),
        (b"", b"application/octet-stream"),
    ],
)
def test_types_are_told_by_name(name, expected):
    assert content_type(name) == expected


def test_a_real_file_written_anew_has_another_tag_each_time(tmp_path):
    file = tmp_path / "x"
    tags: list[bytes] = []
    for _ in range(3):
        file.write_bytes(b"12345")
        os.utime(file, ns=(0, len(tags)))
        tags.append(entity_tag(file.stat()))
    assert all(one != other for one, other in pairwise(tags))
