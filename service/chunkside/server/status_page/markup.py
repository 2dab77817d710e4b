"""HTML from figures: whatever comes from outside is escaped here, and nowhere else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Final

NOTHING: Final = "&ndash;"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def asset_of(package: str, name: str) -> str:
    """One of the files that lie in a package beside its modules."""
    return (files(package) / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """By which a policy knows what stands in a page (CSP 3 §2.3.1)."""
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def text(value: object) -> str:
    """A value as text of an element or an attribute."""
    return NOTHING if value is None else escape(str(value))


def count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else text(value)


def size(value: object) -> str:
    """Bytes, in the largest unit of which there is one."""
    if not isinstance(value, int | float):
        return text(value)
    number, unit = float(value), 0
    while number >= 1023.5 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    shown = f"{number:.0f}" if unit == 0 or number >= 99.5 else f"{number:.1f}"
    return f"{shown} {_UNITS[unit]}"


def share(part: float, whole: float) -> str:
    """A percentage that never rounds to all or nothing what is neither."""
    if not whole:
        return NOTHING
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %".replace(".0 %", " %")


def table(
    caption: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]], empty: str
) -> str:
    """`columns`: heading and class of each. Cells are markup; the first heads its row. `empty` is
    said where there is no row.
    """
    body = "".join(_row(columns, row) for row in rows)
    if not body:
        return f'<h2 class="heading">{caption}</h2><p class="none">{empty}</p>'
    heads = "".join(f'<th scope="col"{_class(kind)}>{heading}</th>' for heading, kind in columns)
    return (
        f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _row(columns: Sequence[tuple[str, str]], cells: Sequence[str]) -> str:
    shown = []
    for number, (cell, (_, kind)) in enumerate(zip(cells, columns, strict=True)):
        tag = 'th scope="row"' if number == 0 else "td"
        shown.append(f"<{tag}{_class(kind)}>{cell}</{tag[:2]}>")
    return f"<tr>{''.join(shown)}</tr>"


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def bar(part: float, whole: float) -> str:
    """How much of a whole, as a line. Says nothing that the figure beside it doesn't."""
    width = 100 * part / whole if whole else 0.0
    return (
        '<svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="1"/></svg>'
    )
