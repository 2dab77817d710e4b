"""Prefixes that are cast are those that Arrow makes, to the byte."""

import errno
import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkside.core.entry import Now, Part, StampPair
from chunkside.core.fields import Fields
from chunkside.store import moulds
from chunkside.store.arrow_file import _arrow_prefix
from chunkside.store.moulds import Mark, Moulds, Row
from tests.store.samples import STAMPS, a_key, a_stored
from tests.store.test_arrow_file import blob, finite, stored_bodies, u64

TABLE_ID = b"0123456789abcdef"
COMMON = replace(
    a_stored(a_key(b"/a/c/0/0/0")),
    fields=Fields(
        [(b"ETag", b'"6a2f-1000"'), (b"Last-Modified", b"Mon, 30 Nov 2026 00:00:00 GMT")]
    ),
)

lengths = st.integers(0, 4096) | st.integers(0, 1 << 31)


def row(stored=COMMON, *, part=None, nonce=7, length=4096):
    return Row(stored, part, Mark(STAMPS, TABLE_ID, nonce), length)


def cast(each):
    """What a mould that met the shape twice gives, and whether there was one."""
    made = Moulds(_arrow_prefix)
    for _ in range(2):
        made.prefix(each)
    return made.prefix(each), made._known[each.shape] is not None


def another(each, draw):
    """A row of the same shape."""
    stored = each.stored
    same = [(n, draw(st.binary(min_size=len(v), max_size=len(v)))) for n, v in stored.fields]
    size = len(stored.key.target)
    target = draw(st.binary(min_size=size, max_size=size))
    return Row(
        replace(
            stored,
            key=replace(stored.key, target=target),
            fields=Fields(same),
            length=draw(u64),
            origin_lifetime=None if stored.origin_lifetime is None else draw(finite),
            initial_age=draw(finite),
            requested_at=Now(draw(finite), draw(finite)),
        ),
        None if each.part is None else Part(draw(u64), 0),
        Mark(StampPair(draw(u64), draw(u64)), TABLE_ID, draw(u64)),
        draw(lengths),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stored_bodies, st.booleans(), lengths, st.data())
def test_what_is_cast_is_what_arrow_makes(stored, is_part, length, data):
    made = Moulds(_arrow_prefix)
    first = row(stored, part=Part(3, 9) if is_part else None, length=length)
    for each in (first, first, *(another(first, data.draw) for _ in range(3))):
        assert each.shape == first.shape
        assert made.prefix(each) == _arrow_prefix(each)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 4096, 300 * 1024, (1 << 33) + 9])
@pytest.mark.parametrize("part", [None, Part(5, 9)])
@pytest.mark.parametrize("lifetime", [None, 60.0])
def test_what_is_common_is_cast(length, part, lifetime):
    each = row(replace(COMMON, origin_lifetime=lifetime), part=part, length=length)
    assert cast(each) == (_arrow_prefix(each), True)


def test_arrow_is_asked_for_each_shape_a_few_times_and_no_more():
    asked = []

    def make(each):
        asked.append(each)
        return _arrow_prefix(each)

    made = Moulds(make)
    for number in range(100):
        made.prefix(row(nonce=number))
    # To serve the first two, and for the marks.
    assert len(asked) == 3


@pytest.mark.parametrize(
    "stored",
    [
        replace(COMMON, key=a_key(b"/a/c/0")),
        replace(COMMON, fields=Fields([(b"X", b"1")])),
        replace(COMMON, fields=Fields([(b"X-Long", b"1" * 9000)])),
    ],
    ids=["a short target", "short values", "a long head"],
)
def test_what_could_be_mistaken_or_is_long_is_left_to_arrow(stored):
    each = row(stored)
    assert cast(each) == (_arrow_prefix(each), False)


def test_where_arrow_would_say_something_else_there_is_no_mould():
    """As if it laid out another row in another way."""

    def make(each):
        prefix = _arrow_prefix(each)
        return prefix if each.stored.key.target == COMMON.key.target else prefix[:-8] + bytes(8)

    made = Moulds(make)
    for _ in range(3):
        assert made.prefix(row()) == _arrow_prefix(row())
    assert made._known == {row().shape: None}


def test_where_the_marks_find_no_memory_there_is_no_mould():
    def make(each):
        if each.length >= 1 << 33:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return _arrow_prefix(each)

    made = Moulds(make)
    for _ in range(3):
        assert made.prefix(row()) == _arrow_prefix(row())
    assert made._known == {row().shape: None}


@settings(max_examples=20, deadline=None)
@given(st.lists(blob, max_size=30))
def test_shapes_are_bounded(values):
    made = Moulds(_arrow_prefix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moulds, "_MOST_SHAPES", 4)
        for value in values:
            each = row(replace(COMMON, fields=Fields([(b"X", value)])))
            for _ in range(3):
                made.prefix(each)
            assert len(made._known) <= 4
            assert len(made._met_once) <= 4
