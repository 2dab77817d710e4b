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
    authorization = fields.combined(b"authorization").lstrip().lower()
    if authorization.startswith(_SIGNED_SCHEMES):
        return True
    query = target.partition(b"?")[2]
    return bool(query) and any(
        unquote_to_bytes(part.partition(b"=")[0]).lower() in _SIGNED_QUERY
        for part in query.split(b"&")
    )
