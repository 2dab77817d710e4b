"""Parsers against the grammars of RFC 9110 and 9111: texts are made from the ABNF with what they
mean beside them, and texts made of anything mean nothing that the grammar doesn't say.
"""

import re
from datetime import UTC, datetime, timedelta
from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.dates import http_date
from chunkside.core.decision import NotModified, PreconditionFailed, Unsatisfiable, Whole
from chunkside.core.directives import cache_control
from chunkside.core.entry import Part
from chunkside.core.fields import Fields
from chunkside.core.freshness import origin_lifetime
from chunkside.core.ranges import exact_part, part_answered, part_of_whole, range_form, select
from tests.core.samples import stored

OWS = st.text(" \t", max_size=2)
DIGITS = st.from_regex(r"0{0,2}[0-9]{1,6}", fullmatch=True)
NOISE = st.text("bytes=-,0123456789 \t*/", max_size=24) | st.text(max_size=12)


def one(name: str, value: str) -> Fields:
    return Fields([(name.encode(), value.encode())])


# Range (RFC 9110 §14.1.1): `bytes=` int-range or suffix-range.


INT_RANGE = st.tuples(DIGITS, DIGITS | st.just("")).filter(
    lambda pair: not pair[1] or int(pair[0]) <= int(pair[1])
)


@given(INT_RANGE, st.integers(1, 10**6), st.sampled_from(["bytes", "Bytes", "BYTES"]))
def test_an_int_range_is_from_its_first_to_its_last_or_the_end(bounds, length, unit):
    first, last = int(bounds[0]), int(bounds[1] or length - 1)
    asked = one("Range", f"{unit}={bounds[0]}-{bounds[1]}")
    assert range_form(asked) == "single"
    expected = Part(first, min(last, length - 1)) if first < length else Unsatisfiable()
    assert part_of_whole(asked, length) == expected
    assert select(asked, stored(length=length)) == expected


@given(DIGITS, st.integers(1, 10**6))
def test_a_suffix_range_is_so_many_last_bytes(suffix, length):
    asked = one("Range", f"bytes=-{suffix}")
    taken = min(int(suffix), length)
    expected = Part(length - taken, length - 1) if taken else Unsatisfiable()
    assert part_of_whole(asked, length) == expected


@given(st.lists(INT_RANGE, min_size=2, max_size=4), OWS, OWS)
def test_several_ranges_are_several_whatever_stands_around_their_commas(ranges, before, after):
    listed = f"{before},{after}".join(f"{first}-{last}" for first, last in ranges)
    assert range_form(one("Range", f"bytes={listed}")) == "several"
    assert part_of_whole(one("Range", f"bytes={listed}"), 1000) == Whole()


_RANGE = re.compile(r"(?i:bytes)=[ \t]*([0-9]+)?-([0-9]+)?[ \t]*")


@given(NOISE.map(lambda rest: f"bytes={rest}") | NOISE)
def test_what_is_no_range_asks_for_none(value):
    found = _RANGE.fullmatch(value)
    is_range = found is not None and (found[1] or found[2]) is not None
    if found is not None and found[1] and found[2] and int(found[2]) < int(found[1]):
        is_range = False
    assert (range_form(one("Range", value)) == "single") is is_range
    if not is_range:
        assert part_of_whole(one("Range", value), 1000) == Whole()


# Content-Range (RFC 9110 §14.4).


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_content_range_counts_only_if_it_is_the_part_that_was_asked_for(first, size, length):
    last = first + size
    value = f"bytes={first}-{last}".encode()
    told = one("Content-Range", f"bytes {first}-{min(last, length - 1)}/{length}")
    answered = part_answered(value, told)
    if first < length:
        assert answered == (Part(first, min(last, length - 1)), length)
        assert exact_part(value) == Part(first, last)
    else:
        assert answered is None


@given(NOISE.map(lambda rest: f"bytes {rest}") | NOISE)
def test_what_is_no_content_range_answers_nothing(value):
    answered = part_answered(b"bytes=0-9", one("Content-Range", value))
    if answered is not None:
        part, length = answered
        found = re.fullmatch(r"(?i:bytes) 0*0-0*([0-9]+)/0*([0-9]+)", value.strip())
        assert found is not None
        assert (part.first, part.last, length) == (0, int(found[1]), int(found[2]))
        assert part.last == min(9, length - 1)


# Entity-tags (RFC 9110 §8.8.3), and lists of them.


ETAGC = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"'), min_size=1
)
TAG = st.tuples(st.sampled_from(["", "W/"]), ETAGC).map(lambda tag: f'{tag[0]}"{tag[1]}"')


@given(st.lists(TAG, min_size=1, max_size=4), TAG, OWS, OWS)
def test_a_list_of_tags_holds_those_that_are_in_it(tags, held, before, after):
    listed = f"{before},{after}".join(tags)
    here = stored(f"ETag: {held}")
    weakly = {tag.removeprefix("W/") for tag in tags}
    strongly = {tag for tag in tags if not tag.startswith("W/")}
    unmodified = select(one("If-None-Match", listed), here)
    assert unmodified == (NotModified() if held.removeprefix("W/") in weakly else Whole())
    matched = select(one("If-Match", listed), here)
    assert matched == (Whole() if held in strongly else PreconditionFailed())


@given(st.text('W/"a, \t', max_size=12))
def test_a_tag_within_something_malformed_matches_nothing(value):
    here = stored('ETag: "a"')
    tags = [tag.strip(" \t") for tag in value.split(",")]
    is_listed = value.strip() == "*" or any(tag in ('"a"', 'W/"a"') for tag in tags)
    if not is_listed and value.count('"') <= 2:
        assert select(one("If-None-Match", value), here) == Whole()


# HTTP-date (RFC 9110 §5.6.7): three forms of one moment.


MOMENTS = st.integers(0, 2_145_916_799)


@given(MOMENTS)
def test_the_three_forms_of_a_date_are_one_moment(moment):
    when = datetime.fromtimestamp(moment, UTC)
    assert http_date(formatdate(moment, usegmt=True).encode()) == moment
    assert http_date(when.strftime("%a %b %e %H:%M:%S %Y").encode()) == moment
    # Two digits of a year are at most 50 years ahead of the time of writing.
    if 1976 <= when.year < 2076:
        assert http_date(when.strftime("%A, %d-%b-%y %H:%M:%S GMT").encode()) == moment


@given(MOMENTS, st.integers(-10, 10))
def test_what_was_modified_later_than_asked_is_modified(moment, seconds):
    here = stored(f"Last-Modified: {formatdate(moment, usegmt=True)}")
    asked = datetime.fromtimestamp(moment, UTC) + timedelta(seconds=seconds)
    since = one("If-Modified-Since", formatdate(asked.timestamp(), usegmt=True))
    assert select(since, here) == (NotModified() if seconds >= 0 else Whole())
    until = one("If-Unmodified-Since", formatdate(asked.timestamp(), usegmt=True))
    assert select(until, here) == (Whole() if seconds >= 0 else PreconditionFailed())


# Cache-Control (RFC 9111 §5.2): tokens, arguments as tokens or quoted.


NAMES = st.from_regex(r"[a-z][a-z-]{0,8}", fullmatch=True)
QUOTED = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'), max_size=8
)
DIRECTIVE = st.one_of(
    NAMES.map(lambda name: (name, name, "")),
    st.tuples(NAMES, st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True)).map(
        lambda pair: (f"{pair[0]}={pair[1]}", *pair)
    ),
    st.tuples(NAMES, QUOTED).map(lambda pair: (f'{pair[0]}="{pair[1]}"', *pair)),
)


@given(st.lists(DIRECTIVE, max_size=5), st.sampled_from([",", ", ", " ,\t", ",,"]))
def test_directives_are_what_stands_between_commas_that_are_not_quoted(directives, comma):
    value = comma.join(text for text, _, _ in directives)
    expected: dict[bytes, bytes] = {}
    for _, name, argument in directives:
        expected.setdefault(name.encode(), argument.encode())
    assert cache_control(one("Cache-Control", value)) == expected


@given(st.integers(0, 10**12), st.booleans())
def test_a_lifetime_is_its_seconds_up_to_what_a_clock_can_hold(seconds, is_quoted):
    value = f'max-age="{seconds}"' if is_quoted else f"max-age={seconds}"
    told = origin_lifetime(one("Cache-Control", value))
    assert told == (float(min(seconds, 2**31)) if seconds < 10**10 else 2.0**31)
