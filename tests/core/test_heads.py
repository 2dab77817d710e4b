import pytest

from chunkside.core.decision import (
    NotModified,
    PreconditionFailed,
    Unsatisfiable,
    Whole,
)
from chunkside.core.entry import Part
from chunkside.core.heads import SelectedHead, head_of, head_of_absence, head_of_hidden
from tests.core.samples import absent, fields, head, stored

CONTENT = ("Content-Type: text/plain", "Content-Language: en", "Content-Encoding: x")
KEPT = ('ETag: "a"', "Last-Modified: y", "Cache-Control: max-age=9", "X-Amz-Meta-A: 1")


def test_a_whole_body_has_the_fields_that_the_origin_sent():
    told = head_of(stored(*KEPT, *CONTENT), Whole())
    assert told == SelectedHead(200, fields(*KEPT, *CONTENT, "Accept-Ranges: bytes"), 0, 1000)
    assert told.length == 1000


def test_the_origins_own_accept_ranges_stays():
    told = head_of(stored("accept-ranges: none"), Whole())
    assert told.fields == fields("accept-ranges: none")


@pytest.mark.parametrize(
    ("first", "last", "told", "length"),
    [
        (0, 0, "bytes 0-0/1000", 1),
        (5, 14, "bytes 5-14/1000", 10),
        (0, 999, "bytes 0-999/1000", 1000),
    ],
)
def test_a_part_says_where_it_lies(first, last, told, length):
    answer = head_of(stored(*KEPT, *CONTENT), Part(first, last))
    assert answer.fields == fields(
        *KEPT, *CONTENT, "Accept-Ranges: bytes", f"Content-Range: {told}"
    )
    assert (answer.status, answer.first, answer.end) == (206, first, last + 1)
    assert answer.length == length


def test_a_part_has_no_checksum_of_the_whole():
    whole = stored(
        "Content-MD5: rL0Y20zC+Fzt72VPzMSk2A==",
        "Content-Digest: sha-256=:x:",
        "x-amz-checksum-crc64nvme: x",
        "X-Amz-Checksum-Type: FULL_OBJECT",
        "Repr-Digest: sha-256=:x:",
        "x-ms-blob-content-md5: x",
        "x-goog-hash: md5=x",
    )
    assert head_of(whole, Part(0, 9)).fields == fields(
        "Repr-Digest: sha-256=:x:",
        "x-ms-blob-content-md5: x",
        "x-goog-hash: md5=x",
        "Accept-Ranges: bytes",
        "Content-Range: bytes 0-9/1000",
    )
    assert head_of(whole, Whole()).fields.count(b"content-md5") == 1


@pytest.mark.parametrize(
    ("selection", "status"), [(NotModified(), 304), (PreconditionFailed(), 412)]
)
def test_an_answer_without_a_body_has_no_content_fields(selection, status):
    told = head_of(stored(*CONTENT, *KEPT), selection)
    assert told == SelectedHead(status, fields(*KEPT, "Accept-Ranges: bytes"), 0, 0)
    assert told.length == 0


def test_an_unsatisfiable_range_is_told_the_length():
    told = head_of(stored(*CONTENT, *KEPT), Unsatisfiable())
    assert told.fields == fields(*KEPT, "Accept-Ranges: bytes", "Content-Range: bytes */1000")
    assert (told.status, told.length) == (416, 0)


@pytest.mark.parametrize("status", [404, 410])
def test_a_remembered_absence_has_the_status_that_was_seen(status):
    assert head_of_absence(absent(status=status)) == SelectedHead(status, fields())


def test_a_remembered_absence_keeps_its_cors_facts():
    told = head_of_absence(absent(allows_any_origin=True))
    assert told.fields == fields("Access-Control-Allow-Origin: *")


def test_an_absence_says_what_readers_of_an_object_store_look_for():
    told = head_of_absence(absent(), b"<Error/>")
    assert told == SelectedHead(404, fields("Content-Type: application/xml"), 0, 8)


@pytest.mark.parametrize(("status", "told"), [(404, 404), (410, 410), (403, 404)])
def test_a_remembered_refusal_is_told_as_an_absence(status, told):
    assert head_of_absence(absent(status=status)).status == told


@pytest.mark.parametrize(
    ("body", "lines"), [(b"", []), (b"<Error/>", ["Content-Type: application/xml"])]
)
def test_a_refusal_that_hid_an_absence_keeps_what_isn_t_of_its_body(body, lines):
    refused = head(403, "Date: x", "Content-Type: text/html", "Content-Language: en", length=90)
    assert head_of_hidden(refused, body) == head(404, "Date: x", *lines, length=len(body))
