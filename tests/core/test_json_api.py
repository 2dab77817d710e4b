"""Google's JSON interface: the same object by two names is one key, and never another object."""

from dataclasses import replace

import pytest

from chunkside.core.decision import Refuse, Write
from chunkside.core.freshness import Policy
from chunkside.core.json_api import Named, content_read, named_by, told_of
from chunkside.core.key import Object
from chunkside.core.policy import decide
from chunkside.core.request import Request
from chunkside.core.routes import Routes
from tests.core.samples import NOW, fields
from tests.core.test_route import BUCKETS

LOCATION = BUCKETS.location
STORE = replace(BUCKETS, admits=b"", is_googles=True, ignored_query=frozenset({b"tensorstore"}))
BUCKET = replace(STORE, admits=b"/data")
PREFIX = replace(STORE, admits=b"/data/era5")
OBJECT = b"/storage/v1/b/data/o/"


def asked(route, target, method="GET", *lines):
    return route.request(method, target, fields(*lines), has_body=False)


@pytest.mark.parametrize(
    ("target", "named"),
    [
        (OBJECT + b"a%2Fc%2f0", Named(b"/data/a/c/0", is_object=True)),
        (OBJECT + b"a?alt=media", Named(b"/data/a", is_object=True)),
        (b"/download" + OBJECT + b"a", Named(b"/data/a", is_object=True)),
        (OBJECT + b"a%2F%2Fb", Named(b"/data/a//b", is_object=True)),
        (OBJECT + b"%2Fa", Named(b"/data//a", is_object=True)),
        (OBJECT + b"a%3Fb%23c%25d%00", Named(b"/data/a%3Fb%23c%25d%00", is_object=True)),
        (OBJECT + b"a%252Fb", Named(b"/data/a%252Fb", is_object=True)),
        (OBJECT + b"a+b", Named(b"/data/a+b", is_object=True)),
        (OBJECT + "é".encode(), Named("/data/é".encode(), is_object=True)),
        (OBJECT[:-1] + b"?prefix=a/", Named(b"/data?list-type=2&prefix=a/")),
        (b"/storage/v1/b/data", Named(b"/data")),
        (b"/storage/v1/b/data/storageLayout?x=y", Named(b"/data")),
        (b"/upload/storage/v1/b/data/o?uploadType=media&name=a", Named(b"/data")),
        # A key is one segment, and is told in full.
        (OBJECT + b"a/b", Named(b"/")),
        (OBJECT, Named(b"/")),
        (OBJECT + b"a%", Named(b"/")),
        (OBJECT + b"a%2", Named(b"/")),
        (OBJECT + b"a/rewriteTo/b/other/o/b", Named(b"/")),
        (b"/storage/v1/b/da%74a/o/a", Named(b"/")),
        (b"/%73torage/v1/b/data/o/a", Named(b"/")),
        (b"//storage/v1/b/data/o/a", Named(b"/")),
        (b"/x/../storage/v1/b/data/o/a", Named(b"/")),
        (b"/storage/v1/b?project=p", Named(b"/")),
        (b"/batch/storage/v1", Named(b"/")),
        (b"/resumable/upload/storage/v1/b/data/o", Named(b"/")),
        (b"/data/a", None),
        (b"/storage/a", None),
        (b"/storage/v1x.zarr/a", None),
        (b"/data/storage/v1/b/data/o/a", None),
    ],
)
def test_what_a_target_is_about(target, named):
    assert named_by(target) == named


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        (b"alt=media", b"/data/a/c"),
        (b"tensorstore=1&alt=media", b"/data/a/c"),
        (b"alt=media&generation=17", b"/data/a/c?generation=17"),
        (b"alt=media&tensorstore=1&generation=17", b"/data/a/c?generation=17"),
        (b"", None),
        (b"alt=json", None),
        (b"alt=media&alt=media", None),
        (b"alt=media&generation=17&generation=18", None),
        (b"alt=media&generation=x", None),
        (b"alt=media&ifGenerationMatch=17", None),
        (b"alt=media&userProject=p", None),
        (b"alt=media&access_token=s3cr3t", None),
    ],
)
def test_bytes_alone_are_read_by_their_path(query, sent):
    target = OBJECT + b"a%2Fc?" + query
    named = named_by(target)
    assert named is not None
    assert content_read(target, named, frozenset({b"tensorstore"})) == sent
    request = asked(BUCKET, target)
    assert isinstance(request, Request)
    assert request.target == request.key.target == (target if sent is None else sent)
    assert request.key_class == ("listing" if sent is None else "chunk")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (b"/data/a/c/0", OBJECT + b"a%2Fc%2F0"),
        (b"/data/a%2Fc//%25?generation=1", OBJECT + b"a%2Fc%2F%2F%25?generation=1"),
        (b"/data//a", OBJECT + b"%2Fa"),
    ],
)
def test_what_a_path_has_is_told_of_by_json(target, told):
    assert told_of(target) == told
    assert named_by(told) == Named(target.replace(b"%2F", b"/").partition(b"?")[0], is_object=True)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("begin", [b"", b"/download"])
def test_a_read_has_the_key_and_class_of_its_path(method, begin):
    by_json = asked(BUCKET, begin + OBJECT + b"a%2Fzarr.json?alt=media", method)
    assert by_json == asked(BUCKET, b"/data/a/zarr.json", method)
    assert isinstance(by_json, Request) and by_json.key_class == "metadata"


def test_a_bucket_called_as_the_interface_begins_is_no_way_around_it():
    inner = b"v1%2Fb%2Fsecret%2Fo%2Fa"
    request = asked(STORE, b"/storage/v1/b/storage/o/" + inner + b"?alt=media")
    assert isinstance(request, Request)
    assert request.target == b"/storage/v1/b/storage/o/" + inner + b"?alt=media"
    assert request.key_class == "listing"
    bucket = replace(STORE, admits=b"/storage")
    refused = asked(bucket, b"/storage/v1/b/secret/o/a")
    assert isinstance(refused, Refuse) and refused.status == 421


@pytest.mark.parametrize("key", [b"..", b".", b"a%2F..%2Fb", b"a%2f%2E%2e", b"era5%2F..%2Fb"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_key_with_dot_segments_is_refused(key, method):
    for route in (STORE, PREFIX):
        refused = asked(route, OBJECT + key + b"?alt=media", method)
        assert isinstance(refused, Refuse) and refused.status == 400


@pytest.mark.parametrize(
    "target",
    [
        OBJECT + b"era5%2Fa?alt=media",
        b"/download" + OBJECT + b"era5%2Fa?alt=media",
        OBJECT + b"era5%2Fa",
        OBJECT + b"era5%2Fa?alt=media&ifGenerationNotMatch=3",
        OBJECT[:-1] + b"?prefix=era5/&delimiter=/",
        OBJECT[:-1] + b"?delimiter=%2F&prefix=era5%2Fa&pageToken=x",
    ],
)
def test_a_prefix_admits_what_lies_beneath_it(target):
    assert isinstance(asked(PREFIX, target), Request)


@pytest.mark.parametrize(
    "target",
    [
        OBJECT + b"era51?alt=media",
        OBJECT + b"other%2Fa?alt=media",
        b"/storage/v1/b/other/o/era5%2Fa?alt=media",
        OBJECT + b"other%2Fa",
        OBJECT + b"era5/a?alt=media",
        OBJECT[:-1],
        OBJECT[:-1] + b"?prefix=era5",
        OBJECT[:-1] + b"?prefix=era5/&prefix=",
        OBJECT[:-1] + b"?prefix=other/&matchGlob=era5/",
        b"/storage/v1/b/data",
        b"/storage/v1/b/data/iam",
        b"/storage/v1/b",
        b"/upload/storage/v1/b/data/o?uploadType=media&name=era5/a",
        b"/batch/storage/v1",
        OBJECT + b"era5%2Fa/rewriteTo/b/data/o/x",
    ],
)
def test_and_nothing_else(target):
    for method in ("GET", "POST"):
        refused = asked(PREFIX, target, method)
        assert isinstance(refused, Refuse) and refused.status == 421


def test_a_bucket_admits_what_is_its_own():
    for target in (b"/storage/v1/b/data", OBJECT[:-1], b"/upload/storage/v1/b/data/o?name=a"):
        assert isinstance(asked(BUCKET, target), Request)
    for target in (b"/storage/v1/b/data2", b"/storage/v1/b/data/iam", b"/storage/v1/b"):
        assert isinstance(asked(BUCKET, target), Refuse)


def test_a_climb_is_refused_however_it_begins():
    refused = asked(STORE, b"/storage/v1/../../../storage/v1/b")
    assert isinstance(refused, Refuse) and refused.status == 400


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "PUT"])
def test_a_write_to_an_object_falls_on_its_key(method):
    request = asked(STORE, OBJECT + b"a%2Fzarr.json?generation=1", method)
    assert isinstance(request, Request)
    assert request.target == OBJECT + b"a%2Fzarr.json?generation=1"
    assert request.key.object == Object(LOCATION, b"/data/a/zarr.json")
    assert request.key_class == "metadata"
    write = decide(request, None, NOW, Policy(allow_writes=True))
    assert isinstance(write, Write) and not write.is_broad


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", b"/upload/storage/v1/b/data/o?uploadType=media&name=a"),
        ("PUT", b"/upload/storage/v1/b/data/o?upload_id=1"),
        ("POST", OBJECT + b"a/compose"),
        ("POST", b"/batch/storage/v1"),
        ("DELETE", b"/storage/v1/b/data"),
    ],
)
def test_any_other_write_falls_on_all_there_is(method, target, is_strict):
    request = asked(STORE, target, method)
    assert isinstance(request, Request)
    write = decide(request, None, NOW, Policy(allow_writes=True, is_strict=is_strict))
    assert isinstance(write, Write) and write.is_broad


def test_a_write_that_a_client_signed_falls_on_its_key_too():
    route = replace(STORE, client_credentials="partition")
    line = "Authorization: GOOG4-HMAC-SHA256 Credential=x, Signature=y"
    for target in (OBJECT + b"a", b"/data/a"):
        request = asked(route, target, "DELETE", line)
        assert isinstance(request, Request) and request.is_signed
        assert (request.target, request.key.object) == (target, Object(LOCATION, b"/data/a"))


def test_what_a_client_signed_stays_as_it_is():
    route = replace(STORE, client_credentials="partition")
    line = "Authorization: GOOG4-HMAC-SHA256 Credential=x, Signature=y"
    request = asked(route, OBJECT + b"a?alt=media", "GET", line)
    assert isinstance(request, Request)
    assert request.target == OBJECT + b"a?alt=media" and request.is_signed


@pytest.mark.parametrize(
    ("target", "read"),
    [
        (b"/data/a/c", b"/data/a/c"),
        (b"/data/a%2Fc", b"/data/a/c"),
        (OBJECT + b"a%2Fc?alt=media&tensorstore=1", b"/data/a/c"),
        (b"/download" + OBJECT + b"a%2Fc?alt=media", b"/data/a/c"),
        (OBJECT + b"a?alt=media&generation=1", b"/data/a?generation=1"),
        (OBJECT + b"a%2F..?alt=media", None),
        (OBJECT + b"a", None),
        (b"/storage/v1/b?alt=media", None),
    ],
)
def test_what_a_read_is_known_by_is_told_without_a_request(target, read):
    assert STORE.plainly_read(target) == read
    assert replace(STORE, is_googles=False).plainly_read(target) is None
    if read is not None:
        request = asked(STORE, target)
        assert isinstance(request, Request) and request.key.target == read


def test_a_purge_finds_the_object_by_either_name():
    expected = Object(LOCATION, b"/data/a/c")
    assert STORE.object_of(OBJECT + b"a%2Fc?alt=media") == expected
    assert STORE.object_of(b"/data/a/c") == expected
    listed = STORE.object_of(b"/storage/v1/b/data/o?prefix=a")
    assert listed == Object(LOCATION, b"/storage/v1/b/data/o")


def test_another_store_has_plain_paths_alone():
    route = replace(STORE, is_googles=False)
    request = asked(route, OBJECT + b"a%2Fc")
    assert isinstance(request, Request)
    assert request.target == OBJECT + b"a%2Fc" and request.key_class == "chunk"


def test_options_pass_as_they_are():
    request = asked(STORE, OBJECT + b"a?alt=media", "OPTIONS")
    assert isinstance(request, Request) and request.target == OBJECT + b"a?alt=media"


@pytest.mark.parametrize(
    ("target", "known_by"),
    [
        (b"/data/a%2Ezarr%2Fc%2F0", b"/data/a.zarr/c/0"),
        (b"/data/a%20b%2B+", b"/data/a%20b++"),
        (b"/data/a%2Fb%2", b"/data/a%2Fb%2"),
        (b"/data/a%3fb%23%25", b"/data/a%3Fb%23%25"),
        ("/data/é".encode(), b"/data/%C3%A9"),
        (b"/data/a%2Fb?generation=%31", b"/data/a/b?generation=%31"),
        (b"/data/a/b/?x=%2F", b"/data/a/b/?x=%2F"),
        # What others may take for another path is none but itself.
        (b"/data/a%2F%2Fb", b"/data/a%2F%2Fb"),
        (b"/data/a%2F..%2Fb", b"/data/a%2F..%2Fb"),
        (b"/data/a%5Cb%2Fc", b"/data/a%5Cb%2Fc"),
        (b"/data/a%00b%2Fc", b"/data/a%00b%2Fc"),
        (b"/d%61ta/a%2Fb", b"/d%61ta/a/b"),
        (b"/data?prefix=%2F", b"/data?prefix=%2F"),
        (b"/data/?prefix=%2F", b"/data/?prefix=%2F"),
        (b"/", b"/"),
    ],
)
def test_a_key_has_one_name_and_is_asked_for_as_it_came(target, known_by):
    request = asked(STORE, target)
    assert isinstance(request, Request)
    assert (request.target, request.key.target) == (target, known_by)
    plain = asked(replace(STORE, is_googles=False), target)
    assert isinstance(plain, Request) and plain.key.target == target


def test_a_prefix_admits_its_keys_by_any_name():
    for target in (b"/data/era5%2Fa", b"/data/%65ra5/a", b"/data/era5/a"):
        request = asked(PREFIX, target)
        assert isinstance(request, Request) and request.key.target == b"/data/era5/a"
    for target in (b"/data%2Fera5/a", b"/data/era5%2F..%2Fx", b"/data/era51%2Fa"):
        refused = asked(PREFIX, target)
        assert isinstance(refused, Refuse)


@pytest.mark.parametrize(
    ("prefix", "place"),
    [
        (b"/data/a%20b", b"/data/a b"),
        (b"/storage/v1/b/data/o/a%2Fx%20y", b"/data/a/x y"),
        (b"/download/storage/v1/b/data/o/a%2Fb?alt=media", b"/data/a/b"),
        (b"/storage/v1/b/data/o?prefix=a", b"/data"),
        (b"/storage/v1/b/data", b"/data"),
        (b"/storage/v1/b", b"/"),
    ],
)
def test_all_beneath_a_name_lies_beneath_its_path(prefix, place):
    assert Routes([STORE]).branches(prefix)[-1].path == place
