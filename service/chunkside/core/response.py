"""The head of an answer: status and fields."""

from __future__ import annotations

from dataclasses import dataclass

from chunkside.core.fields import Fields


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """`fields` are end-to-end. `length` is the body's length in bytes as framed, None if not told.

    `is_framed` is False for a body that ends with the connection, whose end proves nothing.
    """

    status: int
    fields: Fields
    length: int | None
    is_framed: bool = True
