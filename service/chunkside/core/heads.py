"""The head of an answer from store, for what was selected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from chunkside.core.decision import (
    NotModified,
    PreconditionFailed,
    Selection,
    Unsatisfiable,
    Whole,
)
from chunkside.core.entry import Absent, Part, Stored
from chunkside.core.fields import Fields
from chunkside.core.response import ResponseHead

# A 304 updates what a client holds, whose own content fields stay (RFC 9110 §15.4.5).
_LEFT_OUT_OF_304 = frozenset({b"content-type", b"content-encoding", b"content-language"})

_OF_A_BODY = frozenset({b"content-type", b"content-language"})
_CHECKSUMS = (b"content-md5", b"content-digest", b"x-amz-checksum-")


@dataclass(frozen=True, slots=True)
class SelectedHead:
    """`first` and `end` bound the body's bytes, `end` exclusive."""

    status: int
    fields: Fields
    first: int = 0
    end: int = 0

    @property
    def length(self) -> int:
        return self.end - self.first


def head_of(stored: Stored, selection: Selection) -> SelectedHead:
    fields = stored.fields
    if b"accept-ranges" not in fields:
        fields = fields.plus((b"Accept-Ranges", b"bytes"))
    match selection:
        case Whole():
            return SelectedHead(stored.status, fields, 0, stored.length)
        case Part(first, last):
            told = b"bytes %d-%d/%d" % (first, last, stored.length)
            kept = without_checksums(fields)
            return SelectedHead(206, kept.plus((b"Content-Range", told)), first, last + 1)
        case NotModified():
            return SelectedHead(304, fields.without(_LEFT_OUT_OF_304))
        case PreconditionFailed():
            return SelectedHead(412, fields.without(_LEFT_OUT_OF_304))
        case Unsatisfiable():
            told = b"bytes */%d" % stored.length
            kept = fields.without(_LEFT_OUT_OF_304)
            return SelectedHead(416, kept.plus((b"Content-Range", told)))
        case _:
            assert_never(selection)


def without_checksums(fields: Fields) -> Fields:
    """Without checksums of the whole: botocore, for one, would hold them against the part."""
    return Fields(line for line in fields if not line[0].lower().startswith(_CHECKSUMS))


def head_of_hidden(head: ResponseHead, body: bytes) -> ResponseHead:
    """The head of a refusal that was proved to hide an absence, as readers are told of it. `body`:
    as for `head_of_absence`.
    """
    told = ((b"Content-Type", b"application/xml"),) if body else ()
    kept = without_checksums(head.fields.without(_OF_A_BODY))
    return replace(head, status=404, fields=kept.plus(*told), length=len(body))


def head_of_absence(absent: Absent, body: bytes = b"") -> SelectedHead:
    """`body`: what is said of it in XML, if anything."""
    allowed = ((b"Access-Control-Allow-Origin", b"*"),) if absent.allows_any_origin else ()
    told = ((b"Content-Type", b"application/xml"),) if body else ()
    return SelectedHead(absent.told_status, Fields((*told, *allowed)), 0, len(body))
