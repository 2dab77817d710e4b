"""Whose answer it is: the client's partition, and signatures that prove nothing to a cache."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import unquote_to_bytes

from chunkside.core.fields import Fields

_SIGNED_SCHEMES: Final = (b"aws4-", b"aws ", b"goog4-", b"goog1 ", b"sharedkey")
_SIGNED_QUERY: Final = frozenset(
    {b"x-amz-signature", b"x-goog-signature", b"signature", b"sig"}
)  # fmt: skip
_OF_A_SIGNATURE: Final = frozenset(
    {
        *(b"authorization", b"x-amz-date", b"x-amz-security-token"),
        *(b"x-goog-date", b"x-ms-date"),
    }
)
_OF_A_SIGNED_BODY: Final = frozenset({b"x-amz-content-sha256", b"x-goog-content-sha256"})

CUSTOMER_KEYS: Final = (
    b"x-amz-server-side-encryption-customer-key",
    b"x-goog-encryption-key",
    b"x-ms-encryption-key",
)
"""Fields by which clients hand an origin the keys to their objects."""
# Of secrets that are no credentials by anybody's settings.
_ALWAYS_SECRET: Final = frozenset(
    {b"authorization", b"cookie", b"cookie2", b"x-amz-security-token", *CUSTOMER_KEYS}
)


def partition(fields: Fields, credential_names: frozenset[bytes], secret: bytes) -> bytes:
    """A keyed hash of all credentials that are forwarded; b"" where there are none.

    `credential_names` in lower case. Without `secret` (32 bytes) nobody can tell which credential
    a partition belongs to, nor test a guess.
    """
    held = [
        (name.lower(), value) for name, value in fields if name.lower() in credential_names
    ]  # fmt: skip
    if not held:
        return b""
    mac = hashlib.blake2b(key=secret, digest_size=16)
    for name, value in sorted(held):
        mac.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return mac.hexdigest().encode()


def for_another_origin(fields: Fields, credential_names: frozenset[bytes]) -> Fields:
    """What of a request to one origin another may see (RFC 9110 §15.4). `credential_names` in
    lower case.
    """
    return fields.without(credential_names | _ALWAYS_SECRET)


def is_signed(target: bytes, fields: Fields) -> bool:
    """Whether the client signed this very request, in a header or in the query."""
    return _has_signature(fields) or is_presigned(target)


def _has_signature(fields: Fields) -> bool:
    return fields.combined(b"authorization").lstrip().lower().startswith(_SIGNED_SCHEMES)


def stripped(fields: Fields, credential_names: frozenset[bytes], *, has_body: bool) -> Fields:
    """Without the client's credentials, and without its signature and what that brings.

    What a signature says of a body stays: it may tell how the body is framed.
    """
    left_out = credential_names
    if _has_signature(fields):
        left_out |= _OF_A_SIGNATURE if has_body else _OF_A_SIGNATURE | _OF_A_SIGNED_BODY
    return fields.without(left_out)


def is_sent_in_signed_chunks(fields: Fields) -> bool:
    """Whether a body is framed as S3's clients frame what they sign, or check, piece by piece."""
    told = fields.combined(b"x-amz-content-sha256").strip().upper()
    coding = fields.combined(b"content-encoding").lower()
    return told.startswith(b"STREAMING-") or b"aws-chunked" in coding


def is_presigned(target: bytes) -> bool:
    """Whether the client's signature is in the query."""
    query = target.partition(b"?")[2]
    return bool(query) and any(
        unquote_to_bytes(part.partition(b"=")[0]).lower() in _SIGNED_QUERY
        for part in query.split(b"&")
    )
