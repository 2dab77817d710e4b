"""Runs apart, on what `make chart-tools` installed: judges objects that it reads as JSON.

Reads {"kubernetes": [[version, object], ...], "crds": {"directory": ..., "objects": [...]}} and
writes a list of faults.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml
from kubernetes_validate.utils import schema_contents
from referencing import Registry, Resource

SCHEMAS = "kubernetes-json-schema/v{version}.0-local-strict/{name}.json"


def kubernetes_faults(version: str, document: dict[str, Any]) -> Iterator[str]:
    name = f"{version} {document['kind']}"
    try:
        validator = _validator(version, document["kind"], document["apiVersion"])
    except FileNotFoundError:
        yield f"{name}: there is no such kind"
        return
    for error in validator.iter_errors(document):
        yield f"{name}: {'.'.join(map(str, error.path))}: {error.message}"


# As kubernetes_validate.validate does it, which reads megabytes for each object anew.
@functools.cache
def _validator(version: str, kind: str, api_version: str) -> Any:
    group, _, of_group = api_version.rpartition("/")
    api = f"{group.partition('.')[0]}-{of_group}" if group else of_group
    schema = schema_contents(SCHEMAS.format(version=version, name=f"{kind.lower()}-{api}"), version)
    registry = Resource.from_contents(schema) @ _definitions(version)
    return jsonschema.Draft202012Validator(schema, registry=registry)


@functools.cache
def _definitions(version: str) -> Any:
    contents = schema_contents(SCHEMAS.format(version=version, name="_definitions"), version)
    return (Resource.from_contents(contents) @ Registry()).crawl()


def crd_faults(directory: Path, documents: list[dict[str, Any]]) -> Iterator[str]:
    validators = dict(_crd_validators(directory))
    for document in documents:
        validator = validators[document["apiVersion"], document["kind"]]
        for error in validator.iter_errors(document):
            yield f"{document['kind']}: {'.'.join(map(str, error.path))}: {error.message}"


def _crd_validators(directory: Path) -> Iterator[tuple[tuple[str, str], Any]]:
    for path in sorted(directory.glob("*.yaml")):
        spec = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            _close(schema)
            schema["properties"]["metadata"] = {"type": "object"}
            key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
            yield key, jsonschema.Draft202012Validator(schema)


def _close(schema: Any) -> None:
    """The API server drops what it doesn't know; here that is a fault."""
    if isinstance(schema, list):
        for each in schema:
            _close(each)
    if not isinstance(schema, dict):
        return
    is_open = schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and "properties" in schema and not is_open:
        schema.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    for each in list(schema.values()):
        _close(each)


def main() -> None:
    task = json.load(sys.stdin)
    faults = [
        fault
        for version, document in task.get("kubernetes", [])
        for fault in kubernetes_faults(version, document)
    ]
    if "crds" in task:
        faults += crd_faults(Path(task["crds"]["directory"]), task["crds"]["objects"])
    json.dump(faults, sys.stdout)


if __name__ == "__main__":
    main()
