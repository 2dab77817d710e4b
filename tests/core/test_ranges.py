import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.decision import (
    NotModified,
    PreconditionFailed,
    Unsatisfiable,
    Whole,
)
from chunkside.core.entry import Part
from chunkside.core.ranges import (
    exact_part,
    part_answered,
    part_asked,
    range_form,
    select,
    strong_validator,
)
from tests.core.samples import (
    A_MINUTE_BEFORE,
    A_SECOND_AFTER,
    A_SECOND_BEFORE,
    NEW_YEAR,
    fields,
    stored,
)

NINES = "9" * 19
DATE = f"Date: {NEW_YEAR.decode()}"
OLD = f"Last-Modified: {A_MINUTE_BEFORE.decode()}"
RECENT = f"Last-Modified: {A_SECOND_BEFORE.decode()}"


@pytest.mark.parametrize(
    ("value", "selection"),
    [
        ("bytes=0-9", Part(0, 9)),
        ("bytes=990-", Part(990, 999)),
        ("bytes=-16", Part(984, 999)),
        ("bytes=-5000", Part(0, 999)),
        ("bytes=0-999", Part(0, 999)),
        ("bytes=0-", Part(0, 999)),
        ("bytes=999-999", Part(999, 999)),
        ("bytes=995-2000", Part(995, 999)),
        ("bytes=1000-", Unsatisfiable()),
        ("bytes=5-4", Whole()),
        ("bytes=-0", Unsatisfiable()),
        ("BYTES=0-9", Part(0, 9)),
        ("bytes= 0-9\t", Part(0, 9)),
        ("bytes=007-0009", Part(7, 9)),
        ("bytes=-1", Part(999, 999)),
        ("bytes=-1000", Part(0, 999)),
        (f"bytes=0-{NINES}", Part(0, 999)),
        ("bytes=0-18446744073709551615", Part(0, 999)),
        (f"bytes=-{NINES}", Part(0, 999)),
        (f"bytes={NINES}-", Unsatisfiable()),
        (f"bytes={NINES}-{NINES}9", Unsatisfiable()),
        (f"bytes={'9' * 99}-", Unsatisfiable()),
        (f"bytes=0-{'9' * 5000}", Whole()),
        (f"bytes={'9' * 5000}-", Whole()),
        ("bytes=-404--1", Whole()),
        ("bytes=--1", Whole()),
        ("bytes=-", Whole()),
        ("bytes=", Whole()),
        ("bytes", Whole()),
        ("", Whole()),
        ("bytes=a-b", Whole()),
        ("bytes=0x0-9", Whole()),
        ("bytes=+0-9", Whole()),
        ("bytes=0 - 9", Whole()),
        ("bytes =0-9", Whole()),
        ("bytes=0-9;", Whole()),
        ("bytes=0-9-", Whole()),
        ("bytes=1.0-9", Whole()),
        ("items=0-9", Whole()),
        ("none", Whole()),
        ("bytes=0-1,5-6", Whole()),
        ("bytes=0-1,", Whole()),
        ("bytes=\u0661-9", Whole()),
    ],
)
def test_the_part_that_a_range_names(value, selection):
    assert select(fields(f"Range: {value}"), stored(length=1000)) == selection


@pytest.mark.parametrize("value", ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=5-9"])
def test_no_range_of_an_empty_object_can_be_satisfied(value):
    assert select(fields(f"Range: {value}"), stored(length=0)) == Unsatisfiable()


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 30))
def test_a_part_is_the_slice_that_python_takes(first, last, length):
    held = stored(length=length)
    chosen = select(fields(f"Range: bytes={first}-{last}"), held)
    expected = range(length)[first : last + 1]
    if last < first:
        assert chosen == Whole()
    elif not expected:
        assert chosen == Unsatisfiable()
    else:
        assert chosen == Part(expected[0], expected[-1])


@given(st.integers(0, 40), st.integers(0, 30))
def test_a_suffix_is_the_slice_that_python_takes(suffix, length):
    chosen = select(fields(f"Range: bytes=-{suffix}"), stored(length=length))
    expected = range(length)[max(0, length - suffix) :]
    if expected:
        assert chosen == Part(expected[0], expected[-1])
    else:
        assert chosen == Unsatisfiable()


@pytest.mark.parametrize(
    ("lines", "form"),
    [
        pytest.param([], "none", id="none"),
        pytest.param(["Range: bytes=5-9"], "single", id="single"),
        pytest.param(["Range: bytes=5-"], "single", id="open"),
        pytest.param(["Range: bytes=-5"], "single", id="suffix"),
        pytest.param(["Range: bytes=5-4"], "none", id="backwards"),
        pytest.param(["Range: bytes=-404--1"], "none", id="malformed"),
        pytest.param(["Range: bytes=0-1,5-6"], "several", id="several"),
        pytest.param(["Range: Bytes=0-1, -6"], "several", id="several-with-suffix"),
        pytest.param(["Range: bytes=0-1", "range: bytes=5-6"], "several", id="two-lines"),
        pytest.param(["Range: bytes=x,y"], "several", id="several-malformed"),
        pytest.param(["Range: items=0-1,5-6"], "none", id="other-unit"),
    ],
)
def test_the_form_of_a_range(lines, form):
    assert range_form(fields(*lines)) == form


def test_a_head_has_no_range():
    assert select(fields("Range: bytes=0-9"), stored(), is_get=False) == Whole()


STRONG = ['ETag: "a"']
WEAK = ['ETag: W/"a"']


@pytest.mark.parametrize(
    ("lines", "held", "selection"),
    [
        pytest.param([], STRONG, Whole(), id="no-condition"),
        # If-Match: strong comparison.
        pytest.param(['If-Match: "a"'], STRONG, Whole(), id="if-match"),
        pytest.param(['If-Match: "b"'], STRONG, PreconditionFailed(), id="if-match-other"),
        pytest.param(['If-Match: "b", "a"'], STRONG, Whole(), id="if-match-list"),
        pytest.param(['If-Match: "b"', 'If-Match: "a"'], STRONG, Whole(), id="if-match-lines"),
        pytest.param(['If-Match: "a,b"'], ['ETag: "a,b"'], Whole(), id="if-match-comma"),
        pytest.param(["If-Match: *"], STRONG, Whole(), id="if-match-any"),
        pytest.param(["If-Match: *"], [], Whole(), id="if-match-any-of-none"),
        pytest.param(['If-Match: W/"a"'], STRONG, PreconditionFailed(), id="if-match-weak"),
        pytest.param(['If-Match: "a"'], WEAK, PreconditionFailed(), id="if-match-held-weak"),
        pytest.param(['If-Match: W/"a"'], WEAK, PreconditionFailed(), id="if-match-both-weak"),
        pytest.param(['If-Match: "a"'], [], PreconditionFailed(), id="if-match-no-etag"),
        pytest.param(['If-Match: ""'], ['ETag: ""'], PreconditionFailed(), id="if-match-empty"),
        pytest.param(["If-Match:"], STRONG, PreconditionFailed(), id="if-match-nothing"),
        pytest.param(["If-Match: a"], ["ETag: a"], PreconditionFailed(), id="if-match-unquoted"),
        pytest.param(["If-Match: a"], STRONG, PreconditionFailed(), id="if-match-half-quoted"),
        pytest.param(['If-Match: w/"a"'], STRONG, PreconditionFailed(), id="if-match-small-w"),
        pytest.param(['If-Match: W/ "a"x'], STRONG, PreconditionFailed(), id="if-match-malformed"),
        pytest.param(['If-None-Match: x"a"'], STRONG, Whole(), id="none-match-malformed"),
        pytest.param(['If-None-Match: "b","a"'], STRONG, NotModified(), id="none-match-no-space"),
        # If-None-Match: weak comparison.
        pytest.param(['If-None-Match: "a"'], STRONG, NotModified(), id="if-none-match"),
        pytest.param(['If-None-Match: "b"'], STRONG, Whole(), id="if-none-match-other"),
        pytest.param(['If-None-Match: "b", W/"a"'], STRONG, NotModified(), id="none-match-list"),
        pytest.param(['If-None-Match: W/"a"'], WEAK, NotModified(), id="none-match-both-weak"),
        pytest.param(['If-None-Match: "a"'], WEAK, NotModified(), id="none-match-held-weak"),
        pytest.param(["If-None-Match: *"], STRONG, NotModified(), id="none-match-any"),
        pytest.param(["If-None-Match: *"], [], NotModified(), id="none-match-any-of-none"),
        pytest.param(['If-None-Match: "a"'], [], Whole(), id="none-match-no-etag"),
        pytest.param(['If-None-Match: ""'], ['ETag: ""'], Whole(), id="none-match-empty"),
        pytest.param(['If-None-Match: W/""'], ['ETag: W/""'], Whole(), id="none-match-weak-empty"),
        pytest.param(['If-None-Match: ""'], STRONG, Whole(), id="none-match-empty-asked"),
        pytest.param(
            ['If-None-Match: "a"'], ['ETag: "a"', 'ETag: "a"'], Whole(), id="etag-repeated"
        ),
    ],
)
def test_conditions_on_tags(lines, held, selection):
    assert select(fields(*lines), stored(*held)) == selection


def since(name, value):
    return f"{name}: {value.decode()}"


@pytest.mark.parametrize(
    ("lines", "selection"),
    [
        pytest.param(
            [since("If-Modified-Since", NEW_YEAR)], NotModified(), id="modified-since-same"
        ),
        pytest.param(
            [since("If-Modified-Since", A_SECOND_AFTER)], NotModified(), id="modified-since-later"
        ),
        pytest.param(
            [since("If-Modified-Since", A_SECOND_BEFORE)], Whole(), id="modified-since-earlier"
        ),
        pytest.param(["If-Modified-Since: yesterday"], Whole(), id="modified-since-malformed"),
        pytest.param([since("If-Modified-Since", NEW_YEAR)] * 2, Whole(), id="modified-twice"),
        pytest.param([since("If-Unmodified-Since", NEW_YEAR)], Whole(), id="unmodified-since-same"),
        pytest.param(
            [since("If-Unmodified-Since", A_SECOND_AFTER)], Whole(), id="unmodified-since-later"
        ),
        pytest.param(
            [since("If-Unmodified-Since", A_SECOND_BEFORE)],
            PreconditionFailed(),
            id="unmodified-since-earlier",
        ),
        pytest.param(["If-Unmodified-Since: x"], Whole(), id="unmodified-since-malformed"),
    ],
)
def test_conditions_on_dates(lines, selection):
    held = stored('ETag: "a"', since("Last-Modified", NEW_YEAR))
    assert select(fields(*lines), held) == selection


@pytest.mark.parametrize("name", ["If-Modified-Since", "If-Unmodified-Since"])
@pytest.mark.parametrize("held", [[], ["Last-Modified: x"]], ids=["none", "malformed"])
def test_a_condition_on_a_date_that_is_not_held_is_ignored(name, held):
    assert select(fields(since(name, A_SECOND_BEFORE)), stored(*held)) == Whole()


FAILS = 'If-Match: "b"'
PASSES = 'If-Match: "a"'
UNMODIFIED_FAILS = since("If-Unmodified-Since", A_SECOND_BEFORE)
NONE_MATCH_FAILS = 'If-None-Match: "a"'
NONE_MATCH_PASSES = 'If-None-Match: "b"'
MODIFIED_FAILS = since("If-Modified-Since", NEW_YEAR)
MODIFIED_PASSES = since("If-Modified-Since", A_SECOND_BEFORE)
RANGE = "Range: bytes=0-9"
IF_RANGE_FAILS = 'If-Range: "b"'
IF_RANGE_PASSES = 'If-Range: "a"'


@pytest.mark.parametrize(
    ("lines", "selection"),
    [
        pytest.param([FAILS, NONE_MATCH_FAILS], PreconditionFailed(), id="1-before-3"),
        pytest.param([UNMODIFIED_FAILS, NONE_MATCH_FAILS], PreconditionFailed(), id="2-before-3"),
        pytest.param([UNMODIFIED_FAILS, MODIFIED_FAILS], PreconditionFailed(), id="2-before-4"),
        pytest.param([PASSES, UNMODIFIED_FAILS], Whole(), id="1-replaces-2"),
        pytest.param([PASSES, NONE_MATCH_FAILS], NotModified(), id="1-passes-then-3"),
        pytest.param([NONE_MATCH_PASSES, MODIFIED_FAILS], Whole(), id="3-replaces-4"),
        pytest.param([NONE_MATCH_FAILS, MODIFIED_PASSES], NotModified(), id="3-replaces-4-too"),
        pytest.param([FAILS, RANGE], PreconditionFailed(), id="1-before-range"),
        pytest.param([NONE_MATCH_FAILS, RANGE], NotModified(), id="3-before-range"),
        pytest.param([MODIFIED_FAILS, RANGE], NotModified(), id="4-before-range"),
        pytest.param([NONE_MATCH_FAILS, RANGE, IF_RANGE_FAILS], NotModified(), id="3-before-5"),
        pytest.param([PASSES, NONE_MATCH_PASSES, RANGE], Part(0, 9), id="all-pass"),
        pytest.param([RANGE, IF_RANGE_PASSES], Part(0, 9), id="5-passes"),
        pytest.param([RANGE, IF_RANGE_FAILS], Whole(), id="5-fails"),
        pytest.param([IF_RANGE_FAILS], Whole(), id="5-without-range"),
    ],
)
def test_conditions_are_judged_in_the_order_of_the_rfc(lines, selection):
    held = stored('ETag: "a"', since("Last-Modified", NEW_YEAR))
    assert select(fields(*lines), held) == selection


@pytest.mark.parametrize(
    ("condition", "held", "applies"),
    [
        pytest.param('"a"', STRONG, True, id="tag"),
        pytest.param('"b"', STRONG, False, id="other-tag"),
        pytest.param('W/"a"', STRONG, False, id="weak-asked"),
        pytest.param('"a"', WEAK, False, id="weak-held"),
        pytest.param('W/"a"', WEAK, False, id="weak-both"),
        pytest.param('""', ['ETag: ""'], False, id="empty"),
        pytest.param("a", ["ETag: a"], False, id="unquoted"),
        pytest.param('"a"', [], False, id="no-tag"),
        pytest.param("*", STRONG, False, id="star"),
        pytest.param(A_MINUTE_BEFORE.decode(), [OLD, DATE], True, id="date"),
        pytest.param(A_MINUTE_BEFORE.decode(), [*STRONG, OLD, DATE], True, id="date-beside-tag"),
        pytest.param(A_SECOND_BEFORE.decode(), [RECENT, DATE], False, id="too-recent"),
        pytest.param(A_MINUTE_BEFORE.decode(), [OLD], False, id="without-date"),
        pytest.param(NEW_YEAR.decode(), [OLD, DATE], False, id="later-date"),
        pytest.param("Sun Dec 31 23:59:00 2023", [OLD, DATE], False, id="not-letter-for-letter"),
        pytest.param("", [], False, id="nothing"),
    ],
)
def test_if_range_needs_the_very_same_strong_validator(condition, held, applies):
    chosen = select(fields(RANGE, f"If-Range: {condition}"), stored(*held))
    assert chosen == (Part(0, 9) if applies else Whole())


def test_an_if_range_that_is_repeated_fails():
    lines = fields(RANGE, IF_RANGE_PASSES, IF_RANGE_PASSES)
    assert select(lines, stored(*STRONG)) == Whole()


@pytest.mark.parametrize(
    ("lines", "validator"),
    [
        pytest.param([], None, id="none"),
        pytest.param(STRONG, b'"a"', id="tag"),
        pytest.param([*STRONG, OLD, DATE], b'"a"', id="tag-before-date"),
        pytest.param(WEAK, None, id="weak"),
        pytest.param([*WEAK, OLD, DATE], None, id="weak-beside-old-date"),
        pytest.param(['ETag: ""', OLD, DATE], None, id="empty"),
        pytest.param(["ETag: a", OLD, DATE], None, id="unquoted"),
        pytest.param([OLD, DATE], A_MINUTE_BEFORE, id="a-minute-old"),
        pytest.param([RECENT, DATE], None, id="a-second-old"),
        pytest.param(["Last-Modified: Sun, 31 Dec 2023 23:59:01 GMT", DATE], None, id="59-seconds"),
        pytest.param([OLD], None, id="without-date"),
        pytest.param(["Last-Modified: x", DATE], None, id="malformed"),
        pytest.param([since("Last-Modified", A_SECOND_AFTER), DATE], None, id="of-the-future"),
    ],
)
def test_what_is_a_strong_validator(lines, validator):
    assert strong_validator(fields(*lines)) == validator


# What a 206 has.


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (b"bytes=0-9", Part(0, 9)),
        (b"bytes=5-", None),
        (b"bytes=-5", None),
        (b"bytes=9-5", None),
        (b"items=0-9", None),
    ],
)
def test_a_part_is_named_by_both_of_its_ends_or_by_none(value, part):
    assert exact_part(value) == part


@pytest.mark.parametrize(
    ("value", "told", "answered"),
    [
        (b"bytes=0-9", "bytes 0-9/100", (Part(0, 9), 100)),
        (b"bytes=-10", "Bytes 90-99/100", (Part(90, 99), 100)),
        (b"bytes=0-9", "bytes 0-9/*", None),
        (b"bytes=0-9", "bytes 1-9/100", None),
        (b"rows=0-9", "bytes 0-9/100", None),
    ],
)
def test_an_answer_to_a_range_must_be_of_that_range(value, told, answered):
    assert part_answered(value, fields(f"Content-Range: {told}")) == answered


@pytest.mark.parametrize(
    ("value", "length", "part"),
    [
        (b"bytes=2-5", 10, Part(2, 5)),
        (b"bytes=2-", 10, Part(2, 9)),
        (b"bytes=-3", 10, Part(7, 9)),
        (b"bytes=2-99", 10, Part(2, 9)),
        (b"bytes=10-", 10, None),
        (b"bytes=-0", 10, None),
        (b"bytes=5-2", 10, None),
        (b"bytes=0-1,3-4", 10, None),
        (b"bytes=0-0", 0, None),
    ],
)
def test_the_part_that_a_range_asks_for(value, length, part):
    assert part_asked(value, length) == part
