import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.dates import http_date
from chunkside.core.entry import Now
from chunkside.core.freshness import (
    Policy,
    absence_lifetime,
    absence_under,
    age,
    heuristic_lifetime,
    initial_age,
    may_serve_stale,
    origin_lifetime,
    remaining,
)
from tests.core.samples import NOW, absent, earlier, fields, present, stored

POLICY = Policy()
DATE = "Date: Mon, 01 Jan 2024 00:00:00 GMT"
TOMORROW = "Expires: Tue, 02 Jan 2024 00:00:00 GMT"


@pytest.fixture
def zone_of_new_york(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "EST5")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    "value",
    [
        b"Sun, 06 Nov 1994 08:49:37 GMT",
        b"Sunday, 06-Nov-94 08:49:37 GMT",
        b"Sun Nov  6 08:49:37 1994",
        b"sun, 06 NOV 1994 08:49:37 gmt",
        b"\t Sun, 06 Nov 1994 08:49:37 GMT ",
    ],
)
def test_all_forms_of_a_date_are_in_utc_wherever_the_machine_is(value, zone_of_new_york):
    assert http_date(value) == 784_111_777.0


def test_a_leap_second_is_the_last_of_its_minute():
    assert http_date(b"Sat, 31 Dec 2016 23:59:60 GMT") == 1_483_228_799.0


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"0",
        b"-1",
        b"now",
        b"1704067200",
        b"Sun, 32 Nov 1994 08:49:37 GMT",
        b"Sun, 06 Nov 1994 25:49:37 GMT",
        b"Sun, 06 Nov 1994 08:49:37 +9999",
        b"Sun, 06 Nov 99999999999 08:49:37 GMT",
        b"\xff\xfe",
        b"Sun, 06 Nov 1994 08:49:37 -0000",
        b"Sun, 06 Nov 1994 10:49:37 +0200",
        b"Sun, 06 Nov 1994 08:49:37 UTC",
        b"Sun, 06 Nov 94 08:49:37 GMT",
        b"Sun 06 Nov 1994 08:49:37 GMT",
        b"Sun, 06  Nov 1994 08:49:37 GMT",
        b"Sun, 06-Nov-1994 08:49:37 GMT",
        b"Sun, 06 Nov 1994 08.49.37 GMT",
        b"Sun, 06 Nov 1994 8:49:37 GMT",
        b"Sun, 06 Nov 1994 08:49:61 GMT",
    ],
)
def test_what_is_no_date_is_none(value):
    assert http_date(value) is None


@given(st.binary(max_size=40) | st.text("MonSun,0123456789 :GMT+-/", max_size=40).map(str.encode))
def test_a_date_from_the_network_never_raises(value):
    told = http_date(value)
    assert told is None or math.isfinite(told)


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param(["Cache-Control: public"], None, id="public-alone"),
        pytest.param(["Cache-Control: max-age=60"], 60.0, id="max-age"),
        pytest.param(["Cache-Control: MAX-AGE=60"], 60.0, id="case"),
        pytest.param(['Cache-Control: max-age="60"'], 60.0, id="quoted"),
        pytest.param(["Cache-Control: max-age=0"], 0.0, id="zero"),
        pytest.param(["Cache-Control: max-age=00060"], 60.0, id="leading-zeros"),
        pytest.param(["Cache-Control: max-age=60, s-maxage=30"], 30.0, id="s-maxage-wins"),
        pytest.param(["Cache-Control: s-maxage=0, max-age=60"], 0.0, id="s-maxage-zero-wins"),
        pytest.param(["Cache-Control: no-cache, max-age=60"], 0.0, id="no-cache"),
        pytest.param(['Cache-Control: no-cache="x", max-age=60'], 0.0, id="no-cache-of-fields"),
        pytest.param(["Cache-Control: max-age"], 0.0, id="no-argument"),
        pytest.param(["Cache-Control: max-age=-1"], 0.0, id="negative"),
        pytest.param(["Cache-Control: max-age=1.5"], 0.0, id="fraction"),
        pytest.param(["Cache-Control: max-age=soon"], 0.0, id="word"),
        pytest.param(["Cache-Control: s-maxage=x, max-age=60"], 0.0, id="malformed-s-maxage"),
        pytest.param(["Cache-Control: max-age=2147483649"], 2147483648.0, id="more-than-31-bits"),
        pytest.param(["Cache-Control: max-age=" + "9" * 19], 2147483648.0, id="19-digits"),
        pytest.param(["Cache-Control: max-age=" + "9" * 5000], 2147483648.0, id="5000-digits"),
        pytest.param(["Cache-Control: max-age=" + "0" * 5000], 0.0, id="5000-zeros"),
        pytest.param([DATE, TOMORROW], 86_400.0, id="expires"),
        pytest.param([DATE, TOMORROW, "Cache-Control: max-age=5"], 5.0, id="max-age-over-expires"),
        pytest.param([DATE, "Expires: Sun, 31 Dec 2023 00:00:00 GMT"], 0.0, id="expired"),
        pytest.param([DATE, "Expires: 0"], 0.0, id="expires-0"),
        pytest.param([DATE, "Expires: -1"], 0.0, id="expires-minus-1"),
        pytest.param([DATE, "Expires:"], 0.0, id="expires-empty"),
        pytest.param([TOMORROW], 0.0, id="expires-without-date"),
        pytest.param([TOMORROW, "Date: today"], 0.0, id="expires-with-bad-date"),
        pytest.param([DATE, TOMORROW, TOMORROW], 0.0, id="expires-repeated"),
    ],
)
def test_the_lifetime_that_an_origin_gave(lines, seconds):
    assert origin_lifetime(fields(*lines)) == seconds


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ([], 0.0),
        (["Age: 12"], 12.0),
        (["Age: 12, 99"], 12.0),
        (["Age: 12", "Age: 99"], 12.0),
        (["Age: -1"], 0.0),
        (["Age: old"], 0.0),
        (["Age:"], 0.0),
        (["Age: " + "9" * 5000], 2147483648.0),
    ],
)
def test_the_age_that_an_answer_brings(lines, seconds):
    assert initial_age(fields(*lines)) == seconds


@pytest.mark.parametrize(
    ("boot", "wall", "initial", "seconds"),
    [
        pytest.param(0.0, 0.0, 0.0, 0.0, id="at-once"),
        pytest.param(10.0, 10.0, 0.0, 10.0, id="both-agree"),
        pytest.param(10.0, 4.0, 0.0, 10.0, id="wall-clock-was-put-back"),
        pytest.param(4.0, 10.0, 0.0, 10.0, id="wall-clock-was-put-forward"),
        pytest.param(-4_000.0, 10.0, 0.0, 10.0, id="of-an-earlier-boot"),
        pytest.param(10.0, -1.0, 0.0, 10.0, id="a-second-of-the-future-is-rounding"),
        pytest.param(-5.0, -0.5, 0.0, 0.0, id="never-less-than-nothing"),
        pytest.param(10.0, 10.0, 7.0, 17.0, id="other-caches-count"),
        pytest.param(10.0, -1.5, 0.0, math.inf, id="sent-in-the-future"),
        pytest.param(10.0, -86_400.0, 7.0, math.inf, id="sent-tomorrow"),
    ],
)
def test_age_is_by_the_clock_that_says_more(boot, wall, initial, seconds):
    sent = Now(NOW.boot - boot, NOW.wall - wall)
    assert age(sent, NOW, initial) == seconds


SECONDS = st.floats(-1e6, 1e6)


@given(SECONDS, SECONDS, st.floats(0, 1e6))
def test_age_is_never_less_than_either_clock_says(boot, wall, initial):
    told = age(Now(NOW.boot - boot, NOW.wall - wall), NOW, initial)
    assert told >= initial
    assert told >= initial + max(boot, wall) - 1e-3


@pytest.mark.parametrize(
    ("given_by_origin", "key_class", "policy", "seconds"),
    [
        pytest.param(None, "chunk", Policy(), 300.0, id="default"),
        pytest.param(None, "chunk", Policy(ttl=math.inf), math.inf, id="for-ever"),
        pytest.param(0.0, "chunk", Policy(), 0.0, id="origin-says-none"),
        pytest.param(9000.0, "chunk", Policy(), 9000.0, id="origin-says-longer"),
        pytest.param(None, "metadata", Policy(), 5.0, id="metadata-ceiling-on-default"),
        pytest.param(9000.0, "metadata", Policy(), 5.0, id="metadata-ceiling-on-origin"),
        pytest.param(1.0, "metadata", Policy(), 1.0, id="metadata-shorter"),
        pytest.param(None, "metadata", Policy(ttl=1.0), 1.0, id="metadata-under-ttl"),
        pytest.param(None, "metadata", Policy(metadata_ttl=math.inf), 300.0, id="no-ceiling"),
        pytest.param(9000.0, "listing", Policy(), 9000.0, id="listing"),
    ],
)
def test_settings_fill_in_and_cap_the_lifetime_of_bodies(
    given_by_origin, key_class, policy, seconds
):
    held = stored(origin_lifetime=given_by_origin, key_class=key_class)
    assert remaining(held, NOW, policy) == seconds


@pytest.mark.parametrize(
    ("given_by_origin", "age_before", "key_class", "seconds"),
    [
        pytest.param(100.0, 30.0, "chunk", 50.0, id="the-origins-counts-the-age-it-came-with"),
        pytest.param(None, 9999.0, "chunk", 280.0, id="ours-counts-from-the-request"),
        pytest.param(9000.0, 8979.0, "metadata", -15.0, id="our-ceiling-counts-from-the-request"),
        pytest.param(100.0, 78.0, "metadata", -15.0, id="the-lesser-counts"),
        pytest.param(100.0, 99.0, "metadata", -19.0, id="the-origins-is-the-lesser"),
    ],
)
def test_freshness_is_used_up_from_when_the_request_was_sent(
    given_by_origin, age_before, key_class, seconds
):
    held = stored(
        origin_lifetime=given_by_origin,
        initial_age=age_before,
        key_class=key_class,
        requested_at=earlier(20),
    )
    assert remaining(held, NOW, Policy()) == seconds


def test_what_was_asked_for_in_the_future_was_never_fresh():
    held = stored(requested_at=Now(0.0, 2e9))
    assert remaining(held, NOW, Policy(ttl=math.inf)) == -math.inf


ETAG = 'ETag: "a"'


@pytest.mark.parametrize(
    ("lines", "sent", "policy", "may"),
    [
        pytest.param([ETAG], earlier(301), Policy(), True, id="just-stale"),
        pytest.param([ETAG], earlier(300 + 86_400), Policy(), True, id="last-moment"),
        pytest.param([ETAG], earlier(300 + 86_401), Policy(), False, id="too-old"),
        pytest.param([ETAG], earlier(301), Policy(stale_if_error=0.0), False, id="off"),
        pytest.param([ETAG], earlier(1e9), Policy(stale_if_error=math.inf), True, id="for-ever"),
        pytest.param([ETAG], Now(0.0, 2e9), Policy(), False, id="future"),
        pytest.param(
            [ETAG], Now(0.0, 2e9), Policy(stale_if_error=math.inf), False, id="unknown-age"
        ),
        pytest.param(
            [ETAG], Now(0.0, 2e9), Policy(ttl=math.inf), False, id="unknown-age-for-ever-fresh"
        ),
        pytest.param(["Last-Modified: x"], earlier(301), Policy(), True, id="by-date"),
        pytest.param([], earlier(301), Policy(), False, id="no-validator"),
        pytest.param(['ETag: ""'], earlier(301), Policy(), False, id="empty-validator"),
    ],
)
def test_a_stale_body_stands_in_within_its_bound(lines, sent, policy, may):
    assert may_serve_stale(present(stored(*lines, requested_at=sent)), NOW, policy) is may


@pytest.mark.parametrize(
    "directive",
    ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage=9", "Must-Revalidate"],
)
def test_an_origin_may_forbid_stale_answers(directive):
    held = stored(ETAG, f"Cache-Control: max-age=9, {directive}", requested_at=earlier(301))
    assert not may_serve_stale(present(held), NOW, POLICY)


def test_what_must_be_validated_never_stands_in():
    held = present(stored(ETAG, requested_at=earlier(301)), must_validate=True)
    assert not may_serve_stale(held, NOW, POLICY)


@pytest.mark.parametrize(
    ("lines", "key_class", "policy", "seconds"),
    [
        pytest.param([], "chunk", Policy(), 300.0, id="ceiling"),
        pytest.param([], "chunk", Policy(negative_ttl=math.inf), math.inf, id="for-ever"),
        pytest.param([], "chunk", Policy(negative_ttl=0.0), 0.0, id="switched-off-by-0"),
        pytest.param([], "chunk", Policy(cache_missing=False), 0.0, id="switched-off"),
        pytest.param([], "metadata", Policy(), 5.0, id="metadata-ceiling"),
        pytest.param([], "metadata", Policy(negative_ttl=2.0), 2.0, id="metadata-shorter"),
        pytest.param(
            ["Cache-Control: private, max-age=0", "Expires: 0"], "chunk", Policy(), 300.0, id="gcs"
        ),
        pytest.param(["Cache-Control: no-cache"], "chunk", Policy(), 300.0, id="no-cache"),
        pytest.param(["Cache-Control: max-age=x"], "chunk", Policy(), 300.0, id="malformed"),
        pytest.param(["Cache-Control: max-age=10"], "chunk", Policy(), 10.0, id="shorter"),
        pytest.param(["Cache-Control: max-age=9000"], "chunk", Policy(), 300.0, id="longer"),
        pytest.param(["Cache-Control: max-age=4"], "metadata", Policy(), 4.0, id="metadata-given"),
        pytest.param(
            ["Cache-Control: max-age=100", "Age: 90"], "chunk", Policy(), 10.0, id="used-up-in-part"
        ),
        pytest.param(
            ["Cache-Control: max-age=100", "Age: 100"], "chunk", Policy(), 0.0, id="used-up"
        ),
        pytest.param(["Age: 9000"], "chunk", Policy(), 300.0, id="age-alone"),
        pytest.param([DATE, TOMORROW], "chunk", Policy(negative_ttl=1e6), 86_400.0, id="expires"),
    ],
)
def test_only_a_positive_shorter_lifetime_shortens_a_markers_life(
    lines, key_class, policy, seconds
):
    assert absence_lifetime(fields(*lines), key_class, policy) == seconds


@pytest.mark.parametrize(
    ("marker", "key_class", "policy", "lifetime"),
    [
        pytest.param(absent(), "chunk", Policy(), 300.0, id="its-own"),
        pytest.param(absent(), "chunk", Policy(negative_ttl=10.0), 10.0, id="a-lower-ceiling"),
        pytest.param(absent(), "chunk", Policy(negative_ttl=math.inf), 300.0, id="a-higher-one"),
        pytest.param(absent(), "metadata", Policy(), 5.0, id="metadata-here"),
        pytest.param(absent(), "metadata", Policy(negative_ttl=2.0), 2.0, id="both"),
        pytest.param(absent(), "chunk", Policy(cache_missing=False), None, id="none-remembered"),
        pytest.param(
            absent(status=410),
            "chunk",
            Policy(absent_statuses=frozenset({404})),
            None,
            id="no-absence-here",
        ),
    ],
)
def test_a_marker_of_another_route_lives_by_this_ones_settings(marker, key_class, policy, lifetime):
    held = absence_under(marker, key_class, policy)
    assert (None if held is None else held.lifetime) == lifetime


# Fields that are meant for this cache.

OURS = Policy(targeted=(b"x-us", b"x-them"))


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        (["X-Us: max-age=9", "Cache-Control: max-age=1"], 9.0),
        (["X-Them: max-age=9", "Cache-Control: max-age=1", TOMORROW, DATE], 9.0),
        (["X-Us: max-age=9, s-maxage=5"], 5.0),
        (["X-Us: no-cache, max-age=9"], 0.0),
        (['X-Us: max-age="9"'], 0.0),
        (["X-Us: none", "Cache-Control: max-age=1", TOMORROW, DATE], None),
        (["X-Us: Max-Age=9", "Cache-Control: max-age=1"], 1.0),
        (["X-Us: max-age=9", "X-Them: max-age=7"], 9.0),
        (["X-Others: max-age=9"], None),
    ],
)
def test_a_lifetime_that_is_meant_for_this_cache_takes_the_place_of_others(lines, seconds):
    assert origin_lifetime(fields(*lines), targeted=OURS.targeted) == seconds


@pytest.mark.parametrize("obeys", [True, False])
def test_what_is_meant_for_this_cache_is_obeyed_where_nothing_else_is(obeys):
    policy = Policy(targeted=OURS.targeted, obeys_origin=obeys)
    held = stored("X-Us: max-age=9", origin_lifetime=9.0, requested_at=earlier(10))
    assert remaining(held, NOW, policy) == -1.0
    other = stored("Cache-Control: max-age=9", origin_lifetime=9.0, requested_at=earlier(10))
    assert remaining(other, NOW, policy) == (-1.0 if obeys else 290.0)


@pytest.mark.parametrize(
    ("line", "is_served"),
    [
        ("X-Us: max-age=1", True),
        ("X-Us: max-age=1, must-revalidate", False),
        ("X-Us: max-age=1, stale-if-error=5", False),
        ("X-Us: max-age=1, stale-if-error=500", True),
    ],
)
def test_it_says_too_how_stale_an_answer_may_be(line, is_served):
    policy = Policy(targeted=OURS.targeted, obeys_origin=False)
    held = present(stored('ETag: "a"', line, origin_lifetime=1.0, requested_at=earlier(100)))
    assert may_serve_stale(held, NOW, policy) is is_served


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        (["Cache-Control: max-age=0"], 300.0),
        (["X-Us: max-age=0"], 0.0),
        (["X-Us: no-cache"], 0.0),
        (["X-Us: max-age=60", "Cache-Control: max-age=5"], 60.0),
        (["X-Us: none"], 300.0),
    ],
)
def test_of_an_absence_it_may_say_that_it_has_no_lifetime(lines, seconds):
    assert absence_lifetime(fields(*lines), "chunk", OURS) == seconds


@pytest.mark.parametrize(
    ("line", "seconds"), [("X-Us: public", 8640.0), ("Cache-Control: public", 0.0)]
)
def test_it_says_whether_the_heuristic_may_be_used(line, seconds):
    held = stored(DATE, "Last-Modified: Sun, 31 Dec 2023 00:00:00 GMT", "X-Us: none", line)
    if line.startswith("X-Us"):
        held = stored(DATE, "Last-Modified: Sun, 31 Dec 2023 00:00:00 GMT", line)
    assert heuristic_lifetime(replace(held, status=302), OURS) == seconds
