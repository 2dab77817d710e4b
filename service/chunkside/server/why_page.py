"""`/why/…` and `/verify/…` of the admin port: in words for people, as JSON for those who accept
that alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from chunkside.core.fields import Fields
from chunkside.core.printable import printable
from chunkside.server.raw_target import target_behind

PATH: Final = "/why"
VERIFY_PATH: Final = "/verify"
HELP: Final = (
    "Put /why (or /verify) before the path of a URL of the data port, and send the fields that its "
    "reader sends (a credential too: what was learned with it answers only it)."
)
_INDENT: Final = "  "


@dataclass(frozen=True, slots=True)
class WhyRequest:
    """`target`: as sent to the data port; `fields`: as a reader would send them with it."""

    target: bytes
    fields: Fields


def parse_why(raw_path: str, raw_headers: Iterable[tuple[bytes, bytes]]) -> WhyRequest:
    """Raises ValueError with a sentence on what is wrong."""
    return WhyRequest(target_behind(PATH, raw_path), Fields(raw_headers))


def parse_verify(raw_path: str, raw_headers: Iterable[tuple[bytes, bytes]]) -> WhyRequest:
    """The same, of a request that has the origin asked."""
    return WhyRequest(target_behind(VERIFY_PATH, raw_path), Fields(raw_headers))


def wants_json(accept: str) -> bool:
    """Whether a client names JSON and nothing that words would do for."""
    named = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return "application/json" in named and not {"text/plain", "text/html"} & set(named)


def as_json(explanation: Mapping[str, object]) -> str:
    return json.dumps(explanation, indent=2) + "\n"


def as_text(explanation: Mapping[str, object]) -> str:
    """The verdict first, with the sentence that says what it means if there is one; then all else,
    a line each. Whatever the origin or a client chose of it can be written to a terminal.
    """
    told = dict(explanation)
    said = [str(told.pop("verdict"))]
    if "sentence" in told:
        said.append(str(told.pop("sentence")))
    return "\n".join(map(printable, [": ".join(said), "", *_lines(told, "")])) + "\n"


def _lines(members: Mapping[str, object], indent: str) -> list[str]:
    lines = []
    for name, value in members.items():
        shown = name.replace("_", " ")
        match value:
            case None | []:
                continue
            case dict():
                if not value:
                    continue
                lines += [f"{indent}{shown}:", *_lines(value, indent + _INDENT)]
            case list():
                for number, each in enumerate(value, 1):
                    lines.append(f"{indent}{shown}, {number} of {len(value)}:")
                    lines += _lines(each, indent + _INDENT)
            case bool():
                lines.append(f"{indent}{shown}: {'yes' if value else 'no'}")
            case _:
                lines.append(f"{indent}{shown}: {value}")
    return lines
