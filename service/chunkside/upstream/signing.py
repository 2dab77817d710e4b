"""Signatures of AWS's fourth version for S3, by botocore. What is signed is what is sent: the
caller sends the very lines that this gives, to the host that it names.
"""

from __future__ import annotations

import time
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes

from chunkside.core.fields import Fields
from chunkside.upstream.aws import Keys

_EMPTY: Final = sha256(b"").hexdigest()
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
# Of another signature.
_REPLACED: Final = frozenset(
    {b"authorization", b"date", b"x-amz-date", b"x-amz-content-sha256", b"x-amz-security-token"}
)
# Beside these and all of AWS's own others may be changed on the way.
_SIGNED: Final = frozenset({b"range", b"content-md5", b"content-type"})
_SIGNED_BEGIN: Final = (b"x-amz-", b"if-")


def signed(
    fields: Fields,
    method: str,
    url: tuple[str, str, bytes],
    keys: Keys,
    *,
    region: str,
    at: float,
    has_content: bool = False,
) -> Fields:
    """The fields of a request, and its signature. `url`: scheme, what Host says, and the target.
    `at`: seconds of the store's wall clock.
    """
    from botocore.auth import S3SigV4Auth  # noqa: PLC0415 - an extra
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415

    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    own = [
        (b"X-Amz-Date", stamp.encode()),
        (b"X-Amz-Content-SHA256", (_UNSIGNED if has_content else _EMPTY).encode()),
    ]
    if keys.token:
        own.append((b"X-Amz-Security-Token", keys.token.encode()))
    sent = fields.without(_REPLACED).plus(*own)
    scheme, host, target = url
    request: Any = AWSRequest(method=method, url=f"{scheme}://{host}{canonical(target)}")
    request.context["timestamp"] = stamp
    request.headers["Host"] = host
    for name, value in sent:
        if name.lower() in _SIGNED or name.lower().startswith(_SIGNED_BEGIN):
            request.headers[name.decode("ascii")] = value.decode()
    auth: Any = S3SigV4Auth(keys, "s3", region)
    # `add_auth` would take the time of this machine's clock.
    to_sign = auth.string_to_sign(request, auth.canonical_request(request))
    names = auth.signed_headers(auth.headers_to_sign(request))
    line = (
        f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={names}, "
        f"Signature={auth.signature(to_sign, request)}"
    )
    return sent.plus((b"Authorization", line.encode()))


def canonical(target: bytes) -> str:
    """A target as a store spells it for itself before it checks a signature: it decodes what it was
    sent, and encodes that its own way, once.
    """
    path, mark, query = target.partition(b"?")
    spelled = quote_from_bytes(unquote_to_bytes(path), safe="/-_.~")
    if not mark:
        return spelled
    parts = (part.partition(b"=") for part in query.split(b"&") if part)
    return f"{spelled}?" + "&".join(f"{_spelled(n)}={_spelled(v)}" for n, _, v in parts)


def _spelled(told: bytes) -> str:
    return quote(unquote_to_bytes(told.replace(b"+", b" ")), safe="-_.~")
