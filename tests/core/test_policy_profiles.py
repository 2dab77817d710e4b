"""The default answers from store what RFC 9111 allows, and what docs/caching.md says beside it."""

from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from chunkside.core.decision import (
    Fill,
    Forward,
    NotStored,
    PassOn,
    Serve,
    StoreAbsence,
    StoreBody,
)
from chunkside.core.directives import told_by
from chunkside.core.entry import Now
from chunkside.core.freshness import Policy, origin_lifetime
from chunkside.core.key import ALL_CREDENTIALS, CacheKey, Namespace
from chunkside.core.policy import conclude, conclude_absence, decide
from tests.core.samples import NOW, fields, head, present, request

OURS = (b"cdn-cache-control",)
DEFAULT = Policy(targeted=OURS)
STRICT = Policy(
    ttl=0.0, negative_ttl=float("inf"), is_strict=True, obeys_clients=True, targeted=OURS
)

SECONDS = st.integers(0, 400)
DIRECTIVES = st.lists(
    st.sampled_from(
        [
            *("no-cache", "no-store", "private", "public", "must-revalidate", "immutable"),
            *("proxy-revalidate", "must-understand", 'no-cache="x"', "max-age", "max-age=x"),
        ]
    )
    | st.builds(
        "{}={}".format,
        st.sampled_from(["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"]),
        SECONDS,
    ),
    max_size=4,
)
ANSWERS = st.builds(
    lambda directives, lines: (
        ([f"Cache-Control: {', '.join(directives)}"] if directives else []) + lines
    ),
    DIRECTIVES,
    st.lists(
        st.sampled_from(
            [
                'ETag: "a"',
                "Last-Modified: Sun, 31 Dec 2023 23:00:00 GMT",
                "Date: Mon, 01 Jan 2024 00:00:00 GMT",
                "Expires: Mon, 01 Jan 2024 00:03:00 GMT",
                "Expires: 0",
                "Age: 100",
                "Vary: Accept",
                "Vary: *",
                "Set-Cookie: a=b",
                "Content-Encoding: gzip",
                "Access-Control-Allow-Origin: *",
                *("CDN-Cache-Control: max-age=200", "CDN-Cache-Control: no-store"),
                *("CDN-Cache-Control: private, max-age=9", "CDN-Cache-Control: max-age=x,"),
                *("CDN-Cache-Control: s-maxage=100", "CDN-Cache-Control: public"),
            ]
        ),
        max_size=4,
    ),
)
REQUESTS = st.lists(
    st.sampled_from(
        [
            *("Accept: x", "Accept: y", "Origin: https://a.example", "Range: bytes=0-1"),
            *("Cache-Control: no-cache", "Cache-Control: max-age=50", "Pragma: no-cache"),
            *("Cache-Control: max-stale=100", "Cache-Control: only-if-cached", 'If-Match: "b"'),
        ]
    ),
    max_size=3,
    unique=True,
)


SPACES = {
    "partition": (b"", b"alice"),
    "strip": (b"",),
    "share": (ALL_CREDENTIALS,),
}
CREDENTIALS = st.sampled_from(
    [(mode, space) for mode, spaces in SPACES.items() for space in spaces]
)


@given(ANSWERS, REQUESTS, REQUESTS, SECONDS, CREDENTIALS, st.booleans())
@settings(max_examples=1000, deadline=None)
def test_what_is_served_by_default_the_rfc_allows_or_the_table_names(
    answered, asked_first, asked, age, credentials, brings_one
):
    mode, partition = credentials
    default, strict = (replace(each, client_credentials=mode) for each in (DEFAULT, STRICT))

    def of(lines):
        brought = ["Authorization: x"] if brings_one and mode != "strip" else []
        key = CacheKey(Namespace("http://origin:80", "", partition), b"/a")
        return replace(request(*lines, *brought, target=b"/a"), key=key)

    sent_at = Now(NOW.boot - age, NOW.wall - age)
    fill = Fill(Forward.URI_MISS)
    answer = head(200, *answered)
    stored = [
        conclude(of(asked_first), fill, answer, sent_at, policy) for policy in (default, strict)
    ]
    if stored[1] == PassOn(NotStored.AUTHORIZATION):
        event("shared without the origin's word")
        assert mode == "share" and brings_one
        return
    # What may be stored is one question for both but for that.
    assert stored[0] == stored[1]
    if not isinstance(stored[0], StoreBody):
        return
    held = present(stored[0].stored)
    by_default, strictly = (decide(of(asked), held, NOW, policy) for policy in (default, strict))
    if not isinstance(by_default, Serve) or isinstance(strictly, Serve):
        event("alike")
        return
    wishes = {b"cache-control", b"pragma"} & fields(*asked).names
    has_no_lifetime = origin_lifetime(fields(*answered), sent_at.wall, OURS) is None
    event(f"wishes: {bool(wishes)}, no lifetime: {has_no_lifetime}")
    assert wishes or has_no_lifetime
    assert b"no-cache" not in told_by(fields(*answered), OURS).directives


@given(ANSWERS, st.sampled_from([404, 410]), CREDENTIALS)
@settings(max_examples=500, deadline=None)
def test_an_absence_that_is_remembered_by_default_the_rfc_allows_or_the_table_names(
    answered, status, credentials
):
    mode, partition = credentials
    own = Namespace("http://origin:80") if mode == "share" else None
    key = CacheKey(Namespace("http://origin:80", "", partition), b"/a")
    asked = replace(request(target=b"/a"), key=key, own_space=own)
    default, strict = (replace(each, client_credentials=mode) for each in (DEFAULT, STRICT))
    by_default, strictly = (
        conclude_absence(asked, head(status, *answered), b"", each) for each in (default, strict)
    )
    if not isinstance(by_default, StoreAbsence):
        assert not isinstance(strictly, StoreAbsence)
        return
    if isinstance(strictly, StoreAbsence):
        event("both")
        assert by_default.lifetime <= strictly.lifetime
        return
    directives, is_targeted = told_by(fields(*answered), OURS)
    given = origin_lifetime(fields(*answered), targeted=OURS)
    has_none = given is None or (not given and not is_targeted)
    is_private = strictly == PassOn(NotStored.PRIVATE) and not is_targeted
    event(f"private: {is_private}, no lifetime: {has_none}")
    assert has_none or (is_private and b"private" in directives)
