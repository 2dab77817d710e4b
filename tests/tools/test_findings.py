"""What an origin's answers mean for caching."""

from dataclasses import replace

import pytest

from chunkside.core.entry import Now
from chunkside.core.fields import Fields
from chunkside.core.response import ResponseHead
from chunkside.core.route import Route
from chunkside.routing import policy_of
from chunkside.settings import load_settings, require_routes
from chunkside.tools import findings
from chunkside.tools.findings import Seen

DATE = ("Date", "Wed, 01 Jul 2026 12:00:00 GMT")
NOW = Now(1000.0, 1_782_907_200.0)
[CONFIGURED] = require_routes(load_settings({"upstream": "http://o"}, {}))
POLICY = policy_of(CONFIGURED, 2**30)
ROUTE = Route("/", "http://o:80", b"", b"", frozenset({b"authorization"}))

DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
DENIED_TO_READ = DENIED.replace(b"Access Denied", b"not authorized to perform: s3:GetObject on a")


def request_of(target="/a/c/0", fields=()):
    lines = Fields((name.encode(), value.encode()) for name, value in fields)
    return ROUTE.request("GET", target.encode(), lines, has_body=False)


def seen(status, *fields, body=b"", length=4):
    lines = Fields((name.encode(), value.encode()) for name, value in (DATE, *fields))
    return Seen(ResponseHead(status, lines, length), body)


@pytest.mark.parametrize(
    ("answer", "rating", "words"),
    [
        (seen(200), "good", "answers in 20 ms"),
        (seen(401), "bad", "upstream_auth"),
        (seen(403), "bad", "credential"),
        (seen(404), "bad", "name a target that is there"),
        (seen(302, ("Location", "https://x/y?X-Sig=secret")), "bad", "to https://x/y: "),
        (seen(500), "bad", "500"),
    ],
)
def test_whether_it_can_be_reached(answer, rating, words):
    finding = findings.reachable(answer, 0.02)
    assert (finding.rating, words in finding.says) == (rating, True)
    assert "secret" not in finding.says


def test_head_should_be_answered_as_get_is():
    assert findings.head_request(seen(200), seen(200)).rating == "good"
    finding = findings.head_request(seen(405), seen(200))
    assert (finding.rating, "405" in finding.says) == ("costly", True)


@pytest.mark.parametrize(
    ("answer", "rating"),
    [
        (seen(206, ("Content-Range", "bytes 0-0/9")), "good"),
        (seen(206), "bad"),
        (seen(200), "costly"),
        (seen(416), "bad"),
    ],
)
def test_ranges(answer, rating):
    assert findings.range_request(answer).rating == rating


@pytest.mark.parametrize(
    ("fields", "rating", "words"),
    [
        ([("ETag", '"x"')], "good", '"x" is a strong'),
        ([("ETag", 'W/"x"')], "costly", "weak"),
        ([("Last-Modified", "Wed, 01 Jul 2026 11:00:00 GMT")], "good", "strong"),
        ([("Last-Modified", "Wed, 01 Jul 2026 11:59:50 GMT")], "costly", "weak"),
        ([], "costly", "neither ETag nor Last-Modified"),
    ],
)
def test_validators(fields, rating, words):
    finding = findings.validator(seen(200, *fields))
    assert (finding.rating, words in finding.says) == (rating, True)


@pytest.mark.parametrize(
    ("answer", "rating", "words"),
    [
        (seen(404), "good", "remembered for 5 min"),
        (seen(410), "good", "remembered for 5 min"),
        (seen(404, ("Cache-Control", "max-age=10")), "good", "remembered for 10 s"),
        (seen(404, ("Cache-Control", "no-store")), "bad", "no-store"),
        (seen(404, body=b"<Error><Code>NoSuchBucket</Code></Error>"), "bad", "<Code>"),
        (seen(404, body=b"<Error><Code>NoSuchKey</Code></Error>"), "good", "remembered"),
        (seen(404, ("Vary", "Cookie")), "bad", "Vary"),
        (seen(403), "bad", "not in the words of a store"),
        (seen(403, body=DENIED), "bad", "or set absent_statuses=404,410,403. The risk: chunks"),
        (seen(403, body=DENIED_TO_READ), "bad", "not in the words of a store"),
        (seen(403, ("Vary", "Cookie"), body=DENIED), "bad", "Vary"),
        (seen(200), "bad", "take what comes for data"),
        (seen(500), "bad", "500"),
    ],
)
def test_what_a_missing_key_gets(answer, rating, words):
    finding = findings.missing_key(answer, request_of(), POLICY)
    assert (finding.rating, words in finding.says) == (rating, True), finding


def test_a_403_that_is_taken_for_absence_says_what_it_costs_and_risks():
    policy = replace(POLICY, absent_statuses=frozenset({403, 404}))
    finding = findings.missing_key(seen(403, body=DENIED), request_of(), policy)
    assert finding.rating == "costly"
    assert "told as 404, and remembered for 5 min 0 s" in finding.says
    assert "read as fill values" in finding.says


def test_a_status_that_is_left_out_is_named():
    policy = replace(POLICY, absent_statuses=frozenset({404}))
    assert "absent_statuses" in findings.missing_key(seen(410), request_of(), policy).says


def test_absences_that_are_switched_off_are_told():
    policy = replace(POLICY, negative_ttl=0.0)
    finding = findings.missing_key(seen(404), request_of(), policy)
    assert (finding.rating, "negative_ttl" in finding.says) == ("bad", True)


@pytest.mark.parametrize(
    ("answer", "rating"), [(seen(304), "good"), (seen(200), "costly"), (None, "costly")]
)
def test_conditions(answer, rating):
    assert findings.condition(answer).rating == rating


@pytest.mark.parametrize(
    ("target", "fields", "rating", "words"),
    [
        ("/a/c/0", [], "good", "says nothing: stored, and used without asking for 5 min"),
        ("/a/zarr.json", [], "good", "for 5 s"),
        ("/a/c/0", [("Cache-Control", "max-age=60")], "good", "for 1 min"),
        ("/a/c/0", [("Cache-Control", "no-cache")], "costly", "validated before each use"),
        ("/a/c/0", [("Cache-Control", "no-store")], "bad", "says no-store"),
        ("/a/c/0", [("Cache-Control", "private")], "bad", "-H sends one"),
        ("/a/c/0", [("Vary", "*")], "bad", "Vary"),
        ("/a/c/0", [("Content-Type", "text/html")], "bad", "HTML"),
    ],
)
def test_for_how_long_bodies_are_used(target, fields, rating, words):
    finding = findings.cache_control(seen(200, *fields), request_of(target), NOW, POLICY)
    assert (finding.rating, words in finding.says) == (rating, True), finding


def test_what_is_private_is_kept_for_its_own_credential():
    answer = seen(200, ("Cache-Control", "private, max-age=60"))
    request = request_of(fields=[("Authorization", "Bearer x")])
    assert findings.cache_control(answer, request, NOW, POLICY).rating == "good"


def test_a_body_that_is_too_large_is_told():
    answer = seen(200, length=POLICY.max_body_bytes + 1)
    finding = findings.cache_control(answer, request_of(), NOW, POLICY)
    assert "max_body_size" in finding.says
