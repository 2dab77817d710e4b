from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.entry import (
    BodyRef,
    StampPair,
    Variants,
    helds,
    of_variant,
    oldest_request,
    tokens_of,
)
from tests.core.samples import KEY, NEW_YEAR, NOW, absent, earlier, partial, present, stored

WORDS = st.integers(0, 2**64 - 1)


def test_a_closed_stamp_is_closed_for_as_long_as_either_says():
    assert StampPair(object=(9 << 32) | 5, location=3 << 32).closed_until() == 9
    assert StampPair(object=3 << 32, location=(9 << 32) | 0xFFFFFFFF).closed_until() == 9
    assert StampPair(object=5, location=0xFFFFFFFF).closed_until() == 0


def test_the_token_holds_both_stamps_with_the_halves_of_one_swapped():
    assert StampPair(object=0x1, location=0x2).token == 0x0000_0002_0000_0001
    assert StampPair(object=0, location=0xAAAA_AAAA_BBBB_BBBB).token == 0xBBBB_BBBB_AAAA_AAAA


@given(WORDS, WORDS, WORDS)
def test_the_token_differs_where_one_stamp_does(mine, yours, common):
    assert (StampPair(mine, common).token == StampPair(yours, common).token) == (mine == yours)
    assert (StampPair(common, mine).token == StampPair(common, yours).token) == (mine == yours)


@given(WORDS, WORDS)
def test_the_token_is_a_64_bit_word(one, other):
    assert 0 <= StampPair(one, other).token < 2**64


def test_a_body_is_charged_its_blocks_and_not_its_length():
    assert BodyRef(KEY, inode=1, nonce=2, length=1, blocks=8).charge == 4096


@pytest.mark.parametrize(
    ("lines", "etag", "has_validator"),
    [
        pytest.param([], None, False, id="none"),
        pytest.param(['ETag: "a"'], b'"a"', True, id="strong"),
        pytest.param(['ETag: W/"a"'], b'W/"a"', True, id="weak"),
        pytest.param(['ETag: ""'], None, False, id="empty"),
        pytest.param(['ETag: W/""'], None, False, id="empty-weak"),
        pytest.param(["ETag:"], None, False, id="no-value"),
        pytest.param(['ETag: "a"', 'ETag: "b"'], None, False, id="repeated"),
        pytest.param(['ETag: ""', f"Last-Modified: {NEW_YEAR.decode()}"], None, True, id="date"),
    ],
)
def test_what_can_be_asked_about(lines, etag, has_validator):
    held = stored(*lines)
    assert held.etag == etag
    assert held.has_validator is has_validator


def test_the_date_of_the_last_change_is_as_the_origin_sent_it():
    assert stored("last-modified: whenever").last_modified == b"whenever"


PLAIN = present(stored(requested_at=earlier(5)))
GERMAN = present(stored(variant=b"de", requested_at=earlier(9)))
ENGLISH = replace(partial(stored(variant=b"en"), (0, 9)), token=8)


@pytest.mark.parametrize(
    ("entry", "held", "tokens", "oldest"),
    [
        (absent(requested_at=earlier(3)), (), {7}, earlier(3)),
        (PLAIN, (PLAIN,), {7}, earlier(5)),
        (Variants((ENGLISH,)), (ENGLISH,), {8}, NOW),
        (Variants((ENGLISH, GERMAN)), (ENGLISH, GERMAN), {7, 8}, earlier(9)),
    ],
)
def test_what_an_entry_holds_and_since_when(entry, held, tokens, oldest):
    assert (helds(entry), tokens_of(entry), oldest_request(entry)) == (held, tokens, oldest)


def test_what_an_entry_has_of_one_variant():
    both = Variants((GERMAN, ENGLISH))
    assert [of_variant(both, name) for name in (b"de", b"en", b"")] == [GERMAN, ENGLISH, None]
    assert (of_variant(PLAIN, b""), of_variant(PLAIN, b"de")) == (PLAIN, None)
    assert of_variant(absent(), b"") is None
    assert of_variant(None, b"") is None
    newer = present(stored(variant=b"de"), inode=2)
    assert both.with_held(newer) == Variants((newer, ENGLISH))
    assert both.without(b"de").with_held(newer) == Variants((ENGLISH, newer))
