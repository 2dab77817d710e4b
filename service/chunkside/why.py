"""Everything that is known of one target, and what would be answered now, for `/why`.

It looks as a GET would look, and changes no more than such a look does: what has fallen is dropped,
what lies on disk is taken in. It asks the origin nothing, and is no use of what is held.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from chunkside.core.decision import Refuse
from chunkside.core.entry import Absent, BodyRef, Entry, Held, Now, Present, helds
from chunkside.core.fields import Fields
from chunkside.core.foresight import duration, foresee
from chunkside.core.freshness import Policy, absence_under, age, remaining
from chunkside.core.policy import decide
from chunkside.core.request import Request
from chunkside.core.variants import choose
from chunkside.gateway.edges import Edges
from chunkside.gateway.findings import EVIDENCE
from chunkside.gateway.invalidations import Invalidation
from chunkside.routing import OpenRoute
from chunkside.server.why_page import WhyRequest
from chunkside.store.body_store import DiskBodyStore

_PROOF: Final = (
    "as it does for what is missing (absent_statuses): its array's own document was read after "
    "that, by the same credential"
)
_FIRST_BYTE: Final = (b"Range", b"bytes=0-0")


async def explain(opened: OpenRoute, asked: WhyRequest) -> dict[str, object] | Refuse:
    route, edges = opened.route, opened.edges
    request = route.request("GET", asked.target, asked.fields, has_body=False)
    if isinstance(request, Refuse):
        return request
    has_fallen = _has_fallen(edges, request)
    last = edges.shared.fallen.last_of(request.key.object)
    if edges.known_of(request) is None:
        await opened.gateway.adoption.look(request.key, None)
    entry, now = edges.known_of(request), edges.now()
    if isinstance(entry, Absent):
        entry = absence_under(entry, request.key_class, edges.policy)
    closed = edges.stamps.read(request.key.object).closed_until() - now.boot
    is_filling = opened.gateway.fills.is_running(request, None)
    return {
        "verdict": _verdict(request, entry, now, edges.policy, closed)
        + _why_forgotten(entry, last, now, has_fallen=has_fallen),
        "would_be_answered": _foreseen(request, entry, now, edges.policy),
        "target": shown(asked.target),
        "route": route.name,
        "class": request.key_class,
        "asked_of_the_origin": route.location + shown(request.target),
        "key": shown(request.key.target),
        "partition": partition_name(request.absence_key.namespace.partition),
        "held": [await _told(each, edges, now) for each in _parts(entry)],
        "held_in_other_partitions": ", ".join(_other_partitions(edges, request)) or None,
        "last_invalidated": None if last is None else _invalidated(last, now),
        "a_fill_is_under_way": is_filling,
        "nothing_is_stored_for_seconds": math.ceil(closed) if closed > 0 else None,
    }


def _has_fallen(edges: Edges, request: Request) -> bool:
    """Whether something is still held that a write or a purge fell on: a look drops it."""
    keys = {request.key, request.absence_key}
    held = [key for key in keys if edges.index.look_up(key) is not None]
    return any(edges.look_up(key) is None for key in held)


def _verdict(
    request: Request,
    entry: Entry | None,
    now: Now,
    policy: Policy,
    closed: float,
) -> str:
    """Begins with what is so, ends with what follows for a GET."""
    if closed > 0:
        return (
            "A write of it is under way, or it isn't known what became of one: every GET asks the "
            f"origin, and for {duration(math.ceil(closed))} nothing of it is remembered."
        )
    if entry is None:
        return "Nothing is remembered of it: a GET asks the origin, and a 404 is the origin's."
    if isinstance(entry, Absent):
        elapsed = age(entry.requested_at, now)
        asked = f"{when(entry.requested_at)}, {duration(elapsed)} ago"
        if entry.lifetime > elapsed:
            is_hidden = entry.status != entry.told_status
            proof, answer = (f", {_PROOF}", "a 404") if is_hidden else ("", "that")
            return (
                f"It is remembered as absent: the origin answered a whole {entry.status} to a full "
                f"GET of it that was sent at {asked}{proof}, and nothing was written, purged or "
                f"seen of it since. For {duration(entry.lifetime - elapsed)} more {answer} is the "
                "answer."
            )
        return (
            f"It was absent when the origin was asked at {asked}; that has expired: a GET asks the "
            "origin, and a 404 is the origin's."
        )
    held = choose(entry, request.fields)
    assert held is not None
    assert not isinstance(held, Absent)
    what = "It is stored" if isinstance(held, Present) else "Ranges of it are stored"
    left = remaining(held.stored, now, policy)
    brought = f"as the origin had it at {when(held.stored.requested_at)}"
    if held.must_validate or left <= 0:
        return (
            f"{what}, {brought}, and no longer fresh: a GET has the origin say if it still stands."
        )
    return f"{what}, {brought}, and fresh for {duration(left)} more."


def _why_forgotten(
    entry: Entry | None, last: Invalidation | None, now: Now, *, has_fallen: bool
) -> str:
    """A sentence more where nothing is remembered that may have been before."""
    if entry is not None:
        return ""
    if last is not None:
        ago = duration(now.boot - last.at.boot)
        return f" It was last invalidated {ago} ago, at {when(last.at)}, by {last.cause}."
    return " A write or a purge has made it forgotten just now." if has_fallen else ""


def _invalidated(last: Invalidation, now: Now) -> dict[str, object]:
    return {"at": when(last.at), "age": seconds(now.boot - last.at.boot), "by": last.cause}


def _foreseen(request: Request, entry: Entry | None, now: Now, policy: Policy) -> dict[str, object]:
    selected = choose(entry, request.fields)
    requests = {"GET": request, "HEAD": replace(request, method="HEAD")}
    if b"range" not in request.fields:
        ranged = replace(request, fields=request.fields.plus(_FIRST_BYTE))
        requests["GET, Range: bytes=0-0"] = ranged
    return {
        name: foresee(each, decide(each, selected, now, policy), selected)
        for name, each in requests.items()
    }


def _parts(entry: Entry | None) -> tuple[Absent | Held, ...]:
    match entry:
        case None:
            return ()
        case Absent():
            return (entry,)
        case _:
            return helds(entry)


async def _told(part: Absent | Held, edges: Edges, now: Now) -> dict[str, object]:
    if isinstance(part, Absent):
        elapsed = age(part.requested_at, now)
        return {
            "kind": "marker",
            "status": part.status,
            "asked_at": when(part.requested_at),
            "age": seconds(elapsed),
            "ttl": seconds(part.lifetime - elapsed),
        }
    stored = part.stored
    left = remaining(stored, now, edges.policy)
    return {
        "kind": "body" if isinstance(part, Present) else "ranges",
        "status": stored.status,
        "length": stored.length,
        "asked_at": when(stored.requested_at),
        "age": seconds(age(stored.requested_at, now, stored.initial_age)),
        "ttl": seconds(left),
        "origin_lifetime": None
        if stored.origin_lifetime is None
        else seconds(stored.origin_lifetime),
        "must_be_validated": part.must_validate or left <= 0,
        "etag": text(stored.etag),
        "last_modified": text(stored.last_modified),
        "variant": stored.variant.hex()[:8] or None,
        "evidence": evidence(stored.fields),
        "files": [await _file(each, edges) for each in part.bodies],
    }


def evidence(fields: Fields) -> dict[str, object]:
    """What the origin's answer bore."""
    return {
        name.decode(): text(value) for name in EVIDENCE if (value := fields.get(name)) is not None
    }


async def _file(body: BodyRef, edges: Edges) -> dict[str, object]:
    bytes_ = f"{body.first}-{body.last}" if body.length else "none"
    if not isinstance(edges.store, DiskBodyStore):
        return {"bytes": bytes_, "path": None, "verdict": "in memory"}
    path, fault = await edges.store.verify(body)
    return {"bytes": bytes_, "path": path, "verdict": fault or "whole, checksums and all"}


def _other_partitions(edges: Edges, request: Request) -> list[str]:
    key = request.key
    return sorted(
        partition_name(other.namespace.partition) or "none, that of readers without a credential"
        for other in edges.index.keys_of(key.object)
        if other not in (key, request.absence_key)
        and other.target == key.target
        and edges.look_up(other) is not None
    )


def partition_name(partition: bytes) -> str | None:
    """As /entries tells it."""
    return partition[:8].decode() or None


def when(moment: Now) -> str:
    return datetime.fromtimestamp(moment.wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(value: float) -> float | str:
    """JSON has no infinity."""
    if math.isfinite(value):
        return round(value, 3)
    return "infinity" if value > 0 else "-infinity"


def shown(target: bytes) -> str:
    return target.decode(errors="backslashreplace")


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
