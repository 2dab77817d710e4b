"""Where answers are decided: from store or from the origin, remembered or not, absent or not.

Three questions, each a pure function. `decide`: what to do with a request, given what is held.
`conclude`: what an origin's answer means. `select` (in ranges): which part of a representation a
request gets. No clock, no socket, no disk: whoever carries a decision out brings those.
"""

from __future__ import annotations

from dataclasses import replace

from chunkside.core.decision import (
    AbsenceConclusion,
    Conclusion,
    Decision,
    Fill,
    FollowElseRelay,
    Forward,
    Freshen,
    JudgeWhole,
    Nonsense,
    NotStored,
    PassOn,
    Refuse,
    Relay,
    Serve,
    ServeAbsence,
    StoreAbsence,
    StoreBody,
    StorePart,
    Whole,
)
from chunkside.core.demands import NONE as NO_DEMANDS
from chunkside.core.demands import Demands, demands_of, passes_by
from chunkside.core.directives import cache_control
from chunkside.core.entry import Absent, Held, Now, Part, Present, Selected, Stored
from chunkside.core.fields import Fields
from chunkside.core.freshness import (
    Policy,
    absence_lifetime,
    age,
    allows_stale,
    initial_age,
    may_serve_while_revalidating,
    origin_lifetime,
    remaining,
)
from chunkside.core.heads import without_checksums
from chunkside.core.invalidation import reach_of
from chunkside.core.ranges import part_answered, range_applies, range_form, select, single_range
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import (
    allows_any_origin,
    hides_absences,
    is_storable_status,
    stored_of,
    why_not_absence,
    why_not_body,
)
from chunkside.core.variants import STRIPPED_FROM_FILLS, is_selected_by, variant_of

# A 304 tells how the stored answer's metadata changed, not how its bytes are framed (RFC 9111
# §3.2). To Azure it is an error, with a code: its own client can't read a 200 that has one.
_KEPT_ON_FRESHEN = frozenset(
    {
        b"content-length",
        b"content-encoding",
        b"content-range",
        b"content-type",
        b"etag",
        b"set-cookie",
        b"vary",
        b"x-ms-error-code",
    }
)
# What a 206 says of its own bytes.
_OF_A_PART = frozenset({b"content-range", b"content-length"})
_READS = "GET, HEAD, OPTIONS"
ONLY_IF_CACHED = Refuse(
    504,
    "only-if-cached",
    "This is not to be had from store",
    "The request says only-if-cached, and what is held of it, if anything, is not fresh enough.",
)


def decide(request: Request, entry: Selected | None, now: Now, policy: Policy) -> Decision:
    """`entry`: what the key's has for this request, as `choose` gives it."""
    refusal = _refuse(request, policy)
    if refusal is not None:
        return refusal
    if not request.is_safe:
        return reach_of(request, is_strict=policy.is_strict)
    if request.method not in ("GET", "HEAD"):
        return Relay(Forward.METHOD)
    decision = _decide_read(request, entry, now, policy)
    if isinstance(decision, Serve | ServeAbsence):
        return decision
    return ONLY_IF_CACHED if b"only-if-cached" in cache_control(request.fields) else decision


def _decide_read(request: Request, entry: Selected | None, now: Now, policy: Policy) -> Decision:
    if not touches_the_cache(request) or range_form(request.fields) == "several":
        return Relay(Forward.BYPASS)
    if request.control == "refresh":
        return _ask(request, Forward.REQUEST, None, is_anew=True)
    match entry:
        case None:
            why = Forward.METHOD if request.method == "HEAD" else Forward.URI_MISS
            return _ask(request, why, None)
        case Absent():
            return _decide_absent(request, entry, now, policy)
        case _:
            return _decide_held(request, entry, now, policy)


def _decide_absent(request: Request, absent: Absent, now: Now, policy: Policy) -> Decision:
    elapsed = age(absent.requested_at, now)
    ttl = absent.lifetime - elapsed
    is_for_all = absent.allows_any_origin or b"origin" not in request.fields
    is_partial = request.method == "HEAD" or range_form(request.fields) == "single"
    is_answer = not is_partial or policy.negative_scope == "all"
    is_enough = _demands(request, policy).are_met(elapsed, ttl, may_be_stale=False)
    if is_enough and is_for_all and is_answer:
        return ServeAbsence(absent, ttl)
    if request.method == "HEAD":
        return Relay(Forward.METHOD)
    unusable = Forward.VARY_MISS if not is_for_all else Forward.REQUEST
    return _ask(request, unusable if ttl > 0 else Forward.STALE, None)


def _demands(request: Request, policy: Policy) -> Demands:
    return demands_of(request.fields) if policy.obeys_clients else NO_DEMANDS


def _refuse(request: Request, policy: Policy) -> Refuse | None:
    match request.method:
        case "TRACE" | "CONNECT":
            return Refuse(
                405,
                "method-refused",
                "This method is refused",
                f"Chunkside does not pass {request.method} on.",
                f"{_READS}, PUT, POST, PATCH, DELETE" if policy.allow_writes else _READS,
            )
        case "PURGE":
            return Refuse(
                405,
                "purge-elsewhere",
                "Purging happens on the admin port",
                'Send POST /purge with {"target": "/…"} to the admin port.',
                "GET, HEAD",
            )
        case _ if not request.is_safe and not policy.allow_writes:
            return Refuse(
                405,
                "writes-refused",
                "This route is read-only",
                "Set allow_writes to pass writes through to the origin (--allow-writes, or for a "
                "route of its own in routes).",
                _READS,
            )
    return None


def touches_the_cache(request: Request) -> bool:
    # Any write beneath it changes a listing, and none says so of it.
    return request.key_class != "listing" and not passes_by(request)


def _decide_held(request: Request, held: Held, now: Now, policy: Policy) -> Decision:
    stored = held.stored
    is_selected = is_selected_by(stored, request.fields)
    if not is_selected or not _is_for_the_same_origin(request.fields, stored):
        return _ask(request, Forward.VARY_MISS, None)
    has_it = has_what_is_asked_for(request, held)
    ttl = remaining(stored, now, policy)
    demands, elapsed = _demands(request, policy), age(stored.requested_at, now, stored.initial_age)
    may_be_stale = allows_stale(held, policy)
    if not held.must_validate and demands.are_met(elapsed, ttl, may_be_stale=may_be_stale):
        return Serve(held, ttl) if has_it else _ask(request, Forward.PARTIAL, None, known=stored)
    why = Forward.REQUEST if ttl > 0 and not held.must_validate else Forward.STALE
    stale = held if has_it and stored.has_validator else None
    question = _ask(request, why, stale, known=stored)
    is_plain = ttl <= 0 and has_it and demands == NO_DEMANDS
    may_wait = is_plain and may_serve_while_revalidating(held, ttl, policy)
    if may_wait and isinstance(question, Fill):
        return Serve(held, ttl, meanwhile=question)
    return question


def has_what_is_asked_for(request: Request, held: Held) -> bool:
    """Whether the bytes of the answer are among what is held, if it has any."""
    if isinstance(held, Present) or request.method == "HEAD":
        return True
    match select(request.fields, held.stored):
        case Part() as part:
            return held.body_for(part) is not None
        case Whole():
            # A range may be all of it.
            length = held.stored.length
            return length > 0 and held.body_for(Part(0, length - 1)) is not None
        case _:
            # An answer that has no body.
            return True


def _is_for_the_same_origin(fields: Fields, stored: Stored) -> bool:
    """Whether a stored answer's CORS fields hold for the page that asks now."""
    if b"origin" not in fields or allows_any_origin(stored.fields):
        return True
    origin = fields.get(b"origin")
    return origin is not None and origin == stored.origin_field


def _ask(
    request: Request,
    why: Forward,
    stale: Held | None,
    *,
    is_anew: bool = False,
    known: Stored | None = None,
) -> Fill | FollowElseRelay | Relay:
    """`known`: the head of what is held, be it stale or without the bytes that are asked for."""
    if request.method == "HEAD":
        return Relay(why)
    range_value = single_range(request.fields)
    is_conditional = range_value is not None and b"if-range" in request.fields
    # Browsers name the version of the ranges that they have. A fill asks without the condition, and
    # whoever finds that another version came asks again for himself.
    if is_conditional and (known is None or not range_applies(request.fields, known)):
        return FollowElseRelay(why)
    return Fill(why, stale, range_value, is_anew)


def fill_fields(request: Request, stale: Held | None, range_value: bytes | None = None) -> Fields:
    """What a fill sends: the client's fields less conditions, ranges and encodings, our own
    added.
    """
    fields = request.fields.without(STRIPPED_FROM_FILLS).plus((b"Accept-Encoding", b"identity"))
    if range_value is not None:
        fields = fields.plus((b"Range", range_value))
    if stale is None:
        return fields
    if stale.stored.etag is not None:
        fields = fields.plus((b"If-None-Match", stale.stored.etag))
    if stale.stored.last_modified is not None:
        fields = fields.plus((b"If-Modified-Since", stale.stored.last_modified))
    return fields


def conclude(
    request: Request, asked: Fill, head: ResponseHead, sent_at: Now, policy: Policy
) -> Conclusion:
    """What the head of an answer to a fill means. `sent_at`: when its request was sent."""
    stale = asked.stale
    match head.status:
        case 200:
            return _conclude_whole(request, head, sent_at, policy)
        case 206 if asked.range_value is not None:
            return _conclude_part(request, asked.range_value, head, sent_at, policy)
        case 304 if stale is not None:
            return _freshen(request, stale.stored, head, sent_at, policy)
        case _ if asked.range_value is None and is_storable_status(head, policy):
            return _conclude_whole(request, head, sent_at, policy)
        case status if status in (204, 205, 206, 304) or not 200 <= status < 600:
            return Nonsense(f"The origin answered {head.status} to a plain GET of a whole object.")
        case status if 200 < status < 300:
            return PassOn(NotStored.STATUS)
        case _:
            return JudgeWhole()


def _conclude_whole(
    request: Request, head: ResponseHead, sent_at: Now, policy: Policy
) -> Conclusion:
    reason = why_not_body(head, request, policy)
    if reason is not None:
        return PassOn(reason)
    return StoreBody(stored_of(request, head, sent_at, policy))


def _conclude_part(
    request: Request, range_value: bytes, head: ResponseHead, sent_at: Now, policy: Policy
) -> Conclusion:
    answered = part_answered(range_value, head.fields)
    if answered is None or head.length not in (None, answered[0].length):
        return PassOn(NotStored.RANGE)
    part, length = answered
    reason = why_not_body(replace(head, length=part.length), request, policy)
    if reason is not None:
        return PassOn(reason)
    # What is kept is the head of the whole, as far as the part's tells it.
    whole = replace(head, fields=without_checksums(head.fields.without(_OF_A_PART)), length=length)
    return StorePart(stored_of(request, whole, sent_at, policy), part)


def _freshen(
    request: Request, old: Stored, head: ResponseHead, sent_at: Now, policy: Policy
) -> Conclusion:
    if _names_another_version(head.fields, old):
        return Nonsense("The origin answered 304 but named another version than was asked about.")
    # Some servers tell checksums of a 304's own body, which is empty.
    news = without_checksums(head.fields.without(_KEPT_ON_FRESHEN))
    kept = old.fields.without(frozenset(name.lower() for name, _ in news))
    fields = kept.plus(*news)
    # What may not be stored any more, or varies otherwise, is asked for each time from now on.
    varies_as_before = b"vary" not in head.fields or (
        variant_of(head.fields, request.fields) == old.variant
    )
    is_storable = (
        varies_as_before and why_not_body(replace(head, fields=fields), request, policy) is None
    )
    lifetime = origin_lifetime(fields, sent_at.wall, policy.targeted)
    return Freshen(
        replace(
            old,
            fields=fields,
            origin_lifetime=lifetime if is_storable else 0.0,
            initial_age=initial_age(head.fields),
            requested_at=sent_at,
            origin_field=request.fields.get(b"origin"),
        )
    )


def _names_another_version(told: Fields, old: Stored) -> bool:
    """Whether a 304 speaks of something else than the body held (RFC 9111 §4.3.4).

    Tags are compared weakly, as `If-None-Match` is. A file put back from a backup has an older
    date, to which a plain server says that it is unmodified.
    """
    etag, modified = told.get(b"etag"), told.get(b"last-modified")
    if etag is not None and old.etag is not None:
        return etag.removeprefix(b"W/") != old.etag.removeprefix(b"W/")
    return modified is not None and old.last_modified not in (None, modified)


def conclude_absence(
    request: Request, head: ResponseHead, body: bytes, policy: Policy, *, is_proven: bool = False
) -> AbsenceConclusion:
    """Whether a whole answer that is no body proves that the key is absent. `is_proven`: of a
    refusal, that the same credential read its array's own document since.
    """
    reason = why_not_absence(head, body, request, policy, is_proven=is_proven)
    if reason is not None:
        return PassOn(reason)
    any_origin = allows_any_origin(head.fields)
    if b"origin" in request.fields and not any_origin:
        return PassOn(NotStored.CORS)
    seconds = absence_lifetime(head.fields, request.key_class, policy)
    return StoreAbsence(seconds, any_origin) if seconds > 0 else PassOn(NotStored.SWITCHED_OFF)


def wants_proof(request: Request, status: int, answered: Fields, policy: Policy) -> bool:
    """Whether a relayed answer makes it worth while to ask whether the key is absent.

    A HEAD or a range that is answered 404 proves nothing; a full GET does, and its marker answers
    the next of their kind.
    """
    # What a refusal hid is told as a 404.
    is_proved = status == 404 and 403 in policy.absent_statuses
    return (
        policy.negative_scope == "all"
        and (is_proved or status in policy.absent_statuses)
        and (status != 403 or hides_absences(status, request, policy))
        and absence_lifetime(answered, request.key_class, policy) > 0
        and touches_the_cache(request)
        and (request.method == "HEAD" or range_form(request.fields) == "single")
    )


def leaves_open_what_is_absent(
    request: Request, status: int, answered: Fields, policy: Policy
) -> bool:
    """Whether a relayed answer may be of a bucket that is missing as well as of a key: a HEAD's has
    no code but Azure's. What a client signed for a HEAD nobody can ask by GET.
    """
    is_absence = policy.is_object_store and status in (404, 410)
    is_open = is_absence and request.method == "HEAD" and not request.is_signed
    return is_open and b"x-ms-error-code" not in answered


def may_be_refused_for_absence(request: Request, status: int, policy: Policy) -> bool:
    """Whether a relayed read was refused that may be of a missing key."""
    return (
        request.method in ("GET", "HEAD")
        and hides_absences(status, request, policy)
        and touches_the_cache(request)
    )


def as_full_get(request: Request) -> Request:
    return replace(request, method="GET", fields=request.fields.without(STRIPPED_FROM_FILLS))


def proves_existence(status: int) -> bool:
    """Whether an answer to any read of a key contradicts a remembered absence (rule 2)."""
    return 200 <= status < 300 or status in (304, 412)
