"""What can go wrong outside, in the gateway's own words. Edges translate foreign exceptions into
these.
"""

from __future__ import annotations


class OriginError(Exception):
    """The origin gave no usable answer. `status` is what a client is told (503, 504 or 502), and
    `retry_after_seconds` with a 503.
    """

    status = 502
    retry_after_seconds = 1


class OriginUnreachable(OriginError):
    """Refused, reset, or gone before an answer's head."""

    status = 503


class OriginNotAsked(OriginError):
    """Nothing was sent, on purpose: the origin has failed for a while, or too many wait for it, or
    there is nothing to sign with. `reason`: a bounded word for metrics.
    """

    status = 503

    def __init__(self, detail: str, retry_after_seconds: int = 1, *, reason: str = "queue") -> None:
        super().__init__(detail)
        self.retry_after_seconds = retry_after_seconds
        self.reason = reason


class OriginTooSlow(OriginError):
    """No answer's head within the time allowed."""

    status = 504


class OriginNonsense(OriginError):
    """An answer that means nothing to the question, or is no HTTP."""

    status = 502


class OtherAbsence(OriginNonsense):
    """An origin that is well says that something is missing, but not that it is the key."""


class OwnFault(OriginError):
    """This program has a fault. The origin may be well: nothing that is stale stands in."""

    status = 500


class BodyTorn(Exception):
    """A body ended before its end. Nothing after the bytes already given can be had from here."""


class StoreFault(Exception):
    """The disk failed. `operation` and `cause` (an errno name) are bounded words for metrics."""

    def __init__(self, operation: str, cause: str) -> None:
        super().__init__(f"{operation}: {cause}")
        self.operation = operation
        self.cause = cause


class RequestAborted(Exception):
    """The client went away while its request's body was being read."""
