"""`conclude`, `conclude_absence` and `proves_existence`: what an origin's answer means."""

import pytest

from chunkside.core.decision import (
    Fill,
    Forward,
    Freshen,
    JudgeWhole,
    Nonsense,
    NotStored,
    PassOn,
    StoreAbsence,
    StoreBody,
    StorePart,
)
from chunkside.core.entry import Now, Part
from chunkside.core.freshness import Policy
from chunkside.core.policy import conclude, conclude_absence, proves_existence
from chunkside.core.ranges import is_changed
from chunkside.core.variants import is_selected_by, variant_of
from tests.core.samples import KEY, NOW, absent, earlier, fields, head, present, request, stored

POLICY = Policy()
SENT = Now(4_999.0, 1_699_999_999.0)
OLD = stored(
    'ETag: "a"',
    "Cache-Control: max-age=60",
    "Content-Type: text/plain",
    "X-Kept: 1",
    length=77,
    origin_lifetime=60.0,
    initial_age=9.0,
    requested_at=earlier(1000),
)
STALE = present(OLD)


def meaning(answer, *, stale=None, asked=None, policy=POLICY, range_value=None):
    fill = Fill(Forward.URI_MISS, stale, range_value)
    return conclude(asked or request(), fill, answer, SENT, policy)


# A 200.


def test_a_200_is_stored_with_what_must_survive_a_restart():
    asked = request("Origin: https://page.example", key_class="metadata")
    answer = head(200, 'ETag: "b"', "Cache-Control: max-age=60", "Age: 7", length=10)
    assert meaning(answer, asked=asked, stale=STALE) == StoreBody(
        stored(
            'ETag: "b"',
            "Cache-Control: max-age=60",
            "Age: 7",
            key=KEY,
            key_class="metadata",
            length=10,
            origin_lifetime=60.0,
            initial_age=7.0,
            requested_at=SENT,
            origin_field=b"https://page.example",
        )
    )


def test_a_200_of_unknown_length_is_stored_without_one_yet():
    told = meaning(head(200, length=None))
    assert isinstance(told, StoreBody)
    assert (told.stored.length, told.stored.origin_lifetime) == (0, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Cache-Control: no-store", NotStored.NO_STORE),
        ("Vary: *", NotStored.VARY),
        ("Content-Type: text/html", NotStored.HTML),
    ],
)
def test_a_200_that_may_not_be_stored_is_passed_on_with_the_reason(line, reason):
    assert meaning(head(200, line)) == PassOn(reason)


# A 206.


def part_of(value, told, *lines, length=10, policy=POLICY):
    answer = head(206, f"Content-Range: {told}", *lines, length=length)
    return meaning(answer, range_value=value, policy=policy)


@pytest.mark.parametrize(
    ("value", "told", "part"),
    [
        (b"bytes=90-99", "bytes 90-99/1000", (90, 99)),
        (b"bytes=990-", "bytes 990-999/1000", (990, 999)),
        (b"bytes=990-5000", "bytes 990-999/1000", (990, 999)),
        (b"bytes=-10", "bytes 990-999/1000", (990, 999)),
        (b"bytes=-10", "bytes 0-9/10", (0, 9)),
    ],
)
def test_a_range_that_was_asked_for_is_stored_as_part_of_the_whole(value, told, part):
    lines = ['ETag: "b"', "Content-Type: a/b", "Content-MD5: x", "Cache-Control: max-age=60"]
    length = int(told.rpartition("/")[2])
    assert part_of(value, told, *lines) == StorePart(
        stored(
            'ETag: "b"',
            "Content-Type: a/b",
            "Cache-Control: max-age=60",
            length=length,
            origin_lifetime=60.0,
            requested_at=SENT,
        ),
        Part(*part),
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"bytes=90-99", "bytes 91-100/1000"),
        (b"bytes=90-99", "bytes 90-98/1000"),
        (b"bytes=90-99", "bytes 90-99/*"),
        (b"bytes=90-99", "bytes */1000"),
        (b"bytes=90-99", "items 90-99/1000"),
        (b"bytes=-10", "bytes 0-9/1000"),
        (b"bytes=990-", "bytes 990-999/2000"),
        (b"bytes=90-99", "bytes 90-99/50"),
    ],
)
def test_a_range_that_is_not_what_was_asked_for_is_passed_on(value, told):
    assert part_of(value, told) == PassOn(NotStored.RANGE)


def test_a_range_whose_length_is_not_what_it_says_is_passed_on():
    assert part_of(b"bytes=90-99", "bytes 90-99/1000", length=11) == PassOn(NotStored.RANGE)
    assert isinstance(part_of(b"bytes=90-99", "bytes 90-99/1000", length=None), StorePart)


def test_a_range_that_may_not_be_stored_is_passed_on_with_the_reason():
    told = part_of(b"bytes=90-99", "bytes 90-99/1000", "Cache-Control: no-store")
    assert told == PassOn(NotStored.NO_STORE)
    small = part_of(
        b"bytes=90-99", "bytes 90-99/1000", length=None, policy=Policy(max_body_bytes=9)
    )
    assert small == PassOn(NotStored.TOO_LARGE)


def test_a_200_to_a_range_is_the_whole():
    told = meaning(head(200, length=1000), range_value=b"bytes=90-99")
    assert isinstance(told, StoreBody)


# Every other status.


@pytest.mark.parametrize("status", [204, 205, 206, 304])
def test_what_no_get_of_a_whole_can_have_is_nonsense(status):
    told = meaning(head(status))
    assert isinstance(told, Nonsense)
    assert str(status) in told.detail


@pytest.mark.parametrize("status", [204, 205, 206])
def test_a_validation_can_not_have_it_either(status):
    assert isinstance(meaning(head(status), stale=STALE), Nonsense)


@pytest.mark.parametrize("status", [201, 202, 203, 207, 208, 226, 299])
def test_other_successes_are_passed_on(status):
    assert meaning(head(status, 'ETag: "a"')) == PassOn(NotStored.STATUS)
    assert meaning(head(status), stale=STALE) == PassOn(NotStored.STATUS)


@pytest.mark.parametrize("status", [s for s in range(300, 600) if s != 304])
def test_redirects_absences_and_errors_are_judged_once_they_are_whole(status):
    assert meaning(head(status)) == JudgeWhole()
    assert meaning(head(status), stale=STALE) == JudgeWhole()


# A 304 to our own question.


def freshened(*lines, old=OLD, asked=None):
    told = meaning(head(304, *lines), stale=present(old), asked=asked)
    assert isinstance(told, Freshen)
    return told.stored


def test_a_304_brings_the_stored_head_up_to_date():
    told = freshened(
        'ETag: "a"', "cache-control: max-age=90", "Age: 3", "Date: x", "Content-Type: text/html"
    )
    assert told == stored(
        'ETag: "a"',
        "Content-Type: text/plain",
        "X-Kept: 1",
        "cache-control: max-age=90",
        "Age: 3",
        "Date: x",
        length=77,
        origin_lifetime=90.0,
        initial_age=3.0,
        requested_at=SENT,
    )


def test_a_304_that_says_nothing_renews_what_was_said():
    told = freshened()
    assert told.fields == OLD.fields
    assert (told.origin_lifetime, told.initial_age, told.requested_at) == (60.0, 0.0, SENT)


@pytest.mark.parametrize(
    "line",
    [
        "Content-Length: 0",
        "Content-Encoding: gzip",
        "Content-Range: bytes 0-1/2",
        "Content-Type: text/html",
        'ETag: W/"a"',
        "Set-Cookie: a=1",
        "x-ms-error-code: ConditionNotMet",
    ],
)
def test_a_304_never_changes_how_the_bytes_are_read_nor_sets_cookies(line):
    assert freshened(line).fields == OLD.fields


def test_a_304_replaces_all_lines_of_a_field():
    old = stored('ETag: "a"', "Via: 1", "via: 2", "X-A: 1")
    assert freshened("VIA: 3", old=old).fields == fields('ETag: "a"', "X-A: 1", "VIA: 3")


@pytest.mark.parametrize(
    ("held", "told"),
    [
        pytest.param(['ETag: "a"'], ['ETag: "a"'], id="same"),
        pytest.param(['ETag: "a"'], ['ETag: W/"a"'], id="weakened-on-the-way"),
        pytest.param(['ETag: W/"a"'], ['ETag: "a"'], id="strong-of-weak"),
        pytest.param(['ETag: "a"'], [], id="nothing-told"),
        pytest.param(["Last-Modified: x"], ["Last-Modified: x"], id="same-date"),
        pytest.param(["Last-Modified: x"], ['ETag: "a"'], id="a-tag-where-none-was"),
        pytest.param(['ETag: "a"'], ["Last-Modified: x"], id="a-date-where-none-was"),
        pytest.param(
            ['ETag: "a"', "Last-Modified: x"], ['ETag: "a"', "Last-Modified: y"], id="tag-decides"
        ),
    ],
)
def test_a_304_to_what_was_asked_about_freshens(held, told):
    freshened(*told, old=stored(*held))


@pytest.mark.parametrize(
    ("held", "told"),
    [
        pytest.param(['ETag: "a"'], ['ETag: "b"'], id="other-tag"),
        pytest.param(['ETag: W/"a"'], ['ETag: W/"b"'], id="other-weak-tag"),
        pytest.param(
            ['ETag: "a"', "Last-Modified: x"], ['ETag: "b"', "Last-Modified: x"], id="tag-decides"
        ),
        pytest.param(["Last-Modified: x"], ["Last-Modified: an older date"], id="put-back"),
        pytest.param(
            ['ETag: "a"', "Last-Modified: x"], ["Last-Modified: y"], id="other-date-and-no-tag"
        ),
        pytest.param(
            ["Last-Modified: x"], ['ETag: "a"', "Last-Modified: y"], id="other-date-and-new-tag"
        ),
    ],
)
def test_a_304_that_names_another_version_freshens_nothing(held, told):
    answer = meaning(head(304, *told), stale=present(stored(*held)))
    assert isinstance(answer, Nonsense)
    assert "another version" in answer.detail


@pytest.mark.parametrize("line", ["Cache-Control: no-store", "Cache-Control: private, max-age=60"])
def test_what_may_not_be_stored_any_more_is_asked_for_each_time(line):
    told = freshened(line)
    assert told.origin_lifetime == 0.0
    assert line.encode() in b"\n".join(b": ".join(field) for field in told.fields)


@pytest.mark.parametrize("told", ["Vary: Accept", "Vary: *", "Vary: Accept-Language, Accept"])
@pytest.mark.parametrize("held", [[], ["Vary: Accept-Language"]])
def test_what_varies_otherwise_than_it_did_is_asked_for_each_time(held, told):
    asked = request("Accept: x", "Accept-Language: de")
    variant = variant_of(fields(*held), asked.fields)
    old = stored('ETag: "a"', "Cache-Control: max-age=60", *held, variant=variant)
    now = freshened("Cache-Control: max-age=60", told, old=old, asked=asked)
    assert now.origin_lifetime == 0.0
    # What it is selected by stays what its variant was made of.
    assert is_selected_by(now, asked.fields)


def test_what_varies_as_it_did_is_fresh_again():
    asked = request("Accept-Language: de")
    variant = variant_of(fields("Vary: Accept-Language"), asked.fields)
    old = stored('ETag: "a"', "Vary: Accept-Language", variant=variant)
    lines = "Cache-Control: max-age=60", "Vary: accept-encoding, accept-language"
    assert freshened(*lines, old=old, asked=asked).origin_lifetime == 60.0


@pytest.mark.parametrize("name", ["Content-MD5", "Content-Digest", "x-amz-checksum-crc32"])
def test_a_304_tells_no_checksum_of_what_is_held(name):
    old = stored('ETag: "a"', f"{name}: of-the-body")
    assert freshened(f"{name}: of-nothing", old=old).fields == fields(
        'ETag: "a"', f"{name}: of-the-body"
    )


def test_what_was_freshened_for_a_page_answers_that_page():
    old = stored('ETag: "a"', "Access-Control-Allow-Origin: *", origin_field=b"https://a.example")
    assert freshened(old=old, asked=request("Origin: https://b.example")).origin_field == (
        b"https://b.example"
    )
    assert freshened(old=old).origin_field is None


# An absence.


def absence(answer, body=b"", *, asked=None, policy=POLICY):
    return conclude_absence(asked or request(), answer, body, policy)


@pytest.mark.parametrize("status", [404, 410])
def test_a_whole_404_or_410_makes_a_marker(status):
    assert absence(head(status)) == StoreAbsence(300.0, allows_any_origin=False)


@pytest.mark.parametrize("status", [s for s in range(200, 600) if s not in (404, 410)])
def test_no_other_status_makes_a_marker(status):
    assert absence(head(status)) == PassOn(NotStored.STATUS)


@pytest.mark.parametrize(
    ("answer", "body", "told"),
    [
        pytest.param(
            head(
                404, "Cache-Control: private, max-age=0", "Expires: Mon, 01 Jan 2024 00:00:00 GMT"
            ),
            b"<Error><Code>NoSuchKey</Code></Error>",
            StoreAbsence(300.0, allows_any_origin=False),
            id="gcs-boilerplate-shortens-nothing",
        ),
        pytest.param(
            head(404, "Cache-Control: max-age=30"),
            b"",
            StoreAbsence(30.0, allows_any_origin=False),
            id="a-shorter-lifetime-does",
        ),
        pytest.param(
            head(404, "Access-Control-Allow-Origin: *"),
            b"",
            StoreAbsence(300.0, allows_any_origin=True),
            id="for-any-page",
        ),
        pytest.param(
            head(404, "Cache-Control: no-store"), b"", PassOn(NotStored.NO_STORE), id="no-store"
        ),
        pytest.param(
            head(404, is_framed=False), b"", PassOn(NotStored.CLOSE_DELIMITED), id="unframed"
        ),
        pytest.param(
            head(404),
            b"<Error><Code>NoSuchBucket</Code></Error>",
            PassOn(NotStored.OTHER_CODE),
            id="missing-bucket",
        ),
        pytest.param(
            head(404, "Cache-Control: max-age=9", "Age: 9"),
            b"",
            PassOn(NotStored.SWITCHED_OFF),
            id="used-up-on-the-way",
        ),
    ],
)
def test_what_a_404_means(answer, body, told):
    assert absence(answer, body) == told


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        pytest.param([], PassOn(NotStored.CORS), id="none"),
        pytest.param(
            ["Access-Control-Allow-Origin: https://page.example"],
            PassOn(NotStored.CORS),
            id="for-one-page",
        ),
        pytest.param(
            ["Access-Control-Allow-Origin: *"], StoreAbsence(300.0, True), id="for-any-page"
        ),
    ],
)
def test_a_404_to_a_page_is_remembered_only_for_all_pages(lines, told):
    asked = request("Origin: https://page.example")
    assert absence(head(404, *lines), asked=asked) == told


@pytest.mark.parametrize(
    "policy", [Policy(cache_missing=False), Policy(negative_ttl=0.0)], ids=["flag", "ttl"]
)
def test_with_negative_caching_off_nothing_is_remembered(policy):
    assert absence(head(404), policy=policy) == PassOn(NotStored.SWITCHED_OFF)


def test_a_marker_of_metadata_lives_for_seconds():
    asked = request(key_class="metadata")
    assert absence(head(404), asked=asked) == StoreAbsence(5.0, allows_any_origin=False)


@pytest.mark.parametrize("status", range(200, 600))
def test_what_contradicts_a_remembered_absence(status):
    assert proves_existence(status) is (status < 300 or status in (304, 412))


def test_the_body_of_a_fill_is_dated_when_it_was_asked_for():
    told = meaning(head(200))
    assert isinstance(told, StoreBody)
    assert told.stored.requested_at == SENT != NOW


# A document held against what it was.


@pytest.mark.parametrize(
    ("held", "now", "told"),
    [
        pytest.param(None, stored(), False, id="unknown-before"),
        pytest.param(None, None, False, id="unknown-before-and-absent"),
        pytest.param(absent(), None, False, id="still-absent"),
        pytest.param(absent(), stored(), True, id="appeared"),
        pytest.param(present(stored()), None, True, id="gone"),
        pytest.param(present(stored()), stored(), None, id="nothing-to-compare"),
        pytest.param(present(stored('ETag: "a"')), stored('ETag: "a"'), False, id="same-tag"),
        pytest.param(present(stored('ETag: "a"')), stored('ETag: W/"a"'), False, id="weakened"),
        pytest.param(present(stored('ETag: "a"')), stored('ETag: "b"'), True, id="other-tag"),
        pytest.param(present(stored('ETag: ""')), stored('ETag: ""'), None, id="empty-tags"),
        pytest.param(present(stored('ETag: "a"')), stored("Last-Modified: x"), None, id="mixed"),
        pytest.param(
            present(stored("Last-Modified: x")), stored("Last-Modified: x"), None, id="same-date"
        ),
        pytest.param(
            present(stored("Last-Modified: x")), stored("Last-Modified: y"), True, id="other-date"
        ),
    ],
)
def test_a_document_changed_if_its_validator_did_or_it_came_or_went(held, now, told):
    assert is_changed(held, now) is told
