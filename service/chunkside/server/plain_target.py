"""Targets that say all there is to know at once: a path, spelled as every reader of it would, or
what a route tells of one that isn't.
"""

from __future__ import annotations

import re
from typing import Final

from chunkside.core.key import has_dot_segment
from chunkside.core.route import Route
from chunkside.core.subtree import is_beneath

_PLAIN: Final = re.compile(rb"/[A-Za-z0-9._~!$&'()*+,;=:@/-]*")


def is_plain_path(target: bytes) -> bool:
    """Whether it is an object's own path and nothing else, for whoever reads it."""
    if _PLAIN.fullmatch(target) is None or target[-1:] == b"/":
        return False
    return b"/." not in target or not (has_dot_segment(target) or b".." in target)


def known_by(route: Route, target: bytes, *, is_plain: bool) -> bytes | None:
    """What a target is known by, where that is plain itself and the route admits it."""
    if is_plain:
        asked = route.origin_path(target) if route.prefix or route.at else target
    else:
        read = route.plainly_read(target)
        if read is None or not is_plain_path(read):
            return None
        asked = read
    return asked if not route.admits or is_beneath(asked, route.scope) else None
