"""Signatures, held against those that botocore itself makes for its own clients."""

from types import SimpleNamespace

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from chunkside.core.fields import Fields
from chunkside.upstream.aws import Keys
from chunkside.upstream.signing import canonical, signed

KEYS = Keys("AKIDEXAMPLE", "s3cr3t-s3cr3t", None)
AT = 1_800_000_000.0
STAMP = "20270115T080000Z"
URL = ("https", "data.s3.eu-west-1.amazonaws.com", b"/a%20b/c/0")


def sign(*fields, method="GET", url=URL, keys=KEYS, has_content=False):
    lines = Fields(fields)
    return signed(lines, method, url, keys, region="eu-west-1", at=AT, has_content=has_content)


def by_botocore(told, url, method="GET", keys=KEYS):
    """What botocore's own client would send, of the lines that were signed."""
    scheme, host, target = url
    request = AWSRequest(method=method, url=f"{scheme}://{host}{target.decode()}")
    names = told.get(b"authorization").partition(b"SignedHeaders=")[2].partition(b",")[0]
    for name, value in told:
        if name.lower() in names.split(b";"):
            request.headers[name.decode()] = value.decode()
    request.context["timestamp"] = STAMP
    credentials = Credentials(keys.access_key, keys.secret_key, keys.token)
    auth = S3SigV4Auth(credentials, "s3", "eu-west-1")
    auth._modify_request_before_signing(request)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    auth._inject_signature_to_request(request, auth.signature(text, request))
    return request.headers["Authorization"].encode()


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ((), b"host;x-amz-content-sha256;x-amz-date"),
        (((b"Range", b"bytes=0-9"),), b"host;range;x-amz-content-sha256;x-amz-date"),
        (
            ((b"If-None-Match", b'"a"'), (b"If-Modified-Since", b"then")),
            b"host;if-modified-since;if-none-match;x-amz-content-sha256;x-amz-date",
        ),
        (
            ((b"x-amz-request-payer", b"requester"), (b"User-Agent", b"x"), (b"Accept", b"*/*")),
            b"host;x-amz-content-sha256;x-amz-date;x-amz-request-payer",
        ),
    ],
)
@pytest.mark.parametrize("token", [None, "t0k3n"])
def test_it_is_botocores_own_of_exactly_what_is_sent(fields, names, token):
    keys = Keys(KEYS.access_key, KEYS.secret_key, token)
    told = sign(*fields, keys=keys)
    line = told.get(b"authorization")
    wanted = names.replace(b"x-amz-date", b"x-amz-date;x-amz-security-token") if token else names
    assert b"SignedHeaders=" in line
    told_names = line.partition(b"SignedHeaders=")[2].partition(b",")[0].split(b";")
    assert sorted(told_names) == sorted(wanted.split(b";"))
    assert line == by_botocore(told, URL, keys=keys)
    assert told.get(b"x-amz-date") == STAMP.encode()
    for name, value in fields:
        assert told.get(name.lower()) == value


def test_what_another_signature_brought_is_replaced():
    told = sign(
        (b"X-Amz-Date", b"then"),
        (b"x-amz-content-sha256", b"theirs"),
        (b"Authorization", b"theirs"),
        (b"x-amz-security-token", b"theirs"),
    )
    assert b"theirs" not in b" ".join(value for _, value in told)
    assert len([name for name, _ in told if name.lower() == b"x-amz-date"]) == 1
    assert told.get(b"x-amz-security-token") is None


def test_a_body_is_not_signed_and_no_body_is():
    assert sign(has_content=True, method="PUT").get(b"x-amz-content-sha256") == b"UNSIGNED-PAYLOAD"
    assert sign().get(b"x-amz-content-sha256").startswith(b"e3b0c442")


@pytest.mark.parametrize(
    ("target", "spelled"),
    [
        (b"/a/b", "/a/b"),
        (b"/a%20b%2Fc", "/a%20b/c"),
        (b"/a%2520b", "/a%2520b"),
        (b"/a//b", "/a//b"),
        (b"/a+b=(1)!", "/a%2Bb%3D%281%29%21"),
        (b"/~a_-.", "/~a_-."),
        (b"/%7ea", "/~a"),
        ("/é".encode(), "/%C3%A9"),
        (b"/?list-type=2&prefix=a%2Fb/&delimiter=/", "/?list-type=2&prefix=a%2Fb%2F&delimiter=%2F"),
        (b"/a?versionId", "/a?versionId="),
        (b"/a?x=1=2&&y=a+b", "/a?x=1%3D2&y=a%20b"),
        (b"/a?", "/a?"),
    ],
)
def test_a_target_is_signed_as_the_store_spells_it_and_never_encoded_twice(target, spelled):
    assert canonical(target) == spelled


def test_nothing_secret_is_shown_by_accident():
    keys = Keys("AKID", "s3cr3t-s3cr3t", "t0k3n")
    assert "s3cr3t" not in f"{keys!r} {keys}" and "t0k3n" not in repr(SimpleNamespace(keys=keys))
