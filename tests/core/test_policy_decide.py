"""`decide`: by method, entry and fields."""

import math
from dataclasses import replace

import pytest

from chunkside.core.decision import (
    Fill,
    FollowElseRelay,
    Forward,
    Refuse,
    Relay,
    Serve,
    ServeAbsence,
    Write,
)
from chunkside.core.freshness import Policy
from chunkside.core.policy import decide, fill_fields
from tests.core.samples import NOW, absent, earlier, fields, partial, present, request, stored

POLICY = Policy()
ETAG = 'ETag: "a"'
ANY = "Access-Control-Allow-Origin: *"
PAGE = "Origin: https://page.example"
OTHER_PAGE = "Origin: https://other.example"
RANGE = "Range: bytes=0-9"
FOR_PAGE = b"https://page.example"

FRESH = present(stored(ETAG, requested_at=earlier(100)))
STALE = present(stored(ETAG, requested_at=earlier(300)))
STALE_BY_DATE = present(stored("Last-Modified: x", requested_at=earlier(301)))
STALE_UNASKABLE = present(stored(requested_at=earlier(301)))
ADOPTED = replace(FRESH, must_validate=True)
OF_A_PAGE = present(stored(ETAG, requested_at=earlier(100), origin_field=FOR_PAGE))
STALE_OF_A_PAGE = present(stored(ETAG, requested_at=earlier(301), origin_field=FOR_PAGE))
FOR_ANY_PAGE = present(stored(ETAG, ANY, requested_at=earlier(100), origin_field=FOR_PAGE))
MARKER = absent(requested_at=earlier(100))
OLD_MARKER = absent(requested_at=earlier(300))
MARKER_FOR_ANY = absent(requested_at=earlier(100), allows_any_origin=True)
OLD_MARKER_FOR_ANY = absent(requested_at=earlier(301), allows_any_origin=True)

# Bytes 100 to 199, and 200 to 299, of 1000.
PARTS = partial(stored(ETAG, requested_at=earlier(100)), (100, 199), (200, 299))
ALL_OF_IT = partial(stored(ETAG, requested_at=earlier(100)), (0, 999))
NOTHING = partial(stored(ETAG, length=0, requested_at=earlier(100)), (0, 9))
STALE_PARTS = replace(PARTS, stored=stored(ETAG, requested_at=earlier(300)))
UNASKABLE_PARTS = replace(PARTS, stored=stored(requested_at=earlier(300)))


def ranged(why, stale=None, value=b"bytes=0-9"):
    return Fill(why, stale, value)


MISS = Fill(Forward.URI_MISS)

BYPASS = Relay(Forward.BYPASS)
METHOD = Relay(Forward.METHOD)


@pytest.mark.parametrize(
    ("entry", "lines", "decision"),
    [
        # Nothing is held.
        pytest.param(None, [], MISS, id="unknown"),
        pytest.param(None, [PAGE], MISS, id="unknown-for-a-page"),
        pytest.param(None, [RANGE], ranged(Forward.URI_MISS), id="unknown-range"),
        pytest.param(
            None,
            ["Range: bytes=-16"],
            Fill(Forward.URI_MISS, None, b"bytes=-16"),
            id="unknown-suffix",
        ),
        pytest.param(
            None, [RANGE, 'If-Range: "a"'], FollowElseRelay(Forward.URI_MISS), id="unknown-if-range"
        ),
        pytest.param(None, ["Range: bytes=5-4"], MISS, id="unknown-malformed-range"),
        pytest.param(None, ["Range: items=0-9"], MISS, id="unknown-other-unit"),
        pytest.param(None, ['If-None-Match: "a"'], MISS, id="unknown-conditional"),
        pytest.param(None, ["Cache-Control: no-cache"], MISS, id="unknown-no-cache"),
        # A body.
        pytest.param(FRESH, [], Serve(FRESH, 200.0), id="fresh"),
        pytest.param(FRESH, [RANGE], Serve(FRESH, 200.0), id="fresh-range"),
        pytest.param(FRESH, ["Range: bytes=5-4"], Serve(FRESH, 200.0), id="fresh-malformed"),
        pytest.param(FRESH, ['If-Match: "b"'], Serve(FRESH, 200.0), id="fresh-conditional"),
        pytest.param(FRESH, ["Cache-Control: no-cache"], Serve(FRESH, 200.0), id="no-cache"),
        pytest.param(FRESH, ["Cache-Control: max-age=0"], Serve(FRESH, 200.0), id="max-age-0"),
        pytest.param(FRESH, ["Pragma: no-cache"], Serve(FRESH, 200.0), id="pragma"),
        pytest.param(STALE, [], Fill(Forward.STALE, STALE), id="stale"),
        pytest.param(STALE, [RANGE], ranged(Forward.STALE, STALE), id="stale-range"),
        pytest.param(
            STALE, [RANGE, 'If-Range: "a"'], ranged(Forward.STALE, STALE), id="stale-if-range"
        ),
        pytest.param(
            STALE,
            [RANGE, 'If-Range: "b"'],
            FollowElseRelay(Forward.STALE),
            id="stale-if-range-other",
        ),
        pytest.param(STALE_BY_DATE, [], Fill(Forward.STALE, STALE_BY_DATE), id="stale-by-date"),
        pytest.param(STALE_UNASKABLE, [], Fill(Forward.STALE), id="stale-without-validator"),
        pytest.param(ADOPTED, [], Fill(Forward.STALE, ADOPTED), id="adopted"),
        pytest.param(ADOPTED, [RANGE], ranged(Forward.STALE, ADOPTED), id="adopted-range"),
        # A body and a page.
        pytest.param(OF_A_PAGE, [PAGE], Serve(OF_A_PAGE, 200.0), id="same-page"),
        pytest.param(OF_A_PAGE, [], Serve(OF_A_PAGE, 200.0), id="no-page"),
        pytest.param(OF_A_PAGE, [OTHER_PAGE], Fill(Forward.VARY_MISS), id="other-page"),
        pytest.param(FRESH, [PAGE], Fill(Forward.VARY_MISS), id="stored-without-page"),
        pytest.param(FRESH, [PAGE, PAGE], Fill(Forward.VARY_MISS), id="two-origins-are-not-none"),
        pytest.param(STALE_OF_A_PAGE, [OTHER_PAGE], Fill(Forward.VARY_MISS), id="stale-other-page"),
        pytest.param(
            OF_A_PAGE,
            [OTHER_PAGE, RANGE],
            ranged(Forward.VARY_MISS),
            id="other-page-range",
        ),
        pytest.param(FOR_ANY_PAGE, [OTHER_PAGE], Serve(FOR_ANY_PAGE, 200.0), id="any-page"),
        # Ranges.
        pytest.param(PARTS, [], Fill(Forward.PARTIAL), id="parts-whole"),
        pytest.param(PARTS, ["Range: bytes=5-4"], Fill(Forward.PARTIAL), id="parts-malformed"),
        pytest.param(ALL_OF_IT, [], Serve(ALL_OF_IT, 200.0), id="a-part-that-is-all"),
        pytest.param(NOTHING, [], Fill(Forward.PARTIAL), id="parts-of-nothing"),
        pytest.param(PARTS, [RANGE], ranged(Forward.PARTIAL), id="parts-other-range"),
        pytest.param(PARTS, [RANGE, 'If-Range: "a"'], ranged(Forward.PARTIAL), id="parts-if-range"),
        pytest.param(
            PARTS,
            [RANGE, 'If-Range: "b"'],
            FollowElseRelay(Forward.PARTIAL),
            id="parts-if-range-other",
        ),
        pytest.param(PARTS, ["Range: bytes=100-199"], Serve(PARTS, 200.0), id="parts-exact"),
        pytest.param(PARTS, ["Range: bytes=210-220"], Serve(PARTS, 200.0), id="parts-within"),
        pytest.param(
            PARTS,
            ["Range: bytes=150-250"],
            ranged(Forward.PARTIAL, None, b"bytes=150-250"),
            id="parts-across-two",
        ),
        pytest.param(
            PARTS, ["Range: bytes=-9"], ranged(Forward.PARTIAL, None, b"bytes=-9"), id="parts-end"
        ),
        pytest.param(PARTS, ["Range: bytes=1000-"], Serve(PARTS, 200.0), id="parts-beyond"),
        pytest.param(PARTS, [ETAG.replace("ETag", "If-None-Match")], Serve(PARTS, 200.0), id="304"),
        pytest.param(
            STALE_PARTS,
            ["Range: bytes=110-119"],
            ranged(Forward.STALE, STALE_PARTS, b"bytes=110-119"),
            id="stale-parts-within",
        ),
        pytest.param(STALE_PARTS, [RANGE], ranged(Forward.STALE), id="stale-parts-other-range"),
        pytest.param(
            UNASKABLE_PARTS,
            ["Range: bytes=110-119"],
            ranged(Forward.STALE, None, b"bytes=110-119"),
            id="stale-parts-without-validator",
        ),
        # A marker.
        pytest.param(MARKER, [], ServeAbsence(MARKER, 200.0), id="absent"),
        pytest.param(MARKER, ['If-None-Match: "a"'], ServeAbsence(MARKER, 200.0), id="absent-cond"),
        pytest.param(MARKER, ["Cache-Control: no-cache"], ServeAbsence(MARKER, 200.0), id="abs-nc"),
        pytest.param(MARKER, ["Range: bytes=5-4"], ServeAbsence(MARKER, 200.0), id="absent-bad"),
        pytest.param(
            MARKER, [RANGE], ranged(Forward.REQUEST), id="a-range-is-not-answered-from-a-marker"
        ),
        pytest.param(MARKER, [PAGE], Fill(Forward.VARY_MISS), id="absent-for-a-page"),
        pytest.param(
            MARKER_FOR_ANY, [PAGE], ServeAbsence(MARKER_FOR_ANY, 200.0), id="absent-for-any-page"
        ),
        pytest.param(OLD_MARKER, [], Fill(Forward.STALE), id="absent-stale"),
        pytest.param(OLD_MARKER, [PAGE], Fill(Forward.STALE), id="absent-stale-for-a-page"),
        pytest.param(OLD_MARKER_FOR_ANY, [PAGE], Fill(Forward.STALE), id="absent-stale-for-any"),
    ],
)
def test_what_to_do_with_a_get(entry, lines, decision):
    assert decide(request(*lines), entry, NOW, POLICY) == decision


ENTRIES = [
    pytest.param(None, id="unknown"),
    pytest.param(FRESH, id="fresh"),
    pytest.param(STALE, id="stale"),
    pytest.param(ADOPTED, id="adopted"),
    pytest.param(OF_A_PAGE, id="of-a-page"),
    pytest.param(MARKER, id="absent"),
    pytest.param(OLD_MARKER, id="absent-stale"),
]


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        pytest.param(["Range: bytes=0-1,5-6"], {}, id="several-ranges"),
        pytest.param([RANGE, RANGE], {}, id="two-range-lines"),
        pytest.param(["Cache-Control: no-store"], {}, id="no-store"),
        pytest.param(["Cache-Control: max-age=0, no-store"], {}, id="no-store-among-others"),
        pytest.param(["x-ms-range: bytes=0-9"], {}, id="x-ms-range"),
        pytest.param(["x-ms-if-tags: a=1"], {}, id="x-ms-if-tags"),
        pytest.param(["x-ms-lease-id: 1"], {}, id="x-ms-lease-id"),
        pytest.param(["x-ms-structured-body: XSM/1.0"], {}, id="x-ms-structured-body"),
        pytest.param(["x-ms-range-get-content-md5: true"], {}, id="a part's checksum"),
        pytest.param(["x-ms-range-get-content-crc64: true"], {}, id="a part's other checksum"),
        pytest.param(["X-Amz-Server-Side-Encryption-Customer-Key: x"], {}, id="sse-c"),
        pytest.param(["x-goog-encryption-key: x"], {}, id="csek"),
        pytest.param(["x-goog-if-generation-match: 1"], {}, id="a generation"),
        pytest.param(["x-goog-if-metageneration-match: 1"], {}, id="a metageneration"),
        pytest.param(["x-ms-encryption-key: x"], {}, id="cpk"),
        pytest.param([], {"has_body": True}, id="body"),
        pytest.param([], {"key_class": "listing"}, id="listing"),
        pytest.param([], {"is_signed": True}, id="signed"),
        pytest.param([RANGE], {"is_signed": True}, id="signed-range"),
        pytest.param([], {"host": b"bucket.store.example"}, id="another-host"),
    ],
)
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_may_not_touch_the_cache_goes_round_it(lines, facts, entry, method):
    assert decide(request(*lines, method=method, **facts), entry, NOW, POLICY) == BYPASS


@pytest.mark.parametrize(
    ("entry", "lines", "decision"),
    [
        pytest.param(None, [], METHOD, id="unknown"),
        pytest.param(None, [RANGE], METHOD, id="unknown-range"),
        pytest.param(FRESH, [], Serve(FRESH, 200.0), id="fresh"),
        pytest.param(FRESH, [RANGE], Serve(FRESH, 200.0), id="fresh-range"),
        pytest.param(STALE, [], Relay(Forward.STALE), id="stale"),
        pytest.param(STALE, [RANGE], Relay(Forward.STALE), id="stale-range"),
        pytest.param(ADOPTED, [], Relay(Forward.STALE), id="adopted"),
        pytest.param(OF_A_PAGE, [OTHER_PAGE], Relay(Forward.VARY_MISS), id="other-page"),
        pytest.param(MARKER, [], METHOD, id="absent"),
        pytest.param(MARKER_FOR_ANY, [PAGE], METHOD, id="absent-for-any-page"),
        pytest.param(OLD_MARKER, [], METHOD, id="absent-stale"),
    ],
)
def test_a_head_is_answered_from_a_fresh_body_alone(entry, lines, decision):
    assert decide(request(*lines, method="HEAD"), entry, NOW, POLICY) == decision


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("method", ["OPTIONS", "PROPFIND", "REPORT", "SEARCH"])
@pytest.mark.parametrize("allow_writes", [True, False])
def test_other_safe_methods_are_relayed(method, entry, allow_writes):
    policy = Policy(allow_writes=allow_writes)
    asked = request(RANGE, method=method, has_body=True)
    assert decide(asked, entry, NOW, policy) == METHOD


@pytest.mark.parametrize(
    ("method", "target", "is_broad"),
    [
        ("PUT", b"/a", False),
        ("PUT", b"/a?partNumber=1&uploadId=/", False),
        ("DELETE", b"/a", False),
        ("PATCH", b"/a", False),
        ("PUT", b"/a/", True),
        ("DELETE", b"/a/?x", True),
        ("DELETE", b"/", True),
        ("POST", b"/a", True),
        ("MOVE", b"/a", True),
        ("COPY", b"/a", True),
        ("MKCOL", b"/a", False),
        ("put", b"/a", True),
        ("WHATEVER", b"/a", True),
    ],
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_write_is_narrow_only_where_its_target_tells_all(method, target, is_broad, entry):
    asked = request("Cache-Control: no-store", RANGE, method=method, target=target, is_signed=True)
    assert decide(asked, entry, NOW, POLICY) == Write(is_broad, is_deep=method == "DELETE")


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "MOVE", "MKCOL", "put"])
def test_a_read_only_route_refuses_writes(method, entry):
    refusal = decide(request(method=method), entry, NOW, Policy(allow_writes=False))
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (405, "writes-refused")
    assert refusal.allow == "GET, HEAD, OPTIONS"
    assert "--allow-writes" in refusal.detail


@pytest.mark.parametrize("allow_writes", [True, False])
@pytest.mark.parametrize(
    ("method", "slug", "word"),
    [
        ("TRACE", "method-refused", "TRACE"),
        ("CONNECT", "method-refused", "CONNECT"),
        ("PURGE", "purge-elsewhere", "admin port"),
    ],
)
def test_some_methods_are_always_refused(method, slug, word, allow_writes):
    refusal = decide(request(method=method), FRESH, NOW, Policy(allow_writes=allow_writes))
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (405, slug)
    assert word in refusal.detail
    assert refusal.allow is not None
    assert ("PUT" in refusal.allow) is (allow_writes and method != "PURGE")


@pytest.mark.parametrize(
    ("held", "decision"),
    [
        pytest.param(
            present(stored(ETAG, requested_at=earlier(-2))), "stale", id="body-of-the-future"
        ),
        pytest.param(absent(requested_at=earlier(-2)), "stale", id="marker-of-the-future"),
        pytest.param(
            present(stored(ETAG, requested_at=earlier(-0.5))), "served", id="half-a-second-ahead"
        ),
        pytest.param(
            present(stored(ETAG, origin_lifetime=math.inf, requested_at=earlier(-2))),
            "stale",
            id="for-ever-fresh-of-the-future",
        ),
        pytest.param(
            absent(lifetime=math.inf, requested_at=earlier(-2)), "stale", id="for-ever-absent"
        ),
        pytest.param(absent(lifetime=math.inf, requested_at=earlier(1e9)), "served", id="for-ever"),
    ],
)
def test_what_was_learned_in_the_future_is_stale(held, decision):
    told = decide(request(), held, NOW, POLICY)
    if decision == "stale":
        assert isinstance(told, Fill)
        assert told.forward == Forward.STALE
    else:
        assert isinstance(told, Serve | ServeAbsence)


def test_metadata_is_asked_about_after_seconds():
    held = present(stored(ETAG, key_class="metadata", requested_at=earlier(5)))
    assert decide(request(), held, NOW, POLICY) == Fill(Forward.STALE, held)
    assert decide(request(), held, NOW, Policy(metadata_ttl=6.0)) == Serve(held, 1.0)


def test_time_spent_in_other_caches_counts():
    held = present(stored(ETAG, origin_lifetime=300.0, initial_age=250.0, requested_at=earlier(40)))
    assert decide(request(), held, NOW, POLICY) == Serve(held, 10.0)


# What a fill sends.

CONDITIONS = (
    'If-Match: "a"',
    'If-None-Match: "b"',
    "If-Modified-Since: x",
    "If-Unmodified-Since: x",
    'If-Range: "a"',
    RANGE,
    "Accept-Encoding: gzip",
)


def test_a_fill_asks_for_the_whole_as_it_is():
    asked = request("Accept: x", *CONDITIONS, "Authorization: y", "Cache-Control: no-cache")
    assert fill_fields(asked, None) == fields(
        "Accept: x", "Authorization: y", "Cache-Control: no-cache", "Accept-Encoding: identity"
    )


@pytest.mark.parametrize(
    ("held", "conditions"),
    [
        pytest.param(['ETag: W/"a"'], ['If-None-Match: W/"a"'], id="tag"),
        pytest.param(["Last-Modified: y"], ["If-Modified-Since: y"], id="date"),
        pytest.param(
            [ETAG, "Last-Modified: y"], ['If-None-Match: "a"', "If-Modified-Since: y"], id="both"
        ),
        pytest.param(['ETag: ""', "Last-Modified: y"], ["If-Modified-Since: y"], id="empty-tag"),
        pytest.param([], [], id="none"),
    ],
)
def test_a_fill_of_a_stale_body_asks_whether_that_still_holds(held, conditions):
    sent = fill_fields(request(*CONDITIONS), present(stored(*held)))
    assert sent == fields("Accept-Encoding: identity", *conditions)


def test_a_fill_of_a_range_asks_for_that_range_alone():
    sent = fill_fields(request(RANGE, 'If-Match: "z"'), PARTS, b"bytes=0-9")
    assert sent == fields("Accept-Encoding: identity", RANGE, 'If-None-Match: "a"')
