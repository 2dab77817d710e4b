"""What an origin must get as it came if it verifies its clients' own signatures: the Host, and each
field that a signature names. And what a Host may name beside the origin.

Knows how signatures name fields (AWS's fourth version, and Google's after it), and that stores take
the bucket from the path or from the Host. Must not know how anything is signed.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from chunkside.core.fields import Fields
from chunkside.core.key import Object, target_authority

_NAMED: Final = re.compile(rb"(?:^|[\s,])SignedHeaders=([^\s,]+)", re.IGNORECASE)
_NAMED_IN_QUERY: Final = frozenset({b"x-amz-signedheaders", b"x-goog-signedheaders"})
_NUMERIC: Final = re.compile(rb"[0-9.]+")
# Host goes a way of its own; how a body is framed each connection says for itself.
_TOLD_ANEW: Final = frozenset({b"host", b"transfer-encoding"})


def names_signed(target: bytes, fields: Fields) -> frozenset[bytes]:
    """The fields, in lower case, that the client's signatures hold for, but for Host."""
    told = _NAMED.findall(fields.combined(b"authorization"))
    for part in target.partition(b"?")[2].split(b"&"):
        name, _, value = part.partition(b"=")
        if unquote_to_bytes(name).lower() in _NAMED_IN_QUERY:
            told.append(unquote_to_bytes(value))
    return frozenset(b";".join(told).lower().split(b";")) - _TOLD_ANEW - {b""}


def host_asked_by(raw_target: bytes, fields: Fields) -> bytes | None:
    """What Host says; of a target in absolute-form that names another, what that says, since it was
    judged by that (RFC 9112 §3.2.2).
    """
    host, authority = fields.get(b"host"), target_authority(raw_target)
    if host is None or authority is None or name_in(authority) == name_in(host):
        return host
    return authority


def name_in(authority: bytes) -> bytes:
    """The name in a Host: no port, no dot at its end, in lower case; an address is one, too."""
    is_ip6 = authority.startswith(b"[")
    name = authority.partition(b"]" if is_ip6 else b":")[0]
    return name.lower().removesuffix(b".")


def own_name(location: str) -> bytes:
    """What an origin location is called."""
    return name_in(location.partition("://")[2].encode())


def may_name_a_bucket(host: bytes, location: str) -> bool:
    """Whether an origin may take a Host for that of a bucket, or of something else of its own. Its
    own name says what every request without a signature is asked for.
    """
    name = name_in(host)
    return name != own_name(location) and _has_several_labels(name)


def other_names(target: Object, host: bytes) -> tuple[Object, ...]:
    """What else an object may be called in what is stored, if a write names it by this Host: the
    bucket may stand in the path by one name and in the Host by the other.
    """
    own, name = own_name(target.location), name_in(host)
    if name == own:
        return ()
    paths = []
    if _has_several_labels(own):
        paths.append(b"/" + target.path[1:].partition(b"/")[2])
    if _has_several_labels(name):
        labels = name.split(b".")
        buckets = (b".".join(labels[:count]) for count in range(1, len(labels) + 1))
        paths += (b"/" + bucket + target.path for bucket in buckets)
    return tuple(Object(target.location, path) for path in paths)


def _has_several_labels(name: bytes) -> bool:
    is_address = name.startswith(b"[") or _NUMERIC.fullmatch(name) is not None
    return b"." in name and not is_address
