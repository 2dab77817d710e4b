"""Writes helm/examples/plain: what the charts give, for whoever has no Helm.

`tests/helm` holds what is written to what this would write.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

HELM: Final = Path(__file__).resolve().parent.parent / "helm"
PLAIN: Final = HELM / "examples" / "plain"
NAMESPACE: Final = "readers"
# What a Service says from 1.34 on, older clusters refuse; what it said before holds in all.
KUBERNETES: Final = "1.33"
OF_HELM: Final = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")

MANIFESTS: Final = {
    "reader-job.yaml": (
        "reader",
        "examples/reader-job",
        (),
        """\
# A Job that reads through a native sidecar, and ends. Put in your origin, your registry and your
# reader, then: kubectl apply -n readers -f helm/examples/plain/reader-job.yaml
""",
    ),
    "node-wide.yaml": (
        "chunkside",
        "chunkside",
        ("--values", str(HELM / "chunkside" / "ci" / "default-values.yaml")),
        """\
# One cache on each node behind one name: http://chunkside.readers.svc:8100/ for all readers. Put in
# your origin and your registry, then:
#   kubectl apply -n readers -f helm/examples/plain/node-wide.yaml
# From Kubernetes 1.34 on, trafficDistribution: PreferSameNode in the place of internalTrafficPolicy
# has readers of a node without a cache go to another one.
""",
    ),
}


def main(helm: str) -> int:
    PLAIN.mkdir(exist_ok=True)
    for name in MANIFESTS:
        (PLAIN / name).write_text(manifest(helm, name), encoding="utf-8")
    return 0


def manifest(helm: str, name: str) -> str:
    release, chart, more, head = MANIFESTS[name]
    rendered = subprocess.run(
        [
            *(helm, "template", release, str(HELM / chart), *more),
            *("--namespace", NAMESPACE, "--kube-version", KUBERNETES),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    documents = sorted(
        (_without_helm(each) for each in yaml.safe_load_all(rendered) if each),
        key=lambda document: str(document["kind"]),
    )
    return head + yaml.safe_dump_all(documents, sort_keys=False, width=100, explicit_start=True)


def _without_helm(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _without_helm(value) for name, value in node.items() if name not in OF_HELM}
    if isinstance(node, list):
        return [_without_helm(value) for value in node]
    return node


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
