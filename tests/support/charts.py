"""Charts as Helm renders them, and what is in the pods that come of it."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.plugins.requirements import find_chart_tool

ROOT: Final = Path(__file__).resolve().parents[2]
HELM: Final = ROOT / "helm"
NODE_WIDE: Final = HELM / "chunkside"
READER_JOB: Final = HELM / "examples" / "reader-job"
DASK_WORKER: Final = HELM / "examples" / "dask-worker"
HELMS: Final = ("helm", "helm3")
KUBERNETES: Final = tuple(f"1.{minor}" for minor in range(29, 38))
UPSTREAM: Final = "upstream=https://data.example.org/bucket"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A chart and the values that it is rendered with."""

    name: str
    chart: Path
    values: Path | None = None
    sets: tuple[str, ...] = field(default=())


CASES: Final = (
    *(
        Case(path.name.removesuffix("-values.yaml"), NODE_WIDE, path)
        for path in sorted((NODE_WIDE / "ci").glob("*-values.yaml"))
    ),
    Case("node-wide", NODE_WIDE, HELM / "examples" / "node-wide.yaml"),
    Case("reader-job", READER_JOB),
    Case("dask-worker", DASK_WORKER),
    Case("dask-worker-plain", DASK_WORKER, None, ("chunkside.native=false",)),
)
BY_NAME: Final = {case.name: case for case in CASES}


def tool(name: str) -> str:
    found = find_chart_tool(name, ROOT)
    assert found is not None, f"mark the test with charts({name!r})"
    return found


def run_helm(helm: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool(helm), *arguments], capture_output=True, text=True, check=False, timeout=50
    )


def _template(
    helm: str, chart: Path, kubernetes: str, values: Path | None, sets: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    named = [] if values is None else ["--values", str(values)]
    return run_helm(
        helm,
        *("template", "rel", str(chart), "--namespace", "ns", "--kube-version", kubernetes),
        *named,
        *(
            argument
            for each in sets
            for argument in ("--set-json" if "=[" in each else "--set", each)
        ),
    )


@functools.cache
def _rendered(
    helm: str, chart: Path, kubernetes: str, values: Path | None, sets: tuple[str, ...]
) -> str:
    done = _template(helm, chart, kubernetes, values, sets)
    assert done.returncode == 0, done.stderr
    return json.dumps([each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each])


def rendered(
    case: Case, *more: str, helm: str = "helm", kubernetes: str = "1.34"
) -> list[Document]:
    """The objects that come of a case, and `more` values beside it."""
    sets = (*case.sets, *more)
    text = _rendered(helm, case.chart, kubernetes, case.values, sets)
    documents: list[Document] = json.loads(text)
    return documents


def refusal(case: Case, *more: str, helm: str = "helm") -> str:
    """What Helm says in place of rendering it."""
    done = _template(helm, case.chart, "1.34", case.values, (*case.sets, *more))
    assert done.returncode != 0, f"{more} passed"
    return done.stderr


def of_kind(documents: Sequence[Document], kind: str) -> Document:
    [found] = [document for document in documents if document["kind"] == kind]
    return found


def pod_specs(documents: Sequence[Document]) -> Iterator[Document]:
    for document in documents:
        if "template" in document.get("spec", {}):
            yield document["spec"]["template"]["spec"]


def containers(pod: Document) -> list[Document]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def pod_of(case: Case, *more: str) -> Document:
    [pod] = pod_specs(rendered(case, *more))
    return pod


def sidecar_of(pod: Document) -> Document:
    [found] = [each for each in containers(pod) if each["name"] == "chunkside"]
    return found


def environment_of(container: Document) -> dict[str, str]:
    """What the chart itself says; what Kubernetes puts in is left out."""
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def bytes_of(quantity: str) -> int:
    """A Kubernetes quantity, read by a rule of its own."""
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "M": 10**6, "G": 10**9}
    unit = next((each for each in units if quantity.endswith(each)), "")
    return int(float(quantity.removesuffix(unit)) * units.get(unit, 1))
