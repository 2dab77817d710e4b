"""The closed unions that the policy returns, and the reasons they carry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from chunkside.core.entry import Absent, Held, Part, Stored
from chunkside.core.key import Object


class Forward(StrEnum):
    """Why a request goes to the origin: the `fwd` values of RFC 9211 §2.2."""

    BYPASS = "bypass"
    METHOD = "method"
    URI_MISS = "uri-miss"
    VARY_MISS = "vary-miss"
    STALE = "stale"
    REQUEST = "request"
    PARTIAL = "partial"


class NotStored(StrEnum):
    """Why an answer is passed on and not remembered."""

    STATUS = "status"
    NO_STORE = "no-store"
    PRIVATE = "private"
    VARY = "vary"
    SET_COOKIE = "set-cookie"
    ENCODED = "content-encoding"
    TOO_LARGE = "too-large"
    CLOSE_DELIMITED = "close-delimited"
    HTML = "html"
    OTHER_CODE = "error-code"
    UNPROVEN = "unproven"
    CORS = "cors"
    SWITCHED_OFF = "off"
    UNASKED = "unasked"
    RANGE = "range"
    LISTING = "listing"
    AUTHORIZATION = "authorization"


# What `decide` returns: what to do with a request.


@dataclass(frozen=True, slots=True)
class Serve:
    """`held` has what was asked for. `ttl`: seconds of freshness left. `meanwhile`: what to ask the
    origin at the same time, since it is stale.
    """

    held: Held
    ttl: float
    meanwhile: Fill | None = None


@dataclass(frozen=True, slots=True)
class ServeAbsence:
    absent: Absent
    ttl: float


@dataclass(frozen=True, slots=True)
class Fill:
    """Bring the whole representation. With `stale`, ask whether that one still holds, which has
    what was asked for.

    `range_value`: bring what this `Range` asks for, unless it is to be had from a fill of the whole
    that is near enough. `is_anew`: what others asked for before is not good enough.
    """

    forward: Forward
    stale: Held | None = None
    range_value: bytes | None = None
    is_anew: bool = False


@dataclass(frozen=True, slots=True)
class FollowElseRelay:
    """A range under an `If-Range` of what isn't held: from a fill of the whole that is near enough,
    else as asked.
    """

    forward: Forward


@dataclass(frozen=True, slots=True)
class Relay:
    forward: Forward


@dataclass(frozen=True, slots=True)
class Write:
    """`is_broad`: what it changes can't be told. `others`: objects that it changes beside its
    target. `is_deep`: and what lies beneath all of these. `names_keys`: its body names the objects.
    """

    is_broad: bool
    others: tuple[Object, ...] = ()
    is_deep: bool = False
    names_keys: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answered by the sidecar. `slug` names the kind; `detail` says what to do."""

    status: int
    slug: str
    title: str
    detail: str
    allow: str | None = None


Decision = Serve | ServeAbsence | Fill | FollowElseRelay | Relay | Write | Refuse


# What `conclude` returns: what an answer's head means to a fill.


@dataclass(frozen=True, slots=True)
class StoreBody:
    stored: Stored


@dataclass(frozen=True, slots=True)
class StorePart:
    """`stored`: head of the representation that `part` is of."""

    stored: Stored
    part: Part


@dataclass(frozen=True, slots=True)
class Freshen:
    """The stale body holds; `stored` is its head brought up to date."""

    stored: Stored


@dataclass(frozen=True, slots=True)
class JudgeWhole:
    """An error, a redirect or an absence: small, so whoever waits gets it once it is whole."""


@dataclass(frozen=True, slots=True)
class PassOn:
    reason: NotStored


@dataclass(frozen=True, slots=True)
class Nonsense:
    """An answer that no GET can have, and that readers would take for absence or for data."""

    detail: str


Conclusion = StoreBody | StorePart | Freshen | JudgeWhole | PassOn | Nonsense


@dataclass(frozen=True, slots=True)
class StoreAbsence:
    lifetime: float
    allows_any_origin: bool


AbsenceConclusion = StoreAbsence | PassOn


# What `select` returns: which part of a stored representation a request gets.


@dataclass(frozen=True, slots=True)
class Whole:
    pass


@dataclass(frozen=True, slots=True)
class NotModified:
    pass


@dataclass(frozen=True, slots=True)
class PreconditionFailed:
    pass


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    pass


Selection = Whole | Part | NotModified | PreconditionFailed | Unsatisfiable
