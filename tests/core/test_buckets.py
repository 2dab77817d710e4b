import pytest

from chunkside.core.buckets import (
    bucket_of,
    error_code,
    has_key,
    is_admitted,
    is_of_an_object,
    may_hide_absence,
    names_missing_key,
    speaks_of_another_absence,
)


@pytest.mark.parametrize(
    ("target", "bucket", "rest", "with_key"),
    [
        (b"/", b"", b"", False),
        (b"/?list-type=2", b"", b"?list-type=2", False),
        (b"/data", b"data", b"", False),
        (b"/data/", b"data", b"/", False),
        (b"/data?list-type=2", b"data", b"?list-type=2", False),
        (b"/data/?a/b", b"data", b"/?a/b", False),
        (b"/data/a//b?x=1", b"data", b"/a//b?x=1", True),
        (b"/data//", b"data", b"//", True),
        (b"//data/a", b"", b"/data/a", False),
    ],
)
def test_a_target_names_a_bucket_and_what_lies_in_it(target, bucket, rest, with_key):
    assert bucket_of(target) == (bucket, rest)
    assert has_key(target) is with_key


@pytest.mark.parametrize(
    ("target", "is_object"),
    [
        (b"/data/a", True),
        (b"/data/a?x-id=GetObject", True),
        (b"/data/a?versionId=3", True),
        (b"/data/a?versionId=3&x-id=GetObject", True),
        (b"/data/a?versionid=2026-01-01T00:00:00.0000000Z", True),
        (b"/data/a?snapshot=2026-01-01T00:00:00.0000000Z", True),
        (b"/data/a?snapshot=x&comp=metadata", False),
        (b"/data/a?comp=blocklist&blocklisttype=all", False),
        (b"/data/a?comp=tags", False),
        (b"/data/a?comp=pagelist&snapshot=x", False),
        (b"/data/a?restype=container", False),
        (b"/data/a?sv=2023-11-03&se=2026-01-01", False),
        (b"/data?restype=container&comp=list", False),
        (b"/?comp=list", False),
        (b"/data/a?tagging", False),
        (b"/data/a?x-id=GetObject&partNumber=1", False),
        (b"/data/a/", False),
        (b"/data/a?", True),
        (b"/data", False),
        (b"/data/", False),
        (b"/data?x-id=ListObjects", False),
        (b"/", False),
    ],
)
def test_only_a_key_and_its_versions_are_objects(target, is_object):
    assert is_of_an_object(target, frozenset({b"x-id"})) is is_object


@pytest.mark.parametrize(
    ("scope", "target", "is_within"),
    [
        (b"", b"/any/thing", True),
        (b"/data", b"/data", True),
        (b"/data", b"/data/a", True),
        (b"/data", b"/data?list-type=2", True),
        (b"/data", b"/database/a", False),
        (b"/data", b"/", False),
        (b"/data", b"/d%61ta/a", False),
        (b"/data/x", b"/data/x/a", True),
        (b"/data/x", b"/data/x", True),
        (b"/data/x", b"/data/xy", False),
        (b"/data/x", b"/data/y", False),
        (b"/data/x", b"/data?list-type=2&prefix=x%2Fa", True),
        (b"/data/x", b"/data/?prefix=x/&list-type=2", True),
        (b"/data/x%20y", b"/data?list-type=2&prefix=x%20y%2F", True),
        (b"/data/x", b"/data?list-type=2&prefix=x", False),
        (b"/data/x", b"/data?list-type=2&prefix=xy%2F", False),
        (b"/data/x", b"/data?list-type=2", False),
        (b"/data/x", b"/data?prefix=x%2F", False),
        (b"/data/x", b"/data?list-type=2&prefix=x%2F&prefix=y%2F", False),
        (b"/data/x", b"/data?list-type=2&prefix=x%2F&%50refix=y%2F", False),
        (b"/data/x", b"/data?restype=container&comp=list&prefix=x%2Fa&delimiter=%2F", True),
        (b"/data/x", b"/data?comp=list&restype=container&prefix=x/&marker=m", True),
        (b"/data/x", b"/data?restype=container&comp=list&prefix=y/", False),
        (b"/data/x", b"/data?restype=container&comp=list&prefix=x/&Prefix=y/", False),
        (b"/data/x", b"/data?restype=container&comp=list", False),
        (b"/data/x", b"/data?restype=container&comp=acl&prefix=x/", False),
        (b"/data/x", b"/data?comp=list&prefix=x/", False),
        (b"/data/x", b"/?comp=list&prefix=data", False),
        (b"/data/x", b"/other?list-type=2&prefix=x%2F", False),
        (b"/data/x", b"/data/y?list-type=2&prefix=x%2F", False),
        (b"/data/x", b"/data?list-type=2&prefix=x%2F&max-keys=1&continuation-token=t", True),
        (
            b"/data/x",
            b"/data?list-type=2&versions=true&pageToken=t&prefix=x%2F&userProject=p",
            True,
        ),
        (b"/data/x", b"/data?list-type=2&prefix=x%2F&acl", False),
        (b"/data/x", b"/data?list-type=2&prefix=x%2F&%70olicy=", False),
        (b"/data/x", b"/data?restype=container&comp=list&comp=acl&prefix=x/", False),
    ],
)
def test_a_bucket_and_a_prefix_admit_just_that(scope, target, is_within):
    assert is_admitted(scope, target, may_list=True) is is_within


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", None),
        (b"<html>", None),
        (b"<Error><Code> NoSuchKey\n</Code></Error>", b"NoSuchKey"),
        (b"<Error><Code>BlobNotFound</Code></Error>", b"BlobNotFound"),
        (b"<Error><Code>NoSuchBucket</Code></Error>", b"NoSuchBucket"),
    ],
)
def test_an_error_says_what_is_missing(body, code):
    is_of_key = code in (b"NoSuchKey", b"BlobNotFound")
    assert error_code(body) == code
    assert names_missing_key(body) is is_of_key
    assert speaks_of_another_absence(body) is (code is not None and not is_of_key)


def denied(message=None, code="AccessDenied", more=""):
    said = "" if message is None else f"<Message>{message}</Message>"
    return f"<Error><Code>{code}</Code>{said}{more}</Error>".encode()


WHO = "User: arn:aws:sts::123456789012:assumed-role/Reader/i-0 is not authorized to perform:"
WHY = "because no identity-based policy allows the"


@pytest.mark.parametrize(
    ("body", "may"),
    [
        pytest.param(denied("Access Denied"), True, id="aws"),
        pytest.param(denied("Access Denied."), True, id="minio"),
        pytest.param(denied(" access\n denied "), True, id="blanks"),
        pytest.param(denied(), True, id="ceph"),
        pytest.param(denied(""), True, id="empty"),
        pytest.param(
            denied(f'{WHO} s3:ListBucket on resource: "arn:aws:s3:::b" {WHY} s3:ListBucket action'),
            True,
            id="for-want-of-listing",
        ),
        pytest.param(
            denied(f'{WHO} s3:GetObject on resource: "arn:aws:s3:::b/k" {WHY} s3:GetObject action'),
            False,
            id="for-want-of-reading",
        ),
        pytest.param(
            denied(f"{WHO} s3:ListBucket on b, nor kms:Decrypt on k"), False, id="and-of-another"
        ),
        pytest.param(denied(f"{WHO} s3:ListBucket on b {WHY} s3:* action"), False, id="of-all"),
        pytest.param(denied(f"{WHO} kms:Decrypt on the key"), False, id="key"),
        pytest.param(denied(f"{WHO} s3:ListBucketVersions on b"), False, id="versions"),
        pytest.param(denied("s3:ListBucket"), False, id="not-said-to-be-missing"),
        pytest.param(denied("Request has expired"), False, id="expired"),
        pytest.param(
            denied("There were headers present in the request which were not signed"),
            False,
            id="unsigned",
        ),
        pytest.param(
            denied("Access denied.", more="<Details>x does not have storage.objects.get</Details>"),
            False,
            id="gcs",
        ),
        pytest.param(denied("Access Denied", code="AllAccessDisabled"), False, id="disabled"),
        pytest.param(denied("Access Denied", code="SignatureDoesNotMatch"), False, id="signature"),
        pytest.param(b"Access Denied", False, id="no-xml"),
        pytest.param(b"", False, id="nothing"),
    ],
)
def test_how_a_refusal_is_worded_for_a_missing_key(body, may):
    assert may_hide_absence(body) is may
