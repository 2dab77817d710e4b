"""What an origin's answers mean for caching, in words. Pure: `probe` asks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

from chunkside.core.buckets import error_code
from chunkside.core.decision import Fill, Forward, NotStored, PassOn, StoreAbsence, StoreBody
from chunkside.core.entry import Now
from chunkside.core.fields import Fields
from chunkside.core.foresight import duration
from chunkside.core.freshness import Policy, remaining
from chunkside.core.policy import conclude, conclude_absence
from chunkside.core.ranges import strong_validator
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead

Rating = Literal["good", "costly", "bad"]

_MISS: Final = Fill(Forward.URI_MISS)
_RISK: Final = (
    "The risk: chunks that the credential may not read, of an array whose document it may, read as "
    "fill values."
)
_REASONS: Final = {
    NotStored.NO_STORE: "its Cache-Control says no-store",
    NotStored.PRIVATE: "its Cache-Control says private, and no credential was sent (-H sends one)",
    NotStored.VARY: "its Vary names what no cache can know",
    NotStored.SET_COOKIE: "it sets a cookie",
    NotStored.ENCODED: "it is encoded",
    NotStored.TOO_LARGE: "it is larger than max_body_size",
    NotStored.CLOSE_DELIMITED: "its end is that of the connection, which proves nothing",
    NotStored.HTML: "it is a page of HTML, which no chunk is",
    NotStored.OTHER_CODE: "its <Code> is not that of a missing key",
    NotStored.SWITCHED_OFF: "cache_missing or negative_ttl switches that off",
    NotStored.AUTHORIZATION: "it answers a credential, and doesn't say that it may be shared",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer. `body`: its beginning, where that was read."""

    head: ResponseHead
    body: bytes = b""

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def fields(self) -> Fields:
        return self.head.fields


@dataclass(frozen=True, slots=True)
class Finding:
    """`costly`: it works, with more requests or bytes than need be. `says`: with what follows."""

    about: str
    rating: Rating
    says: str


def _code(seen: Seen) -> str:
    """An object store's own word for it."""
    told = error_code(seen.body)
    return "" if told is None else f" ({told[:64].decode('latin-1')})"


def reachable(seen: Seen, seconds: float) -> Finding:
    took = f"in {seconds * 1000:.0f} ms"
    match seen.status:
        case 200:
            return Finding("reachable", "good", f"It answers {took}.")
        case 401 | 403:
            return Finding(
                "reachable",
                "bad",
                f"It answers {seen.status} {took}{_code(seen)}: it wants a credential, of the "
                "reader's own (-H) or of the sidecar's (upstream_auth), or another than it got.",
            )
        case 404 | 410:
            return Finding(
                "reachable",
                "bad",
                f"It answers {seen.status} {took}: name a target that is there, such as an array's "
                "metadata document.",
            )
        case status if 300 <= status < 400:
            told = seen.fields.combined(b"location").decode("latin-1")
            where = told.partition("?")[0] or "nowhere"
            return Finding(
                "reachable",
                "bad",
                f"It answers {status} {took}, a redirect to {where}: "
                "redirects pass to the reader, unless follow_redirects names the host.",
            )
        case status:
            return Finding("reachable", "bad", f"It answers {status} {took}, which is of no use.")


def head_request(seen: Seen, whole: Seen) -> Finding:
    if seen.status != whole.status:
        return Finding(
            "HEAD",
            "costly",
            f"HEAD is answered {seen.status} where GET is answered {whole.status}: readers that "
            "ask HEAD get that until the body is stored.",
        )
    return Finding("HEAD", "good", "HEAD is answered as GET is.")


def range_request(seen: Seen) -> Finding:
    if seen.status == 206 and seen.fields.get(b"content-range") is not None:
        return Finding("Range", "good", "Ranges are answered as asked, and remembered one by one.")
    if seen.status == 200:
        return Finding(
            "Range",
            "costly",
            "Ranges are ignored: the first range that is asked for brings the whole body, which is "
            "stored and cut.",
        )
    return Finding("Range", "bad", f"A range of one byte is answered {seen.status}.")


def validator(whole: Seen) -> Finding:
    strong = strong_validator(whole.fields)
    if strong is not None:
        shown = strong.decode("latin-1")
        return Finding(
            "validator",
            "good",
            f"{shown} is a strong validator: what breaks off is resumed, what is stale is "
            "validated, and ranges of one body are put together.",
        )
    if whole.fields.get(b"etag") or whole.fields.get(b"last-modified"):
        return Finding(
            "validator",
            "costly",
            "Its validator is weak: what is stale is validated, but what breaks off is not "
            "resumed, and ranges are not put together.",
        )
    return Finding(
        "validator",
        "costly",
        "It sends neither ETag nor Last-Modified: what is stale is brought again whole, and stands "
        "in for no origin that fails.",
    )


def missing_key(seen: Seen, request: Request, policy: Policy) -> Finding:
    about = "missing key"
    if seen.status in (404, 410):
        if seen.status not in policy.absent_statuses:
            return Finding(
                about,
                "bad",
                f"A missing key is answered {seen.status}, which absent_statuses leaves out: no "
                "absence is remembered.",
            )
        concluded = conclude_absence(request, seen.head, seen.body, policy)
        match concluded:
            case StoreAbsence(lifetime):
                kept = f"remembered for {duration(lifetime)}"
                return Finding(about, "good", f"A missing key is answered {seen.status}: {kept}.")
            case PassOn(reason):
                return Finding(
                    about,
                    "bad",
                    f"A missing key is answered {seen.status}, which is not remembered, since "
                    f"{_REASONS.get(reason, reason)}.",
                )
    if seen.status == 403:
        return Finding(about, *_refused(seen, request, policy))
    if seen.status == 200:
        return Finding(
            about,
            "bad",
            "A missing key is answered 200: readers take what comes for data. Does a web page "
            "answer for all paths?",
        )
    return Finding(
        about, "bad", f"A missing key is answered {seen.status}: no absence is remembered."
    )


def _refused(seen: Seen, request: Request, policy: Policy) -> tuple[Rating, str]:
    """Of a missing key beside one that can be read."""
    told = "A missing key is answered 403"
    statuses = policy.absent_statuses | {403}
    asked = replace(policy, absent_statuses=statuses)
    concluded = conclude_absence(request, seen.head, seen.body, asked, is_proven=True)
    match concluded:
        case StoreAbsence(lifetime) if statuses == policy.absent_statuses:
            return "costly", (
                f"{told}: told as 404, and remembered for {duration(lifetime)}, each time that "
                f"its array's own document was read after it. {_RISK}"
            )
        case StoreAbsence():
            others = sorted(policy.absent_statuses)
            return "bad", (
                f"{told}, as S3 does without the permission to list, so no absence is remembered. "
                "Grant s3:ListBucket, or set "
                f"absent_statuses={','.join(map(str, [*others, 403]))}. {_RISK}"
            )
        case PassOn(NotStored.OTHER_CODE):
            return "bad", (
                f"{told}, and not in the words of a store for it (AccessDenied, which names no "
                "action but s3:ListBucket): no absence is remembered. Grant s3:ListBucket."
            )
        case PassOn(reason):
            because = _REASONS.get(reason, str(reason))
            return "bad", f"{told}, which is not remembered, since {because}. Grant s3:ListBucket."


def condition(seen: Seen | None) -> Finding:
    """`seen`: None where there was nothing to ask with."""
    about = "validation"
    if seen is None:
        return Finding(about, "costly", "It sends no validator to ask with.")
    if seen.status == 304:
        return Finding(about, "good", "It is answered 304: to validate costs no bytes.")
    return Finding(
        about,
        "costly",
        f"It is answered {seen.status}, not 304: what is stale is brought again whole.",
    )


def cache_control(whole: Seen, request: Request, sent_at: Now, policy: Policy) -> Finding:
    about = "Cache-Control"
    told = whole.fields.combined(b"cache-control").decode("latin-1")
    says = f"It says `{told}`" if told else "It says nothing"
    match conclude(request, _MISS, whole.head, sent_at, policy):
        case StoreBody(stored):
            left = remaining(stored, sent_at, policy)
            if left <= 0:
                return Finding(about, "costly", f"{says}: stored, and validated before each use.")
            kept = "for ever" if left == math.inf else f"for {duration(left)}"
            return Finding(about, "good", f"{says}: stored, and used without asking {kept}.")
        case PassOn(reason):
            because = _REASONS.get(reason, str(reason))
            return Finding(about, "bad", f"{says}. It is passed on and not stored: {because}.")
        case _:
            return Finding(about, "bad", f"{says}. It is passed on and not stored.")
