"""Who may say how fresh an answer must be: the client, the origin, the profile."""

import math
from dataclasses import replace

import pytest

from chunkside.core.decision import (
    Fill,
    FollowElseRelay,
    Forward,
    JudgeWhole,
    Refuse,
    Relay,
    Serve,
    ServeAbsence,
    StoreBody,
    Whole,
    Write,
)
from chunkside.core.freshness import (
    Policy,
    absence_lifetime,
    heuristic_lifetime,
    may_serve_stale,
    may_serve_while_revalidating,
    origin_lifetime,
    remaining,
)
from chunkside.core.policy import conclude, decide
from chunkside.core.ranges import select
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

ETAG = 'ETag: "a"'
RANGE = "Range: bytes=0-9"
DEFAULT = Policy()
OBEYING = Policy(obeys_clients=True)
STRICT = Policy(ttl=0.0, negative_ttl=math.inf, is_strict=True, obeys_clients=True)
FRESH = present(stored(ETAG, requested_at=earlier(100)))
STALE = present(stored(ETAG, requested_at=earlier(310)))
PARTS = partial(stored(ETAG, requested_at=earlier(100)), (100, 199))
MARKER = absent(requested_at=earlier(100))
OLD_MARKER = absent(requested_at=earlier(310))


# The client.


@pytest.mark.parametrize(
    ("entry", "method"),
    [
        (None, "GET"),
        (STALE, "GET"),
        (OLD_MARKER, "GET"),
        (PARTS, "GET"),
        (None, "HEAD"),
        (MARKER, "HEAD"),
    ],
)
@pytest.mark.parametrize("policy", [DEFAULT, STRICT])
def test_what_is_only_wanted_from_store_is_504_where_it_is_not_there(entry, method, policy):
    asked = request("Cache-Control: only-if-cached", method=method)
    refusal = decide(asked, entry, NOW, policy)
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (504, "only-if-cached")


def test_what_is_only_wanted_from_store_is_served_from_there():
    asked = request("Cache-Control: only-if-cached")
    assert decide(asked, FRESH, NOW, DEFAULT) == Serve(FRESH, 200.0)
    assert decide(asked, MARKER, NOW, DEFAULT) == ServeAbsence(MARKER, 200.0)
    assert decide(replace(asked, method="PUT"), FRESH, NOW, DEFAULT) == Write(is_broad=False)


@pytest.mark.parametrize("entry", [None, FRESH, STALE, MARKER, PARTS])
def test_refresh_asks_anew_whatever_is_held(entry):
    asked = replace(request(), control="refresh")
    assert decide(asked, entry, NOW, DEFAULT) == Fill(Forward.REQUEST, is_anew=True)
    asked = replace(request(RANGE), control="refresh")
    anew = Fill(Forward.REQUEST, None, b"bytes=0-9", is_anew=True)
    assert decide(asked, entry, NOW, DEFAULT) == anew
    asked = replace(request(method="HEAD"), control="refresh")
    assert decide(asked, entry, NOW, DEFAULT) == Relay(Forward.REQUEST)
    asked = replace(request(RANGE, 'If-Range: "a"'), control="refresh")
    assert decide(asked, entry, NOW, DEFAULT) == FollowElseRelay(Forward.REQUEST)


@pytest.mark.parametrize("entry", [None, FRESH, MARKER])
def test_bypass_leaves_the_cache_out_of_it(entry):
    asked = replace(request(), control="bypass")
    assert decide(asked, entry, NOW, DEFAULT) == Relay(Forward.BYPASS)


VALIDATE = Fill(Forward.REQUEST, FRESH)


@pytest.mark.parametrize(
    ("line", "entry", "decision"),
    [
        ("Cache-Control: no-cache", FRESH, VALIDATE),
        ("Pragma: no-cache", FRESH, VALIDATE),
        ("Cache-Control: max-age=99", FRESH, VALIDATE),
        ("Cache-Control: max-age=100", FRESH, Serve(FRESH, 200.0)),
        ("Cache-Control: min-fresh=201", FRESH, VALIDATE),
        ("Cache-Control: min-fresh=200", FRESH, Serve(FRESH, 200.0)),
        ("Cache-Control: max-stale=11", STALE, Serve(STALE, -10.0)),
        ("Cache-Control: max-stale", STALE, Serve(STALE, -10.0)),
        ("Cache-Control: max-stale=9", STALE, Fill(Forward.STALE, STALE)),
        ("Cache-Control: no-cache", MARKER, Fill(Forward.REQUEST)),
        ("Cache-Control: max-age=99", MARKER, Fill(Forward.REQUEST)),
        ("Cache-Control: max-stale", OLD_MARKER, Fill(Forward.STALE)),
    ],
)
def test_a_client_is_obeyed_where_that_is_set(line, entry, decision):
    assert decide(request(line), entry, NOW, OBEYING) == decision


@pytest.mark.parametrize(
    "line", ["Cache-Control: no-cache", "Cache-Control: max-age=0", "Pragma: no-cache"]
)
def test_else_its_wishes_are_advice(line):
    assert decide(request(line), FRESH, NOW, DEFAULT) == Serve(FRESH, 200.0)
    assert decide(request(line), MARKER, NOW, DEFAULT) == ServeAbsence(MARKER, 200.0)


@pytest.mark.parametrize("line", ["must-revalidate", "proxy-revalidate", "s-maxage=1", "no-cache"])
def test_an_origin_may_forbid_what_a_client_allows(line):
    stale = present(
        stored(ETAG, f"Cache-Control: {line}", requested_at=earlier(310), origin_lifetime=300.0)
    )
    asked = request("Cache-Control: max-stale")
    assert decide(asked, stale, NOW, OBEYING) == Fill(Forward.STALE, stale)
    assert not may_serve_stale(stale, NOW, DEFAULT)
    assert may_serve_stale(stale, NOW, replace(DEFAULT, obeys_origin=False))


def test_what_nobody_vouches_for_is_validated_whatever_a_client_allows():
    adopted = replace(FRESH, must_validate=True)
    asked = request("Cache-Control: max-stale")
    assert decide(asked, adopted, NOW, OBEYING) == Fill(Forward.STALE, adopted)


# The origin.


def swr(seconds, *more, lines=()):
    told = ", ".join((f"stale-while-revalidate={seconds}", *more))
    head_of = stored(ETAG, f"Cache-Control: {told}", *lines, requested_at=earlier(310))
    return present(head_of)


@pytest.mark.parametrize(("seconds", "may"), [(10, True), (11, True), (9, False), ("x", False)])
def test_what_is_stale_is_served_while_its_origin_is_asked_where_that_allows_it(seconds, may):
    held = swr(seconds)
    asked = Fill(Forward.STALE, held)
    expected = Serve(held, -10.0, asked) if may else asked
    assert decide(request(), held, NOW, DEFAULT) == expected
    assert may_serve_while_revalidating(held, -10.0, DEFAULT) is may
    assert not may_serve_while_revalidating(held, -10.0, replace(DEFAULT, obeys_origin=False))


def test_not_so_where_the_origin_forbids_it_or_the_client_asks_for_more():
    held = swr(60, "must-revalidate")
    assert decide(request(), held, NOW, DEFAULT) == Fill(Forward.STALE, held)
    held = swr(60)
    demanding = request("Cache-Control: max-age=999")
    assert decide(demanding, held, NOW, OBEYING) == Fill(Forward.STALE, held)
    held = replace(swr(60), must_validate=True)
    assert decide(request(), held, NOW, DEFAULT) == Fill(Forward.STALE, held)
    assert decide(request(method="HEAD"), swr(60), NOW, DEFAULT) == Relay(Forward.STALE)


def test_the_origin_says_for_how_long_what_is_stale_may_stand_in():
    held = present(stored(ETAG, "Cache-Control: stale-if-error=60", requested_at=earlier(310)))
    assert may_serve_stale(held, NOW, replace(DEFAULT, stale_if_error=0.0))
    longer = replace(held, stored=replace(held.stored, requested_at=earlier(361)))
    assert not may_serve_stale(longer, NOW, DEFAULT)
    assert may_serve_stale(longer, NOW, replace(DEFAULT, obeys_origin=False))


def test_an_origin_that_is_not_obeyed_gives_no_lifetime():
    held = stored(ETAG, origin_lifetime=0.0, requested_at=earlier(100))
    assert remaining(held, NOW, DEFAULT) == -100.0
    assert remaining(held, NOW, replace(DEFAULT, obeys_origin=False)) == 200.0


def test_expires_counts_from_the_request_where_date_can_not_be_read():
    told = fields(f"Expires: {NEW_YEAR.decode()}", "Date: foo")
    assert origin_lifetime(told) == 0.0
    assert origin_lifetime(told, 1_704_067_190.0) == 10.0
    dated = told.without(frozenset({b"date"})).plus((b"Date", A_MINUTE_BEFORE))
    assert origin_lifetime(dated, 0.0) == 60.0


# The profile.


@pytest.mark.parametrize(
    ("status", "lines", "seconds"),
    [
        (200, ["Last-Modified: Sun, 31 Dec 2023 00:00:00 GMT"], 8640.0),
        (200, ["Last-Modified: Sun, 31 Dec 2022 00:00:00 GMT"], 86_400.0),
        (200, ["Last-Modified: Tue, 02 Jan 2024 00:00:00 GMT"], 0.0),
        (200, [], 0.0),
        (301, ["Last-Modified: Sun, 31 Dec 2023 00:00:00 GMT"], 8640.0),
        (302, ["Last-Modified: Sun, 31 Dec 2023 00:00:00 GMT"], 0.0),
        (
            302,
            ["Last-Modified: Sun, 31 Dec 2023 00:00:00 GMT", "Cache-Control: public"],
            8640.0,
        ),
    ],
)
def test_the_rfc_s_heuristic_is_a_tenth_of_the_time_unchanged(status, lines, seconds):
    what = stored(f"Date: {NEW_YEAR.decode()}", *lines, requested_at=earlier(10), initial_age=5.0)
    what = replace(what, status=status)
    assert heuristic_lifetime(what, STRICT) == seconds
    assert remaining(what, NOW, STRICT) == seconds - 15.0
    assert remaining(what, NOW, DEFAULT) == 290.0


def test_without_a_date_the_time_unchanged_is_until_the_request():
    what = stored("Last-Modified: Tue, 14 Nov 2023 22:13:10 GMT")
    assert heuristic_lifetime(what, STRICT) == pytest.approx((NOW.wall - 1_699_999_990.0) / 10)


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [([], 0.0), (["Cache-Control: max-age=0"], 0.0), (["Cache-Control: max-age=60"], 60.0)],
)
def test_by_the_rfc_alone_an_absence_lives_as_long_as_its_origin_says(lines, seconds):
    assert absence_lifetime(fields(*lines), "chunk", STRICT) == seconds


def meaning(answer, policy, **asked):
    return conclude(request(), Fill(Forward.URI_MISS, **asked), answer, NOW, policy)


def test_by_the_rfc_alone_other_statuses_are_stored_as_they_are():
    answer = head(503, "Cache-Control: max-age=60", "Set-Cookie: a=b", "Retry-After: 9")
    told = meaning(answer, STRICT)
    assert isinstance(told, StoreBody)
    assert (told.stored.status, told.stored.origin_lifetime) == (503, 60.0)
    assert told.stored.fields == fields("Cache-Control: max-age=60", "Retry-After: 9")
    assert meaning(answer, DEFAULT) == JudgeWhole()
    # To a range it says nothing of the whole.
    assert meaning(answer, STRICT, range_value=b"bytes=0-9") == JudgeWhole()


def test_neither_conditions_nor_ranges_apply_to_other_statuses():
    what = replace(stored(ETAG), status=503)
    for line in (RANGE, 'If-None-Match: "a"', 'If-Match: "b"'):
        assert select(fields(line), what) == Whole()


def test_what_was_not_modified_since_it_was_made_is_told_by_its_date():
    what = stored(f"Date: {NEW_YEAR.decode()}")
    assert select(fields(f"If-Modified-Since: {NEW_YEAR.decode()}"), what) != Whole()
    assert select(fields(f"If-Modified-Since: {A_MINUTE_BEFORE.decode()}"), what) == Whole()
