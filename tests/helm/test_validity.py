"""Objects are what Kubernetes and the Prometheus operator take, with Helm 3 and with Helm 4."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugins.requirements import CRDS
from tests.support.charts import (
    BY_NAME,
    CASES,
    HELM,
    HELMS,
    KUBERNETES,
    NODE_WIDE,
    ROOT,
    Case,
    Document,
    rendered,
    run_helm,
    tool,
)

OPERATORS = "monitoring.coreos.com/v1"
every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
judged = pytest.mark.charts("helm", "kubernetes-validate")
# What checkov says of the charts, and why it stays so. Each is found in some case.
EXPLAINED = {
    "CKV_K8S_11": "no limit of CPU: a sidecar that is throttled holds its reader up",
    "CKV_K8S_15": "IfNotPresent: a version's image does not change, and a registry that is down "
    "keeps no pod from starting",
    "CKV_K8S_43": "a digest is known once the image is pushed: image.digest",
    "CKV2_K8S_6": "a reader's own chart says who may reach its pod",
}
EXPLAINED_IN = {
    "bare": {
        "CKV_K8S_40": "OpenShift chooses the uid",
        "CKV2_K8S_6": "it is switched off there",
    },
    "reader-job": {},
    "dask-worker": {
        "CKV_K8S_8": "dask watches its workers itself",
        "CKV_K8S_9": "dask watches its workers itself",
    },
}


def faults_of(task: dict[str, Any]) -> list[str]:
    # The environment of kubernetes-validate, and no other: it is too heavy for this one.
    python = Path(tool("kubernetes-validate")).with_name("python")
    judge = Path(__file__).with_name("judge.py")
    done = subprocess.run(
        [str(python), str(judge)],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    faults: list[str] = json.loads(done.stdout)
    return faults


def of_kubernetes(documents: Iterable[Document]) -> list[Document]:
    return [document for document in documents if document["apiVersion"] != OPERATORS]


def version_that_decides(kubernetes: str) -> str:
    """The last one up to it at which the templates begin to give something else."""
    texts = [path.read_text(encoding="utf-8") for path in HELM.glob("*/templates/*")]
    named = {minor for text in texts for minor in re.findall(r"semverCompare .>=1\.(\d+)\.", text)}
    assert all(text.count("KubeVersion") == text.count("semverCompare") for text in texts)
    minors = sorted(int(each) for each in (*named, KUBERNETES[0].removeprefix("1.")))
    return f"1.{max(each for each in minors if each <= int(kubernetes.removeprefix('1.')))}"


@judged
def test_every_version_of_kubernetes_takes_the_objects_of_all_cases() -> None:
    objects = [
        (version, document)
        for version in KUBERNETES
        for case in CASES
        for document in of_kubernetes(rendered(case, kubernetes=version_that_decides(version)))
    ]
    assert {version for version, _ in objects} == set(KUBERNETES)
    assert len(objects) > 3 * len(KUBERNETES) * len(CASES)
    assert faults_of({"kubernetes": objects}) == []


@judged
def test_the_judge_finds_what_is_wrong() -> None:
    [service] = [each for each in rendered(BY_NAME["default"]) if each["kind"] == "Service"]
    unknown = {**service, "spec": {**service["spec"], "prots": []}}
    wrong = {**service, "spec": {**service["spec"], "ports": "8100"}}
    nothing = {"apiVersion": "v9", "kind": "Service", "metadata": {"name": "x"}}
    task = [("1.34", each) for each in (service, unknown, wrong, nothing)]
    assert len(faults_of({"kubernetes": task})) == 3


@pytest.mark.charts("helm", "kubernetes-validate", "crds")
def test_the_prometheus_operator_takes_its_objects() -> None:
    objects = [
        document
        for name in ("monitoring", "node-wide")
        for document in rendered(BY_NAME[name])
        if document["apiVersion"] == OPERATORS
    ]
    assert sorted(each["kind"] for each in objects) == ["PodMonitor"] * 2 + ["PrometheusRule"] * 2
    directory = str((ROOT / CRDS).resolve())
    assert faults_of({"crds": {"directory": directory, "objects": objects}}) == []
    broken = {**objects[0], "spec": {**objects[0]["spec"], "podMetricsEndpoint": []}}
    assert faults_of({"crds": {"directory": directory, "objects": [broken]}}) != []


@pytest.mark.charts(*HELMS)
@every_case
def test_helm_3_and_4_give_the_same(case: Case) -> None:
    for version in (KUBERNETES[0], KUBERNETES[-1]):
        four, three = (rendered(case, helm=helm, kubernetes=version) for helm in HELMS)
        assert sorted(four, key=name_of) == sorted(three, key=name_of)


def name_of(document: Document) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


@pytest.mark.charts(*HELMS)
@pytest.mark.parametrize("helm", HELMS)
def test_the_charts_pass_helms_own_strict_checks(helm: str) -> None:
    charts = [NODE_WIDE, HELM / "chunkside-sidecar", HELM / "examples" / "reader-job"]
    done = run_helm(helm, "lint", "--strict", *map(str, charts))
    assert done.returncode == 0, done.stdout
    values = BY_NAME["credential"].values
    done = run_helm(helm, "lint", "--strict", str(NODE_WIDE), "--values", str(values))
    assert done.returncode == 0, done.stdout


@pytest.mark.charts("helm")
@pytest.mark.parametrize("case", [BY_NAME["default"], BY_NAME["reader-job"]], ids=str)
def test_kubernetes_before_1_29_is_refused(case: Case) -> None:
    done = run_helm("helm", "template", "rel", str(case.chart), "--kube-version", "1.28")
    assert done.returncode != 0
    assert ">=1.29" in done.stderr


@pytest.mark.timeout(120)
@pytest.mark.charts("helm", "checkov")
def test_checkov_finds_nothing_that_is_not_explained(tmp_path: Path) -> None:
    names = ("default", "deployment", "hostpath", "credential", "bare", "reader-job", "dask-worker")
    for name in names:
        text = yaml.safe_dump_all(of_kubernetes(rendered(BY_NAME[name])))
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            *(tool("checkov"), "--directory", str(tmp_path), "--framework", "kubernetes"),
            *("--skip-download", "--compact", "--quiet", "--output", "json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["passed"] > 200
    assert report["summary"]["parsing_errors"] == 0
    found = {
        (re.sub(r"\.yaml.*", "", check["file_path"]).strip("/"), check["check_id"]): check[
            "check_name"
        ]
        for check in report["results"]["failed_checks"]
    }
    unexplained = {
        key: name
        for key, name in found.items()
        if key[1] not in EXPLAINED and key[1] not in EXPLAINED_IN.get(key[0], {})
    }
    assert unexplained == {}
    idle = set(EXPLAINED) - {check for _, check in found}
    assert idle == set(), "explained, and not found any more"
