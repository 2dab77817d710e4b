"""Log lines of single requests: of a share of all, and of those that this sidecar failed.

No line holds a header field but the ids, nor what may be a secret of a target.
"""

from __future__ import annotations

import logging
import random
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chunkside.aiohttp_internals.serving import parse_head
from chunkside.core.cache_status import CacheStatus, Result
from chunkside.core.fields import Fields
from chunkside.core.redaction import shown_target
from chunkside.server.observer import Series

log = logging.getLogger(__name__)
asked_for = logging.getLogger("chunkside.requests")
# By a setting of its own, whatever level the rest is at.
asked_for.setLevel(logging.INFO)

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}")
# W3C Trace Context: version, trace id, parent id, flags; later versions may say more.
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_MOST_METHOD: Final = 32
# Between two lines of the same fault on the same route.
_FAULT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Told:
    """One request and its answer. `target` as it came, None where none could be read.
    `cache_status`: of the answer, None where it is known from the result. `tries`: how often the
    origin was asked for it, None where that was not counted.
    """

    method: str
    target: bytes | None
    fields: Fields
    route: str
    key_class: str
    result: Result
    status: int | None
    body_bytes: int
    seconds: float
    cache_status: CacheStatus | None = None
    tries: int | None = None


@dataclass(slots=True)
class _Fault:
    said_at: float
    unsaid: int = 0


class RequestLines:
    """`share` of all requests get a line each; that of 0 costs nothing. `clock` never steps."""

    def __init__(self, share: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.share = share
        self._clock = clock
        # By route and kind: as many as there are kinds of problems.
        self._faults: dict[tuple[str, str], _Fault] = {}

    def wants_one(self) -> bool:
        """Whether this request gets a line."""
        return self.share > 0 and (self.share >= 1 or random.random() < self.share)  # noqa: S311

    def tell(self, told: Told) -> None:
        asked_for.info("request", extra=_members(told))

    def tell_fault(self, told: Told, kind: str, says: str | None) -> None:
        """The first of its kind on a route, and then one a minute: who fails, fails often. `says`:
        as the reader is told, whose client may keep that to itself.
        """
        now, name = self._clock(), (told.route, kind)
        known = self._faults.get(name)
        if known is not None and now - known.said_at < _FAULT_SECONDS:
            known.unsaid += 1
            return
        self._faults[name] = _Fault(now)
        more: dict[str, object] = {} if says is None else {"says": says}
        if known is not None and known.unsaid:
            more["unsaid"] = known.unsaid
        log.warning("a request failed", extra={"fault": kind, **_members(told), **more})

    def series(
        self,
        head: bytes,
        counted: Series,
        *,
        route: str,
        key_class: str,
        result: Result,
        status: int,
    ) -> Series:
        """What counts GETs of this very head, and tells of them."""
        return _ToldSeries(self, head, counted, route, key_class, result, status)


@dataclass(frozen=True, slots=True)
class _ToldSeries:
    lines: RequestLines
    head: bytes
    counted: Series
    route: str
    key_class: str
    result: Result
    status: int

    def ended(self, body_bytes: int, seconds: float) -> None:
        self.counted.ended(body_bytes, seconds)
        if not self.lines.wants_one():
            return
        told = Told(
            method="GET",
            target=self.head[4 : self.head.index(b" ", 4)],
            fields=Fields(parse_head(self.head) or ()),
            route=self.route,
            key_class=self.key_class,
            result=self.result,
            status=self.status,
            body_bytes=body_bytes,
            seconds=seconds,
            tries=0,
        )
        self.lines.tell(told)


def _members(told: Told) -> dict[str, object]:
    members: dict[str, object] = {"request_id": request_id(told.fields)}
    if (trace := trace_id(told.fields)) is not None:
        members["trace_id"] = trace
    members |= {
        "method": told.method[:_MOST_METHOD],
        "target": None if told.target is None else shown_target(told.target),
        "route": told.route,
        "class": told.key_class,
        "result": told.result,
        "status": told.status,
        "bytes": told.body_bytes,
        "seconds": round(told.seconds, 6),
    }
    if told.tries is not None:
        members["upstream_requests"] = told.tries
    if told.cache_status is not None and told.cache_status.fwd_status is not None:
        members["upstream_status"] = told.cache_status.fwd_status
    if told.cache_status is not None and told.cache_status.detail is not None:
        members["detail"] = told.cache_status.detail
    return members


def request_id(fields: Fields) -> str:
    """The client's own, else one that is known to the log alone."""
    told = fields.get(b"x-request-id")
    if told is not None and _REQUEST_ID.fullmatch(told):
        return told.decode()
    return secrets.token_hex(8)


def trace_id(fields: Fields) -> str | None:
    found = _TRACEPARENT.fullmatch(fields.get(b"traceparent") or b"")
    return found[1].decode() if found is not None else None
