"""The pod that the chart gives, really run: sidecar, reader and origin share loopback alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.arrays import sparse_array
from tests.support.charts import BY_NAME, Document, of_kind, rendered
from tests.support.containers import BASE, Store

pytestmark = [pytest.mark.image, pytest.mark.charts("helm"), pytest.mark.timeout(600)]
# Podman asks no probes without systemd, and takes ports for those of the machine.
LACKING = ("startupProbe", "readinessProbe", "livenessProbe", "ports")
ORIGIN_PORT = 9000
# Asks for every key twice, once the sidecar is ready, and writes what came of it.
READER = """
import collections, json, os, time, urllib.error, urllib.request

def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read(), answer.headers["Cache-Status"]
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers["Cache-Status"]

def is_ready():
    try:
        return ask("http://127.0.0.1:8101/readyz")[0] == 200
    except OSError:
        return False

while not is_ready():
    time.sleep(0.05)
wanted = json.load(open("/data/wanted.json"))
passes = []
for _ in range(2):
    told = collections.Counter()
    for path, size in wanted.items():
        status, body, cache_status = ask(os.environ["CHUNKSIDE_URL"] + path)
        assert status == (404 if size is None else 200), (path, status)
        if size is not None:
            assert body == open("/data" + path, "rb").read(), path
        told[cache_status.split(";")[1].strip().partition("=")[0]] += 1
    passes.append(told)
print(json.dumps(passes))
"""


def as_podman_has_it(template: Document, data: Path) -> Document:
    """The chart's pod, and an origin in it. Podman knows no native sidecars: here it is plain."""
    spec = dict(template["spec"])
    sidecars = [dict(each) for each in spec.pop("initContainers")]
    for sidecar in sidecars:
        assert sidecar.pop("restartPolicy") == "Always"
        for field in LACKING:
            sidecar.pop(field)
    [reader] = spec["containers"]
    mounted = [{"name": "data", "mountPath": "/data", "readOnly": True}]
    reader = reader | {"command": ["python3", "/data/reader.py"], "volumeMounts": mounted}
    origin = {key: value for key, value in reader.items() if key not in ("env", "command")} | {
        "name": "origin",
        "command": [
            *("python3", "-m", "http.server", str(ORIGIN_PORT)),
            *("--bind", "127.0.0.1", "--directory", "/data"),
        ],
    }
    spec["containers"] = [*sidecars, origin, reader]
    spec["volumes"] = [*spec["volumes"], {"name": "data", "hostPath": {"path": str(data)}}]
    name = f"chunkside-test-{os.getpid()}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@contextmanager
def running(store: Store, pod: Document, home: Path) -> Iterator[str]:
    """Plays it without a network, and gives its name."""
    name: str = pod["metadata"]["name"]
    file = home / "pod.json"
    file.write_text(json.dumps(pod), encoding="utf-8")
    try:
        store.run("podman", "play", "kube", "--network=none", str(file))
        yield name
    finally:
        store.start("podman", "pod", "rm", "--force", "--time", "0", name)


def test_a_reader_reads_a_sparse_array_through_the_sidecar_beside_it(
    store: Store, image: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    array = sparse_array()
    wanted: dict[str, int | None] = {path: len(body) for path, body in array.objects.items()}
    wanted |= dict.fromkeys(array.absent)
    for path, body in array.objects.items():
        (data / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (data / path.lstrip("/")).write_bytes(body)
    (data / "wanted.json").write_text(json.dumps(wanted), encoding="utf-8")
    (data / "reader.py").write_text(READER, encoding="utf-8")
    repository, _, tag = image.rpartition(":")
    job = of_kind(
        rendered(
            BY_NAME["reader-job"],
            f"image={BASE}",
            f"chunkside.image.repository={repository}",
            f"chunkside.image.tag={tag}",
            f"chunkside.upstream=http://127.0.0.1:{ORIGIN_PORT}",
            "chunkside.cache.size=1Gi",
            # How full this machine is, is not what is asked here.
            "chunkside.cache.minFree=1%",
        ),
        "Job",
    )
    pod = as_podman_has_it(job["spec"]["template"], data)
    with running(store, pod, tmp_path) as name:
        ended = store.run("podman", "wait", f"{name}-reader")
        told = store.start("podman", "logs", f"{name}-reader")
        assert ended == "0", told.stdout + told.stderr
        first, second = json.loads(told.stdout)
        store.run("podman", "kill", "--signal", "TERM", f"{name}-chunkside")
        assert store.run("podman", "wait", f"{name}-chunkside") == "0"
    assert first == {"fwd": len(wanted)}
    assert second == {"hit": len(wanted)}


def test_what_is_played_is_what_the_chart_says_less_what_podman_lacks() -> None:
    job = of_kind(rendered(BY_NAME["reader-job"]), "Job")["spec"]["template"]
    [given] = job["spec"]["initContainers"]
    sidecar: dict[str, Any] = as_podman_has_it(job, Path("/data"))["spec"]["containers"][0]
    assert {**given, **sidecar} == given
    assert given.keys() - sidecar.keys() == {"restartPolicy", *LACKING}
