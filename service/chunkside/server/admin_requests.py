"""What the admin port is asked for in a query or in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from chunkside.core.key import origin_target

MAX_ENTRIES: Final = 1000


@dataclass(frozen=True, slots=True)
class PurgeTarget:
    """One object, by its raw target in origin-form, as clients send it."""

    target: bytes
    is_soft: bool = False


@dataclass(frozen=True, slots=True)
class PurgePrefix:
    """Every object at and beneath a target as clients send it."""

    prefix: bytes
    is_soft: bool = False


@dataclass(frozen=True, slots=True)
class PurgeRoute:
    """All that a route leads to, named by its path prefix."""

    route: str
    is_soft: bool = False


@dataclass(frozen=True, slots=True)
class PurgeAll:
    is_soft: bool = False


PurgeRequest = PurgeTarget | PurgePrefix | PurgeRoute | PurgeAll


@dataclass(frozen=True, slots=True)
class EntriesRequest:
    """A page of what is held at and beneath a target as clients send it. `after`: the cursor that
    the page before it gave, None for the first page.
    """

    prefix: bytes = b"/"
    limit: int = 100
    after: str | None = None


def parse_entries(parameters: Iterable[tuple[str, str]]) -> EntriesRequest:
    """What a query asks for. Raises ValueError with a sentence on what is wrong."""
    request = EntriesRequest()
    seen = set()
    for name, value in parameters:
        if name in seen:
            raise ValueError(f"{json.dumps(name)} is there twice.")
        seen.add(name)
        match name:
            case "prefix":
                request = replace(request, prefix=_origin_form(value))
            case "limit":
                request = replace(request, limit=_page_size(value))
            case "after":
                request = replace(request, after=value)
            case _:
                raise ValueError(f"{json.dumps(name)} means nothing here.")
    return request


def _page_size(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,4}", text) is None or not 1 <= int(text) <= MAX_ENTRIES:
        raise ValueError(f"{json.dumps(text)} is no such limit.")
    return int(text)


def parse_purge(body: bytes) -> PurgeRequest:
    """What a purge's JSON body asks for. Raises ValueError with a sentence on what is wrong."""
    try:
        members = json.loads(body, object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        raise ValueError("The body is not JSON.") from None
    pairs = members.pairs if isinstance(members, _Members) else []
    is_soft = _is_soft([value for name, value in pairs if name == "soft"])
    named = [pair for pair in pairs if pair[0] != "soft"]
    if len(named) != 1:
        raise ValueError("The body is not a JSON object that names one thing to purge.")
    match named[0]:
        case "target", str(target):
            return PurgeTarget(_origin_form(target), is_soft)
        case "prefix", str(prefix):
            return PurgePrefix(_origin_form(prefix), is_soft)
        case "route", str(route):
            return PurgeRoute(route, is_soft)
        case "all", True:
            return PurgeAll(is_soft)
        case name, _:
            raise ValueError(f"{json.dumps(name)} with this value means nothing here.")


def _is_soft(values: list[object]) -> bool:
    match values:
        case []:
            return False
        case [bool(is_soft)]:
            return is_soft
        case _:
            raise ValueError('"soft" is there once at most, and true or false.')


@dataclass(frozen=True, slots=True)
class _Members:
    """A JSON object, a repeated name included: a dict would silently keep the last."""

    pairs: list[tuple[str, object]]


def _origin_form(text: str) -> bytes:
    try:
        return origin_target(text.encode())
    except ValueError:
        raise ValueError(f"{json.dumps(text)} is neither a path nor an http URL.") from None
