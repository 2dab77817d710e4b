"""What a write changes beside its target, as far as that can be told."""

from dataclasses import replace

import pytest

from chunkside.core.decision import Write
from chunkside.core.invalidation import admits_failure, keys_named, objects_told, reach_of
from chunkside.core.key import CacheKey, Namespace, Object
from tests.core.samples import fields, request

HERE = "http://origin:80"
NARROW, BROAD, DEEP = Write(is_broad=False), Write(is_broad=True), Write(False, is_deep=True)


def there(*paths: bytes) -> tuple[Object, ...]:
    return tuple(Object(HERE, path) for path in paths)


def reach(method, target=b"/a", *lines, is_strict=False):
    return reach_of(request(*lines, method=method, target=target), is_strict=is_strict)


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("PUT", b"/b/k", NARROW),
        ("PUT", b"/b/k?partNumber=1&uploadId=u", NARROW),
        ("PROPPATCH", b"/b/k", NARROW),
        ("LOCK", b"/b/k", NARROW),
        ("DELETE", b"/b/k", DEEP),
        ("POST", b"/b/k?uploads", NARROW),
        ("POST", b"/b/k?uploadId=u", NARROW),
        ("POST", b"/b/k?select&select-type=2", NARROW),
        ("POST", b"/b/k?comp=query", NARROW),
        ("POST", b"/b?restype=container&comp=batch", BROAD),
        ("PUT", b"/b/k?comp=block&blockid=MDA%3D", NARROW),
        ("PUT", b"/b/k?comp=blocklist", NARROW),
        ("PUT", b"/b/k?comp=metadata", NARROW),
        ("DELETE", b"/b/k?snapshot=x", DEEP),
        ("POST", b"/b/k", BROAD),
        ("POST", b"/b/k?uploadid=u", BROAD),
        ("POST", b"/upload?uploadType=media&name=k", BROAD),
        ("PUT", b"/b/", BROAD),
        ("DELETE", b"/b/", Write(True, is_deep=True)),
        ("M-SEARCH", b"/b", BROAD),
    ],
)
def test_how_far_a_write_reaches(method, target, expected):
    assert reach(method, target) == expected


@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "M-SEARCH", "put"])
@pytest.mark.parametrize("target", [b"/b/k", b"/b/"])
def test_by_the_rfc_alone_a_write_changes_its_target(method, target):
    assert reach(method, target, is_strict=True) == NARROW


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("Destination: /b/m", b"/b/m"),
        ("Destination: http://origin/b/m%2Bn", b"/b/m+n"),
        ("Destination: https://elsewhere:99/m", b"/m"),
    ],
)
@pytest.mark.parametrize("method", ["MOVE", "COPY"])
def test_a_move_and_a_copy_reach_their_destination_and_what_lies_beneath(method, line, path):
    assert reach(method, b"/b/k", line) == Write(False, there(path), is_deep=True)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["Destination: b/m"],
        ["Destination: /a", "Destination: /b"],
        ["Destination: /b/../m"],
    ],
)
def test_where_a_move_goes_nobody_knows_it_is_broad(lines):
    assert reach("MOVE", b"/b/k", *lines) == BROAD


@pytest.mark.parametrize("path", [b"/b/x/../y", b"/b/%2e%2E/y", b"/b/x/.", b"/b/x%2F.%2Fy"])
@pytest.mark.parametrize("is_strict", [False, True])
def test_where_dot_segments_lead_is_the_origins_to_say(path, is_strict):
    for method in ("PUT", "POST", "MOVE"):
        assert reach(method, path, "Destination: /m", is_strict=is_strict) == BROAD
    assert reach("DELETE", path, is_strict=is_strict) == Write(True, is_deep=True)
    assert reach("PUT", b"/b/.x/..y", is_strict=is_strict) == NARROW


def test_a_rename_reaches_what_it_was_called_before():
    told = reach("PUT", b"/c/new", "x-ms-rename-source: /c/old%20dir?sig=x")
    assert told == Write(False, there(b"/c/old dir"), is_deep=True)
    assert reach("PUT", b"/c/new", "x-amz-rename-source: old") == BROAD


# Deletions of many.


def named(body, target=b"/b?delete"):
    return keys_named(request(method="POST", target=target), body)


ONE = b"<Delete><Object><Key>%b</Key></Object></Delete>"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (b"k", b"/b/k"),
        (b"a.zarr/c/0", b"/b/a.zarr/c/0"),
        (b"a&amp;b&lt;c&gt;&#x2B;", b"/b/a&b<c>+"),
        ("café".encode(), "/b/café".encode()),
        (b"100%25", b"/b/100%25"),
        (b"a b?c#d", b"/b/a b?c#d"),
        (b"x/..y", b"/b/x/..y"),
    ],
)
def test_a_deletion_of_many_names_its_keys(key, path):
    assert reach("POST", b"/b?delete") == Write(False, names_keys=True)
    assert named(ONE % key) == there(path)


def test_keys_are_beneath_the_bucket_and_there_may_be_many():
    body = b"".join(
        b"<Object><Key>k%d</Key><VersionId>v</VersionId></Object>" % n for n in range(1000)
    )
    assert named(b'<?xml version="1.0"?><Delete xmlns="x">' + body + b"</Delete>") == there(
        *(b"/b/k%d" % n for n in range(1000))
    )
    # Where the bucket is in the host's name.
    assert named(ONE % b"k", target=b"/?delete") == there(b"/k")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Delete></Delete>",
        b"<Delete><Object><VersionId>1</VersionId></Object></Delete>",
        b"<Delete><Object><Key><![CDATA[k]]></Key></Object></Delete>",
        b'<Delete><Object><Key>a</Key><Key x="y"><![CDATA[k]]></Key></Object></Delete>',
        b'<Delete><Object><!-- <Key>a</Key> --><Key x="y">k</Key></Object></Delete>',
        b'<Delete><Object><?x <Key>a</Key>?><Key x="y">k</Key></Object></Delete>',
        b'<!DOCTYPE D [<!ENTITY e "k">]><Delete><Object><Key>&e;</Key></Object></Delete>',
        b"<Delete><Object><Key>a</Key></Object><Object><s:Key>b</s:Key></Object></Delete>",
        b"<Delete><Object><Key>\xff</Key></Object></Delete>",
        ONE % b"x/../y",
        ONE % b"x/.",
        '<?xml version="1.0" encoding="utf-16"?>'.encode("utf-16") + (ONE % b"k"),
    ],
)
def test_what_can_not_be_read_names_nothing(body):
    if body.startswith(b"\xff\xfe"):
        body = body.decode("latin-1").encode("utf-16")
    assert named(body) is None


# What answers tell.


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Location: /a/new", there(b"/a/new")),
        ("Location: new", there(b"/a/new")),
        ("Content-Location: http://origin/a/%6Eew", there(b"/a/new")),
        ("Location: http://ORIGIN:80/a", there(b"/a")),
        ("Location: https://origin/a", ()),
        ("Location: http://origin:8080/a", ()),
        ("Location: http://elsewhere/a", ()),
        ("Location: http://[::1/a", ()),
        ("Location: http://origin:x/a", ()),
        ("Content-Type: text/plain", ()),
    ],
)
def test_objects_that_an_answer_names_are_changed_too(line, expected):
    asked = request(method="POST", target=b"/a/b?q")
    assert objects_told(asked, fields(line)) == expected


def test_an_answer_may_name_two():
    answered = fields("Location: /x", "Content-Location: /y")
    assert objects_told(request(method="PUT"), answered) == there(b"/x", b"/y")


def test_an_origin_that_has_an_address_for_a_name():
    here = "http://[::1]:8080"
    asked = replace(request(method="PUT"), key=CacheKey(Namespace(here), b"/a"))
    assert objects_told(asked, fields(f"Location: {here}/x")) == (Object(here, b"/x"),)


@pytest.mark.parametrize(
    ("body", "does"),
    [
        (b'<?xml version="1.0"?>\n<Error><Code>InternalError</Code></Error>', True),
        (b"<CompleteMultipartUploadResult/>", False),
        (b"", False),
    ],
)
def test_an_answer_of_success_may_admit_a_failure(body, does):
    assert admits_failure(body) is does
