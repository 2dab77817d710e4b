"""Writes values.schema.json and the tables of values of both charts, from helm/schema and the
settings: what the sidecar would refuse at its start, `helm install` refuses before.

`tests/helm` holds what is written to what this would write.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import PlainValidator
from pydantic.fields import FieldInfo

from chunkside.settings import RouteSettings, Settings
from chunkside.settings.errors import NotAllowedError
from chunkside.settings.kinds import Shape

HELM: Final = Path(__file__).resolve().parent.parent / "helm"
CHARTS: Final = ("chunkside-sidecar", "chunkside")

DERIVED: Final = frozenset(
    {
        "upstream",
        "routes",
        "listen",
        "admin_listen",
        "cache_dir",
        "cache_size",
        "min_free",
        "index_memory",
        "allow_memory_filesystem",
        "upstream_auth",
        "upstream_auth_file",
    }
)
"""Settings that the charts make from other values."""

_DURATION: Final = r"[0-9]{1,9}(\.[0-9]{1,9})?\s*(ms|s|m|h|d)?"
_ZERO: Final = r"0+(\.0+)?\s*(ms|s|m|h|d)?"
_SIZE: Final = r"[0-9]{1,15}(\.[0-9]{1,9})?\s*([KMGTPkmgtp][iI]?[bB]?|[bB])?"
_PERCENT: Final = r"(100|[0-9]{1,2}(\.[0-9]{1,9})?)\s*%"
_UPSTREAMS: Final = {
    "http": r"http://[^/?#@\s]+(/[^?#\s]*)?",
    "https": r"https://[^/?#@\s]+(/[^?#\s]*)?",
    "file": r"file://(localhost)?/[^?#\s]*",
    "s3": r"s3://([^?#@\s]*)",
    "gs": r"gs://([^?#@\s]*)",
    "az": r"az://([^?#@\s]*)",
}
_TEXTS: Final = {
    "URL": r"^https?://[^/?#@\s]+/?$",
    "NAME": r"^[A-Za-z0-9_-]{1,64}$",
    "DIR": "^/",
    "FILE": "^/",
}
_SAMPLES: Final = {"file": "file:///data"}

Schema = dict[str, Any]


def main() -> int:
    for chart in CHARTS:
        (HELM / chart / "values.schema.json").write_text(schema_text(chart), encoding="utf-8")
        readme = HELM / chart / "README.md"
        text = readme.read_text(encoding="utf-8")
        readme.write_text(with_table(text, chart), encoding="utf-8")
    return 0


def schema_text(chart: str) -> str:
    return json.dumps(schema(chart), indent=1, ensure_ascii=False) + "\n"


def schema(chart: str) -> Schema:
    """The schema of a chart's values."""
    definitions = _definitions()
    values = {name: _expanded(each, definitions) for name, each in described(chart).items()}
    # Helm itself adds `global` for the charts within.
    values["global"] = {"type": "object", "description": "Of Helm; not used"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Values of {chart}",
        "type": "object",
        "additionalProperties": False,
        "properties": values,
    }


def described(chart: str) -> dict[str, Schema]:
    """The values of a chart as helm/schema describes them."""
    return _read("sidecar") | _read(chart)


def with_table(readme: str, chart: str) -> str:
    pattern = re.compile(r"(<!-- values: [^>]*-->\n).*?(<!-- /values -->)", re.DOTALL)
    if pattern.search(readme) is None:
        raise SystemExit(f"helm/{chart}/README.md has no marks for its values")
    return pattern.sub(lambda found: found[1] + table(chart) + found[2], readme)


def table(chart: str) -> str:
    """The Markdown table of a chart's values: name, default, meaning."""
    defaults = yaml.safe_load((HELM / chart / "values.yaml").read_text(encoding="utf-8"))
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for path, node in leaves(described(chart)):
        default: Any = defaults
        for name in path:
            default = default[name]
        meaning = node["description"].replace("|", "\\|")
        rows.append(f"| `{'.'.join(path)}` | {_shown(default)} | {meaning} |")
    return "\n".join(rows) + "\n"


def leaves(
    values: Mapping[str, Schema], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """The values that have a row of their own."""
    for name, node in values.items():
        path = (*above, name)
        if node.get("is_hidden"):
            continue
        if "properties" in node and not node.get("is_leaf") and "required" not in node:
            yield from leaves(node["properties"], path)
        else:
            yield path, node


def _shown(default: object) -> str:
    if default in ("", [], {}):
        return "\N{EN DASH}"
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(
        (HELM / "schema" / f"{name}.yaml").read_text(encoding="utf-8")
    )
    return document


def _expanded(node: Schema, definitions: Schema) -> Schema:
    """What JSON Schema knows of it: objects are closed, references are whole. Beside a `$ref`
    draft 7 overlooks all else, and errors of `allOf` are hard to read.
    """
    made = {key: value for key, value in node.items() if not key.startswith("is_")}
    if "$ref" in made:
        made = {**definitions[made.pop("$ref")], **made}
    if "properties" in made and not node.get("is_leaf"):
        made["type"] = "object"
        made["additionalProperties"] = False
        made["properties"] = {
            name: _expanded(each, definitions) for name, each in made["properties"].items()
        }
    return made


def _definitions() -> Schema:
    own = {
        name: setting_schema(field)
        for name, field in Settings.model_fields.items()
        if name not in DERIVED
    }
    of_routes = {name: setting_schema(field) for name, field in RouteSettings.model_fields.items()}
    upstream = upstream_pattern()
    route: Schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["prefix", "upstream"],
        "properties": {
            "prefix": {"type": "string", "pattern": "^/"},
            "upstream": {"type": "string", "pattern": f"^({upstream})$"},
            **of_routes,
        },
    }
    return {
        **_read("definitions"),
        "upstream": {"type": "string", "pattern": f"^({upstream})?$"},
        "routes": {"type": "array", "maxItems": 256, "items": route},
        "settings": {"type": "object", "additionalProperties": False, "properties": own},
    }


def upstream_pattern() -> str:
    """Of those origins that this version reads."""
    field = Settings.model_fields["upstream"]
    return "|".join(
        pattern
        for scheme, pattern in _UPSTREAMS.items()
        if is_allowed(field, _SAMPLES.get(scheme, f"{scheme}://data"))
    )


def is_allowed(field: FieldInfo, value: object) -> bool:
    """Whether the setting takes the value."""
    try:
        _reader(field)(value)
    except NotAllowedError:
        return False
    return True


def _reader(field: FieldInfo) -> Callable[[Any], Any]:
    found = next(each for each in field.metadata if isinstance(each, PlainValidator))
    return cast(Callable[[Any], Any], found.func)


def setting_schema(field: FieldInfo) -> Schema:
    """What the setting takes, as far as a schema can say it."""
    shape = next(each for each in field.metadata if isinstance(each, Shape))
    schema = _kind_schema(field, shape)
    return {**schema, "description": (field.description or "").replace("`", "")}


def _kind_schema(field: FieldInfo, shape: Shape) -> Schema:
    if shape.is_flag:
        return {"enum": [True, False, "auto"] if is_allowed(field, "auto") else [True, False]}
    if shape.is_list:
        item: Schema = {"type": ["string", "integer"]}
        return {"anyOf": [item, {"type": "array", "items": item}]}
    match shape.metavar:
        case "DURATION":
            return _duration_schema(field)
        case "auto|SIZE":
            return _number_or_text(f"auto|{_SIZE}")
        case "auto|SIZE|PERCENT":
            return _number_or_text(f"auto|{_SIZE}|{_PERCENT}")
        case "SHARE":
            return _share_schema()
        case "N":
            return {"type": "integer", "minimum": 0 if is_allowed(field, "0") else 1}
        case text if text in _TEXTS:
            return {"type": "string", "pattern": _TEXTS[text]}
        case choices if "|" in choices:
            return {"enum": choices.split("|")}
        case other:
            raise SystemExit(
                f"scripts/chart_values.py has no schema for settings that take {other}"
            )


def _duration_schema(field: FieldInfo) -> Schema:
    schema = _number_or_text(
        f"{_DURATION}|infinity" if is_allowed(field, "infinity") else _DURATION
    )
    if is_allowed(field, "0"):
        return schema
    # Helm's patterns know no lookahead.
    return {**schema, "not": {"anyOf": [{"const": 0}, {"type": "string", "pattern": f"^{_ZERO}$"}]}}


def _share_schema() -> Schema:
    number, text = _number_or_text(rf"0(\.[0-9]{{1,9}})?|1(\.0{{1,9}})?|{_PERCENT}")["anyOf"]
    return {"anyOf": [{**number, "maximum": 1}, text]}


def _number_or_text(pattern: str) -> Schema:
    return {
        "anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": f"^({pattern})$"},
        ]
    }


if __name__ == "__main__":
    sys.exit(main())
