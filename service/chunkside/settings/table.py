"""Settings as people read them: the tables of README and docs, and the shape that flags take."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pydantic.fields import FieldInfo

from chunkside.settings.kinds import Shape
from chunkside.settings.model import Settings
from chunkside.settings.reloading import NEED_A_RESTART
from chunkside.settings.route_settings import RouteSettings


def settings_table(names: Collection[str] = Settings.model_fields.keys()) -> str:
    """The Markdown table of these settings, in the model's order: name, default, meaning."""
    fields = [(name, field) for name, field in Settings.model_fields.items() if name in names]
    rows = [(f"`{name}`", _default(field), field.description or "") for name, field in fields]
    return _table(("setting", "default", "meaning"), rows)


def settings_reference() -> str:
    """All settings in two Markdown tables: of the sidecar as a whole, and those that a route may
    have of its own. With what each takes, and whether it needs a restart.
    """
    of_routes = RouteSettings.model_fields
    of_all = [name for name in Settings.model_fields if name not in of_routes]
    return (
        f"## Of the whole sidecar\n\n{_reference(of_all)}\n"
        f"## Of a route, or of all\n\n{_reference(of_routes)}"
    )


def shape_of(field: FieldInfo) -> Shape:
    return next(item for item in field.metadata if isinstance(item, Shape))


def shown_default(field: FieldInfo) -> str:
    """The default as one would write it; "" where there is none."""
    return "" if field.default is None else shape_of(field).show(field.default)


def _reference(names: Iterable[str]) -> str:
    rows = []
    for name in names:
        field = Settings.model_fields[name]
        shape = shape_of(field)
        takes = "true or false" if shape.is_flag else f"`{shape.metavar}`"
        taken_up = "a restart" if name in NEED_A_RESTART else "SIGHUP"
        meaning = field.description or ""
        rows.append((f"`{name}`", takes, _default(field), taken_up, meaning))
    return _table(("setting", "takes", "default", "changed by", "meaning"), rows)


def _default(field: FieldInfo) -> str:
    default = shown_default(field)
    return f"`{default}`" if default else "\N{EN DASH}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [_row(head), "|" + "---|" * len(head), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
