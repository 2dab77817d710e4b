"""Signatures by a key of an Azure storage account ("Shared Key"). What is signed is what is sent:
the caller sends the very lines that this gives.
"""

from __future__ import annotations

import base64
import hmac
import re
from typing import Final
from urllib.parse import unquote_to_bytes

from chunkside.core.fields import Fields
from chunkside.upstream.azure_secrets import AccountKey

# In this order; `Date` is left out, since `x-ms-date` stands for it.
_SIGNED: Final = (
    *(b"content-encoding", b"content-language", b"content-length", b"content-md5"),
    *(b"content-type", b"date", b"if-modified-since", b"if-match", b"if-none-match"),
    *(b"if-unmodified-since", b"range"),
)
_SPACE: Final = re.compile(rb"[ \t]+")


def shared_key(
    fields: Fields, method: str, target: bytes, secret: AccountKey, content_length: int | None
) -> bytes:
    """What Authorization says of a request with these fields. `target`: as it is sent."""
    told = string_to_sign(fields, method, target, secret.account, content_length)
    mac = hmac.digest(secret.key, told, "sha256")
    return b"SharedKey %b:%b" % (secret.account.encode(), base64.b64encode(mac))


def string_to_sign(
    fields: Fields, method: str, target: bytes, account: str, content_length: int | None
) -> bytes:
    length = b"%d" % content_length if content_length else b""
    values = (length if name == b"content-length" else fields.combined(name) for name in _SIGNED)
    lines = [method.encode(), *(value.strip(b" \t") for value in values)]
    names = sorted((n for n in fields.names if n.startswith(b"x-ms-")), key=_as_the_service_sorts)
    lines += [b"%b:%b" % (name, _unfolded(fields.combined(name))) for name in names]
    return b"\n".join((*lines, _resource(target, account)))


def _as_the_service_sorts(name: bytes) -> tuple[bytes, tuple[int, ...]]:
    """Hyphens count only between names that are alike without them, and `_` goes before digits."""
    hyphens = tuple(-place for place, letter in enumerate(name) if letter == ord("-"))
    return name.replace(b"-", b"").replace(b"_", b"!"), hyphens


def _unfolded(value: bytes) -> bytes:
    return _SPACE.sub(b" ", value).strip(b" ")


def _resource(target: bytes, account: str) -> bytes:
    """The path as it is sent, and the query as it is meant."""
    path, _, query = target.partition(b"?")
    told: dict[bytes, list[bytes]] = {}
    for name, _, value in (part.partition(b"=") for part in query.split(b"&") if part):
        told.setdefault(_decoded(name).lower(), []).append(_decoded(value))
    asked = (b"%b:%b" % (name, b",".join(sorted(told[name]))) for name in sorted(told))
    return b"\n".join((b"/%b%b" % (account.encode(), path), *asked))


def _decoded(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))
