"""Settings as people read them: README's table, and the shape that flags take."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from chunkside.settings.kinds import Shape
from chunkside.settings.model import Settings


def settings_table() -> str:
    """The Markdown table of all settings: name, default, meaning."""
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = shown_default(field)
        cells = (f"`{name}`", f"`{default}`" if default else "\N{EN DASH}", field.description or "")
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def shape_of(field: FieldInfo) -> Shape:
    return next(item for item in field.metadata if isinstance(item, Shape))


def shown_default(field: FieldInfo) -> str:
    """The default as one would write it; "" where there is none."""
    return "" if field.default is None else shape_of(field).show(field.default)
