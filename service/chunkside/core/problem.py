"""The body of an error that is the sidecar's own (RFC 9457)."""

from __future__ import annotations

import json
from typing import Final

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"


def problem(status: int, title: str, detail: str, *, slug: str) -> bytes:
    """One line of JSON. `slug` names the kind of problem for programs and stays as it is.

    `title` says what went wrong in words that are the same each time, `detail` what to do about it.
    """
    members = {
        "type": f"urn:chunkside:problem:{slug}",
        "title": title,
        "status": status,
        "detail": detail,
    }
    return json.dumps(members, ensure_ascii=False).encode() + b"\n"
