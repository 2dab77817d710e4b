"""A target as a log may show it: whatever may be a secret is left out.

Nobody can list the names under which secrets are sent, so it is those that hold none that are
listed. What stands in a path is taken for a name.
"""

from __future__ import annotations

import re
from typing import Final

from chunkside.core.key import origin_target

HIDDEN: Final = b"***"
MOST_SHOWN: Final = 1024

# Of a presigned URL that was encoded once more, or several times.
_ENCODED_QUERY: Final = re.compile(rb"%(?:25)*3f", re.IGNORECASE)
_NAME: Final = re.compile(rb"[A-Za-z0-9._~-]{1,64}")
# No other parameter can hide in such a value.
_VALUE: Final = re.compile(rb"[A-Za-z0-9._~/%+:,*-]*")
_HARMLESS: Final = frozenset(
    {
        # What object stores are asked for, and how.
        *(b"list-type", b"prefix", b"delimiter", b"max-keys", b"marker", b"start-after"),
        *(b"encoding-type", b"fetch-owner", b"versionid", b"versions", b"uploads", b"partnumber"),
        *(b"acl", b"cors", b"delete", b"lifecycle", b"location", b"policystatus", b"tagging"),
        *(b"attributes", b"retention", b"versioning", b"website", b"x-id", b"alt", b"fields"),
        *(b"generation", b"maxresults", b"projection", b"uploadtype", b"comp", b"restype"),
        *(b"include", b"snapshot", b"blockid", b"timeout", b"tensorstore"),
        # Of signatures: when, how and for what, but neither by whom nor the proof.
        *(b"x-amz-algorithm", b"x-amz-date", b"x-amz-expires", b"x-amz-signedheaders"),
        *(b"x-goog-algorithm", b"x-goog-date", b"x-goog-expires", b"x-goog-signedheaders"),
        *(b"expires", b"sv", b"st", b"se", b"sr", b"sp", b"spr"),
    }
)


def shown_target(target: bytes) -> str:
    """A target of the data port, without userinfo, fragment and the values of query parameters
    that aren't known to hold no secret. At most MOST_SHOWN characters, and `...` where that is not
    all.
    """
    try:
        path, mark, query = origin_target(target).partition(b"#")[0].partition(b"?")
    except ValueError:
        return "*" if target == b"*" else HIDDEN.decode()
    if encoded := _ENCODED_QUERY.search(path):
        path = path[: encoded.end()] + HIDDEN
    if query:
        query = b"&".join(map(_shown_parameter, query.split(b"&")))
    text = (path + mark + query).decode("utf-8", "backslashreplace")
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."


def without_query(target: bytes) -> bytes:
    """The path of a target in origin form, without a query that is encoded in it either."""
    path = target.partition(b"?")[0]
    encoded = _ENCODED_QUERY.search(path)
    return path if encoded is None else path[: encoded.start()]


def _shown_parameter(parameter: bytes) -> bytes:
    name, equals, value = parameter.partition(b"=")
    is_harmless = name.lower() in _HARMLESS
    if is_harmless and _VALUE.fullmatch(value):
        return parameter
    # By itself it may be a token.
    is_name = bool(equals) and _NAME.fullmatch(name) is not None
    return name + equals + HIDDEN if is_name else HIDDEN
