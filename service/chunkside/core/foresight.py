"""What a request would be answered now, and why, in a sentence for people.

The decision is the policy's own; this only says it.
"""

from __future__ import annotations

import math
from typing import Final, assert_never

from chunkside.core.decision import (
    Decision,
    Fill,
    FollowElseRelay,
    Forward,
    NotModified,
    PreconditionFailed,
    Refuse,
    Relay,
    Serve,
    ServeAbsence,
    Unsatisfiable,
    Whole,
    Write,
)
from chunkside.core.entry import Absent, Held, Part, Selected
from chunkside.core.ranges import range_form, select
from chunkside.core.request import Request

_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_WHY_ASKED: Final = {
    Forward.URI_MISS: "nothing is remembered of it",
    Forward.VARY_MISS: "what is held was for requests with other fields",
    Forward.STALE: "what is remembered is no longer fresh",
    Forward.REQUEST: "the request wants it asked anew",
    Forward.PARTIAL: "these bytes are not among those that are held",
    Forward.METHOD: "nothing that is held answers this method",
    Forward.BYPASS: "the cache has no part in it",
}


def foresee(request: Request, decision: Decision, held: Selected | None) -> str:
    """`held`: what the decision was made of."""
    match decision:
        case Serve(served, ttl, meanwhile):
            rest = f"for {duration(ttl)} more" if ttl > 0 else "though stale"
            asking = "" if meanwhile is None else ", and the origin is asked meanwhile"
            return f"{_selected(request, served)} from store, {rest}{asking}"
        case ServeAbsence(absent, ttl):
            return f"{absent.told_status} from memory, for {duration(ttl)} more"
        case Fill(forward, stale):
            if stale is not None:
                return (
                    f"the origin is asked whether what is held still stands: {_WHY_ASKED[forward]}"
                )
            because = _why_asked(request, forward, held)
            return f"the origin is asked, and its answer remembered: {because}"
        case FollowElseRelay(forward):
            return f"the origin is asked: {_why_asked(request, forward, held)}"
        case Relay(forward):
            return f"the origin is asked each time: {_why_relayed(request, forward, held)}"
        case Write():
            return "passed to the origin, and what is held of it forgotten"
        case Refuse(status, _, title):
            return f"{status} from the sidecar: {title}"
        case _:
            assert_never(decision)


def _selected(request: Request, held: Held) -> str:
    selection = select(request.fields, held.stored)
    match selection:
        case Whole():
            return "200"
        case Part(first, last):
            return f"206 with bytes {first}-{last}"
        case NotModified():
            return "304"
        case PreconditionFailed():
            return "412"
        case Unsatisfiable():
            return "416"
        case _:
            assert_never(selection)


def _why_asked(request: Request, forward: Forward, held: Selected | None) -> str:
    is_partial = request.method == "HEAD" or range_form(request.fields) == "single"
    is_told_so = request.control is not None or forward is Forward.VARY_MISS
    if isinstance(held, Absent) and is_partial and not is_told_so:
        return "a remembered absence answers full GETs alone here (negative_scope)"
    if held is None and request.method == "HEAD" and forward is Forward.METHOD:
        return _WHY_ASKED[Forward.URI_MISS]
    return _WHY_ASKED[forward]


def _why_relayed(request: Request, forward: Forward, held: Selected | None) -> str:
    if request.is_signed:
        return "the client's signature proves nothing to a cache"
    if request.host is not None:
        return "its Host is not the origin's own name, and may mean another object"
    if request.key_class == "listing":
        return "it is a listing, which any write beneath it would change"
    return _why_asked(request, forward, held)


def duration(seconds: float) -> str:
    """In its two largest units, such as `4 min 48 s`."""
    if seconds == math.inf:
        return "ever"
    left = max(0, math.floor(seconds))
    told: list[str] = []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count or (told and len(told) < 2) or unit == "s":
            told.append(f"{count} {unit}")
        if len(told) == 2:
            break
    return " ".join(told)
