"""Which answers may be remembered (RFC 9111 §3), and if not, why."""

from __future__ import annotations

from typing import Final

from chunkside.core.buckets import (
    may_hide_absence,
    names_missing_key,
    speaks_of_another_absence,
)
from chunkside.core.decision import NotStored
from chunkside.core.directives import told_by
from chunkside.core.entry import Now, Stored
from chunkside.core.fields import Fields
from chunkside.core.freshness import (
    HEURISTICALLY_CACHEABLE,
    Policy,
    initial_age,
    origin_lifetime,
)
from chunkside.core.key import CacheKey
from chunkside.core.ranges import encoding_of
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.variants import variant_of, varied_names

SET_COOKIE: Final = frozenset({b"set-cookie", b"set-cookie2"})
_NEVER_STORED: Final = frozenset({204, 205, 206, 304, 416})
# Of these each lets a shared cache answer others with what a credential brought (RFC 9111 §3.5).
_FOR_ALL: Final = frozenset({b"public", b"s-maxage", b"must-revalidate"})
_UNDERSTOOD: Final = HEURISTICALLY_CACHEABLE | {302, 303, 307, 400, 403, 500, 502, 503, 504}


def why_not_body(head: ResponseHead, request: Request, policy: Policy) -> NotStored | None:
    """The reason not to store an answer to a GET that has a body; None if it may be stored."""
    fields = head.fields
    directives, is_targeted = told_by(fields, policy.targeted)
    # Of each status that is stored what it asks of a cache is known (RFC 9111 §5.2.2.3).
    if b"no-store" in directives and b"must-understand" not in directives:
        return NotStored.NO_STORE
    is_shared = request.key.namespace.is_shared
    # Bodies of one credential for all are what was asked for; of one for itself never.
    is_private = b"private" in directives and (policy.obeys_origin or is_targeted or is_shared)
    if is_private and not _is_for_one(request.key, policy):
        return NotStored.PRIVATE
    is_authorized = is_shared and b"authorization" in request.fields
    if policy.is_strict and is_authorized and _FOR_ALL.isdisjoint(directives):
        return NotStored.AUTHORIZATION
    # Where cookies don't pass, they select nothing and none is told to anybody.
    if policy.forwards_cookies and not SET_COOKIE.isdisjoint(fields.names):
        return NotStored.SET_COOKIE
    if b"*" in varied_names(fields):
        return NotStored.VARY
    if not head.is_framed:
        return NotStored.CLOSE_DELIMITED
    if head.length is not None and head.length > policy.max_body_bytes:
        return NotStored.TOO_LARGE
    # A login page or a single-page app answers for every missing key: never array data.
    if request.key_class == "chunk" and fields.combined(b"content-type").lower().startswith(
        b"text/html"
    ):
        return NotStored.HTML
    return None


def _is_for_one(key: CacheKey, policy: Policy) -> bool:
    """Whether what lies at a key answers one credential alone, be it the sidecar's own."""
    space = key.namespace
    return policy.client_credentials == "strip" or not (space.is_shared or space.partition == b"")


def is_storable_status(head: ResponseHead, policy: Policy) -> bool:
    """Whether an answer of another status than 200 may be stored as a body (RFC 9111 §3): only
    where a lifetime or a heuristic says so, and nothing but that RFC is asked.
    """
    status, directives = head.status, told_by(head.fields, policy.targeted).directives
    if b"must-understand" in directives and status not in _UNDERSTOOD:
        return False
    if not policy.is_strict or status in _NEVER_STORED or not 200 <= status < 600:
        return False
    if status in policy.absent_statuses or head.length is None:
        return False
    is_heuristic = status in HEURISTICALLY_CACHEABLE or b"public" in directives
    has_lifetime = origin_lifetime(head.fields, targeted=policy.targeted) is not None
    return has_lifetime or is_heuristic


def is_refusal_of_absence(
    head: ResponseHead, body: bytes, request: Request, policy: Policy
) -> bool:
    """Whether a whole answer is what a store says of a missing key to those who may not list.

    It proves nothing: the store says so of what is there as well, to whom it lets read nothing.
    """
    return (
        hides_absences(head.status, request, policy)
        and head.is_framed
        and not encoding_of(head.fields)
        and may_hide_absence(body)
    )


def hides_absences(status: int, request: Request, policy: Policy) -> bool:
    """Whether such a status may be that of an absence; of metadata and listings it never is."""
    is_admitted = status == 403 and status in policy.absent_statuses
    return is_admitted and request.key_class == "chunk" and not request.is_signed


def why_not_absence(
    head: ResponseHead, body: bytes, request: Request, policy: Policy, *, is_proven: bool = False
) -> NotStored | None:
    """The reason why a whole answer doesn't prove that its key is absent; None if it does.

    `is_proven`: of a refusal, that the same credential read its array's own document since.
    """
    if head.status not in policy.absent_statuses:
        return NotStored.STATUS
    directives, is_targeted = told_by(head.fields, policy.targeted)
    if b"no-store" in directives:
        return NotStored.NO_STORE
    is_private = b"private" in directives and (policy.is_strict or is_targeted)
    if is_private and not _is_for_one(request.absence_key, policy):
        return NotStored.PRIVATE
    # A marker answers every request.
    if varied_names(head.fields):
        return NotStored.VARY
    # What is encoded may name another absence, unread.
    if encoding_of(head.fields):
        return NotStored.ENCODED
    if not head.is_framed:
        return NotStored.CLOSE_DELIMITED
    if head.status == 403:
        is_worded_so = is_refusal_of_absence(head, body, request, policy)
        unproven = None if is_proven else NotStored.UNPROVEN
        return unproven if is_worded_so else NotStored.OTHER_CODE
    # A bucket that isn't there, or whatever stands before the store.
    is_another = speaks_of_another_absence(body)
    if is_another or (policy.is_object_store and not names_missing_key(body)):
        return NotStored.OTHER_CODE
    return None


def allows_any_origin(fields: Fields) -> bool:
    return fields.get(b"access-control-allow-origin") == b"*"


def stored_of(request: Request, head: ResponseHead, sent_at: Now, policy: Policy) -> Stored:
    """What is remembered of an answer's head; of a part's, as the head of its whole."""
    return Stored(
        key=request.key,
        key_class=request.key_class,
        status=200 if head.status == 206 else head.status,
        fields=head.fields.without(SET_COOKIE),
        length=head.length if head.length is not None else 0,
        origin_lifetime=origin_lifetime(head.fields, sent_at.wall, policy.targeted),
        initial_age=initial_age(head.fields),
        requested_at=sent_at,
        origin_field=request.fields.get(b"origin"),
        variant=variant_of(head.fields, request.fields),
    )
