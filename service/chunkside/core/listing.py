"""S3's listing of what lies beneath a key, as s3fs asks for it where it didn't find the key itself:
whether a request is that question, whether an answer says "nothing", and that answer again.

Only this one question has an answer that is remembered. Any other listing is relayed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes
from xml.etree import ElementTree as ET

from chunkside.core.key import CacheKey, KeyClass, Object, class_of_path

DEEPEST: Final = 32
"""Slashes of a directory whose listing is looked at: a write costs a stamp for each above it."""

_ASKED: Final = {b"list-type": b"2", b"delimiter": b"/", b"max-keys": b"1"}
_MAY_BE_ASKED: Final = {b"encoding-type": b"url"}
_BUCKET: Final = re.compile(rb"/([A-Za-z0-9._-]*)/?")
# What every client spells alike, so that the key's own target can be told.
_PREFIX: Final = re.compile(rb"(?:(?!\.\.?/)[A-Za-z0-9._~-]+/)+")
_NAMESPACE: Final = re.compile(r"\{[^}]*\}")
_SAID: Final = frozenset({"Name", "Prefix", "Delimiter", "MaxKeys", "EncodingType", "StartAfter"})
_FOUND: Final = frozenset({"Contents", "CommonPrefixes"})
_SAID_ALWAYS: Final = {"KeyCount": "0", "IsTruncated": "false"}


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether there is anything beneath the key `of`, which has a class of its own.

    `beneath`: what "nothing" is remembered as: the absence of the key's directory. `bucket`: b""
    where the host names it; `prefix`: the key's within it, with a slash at its end.
    """

    of: CacheKey
    key_class: KeyClass
    beneath: CacheKey
    bucket: bytes
    prefix: bytes
    is_encoded: bool


def probe_of(key: CacheKey, metadata_names: tuple[str, ...] = ()) -> Probe | None:
    """What a GET of `key` asks, if it is just that."""
    path, _, query = key.target.partition(b"?")
    found, asked = _BUCKET.fullmatch(path), _parameters(query)
    if found is None or asked is None:
        return None
    prefix = asked.pop(b"prefix", b"")
    optional = {name: asked.pop(name) for name in _MAY_BE_ASKED.keys() & asked.keys()}
    if asked != _ASKED or any(_MAY_BE_ASKED[name] != value for name, value in optional.items()):
        return None
    if _PREFIX.fullmatch(prefix) is None:
        return None
    directory = path.rstrip(b"/") + b"/" + prefix
    if directory.count(b"/") > DEEPEST:
        return None
    target = directory[:-1]
    return Probe(
        of=CacheKey(key.namespace, target),
        key_class=class_of_path(target, metadata_names),
        beneath=CacheKey(key.namespace, directory),
        bucket=found[1],
        prefix=prefix,
        is_encoded=bool(optional),
    )


def _parameters(query: bytes) -> dict[bytes, bytes] | None:
    """Decoded values by name; None where one is there twice."""
    parts = [part.partition(b"=") for part in query.split(b"&")]
    asked = {name: unquote_to_bytes(value) for name, _, value in parts}
    return asked if len(asked) == len(parts) else None


def listings_above(target: Object) -> tuple[Object, ...]:
    """The directories whose listing has to do with `target`: all that it lies in but the root, each
    named by its path with a slash at its end.
    """
    paths: list[bytes] = []
    above = b"/"
    for name in target.path.split(b"/")[1:-1][: DEEPEST - 1]:
        above += name + b"/"
        paths.append(above)
    return tuple(Object(target.location, path) for path in paths if path != target.path)


def says_nothing(probe: Probe, body: bytes) -> bool:
    """Whether a whole answer tells that nothing lies there, and speaks of nothing else."""
    # Without declarations XML means what it says.
    if b"<!" in body or b"\0" in body:
        return False
    try:
        root = ET.fromstring(body)  # noqa: S314 - see above
    except ET.ParseError:
        return False
    told = {_name(member): (member.text or "").strip() for member in root}
    if _name(root) != "ListBucketResult" or len(told) != len(root):
        return False
    if any(told.pop(name, None) != value for name, value in _SAID_ALWAYS.items()):
        return False
    if any(text and name not in _SAID for name, text in told.items()):
        return False
    if any(len(member) for member in root) or not _FOUND.isdisjoint(told):
        return False
    return _is_of(probe, told)


def _is_of(probe: Probe, told: dict[str, str]) -> bool:
    """Whether an answer repeats the question."""
    bucket, prefix = probe.bucket.decode(), probe.prefix.decode()
    prefixes = {prefix, quote_from_bytes(probe.prefix, safe="")} if probe.is_encoded else {prefix}
    return (
        told.get("Prefix") in prefixes
        and told.get("MaxKeys", "1") == "1"
        and told.get("Delimiter", "/") in ("/", "%2F")
        and not told.get("StartAfter")
        and (not bucket or told.get("Name", bucket) == bucket)
    )


def _name(element: ET.Element) -> str:
    return _NAMESPACE.sub("", element.tag)


def nothing(probe: Probe) -> bytes:
    """The answer that says so."""
    encoding = b"<EncodingType>url</EncodingType>" if probe.is_encoded else b""
    return (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        b"<Name>%b</Name><Prefix>%b</Prefix><KeyCount>0</KeyCount><MaxKeys>1</MaxKeys>"
        b"<Delimiter>/</Delimiter>%b<IsTruncated>false</IsTruncated></ListBucketResult>"
    ) % (probe.bucket, probe.prefix, encoding)
