"""Dictionaries of Structured Fields (RFC 8941 §3.2), as strictly as that says: all or nothing.

Knows the syntax alone. What is of no use to a cache (parameters) is checked and left out.
"""

from __future__ import annotations

import re
from typing import Final

_KEY: Final = rb"[a-z*][a-z0-9_\-.*]*"
_ITEM: Final = b"|".join(
    (
        rb"-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})(?![0-9.])",
        rb'"(?:[ !#-\[\]-~]|\\["\\])*"',
        rb"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*",
        rb":[A-Za-z0-9+/=]*:",
        rb"\?[01]",
    )
)
_PARAMETERS: Final = rb"(?:; *%b(?:=(?:%b))?)*" % (_KEY, _ITEM)
_INNER_LIST: Final = rb"\( *(?:(?:%b)%b(?: +(?:%b)%b)*)? *\)" % (2 * (_ITEM, _PARAMETERS))
_MEMBER: Final = re.compile(rb"(%b)(?:=(%b|%b))?%b" % (_KEY, _ITEM, _INNER_LIST, _PARAMETERS))
_COMMA: Final = re.compile(rb"[ \t]*,[ \t]*")


def dictionary(value: bytes) -> dict[bytes, bytes] | None:
    """Members by name, each as it is written, and `?1` where nothing is; the last of several of one
    name counts. None for what is no dictionary; one without members is.
    """
    text = value.strip(b" ")
    members: dict[bytes, bytes] = {}
    position = 0
    while position < len(text):
        member = _MEMBER.match(text, position)
        if member is None:
            return None
        members[member[1]] = b"?1" if member[2] is None else member[2]
        if member.end() == len(text):
            return members
        comma = _COMMA.match(text, member.end())
        if comma is None or comma.end() == len(text):
            return None
        position = comma.end()
    return members
