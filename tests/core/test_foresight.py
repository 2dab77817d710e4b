"""What is said of a decision is what the decision does."""

import math
from dataclasses import replace

import pytest

from chunkside.core.decision import FollowElseRelay, Forward, Relay, Write
from chunkside.core.foresight import duration, foresee
from chunkside.core.freshness import Policy
from chunkside.core.policy import decide
from tests.core.samples import NOW, absent, earlier, partial, present, request, stored

ETAG = 'ETag: "a"'
FRESH = present(stored(ETAG, requested_at=earlier(12)))
STALE = present(stored(ETAG, requested_at=earlier(400)))
WHILE = present(
    stored(
        ETAG,
        "Cache-Control: max-age=10, stale-while-revalidate=60",
        requested_at=earlier(20),
        origin_lifetime=10.0,
    )
)
MARKER = absent(requested_at=earlier(12))
FULL_GETS_ALONE = "a remembered absence answers full GETs alone here (negative_scope)"


@pytest.mark.parametrize(
    ("asked", "entry", "said"),
    [
        (request(), FRESH, "200 from store, for 4 min 48 s more"),
        (request("Range: bytes=5-9"), FRESH, "206 with bytes 5-9 from store, for 4 min 48 s more"),
        (request("Range: bytes=2000-"), FRESH, "416 from store, for 4 min 48 s more"),
        (request('If-None-Match: "a"'), FRESH, "304 from store, for 4 min 48 s more"),
        (request('If-Match: "b"'), FRESH, "412 from store, for 4 min 48 s more"),
        (request(), WHILE, "200 from store, though stale, and the origin is asked meanwhile"),
        (request(), MARKER, "404 from memory, for 4 min 48 s more"),
        (request(), absent(status=410), "410 from memory, for 5 min 0 s more"),
        (request(), absent(status=403), "404 from memory, for 5 min 0 s more"),
        (
            request(),
            STALE,
            (
                "the origin is asked whether what is held still stands: what is remembered is no "
                "longer fresh"
            ),
        ),
        (
            request(),
            None,
            "the origin is asked, and its answer remembered: nothing is remembered of it",
        ),
        (
            request(),
            absent(requested_at=earlier(400)),
            "the origin is asked, and its answer remembered: what is remembered is no longer fresh",
        ),
        (
            request("Range: bytes=0-9"),
            partial(stored(ETAG), (100, 199)),
            (
                "the origin is asked, and its answer remembered: these bytes are not among those "
                "that are held"
            ),
        ),
        (
            request("Range: bytes=0-9", 'If-Range: "b"'),
            None,
            "the origin is asked: nothing is remembered of it",
        ),
        (
            request(method="HEAD"),
            None,
            "the origin is asked each time: nothing is remembered of it",
        ),
        (
            request(method="HEAD"),
            MARKER,
            f"the origin is asked each time: {FULL_GETS_ALONE}",
        ),
        (
            request("Range: bytes=0-9"),
            MARKER,
            f"the origin is asked, and its answer remembered: {FULL_GETS_ALONE}",
        ),
        (
            request("Range: bytes=0-9", 'If-Range: "b"'),
            MARKER,
            f"the origin is asked: {FULL_GETS_ALONE}",
        ),
        (
            replace(request("Range: bytes=0-9"), control="refresh"),
            MARKER,
            "the origin is asked, and its answer remembered: the request wants it asked anew",
        ),
        (
            request(is_signed=True),
            FRESH,
            "the origin is asked each time: the client's signature proves nothing to a cache",
        ),
        (
            request(host=b"bucket.store.example"),
            FRESH,
            (
                "the origin is asked each time: its Host is not the origin's own name, and may "
                "mean another object"
            ),
        ),
        (
            request(key_class="listing"),
            None,
            (
                "the origin is asked each time: it is a listing, which any write beneath it would "
                "change"
            ),
        ),
        (
            request("Cache-Control: no-store"),
            FRESH,
            "the origin is asked each time: the cache has no part in it",
        ),
        (
            request("Cache-Control: only-if-cached"),
            None,
            "504 from the sidecar: This is not to be had from store",
        ),
        (
            request(method="PUT"),
            FRESH,
            "passed to the origin, and what is held of it forgotten",
        ),
    ],
)
def test_what_would_be_answered_is_said(asked, entry, said):
    assert foresee(asked, decide(asked, entry, NOW, Policy()), entry) == said


@pytest.mark.parametrize("forward", Forward)
def test_every_reason_has_its_words(forward):
    for decision in (Relay(forward), FollowElseRelay(forward)):
        assert ": " in foresee(request(), decision, None)
    assert foresee(request(), Write(is_broad=True), None)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (3600, "1 h 0 min"),
        (90_061, "1 d 1 h"),
        (86_400, "1 d 0 h"),
        (math.inf, "ever"),
    ],
)
def test_a_duration_is_told_in_two_units(seconds, said):
    assert duration(seconds) == said
