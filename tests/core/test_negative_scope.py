"""What a marker answers: full GETs alone, or HEAD and ranges too."""

import pytest

from chunkside.core.decision import Fill, Forward, Relay, ServeAbsence
from chunkside.core.fields import Fields
from chunkside.core.freshness import Policy
from chunkside.core.policy import (
    as_full_get,
    decide,
    leaves_open_what_is_absent,
    may_be_refused_for_absence,
    touches_the_cache,
    wants_proof,
)
from tests.core.samples import NOW, absent, earlier, fields, request

GET, ALL = Policy(negative_scope="get"), Policy(negative_scope="all")
ONLY_404 = Policy(negative_scope="all", absent_statuses=frozenset({404}))
WITH_403 = Policy(negative_scope="all", absent_statuses=frozenset({403, 404, 410}))
ONLY_403 = Policy(negative_scope="all", absent_statuses=frozenset({403}))
RANGE = "Range: bytes=0-9"
NO_STORE = "Cache-Control: no-store"
MARKER = absent(requested_at=earlier(100))
OLD = absent(requested_at=earlier(301))


@pytest.mark.parametrize(
    ("method", "lines", "entry", "policy", "decision"),
    [
        pytest.param("GET", [], MARKER, GET, ServeAbsence(MARKER, 200.0), id="get-full"),
        pytest.param("HEAD", [], MARKER, GET, Relay(Forward.METHOD), id="get-head"),
        pytest.param(
            "GET", [RANGE], MARKER, GET, Fill(Forward.REQUEST, None, b"bytes=0-9"), id="get-range"
        ),
        pytest.param("GET", [], MARKER, ALL, ServeAbsence(MARKER, 200.0), id="all-full"),
        pytest.param("HEAD", [], MARKER, ALL, ServeAbsence(MARKER, 200.0), id="all-head"),
        pytest.param("GET", [RANGE], MARKER, ALL, ServeAbsence(MARKER, 200.0), id="all-range"),
        pytest.param("HEAD", [], OLD, ALL, Relay(Forward.METHOD), id="all-head-old"),
        pytest.param(
            "GET", [RANGE], OLD, ALL, Fill(Forward.STALE, None, b"bytes=0-9"), id="all-range-old"
        ),
        pytest.param("GET", [], OLD, ALL, Fill(Forward.STALE), id="all-full-old"),
        pytest.param("HEAD", ["Origin: http://p"], MARKER, ALL, Relay(Forward.METHOD), id="a-page"),
        pytest.param(
            "GET", ["Range: bytes=0-1,3-4"], MARKER, ALL, Relay(Forward.BYPASS), id="several"
        ),
        pytest.param(
            "HEAD", ["Cache-Control: no-store"], MARKER, ALL, Relay(Forward.BYPASS), id="no"
        ),
    ],
)
def test_what_a_marker_answers(method, lines, entry, policy, decision):
    assert decide(request(*lines, method=method), entry, NOW, policy) == decision


@pytest.mark.parametrize(
    ("method", "lines", "status", "policy", "wants"),
    [
        pytest.param("HEAD", [], 404, ALL, True, id="head"),
        pytest.param("HEAD", [], 410, ALL, True, id="head-gone"),
        pytest.param("GET", [RANGE], 404, ALL, True, id="range"),
        pytest.param("HEAD", [], 404, GET, False, id="scope-get"),
        pytest.param("HEAD", [], 404, ONLY_404, True, id="head-of-404-alone"),
        pytest.param("HEAD", [], 410, ONLY_404, False, id="not-of-those"),
        pytest.param("HEAD", [], 403, ALL, False, id="refused"),
        pytest.param("HEAD", [], 403, WITH_403, True, id="refused-for-absence"),
        pytest.param("GET", [RANGE], 404, ONLY_403, True, id="proved-to-be-absent"),
        pytest.param("GET", [RANGE], 410, ONLY_403, False, id="gone-not-refused"),
        pytest.param("HEAD", [], 200, ALL, False, id="there"),
        pytest.param("GET", [], 404, ALL, False, id="full-get-proves-itself"),
        pytest.param("GET", ["Range: bytes=0-1,3-4"], 404, ALL, False, id="several"),
        pytest.param("HEAD", ["Cache-Control: no-store"], 404, ALL, False, id="no-store"),
        pytest.param(
            "HEAD", [], 404, Policy(negative_scope="all", cache_missing=False), False, id="off"
        ),
        pytest.param(
            "HEAD", [], 404, Policy(negative_scope="all", negative_ttl=0.0), False, id="ttl-of-0"
        ),
        pytest.param("OPTIONS", [], 404, ALL, False, id="options"),
    ],
)
def test_which_404s_are_followed_by_a_full_get(method, lines, status, policy, wants):
    assert wants_proof(request(*lines, method=method), status, fields(), policy) is wants


@pytest.mark.parametrize(("line", "wants"), [("X: 1", False), ("Cache-Control: max-age=9", True)])
def test_strictly_one_is_worth_while_only_if_the_origin_gives_a_lifetime(line, wants):
    policy = Policy(negative_scope="all", is_strict=True, negative_ttl=9.0)
    assert wants_proof(request(method="HEAD"), 404, fields(line), policy) is wants


def test_the_proof_asks_for_the_whole_and_without_conditions():
    asked = request("X-A: 1", RANGE, 'If-None-Match: "a"', method="HEAD")
    whole = as_full_get(asked)
    assert whole.method == "GET"
    assert list(whole.fields) == [(b"X-A", b"1")]
    assert (whole.key, whole.target) == (asked.key, asked.target)


@pytest.mark.parametrize(
    ("method", "status", "is_store", "is_signed", "is_open"),
    [
        ("HEAD", 404, True, False, True),
        ("HEAD", 410, True, False, True),
        ("HEAD", 403, True, False, False),
        ("GET", 404, True, False, False),
        ("HEAD", 404, False, False, False),
        ("HEAD", 404, True, True, False),
    ],
)
def test_a_head_leaves_open_what_of_an_object_store_is_absent(
    method, status, is_store, is_signed, is_open
):
    asked, policy = request(method=method, is_signed=is_signed), Policy(is_object_store=is_store)
    assert leaves_open_what_is_absent(asked, status, Fields(), policy) is is_open
    told = Fields(((b"x-ms-error-code", b"BlobNotFound"),))
    assert not leaves_open_what_is_absent(asked, status, told, policy)


def test_of_metadata_no_refusal_is_followed_by_a_get():
    assert not wants_proof(request(method="HEAD", key_class="metadata"), 403, fields(), WITH_403)


@pytest.mark.parametrize(
    ("method", "lines", "key_class", "status", "policy", "may"),
    [
        pytest.param("HEAD", [], "chunk", 403, WITH_403, True, id="head"),
        pytest.param("GET", [RANGE], "chunk", 403, WITH_403, True, id="get"),
        pytest.param("POST", [], "chunk", 403, WITH_403, False, id="post"),
        pytest.param("HEAD", [], "metadata", 403, WITH_403, False, id="metadata"),
        pytest.param("HEAD", [], "chunk", 404, WITH_403, False, id="404"),
        pytest.param("HEAD", [], "chunk", 403, ALL, False, id="not-wanted"),
        pytest.param("HEAD", [NO_STORE], "chunk", 403, WITH_403, False, id="no-store"),
    ],
)
def test_a_relayed_read_may_be_refused_for_an_absence(
    method, lines, key_class, status, policy, may
):
    asked = request(*lines, method=method, key_class=key_class)
    assert may_be_refused_for_absence(asked, status, policy) is may


def test_what_passes_the_cache_by_doesnt_touch_it():
    assert touches_the_cache(request())
    assert not touches_the_cache(request("Cache-Control: no-store"))
    assert not touches_the_cache(request(key_class="listing"))
