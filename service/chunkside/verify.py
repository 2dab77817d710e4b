"""Whether what is held of a target is so, by what the origin says now, for `/verify`.

It asks as a reader would: with the fields that whoever asks for it sends, or with the sidecar's own
credential. What isn't so is forgotten, as by an audit.
"""

from __future__ import annotations

from typing import assert_never

from chunkside.core.audit import Agrees, Changed, Undecided, Wrong, kind_of
from chunkside.core.decision import Refuse
from chunkside.core.demands import passes_by
from chunkside.core.entry import Absent, Selected
from chunkside.core.foresight import duration
from chunkside.core.freshness import age
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.variants import choose, is_selected_by
from chunkside.gateway.edges import Edges
from chunkside.gateway.errors import OriginError
from chunkside.gateway.findings import Finding, Subject, subject_of
from chunkside.routing import OpenRoute
from chunkside.server.why_page import WhyRequest
from chunkside.why import evidence, partition_name, shown, text, when


async def verify(opened: OpenRoute, asked: WhyRequest) -> dict[str, object] | Refuse:
    route, edges, audits = opened.route, opened.edges, opened.gateway.audits
    request = route.request("GET", asked.target, asked.fields, has_body=False)
    if isinstance(request, Refuse):
        return request
    held = await _held(opened, request)
    subject = None if held is None else subject_of(request, held)
    if subject is None:
        answer = await audits.look(request)
        told = _of_what_is_not_held(answer)
    else:
        finding = await audits.ask(subject)
        word, sentence = _verdict(subject, finding, edges)
        told = {
            "verdict": word,
            "sentence": sentence,
            "is_forgotten": finding.is_dropped,
            "held": _told(subject, finding),
            "origin": _answered(finding),
        }
    return told | {
        "target": shown(asked.target),
        "route": route.name,
        "class": request.key_class,
        "asked_of_the_origin": route.location + shown(request.target),
        "partition": partition_name(request.absence_key.namespace.partition),
    }


async def _held(opened: OpenRoute, request: Request) -> Selected | None:
    """What would be compared with: stale or not, as long as it may answer this request at all."""
    edges = opened.edges
    if request.key_class == "listing" or request.is_signed or passes_by(request):
        return None
    if edges.known_of(request) is None:
        await opened.gateway.adoption.look(request.key, None)
    held = choose(edges.known_of(request), request.fields)
    if held is None or isinstance(held, Absent) or is_selected_by(held.stored, request.fields):
        return held
    return None


def _of_what_is_not_held(answer: ResponseHead | OriginError) -> dict[str, object]:
    if isinstance(answer, OriginError):
        sentence = f"Nothing is held of it, and the origin gave no answer: {answer}"
        origin: dict[str, object] = {"no_answer": str(answer)}
    else:
        sentence = f"Nothing is held of it. The origin answers {answer.status} now."
        origin = _head(answer)
    return {
        "verdict": "not_held",
        "sentence": sentence,
        "is_forgotten": False,
        "held": None,
        "origin": origin,
    }


def _verdict(subject: Subject, finding: Finding, edges: Edges) -> tuple[str, str]:
    judgement, what = finding.judgement, _named(subject, edges)
    match judgement:
        case Agrees(because):
            return "true", f"{what} is so: {because}."
        case Changed(because):
            return "changed", f"{what} has changed since: {because}.{_fate(finding)}"
        case Wrong(because):
            return "wrong", f"{what} was never so: {because}.{_fate(finding)}"
        case Undecided(_, because):
            return "unknown", f"Whether {what[0].lower()}{what[1:]} is so can't be said: {because}."
        case _:
            assert_never(judgement)


def _named(subject: Subject, edges: Edges) -> str:
    held = subject.held
    asked_at = held.requested_at if isinstance(held, Absent) else held.stored.requested_at
    since = f"from {when(asked_at)}, {duration(age(asked_at, edges.now()))} ago,"
    match kind_of(held):
        case "marker":
            return f"What is remembered {since} that it is absent,"
        case "body":
            return f"The body held {since}"
        case _:
            return f"The range held {since}"


def _fate(finding: Finding) -> str:
    return " It is forgotten." if finding.is_dropped else ""


def _told(subject: Subject, finding: Finding) -> dict[str, object]:
    held = subject.held
    told: dict[str, object] = {"kind": kind_of(held)}
    if isinstance(held, Absent):
        return told | {"status": held.status, "asked_at": when(held.requested_at)}
    stored, file = held.stored, subject.file
    is_part = kind_of(held) == "range" and file is not None and file.length
    return told | {
        "status": stored.status,
        "length": stored.length,
        "compared_bytes": f"{file.first}-{file.last}" if is_part and file is not None else None,
        "asked_at": when(stored.requested_at),
        "etag": text(stored.etag),
        "last_modified": text(stored.last_modified),
        "xxh3_64": _checksum(finding.held_checksum),
        "evidence": evidence(stored.fields),
    }


def _answered(finding: Finding) -> dict[str, object]:
    head = finding.head
    if head is None:
        return {"no_answer": finding.judgement.because}
    return _head(head) | {"xxh3_64": _checksum(finding.origin_checksum)}


def _head(head: ResponseHead) -> dict[str, object]:
    return {
        "status": head.status,
        "length": head.length,
        "etag": text(head.fields.get(b"etag")),
        "last_modified": text(head.fields.get(b"last-modified")),
        "evidence": evidence(head.fields),
    }


def _checksum(value: int | None) -> str | None:
    return None if value is None else f"{value:016x}"
