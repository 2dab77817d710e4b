"""A request as the policy sees it. Knows no socket and no body bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chunkside.core.fields import Fields
from chunkside.core.key import CacheKey, KeyClass, Namespace
from chunkside.core.listing import Probe

Control = Literal["refresh", "bypass"]
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH"})


@dataclass(frozen=True, slots=True)
class Request:
    """`target` is the raw origin-form target as it goes to the origin, the upstream's prefix
    included.

    `fields` are the end-to-end fields that may be forwarded, Host not among them. `is_signed`: the
    client's own signature is on it, so that it passes verbatim and proves nothing to the cache.
    `host`: the client's own Host, where the origin is to see that in the place of its own name; it
    may mean another object by it.
    `control`: what `Chunkside-Control` says: ask the origin anew, or leave the cache out of it.
    `probe`: what it asks if that is whether anything lies beneath a key.
    `own_space`: the client's own partition, where `key` lies in what all credentials share; None
    where it lies there itself. `changes_more`: if it is a write, of other objects than its key's.
    """

    method: str
    target: bytes
    fields: Fields
    key: CacheKey
    key_class: KeyClass
    has_body: bool = False
    is_signed: bool = False
    control: Control | None = None
    probe: Probe | None = None
    own_space: Namespace | None = None
    host: bytes | None = None
    changes_more: bool = False

    @property
    def absence_key(self) -> CacheKey:
        """Where an absence is remembered: what one credential doesn't see another may."""
        return self.key if self.own_space is None else CacheKey(self.own_space, self.key.target)

    @property
    def is_safe(self) -> bool:
        return self.method in SAFE_METHODS
