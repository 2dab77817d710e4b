"""Lines: columns on a terminal; elsewhere tabs and plain numbers, for `cut` and `awk`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from chunkside.core.printable import printable
from chunkside.settings.quantities import format_size_rounded

_SIZES: Final = ("_size", "_bytes", "size", "bytes")
_GAP: Final = "  "


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column to the left, all others to the right."""
    count = max((len(row) for row in rows), default=0)
    widths = [
        max((len(row[at]) for row in rows if at < len(row)), default=0) for at in range(count)
    ]
    lines = []
    for row in rows:
        first, *others = row
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=False)]
        lines.append(_GAP.join(cells).rstrip())
    return lines


def tabbed(rows: Sequence[Sequence[str]]) -> list[str]:
    return ["\t".join(row) for row in rows]


def member_rows(members: Mapping[str, object], *, is_terminal: bool) -> list[tuple[str, str]]:
    """Name and value of each member; what lies deeper has a path for a name."""
    return list(_rows(members, "", is_terminal=is_terminal))


def _rows(
    members: Mapping[str, object], path: str, *, is_terminal: bool
) -> Iterator[tuple[str, str]]:
    for name, value in members.items():
        match value:
            case dict():
                yield from _rows(value, f"{path}{name}.", is_terminal=is_terminal)
            case list() if value and all(isinstance(each, dict) for each in value):
                for number, each in enumerate(value):
                    yield from _rows(each, f"{path}{name}[{number}].", is_terminal=is_terminal)
            case _:
                shown = _shown(name, value, is_terminal=is_terminal)
                yield printable(path + name), printable(shown)


def _shown(name: str, value: object, *, is_terminal: bool) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(str, value)) or "-"
        case int() if is_terminal and name.endswith(_SIZES) and value >= 1024:
            return f"{value} ({format_size_rounded(value)})"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
