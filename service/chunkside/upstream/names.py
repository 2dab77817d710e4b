"""Which file a target names, and which none can.

Decides, and does nothing. Strict: no two spellings but those of percent-encoding lead to one file,
and what a file can't be named as is refused, since its 404 would be taken for a chunk's absence.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

_ENCODED: Final = re.compile(rb"(?:[^%]|%[0-9A-Fa-f]{2})*", re.DOTALL)


class NoFileName(Exception):
    """A target names no file that there could be; the text says why."""


def names_of(target: bytes) -> tuple[bytes, ...]:
    """The names of directories and of the file that a target leads through, each decoded once; the
    last is b"" where it asks for a directory. Raises NoFileName.

    A query names no file, so that it isn't looked at.
    """
    path = target.partition(b"?")[0]
    if not path.startswith(b"/"):
        raise NoFileName("The target is no path.")
    *directories, last = (_name(segment) for segment in path[1:].split(b"/"))
    if b"" in directories:
        raise NoFileName("A target that names a file has no two slashes side by side.")
    return (*directories, last)


def _name(segment: bytes) -> bytes:
    if _ENCODED.fullmatch(segment) is None:
        raise NoFileName("The target's percent-encoding is broken: send % as %25.")
    name = unquote_to_bytes(segment)
    if b"/" in name:
        raise NoFileName("No file has a slash in its name: send the slashes between names as /.")
    if b"\0" in name:
        raise NoFileName("No file has a NUL in its name.")
    if name in (b".", b".."):
        raise NoFileName("A target that names a file has no dot segments.")
    return name
