import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkside.core.credentials import (
    for_another_origin,
    is_presigned,
    is_sent_in_signed_chunks,
    is_signed,
    partition,
    stripped,
)
from chunkside.core.fields import Fields
from tests.core.samples import fields

NAMES = frozenset({b"authorization", b"x-api-key"})
SECRET = b"s" * 32


def held_by(*lines):
    return partition(fields(*lines), NAMES, SECRET)


def test_who_brings_no_credential_is_in_the_partition_of_nobody():
    assert held_by() == b""
    assert held_by("Accept: x", "Cookie: a=1") == b""
    assert partition(fields("Authorization: Bearer a"), frozenset(), SECRET) == b""


def test_a_partition_is_a_keyed_hash_of_names_and_values():
    # As openssl reckons it: BLAKE2b, 16 bytes, of 13:authorization8:Bearer a
    assert held_by("Authorization: Bearer a") == b"6b2c4ead1aa21d4bf13d2a693d7ff3ce"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(["Authorization: a"], ["Authorization: b"], id="value"),
        pytest.param(["Authorization: a"], ["X-Api-Key: a"], id="name"),
        pytest.param(["Authorization: a"], ["Authorization: A"], id="case-of-value"),
        pytest.param(["Authorization: a"], ["Authorization: a", "X-Api-Key: b"], id="one-more"),
        pytest.param(["Authorization: a"], ["Authorization: a", "Authorization: a"], id="twice"),
        pytest.param(["Authorization:"], [], id="empty-is-not-none"),
        pytest.param(
            ["Authorization: a", "X-Api-Key: b"],
            ["Authorization: b", "X-Api-Key: a"],
            id="exchanged",
        ),
        pytest.param(["Authorization: a9:x-api-key1:b"], ["Authorization: a", "X-Api-Key: b"]),
    ],
)
def test_other_credentials_are_another_partition(one, other):
    assert held_by(*one) != held_by(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(["Authorization: a"], ["authorization: a"], id="case-of-name"),
        pytest.param(["Authorization: a", "Accept: x"], ["Authorization: a"], id="other-fields"),
        pytest.param(
            ["Authorization: a", "X-Api-Key: b"], ["X-Api-Key: b", "Authorization: a"], id="order"
        ),
    ],
)
def test_the_same_credentials_are_one_partition(one, other):
    assert held_by(*one) == held_by(*other)


def test_without_the_secret_nobody_can_test_a_guess():
    credential = fields("Authorization: a")
    assert partition(credential, NAMES, SECRET) != partition(credential, NAMES, b"t" * 32)


CREDENTIALS = st.lists(
    st.tuples(st.sampled_from([b"Authorization", b"x-API-key"]), st.binary(max_size=3)), max_size=3
)


@given(CREDENTIALS, CREDENTIALS)
def test_two_clients_share_a_partition_only_if_they_hold_the_same(one, other):
    def as_set(lines):
        return sorted((name.lower(), value) for name, value in lines)

    is_shared = partition(Fields(one), NAMES, SECRET) == partition(Fields(other), NAMES, SECRET)
    assert is_shared == (as_set(one) == as_set(other))


@pytest.mark.parametrize(
    "authorization",
    [
        "AWS4-HMAC-SHA256 Credential=AKIA/20240101/eu/s3/aws4_request, Signature=ab",
        "AWS4-ECDSA-P256-SHA256 Credential=x",
        "aws4-hmac-sha256 Credential=x",
        "AWS AKIA:c2ln",
        "GOOG4-RSA-SHA256 Credential=x",
        "GOOG1 GOOGX:c2ln",
        "SharedKey account:c2ln",
        "SharedKeyLite account:c2ln",
    ],
)
def test_a_signature_in_a_header_is_seen(authorization):
    assert is_signed(b"/a", fields(f"Authorization: {authorization}"))


@pytest.mark.parametrize(
    "authorization", ["", "Bearer aws4-x", "Basic QVdT", "Negotiate x", "AWSome x", "AWS", "GOOG1"]
)
def test_a_credential_that_signs_nothing_is_no_signature(authorization):
    assert not is_signed(b"/a", fields(f"Authorization: {authorization}"))


@pytest.mark.parametrize(
    "target",
    [
        b"/a?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=x&X-Amz-Signature=ab",
        b"/a?x-amz-signature=ab&x-id=GetObject",
        b"/a?X-Amz%2DSignature=ab",
        b"/a?AWSAccessKeyId=x&Expires=1&Signature=ab",
        b"/a?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature=ab",
        b"/a?GoogleAccessId=x&Expires=1&Signature=ab",
        b"/a?sv=2022-11-02&sr=b&sp=r&sig=ab%3D",
        b"/a?sig",
    ],
)
def test_a_presigned_target_is_seen(target):
    assert is_signed(target, fields())


@pytest.mark.parametrize(
    "target",
    [
        b"/a",
        b"/a?",
        b"/a?versionId=sig",
        b"/a?signal=1&design=2",
        b"/sig=1",
        b"/a?X-Amz-Security-Token=x",
        b"/Signature/a?x=1",
    ],
)
def test_an_unsigned_target_is_none(target):
    assert not is_signed(target, fields("Accept: x"))


def test_another_origin_sees_no_credential_by_settings_or_by_nature():
    secret = (b"Authorization", b"Cookie", b"X-Amz-Security-Token", b"X-Goog-Encryption-Key")
    brought = Fields((name, b"1") for name in (*secret, b"X-Own", b"Range"))
    assert for_another_origin(brought, frozenset({b"x-own"})).names == {b"range"}
    assert for_another_origin(brought, frozenset()).names == {b"range", b"x-own"}


SIGNATURE = [
    "Authorization: AWS4-HMAC-SHA256 Credential=x",
    *("X-Amz-Date: 20240101T000000Z", "X-Amz-Security-Token: t", "x-ms-date: x", "x-goog-date: x"),
]
HASHES = ["X-Amz-Content-Sha256: ab", "x-goog-content-sha256: ab"]


def test_who_is_stripped_brings_no_credential():
    brought = fields("Authorization: Bearer a", "x-API-key: k", "Accept: x", "X-Amz-Date: d")
    assert stripped(brought, NAMES, has_body=False) == fields("Accept: x", "X-Amz-Date: d")


def test_a_signature_is_stripped_with_all_that_it_brings():
    brought = fields(*SIGNATURE, *HASHES, "Range: bytes=0-1", "x-amz-meta-a: b")
    left = fields("Range: bytes=0-1", "x-amz-meta-a: b")
    assert stripped(brought, NAMES, has_body=False) == left
    assert stripped(brought, frozenset(), has_body=False) == left
    assert not is_signed(b"/a", left)


def test_what_a_signature_says_of_a_body_stays_with_it():
    brought = fields(*SIGNATURE, *HASHES)
    assert stripped(brought, NAMES, has_body=True) == fields(*HASHES)


def test_a_signature_in_a_header_is_none_in_the_target():
    assert not is_presigned(b"/a")
    assert is_presigned(b"/a?sig=x")


@pytest.mark.parametrize(
    ("lines", "is_chunked"),
    [
        ((), False),
        (("x-amz-content-sha256: UNSIGNED-PAYLOAD",), False),
        (("x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER",), True),
        (("Content-Encoding: gzip, aws-chunked",), True),
    ],
)
def test_a_body_may_be_framed_in_signed_chunks(lines, is_chunked):
    assert is_sent_in_signed_chunks(fields(*lines)) is is_chunked
