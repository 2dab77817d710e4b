"""Every way in which a wait for a fill can end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chunkside.core.decision import NotStored
from chunkside.core.entry import Held, Part, Partial, Present, Stored
from chunkside.core.fields import Fields
from chunkside.core.lease import is_more_of
from chunkside.core.ranges import Generation, range_applies
from chunkside.core.response import ResponseHead
from chunkside.core.variants import is_selected_by, variant_of
from chunkside.gateway.errors import OriginError
from chunkside.gateway.growing import GrowingBody
from chunkside.gateway.ports import OriginResponse


@dataclass(frozen=True, slots=True)
class Filled:
    """A storable 200 or 206 whose body is arriving, or has arrived. `is_stored`: it will be
    remembered. `part`: which part of the representation it is, None for all of it.
    """

    stored: Stored
    body: GrowingBody
    is_stored: bool
    part: Part | None = None


@dataclass(frozen=True, slots=True)
class Freshened:
    """What was held and stale still holds. `is_stored` is False where a write came between."""

    held: Held
    is_stored: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A small whole answer for all who wait: an absence, an error, a redirect. `origin_status`: the
    origin's, where that isn't what they are told.
    """

    head: ResponseHead
    body: bytes
    is_stored: bool
    origin_status: int


@dataclass(slots=True)
class Apart:
    """An answer that may not be shared: whoever claims it first has it, others ask for
    themselves.
    """

    head: ResponseHead
    response: OriginResponse | None
    reason: NotStored

    def claim(self) -> OriginResponse | None:
        response, self.response = self.response, None
        return response

    def let_go(self) -> None:
        """Closes what nobody has claimed."""
        response = self.claim()
        if response is not None:
            response.close()


@dataclass(frozen=True, slots=True)
class Failed:
    error: OriginError


Outcome = Filled | Freshened | Answered | Apart | Failed


def is_of(outcome: Outcome, known: Mapping[bytes, Generation | None]) -> bool:
    """Whether an outcome's bytes contradict nothing of the generations known, by variant."""
    match outcome:
        case Filled(stored) | Freshened(Present(stored) | Partial(stored)):
            return is_more_of(stored, known)
        case _:
            return False


def is_for(outcome: Outcome, asked: Fields, others: Fields) -> bool:
    """Whether the outcome of what was asked with some fields answers a request with others, too."""
    if b"if-range" in others and not _settles_if_range(outcome, others):
        return False
    match outcome:
        case Filled(stored) | Freshened(Present(stored) | Partial(stored)):
            return is_selected_by(stored, others)
        case Answered(head):
            return variant_of(head.fields, asked) == variant_of(head.fields, others)
        case _:
            return True


def _settles_if_range(outcome: Outcome, fields: Fields) -> bool:
    """Whether what came, asked for without the condition, is what the condition wants: the whole in
    place of a range of another version.
    """
    match outcome:
        case Filled(stored, part=Part()):
            return range_applies(fields, stored)
        case Answered(head):
            return head.status != 416
        case Apart():
            return False
        case _:
            return True
