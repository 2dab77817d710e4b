"""Blocks of arrays as people write them."""

import pytest

from chunkside.tools.slices import parse_slices


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        (":", [slice(None)]),
        ("0:100,:,5", [slice(0, 100), slice(None), slice(5, 6)]),
        (" 3 : 7 ", [slice(3, 7)]),
        (":-1,-5:", [slice(None, -1), slice(-5, None)]),
        ("-1", [slice(-1, None)]),
        ("-2", [slice(-2, -1)]),
    ],
)
def test_a_block_is_read_as_python_reads_it(text, slices):
    assert parse_slices(text) == tuple(slices)


@pytest.mark.parametrize(
    "text", ["", "a", "1:2:3", "1,", "--1", "1 2", "1.5", "0:9:2", "٣", "9" * 5000, "...", "1:2;3"]
)
def test_what_is_no_block_is_refused(text):
    with pytest.raises(ValueError, match="is no slice"):
        parse_slices(text)
