from dataclasses import replace

import pytest

from chunkside.core.cors import Pages
from chunkside.core.decision import Refuse
from chunkside.core.key import ALL_CREDENTIALS, CacheKey, Namespace, Object
from chunkside.core.request import Request
from chunkside.core.route import Route, ends_here
from tests.core.samples import fields

ROUTE = Route(
    name="main",
    location="http://origin:80",
    prefix=b"/data",
    secret=b"s" * 32,
    credential_names=frozenset({b"authorization", b"cookie"}),
    ignored_query=frozenset({b"x-id"}),
    metadata_names=("index.*",),
)


def made(*lines, method="GET", target=b"/a", has_body=False, route=ROUTE):
    request = route.request(method, target, fields(*lines), has_body=has_body)
    assert isinstance(request, Request)
    return request


@pytest.mark.parametrize(
    ("raw", "target"),
    [
        (b"/", b"/data/"),
        (b"/a%20b/c?d=%2F", b"/data/a%20b/c?d=%2F"),
        (b"//a", b"/data//a"),
        (b"/a?", b"/data/a?"),
        ("/é".encode(), "/data/é".encode()),
        (b"/%E9", b"/data/%E9"),
        (b"/a/../b", b"/data/a/../b"),
        (b"http://chunkside:8100/a?b", b"/data/a?b"),
        (b"http://chunkside", b"/data/"),
        (b"/a?b=http://c/../../..", b"/data/a?b=http://c/../../.."),
    ],
)
def test_the_target_goes_on_byte_for_byte_beneath_the_prefix(raw, target):
    assert made(target=raw).target == target
    assert ROUTE.origin_path(raw) == target
    back = ROUTE.data_port_target(target)
    assert back is not None and ROUTE.origin_path(back) == target


@pytest.mark.parametrize(
    ("target", "data_port_target"),
    [
        (b"/data/a/data/b", b"/a/data/b"),
        (b"/data/data/b?v=1", b"/data/b?v=1"),
        (b"/data", None),
        (b"/database/a", None),
        (b"/d%61ta/a", None),
        (b"/other/data/a", None),
    ],
)
def test_the_data_port_has_no_target_for_what_is_not_beneath_the_prefix(target, data_port_target):
    assert ROUTE.data_port_target(target) == data_port_target
    assert replace(ROUTE, prefix=b"").data_port_target(target) == target


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b"", "must be a path", id="empty"),
        pytest.param(b"*", "must be a path", id="asterisk"),
        pytest.param(b"host:443", "must be a path", id="authority"),
        pytest.param(b"a/b", "must be a path", id="relative"),
        pytest.param(b"/\xe9", "must be a path", id="not-utf-8"),
        pytest.param(b"/a#b", "no fragment", id="fragment"),
        pytest.param(b"/a?b#c", "no fragment", id="fragment-of-query"),
        pytest.param(b"http://host#/a", "no fragment", id="fragment-of-authority"),
        pytest.param(b"/..", "Dot segments", id="climbs"),
        pytest.param(b"/a/%2e%2E/../b", "Dot segments", id="climbs-in-disguise"),
        pytest.param(b"/..%5c..%5Cetc", "Dot segments", id="climbs-backwards"),
        pytest.param(b"http://host/../a", "Dot segments", id="climbs-in-absolute-form"),
    ],
)
def test_a_target_that_can_not_be_used_is_refused(raw, reason):
    refusal = ROUTE.request("GET", raw, fields(), has_body=False)
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (400, "bad-target")
    assert reason in refusal.detail


@pytest.mark.parametrize(
    ("prefix", "raw", "target"),
    [
        (b"/data", b"/era5/c/0?v=1", b"/data/c/0?v=1"),
        (b"/data", b"/era5", b"/data"),
        (b"/data", b"/era5/", b"/data/"),
        (b"/data", b"/era5?list", b"/data?list"),
        (b"/data", b"/era5//c", b"/data//c"),
        (b"/data", b"/era5/era5", b"/data/era5"),
        (b"/data", b"http://chunkside/era5/c", b"/data/c"),
        (b"", b"/era5/c/0", b"/c/0"),
        (b"", b"/era5/", b"/"),
    ],
)
def test_the_route_s_own_prefix_is_taken_off(prefix, raw, target):
    route = replace(ROUTE, at=b"/era5", prefix=prefix)
    assert made(target=raw, route=route).target == target
    assert route.origin_path(raw) == target
    back = route.data_port_target(target)
    assert back is not None
    assert back == raw.removeprefix(b"http://chunkside")


@pytest.mark.parametrize(
    ("raw", "target"), [(b"/era5", b"/"), (b"/era5?list", b"/?list"), (b"/era5/?l", b"/?l")]
)
def test_a_route_itself_is_the_root_of_an_origin_without_prefix(raw, target):
    route = replace(ROUTE, at=b"/era5", prefix=b"")
    assert made(target=raw, route=route).target == target
    back = route.data_port_target(target)
    assert back is not None and back.startswith(b"/era5/")


@pytest.mark.parametrize("raw", [b"/", b"/era", b"/era51/c", b"/x/era5/c", b"/%65ra5/c"])
def test_what_is_not_of_a_route_has_no_target_at_its_origin(raw):
    route = replace(ROUTE, at=b"/era5")
    with pytest.raises(ValueError, match="not of this route"):
        route.origin_path(raw)
    assert isinstance(route.request("GET", raw, fields(), has_body=False), Refuse)


@pytest.mark.parametrize(
    "raw", [b"/era5/../x", b"/era5/%2e%2e", b"/era5/a/../../b", b"/era5/..\\x"]
)
def test_dot_segments_never_leave_a_route(raw):
    route = replace(ROUTE, at=b"/era5", prefix=b"/data/era5")
    refusal = route.request("GET", raw, fields(), has_body=False)
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (400, "bad-target")


def test_dot_segments_never_climb_above_a_deep_prefix():
    deep = replace(ROUTE, prefix=b"/very/deep/data")
    assert isinstance(deep.request("GET", b"/../x", fields(), has_body=False), Refuse)


def test_a_fragment_sign_that_is_encoded_passes():
    assert made(target=b"/a%23b").target == b"/data/a%23b"


def test_the_key_is_of_the_object_at_the_origin():
    request = made(target=b"/a%20b?x-id=GetObject&v=1&x-id=2")
    assert request.target == b"/data/a%20b?x-id=GetObject&v=1&x-id=2"
    assert request.key.target == b"/data/a%20b?v=1"
    assert request.key.object == Object("http://origin:80", b"/data/a b")
    assert request.key.namespace.location == "http://origin:80"
    assert request.key.namespace.identity == ""


def test_a_bare_question_mark_keeps_a_key_of_its_own():
    assert made(target=b"/a?").key != made(target=b"/a").key
    assert made(target=b"/a?x-id=1").key == made(target=b"/a").key


@pytest.mark.parametrize(
    ("target", "key_class"),
    [(b"/c/0", "chunk"), (b"/zarr.json", "metadata"), (b"/index.1", "metadata"), (b"/", "listing")],
)
def test_the_class_follows_the_table_and_the_settings(target, key_class):
    assert made(target=target).key_class == key_class


def test_what_belongs_to_one_connection_stays_behind():
    request = made(
        "Host: chunkside:8100",
        "Connection: X-Hop",
        "X-Hop: 1",
        "Content-Length: 5",
        "Expect: 100-continue",
        "Transfer-Encoding: chunked",
        "Accept: x",
        "X-Custom: y",
        has_body=True,
    )
    assert request.fields == fields("Accept: x", "X-Custom: y")
    assert request.has_body


def test_cookies_are_dropped_and_part_nobody():
    request = made("Cookie: a=1", "Cookie2: b", "Accept: x")
    assert request.fields == fields("Accept: x")
    assert request.key == made().key


def test_cookies_that_are_forwarded_are_a_credential():
    forwarding = replace(ROUTE, forwards_cookies=True)
    request = made("Cookie: a=1", route=forwarding)
    assert request.fields == fields("Cookie: a=1")
    assert request.key != made(route=forwarding).key
    assert request.key != made("Cookie: a=2", route=forwarding).key
    assert request.key.object == made(route=forwarding).key.object


def test_a_credential_parts_clients():
    partitions = [
        made(*lines).key.namespace.partition
        for lines in ([], ["Authorization: Bearer a"], ["Authorization: Bearer b"])
    ]
    assert partitions[0] == b""
    assert len(set(partitions)) == 3


def test_only_a_credential_that_is_forwarded_counts():
    hidden = made("Connection: authorization", "Authorization: Bearer a")
    assert hidden.fields == fields()
    assert hidden.key == made().key


def test_the_secret_of_the_directory_keys_the_partition():
    other = replace(ROUTE, secret=b"t" * 32)
    line = "Authorization: Bearer a"
    assert made(line).key != made(line, route=other).key


@pytest.mark.parametrize(
    ("target", "lines", "is_signed"),
    [
        (b"/a", [], False),
        (b"/a", ["Authorization: Bearer a"], False),
        (b"/a", ["Authorization: AWS4-HMAC-SHA256 x"], True),
        (b"/a?X-Amz-Signature=ab", [], True),
        (b"http://chunkside/a?sig=ab", [], True),
    ],
)
def test_a_signed_request_is_known_as_one(target, lines, is_signed):
    assert made(*lines, target=target).is_signed is is_signed


@pytest.mark.parametrize(
    ("lines", "control"),
    [
        ([], None),
        (["Chunkside-Control: refresh"], "refresh"),
        (["chunkside-control:  BYPASS "], "bypass"),
    ],
)
def test_what_the_client_says_to_the_sidecar_stays_there(lines, control):
    told = made("X-Kept: 1", *lines)
    assert (told.control, told.fields) == (control, fields("X-Kept: 1"))


@pytest.mark.parametrize("value", ["refersh", "refresh, bypass", "1"])
def test_what_it_says_must_be_understood(value):
    refusal = ROUTE.request("GET", b"/a", fields(f"Chunkside-Control: {value}"), has_body=False)
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (400, "bad-control")
    assert "`refresh`" in refusal.detail


def test_the_method_goes_on_as_it_came():
    request = made(method="PROPFIND")
    assert (request.method, request.has_body) == ("PROPFIND", False)


@pytest.mark.parametrize(
    ("method", "line", "passed_on"),
    [
        ("OPTIONS", "Max-Forwards: 7", b"6"),
        ("OPTIONS", "max-forwards: 1", b"0"),
        ("OPTIONS", "Max-Forwards: 0", b"0"),
        ("OPTIONS", "Max-Forwards: seven", b"seven"),
        ("OPTIONS", "Max-Forwards: " + "9" * 5000, b"9" * 5000),
        ("OPTIONS", "X-Other: 1", None),
        ("GET", "Max-Forwards: 7", b"7"),
    ],
)
def test_options_may_pass_one_proxy_less(method, line, passed_on):
    assert made(line, method=method).fields.get(b"max-forwards") == passed_on


@pytest.mark.parametrize(
    ("method", "target", "line", "is_for_us"),
    [
        ("OPTIONS", b"*", "X-Other: 1", True),
        ("OPTIONS", b"/a", "Max-Forwards: 0", True),
        ("OPTIONS", b"/a", "Max-Forwards: 000", True),
        ("OPTIONS", b"/a", "Max-Forwards: 1", False),
        ("OPTIONS", b"/a", "Max-Forwards: -0", False),
        ("OPTIONS", b"/a", "X-Other: 1", False),
        ("GET", b"*", "Max-Forwards: 0", False),
    ],
)
def test_a_question_to_this_server_itself(method, target, line, is_for_us):
    assert ends_here(method, target, fields(line)) is is_for_us


@pytest.mark.parametrize(
    ("pages", "passed_on"), [(None, b"http://a.example"), (Pages(frozenset({b"*"})), None)]
)
def test_the_origin_is_told_which_page_asks_only_where_it_says_who_may_read(pages, passed_on):
    route = replace(ROUTE, pages=pages)
    assert made("Origin: http://a.example", route=route).fields.get(b"origin") == passed_on


OWN = replace(ROUTE, identity="bearer /run/token", client_credentials="strip")


def test_with_a_credential_of_our_own_clients_bring_none_and_share_what_is_stored():
    brought = "aUTHORIZATION: Bearer a", "Range: bytes=0-1"
    request = made(*brought, route=OWN)
    assert request.fields.names == {b"range"}
    assert request.key == made(route=OWN).key
    assert request.key.namespace.partition == b""


def test_another_credential_of_our_own_is_another_key_and_the_same_object():
    keys = [made(route=replace(OWN, identity=each)).key for each in ("", "a", "b")]
    assert len({key.serialised() for key in keys}) == 3
    assert len({key.object for key in keys}) == 1


def test_a_signature_that_goes_no_further_is_none_and_a_presigned_target_stays_one():
    signed = "Authorization: AWS4-HMAC-SHA256 Credential=a"
    assert made(signed).is_signed
    assert not made(signed, route=OWN).is_signed
    presigned = made(target=b"/a?X-Amz-Signature=1", route=OWN)
    assert presigned.is_signed and presigned.target == b"/data/a?X-Amz-Signature=1"


def test_a_certificate_of_our_own_parts_keys_and_leaves_clients_their_credentials():
    shown = replace(ROUTE, identity="certificate /run/cert.pem")
    request = made("Authorization: Bearer a", route=shown)
    assert b"authorization" in request.fields
    assert request.key.namespace.identity and request.key.namespace.partition


SHARE = replace(ROUTE, client_credentials="share")
STRIP = replace(ROUTE, client_credentials="strip")
SIGNED = "Authorization: AWS4-HMAC-SHA256 Credential=x"


def test_where_credentials_part_all_an_absence_lies_where_a_body_does():
    request = made("Authorization: Bearer a")
    assert request.own_space is None
    assert request.absence_key == request.key
    assert not request.key.namespace.is_shared


def test_where_bodies_are_shared_absences_are_not():
    alice, bob, nobody = (
        made(*lines, route=SHARE) for lines in (["Authorization: a"], ["Authorization: b"], [])
    )
    assert alice.key == bob.key == nobody.key
    assert alice.key.namespace == Namespace("http://origin:80", "", ALL_CREDENTIALS)
    assert alice.key.namespace.is_shared
    keys = {alice.absence_key, bob.absence_key, nobody.absence_key}
    assert len(keys) == 3 and alice.key not in keys
    assert alice.absence_key == made("Authorization: a").key
    assert nobody.absence_key == CacheKey(Namespace("http://origin:80"), b"/data/a")
    # What they bring goes on.
    assert b"authorization" in alice.fields


def test_where_credentials_are_stripped_all_are_nobody():
    for lines in (["Authorization: Bearer a"], [SIGNED, "X-Amz-Date: d"], ["Cookie: a=b"], []):
        request = made(*lines, "Accept: x", route=STRIP)
        assert request.fields == fields("Accept: x")
        assert request.key.namespace == Namespace("http://origin:80")
        assert (request.own_space, request.is_signed) == (None, False)


def test_a_presigned_target_is_not_stripped():
    request = made(SIGNED, target=b"/a?X-Amz-Signature=ab", route=STRIP)
    assert request.is_signed
    assert request.fields == fields(SIGNED)
    assert request.target == b"/data/a?X-Amz-Signature=ab"


def test_what_is_signed_for_a_body_says_how_that_is_framed():
    sha = "X-Amz-Content-Sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    request = made(SIGNED, sha, method="PUT", has_body=True, route=STRIP)
    assert request.fields == fields(sha)


@pytest.mark.parametrize("route", [ROUTE, STRIP, SHARE], ids=["partition", "strip", "share"])
def test_the_sidecar_s_own_credential_is_part_of_every_key(route):
    own = made("Authorization: a", route=replace(route, identity="bearer /run/token"))
    assert own.key.namespace.identity == own.absence_key.namespace.identity == "bearer /run/token"
    assert own.key != made("Authorization: a", route=route).key


BUCKETS = replace(ROUTE, prefix=b"", admits=b"/data/era5", metadata_names=())


@pytest.mark.parametrize(
    ("target", "key_class"),
    [
        (b"/data/era5/a/c/0", "chunk"),
        (b"/data/era5/a/c/0?x-id=GetObject", "chunk"),
        (b"/data/era5/a/zarr.json", "metadata"),
        (b"/data/era5/a/zarr.json?tagging", "listing"),
        (b"/data/era5/a/", "listing"),
        (b"/data?list-type=2&prefix=era5%2Fa", "listing"),
    ],
)
def test_the_data_port_is_the_stores_own_space(target, key_class):
    asked = made(target=target, route=BUCKETS)
    assert (asked.target, asked.key_class) == (target, key_class)
    assert BUCKETS.data_port_target(target) == target


@pytest.mark.parametrize(
    "target", [b"/data/era51/a", b"/data/a", b"/data", b"/", b"/other/era5/a", b"/data/e%72a5/a"]
)
def test_what_is_not_of_the_bucket_and_its_prefix_is_refused(target):
    refusal = BUCKETS.request("GET", target, fields(), has_body=False)
    assert isinstance(refusal, Refuse)
    assert (refusal.status, refusal.slug) == (421, "not-of-the-upstream")
    assert "/data/era5/" in refusal.detail


def test_nobody_climbs_out_of_a_prefix_of_a_bucket():
    refusal = BUCKETS.request("GET", b"/data/era5/../x", fields(), has_body=False)
    assert isinstance(refusal, Refuse) and refusal.slug == "bad-target"
    googles = replace(BUCKETS, is_googles=True)
    for target in (b"/data/era5/..;v=1/x", b"/data/%65ra5/..;v=1/x"):
        refusal = googles.request("GET", target, fields(), has_body=False)
        assert isinstance(refusal, Refuse) and refusal.slug == "bad-target"


@pytest.mark.parametrize("method", ["DELETE", "POST", "PUT", "PATCH"])
@pytest.mark.parametrize(
    "target",
    [
        b"/data?list-type=2&prefix=era5%2F",
        b"/data?list-type=2&prefix=era5%2F&delete",
        b"/data?restype=container&comp=list&prefix=era5%2F",
        b"/storage/v1/b/data/o?prefix=era5%2F",
    ],
)
def test_whoever_may_list_beneath_a_prefix_writes_nothing_to_its_bucket(method, target):
    route = replace(BUCKETS, is_googles=True)
    refusal = route.request(method, target, fields(), has_body=False)
    assert isinstance(refusal, Refuse) and refusal.status == 421


def test_all_buckets_are_admitted_where_none_is_named():
    route = replace(BUCKETS, admits=b"")
    assert made(target=b"/any/key", route=route).key_class == "chunk"
    assert made(target=b"/", route=route).key_class == "listing"
    assert made(target=b"/any", route=route).key_class == "listing"


@pytest.mark.parametrize(
    ("line", "is_admitted"),
    [
        ("x-amz-copy-source: data/era5/a", True),
        ("x-amz-copy-source: /data/era5%2Fa?versionId=3", True),
        ("x-goog-copy-source: data/era5/a", True),
        ("x-amz-copy-source: data/secret/a", False),
        ("x-amz-copy-source: data/era5/../secret", False),
        ("x-amz-copy-source: other/era5/a", False),
        ("x-amz-copy-source: arn:aws:s3:us-east-1:1:accesspoint/x/object/a", False),
        ("x-goog-copy-source: data/era51", False),
        ("x-amz-rename-source: data/secret/a", False),
        ("x-ms-copy-source: https://store.example/data/era5/a", True),
        ("x-ms-copy-source: https://store.example/data/secret?snapshot=x", False),
        ("x-ms-copy-source: https://store.example/data/secret?sv=1&sig=x", True),
        ("x-ms-copy-source: https://store-secondary.example/data/era5/a", False),
        ("x-ms-copy-source: nonsense", False),
        ("x-ms-rename-source: /data/era5/a", True),
        ("x-ms-rename-source: /data/secret", False),
    ],
)
def test_nothing_is_copied_from_what_is_not_admitted(line, is_admitted):
    route = replace(BUCKETS, location="https://store.example:443")
    asked = route.request("PUT", b"/data/era5/copy", fields(line), has_body=False)
    told = asked.status if isinstance(asked, Refuse) else None
    assert told == (None if is_admitted else 421)
    everything = replace(route, admits=b"")
    made(line, method="PUT", target=b"/data/era5/copy", route=everything)


def test_nothing_beneath_a_prefix_is_put_together_from_what_lies_elsewhere():
    target = b"/data/era5/whole?%63ompose"
    refusal = BUCKETS.request("PUT", target, fields(), has_body=True)
    assert isinstance(refusal, Refuse) and refusal.status == 421
    assert made(method="PUT", target=target, route=replace(BUCKETS, admits=b"/data"))
    assert made(method="PUT", target=b"/data/era5/x?partNumber=1", route=BUCKETS)


AZURE = replace(BUCKETS, prefix=b"/account", own_range=b"x-ms-range", client_credentials="strip")


def test_an_account_stands_before_what_the_data_port_says():
    asked = made(target=b"/data/era5/a/c/0?snapshot=x", route=AZURE)
    assert (asked.target, asked.key_class) == (b"/account/data/era5/a/c/0?snapshot=x", "chunk")
    listed = made(target=b"/data?restype=container&comp=list&prefix=era5%2Fa", route=AZURE)
    assert listed.key_class == "listing"
    refusal = AZURE.request("GET", b"/account/data/era5/a", fields(), has_body=False)
    assert isinstance(refusal, Refuse) and "/data/era5/" in refusal.detail


def test_a_stores_own_field_for_a_range_is_the_range():
    both = ("Range: bytes=0-1", "X-Ms-Range: bytes=2-3", "Accept: x")
    asked = made(*both, target=b"/data/era5/a", route=AZURE)
    assert asked.fields == fields("Accept: x", "Range: bytes=2-3")
    assert made("Range: bytes=0-1", target=b"/data/era5/a", route=AZURE).fields == fields(
        "Range: bytes=0-1"
    )
    # Elsewhere it means nothing, or what is signed by it isn't ours to put otherwise.
    assert made(*both, target=b"/data/era5/a", route=BUCKETS).fields == fields(*both)
    signed = made(*both, target=b"/data/era5/a?sig=x", route=AZURE)
    assert (signed.fields, signed.is_signed) == (fields(*both), True)
    twice = ("x-ms-range: bytes=0-1", "x-ms-range: bytes=2-3")
    assert made(*twice, target=b"/data/era5/a", route=AZURE).fields == fields(*twice)


def test_a_body_in_signed_chunks_is_refused_where_signatures_are_removed():
    route = replace(BUCKETS, client_credentials="strip")
    chunked = fields("x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
    refusal = route.request("PUT", b"/data/era5/a", chunked, has_body=True)
    assert isinstance(refusal, Refuse) and refusal.status == 501
    plain = fields("x-amz-content-sha256: UNSIGNED-PAYLOAD")
    assert isinstance(route.request("PUT", b"/data/era5/a", plain, has_body=True), Request)


PRESERVING = replace(ROUTE, prefix=b"", location="http://store.example:9000", preserves_host=True)
SIGNED = "Authorization: AWS4-HMAC-SHA256 Credential=c, SignedHeaders=host;{}, Signature=0"


@pytest.mark.parametrize(
    ("lines", "target", "host"),
    [
        pytest.param(["Host: localhost:8100"], b"/b/k", None, id="unsigned"),
        pytest.param(
            ["Host: localhost:8100", "Authorization: Bearer a"], b"/b/k", None, id="token"
        ),
        pytest.param(["Host: store.example"], b"/b/k", None, id="own-name"),
        pytest.param(["Host: b.store.example"], b"/k", b"b.store.example", id="bucket-in-host"),
        pytest.param(
            ["Host: localhost:8100", SIGNED.format("range")],
            b"/b/k",
            b"localhost:8100",
            id="signed",
        ),
        pytest.param(
            ["Host: localhost:8100"], b"/k?X-Amz-Signature=0", b"localhost:8100", id="presigned"
        ),
        pytest.param([SIGNED.format("range")], b"/b/k", None, id="no-host"),
    ],
)
def test_the_clients_host_goes_on_where_it_counts(lines, target, host):
    request = made(*lines, target=target, route=PRESERVING)
    assert request.host == host
    assert b"host" not in request.fields
    assert made(*lines, target=target).host is None


def test_what_is_signed_goes_on_as_it_came_and_nothing_else_of_its_kind():
    held = ["X-Own: 1", "TE: trailers", "Cookie: a=1", "Expect: 100-Continue", "Max-Forwards: 5"]
    lines = ["Host: localhost", "Connection: x-own, TE", "Keep-Alive: 1", *held]
    names = "connection;x-own;te;cookie;expect;max-forwards"
    signed = made(*lines, SIGNED.format(names), route=PRESERVING, method="OPTIONS").fields
    left_out = frozenset({b"authorization"})
    assert signed.without(left_out) == fields("Connection: x-own, TE", *held)
    assert made(*lines, route=PRESERVING, method="OPTIONS").fields == fields("Max-Forwards: 4")
    elsewhere = made(*lines, SIGNED.format(names), method="OPTIONS").fields
    assert elsewhere.without(left_out) == fields("Max-Forwards: 4")


@pytest.mark.parametrize("lines", [[], [SIGNED.format("range")]])
@pytest.mark.parametrize(
    ("host", "sent"),
    [
        ("b.store.example:80", b"b.store.example:80"),
        # What was judged is what the target says.
        ("other.store.example", b"B.store.example"),
    ],
)
def test_of_two_hosts_the_one_in_the_target_counts(host, sent, lines):
    target = b"http://B.store.example/k"
    assert made(f"Host: {host}", *lines, target=target, route=PRESERVING).host == sent
    assert made(f"Host: {host}", *lines, target=target).host is None


def test_what_another_host_is_asked_for_lies_nowhere_else():
    share = replace(PRESERVING, client_credentials="share")
    for route in (PRESERVING, share):
        usual, bucket = (
            made(f"Host: {host}", target=b"/k", route=route)
            for host in ("localhost:8100", "b.store.example")
        )
        assert usual.key != bucket.key
        assert usual.key.object == bucket.key.object
        assert bucket.own_space is None
    assert (
        made("Host: store.example", target=b"/k", route=PRESERVING).key
        == made("Host: localhost:8100", target=b"/k", route=PRESERVING).key
    )


def test_a_route_that_preserves_hosts_answers_by_its_origins_name():
    assert PRESERVING.hosts == {b"store.example"}
    assert ROUTE.hosts == frozenset()
