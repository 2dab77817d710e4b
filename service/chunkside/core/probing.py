"""What becomes of the question whether anything lies beneath a key that is absent.

Its answer "nothing" is remembered in scope `all`. It counts only while the key's own marker does,
and falls with any write beneath the key: such a write stamps the directories above it.
"""

from __future__ import annotations

from chunkside.core.decision import AbsenceConclusion, NotStored, PassOn, ServeAbsence, StoreAbsence
from chunkside.core.demands import passes_by
from chunkside.core.directives import cache_control
from chunkside.core.entry import Absent, Entry, Now
from chunkside.core.freshness import Policy, absence_lifetime, absence_under, age
from chunkside.core.listing import Probe, says_nothing
from chunkside.core.ranges import encoding_of
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead
from chunkside.core.variants import varied_names

# What an answer that is made up again doesn't look at.
_DEPENDS = frozenset(
    {
        *(b"origin", b"range", b"if-range", b"if-match", b"if-none-match"),
        *(b"if-modified-since", b"if-unmodified-since"),
    }
)
_DEMANDS = frozenset({b"cache-control", b"pragma"})


def probe_asked(request: Request, policy: Policy) -> Probe | None:
    """The question that a request asks, if its answer may be remembered."""
    if request.probe is None:
        return None
    probe, names = request.probe, request.fields.names
    is_plain = (
        request.method == "GET"
        and not passes_by(request)
        and _DEPENDS.isdisjoint(names)
        and (_DEMANDS.isdisjoint(names) or not policy.obeys_clients)
        and b"only-if-cached" not in cache_control(request.fields)
    )
    is_remembered = policy.negative_scope == "all" and policy.cache_missing
    return probe if is_plain and is_remembered else None


def decide_probe(
    request: Request,
    probe: Probe,
    held: tuple[Entry | None, Entry | None],
    now: Now,
    policy: Policy,
) -> ServeAbsence | None:
    """`held`: the entries of the key and of what lies beneath it. None: the origin is to be asked.

    What it gives has the shorter life of both.
    """
    if request.control == "refresh":
        return None
    markers = [
        absence_under(entry, probe.key_class, policy) if isinstance(entry, Absent) else None
        for entry in held
    ]
    of, beneath = markers
    if of is None or beneath is None:
        return None
    ttl = min(marker.lifetime - age(marker.requested_at, now) for marker in (of, beneath))
    return ServeAbsence(beneath, ttl) if ttl > 0 else None


def conclude_probe(
    probe: Probe, head: ResponseHead, body: bytes, policy: Policy
) -> AbsenceConclusion:
    """Whether a whole answer proves that nothing lies beneath the key."""
    if head.status != 200:
        return PassOn(NotStored.STATUS)
    if b"no-store" in cache_control(head.fields):
        return PassOn(NotStored.NO_STORE)
    if varied_names(head.fields):
        return PassOn(NotStored.VARY)
    if encoding_of(head.fields):
        return PassOn(NotStored.ENCODED)
    if not head.is_framed:
        return PassOn(NotStored.CLOSE_DELIMITED)
    if not says_nothing(probe, body):
        return PassOn(NotStored.LISTING)
    seconds = absence_lifetime(head.fields, probe.key_class, policy)
    if seconds <= 0:
        return PassOn(NotStored.SWITCHED_OFF)
    return StoreAbsence(seconds, allows_any_origin=False)
