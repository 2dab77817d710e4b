from dataclasses import replace

import pytest

from chunkside.core.decision import NotStored
from chunkside.core.freshness import Policy
from chunkside.core.key import CacheKey, ClientCredentials, Namespace
from chunkside.core.storability import (
    allows_any_origin,
    hides_absences,
    is_refusal_of_absence,
    is_storable_status,
    why_not_absence,
    why_not_body,
)
from tests.core.samples import fields, head, request

POLICY = Policy(max_body_bytes=1000)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param([], None, id="plain"),
        pytest.param(["Cache-Control: no-store"], NotStored.NO_STORE, id="no-store"),
        pytest.param(["Cache-Control: max-age=9, No-Store"], NotStored.NO_STORE, id="among-others"),
        pytest.param(["Cache-Control: private"], NotStored.PRIVATE, id="private"),
        pytest.param(['Cache-Control: private="x"'], NotStored.PRIVATE, id="private-in-part"),
        pytest.param(["Cache-Control: no-cache"], None, id="no-cache-is-stored"),
        pytest.param(["Cache-Control: max-age=0"], None, id="max-age-0-is-stored"),
        pytest.param(['Cache-Control: x="no-store"'], None, id="no-store-in-quotes"),
        pytest.param(["Set-Cookie: a=1"], None, id="set-cookie-that-is-dropped"),
        pytest.param(["Cache-Control: must-understand, no-store"], None, id="a-200-is-understood"),
        pytest.param(["Vary: Accept-Encoding"], None, id="vary-encoding"),
        pytest.param(["Vary: Origin", "vary: accept-ENCODING"], None, id="vary-origin"),
        pytest.param(["Vary:"], None, id="vary-nothing"),
        pytest.param(["Vary: *"], NotStored.VARY, id="vary-all"),
        pytest.param(["Vary: Origin, Accept"], None, id="vary-accept"),
        pytest.param(["Vary: Accept", "Vary: *"], NotStored.VARY, id="vary-all-beside"),
        pytest.param(["Content-Encoding: identity"], None, id="identity"),
        pytest.param(["Content-Encoding:"], None, id="no-encoding"),
        pytest.param(["Content-Encoding: gzip"], None, id="gzip"),
        pytest.param(["Content-Type: text/html"], NotStored.HTML, id="html"),
        pytest.param(["Content-Type: Text/HTML; charset=x"], NotStored.HTML, id="html-charset"),
        pytest.param(["Content-Type: application/octet-stream"], None, id="bytes"),
        pytest.param(["Content-Type: text/plain"], None, id="text"),
    ],
)
def test_why_a_body_is_not_remembered(lines, reason):
    assert why_not_body(head(200, *lines), request(), POLICY) == reason


@pytest.mark.parametrize("line", ["Set-Cookie: a=1", "Set-Cookie2: a=1"])
def test_where_cookies_pass_what_sets_one_is_not_remembered(line):
    policy = replace(POLICY, forwards_cookies=True)
    assert why_not_body(head(200, line), request(), policy) == NotStored.SET_COOKIE


@pytest.mark.parametrize(
    ("partition", "policy", "reason"),
    [
        (b"", POLICY, NotStored.PRIVATE),
        (b"alice", POLICY, None),
        (b"", replace(POLICY, obeys_origin=False), None),
    ],
)
def test_what_is_private_is_stored_for_its_own_client_alone(partition, policy, reason):
    asked = request()
    asked = replace(asked, key=CacheKey(Namespace("http://origin:80", "", partition), b"/a"))
    answer = head(200, "Cache-Control: private, max-age=0")
    assert why_not_body(answer, asked, policy) == reason


def test_no_store_counts_even_where_the_origin_is_not_obeyed():
    answer = head(200, "Cache-Control: no-store")
    policy = replace(POLICY, obeys_origin=False)
    assert why_not_body(answer, request(), policy) == NotStored.NO_STORE


STRICT = replace(POLICY, is_strict=True)


@pytest.mark.parametrize(
    ("status", "lines", "is_storable"),
    [
        (301, [], True),
        (301, ["Cache-Control: max-age=9"], True),
        (302, [], False),
        (302, ["Cache-Control: max-age=9"], True),
        (302, ["Cache-Control: public"], True),
        (500, ["Expires: Sun, 06 Nov 1994 08:49:37 GMT"], True),
        (599, ["Cache-Control: max-age=9"], True),
        (599, ["Cache-Control: max-age=9, must-understand"], False),
        (503, ["Cache-Control: max-age=9, must-understand"], True),
        (204, ["Cache-Control: max-age=9"], False),
        (206, ["Cache-Control: max-age=9"], False),
        (304, ["Cache-Control: max-age=9"], False),
        (416, ["Cache-Control: max-age=9"], False),
        (404, ["Cache-Control: max-age=9"], False),
        (999, ["Cache-Control: max-age=9"], False),
        (101, ["Cache-Control: max-age=9"], False),
    ],
)
def test_which_other_statuses_are_stored_by_the_rfc_alone(status, lines, is_storable):
    assert is_storable_status(head(status, *lines), STRICT) is is_storable
    assert not is_storable_status(head(status, *lines), POLICY)
    assert not is_storable_status(head(status, *lines, length=None), STRICT)


@pytest.mark.parametrize(
    ("length", "reason"), [(None, None), (0, None), (1000, None), (1001, NotStored.TOO_LARGE)]
)
def test_a_body_larger_than_allowed_is_not_remembered(length, reason):
    assert why_not_body(head(200, length=length), request(), POLICY) == reason


def test_a_body_that_ends_with_the_connection_is_not_remembered():
    answer = head(200, length=None, is_framed=False)
    assert why_not_body(answer, request(), POLICY) == NotStored.CLOSE_DELIMITED


@pytest.mark.parametrize("key_class", ["metadata", "listing"])
def test_html_is_refused_only_where_array_data_is_expected(key_class):
    assert (
        why_not_body(head(200, "Content-Type: text/html"), request(key_class=key_class), POLICY)
        is None
    )


NO_SUCH_KEY = b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Key>a</Key></Error>'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", None, id="empty"),
        pytest.param(b"404 Not Found", None, id="text"),
        pytest.param(b"<html><code>NoSuchBucket</code></html>", None, id="html"),
        pytest.param(NO_SUCH_KEY, None, id="s3"),
        pytest.param(b"<Error><Code>\n BlobNotFound </Code></Error>", None, id="azure"),
        pytest.param(b"\xff\xfe\x00<Code>NoSuchKey</Code>", None, id="any-bytes"),
        pytest.param(b"<Error><Code>NoSuchBucket</Code>", NotStored.OTHER_CODE, id="bucket"),
        pytest.param(b"<Code>ContainerNotFound</Code>", NotStored.OTHER_CODE, id="container"),
        pytest.param(b"<Code>NoSuchVersion</Code>", NotStored.OTHER_CODE, id="version"),
        pytest.param(b"<Code>AccessDenied</Code>", NotStored.OTHER_CODE, id="denied"),
        pytest.param(b"<Code>nosuchkey</Code>", NotStored.OTHER_CODE, id="case"),
        pytest.param(b"<Code>NoSuchKeyAtAll</Code>", NotStored.OTHER_CODE, id="longer"),
        pytest.param(b"<Code>No Such Bucket</Code>", NotStored.OTHER_CODE, id="blanks"),
        pytest.param(b"<Code></Code>", NotStored.OTHER_CODE, id="no-code"),
        pytest.param(
            b"<Code>NoSuchBucket</Code><Code>NoSuchKey</Code>", NotStored.OTHER_CODE, id="first"
        ),
    ],
)
def test_an_error_code_may_say_that_something_else_is_missing(body, reason):
    assert why_not_absence(head(404), body, request(), POLICY) == reason


@pytest.mark.parametrize("status", [s for s in range(200, 600) if s not in (404, 410)])
def test_no_other_status_than_404_and_410_proves_absence(status):
    assert why_not_absence(head(status), NO_SUCH_KEY, request(), POLICY) == NotStored.STATUS


@pytest.mark.parametrize(
    ("lines", "is_framed", "reason"),
    [
        pytest.param([], True, None, id="plain"),
        pytest.param(["Cache-Control: private, max-age=0"], True, None, id="gcs"),
        pytest.param(["Content-Type: text/html"], True, None, id="error-page"),
        pytest.param(["Vary: Accept-Encoding, Origin"], True, None, id="vary-of-fills"),
        pytest.param(["Cache-Control: no-store"], True, NotStored.NO_STORE, id="no-store"),
        pytest.param(["Vary: X-Tenant"], True, NotStored.VARY, id="vary"),
        pytest.param(["Vary: *"], True, NotStored.VARY, id="vary-all"),
        pytest.param(["Content-Encoding: gzip"], True, NotStored.ENCODED, id="encoded"),
        pytest.param([], False, NotStored.CLOSE_DELIMITED, id="close-delimited"),
    ],
)
@pytest.mark.parametrize("status", [404, 410])
def test_why_an_absence_is_not_remembered(status, lines, is_framed, reason):
    answer = head(status, *lines, is_framed=is_framed)
    assert why_not_absence(answer, NO_SUCH_KEY, request(), POLICY) == reason


@pytest.mark.parametrize(
    ("status", "statuses", "reason"),
    [
        pytest.param(404, {404}, None, id="of-those"),
        pytest.param(410, {404}, NotStored.STATUS, id="not-of-those"),
        pytest.param(404, {410}, NotStored.STATUS, id="gone-alone"),
        pytest.param(410, {410}, None, id="gone"),
    ],
)
def test_only_the_statuses_of_the_policy_prove_absence(status, statuses, reason):
    policy = Policy(absent_statuses=frozenset(statuses))
    assert why_not_absence(head(status), b"", request(), policy) == reason


@pytest.mark.parametrize(
    ("lines", "allows"),
    [
        ([], False),
        (["Access-Control-Allow-Origin: *"], True),
        (["Access-Control-Allow-Origin: https://a.example"], False),
        (["Access-Control-Allow-Origin: *", "Access-Control-Allow-Origin: *"], False),
    ],
)
def test_only_one_star_allows_any_origin(lines, allows):
    assert allows_any_origin(fields(*lines)) is allows


PARTITIONS: dict[str, tuple[ClientCredentials, bytes]] = {
    "own": ("partition", b"alice"),
    "nobody's": ("partition", b""),
    "strip": ("strip", b""),
    "share": ("share", b"*"),
}


def asked_in(where, *lines):
    mode, partition = PARTITIONS[where]
    key = CacheKey(Namespace("http://origin:80", "", partition), b"/a/c/0/0")
    own = Namespace("http://origin:80") if mode == "share" else None
    asked = replace(request(*lines), key=key, own_space=own)
    return asked, replace(POLICY, client_credentials=mode)


@pytest.mark.parametrize(
    ("where", "lines", "obeys", "is_stored"),
    [
        ("own", ["Cache-Control: private"], True, True),
        ("nobody's", ["Cache-Control: private"], True, False),
        ("nobody's", ["Cache-Control: private"], False, True),
        ("strip", ["Cache-Control: private"], True, True),
        ("share", ["Cache-Control: private"], True, False),
        ("share", ["Cache-Control: private"], False, False),
        ("share", ["Cache-Control: public"], True, True),
        ("nobody's", ["X-Us: private"], False, False),
        ("nobody's", ["X-Us: max-age=9", "Cache-Control: private, no-store"], True, True),
        ("own", ["X-Us: no-store"], False, False),
        ("nobody's", ["X-Us: max-age=9,", "Cache-Control: private"], True, False),
    ],
)
def test_who_may_have_what_is_private(where, lines, obeys, is_stored):
    asked, policy = asked_in(where)
    policy = replace(policy, obeys_origin=obeys, targeted=(b"x-us",))
    assert (why_not_body(head(200, *lines), asked, policy) is None) is is_stored


@pytest.mark.parametrize("where", PARTITIONS)
@pytest.mark.parametrize("is_strict", [True, False])
@pytest.mark.parametrize("told", ["", "max-age=9", "public", "s-maxage=1", "must-revalidate"])
@pytest.mark.parametrize("brought", [[], ["Authorization: a"], ["X-Api-Key: a"]])
def test_strictly_the_origin_says_whether_what_a_credential_brought_is_for_all(
    where, is_strict, told, brought
):
    asked, policy = asked_in(where, *brought)
    policy = replace(policy, is_strict=is_strict)
    reason = why_not_body(head(200, f"Cache-Control: {told}"), asked, policy)
    is_refused = where == "share" and is_strict and told in ("", "max-age=9")
    is_refused = is_refused and brought == ["Authorization: a"]
    assert reason == (NotStored.AUTHORIZATION if is_refused else None)


@pytest.mark.parametrize(
    ("where", "lines", "is_strict", "is_remembered"),
    [
        ("nobody's", ["Cache-Control: private"], False, True),
        ("nobody's", ["Cache-Control: private"], True, False),
        ("nobody's", ["X-Us: private"], False, False),
        ("own", ["Cache-Control: private"], True, True),
        ("strip", ["Cache-Control: private"], True, True),
        # One who brought no credential.
        ("share", ["Cache-Control: private"], True, False),
        ("nobody's", ["X-Us: no-store"], False, False),
        ("nobody's", ["X-Us: max-age=9", "Cache-Control: no-store"], False, True),
    ],
)
def test_who_may_have_an_absence_that_is_private(where, lines, is_strict, is_remembered):
    asked, policy = asked_in(where)
    policy = replace(policy, is_strict=is_strict, targeted=(b"x-us",))
    assert (why_not_absence(head(404, *lines), b"", asked, policy) is None) is is_remembered


def test_a_lifetime_that_is_meant_for_this_cache_makes_other_statuses_storable():
    policy = replace(POLICY, is_strict=True, targeted=(b"x-us",))
    assert is_storable_status(head(403, "X-Us: max-age=9"), policy)
    assert not is_storable_status(head(403, "X-Us: none", "Cache-Control: max-age=9"), policy)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(NO_SUCH_KEY, None, id="key"),
        pytest.param(
            b"<Error><Code>NoSuchBucket</Code></Error>", NotStored.OTHER_CODE, id="bucket"
        ),
        pytest.param(b"", NotStored.OTHER_CODE, id="empty"),
        pytest.param(b"404 Not Found", NotStored.OTHER_CODE, id="something-before-the-store"),
    ],
)
def test_of_an_object_store_only_a_404_that_names_the_key_is_remembered(body, reason):
    policy = Policy(is_object_store=True)
    assert why_not_absence(head(404), body, request(), policy) == reason


DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
WITH_403 = replace(POLICY, absent_statuses=frozenset({403, 404}))


def test_a_refusal_is_no_absence_until_it_is_proved_to_be_one():
    asked = request()
    assert is_refusal_of_absence(head(403), DENIED, asked, WITH_403)
    assert why_not_absence(head(403), DENIED, asked, WITH_403) == NotStored.UNPROVEN
    assert why_not_absence(head(403), DENIED, asked, WITH_403, is_proven=True) is None


@pytest.mark.parametrize("is_proven", [False, True])
def test_a_refusal_that_says_something_else_is_never_one(is_proven):
    told = why_not_absence(head(403), NO_SUCH_KEY, request(), WITH_403, is_proven=is_proven)
    assert told == NotStored.OTHER_CODE


def test_a_proof_makes_no_absence_of_another_status():
    assert why_not_absence(head(403), DENIED, request(), POLICY, is_proven=True) == NotStored.STATUS
    told = why_not_absence(head(404), DENIED, request(), WITH_403, is_proven=True)
    assert told == NotStored.OTHER_CODE


@pytest.mark.parametrize(
    ("key_class", "is_signed", "status", "policy", "may"),
    [
        pytest.param("chunk", False, 403, WITH_403, True, id="chunk"),
        pytest.param("metadata", False, 403, WITH_403, False, id="metadata"),
        pytest.param("listing", False, 403, WITH_403, False, id="listing"),
        pytest.param("chunk", True, 403, WITH_403, False, id="signed"),
        pytest.param("chunk", False, 404, WITH_403, False, id="404"),
        pytest.param("chunk", False, 403, POLICY, False, id="not-wanted"),
    ],
)
def test_only_a_chunk_s_refusal_may_hide_an_absence(key_class, is_signed, status, policy, may):
    asked = request(key_class=key_class, is_signed=is_signed)
    assert hides_absences(status, asked, policy) is may
    assert is_refusal_of_absence(head(status), DENIED, asked, policy) is may


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (head(403, is_framed=False), DENIED),
        (head(403, "Content-Encoding: gzip"), DENIED),
        (head(403), b"Forbidden"),
    ],
)
def test_what_can_t_be_read_whole_hides_nothing(answer, body):
    assert not is_refusal_of_absence(answer, body, request(), WITH_403)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Cache-Control: no-store", NotStored.NO_STORE),
        ("Vary: X-Tenant", NotStored.VARY),
    ],
)
def test_what_holds_for_a_404_holds_for_a_refusal_that_was_proved(line, reason):
    told = why_not_absence(head(403, line), DENIED, request(), WITH_403, is_proven=True)
    assert told == reason
