"""Whether what is held is so, by what the origin answers now: agreed, changed or wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.audit import (
    Agrees,
    Changed,
    Told,
    Undecided,
    Why,
    Wrong,
    hits_until_next,
    judge,
    kind_of,
)
from chunkside.core.entry import Now
from chunkside.core.freshness import Policy
from tests.core.samples import (
    A_MINUTE_BEFORE,
    NEW_YEAR,
    NOW,
    absent,
    earlier,
    fields,
    head,
    partial,
    present,
    request,
    stored,
)

STORE = Policy(is_object_store=True)
PLAIN = Policy()
OLD = "Last-Modified: " + A_MINUTE_BEFORE.decode()
DATE = "Date: " + NEW_YEAR.decode()
LATER = "Mon, 01 Jan 2024 00:0%d:00 GMT"


def told(status, *lines, is_same=None, body=b"", length=10, is_framed=True):
    return Told(head(status, *lines, length=length, is_framed=is_framed), NOW, is_same, body)


MARKER = absent(requested_at=earlier(30))
BODY = present(stored('ETag: "a"', DATE))
RANGE = partial(stored('ETag: "a"', DATE), (0, 9))


# A marker.


@pytest.mark.parametrize("status", [404, 410])
def test_an_absence_that_is_absent_still_agrees(status):
    assert isinstance(judge(request(), MARKER, told(status), PLAIN), Agrees)


@pytest.mark.parametrize(
    "answer",
    [
        told(404, body=b"<Error><Code>NoSuchBucket</Code></Error>"),
        told(404, "Content-Encoding: gzip"),
        told(404, is_framed=False),
    ],
    ids=["another absence", "encoded", "without an end"],
)
@pytest.mark.parametrize("held", [MARKER, BODY, RANGE], ids=["marker", "body", "range"])
def test_a_404_that_proves_no_absence_is_no_verdict(held, answer):
    judged = judge(request(), held, answer, PLAIN)
    assert isinstance(judged, Undecided)
    assert judged.why is Why.ERROR


REFUSED = absent(status=403, requested_at=earlier(30))
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
WITH_403 = Policy(absent_statuses=frozenset({403, 404}))


@pytest.mark.parametrize(
    ("held", "status", "body", "policy", "verdict"),
    [
        pytest.param(REFUSED, 403, DENIED, WITH_403, Agrees, id="refused-as-before"),
        pytest.param(REFUSED, 403, b"Forbidden", WITH_403, Changed, id="in-other-words"),
        pytest.param(REFUSED, 404, b"", WITH_403, Agrees, id="absent-now"),
        pytest.param(REFUSED, 403, DENIED, PLAIN, Changed, id="not-wanted-any-more"),
        pytest.param(MARKER, 403, DENIED, WITH_403, Changed, id="refused-now"),
        pytest.param(BODY, 403, DENIED, WITH_403, Changed, id="a-body"),
    ],
)
def test_a_marker_of_a_refusal_agrees_with_another(held, status, body, policy, verdict):
    assert isinstance(judge(request(), held, told(status, body=body), policy), verdict)


def test_a_404_in_the_words_of_a_store_is_an_absence():
    answer = told(404, body=b"<Error><Code>NoSuchKey</Code></Error>")
    assert isinstance(judge(request(), MARKER, answer, STORE), Agrees)


@pytest.mark.parametrize("held", [MARKER, BODY, RANGE], ids=["marker", "body", "range"])
@pytest.mark.parametrize("status", [100, 204, 205, 206, 304, 408, 425, 429, 500, 503, 599, 600])
def test_an_error_is_never_a_verdict(held, status):
    lines = ('ETag: "a"', OLD, DATE)
    judged = judge(request(), held, told(status, *lines, is_same=False), STORE)
    assert isinstance(judged, Undecided)
    assert str(status) in judged.because


@pytest.mark.parametrize("held", [MARKER, BODY, RANGE], ids=["marker", "body", "range"])
@pytest.mark.parametrize("status", [201, 203, 301, 302, 400, 401, 403, 416, 451])
def test_any_other_answer_is_a_change(held, status):
    answer = told(status, 'ETag: "a"', OLD, DATE, is_same=False)
    assert isinstance(judge(request(), held, answer, STORE), Changed)


# The marker was asked for 30 s before the answer, whose date is the new year: at 23:59:30.
@pytest.mark.parametrize(
    ("lines", "policy", "verdict"),
    [
        ((OLD, DATE), STORE, Wrong),
        (("Last-Modified: Sun, 31 Dec 2023 23:59:27 GMT", DATE), STORE, Wrong),
        (("Last-Modified: Sun, 31 Dec 2023 23:59:28 GMT", DATE), STORE, Changed),
        (("Last-Modified: Sun, 31 Dec 2023 23:59:40 GMT", DATE), STORE, Changed),
        ((OLD,), STORE, Changed),
        ((DATE,), STORE, Changed),
        ((OLD, DATE), PLAIN, Changed),
        ((OLD, DATE, "X-Amz-Request-Id: 7"), PLAIN, Wrong),
        ((OLD, DATE, "X-Goog-Generation: 7"), PLAIN, Wrong),
        ((OLD, DATE, "X-Ms-Blob-Type: BlockBlob"), PLAIN, Wrong),
        ((OLD, DATE, "X-Amz-Version-Id: abc"), STORE, Changed),
        ((OLD, DATE, "X-Amz-Version-Id: null"), STORE, Wrong),
        ((OLD, DATE, "X-Ms-Version-Id: 2024"), STORE, Changed),
        ((OLD, DATE, f'ETag: "{"a1" * 16}-12"'), STORE, Changed),
        ((OLD, DATE, f'ETag: "{"a1" * 16}"'), STORE, Wrong),
        ((OLD, DATE, "Content-Type: text/html"), STORE, Changed),
        ((OLD, DATE, "Age: 90"), STORE, Changed),
        ((OLD, DATE, "Age: 0"), STORE, Wrong),
    ],
    ids=[
        "from before",
        "just more than clocks differ",
        "as much as clocks differ",
        "from after",
        "the origin has no clock",
        "without a date of its own",
        "a plain server's dates are files'",
        "S3 by a plain URL",
        "GCS by a plain URL",
        "Azure by a plain URL",
        "an older version may have come back",
        "no versions",
        "an older version at Azure",
        "begun before, completed after",
        "in one piece",
        "a page for all that is missing",
        "kept by another cache",
        "kept by none",
    ],
)
def test_a_marker_is_wrong_where_the_store_had_it_before(lines, policy, verdict):
    assert type(judge(request(), MARKER, told(200, *lines), policy)) is verdict


def test_a_page_may_be_a_document():
    asked = request(key_class="metadata")
    answer = told(200, OLD, DATE, "Content-Type: text/html")
    assert isinstance(judge(asked, MARKER, answer, STORE), Wrong)


# Bytes.


@pytest.mark.parametrize("held", [BODY, RANGE], ids=["body", "range"])
@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (told(200, 'ETag: "a"', is_same=True), Agrees),
        (told(200, 'ETag: "b"', is_same=True), Agrees),
        (told(200, 'ETag: "a"', is_same=True, is_framed=False), Agrees),
        (told(200, 'ETag: "a"', is_same=False), Wrong),
        (told(200, 'ETag: "a"', is_same=False, is_framed=False), Undecided),
        (told(200, 'ETag: "a"', is_same=None), Undecided),
        (told(200, 'ETag: W/"a"', is_same=False), Changed),
        (told(200, 'ETag: "b"', is_same=False), Changed),
        (told(200, is_same=False), Changed),
        (told(200, 'ETag: "a"', "Content-Encoding: gzip", is_same=False), Changed),
        (told(200, 'ETag: "a"', "Vary: X-Mode", is_same=True), Changed),
        (told(404), Changed),
    ],
    ids=[
        "the same",
        "the same under another tag",
        "the same without an end",
        "others under the same tag",
        "others without an end",
        "not compared",
        "others under a weak tag",
        "others under another tag",
        "others without a tag",
        "encoded otherwise",
        "another variant",
        "gone",
    ],
)
def test_bytes_are_judged_by_bytes_and_validators(held, answer, verdict):
    assert type(judge(request(), held, answer, PLAIN)) is verdict


def test_what_can_not_be_read_here_says_so():
    judged = judge(request(), BODY, told(200, 'ETag: "a"'), PLAIN)
    assert isinstance(judged, Undecided)
    assert judged.why is Why.UNREADABLE


def test_a_date_is_a_strong_validator_where_it_is_old_enough():
    held = present(stored(OLD, "Date: " + LATER % 5))
    same = told(200, OLD, "Date: " + LATER % 6, is_same=False)
    assert isinstance(judge(request(), held, same, PLAIN), Wrong)
    young = present(stored(OLD, "Date: Sun, 31 Dec 2023 23:59:05 GMT"))
    assert isinstance(judge(request(), young, same, PLAIN), Changed)


@pytest.mark.parametrize("policy", [PLAIN, STORE], ids=["plain", "store"])
@pytest.mark.parametrize(
    ("put_at", "is_before"), [(OLD, True), ("Last-Modified: " + LATER % 1, False)]
)
def test_bytes_are_wrong_where_the_store_had_others_before(policy, put_at, is_before):
    answer = told(200, 'ETag: "b"', put_at, "Date: " + LATER % 9, is_same=False)
    verdict = Wrong if is_before and policy is STORE else Changed
    assert type(judge(request(), BODY, answer, policy)) is verdict
    # What another cache had kept is older than what is held.
    kept = told(200, 'ETag: "b"', put_at, "Date: Sun, 31 Dec 2023 23:59:59 GMT", is_same=False)
    assert isinstance(judge(request(), BODY, kept, policy), Changed)
    # Nobody knows when what has no date was brought.
    undated = present(stored('ETag: "a"'))
    assert isinstance(judge(request(), undated, answer, policy), Changed)


def test_variants_are_compared_with_their_own():
    asked = request("X-Mode: x")
    answered = told(200, 'ETag: "a"', "Vary: X-Mode", is_same=True)
    from chunkside.core.variants import variant_of  # noqa: PLC0415

    variant = variant_of(fields("Vary: X-Mode"), asked.fields)
    held = present(stored('ETag: "a"', "Vary: X-Mode", variant=variant))
    assert isinstance(judge(asked, held, answered, PLAIN), Agrees)
    assert isinstance(judge(request("X-Mode: y"), held, answered, PLAIN), Changed)


@given(
    status=st.integers(100, 700),
    is_same=st.sampled_from([True, False, None]),
    lines=st.lists(
        st.sampled_from(['ETag: "a"', 'ETag: "b"', OLD, DATE, "X-Amz-Request-Id: 1"]), unique=True
    ),
    held=st.sampled_from([MARKER, BODY, RANGE]),
    is_store=st.booleans(),
)
def test_wrong_needs_a_whole_200_and_proof(status, is_same, lines, held, is_store):
    judged = judge(
        request(), held, told(status, *lines, is_same=is_same), Policy(is_object_store=is_store)
    )
    if isinstance(judged, Wrong):
        assert status == 200
        is_tagged = held is not MARKER and 'ETag: "a"' in lines
        assert is_tagged or OLD in lines
        assert held is MARKER or is_same is False
    assert judged.because
    if is_same and held is not MARKER and status == 200:
        assert isinstance(judged, Agrees)


@pytest.mark.parametrize(("held", "kind"), [(MARKER, "marker"), (BODY, "body"), (RANGE, "range")])
def test_each_counts_as_its_kind(held, kind):
    assert kind_of(held) == kind


# Which hits.


@given(share=st.floats(1e-9, 1.0), chance=st.floats(0.0, 1.0, exclude_max=True))
def test_the_next_audited_hit_is_the_next_one_at_the_earliest(share, chance):
    assert hits_until_next(share, chance) >= 1


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 0.003])
def test_on_average_so_many_are_audited(share):
    draws = 20_000
    gaps = [hits_until_next(share, (n + 0.5) / draws) for n in range(draws)]
    assert sum(gaps) / draws == pytest.approx(1 / share, rel=0.02)


def test_the_clock_that_counts_is_the_origin_s_own():
    """The sidecar's may be wrong by hours."""
    late = Now(NOW.boot, NOW.wall + 7200)
    held = absent(requested_at=Now(NOW.boot - 30, NOW.wall - 7200))
    answer = Told(head(200, "Last-Modified: Sun, 31 Dec 2023 23:59:40 GMT", DATE), late)
    assert isinstance(judge(request(), held, answer, STORE), Changed)
