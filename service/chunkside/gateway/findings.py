"""What is audited, what arrives in answer to it, and what was found, with its evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import xxhash

from chunkside.core.audit import Judgement, kind_of
from chunkside.core.entry import Absent, BodyRef, Held, Part, Present, Selected
from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey
from chunkside.core.policy import as_full_get
from chunkside.core.ranges import part_asked, single_range
from chunkside.core.redaction import shown_target
from chunkside.core.request import Request
from chunkside.core.response import ResponseHead

# So much is read of what isn't compared; store's errors are short.
_BEGINNING_BYTES: Final = 64 << 10
# By these an origin's operator finds an answer in his own logs.
EVIDENCE: Final = (
    *(b"date", b"x-amz-request-id", b"x-amz-id-2", b"x-guploader-uploadid", b"x-ms-request-id"),
    *(b"x-request-id", b"server"),
)


class Arrival:
    """Takes the bytes of an answer as they come: counts them, keeps how they begin, and adds those
    from `first` on, `size` of them, to a checksum.
    """

    def __init__(self, first: int = 0, size: int = 0) -> None:
        self.count = 0
        self.beginning = b""
        self._first = first
        self._end = first + size
        self._hasher = xxhash.xxh3_64()

    def take(self, chunk: bytes) -> None:
        at, self.count = self.count, self.count + len(chunk)
        if at < _BEGINNING_BYTES:
            self.beginning += chunk[: _BEGINNING_BYTES - at]
        if at < self._end and self.count > self._first:
            self._hasher.update(chunk[max(0, self._first - at) : self._end - at])

    @property
    def checksum(self) -> int:
        return self._hasher.intdigest()


@dataclass(frozen=True, slots=True)
class Finding:
    """What one question to the origin came to. `head`: of its answer, None where there was none.
    Checksums are xxh3_64 of the bytes that were compared, None where none were. `length`: of the
    answer's body, as far as it was read.
    """

    judgement: Judgement
    head: ResponseHead | None = None
    length: int = 0
    held_checksum: int | None = None
    origin_checksum: int | None = None
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """What is audited. `request`: a full GET. `file`: of the bytes that are compared, None of a
    marker; `part`: which of them, None for all that are in it.
    """

    request: Request
    held: Selected
    file: BodyRef | None
    part: Part | None = None

    @property
    def key(self) -> CacheKey:
        return self.request.absence_key if isinstance(self.held, Absent) else self.held.stored.key

    def arrival(self) -> Arrival:
        """For an answer with the whole representation."""
        if self.file is None:
            return Arrival()
        start, size = self.span(self.file)
        return Arrival(self.file.first + start, size)

    def span(self, file: BodyRef) -> tuple[int, int]:
        """Where in its file what is compared begins, and how long that is."""
        if self.part is None:
            return 0, file.length
        return self.part.first - file.first, self.part.length


def subject_of(request: Request, held: Selected) -> Subject | None:
    """What there is to be audited of a hit; None where a range was found to have no bytes."""
    full = as_full_get(request)
    if isinstance(held, Absent):
        return Subject(full, held, None)
    file = file_of(request, held)
    return None if file is None else Subject(full, held, file)


def file_of(request: Request, held: Held) -> BodyRef | None:
    """The file that has the bytes a request asks for; of ranges any, where it asks for none."""
    if isinstance(held, Present):
        return held.body
    value = single_range(request.fields)
    length = held.stored.length
    part = Part(0, max(0, length - 1)) if value is None else part_asked(value, length)
    return (held.body_for(part) if part is not None else None) or next(iter(held.bodies), None)


def evidence(subject: Subject, finding: Finding) -> dict[str, object]:
    """What speaks for a finding, for a line of the log: no secret is in it."""
    held, head = subject.held, finding.head
    told: dict[str, object] = {
        "target": shown_target(subject.request.target),
        "kind": kind_of(held),
    }
    if isinstance(held, Absent):
        told |= {"held_status": held.status, "held_asked_at": round(held.requested_at.wall, 3)}
    else:
        stored = held.stored
        told |= {
            "held_status": stored.status,
            "held_length": stored.length,
            "held_asked_at": round(stored.requested_at.wall, 3),
            **_evidence_of(stored.fields, "held"),
        }
    if head is not None:
        told |= {
            "origin_status": head.status,
            "origin_length": finding.length if head.length is None else head.length,
            **_evidence_of(head.fields, "origin"),
        }
    for name, checksum in (("held", finding.held_checksum), ("origin", finding.origin_checksum)):
        if checksum is not None:
            told[f"{name}_xxh3_64"] = f"{checksum:016x}"
    return told


def _evidence_of(fields: Fields, whose: str) -> dict[str, object]:
    names = (b"etag", b"last-modified", *EVIDENCE)
    return {
        f"{whose}_{name.decode().replace('-', '_')}": value.decode("latin-1")
        for name in names
        if (value := fields.get(name)) is not None
    }
