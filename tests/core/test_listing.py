"""s3fs's question whether anything lies beneath a key, and when an answer to it says "nothing"."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.key import CacheKey, Namespace, Object
from chunkside.core.listing import DEEPEST, listings_above, nothing, probe_of, says_nothing

SPACE = Namespace("http://origin:80", partition=b"p")
ASKED = b"list-type=2&prefix=a.zarr%2Fc%2F0%2F&delimiter=%2F&max-keys=1"
ENCODED = ASKED + b"&encoding-type=url"


def probe(target, *names):
    return probe_of(CacheKey(SPACE, target), names)


BUCKETS = [b"/data", b"/data/", b"/"]


@pytest.mark.parametrize("path", BUCKETS)
@pytest.mark.parametrize("query", [ASKED, ENCODED, b"&".join(sorted(ENCODED.split(b"&")))])
def test_what_s3fs_asks_is_known(path, query):
    found = probe(path + b"?" + query)
    assert found is not None
    root = path.rstrip(b"/")
    assert found.of == CacheKey(SPACE, root + b"/a.zarr/c/0")
    assert found.beneath == CacheKey(SPACE, root + b"/a.zarr/c/0/")
    assert (found.bucket, found.prefix) == (root[1:], b"a.zarr/c/0/")
    assert found.is_encoded is (query is not ASKED)
    assert found.key_class == "chunk"


def test_the_class_is_the_keys_own():
    query = b"list-type=2&delimiter=/&max-keys=1&prefix="
    classes = {
        b"a/zarr.json/": "metadata",
        b"a/shape.txt/": "metadata",
        b"a/c.txt/": "chunk",
    }
    for prefix, key_class in classes.items():
        found = probe(b"/data?" + query + prefix, "shape*")
        assert found is not None
        assert found.key_class == key_class


def asking(prefix: bytes) -> bytes:
    return b"/data?list-type=2&delimiter=/&max-keys=1&prefix=" + prefix


@pytest.mark.parametrize(
    "target",
    [
        b"/data",
        b"/data?",
        b"/data?list-type=1&prefix=a%2F&delimiter=%2F&max-keys=1",
        b"/data?list-type=2&prefix=a%2F&delimiter=%2F&max-keys=2",
        b"/data?list-type=2&prefix=a%2F&delimiter=%2F",
        b"/data?list-type=2&prefix=a%2F&max-keys=1",
        b"/data?prefix=a%2F&delimiter=%2F&max-keys=1",
        b"/data?list-type=2&delimiter=%2F&max-keys=1",
        b"/data/deeper?" + ASKED,
        b"/da%74a?" + ASKED,
        b"/data?" + ASKED + b"&start-after=x",
        b"/data?" + ASKED + b"&encoding-type=other",
        b"/data?" + ASKED + b"&max-keys=1",
        b"/data?" + ASKED + b"&continuation-token=x",
        b"/data?" + ASKED + b"&",
        *map(asking, (b"", b"a", b"%2F", b"a%2F%2F", b"%2Fa%2F", b"a%2F..%2F", b".%2F")),
        *map(asking, (b"a%252Fb%2F", b"a+b%2F", b"a%20b%2F", b"a%3Db%2F", b"%C3%A9%2F")),
        asking(b"a%2F" * DEEPEST),
    ],
)
def test_anything_else_is_another_listing(target):
    assert probe(target) is None


def test_so_deep_and_no_deeper():
    deepest = probe(asking(b"a/" * (DEEPEST - 2)))
    assert deepest is not None
    assert probe(asking(b"a/" * (DEEPEST - 1))) is None


# What a write does to it.


@pytest.mark.parametrize(
    ("path", "above"),
    [
        (b"/data/a/b/c", [b"/data/", b"/data/a/", b"/data/a/b/"]),
        (b"/data/a/", [b"/data/"]),
        (b"/data", []),
        (b"/", []),
        (b"", []),
        (b"/data//a", [b"/data/", b"/data//"]),
    ],
)
def test_the_listings_of_all_directories_that_an_object_lies_in_have_to_do_with_it(path, above):
    target = Object("http://origin:80", path)
    assert listings_above(target) == tuple(Object("http://origin:80", each) for each in above)


NAMES = st.text("ab.-_~1", min_size=1, max_size=4).filter(lambda name: name not in (".", ".."))
PATHS = st.lists(NAMES, min_size=1, max_size=2 * DEEPEST).map("/".join).map(str.encode)


@given(key=PATHS, rest=PATHS, is_directory=st.booleans(), root=st.sampled_from([b"", b"/data"]))
def test_whatever_lies_beneath_a_key_has_to_do_with_what_is_remembered(
    key, rest, is_directory, root
):
    found = probe((root or b"/") + b"?" + asking(key + b"/").partition(b"?")[2])
    if found is None:
        assert (root + b"/" + key).count(b"/") >= DEEPEST
        return
    written = root + b"/" + key + b"/" + rest + (b"/" if is_directory else b"")
    assert found.beneath.object in listings_above(Object(SPACE.location, written))
    assert found.of.object.path + b"/" == found.beneath.object.path


# What the origin says.


PROBE = probe(b"/data?" + ENCODED)
assert PROBE is not None
AWS = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>data</Name>'
    b"<Prefix>a.zarr/c/0/</Prefix><KeyCount>0</KeyCount><MaxKeys>1</MaxKeys>"
    b"<Delimiter>/</Delimiter><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
    b"</ListBucketResult>"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b""),
        (b' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', b""),
        (b"a.zarr/c/0/", b"a.zarr%2Fc%2F0%2F"),
        (b"<Delimiter>/<", b"<Delimiter>%2F<"),
        (b"<Delimiter>/</Delimiter>", b""),
        (b"<Name>data</Name>", b"<Name>data</Name><StartAfter/><NextContinuationToken/>"),
        (b"<Name>data</Name>", b""),
        (b"<MaxKeys>1</MaxKeys>", b""),
        (b"><", b">\n  <"),
    ],
)
def test_nothing_is_said_in_these_words(old, new):
    assert says_nothing(PROBE, AWS.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"ListBucketResult", b"ListAllMyBucketsResult"),
        (b"<KeyCount>0<", b"<KeyCount>1<"),
        (b"<KeyCount>0</KeyCount>", b""),
        (b"<KeyCount>0</KeyCount>", b"<KeyCount>0</KeyCount><KeyCount>0</KeyCount>"),
        (b">false<", b">true<"),
        (b"<IsTruncated>false</IsTruncated>", b""),
        (b"a.zarr/c/0/", b"a.zarr/c/"),
        (b"a.zarr/c/0/", b""),
        (b"<Prefix>a.zarr/c/0/</Prefix>", b""),
        (b"<Name>data<", b"<Name>other<"),
        (b"<Delimiter>/<", b"<Delimiter>.<"),
        (b"<MaxKeys>1<", b"<MaxKeys>0<"),
        (b"<KeyCount>", b"<Contents><Key>a.zarr/c/0/x</Key></Contents><KeyCount>"),
        (b"<KeyCount>", b"<Contents/><KeyCount>"),
        (
            b"<KeyCount>",
            b"<CommonPrefixes><Prefix>a.zarr/c/0/x/</Prefix></CommonPrefixes><KeyCount>",
        ),
        (b"<KeyCount>", b"<CommonPrefixes/><KeyCount>"),
        (b"<KeyCount>", b"<Found><Key>x</Key></Found><KeyCount>"),
        (b"<KeyCount>", b"<NextContinuationToken>x</NextContinuationToken><KeyCount>"),
        (b"<KeyCount>", b"<StartAfter>b</StartAfter><KeyCount>"),
        (b"<KeyCount>", b"<!-- --><KeyCount>"),
        (b"<ListBucketResult ", b"<!DOCTYPE x [<!ENTITY e 'y'>]><ListBucketResult "),
        (b"</ListBucketResult>", b""),
        (AWS, b""),
        (AWS, b"<html>not found</html>"),
        (AWS, AWS.decode().replace("UTF-8", "UTF-16").encode("utf-16")),
    ],
)
def test_all_else_says_something_else(old, new):
    assert not says_nothing(PROBE, AWS.replace(old, new))


def test_an_encoded_prefix_answers_only_who_asked_for_it_so():
    plain = replace(PROBE, is_encoded=False)
    assert says_nothing(plain, AWS)
    assert not says_nothing(plain, AWS.replace(b"a.zarr/c/0/", b"a.zarr%2Fc%2F0%2F"))


@pytest.mark.parametrize("query", [ASKED, ENCODED])
@pytest.mark.parametrize("path", BUCKETS)
def test_what_is_said_again_says_nothing(path, query):
    found = probe(path + b"?" + query)
    assert found is not None
    body = nothing(found)
    assert says_nothing(found, body)
    assert (b"<EncodingType>url</EncodingType>" in body) is found.is_encoded
