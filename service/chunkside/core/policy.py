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
    Write,
)
from chunkside.core.entry import Entry, Now, Present, Stored
from chunkside.core.fields import Fields
from chunkside.core.freshness import (
    Policy,
    absence_lifetime,
    age,
    cache_control,
    initial_age,
    origin_lifetime,
    remaining,
)
from chunkside.core.ranges import range_form
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.storability import allows_any_origin, why_not_absence, why_not_body

# One object is changed by these and it is the target; what others change only the origin knows.
_NARROW_WRITES = frozenset({"PUT", "DELETE", "PATCH"})
_STRIPPED_FROM_FILLS = frozenset(
    {
        b"range",
        b"if-range",
        b"if-match",
        b"if-none-match",
        b"if-modified-since",
        b"if-unmodified-since",
        b"accept-encoding",
    }
)
_RENAMES = frozenset({b"x-ms-rename-source", b"x-amz-rename-source"})
_CUSTOMER_KEYS = (
    b"x-amz-server-side-encryption-customer-key",
    b"x-goog-encryption-key",
    b"x-ms-encryption-key",
)
# A 304 tells how the stored answer's metadata changed, not how its bytes are framed (RFC 9111
# §3.2).
_KEPT_ON_FRESHEN = frozenset(
    {
        b"content-length",
        b"content-encoding",
        b"content-range",
        b"content-type",
        b"etag",
        b"set-cookie",
    }
)


def decide(request: Request, entry: Entry | None, now: Now, policy: Policy) -> Decision:
    refusal = _refuse(request, policy)
    if refusal is not None:
        return refusal
    if not request.is_safe:
        path = request.target.partition(b"?")[0]
        is_narrow = request.method in _NARROW_WRITES and _RENAMES.isdisjoint(request.fields.names)
        return Write(is_broad=not is_narrow or path.endswith(b"/"))
    if request.method not in ("GET", "HEAD"):
        return Relay(Forward.METHOD)
    form = range_form(request.fields)
    if _must_not_touch_the_cache(request) or form == "several":
        return Relay(Forward.BYPASS)
    if isinstance(entry, Present):
        return _decide_present(request, entry, now, policy, is_ranged=form == "single")
    is_partial = request.method == "HEAD" or form == "single"
    why = Forward.URI_MISS
    if entry is not None and (not is_partial or policy.negative_scope == "all"):
        ttl = entry.lifetime - age(entry.requested_at, now)
        is_for_this_origin = entry.allows_any_origin or b"origin" not in request.fields
        if ttl > 0 and is_for_this_origin:
            return ServeAbsence(entry, ttl)
        why = Forward.VARY_MISS if ttl > 0 else Forward.STALE
    if not is_partial:
        return Fill(why)
    is_head = request.method == "HEAD"
    return Relay(Forward.METHOD) if is_head else FollowElseRelay(Forward.PARTIAL)


def _refuse(request: Request, policy: Policy) -> Refuse | None:
    match request.method:
        case "TRACE" | "CONNECT":
            return Refuse(
                405,
                "method-refused",
                "This method is refused",
                f"Chunkside does not pass {request.method} on.",
                "GET, HEAD, OPTIONS, PUT, POST, PATCH, DELETE",
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
                "Start chunkside with --allow-writes to pass writes through to the origin.",
                "GET, HEAD, OPTIONS",
            )
    return None


def _must_not_touch_the_cache(request: Request) -> bool:
    fields = request.fields
    return (
        request.has_body
        or request.is_signed
        or b"x-ms-range" in fields
        or any(name in fields for name in _CUSTOMER_KEYS)
        or b"no-store" in cache_control(fields)
    )


def _decide_present(
    request: Request, present: Present, now: Now, policy: Policy, *, is_ranged: bool
) -> Decision:
    stored = present.stored
    if not _is_for_the_same_origin(request.fields, stored):
        return _ask(request, Forward.VARY_MISS, None, is_ranged=is_ranged)
    ttl = remaining(stored, now, policy)
    if ttl > 0 and not present.must_validate:
        return Serve(present, ttl)
    return _ask(
        request, Forward.STALE, present if stored.has_validator else None, is_ranged=is_ranged
    )


def _is_for_the_same_origin(fields: Fields, stored: Stored) -> bool:
    """Whether a stored answer's CORS fields hold for the page that asks now."""
    if b"origin" not in fields or allows_any_origin(stored.fields):
        return True
    origin = fields.get(b"origin")
    return origin is not None and origin == stored.origin_field


def _ask(request: Request, why: Forward, stale: Present | None, *, is_ranged: bool) -> Decision:
    if request.method == "HEAD":
        return Relay(why)
    return FollowElseRelay(why) if is_ranged else Fill(why, stale)


def fill_fields(request: Request, stale: Present | None) -> Fields:
    """What a fill sends: the client's fields less conditions, ranges and encodings, our own
    added.
    """
    fields = request.fields.without(_STRIPPED_FROM_FILLS).plus((b"Accept-Encoding", b"identity"))
    if stale is None:
        return fields
    if stale.stored.etag is not None:
        fields = fields.plus((b"If-None-Match", stale.stored.etag))
    if stale.stored.last_modified is not None:
        fields = fields.plus((b"If-Modified-Since", stale.stored.last_modified))
    return fields


def conclude(
    request: Request, stale: Present | None, head: ResponseHead, sent_at: Now, policy: Policy
) -> Conclusion:
    """What the head of an answer to a fill means. `sent_at`: when its request was sent."""
    match head.status:
        case 200:
            reason = why_not_body(head, request.key_class, policy)
            if reason is not None:
                return PassOn(reason)
            return StoreBody(_stored(request, head, sent_at))
        case 304 if stale is not None:
            return _freshen(request, stale.stored, head, sent_at, policy)
        case status if status in (204, 205, 206, 304) or not 200 <= status < 600:
            return Nonsense(f"The origin answered {head.status} to a plain GET of a whole object.")
        case status if 200 < status < 300:
            return PassOn(NotStored.STATUS)
        case _:
            return JudgeWhole()


def _stored(request: Request, head: ResponseHead, sent_at: Now) -> Stored:
    return Stored(
        key=request.key,
        key_class=request.key_class,
        status=head.status,
        fields=head.fields,
        length=head.length if head.length is not None else 0,
        origin_lifetime=origin_lifetime(head.fields),
        initial_age=initial_age(head.fields),
        requested_at=sent_at,
        origin_field=request.fields.get(b"origin"),
    )


def _freshen(
    request: Request, old: Stored, head: ResponseHead, sent_at: Now, policy: Policy
) -> Conclusion:
    if _names_another_version(head.fields, old):
        return Nonsense("The origin answered 304 but named another version than was asked about.")
    news = head.fields.without(_KEPT_ON_FRESHEN)
    kept = old.fields.without(frozenset(name.lower() for name, _ in news))
    fields = kept.plus(*news)
    # What may not be stored any more is asked for each time from now on.
    is_storable = why_not_body(replace(head, fields=fields), old.key_class, policy) is None
    return Freshen(
        replace(
            old,
            fields=fields,
            origin_lifetime=origin_lifetime(fields) if is_storable else 0.0,
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
    request: Request, head: ResponseHead, body: bytes, policy: Policy
) -> AbsenceConclusion:
    """Whether a whole answer that is no body proves that the key is absent."""
    reason = why_not_absence(head, body)
    if reason is not None:
        return PassOn(reason)
    any_origin = allows_any_origin(head.fields)
    if b"origin" in request.fields and not any_origin:
        return PassOn(NotStored.CORS)
    seconds = absence_lifetime(head.fields, request.key_class, policy)
    return StoreAbsence(seconds, any_origin) if seconds > 0 else PassOn(NotStored.SWITCHED_OFF)


def wants_proof(request: Request, status: int, policy: Policy) -> bool:
    """Whether a relayed answer makes it worth while to ask whether the key is absent.

    A HEAD or a range that is answered 404 proves nothing; a full GET does, and its marker answers
    the next of their kind.
    """
    return (
        policy.negative_scope == "all"
        and policy.cache_missing
        and status in (404, 410)
        and not _must_not_touch_the_cache(request)
        and (request.method == "HEAD" or range_form(request.fields) == "single")
    )


def as_full_get(request: Request) -> Request:
    return replace(request, method="GET", fields=request.fields.without(_STRIPPED_FROM_FILLS))


def is_changed(held: Entry | None, now: Stored | None) -> bool | None:
    """Whether a document is another than what was held of it; `now` is None where it is absent.

    None where only its bytes can tell. What nobody knew can't have changed.
    """
    if held is None:
        return False
    if not isinstance(held, Present) or now is None:
        return isinstance(held, Present) or now is not None
    before = held.stored
    if before.etag is not None and now.etag is not None:
        return before.etag.removeprefix(b"W/") != now.etag.removeprefix(b"W/")
    # Equal dates prove nothing: two versions of one second have the same.
    dates = before.last_modified, now.last_modified
    return True if None not in dates and dates[0] != dates[1] else None


def proves_existence(status: int) -> bool:
    """Whether an answer to any read of a key contradicts a remembered absence (rule 2)."""
    return 200 <= status < 300 or status in (304, 412)
