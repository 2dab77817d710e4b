"""`chunkside info`, `why` and `purge`: one question to the admin port, and its answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

from chunkside.server.why_page import as_text
from chunkside.tools.admin_client import AdminClient, Field
from chunkside.tools.tables import aligned, member_rows, tabbed

# Verdicts after which nothing is held that is not so.
_SOUND: Final = frozenset({"true", "not_held"})
_JSON: Final = ("Accept", "application/json")


def show_info(client: AdminClient, *, as_json: bool) -> None:
    """Raises ToolFailed."""
    members = client.members("/info")
    if as_json:
        print(json.dumps(members, indent=2))
        return
    is_terminal = sys.stdout.isatty()
    rows = member_rows(members, is_terminal=is_terminal)
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"{name:{width}}  {value}" for name, value in rows] if is_terminal else tabbed(rows)
    print("\n".join(lines))


def show_why(client: AdminClient, target: str, fields: Sequence[Field], *, as_json: bool) -> None:
    """`fields`: as a reader would send them. Raises ToolFailed."""
    if as_json:
        print(json.dumps(client.members(f"/why{target}", [*fields, _JSON]), indent=2))
    else:
        print(client.text(f"/why{target}", fields), end="")


def show_verdict(
    client: AdminClient, target: str, fields: Sequence[Field], *, as_json: bool
) -> bool:
    """Has the origin asked, and says what came of it. Gives whether nothing is held that is not
    so. Raises ToolFailed.
    """
    members = client.members(f"/verify{target}", [*fields, _JSON])
    print(json.dumps(members, indent=2) if as_json else as_text(members).rstrip("\n"))
    return members.get("verdict") in _SOUND


def purge(client: AdminClient, named: dict[str, object], *, is_soft: bool, as_json: bool) -> None:
    """`named`: the one thing to forget, as `POST /purge` takes it. Raises ToolFailed."""
    sent = {**named, **({"soft": True} if is_soft else {})}
    report = client.members("/purge", sent=sent)
    if as_json:
        print(json.dumps(report, indent=2))
        return
    is_terminal = sys.stdout.isatty()
    rows = [(name, str(count)) for name, count in report.items()]
    print("must be validated:" if is_soft else "forgotten:", file=sys.stderr)
    print("\n".join(aligned(rows) if is_terminal else tabbed(rows)))
